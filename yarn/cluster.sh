# Functions that run Hadoop on loopback: a ResourceManager, three NodeManagers and the sidecar; or a NameNode and two DataNodes. Sourced by try.sh and,
# through suite.sh, by the tests.
#
# All files are written under $work. The ids of all started processes are in $work/pids; stop_all ends exactly those.
# shellcheck shell=bash

script_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$script_dir")
hadoop_version=${HADOOP_VERSION:-3.4.3}
cache=${GIVEWAY_CACHE:-${CARGO_TARGET_DIR:-$root/target}/yarn}
jars=$cache/hadoop-$hadoop_version
plugin_jar=$cache/giveway-yarn.jar
nodemanager_jar=$cache/giveway-yarn-nodemanager.jar
giveway=${GIVEWAY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/giveway}
# Seven JVMs run on a small machine: few threads, C1 compiler only, serial collector.
small_jvm=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:CICompilerCount=1 -Xshare:auto -Djava.net.preferIPv4Stack=true)
# Hadoop uses reflection on JDK internals, which Java 17 allows only with these options.
add_opens=(--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED)

log() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }
fail() {
    log "FAILED: $*" >&2
    exit 1
}

fetch_hadoop() {
    local complete
    complete=$jars/.complete-$(cksum <"$script_dir/hadoop/pom.xml" | cut -d ' ' -f 1)
    [[ -e $complete ]] && return
    log "fetching Hadoop $hadoop_version from Maven Central"
    mkdir -p "$jars"
    mvn -q -B -f "$script_dir/hadoop/pom.xml" "-Dhadoop.version=$hadoop_version" dependency:copy-dependencies \
        "-DoutputDirectory=$jars" </dev/null >"$cache/fetch.log" 2>&1 || fail "cannot fetch Hadoop; see $cache/fetch.log"
    touch "$complete"
}

# Builds the jars of the ResourceManager and the NodeManagers, unless they are there and their sources have not changed.
build_plugin() {
    local complete
    complete=$cache/.plugin-$(find "$script_dir/java" "$script_dir/nodemanager" -path '*/target' -prune -o -type f -print0 | sort -z | xargs -0 cat | cksum | cut -d ' ' -f 1)
    [[ -e $complete ]] && return
    log "building the plug-in"
    mvn -q -B -f "$script_dir/java/pom.xml" "-DbuildDirectory=$cache/java" package </dev/null >"$cache/plugin.log" 2>&1 ||
        fail "cannot build the plug-in; see $cache/plugin.log"
    cp "$cache/java/giveway-yarn.jar" "$plugin_jar"
    mvn -q -B -f "$script_dir/nodemanager/pom.xml" "-DbuildDirectory=$cache/nodemanager" package </dev/null >"$cache/nodemanager.log" 2>&1 ||
        fail "cannot build the NodeManagers' jar; see $cache/nodemanager.log"
    cp "$cache/nodemanager/giveway-yarn-nodemanager.jar" "$nodemanager_jar"
    touch "$complete"
}

# build_giveway CARGO_OPTION...: unless GIVEWAY_BIN names a binary.
build_giveway() {
    [[ -n ${GIVEWAY_BIN:-} ]] && return
    log "building giveway"
    (cd "$root" && cargo build --release --locked --quiet "$@")
}

property() { printf '<property><name>%s</name><value>%s</value></property>\n' "$1" "$2"; }

# site FILE NAME=VALUE...: writes a Hadoop configuration file.
site() {
    local file=$1 pair
    shift
    {
        echo '<configuration>'
        for pair in "$@"; do property "${pair%%=*}" "${pair#*=}"; done
        echo '</configuration>'
    } >"$file"
}

# Sets base_port such that it and the next 13 ports are free.
free_ports() {
    base_port=$((20000 + RANDOM % 10000))
    for port in {0..13}; do
        if (exec 3<>"/dev/tcp/127.0.0.1/$((base_port + port))") 2>/dev/null; then
            free_ports
            return
        fi
    done
}

log_to_stderr() {
    cat >"$conf/log4j.properties" <<'LOG4J'
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
LOG4J
}

# write_conf PROPERTY=VALUE...: the arguments are added to yarn-site.xml. Two leaf queues: `stock` with Hadoop's FIFO ordering policy, `giveway` with Giveway's. Either may use the whole cluster.
write_conf() {
    conf=$work/conf
    mkdir -p "$conf" "$work/logs"
    (umask 077 && head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/token")
    free_ports
    sidecar_address=127.0.0.1:$((base_port + 5))
    local executor=(yarn.nodemanager.container-executor.class=giveway.yarn.nodemanager.GivewayContainerExecutor)
    if [[ -n ${CONTAINER_EXECUTOR:-} ]]; then
        executor=(
            yarn.nodemanager.container-executor.class=org.apache.hadoop.yarn.server.nodemanager.GivewayLinuxContainerExecutor
            "yarn.nodemanager.linux-container-executor.path=$CONTAINER_EXECUTOR"
            "yarn.nodemanager.linux-container-executor.group=$(id -gn)"
            yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users=false
        )
    fi
    local java_opts="-Xmx160m ${small_jvm[*]} ${add_opens[*]}"
    site "$conf/core-site.xml" fs.defaultFS=file:/// "hadoop.tmp.dir=$work/tmp" hadoop.security.authentication=simple \
        hadoop.caller.context.enabled=false ipc.client.connect.max.retries=3
    site "$conf/yarn-site.xml" \
        yarn.resourcemanager.hostname=127.0.0.1 \
        "yarn.resourcemanager.address=127.0.0.1:$base_port" \
        "yarn.resourcemanager.scheduler.address=127.0.0.1:$((base_port + 1))" \
        "yarn.resourcemanager.resource-tracker.address=127.0.0.1:$((base_port + 2))" \
        "yarn.resourcemanager.admin.address=127.0.0.1:$((base_port + 3))" \
        "yarn.resourcemanager.webapp.address=127.0.0.1:$((base_port + 4))" \
        yarn.resourcemanager.scheduler.class=org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler \
        yarn.resourcemanager.application-master-service.processors=giveway.yarn.GivewayProcessor \
        "giveway.sidecar.address=$sidecar_address" \
        "giveway.token.file=$work/token" \
        yarn.resourcemanager.nodemanagers.heartbeat-interval-ms=200 \
        yarn.resourcemanager.connect.retry-interval.ms=1000 \
        yarn.scheduler.minimum-allocation-mb=512 \
        yarn.scheduler.maximum-allocation-mb=1024 \
        yarn.resourcemanager.auto-update.containers=true \
        yarn.scheduler.app-placement-allocator.class=giveway.yarn.GivewayAppPlacementAllocator \
        "${executor[@]}" \
        yarn.nodemanager.containers-launcher.class=org.apache.hadoop.yarn.server.nodemanager.containermanager.launcher.GivewayContainersLauncher \
        yarn.nodemanager.opportunistic-containers-max-queue-length=100 \
        yarn.nodemanager.opportunistic-containers-use-pause-for-preemption=true \
        "yarn.node-attribute.fs-store.root-dir=file://$work/node-attribute" \
        yarn.nodemanager.resource.memory-mb=1024 \
        yarn.nodemanager.resource.cpu-vcores=8 \
        yarn.nodemanager.pmem-check-enabled=false \
        yarn.nodemanager.vmem-check-enabled=false \
        yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage=100 \
        yarn.nodemanager.aux-services=mapreduce_shuffle \
        yarn.nodemanager.aux-services.mapreduce_shuffle.class=org.apache.hadoop.mapred.ShuffleHandler \
        yarn.nodemanager.delete.debug-delay-sec=0 \
        yarn.log-aggregation-enable=false \
        "yarn.application.classpath=$conf,$jars/*" "$@"
    site "$conf/mapred-site.xml" \
        mapreduce.framework.name=yarn \
        mapreduce.jobhistory.address= \
        "mapreduce.application.classpath=$conf,$jars/*,$cache/java/test-classes" \
        "yarn.app.mapreduce.am.staging-dir=$work/staging" \
        yarn.app.mapreduce.am.resource.mb=512 \
        mapreduce.map.memory.mb=512 \
        mapreduce.reduce.memory.mb=512 \
        "yarn.app.mapreduce.am.command-opts=$java_opts" \
        "mapreduce.map.java.opts=$java_opts" \
        "mapreduce.reduce.java.opts=$java_opts" \
        mapreduce.task.io.sort.mb=10 \
        yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms=200 \
        mapreduce.map.speculative=false \
        mapreduce.reduce.speculative=false \
        mapreduce.client.progressmonitor.pollinterval=200 \
        mapreduce.client.completion.pollinterval=200
    local q=yarn.scheduler.capacity
    site "$conf/capacity-scheduler.xml" \
        $q.root.queues=stock,giveway $q.maximum-am-resource-percent=1.0 \
        $q.root.stock.capacity=50 $q.root.stock.maximum-capacity=100 $q.root.stock.user-limit-factor=10 \
        $q.root.stock.ordering-policy=fifo \
        $q.root.giveway.capacity=50 $q.root.giveway.maximum-capacity=100 $q.root.giveway.user-limit-factor=10 \
        $q.root.giveway.ordering-policy=giveway.yarn.GivewayOrderingPolicy \
        $q.root.giveway.disable_preemption=true \
        $q.node-locality-delay=-1
    log_to_stderr
}

# Block size 512 KiB, replication factor 1.
write_hdfs_conf() {
    conf=$work/conf
    # The daemons do not start without these directories for web pages, which the jars do not contain.
    mkdir -p "$conf/webapps/hdfs" "$conf/webapps/datanode" "$work/logs"
    free_ports
    namenode_address=127.0.0.1:$base_port
    webhdfs_address=127.0.0.1:$((base_port + 1))
    site "$conf/core-site.xml" "fs.defaultFS=hdfs://$namenode_address" "hadoop.tmp.dir=$work/tmp" hadoop.security.authentication=simple
    site "$conf/hdfs-site.xml" \
        "dfs.namenode.rpc-address=$namenode_address" \
        "dfs.namenode.http-address=$webhdfs_address" \
        "dfs.namenode.name.dir=$work/name" \
        dfs.namenode.fs-limits.min-block-size=1024 \
        dfs.namenode.safemode.extension=0 \
        dfs.namenode.resource.du.reserved=0 \
        dfs.namenode.datanode.registration.ip-hostname-check=false \
        dfs.blocksize=524288 \
        dfs.replication=1 \
        dfs.heartbeat.interval=1 \
        dfs.datanode.address=127.0.0.1:0 \
        dfs.datanode.ipc.address=127.0.0.1:0 \
        dfs.datanode.http.address=127.0.0.1:0
    log_to_stderr
}

# start NAME COMMAND...: starts a process in the background, with its id in pid_NAME and in $work/pids and its output in $work/logs/NAME.log.
start() {
    local name=$1
    shift
    "$@" </dev/null >>"$work/logs/$name.log" 2>&1 &
    printf -v "pid_$name" %s "$!"
    echo "$!" >>"$work/pids"
}

# run_java HEAP ARGUMENT...
run_java() {
    local heap=$1
    shift
    java "-Xmx$heap" "${small_jvm[@]}" "${add_opens[@]}" -cp "$conf:$plugin_jar:$jars/*:$cache/java/test-classes" "$@"
}

# start_sidecar POLICY EVENT_LOG OPTION...
start_sidecar() {
    local policy=$1 event_log=$2
    shift 2
    start sidecar "$giveway" yarn --policy "$policy" --listen "$sidecar_address" --token-file "$work/token" --event-log "$event_log" "$@"
}

start_resourcemanager() {
    start resourcemanager java -Xmx400m "${small_jvm[@]}" "${add_opens[@]}" -cp "$conf:$plugin_jar:$jars/*" \
        org.apache.hadoop.yarn.server.resourcemanager.ResourceManager
}

start_hadoop() {
    start_resourcemanager
    local node
    for node in 1 2 3; do start_node "$node"; done
    wait_for 180 "three NodeManagers" three_nodes
}

# start_node N: starts the NodeManager of host 127.0.0.(N + 1), with the property NAME=VALUE of node_property[N], if there is one. Each has a host of its own, because
# YARN promotes containers by host.
declare -A node_property
start_node() {
    local host=127.0.0.$(($1 + 1))
    mkdir -p "$work/node$1"
    start "node$1" java -Xmx200m "${small_jvm[@]}" "${add_opens[@]}" -cp "$conf:$nodemanager_jar:$jars/*" \
        org.apache.hadoop.yarn.server.nodemanager.NodeManager \
        -D "yarn.nodemanager.hostname=$host" -D "yarn.nodemanager.bind-host=$host" -D "yarn.nodemanager.address=$host:$((base_port + 7))" \
        -D "yarn.nodemanager.localizer.address=$host:$((base_port + 8))" -D "yarn.nodemanager.webapp.address=$host:$((base_port + 9))" \
        -D "yarn.nodemanager.local-dirs=$work/node$1/local" -D "yarn.nodemanager.log-dirs=$work/node$1/logs" \
        -D "yarn.nodemanager.recovery.dir=$work/node$1/recovery" -D "mapreduce.shuffle.port=$((base_port + 10 + $1))" ${node_property[$1]:+-D "${node_property[$1]}"}
}

start_namenode() {
    start namenode java -Xmx256m "${small_jvm[@]}" "${add_opens[@]}" -cp "$conf:$jars/*" org.apache.hadoop.hdfs.server.namenode.NameNode
}

# A NameNode, and two DataNodes with the host names alpha and beta, so that block locations differ although there is one machine.
start_hdfs() {
    run_java 160m org.apache.hadoop.hdfs.server.namenode.NameNode -format -nonInteractive </dev/null >>"$work/logs/format.log" 2>&1 ||
        fail "cannot format the NameNode; see $work/logs/format.log"
    start_namenode
    local name
    for name in alpha beta; do
        start "$name" java -Xmx160m "${small_jvm[@]}" "${add_opens[@]}" -cp "$conf:$jars/*" \
            org.apache.hadoop.hdfs.server.datanode.DataNode -D "dfs.datanode.data.dir=$work/$name" -D "dfs.datanode.hostname=$name"
    done
    wait_for 90 "two DataNodes" two_datanodes
}

hdfs_state() { curl -s --max-time 5 "http://$webhdfs_address/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"; }
two_datanodes() { hdfs_state | grep -q '"NumLiveDataNodes" : 2'; }

rm_rest() { curl -s --max-time 5 "http://127.0.0.1:$((base_port + 4))/ws/v1/cluster/$1"; }
three_nodes() { rm_rest metrics | grep -q '"activeNodes":3'; }
no_containers() { rm_rest metrics | grep -q '"containersAllocated":0'; }

# wait_for SECONDS WHAT COMMAND...: repeats the command until it succeeds; fails after the given time.
wait_for() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || fail "timed out waiting for: $what; see $work/logs"
        sleep 0.3
    done
}

# kill_containers DIRECTORY: kills the processes with a path in a NodeManager's directory on their command line, which are its containers.
kill_containers() { for pid in $(pgrep -f -- "$1"); do kill -9 "$pid" 2>/dev/null || true; done; }

# Ends all started processes: SIGTERM, then SIGKILL after ten seconds.
stop_all() {
    local pid
    [[ -e $work/pids ]] || return 0
    while read -r pid; do kill "$pid" 2>/dev/null || true; done <"$work/pids"
    for _ in {1..50}; do
        local left=0
        while read -r pid; do kill -0 "$pid" 2>/dev/null && left=1; done <"$work/pids"
        ((left)) || break
        sleep 0.2
    done
    while read -r pid; do kill -9 "$pid" 2>/dev/null || true; done <"$work/pids"
    # A NodeManager that can recover its containers leaves them alone.
    kill_containers "$work/node"
    # Clients of jobs that were still running would look for the ResourceManager for a long time.
    # shellcheck disable=SC2046 # several numbers
    for pid in $(jobs -pr); do kill $(ps -o pid= --ppid "$pid") "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
}

# run_example QUEUE NAME PROGRAM ARGUMENT...: runs one of Hadoop's MapReduce examples and waits for it. NAME becomes the application's tag.
run_example() {
    local queue=$1 name=$2 program=$3
    shift 3
    run_java 160m org.apache.hadoop.examples.ExampleDriver "$program" "-Dmapreduce.job.queuename=$queue" "-Dmapreduce.job.tags=$name" "$@" \
        </dev/null >>"$work/logs/$name.log" 2>&1
}
