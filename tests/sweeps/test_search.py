"""The searcher alone: what it hands to Tune and what it tells the study. Faults: shared reference notes and F27."""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from ray import cloudpickle
from ray.tune.search import ConcurrencyLimiter, Searcher

from actorlearner.exceptions import ConfigError
from sweeps.search import DUPLICATE_OF, FAIL_REASON, RAY_TRIAL_ID, SEED, OptunaSearcher
from sweeps.study import study_url

BASE = {"algorithm": {"lr": 1e-3, "gamma": 0.99}, "model": {"activation": "tanh"}, "debugging": {"seed": 0}}
METRIC = "episode_return_mean"
BUDGET = 1000


class TwoSections:
    """A learning rate, and an activation whose choice adds a key: the shape of a real conditional space."""

    def __init__(self, low: float = 1e-4, high: float = 1e-2) -> None:
        self.low, self.high = low, high

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        values: dict[str, Any] = {"algorithm.lr": trial.suggest_float("algorithm.lr", self.low, self.high, log=True)}
        values["model.activation"] = trial.suggest_categorical("model.activation", ["tanh", "relu"])
        if values["model.activation"] == "relu":
            values["algorithm.gamma"] = 1 - trial.suggest_float("algorithm.gamma", 1e-3, 1e-1, log=True)
        return values

    def encode_default(self, base: dict[str, Any]) -> dict[str, Any] | None:
        lr = base["algorithm"]["lr"]
        return {"algorithm.lr": lr, "model.activation": "tanh"} if self.low <= lr <= self.high else None


class OnePoint:
    """A space with a single configuration."""

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        return {"algorithm.lr": trial.suggest_categorical("algorithm.lr", [1e-3])}

    def encode_default(self, base: dict[str, Any]) -> dict[str, Any] | None:
        return None


def make(folder: Path, **changes: Any) -> OptunaSearcher:
    arguments: dict[str, Any] = {
        "study_storage_url": study_url(folder),
        "study_name": "sweep",
        "space": TwoSections(),
        "base_config": BASE,
        "metric": METRIC,
        "mode": "max",
        "budget": BUDGET,
        "sampler": "tpe",
        "seed": 7,
        "num_trials": 6,
        "default_first": True,
    }
    return OptunaSearcher(**{**arguments, **changes})


def result(steps: int, value: float) -> dict[str, Any]:
    return {METRIC: value, "num_env_steps_sampled": steps}


def stored(folder: Path) -> list[optuna.trial.FrozenTrial]:
    """Read the study as a stranger would: with Optuna alone."""
    return optuna.load_study(study_name="sweep", storage=study_url(folder)).trials


class TestSuggest:
    def test_returns_nested_plain_overrides_with_the_trials_own_seed(self, tmp_path: Path) -> None:
        searcher = make(tmp_path)
        assert searcher.suggest("a") == {
            "algorithm": {"lr": 1e-3},
            "model": {"activation": "tanh"},
            "debugging": {"seed": 7},
        }
        assert searcher.suggest("b")["debugging"] == {"seed": 8}
        assert [trial.user_attrs[RAY_TRIAL_ID] for trial in stored(tmp_path)] == ["a", "b"]
        assert [trial.user_attrs[SEED] for trial in stored(tmp_path)] == [7, 8]

    @pytest.mark.parametrize(("default_first", "lr"), [(False, 1e-3), (True, 0.5)])
    def test_proposes_no_default_when_not_wanted_or_outside_the_space(
        self, tmp_path: Path, default_first: bool, lr: float
    ) -> None:
        searcher = make(tmp_path, default_first=default_first, base_config={"algorithm": {"lr": lr}})
        assert searcher.suggest("a")["algorithm"]["lr"] not in (1e-3, 0.5)

    def test_finishes_after_exactly_num_trials(self, tmp_path: Path) -> None:
        searcher = make(tmp_path, num_trials=2)
        answers = [searcher.suggest(name) for name in "abcd"]
        assert answers[2:] == [Searcher.FINISHED, Searcher.FINISHED]
        assert len(stored(tmp_path)) == 2

    def test_notes_a_repeated_configuration_and_runs_it(self, tmp_path: Path) -> None:
        searcher = make(tmp_path, space=OnePoint())
        seeds = [searcher.suggest(name)["debugging"]["seed"] for name in "abc"]
        assert seeds == [7, 8, 9]
        assert [trial.user_attrs.get(DUPLICATE_OF) for trial in stored(tmp_path)] == [None, 0, 0]

    @pytest.mark.parametrize("sampler", ["tpe", "random", "gp", "qmc"])
    def test_every_sampler_is_reproducible_silent_and_survives_pickling(
        self, tmp_path: Path, sampler: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        histories = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            searcher = make(tmp_path / name, sampler=sampler, num_trials=8, default_first=False)
            history = []
            for number in range(8):
                config = searcher.suggest(str(number))
                history.append(config)
                searcher.on_trial_complete(str(number), result(BUDGET, -math.log(config["algorithm"]["lr"])))
                if name == "two" and number in (2, 6):  # what Tune's snapshots do must change nothing
                    searcher = cloudpickle.loads(cloudpickle.dumps(searcher))
            histories.append(history)
        assert histories[0] == histories[1]
        assert len({config["algorithm"]["lr"] for config in histories[0]}) > 4
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]

    def test_refuses_an_unknown_sampler_and_a_study_that_exists(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"search\.sampler must be one of tpe, random, gp, qmc, got 'best'"):
            make(tmp_path, sampler="best")
        make(tmp_path)
        with pytest.raises(ConfigError, match=r"sweep\.name must be new.*'sweep'.*choose another"):
            make(tmp_path)

    def test_accepts_what_tune_passes(self, tmp_path: Path) -> None:
        searcher = make(tmp_path)
        assert searcher.set_search_properties(None, None, BASE, num_samples=-1)
        # A metric that Tune knows of ends the sweep at the first result without it.
        assert searcher.metric is None


class TestTelling:
    """Tune's OptunaSearch tells stopped trials as COMPLETE and leaves others RUNNING."""

    def ended(self, folder: Path, *results: dict[str, Any], error: bool = False, **changes: Any) -> Any:
        searcher = make(folder, **changes)
        searcher.suggest("a")
        for entry in results[:-1]:
            searcher.on_trial_result("a", entry)
        searcher.on_trial_complete("a", results[-1] if results else None, error=error)
        return stored(folder)[0]

    def test_complete_at_the_budget_with_the_last_metric(self, tmp_path: Path) -> None:
        trial = self.ended(tmp_path, result(500, 9.0), result(1010, 4.0))
        assert (trial.state, trial.value) == (TrialState.COMPLETE, 4.0)
        assert trial.intermediate_values == {500: 9.0, 1010: 4.0}

    def test_pruned_below_the_budget_with_its_last_report(self, tmp_path: Path) -> None:
        # Tune passes the result at which a scheduler stops to on_trial_complete only.
        trial = self.ended(tmp_path, result(100, 1.0), result(250, 2.0))
        assert (trial.state, trial.value) == (TrialState.PRUNED, 2.0)
        assert trial.intermediate_values == {100: 1.0, 250: 2.0}

    def test_fails_with_the_reason_that_was_noted(self, tmp_path: Path) -> None:
        searcher = make(tmp_path)
        for name in "ab":
            searcher.suggest(name)
        searcher.note_error("a", "ValueError: no such level")
        for name in "ab":
            searcher.on_trial_complete(name, error=True)
        reasons = [trial.user_attrs[FAIL_REASON] for trial in stored(tmp_path)]
        assert reasons[0] == "ValueError: no such level"
        assert "error.txt" in reasons[1]

    @pytest.mark.parametrize("value", [math.nan, math.inf, None])
    def test_fails_without_a_finite_score_at_the_budget(self, tmp_path: Path, value: Any) -> None:
        trial = self.ended(tmp_path, result(500, 1.0), result(1000, value))  # fault F27
        assert (trial.state, trial.value) == (TrialState.FAIL, None)
        assert trial.user_attrs[FAIL_REASON].startswith(f"{METRIC} was not a number at the end of the budget")
        assert trial.intermediate_values == {500: 1.0}

    def test_fails_when_stopped_before_any_result(self, tmp_path: Path) -> None:
        assert self.ended(tmp_path).user_attrs[FAIL_REASON].startswith("stopped before a result")

    def test_skips_missing_and_non_finite_metrics_and_steps_seen_before(self, tmp_path: Path) -> None:
        results = [
            {"num_env_steps_sampled": 100},
            {METRIC: 1.0},
            result(200, math.nan),  # fault F27
            result(300, 3.0),
            result(100, 8.0),  # a retry starts again; Optuna would warn, and warnings are errors here
            result(300, 9.0),
            result(400, 4.0),
            result(1000, 5.0),
        ]
        assert self.ended(tmp_path, *results).intermediate_values == {300: 3.0, 400: 4.0, 1000: 5.0}

    def test_a_second_end_changes_nothing(self, tmp_path: Path) -> None:
        searcher = make(tmp_path)
        searcher.suggest("a")
        searcher.on_trial_complete("a", result(1000, 5.0))
        searcher.on_trial_complete("a", error=True)
        searcher.on_trial_result("a", result(2000, 6.0))
        searcher.on_trial_complete("unknown", result(1000, 5.0))
        assert searcher.finalize("over") == 0
        (trial,) = stored(tmp_path)
        assert (trial.state, trial.value, trial.intermediate_values) == (TrialState.COMPLETE, 5.0, {1000: 5.0})

    def test_minimises(self, tmp_path: Path) -> None:
        searcher = make(tmp_path, mode="min")
        for name, value in (("a", 3.0), ("b", 1.0)):
            searcher.suggest(name)
            searcher.on_trial_complete(name, result(1000, value))
        assert searcher.study.best_trial.number == 1

    def test_finalize_leaves_nothing_running(self, tmp_path: Path) -> None:
        searcher = make(tmp_path)
        for name in "abc":
            searcher.suggest(name)
        searcher.on_trial_result("a", result(100, 1.0))
        searcher.on_trial_complete("b", result(1000, 5.0))
        # Another object finalizes what this one began: nothing may depend on the searcher's memory.
        other = cloudpickle.loads(cloudpickle.dumps(searcher))
        assert other.finalize("interrupted") == 2
        assert searcher.finalize("interrupted") == 0
        trials = stored(tmp_path)
        assert [trial.state.name for trial in trials] == ["FAIL", "COMPLETE", "FAIL"]
        assert [trial.user_attrs.get(FAIL_REASON) for trial in trials] == ["interrupted", None, "interrupted"]
        searcher.on_trial_result("a", result(300, 1.0))
        searcher.on_trial_complete("a", result(1000, 1.0))
        assert stored(tmp_path)[0].state == TrialState.FAIL


class TestRestore:
    """Restoring Tune's OptunaSearch after a kill crashes or doubles trials."""

    def test_goes_on_where_the_study_is_not_where_the_snapshot_was(self, tmp_path: Path) -> None:
        searcher = make(tmp_path, num_trials=5)
        for name in "ab":
            searcher.suggest(name)
        searcher.on_trial_result("a", result(100, 1.0))
        searcher.save(str(tmp_path / "searcher-state-1.pkl"))
        # After the snapshot, unknown to Tune: a ends, c ends, d begins. Then the process is killed.
        searcher.on_trial_complete("a", result(1000, 2.0))
        searcher.suggest("c")
        searcher.on_trial_complete("c", result(1000, 3.0))
        lost = searcher.suggest("d")
        searcher.on_trial_result("d", result(100, 0.5))

        restored = cloudpickle.loads(cloudpickle.dumps(make(tmp_path, study_name="other")))
        restored.restore(str(tmp_path / "searcher-state-1.pkl"))
        restored.on_trial_complete("a", result(1000, 9.0))  # Tune runs it again; the study knows better
        restored.on_trial_result("b", result(100, 4.0))
        restored.on_trial_complete("b", result(1000, 4.0))
        assert restored.suggest("e") == lost
        restored.on_trial_result("e", result(100, 0.5))
        restored.on_trial_complete("e", result(1000, 5.0))
        assert isinstance(restored.suggest("f"), dict)
        assert restored.suggest("g") == Searcher.FINISHED

        trials = stored(tmp_path)
        assert [trial.state.name for trial in trials] == ["COMPLETE"] * 4 + ["RUNNING"]
        assert [trial.value for trial in trials[:4]] == [2.0, 4.0, 3.0, 5.0]
        assert [trial.user_attrs[RAY_TRIAL_ID] for trial in trials] == ["a", "b", "c", "e", "f"]

    def test_works_inside_tunes_limiter(self, tmp_path: Path) -> None:
        searcher = make(tmp_path)
        limiter = ConcurrencyLimiter(searcher, max_concurrent=1)
        assert isinstance(limiter.suggest("a"), dict)
        assert limiter.suggest("b") is None
        limiter.on_trial_complete("a", error=True)
        assert isinstance(limiter.suggest("b"), dict)
        assert [trial.state.name for trial in stored(tmp_path)] == ["FAIL", "RUNNING"]


class TestStudyOnDisk:
    @pytest.mark.parametrize("name", ["a folder", "50% {lr}", "what?"])
    def test_url_is_absolute_and_survives_odd_names(
        self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path(name).mkdir()
        searcher = make(Path(name))
        searcher.suggest("a")
        monkeypatch.chdir("/")
        assert len(stored(tmp_path / name)) == 1
        assert (tmp_path / name / "study.db").is_file()

    def test_close_leaves_one_file_and_any_use_opens_it_again(self, tmp_path: Path) -> None:
        searcher = make(tmp_path)
        searcher.suggest("a")
        searcher.close()
        assert [path.name for path in tmp_path.iterdir()] == ["study.db"]
        searcher.on_trial_complete("a", result(1000, 5.0))
        assert stored(tmp_path)[0].value == 5.0

    def test_a_reader_does_not_block_reports_and_a_report_is_cheap(self, tmp_path: Path) -> None:
        searcher = make(tmp_path)
        searcher.suggest("a")
        with searcher.study._storage._backend.engine.connect() as reader:
            reader.exec_driver_sql("BEGIN")
            reader.exec_driver_sql("SELECT * FROM trials").fetchall()
            start = time.perf_counter()
            for step in range(1, 101):
                searcher.on_trial_result("a", result(step, 1.0))
            seconds = time.perf_counter() - start
        # 0.08 s on an idle machine; without the write-ahead log the reader holds the writer up for 30 s.
        assert seconds < 5
        assert len(stored(tmp_path)[0].intermediate_values) == 100
