#!/usr/bin/env bash
# Measures what Giveway costs the ResourceManager: allocations per second, processor time of each, and latency of application masters' heartbeats, with simulated NodeManagers
# and application masters that work as fast as they can. Stock Hadoop (CapacityScheduler alone) and Giveway (plug-in and sidecar) alternate, each in a new process.
#
#   yarn/overhead.sh [NODES] [POLICY]        (default: 1000 nodes, hsrtf-pr)
set -euo pipefail
source "$(dirname "$0")/suite.sh"
nodes=${1:-1000} policy=${2:-hsrtf-pr} rounds=${ROUNDS:-3} applications=${APPLICATIONS:-50} allocations=${ALLOCATIONS:-100000}
begin_suite overhead
fetch_hadoop
build_plugin
build_giveway
write_conf
giveway_conf=$conf
cp -r "$conf" "$work/stock"
# Stock: without the plug-in.
drop() { sed -i "/<name>$1</d" "$work/stock/yarn-site.xml"; }
drop yarn.resourcemanager.application-master-service.processors
drop yarn.scheduler.app-placement-allocator.class
sed -i 's/giveway.yarn.GivewayOrderingPolicy/fifo/' "$work/stock/capacity-scheduler.xml"
sed -i 's/^log4j.rootLogger=.*/log4j.rootLogger=WARN,console/' "$giveway_conf/log4j.properties" "$work/stock/log4j.properties"

# load CONF: one measurement.
load() {
    java -Xmx3g "${add_opens[@]}" -Djava.net.preferIPv4Stack=true -cp "$1:$plugin_jar:$jars/*:$cache/java/test-classes" giveway.yarn.SchedulerLoad \
        giveway "$nodes" "$applications" "$allocations" 2>>"$work/logs/load.log" || fail "see $work/logs/load.log"
}
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ print int(($14 + $15) * 1000 / hz) }' "/proc/$1/stat"; }

log "$nodes nodes with 8 containers each, $applications applications, $allocations allocations after a warm-up of half as many, policy $policy"
for ((round = 1; round <= rounds; round++)); do
    log "stock:   $(load "$work/stock")"
    start_sidecar "$policy" "$work/$round.event_log" --degrade
    log "giveway: $(load "$giveway_conf"); sidecar: $(cpu_ms "$pid_sidecar") ms of processor time in all"
    grep -q 'synchronized with' "$work/logs/sidecar.log" || fail "the sidecar was not used"
    kill "$pid_sidecar" && wait "$pid_sidecar" || fail "the sidecar did not stop cleanly"
done
suite_passed
