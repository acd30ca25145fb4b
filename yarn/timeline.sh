#!/usr/bin/env bash
# Prints when each container ran (=) and was paused (.), from the logs of NodeManagers.
#
#   yarn/timeline.sh LOG...
set -euo pipefail
awk '
function seconds(time,   part) { split(time, part, "[:,]"); return part[1] * 3600 + part[2] * 60 + part[3] + part[4] / 1000 }
function container(   at) { at = match($0, /container_[0-9_]+[0-9]/); return at ? substr($0, RSTART, RLENGTH) : "" }
function change(state) { id = container(); if (id == "") return; now = seconds($2); changes[id]++; when[id, changes[id]] = now; to[id, changes[id]] = state
    if (!(id in node)) { node[id] = FILENAME; sub(/.*\//, "", node[id]); sub(/\.log$/, "", node[id]); order[++count] = id }
    if (first == "" || now < first) first = now; if (now > last) last = now }
/Container container_.* transitioned from SCHEDULED to RUNNING/ { change("=") }
/Giveway: paused container_/ { change(".") }
/Giveway: resumed container_/ { change("=") }
/Container container_.* transitioned from [A-Z]+ to (EXITED|KILLING)/ { change(" ") }
END {
    if (!count) exit
    columns = 70; step = (last - first) / columns; if (step <= 0) step = 1
    printf "%-32s 0 s%*.0f s\n", "", columns - 3, last - first
    for (i = 1; i <= count; i++) {
        id = order[i]; name = id; sub(/^container_[0-9]+_/, "", name); row = ""; at = 0; state = " "
        for (column = 0; column < columns; column++) {
            shown = state
            while (at < changes[id] && when[id, at + 1] < first + (column + 1) * step) { at++; state = to[id, at]; if (state != " ") shown = state }
            row = row shown
        }
        printf "%-12s container %-9s |%s|\n", node[id], name, row
    }
}' "$@" | { IFS= read -r head; printf '%s\n' "$head"; sort -k 1,1 -k 3,3; }
