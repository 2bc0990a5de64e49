"""Which trials ASHA stops, with uneven steps and metrics that come late (fault F27)."""

from __future__ import annotations

import math
import pickle
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.schedulers import AsyncHyperBandScheduler

from actorlearner.exceptions import ConfigError
from sweeps.schedulers import Asha, RunToBudget, make_scheduler

METRIC = "episode_return_mean"


def asha(**changes: Any) -> RunToBudget:
    arguments = {"metric": METRIC, "mode": "max", "budget": 900, "grace_fraction": 1 / 9, "reduction_factor": 3.0}
    return make_scheduler("asha", **{**arguments, **changes})  # rungs at 100 and 300


def trial(name: str) -> Any:
    return SimpleNamespace(trial_id=name, error_file=None)


def feed(scheduler: Any, name: str, *points: tuple[int, float | None]) -> list[str]:
    """Give (env steps, metric) pairs to the scheduler; None leaves the metric out."""
    decisions = []
    for steps, value in points:
        result: dict[str, Any] = {"num_env_steps_sampled": steps}
        if value is not None:
            result[METRIC] = value
        decisions.append(scheduler.on_trial_result(None, trial(name), result))
    return decisions


def test_stops_the_worse_at_the_rung_and_never_in_the_grace_period() -> None:
    scheduler = asha()
    assert feed(scheduler, "a", (50, 0.0), (120, 10.0), (350, 20.0)) == ["CONTINUE"] * 3
    assert feed(scheduler, "b", (99, -5.0), (101, 9.0)) == ["CONTINUE", "STOP"]
    assert feed(scheduler, "c", (130, 11.0), (290, 0.0), (310, 19.0)) == ["CONTINUE", "CONTINUE", "STOP"]


def test_minimises() -> None:
    scheduler = asha(mode="min")
    feed(scheduler, "a", (100, 1.0))
    assert feed(scheduler, "b", (100, 2.0)) == ["STOP"]
    assert feed(scheduler, "c", (100, 0.5)) == ["CONTINUE"]


@pytest.mark.parametrize("late", [math.nan, math.inf, None])
def test_a_late_first_episode_neither_stops_nor_sets_a_mark(late: float | None) -> None:
    # fault F27: with Tune's own, numpy warns "All-NaN slice" here, and warnings are errors.
    scheduler = asha()
    assert feed(scheduler, "late", (100, late), (150, late), (200, 1000.0)) == ["CONTINUE"] * 3
    assert feed(scheduler, "late too", (100, late), (120, late)) == ["CONTINUE"] * 2
    # Its 1000 was earned with 200 env steps; who has trained for 100 is not measured against it.
    assert feed(scheduler, "b", (100, 5.0)) == ["CONTINUE"]
    assert feed(scheduler, "c", (100, 4.0)) == ["STOP"]
    # From the next rung on it is judged like any other.
    assert feed(scheduler, "b", (300, 2000.0)) == ["CONTINUE"]
    assert feed(scheduler, "late", (300, 1500.0)) == ["STOP"]


def test_a_leap_over_a_rung_is_not_judged_there_afterwards() -> None:
    scheduler = asha()
    assert feed(scheduler, "leaper", (320, 50.0), (340, 60.0)) == ["CONTINUE"] * 2
    assert feed(scheduler, "b", (100, 5.0)) == ["CONTINUE"]  # Tune's own has 60 on the rung of 100 by now
    assert feed(scheduler, "c", (310, 49.0)) == ["STOP"]


def test_a_retried_trial_is_not_judged_twice() -> None:
    scheduler = asha()
    feed(scheduler, "a", (100, 10.0))
    feed(scheduler, "b", (100, 20.0))
    assert feed(scheduler, "a", (50, 0.0), (110, 1.0)) == ["CONTINUE"] * 2


def test_the_last_result_counts_for_the_others() -> None:
    scheduler = asha()
    # Tune shows the result at which a trial ends by itself to on_trial_complete only.
    scheduler.on_trial_complete(None, trial("a"), {"num_env_steps_sampled": 320, METRIC: 7.0})
    assert feed(scheduler, "b", (300, 6.0)) == ["STOP"]
    scheduler.on_trial_complete(None, trial("c"), {})


def test_decides_like_tunes_own_on_finite_metrics() -> None:
    ours = asha()
    theirs = AsyncHyperBandScheduler(
        time_attr="num_env_steps_sampled",
        metric=METRIC,
        mode="max",
        max_t=900,
        grace_period=100,
        reduction_factor=3.0,
        stop_last_trials=False,
    )
    generator = random.Random(3)
    names = [f"trial {number}" for number in range(40)]
    for name in names:
        theirs.on_trial_add(None, trial(name))
    alive, stopped = dict.fromkeys(names, 0), 0
    while alive:
        name = generator.choice(list(alive))
        alive[name] += generator.randint(5, 40)
        result = {"num_env_steps_sampled": alive[name], METRIC: generator.gauss(0, 1)}
        decision = ours.on_trial_result(None, trial(name), result)
        assert decision == theirs.on_trial_result(None, trial(name), result)
        stopped += decision == "STOP"
        if decision == "STOP" or alive[name] >= 880:
            del alive[name]
    assert 10 < stopped < 40


def test_survives_tunes_snapshot_and_describes_itself() -> None:
    scheduler = asha()
    feed(scheduler, "a", (100, 10.0))
    copy = pickle.loads(pickle.dumps(scheduler))
    assert feed(copy, "b", (100, 9.0)) == ["STOP"]
    assert copy.debug_string() == "ASHA, trials judged by env steps: 100: 2, 300: 0"


def test_none_runs_every_trial_to_its_budget() -> None:
    scheduler = make_scheduler("none", metric=METRIC, mode="max", budget=1, grace_fraction=1, reduction_factor=2)
    assert not isinstance(scheduler, Asha)
    feed(scheduler, "a", (100, 10.0))
    assert feed(scheduler, "b", (100, -10.0)) == ["CONTINUE"]


def test_a_grace_period_of_the_whole_budget_stops_nothing() -> None:
    scheduler = asha(grace_fraction=1.0)
    feed(scheduler, "a", (900, 10.0))
    assert feed(scheduler, "b", (900, 0.0)) == ["CONTINUE"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grace_fraction": 0}, r"scheduler\.grace_fraction must be greater than 0 and at most 1, got 0"),
        ({"grace_fraction": 1.5}, r"scheduler\.grace_fraction .* got 1\.5"),
        ({"grace_fraction": math.nan}, r"scheduler\.grace_fraction .* got nan"),
        ({"reduction_factor": 1.0}, r"scheduler\.reduction_factor must be greater than 1, got 1\.0"),
        ({"reduction_factor": math.inf}, r"scheduler\.reduction_factor .* got inf"),
    ],
)
def test_refuses_values_out_of_range(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        asha(**changes)


def test_refuses_an_unknown_scheduler() -> None:
    with pytest.raises(ConfigError, match=r"scheduler\.type must be asha or none, got 'pbt'"):
        make_scheduler("pbt", metric=METRIC, mode="max", budget=1, grace_fraction=1, reduction_factor=2)


def test_forwards_why_a_trial_failed(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    scheduler = asha(on_error=lambda name, reason: heard.append((name, reason)))
    file = tmp_path / "error.txt"
    file.write_text("Failure # 1\nTraceback ...\n  raise ValueError\nValueError: no such level\n\n")
    scheduler.on_trial_error(None, SimpleNamespace(trial_id="a", error_file=str(file)))
    assert heard == [("a", "ValueError: no such level")]
