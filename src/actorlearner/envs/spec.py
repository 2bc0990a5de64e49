"""What the rest of the engine needs to know about an environment before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from gymnasium.spaces import Box, Discrete

from actorlearner.envs.make import find_spec, has_native_vector, make_vector_env
from actorlearner.settings import EnvironmentSettings
from actorlearner.spaces import is_image_space


@dataclass(frozen=True)
class EnvironmentSpec:
    """An environment's properties, small enough to travel to every worker.

    Attributes:
        id: as configured.
        observation_space: of one sub-environment, as the engine hands observations out (images uint8, else float32).
        action_space: of one sub-environment.
        is_image: observations are uint8 images.
        native_vector: the environment brings a vector version of its own.
    """

    id: str
    observation_space: Box
    action_space: Discrete
    is_image: bool
    native_vector: bool


def probe_environment(settings: EnvironmentSettings) -> EnvironmentSpec:
    """Make the environment once, read its spaces, and close it.

    Raises:
        EnvironmentNotFoundError: no such id; names the closest ones.
        MissingExtraError: a package is missing; names what to install.
        ConfigError: the spaces or ``env_config`` are not supported.
    """
    env = make_vector_env(settings, num_envs=1)
    env.close()
    return EnvironmentSpec(
        id=settings.id,
        observation_space=env.observation_space,
        action_space=env.action_space,
        is_image=is_image_space(env.observation_space),
        native_vector=has_native_vector(find_spec(settings.id)),
    )
