"""Errors of this package."""


class GivewayError(Exception):
    """Base of all errors of this package."""


class ApiError(GivewayError):
    """The cluster refused a request, or does not answer (``status`` is then 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class JobFailed(GivewayError):
    """A job that was waited for failed or was killed."""

    def __init__(self, job: int, state: str, failures: "list[str]") -> None:
        reason = f": {failures[-1]}" if failures else ""
        super().__init__(f"job {job} {state}{reason}")
        self.job = job
        self.state = state
        self.failures = failures


class InvalidInput(GivewayError, ValueError):
    """A policy, workload, cluster or file that cannot be used. The message says why, and what to do."""
