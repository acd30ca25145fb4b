#!/usr/bin/env bash
# End-to-end test of jobs that read from HDFS: a NameNode, two DataNodes, and files in small blocks written with Hadoop's file system shell.
#
# 1. Word count, sort and grep on a file of many blocks, a directory, a glob and a compressed file: outputs are compared byte for byte with those of sort, uniq, grep.
# 2. The event log must have the local workers of each split, as reported by WebHDFS, and most maps must have run node-local.
# 3. Without WebHDFS: one log line, and the same output.
# 4. Clear errors for a missing path, no live DataNode, no NameNode. The loss of a DataNode and a restart of the NameNode while a job reads do not affect its output.
#
# GIVEWAY_BIN must have been built with `--features hdfs`.
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/giveway-hdfs.XXXXXX")
cluster_dir=$work/cluster
started_at=$SECONDS
finish() {
    local code=$?
    "$giveway" down --dir "$cluster_dir" >/dev/null 2>&1 || true
    stop_all
    if ((code == 0)); then
        rm -rf "$work"
    else
        log "files kept in $work" >&2
        tail -n 5 "$work"/logs/*.log >&2 2>/dev/null || true
    fi
}
trap finish EXIT

fetch_hadoop
build_giveway --features hdfs
write_hdfs_conf
export HADOOP_CONF_DIR=$conf
hdfs=hdfs://$namenode_address

log "starting a NameNode and two DataNodes"
start_hdfs

# 12 MB of lines with 0 to 16 words. Block boundaries fall within lines.
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
head -c 3000000 "$work/in/words/text" | gzip >"$work/in/compressed.gz"
mkdir -p "$work/in/words/.hidden" && echo hidden >"$work/in/words/.hidden/file"
# word_counts FILE...: the expected output of a word count.
word_counts() { cat "$@" | tr ' ' '\n' | grep . | LC_ALL=C sort | LC_ALL=C uniq -c | awk '{print $2 "\t" $1}'; }
word_counts "$work/in/words/text" >"$work/words.expected"
gunzip <"$work/in/compressed.gz" | word_counts "$work/in/words/text" - >"$work/all.expected"
LC_ALL=C sort "$work/in/words/text" >"$work/sorted.expected"
grep w1 "$work/in/words/text" >"$work/found.expected"
# Java encodes file names by the locale.
hdfs_shell() { LC_ALL=C.UTF-8 run_java 160m org.apache.hadoop.fs.FsShell "$@" </dev/null >>"$work/logs/put.log" 2>&1 || fail "the HDFS shell failed; see $work/logs/put.log"; }
hdfs_shell -put "$work/in" /in
hdfs_shell -D dfs.replication=2 -put "$work/in/words/text" '/in/twice é%20.txt'
expect_line() { grep -q -- "$1" "$2" || fail "missing output: $1; see $2"; }

log "starting a cluster: a worker on this machine, which is local to every block, and workers with the host names alpha and beta"
start up "$giveway" up --dir "$cluster_dir" --nodes 1
client() { "$giveway" "$@" --dir "$cluster_dir"; }
nodes_up() { [[ $(client nodes | grep -c $'\tup\t') == "$1" ]]; }
wait_for 60 "the cluster" nodes_up 1
start worker_alpha "$giveway" worker --join "$cluster_dir" --name worker-alpha --host alpha
wait_for 60 "the worker on alpha" nodes_up 2
start worker_beta "$giveway" worker --join "$cluster_dir" --name worker-beta --host beta
wait_for 60 "the worker on beta" nodes_up 3

log "word count"
client submit wordcount --input "$hdfs/in/words" --output "$work/out/words" --reduces 1 --wait
diff "$work/out/words/part-r-00000" "$work/words.expected" >/dev/null || fail "wrong word counts"

# From the event log: the local nodes of each split; and split, node and locality of each launch.
"$giveway" replay --open --list "$cluster_dir/journal/log" >"$work/listing"
curl -s "http://$webhdfs_address/webhdfs/v1/in/words/text?op=GETFILEBLOCKLOCATIONS" | grep -o '"hosts":\["[a-z]*"\]' | grep -o 'alpha\|beta' >"$work/locations"
grep -o 'Split { bytes: [0-9]*, hosts: [^]]*\]' "$work/listing" | sed 's/.*hosts: //; s/NodeId//g' >"$work/splits"
sed 's/alpha/[(0), (1)]/; s/beta/[(0), (2)]/' "$work/locations" | diff - "$work/splits" >/dev/null || fail "the local nodes of the splits differ from WebHDFS; see $work/listing"
(($(sort -u "$work/locations" | wc -l) == 2)) || fail "all blocks are on one DataNode, which tests nothing; run again"
grep -o 'node: NodeId([0-9]*), work: Map { split: [0-9]*, start_bytes: 0, bytes: [0-9]*, locality: [A-Za-z]*' "$work/listing" |
    sed 's/[^0-9]*\([0-9]*\)[^0-9]*\([0-9]*\).*locality: /\1 \2 /' >"$work/launches"
awk 'NR == FNR { node[FNR - 1] = ($1 == "alpha" ? 1 : 2); next }
    { is_local = ($1 == 0 || $1 == node[$2]); if (is_local != ($3 == "Node")) exit 1; ran[$1] += is_local; all += is_local }
    END { if (!(ran[0] && ran[1] && ran[2]) || all * 2 < NR - FNR) exit 1 }' "$work/locations" "$work/launches" ||
    fail "maps did not run node-local, or the recorded locality is wrong; see $work/launches"
log "$(wc -l <"$work/splits") splits, $(grep -c Node "$work/launches") of $(wc -l <"$work/launches") maps node-local, on all three workers"

run_job() { "$giveway" run "$@" --nodes 2 2>"$work/logs/run.log"; }
expect_output() { cat "$work/out/$1"/part-* | diff - "$work/$2.expected" >/dev/null || fail "$1: wrong output"; }
log "sort with three reduces; a glob, a directory and a compressed file; the NameNode from the configuration"
run_job sort --input "$hdfs/in/words/te?t" --output "$work/out/sorted" --reduces 3
expect_output sorted sorted
run_job wordcount --input hdfs:///in/words "$hdfs/in/*.gz" --output "$work/out/all" --reduces 1
expect_output all all
run_job wordcount --input "$hdfs/in/twice é%20.txt" --output "$work/out/named" --reduces 1
expect_output named words

log "without WebHDFS"
mkdir "$work/no_webhdfs"
site "$work/no_webhdfs/hdfs-site.xml" "dfs.namenode.http-address=127.0.0.1:$((base_port + 2))"
HADOOP_CONF_DIR=$work/no_webhdfs run_job wordcount --input "$hdfs/in/words" "$hdfs/in/compressed.gz" --output "$work/out/no_webhdfs" --reduces 1
expect_output no_webhdfs all
expect_line 'cannot locate the blocks of .* maps run without locality' "$work/logs/run.log"

# expect_error TEXT OPTION...: giveway run exits with code 2 within 45 s and prints the text.
expect_error() {
    local what=$1 code=0 run_start=$SECONDS
    shift
    run_job wordcount "$@" --output "$work/out/failed" || code=$?
    ((code == 2)) || fail "exit code $code instead of 2; see $work/logs/run.log"
    expect_line "$what" "$work/logs/run.log"
    ((SECONDS - run_start < 45)) || fail "the error took $((SECONDS - run_start)) s"
    log "$(grep "$what" "$work/logs/run.log" | sed "s#$hdfs#hdfs://...#g; s#$namenode_address#...#g")"
}
log "errors"
expect_error 'it does not exist; check the spelling' --input "$hdfs/in/none"
expect_error 'matches no file' --input "$hdfs/in/none-*"
kill_hard() { kill -9 "$1" && wait "$1" 2>/dev/null || true; }
client submit grep -O pattern=w1 --input "$hdfs/in/twice é%20.txt" --output "$work/out/found" --records-per-second 20000 >"$work/id"
maps_done() { client job "$(<"$work/id")" | grep -Eq '^maps +[1-9][0-9]*/'; }
is_done() { client job "$(<"$work/id")" | grep -q ': succeeded$'; }
wait_for 60 "the first maps" maps_done
client yield "$(<"$work/id")"
kill_hard "$pid_alpha"
kill_hard "$pid_namenode"
start_namenode
wait_for 120 "the job" is_done
expect_output found found
client job "$(<"$work/id")" | grep -q ' [1-9][0-9]* early end' || fail "no map ended early"
log "correct output although maps ended early, a DataNode died and the NameNode was restarted"
kill_hard "$pid_beta"
expect_error 'no DataNode with a replica of the block could be read' --input "$hdfs/in/twice é%20.txt"
kill_hard "$pid_namenode"
expect_error "the NameNode at $namenode_address cannot be reached" --input "$hdfs/in/words"
[[ ! -e $work/out/failed ]] || fail "a failed job has left output"
log "all checks passed in $((SECONDS - started_at)) s"
