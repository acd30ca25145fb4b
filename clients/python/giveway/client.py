"""A cluster and its jobs, over the HTTP API."""

from __future__ import annotations

import getpass
import http.client
import json
import os
import socket
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import functions, results
from .errors import ApiError, GivewayError, JobFailed

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]

_ENDED = ("succeeded", "killed", "failed")


def connect(dir: Optional[Union[str, "os.PathLike[str]"]] = None, *, url: Optional[str] = None, token: Optional[str] = None) -> "Cluster":
    """Connects to the cluster in a directory: ``dir``, or ``$GIVEWAY_DIR``, or ``~/.giveway``.

    ``giveway up`` writes the path of its Unix socket there, to which only the owner of the cluster can connect. With ``url`` and ``token`` no directory is read, and the token is sent to
    that address.
    """
    if (url is None) != (token is None):
        raise GivewayError("give both url and token, or none of them")
    if url is not None:
        return Cluster(url, token)
    folder = os.fspath(dir) if dir is not None else os.environ.get("GIVEWAY_DIR") or os.path.expanduser("~/.giveway")

    try:
        with open(os.path.join(folder, "http-socket"), "rb") as file:
            path = os.fsdecode(file.read())
    except OSError as error:
        raise GivewayError(f"no cluster with an HTTP API in {folder}: {error}; start one with `giveway up`") from error
    return Cluster("http://giveway", None, socket_path=path)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("giveway", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _UnixHandler(urllib.request.HTTPHandler):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        def connection(host: str, **options: Any) -> _UnixConnection:
            return _UnixConnection(self._path, options["timeout"])

        response: http.client.HTTPResponse = self.do_open(connection, request)
        return response


class Cluster:
    """A running cluster."""

    def __init__(self, url: str, token: Optional[str], timeout_s: float = 60.0, socket_path: Optional[str] = None) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._address = self.url if socket_path is None else socket_path
        # The API is on this machine: a proxy of the environment must not get the token.
        handlers: List[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if socket_path is not None:
            handlers.append(_UnixHandler(socket_path))
        self._opener = urllib.request.build_opener(*handlers)

    def __repr__(self) -> str:
        return f"Cluster({self._address!r})"

    def request(self, path: str, body: Optional[object] = None, method: Optional[str] = None, query: Optional[Mapping[str, object]] = None) -> bytes:
        """Sends a request to ``/api/v1/`` and returns the answer's body."""
        return self._request(path, body, method, query)[0]

    def _request(self, path: str, body: Optional[object] = None, method: Optional[str] = None, query: Optional[Mapping[str, object]] = None) -> Tuple[bytes, Any]:
        url = f"{self.url}/api/v1/{path}"
        if query:
            url += "?" + urllib.parse.urlencode(query)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method)
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")
            try:
                text = json.loads(text)["error"]
            except (ValueError, KeyError, TypeError):
                pass
            raise ApiError(error.code, text or str(error.reason)) from None
        except OSError as error:
            raise ApiError(0, f"{self._address} does not answer: {error}; check that the cluster is running") from error

    def _json(self, path: str, body: Optional[object] = None, method: Optional[str] = None, query: Optional[Mapping[str, object]] = None) -> Any:
        return json.loads(self.request(path, body, method, query))

    def jobs(self, *, user: Optional[str] = None, pool: Optional[str] = None, state: Optional[str] = None) -> List["Job"]:
        """The cluster's jobs, oldest first. States: waiting, running, succeeded, killed, failed."""
        query = {name: value for name, value in (("user", user), ("pool", pool), ("state", state)) if value is not None}
        return [Job(self, found["job"], found) for found in self._json("jobs", query=query)]

    def job(self, id: int) -> "Job":
        """One job."""
        return Job(self, id, self._json(f"jobs/{id}"))

    def nodes(self) -> List[Dict[str, Any]]:
        """The cluster's nodes."""
        found: List[Dict[str, Any]] = self._json("nodes")
        return found

    def submit(
        self,
        app: str,
        *,
        input: Paths,
        output: Union[str, "os.PathLike[str]"],
        options: Optional[Mapping[str, str]] = None,
        name: Optional[str] = None,
        user: Optional[str] = None,
        pool: Optional[str] = None,
        priority: str = "normal",
        reduces: Optional[int] = None,
        split_bytes: Optional[int] = None,
        memory_bytes: Optional[int] = None,
    ) -> "Job":
        """Submits a job. Once this returns, the job is durable. Relative paths are those of this process."""
        inputs = [input] if isinstance(input, (str, os.PathLike)) else list(input)
        body: Dict[str, object] = {
            "app": app,
            "input": [_absolute(path) for path in inputs],
            "output": _absolute(output),
            "options": dict(options or {}),
            "user": user if user is not None else _user(),
            "priority": priority,
        }
        optional = {"name": name, "pool": pool, "reduces": reduces, "split_bytes": split_bytes, "memory_bytes": memory_bytes}
        body.update({key: value for key, value in optional.items() if value is not None})
        job = Job(self, self._json("jobs", body)["job"], None)
        job._output = _absolute(output)
        return job

    def map_reduce(
        self,
        mapper: Callable[[str], Any],
        reducer: Optional[Callable[[str, Iterable[str]], Any]] = None,
        *,
        input: Paths,
        output: Union[str, "os.PathLike[str]"],
        combiner: Optional[Callable[[str, Iterable[str]], Any]] = None,
        uses: Iterable[Callable[..., Any]] = (),
        **submit: Any,
    ) -> "Job":
        """Runs Python functions as a job.

        ``mapper(line)`` yields ``(key, value)`` pairs, or rows if there is no reducer; ``reducer(key, values)`` yields rows. Values are text. Functions are sent as
        their source: they import what they need in their body, and name other functions they call in ``uses``. What they print to ``sys.stderr`` is
        in :meth:`Job.logs`. Lines that are not UTF-8 keep their bytes.
        """
        used = list(uses)
        folder = tempfile.mkdtemp(prefix="giveway-")
        options = {"dir": folder, "mapper": functions.write_program(folder, "mapper.py", functions.program(mapper, used, False))}
        for role, function in (("reducer", reducer), ("combiner", combiner)):
            if function is not None:
                options[role] = functions.write_program(folder, f"{role}.py", functions.program(function, used, True))
        submit.setdefault("name", mapper.__name__)
        try:
            job = self.submit("streaming", input=input, output=output, options=options, **submit)
        except GivewayError:
            _remove(folder)
            raise
        job._programs = folder
        return job


class Job:
    """A job of a cluster."""

    def __init__(self, cluster: Cluster, id: int, status: Optional[Dict[str, Any]]) -> None:
        self.cluster = cluster
        self.id = id
        self._status = status
        self._output: Optional[str] = None
        self._programs: Optional[str] = None

    def __repr__(self) -> str:
        return f"Job({self.id})"

    def status(self) -> Dict[str, Any]:
        """State, tasks, counters and failures, as the API has them, now."""
        status: Dict[str, Any] = self.cluster._json(f"jobs/{self.id}")
        self._status = status
        return status

    @property
    def state(self) -> str:
        """waiting, running, succeeded, killed or failed, now."""
        return str(self.status()["state"])

    def wait(self, timeout_s: Optional[float] = None, *, on_status: Optional[Callable[[Dict[str, Any]], None]] = None) -> Dict[str, Any]:
        """Waits until the job and all rounds that follow it have ended. Returns the last status; raises JobFailed unless it succeeded.

        A restart of the coordinator meanwhile does not matter. With a timeout, raises TimeoutError.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        delay, id, unanswered = 0.05, self.id, 0
        while True:
            try:
                status = self.cluster._json(f"jobs/{id}")
                unanswered = 0
            except ApiError as error:
                unanswered += 1
                if error.status not in (0, 503) or unanswered > 60:
                    raise
                status = None
            if status is not None:
                if on_status is not None:
                    on_status(status)
                if status["state"] in _ENDED:
                    if status.get("next_round") is None:
                        break
                    id = status["next_round"]
                    continue
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"job {self.id} has not ended within {timeout_s} s; it continues")
            time.sleep(delay)
            delay = min(delay * 1.5, 1.0)
        if self._programs is not None:
            _remove(self._programs)
            self._programs = None
        if status["state"] != "succeeded":
            raise JobFailed(self.id, status["state"], list(status["failures"]))
        return dict(status)

    def kill(self) -> None:
        """Kills the job and removes its output."""
        self.cluster.request(f"jobs/{self.id}/kill", method="POST")

    def yield_slots(self) -> None:
        """Makes its running tasks free their slots once, without losing work."""
        self.cluster.request(f"jobs/{self.id}/yield", method="POST")

    def explain(self) -> Dict[str, Any]:
        """Why the job runs or waits, the latest decisions about it, and its expected end."""
        found: Dict[str, Any] = self.cluster._json(f"jobs/{self.id}/explain")
        return found

    def log_list(self) -> List[Dict[str, Any]]:
        """The attempts that have printed something."""
        found: List[Dict[str, Any]] = self.cluster._json(f"jobs/{self.id}/logs")
        return found

    def logs(self, attempt: Optional[str] = None) -> Dict[str, str]:
        """What attempts have printed, by attempt such as ``map-7.0``; of one attempt or of all."""
        names = [attempt] if attempt is not None else [found["attempt"] for found in self.log_list()]
        return {name: b"".join(self._log(name)).decode("utf-8", "replace") for name in names}

    def _log(self, attempt: str) -> Iterator[bytes]:
        at = 0
        while True:
            chunk, headers = self.cluster._request(f"jobs/{self.id}/logs/{urllib.parse.quote(attempt)}", query={"from": at})
            if not chunk:
                return
            yield chunk
            at = int(headers["giveway-log-next"])

    def rows(self, output: Optional[Union[str, "os.PathLike[str]"]] = None, *, encoding: str = "utf-8") -> Iterator[Tuple[str, ...]]:
        """The lines of the output, split at tabs, as ``results.rows`` reads them. ``output`` is needed only if the output was moved."""
        return results.rows(self._folder(output), encoding)

    def frame(
        self,
        columns: Optional[Sequence[str]] = None,
        *,
        output: Optional[Union[str, "os.PathLike[str]"]] = None,
        encoding: str = "utf-8",
    ) -> Any:
        """The output as a DataFrame of pandas or polars."""
        return results.frame(self._folder(output), columns, encoding)

    def _folder(self, output: Optional[Union[str, "os.PathLike[str]"]]) -> str:
        if output is None and self._output is None:
            self._output = str(self.status()["output"])
        return os.fspath(output) if output is not None else str(self._output)


def _absolute(path: Union[str, "os.PathLike[str]"]) -> str:
    text = os.fspath(path)
    return text if text.startswith(("dfs:", "hdfs:")) else os.path.abspath(text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid())


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
