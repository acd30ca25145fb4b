# A real Hadoop on loopback: a ResourceManager, three NodeManagers, and the sidecar beside them; or a NameNode and two DataNodes. Sourced by try.sh, e2e.sh
# and hdfs.sh.
#
# Everything it writes lies under $work, everything it starts is in $work/pids, and stop_all ends exactly those processes.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
hadoop_version=${HADOOP_VERSION:-3.4.3}
cache=${GIVEWAY_CACHE:-${CARGO_TARGET_DIR:-$root/target}/yarn}
jars=$cache/hadoop-$hadoop_version
plugin=$cache/giveway-yarn.jar
giveway=${GIVEWAY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/giveway}
# Small machines run seven JVMs here: few threads, the quick compiler, the simple collector.
thrifty=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:CICompilerCount=1 -Xshare:auto -Djava.net.preferIPv4Stack=true)
# Hadoop reaches into the JDK in ways that Java 17 wants to be told of.
opened=(--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED)

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}

fetch_hadoop() {
    local whole
    whole=$jars/.whole-$(cksum <"$here/hadoop/pom.xml" | cut -d ' ' -f 1)
    [[ -e $whole ]] && return
    say "fetching Hadoop $hadoop_version from Maven Central"
    mkdir -p "$jars"
    mvn -q -B -f "$here/hadoop/pom.xml" "-Dhadoop.version=$hadoop_version" dependency:copy-dependencies \
        "-DoutputDirectory=$jars" </dev/null >"$cache/fetch.log" 2>&1 || fail "Maven could not fetch Hadoop; see $cache/fetch.log"
    touch "$whole"
}

build_plugin() {
    say "building the plug-in"
    mvn -q -B -f "$here/java/pom.xml" "-DbuildDirectory=$cache/java" package </dev/null >"$cache/plugin.log" 2>&1 ||
        fail "Maven could not build the plug-in; see $cache/plugin.log"
    cp "$cache/java/giveway-yarn.jar" "$plugin"
}

build_giveway() { # OPTIONS OF CARGO...
    [[ -n ${GIVEWAY_BIN:-} ]] && return
    say "building giveway"
    (cd "$root" && cargo build --release --locked --quiet "$@")
}

property() { printf '<property><name>%s</name><value>%s</value></property>\n' "$1" "$2"; }

# site FILE NAME=VALUE...
site() {
    local file=$1 pair
    shift
    {
        echo '<configuration>'
        for pair in "$@"; do property "${pair%%=*}" "${pair#*=}"; done
        echo '</configuration>'
    } >"$file"
}

free_ports() {
    base=$((20000 + RANDOM % 20000))
    for port in 0 1 2 3 4 5; do
        if (exec 3<>"/dev/tcp/127.0.0.1/$((base + port))") 2>/dev/null; then
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

# Two leaf queues, `stock` ordered by Hadoop's FIFO and `ours` by the sidecar; either may use the whole cluster.
write_conf() {
    conf=$work/conf
    mkdir -p "$conf" "$work/logs"
    (umask 077 && head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/token")
    free_ports
    sidecar_at=127.0.0.1:$((base + 5))
    local java_opts="-Xmx160m ${thrifty[*]} ${opened[*]}"
    site "$conf/core-site.xml" fs.defaultFS=file:/// "hadoop.tmp.dir=$work/tmp" hadoop.security.authentication=simple \
        hadoop.caller.context.enabled=false ipc.client.connect.max.retries=3
    site "$conf/yarn-site.xml" \
        yarn.resourcemanager.hostname=127.0.0.1 \
        "yarn.resourcemanager.address=127.0.0.1:$base" \
        "yarn.resourcemanager.scheduler.address=127.0.0.1:$((base + 1))" \
        "yarn.resourcemanager.resource-tracker.address=127.0.0.1:$((base + 2))" \
        "yarn.resourcemanager.admin.address=127.0.0.1:$((base + 3))" \
        "yarn.resourcemanager.webapp.address=127.0.0.1:$((base + 4))" \
        yarn.resourcemanager.scheduler.class=org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler \
        yarn.resourcemanager.application-master-service.processors=giveway.yarn.GivewayProcessor \
        "giveway.sidecar.address=$sidecar_at" \
        "giveway.token.file=$work/token" \
        yarn.resourcemanager.nodemanagers.heartbeat-interval-ms=200 \
        yarn.scheduler.minimum-allocation-mb=512 \
        yarn.scheduler.maximum-allocation-mb=1024 \
        yarn.scheduler.include-port-in-node-name=true \
        yarn.nodemanager.hostname=127.0.0.1 \
        yarn.nodemanager.bind-host=127.0.0.1 \
        yarn.nodemanager.address=127.0.0.1:0 \
        yarn.nodemanager.localizer.address=127.0.0.1:0 \
        yarn.nodemanager.webapp.address=127.0.0.1:0 \
        yarn.nodemanager.resource.memory-mb=1024 \
        yarn.nodemanager.resource.cpu-vcores=8 \
        yarn.nodemanager.pmem-check-enabled=false \
        yarn.nodemanager.vmem-check-enabled=false \
        yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage=100 \
        yarn.nodemanager.aux-services=mapreduce_shuffle \
        yarn.nodemanager.aux-services.mapreduce_shuffle.class=org.apache.hadoop.mapred.ShuffleHandler \
        yarn.nodemanager.delete.debug-delay-sec=0 \
        yarn.log-aggregation-enable=false \
        "yarn.application.classpath=$conf,$jars/*"
    site "$conf/mapred-site.xml" \
        mapreduce.framework.name=yarn \
        mapreduce.shuffle.port=0 \
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
        $q.root.queues=stock,ours $q.maximum-am-resource-percent=1.0 \
        $q.root.stock.capacity=50 $q.root.stock.maximum-capacity=100 $q.root.stock.user-limit-factor=10 \
        $q.root.stock.ordering-policy=fifo \
        $q.root.ours.capacity=50 $q.root.ours.maximum-capacity=100 $q.root.ours.user-limit-factor=10 \
        $q.root.ours.ordering-policy=giveway.yarn.GivewayOrderingPolicy \
        $q.node-locality-delay=-1
    log_to_stderr
}

# Files in small blocks, one replica of each unless asked otherwise.
write_hdfs_conf() {
    conf=$work/conf
    # The jars have no web pages, and the daemons do not start without the folders for them.
    mkdir -p "$conf/webapps/hdfs" "$conf/webapps/datanode" "$work/logs"
    free_ports
    namenode_at=127.0.0.1:$base
    webhdfs_at=127.0.0.1:$((base + 1))
    site "$conf/core-site.xml" "fs.defaultFS=hdfs://$namenode_at" "hadoop.tmp.dir=$work/tmp" hadoop.security.authentication=simple
    site "$conf/hdfs-site.xml" \
        "dfs.namenode.rpc-address=$namenode_at" \
        "dfs.namenode.http-address=$webhdfs_at" \
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

# start NAME COMMAND...: starts a process of ours and remembers its id in pid_NAME and in $work/pids.
start() {
    local name=$1
    shift
    "$@" </dev/null >>"$work/logs/$name.log" 2>&1 &
    printf -v "pid_$name" %s "$!"
    echo "$!" >>"$work/pids"
}

java_of() { # HEAP ARGUMENTS...
    local heap=$1
    shift
    java "-Xmx$heap" "${thrifty[@]}" "${opened[@]}" -cp "$conf:$plugin:$jars/*:$cache/java/test-classes" "$@"
}

start_sidecar() { # POLICY TAPE
    start sidecar "$giveway" yarn --policy "$1" --listen "$sidecar_at" --token-file "$work/token" --tape "$2"
}

start_hadoop() {
    start resourcemanager java -Xmx400m "${thrifty[@]}" "${opened[@]}" -cp "$conf:$plugin:$jars/*" \
        org.apache.hadoop.yarn.server.resourcemanager.ResourceManager
    local node
    for node in 1 2 3; do
        mkdir -p "$work/node$node"
        start "node$node" java -Xmx200m "${thrifty[@]}" "${opened[@]}" -cp "$conf:$jars/*" \
            org.apache.hadoop.yarn.server.nodemanager.NodeManager \
            -D "yarn.nodemanager.local-dirs=$work/node$node/local" -D "yarn.nodemanager.log-dirs=$work/node$node/logs"
    done
    wait_for 90 "three NodeManagers" three_nodes
}

start_namenode() {
    start namenode java -Xmx256m "${thrifty[@]}" "${opened[@]}" -cp "$conf:$jars/*" org.apache.hadoop.hdfs.server.namenode.NameNode
}

# A NameNode, and two DataNodes that call their machines alpha and beta, so that places differ on one machine.
start_hdfs() {
    java_of 160m org.apache.hadoop.hdfs.server.namenode.NameNode -format -nonInteractive </dev/null >>"$work/logs/format.log" 2>&1 ||
        fail "the NameNode could not be made; see $work/logs/format.log"
    start_namenode
    local name
    for name in alpha beta; do
        start "$name" java -Xmx160m "${thrifty[@]}" "${opened[@]}" -cp "$conf:$jars/*" \
            org.apache.hadoop.hdfs.server.datanode.DataNode -D "dfs.datanode.data.dir=$work/$name" -D "dfs.datanode.hostname=$name"
    done
    wait_for 90 "two DataNodes" two_datanodes
}

hdfs_state() { curl -s --max-time 5 "http://$webhdfs_at/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"; }
two_datanodes() { hdfs_state | grep -q '"NumLiveDataNodes" : 2'; }

rest() { curl -s --max-time 5 "http://127.0.0.1:$((base + 4))/ws/v1/cluster/$1"; }
three_nodes() { rest metrics | grep -q '"activeNodes":3'; }
idle() { rest metrics | grep -q '"containersAllocated":0'; }

# wait_for SECONDS WHAT COMMAND...
wait_for() {
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < until)) || fail "$what: not in time; see $work/logs"
        sleep 0.3
    done
}

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
    wait 2>/dev/null || true
}

# example QUEUE NAME PROGRAM ARGUMENTS...: runs one of Hadoop's examples to its end.
example() {
    local queue=$1 name=$2 program=$3
    shift 3
    java_of 160m org.apache.hadoop.examples.ExampleDriver "$program" "-Dmapreduce.job.queuename=$queue" "-Dmapreduce.job.tags=$name" "$@" \
        </dev/null >>"$work/logs/$name.log" 2>&1
}
