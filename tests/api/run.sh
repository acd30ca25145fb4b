#!/usr/bin/env bash
# Requests that are generated from the API's own description, against a live cluster: no answer is a server error, none takes longer than ten seconds, and each
# has a status that is described. Needs schemathesis (pip install schemathesis) and a built giveway: GIVEWAY_BIN, or target/debug/giveway.
# EXAMPLES sets the number of requests for each operation.
set -euo pipefail
giveway="${GIVEWAY_BIN:-$(cd "$(dirname "$0")/../.." && pwd)/target/debug/giveway}"
folder=$(mktemp -d)
finish() {
    "$giveway" down --dir "$folder/cluster" || true
    wait
    rm -rf "$folder"
}
trap finish EXIT
mkdir "$folder/in" && seq 1000 > "$folder/in/numbers"
"$giveway" up --dir "$folder/cluster" --nodes 2 > "$folder/out" 2>&1 &
until grep -q '^Submit jobs' "$folder/out"; do sleep 0.1; done
"$giveway" submit streaming --mapper 'echo started >&2; cat' --input "$folder/in" --output "$folder/o1" --dir "$folder/cluster" --wait
"$giveway" submit streaming --mapper 'sleep 600' --input "$folder/in" --output "$folder/o2" --dir "$folder/cluster"
url=http://$(cat "$folder/cluster/http-address")
# The stream of updates has no end: it is left out.
cd "$folder"
if ((EUID == 0)); then
    # Only the owner's token of a cluster of root may change something, and a reload would renew it.
    token=$(cat cluster/token)
    set -- --exclude-path /api/v1/reload "$@"
else
    token=$("$giveway" token create test --may administer --dir cluster)
fi
schemathesis run "$url/api/v1/openapi.json" --url "$url" -H "Authorization: Bearer $token" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance \
    --exclude-path /api/v1/updates --request-timeout 10 --max-examples "${EXAMPLES:-60}" "$@"
"$giveway" nodes --dir cluster
