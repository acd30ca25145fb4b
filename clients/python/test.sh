#!/usr/bin/env bash
# Tests the Python client against a real cluster of $GIVEWAY_BIN, and checks its types if mypy is installed.
set -euo pipefail
cd "$(dirname "$0")"
export GIVEWAY_BIN="${GIVEWAY_BIN:-$(cd ../.. && pwd)/target/debug/giveway}"
PYTHONPATH=. python3 -W error::ResourceWarning -m unittest discover -s tests
if python3 -m mypy --version >/dev/null 2>&1; then
    python3 -m mypy giveway
else
    echo "mypy is not installed: types not checked"
fi
