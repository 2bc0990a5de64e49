"""Atari games through ALE's own C++ vector environment: preprocessing, frame stack and threads outside Python.

The standard preprocessing (Mnih et al. 2015): up to 30 no-ops at the start, 4 frames per action with the maximum of the
last two, grey 84x84 images, the last 4 of them stacked. Everything else follows the registered id: ``ALE/...-v5`` has
sticky actions (an action is repeated with probability 0.25, Machado et al. 2018) and the minimal action set; a game is
cut after 108,000 frames, which is reported as truncation. ``environment.env_config`` overrides each of these.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from actorlearner.envs.vector import VectorEnvironment
from actorlearner.exceptions import ConfigError
from actorlearner.settings import EnvironmentSettings

NAMESPACE = "ALE/"

# What the engine decides itself, and where a person sets it instead.
_RESERVED = {
    "game": "it follows from environment.id",
    "num_envs": "set resources.num_envs_per_worker",
    "num_threads": "it follows from the trial's CPUs",
    "batch_size": "all sub-environments step together",
    "autoreset_mode": "the engine needs final observations in the same step",
    "reward_clipping": "set environment.reward_clipping, which keeps the reported returns unclipped",
    "episodic_life": "episodes are full games here, so that returns are comparable",
    "life_loss_info": "episodes are full games here, so that returns are comparable",
    "grayscale": "stacks of colour images are not supported so far",
    "continuous": "only discrete actions are supported so far",
}


def import_ale() -> None:
    """Register ALE's environments with gymnasium and keep its start-up banner and log lines off the terminal."""
    ale = importlib.import_module("ale_py")
    ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)


def is_atari(spec: EnvSpec) -> bool:
    """Say whether a registered environment is one that ALE's vector environment plays."""
    return spec.id.startswith(NAMESPACE)


def make_atari(spec: EnvSpec, settings: EnvironmentSettings, num_envs: int, num_threads: int) -> VectorEnvironment:
    """Make the vector environment of one game.

    Args:
        spec: the registered ``ALE/...`` environment.
        settings: ``env_config`` holds keyword arguments of ``ale_py.vector_env.AtariVectorEnv``.
        num_envs: sub-environments.
        num_threads: ALE's own threads; they run while the calling thread waits.

    Raises:
        ConfigError: an ``env_config`` key is unknown, or is not a person's to set.
    """
    from ale_py.vector_env import AtariVectorEnv

    _check_config(settings.env_config, inspect.signature(AtariVectorEnv.__init__).parameters)
    options: dict[str, Any] = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    options |= {"reward_clipping": False, "episodic_life": False}
    options |= spec.kwargs | settings.env_config
    try:
        env = AtariVectorEnv(num_envs=num_envs, num_threads=min(num_threads, num_envs), **options)
    except (TypeError, ValueError, gymnasium.error.Error) as error:
        raise ConfigError(
            f"environment.env_config={settings.env_config} was refused by ALE: {error}",
            key="environment.env_config",
            value=settings.env_config,
        ) from error
    # ALE hands over a new buffer at each step, and seeds of its own for each sub-environment.
    return VectorEnvironment(env, settings.id, fresh_observations=True, split_seed=np.asarray)


def _check_config(env_config: dict[str, Any], parameters: Any) -> None:
    for name, value in env_config.items():
        key = f"environment.env_config.{name}"
        if name in _RESERVED:
            raise ConfigError(f"{key} cannot be set: {_RESERVED[name]}; got {value!r}.", key=key, value=value)
        if name not in parameters or name == "self":
            known = sorted(set(parameters) - set(_RESERVED) - {"self"})
            raise ConfigError(f"Unknown key {key}: Atari takes {', '.join(known)}.", key=key, value=value)
