#!/usr/bin/env python3
"""Does watching slow the cluster down? Runs small jobs in blocks, in turn without watchers and with open dashboards, and prints the jobs per second of both.

Needs a built giveway: GIVEWAY_BIN, or target/release/giveway. STREAMS (1000) streams of updates are open, and DASHBOARDS (100) clients load the timeline and the
jobs every two seconds; JOBS (2000) jobs run in BLOCKS (4) blocks. Watchers run on the same machine, so their own CPU time counts, too.
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
STREAMS, DASHBOARDS, JOBS, BLOCKS = (
    int(os.environ.get(name, default)) for name, default in
    [("STREAMS", "1000"), ("DASHBOARDS", "100"), ("JOBS", "2000"), ("BLOCKS", "4")]
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

    def run_block(self, jobs: int) -> float:
        """Jobs per second from the first submission to the end of the last job."""
        started = time.perf_counter()
        for _ in range(jobs):
            self.submitted += 1
            output = str(self.folder / f"out-{self.submitted}")
            request = {"app": "wordcount", "input": [str(self.folder / "input")], "output": output}
            self.request("/api/v1/jobs", request)
        while self.unfinished():
            time.sleep(0.05)
        return jobs / (time.perf_counter() - started)

    def unfinished(self) -> bool:
        return any(self.request(f"/api/v1/jobs?state={state}") for state in ("running", "pending"))

    def stop(self) -> None:
        subprocess.run([GIVEWAY, "down", "--dir", self.folder / "cluster"], check=True, stdout=subprocess.DEVNULL)
        self.up.wait()


async def get(cluster: Cluster, path: str) -> None:
    """Reads the answer to its end, which for a stream is when it is cancelled."""
    host, port = cluster.address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET {path} HTTP/1.1\r\nHost: {cluster.address}\r\nAuthorization: Bearer {cluster.token}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    try:
        while await reader.read(1 << 16):
            pass
    finally:
        writer.close()


async def dashboard(cluster: Cluster) -> None:
    while True:
        await get(cluster, "/api/v1/timeline")
        await get(cluster, "/api/v1/jobs")
        await asyncio.sleep(2)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            await asyncio.to_thread(cluster.run_block, 20)
            rates: dict[str, list[float]] = {"alone": [], "watched": []}
            for block in range(BLOCKS):
                name = "watched" if block % 2 else "alone"
                watchers = []
                if name == "watched":
                    watchers = [asyncio.create_task(get(cluster, "/api/v1/updates")) for _ in range(STREAMS)]
                    watchers += [asyncio.create_task(dashboard(cluster)) for _ in range(DASHBOARDS)]
                    await asyncio.sleep(3)
                    ended = sum(watcher.done() for watcher in watchers)
                    print(f"{len(watchers) - ended} watchers open, {ended} refused")
                rate = await asyncio.to_thread(cluster.run_block, JOBS // BLOCKS)
                rates[name].append(rate)
                print(f"block {block}, {name}: {rate:.1f} jobs/s")
                for watcher in watchers:
                    watcher.cancel()
                await asyncio.gather(*watchers, return_exceptions=True)
            alone, watched = (statistics.median(rates[name]) for name in ("alone", "watched"))
            print(f"alone {alone:.1f} jobs/s, watched {watched:.1f} jobs/s: {100 * (watched / alone - 1):+.1f} %")
        finally:
            cluster.stop()


asyncio.run(main())
