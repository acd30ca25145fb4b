"""A learning environment with Gymnasium's interface: an agent orders the jobs of a simulated cluster.

    import gymnasium, giveway.gym

    environment = gymnasium.make("giveway/Scheduling-v0", workload="synthetic")
    observation, info = environment.reset(seed=1)
    observation, reward, terminated, truncated, info = environment.step(environment.action_space.sample())

An action is one number between 0 and 1 for each row of ``observation["jobs"]``: the job with the lowest one gets the next slot. It is asked for whenever
a job is submitted, and whenever the policy computes its estimates (``update_interval``). The reward is minus the time that jobs spent in the system since the step before, in
job-seconds over ``reward_scale``, so that the sum of an episode is minus the sum of all completion times. An episode ends with the last job.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Tuple, Union

import gymnasium
import numpy
from gymnasium import spaces

from .simulation import Named, _native, _source

Observation = Dict[str, Any]

JOB_FACTS: Tuple[str, ...] = tuple(_native().JOB_FACTS)
"""The columns of ``observation["jobs"]``."""
CLUSTER_FACTS: Tuple[str, ...] = tuple(_native().CLUSTER_FACTS)
"""The numbers in ``observation["cluster"]``."""


class Scheduling(gymnasium.Env):
    """A cluster whose jobs an agent orders.

    ``policy`` has everything but the order: preemption, placement, groups and guarantees. ``seed`` of :meth:`reset` draws the jobs, as everywhere. Of more
    than ``max_jobs`` live jobs those with the least work left are shown; the others come after them. Rows are in the order of submission.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        workload: Named = "synthetic",
        *,
        cluster: Optional[Named] = None,
        policy: Named = "area",
        trace_model: Union[str, "os.PathLike[str]", None] = None,
        max_jobs: int = 128,
        reward_scale: float = 1.0,
    ) -> None:
        if not 1 <= max_jobs <= 100_000:
            raise ValueError(f"max_jobs is {max_jobs}; use 1 to 100000")
        self._workload = _source(workload, "workload", [])
        self._cluster = None if cluster is None else _source(cluster, "cluster", [])
        self._policy = _source(policy, "policy", [])
        self._trace_model = None if trace_model is None else os.fspath(trace_model)
        self._max_jobs, self._reward_scale = max_jobs, reward_scale
        self._episode: Any = None
        self._last: Any = None
        most = numpy.finfo(numpy.float32).max
        self.observation_space = spaces.Dict(
            {
                "jobs": spaces.Box(0, most, (max_jobs, len(JOB_FACTS)), numpy.float32),
                "shown": spaces.MultiBinary(max_jobs),
                "cluster": spaces.Box(0, most, (len(CLUSTER_FACTS),), numpy.float32),
            }
        )
        self.action_space = spaces.Box(0, 1, (max_jobs,), numpy.float32)

    def reset(self, *, seed: Optional[int] = None, options: Optional[Dict[str, Any]] = None) -> Tuple[Observation, Dict[str, Any]]:
        """Starts a run. Without a seed the next one is drawn."""
        super().reset(seed=seed)
        of_run = seed if seed is not None else int(self.np_random.integers(1 << 31))
        self._episode = _native().Episode(self._workload, self._cluster, self._policy, of_run, self._trace_model, self._max_jobs)
        self._last = self._episode.advance(None)
        return self._observation(), self._info()

    def step(self, action: Any) -> Tuple[Observation, float, bool, bool, Dict[str, Any]]:
        """Gives the shown jobs their values, and goes on to the next time when values are needed."""
        if self._episode is None or self._last.ended:
            raise gymnasium.error.ResetNeeded("the episode has ended; call reset()")
        values = numpy.asarray(action, dtype=numpy.float64)
        if values.shape != (self._max_jobs,):
            raise ValueError(f"the action has shape {values.shape}; give one number for each of {self._max_jobs} rows")
        if numpy.isnan(values).any():
            raise ValueError("the action has a NaN; give numbers")
        before = self._last.job_s
        self._last = self._episode.advance(values[: len(self._last.numbers)].tolist())
        reward = (before - self._last.job_s) / self._reward_scale
        return self._observation(), reward, bool(self._last.ended), False, self._info()

    def close(self) -> None:
        """Ends the run."""
        self._episode = self._last = None

    def _observation(self) -> Observation:
        shown = len(self._last.numbers)
        jobs = numpy.zeros((self._max_jobs, len(JOB_FACTS)), numpy.float32)
        jobs[:shown] = numpy.array(self._last.jobs, numpy.float32).reshape(shown, len(JOB_FACTS))
        rows = numpy.zeros(self._max_jobs, numpy.int8)
        rows[:shown] = 1
        return {"jobs": jobs, "shown": rows, "cluster": numpy.array(self._last.cluster, numpy.float32)}

    def _info(self) -> Dict[str, Any]:
        """The numbers of the shown jobs, and the mean completion time once all have ended."""
        info: Dict[str, Any] = {"jobs": list(self._last.numbers), "time_s": self._last.now_s, "jobs_done": self._last.jobs_done}
        if self._last.ended:
            info["mean_completion_s"] = self._last.job_s / max(self._last.jobs_done, 1)
        return info


gymnasium.register("giveway/Scheduling-v0", entry_point="giveway.gym:Scheduling")
