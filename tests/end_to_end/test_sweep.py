"""The main job as a person runs it: the command, its output, its files, its exit code."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import mlflow
import optuna
import pytest
from optuna.trial import TrialState

pytestmark = pytest.mark.slow

SMALL = ("sweep.budget.env_steps_per_trial=20000", "sweep.budget.results_per_trial=4", "sweep.name=mine")


def command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"sweeps.{module}", *arguments]


def run(folder: Path, module: str, *arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(module, *arguments), cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done


def summary_of(sweep: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((sweep / "summary.json").read_text())
    return data


def children_of(folder: Path, name: str) -> tuple[Any, list[Any]]:
    """Return a sweep's MLflow parent run and its children."""
    client = mlflow.MlflowClient(f"sqlite:///{folder}/outputs/mlflow.db")
    (experiment,) = (found for found in client.search_experiments() if found.name == "sweeps")
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = (found for found in runs if found.data.tags["mlflow.runName"] == name)
    children = [found for found in runs if found.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    return parent, children


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("sweep")
    return folder, run(folder, "run", *SMALL, "search.num_trials=4")


def test_a_sweep_prints_its_trials_and_what_to_do_next(finished: tuple[Path, subprocess.CompletedProcess[str]]):
    _, done = finished
    assert done.stderr == ""
    assert "4 of 4 trials done" in done.stdout
    assert "Best: trial" in done.stdout
    assert "-m sweeps.train --config-dir outputs/sweeps/mine +experiment=best" in done.stdout
    for noise in ("warning", "Warning", "ray.init", "pid=", "INFO"):
        assert noise not in done.stdout


def test_summary_study_and_mlflow_agree(finished: tuple[Path, subprocess.CompletedProcess[str]]):
    folder, _ = finished
    sweep = folder / "outputs/sweeps/mine"
    summary = summary_of(sweep)
    assert summary["status"] == "completed"
    counts = summary["num_trials"]
    assert counts["started"] == 4
    assert counts["completed"] + counts["pruned"] == 4
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{sweep}/study.db")
    states = [trial.state for trial in study.trials]
    assert states.count(TrialState.COMPLETE) == counts["completed"]
    assert states.count(TrialState.PRUNED) == counts["pruned"]
    assert study.best_value == pytest.approx(summary["best_trial"]["score"])
    parent, children = children_of(folder, "mine")
    assert parent.info.status == "FINISHED"
    assert sorted(child.data.tags["status"] for child in children) == sorted(
        trial["status"] for trial in summary["trials"]
    )
    best = next(child for child in children if child.data.tags["trial.id"] == summary["best_trial"]["id"])
    assert best.data.metrics["score"] == pytest.approx(summary["best_trial"]["score"])


def test_each_trial_has_its_metrics_over_env_steps_and_its_yaml(
    finished: tuple[Path, subprocess.CompletedProcess[str]],
):
    folder, _ = finished
    client = mlflow.MlflowClient(f"sqlite:///{folder}/outputs/mlflow.db")
    _, children = children_of(folder, "mine")
    for child in children:
        steps = [point.step for point in client.get_metric_history(child.info.run_id, "episode/episode_return_mean")]
        assert steps == sorted(steps)
        assert steps[-1] >= 5000
        assert "config.yaml" in [artifact.path for artifact in client.list_artifacts(child.info.run_id)]
        assert float(child.data.params["algorithm.lr"]) > 0


def test_the_best_configuration_trains_again_to_the_same_score(
    finished: tuple[Path, subprocess.CompletedProcess[str]],
):
    # The same seed on one core gives the same curve, bit for bit: in a reused actor and in a process of its own.
    folder, _ = finished
    sweep = folder / "outputs/sweeps/mine"
    run(folder, "train", "--config-dir", str(sweep), "+experiment=best", f"sweep.dir={folder}/again")
    again = json.loads((folder / "again/summary.json").read_text())
    assert again["status"] == "completed"
    assert again["score"] == summary_of(sweep)["best_trial"]["score"]
    assert Path(again["checkpoint"]).is_dir()


def test_a_taken_directory_is_refused(finished: tuple[Path, subprocess.CompletedProcess[str]]):
    folder, _ = finished
    before = sorted(folder.rglob("*"))
    done = run(folder, "run", "sweep.name=mine", expect=2)
    assert "sweep.name" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(folder.rglob("*")) == before


def test_when_all_trials_fail_the_exit_code_is_1_and_the_reason_is_said(tmp_path: Path):
    # A learning rate of 10 drives the weights of a network with ReLUs to infinity.
    broken = ("search_space=none", "algorithm.lr=choice(10.0)", "model.activation=relu", "algorithm.grad_clip=null")
    done = run(tmp_path, "run", *SMALL, *broken, "environment.reward_scale=1e30", "search.num_trials=2", expect=1)
    summary = summary_of(tmp_path / "outputs/sweeps/mine")
    assert summary["status"] == "failed"
    assert summary["best_trial"] is None
    assert "NonFiniteError" in summary["trials"][0]["reason"]
    assert "failed: NonFiniteError" in done.stdout
    parent, children = children_of(tmp_path, "mine")
    assert {parent.info.status, *(child.info.status for child in children)} == {"FAILED"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_leaves_nothing_running(tmp_path: Path, number: signal.Signals):
    arguments = ("search.num_trials=4", "sweep.budget.env_steps_per_trial=50000000", "sweep.name=mine")
    arguments += ("algorithm.min_sample_timesteps_per_iteration=5000",)
    token = str(uuid.uuid4())
    process = subprocess.Popen(
        command("run", *arguments),
        cwd=tmp_path,
        env={**os.environ, "SWEEPS_TEST_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("first result"):
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, out + err
    assert err == ""
    assert "Stopping:" in out
    assert "Traceback" not in out + err
    assert "Sweep interrupted" in out
    sweep = tmp_path / "outputs/sweeps/mine"
    assert summary_of(sweep)["status"] == "interrupted"
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{sweep}/study.db")
    assert {trial.state for trial in study.trials} == {TrialState.FAIL}
    parent, children = children_of(tmp_path, "mine")
    assert {parent.info.status, *(child.info.status for child in children)} == {"KILLED"}
    assert not left_of(token)


def left_of(token: str) -> list[str]:
    """Return the command lines of living processes that inherited the token, once they had time to end."""
    deadline = time.monotonic() + 15
    while True:
        left = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parts = (entry / "environ").read_bytes().split(b"\0")
                    if f"SWEEPS_TEST_TOKEN={token}".encode() in parts:
                        left.append((entry / "cmdline").read_text().replace("\0", " "))
                except OSError:
                    continue
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.5)


def test_multirun_makes_one_sweep_per_combination(tmp_path: Path):
    small = ("sweep.budget.env_steps_per_trial=4000", "search.num_trials=1", "sweep.name=mine")
    run(tmp_path, "run", "-m", "environment=cartpole,acrobot", *small)
    names = ("mine-0", "mine-1")
    assert [summary_of(tmp_path / "outputs/sweeps" / name)["status"] for name in names] == ["completed"] * 2
    for name, environment in zip(names, ("CartPole-v1", "Acrobot-v1"), strict=True):
        _, (child,) = children_of(tmp_path, name)
        assert child.data.params["environment.id"] == environment


def test_atari_does_everything_that_a_long_run_does(tmp_path: Path):
    # Breakout, because a game of Pong takes a thousand steps.
    small = ("search.num_trials=2", "sweep.budget.env_steps_per_trial=8000", "sweep.name=mine")
    run(tmp_path, "run", "+experiment=atari", "environment.id=ALE/Breakout-v5", *small)
    summary = summary_of(tmp_path / "outputs/sweeps/mine")
    assert summary["num_trials"]["started"] == 2
    assert summary["best_trial"]["score"] >= 0
    assert all(trial["checkpoint"] for trial in summary["trials"] if trial["status"] == "completed")


def test_remote_workers_train_under_tune(tmp_path: Path):
    small = ("search.num_trials=1", "sweep.budget.env_steps_per_trial=4000", "sweep.name=mine")
    run(tmp_path, "run", "resources=workers", "resources.num_workers=1", *small)
    assert summary_of(tmp_path / "outputs/sweeps/mine")["num_trials"]["completed"] == 1
