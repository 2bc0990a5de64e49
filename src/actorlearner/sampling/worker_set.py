"""Starts, watches and ends the remote rollout workers of one training."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.placement_group import PlacementGroup, get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from actorlearner.envs.spec import EnvironmentSpec
from actorlearner.exceptions import ResourceError, WorkerError
from actorlearner.sampling import own_ray
from actorlearner.sampling.rollout_worker import RolloutWorker
from actorlearner.sampling.worker_failure import worker_error
from actorlearner.settings import Settings

logger = logging.getLogger(__name__)

_CURE = "Lower resources.num_workers or resources.num_cpus_per_worker, or start Ray with more CPUs."


@dataclass(frozen=True, eq=False)
class RemoteWorker:
    """One rollout worker in a process of its own; a replacement with the same index is another worker.

    Attributes:
        index: counted from 1 (0 is the local worker).
        actor: Ray's handle of a ``RolloutWorker``.
        environment: id of its environment, for messages.
    """

    index: int
    actor: Any
    environment: str

    def __str__(self) -> str:
        return f"Rollout worker {self.index} (environment {self.environment})"


class WorkerSet:
    """The remote rollout workers: all running when the constructor returns, or none (spec A4).

    Inside a Tune trial they run in the trial's own placement group, on no CPU that is not the trial's (fault F26).

    Args:
        settings: resolved settings (no nulls in ``resources``).
        spec: what the environment looks like.
        start_timeout_s: longest wait for all workers to be ready, in seconds.
        worker_class: the class of the actors.

    Raises:
        ResourceError: Ray has too few CPUs for the workers.
        WorkerError: an environment could not be made (original exception as ``__cause__``) or took too long.
    """

    def __init__(
        self,
        settings: Settings,
        spec: EnvironmentSpec,
        *,
        start_timeout_s: float = 60.0,
        worker_class: type = RolloutWorker,
    ) -> None:
        self._settings = settings
        self._start_timeout_s = start_timeout_s
        self._workers: list[RemoteWorker] = []
        own_ray.acquire(self)
        # Whatever ends the start, a half-made set must not stay: its calls in flight would hang a Tune trial for ever.
        try:
            group = get_current_placement_group()
            _check_cpus(settings, group)
            self._launch(worker_class, group)
            self._start_samplers(spec)
        except BaseException:
            self.stop(grace_s=0.0)
            raise

    @property
    def workers(self) -> tuple[RemoteWorker, ...]:
        """The workers that are not known to have failed."""
        return tuple(self._workers)

    @property
    def actors(self) -> list[Any]:
        """Ray's handles of the healthy workers."""
        return [worker.actor for worker in self._workers]

    @property
    def healthy_count(self) -> int:
        """Number of workers that are not known to have failed."""
        return len(self._workers)

    def sync_weights(self, weights_reference: Any, workers: Iterable[RemoteWorker]) -> dict[RemoteWorker, Any]:
        """Send stored weights to these workers without waiting.

        Args:
            weights_reference: reference from ``ray.put`` of ``Weights``: one copy in the store serves all (fault F10).
            workers: who gets them; requests sent to a worker afterwards are sampled with them.

        Returns:
            A reference per worker that is ready when the weights are in use, and raises what ``set_weights`` raised.
        """
        return {worker: worker.actor.set_weights.remote(weights_reference) for worker in workers}

    def remove(self, worker: RemoteWorker, failure: WorkerError) -> None:
        """Take a failed worker out, end its process and say so in a warning, once (fault F19)."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        _kill(worker)
        total = self._settings.resources.num_workers
        reason = str(failure).splitlines()[0]
        logger.warning("%s %d of %s rollout workers are left.", reason, self.healthy_count, total)

    def can_restart(self, settings: Settings) -> bool:
        """Whether these processes serve other settings: all alive, and as many and as large as wanted."""
        ours, wanted = self._settings.resources, settings.resources
        same = (ours.num_workers, ours.num_cpus_per_worker) == (wanted.num_workers, wanted.num_cpus_per_worker)
        return same and self.healthy_count == wanted.num_workers

    def restart(self, settings: Settings, spec: EnvironmentSpec) -> None:
        """Make new environments and policies in the running processes, which saves their start-up time.

        Raises:
            WorkerError: as in the constructor; all workers have been stopped then.
        """
        self._settings = settings
        self._workers = [dataclasses.replace(worker, environment=settings.environment.id) for worker in self._workers]
        try:
            self._start_samplers(spec)
        except BaseException:
            self.stop(grace_s=0.0)
            raise

    def stop(self, grace_s: float = 5.0) -> None:
        """End all workers, and with the last set a Ray that was started for it; a second call does nothing.

        Args:
            grace_s: seconds that they have to close their environments, all together, before they are killed.
        """
        workers, self._workers = self._workers, []
        try:
            if workers and ray.is_initialized():
                _end(workers, grace_s)
        finally:
            own_ray.release(self)

    def _launch(self, worker_class: type, group: PlacementGroup | None) -> None:
        resources = self._settings.resources
        strategy = (
            PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True) if group else "DEFAULT"
        )
        actor_class = ray.remote(worker_class).options(
            num_cpus=resources.num_cpus_per_worker, scheduling_strategy=strategy
        )
        for index in range(1, (resources.num_workers or 0) + 1):
            actor = actor_class.remote(index, resources.num_cpus_per_worker)
            self._workers.append(RemoteWorker(index, actor, self._settings.environment.id))

    def _start_samplers(self, spec: EnvironmentSpec) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        placed = {worker.actor.ping.remote(): worker for worker in self._workers}
        started = {worker.actor.start.remote(self._settings, spec): worker for worker in self._workers}
        pending = list(started)
        while pending:
            remaining = max(0.0, deadline - time.monotonic())
            done, pending = ray.wait(pending, num_returns=1, timeout=remaining)
            if not done:
                raise self._too_late(placed, [started[reference] for reference in pending])
            worker = started[done[0]]
            try:
                ray.get(done[0], timeout=max(1.0, remaining))
            except RayError as error:
                failure = worker_error(worker, "starting", error)
                raise failure from failure.__cause__

    def _too_late(self, placed: Mapping[Any, RemoteWorker], late: list[RemoteWorker]) -> Exception:
        references = list(placed)
        unplaced = ray.wait(references, num_returns=len(references), timeout=0)[1]
        if not unplaced:
            waited = f"it had {self._start_timeout_s:g} s to make its environments."
            return worker_error(late[0], "starting", GetTimeoutError(waited))
        resources = self._settings.resources
        free, total = ray.available_resources().get("CPU", 0.0), ray.cluster_resources().get("CPU", 0.0)
        return ResourceError(
            f"{len(unplaced)} of {resources.num_workers} rollout workers did not come up within "
            f"{self._start_timeout_s:g} s: each needs {resources.num_cpus_per_worker:g} CPUs, {free:g} of Ray's "
            f"{total:g} are free (what these workers hold counts as taken). {_CURE}",
            key="resources.num_workers",
            value=resources.num_workers,
        )


def _check_cpus(settings: Settings, group: PlacementGroup | None) -> None:
    """Raise ResourceError for a request that can never be served, instead of waiting for it."""
    resources = settings.resources
    assert resources.num_workers is not None, "settings must be resolved"
    needed = resources.num_workers * resources.num_cpus_per_worker
    if group is None:
        available, owner = ray.cluster_resources().get("CPU", 0.0), "Ray"
    else:
        available, owner = sum(bundle.get("CPU", 0.0) for bundle in group.bundle_specs), "the trial's placement group"
    if needed > available + 1e-6:
        raise ResourceError(
            f"{resources.num_workers} rollout workers with {resources.num_cpus_per_worker:g} CPUs each need "
            f"{needed:g} CPUs, {owner} has {available:g}. {_CURE}",
            key="resources.num_workers",
            value=resources.num_workers,
        )


def _end(workers: list[RemoteWorker], grace_s: float) -> None:
    try:
        if grace_s > 0:
            closing = [worker.actor.close.remote() for worker in workers]
            ray.wait(closing, num_returns=len(closing), timeout=grace_s)
    finally:
        for worker in workers:
            _kill(worker)


def _kill(worker: RemoteWorker) -> None:
    with contextlib.suppress(RayError, ValueError):
        ray.kill(worker.actor, no_restart=True)
