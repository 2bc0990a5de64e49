"""Searcher and ASHA under the real Tuner: what a sweep leaves in the study."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from ray import cloudpickle, tune

from sweeps.schedulers import make_scheduler
from sweeps.search import FAIL_REASON, RAY_TRIAL_ID, SEED, OptunaSearcher
from sweeps.study import study_url

pytestmark = pytest.mark.slow
METRIC = "episode_return_mean"
BUDGET = 1000
SEED_OF_SWEEP = 40
# What each trial number does (see Scripted.step) and what the study must say; the first two set the marks on the rungs.
SCRIPT = {
    "good": "COMPLETE",
    "good too": "COMPLETE",
    "bad": "PRUNED",
    "raises": "FAIL",
    "nan": "FAIL",
    "late": "COMPLETE",
    "no setup": "FAIL",
    "no metric": "COMPLETE",
    "bad too": "PRUNED",
    "good again": "COMPLETE",
}
STEPS = [130, 260, 390, 520, 650, 780, 910, 1040]


class AfterThreeResults(tune.Stopper):
    """Ends the sweep the way a time budget does."""

    def __init__(self) -> None:
        self.results = 0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.results += 1
        return False

    def stop_all(self) -> bool:
        return self.results >= 3


class OneKey:
    """A space of one learning rate."""

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        return {"algorithm.lr": trial.suggest_float("algorithm.lr", 1e-4, 1e-2, log=True)}

    def encode_default(self, base: dict[str, Any]) -> dict[str, Any] | None:
        return {"algorithm.lr": base["algorithm"]["lr"]}


class Scripted(tune.Trainable):
    """Follows a script chosen by the trial's number; 130 env steps an iteration fit neither rung nor budget."""

    def setup(self, config: dict[str, Any]) -> None:
        assert config["algorithm"]["gamma"] == 0.99, "the base configuration must reach the trial"
        self.role = config["script"][config["debugging"]["seed"] - SEED_OF_SWEEP]
        self.env_steps = 0
        if self.role == "no setup":
            raise RuntimeError("no such environment")

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        (Path(checkpoint_dir) / "env_steps").write_text(str(self.env_steps))

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        self.env_steps = int((Path(checkpoint_dir) / "env_steps").read_text())

    def step(self) -> dict[str, Any]:
        self.env_steps += 130
        if self.role == "raises" and self.env_steps > 300:
            raise ValueError("reward is not finite")
        value = -10.0 if self.role.startswith("bad") else self.env_steps / 10
        if self.role == "nan" or (self.role == "late" and self.env_steps < 500):
            value = math.nan
        result = {METRIC: value, "num_env_steps_sampled": self.env_steps}
        if self.role == "no metric" and self.env_steps < 300:
            del result[METRIC]
        return result


@pytest.fixture(autouse=True)
def _pickled_by_value(ray_cluster: None) -> Iterator[None]:
    # By value: the workers cannot import a test module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True)
def quiet_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "0")


def make_tuner(folder: Path, script: list[str], max_concurrent: int | None, stop: Any) -> tuple[Any, tune.Tuner]:
    base = {"algorithm": {"lr": 1e-3, "gamma": 0.99}, "debugging": {"seed": 0}, "script": script}
    searcher = OptunaSearcher(
        study_storage_url=study_url(folder),
        study_name="sweep",
        space=OneKey(),
        base_config=base,
        metric=METRIC,
        mode="max",
        budget=BUDGET,
        sampler="tpe",
        seed=SEED_OF_SWEEP,
        num_trials=len(script),
        default_first=True,
    )
    scheduler = make_scheduler(
        "asha",
        metric=METRIC,
        mode="max",
        budget=BUDGET,
        grace_fraction=0.25,
        reduction_factor=3.0,
        on_error=searcher.note_error,
    )
    tune_config = tune.TuneConfig(
        search_alg=searcher,
        scheduler=scheduler,
        num_samples=-1,
        max_concurrent_trials=max_concurrent,
        reuse_actors=True,
    )
    run_config = tune.RunConfig(name="tune", storage_path=str(folder), stop=stop, verbose=0)
    return searcher, tune.Tuner(Scripted, param_space=base, tune_config=tune_config, run_config=run_config)


def stored(folder: Path) -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name="sweep", storage=study_url(folder)).trials


def test_a_sweep_with_failures_leaves_a_true_study(tmp_path: Path) -> None:
    searcher, tuner = make_tuner(tmp_path, list(SCRIPT), 2, {"num_env_steps_sampled": BUDGET})
    results = tuner.fit()
    assert searcher.finalize("the sweep ended") == 0
    searcher.close()

    trials = stored(tmp_path)
    assert [trial.state.name for trial in trials] == list(SCRIPT.values())
    assert len(results) == len({trial.user_attrs[RAY_TRIAL_ID] for trial in trials}) == len(SCRIPT)
    assert [trial.user_attrs[SEED] for trial in trials] == list(range(SEED_OF_SWEEP, SEED_OF_SWEEP + len(SCRIPT)))
    assert trials[0].params == {"algorithm.lr": 1e-3}

    assert trials[0].intermediate_values == {step: step / 10 for step in STEPS}
    assert trials[0].value == 104.0
    assert trials[2].intermediate_values == {130: -10.0, 260: -10.0}
    assert trials[2].value == -10.0
    assert list(trials[5].intermediate_values) == STEPS[3:]  # fault F27
    assert list(trials[7].intermediate_values) == STEPS[2:]  # Tune's check would have ended the sweep here
    reasons = {trial.number: trial.user_attrs[FAIL_REASON] for trial in trials if FAIL_REASON in trial.user_attrs}
    assert sorted(reasons) == [3, 4, 6]
    assert reasons[3] == "ValueError: reward is not finite"
    assert reasons[4].startswith(f"{METRIC} was not a number")
    assert reasons[6] == "RuntimeError: no such environment"


# Tune leaves its loggers' files open when it ends a sweep this way.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupted_sweep_leaves_trials_that_finalize_closes(tmp_path: Path) -> None:
    # Tune ends trials at a time budget, and at Ctrl-C, without a word to the searcher.
    searcher, tuner = make_tuner(tmp_path, ["good"] * 6, None, AfterThreeResults())
    tuner.fit()
    left = [trial for trial in stored(tmp_path) if trial.state.name == "RUNNING"]
    assert len(left) >= 2  # those that trained, and the one that Tune asks for ahead of time
    assert searcher.finalize("time budget used up") == len(left)
    trials = stored(tmp_path)
    assert {trial.state.name for trial in trials} == {"FAIL"}
    assert {trial.user_attrs[FAIL_REASON] for trial in trials} == {"time budget used up"}
    assert sum(len(trial.intermediate_values) for trial in trials) >= 3
    del tuner
    gc.collect()
