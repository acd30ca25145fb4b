#!/usr/bin/env bash
# The dashboard in a real browser. Installs Debian's Chromium and a few npm packages if they are missing. Needs a built giveway: GIVEWAY_BIN, or
# target/debug/giveway. Screenshots go to the folder in SCREENSHOTS, if it is set.
set -euo pipefail
cd "$(dirname "$0")"
missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if ((${#missing[@]})); then
    root=$([[ $EUID == 0 ]] || echo sudo)
    $root apt-get update -q
    DEBIAN_FRONTEND=noninteractive $root apt-get install -q -y --no-install-recommends "${missing[@]}"
fi
[[ -d node_modules/playwright-core && -d node_modules/axe-core && -d node_modules/prettier && -d node_modules/eslint ]] || npm ci --no-audit --no-fund
# Format and lint of the pages' scripts and of these tests. To format: the same with --write.
npx prettier --config .prettierrc.json --check --log-level warn ../../crates/web/assets/*.js ../../crates/web/assets/style.css ./*.mjs
(cd ../.. && tests/browser/node_modules/.bin/eslint --config tests/browser/eslint.config.mjs crates/web/assets/*.js tests/browser/*.mjs)
export GIVEWAY_BIN="${GIVEWAY_BIN:-$(cd ../.. && pwd)/target/debug/giveway}"
exec node run.mjs "$@"
