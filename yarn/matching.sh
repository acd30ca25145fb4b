#!/usr/bin/env bash
# End-to-end test with real daemons: the policy `coshh` matches applications to nodes. One of three nodes is four times as fast as the others; ann's job is large, bob's
# is small, so that the linear program suggests nodes of one class only for bob's.
#
# 1. `matched`: while ann's job needs containers, tasks of bob's job get them on nodes of the suggested class only. Ann's job uses all nodes.
# 2. `starved`: the NodeManagers of the suggested class are stopped. Bob's job waits, and then uses the other nodes.
# 3. `silent`: the same with the sidecar killed: nothing is refused, and bob's job does not wait.
# Every output is checked, and the event log replays to identical actions.
#
#   yarn/matching.sh [matched [starved [silent]]]        (default: all parts)
set -euo pipefail
source "$(dirname "$0")/suite.sh"
parts=("$@")
((${#parts[@]})) || parts=(matched starved silent)
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
# coshh MAX_WAIT: a policy file. Of the tests only `starved` is about the wait.
coshh() { { "$giveway" policies show coshh; echo "max_wait = \"$1\""; } >"$work/coshh-$1.toml"; }
coshh 1h
coshh 10s
event_log=$work/coshh-1h.event_log
start_sidecar "$work/coshh-1h.toml" "$event_log"
start_hadoop
# The last line has the classes of all nodes.
two_classes() { grep 'nodes by class' "$work/logs/sidecar.log" | tail -1 | grep -q ': 1 (127.0.0.2:[0-9]*)' && grep 'nodes by class' "$work/logs/sidecar.log" | tail -1 | grep -q ': 2 ('; }
wait_for 180 "two classes of nodes" two_classes
grep 'nodes by class' "$work/logs/sidecar.log" | tail -1
fast_class=$(grep 'nodes by class' "$work/logs/sidecar.log" | tail -1 | sed 's/.* \([0-9]*\): 1 (.*/\1/')

# run_large LABEL, run_small LABEL: the job of ann or bob. Reduces start after the maps: the time for which they wait would be learned as their own.
run() { count_words giveway "$1" "$2" "-Dgiveway.test.user=$3" "-Dgiveway.test.map-ms=$4" -Dmapreduce.job.reduce.slowstart.completedmaps=1.0; }
run_large() { run "$1" large ann 2000; }
run_small() { run "$1" small bob 300; }
# assigned LABEL: the log lines about its containers, except that of its application master. contested LABEL OTHER: those before the last
# map of OTHER got its container; its reduce comes after that.
assigned() { local id; id=$(app_field "$1" id); grep -n "Assigned container container_${id#application_}_" "$work/logs/resourcemanager.log" | grep -v '_01_000001 '; }
contested() { local last; last=$(assigned "$2" | tail -2 | head -1 | cut -d : -f 1); assigned "$1" | awk -F : -v last="$last" '$1 < last'; }
# hosts: the hosts in such lines, with the number of containers.
hosts() { grep -o 'on host 127.0.0.[0-9]*' | sed 's/on host //' | sort | uniq -c | awk '{print $2 " (" $1 ")"}' | paste -sd ' '; }
fills_nodes() { (($(app_field "$1" runningContainers) >= $2)); }

part_matched() {
    run_large matched-large &
    large=$!
    wait_for 300 "the maps of ann's job" fills_nodes matched-large 9
    run_small matched-small
    wait "$large" || exit 1
    id=$(app_field matched-small id)
    suggested=$(grep "$id is suggested" "$work/logs/sidecar.log" | sed 's/.*of class //' | sort -u | paste -sd ' ')
    contested matched-small matched-large >"$work/contested"
    log "bob's job was suggested for nodes of class $suggested, the fast one is $fast_class; while ann's job needed containers, it got $(hosts <"$work/contested")"
    log "bob's job took $(duration matched-small) ms on $(assigned matched-small | hosts), ann's $(duration matched-large) ms on $(assigned matched-large | hosts)"
    [[ $suggested == [01] ]] || fail "bob's job was not suggested for one class of nodes only"
    (($(wc -l <"$work/contested") >= 2)) || fail "the jobs did not compete for containers"
    # The fast node is 127.0.0.2.
    if [[ $suggested == "$fast_class" ]]; then own=(1) other='127.0.0.[34]:'; else own=(2 3) other='127.0.0.2:'; fi
    ! grep -q "on host $other" "$work/contested" || fail "tasks of bob's job ran on nodes that were refused to it"
    [[ $(assigned matched-large | hosts | wc -w) == 6 ]] || fail "ann's job did not use all nodes"
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
    signal_own CONT
    wait "$large" || exit 1
    (($(contested "$1-small" "$1-large" | wc -l) >= 2)) || fail "$1: the jobs did not compete for containers"
    log "$1: bob's job took $(duration "$1-small") ms on $(assigned "$1-small" | hosts), ann's $(duration "$1-large") ms"
}

part_starved() {
    log "stopping the NodeManagers of the class that is suggested for bob's job"
    wait_for 180 "all containers to be released" no_containers
    restart_sidecar "$work/coshh-10s.toml"
    run_without_own starved
    grep -q "$(app_field starved-small id) is suggested for nodes of class $suggested\$" "$work/logs/sidecar.log" || fail "bob's job was not suggested for nodes of class $suggested"
}

part_silent() {
    log "the same without a sidecar"
    kill -9 "$pid_sidecar"
    wait "$pid_sidecar" 2>/dev/null || true
    run_without_own silent
    kill -0 "$pid_resourcemanager" || fail "the ResourceManager has exited"
    wait_for 180 "all containers to be released" no_containers
    synchronized=$(count_in 'synchronized with' sidecar)
    start_sidecar "$work/coshh-10s.toml" "$event_log"
    wait_synchronized "$synchronized"
}

for part in "${parts[@]}"; do "part_$part"; done
wait_for 180 "all containers to be released" no_containers
stop_sidecar
suite_passed
