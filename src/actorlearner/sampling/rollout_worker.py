"""A process of its own that steps environments: the sampler behind a door that Ray can knock on."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import torch

from actorlearner.envs.spec import EnvironmentSpec
from actorlearner.sampling.sampler import Sampler, worker_seed
from actorlearner.settings import Settings
from actorlearner.setup import seed_everything
from actorlearner.types import Fragment, Weights


class RolloutWorker:
    """Owns one sampler; a plain class, made a Ray actor by ``ray.remote(RolloutWorker)``.

    The constructor cannot fail: Ray reports an actor whose constructor raises as dead and keeps only a text of the
    exception, whereas one raised by ``start`` reaches the driver as itself (spec A4).

    Args:
        worker_index: counted from 1; 0 is the local worker, which needs no process.
        num_cpus: CPUs reserved for this process; torch and the environments use no more threads than that.
    """

    def __init__(self, worker_index: int, num_cpus: float = 1.0) -> None:
        self._worker_index = worker_index
        self._num_threads = max(1, int(num_cpus))
        self._sampler: Sampler | None = None

    def start(self, settings: Settings, spec: EnvironmentSpec) -> None:
        """Make the environments and the policy; called again, replace them by new ones.

        Raises:
            Exception: whatever the environment's constructor raises, unchanged.
        """
        torch.set_num_threads(self._num_threads)
        self.close()
        # Environments may draw from the global generators, which are this process's own.
        seed_everything(worker_seed(settings.debugging.seed, self._worker_index))
        assert settings.resources.num_envs_per_worker is not None, "settings must be resolved"
        self._sampler = Sampler(
            settings,
            spec,
            num_envs=settings.resources.num_envs_per_worker,
            worker_index=self._worker_index,
            num_threads=self._num_threads,
        )

    def sample(self) -> Fragment:
        """Return the next fragment, its arrays contiguous so that Ray shares them instead of copying.

        Raises:
            Exception: whatever the environment raises, unchanged.
        """
        return _contiguous(self._running().sample())

    def set_weights(self, weights: Weights) -> None:
        """Use these weights from the next fragment on."""
        self._running().set_weights(weights)

    def ping(self) -> int:
        """Show that the process answers: return its process id."""
        return os.getpid()

    def close(self) -> None:
        """Close the environments; harmless when there are none."""
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.close()

    def _running(self) -> Sampler:
        assert self._sampler is not None, "start() comes before sample() and set_weights()"
        return self._sampler


def _contiguous(fragment: Fragment) -> Fragment:
    # Only contiguous arrays travel outside the pickle stream, into shared memory.
    strided: dict[str, Any] = {
        name: np.ascontiguousarray(value)
        for name, value in vars(fragment).items()
        if isinstance(value, np.ndarray) and not value.flags.c_contiguous
    }
    return dataclasses.replace(fragment, **strided) if strided else fragment
