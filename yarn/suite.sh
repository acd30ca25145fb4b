# What the end-to-end tests with real daemons have in common: a work directory that is kept after a failure, word counts whose output is checked, and queries of
# the ResourceManager and of logs. Sourced by e2e.sh, preemption.sh, matching.sh and soak.sh.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

# begin_suite NAME: creates the work directory. All processes are stopped at the end, and the directory is removed unless a check failed.
begin_suite() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/giveway-$1.XXXXXX")
    started_at=$SECONDS
    trap end_suite EXIT
    trap 'exit 143' INT TERM
}
end_suite() {
    local code=$?
    stop_all
    if ((code == 0)); then
        rm -rf "$work"
    else
        log "files kept in $work" >&2
        tail -n 5 "$work"/logs/*.log >&2 2>/dev/null || true
    fi
}
suite_passed() { log "all checks passed in $((SECONDS - started_at)) s"; }

# expect_counts NAME: writes the word counts of the files of input NAME.
expect_counts() {
    cat "$work/in/$1"/* | tr ' ' '\n' | LC_ALL=C sort | LC_ALL=C uniq -c | awk '{print $2 "\t" $1}' >"$work/in/$1.expected"
}
# make_text NAME FILES LINES: an input of that many files with that many lines each.
make_text() {
    local name=$1 files=$2 lines=$3 file line
    mkdir -p "$work/in/$name"
    for ((file = 0; file < files; file++)); do
        for ((line = 0; line < lines; line++)); do echo "$name$line $name$((line % 7)) common"; done >"$work/in/$name/$file"
    done
    expect_counts "$name"
}

# count_words QUEUE LABEL INPUT OPTION...: runs a word count, checks its output, and writes its duration in ms to $work/LABEL.ms. LABEL becomes the application's tag.
# On a busy machine the application master may be gone when the client asks for the final status; there is no history server.
count_words() {
    local queue=$1 label=$2 input=$3 job_start
    shift 3
    job_start=$(date +%s%3N)
    run_java 160m giveway.yarn.SlowWordCount "-Dmapreduce.job.queuename=$queue" "-Dmapreduce.job.tags=$label" "$@" "$work/in/$input" "$work/out/$label" \
        </dev/null >>"$work/logs/$label.log" 2>&1 || [[ -e $work/out/$label/_SUCCESS ]] || fail "$label: the job failed"
    echo $(($(date +%s%3N) - job_start)) >"$work/$label.ms"
    correct_output "$label" "$input" || fail "$label: wrong output"
}
# correct_output LABEL INPUT: the output of a word count is complete and correct.
correct_output() { cat "$work/out/$1"/part-r-* | LC_ALL=C sort | diff - <(LC_ALL=C sort "$work/in/$2.expected") >/dev/null; }
duration() { cat "$work/$1.ms"; }

# app_field LABEL FIELD: a field of the application with the tag LABEL.
app_field() { rm_rest 'apps' | tr '{' '\n' | grep "\"applicationTags\":\"$1\"" | sed "s/.*\"$2\":\"\?\([^\",]*\).*/\1/"; }
# count_in PATTERN LOG, count_nodes PATTERN: number of lines in a log, or in those of all NodeManagers.
count_in() { grep -c "$1" "$work/logs/$2.log" || true; }
count_nodes() { cat "$work"/logs/node?.log | grep -c "$1" || true; }

# all_reduces_run LABEL: the five reduces of a job and its application master hold all containers.
all_reduces_run() { [[ $(app_field "$1" runningContainers) == 6 ]]; }
# no_lost_work LABEL [REDUCES RECORDS]: no attempt failed, no reduce attempt was killed, each reduce ran once, and each record was reduced once.
no_lost_work() {
    ! grep -q 'Failed reduce tasks\|Killed reduce tasks\|Failed map tasks' "$work/logs/$1.log" || fail "$1: attempts failed or were killed"
    grep -q "Launched reduce tasks=${2:-5}" "$work/logs/$1.log" || fail "$1: reduces ran more than once"
    grep -q "Reduce input records=${3:-300}" "$work/logs/$1.log" || fail "$1: records were reduced twice or not at all"
}
# pausing_node: a node with a container that was paused and not resumed.
pausing_node() {
    local node
    for node in 1 2 3; do
        if (($(count_in 'Giveway: paused' "node$node") > $(count_in 'Giveway: resumed' "node$node"))); then
            echo "$node"
            return
        fi
    done
    return 1
}
# pause_for_short LABEL MAP_MS: starts a long job, whose reduces take $reduce_ms for each word, and a short one, and waits until the short one's map runs in the
# place of a paused container. Sets `long` and `short` to their processes and `node` to the node.
pause_for_short() {
    map_runs() { [[ $(app_field "$1-short" runningContainers) == 2 ]]; }
    count_words giveway "$1-long" long -Dmapreduce.job.reduces=5 "-Dgiveway.test.reduce-ms=$reduce_ms" &
    long=$!
    wait_for 300 "the reduces of $1-long" all_reduces_run "$1-long"
    count_words giveway "$1-short" short "-Dgiveway.test.map-ms=$2" &
    short=$!
    wait_for 300 "the map of $1-short" map_runs "$1"
    node=$(pausing_node) || fail "no container is paused"
}

# check_event_log: the event log replays to identical actions. Prints the error of the simulator's forecast of the same run.
check_event_log() {
    "$giveway" replay "$event_log" | tail -1 || fail "the event log does not replay"
    "$giveway" what-if --policy fifo "$event_log" 2>&1 | grep '^validation:' || log "the simulator cannot forecast this run"
}
# wait_synchronized COUNT: waits until sidecars have been synchronized more than COUNT times.
wait_synchronized() { wait_for 180 "synchronization of the sidecar" eval "((\$(count_in 'synchronized with' sidecar) > $1))"; }
# stop_sidecar: waits until all applications have left their queues, stops the sidecar and checks its event log. A client sees its job end some seconds before the
# application master exits.
stop_sidecar() {
    wait_for 180 "all containers to be released" no_containers
    sleep 1
    kill "$pid_sidecar"
    wait "$pid_sidecar" || fail "the sidecar did not stop cleanly"
    check_event_log
}
# restart_sidecar POLICY OPTION...: POLICY is a name or a file. Stops the sidecar, if it runs, and starts another one with a new event log.
restart_sidecar() {
    local synchronized policy=$1
    shift
    if kill -0 "$pid_sidecar" 2>/dev/null; then stop_sidecar; fi
    event_log=$work/${policy##*/}.event_log
    synchronized=$(count_in 'synchronized with' sidecar)
    start_sidecar "$policy" "$event_log" "$@"
    wait_synchronized "$synchronized"
}
