"""One face for all vector environments, whatever their autoreset mode, dtypes and buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from actorlearner.exceptions import ConfigError
from actorlearner.spaces import is_image_space


class VectorStep(NamedTuple):
    """One step of B sub-environments; every array is the receiver's to keep, no later step writes into it.

    Attributes:
        observations: [B, ...] uint8 images or float32; where same-step autoreset ended an episode, already the next
            episode's first.
        rewards: [B] float32, as the environment pays them; 0 where ``valid`` is False.
        terminated: [B] bool, the episode ended by the task itself.
        truncated: [B] bool, the episode was cut and did not terminate at the same step.
        valid: [B] bool, False where this step was the reset of next-step autoreset: the action was ignored.
        final_observations: sub-environment -> [...] the last observation of an episode truncated at this step, where it
            is not in ``observations`` (same-step autoreset). At a termination nobody asks for its value.
    """

    observations: NDArray[Any]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    final_observations: dict[int, NDArray[Any]]


class VectorEnvironment:
    """A gymnasium vector environment with its differences ironed out.

    Args:
        env: the environment; closed by this object, also when its spaces are refused.
        environment_id: for messages.
        fresh_observations: the environment allocates each image batch anew, so that it need not be copied.
        split_seed: turns [B] distinct int64 seeds into what ``env.reset`` takes; None passes one seed for all.

    Raises:
        ConfigError: the spaces or the autoreset mode are not supported.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        environment_id: str,
        *,
        fresh_observations: bool = False,
        split_seed: Callable[[NDArray[np.int64]], Any] | None = None,
    ) -> None:
        self._env = env
        self._open = True
        self._fresh = fresh_observations
        self._split_seed = split_seed
        try:
            self.observation_space = _supported_observations(env.single_observation_space, environment_id)
            self.action_space = _supported_actions(env.single_action_space, environment_id)
            mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
            if mode is AutoresetMode.DISABLED:
                raise ConfigError(
                    f"environment.id={environment_id} does not reset itself (autoreset_mode {mode.value}); "
                    "let it reset in the same or the next step.",
                    key="environment.id",
                    value=environment_id,
                )
        except ConfigError:
            self.close()
            raise
        self.num_envs: int = env.num_envs
        self._same_step = mode is AutoresetMode.SAME_STEP
        self._dtype = self.observation_space.dtype
        self._first_action = int(self.action_space.start)
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)

    def reset(self, seed: int) -> NDArray[Any]:
        """Start all episodes afresh.

        Args:
            seed: at least 0. Sub-environments get different seeds made from it, which do not repeat those of
                neighbouring seeds.

        Returns:
            [B, ...] first observations.
        """
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        seeds: Any = seed
        if self._split_seed is not None:
            words = np.random.SeedSequence(seed).generate_state(self.num_envs)
            seeds = self._split_seed((words >> 1).astype(np.int64))
        observations, _ = self._env.reset(seed=seeds)
        return self._own(observations)

    def step(self, actions: NDArray[np.int64]) -> VectorStep:
        """Step all sub-environments with [B] int64 actions counted from 0."""
        if self._first_action:
            actions = actions + self._first_action
        observations, rewards, env_terminated, env_truncated, infos = self._env.step(actions)
        terminated = np.array(env_terminated, dtype=np.bool_)
        truncated = env_truncated & ~terminated
        valid = ~self._ended
        final_observations = {}
        if not self._same_step:
            self._ended = terminated | truncated
        elif truncated.any():
            finals = infos["final_obs"]
            final_observations = {
                int(index): np.array(finals[index], dtype=self._dtype) for index in np.flatnonzero(truncated)
            }
        return VectorStep(
            self._own(observations),
            np.array(rewards, dtype=np.float32),
            terminated,
            truncated,
            valid,
            final_observations,
        )

    def close(self) -> None:
        """Release the environment and its threads; more than once does no harm."""
        if self._open:
            self._open = False
            self._env.close()
            del self._env  # ALE's threads end with the last reference only

    def _own(self, observations: Any) -> NDArray[Any]:
        if self._fresh:
            return np.asarray(observations, dtype=self._dtype)
        return np.array(observations, dtype=self._dtype, order="C")


def _supported_observations(space: gymnasium.Space[Any], environment_id: str) -> Box:
    """Return the space of the observations handed out: images as they are, everything else as float32."""
    if not isinstance(space, Box):
        raise _not_supported(environment_id, "observations", space, "Box")
    if is_image_space(space) or space.dtype == np.float32:
        return space
    with np.errstate(over="ignore"):
        return Box(space.low.astype(np.float32), space.high.astype(np.float32), space.shape, np.float32)


def _supported_actions(space: gymnasium.Space[Any], environment_id: str) -> Discrete:
    if not isinstance(space, Discrete):
        raise _not_supported(environment_id, "actions", space, "Discrete")
    return space


def _not_supported(environment_id: str, what: str, space: gymnasium.Space[Any], accepted: str) -> ConfigError:
    return ConfigError(
        f"environment.id={environment_id} has {what} in {space}, and only {accepted} {what} are supported so far; "
        "choose another environment.",
        key="environment.id",
        value=environment_id,
    )
