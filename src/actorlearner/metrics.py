"""Episode window, timers, and the result dict of one iteration (spec A20)."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from actorlearner.types import EpisodeStats, LearnerResult

# Statistics that every result holds, NaN until the learner has made its first update (spec I2).
STATISTICS = (
    "policy_loss",
    "value_loss",
    "entropy",
    "total_loss",
    "gradient_norm",
    "mean_rho",
    "clipped_rho_fraction",
    "explained_variance",
    "policy_lag",
    "learning_rate",
    "entropy_coeff",
)


class EpisodeWindow:
    """Finished episodes of this iteration, filled up with older ones to a window (spec A20).

    More episodes than the window in one iteration are all used.

    Args:
        size: episodes in the window.
    """

    def __init__(self, size: int) -> None:
        self._older: deque[EpisodeStats] = deque(maxlen=size)
        self._new: list[EpisodeStats] = []
        self._size = size
        self.total = 0

    def add(self, episodes: Iterable[EpisodeStats]) -> None:
        """Add episodes in the order in which they ended."""
        before = len(self._new)
        self._new.extend(episodes)
        self.total += len(self._new) - before

    def summarise(self) -> dict[str, float | int]:
        """Return the iteration's episode metrics and start the next iteration; NaN before the first episode."""
        missing = self._size - len(self._new)
        filled = list(self._older)[-missing:] if missing > 0 else []
        window = filled + self._new
        returns = [episode.episode_return for episode in window] or [math.nan]
        lengths = [float(episode.length) for episode in window] or [math.nan]
        summary: dict[str, float | int] = {
            "episode_return_mean": float(math.fsum(returns) / len(returns)),
            "episode_return_min": float(min(returns)),
            "episode_return_max": float(max(returns)),
            "episode_len_mean": float(math.fsum(lengths) / len(lengths)),
            "episodes_this_iter": len(self._new),
            "episodes_total": self.total,
        }
        self._older.extend(self._new)
        self._new = []
        return summary

    def state(self) -> dict[str, Any]:
        """Return plain data for a checkpoint."""
        episodes = [*self._older, *self._new][-self._size :]
        return {"total": self.total, "episodes": [[episode.episode_return, episode.length] for episode in episodes]}

    def load_state(self, total: int, episodes: Iterable[tuple[float, int]]) -> None:
        """Set what ``state`` returned; the episodes become older ones."""
        self.total = total
        self._new = []
        self._older.clear()
        self._older.extend(EpisodeStats(float(value), int(length)) for value, length in episodes)


@dataclass
class Counters:
    """Lifetime counters; they grow only, and travel with checkpoints."""

    num_env_steps_sampled: int = 0
    num_env_steps_trained: int = 0
    num_env_steps_dropped: int = 0
    num_training_steps: int = 0
    num_learner_updates: int = 0
    num_weight_broadcasts: int = 0
    num_times_learner_queue_full: int = 0
    num_times_learner_starved: int = 0


@dataclass
class Timers:
    """Mean milliseconds of named parts of one iteration."""

    _seconds: dict[str, float] = field(default_factory=dict)
    _calls: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the time spent inside to the timer of this name."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - started)

    def add(self, name: str, seconds: float) -> None:
        """Add one measurement."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds
        self._calls[name] = self._calls.get(name, 0) + 1

    def summarise(self) -> dict[str, float]:
        """Return ``{name}_ms``, the mean per call since the last summary, and start afresh."""
        means = {f"{name}_ms": 1000.0 * self._seconds[name] / calls for name, calls in self._calls.items()}
        self._seconds.clear()
        self._calls.clear()
        return means


def mean_statistics(results: list[LearnerResult], latest: Mapping[str, float]) -> dict[str, float]:
    """Return each statistic's mean over an iteration's updates; ``latest`` where there was no update.

    Values that are not finite are left out: a statistic may be undefined in one update. NaN where none is finite.
    Learning rate and entropy coefficient are the last update's.
    """
    if not results:
        return dict(latest)
    means = {name: _finite_mean(result.statistics[name] for result in results) for name in results[-1].statistics}
    for name in ("learning_rate", "entropy_coeff"):
        if name in means:
            means[name] = results[-1].statistics[name]
    return means


def _finite_mean(values: Iterable[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def result_dict(
    *,
    episodes: Mapping[str, float | int],
    before: Counters,
    counters: Counters,
    env_steps_queued: int,
    env_steps_waiting: int,
    statistics: Mapping[str, float],
    timers: Mapping[str, float],
    learner_queue_length: int,
    num_healthy_workers: int,
    seconds: float,
) -> dict[str, Any]:
    """Return one iteration's result: nested plain numbers (spec A20).

    Args:
        episodes: of ``EpisodeWindow.summarise``.
        before: counters when the iteration began.
        counters: counters now.
        env_steps_queued: handed to the learner, results not taken.
        env_steps_waiting: not handed to the learner yet.
        statistics: the learner's; missing ones are NaN.
        timers: mean milliseconds by name.
        learner_queue_length: batches waiting.
        num_healthy_workers: workers that sample.
        seconds: how long the iteration took.
    """
    sampled, trained = counters.num_env_steps_sampled, counters.num_env_steps_trained
    sampled_now = sampled - before.num_env_steps_sampled
    return {
        **episodes,
        "num_env_steps_sampled": sampled,
        "num_env_steps_trained": trained,
        "num_env_steps_sampled_this_iter": sampled_now,
        "num_env_steps_trained_this_iter": trained - before.num_env_steps_trained,
        # One agent acts in each environment, so agent steps are env steps.
        "num_agent_steps_sampled": sampled,
        "num_agent_steps_trained": trained,
        "timesteps_total": sampled,
        "env_steps_per_second": sampled_now / max(seconds, 1e-9),
        "num_healthy_workers": num_healthy_workers,
        "info": {"learner": {"default_policy": {**dict.fromkeys(STATISTICS, math.nan), **statistics}}},
        "timers": dict(timers),
        "counters": {
            **asdict(counters),
            "num_env_steps_queued": env_steps_queued,
            "num_env_steps_waiting": env_steps_waiting,
            "learner_queue_length": learner_queue_length,
        },
    }
