#!/usr/bin/env bash
# Coverage-guided fuzzing with libFuzzer: fuzz/run.sh SECONDS [TARGET...]; without targets, all of them, one after the other. Needs a C++ compiler.
#
# An input that panics, takes over ten seconds or needs over 1 GiB is written to target/fuzz/TARGET-*, and ends the run with an error.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET...]}
shift
# shellcheck disable=SC2046 # names without spaces
(($#)) || set -- $(ls corpus)

out=${CARGO_TARGET_DIR:-$PWD/../target}/fuzz
# The instrumentation that libFuzzer reads, with a stable compiler.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
# With a target triple the flags do not apply to build scripts.
triple=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="$coverage" cargo build --release --locked --manifest-path libfuzzer/Cargo.toml --target "$triple" --target-dir "$out/build"

for target in "$@"; do
    mkdir -p "$out/corpus/$target"
    echo "== $target"
    FUZZ_TARGET=$target "$out/build/$triple/release/giveway-libfuzzer" "$out/corpus/$target" "corpus/$target" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -artifact_prefix="$out/$target-" -verbosity=0 -print_final_stats=1
done
