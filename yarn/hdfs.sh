#!/usr/bin/env bash
# Jobs that read from a real HDFS: a NameNode and two DataNodes, files in small blocks that Hadoop's own shell puts there.
#
# 1. Word count, sort and grep, from a file of many blocks, a folder, a glob and a packed file: outputs are compared with sort, uniq and the like, byte for byte.
# 2. The job's tape must know of each split which workers are near, as WebHDFS tells it, and most maps must have run there.
# 3. Without WebHDFS: one line, and the same output.
# 4. What goes wrong is said: a path that is missing, no DataNode at all, no NameNode. A DataNode that dies and a
#    NameNode that is restarted while a job reads make no difference.
#
# GIVEWAY_BIN must have been built with `--features hdfs`.
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/giveway-hdfs.XXXXXX")
home=$work/home
began=$SECONDS
finish() {
    local code=$?
    "$giveway" down --dir "$home" >/dev/null 2>&1 || true
    stop_all
    if ((code == 0)); then
        rm -rf "$work"
    else
        say "left for a look: $work" >&2
        tail -n 5 "$work"/logs/*.log >&2 2>/dev/null || true
    fi
}
trap finish EXIT

fetch_hadoop
build_giveway --features hdfs
write_hdfs_conf
export HADOOP_CONF_DIR=$conf
hdfs=hdfs://$namenode_at

say "starting a NameNode and two DataNodes"
start_hdfs

# Twelve megabytes of lines of no to sixteen words, cut by blocks wherever it happens.
mkdir -p "$work/in/words"
awk 'BEGIN {
    srand(7)
    while (bytes < 12000000) {
        line = ""
        for (word = int(rand() * 17); word > 0; word--) line = line "w" int(rand() * rand() * 20000) (word > 1 ? " " : "")
        print line
        bytes += length(line) + 1
    }
}' >"$work/in/words/text"
head -c 3000000 "$work/in/words/text" | gzip >"$work/in/packed.gz"
mkdir -p "$work/in/words/.hidden" && echo hidden >"$work/in/words/.hidden/file"
# counted FILE...: what counting their words must give.
counted() { cat "$@" | tr ' ' '\n' | grep . | LC_ALL=C sort | LC_ALL=C uniq -c | awk '{print $2 "\t" $1}'; }
counted "$work/in/words/text" >"$work/words.expected"
gunzip <"$work/in/packed.gz" | counted "$work/in/words/text" - >"$work/all.expected"
LC_ALL=C sort "$work/in/words/text" >"$work/sorted.expected"
grep w1 "$work/in/words/text" >"$work/found.expected"
# Java takes names as the locale says.
put() { LC_ALL=C.UTF-8 java_of 160m org.apache.hadoop.fs.FsShell "$@" </dev/null >>"$work/logs/put.log" 2>&1 || fail "Hadoop's shell could not put; see $work/logs/put.log"; }
put -put "$work/in" /in
put -D dfs.replication=2 -put "$work/in/words/text" '/in/twice é%20.txt'
said() { grep -q -- "$1" "$2" || fail "not said: $1; see $2"; }

say "starting a cluster with a worker on this machine, which is near everything, and one each that counts as standing on alpha and beta"
start up "$giveway" up --dir "$home" --nodes 1
ask() { "$giveway" "$@" --dir "$home"; }
nodes_up() { [[ $(ask nodes | grep -c ' up ') == "$1" ]]; }
wait_for 60 "a cluster" nodes_up 1
start worker_alpha "$giveway" worker --join "$home" --name worker-alpha --host alpha
wait_for 60 "the worker on alpha" nodes_up 2
start worker_beta "$giveway" worker --join "$home" --name worker-beta --host beta
wait_for 60 "the worker on beta" nodes_up 3

say "word count"
ask submit wordcount --input "$hdfs/in/words" --output "$work/out/words" --reduces 1 --wait
diff "$work/out/words/part-r-00000" "$work/words.expected" >/dev/null || fail "the words are counted wrongly"

# The tape: split by split the nodes that are near, and launch by launch split, node and how near it was.
"$giveway" replay --open --list "$home/journal/event-log" >"$work/tape"
curl -s "http://$webhdfs_at/webhdfs/v1/in/words/text?op=GETFILEBLOCKLOCATIONS" | grep -o '"hosts":\["[a-z]*"\]' | grep -o 'alpha\|beta' >"$work/places"
grep -o 'Split { bytes: [0-9]*, hosts: [^]]*\]' "$work/tape" | sed 's/.*hosts: //; s/NodeId//g' >"$work/splits"
sed 's/alpha/[(0), (1)]/; s/beta/[(0), (2)]/' "$work/places" | diff - "$work/splits" >/dev/null || fail "splits do not lie where WebHDFS says; see $work/tape"
(($(sort -u "$work/places" | wc -l) == 2)) || fail "all blocks are in one place, which shows nothing; run it again"
grep -o 'node: NodeId([0-9]*), work: Map { split: [0-9]*, start_bytes: 0, bytes: [0-9]*, locality: [A-Za-z]*' "$work/tape" |
    sed 's/[^0-9]*\([0-9]*\)[^0-9]*\([0-9]*\).*locality: /\1 \2 /' >"$work/launches"
awk 'NR == FNR { place[FNR - 1] = ($1 == "alpha" ? 1 : 2); next }
    { near = ($1 == 0 || $1 == place[$2]); if (near != ($3 == "Node")) exit 1; ran[$1] += near; all += near }
    END { if (!(ran[0] && ran[1] && ran[2]) || all * 2 < NR - FNR) exit 1 }' "$work/places" "$work/launches" ||
    fail "maps did not run near their data, or it was not seen; see $work/launches"
say "$(wc -l <"$work/splits") splits, $(grep -c Node "$work/launches") of $(wc -l <"$work/launches") maps near their data, on all three workers"

run() { "$giveway" run "$@" --nodes 2 2>"$work/logs/run.log"; }
same() { cat "$work/out/$1"/part-* | diff - "$work/$2.expected" >/dev/null || fail "$1: the output is wrong"; }
say "sort, in three parts; a glob, a folder and what is packed; the NameNode from the configuration"
run sort --input "$hdfs/in/words/te?t" --output "$work/out/sorted" --reduces 3
same sorted sorted
run wordcount --input hdfs:///in/words "$hdfs/in/*.gz" --output "$work/out/all" --reduces 1
same all all
run wordcount --input "$hdfs/in/twice é%20.txt" --output "$work/out/named" --reduces 1
same named words

say "without WebHDFS"
mkdir "$work/blind"
site "$work/blind/hdfs-site.xml" "dfs.namenode.http-address=127.0.0.1:$((base + 2))"
HADOOP_CONF_DIR=$work/blind run wordcount --input "$hdfs/in/words" "$hdfs/in/packed.gz" --output "$work/out/blind" --reduces 1
same blind all
said 'does not tell where blocks' "$work/logs/run.log"

# refused WHAT...: giveway run ends with 2 and says this, and soon.
refused() {
    local what=$1 code=0 from=$SECONDS
    shift
    run wordcount "$@" --output "$work/out/refused" || code=$?
    ((code == 2)) || fail "exit code $code and not 2; see $work/logs/run.log"
    said "$what" "$work/logs/run.log"
    ((SECONDS - from < 45)) || fail "it took $((SECONDS - from)) s to say so"
    say "$(grep "$what" "$work/logs/run.log" | sed "s#$hdfs#hdfs://...#g; s#$namenode_at#...#g")"
}
say "what goes wrong"
refused 'it does not exist; check the spelling' --input "$hdfs/in/none"
refused 'matches no file' --input "$hdfs/in/none-*"
die() { kill -9 "$1" && wait "$1" 2>/dev/null || true; }
ask submit grep -O pattern=w1 --input "$hdfs/in/twice é%20.txt" --output "$work/out/found" --records-per-second 20000 >"$work/id"
maps_done() { ask job "$(<"$work/id")" | grep -Eq '^maps +[1-9][0-9]*/'; }
is_done() { ask job "$(<"$work/id")" | grep -q ': done$'; }
wait_for 60 "maps are done" maps_done
ask yield "$(<"$work/id")"
die "$pid_alpha"
die "$pid_namenode"
start_namenode
wait_for 120 "the job is done" is_done
same found found
ask job "$(<"$work/id")" | grep -q ' [1-9][0-9]* early ends' || fail "no map ended early"
say "maps ended early, a DataNode died and the NameNode was restarted on the way: nothing is wrong or missing"
die "$pid_beta"
refused 'no DataNode that should have the block gives it' --input "$hdfs/in/twice é%20.txt"
die "$pid_namenode"
refused "the NameNode at $namenode_at cannot be reached" --input "$hdfs/in/words"
[[ ! -e $work/out/refused ]] || fail "what was refused has left an output"
say "all of it held, in $((SECONDS - began)) s"
