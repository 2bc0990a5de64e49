"""Small fragments, batches and learners for tests that need no environment."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from actorlearner.learning.batcher import join
from actorlearner.types import Batch, EpisodeStats, Fragment, LearnerResult, Weights


def make_fragment(
    steps: int = 4,
    width: int = 2,
    *,
    version: int = 0,
    reward: float = 1.0,
    valid: Any = True,
    truncated: tuple[tuple[int, int], ...] = (),
    final: float = 9.0,
    seed: int = 0,
    episodes: tuple[EpisodeStats, ...] = (),
) -> Fragment:
    """Return a fragment with three-dimensional observations and two actions."""
    random = np.random.default_rng(seed)
    truncated_array = np.zeros((steps, width), np.bool_)
    for row, column in truncated:
        truncated_array[row, column] = True
    return Fragment(
        observations=random.normal(size=(steps + 1, width, 3)).astype(np.float32),
        actions=random.integers(0, 2, (steps, width)),
        behaviour_log_probs=np.full((steps, width), np.log(0.5), np.float32),
        rewards=np.full((steps, width), reward, np.float32),
        terminated=np.zeros((steps, width), np.bool_),
        truncated=truncated_array,
        valid=np.broadcast_to(np.asarray(valid, np.bool_), (steps, width)).copy(),
        final_index=np.array(truncated, np.int64).reshape(-1, 2),
        final_observations=np.full((len(truncated), 3), final, np.float32),
        episodes=episodes,
        weights_version=version,
        worker_index=0,
    )


def make_batch(**options: Any) -> Batch:
    """Return a batch of one such fragment."""
    return join([make_fragment(**options)])


class ControlledLearner:
    """Stands in for a learner where only the thread around it is tested: waits, fails or records as told."""

    def __init__(self) -> None:
        self.version = 0
        self.seen: list[float] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.error: BaseException | None = None

    def update(self, batch: Batch, env_steps_sampled: int) -> LearnerResult:
        self.may_go_on.wait()
        if self.error is not None:
            raise self.error
        self.version += 1
        self.seen.append(batch.behaviour_version)
        return LearnerResult(env_steps=batch.env_steps, statistics={}, version=self.version)

    def get_weights(self) -> Weights:
        return Weights(self.version, {})
