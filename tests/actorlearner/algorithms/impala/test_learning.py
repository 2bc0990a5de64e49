"""IMPALA learns; the thresholds are far below what the benchmarks show."""

from __future__ import annotations

import pytest

from actorlearner import ImpalaConfig


@pytest.mark.slow
@pytest.mark.parametrize("num_cpus", [1, 2])
def test_cartpole_reaches_195_within_150_000_env_steps(num_cpus: int) -> None:
    algorithm = (
        ImpalaConfig()
        .environment("CartPole-v1", reward_scale=0.1)
        .rollouts(num_workers=0, num_envs_per_worker=32, rollout_fragment_length=16)
        .training(train_batch_size=512, vtrace_drop_last_ts=False, lr=0.003)
        .resources(num_cpus_for_driver=num_cpus)
        .reporting(min_sample_timesteps_per_iteration=10_000)
        .build()
    )
    best = 0.0
    while algorithm.counters.num_env_steps_sampled < 150_000 and best < 195:
        best = max(best, algorithm.train()["episode_return_mean"])
    algorithm.stop()
    assert best >= 195
