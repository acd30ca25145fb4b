#!/usr/bin/env bash
# End-to-end test with real daemons: the policy `coshh` matches applications to nodes. One of three nodes is four times as fast as the others; ann's job is large, bob's
# is small, so that the linear program suggests nodes of one class only for bob's.
#
# 1. `alone`: ann's job alone uses all nodes.
# 2. `matched`: while ann's job needs containers, all tasks of bob's job run on nodes of the suggested class.
# 3. `starved`: the NodeManagers of the suggested class are stopped. Bob's job waits, then uses the other nodes, and ends before ann's.
# 4. `silent`: the same with the sidecar killed: nothing is refused.
# Every output is checked, and the event log replays to identical actions.
#
#   yarn/matching.sh [alone] [matched] [starved] [silent]        (default: all parts; `starved` and `silent` need `matched`)
set -euo pipefail
source "$(dirname "$0")/suite.sh"
parts=("$@")
((${#parts[@]})) || parts=(alone matched starved silent)
begin_suite matching
fetch_hadoop
build_plugin
build_giveway
# Three containers on each node: enough for both application masters and a task.
write_conf yarn.nodemanager.resource.memory-mb=1536
node_property[1]=giveway.node.speed=4
make_text large 40 3
make_text small 4 3

log "starting the cluster"
event_log=$work/coshh.event_log
start_sidecar coshh "$event_log"
start_hadoop
# The last line has the classes of all nodes.
two_classes() { grep 'nodes by class' "$work/logs/sidecar.log" | tail -1 | grep -q ': 1 (127.0.0.2:[0-9]*)' && grep 'nodes by class' "$work/logs/sidecar.log" | tail -1 | grep -q ': 2 ('; }
wait_for 180 "two classes of nodes" two_classes
grep 'nodes by class' "$work/logs/sidecar.log" | tail -1
fast_class=$(grep 'nodes by class' "$work/logs/sidecar.log" | tail -1 | sed 's/.* \([0-9]*\): 1 (.*/\1/')

# run_large LABEL, run_small LABEL: the job of ann or bob.
run_large() { count_words giveway "$1" large -Dgiveway.test.user=ann -Dgiveway.test.map-ms=700; }
run_small() { count_words giveway "$1" small -Dgiveway.test.user=bob -Dgiveway.test.map-ms=300; }
# task_hosts LABEL: the hosts of all containers of an application, except that of its application master.
assigned() { local id; id=$(app_field "$1" id); grep "Assigned container container_${id#application_}_" "$work/logs/resourcemanager.log" | grep -v '_01_000001 '; }
task_hosts() { assigned "$1" | grep -o 'on host 127.0.0.[0-9]*' | sed 's/on host //' | sort | uniq -c | awk '{print $2 " (" $1 ")"}'; }
# needs_containers LABEL: the application has maps that have no container yet.
needs_containers() { (($(assigned "$1" | wc -l) < 40)); }
fills_nodes() { (($(app_field "$1" runningContainers) >= $2)); }

part_alone() {
    run_large alone
    log "ann's job alone took $(duration alone) ms on $(task_hosts alone | paste -sd ' ')"
    (($(task_hosts alone | wc -l) == 3)) || fail "ann's job alone did not use all nodes"
}

part_matched() {
    run_large matched-large &
    large=$!
    wait_for 300 "the maps of ann's job" fills_nodes matched-large 9
    run_small matched-small
    needs_containers matched-large || fail "ann's job was too short to compete with bob's"
    id=$(app_field matched-small id)
    suggested=$(grep "$id is suggested" "$work/logs/sidecar.log" | sed 's/.*of class //' | sort -u | paste -sd ' ')
    log "bob's job took $(duration matched-small) ms on $(task_hosts matched-small | paste -sd ' '); it was suggested for nodes of class $suggested; the fast one is $fast_class"
    [[ $suggested == [01] ]] || fail "bob's job was not suggested for one class of nodes only"
    # The fast node is 127.0.0.2.
    if [[ $suggested == "$fast_class" ]]; then own=(1) other='127.0.0.[34] '; else own=(2 3) other='127.0.0.2 '; fi
    ! task_hosts matched-small | grep -q "$other" || fail "tasks of bob's job ran on nodes that were refused to it"
    wait "$large" || exit 1
    log "ann's job took $(duration matched-large) ms on $(task_hosts matched-large | paste -sd ' ')"
    (($(task_hosts matched-large | wc -l) == 3)) || fail "ann's job did not use all nodes"
}

# signal_own SIGNAL: to the NodeManagers of the class that is suggested for bob's job.
signal_own() { local node pid; for node in "${own[@]}"; do pid=pid_node$node; kill "-$1" "${!pid}"; done; }

# run_without_own LABEL: both jobs while those NodeManagers are stopped.
run_without_own() {
    wait_for 180 "all containers to be released" no_containers
    signal_own STOP
    run_large "$1-large" &
    large=$!
    wait_for 300 "the maps of ann's job" fills_nodes "$1-large" $((9 - 3 * ${#own[@]}))
    run_small "$1-small"
    needs_containers "$1-large" || fail "$1: ann's job was too short to compete with bob's"
    log "$1: bob's job took $(duration "$1-small") ms on $(task_hosts "$1-small" | paste -sd ' ')"
    signal_own CONT
    wait "$large" || exit 1
    log "$1: ann's job took $(duration "$1-large") ms"
}

part_starved() {
    log "stopping the NodeManagers of the class that is suggested for bob's job"
    run_without_own starved
}

part_silent() {
    log "the same without a sidecar"
    kill -9 "$pid_sidecar"
    wait "$pid_sidecar" 2>/dev/null || true
    run_without_own silent
    kill -0 "$pid_resourcemanager" || fail "the ResourceManager has exited"
    wait_for 180 "all containers to be released" no_containers
    start_sidecar coshh "$event_log"
    wait_synchronized 1
}

for part in "${parts[@]}"; do "part_$part"; done
wait_for 180 "all containers to be released" no_containers
stop_sidecar
suite_passed
