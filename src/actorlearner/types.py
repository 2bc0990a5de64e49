"""What crosses a thread or a process: fragments, batches, weights and results, all read-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class EpisodeStats(NamedTuple):
    """One finished episode, as the environment paid it (rewards unclipped)."""

    episode_return: float
    length: int


@dataclass(frozen=True)
class Fragment:
    """What one worker returns from one ``sample()``; time-major, T steps of B sub-environments.

    Attributes:
        observations: [T + 1, B, ...] in the environment's own dtype; row T is the observation after the last step.
        actions: [T, B] int64 for discrete actions.
        behaviour_log_probs: [T, B] float32, log of the sampling policy's probability of each action.
        rewards: [T, B] float32, unclipped.
        terminated: [T, B] bool, the episode ended at this step by the task itself.
        truncated: [T, B] bool, the episode was cut at this step (time limit).
        valid: [T, B] bool, False on the reset steps that next-step autoreset inserts.
        final_index: [K, 2] int64, (t, b) of the truncated steps whose successor is not ``observations[t + 1]``
            (same-step autoreset only).
        final_observations: [K, ...] the finished episodes' last observations, in the order of ``final_index``.
        episodes: episodes finished in this fragment.
        weights_version: version of the weights that sampled it.
        worker_index: 0 is the local worker.
    """

    observations: NDArray[Any]
    actions: NDArray[Any]
    behaviour_log_probs: NDArray[np.float32]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    final_index: NDArray[np.int64]
    final_observations: NDArray[Any]
    episodes: tuple[EpisodeStats, ...]
    weights_version: int
    worker_index: int

    @property
    def env_steps(self) -> int:
        """Number of true env steps (reset steps are not counted)."""
        return int(self.valid.sum())


@dataclass(frozen=True)
class Batch:
    """What the learner takes: fragments of equal T joined along B. Arrays as in ``Fragment``.

    Attributes:
        env_steps: true env steps in it.
        behaviour_version: mean of the fragments' weights versions.
    """

    observations: NDArray[Any]
    actions: NDArray[Any]
    behaviour_log_probs: NDArray[np.float32]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    final_index: NDArray[np.int64]
    final_observations: NDArray[Any]
    env_steps: int
    behaviour_version: float


@dataclass(frozen=True)
class Weights:
    """A policy's parameters and buffers, with the number of learner updates that made them."""

    version: int
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class LearnerResult:
    """What one learner update reports.

    Attributes:
        env_steps: true env steps of the batch (counted once, whatever the number of passes).
        statistics: losses and diagnostics by name (spec I2).
        version: learner updates so far, this one included.
    """

    env_steps: int
    statistics: Mapping[str, float]
    version: int
