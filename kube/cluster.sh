# Functions that run one Kubernetes node on loopback, in a network namespace of its own: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
# containerd and a kubelet. Sourced by e2e.sh.
#
# All files are written under $work. The ids of all started processes are in $work/pids; stop_all ends exactly those.
# shellcheck shell=bash

script_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$script_dir")

log() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }
fail() {
    log "FAILED: $*" >&2
    exit 1
}

# shellcheck source=components.sh
source "$script_dir/components.sh"

namespace=giveway-kube-$$
address=10.99.0.1

# in_namespace COMMAND...: with the network of the cluster.
in_namespace() { ip netns exec "$namespace" "$@"; }
kubectl() { in_namespace "$kube_bin/kubectl" "$@"; }

# start NAME COMMAND...: in the background, with its output in $work/NAME.log.
start() {
    local name=$1
    shift
    # The mount namespace of `ip netns exec` would hide the kubelet's mounts from containerd.
    nsenter "--net=/run/netns/$namespace" -- "$@" >>"$work/$name.log" 2>&1 </dev/null &
    echo "$!" >"$work/pids/$name"
}

is_running() { [[ -s $work/pids/$1 ]] && kill -0 "$(cat "$work/pids/$1")" 2>/dev/null; }

# stop NAME [SIGNAL]
stop() {
    local attempt
    is_running "$1" || return 0
    kill "-${2:-TERM}" "$(cat "$work/pids/$1")"
    for attempt in {1..100}; do
        is_running "$1" || break
        sleep 0.1
    done
    if is_running "$1"; then kill -KILL "$(cat "$work/pids/$1")"; fi
    rm -f "$work/pids/$1"
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || fail "no $what in time; see $work/*.log"
        sleep 0.3
    done
}

# image NAME ENTRYPOINT FILE...: a container image with one layer, as an archive that containerd imports. The files are put into /bin.
image() {
    local name=$1 entrypoint=$2 folder layer config config_sum
    shift 2
    folder=$work/image-$name
    mkdir -p "$folder"/{root/bin,root/tmp,root/data,archive}
    cp "$@" "$folder/root/bin/"
    if [[ -e $folder/root/bin/busybox ]]; then
        for applet in sh sleep sha256sum cat date echo cut; do ln -sf busybox "$folder/root/bin/$applet"; done
    fi
    tar --sort=name --owner=0 --group=0 -C "$folder/root" -cf "$folder/archive/layer.tar" .
    layer=$(sha256sum "$folder/archive/layer.tar" | cut -d ' ' -f 1)
    config="{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Env\":[\"PATH=/bin\"],\"Entrypoint\":$entrypoint},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$layer\"]}}"
    config_sum=$(printf '%s' "$config" | sha256sum | cut -d ' ' -f 1)
    printf '%s' "$config" >"$folder/archive/$config_sum.json"
    printf '[{"Config":"%s.json","RepoTags":["localhost/%s:1"],"Layers":["layer.tar"]}]' "$config_sum" "$name" >"$folder/archive/manifest.json"
    tar -C "$folder/archive" -cf "$work/$name.tar" .
    containerd_client images import "$work/$name.tar" >>"$work/images.log" 2>&1 || fail "cannot import image $name; see $work/images.log"
}

containerd_client() { "$debian/usr/bin/ctr" --address "$work/containerd.sock" --namespace k8s.io "$@"; }

write_kubeconfig() {
    export KUBECONFIG=$work/kubeconfig
    local token
    token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
    (
        umask 077
        echo "$token,admin,admin,system:masters" >"$work/tokens.csv"
        cat >"$KUBECONFIG" <<KUBECONFIG_END
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "https://$address:6443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: "$token"}}]
contexts: [{name: local, context: {cluster: local, user: admin}}]
current-context: local
KUBECONFIG_END
    )
}

start_apiserver() {
    start apiserver "$kube_bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 "--bind-address=$address" "--advertise-address=$address" \
        "--cert-dir=$work/certificates" "--token-auth-file=$work/tokens.csv" --authorization-mode=RBAC --service-account-issuer=https://giveway \
        "--service-account-key-file=$work/service-account.pub" "--service-account-signing-key-file=$work/service-account.key" \
        --service-cluster-ip-range=10.96.0.0/24 --disable-admission-plugins=ServiceAccount
    wait_for 180 "API server" kubectl get --raw /readyz
}

start_kubelet() {
    start kubelet "$kube_bin/kubelet" "--config=$work/kubelet.yaml" "--kubeconfig=$KUBECONFIG" "--root-dir=$work/kubelet" --hostname-override=n1 \
        "--node-ip=$address" "--cert-dir=$work/certificates"
}

# The kubelet changes these settings of the machine; stop_all restores them.
kubelet_settings=(vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes)

start_cluster() {
    local setting
    mkdir -p "$work"/{pids,etcd,certificates,containerd,containerd-state,kubelet,cni,data}
    for setting in "${kubelet_settings[@]}"; do
        [[ -r /proc/sys/$setting ]] && echo "$setting $(cat "/proc/sys/$setting")"
    done >"$work/settings"
    ip netns add "$namespace"
    in_namespace ip link set lo up
    in_namespace ip address add "$address/32" dev lo
    openssl genrsa -out "$work/service-account.key" 2048 2>/dev/null
    openssl rsa -in "$work/service-account.key" -pubout -out "$work/service-account.pub" 2>/dev/null
    write_kubeconfig
    start etcd "$debian/usr/bin/etcd" --data-dir "$work/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync
    start_containerd
    start_apiserver
    start controller-manager "$kube_bin/kube-controller-manager" "--kubeconfig=$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1 \
        "--service-account-private-key-file=$work/service-account.key" \
        --controllers=job-controller,garbage-collector-controller,node-lifecycle-controller,pod-garbage-collector-controller
    start scheduler "$kube_bin/kube-scheduler" "--kubeconfig=$KUBECONFIG" "--authentication-kubeconfig=$KUBECONFIG" "--authorization-kubeconfig=$KUBECONFIG" \
        --leader-elect=false --bind-address=127.0.0.1
    cat >"$work/kubelet.yaml" <<KUBELET_END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
containerRuntimeEndpoint: unix://$work/containerd.sock
imageServiceEndpoint: unix://$work/containerd.sock
resolvConf: ""
enforceNodeAllocatable: [pods]
evictionHard: {memory.available: "50Mi", nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
imageGCHighThresholdPercent: 100
podLogsDir: $work/pod-logs
KUBELET_END
    start_kubelet
    wait_for 180 "ready node" node_is_ready
}

node_is_ready() { kubectl get node n1 | grep -qw Ready; }

start_containerd() {
    cat >"$work/containerd.toml" <<CONTAINERD_END
version = 2
root = "$work/containerd"
state = "$work/containerd-state"
[grpc]
  address = "$work/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/sandbox:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$debian/usr/lib/cni"
    conf_dir = "$work/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "$debian/usr/sbin/runc"
CONTAINERD_END
    echo '{"cniVersion":"0.4.0","name":"loopback","plugins":[{"type":"loopback"}]}' >"$work/cni/10-loopback.conflist"
    start containerd env "PATH=$debian/usr/bin:$debian/usr/sbin:$PATH" "$debian/usr/bin/containerd" --config "$work/containerd.toml"
    wait_for 60 containerd containerd_client version
    # The sandbox of a pod only has to exist.
    image sandbox '["/bin/sleep","2147483647"]' "$debian/bin/busybox"
    image work '["/bin/sh"]' "$debian/bin/busybox"
}

stop_all() {
    local name task container path setting value
    set +e
    [[ -d $work/pids ]] || return 0
    for name in giveway kubelet scheduler controller-manager apiserver etcd; do stop "$name"; done
    if is_running containerd; then
        for task in $(containerd_client tasks ls -q); do containerd_client tasks kill --signal KILL "$task"; done >/dev/null 2>&1
        sleep 1
        for task in $(containerd_client tasks ls -q); do containerd_client tasks rm -f "$task"; done >/dev/null 2>&1
        for container in $(containerd_client containers ls -q); do containerd_client containers rm "$container"; done >/dev/null 2>&1
    fi
    stop containerd
    while read -r path; do umount -l "$path"; done < <(awk -v work="$work/" 'index($2, work) == 1 { print $2 }' /proc/mounts | sort -r)
    for name in 1 2 3; do find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null; done
    while read -r setting value; do echo "$value" >"/proc/sys/$setting"; done <"$work/settings"
    ip netns delete "$namespace" 2>/dev/null
}
