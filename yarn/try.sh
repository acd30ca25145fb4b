#!/usr/bin/env bash
# Hadoop YARN with Giveway on this machine: fetches Hadoop from Maven Central, starts a ResourceManager, three NodeManagers and the sidecar on loopback, runs some
# MapReduce jobs concurrently, prints the order in which they completed, and stops everything it started.
#
#   yarn/try.sh [POLICY]          (default hsrtf-pr; needs Java 17, Maven and Rust)
#   yarn/try.sh fcs               a long job's reduces hold all containers and pause for a short job; prints the timeline of the containers
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
log "starting the sidecar, the ResourceManager and three NodeManagers in $work"
start_sidecar "$policy" "$work/try.event_log"
start_hadoop
log "web interface: http://127.0.0.1:$((base_port + 4))/cluster/apps"
mkdir -p "$work/in"

# Six of Hadoop's examples, to show the order of completion.
run_examples() {
    for file in 1 2 3 4 5 6; do cp "$root/README.md" "$work/in/$file.txt"; done
    log "running a long pi estimate, then a word count, a grep and a short pi estimate, all in queue root.giveway"
    run_example giveway pi-long pi 16 1000 &
    jobs=($!)
    sleep 8
    run_example giveway wordcount wordcount "$work/in" "$work/words" &
    jobs+=($!)
    run_example giveway pi-short pi 2 1000 &
    jobs+=($!)
    run_example giveway grep grep "$work/in" "$work/found" 'h[a-zA-Z]+' &
    jobs+=($!)
    wait "${jobs[@]}"
    grep -h 'Estimated value' "$work"/logs/pi-*.log
    log "$(wc -l <"$work/words/part-r-00000") distinct words; most frequent word with an h: $(head -1 "$work/found/part-r-00000")"
}

# Five reduces and an application master, which fill the cluster, and a short job.
run_long_and_short() {
    for ((line = 0; line < 100; line++)); do echo "word$line word$((line % 7))"; done >"$work/in/text"
    slow_word_count() {
        local name=$1
        shift
        run_java 160m giveway.yarn.SlowWordCount -Dmapreduce.job.queuename=giveway "-Dmapreduce.job.tags=$name" "$@" "$work/in" "$work/out/$name" </dev/null >>"$work/logs/$name.log" 2>&1
    }
    fills_the_cluster() { rm_rest 'apps?states=RUNNING' | grep -q '"runningContainers":6'; }
    log "running a long word count with five reduces"
    slow_word_count long -Dmapreduce.job.reduces=5 -Dgiveway.test.reduce-ms=3000 &
    long=$!
    wait_for 300 "the long job's reduces" fills_the_cluster
    log "all containers are in use; running a short word count"
    slow_word_count short
    log "the short job is done; waiting for the long one"
    wait "$long"
    grep -h 'Launched reduce tasks\|Killed reduce tasks\|Failed reduce tasks' "$work/logs/long.log" | sed 's/^[[:space:]]*/long job: /'
    log "containers: = running, . paused"
    "$script_dir/timeline.sh" "$work"/logs/node?.log
}

case $policy in
    fcs | *-pause) run_long_and_short ;;
    *) run_examples ;;
esac
# A client sees its job end some seconds before the application master exits and the application leaves its queue.
wait_for 60 "all containers to be released" no_containers
sleep 1
kill "$pid_sidecar"
wait "$pid_sidecar" || true
log "completion order:"
"$giveway" replay --jobs "$work/try.event_log"
log "simulation of the same jobs under other policies:"
"$giveway" sim --workload "$work/try.event_log" --policy fifo,fair,las,hsrtf-pu,hsrtf-pr
log "event log: $work/try.event_log, daemon logs: $work/logs"
