"""Fragments from remote workers: asks all with room, takes what is ready, sends new weights back."""

from __future__ import annotations

from collections import deque
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from actorlearner.envs.spec import EnvironmentSpec
from actorlearner.exceptions import WorkerError
from actorlearner.sampling.request_manager import RequestManager
from actorlearner.sampling.worker_failure import worker_error
from actorlearner.sampling.worker_set import RemoteWorker, WorkerSet
from actorlearner.settings import Settings
from actorlearner.types import Fragment, Weights


class RemoteSource:
    """Where an algorithm gets its fragments from when workers sample in processes of their own.

    One training step calls ``request`` (unless the learner is full: then nobody is asked and the workers rest,
    fault F8), ``collect``, and in the end ``broadcast``. Not thread-safe.

    Args:
        settings: resolved settings.
        spec: what the environment looks like.
        weights: what the workers sample their first fragment with.
        max_in_flight: fragments asked of a worker ahead of time.
        workers: a running set to use; by default one is started.
        worker_timeout_s: a worker that delivers nothing for this long while it is asked counts as failed.

    Raises:
        ResourceError, WorkerError: as ``WorkerSet``.
    """

    _requests: RequestManager[RemoteWorker, Fragment]
    # Per worker: the version sent last, when it is in use, and the versions that what is in flight is sampled with.
    _sent: dict[RemoteWorker, int]
    _acknowledged: dict[RemoteWorker, Any]
    _expected: dict[RemoteWorker, deque[int]]
    _delivered: set[RemoteWorker]
    _arrived: list[Fragment]
    _stored: tuple[int, Any] | None
    _newest_version: int

    def __init__(
        self,
        settings: Settings,
        spec: EnvironmentSpec,
        weights: Weights,
        *,
        max_in_flight: int,
        workers: WorkerSet | None = None,
        worker_timeout_s: float = 300.0,
    ) -> None:
        self._worker_timeout_s = worker_timeout_s
        self._workers = WorkerSet(settings, spec) if workers is None else workers
        self._begin(weights, max_in_flight)

    @property
    def healthy_count(self) -> int:
        """Number of workers that are not known to have failed."""
        return self._workers.healthy_count

    @property
    def num_in_flight(self) -> int:
        """Number of fragments asked for and not yet collected."""
        return self._requests.num_in_flight

    def request(self) -> int:
        """Ask every worker that has room for fragments; return how many were asked for. Does not wait."""
        return self._requests.submit_all()

    def collect(self, timeout: float = 0.0) -> list[Fragment]:
        """Wait up to ``timeout`` seconds for a fragment, then return all that are ready.

        Arrays are read-only views of shared memory: join or copy before writing.

        Raises:
            WorkerError: a worker failed, died or hangs, or none is left. What other workers delivered is kept for
                the next call; what was asked of the failed one is forgotten.
        """
        self._check_workers_left()
        ready = self._requests.ready(self._bounded(timeout))
        failures: list[WorkerError] = []
        for worker, fragment in ready.results:
            if worker not in self._expected:
                continue  # Lost a moment ago, in this loop.
            expected = self._expected[worker][0]
            if fragment.weights_version == expected:
                self._expected[worker].popleft()
                self._delivered.add(worker)
                self._arrived.append(fragment)
            else:
                failures.append(self._not_updated(worker, fragment.weights_version, expected))
                self._lose(worker, failures[-1])
        for worker, error in [*ready.failures, *self._hanging()]:
            if worker in self._expected:
                failures.append(worker_error(worker, "sampling", error))
                self._lose(worker, failures[-1])
        # Replacing the worker, or going on without it, gets its place here (spec A18).
        if failures:
            raise failures[0] from failures[0].__cause__
        fragments, self._arrived = self._arrived, []
        return fragments

    def broadcast(self, weights: Weights) -> None:
        """Send weights to the workers that delivered since they last got some or rest, without waiting (spec I6).

        Nothing is sent where the version is the one a worker has. The weights are stored once, whatever the number
        of workers (fault F10). A version below the last one means a restored training: see ``sync``.
        """
        if weights.version < self._newest_version:
            self.sync(weights)
            return
        self._newest_version = weights.version
        due = [worker for worker in self._workers.workers if worker in self._delivered or not self._expected[worker]]
        self._send(weights, [worker for worker in due if self._sent[worker] != weights.version])

    def sync(self, weights: Weights) -> None:
        """Send weights to every worker and forget what is in flight: it belongs to the training before a restore."""
        self._newest_version = weights.version
        self._arrived = []
        for worker in self._workers.workers:
            self._requests.remove(worker)
            self._requests.add(worker)
            self._expected[worker].clear()
        self._stored = None
        self._send(weights, list(self._workers.workers))

    def reset(self, settings: Settings, spec: EnvironmentSpec, weights: Weights, *, max_in_flight: int) -> None:
        """Start over as if newly made; running processes are kept where number and CPUs stay the same.

        Raises:
            ResourceError, WorkerError: as in the constructor; no worker runs then.
        """
        if self._workers.can_restart(settings):
            self._workers.restart(settings, spec)
        else:
            self._workers.stop()
            self._workers = WorkerSet(settings, spec)
        self._begin(weights, max_in_flight)

    def stop(self) -> None:
        """End all workers; a second call does nothing."""
        for worker in self._workers.workers:
            self._requests.remove(worker)
        self._workers.stop()

    def _begin(self, weights: Weights, max_in_flight: int) -> None:
        try:
            self._begin_with(weights, max_in_flight)
        except BaseException:
            # Nobody holds this source yet, so nobody else would end its workers.
            self._workers.stop(grace_s=0.0)
            raise

    def _begin_with(self, weights: Weights, max_in_flight: int) -> None:
        self._requests = RequestManager(self._ask, max_in_flight)
        self._sent = {}
        self._acknowledged = {}
        self._expected = {worker: deque() for worker in self._workers.workers}
        self._delivered = set()
        self._arrived = []
        self.sync(weights)

    def _ask(self, worker: RemoteWorker) -> Any:
        self._expected[worker].append(self._sent[worker])
        return worker.actor.sample.remote()

    def _send(self, weights: Weights, workers: list[RemoteWorker]) -> None:
        if not workers:
            return
        if self._stored is None or self._stored[0] != weights.version:
            self._stored = (weights.version, ray.put(weights))
        self._acknowledged.update(self._workers.sync_weights(self._stored[1], workers))
        self._sent.update(dict.fromkeys(workers, weights.version))
        self._delivered.difference_update(workers)

    def _not_updated(self, worker: RemoteWorker, version: int, expected: int) -> WorkerError:
        """Return the error for a worker that does not take over its weights (fault F11)."""
        try:
            ray.get(self._acknowledged[worker], timeout=self._worker_timeout_s)
        except RayError as error:
            return worker_error(worker, "taking over weights", error)
        return WorkerError(
            f"{worker} sampled with weights version {version} although version {expected} was sent to it before: "
            "its set_weights does not take effect."
        )

    def _bounded(self, timeout: float) -> float:
        oldest = self._requests.oldest_wait()
        return timeout if oldest is None else max(0.0, min(timeout, self._worker_timeout_s - oldest[1]))

    def _hanging(self) -> list[tuple[RemoteWorker, RayError]]:
        oldest = self._requests.oldest_wait()
        if oldest is None or oldest[1] < self._worker_timeout_s:
            return []
        return [(oldest[0], GetTimeoutError(f"it delivered nothing for {oldest[1]:.0f} s."))]

    def _lose(self, worker: RemoteWorker, failure: WorkerError) -> None:
        """Take a failed worker out."""
        del self._expected[worker]
        self._requests.remove(worker)
        self._delivered.discard(worker)
        self._workers.remove(worker, failure)

    def _check_workers_left(self) -> None:
        if not self.healthy_count:
            raise WorkerError(
                "No rollout worker is left: all have failed or were stopped. The warnings above say why; "
                "start the training again, or sample in its own process with resources.num_workers=0."
            )
