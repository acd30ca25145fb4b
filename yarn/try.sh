#!/usr/bin/env bash
# A real Hadoop on this machine, ordered by Giveway: fetches Hadoop from Maven Central, starts a ResourceManager, three NodeManagers and the sidecar on
# loopback, runs some of Hadoop's own examples at once, shows in which order they ended, and stops all it started.
#
#   yarn/try.sh [POLICY]          (hsrtf-pr if left out; needs Java 17, Maven and Rust)
#   HADOOP_VERSION=3.5.0 yarn/try.sh
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
policy=${1:-hsrtf-pr}
work=$(mktemp -d "${TMPDIR:-/tmp}/giveway-try.XXXXXX")
trap stop_all EXIT

fetch_hadoop
build_plugin
build_giveway
write_conf
say "starting the sidecar, the ResourceManager and three NodeManagers in $work"
start_sidecar "$policy" "$work/try.tape"
start_hadoop
say "web interface: http://127.0.0.1:$((base + 4))/cluster/apps"

mkdir -p "$work/in"
for file in 1 2 3 4 5 6; do cp "$root/README.md" "$work/in/$file.txt"; done
say "a long estimate of pi, then a word count, a search and a short estimate of pi, all in queue root.ours"
example ours pi-long pi 16 1000 &
jobs=($!)
sleep 8
example ours wordcount wordcount "$work/in" "$work/words" &
jobs+=($!)
example ours pi-short pi 2 1000 &
jobs+=($!)
example ours grep grep "$work/in" "$work/found" 'h[a-zA-Z]+' &
jobs+=($!)
wait "${jobs[@]}"

grep -h 'Estimated value' "$work"/logs/pi-*.log
say "$(wc -l <"$work/words/part-r-00000") different words; the most frequent with an h: $(head -1 "$work/found/part-r-00000")"
# The client hears of the end some seconds before the application master leaves, and with it the application.
wait_for 60 "all applications have left" idle
sleep 1
kill "$pid_sidecar"
wait "$pid_sidecar" || true
say "in the order in which they ended:"
"$giveway" replay --jobs "$work/try.tape"
say "and what other policies would have made of it:"
"$giveway" sim --workload "$work/try.tape" --policy fifo,fair,las,hsrtf-pu,hsrtf-pr
say "the tape: $work/try.tape, the logs: $work/logs"
