"""What a training step takes its fragments from, and the source that samples in the driver's own thread."""

from __future__ import annotations

from typing import Protocol

from actorlearner.envs.spec import EnvironmentSpec
from actorlearner.sampling.sampler import Sampler
from actorlearner.settings import Settings
from actorlearner.types import Fragment, Weights


class FragmentSource(Protocol):
    """Gives fragments and takes weights; called from the driver's thread only."""

    def request(self) -> int:
        """Ask every worker that has room for fragments, without waiting; return how many were asked for."""

    def collect(self, timeout: float = 0.0) -> list[Fragment]:
        """Return the fragments that are ready, waiting up to ``timeout`` seconds for the first one."""

    def broadcast(self, weights: Weights) -> None:
        """Give new weights to the workers that need them."""

    def stop(self) -> None:
        """Close environments and end workers."""

    @property
    def healthy_count(self) -> int:
        """Workers that sample."""


class LocalSource:
    """Samples in the caller's thread; weights are handed over in memory.

    Args:
        settings: resolved settings.
        spec: the environment.
        weights: what the first fragment is sampled with.
    """

    healthy_count = 1

    def __init__(self, settings: Settings, spec: EnvironmentSpec, weights: Weights) -> None:
        self._settings = settings
        self.sampler = _make_sampler(settings, spec)
        self.sampler.set_weights(weights)

    def request(self) -> int:
        """Do nothing: sampling happens in ``collect``."""
        return 0

    def collect(self, timeout: float = 0.0) -> list[Fragment]:
        """Sample one fragment."""
        return [self.sampler.sample()]

    def broadcast(self, weights: Weights) -> None:
        """Set the sampler's weights, unless it has this version."""
        if weights.version != self.sampler.weights_version:
            self.sampler.set_weights(weights)

    def reset(self, settings: Settings, spec: EnvironmentSpec, weights: Weights) -> None:
        """Become what a new source would be; an unchanged environment is reset instead of made anew."""
        unchanged = (
            settings.environment == self._settings.environment
            and settings.resources.num_envs_per_worker == self._settings.resources.num_envs_per_worker
            and settings.resources.num_cpus_for_driver == self._settings.resources.num_cpus_for_driver
        )
        self._settings = settings
        if unchanged:
            self.sampler.reset(settings)
        else:
            self.sampler.close()
            self.sampler = _make_sampler(settings, spec)
        self.sampler.set_weights(weights)

    def stop(self) -> None:
        """Close the environment."""
        self.sampler.close()


def _make_sampler(settings: Settings, spec: EnvironmentSpec) -> Sampler:
    num_envs = settings.resources.num_envs_per_worker
    assert num_envs is not None, "settings must be resolved"
    # An overlapped learner leaves part of its CPU idle: games stepped by as many threads as the trial has CPUs use
    # that up (Pong on two CPUs in bfloat16: 1.7 of 2 cores busy instead of 1.5, and a fifth more steps per second).
    num_threads = max(1, int(settings.resources.num_cpus_for_driver or 1))
    return Sampler(settings, spec, num_envs=num_envs, worker_index=0, num_threads=num_threads)
