"""Client of a Giveway cluster: submit jobs, wait for them, read their results.

    import giveway

    cluster = giveway.connect()
    job = cluster.submit("wordcount", input="books/*.txt", output="counts")
    job.wait()
    for word, count in job.rows():
        ...

Only the standard library is needed. ``Job.frame`` uses pandas or polars if one of them is installed.
"""

from .client import Cluster, Job, connect
from . import results
from .errors import ApiError, GivewayError, JobFailed
from .functions import SourceError

__all__ = ["ApiError", "Cluster", "GivewayError", "Job", "JobFailed", "SourceError", "connect"]
