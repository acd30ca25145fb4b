#!/usr/bin/env bash
# A long Job on a full node gives way to a short one, on stock Kubernetes components, and loses nothing. Beside it: the same Jobs without Giveway.
#
# As root, on Debian, with Go and Rust. The first run builds Kubernetes (10 to 60 minutes) into GIVEWAY_KUBE_CACHE; later runs take about three minutes.
# `kube/e2e.sh --if-cached` does nothing unless the components are there.
set -euo pipefail
# shellcheck source=cluster.sh
source "$(dirname "$0")/cluster.sh"

if [[ ${1:-} == --if-cached ]] && ! components_cached; then
    echo "no cached Kubernetes in $cache: kube/e2e.sh builds it"
    exit 0
fi
[[ $EUID == 0 ]] || fail "containers and network namespaces need root"
mkdir -p "$cache"
fetch_debian_packages
build_kubernetes
giveway=${GIVEWAY_BIN:-${CARGO_TARGET_DIR:-$root/target}/debug/giveway}
if [[ -z ${GIVEWAY_BIN:-} ]]; then
    log "building giveway with the feature kube"
    (cd "$root" && cargo build --locked --quiet --package giveway --features kube)
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/giveway-kube.XXXXXX")
cleanup() {
    local status=$?
    stop_all
    if ((status == 0)); then rm -rf "$work"; else log "logs are kept in $work" >&2; fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A chain of hashes: each line depends on all before it. STEPS and FILE are its arguments.
chain='h=start; i=0; while [ $i -lt $0 ]; do i=$((i+1)); h=$(echo $h | sha256sum | cut -c 1-16); echo $i $h >> /data/$1; sleep 0.1; done'

# job NAME PODS STEPS: each pod requests one CPU and appends to a file of its own.
job() {
    cat <<JOB_END
apiVersion: batch/v1
kind: Job
metadata: {name: $1, labels: {giveway.dev/queue: batch}}
spec:
  completions: $2
  parallelism: $2
  completionMode: Indexed
  backoffLimit: 0
  suspend: ${4:-false}
  template:
    metadata: {labels: {app: $1}}
    spec:
      restartPolicy: Never
      hostNetwork: true
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      volumes: [{name: data, hostPath: {path: "$work/data"}}]
      containers:
      - name: work
        image: localhost/work:1
        imagePullPolicy: Never
        command: [/bin/sh, -c, '${chain//\$1/$1-\$JOB_COMPLETION_INDEX}', "$3"]
        volumeMounts: [{name: data, mountPath: /data}]
        resources: {requests: {cpu: "${pod_cpu}m", memory: 32Mi}}
JOB_END
}

submit() { job "$@" | kubectl apply -f - >>"$work/kubectl.log"; }
field() { kubectl get pods -l "app=$1" -o "jsonpath={range .items[*]}{$2}{\" \"}{end}"; }
pods_in() { [[ $(field "$1" .status.phase) == "$(printf "%.0s$3 " $(seq "$2"))" ]]; }
is_squeezed() { [[ " $(field long .spec.containers[0].resources.requests.cpu)" == *" 0 "* ]]; }
nothing_squeezed() { ! is_squeezed && [[ -z $(field long '.metadata.annotations.giveway\.dev/cpu-was' | tr -d ' ') ]]; }
has_event() { kubectl get events --field-selector "involvedObject.name=$1,reason=$2" -o name | grep -q .; }
milliseconds() { date +%s%3N; }

delete_jobs() {
    kubectl delete jobs --all --wait --cascade=foreground >>"$work/kubectl.log" 2>&1
    rm -f "$work"/data/*
}

# check_output NAME PODS STEPS: every pod wrote every line once, and the last one is right.
check_output() {
    local pod h=start i
    for ((i = 0; i < $3; i++)); do h=$(echo "$h" | sha256sum | cut -c 1-16); done
    for ((pod = 0; pod < $2; pod++)); do
        [[ $(wc -l <"$work/data/$1-$pod") == "$3" ]] || fail "$1-$pod has $(wc -l <"$work/data/$1-$pod") lines instead of $3"
        [[ $(tail -1 "$work/data/$1-$pod") == "$3 $h" ]] || fail "$1-$pod ends with $(tail -1 "$work/data/$1-$pod") instead of $3 $h"
    done
    [[ $(field "$1" '.status.containerStatuses[0].restartCount' | tr -d '0 ') == "" ]] || fail "a pod of $1 was restarted"
    [[ $(kubectl get pods -l "app=$1" --no-headers | wc -l) == "$2" ]] || fail "$1 has had more than $2 pods"
}

# start_giveway OPTION...
# With the rights of the manifest and no others.
start_giveway() { start giveway env "KUBECONFIG=$work/giveway.kubeconfig" "$giveway" kube "$@"; }

# Applies the manifest without a running controller: this script runs it outside of the cluster.
install() {
    sed 's/replicas: 1/replicas: 0/' "$script_dir/manifests/giveway.yaml" | kubectl apply -f - >>"$work/kubectl.log"
    (umask 077 && sed 's/user: {token/user: {as: "system:serviceaccount:giveway:giveway", token/' "$KUBECONFIG" >"$work/giveway.kubeconfig")
}

log "starting a node with $kube_version; files in $work"
start_cluster
# Two pods fill the node, whatever this machine has.
pod_cpu=$(($(kubectl get node n1 -o 'jsonpath={.status.allocatable.cpu}') * 500))

log "== stock Kubernetes: the short Job waits for the long one"
submit long 2 150
wait_for 60 "running long Job" pods_in long 2 Running
begin=$(milliseconds)
submit short 1 20
wait_for 120 "running short Job" pods_in short 1 Running
stock_ms=$(($(milliseconds) - begin))
log "the short pod ran after $stock_ms ms"
delete_jobs

log "== stock Kubernetes with priorities: the long Job loses work"
kubectl create priorityclass urgent --value 1000 >>"$work/kubectl.log"
submit long 2 150
wait_for 60 "running long Job" pods_in long 2 Running
sleep 5
begin=$(milliseconds)
job short 1 20 | sed 's/restartPolicy: Never/&\n      priorityClassName: urgent/' | kubectl apply -f - >>"$work/kubectl.log"
wait_for 120 "running short Job" pods_in short 1 Running
priority_ms=$(($(milliseconds) - begin))
lost=$(kubectl get events --field-selector reason=Preempted -o name | wc -l)
((lost > 0)) || fail "nothing was preempted"
log "the short pod ran after $priority_ms ms; pods of the long Job that were deleted: $lost, of $(cat "$work"/data/long-* | wc -l) lines in all"
delete_jobs

log "== fcs: the long Job gives way"
install
in_namespace env "KUBECONFIG=$work/giveway.kubeconfig" "$giveway" kube doctor || log "one finding is expected: the manifest gives no right to list LimitRanges"
in_namespace "$giveway" kube doctor || fail "giveway kube doctor finds something missing"
start_giveway --policy fcs --event-log "$work/fcs.eventlog"
submit long 2 400
wait_for 60 "running long Job" pods_in long 2 Running
# fcs protects what was launched less than ten seconds ago.
sleep 12
submit short 1 20
wait_for 60 "squeezed pod" is_squeezed
begin=$(milliseconds)
wait_for 60 "running short Job" pods_in short 1 Running
run_ms=$(($(milliseconds) - begin))
log "the short pod ran $run_ms ms after the pause began"
((run_ms < 5000)) || fail "more than 5 s"
wait_for 120 "end of the short Job" pods_in short 1 Succeeded
wait_for 60 "returned CPU" nothing_squeezed
log "the CPU has returned"
wait_for 240 "end of the long Job" pods_in long 2 Succeeded
check_output short 1 20
check_output long 2 400
log "0 restarts, 2 x 400 lines, right hashes"
stop giveway
"$giveway" replay "$work/fcs.eventlog"
"$giveway" sim --workload "$work/fcs.eventlog" --policy fifo,fcs,fair
delete_jobs

log "== the controller is killed while a pod is squeezed"
start_giveway --policy fcs
submit long 2 400
wait_for 60 "running long Job" pods_in long 2 Running
sleep 12
submit short 1 60
wait_for 60 "squeezed pod" is_squeezed
stop giveway KILL
wait_for 60 "running short Job" pods_in short 1 Running
start_giveway --policy fcs
wait_for 120 "end of the short Job" pods_in short 1 Succeeded
wait_for 60 "returned CPU" nothing_squeezed
stop giveway
log "== restore"
submit other 1 60
start_giveway --policy fcs
wait_for 60 "squeezed pod" is_squeezed
stop giveway KILL
in_namespace env "KUBECONFIG=$work/giveway.kubeconfig" "$giveway" kube restore
nothing_squeezed || fail "restore left a pod squeezed"
wait_for 240 "end of the long Job" pods_in long 2 Succeeded
check_output long 2 400
log "nothing lost"
delete_jobs

log "== order: a suspended Job waits its turn and is told why"
start_giveway --policy fcs
submit first 2 60
wait_for 60 "running first Job" pods_in first 2 Running
submit later 2 20 true
wait_for 60 "event" has_event later Waiting
kubectl describe job later | tail -4
wait_for 120 "end of the held Job" pods_in later 2 Succeeded
check_output first 2 60
check_output later 2 20
log "the short pod ran: stock after $stock_ms ms; with priorities after $priority_ms ms, a pod deleted; fcs $run_ms ms after the pause began, nothing lost"
log "passed"
