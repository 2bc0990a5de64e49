"""Schedulers that decide which trials go on: asynchronous successive halving (ASHA), or none."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from actorlearner.exceptions import ConfigError
from sweeps.failures import error_line
from sweeps.records import lookup
from sweeps.search import ENV_STEPS, finite_or_none

OnError = Callable[[str, str], None]


class RunToBudget(FIFOScheduler):
    """Stops no trial early.

    Args:
        on_error: called with trial id and reason when a trial raised; see ``OptunaSearcher.note_error``. Of all
            that Tune calls, only the scheduler hears of an error before the searcher does.
    """

    def __init__(self, on_error: OnError | None = None) -> None:
        super().__init__()
        self._on_error = on_error

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Forward the last line of the trial's traceback."""
        if self._on_error is not None:
            self._on_error(trial.trial_id, error_line(trial.error_file))


class Asha(RunToBudget):
    """Asynchronous successive halving, the variant that stops (Li et al. 2018, arXiv:1810.05934).

    Rungs lie at ``grace · reduction_factor^k`` env steps. A trial is judged at the first result at or after a rung:
    it is stopped where its metric is below the ``1 - 1/reduction_factor`` quantile of those that were there before.

    Tune's own decides the same on finite metrics (a test compares them), but makes numpy warn about rungs of NaN,
    and after a leap over a rung compares the trial there once more, with a later and better result. Here a trial
    that passes a rung by a leap or without a finite metric is not compared there, nor others with it.

    Args:
        metric: key of the objective in a result.
        mode: ``max`` or ``min``.
        budget: env steps of a whole trial; the trial ends there by itself.
        grace: env steps before which no trial is stopped.
        reduction_factor: about one trial in this many goes on at each rung.
        on_error: see ``RunToBudget``.
    """

    def __init__(
        self,
        *,
        metric: str,
        mode: str,
        budget: float,
        grace: float,
        reduction_factor: float,
        on_error: OnError | None = None,
    ) -> None:
        super().__init__(on_error)
        self._objective = metric
        self._sign = 1.0 if mode == "max" else -1.0
        self._quantile = 1 - 1 / reduction_factor
        self._milestones: list[float] = []
        while grace < budget:
            self._milestones.append(grace)
            grace *= reduction_factor
        self._rungs: list[dict[str, float]] = [{} for _ in self._milestones]
        self._reached: dict[str, int] = {}

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Stop a trial that falls short at a rung it has just reached."""
        return str(TrialScheduler.STOP if self._falls_short(trial.trial_id, result) else TrialScheduler.CONTINUE)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Let later trials be compared with the last result, which ``on_trial_result`` does not see."""
        self._falls_short(trial.trial_id, result)

    def debug_string(self) -> str:
        """Say how many trials each rung has seen."""
        rungs = (f"{steps:g}: {len(rung)}" for steps, rung in zip(self._milestones, self._rungs, strict=True))
        return f"ASHA, trials judged by env steps: {', '.join(rungs)}"

    def _falls_short(self, trial_id: str, result: dict[str, Any]) -> bool:
        steps = finite_or_none(result.get(ENV_STEPS))
        reached = 0 if steps is None else bisect.bisect_right(self._milestones, steps)
        if reached <= self._reached.get(trial_id, 0):
            return False
        self._reached[trial_id] = reached
        value = finite_or_none(lookup(result, self._objective))
        if value is None:
            return False
        rung = self._rungs[reached - 1]
        before = list(rung.values())
        rung[trial_id] = self._sign * value
        return bool(before) and self._sign * value < float(np.quantile(before, self._quantile))


def make_scheduler(
    scheduler: str,
    *,
    metric: str,
    mode: str,
    budget: int,
    grace_fraction: float,
    reduction_factor: float,
    on_error: OnError | None = None,
) -> RunToBudget:
    """Make the scheduler of a sweep; time is counted in env steps.

    Args:
        scheduler: ``asha`` or ``none``.
        metric: key of the objective in a result.
        mode: ``max`` or ``min``.
        budget: env steps of a whole trial.
        grace_fraction: no trial is stopped before this share of the budget, above 0 and at most 1.
        reduction_factor: about one in this many goes on at each rung, above 1.
        on_error: see ``RunToBudget``.

    Raises:
        ConfigError: a value out of its range.
    """
    mode = mode.value if isinstance(mode, Enum) else mode
    if scheduler == "none":
        return RunToBudget(on_error)
    if scheduler != "asha":
        raise _out_of_range("type", "asha or none", scheduler)
    if not 0 < grace_fraction <= 1:
        raise _out_of_range("grace_fraction", "greater than 0 and at most 1", grace_fraction)
    if not (reduction_factor > 1 and math.isfinite(reduction_factor)):
        raise _out_of_range("reduction_factor", "greater than 1", reduction_factor)
    return Asha(
        metric=metric,
        mode=mode,
        budget=budget,
        grace=grace_fraction * budget,
        reduction_factor=reduction_factor,
        on_error=on_error,
    )


def _out_of_range(name: str, rule: str, value: Any) -> ConfigError:
    return ConfigError(f"scheduler.{name} must be {rule}, got {value!r}.", key=f"scheduler.{name}", value=value)
