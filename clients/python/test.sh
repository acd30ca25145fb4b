#!/usr/bin/env bash
# Tests the Python package with every Python that is installed: the client against a real cluster of $GIVEWAY_BIN, and the simulator, which is built here.
# Checks its types if mypy is installed. Leaves the package in target/python/package.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
export GIVEWAY_BIN="${GIVEWAY_BIN:-$root/target/debug/giveway}"

export CARGO_TARGET_DIR="$root/target/python"
# Not linked with one version of Python.
PYO3_BUILD_EXTENSION_MODULE=1 cargo build --locked
package="$CARGO_TARGET_DIR/package"
rm -rf "$package"
mkdir -p "$package"
cp -r giveway "$package/"
cp "$CARGO_TARGET_DIR/debug/lib_giveway.so" "$package/giveway/_giveway.abi3.so"

tested=""
for python in python3 python3.9 python3.10 python3.11 python3.12 python3.13; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    [[ " $tested " == *" $version "* ]] && continue
    tested="$tested $version"
    echo "Python $version"
    (cd "$package" && "$python" -W error::ResourceWarning -m unittest discover -s "$root/clients/python/tests")
done
if python3 -m mypy --version >/dev/null 2>&1; then
    python3 -m mypy giveway
else
    echo "mypy is not installed: types not checked"
fi
