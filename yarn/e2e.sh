#!/usr/bin/env bash
# The whole way, with real daemons: does Giveway order a ResourceManager's applications, and does the cluster survive its sidecar?
#
# 1. A short job behind a long one, three times under Hadoop's FIFO and three times under hsrtf-pr, on one cluster: it must end earlier under hsrtf-pr each
#    time, and every output must be right.
# 2. The sidecar is killed with -9 in the middle: all jobs end, the ResourceManager stays up, the restarted sidecar is in step within seconds.
# 3. The tape of all that replays to identical actions, shows the resync, and its jobs come in the same order in the simulator.
# 4. A sidecar with another token, and guests that talk nonsense: one line on each side, and everything goes on.
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
rounds=${ROUNDS:-3}
work=$(mktemp -d "${TMPDIR:-/tmp}/giveway-e2e.XXXXXX")
began=$SECONDS
finish() {
    local code=$?
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
build_plugin
build_giveway
write_conf

say "the plug-in's own checks"
java -ea -cp "$cache/java/test-classes:$plugin:$jars/*" giveway.yarn.BridgeCheck || fail "the plug-in's checks"

say "starting the cluster"
tape=$work/run.tape
start_sidecar hsrtf-pr "$tape"
start_hadoop

# input NAME FILES: so many small files of words, and what counting them must give.
input() {
    local name=$1 files=$2 file word
    mkdir -p "$work/in/$name"
    for ((file = 0; file < files; file++)); do
        for ((word = 0; word < 400; word++)); do echo "w$((RANDOM % 97)) $name"; done >"$work/in/$name/$file"
    done
    cat "$work/in/$name"/* | tr ' ' '\n' | LC_ALL=C sort | LC_ALL=C uniq -c | awk '{print $2 "\t" $1}' >"$work/in/$name.expected"
}
input long 16
input longer 20
input short 1

# job QUEUE LABEL INPUT: counts words, checks the count, and notes how long it all took, in ms. The maps of a long job wait five seconds for their input: a job
# that is long because it keeps two cores busy would say more about the machine than about the order.
job() {
    local queue=$1 label=$2 input=$3 from slow=5000
    [[ $input == short ]] && slow=0
    from=$(date +%s%3N)
    example "$queue" "$label" wordcount -Dmapreduce.job.inputformat.class=giveway.yarn.SlowInput "-Dslow.ms=$slow" \
        "$work/in/$input" "$work/out/$label" || fail "$label did not end well"
    echo $(($(date +%s%3N) - from)) >"$work/$label.ms"
    diff "$work/in/$input.expected" "$work/out/$label/part-r-00000" >/dev/null || fail "$label: the output is wrong"
}

# Applications are known by their tag, for the examples name themselves. maps_began LABEL: its application master has got containers.
maps_began() { rest 'apps?states=RUNNING' | tr '{' '\n' | grep "\"applicationTags\":\"$1\"" | grep -Eq '"runningContainers":([4-9]|1[0-9])'; }
is_running() { rest 'apps?states=RUNNING' | tr '{' '\n' | grep -q "\"applicationTags\":\"$1\""; }

# pair QUEUE LABEL: a long job, and once it fills the cluster a short one.
pair() {
    local queue=$1 label=$2 long short
    job "$queue" "$label-long" long &
    long=$!
    wait_for 90 "$label-long has containers" maps_began "$label-long"
    job "$queue" "$label-short" short &
    short=$!
    wait "$short" || exit 1
    wait "$long" || exit 1
    say "$label: the short job took $(<"$work/$label-short.ms") ms, the long one $(<"$work/$label-long.ms") ms"
}

for ((round = 1; round <= rounds; round++)); do
    pair stock "fifo-$round"
    pair ours "hsrtf-$round"
    (($(<"$work/hsrtf-$round-short.ms") < $(<"$work/fifo-$round-short.ms"))) || fail "round $round: the short job was no faster under hsrtf-pr"
done
say "in $rounds of $rounds rounds the short job ended earlier under hsrtf-pr than under FIFO"

say "killing the sidecar in the middle"
job ours killed-long longer &
long=$!
wait_for 90 "killed-long has containers" maps_began killed-long
job ours killed-short short &
short=$!
wait_for 60 "killed-short runs" is_running killed-short
kill -9 "$pid_sidecar"
wait "$pid_sidecar" 2>/dev/null || true
sleep 2
start_sidecar hsrtf-pr "$tape"
restarted=$SECONDS
wait_for 10 "the restarted sidecar is in step" eval '(($(grep -c "in step" "$work/logs/sidecar.log") >= 2))'
say "the restarted sidecar was in step after $((SECONDS - restarted)) s: $(grep 'in step' "$work/logs/sidecar.log" | tail -1)"
wait "$short" || exit 1
wait "$long" || exit 1
say "killed: the short job took $(<"$work/killed-short.ms") ms, the long one $(<"$work/killed-long.ms") ms"
kill -0 "$pid_resourcemanager" || fail "the ResourceManager is gone"
[[ $(grep -c 'Giveway: no order from the sidecar' "$work/logs/resourcemanager.log") == 1 ]] || fail "the ResourceManager's log does not say just once that queues are FIFO"
# The client hears of the end some seconds before the application master leaves, and with it the application.
wait_for 60 "all applications have left" idle
sleep 1

say "the tape"
kill "$pid_sidecar"
wait "$pid_sidecar" || fail "the sidecar did not stop as it should"
"$giveway" replay "$tape" | tail -1
"$giveway" replay --list "$tape" | grep -q ' Resynced ' || fail "the tape shows no resync"
"$giveway" sim --workload "$tape" --policy hsrtf-pr --tape "$work/sim.tape"
order() { "$giveway" replay --jobs "$1" | sed -n 's/^[0-9.]* s [A-Za-z]* //p'; }
order "$tape" >"$work/order.real"
order "$work/sim.tape" >"$work/order.sim"
diff "$work/order.real" "$work/order.sim" || fail "the simulator ends the applications in another order"
say "$(wc -l <"$work/order.real") applications end in the same order in the simulator"

say "bad input"
mv "$work/token" "$work/token.right"
(umask 077 && echo "another token, long enough" >"$work/token.wrong")
said() { grep -c "$1" "$work/logs/$2.log" || true; }
before=$(said 'the token is not this sidecar' resourcemanager)
start wrong "$giveway" yarn --policy fifo --listen "$sidecar_at" --token-file "$work/token.wrong"
mv "$work/token.right" "$work/token"
wait_for 10 "the wrong token is refused" eval '(($(said "the token is not this sidecar" resourcemanager) > before))'
sleep 3
[[ $(said 'the token is not this sidecar' wrong) == 1 ]] || fail "the sidecar says it more than once"
[[ $(said 'the token is not this sidecar' resourcemanager) == $((before + 1)) ]] || fail "the ResourceManager says it more than once"
# A frame of 2 GB, and half a frame.
(exec 3<>"/dev/tcp/${sidecar_at/:/\/}" && printf '\x80\x00\x00\x00' >&3 && timeout 5 cat <&3 >/dev/null) || true
(exec 3<>"/dev/tcp/${sidecar_at/:/\/}" && printf '\x00\x00' >&3) || true
wait_for 10 "nonsense is refused" grep -q 'a frame of 2147483648 bytes' "$work/logs/wrong.log"
wait_for 10 "half a frame is refused" grep -q 'within a frame' "$work/logs/wrong.log"
kill -0 "$pid_wrong" || fail "the sidecar is gone"
kill -0 "$pid_resourcemanager" || fail "the ResourceManager is gone"
three_nodes || fail "the NodeManagers are gone"
say "all of it held, in $((SECONDS - began)) s"
