"""The Tune callback that keeps the sweep's records and its display up to date."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ray.tune import Callback

from sweeps.failures import error_line
from sweeps.progress import describe
from sweeps.records import SweepRecords, TrialRecord, TrialStatus, lookup

if TYPE_CHECKING:
    from ray.tune import Checkpoint
    from ray.tune.experiment import Trial

    from sweeps.progress import Progress

_LOGGER = logging.getLogger(__name__)


class SweepObserver(Callback):
    """Translates Tune's events into records; the display is told after each.

    Args:
        records: where the trials are kept.
        progress: the display.
        keys: the varied dotted keys.
        base_seed: the sweep's seed; trial n runs with seed ``base_seed + n``.
    """

    def __init__(self, records: SweepRecords, progress: Progress, keys: list[str], base_seed: int) -> None:
        self.records = records
        self.progress = progress
        self.keys = keys
        self.base_seed = base_seed

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles callbacks at each snapshot; a live display and its lock stay behind."""
        return {"keys": self.keys, "base_seed": self.base_seed}

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Add the trial."""
        self._record(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Take over its result."""
        self._record(trial)
        self.records.result(trial.trial_id, result)
        self.progress.result(trial.trial_id)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Close it as completed or pruned."""
        self._record(trial)
        self._finish(trial, *self.records.end_of(trial.trial_id))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Close it as failed, with the reason in one line."""
        self._record(trial)
        self._finish(trial, TrialStatus.failed, error_line(trial.error_file))

    def on_checkpoint(
        self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Checkpoint, **info: Any
    ) -> None:
        """Remember where the trial's policy lies."""
        self._record(trial).checkpoint = checkpoint.path

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Let the display move on while nothing else happens."""
        self.progress.tick()

    def _finish(self, trial: Trial, status: TrialStatus, reason: str | None) -> None:
        self.records.finish(trial.trial_id, status, reason)
        _LOGGER.info(describe(self._record(trial), self.records.metric))
        self.progress.finished(trial.trial_id)

    def _record(self, trial: Trial) -> TrialRecord:
        number = trial_number(trial.config, self.base_seed)
        params = {key: lookup(trial.config, key) for key in self.keys}
        return self.records.start(number, trial.trial_id, params, trial.config)


class TrialNames:
    """Names trials and their folders by number; a class, since Tune pickles it.

    Args:
        base_seed: see ``SweepObserver``.
    """

    def __init__(self, base_seed: int) -> None:
        self.base_seed = base_seed

    def __call__(self, trial: Trial) -> str:
        """Return ``trial_00007``."""
        return f"trial_{trial_number(trial.config, self.base_seed):05d}"


def trial_number(config: dict[str, Any], base_seed: int) -> int:
    """Return the trial's number, which its seed carries: seed = the sweep's seed + number."""
    return (int(config["debugging"]["seed"]) - base_seed) % 2**31
