# Functions that bring the components of a Kubernetes node onto this machine: Kubernetes itself is built from its Go module, etcd, containerd, runc and busybox
# are Debian's packages, unpacked and not installed. Nothing comes from an image registry. Sourced by cluster.sh.
#
# All files are written under $cache and are reused by later runs.
# shellcheck shell=bash

kube_version=${KUBE_VERSION:-1.34.0}
cache=${GIVEWAY_KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/giveway-kube}
kube_bin=$cache/kubernetes-$kube_version
debian=$cache/debian
images=$cache/images
kube_commands=(kube-apiserver kube-scheduler kube-controller-manager kubelet kubectl)

# True if nothing has to be built or fetched.
components_cached() {
    local command
    for command in "${kube_commands[@]}"; do
        [[ -x $kube_bin/$command ]] || return 1
    done
    [[ -e $debian/.complete ]]
}

# The source of Kubernetes with its own go.mod and go.sum. Only the staging directories, which a module does not contain, are replaced by the modules
# released from them, whose version is the same but for the major number.
kubernetes_source() {
    local module name
    [[ -e $cache/source/.complete ]] && return
    log "fetching the source of Kubernetes $kube_version"
    module=$(cd "$cache" && go mod download -json "k8s.io/kubernetes@v$kube_version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    [[ -d $module ]] || fail "cannot fetch the Go module k8s.io/kubernetes@v$kube_version; check GOPROXY"
    rm -rf "$cache/source"
    cp -r --no-preserve=mode "$module" "$cache/source"
    rm -rf "$cache/source"/{vendor,staging,go.work,go.work.sum}
    (
        cd "$cache/source" || exit 1
        for name in $(sed -n 's,^\t\(k8s.io/[a-z-]*\) => \./staging/.*,\1,p' go.mod); do
            go mod edit "-replace=$name=$name@v0.${kube_version#1.}"
        done
    )
    touch "$cache/source/.complete"
}

# Builds what is missing. GO_BUILD_FLAGS: for example `-p 1` on a busy machine.
build_kubernetes() {
    local command minor
    mkdir -p "$kube_bin"
    minor=${kube_version#1.}
    for command in "${kube_commands[@]}"; do
        [[ -x $kube_bin/$command ]] && continue
        kubernetes_source
        log "building $command; from nothing all five take from ten minutes to an hour"
        # shellcheck disable=SC2086
        (cd "$cache/source" && GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 nice -n 10 go build ${GO_BUILD_FLAGS:-} -trimpath -buildvcs=false -o "$kube_bin/$command.new" -ldflags \
            "-s -w -X k8s.io/component-base/version.gitVersion=v$kube_version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}" \
            "./cmd/$command") >"$cache/build-$command.log" 2>&1 || fail "cannot build $command; see $cache/build-$command.log"
        mv "$kube_bin/$command.new" "$kube_bin/$command"
    done
}

fetch_debian_packages() {
    local package
    [[ -e $debian/.complete ]] && return
    log "fetching etcd, containerd, runc and busybox from Debian"
    mkdir -p "$debian/packages"
    for package in etcd-server containerd runc containernetworking-plugins busybox-static; do
        (cd "$debian/packages" && apt-get -q download "$package") >"$cache/fetch.log" 2>&1 || fail "cannot fetch $package; see $cache/fetch.log"
        dpkg-deb -x "$debian/packages/${package}"_*.deb "$debian"
    done
    touch "$debian/.complete"
}
