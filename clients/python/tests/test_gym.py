"""Tests of the learning environment. They need Gymnasium, which nothing else does."""

import unittest

import giveway

try:
    import gymnasium
    import numpy
    from gymnasium.utils.env_checker import check_env
except ImportError:
    gymnasium = None

CLUSTER = {"nodes": [{"name": "node", "count": 4, "map_slots": 2, "reduce_slots": 1}]}
WORKLOAD = {"generate": {"jobs": 30, "load": 0.9}}


@unittest.skipIf(gymnasium is None, "Gymnasium is not installed")
class Learning(unittest.TestCase):
    def environment(self, **options):
        import giveway.gym

        return giveway.gym.Scheduling(WORKLOAD, cluster=CLUSTER, **options)

    def run_episode(self, environment, act, seed=1):
        observation, _ = environment.reset(seed=seed)
        rewards = []
        ended = False
        while not ended:
            observation, reward, ended, truncated, info = environment.step(act(observation))
            self.assertFalse(truncated)
            rewards.append(reward)
        return rewards, info

    def test_it_is_an_environment_of_gymnasium(self):
        import giveway.gym

        check_env(gymnasium.make("giveway/Scheduling-v0", workload=WORKLOAD, cluster=CLUSTER).unwrapped)
        self.assertEqual(self.environment().observation_space["jobs"].shape, (128, len(giveway.gym.JOB_FACTS)))

    def test_an_agent_that_ranks_as_an_order_has_its_run(self):
        import giveway.gym

        area = giveway.gym.JOB_FACTS.index("remaining_area_s")

        def value(area_s):
            return numpy.floor(numpy.log2(1e6 * numpy.float32(area_s) + 1)) / 64

        rewards, info = self.run_episode(self.environment(policy="area"), lambda observation: value(observation["jobs"][:, area]))
        policy = giveway.policy("area")
        policy["name"] = "least work"
        policy["map"]["order"] = policy["reduce"]["order"] = giveway.Order(lambda job: float(value(job.remaining_area_s)))
        by_policy = giveway.simulate(WORKLOAD, [policy, "fifo"], cluster=CLUSTER, progress=False).runs
        self.assertAlmostEqual(info["mean_completion_s"], by_policy[0]["mean_completion_s"], places=6)
        self.assertNotAlmostEqual(info["mean_completion_s"], by_policy[1]["mean_completion_s"], places=1)
        self.assertAlmostEqual(-sum(rewards) / 30, info["mean_completion_s"], places=6)

    def test_equal_actions_and_seeds_give_equal_runs(self):
        def act(observation):
            return observation["jobs"][:, 0] % 1

        first = self.run_episode(self.environment(), act, seed=7)
        self.assertEqual(self.run_episode(self.environment(), act, seed=7), first)
        self.assertNotEqual(self.run_episode(self.environment(), act, seed=8), first)

    def test_jobs_that_are_not_shown_come_last(self):
        few, info_of_few = self.run_episode(self.environment(max_jobs=1), lambda observation: numpy.zeros(1))
        self.assertEqual(info_of_few["jobs_done"], 30)

    def test_invalid_actions_and_arguments_are_refused(self):
        environment = self.environment()
        with self.assertRaises(gymnasium.error.ResetNeeded):
            environment.step(numpy.zeros(128))
        environment.reset(seed=1)
        with self.assertRaisesRegex(ValueError, "shape"):
            environment.step(numpy.zeros(3))
        with self.assertRaisesRegex(ValueError, "NaN"):
            environment.step(numpy.full(128, numpy.nan))
        environment.step(numpy.zeros(128))
        environment.close()
        with self.assertRaisesRegex(ValueError, "max_jobs"):
            self.environment(max_jobs=0)
        with self.assertRaisesRegex(giveway.InvalidInput, "unknown policy"):
            self.environment(policy="nope").reset(seed=1)
        # Runs that are given up end: another one is started in the middle of each.
        environment = self.environment()
        for seed in range(50):
            environment.reset(seed=seed)


if __name__ == "__main__":
    unittest.main()
