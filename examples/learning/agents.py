"""Agents that order the jobs of a cluster of 100 nodes, beside built-in policies, on seeds that none was trained on.

    pip install ./clients/python gymnasium
    python examples/learning/agents.py

A linear agent learns by the cross-entropy method: weights are drawn from a normal distribution, which moves to the best of them. It is a baseline to beat.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Callable, Dict, List, Sequence

import giveway
import giveway.gym
import numpy

NODES = {"nodes": [{"name": "node", "count": 100, "map_slots": 4, "reduce_slots": 2}]}
WORKLOAD = {"generate": {"jobs": 200, "load": 0.9}}
# Everything but the order of jobs.
POLICY = "area"
SHOWN = giveway.gym.JOB_FACTS.index("remaining_area_s")

Agent = Callable[[Dict[str, numpy.ndarray]], numpy.ndarray]


def first_come(observation: Dict[str, numpy.ndarray]) -> numpy.ndarray:
    """The job that was submitted first."""
    return numpy.zeros(len(observation["jobs"]))


def least_work(observation: Dict[str, numpy.ndarray]) -> numpy.ndarray:
    """The job with the least work left."""
    return numpy.log2(1 + 1e6 * observation["jobs"][:, SHOWN]) / 64


def random_agent(seed: int) -> Agent:
    """A job by chance, again and again."""
    numbers = numpy.random.default_rng(seed)
    return lambda observation: numbers.random(len(observation["jobs"]))


def linear(weights: numpy.ndarray) -> Agent:
    """The job with the lowest weighted sum of the logarithms of its facts."""

    def act(observation: Dict[str, numpy.ndarray]) -> numpy.ndarray:
        return 1 / (1 + numpy.exp(-numpy.log1p(observation["jobs"]) @ weights / 10))

    return act


def mean_completion_s(agent: Agent, seed: int) -> float:
    """Runs the agent until the last job has ended."""
    environment = giveway.gym.Scheduling(WORKLOAD, cluster=NODES, policy=POLICY)
    observation, info = environment.reset(seed=seed)
    ended = False
    while not ended:
        observation, _, ended, _, info = environment.step(agent(observation))
    return float(info["mean_completion_s"])


def cost(weights: numpy.ndarray, seeds: Sequence[int]) -> float:
    """The mean over seeds of the completion time, relative to that of the least work first."""
    return float(numpy.mean([mean_completion_s(linear(weights), seed) / mean_completion_s(least_work, seed) for seed in seeds]))


def train(generations: int, population: int, seeds: Sequence[int]) -> numpy.ndarray:
    """The weights after these generations."""
    numbers = numpy.random.default_rng(1)
    mean, deviation = numpy.zeros(len(giveway.gym.JOB_FACTS)), numpy.full(len(giveway.gym.JOB_FACTS), 10.0)
    with ProcessPoolExecutor() as processes:
        for generation in range(generations):
            drawn = mean + deviation * numbers.standard_normal((population, len(mean)))
            costs = numpy.array(list(processes.map(cost, drawn, [seeds] * population)))
            best = drawn[numpy.argsort(costs)[: population // 5]]
            mean, deviation = best.mean(axis=0), best.std(axis=0) + 0.1
            print(f"generation {generation + 1} of {generations}: best {costs.min():.3f}, median {numpy.median(costs):.3f} of least-work", flush=True)
    return mean


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--generations", type=int, default=12)
    arguments.add_argument("--population", type=int, default=40)
    arguments.add_argument("--held-out", type=int, default=20, metavar="SEEDS")
    given = arguments.parse_args()

    start = time.monotonic()
    weights = train(given.generations, given.population, range(1, 5))
    print(f"trained in {time.monotonic() - start:.0f} s; weights:")
    for fact, weight in zip(giveway.gym.JOB_FACTS, weights):
        print(f"  {fact:18} {weight:6.1f}")

    seeds = range(1001, 1001 + given.held_out)
    agents: Dict[str, Agent] = {"random": random_agent(1), "first come": first_come, "least work": least_work, "linear, trained": linear(weights)}
    results: Dict[str, List[float]] = {name: [mean_completion_s(agent, seed) for seed in seeds] for name, agent in agents.items()}
    runs = giveway.simulate(WORKLOAD, ["fair", "area", "giveway"], cluster=NODES, seed=seeds[0], runs=len(seeds), progress=False).runs
    for run in runs:
        results.setdefault(f"policy {run['policy']}", []).append(run["mean_completion_s"])

    fair = numpy.array(results["policy fair"])
    print(f"\n{'on ' + str(len(seeds)) + ' other seeds':18} mean completion  of fair, 95 % interval")
    for name, times in sorted(results.items(), key=lambda result: numpy.mean(result[1])):
        ratios = numpy.log(numpy.array(times) / fair)
        half = 1.96 * ratios.std(ddof=1) / len(ratios) ** 0.5 if len(ratios) > 1 else 0.0
        low, middle, high = numpy.exp([ratios.mean() - half, ratios.mean(), ratios.mean() + half])
        print(f"{name:18} {numpy.mean(times):13.1f} s  {middle:.3f} ({low:.3f}-{high:.3f})")


if __name__ == "__main__":
    main()
