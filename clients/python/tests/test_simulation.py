"""Tests of the simulator against the program $GIVEWAY_BIN."""

import json
import math
import os
import signal
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import giveway

GIVEWAY = os.environ["GIVEWAY_BIN"]
JOBS = {
    "jobs": [
        {"name": "large", "app": "sort", "maps": 80, "reduces": 4},
        {"name": "small", "app": "sort", "maps": 2, "reduces": 1, "submit": "1m", "count": 3, "every": "20s"},
    ]
}
CLUSTER = {"nodes": [{"name": "node", "count": 4, "map_slots": 2, "reduce_slots": 1}]}


def by_order(order, name="mine"):
    return {"name": name, "map": {"order": order}, "reduce": {"order": order}}


class Simulation(unittest.TestCase):
    def test_figures_are_those_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as directory:
            files = {name: Path(directory, name) for name in ("runs.json", "jobs.jsonl", "attempts.jsonl", "run.log")}
            command = [GIVEWAY, "sim", "--workload", "fcs-figure3", "--policy", "fair,giveway", "--runs", "2"]
            command += ["--json", files["runs.json"], "--jobs", files["jobs.jsonl"], "--attempts", files["attempts.jsonl"]]
            subprocess.run(command, check=True, capture_output=True)
            result = giveway.simulate("fcs-figure3", ["fair", "giveway"], runs=2, attempts=True)
            self.assertEqual(result.runs, json.loads(files["runs.json"].read_text())["runs"])
            for table, name in ((result.jobs, "jobs.jsonl"), (result.attempts, "attempts.jsonl")):
                lines = files[name].read_text().splitlines()
                self.assertEqual(list(table), [json.loads(line) for line in lines])

            # What is read of a log is what was simulated.
            command = [GIVEWAY, "sim", "--workload", "fcs-figure3", "--policy", "giveway", "--event-log", files["run.log"]]
            subprocess.run(command, check=True, capture_output=True)
            of_run = [row for row in result.attempts if (row["policy"], row["seed"]) == ("giveway", 1)]
            self.assertEqual(list(giveway.read_attempts(files["run.log"])), of_run)
            recorded = giveway.read_jobs(files["run.log"])["recorded_completion_s"]
            simulated = [row["completion_s"] for row in result.jobs if (row["policy"], row["seed"]) == ("giveway", 1)]
            self.assertEqual(recorded, simulated)

    def test_policies_are_compared_over_pairs_of_seeds(self):
        compared = giveway.compare(JOBS, ["fair", "giveway", "fcs"], cluster=CLUSTER, runs=5, progress=False)
        self.assertEqual([change["policy"] for change in compared.changes], ["giveway", "fcs"])
        ratios = {}
        for run in compared.runs:
            ratios.setdefault(run["policy"], []).append(run["mean_completion_s"])
        logs = [math.log(ours / theirs) for ours, theirs in zip(ratios["giveway"], ratios["fair"])]
        change = compared.changes[0]
        self.assertAlmostEqual(change["change"], math.expm1(sum(logs) / 5))
        self.assertTrue(change["low"] <= change["change"] <= change["high"] and 2 / 32 <= change["p"] <= 1)
        with self.assertRaisesRegex(giveway.InvalidInput, "no number `speed`; use one of"):
            giveway.compare(JOBS, ["giveway"], cluster=CLUSTER, metric="speed", runs=1, progress=False)

    def test_what_if_simulates_the_policy_of_the_record_too(self):
        with tempfile.TemporaryDirectory() as directory:
            log = Path(directory, "run.log")
            command = [GIVEWAY, "sim", "--workload", "fcs-figure3", "--policy", "giveway", "--event-log", log]
            subprocess.run(command, check=True, capture_output=True)
            result = giveway.what_if(log, ["fair", "giveway"], progress=False)
            slots = giveway.read_slots(log)
        self.assertEqual((result.policy, [run["policy"] for run in result.runs]), ("giveway", ["giveway", "fair"]))
        direct = giveway.simulate("fcs-figure3", "giveway", slots=True, progress=False)
        self.assertEqual(result.recorded["recorded_completion_s"], direct.jobs["completion_s"])
        self.assertEqual(set(result.jobs["policy"]), {"giveway", "fair"})
        self.assertEqual(list(slots), list(direct.slots))
        self.assertTrue(all(row["running"] <= row["slots"] for row in slots))

    def test_a_cluster_is_a_dictionary(self):
        cluster = giveway.cluster("fcs")
        same = giveway.simulate("fcs-figure3", "fair", cluster="fcs", progress=False).runs
        self.assertEqual(giveway.simulate("fcs-figure3", "fair", cluster=cluster, progress=False).runs, same)

    def test_workloads_clusters_and_policies_are_dictionaries(self):
        changed = giveway.policy("giveway")
        changed["name"] = "changed"
        changed["map"]["preempt"] = changed["reduce"]["preempt"] = []
        result = giveway.simulate(JOBS, ["fifo", "giveway", changed], cluster=CLUSTER)
        self.assertEqual(set(result.jobs["policy"]), {"fifo", "giveway", "changed"})
        self.assertEqual(len(result.jobs), 12)
        means = [run["mean_completion_s"] for run in result.runs]
        self.assertLess(means[1], means[0])
        self.assertNotEqual(means[1], means[2])

    def test_an_order_in_python_ranks_as_the_same_order_in_rust_does(self):
        mine = by_order(giveway.Order(lambda job: job.remaining_s, "remaining"))
        policies = [mine, by_order("remaining-time", "built-in")]
        result = giveway.simulate(JOBS, policies, cluster=CLUSTER)
        completion_s = result.jobs["completion_s"]
        self.assertEqual(completion_s[:4], completion_s[4:])

    def test_what_goes_wrong_in_an_order_is_an_exception(self):
        def fails(job):
            raise KeyError(job.name)

        for function, error in ((fails, KeyError), (lambda job: math.nan, ValueError), (lambda job: "first", TypeError)):
            with self.assertRaises(error):
                giveway.simulate(JOBS, by_order(giveway.Order(function, "wrong")), cluster=CLUSTER)
        # The process lives.
        self.assertEqual(len(giveway.simulate(JOBS, cluster=CLUSTER).jobs), 4)

    def test_invalid_input_has_the_text_of_the_command_line(self):
        for arguments, text in (
            ({"workload": "fcs-figure3", "policies": "giverway"}, "did you mean `giveway`?"),
            ({"workload": "missing.toml"}, "cannot read missing.toml"),
            ({"workload": JOBS}, "cluster="),
            ({"workload": JOBS, "cluster": {"nodes": [{"slots": 2}]}}, "slots"),
            ({"workload": "fcs-figure3", "runs": 0}, "1 to 10000"),
            ({"workload": "fcs-figure3", "estimate_error": 1.0}, "estimate_error"),
            ({"workload": "fcs-figure3", "policies": []}, "at least one"),
            ({"workload": "fcs-figure3", "policies": ["fair", "fair"]}, "`fair`"),
            ({"workload": "fcs-figure3", "policies": by_order(math.inf)}, "policy"),
        ):
            with self.subTest(arguments=arguments), self.assertRaises(giveway.InvalidInput) as raised:
                giveway.simulate(**arguments)
            self.assertIn(text, str(raised.exception))
        for wrong in (5, object(), [5], by_order(object())):
            with self.assertRaises(TypeError) as raised:
                giveway.simulate("fcs-figure3", wrong)
            self.assertIn("policy", str(raised.exception))
        with self.assertRaises(KeyError) as missing:
            giveway.simulate(JOBS, cluster=CLUSTER).jobs["completion"]
        self.assertIn("completion_s", str(missing.exception))

    def test_ctrl_c_ends_a_simulation(self):
        timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            giveway.simulate("synthetic", ["giveway", "fair", "fifo"], runs=1000, progress=False)
        timer.join()

    def test_progress_and_its_exceptions_reach_the_caller(self):
        seen = []
        giveway.simulate("fcs-map-heavy", progress=lambda done, total: seen.append((done, total)))
        self.assertTrue(all(0 <= done <= total == 171 for done, total in seen), seen)
        with self.assertRaises(ZeroDivisionError):
            giveway.simulate("synthetic", runs=1000, progress=lambda done, total: 1 / 0)

    def test_arrow_takes_the_tables(self):
        try:
            import pyarrow
        except ImportError:
            self.skipTest("pyarrow is not installed")
        jobs = giveway.simulate("fcs-figure3").jobs
        self.assertEqual(pyarrow.table(jobs).to_pylist(), list(jobs))

    def test_names_are_listed(self):
        self.assertIn("giveway", giveway.policies())
        self.assertIn("fcs-map-heavy", giveway.workloads())
        self.assertEqual(giveway.policy("fifo")["map"]["order"], "submission")


if __name__ == "__main__":
    unittest.main()
