"""What is known of each trial while a sweep runs: the one source for the display, the summary and the exit code."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

NO_SCORE = (
    "{metric} was not a number at the end of the budget: where no episode has ended yet, raise "
    "sweep.budget.env_steps_per_trial or lower resources.num_envs_per_worker"
)


class TrialStatus(str, Enum):
    """State of a trial; a pruned trial was stopped early by the scheduler, an interrupted one by the person."""

    running = "running"
    completed = "completed"
    pruned = "pruned"
    failed = "failed"
    interrupted = "interrupted"


@dataclass
class TrialRecord:
    """One trial as the sweep sees it.

    Attributes:
        number: position in the sweep, starting at 0.
        trial_id: Ray Tune's id.
        params: the varied values by dotted key.
        config: the engine's whole configuration (nested plain dict).
        score: objective at the last result, NaN before the first finished episode.
        env_steps: env steps sampled.
        seconds: training time so far.
        steps_per_second: throughput at the last result.
        curve: (env steps, score) of each result with a finite score.
        reason: why it failed, one line.
        checkpoint: directory of its last checkpoint.
    """

    number: int
    trial_id: str
    params: dict[str, Any]
    config: dict[str, Any]
    status: TrialStatus = TrialStatus.running
    score: float = math.nan
    env_steps: int = 0
    seconds: float = 0.0
    steps_per_second: float = 0.0
    curve: list[tuple[int, float]] = field(default_factory=list)
    reason: str | None = None
    checkpoint: str | None = None


class SweepRecords:
    """All trials of a sweep.

    Args:
        metric: name of the objective in a result.
        maximize: whether higher is better.
        budget: env steps of a complete trial.
        num_trials: trials that the sweep will run.
    """

    def __init__(self, metric: str, maximize: bool, budget: int, num_trials: int) -> None:
        self.metric = metric
        self.maximize = maximize
        self.budget = budget
        self.num_trials = num_trials
        self.started = time.monotonic()
        self._first_start = self.started
        self._records: dict[str, TrialRecord] = {}

    def __iter__(self) -> Iterator[TrialRecord]:
        return iter(sorted(self._records.values(), key=lambda record: record.number))

    def __len__(self) -> int:
        return len(self._records)

    @property
    def seconds(self) -> float:
        """Wall time since the sweep began."""
        return time.monotonic() - self.started

    @property
    def training_seconds(self) -> float:
        """Wall time since the first trial began."""
        return time.monotonic() - self._first_start

    def start(self, number: int, trial_id: str, params: dict[str, Any], config: dict[str, Any]) -> TrialRecord:
        """Add a trial, or find it again when Tune starts it a second time."""
        if not self._records:
            self._first_start = time.monotonic()
        if trial_id not in self._records:
            self._records[trial_id] = TrialRecord(number, trial_id, params, config)
        return self._records[trial_id]

    def result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Take over one result."""
        record = self._records[trial_id]
        record.env_steps = int(result["num_env_steps_sampled"])
        record.seconds = float(result.get("time_total_s", record.seconds))
        record.steps_per_second = float(result.get("env_steps_per_second", math.nan))
        score = float(lookup(result, self.metric))
        record.score = score
        if math.isfinite(score):
            record.curve.append((record.env_steps, score))

    def finish(self, trial_id: str, status: TrialStatus, reason: str | None = None) -> None:
        """Close a trial; the first end wins."""
        record = self._records[trial_id]
        if record.status is TrialStatus.running:
            record.status = status
            record.reason = reason

    def end_of(self, trial_id: str) -> tuple[TrialStatus, str | None]:
        """Tell how a trial without an error ended, and why it failed.

        Completed at its budget; pruned when the scheduler stopped it before; failed when it has no score at the end.
        """
        record = self._records[trial_id]
        if record.env_steps < self.budget:
            return TrialStatus.pruned, None
        if math.isfinite(record.score):
            return TrialStatus.completed, None
        return TrialStatus.failed, NO_SCORE.format(metric=self.metric)

    def interrupt_running(self) -> None:
        """Close what is still running as interrupted."""
        for trial_id in list(self._records):
            self.finish(trial_id, TrialStatus.interrupted, "the sweep was stopped")

    def count(self, status: TrialStatus) -> int:
        """Return the number of trials in a state."""
        return sum(record.status is status for record in self._records.values())

    def ranked(self) -> list[TrialRecord]:
        """Return the trials best first: complete ones, then pruned and interrupted ones, then those without score."""

        def key(record: TrialRecord) -> tuple[int, float]:
            if not math.isfinite(record.score) or record.status is TrialStatus.failed:
                return 2, record.number
            return int(record.status is not TrialStatus.completed), -record.score if self.maximize else record.score

        return sorted(self._records.values(), key=key)

    def best(self) -> TrialRecord | None:
        """Return the best trial with a score: a complete one where there is one."""
        ranked = [
            record
            for record in self.ranked()
            if math.isfinite(record.score) and record.status is not TrialStatus.failed
        ]
        return ranked[0] if ranked else None


def lookup(tree: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted or slashed path of a nested or flattened mapping; NaN where it is absent."""
    flat = path.replace(".", "/")
    if flat in tree:
        return tree[flat]
    value: Any = tree
    for part in flat.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            return math.nan
        value = value[part]
    return value
