#!/usr/bin/env bash
# Runs fuzz targets under libFuzzer: fuzz/run.sh SECONDS [TARGET...]. Without targets: all of them, SECONDS each.
# It needs a C++ compiler, and no nightly Rust. Inputs that reach new code are collected below the target directory; one that fails is printed with its path.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET...]}
shift

if ! command -v c++ >/dev/null; then
    echo "fuzz targets not run: libFuzzer needs a C++ compiler"
    exit 0
fi

# Coverage of branches and compared values, as libFuzzer needs it, for our code and its dependencies but not for build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
folder="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
coverage=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1)
RUSTFLAGS="${coverage[*]}" CARGO_INCREMENTAL=0 cargo build --package giveway-fuzz --bin fuzz --features libfuzzer --locked \
    --target "$host" --target-dir "$folder"
fuzz="$folder/$host/debug/fuzz"

targets=("$@")
if ((${#targets[@]} == 0)); then
    for corpus in fuzz/corpus/*/; do targets+=("$(basename "$corpus")"); done
fi
for target in "${targets[@]}"; do
    found="$folder/found/$target"
    mkdir -p "$found"
    # A panic, an input that takes 30 s, or more than 2 GB of memory is a failure.
    if ! FUZZ_TARGET=$target "$fuzz" "$found" "fuzz/corpus/$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 \
        -max_len=8192 -artifact_prefix="$found-" -print_final_stats=1 >"$found.log" 2>&1; then
        tail -n 60 "$found.log"
        echo "$target: failed; copy the input to fuzz/corpus/$target/ with a name that says what was wrong"
        exit 1
    fi
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$found.log") inputs in $seconds s"
done
