"""The thread that runs a learner beside sampling: bounded queue in, results out, failure told to the driver."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from actorlearner.learning.learner import Learner
from actorlearner.metrics import Timers
from actorlearner.types import Batch, LearnerResult, Weights


class _Waiting(NamedTuple):
    batch: Batch
    env_steps_sampled: int


class _Finished(NamedTuple):
    result: LearnerResult
    waited_seconds: float
    learn_seconds: float


class LearnerThread:
    """Runs ``Learner.update`` on batches, oldest first, in a thread that starts at once.

    Waiting is done on conditions only, never by polling. A slow source of batches is no error: it is counted.

    Args:
        learner: used by this thread alone, except inside ``paused``.
        timers: gets ``learn`` and ``learner_wait`` when results are taken.
        queue_size: batches that may wait.
        starvation_timeout: seconds without a batch that count as one starvation.
        num_threads: torch threads for the learner's operators.
    """

    def __init__(
        self, learner: Learner, timers: Timers, *, queue_size: int, starvation_timeout: float, num_threads: int = 1
    ) -> None:
        self.learner = learner
        self._timers = timers
        self._queue_size = queue_size
        self._starvation_timeout = starvation_timeout
        self._num_threads = num_threads
        self._queue: deque[_Waiting] = deque()
        self._finished: deque[_Finished] = deque()
        self._env_steps_queued = 0
        self._num_starvations = 0
        self._error: BaseException | None = None
        self._stopping = False
        self._weights = learner.get_weights()
        self._changed = threading.Condition()
        self._updating = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="learner", daemon=True)
        self._thread.start()

    def put(self, batch: Batch, *, env_steps_sampled: int, timeout: float = 0.0) -> bool:
        """Queue a batch, waiting up to ``timeout`` seconds for room.

        Returns:
            Whether it was queued; False leaves it to the caller.

        Raises:
            Exception: the learner's own, if it has failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._has_room() or self._ended(), timeout)
            self.check()
            if not self._has_room() or self._stopping:
                return False
            self._queue.append(_Waiting(batch, env_steps_sampled))
            self._env_steps_queued += batch.env_steps
            self._changed.notify_all()
            return True

    def results(self) -> list[LearnerResult]:
        """Return the updates finished since the last call, oldest first."""
        with self._changed:
            finished = list(self._finished)
            self._finished.clear()
            self._env_steps_queued -= sum(item.result.env_steps for item in finished)
        for item in finished:
            self._timers.add("learn", item.learn_seconds)
            self._timers.add("learner_wait", item.waited_seconds)
        return [item.result for item in finished]

    def check(self) -> None:
        """Raise the learner's own exception, with its traceback, if the thread has failed."""
        if self._error is not None:
            raise self._error

    def weights(self) -> Weights:
        """Return the newest weights; the arrays are never written to again."""
        return self._weights

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the learner between two updates; weights are taken afresh afterwards."""
        with self._updating:
            yield
            self._weights = self.learner.get_weights()

    def stop(self) -> None:
        """Finish the update under way, give up what waits, and join the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def env_steps_queued(self) -> int:
        """Env steps handed over whose results have not been taken."""
        return self._env_steps_queued

    @property
    def queue_length(self) -> int:
        """Batches waiting, without the one being learned on."""
        return len(self._queue)

    @property
    def num_starvations(self) -> int:
        """Times that no batch came within ``starvation_timeout``."""
        return self._num_starvations

    def _has_room(self) -> bool:
        return len(self._queue) < self._queue_size

    def _ended(self) -> bool:
        return self._error is not None or self._stopping

    def _run(self) -> None:
        try:
            # Counted per thread by torch: a new thread starts with as many as there are cores.
            torch.set_num_threads(self._num_threads)
            while self._work():
                pass
        except BaseException as error:  # told to the driver, whatever it is
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _work(self) -> bool:
        started = time.perf_counter()
        waiting = self._next()
        if waiting is None:
            return False
        received = time.perf_counter()
        with self._updating:
            result = self.learner.update(waiting.batch, waiting.env_steps_sampled)
            self._weights = self.learner.get_weights()
            finished = time.perf_counter()
            with self._changed:
                self._finished.append(_Finished(result, received - started, finished - received))
                self._changed.notify_all()
        return True

    def _next(self) -> _Waiting | None:
        with self._changed:
            while not self._changed.wait_for(lambda: self._queue or self._stopping, self._starvation_timeout):
                self._num_starvations += 1
            if self._stopping:
                return None
            waiting = self._queue.popleft()
            self._changed.notify_all()
            return waiting
