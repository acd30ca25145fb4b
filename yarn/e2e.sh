#!/usr/bin/env bash
# End-to-end test with real daemons: Giveway ranks a ResourceManager's applications, and the cluster survives the loss of the sidecar.
#
# 1. A short job is submitted after a long one, under Hadoop's FIFO and under hsrtf-pr, ROUNDS times each, on one cluster. Under FIFO the long job gets all its maps
#    first, under hsrtf-pr the short job gets its first container before the long one has all of them. Every output must be correct.
# 2. The sidecar is killed with SIGKILL while jobs run: all jobs succeed, the ResourceManager stays up, the restarted sidecar is synchronized within seconds.
# 3. The event log of the run replays to identical actions and contains the resync; the simulator completes its jobs in the same order.
# 4. The histories that Hadoop wrote of these jobs, in both of its formats, are read as workloads.
# 5. A sidecar with another token and peers that send invalid frames: one log line on each side, and all daemons keep running.
set -euo pipefail
source "$(dirname "$0")/suite.sh"
rounds=${ROUNDS:-1}
begin_suite e2e

fetch_hadoop
build_plugin
build_giveway
write_conf

log "plug-in tests"
java -ea -cp "$cache/java/test-classes:$plugin_jar:$jars/*" giveway.yarn.SidecarClientTest || fail "plug-in tests"

log "starting the cluster"
event_log=$work/run.event_log
start_sidecar hsrtf-pr "$event_log"
start_hadoop

# make_input NAME FILES: writes that many small text files and the expected word counts.
make_input() {
    local name=$1 files=$2 file word
    mkdir -p "$work/in/$name"
    for ((file = 0; file < files; file++)); do
        for ((word = 0; word < 400; word++)); do echo "w$((RANDOM % 97)) $name"; done >"$work/in/$name/$file"
    done
    expect_counts "$name"
}
make_input long 16
make_input longer 20
make_input short 1

# run_job QUEUE LABEL INPUT: runs a word count, checks its output, and writes its duration in ms to $work/LABEL.ms. The maps of a long job sleep for five seconds
# instead of computing, because on two cores a CPU-bound job would measure the machine and not the ranking.
run_job() {
    local queue=$1 label=$2 input=$3 job_start delay_ms=5000 history=binary
    [[ $input == short ]] && delay_ms=0 history=json
    job_start=$(date +%s%3N)
    run_example "$queue" "$label" wordcount -Dmapreduce.job.inputformat.class=giveway.yarn.DelayedTextInputFormat "-Dgiveway.test.delay-ms=$delay_ms" \
        "-Dmapreduce.jobhistory.jhist.format=$history" \
        "$work/in/$input" "$work/out/$label" || fail "$label: the job failed"
    echo $(($(date +%s%3N) - job_start)) >"$work/$label.ms"
    diff "$work/in/$input.expected" "$work/out/$label/part-r-00000" >/dev/null || fail "$label: wrong output"
}

# Applications are identified by their tag, because the examples set their own names. has_containers LABEL: the application has at least four containers.
has_containers() { rm_rest 'apps?states=RUNNING' | tr '{' '\n' | grep "\"applicationTags\":\"$1\"" | grep -Eq '"runningContainers":([4-9]|1[0-9])'; }
is_running() { rm_rest 'apps?states=RUNNING' | tr '{' '\n' | grep -q "\"applicationTags\":\"$1\""; }

# granted_before LABEL OTHER: how many containers the application LABEL got before OTHER got its first.
granted_before() {
    local id other
    id=$(app_field "$1" id)
    other=$(app_field "$2" id)
    grep -o 'container_[0-9_]* Container Transitioned from NEW to ALLOCATED' "$work/logs/resourcemanager.log" |
        sed "/container_${other#application_}_/,\$d" | grep -c "container_${id#application_}_" || true
}

# run_pair QUEUE LABEL: a long job, and a short one as soon as the long one occupies the cluster. Sets `granted` to the number of containers that the long one gets first.
run_pair() {
    local queue=$1 label=$2 long short
    run_job "$queue" "$label-long" long &
    long=$!
    wait_for 300 "containers of $label-long" has_containers "$label-long"
    run_job "$queue" "$label-short" short &
    short=$!
    wait "$short" || exit 1
    wait "$long" || exit 1
    granted=$(granted_before "$label-long" "$label-short")
    log "$label: the short job took $(<"$work/$label-short.ms") ms, the long one $(<"$work/$label-long.ms") ms and got $granted containers first"
}

for ((round = 1; round <= rounds; round++)); do
    # The application master and 16 maps.
    run_pair stock "fifo-$round"
    ((granted >= 17)) || fail "round $round: the stock queue did not serve the long job first"
    run_pair giveway "hsrtf-$round"
    ((granted < 17)) || fail "round $round: hsrtf-pr did not serve the short job before the maps of the long one"
done

log "killing the sidecar while jobs run"
run_job giveway killed-long longer &
long=$!
wait_for 300 "containers of killed-long" has_containers killed-long
run_job giveway killed-short short &
short=$!
wait_for 300 "killed-short to run" is_running killed-short
kill -9 "$pid_sidecar"
wait "$pid_sidecar" 2>/dev/null || true
sleep 2
start_sidecar hsrtf-pr "$event_log" --http 127.0.0.1:0
restarted=$SECONDS
wait_synchronized 1
log "the restarted sidecar was synchronized after $((SECONDS - restarted)) s: $(grep 'synchronized with' "$work/logs/sidecar.log" | tail -1)"
dashboard=$(<"$event_log.link")
shown() { curl -fs -H "Authorization: Bearer ${dashboard##*token=}" "${dashboard%%\?*}api/v1/$1"; }
wait_for 10 "the live dashboard" eval 'shown info | grep -q "\"live\":true" && shown jobs/0/explain | grep -q "\"state\""'
wait "$short" || exit 1
wait "$long" || exit 1
log "killed: the short job took $(<"$work/killed-short.ms") ms, the long one $(<"$work/killed-long.ms") ms"
kill -0 "$pid_resourcemanager" || fail "the ResourceManager has exited"
[[ $(grep -c 'Giveway: no ranking from the sidecar' "$work/logs/resourcemanager.log") == 1 ]] || fail "the ResourceManager did not log exactly once that queues are FIFO"

log "event log"
stop_sidecar
"$giveway" replay --list "$event_log" | grep -q ' Resynced ' || fail "the event log has no resync"
"$giveway" sim --workload "$event_log" --policy hsrtf-pr --event-log "$work/sim.event_log"
completion_order() { "$giveway" replay --jobs "$1" | sed -n 's/^[0-9.]* s [A-Za-z]* //p'; }
completion_order "$event_log" >"$work/order.real"
completion_order "$work/sim.event_log" >"$work/order.sim"
diff "$work/order.real" "$work/order.sim" || fail "the simulator completes the applications in another order"
log "$(wc -l <"$work/order.real") applications complete in the same order in the simulator"

log "job histories"
mkdir "$work/histories"
find "$work/staging" -name '*.jhist' -exec mv {} "$work/histories" \;
for format in Avro-Binary Avro-Json; do
    files=$(grep -al "^$format" "$work"/histories/*) || fail "Hadoop wrote no history in the format $format"
    # Diagnostics and counts are printed to stderr.
    for file in $files; do "$giveway" trace stats --json "$file"; done 2>&1 >/dev/null | sed 's/.*JobHistory trace, //' >"$work/histories.$format"
done
printf '%s maps\n' 16 20 | sort >"$work/histories.expected"
[[ $(grep -o '[0-9]* maps' "$work/histories.Avro-Binary" | sort -u) == "$(<"$work/histories.expected")" ]] || fail "the binary histories are read as $(<"$work/histories.Avro-Binary")"
[[ $(grep -o '[0-9]* maps' "$work/histories.Avro-Json" | sort -u) == "1 maps" ]] || fail "the JSON histories are read as $(<"$work/histories.Avro-Json")"
log "binary histories: $(wc -l <"$work/histories.Avro-Binary"), JSON histories: $(wc -l <"$work/histories.Avro-Json")"

log "invalid peers"
mv "$work/token" "$work/token.right"
(umask 077 && echo "another token, long enough" >"$work/token.wrong")
before=$(count_in 'token mismatch' resourcemanager)
start wrong_sidecar "$giveway" yarn --policy fifo --listen "$sidecar_address" --token-file "$work/token.wrong"
mv "$work/token.right" "$work/token"
wait_for 10 "rejection of the wrong token" eval '(($(count_in "token mismatch" resourcemanager) > before))'
sleep 3
[[ $(count_in 'token mismatch' wrong_sidecar) == 1 ]] || fail "the sidecar did not log the token mismatch exactly once"
[[ $(count_in 'token mismatch' resourcemanager) == $((before + 1)) ]] || fail "the ResourceManager did not log the token mismatch exactly once"
# A frame length of 2 GB, and a partial frame.
(exec 3<>"/dev/tcp/${sidecar_address/:/\/}" && printf '\x80\x00\x00\x00' >&3 && timeout 5 cat <&3 >/dev/null) || true
(exec 3<>"/dev/tcp/${sidecar_address/:/\/}" && printf '\x00\x00' >&3) || true
wait_for 10 "rejection of an invalid length" grep -q 'invalid frame length 2147483648' "$work/logs/wrong_sidecar.log"
wait_for 10 "rejection of a partial frame" grep -q 'within a frame' "$work/logs/wrong_sidecar.log"
kill -0 "$pid_wrong_sidecar" || fail "the sidecar has exited"
kill -0 "$pid_resourcemanager" || fail "the ResourceManager has exited"
three_nodes || fail "a NodeManager is lost"
suite_passed
