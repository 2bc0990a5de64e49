"""Steps a vector environment with one batched forward pass per step and returns fragments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearner.envs.make import make_vector_env
from actorlearner.envs.spec import EnvironmentSpec
from actorlearner.exceptions import NonFiniteError
from actorlearner.models.catalog import build_model
from actorlearner.settings import Settings
from actorlearner.types import EpisodeStats, Fragment, Weights


def worker_seed(seed: int, worker_index: int) -> int:
    """Return the seed of one worker's environments and actions, in [0, 2**31).

    Sub-environment i of a worker is seeded with this plus i, so plain ``seed + worker_index`` would give neighbouring
    workers, and neighbouring seeds, the same sub-environments (fault F23): the two numbers are hashed instead.
    """
    return int(np.random.SeedSequence([seed, worker_index]).generate_state(1)[0] & 0x7FFF_FFFF)


class _Rows(NamedTuple):
    """A fragment's arrays under construction; shapes as in ``Fragment``."""

    observations: NDArray[Any]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    valid: NDArray[np.bool_]

    @classmethod
    def allocate(cls, steps: int, first: NDArray[Any]) -> _Rows:
        """Return uninitialised arrays for ``steps`` steps after the observations ``first`` [B, ...]."""
        shape = (steps, len(first))
        flags = (np.empty(shape, np.bool_) for _ in range(3))
        observations = np.empty((steps + 1, *first.shape), first.dtype)
        return cls(observations, np.empty(shape, np.int64), np.empty(shape, np.float32), *flags)


class Sampler:
    """Owns one vector environment and a copy of the policy.

    Args:
        settings: resolved settings (no nulls in ``resources``).
        spec: the probed environment.
        num_envs: sub-environments.
        worker_index: 0 is the local worker; selects the seeds.
        num_threads: threads that the vector environment may use.
    """

    def __init__(
        self, settings: Settings, spec: EnvironmentSpec, *, num_envs: int, worker_index: int, num_threads: int = 1
    ) -> None:
        self._spec = spec
        self._num_envs = num_envs
        self._worker_index = worker_index
        self._environment = make_vector_env(settings.environment, num_envs, num_threads=num_threads)
        self.reset(settings)

    def reset(self, settings: Settings) -> None:
        """Start afresh as a new sampler with these settings would; the environment must be the same one."""
        self._steps = settings.algorithm.rollout_fragment_length
        spec, seed = self._spec, worker_seed(settings.debugging.seed, self._worker_index)
        self._generator = torch.Generator().manual_seed(seed)
        self._model = build_model(
            spec.observation_space, spec.action_space, settings.model, settings.resources.precision
        ).eval()
        self._parameters = self._model.state_dict()
        self._weights_version = 0
        self._observations: NDArray[Any] = self._environment.reset(seed)
        self._returns = np.zeros(self._num_envs, np.float64)
        self._lengths = np.zeros(self._num_envs, np.int64)

    @property
    def weights_version(self) -> int:
        """Version of the weights that act."""
        return self._weights_version

    @property
    def generator(self) -> torch.Generator:
        """Source of the actions' randomness."""
        return self._generator

    def set_weights(self, weights: Weights) -> None:
        """Copy new weights into the acting policy."""
        for name, tensor in self._parameters.items():
            # Through numpy, because arrays from Ray's object store are read-only.
            np.copyto(tensor.numpy(), weights.arrays[name])
        self._weights_version = weights.version

    def sample(self) -> Fragment:
        """Take ``rollout_fragment_length`` steps in every sub-environment.

        Returns:
            A fragment whose arrays are its own: the sampler never writes to them again.

        Raises:
            NonFiniteError: the policy's logits became NaN or infinite.
        """
        rows = _Rows.allocate(self._steps, self._observations)
        finals: dict[tuple[int, int], NDArray[Any]] = {}
        with torch.inference_mode():
            logits = self._fill(rows, finals)
            log_probs = self._log_probs(logits, rows.actions)
        shape, dtype = rows.observations.shape[2:], rows.observations.dtype
        return Fragment(
            **rows._asdict(),
            behaviour_log_probs=log_probs,
            final_index=np.array(list(finals), np.int64).reshape(-1, 2),
            final_observations=np.array(list(finals.values()), dtype).reshape(-1, *shape),
            episodes=self._finished_episodes(rows.rewards, rows.terminated | rows.truncated, rows.valid),
            weights_version=self._weights_version,
            worker_index=self._worker_index,
        )

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def _fill(self, rows: _Rows, finals: dict[tuple[int, int], NDArray[Any]]) -> Tensor:
        """Step the environment, write into ``rows`` and ``finals``; return the logits [T, B, A]."""
        noise = self._gumbel_noise()
        all_logits = torch.empty_like(noise)
        for step in range(self._steps):
            rows.observations[step] = self._observations
            actions = rows.actions[step]
            logits = self._model.policy_logits(torch.from_numpy(rows.observations[step]))
            all_logits[step] = logits
            # Adding Gumbel noise and taking the largest is a draw from the softmax.
            torch.argmax(noise[step].add_(logits), -1, out=torch.from_numpy(actions))
            outcome = self._environment.step(actions)
            self._observations = outcome.observations
            rows.rewards[step] = outcome.rewards
            rows.terminated[step] = outcome.terminated
            rows.truncated[step] = outcome.truncated
            rows.valid[step] = outcome.valid
            for index, final in outcome.final_observations.items():
                finals[step, index] = final
        rows.observations[self._steps] = self._observations
        return all_logits

    def _gumbel_noise(self) -> Tensor:
        noise = torch.empty(self._steps, self._num_envs, int(self._spec.action_space.n))
        tiny = torch.finfo(torch.float32).tiny
        return noise.exponential_(generator=self._generator).clamp_(min=tiny).log_().neg_()

    def _log_probs(self, logits: Tensor, actions: NDArray[np.int64]) -> NDArray[np.float32]:
        log_policy = torch.log_softmax(logits, -1)
        log_probs: NDArray[np.float32] = (
            log_policy.gather(-1, torch.from_numpy(actions).unsqueeze(-1)).squeeze(-1).numpy()
        )
        if not np.isfinite(log_probs).all():
            raise NonFiniteError(
                f"The policy's logits became NaN or infinite in worker {self._worker_index} (environment "
                f"{self._spec.id}): its observations are not finite, or the weights have diverged (lower algorithm.lr)."
            )
        return log_probs

    def _finished_episodes(
        self, rewards: NDArray[np.float32], done: NDArray[np.bool_], valid: NDArray[np.bool_]
    ) -> tuple[EpisodeStats, ...]:
        """Return the episodes that ended, in order of time, and carry the others over to the next fragment."""
        episodes: list[EpisodeStats] = []
        starts = [0] * self._num_envs
        for step, index in zip(*(axis.tolist() for axis in np.nonzero(done)), strict=True):
            part = slice(starts[index], step + 1)
            episode_return = self._returns[index] + rewards[part, index].sum(dtype=np.float64)
            length = self._lengths[index] + np.count_nonzero(valid[part, index])
            episodes.append(EpisodeStats(float(episode_return), int(length)))
            self._returns[index], self._lengths[index] = 0.0, 0
            starts[index] = step + 1
        unfinished = np.arange(len(rewards))[:, None] >= np.array(starts)
        self._returns += np.where(unfinished, rewards, 0.0).sum(0, dtype=np.float64)
        self._lengths += (unfinished & valid).sum(0)
        return tuple(episodes)
