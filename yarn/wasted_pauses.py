#!/usr/bin/env python3
"""Counts the pauses of an event log, and those whose slot another job got, or nobody.

    giveway replay --json RUN.event_log | yarn/wasted_pauses.py [MAX_PERCENT]

A pause serves its beneficiary if that job is then granted a slot, on the same node or on another. It is wasted if a job for which nothing was paused takes the last
free slot of the node instead, or if the beneficiary ends without a slot. Exit code 1 if more than MAX_PERCENT are wasted.
"""

import json
import sys
from collections import defaultdict

ENDS = ("AttemptFinished", "AttemptFailed", "AttemptKilled", "AttemptPaused", "AttemptLost")


def key(attempt):
    task = attempt["task"]
    return task["job"], task["kind"], task["index"], attempt["number"]


def main():
    slots = {}
    node_of = {}
    beneficiary_of = {}
    freed = []  # (node, beneficiary) of slots that were freed and not granted yet, oldest first
    count = defaultdict(int)
    for line in sys.stdin:
        line = line.strip()
        if not line.startswith("{"):
            continue
        record = json.loads(line)
        event = record["event"]
        name, fields = (event, {}) if isinstance(event, str) else next(iter(event.items()))
        if name == "NodeJoined":
            slots[fields["node"]] = fields["spec"]["reduce_slots"]
        elif name == "NodeSlotsSet":
            slots[fields["node"]] = fields["slots"][1]
        elif name == "NodeLost":
            node_of = {attempt: node for attempt, node in node_of.items() if node != fields["node"]}
            freed = [slot for slot in freed if slot[0] != fields["node"]]
        elif name == "Resynced":
            node_of, freed = {}, []
        elif name in ENDS:
            attempt = key(fields["attempt"])
            node = node_of.pop(attempt, None)
            if name == "AttemptPaused" and attempt in beneficiary_of:
                freed.append((node, beneficiary_of[attempt]))
        elif name == "StopFailed":
            count["failed"] += 1
        elif name == "SlotGranted":
            job, node = fields["job"], fields["node"]
            own = [slot for slot in freed if slot[1] == job]
            here = [slot for slot in freed if slot[0] == node]
            free = slots.get(node, 0) - sum(1 for place in node_of.values() if place == node)
            if own:
                freed.remove(next((slot for slot in own if slot[0] == node), own[0]))
                count["served"] += 1
            elif here and free <= len(here):
                freed.remove(here[0])
                count["wasted"] += 1
        elif name == "JobEnded":
            unused = [slot for slot in freed if slot[1] == fields["job"]]
            count["wasted"] += len(unused)
            freed = [slot for slot in freed if slot not in unused]
        for action in record["actions"]:
            if "Launch" in action:
                node_of[key(action["Launch"]["attempt"])] = action["Launch"]["node"]
            elif "Pause" in action:
                count["pauses"] += 1
                reason = action["Pause"]["reason"]
                if "Preempted" in reason:
                    beneficiary_of[key(action["Pause"]["attempt"])] = reason["Preempted"]["beneficiary"]
    counted = count["served"] + count["wasted"]
    percent = 100 * count["wasted"] / counted if counted else 0
    print(
        f"{count['pauses']} pauses: {count['served']} served the job that they were for, {count['wasted']} were wasted "
        f"({percent:.1f} %), {count['failed']} could not be carried out"
    )
    sys.exit(1 if len(sys.argv) > 1 and percent > float(sys.argv[1]) else 0)


main()
