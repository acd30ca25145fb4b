"""Simulations: the scheduler of a cluster on modelled jobs and nodes, and what was recorded of real ones.

    import giveway

    result = giveway.simulate("fcs-map-heavy", ["fair", "giveway"], runs=3)
    frame = result.jobs.frame()
    frame.groupby("policy")["completion_s"].mean()

Policies, workloads and clusters are names, paths of files, or dictionaries with the content of such a file.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union, cast

from .errors import GivewayError, InvalidInput
from .results import data_frame

try:
    from . import _giveway
except ImportError:  # Installed without Rust: only the client of a cluster is there.
    _giveway = None  # type: ignore[assignment]

Named = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Row = Dict[str, Any]


class NoSimulator(GivewayError, ImportError):
    """This installation has only the client of a cluster."""


def _native() -> Any:
    if _giveway is None:
        raise NoSimulator("this installation has no simulator; install Rust (https://rustup.rs), then reinstall the package")
    return _giveway


class Table:
    """Rows with columns of one type each. It has Arrow's interface: ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and
    ``pandas.DataFrame.from_arrow(table)`` take it without a copy of the numbers."""

    def __init__(self, native: Any) -> None:
        self._native = native

    @property
    def columns(self) -> List[str]:
        """The names of the columns, from left to right."""
        return list(self._native.columns)

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, column: str) -> List[Any]:
        """The values of a column; NaN where a number is missing."""
        return list(self._native[column])

    def __iter__(self) -> Iterator[Row]:
        """The rows as dictionaries."""
        columns = self.columns
        for row in zip(*(self[column] for column in columns)):
            yield dict(zip(columns, row))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native.__arrow_c_stream__(requested_schema)

    def frame(self) -> Any:
        """A DataFrame of pandas, or else of Polars, whichever is installed."""
        return data_frame({column: self[column] for column in self.columns})

    def __repr__(self) -> str:
        return f"<giveway.Table: {len(self)} rows of {', '.join(self.columns)}>"


@dataclass(frozen=True)
class Result:
    """The result of :func:`simulate`."""

    runs: List[Row]
    """The metrics of each run, the same as those of ``giveway sim --json``."""
    jobs: Table
    """The jobs that succeeded."""
    attempts: Optional[Table]
    """The attempts, if they were asked for."""
    slots: Optional[Table]
    """The slots in use over time, if they were asked for."""


@dataclass(frozen=True)
class Comparison:
    """The result of :func:`compare`."""

    changes: List[Row]
    """For each workload and policy: the change of the metric from the baseline (0.1 is 10 % more), its interval, and the probability that it is chance."""
    runs: List[Row]
    """The metrics of each run, with its workload."""

    def frame(self) -> Any:
        """The changes as a DataFrame."""
        return data_frame({name: [change[name] for change in self.changes] for name in self.changes[0]} if self.changes else {})


@dataclass(frozen=True)
class WhatIf:
    """The result of :func:`what_if`."""

    recorded: Table
    """The jobs as they were recorded, with their completion times."""
    policy: Optional[str]
    """The policy under which they ran, if it is known. It is simulated too: count changes from that run, because both sides then have the same model."""
    runs: List[Row]
    """The metrics of each simulated run."""
    jobs: Table
    """The jobs of each simulated run."""


@dataclass(frozen=True)
class Order:
    """An order of jobs: ``function`` takes a :class:`Job` and returns a number, and the job with the lowest one gets the next slot.

    It is put where a policy has the name of an order::

        order = giveway.Order(lambda job: job.remaining_s)
        policy = {"name": "mine", "map": {"order": order}, "reduce": {"order": order}}

    The function must return the same for the same facts. It is called for a job whenever its tasks start or end, and for all jobs whenever
    estimates are computed, so that it takes far more time than an order in Rust.
    """

    function: Callable[[Any], float]
    name: str = ""
    version: str = "1"

    def _name(self) -> str:
        name = self.name or getattr(self.function, "__name__", "")
        return name if name and name != "<lambda>" else f"order-{id(self.function)}"


def _source(given: Named, what: str, orders: List[Tuple[str, str, Callable[[Any], float]]]) -> Dict[str, Optional[str]]:
    """What the simulator takes: a name, or the JSON of a table whose orders are replaced by their names."""
    if not isinstance(given, Mapping):
        try:
            return {"name": os.fspath(given), "json": None}
        except TypeError:
            raise TypeError(f"{what}: expected a name, a path or a dictionary, got {type(given).__name__}") from None

    def convert(value: Any) -> Any:
        if isinstance(value, Order):
            entry = (value._name(), value.version, value.function)
            if entry not in orders:
                orders.append(entry)
            return {"custom": {"name": entry[0], "version": entry[1]}}
        if hasattr(value, "item"):  # A number of NumPy.
            return value.item()
        raise TypeError(f"{what}: {value!r} ({type(value).__name__}) is neither a number, a string, a list nor a dictionary")

    name = given.get("name")
    try:
        text = json.dumps(given, default=convert, allow_nan=False)
    except ValueError as error:
        raise InvalidInput(f"{what}: {error}") from None
    return {"name": name if isinstance(name, str) else what, "json": text}


def _progress_bar() -> Optional[Callable[[int, int], None]]:
    """Shows progress in a notebook or a terminal: by tqdm if it is installed, otherwise as a line of text."""
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        if not sys.stderr.isatty():
            return None

        def line(done: int, total: int) -> None:
            end = "\n" if done == total else ""
            print(f"\rsimulating: {done} of {total} jobs", end=end, file=sys.stderr, flush=True)

        return line
    bar = tqdm(desc="simulating", unit="job", disable=None, leave=False, delay=1)

    def show(done: int, total: int) -> None:
        bar.total, bar.n = total, done
        bar.refresh()

    return show


def simulate(
    workload: Named,
    policies: Union[Named, Sequence[Named]] = "giveway",
    *,
    cluster: Optional[Named] = None,
    seed: int = 1,
    runs: int = 1,
    trace_model: Union[str, "os.PathLike[str]", None] = None,
    estimate_error: Optional[float] = None,
    attempts: bool = False,
    slots: bool = False,
    progress: Union[bool, Callable[[int, int], None]] = True,
) -> Result:
    """Simulates a workload under each policy, with ``runs`` seeds from ``seed`` on, on all cores.

    The workload may also be a trace of another system or an event log. Equal arguments give equal results, bit for bit, which are those of
    ``giveway sim``. ``progress`` may be a function of the number of jobs done and of all jobs.
    """
    native = _native()
    listed = list(policies) if isinstance(policies, (list, tuple)) else [cast(Named, policies)]
    orders: List[Tuple[str, str, Callable[[Any], float]]] = []
    sources = [_source(policy, "policy", orders) for policy in listed]
    report = _progress_bar() if progress is True else progress or None
    runs_json, jobs, *tables = native.simulate(
        _source(workload, "workload", []),
        None if cluster is None else _source(cluster, "cluster", []),
        sources,
        orders,
        seed,
        runs,
        None if trace_model is None else os.fspath(trace_model),
        estimate_error,
        attempts,
        slots,
        report,
    )
    return Result(json.loads(runs_json), Table(jobs), *(None if table is None else Table(table) for table in tables))


def compare(
    workloads: Union[Named, Sequence[Named]],
    policies: Sequence[Named],
    *,
    baseline: str = "fair",
    metric: str = "mean_completion_s",
    runs: int = 10,
    **options: Any,
) -> Comparison:
    """Simulates workloads under policies, and compares each with the baseline over pairs of runs with the same seed.

    ``baseline`` is the name of a policy; ``options`` are those of :func:`simulate`. The interval is of a bootstrap, and the probability of a permutation
    test of signs, corrected by Holm's method for all comparisons. With n seeds it is at least 2/2ⁿ before that: use at least ten.
    """
    listed = list(workloads) if isinstance(workloads, (list, tuple)) else [cast(Named, workloads)]
    names = {policy if isinstance(policy, str) else policy.get("name") if isinstance(policy, Mapping) else None for policy in policies}
    every = list(policies) if baseline in names else [baseline, *policies]
    all_runs: List[Row] = []
    pairs: List[Tuple[str, str]] = []
    ratios: List[List[float]] = []
    for number, workload in enumerate(listed):
        name = workload.get("name", f"workload {number}") if isinstance(workload, Mapping) else os.fspath(workload)
        of_workload = simulate(workload, every, runs=runs, **options).runs
        all_runs.extend({"workload": name, **run} for run in of_workload)
        by_policy: Dict[str, List[float]] = {}
        for run in of_workload:
            if not isinstance(run.get(metric), (int, float)):
                raise InvalidInput(f"runs have no number `{metric}`; use one of {', '.join(key for key in run if isinstance(run[key], (int, float)))}")
            by_policy.setdefault(run["policy"], []).append(float(run[metric]))
        base = by_policy.pop(baseline)
        for policy, values in by_policy.items():
            pairs.append((name, policy))
            ratios.append([ours / theirs if theirs else float("nan") for ours, theirs in zip(values, base)])
    changes = _native().paired_changes(ratios)
    columns = ("change", "low", "high", "p")
    return Comparison([{"workload": workload, "policy": policy, **dict(zip(columns, change))} for (workload, policy), change in zip(pairs, changes)], all_runs)


def what_if(log: Union[str, "os.PathLike[str]"], policies: Union[Named, Sequence[Named]], **options: Any) -> WhatIf:
    """Simulates the jobs of an event log, journal or trace under the policy that they ran under, if it is recorded, and under others.

    ``options`` are those of :func:`simulate`; with ``cluster`` they run on another cluster than the recorded one.
    """
    listed = list(policies) if isinstance(policies, (list, tuple)) else [cast(Named, policies)]
    recorded = _native().recorded_policy(os.fspath(log))
    own: Optional[Dict[str, Any]] = None if recorded is None else json.loads(recorded)
    if own is not None:
        listed = [own, *(policy for policy in listed if policy != own["name"])]
    result = simulate(log, listed, **options)
    trace_model = options.get("trace_model")
    return WhatIf(read_jobs(log, trace_model=trace_model), None if own is None else own["name"], result.runs, result.jobs)


def policies() -> Dict[str, str]:
    """The built-in policies, and what each does."""
    return dict(_native().policies())


def policy(name: str) -> Dict[str, Any]:
    """A policy as a dictionary, to be changed and simulated. Its name should be changed too."""
    result: Dict[str, Any] = json.loads(_native().policy(name))
    return result


def cluster(name: str) -> Dict[str, Any]:
    """A cluster as a dictionary, to be changed: a built-in one, or that of a built-in workload."""
    result: Dict[str, Any] = json.loads(_native().cluster(name))
    return result


def workloads() -> Dict[str, str]:
    """The built-in workloads, and what each is."""
    return dict(_native().workloads())


def read_jobs(source: Union[str, "os.PathLike[str]"], *, trace_model: Union[str, "os.PathLike[str]", None] = None, seed: int = 1) -> Table:
    """The jobs of a trace of another system, of an event log or journal, or of a workload: what is known of them before any run."""
    return Table(_native().read_jobs(os.fspath(source), None if trace_model is None else os.fspath(trace_model), seed))


def read_slots(log: Union[str, "os.PathLike[str]"]) -> Table:
    """The slots in use over time, of an event log or of the journal of a cluster."""
    return Table(_native().read_slots(os.fspath(log)))


def read_attempts(log: Union[str, "os.PathLike[str]"]) -> Table:
    """The attempts in an event log or in the journal of a cluster."""
    return Table(_native().read_attempts(os.fspath(log)))
