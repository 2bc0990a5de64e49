"""The searcher between Tune and Optuna: asks the study for configurations and tells it what became of them.

Tune's own OptunaSearch tells early-stopped trials as COMPLETE, leaves others RUNNING for ever and breaks on restore.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from ray import cloudpickle
from ray.tune.search import Searcher

from sweeps.records import NO_SCORE, lookup
from sweeps.study import create_study, make_sampler, open_storage

# User attributes of the study's trials.
RAY_TRIAL_ID = "ray_trial_id"
SEED = "seed"
DUPLICATE_OF = "duplicate_of"
FAIL_REASON = "fail_reason"

ENV_STEPS = "num_env_steps_sampled"


class Space(Protocol):
    """What the searcher needs of a ``sweeps.space.SearchSpace``."""

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Return a value for each dotted key that is searched."""
        ...

    def encode_default(self, base: dict[str, Any]) -> dict[str, Any] | None:
        """Return the study's parameters that stand for ``base``, or None where it lies outside the space."""
        ...


@dataclass
class _Run:
    """One trial that was handed to Tune."""

    trial: optuna.Trial
    last_step: int = -1
    finished: bool = False


class OptunaSearcher(Searcher):
    """Proposes ``num_trials`` configurations and keeps an Optuna study on disk that always tells the truth.

    COMPLETE with the metric of the last result when a trial reached its budget; PRUNED with its last report when
    it ended below; FAIL with a reason (user attribute ``fail_reason``) when it raised, was interrupted or has no
    finite score. Trial n trains with seed ``seed + n``, so that it can be repeated exactly.

    The study is the only state that matters: a searcher that is unpickled or restored reads it again, takes up the
    trials that Tune knows, and hands out once more, under the same number, those that Tune lost.

    Args:
        study_storage_url: storage of the study; see ``sweeps.study.study_url``.
        study_name: name of the study, new in this storage.
        space: what is searched.
        base_config: the configuration as composed, nested plain data.
        metric: key of the objective in a (flattened) result.
        mode: ``max`` or ``min``.
        budget: env steps of a whole trial.
        sampler: ``tpe``, ``random``, ``gp`` or ``qmc``.
        seed: of the sampler; trial n gets ``seed + n``.
        num_trials: how many configurations are proposed.
        default_first: whether trial 0 is ``base_config``, provided that it lies inside the space.

    Raises:
        ConfigError: the study exists already or the sampler does not.
    """

    _storage: RDBStorage | None
    _study: optuna.Study | None

    def __init__(
        self,
        study_storage_url: str,
        study_name: str,
        space: Space,
        base_config: dict[str, Any],
        metric: str,
        mode: str,
        budget: int,
        sampler: str,
        seed: int,
        num_trials: int,
        default_first: bool,
    ) -> None:
        mode = mode.value if isinstance(mode, Enum) else mode
        super().__init__(metric=metric, mode=mode)
        self._storage_url = study_storage_url
        self._study_name = study_name
        self._space = space
        self._budget = budget
        self._seed = seed
        self._num_trials = num_trials
        self._sampler = make_sampler(sampler, seed, num_trials)
        self._known: set[str] = set()
        self._errors: dict[str, str] = {}
        self._forget_study()
        self._storage = open_storage(study_storage_url)
        self._study = create_study(self._storage, study_name, self._sampler, metric=metric, mode=mode)
        defaults = space.encode_default(base_config) if default_first else None
        if defaults is not None:
            self._study.enqueue_trial(defaults)

    @property
    def metric(self) -> None:
        """None: Tune would end the whole sweep at the first result that lacks a metric named here."""
        return None

    @property
    def study(self) -> optuna.Study:
        """The study; opened again after unpickling, restoring or ``close``."""
        if self._study is None:
            self._storage = open_storage(self._storage_url)
            self._study = optuna.load_study(study_name=self._study_name, storage=self._storage, sampler=self._sampler)
            self._take_up(self._study)
        return self._study

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Accept whatever Tune passes: metric, mode and space are fixed already, ``config`` is the base."""
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str:
        """Return the next configuration as nested plain overrides, or ``FINISHED`` after ``num_trials``."""
        study = self.study
        if self._lost:
            run = self._lost.pop(0)
        elif self._num_handed_out < self._num_trials:
            run = _Run(study.ask())
        else:
            return str(Searcher.FINISHED)
        trial = run.trial
        values = self._space.suggest(trial)
        seed = (self._seed + trial.number) % 2**31
        first = self._first_with.setdefault(_fingerprint(trial.params), trial.number)
        if first != trial.number:
            # Not refused: on a noisy objective a second look, with another seed, is evidence too.
            trial.set_user_attr(DUPLICATE_OF, first)
        trial.set_user_attr(SEED, seed)
        trial.set_user_attr(RAY_TRIAL_ID, trial_id)
        self._num_handed_out += 1
        self._known.add(trial_id)
        self._runs[trial_id] = run
        return _nest({**values, "debugging.seed": seed})

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Report a result's metric to the study, unless it is missing, not finite or already reported."""
        run = self._open_run(trial_id)
        if run is not None:
            self._report(run, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell the study how a trial ended; a second call for the same trial changes nothing."""
        run = self._open_run(trial_id)
        if run is None:
            return
        if error:
            self._fail(run, self._errors.pop(trial_id, "the trial raised an error (see error.txt in its folder)"))
            return
        steps = finite_or_none((result or {}).get(ENV_STEPS))
        if result is None or steps is None:
            self._fail(run, f"stopped before a result with {ENV_STEPS}")
            return
        self._report(run, result)
        score = finite_or_none(lookup(result, self._metric))
        if steps < self._budget:
            self._tell(run, TrialState.PRUNED)
        elif score is not None:
            self._tell(run, TrialState.COMPLETE, score)
        else:
            self._fail(run, NO_SCORE.format(metric=self._metric))

    def note_error(self, trial_id: str, reason: str) -> None:
        """Say why a trial is about to be told as failed: Tune only passes ``error=True``."""
        self._errors[trial_id] = reason

    def finalize(self, reason: str) -> int:
        """Tell FAIL, with this reason, for every trial that is still RUNNING; for the end of every sweep.

        Tune calls nothing on Ctrl-C, a time budget or fail-fast. Safe to call twice.

        Returns:
            How many trials there were.
        """
        left = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        for frozen in left:
            self._fail(_reopen(self.study, frozen), reason)
        for run in self._runs.values():
            run.finished = True
        self._lost.clear()
        return len(left)

    def close(self) -> None:
        """Close the database, which folds SQLite's write-ahead log into it; any later use opens it again."""
        if self._storage is not None:
            self._storage.engine.dispose()
        self._forget_study()

    def save(self, checkpoint_path: str) -> None:
        """Write the searcher's own state (small; the trials are in the study)."""
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(self.__getstate__()))

    def restore(self, checkpoint_path: str) -> None:
        """Read what ``save`` wrote, and the study as it is now."""
        self.close()
        self.__setstate__(cloudpickle.loads(Path(checkpoint_path).read_bytes()))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to the open database."""
        tied = ("_storage", "_study", "_runs", "_lost", "_first_with", "_num_handed_out")
        return {name: value for name, value in self.__dict__.items() if name not in tied}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the database at first use only: Tune also unpickles searchers that it then replaces."""
        self.__dict__.update(state)
        self._forget_study()

    def _forget_study(self) -> None:
        self._storage = None
        self._study = None
        self._runs: dict[str, _Run] = {}
        self._lost: list[_Run] = []
        self._first_with: dict[str, int] = {}
        self._num_handed_out = 0

    def _take_up(self, study: optuna.Study) -> None:
        """Read the trials of a study: done, known to Tune, or lost with it after its last snapshot."""
        for frozen in study.get_trials(deepcopy=False):
            if frozen.state == TrialState.WAITING:
                continue
            self._first_with.setdefault(_fingerprint(frozen.params), frozen.number)
            trial_id = str(frozen.user_attrs.get(RAY_TRIAL_ID))
            if not frozen.state.is_finished() and trial_id not in self._known:
                self._lost.append(_reopen(study, frozen))
                continue
            self._num_handed_out += 1
            if not frozen.state.is_finished():
                self._runs[trial_id] = _reopen(study, frozen)

    def _open_run(self, trial_id: str) -> _Run | None:
        _ = self.study  # fills self._runs after unpickling
        run = self._runs.get(trial_id)
        return None if run is None or run.finished else run

    def _report(self, run: _Run, result: dict[str, Any]) -> None:
        value, step = finite_or_none(lookup(result, self._metric)), finite_or_none(result.get(ENV_STEPS))
        # A retried trial passes its old steps again; the study keeps what it saw first.
        if value is None or step is None or step <= run.last_step:
            return
        run.last_step = int(step)
        run.trial.report(value, run.last_step)

    def _fail(self, run: _Run, reason: str) -> None:
        run.trial.set_user_attr(FAIL_REASON, reason)
        self._tell(run, TrialState.FAIL)

    def _tell(self, run: _Run, state: TrialState, value: float | None = None) -> None:
        run.finished = True
        self.study.tell(run.trial, value, state=state, skip_if_finished=True)


def _reopen(study: optuna.Study, frozen: FrozenTrial) -> _Run:
    # Optuna has no public way from a stored trial back to one that can report.
    trial = optuna.Trial(study, frozen._trial_id)
    return _Run(trial, last_step=-1 if frozen.last_step is None else frozen.last_step)


def finite_or_none(value: Any) -> float | None:
    """Return a number as a float, and None for everything that is missing, NaN, infinite or no number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _fingerprint(params: dict[str, Any]) -> str:
    return json.dumps(params, sort_keys=True)


def _nest(values: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *path, name = key.split(".")
        section = nested
        for part in path:
            section = section.setdefault(part, {})
        section[name] = value
    return nested
