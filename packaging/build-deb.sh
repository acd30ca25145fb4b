#!/usr/bin/env bash
# Builds a Debian package with dpkg-deb: program, systemd unit, man pages, completions, configuration.
# usage: packaging/build-deb.sh [OUTPUT-DIRECTORY]     GIVEWAY_BIN=FILE packages an existing program instead of building one.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath "${1:-target}")
if [[ -z ${GIVEWAY_BIN:-} ]]; then
    cargo build --locked --profile dist --package giveway
    GIVEWAY_BIN=${CARGO_TARGET_DIR:-target}/dist/giveway
fi
version=$("$GIVEWAY_BIN" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

install -D -m 755 "$GIVEWAY_BIN" "$root/usr/bin/giveway"
strip --strip-unneeded "$root/usr/bin/giveway"
install -D -m 644 packaging/giveway.service "$root/usr/lib/systemd/system/giveway.service"
install -D -m 644 packaging/default "$root/etc/default/giveway"
install -D -m 644 packaging/tenants.toml "$root/etc/giveway/tenants.toml"
install -D -m 644 LICENSE "$root/usr/share/doc/giveway/copyright"
install -D -m 644 -t "$root/usr/share/doc/giveway" README.md docs/*.md
mkdir -p "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
# Default paths are shown as those of any user.
env -u GIVEWAY_DIR HOME='~' "$GIVEWAY_BIN" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
"$GIVEWAY_BIN" completions bash > "$root/usr/share/bash-completion/completions/giveway"
"$GIVEWAY_BIN" completions zsh > "$root/usr/share/zsh/vendor-completions/_giveway"
"$GIVEWAY_BIN" completions fish > "$root/usr/share/fish/vendor_completions.d/giveway.fish"

mkdir "$root/DEBIAN"
# The C library that the program was linked with is the oldest that it runs with.
libc=$(objdump -T "$root/usr/bin/giveway" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 | cut -d_ -f2)
cat > "$root/DEBIAN/control" <<CONTROL
Package: giveway
Version: $version
Architecture: $architecture
Maintainer: Giveway developers <giveway@localhost>
Depends: libc6 (>= $libc), libgcc-s1, adduser
Section: science
Priority: optional
Installed-Size: $(du -k -s "$root" | cut -f1)
Description: shared MapReduce cluster where large jobs give way to small ones
 Runs MapReduce jobs on one machine, simulates schedulers, and orders the
 applications of a YARN cluster. Work that gave way is not lost.
CONTROL
printf '/etc/default/giveway\n/etc/giveway/tenants.toml\n' > "$root/DEBIAN/conffiles"
cat > "$root/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    adduser --system --group --home /var/lib/giveway --no-create-home --quiet giveway
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        # After an upgrade the new release continues the jobs of the one before it.
        systemctl try-restart giveway.service || true
    fi
fi
SCRIPT
cat > "$root/DEBIAN/prerm" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now giveway.service || true
fi
SCRIPT
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
mkdir -p "$out"
dpkg-deb --build --root-owner-group "$root" "$out/giveway_${version}_${architecture}.deb"
