"""Tests against a real cluster: GIVEWAY_BIN is the program."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import giveway

BIN = os.environ.get("GIVEWAY_BIN", "giveway")


def words(line):
    import sys

    print("mapping", line, file=sys.stderr)
    for word in line.split():
        yield clean(word), 1


def clean(word):
    return word.strip(".,").lower()


def total(key, values):
    yield key, sum(int(value) for value in values)


def broken(line):
    raise ValueError(f"cannot parse {line!r}")


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.dir = os.path.join(cls.temp.name, "cluster")
        cls.input = os.path.join(cls.temp.name, "input.txt")
        with open(cls.input, "wb") as file:
            file.write("To be, or not to be.\nGrüße \udcff be\n".encode("utf-8", "surrogateescape"))
        cls.up = subprocess.Popen([BIN, "up", "--dir", cls.dir, "--nodes", "2"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in cls.up.stdout:
            if line.startswith("Submit jobs"):
                break
        cls.cluster = giveway.connect(cls.dir)

    @classmethod
    def tearDownClass(cls):
        subprocess.run([BIN, "down", "--dir", cls.dir], check=False)
        cls.up.wait(60)
        cls.up.stdout.close()
        cls.temp.cleanup()

    def output(self, name):
        return os.path.join(self.temp.name, name)

    def test_a_job_is_submitted_waited_for_and_read(self):
        job = self.cluster.submit("wordcount", input=[self.input], output=self.output("counts"), name="<b>count</b>", user="ann")
        status = job.wait(timeout_s=120)
        self.assertEqual((status["state"], status["name"]), ("succeeded", "<b>count</b>"))
        counts = dict(giveway.results.rows(self.output("counts"), errors="surrogateescape"))
        self.assertEqual(counts["be"], "1")
        listed = [found.id for found in self.cluster.jobs(user="ann", state="succeeded")]
        self.assertIn(job.id, listed)
        self.assertIn("facts", job.explain())
        self.assertEqual(len(self.cluster.nodes()), 2)

    def test_metrics_have_the_times_of_the_coordinator(self):
        self.cluster.submit("wordcount", input=[self.input], output=self.output("measured")).wait(timeout_s=120)
        headers = {"Authorization": f"Bearer {self.file('token')}"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.url()}/metrics", headers=headers)) as answer:
            metrics = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
        for name in ("giveway_decision_seconds", "giveway_journal_write_seconds"):
            self.assertGreater(float(metrics[f"{name}_sum"]), 0)
            self.assertGreater(int(metrics[f"{name}_count"]), 2)

    def test_functions_run_as_mapper_and_reducer(self):
        job = self.cluster.map_reduce(words, total, combiner=total, uses=[clean], input=self.input, output=self.output("words"))
        programs = job._programs
        job.wait(timeout_s=120)
        self.assertFalse(os.path.exists(programs), "the programs are removed")
        rows = {row[0]: row[1] for row in giveway.results.rows(self.output("words"), errors="surrogateescape")}
        self.assertEqual(rows, {"to": "2", "be": "3", "or": "1", "not": "1", "grüße": "1", "\udcff": "1"})
        logs = job.logs()
        self.assertTrue(any("mapping To be, or not to be." in text for text in logs.values()), logs)

    def test_failures_tell_why(self):
        job = self.cluster.map_reduce(broken, input=self.input, output=self.output("broken"))
        with self.assertRaises(giveway.JobFailed) as caught:
            job.wait(timeout_s=180)
        self.assertIn("cannot parse", str(caught.exception))
        self.assertIn("ValueError", job.logs("map-0.0")["map-0.0"])
        with self.assertRaises(giveway.GivewayError):
            list(job.rows())

    def file(self, name):
        with open(os.path.join(self.dir, name), encoding="utf-8") as file:
            return file.read().strip()

    def url(self):
        return "http://" + self.file("http-address")

    def test_kill_and_timeout(self):
        job = self.cluster.submit("streaming", input=self.input, output=self.output("never"), options={"mapper": "sleep 600"})
        with self.assertRaises(TimeoutError):
            job.wait(timeout_s=0.2)
        job.kill()
        with self.assertRaises(giveway.JobFailed) as caught:
            job.wait(timeout_s=120)
        self.assertEqual(caught.exception.state, "killed")

    def test_wrong_requests_are_refused(self):
        with self.assertRaises(giveway.ApiError) as caught:
            self.cluster.job(4711)
        self.assertEqual(caught.exception.status, 404)
        with self.assertRaises(giveway.ApiError):
            self.cluster.submit("wordcuont", input=self.input, output=self.output("x"))
        with self.assertRaises(giveway.ApiError) as caught:
            giveway.connect(url=self.url(), token="wrong").jobs()
        self.assertEqual(caught.exception.status, 401)
        giveway.connect(url=self.url(), token=self.file("token")).jobs()
        with self.assertRaises(giveway.GivewayError):
            giveway.connect(url=self.url())
        with self.assertRaises(giveway.GivewayError):
            giveway.connect(self.output("nowhere"))
        with self.assertRaises(giveway.ApiError) as caught:
            giveway.connect(url="http://127.0.0.1:9", token="x").jobs()
        self.assertEqual(caught.exception.status, 0)

    def test_functions_that_need_more_than_their_source_are_refused(self):
        offset = 1

        def enclosed(line):
            yield line, offset

        for function in (lambda line: [line], enclosed, len):
            with self.assertRaises(giveway.SourceError):
                self.cluster.map_reduce(function, input=self.input, output=self.output("y"))

    def test_frames(self):
        job = self.cluster.map_reduce(words, total, uses=[clean], input=self.input, output=self.output("frame"))
        job.wait(timeout_s=120)
        with open(os.path.join(self.output("frame"), "part-r-00000"), "wb") as file:
            file.write(b"a\t1\nb\t2\n")
        self.assertEqual(list(job.rows()), [("a", "1"), ("b", "2")])
        other = self.cluster.job(job.id)
        self.assertEqual(list(other.rows()), [("a", "1"), ("b", "2")], "the cluster knows the output")
        with open(os.path.join(self.output("frame"), "part-r-00000"), "wb") as file:
            file.write(b"caf\xe9\t1\n")
        self.assertEqual(list(job.rows()), [("caf\udce9", "1")])
        self.assertEqual(list(job.rows(encoding="latin-1")), [("café", "1")])
        try:
            frame = job.frame(["word", "count"])
        except giveway.GivewayError as error:
            self.assertIn("pandas or polars", str(error))
        else:
            self.assertEqual(list(frame.columns), ["word", "count"])


if __name__ == "__main__":
    unittest.main()
