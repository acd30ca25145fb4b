"""The simulator, compiled. Use the functions of the package instead."""

from typing import Any, Callable, Dict, List, Optional, Tuple

Source = Dict[str, Optional[str]]

class Table:
    columns: List[str]
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> List[Any]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class JobFacts:
    """What an order knows of a job. Times are in seconds."""

    job: int
    name: str
    priority: int
    kind: str
    extra: int
    now_s: float
    submit_s: float
    maps: int
    reduces: int
    maps_done: int
    reduces_done: int
    maps_running: int
    reduces_running: int
    input_bytes: int
    remaining_s: float
    alone_s: float
    remaining_area_s: float
    slot_time_s: float

def simulate(
    source: Source,
    cluster: Optional[Source],
    policies: List[Source],
    orders: List[Tuple[str, str, Callable[[JobFacts], float]]],
    seed: int,
    runs: int,
    trace_model: Optional[str],
    estimate_error: Optional[float],
    with_attempts: bool,
    with_slots: bool,
    progress: Optional[Callable[[int, int], None]],
) -> Tuple[str, Table, Optional[Table], Optional[Table]]: ...
def policies() -> List[Tuple[str, str]]: ...
def policy(name: str) -> str: ...
def cluster(name: str) -> str: ...
def workloads() -> List[Tuple[str, str]]: ...
def read_jobs(name: str, trace_model: Optional[str] = None, seed: int = 1) -> Table: ...
def read_attempts(file: str) -> Table: ...
def read_slots(file: str) -> Table: ...
def recorded_policy(name: str) -> Optional[str]: ...
def paired_changes(ratios: List[List[float]]) -> List[Tuple[float, float, float, float]]: ...

JOB_FACTS: List[str]
CLUSTER_FACTS: List[str]

class Observation:
    """What an agent sees when it has to give values."""

    jobs: List[float]
    numbers: List[int]
    cluster: List[float]
    now_s: float
    job_s: float
    jobs_done: int
    ended: bool

class Episode:
    """One run whose jobs an agent orders."""

    def __init__(
        self,
        source: Source,
        cluster: Optional[Source],
        policy: Source,
        seed: int,
        trace_model: Optional[str],
        max_jobs: int,
    ) -> None: ...
    def advance(self, values: Optional[List[float]]) -> Observation: ...
