import math

import pytest

from sweeps.records import SweepRecords, TrialStatus, lookup


def make_records(*, maximize: bool = True, budget: int = 100) -> SweepRecords:
    return SweepRecords("episode_return_mean", maximize, budget, num_trials=4)


def add(records: SweepRecords, number: int, steps: int, score: float, status: TrialStatus | None = None) -> str:
    trial_id = f"id{number}"
    records.start(number, trial_id, {"algorithm.lr": 0.1}, {"debugging": {"seed": number}})
    records.result(trial_id, {"num_env_steps_sampled": steps, "episode_return_mean": score})
    if status is not None:
        records.finish(trial_id, status)
    return trial_id


def test_a_trial_below_its_budget_was_pruned():
    records = make_records()
    assert records.end_of(add(records, 0, 99, 1.0)) == (TrialStatus.pruned, None)
    assert records.end_of(add(records, 1, 100, 1.0)) == (TrialStatus.completed, None)


def test_a_whole_trial_without_a_finished_episode_failed():
    # fault F27
    records = make_records()
    status, reason = records.end_of(add(records, 0, 100, math.nan))
    assert status is TrialStatus.failed
    assert reason is not None
    assert "episode_return_mean was not a number" in reason


def test_nan_scores_stay_out_of_the_curve():
    records = make_records()
    trial_id = add(records, 0, 10, math.nan)
    records.result(trial_id, {"num_env_steps_sampled": 20, "episode_return_mean": 5.0})
    (record,) = records
    assert record.curve == [(20, 5.0)]


def test_the_first_end_wins():
    records = make_records()
    trial_id = add(records, 0, 100, 1.0, TrialStatus.failed)
    records.finish(trial_id, TrialStatus.completed)
    assert next(iter(records)).status is TrialStatus.failed


@pytest.mark.parametrize(("maximize", "best"), [(True, 2), (False, 1)])
def test_the_best_trial_is_a_complete_one(maximize: bool, best: int):
    records = make_records(maximize=maximize)
    add(records, 0, 50, 99.0 if maximize else -99.0, TrialStatus.pruned)
    add(records, 1, 100, 1.0, TrialStatus.completed)
    add(records, 2, 100, 2.0, TrialStatus.completed)
    add(records, 3, 100, 1e9, TrialStatus.failed)
    found = records.best()
    assert found is not None
    assert found.number == best
    assert [record.number for record in records.ranked()][-2:] == [0, 3]


def test_an_interrupted_sweep_still_has_a_best_trial():
    records = make_records()
    add(records, 0, 50, 7.0)
    records.interrupt_running()
    found = records.best()
    assert found is not None
    assert found.status is TrialStatus.interrupted


def test_a_trial_that_starts_twice_is_one_trial():
    records = make_records()
    first = records.start(0, "a", {}, {})
    assert records.start(0, "a", {}, {}) is first
    assert len(records) == 1


@pytest.mark.parametrize("path", ["info.learner.loss", "info/learner/loss"])
def test_lookup_reads_nested_results(path: str):
    assert lookup({"info": {"learner": {"loss": 2.0}}}, path) == 2.0


def test_lookup_reads_flattened_results():
    assert lookup({"info/learner/loss": 2.0}, "info.learner.loss") == 2.0


def test_lookup_gives_nan_for_what_is_absent():
    assert math.isnan(lookup({"a": {"b": 1}}, "a.c"))
