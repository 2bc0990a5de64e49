"""The fluent configuration."""

from __future__ import annotations

import pytest
from ray import tune

from actorlearner import ImpalaConfig
from actorlearner.exceptions import ConfigError, UnknownKeyError
from actorlearner.settings import settings_from_dict


def test_sections_are_set_fluently_over_the_defaults() -> None:  # spec A2
    config = (
        ImpalaConfig()
        .environment("CartPole-v1", reward_clipping="sign")
        .rollouts(num_workers=0, num_envs_per_worker=3, rollout_fragment_length=7)
        .training(lr=3e-4, model={"hidden_sizes": [8]})
        .resources(num_cpus_for_driver=1)
        .reporting(min_time_s_per_iteration=1)
        .debugging(seed=4)
    )
    data = config.to_dict()
    assert data["algorithm"]["lr"] == 3e-4
    assert data["algorithm"]["rollout_fragment_length"] == 7
    assert data["algorithm"]["gamma"] == 0.99
    assert data["environment"]["reward_clipping"] == "sign"
    assert data["resources"]["num_envs_per_worker"] == 3
    assert data["model"]["hidden_sizes"] == [8]
    assert settings_from_dict(data).to_dict() == data
    assert ImpalaConfig().update_from_dict(data).to_dict() == data


def test_built_from_a_config_it_trains() -> None:  # spec A1
    config = ImpalaConfig().environment("CartPole-v1").rollouts(num_workers=0).training(lr=3e-4)
    algorithm = config.build()
    assert algorithm.train()["num_env_steps_sampled"] > 0
    algorithm.stop()
    with pytest.raises(ConfigError, match=r"frozen.*change a copy"):
        config.training(lr=1e-3)
    assert config.copy().training(lr=1e-3).to_dict()["algorithm"]["lr"] == 1e-3
    assert config.to_dict()["algorithm"]["lr"] == 3e-4


def test_unknown_keys_name_the_closest_one() -> None:  # spec A2
    with pytest.raises(UnknownKeyError, match=r"algorithm\.learing_rate|algorithm\.entropy_coef"):
        ImpalaConfig().training(entropy_coef=0.1)
    with pytest.raises(UnknownKeyError, match=r"did you mean rollouts\.num_workers"):
        ImpalaConfig().rollouts(num_worker=1)
    with pytest.raises(UnknownKeyError, match="did you mean model"):
        ImpalaConfig().update_from_dict({"modell": {}})


def test_values_are_checked_when_they_are_set() -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.gamma must be between 0 and 1, got 1\.5"):
        ImpalaConfig().training(gamma=1.5)


def test_a_fragment_keeps_at_least_one_step() -> None:  # spec I3
    config = ImpalaConfig().rollouts(rollout_fragment_length=1)
    with pytest.raises(ConfigError, match=r"rollout_fragment_length must be at least 2 .* got 1"):
        config.to_settings()
    assert config.training(vtrace_drop_last_ts=False).to_settings().algorithm.rollout_fragment_length == 1


def test_search_objects_survive_and_are_refused_by_build() -> None:  # spec A2
    rate, grid = tune.loguniform(1e-4, 1e-2), tune.grid_search([0.9, 0.99])
    config = ImpalaConfig().training(lr=rate, gamma=grid)
    data = config.copy().to_dict()
    assert data["algorithm"]["lr"] is rate
    assert data["algorithm"]["gamma"] is grid
    assert data["algorithm"]["grad_clip"] == 40.0
    with pytest.raises(ConfigError, match=r"algorithm\.lr is a search object"):
        config.build()
