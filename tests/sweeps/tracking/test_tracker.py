"""The tracker against a real sqlite store: what a person finds in MLflow afterwards."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sweeps.tracking import SweepTracker

NAN = float("nan")


def runs_by_name(uri, experiment="sweeps"):
    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment)
    runs = client.search_runs([found.experiment_id])
    return client, {run.info.run_name: run for run in runs}


def artifact(run, name):
    return (Path(run.info.artifact_uri.removeprefix("file://")) / name).read_text()


def result(steps, mean):
    return {
        "episode_return_mean": mean,
        "num_env_steps_sampled": steps,
        "env_steps_per_second": 50_000.0,
        "info": {"learner": {"default_policy": {"entropy": 0.5}}},
        "pid": 12,
    }


def track_sweep(tracker):
    tracker.start_sweep("id-1", "cartpole", config={"search": {"num_trials": 3}}, yaml_text="search: {num_trials: 3}\n")
    for number, status in enumerate(["completed", "pruned", "failed"]):
        trial_id = f"t{number}"
        params = {"algorithm": {"lr": 0.001 * (number + 1)}, "environment": {"id": "CartPole-v1"}}
        searched = {"algorithm.lr": 0.001 * (number + 1)}
        tracker.start_trial(trial_id, params, f"algorithm: {{lr: {number}}}\n", number=number, searched=searched)
        for index in range(5):
            tracker.log(trial_id, index * 1000, result(index * 1000, NAN if index == 0 else 10.0 * index + number))
        score = None if status == "failed" else 40.0 + number
        tracker.end_trial(trial_id, status, score, "ValueError: boom" if status == "failed" else None)
    tracker.end_sweep("completed", {"status": "completed", "trials": 3})


def test_a_sweep_is_a_parent_with_children_and_all_they_need(make_tracker, uri):
    tracker = make_tracker()
    track_sweep(tracker)
    assert tracker.close(30)
    assert tracker.problems == []
    client, runs = runs_by_name(uri)
    assert sorted(runs) == ["cartpole", "trial_00000", "trial_00001", "trial_00002"]
    parent, child = runs["cartpole"], runs["trial_00000"]
    for run in runs.values():
        if run is not parent:
            assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
            assert run.data.tags["sweep.id"] == "id-1"
    assert child.data.tags["trial.number"] == "0"
    assert child.data.params == {"algorithm.lr": "0.001", "environment.id": "CartPole-v1"}
    assert artifact(child, "config.yaml") == "algorithm: {lr: 0}\n"
    history = client.get_metric_history(child.info.run_id, "episode/episode_return_mean")
    assert [(point.step, point.value) for point in history] == [(1000, 10), (2000, 20), (3000, 30), (4000, 40)]
    assert set(child.data.metrics) == {
        "episode/episode_return_mean",
        "perf/env_steps_per_second",
        "steps/num_env_steps_sampled",
        "learner/entropy",
        "score",
    }


def test_end_states_say_how_a_trial_ended(make_tracker, uri):
    tracker = make_tracker()
    track_sweep(tracker)
    tracker.close(30)
    _, runs = runs_by_name(uri)
    states = {name: (run.info.status, run.data.tags["status"]) for name, run in runs.items()}
    assert states == {
        "cartpole": ("FINISHED", "completed"),
        "trial_00000": ("FINISHED", "completed"),
        "trial_00001": ("FINISHED", "pruned"),
        "trial_00002": ("FAILED", "failed"),
    }
    assert runs["trial_00002"].data.tags["error"] == "ValueError: boom"


def test_the_parent_shows_the_best_completed_trial(make_tracker, uri):
    tracker = make_tracker()
    track_sweep(tracker)
    tracker.close(30)
    client, runs = runs_by_name(uri)
    parent = runs["cartpole"]
    # The pruned trial's score of 41 is higher, but not from a whole budget.
    assert parent.data.metrics["best_score"] == 40.0
    assert parent.data.tags["best_trial"] == "trial_00000"
    assert parent.data.tags["best.algorithm.lr"] == "0.001"
    assert json.loads(artifact(parent, "summary.json")) == {"status": "completed", "trials": 3}
    assert parent.data.params == {"search.num_trials": "3"}
    progress = client.get_metric_history(parent.info.run_id, "sweep/best_score")
    assert [point.step for point in progress] == [1, 2, 3]


def test_mode_min_takes_the_lowest_score(make_tracker, uri):
    tracker = make_tracker(mode="min")
    tracker.start_sweep("id-1", "low")
    for name, score in [("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", NAN)]:
        tracker.start_trial(name, {}, "")
        tracker.end_trial(name, "completed", score)
    tracker.end_sweep("completed", {})
    tracker.close(30)
    _, runs = runs_by_name(uri)
    assert runs["low"].data.tags["best_trial"] == "b"
    assert "score" not in runs["d"].data.metrics


def test_a_single_training_is_a_run_without_parent(make_tracker, uri):
    tracker = make_tracker(experiment="trainings")
    with tracker:
        tracker.start_trial("train-1", {"algorithm.lr": 0.1}, "a: 1\n", name="cartpole")
        tracker.log("train-1", 100, result(100, 20.0))
        tracker.end_trial("train-1", "completed", 20.0)
    _, runs = runs_by_name(uri, "trainings")
    assert list(runs) == ["cartpole"]
    tags = runs["cartpole"].data.tags
    assert "mlflow.parentRunId" not in tags
    assert tags["kind"] == "training"
    assert "version.torch" in tags


def test_calls_in_any_order_make_one_run(make_tracker, uri):
    # Tune calls on_trial_error before on_trial_start when the trial's actor cannot start.
    tracker = make_tracker()
    tracker.log("t", 5, {"episode_return_mean": 1.0})
    time.sleep(1.5)  # long enough that the run exists before it is described
    tracker.end_trial("t", "failed", reason="late")
    tracker.start_trial("t", {"a": 1}, "a: 1\n", number=7)
    tracker.close(30)
    _, runs = runs_by_name(uri)
    assert list(runs) == ["trial_00007"]
    assert runs["trial_00007"].info.status == "FAILED"
    assert runs["trial_00007"].data.params == {"a": "1"}


def test_what_has_not_ended_is_interrupted(make_tracker, uri):
    tracker = make_tracker()
    tracker.start_sweep("id-1", "cut")
    tracker.start_trial("t", {}, "", number=0)
    tracker.close(30)
    _, runs = runs_by_name(uri)
    states = {name: (run.info.status, run.data.tags["status"]) for name, run in runs.items()}
    assert states == {"cut": ("KILLED", "interrupted"), "trial_00000": ("KILLED", "interrupted")}


def test_resume_continues_the_same_runs(make_tracker, uri):
    for steps in (1000, 2000):
        tracker = make_tracker(resume=True)
        tracker.start_sweep("id-1", "again")
        tracker.start_trial("t", {"a": 1}, "", number=0)
        tracker.log("t", steps, result(steps, 1.0))
        tracker.close(30)
        assert tracker.problems == []
    client, runs = runs_by_name(uri)
    assert sorted(runs) == ["again", "trial_00000"]
    history = client.get_metric_history(runs["trial_00000"].info.run_id, "episode/episode_return_mean")
    assert [point.step for point in history] == [1000, 2000]


def test_without_resume_the_same_id_makes_a_new_sweep(make_tracker, uri):
    for _ in range(2):
        tracker = make_tracker()
        tracker.start_sweep("id-1", "again")
        tracker.close(30)
    client = MlflowClient(uri)
    assert len(client.search_runs([client.get_experiment_by_name("sweeps").experiment_id])) == 2


def test_a_sweep_without_an_id_gets_one_of_its_own(make_tracker, uri):
    for name in ("first", "second"):
        tracker = make_tracker()
        tracker.start_sweep(None, name)
        tracker.start_trial("t", {}, "", name=f"trial of {name}")
        tracker.close(30)
    _, runs = runs_by_name(uri)
    ids = [runs[name].data.tags["sweep.id"] for name in ("first", "second")]
    assert all(len(each) == 32 for each in ids)
    assert ids[0] != ids[1]
    assert [runs[f"trial of {name}"].data.tags["sweep.id"] for name in ("first", "second")] == ids


@pytest.mark.parametrize("is_made", [False, True])
def test_a_lost_answer_to_a_runs_creation_does_not_mix_sweeps(make_tracker, uri, monkeypatch, is_made):
    first = make_tracker()
    track_sweep(first)
    assert first.close(30)
    real, calls = MlflowClient.create_run, []

    def create_run(*args, **options):
        calls.append(options)
        if len(calls) > 1:
            return real(*args, **options)
        if is_made:
            real(*args, **options)
        raise ConnectionError("no answer")

    monkeypatch.setattr(MlflowClient, "create_run", create_run)
    second = make_tracker()
    second.start_sweep("id-1", "second", config={"search": {"num_trials": 7}})
    second.start_trial("t0", {"a": 1}, "", name="second-0")
    assert second.close(30)
    assert any("no answer" in problem for problem in second.problems)
    client, runs = runs_by_name(uri)
    assert len(client.search_runs([runs["second"].info.experiment_id])) == 6
    assert runs["cartpole"].info.status == "FINISHED"
    assert runs["cartpole"].data.params == {"search.num_trials": "3"}
    assert runs["second"].data.params == {"search.num_trials": "7"}
    assert runs["second-0"].data.tags["mlflow.parentRunId"] == runs["second"].info.run_id


@pytest.mark.parametrize("sweep_id", ["it's", 'a "b" it\'s', "back\\slash\\", "100%"])
def test_resume_tells_ids_with_quotes_apart(make_tracker, uri, sweep_id):
    for name, each in [("other", "x's"), ("first", sweep_id), ("second", sweep_id)]:
        tracker = make_tracker(resume=True)
        tracker.start_sweep(each, name)
        tracker.close(30)
        assert tracker.problems == []
    _, runs = runs_by_name(uri)
    assert sorted(runs) == ["other", "second"]


def test_long_values_odd_keys_and_many_params_are_accepted(make_tracker, uri):
    tracker = make_tracker()
    params = {f"section.key{index}": index for index in range(230)} | {"long": "x" * 9000, "odd %$ key": 1}
    tracker.start_trial("t", params, "")
    tracker.log("t", 1, {f"metric{index}": float(index) for index in range(2500)})
    tracker.log("t", 2, {"odd %$ metric": 1.0, "../up": 2.0, "inf": float("inf"), "text": "no", "flag": True})
    assert tracker.close(30)
    _, runs = runs_by_name(uri)
    data = runs["t"].data
    assert tracker.problems == []
    assert len(data.params) == 232
    assert len(data.params["long"]) == 6000
    assert data.params["odd __ key"] == "1"
    assert data.metrics["train/odd __ metric"] == 1.0
    assert all(data.metrics[f"train/metric{index}"] == index for index in range(2500))
    assert not {"train/inf", "train/text", "train/flag"} & set(data.metrics)


def test_an_unknown_status_is_an_error(make_tracker):
    with pytest.raises(ValueError, match="'done' is not a valid TrialStatus"):
        make_tracker().end_trial("t", "done")


def test_threads_can_share_a_tracker(make_tracker, uri):
    tracker = make_tracker()
    tracker.start_sweep("id-1", "threads")

    def work(number):
        tracker.start_trial(f"t{number}", {}, "", number=number)
        for step in range(100):
            tracker.log(f"t{number}", step, {"episode_return_mean": float(step)})
        tracker.end_trial(f"t{number}", "completed", float(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tracker.end_sweep("completed", {})
    assert tracker.close(30)
    client, runs = runs_by_name(uri)
    assert len(runs) == 5
    for number in range(4):
        run_id = runs[f"trial_{number:05d}"].info.run_id
        assert len(client.get_metric_history(run_id, "episode/episode_return_mean")) == 100


def test_passwords_do_not_reach_the_store(make_tracker, uri, monkeypatch):
    typed = ["python", "-m", "sweeps.run", "tracking.uri=http://user:s3cret@host:5000"]
    monkeypatch.setattr("sys.orig_argv", typed)
    tracker = make_tracker()
    config = {"tracking": {"uri": "http://user:s3cret@host:5000"}}
    tracker.start_sweep("id-1", "quiet", config=config, yaml_text="uri: http://user:s3cret@host:5000\n")
    tracker.close(30)
    _, runs = runs_by_name(uri)
    run = runs["quiet"]
    assert "user:***@host" in run.data.tags["command"]
    assert "s3cret" not in f"{run.data.tags}{run.data.params}{artifact(run, 'config.yaml')}"


def test_nothing_is_left_in_the_working_directory(make_tracker, tmp_path):
    tracker = make_tracker()
    track_sweep(tracker)
    tracker.close(30)
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]
    assert sorted(path.name for path in (tmp_path / "outputs").iterdir()) == ["mlartifacts", "mlflow.db"]


def test_importing_the_tracker_does_not_import_mlflow():
    import subprocess
    import sys

    code = "import sys, sweeps.tracking, sweeps.ui; sys.exit('mlflow' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_tracker_is_importable_as_documented():
    assert SweepTracker.__doc__
