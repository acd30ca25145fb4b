#!/usr/bin/env python3
"""Can another user of the machine slow a cluster down? A cluster runs as one user; another one, whom it has admitted and who has a token for reading, attacks
it in several ways, one after the other. Meanwhile the owner submits small jobs and waits for each. Prints for each attack how long these jobs take, how long
the owner's requests to the API take, and whether a worker was lost.

Needs root, to run processes as both users, the python3 of the system, and a built giveway: GIVEWAY_BIN, or target/release/giveway. Everything is on loopback; each attack takes SECONDS (15).
OWNER and OTHER (`games` and `bin`) are names of users.
"""

import os
import pwd
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

GIVEWAY = os.environ.get("GIVEWAY_BIN", str(Path(__file__).resolve().parents[2] / "target/release/giveway"))
SECONDS = float(os.environ.get("SECONDS_PER_ATTACK", "15"))
OWNER, OTHER = (os.environ.get(name, default) for name, default in [("OWNER", "games"), ("OTHER", "bin")])


def as_user(name: str) -> dict[str, object]:
    user = pwd.getpwnam(name)
    environment = {"PATH": os.environ["PATH"], "USER": name, "HOME": "/"}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "env": environment}


# The attacks, in a process of the other user. Each gets the port's address, a token for reading, and the path of the socket for other users.


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.settimeout(10)
    return connection


def head(method: str, path: str, address: str, token: str, more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{more}\r\n".encode()


def idle(address: str, _token: str, _socket: str) -> None:
    """10,000 connections that send nothing, and new ones all the time"""
    open_connections = []
    while True:
        try:
            open_connections.append(connect(address))
            if len(open_connections) >= 10_000:
                del open_connections[:50]
        except OSError:
            time.sleep(0.001)


def many(count: int, attack) -> None:
    for _ in range(count):
        threading.Thread(target=forever, args=(attack,), daemon=True).start()
    time.sleep(3600)


def forever(attack) -> None:
    while True:
        try:
            attack()
        except OSError:
            time.sleep(0.01)


def read_all(connection: socket.socket, bytes_max: int = 1 << 40) -> None:
    while bytes_max > 0:
        read = connection.recv(1 << 16)
        if not read:
            return
        bytes_max -= len(read)


def streams(address: str, token: str, _socket: str) -> None:
    """1,000 streams of updates, with a token"""

    def stream() -> None:
        with connect(address) as connection:
            connection.settimeout(60)
            connection.sendall(head("GET", "/api/v1/updates", address, token))
            read_all(connection)

    many(1000, stream)


def slow(address: str, token: str, _socket: str) -> None:
    """500 heads and bodies that arrive a byte at a time"""

    def trickle() -> None:
        with connect(address) as connection:
            text = head("POST", "/api/v1/jobs", address, token, "Content-Length: 100000\r\n") + b"{" * 1000
            for at in range(len(text)):
                connection.sendall(text[at : at + 1])
                time.sleep(0.2)

    many(500, trickle)


def bodies(address: str, token: str, _socket: str) -> None:
    """8 senders of 3 MB bodies at full rate"""
    body = b"x" * 3_000_000

    def send() -> None:
        with connect(address) as connection:
            connection.sendall(head("POST", "/api/v1/jobs", address, token, f"Content-Length: {len(body)}\r\n") + body)
            read_all(connection)

    many(8, send)


def requests(path: str, address: str, token: str) -> None:
    text = head("GET", path, address, token) * 20

    def ask() -> None:
        with connect(address) as connection:
            while True:
                connection.sendall(text)
                if not connection.recv(1 << 20):
                    return

    many(16, ask)


def strangers(address: str, _token: str, _socket: str) -> None:
    """16 connections that request at full rate, without a token"""
    requests("/api/v1/jobs", address, "none")


def readers(address: str, token: str, _socket: str) -> None:
    """16 connections that request the list of jobs at full rate, with a token"""
    requests("/api/v1/jobs", address, token)


HELLO = b"giveway\n" + (12).to_bytes(4, "little") + b"\x02"

# A message of two bytes: the third of the requests, without a job to begin after.
JOBS = (2).to_bytes(4, "little") + bytes([2, 0])


def unix(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(path)
    connection.sendall(HELLO)
    connection.recv(14, socket.MSG_WAITALL)
    return connection


def admitted(_address: str, _token: str, path: str) -> None:
    """64 connections of an admitted user that ask for all jobs at full rate"""

    def ask() -> None:
        with unix(path) as connection:
            while True:
                connection.sendall(JOBS)
                length = connection.recv(4, socket.MSG_WAITALL)
                if len(length) < 4:
                    return
                left = int.from_bytes(length, "little")
                while left > 0:
                    left -= len(connection.recv(min(left, 1 << 20)))

    many(64, ask)


def deaf(_address: str, _token: str, path: str) -> None:
    """64 connections of an admitted user that ask and do not read"""

    def ask() -> None:
        with unix(path) as connection:
            while True:
                connection.sendall(JOBS * 100)

    many(64, ask)


def half_messages(_address: str, _token: str, path: str) -> None:
    """64 connections of an admitted user with a message of 16 MB that does not end"""

    def send() -> None:
        with unix(path) as connection:
            connection.sendall((16_000_000).to_bytes(4, "little") + b"x" * 15_999_999)
            connection.settimeout(60)
            connection.recv(1)

    many(64, send)


ATTACKS = [idle, streams, slow, bodies, strangers, readers, admitted, deaf, half_messages]


# The owner's side.


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder, self.jobs = folder, 0
        owner = pwd.getpwnam(OWNER)
        folder.chmod(0o755)
        (folder / "input").write_text("a b a\n" * 100)
        (folder / "tenants.toml").write_text(f'[access]\nusers = ["{OTHER}"]\n')
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        up = [GIVEWAY, "up", "--dir", "cluster", "--nodes", "2", "--map-slots", "2", "--tenants", "tenants.toml"]
        self.log = open(folder / "log", "w")
        self.up = subprocess.Popen(
            up, cwd=folder, stdout=subprocess.PIPE, stderr=self.log, text=True, **as_user(OWNER)
        )
        for line in self.up.stdout:
            if line.startswith("Submit jobs"):
                break
        self.address = (folder / "cluster/http-address").read_text()
        self.token = self.giveway("token", "create", "other", "--may", "read").strip()
        shared = Path(f"/tmp/giveway-shared-{owner.pw_uid}")
        self.socket = str(max(shared.iterdir(), key=lambda path: path.stat().st_mtime))

    def giveway(self, *arguments: str) -> str:
        command = [GIVEWAY, *arguments, "--dir", "cluster"]
        return subprocess.run(
            command, cwd=self.folder, check=True, capture_output=True, text=True, timeout=300, **as_user(OWNER)
        ).stdout

    def job_ms(self) -> float:
        self.jobs += 1
        began = time.perf_counter()
        self.giveway("submit", "wordcount", "--input", "input", "--output", f"out-{self.jobs}", "--wait")
        return (time.perf_counter() - began) * 1e3

    def request_ms(self) -> float:
        """A request to the API over the owner's socket."""
        began = time.perf_counter()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect((self.folder / "cluster/http-socket").read_text())
            connection.sendall(b"GET /api/v1/nodes HTTP/1.1\r\nHost: giveway\r\nConnection: close\r\n\r\n")
            read_all(connection)
        return (time.perf_counter() - began) * 1e3

    def memory_mib(self) -> float:
        status = Path(f"/proc/{self.up.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) / 1024

    def measure(self, name: str) -> None:
        jobs, asked, memory, ends = [], [], [], time.monotonic() + SECONDS
        while time.monotonic() < ends:
            jobs.append(self.job_ms())
            asked.append(self.request_ms())
            memory.append(self.memory_mib())
        text = self.log_text()
        lost = text.count("worker lost") + text.count("ended with")
        print(
            f"{name:<78} jobs {len(jobs):>4}, median {statistics.median(jobs):>6.0f} ms, longest {max(jobs):>6.0f} ms; "
            f"requests median {statistics.median(asked):>5.1f} ms, longest {max(asked):>6.1f} ms; "
            f"memory {max(memory):>5.0f} MiB; workers lost {lost}",
            flush=True,
        )

    def log_text(self) -> str:
        return (self.folder / "log").read_text()

    def stop(self) -> None:
        self.giveway("down")
        self.up.wait()


def main() -> None:
    program = Path(tempfile.mkdtemp()) / "flood.py"
    program.parent.chmod(0o755)
    shutil.copy(__file__, program)
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    cluster = Cluster(folder)
    try:
        cluster.measure("nobody else")
        for attack in ATTACKS:
            command = ["/usr/bin/python3", program, attack.__name__, cluster.address, cluster.token, cluster.socket]
            attacker = subprocess.Popen(command, stderr=subprocess.DEVNULL, **as_user(OTHER))
            try:
                time.sleep(3)
                cluster.measure(attack.__doc__)
                if attacker.poll() is not None:
                    print(f"  the attack has ended with {attacker.returncode}")
            finally:
                attacker.send_signal(signal.SIGKILL)
                attacker.wait()
        cluster.measure("nobody else again")
    finally:
        cluster.stop()
        shutil.rmtree(folder)
        shutil.rmtree(program.parent)


if len(sys.argv) > 1:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    next(attack for attack in ATTACKS if attack.__name__ == sys.argv[1])(*sys.argv[2:])
else:
    main()
