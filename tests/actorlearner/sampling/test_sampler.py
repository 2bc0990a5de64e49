"""What a fragment holds: rows, returns, final observations, seeds, log-probabilities."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from actorlearner.envs.spec import probe_environment
from actorlearner.exceptions import NonFiniteError
from actorlearner.models.catalog import build_model
from actorlearner.sampling.sampler import Sampler
from actorlearner.settings import settings_from_dict
from actorlearner.types import EpisodeStats, Weights

CLOCK = "clock_environments:Clock-v0"


def make_sampler(
    environment: str = CLOCK,
    *,
    steps: int = 8,
    num_envs: int = 2,
    worker_index: int = 0,
    seed: int = 0,
    **env_config: Any,
) -> Sampler:
    settings = settings_from_dict(
        {
            "algorithm": {"rollout_fragment_length": steps},
            "environment": {"id": environment, "env_config": env_config},
            "debugging": {"seed": seed},
        }
    )
    torch.manual_seed(seed)
    spec = probe_environment(settings.environment)
    return Sampler(settings, spec, num_envs=num_envs, worker_index=worker_index)


def test_a_reward_on_the_last_step_only_is_counted_exactly() -> None:  # fault F20
    sampler = make_sampler(steps=7, length=5)
    episodes = [episode for _ in range(5) for episode in sampler.sample().episodes]
    assert episodes == [EpisodeStats(1.0, 5)] * 14


@pytest.mark.parametrize("terminates", [True, False])
def test_returns_do_not_carry_over_an_end(terminates: bool) -> None:  # fault F24
    sampler = make_sampler(steps=3, length=4, terminates=terminates, pays_every_step=True)
    episodes = [episode for _ in range(8) for episode in sampler.sample().episodes]
    assert episodes == [EpisodeStats(4.0, 4)] * 12


def test_a_time_limit_ends_native_vector_episodes_with_exact_returns() -> None:  # faults F20, F24
    sampler = make_sampler("CartPole-v1", steps=100, num_envs=4, max_episode_steps=6)
    fragments = [sampler.sample() for _ in range(3)]
    episodes = [episode for fragment in fragments for episode in fragment.episodes]
    assert Counter(episodes)[EpisodeStats(6.0, 6)] > 100
    assert all(episode.episode_return == episode.length <= 6 for episode in episodes)
    # The reset rows of next-step autoreset are no env steps.
    ends = sum(int((fragment.terminated | fragment.truncated)[:-1].sum()) for fragment in fragments)
    assert sum(int((~fragment.valid)[1:].sum()) for fragment in fragments) == ends


def test_a_truncated_step_brings_its_final_observation() -> None:  # spec I2
    fragment = make_sampler(steps=8, length=3, terminates=False).sample()
    assert fragment.final_index.tolist() == [[2, 0], [2, 1], [5, 0], [5, 1]]
    assert fragment.final_observations[:, 0].tolist() == [3.0] * 4
    assert fragment.observations[3, :, 0].tolist() == [0.0, 0.0]
    # A termination has no successor to value.
    assert len(make_sampler(steps=8, length=3, terminates=True).sample().final_index) == 0


def test_fragments_follow_on_each_other_and_own_their_arrays() -> None:
    sampler = make_sampler(steps=3, length=100)
    first = sampler.sample()
    kept = first.observations.copy()
    second = sampler.sample()
    np.testing.assert_array_equal(first.observations, kept)
    np.testing.assert_array_equal(first.observations[-1], second.observations[0])
    assert second.observations[:, 0, 0].tolist() == [3, 4, 5, 6]


def test_first_observations_differ_between_sub_environments_workers_and_seeds() -> None:  # fault F23
    marks = [
        float(mark)
        for seed in (0, 1)
        for worker_index in (0, 1, 2)
        for mark in make_sampler(seed=seed, worker_index=worker_index, num_envs=4).sample().observations[0, :, 1]
    ]
    assert len(set(marks)) == len(marks) == 24


def test_the_same_seed_gives_the_same_fragments() -> None:  # fault F23
    first, second = (make_sampler("CartPole-v1", seed=3) for _ in range(2))
    for _ in range(3):
        left, right = first.sample(), second.sample()
        for name, array in vars(left).items():
            np.testing.assert_array_equal(array, getattr(right, name))


def test_log_probabilities_and_frequencies_are_the_policys() -> None:  # fault F21
    sampler = make_sampler(steps=500, num_envs=8, length=1000)
    settings = settings_from_dict({})
    spec = probe_environment(settings_from_dict({"environment": {"id": CLOCK}}).environment)
    model = build_model(spec.observation_space, spec.action_space, settings.model, settings.resources.precision)
    with torch.no_grad():
        model.get_parameter("policy_head.weight").zero_()
        model.get_parameter("policy_head.bias").copy_(torch.tensor([0.0, np.log(3.0)]))
    arrays = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    for array in arrays.values():
        array.flags.writeable = False  # as from Ray's object store
    sampler.set_weights(Weights(7, arrays))
    fragment = sampler.sample()
    assert fragment.weights_version == sampler.weights_version == 7
    expected = np.where(fragment.actions == 1, np.log(0.75), np.log(0.25))
    np.testing.assert_allclose(fragment.behaviour_log_probs, expected, rtol=1e-5)
    assert fragment.actions.mean() == pytest.approx(0.75, abs=0.03)


def test_a_non_finite_observation_is_named() -> None:  # fault F4
    with pytest.raises(NonFiniteError, match=r"logits became NaN .*NanObservation-v0"):
        make_sampler("clock_environments:NanObservation-v0").sample()
