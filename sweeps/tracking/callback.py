"""Ray Tune's side of the tracking: turns what Tune says about trials into calls of the tracker."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf
from ray.tune import Callback

from sweeps.failures import error_line
from sweeps.records import TrialStatus, lookup
from sweeps.tracking.tracker import SweepTracker

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

# The sweep varies it from trial to trial, too, but it is no choice of the search.
SEED_KEY = "debugging.seed"
STEPS_KEY = "num_env_steps_sampled"


class MlflowCallback(Callback):
    """Tracks every trial in MLflow; a snapshot of Tune's (a pickle) holds neither thread nor client.

    Args:
        tracker: where trials are told; the sweep itself is begun and ended by the caller.
        budget: env steps of a full trial; one that ended with fewer, without an error, was pruned.
        metric: the objective's path in the result, such as ``episode_return_mean`` or ``evaluation/return_mean``.
        base_seed: the sweep's seed, from which a trial's seed tells its number; without it trials are numbered as Tune
            lists them.
        end_of: how the sweep's records say that a trial ended, by trial id: the status and, where it failed, why. It
            decides for each trial that Tune calls complete, so that both tell the same; without it the budget does.
    """

    def __init__(
        self,
        tracker: SweepTracker | None,
        *,
        budget: int,
        metric: str,
        base_seed: int | None = None,
        end_of: Callable[[str], tuple[TrialStatus, str | None]] | None = None,
    ) -> None:
        self._tracker = tracker
        self._budget = budget
        self._metric = metric
        self._base_seed = base_seed
        self._end_of = end_of
        self._started: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the tracker and the records behind ``end_of``: a restored sweep brings its own."""
        return {**self.__dict__, "_tracker": None, "_end_of": None}

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Begin the trial's run with its configuration; a restart of a trial changes nothing."""
        if self._tracker is None or trial.trial_id in self._started:
            return
        self._started.add(trial.trial_id)
        varied = {key.replace("/", "."): value for key, value in (trial.evaluated_params or {}).items()}
        seed = lookup(trial.config, SEED_KEY)
        self._tracker.start_trial(
            trial.trial_id,
            trial.config,
            to_yaml(trial.config),
            number=self._number(trials, trial),
            seed=seed if isinstance(seed, int) else None,
            searched={key: value for key, value in varied.items() if key != SEED_KEY},
        )

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Log one result over env steps."""
        if self._tracker is not None:
            self._tracker.log(trial.trial_id, env_steps(result), result)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """End the run as the records say; without them as completed or, below the budget, as pruned."""
        result = trial.last_result or {}
        if self._end_of is not None:
            status, reason = self._end_of(trial.trial_id)
        else:
            pruned = env_steps(result) < self._budget
            status, reason = TrialStatus.pruned if pruned else TrialStatus.completed, None
        self._end(trials, trial, status, self._score(result), reason)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """End the run as failed, with the error's last line; Tune may call this before ``on_trial_start``."""
        self._end(trials, trial, TrialStatus.failed, None, error_line(trial.error_file))

    def _end(
        self, trials: list[Trial], trial: Trial, status: TrialStatus, score: float | None, reason: str | None
    ) -> None:
        if self._tracker is not None:
            self.on_trial_start(0, trials, trial)
            self._tracker.end_trial(trial.trial_id, status, score, reason)

    def _number(self, trials: list[Trial], trial: Trial) -> int:
        if self._base_seed is None:
            return trials.index(trial)
        from sweeps.observer import trial_number

        return trial_number(trial.config, self._base_seed)

    def _score(self, result: Mapping[str, Any]) -> float | None:
        value = lookup(result, self._metric)
        is_number = isinstance(value, (int, float)) and math.isfinite(value)
        return float(value) if is_number and value is not None else None


def env_steps(result: Mapping[str, Any]) -> int:
    """Return a result's env steps; 0 before the first result."""
    return int(result.get(STEPS_KEY, 0) or 0)


def to_yaml(config: Mapping[str, Any]) -> str:
    """Return a composed configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(config)))
