#!/usr/bin/env bash
# Installs a Debian package in a booted Debian, starts its service, upgrades to another package while jobs run, and checks that the jobs go on and that their
# output is right: packaging/try-upgrade.sh OLD.deb NEW.deb. Needs root, debootstrap, systemd-container, and a mirror of Debian for the first time: the system
# is kept in SYSTEM (target/debian).
set -euo pipefail
old=$(realpath "${1:?usage: try-upgrade.sh OLD.deb NEW.deb}")
new=$(realpath "${2:?usage: try-upgrade.sh OLD.deb NEW.deb}")
system=${SYSTEM:-$(cd "$(dirname "$0")/.." && pwd)/target/debian}
if [[ ! -x $system/usr/sbin/adduser ]]; then
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,adduser,libgcc-s1 "${SUITE:-bookworm}" "$system"
fi
share=$(mktemp -d)
trap 'rm -rf "$share"' EXIT
cp "$old" "$share/old.deb"
cp "$new" "$share/new.deb"
cat > "$share/inside.sh" <<'INSIDE'
#!/bin/bash
set -euo pipefail
cd /srv
as_giveway() { runuser -u giveway -- env GIVEWAY_DIR=/var/lib/giveway XDG_RUNTIME_DIR=/run/giveway giveway "$@"; }
# As an owner would have it: a file of the administrator's that an upgrade must leave alone.
export DEBIAN_FRONTEND=noninteractive
wait_until() { for _ in $(seq 600); do if "$@" > /dev/null 2>&1; then return; fi; sleep 0.2; done; echo "timeout: $*"; as_giveway jobs; as_giveway job 1 || true; journalctl -u giveway --no-pager | tail -20; false; }
dpkg --install /share/old.deb
sed -i 's/--nodes 2/--nodes 2 --map-slots 2 --reduce-slots 1/' /etc/default/giveway
printf '[access]\nusers = ["bin"]\n' > /etc/giveway/tenants.toml
systemctl start giveway
wait_until as_giveway nodes
mkdir -p /srv/out && chown giveway /srv/out
seq 1 4000 > /srv/numbers
# Of the owner, and of an admitted user. The first maps finish before the upgrade, the others run or wait during it.
as_giveway submit streaming --mapper 'sleep 2; cat' --reducer 'sort -n | wc -l' --reduces 1 --split 1k --input /srv/numbers --output /srv/out/long
as_giveway submit wordcount --input /srv/numbers --output /srv/out/before --wait
runuser -u bin -- giveway submit wordcount --input /srv/numbers --output /srv/out/of-bin --records-per-second 300 --dir /var/lib/giveway
token=$(as_giveway token create scraper --may read)
pid=$(systemctl show --property MainPID --value giveway)
as_giveway jobs
dpkg --install /share/new.deb
wait_until as_giveway nodes
[[ $(systemctl show --property MainPID --value giveway) != "$pid" ]]
grep -q -- '--map-slots 2' /etc/default/giveway
echo "upgraded from $(dpkg-deb --field /share/old.deb Version) to $(dpkg-deb --field /share/new.deb Version)"
as_giveway jobs
wait_until test -e /srv/out/long/_SUCCESS
wait_until test -e /srv/out/of-bin/_SUCCESS
grep -qx 4000 /srv/out/long/part-r-00000
[[ $(cat /srv/out/of-bin/part-r-* | sort) == "$(cat /srv/out/before/part-r-* | sort)" ]]
as_giveway submit wordcount --input /srv/numbers --output /srv/out/after --wait
systemctl reload giveway
as_giveway token list | grep -q scraper
# Nobody else can read the token; links are not in the journal.
! journalctl -u giveway --no-pager | grep -q 'token='
systemd-analyze security giveway.service --no-pager | tail -1
dpkg --remove giveway
! systemctl is-active --quiet giveway
dpkg --install /share/new.deb
systemctl start giveway
wait_until as_giveway jobs
as_giveway history | tail -5
echo "the upgrade went well"
INSIDE
chmod +x "$share/inside.sh"
cat > "$system/etc/systemd/system/try-upgrade.service" <<'UNIT'
[Unit]
After=multi-user.target dbus.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/share/inside.sh > /share/log 2>&1; systemctl poweroff'
[Install]
WantedBy=multi-user.target
UNIT
ln -sf ../try-upgrade.service "$system/etc/systemd/system/multi-user.target.wants/try-upgrade.service"
# A mount namespace of its own, with version 2 of the control groups, which the host may not have.
unshare --mount bash -c '
    set -e
    mount --make-rprivate /
    if [[ $(stat --file-system --format %T /sys/fs/cgroup) != cgroup2fs ]]; then
        umount --recursive --lazy /sys/fs/cgroup || true
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
    fi
    mkdir -p /sys/fs/cgroup/try-upgrade
    echo $$ > /sys/fs/cgroup/try-upgrade/cgroup.procs
    exec timeout "${LIMIT:-900}" systemd-nspawn --quiet --register=no --keep-unit --volatile=overlay --directory="$1" --machine=try-upgrade --bind="$2:/share" --boot
' sh "$system" "$share" > "$share/boot.log" 2>&1 || true
cat "$share/log" || tail -20 "$share/boot.log"
grep -q '^the upgrade went well' "$share/log"
