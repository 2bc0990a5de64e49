"""The callback inside a real Tune run: completed, pruned and failed trials."""

from __future__ import annotations

import pickle
import threading

import pytest
from mlflow import MlflowClient
from ray import tune

from sweeps.records import SweepRecords
from sweeps.tracking.callback import MlflowCallback, env_steps


class Toy(tune.Trainable):
    """Reports 100 env steps per iteration; fails in setup or later when its configuration says so."""

    def setup(self, config):
        self.config, self.iterations = config, 0
        if config["algorithm"]["fail"] == "setup":
            raise ValueError("no such thing")

    def step(self):
        self.iterations += 1
        steps = 100 * self.iterations
        result = {"num_env_steps_sampled": steps, "done": steps >= self.config["algorithm"]["stop_at"]}
        if self.iterations > 1:  # fault F27: no episode has ended before
            result["episode_return_mean"] = float(steps)
        return result

    def save_checkpoint(self, directory):
        pass

    def load_checkpoint(self, checkpoint):
        pass


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Ray's own
def test_trials_of_a_tune_run_are_tracked(ray_cluster, make_tracker, uri, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "0")
    tracker = make_tracker()
    tracker.start_sweep("id-1", "toy")
    callback = MlflowCallback(tracker, budget=400, metric="episode_return_mean")
    cases = tune.grid_search(
        [
            {"lr": 0.1, "fail": "", "stop_at": 400},
            {"lr": 0.2, "fail": "", "stop_at": 200},
            {"lr": 0.3, "fail": "setup", "stop_at": 400},
        ]
    )
    tuner = tune.Tuner(
        Toy,
        param_space={"algorithm": cases, "environment": {"id": "Toy-v0"}},
        run_config=tune.RunConfig(storage_path=str(tmp_path / "ray"), callbacks=[callback], verbose=0),
    )
    tuner.fit()
    tracker.end_sweep("completed", {})
    assert tracker.close(30)
    client = MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("sweeps").experiment_id])
    by_name = {run.info.run_name: run for run in runs}
    states = {name: (run.info.status, run.data.tags["status"]) for name, run in by_name.items()}
    assert states == {
        "toy": ("FINISHED", "completed"),
        "trial_00000": ("FINISHED", "completed"),
        "trial_00001": ("FINISHED", "pruned"),
        "trial_00002": ("FAILED", "failed"),
    }
    assert by_name["trial_00002"].data.tags["error"] == "ValueError: no such thing"
    first = by_name["trial_00000"]
    assert first.data.params["algorithm.lr"] == "0.1"
    assert first.data.params["environment.id"] == "Toy-v0"
    history = client.get_metric_history(first.info.run_id, "episode/episode_return_mean")
    assert [(point.step, point.value) for point in history] == [(200, 200.0), (300, 300.0), (400, 400.0)]
    assert by_name["toy"].data.tags["best_trial"] == "trial_00000"
    assert "Traceback" not in str(by_name["trial_00002"].data.tags)


class FakeTrial:
    """What the callback reads of a Tune trial."""

    def __init__(self, trial_id, seed, last_result=None):
        self.trial_id = trial_id
        self.config = {"algorithm": {"lr": 0.1}, "debugging": {"seed": seed}}
        self.evaluated_params = {"algorithm/lr": 0.1, "debugging/seed": seed}
        self.last_result = last_result or {}


def tracked_runs(uri):
    client = MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("sweeps").experiment_id])
    return {run.info.run_name: run for run in runs}


def test_the_seed_gives_the_number_and_is_no_choice_of_the_search(make_tracker, uri):
    tracker = make_tracker()
    tracker.start_sweep("id-1", "seeds")
    callback = MlflowCallback(tracker, budget=400, metric="episode_return_mean", base_seed=100)
    trial = FakeTrial("a", 107, {"num_env_steps_sampled": 400, "episode_return_mean": 1.0})
    callback.on_trial_start(0, [trial], trial)
    callback.on_trial_complete(0, [trial], trial)
    tracker.end_sweep("completed", {})
    assert tracker.close(30)
    runs = tracked_runs(uri)
    assert sorted(runs) == ["seeds", "trial_00007"]
    tags = runs["trial_00007"].data.tags
    assert (tags["trial.number"], tags["trial.seed"]) == ("7", "107")
    assert "algorithm.lr" in tags["mlflow.note.content"]
    assert "seed" not in tags["mlflow.note.content"]
    sweep_tags = runs["seeds"].data.tags
    assert sweep_tags["best.algorithm.lr"] == "0.1"
    assert "best.debugging.seed" not in sweep_tags
    assert "seed:" not in sweep_tags["mlflow.note.content"]


def test_the_records_decide_how_a_trial_ended(make_tracker, uri):
    records = SweepRecords("episode_return_mean", maximize=True, budget=400, num_trials=1)
    trial = FakeTrial("a", 100, {"num_env_steps_sampled": 400})
    records.start(0, "a", {}, trial.config)
    records.result("a", trial.last_result)
    tracker = make_tracker()
    callback = MlflowCallback(tracker, budget=400, metric="episode_return_mean", end_of=records.end_of)
    callback.on_trial_complete(0, [trial], trial)
    assert tracker.close(30)
    run = tracked_runs(uri)["trial_00000"]
    assert (run.info.status, run.data.tags["status"]) == ("FAILED", "failed")
    assert "episode_return_mean was not a number" in run.data.tags["error"]
    assert "score" not in run.data.metrics


@pytest.mark.parametrize("metric", ["evaluation.episode_return_mean", "evaluation/episode_return_mean"])
def test_a_nested_objective_is_the_score(make_tracker, uri, metric):
    tracker = make_tracker()
    trial = FakeTrial("a", 0, {"num_env_steps_sampled": 400, "evaluation": {"episode_return_mean": 7.0}})
    MlflowCallback(tracker, budget=400, metric=metric).on_trial_complete(0, [trial], trial)
    assert tracker.close(30)
    assert tracked_runs(uri)["trial_00000"].data.metrics["score"] == 7.0


def test_a_snapshot_holds_no_thread_and_no_client(make_tracker):
    lock = threading.Lock()  # as in what the records' display holds: it cannot be pickled
    callback = MlflowCallback(
        make_tracker(), budget=400, metric="episode_return_mean", end_of=lambda trial_id: (lock, trial_id)
    )
    restored = pickle.loads(pickle.dumps(callback))
    restored.on_trial_result(0, [], None, {"num_env_steps_sampled": 1})  # tracks nothing, raises nothing


def test_env_steps_of_an_empty_result_are_zero():
    assert env_steps({}) == 0
    assert env_steps({"num_env_steps_sampled": None}) == 0
