#!/usr/bin/env bash
# End-to-end test with real daemons: the policy `coshh` matches applications to nodes. One of three nodes is four times as fast as the others; ann's job is large, bob's
# is small, so that the linear program suggests nodes of one class only for bob's.
#
# 1. `matched`: while ann's job needs containers, tasks of bob's job get them on nodes of the suggested class only. Ann's job uses all nodes.
# 2. `starved`: the NodeManagers of the suggested class are stopped. Bob's job waits, and then uses the other nodes.
# 3. `silent`: the sidecar is killed while ann's job runs: the queue is FIFO as in stock Hadoop, and both jobs end.
# Every output is checked, and the event log replays to identical actions.
#
#   yarn/matching.sh [matched] [starved] [silent]        (default: all parts)
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
policy=$work/coshh-1h.toml event_log=$work/coshh-1h.event_log
start_sidecar "$policy" "$event_log"
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

# suggestions LABEL: the classes of nodes that were suggested for an application, one after the other. It is classified when it asks for its application master's
# container, for maps and for its reduce; where both classes of nodes are equally good, the linear program may suggest another one then.
suggestions() { grep "$(app_field "$1" id) is suggested" "$work/logs/sidecar.log" | sed 's/.*of class //'; }
# use_class CLASS: sets the nodes of a class, and a pattern for the hosts of the others. The fast node is 127.0.0.2.
use_class() {
    if [[ $1 == "$fast_class" ]]; then
        own=(1) other_hosts='127.0.0.[34]:'
    else
        own=(2 3) other_hosts='127.0.0.2:'
    fi
}
# signal_own SIGNAL: to the NodeManagers of those nodes.
signal_own() { local node pid; for node in "${own[@]}"; do pid=pid_node$node; kill "-$1" "${!pid}"; done; }

# start_pair LABEL: starts ann's job, and bob's as soon as ann's fills the cluster.
start_pair() {
    run_large "$1-large" &
    large=$!
    wait_for 300 "the maps of ann's job" fills_nodes "$1-large" 9
    run_small "$1-small" &
    small=$!
}
# end_pair LABEL: waits for both jobs.
end_pair() {
    wait "$small" || exit 1
    wait "$large" || exit 1
    contested "$1-small" "$1-large" >"$work/contested"
    log "$1: while ann's job needed containers, bob's got $(wc -l <"$work/contested"): $(hosts <"$work/contested")"
    log "$1: bob's job took $(duration "$1-small") ms, ann's $(duration "$1-large") ms"
}
competed() { (($(wc -l <"$work/contested") >= 2)) || fail "the jobs did not compete for containers"; }

part_matched() {
    start_pair matched
    end_pair matched
    competed
    suggested=$(suggestions matched-small | paste -sd ,)
    log "bob's job was suggested for nodes of class $suggested; the fast one is $fast_class"
    [[ $suggested != *and* ]] || fail "bob's job was suggested for all nodes"
    # The maps: its reduce comes last.
    head -n 4 "$work/contested" >"$work/contested.maps"
    matched=0
    for class in ${suggested//,/ }; do
        use_class "$class"
        grep -q "on host $other_hosts" "$work/contested.maps" || matched=1
    done
    ((matched)) || fail "maps of bob's job ran on nodes that were refused to it"
    [[ $(assigned matched-large | hosts | wc -w) == 6 ]] || fail "ann's job did not use all nodes"
}

# master_runs LABEL: the application master's process has been started. The NodeManager reports it as running some time before that.
master_runs() { compgen -G "$work/node?/logs/$(app_field "$1" id)/container_*_01_000001/syslog"; }
part_starved() {
    policy=$work/coshh-10s.toml
    restart_sidecar "$policy"
    start_pair starved
    wait_for 300 "bob's application master" master_runs starved-small
    suggested=$(suggestions starved-small | tail -n 1)
    [[ $suggested == [01] ]] || fail "bob's job is suggested for nodes of class $suggested"
    use_class "$suggested"
    log "stopping the NodeManagers of class $suggested, which is suggested for bob's job"
    signal_own STOP
    wait "$small" || exit 1
    signal_own CONT
    end_pair starved
    competed
    grep -q "on host $other_hosts" "$work/contested" || fail "bob's job did not use nodes that were refused to it"
}

part_silent() {
    log "killing the sidecar"
    synchronized=$(count_in 'synchronized with' sidecar)
    start_pair silent
    kill -9 "$pid_sidecar"
    wait "$pid_sidecar" 2>/dev/null || true
    end_pair silent
    kill -0 "$pid_resourcemanager" || fail "the ResourceManager has exited"
    start_sidecar "$policy" "$event_log"
    wait_synchronized "$synchronized"
}

for part in "${parts[@]}"; do "part_$part"; done
stop_sidecar
suite_passed
