#!/usr/bin/env bash
# End-to-end test with real daemons: containers are paused and resumed, and nothing is lost.
#
# 1. `fcs`: a long job's reduces hold all containers, then a short job is submitted. It must end before the first of these reduces, none of which may fail or be killed,
#    and every output must be correct. A second short job pauses containers again. Prints how long the short job takes in a stock CapacityScheduler queue with
#    preemption.
#    `shuffle`: reduces are paused while they wait for the output of a map.
# 2. The sidecar is killed while containers are paused: they are resumed without it, and the long job ends with the correct output.
# 3. `hsrtf-prp`: exactly the containers that the sidecar names are killed, as preempted, and no attempt counts as failed. Tasks of one job have different progress.
# 4. `lost` under `chronos(fifo)`: a NodeManager is killed with SIGKILL, with all its containers. It is lost after seconds instead of ten minutes, and the job ends with
#    the correct output. `alarm`: another one only stops for a while; the false alarm does not change the output.
# 5. `giveway --degrade`: as the first part, without the stock queue.
# 6. `restart`: under `fcs` a NodeManager is killed with SIGKILL and restarted while one of its containers is paused. The container is resumed, and no attempt of the long
#    job is lost.
# 7. `rm-restart`: under `fcs` the ResourceManager is killed with SIGKILL and restarted while a container is paused. Everything that was demoted is promoted by the new
#    one, the sidecar ranks again, and no attempt of the long job is lost.
# 8. `stock-lost`, which takes more than ten minutes: `lost` under `fifo`, which leaves lost nodes to Hadoop, to compare the times.
# 9. The event log of each run replays to identical actions.
#
#   yarn/preemption.sh [fcs] [shuffle] [sidecar] [kill] [lost] [alarm] [giveway] [restart] [rm-restart] [stock-lost]
#
# Default: all parts but `stock-lost`. `fcs` and `sidecar` come before the others, `lost` before `stock-lost`.
set -euo pipefail
source "$(dirname "$0")/suite.sh"
parts=("$@")
((${#parts[@]})) || parts=(fcs shuffle sidecar kill lost alarm giveway restart rm-restart)
begin_suite preemption

fetch_hadoop
build_plugin
build_giveway
write_conf yarn.resourcemanager.scheduler.monitor.enable=true yarn.client.nodemanager-connect.max-wait-ms=3000 \
    yarn.client.nodemanager-connect.retry-interval-ms=1000 yarn.nodemanager.recovery.enabled=true \
    yarn.resourcemanager.recovery.enabled=true "yarn.resourcemanager.fs.state-store.uri=file://$work/state-store" \
    yarn.resourcemanager.store.class=org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore

make_text long 1 100
make_text short 1 5

# master_log LABEL: the log of a job's application master. ended_reduces LABEL: how many of its reduces have ended.
master_log() { cat "$work"/node?/logs/"$(app_field "$1" id)"/container_*_000001/syslog 2>/dev/null; }
ended_reduces() { master_log "$1" | grep -c '_r_[0-9]*_0 TaskAttempt Transitioned from [A-Z_]* to SUCCESS_FINISHING_CONTAINER' || true; }
# ratio LABEL OTHER: the duration of a job in parts of that of another.
ratio() { awk -v a="$(duration "$1")" -v b="$(duration "$2")" 'BEGIN { printf "%.2f", a / b }'; }
# use_policy POLICY OPTION...: restarts the sidecar, unless it has this policy.
current_policy=fcs
use_policy() {
    [[ $1 == "$current_policy" ]] || restart_sidecar "$@"
    current_policy=$1
}

log "starting the cluster"
event_log=$work/run.event_log
start_sidecar fcs "$event_log"
start_hadoop

log "a short job alone"
count_words giveway alone short
alone_ms=$(duration alone)
# Long enough that waiting for the reduces clearly differs from not waiting, on a machine of any speed.
reduce_ms=$((alone_ms * 3 / 22 + 500))
log "it took $alone_ms ms; each of the long job's 5 reduces sleeps for $reduce_ms ms per word, about $((reduce_ms * 22 / 1000)) s"

# run_pair QUEUE LABEL: a long job, and a short one as soon as the long one's reduces hold all containers.
run_pair() {
    local queue=$1 label=$2
    count_words "$queue" "$label-long" long -Dmapreduce.job.reduces=5 "-Dgiveway.test.reduce-ms=$reduce_ms" &
    long=$!
    wait_for 300 "the reduces of $label-long" all_reduces_run "$label-long"
    sleep 1
    count_words "$queue" "$label-short" short &
    short=$!
    wait "$short" || exit 1
    log "$label: the short job took $(duration "$label-short") ms"
}

part_fcs() {
    run_pair giveway fcs
    ((! $(ended_reduces fcs-long))) || fail "the short job did not end before the reduces of the long one"
    log "a second short job pauses containers again"
    count_words giveway fcs-short-2 short
    wait "$long" || exit 1
    (($(ended_reduces fcs-long) == 5)) || fail "the log of the application master does not tell the ends of all reduces"
    log "fcs: the second short job took $(duration fcs-short-2) ms, the long job $(duration fcs-long) ms"
    no_lost_work fcs-long
    pauses=$(count_nodes 'Giveway: paused')
    ((pauses >= 2)) || fail "containers were paused $pauses times"
    (($(count_nodes 'Giveway: resumed') >= pauses)) || fail "some containers were not resumed"
    log "containers were paused $pauses times"

    run_pair stock stock
    wait "$long" || exit 1
    log "stock: the long job took $(duration stock-long) ms; the short job took $(ratio fcs-short stock-short) of its time in the stock queue"
}

part_shuffle() {
    log "fcs: reduces are paused while they wait for the output of a map"
    use_policy fcs
    # The first map takes about as long as a short job, the second one four times as long.
    make_text skewed 2 15
    for ((line = 0; line < 45; line++)); do echo "skewed$line skewed common"; done >>"$work/in/skewed/1"
    expect_counts skewed
    local before
    before=$(count_nodes 'Giveway: paused')
    count_words giveway shuffle-long skewed -Dmapreduce.job.reduces=4 "-Dgiveway.test.map-ms=$((alone_ms / 15))" &
    long=$!
    wait_for 300 "the reduces of shuffle-long" all_reduces_run shuffle-long
    count_words giveway shuffle-short short
    [[ $(app_field shuffle-long state) == RUNNING ]] || fail "the short job did not end before the long one"
    cat "$work"/logs/node?.log | grep -o 'Giveway: paused container_[0-9_]*' | tail -n "+$((before + 1))" | cut -d ' ' -f 3 | sort -u >"$work/paused"
    wait "$long" || exit 1
    paused_reduces=0
    for container in $(cat "$work/paused"); do
        ! grep -q "Task 'attempt_[0-9_]*_r_.* done" "$work"/node?/logs/application_*/"$container"/syslog || paused_reduces=$((paused_reduces + 1))
    done
    no_lost_work shuffle-long 4 225
    ((paused_reduces)) || fail "no reduce was paused"
    ! pausing_node || fail "some containers were not resumed"
    log "shuffle: the short job took $(duration shuffle-short) ms; reduces that were paused in their shuffle: $paused_reduces"
}

part_sidecar() {
    log "killing the sidecar while containers are paused"
    before=$(count_nodes 'Giveway: paused')
    count_words giveway killed-long long -Dmapreduce.job.reduces=5 "-Dgiveway.test.reduce-ms=$reduce_ms" &
    long=$!
    wait_for 300 "the reduces of killed-long" all_reduces_run killed-long
    count_words giveway killed-short short -Dgiveway.test.map-ms=500 &
    short=$!
    wait_for 300 "a paused container" eval '(($(count_nodes "Giveway: paused") > before))'
    kill -9 "$pid_sidecar"
    wait "$pid_sidecar" 2>/dev/null || true
    wait "$short" || exit 1
    wait "$long" || exit 1
    no_lost_work killed-long
    (($(count_nodes 'Giveway: resumed') == $(count_nodes 'Giveway: paused'))) || fail "some containers were not resumed"
    kill -0 "$pid_resourcemanager" || fail "the ResourceManager has exited"
    log "killed: the short job took $(duration killed-short) ms, the long one $(duration killed-long) ms"
    wait_for 180 "all containers to be released" no_containers
    start_sidecar fcs "$event_log"
    wait_synchronized 1
}

progress_reports() { "$giveway" replay --open --list "$event_log" | grep ProgressReported || true; }
part_kill() {
    log "hsrtf-prp: killing containers"
    use_policy hsrtf-prp
    count_words giveway prp-long long -Dmapreduce.job.reduces=5 "-Dgiveway.test.reduce-ms=$reduce_ms" &
    long=$!
    wait_for 300 "the reduces of prp-long" all_reduces_run prp-long
    # The policy ranks by progress. Until a reduce of the long job reports some, it need not rank below the short job.
    reports=$(progress_reports | wc -l)
    wait_for 60 "progress of the reduces of prp-long" eval 'progress_reports | tail -n "+$((reports + 1))" | grep -q "progress_ppm: [1-9]"'
    count_words giveway prp-short short
    wait "$long" || exit 1
    { grep -o 'killing container_[0-9_]*' "$work/logs/sidecar.log" || true; } | cut -d ' ' -f 2 | sort >"$work/killed.ordered"
    grep 'Container Transitioned from [A-Z]* to KILLED' "$work/logs/resourcemanager.log" | grep -o 'container_[0-9_]*' | sort >"$work/killed.real"
    [[ -s $work/killed.ordered ]] || fail "hsrtf-prp killed nothing"
    [[ -z $(comm -23 "$work/killed.ordered" "$work/killed.real") ]] || fail "a container that the sidecar named was not killed; see $work/killed.ordered"
    preempted=$(cat "$work"/node?/logs/application_*/container_*_000001/syslog | grep -c 'Container preempted by scheduler' || true)
    ((preempted == $(wc -l <"$work/killed.ordered"))) || fail "application masters saw $preempted preempted containers, the sidecar named $(wc -l <"$work/killed.ordered")"
    ! grep -q 'Failed reduce tasks\|Failed map tasks' "$work/logs/prp-long.log" || fail "prp-long: a killed attempt counts as failed"
    # The application reports one progress for all its tasks; that of each comes from its application master's web service.
    progress_reports | awk '{
        for (i = 1; i < NF; i++) if ($i == "progress_ppm:") { if (seen[NR] && seen[NR] != $(i + 1)) differ = 1; seen[NR] = $(i + 1) }
    } END { exit !differ }' || fail "the tasks of a job never had a progress of their own"
    log "hsrtf-prp: the short job took $(duration prp-short) ms, the long one $(duration prp-long) ms; killed: $(tr '\n' ' ' <"$work/killed.ordered")"
}

# The node of the application master of LABEL, and one of the others.
master_node() { app_field "$1" amHostHttpAddress | sed 's/127.0.0.\([0-9]*\):.*/\1/'; }
other_node() { local master=$(($(master_node "$1") - 1)); echo $((master % 3 + 1)); }
# running_maps LABEL COUNT: that many maps have begun, which is later than the start of their containers.
running_maps() { (($(master_log "$1" | grep -c '_m_[0-9]*_0 TaskAttempt Transitioned from ASSIGNED to RUNNING') >= $2)); }
# rerun_s LABEL: seconds from $killed_at until the maps that were lost were running again, from the log of the application master.
rerun_s() {
    local at
    at=$(master_log "$1" |
        sed -n 's/^\([0-9-]* [0-9:]*\),.*attempt_.*_m_[0-9]*_1 TaskAttempt Transitioned from ASSIGNED to RUNNING.*/\1/p' | tail -n 1)
    [[ -n $at ]] && echo $(($(date -d "$at" +%s) - killed_at))
}
# lose_node LABEL SIGNAL SECONDS: runs a job, sends the signal to a NodeManager, and to its containers if it is SIGKILL, and waits until the node is lost.
lose_node() {
    local label=$1 signal=$2 limit=$3 node pid lost group
    count_words giveway "$label" maps -Dgiveway.test.map-ms=$((alone_ms / 8)) &
    job=$!
    wait_for 300 "the maps of $label" running_maps "$label" 5
    node=$(other_node "$label")
    pid=pid_node$node
    lost=$(count_in 'as it is now LOST' resourcemanager)
    killed_at=$(date +%s)
    kill "-$signal" "${!pid}"
    if [[ $signal == KILL ]]; then
        for group in $(cat "$work/node$node"/local/nmPrivate/application_*/container_*/*.pid 2>/dev/null); do kill -9 -- "-$group" 2>/dev/null || true; done
    fi
    wait_for "$limit" "node $node to be lost" eval '(($(count_in "as it is now LOST" resourcemanager) > lost))'
    lost_at=$SECONDS
    log "$label: node $node was lost $(($(date +%s) - killed_at)) s after SIG$signal"
    # A machine that was replaced: nothing is left to recover.
    [[ $signal == KILL ]] && rm -rf "$work/node$node/recovery" && start_node "$node" || kill -CONT "${!pid}"
    wait "$job" || exit 1
    wait_for 180 "three NodeManagers" three_nodes
    log "$label: correct output after $(duration "$label") ms"
}

use_chronos() {
    [[ -d $work/in/maps ]] || make_text maps 8 8
    use_policy 'chronos(fifo)'
}
part_lost() {
    log "chronos(fifo): a NodeManager is killed"
    use_chronos
    lose_node lost KILL 300
    log "lost: the lost maps were running again after $(rerun_s lost) s"
}
part_alarm() {
    log "chronos(fifo): a NodeManager stops for a while"
    use_chronos
    # At most one of three nodes is expired within a minute.
    if [[ -n ${lost_at:-} ]]; then wait_for 90 "a minute to pass" eval '((SECONDS >= lost_at + 62))'; fi
    lose_node alarm STOP 300
    kill -0 "$pid_resourcemanager" || fail "the ResourceManager has exited"
}
part_stock-lost() {
    log "fifo: a NodeManager is killed, and Hadoop's own expiry interval passes"
    make_text maps 8 8
    use_policy fifo
    lose_node stock-lost KILL 900
    log "stock-lost: the lost maps were running again after $(rerun_s stock-lost) s; under chronos(fifo) the job took $(ratio lost stock-lost) of this time"
}

part_giveway() {
    log "giveway --degrade: pausing containers"
    use_policy giveway --degrade
    pauses=$(count_nodes 'Giveway: paused')
    run_pair giveway flagship
    wait "$long" || exit 1
    log "giveway: the long job took $(duration flagship-long) ms"
    no_lost_work flagship-long
    (($(count_nodes 'Giveway: paused') > pauses)) || fail "giveway paused nothing"
    (($(count_nodes 'Giveway: resumed') >= $(count_nodes 'Giveway: paused'))) || fail "some containers were not resumed"
}

# pause_for_map LABEL: starts a long job and a short one, and waits until the short one's map runs in the place of a paused container. Sets `node` to its node.
pause_for_map() {
    use_policy fcs
    pause_for_short "$1" $((alone_ms / 3))
}
# end_pair LABEL: both jobs end without lost work, and nothing stays paused. end_long LABEL: the same after the short one has ended.
end_pair() {
    wait "$short" || exit 1
    end_long "$1"
}
end_long() {
    wait "$long" || exit 1
    no_lost_work "$1-long"
    ! pausing_node || fail "some containers were not resumed"
    log "$1: the short job took $(duration "$1-short") ms, the long one $(duration "$1-long") ms"
}

# watched NODE: all containers that were running when the NodeManager restarted are watched again.
watched() { (($(count_in 'Reacquiring container_' "node$1") >= $(count_in 'Recovering container_.* in state LAUNCHED' "node$1"))); }
part_restart() {
    log "fcs: a NodeManager is killed and restarted while a container is paused"
    pause_for_map restart
    local pid=pid_node$node recovered
    recovered=$(count_in 'Recovering container_.* in state LAUNCHED' "node$node")
    log "killing and restarting NodeManager $node"
    kill -9 "${!pid}"
    start_node "$node"
    wait_for 180 "recovered containers" eval '(($(count_in "Recovering container_.* in state LAUNCHED" "node$node") > recovered))'
    wait_for 30 "recovered containers to be watched" watched "$node"
    end_pair restart
}

part_rm-restart() {
    log "fcs: the ResourceManager is killed and restarted while a container is paused"
    # Long enough for a second short job.
    local synchronized reduce_ms=$((reduce_ms * 3))
    pause_for_map rm-restart
    synchronized=$(count_in 'synchronized with' sidecar)
    kill -9 "$pid_resourcemanager"
    wait "$pid_resourcemanager" 2>/dev/null || true
    start_resourcemanager
    wait_synchronized "$synchronized"
    wait_for 180 "three NodeManagers" three_nodes
    log "$(grep 'synchronized with' "$work/logs/sidecar.log" | tail -1)"
    # The containers that were recovered are known: one is paused for the next short job, too.
    wait "$short" || exit 1
    local pauses
    pauses=$(count_nodes 'Giveway: paused')
    count_words giveway rm-restart-second short
    (($(count_nodes 'Giveway: paused') > pauses)) || fail "no container was paused for the second short job"
    log "rm-restart: the second short job took $(duration rm-restart-second) ms"
    end_long rm-restart
    kill -0 "$pid_resourcemanager" || fail "the ResourceManager has exited"
}

for part in "${parts[@]}"; do "part_$part"; done
stop_sidecar
suite_passed
