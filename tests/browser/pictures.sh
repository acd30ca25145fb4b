#!/usr/bin/env bash
# Makes the pictures of the README anew, from a built giveway: GIVEWAY_BIN, or target/debug/giveway. The argument is another folder for them.
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/../../docs/images}")
cd "$(dirname "$0")"
[[ -d node_modules/playwright-core ]] || npm ci --no-audit --no-fund
export GIVEWAY_BIN="${GIVEWAY_BIN:-$(cd ../.. && pwd)/target/debug/giveway}"
exec node pictures.mjs "$out"
