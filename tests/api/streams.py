#!/usr/bin/env python3
"""Does watching slow the cluster down? Runs small jobs in blocks, in turn without watchers and with open dashboards. Prints for both the time that the
coordinator takes to handle a batch of inputs with all decisions, the time from a job's submission to its end, and the jobs per second.

Needs a built giveway: GIVEWAY_BIN, or target/release/giveway. STREAMS (1000) streams of updates are open, and DASHBOARDS (100) clients request what the page of a
job does; JOBS (2000) jobs run in BLOCKS (8) blocks, at most RATE (50) submitted per second. Watchers run on the same machine, so their own CPU time counts, too.
"""

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

GIVEWAY = os.environ.get("GIVEWAY_BIN", str(Path(__file__).resolve().parents[2] / "target/release/giveway"))
STREAMS, DASHBOARDS, JOBS, BLOCKS, RATE = (
    int(os.environ.get(name, default)) for name, default in
    [("STREAMS", "1000"), ("DASHBOARDS", "100"), ("JOBS", "2000"), ("BLOCKS", "8"), ("RATE", "50")]
)


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "input").write_text("a b a\n" * 100)
        self.up = subprocess.Popen([GIVEWAY, "up", "--dir", folder / "cluster"], stdout=subprocess.PIPE, text=True)
        for line in self.up.stdout:
            if line.startswith("Submit jobs"):
                break
        self.address = (folder / "cluster/http-address").read_text().strip()
        self.token = (folder / "cluster/token").read_text().strip()
        self.submitted = 0

    def request(self, path: str, body: object = None) -> object:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def decisions(self) -> tuple[float, float]:
        """Number of batches of inputs that the coordinator has handled, and the seconds it took."""
        request = urllib.request.Request(f"http://{self.address}/metrics", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            values = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
        return float(values["giveway_decision_seconds_count"]), float(values["giveway_decision_seconds_sum"])

    def run_block(self, jobs: int) -> dict[str, float]:
        """Runs jobs. Returns the mean time of a decision and of a job, and the jobs per second from the first submission to the end of the last job."""
        count, seconds = self.decisions()
        first, started = self.submitted + 1, time.perf_counter()
        for number in range(jobs):
            time.sleep(max(0.0, started + number / RATE - time.perf_counter()))
            self.submitted += 1
            output = str(self.folder / f"out-{self.submitted}")
            request = {"app": "wordcount", "input": [str(self.folder / "input")], "output": output}
            self.request("/api/v1/jobs", request)
        while self.unfinished():
            time.sleep(0.05)
        rate = jobs / (time.perf_counter() - started)
        count, seconds = (after - before for after, before in zip(self.decisions(), (count, seconds)))
        ended = [job for job in self.request("/api/v1/jobs") if job["job"] >= first]
        completion_ms = statistics.median((job["ended_us"] - job["submitted_us"]) / 1e3 for job in ended)
        return {"decision, us": seconds / count * 1e6, "job, ms": completion_ms, "jobs/s": rate}

    def unfinished(self) -> bool:
        return any(self.request(f"/api/v1/jobs?state={state}") for state in ("running", "waiting"))

    def stop(self) -> None:
        subprocess.run([GIVEWAY, "down", "--dir", self.folder / "cluster"], check=True, stdout=subprocess.DEVNULL)
        self.up.wait()


async def get(cluster: Cluster, path: str) -> None:
    """Reads the answer to its end, which for a stream is when it is cancelled."""
    reader, writer = await asyncio.open_unix_connection((cluster.folder / "cluster/http-socket").read_text())
    head = f"GET {path} HTTP/1.1\r\nHost: {cluster.address}\r\nAuthorization: Bearer {cluster.token}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    try:
        while await reader.read(1 << 16):
            pass
    finally:
        writer.close()


async def dashboard(cluster: Cluster) -> None:
    """What the page of a job requests, beside the stream of updates."""
    await get(cluster, "/api/v1/timeline")
    while True:
        await get(cluster, "/api/v1/jobs/1/explain")
        await get(cluster, "/api/v1/jobs/1")
        await asyncio.sleep(2)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            await asyncio.to_thread(cluster.run_block, 20)
            measured: dict[str, list[dict[str, float]]] = {"alone": [], "watched": []}
            for block in range(BLOCKS):
                name = "watched" if block % 2 else "alone"
                watchers = []
                if name == "watched":
                    watchers = [asyncio.create_task(get(cluster, "/api/v1/updates")) for _ in range(STREAMS)]
                    watchers += [asyncio.create_task(dashboard(cluster)) for _ in range(DASHBOARDS)]
                    await asyncio.sleep(3)
                    ended = sum(watcher.done() for watcher in watchers)
                    print(f"{len(watchers) - ended} watchers open, {ended} refused")
                found = await asyncio.to_thread(cluster.run_block, JOBS // BLOCKS)
                measured[name].append(found)
                print(f"block {block}, {name}: " + ", ".join(f"{what} {value:.1f}" for what, value in found.items()))
                for watcher in watchers:
                    watcher.cancel()
                await asyncio.gather(*watchers, return_exceptions=True)
            for what in measured["alone"][0]:
                alone, watched = (statistics.median(block[what] for block in measured[name]) for name in ("alone", "watched"))
                print(f"{what}: alone {alone:.1f}, watched {watched:.1f}: {100 * (watched / alone - 1):+.1f} %")
        finally:
            cluster.stop()


asyncio.run(main())
