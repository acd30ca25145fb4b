#!/usr/bin/env bash
# End-to-end test with real daemons, in a setup as production clusters have it.
#
# `ha`: two ResourceManagers with automatic failover by ZooKeeper, and one sidecar for both. While a container is paused, the active ResourceManager is killed
#    (SIGKILL), suspended (SIGSTOP, later SIGCONT) or stopped (SIGTERM), in turn. Each time the other one takes over, the sidecar follows it, a second short job is
#    served by a pause, no attempt of the long job is lost, every output is correct, and nothing stays paused. ROUNDS (3): how many times.
# `queues`: two leaf queues under parents, each at its maximum with a long job that wants more. For a short job in one of them only containers of that queue are
#    paused: YARN would give those of the other queue back to it.
# `maximum`: one of these queues is idle. A short job in the other one, which is at its maximum, is served by a pause there although half of the cluster is free.
# `mix`: for MIX_SECONDS (600), jobs of random sizes in four queues, two of which have maxima. Counts the pauses whose slot another job got. A few are
#    unavoidable: another queue begins to ask between the pause and the grant, half a second later. More than a quarter is an error.
# `vcores`: nodes are full by vcores (DominantResourceCalculator) and half empty by memory.
# `sizes`: containers of two sizes. The maps of the short job do not fit into what is free on the nodes.
#
#   yarn/production.sh [ha|queues|maximum|mix|vcores|sizes]...
set -euo pipefail
source "$(dirname "$0")/suite.sh"
parts=("$@")
all_parts=(ha queues maximum mix vcores sizes)
((${#parts[@]})) || parts=("${all_parts[@]}")
for part in "${parts[@]}"; do
    [[ " ${all_parts[*]} " == *" $part "* ]] || fail "unknown part $part; it is one of: ${all_parts[*]}"
done
rounds=${ROUNDS:-3}
fetch_hadoop
build_plugin
build_giveway

state_of() { curl -s --max-time 3 "http://127.0.0.1:$((${rm_port[$1]} + 4))/ws/v1/cluster/info" | grep -o '"haState":"[A-Z]*"' | cut -d '"' -f 4; }
# active: the ResourceManager that is active.
active() {
    local id
    for id in rm1 rm2; do
        if [[ $(state_of $id) == ACTIVE ]]; then
            echo $id
            return
        fi
    done
    return 1
}
other_is_active() { id=$(active) && [[ $id != "$1" ]]; }
stands_by() { [[ $(state_of "$1") == STANDBY ]]; }
active_rest() {
    local id
    id=$(active) && curl -s --max-time 5 "http://127.0.0.1:$((${rm_port[$id]} + 4))/ws/v1/cluster/$1"
}
start_rm() {
    start "$1" java -Xmx400m "${small_jvm[@]}" "${add_opens[@]}" -cp "$conf:$plugin_jar:$jars/*" \
        org.apache.hadoop.yarn.server.resourcemanager.ResourceManager -D "yarn.resourcemanager.ha.id=$1"
}

# Sets the properties of both ResourceManagers.
ha_properties() {
    local y=yarn.resourcemanager id port
    properties=("$y.ha.enabled=true" "$y.ha.rm-ids=rm1,rm2" "$y.cluster-id=giveway" "hadoop.zk.address=127.0.0.1:$zookeeper_port"
        "hadoop.zk.timeout-ms=6000" "$y.ha.automatic-failover.enabled=true" "$y.recovery.enabled=true" "$y.scheduler.monitor.enable=true"
        "$y.store.class=org.apache.hadoop.yarn.server.resourcemanager.recovery.ZKRMStateStore" "yarn.nodemanager.recovery.enabled=true"
        "yarn.client.failover-sleep-base-ms=500" "yarn.client.failover-sleep-max-ms=2000")
    for id in rm1 rm2; do
        port=${rm_port[$id]}
        properties+=("$y.hostname.$id=127.0.0.1" "$y.address.$id=127.0.0.1:$port" "$y.scheduler.address.$id=127.0.0.1:$((port + 1))"
            "$y.resource-tracker.address.$id=127.0.0.1:$((port + 2))" "$y.admin.address.$id=127.0.0.1:$((port + 3))"
            "$y.webapp.address.$id=127.0.0.1:$((port + 4))")
    done
}

# fail_over FAULT: while a container is paused, the active ResourceManager is killed, suspended or stopped.
fail_over() {
    local label=$1 fault=$2 old pid synchronized pauses began
    pause_for_short "$label" 3000
    old=$(active) pid=pid_$old synchronized=$(count_in 'synchronized with' sidecar)
    log "$label: SIG$fault of $old while a container is paused on node $node"
    began=$SECONDS
    kill "-$fault" "${!pid}"
    wait_for 120 "another active ResourceManager" other_is_active "$old"
    log "$label: $(active) is active after $((SECONDS - began)) s"
    wait_for 120 "three NodeManagers" three_nodes
    wait_synchronized "$synchronized"
    wait "$short" || exit 1
    # The containers that were recovered are known: one is paused for the next short job, too.
    pauses=$(count_nodes 'Giveway: paused')
    count_words giveway "$label-second" short
    (($(count_nodes 'Giveway: paused') > pauses)) || fail "$label: no container was paused for the second short job"
    wait "$long" || exit 1
    no_lost_work "$label-long"
    ! pausing_node || fail "$label: some containers were not resumed"
    if [[ $fault == STOP ]]; then kill -CONT "${!pid}"; else wait "${!pid}" 2>/dev/null || true; start_rm "$old"; fi
    wait_for 120 "$old to stand by" stands_by "$old"
    # One that was suspended believes to be active for a moment and takes the connection; then the active one connects again.
    sleep 10
    synchronized=$(count_in 'synchronized with' sidecar)
    sleep 5
    (($(count_in 'synchronized with' sidecar) == synchronized)) || fail "$label: the ResourceManager that stands by connects to the sidecar"
    log "$label: the second short job took $(duration "$label-second") ms, the long one $(duration "$label-long") ms"
}

part_ha() {
    rm_rest() { active_rest "$@"; }
    # The ports of the ResourceManagers, and of ZooKeeper.
    declare -A rm_port
    for id in rm1 rm2; do
        free_ports
        rm_port[$id]=$base_port
    done
    zookeeper_port=$((base_port + 6))
    ha_properties
    write_conf "${properties[@]}"
    log "starting ZooKeeper, two ResourceManagers, three NodeManagers and one sidecar"
    start zookeeper java -Xmx128m "${small_jvm[@]}" -cp "$conf:$jars/*" -Dzookeeper.admin.enableServer=false \
        org.apache.zookeeper.server.ZooKeeperServerMain "$zookeeper_port" "$work/zookeeper"
    start_sidecar fcs "$event_log"
    wait_for 60 "ZooKeeper" eval "(exec 3<>/dev/tcp/127.0.0.1/$zookeeper_port)"
    local id node round faults=(KILL STOP TERM)
    for id in rm1 rm2; do start_rm $id; done
    for node in 1 2 3; do start_node "$node"; done
    wait_for 180 "three NodeManagers" three_nodes
    for ((round = 0; round < rounds; round++)); do fail_over "ha$round" "${faults[round % 3]}"; done
    stop_sidecar
}

# Of six containers each queue may have three: an application master and two reduces.
queues_at_their_maximum() {
    [[ $(app_field prod-long runningContainers) == 3 && $(app_field dev-long runningContainers) == 3 ]]
}
# Two leaf queues, prod and dev, each with at most half of the cluster.
write_queues() {
    local q=yarn.scheduler.capacity queue leaf
    local -A leaves=([prod]=etl [dev]=batch)
    write_conf
    local capacities=("$q.root.queues=prod,dev" "$q.maximum-am-resource-percent=1.0" "$q.node-locality-delay=-1")
    for queue in prod dev; do
        leaf=${leaves[$queue]}
        capacities+=("$q.root.$queue.queues=$leaf" "$q.root.$queue.capacity=50" "$q.root.$queue.maximum-capacity=50"
            "$q.root.$queue.$leaf.capacity=100" "$q.root.$queue.$leaf.user-limit-factor=10"
            "$q.root.$queue.$leaf.ordering-policy=giveway.yarn.GivewayOrderingPolicy")
    done
    site "$conf/capacity-scheduler.xml" "${capacities[@]}"
}
# serve_short_in_dev: a short job in dev, which is full, is served by pauses while the long one runs.
serve_short_in_dev() {
    log "a short job comes in dev"
    count_words root.dev.batch dev-short short
    local pauses
    pauses=$(count_nodes 'Giveway: paused')
    ((pauses > 0)) || fail "nothing was paused for the short job"
    [[ $(app_field dev-long state) == RUNNING ]] || fail "the long job of dev ended before the short one"
    log "the short job took $(duration dev-short) ms and $pauses pauses"
}
# start_long_in_dev: sets `dev` to the process of a long job.
start_long_in_dev() {
    count_words root.dev.batch dev-long long -Dmapreduce.job.reduces=4 "-Dgiveway.test.reduce-ms=$reduce_ms" &
    dev=$!
}
no_pauses_left() { ! pausing_node || fail "some containers were not resumed"; }

part_queues() {
    local prod dev app pauses
    write_queues
    start_sidecar fcs "$event_log"
    start_hadoop
    count_words root.prod.etl prod-long long -Dmapreduce.job.reduces=8 "-Dgiveway.test.reduce-ms=$reduce_ms" &
    prod=$!
    start_long_in_dev
    wait_for 300 "both queues to be at their maximum" queues_at_their_maximum
    sleep 12
    serve_short_in_dev
    app=$(app_field prod-long id)
    pauses=$(count_nodes "Giveway: paused .*${app#application_}")
    ((pauses == 0)) || fail "$pauses containers of prod were paused for a job of dev"
    wait "$prod" || exit 1
    wait "$dev" || exit 1
    no_lost_work dev-long 4
    no_lost_work prod-long 8
    no_pauses_left
    log "the long jobs took $(duration prod-long) and $(duration dev-long) ms"
    stop_sidecar
}

dev_at_its_maximum() { [[ $(app_field dev-long runningContainers) == 3 ]]; }
part_maximum() {
    local dev
    write_queues
    start_sidecar fcs "$event_log"
    start_hadoop
    start_long_in_dev
    wait_for 300 "the queue to be at its maximum" dev_at_its_maximum
    sleep 12
    serve_short_in_dev
    wait "$dev" || exit 1
    no_lost_work dev-long 4
    no_pauses_left
    stop_sidecar
}

# run_random_jobs QUEUE SEED: one job after the other until the time is over, large and small ones.
run_random_jobs() {
    local queue=$1 number label
    RANDOM=$2
    for ((number = 1; SECONDS < mix_end; number++)); do
        label=$queue-$2-$number
        if ((RANDOM % 3)); then
            count_words "$queue" "$label" short -Dmapreduce.job.reduces=$((1 + RANDOM % 2))
        else
            count_words "$queue" "$label" long -Dmapreduce.job.reduces=$((2 + RANDOM % 4)) -Dgiveway.test.reduce-ms=$((1000 + RANDOM % 4000))
        fi
        echo "$label" >>"$work/succeeded"
        sleep $((RANDOM % 8))
    done
}
part_mix() {
    local q=yarn.scheduler.capacity queue seed=${MIX_SEED:-1} jobs=()
    write_conf yarn.nodemanager.resource.memory-mb=2560
    local capacities=("$q.root.queues=a,b,c,d" "$q.maximum-am-resource-percent=1.0" "$q.node-locality-delay=-1"
        "$q.root.b.maximum-capacity=50" "$q.root.d.maximum-capacity=40")
    for queue in a b c d; do
        capacities+=("$q.root.$queue.capacity=25" "$q.root.$queue.user-limit-factor=10" "$q.root.$queue.ordering-policy=giveway.yarn.GivewayOrderingPolicy")
    done
    site "$conf/capacity-scheduler.xml" "${capacities[@]}"
    start_sidecar fcs "$event_log"
    start_hadoop
    mix_end=$((SECONDS + ${MIX_SECONDS:-600}))
    # Two submitters in each queue, so that jobs of one queue compete.
    for queue in a b c d; do
        for _ in 1 2; do
            run_random_jobs "$queue" "$seed" &
            jobs+=($!) seed=$((seed + 1))
        done
    done
    for job in "${jobs[@]}"; do wait "$job" || fail "a job failed"; done
    no_pauses_left
    log "$(wc -l <"$work/succeeded") jobs, all with the right output"
    stop_sidecar
    "$giveway" replay --json "$event_log" | "$script_dir/wasted_pauses.py" 25 || fail "too many pauses were wasted"
}

# give_way_once: a long job with five reduces gives way to a short one and loses nothing.
give_way_once() {
    pause_for_short "$1" 0
    wait "$short" || exit 1
    [[ $(app_field "$1-long" state) == RUNNING ]] || fail "the long job ended before the short one"
    wait "$long" || exit 1
    no_lost_work "$1-long"
    no_pauses_left
    log "the short job took $(duration "$1-short") ms, the long one $(duration "$1-long") ms"
    stop_sidecar
}

part_vcores() {
    # Nodes for two containers by vcores, for four by memory.
    write_conf yarn.nodemanager.resource.cpu-vcores=2 yarn.nodemanager.resource.memory-mb=2048 \
        yarn.scheduler.capacity.resource-calculator=org.apache.hadoop.yarn.util.resource.DominantResourceCalculator
    start_sidecar fcs "$event_log"
    start_hadoop
    give_way_once vcores
}

part_sizes() {
    write_conf yarn.scheduler.maximum-allocation-mb=1536 yarn.nodemanager.resource.memory-mb=1536
    sed -i 's|<name>mapreduce.reduce.memory.mb</name><value>512</value>|<name>mapreduce.reduce.memory.mb</name><value>1024</value>|
        s|<name>mapreduce.map.memory.mb</name><value>512</value>|<name>mapreduce.map.memory.mb</name><value>1024</value>|' "$conf/mapred-site.xml"
    # Each node has room for one of the reduces and half of another.
    all_reduces_run() { [[ $(app_field "$1" runningContainers) == 4 ]]; }
    start_sidecar fcs "$event_log"
    start_hadoop
    give_way_once sizes
}

# Of each of the long jobs' reduces, for a word.
reduce_ms=${REDUCE_MS:-10000}
for part in "${parts[@]}"; do
    (
        begin_suite "production-$part"
        make_text long 1 100
        make_text short 1 5
        event_log=$work/run.event_log
        "part_$part"
        suite_passed
    )
done
