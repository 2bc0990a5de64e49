"""Where the driver hands batches in: a learner run inline, or (learner_thread.py) in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from actorlearner.learning.learner import Learner
from actorlearner.metrics import Timers
from actorlearner.types import Batch, LearnerResult, Weights


class LearnerRunner(Protocol):
    """Takes batches and gives results; all methods are called from the driver's thread."""

    learner: Learner

    def put(self, batch: Batch, *, env_steps_sampled: int, timeout: float = 0.0) -> bool:
        """Hand over a batch; False when there was no room within ``timeout`` seconds."""

    def results(self) -> list[LearnerResult]:
        """Return the updates finished since the last call, oldest first."""

    def check(self) -> None:
        """Raise the learner's own exception if it has failed."""

    def weights(self) -> Weights:
        """Return the newest weights, safe to keep."""

    def paused(self) -> AbstractContextManager[None]:
        """Keep the learner between two updates while its state is read or set."""

    def stop(self) -> None:
        """Stop learning; batches still waiting are given up."""

    @property
    def env_steps_queued(self) -> int:
        """Env steps handed over whose results have not been taken."""

    @property
    def queue_length(self) -> int:
        """Batches waiting."""

    @property
    def num_starvations(self) -> int:
        """Times that the learner waited longer than its timeout for a batch."""


class InlineRunner:
    """Learns inside ``put``: the driver's thread samples and learns in turn, so the same seed gives the same curve.

    Args:
        learner: runs in the caller's thread.
        timers: gets ``learn``.
    """

    queue_length = 0
    num_starvations = 0

    def __init__(self, learner: Learner, timers: Timers) -> None:
        self.learner = learner
        self._timers = timers
        self._results: list[LearnerResult] = []

    def put(self, batch: Batch, *, env_steps_sampled: int, timeout: float = 0.0) -> bool:
        """Learn on the batch at once."""
        started = time.perf_counter()
        self._results.append(self.learner.update(batch, env_steps_sampled))
        self._timers.add("learn", time.perf_counter() - started)
        return True

    def results(self) -> list[LearnerResult]:
        """Return the updates since the last call."""
        results, self._results = self._results, []
        return results

    def check(self) -> None:
        """Do nothing: ``put`` itself raises."""

    def weights(self) -> Weights:
        """Return a copy of the weights."""
        return self.learner.get_weights()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do nothing: there is no update under way outside ``put``."""
        yield

    def stop(self) -> None:
        """Do nothing."""

    @property
    def env_steps_queued(self) -> int:
        """Env steps learned on whose results have not been taken."""
        return sum(result.env_steps for result in self._results)
