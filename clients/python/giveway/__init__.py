"""Giveway from Python: a client of clusters, and the simulator.

Submit jobs, wait for them, read their results, with the standard library alone::

    cluster = giveway.connect()
    job = cluster.submit("wordcount", input="books/*.txt", output="counts")
    job.wait()
    for word, count in job.rows():
        ...

Simulate policies on workloads, traces and event logs, in code that is compiled when the package is installed where there is Rust::

    result = giveway.simulate("fcs-map-heavy", ["fair", "giveway"], runs=3)
    result.jobs.frame()
"""

from .client import Cluster, Job, connect
from . import results
from .errors import ApiError, GivewayError, InvalidInput, JobFailed
from .functions import SourceError
from .simulation import (
    Comparison,
    NoSimulator,
    Order,
    Result,
    Table,
    WhatIf,
    cluster,
    compare,
    policies,
    policy,
    read_attempts,
    read_jobs,
    read_slots,
    simulate,
    what_if,
    workloads,
)

__all__ = [
    "ApiError",
    "Cluster",
    "Comparison",
    "GivewayError",
    "InvalidInput",
    "Job",
    "JobFailed",
    "NoSimulator",
    "Order",
    "Result",
    "SourceError",
    "Table",
    "WhatIf",
    "cluster",
    "compare",
    "connect",
    "policies",
    "policy",
    "read_attempts",
    "read_jobs",
    "read_slots",
    "simulate",
    "what_if",
    "workloads",
]
