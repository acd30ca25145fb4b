#!/usr/bin/env bash
# Soak test with real daemons: random faults while MapReduce jobs run under a policy that ranks, pauses and recovers lost work.
#
# The sidecar, NodeManagers and application masters are killed with SIGKILL or stopped for some seconds, nodes are lost with all their containers, and the sidecar's
# socket receives garbage. Every job must end with the correct output, the ResourceManager must never exit, at the end nothing may be paused or demoted, and the event
# log must replay. Kinds, targets and durations of the faults follow from the seed; what they hit depends on the machine's speed.
#
#   yarn/soak.sh [--faults N] [--seed S] [--policy NAME] [--plan]        (default: 200 faults, a random seed, chronos(fcs); --plan prints the faults and exits)
set -euo pipefail
source "$(dirname "$0")/suite.sh"
faults=200 seed=$((RANDOM)) policy='chronos(fcs)' plan_only=
while (($#)); do
    case $1 in
    --faults) faults=$2 && shift 2 ;;
    --seed) seed=$2 && shift 2 ;;
    --policy) policy=$2 && shift 2 ;;
    --plan) plan_only=1 && shift ;;
    *) fail "unknown option $1; see the head of $0" ;;
    esac
done

# The plan: for each fault its kind, a number that selects the target, its duration and the time to the next one, in seconds.
kinds=(sidecar-kill sidecar-kill sidecar-stop sidecar-stop node-kill node-kill node-lose node-stop node-stop master-kill master-stop master-stop garbage garbage)
RANDOM=$seed
for ((number = 0; number < faults; number++)); do
    plan[number]="${kinds[RANDOM % ${#kinds[@]}]} $((RANDOM)) $((RANDOM % 10)) $((1 + RANDOM % 7))"
done
log "$faults faults, seed $seed, policy $policy"
if [[ -n $plan_only ]]; then
    printf '%s\n' "${plan[@]}"
    exit
fi

begin_suite soak
fetch_hadoop
build_plugin
build_giveway
# Faults are many, so no number of lost attempts may fail a job. And reduces report each fetch that fails: by default they report the tenth, but where a job has few maps they give up
# before, again and again, and the application master never runs maps again whose outputs were lost.
write_conf yarn.client.nodemanager-connect.max-wait-ms=3000 yarn.client.nodemanager-connect.retry-interval-ms=1000 yarn.nodemanager.recovery.enabled=true \
    yarn.resourcemanager.am.max-attempts=1000
job_options=(-Dmapreduce.am.max-attempts=1000 -Dmapreduce.map.maxattempts=1000 -Dmapreduce.reduce.maxattempts=1000
    -Dyarn.app.mapreduce.am.job.node-blacklisting.enable=false -Dmapreduce.fileoutputcommitter.algorithm.version=2
    -Dmapreduce.reduce.shuffle.maxfetchfailures=1)
make_text long 2 60
make_text short 1 5

log "starting the cluster"
event_log=$work/soak.event_log
start_sidecar "$policy" "$event_log"
start_hadoop
wait_synchronized 0
resourcemanager=$pid_resourcemanager

# run_jobs NAME INPUT OPTION...: runs one job after the other until $work/stop exists. The client may lose its application master; what counts is the end of the application.
has_ended() { [[ $(app_field "$1" state) =~ FINISHED|FAILED|KILLED ]]; }
run_jobs() {
    local name=$1 input=$2 number label
    shift 2
    for ((number = 1; ; number++)); do
        [[ ! -e $work/stop ]] || return 0
        label=$name-$number
        run_java 160m giveway.yarn.SlowWordCount -Dmapreduce.job.queuename=giveway "-Dmapreduce.job.tags=$label" "${job_options[@]}" "$@" "$work/in/$input" "$work/out/$label" \
            </dev/null >>"$work/logs/$name.log" 2>&1 || true
        wait_for 600 "the end of $label" has_ended "$label"
        [[ $(app_field "$label" finalStatus) == SUCCEEDED ]] || fail "$label: the job failed"
        correct_output "$label" "$input" || fail "$label: wrong output"
        echo "$label" >>"$work/succeeded"
    done
}

# Process groups of running application masters.
masters() {
    local file pid
    for file in "$work"/node?/local/nmPrivate/application_*/container_*_000001/*.pid; do
        pid=$(cat "$file" 2>/dev/null) && kill -0 "$pid" 2>/dev/null && echo "$pid" || true
    done
}
# pick_master NUMBER: sets `master` to one of them; waits until there is one.
pick_master() {
    local running
    wait_for 300 "an application master" eval '[[ -n $(masters) ]]'
    mapfile -t running < <(masters)
    master=${running[$1 % ${#running[@]}]:-}
}
# stop_for SECONDS PID...: a negative id is a process group. What has ended meanwhile is left alone.
stop_for() {
    local seconds=$1
    shift
    kill -STOP -- "$@" 2>/dev/null || return 0
    { sleep "$seconds"; kill -CONT -- "$@" 2>/dev/null; } &
}
kill_hard() { kill -9 -- "$1" 2>/dev/null && wait "$1" 2>/dev/null || true; }
# send_garbage NUMBER: random bytes, a frame of 2 GB, a partial frame, a handshake with a wrong proof, or connections that send nothing.
send_garbage() {
    local socket="/dev/tcp/${sidecar_address/:/\/}"
    case $(($1 % 5)) in
    0) head -c $(($1 % 20000 + 1)) /dev/urandom >"$socket" ;;
    1) printf '\x80\x00\x00\x00' >"$socket" ;;
    2) printf '\x00\x00\x00\x20HGIVE' >"$socket" ;;
    3) printf '\x00\x00\x00\x2aHGIVEWAY\x00\x05%032d\x00\x00\x00\x22Y%033d' 0 0 >"$socket" ;;
    4) for _ in {1..20}; do (exec 3<>"$socket" && sleep 3) & done ;;
    esac 2>/dev/null || true
}

# inject KIND NUMBER SECONDS
inject() {
    local kind=$1 node=$(($2 % 3 + 1)) seconds=$3 pid
    pid=pid_node$node
    case $kind in
    sidecar-kill)
        kill_hard "$pid_sidecar"
        sleep "$((seconds / 2))"
        start_sidecar "$policy" "$event_log"
        ;;
    sidecar-stop) stop_for "$seconds" "$pid_sidecar" ;;
    node-kill)
        kill_hard "${!pid}"
        start_node "$node"
        ;;
    node-lose)
        kill_hard "${!pid}"
        kill_containers "$work/node$node/"
        rm -rf "$work/node$node/recovery" "$work/node$node/local"
        start_node "$node"
        ;;
    node-stop) stop_for "$seconds" "${!pid}" ;;
    master-kill) pick_master "$2" && kill -9 -- "-$master" 2>/dev/null || true ;;
    master-stop) pick_master "$2" && stop_for "$seconds" "-$master" ;;
    garbage) send_garbage "$2" ;;
    esac
}

run_jobs long long -Dmapreduce.job.reduces=6 -Dgiveway.test.reduce-ms=2000 &
long=$!
run_jobs short short &
short=$!
wait_for 300 "the first pause of a container" eval '(($(count_nodes "Giveway: paused") > 0))'
for ((number = 0; number < faults; number++)); do
    read -r kind target seconds gap <<<"${plan[number]}"
    log "fault $((number + 1)): $kind $target, $seconds s; $(wc -l 2>/dev/null <"$work/succeeded" || echo 0) jobs succeeded, $(count_nodes 'Giveway: paused') pauses"
    inject "$kind" "$target" "$seconds"
    sleep "$gap"
    kill -0 "$resourcemanager" || fail "the ResourceManager has exited"
    kill -0 "$long" 2>/dev/null && kill -0 "$short" 2>/dev/null || fail "a job failed after fault $((number + 1))"
done

log "all $faults faults injected; waiting for the jobs"
touch "$work/stop"
wait "$short" || exit 1
wait "$long" || exit 1
kill -0 "$resourcemanager" || fail "the ResourceManager has exited"
wait_for 180 "three NodeManagers" three_nodes
wait_for 180 "all containers to be released" no_containers
nothing_demoted() { ! rm_rest nodes | grep -Eq '"(numRunningOpportContainers|numQueuedContainers)":[1-9]'; }
wait_for 60 "demoted containers to end" nothing_demoted
# Containers have their directories on their command lines.
! ps -eo stat=,args= | grep '^T' | grep -F "$work/" || fail "processes are still stopped"
! grep -h 'internal error' "$work/logs/resourcemanager.log" || fail "the plug-in logged an internal error; see $work/logs/resourcemanager.log"
log "$(wc -l <"$work/succeeded") jobs ended with the correct output; $(count_nodes 'Giveway: paused') pauses, $(count_in 'synchronized with' sidecar) synchronizations of the sidecar, $(count_in 'Giveway: expiring node' resourcemanager) nodes expired"
stop_sidecar
suite_passed
