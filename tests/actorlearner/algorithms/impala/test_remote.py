"""IMPALA with remote workers, alone and under Ray Tune."""

from __future__ import annotations

import logging
import math
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actorlearner.algorithms.impala.algorithm import Impala
from actorlearner.exceptions import WorkerError


def config(environment: str = "CartPole-v1", **algorithm: Any) -> dict[str, Any]:
    return {
        "algorithm": {
            "rollout_fragment_length": 8,
            "train_batch_size": 64,
            "min_train_timesteps_per_iteration": 500,
            "metrics_num_episodes_for_smoothing": 20,
            **algorithm,
        },
        "environment": {"id": environment},
        "model": {"hidden_sizes": [16]},
        "resources": {
            "num_workers": 2,
            "num_envs_per_worker": 4,
            "num_cpus_per_worker": 0.5,
            "num_cpus_for_driver": 1,
        },
    }


def balance(counters: dict[str, Any]) -> int:
    return int(sum(counters[f"num_env_steps_{part}"] for part in ("trained", "queued", "waiting", "dropped")))


def test_remote_workers_train_with_exact_counts_and_restore(ray_cluster: None, tmp_path: Path) -> None:  # I5, A15
    algorithm = Impala(config=config())
    try:
        for _ in range(3):
            result = algorithm.train()
            assert balance(result["counters"]) == result["num_env_steps_sampled"]
        assert result["num_env_steps_trained"] >= 1500
        assert result["num_healthy_workers"] == 2
        assert result["counters"]["num_weight_broadcasts"] > 0
        assert result["episode_return_mean"] > 5
        assert 0 <= result["info"]["learner"]["default_policy"]["policy_lag"] < 40
        algorithm.save(str(tmp_path))
        algorithm.restore(str(tmp_path))
        assert algorithm.train()["num_env_steps_trained"] > result["num_env_steps_trained"]
        assert algorithm.reset_config(config(lr=0.01)) is True
        fresh = algorithm.train()
        assert fresh["num_env_steps_trained"] < 1500
        assert fresh["info"]["learner"]["default_policy"]["learning_rate"] == 0.01
    finally:
        algorithm.stop()


def test_a_reset_may_change_between_local_and_remote(ray_cluster: None) -> None:
    local = config()
    local["resources"] = {"num_workers": 0, "num_envs_per_worker": 4, "num_cpus_for_driver": 1}
    algorithm = Impala(config=local)
    try:
        expected = algorithm.step()["episode_return_mean"]
        algorithm.reset_config(config())
        assert algorithm.step()["num_healthy_workers"] == 2
        algorithm.reset_config(local)
        assert algorithm.step()["episode_return_mean"] == expected
    finally:
        algorithm.stop()


def test_a_slow_learner_stops_the_workers(ray_cluster: None) -> None:  # faults F6, F8
    algorithm = Impala(config=config(learner_queue_size=2, min_train_timesteps_per_iteration=0))
    try:
        algorithm.step()
        with algorithm._runner.paused():
            for _ in range(60):
                algorithm.training_step()
                if algorithm.counters.num_times_learner_queue_full >= 2:
                    break
            sampled = algorithm.counters.num_env_steps_sampled
            used, started = time.process_time(), time.monotonic()
            algorithm.training_step()
            algorithm.training_step()
            assert time.monotonic() - started > 0.5
            assert time.process_time() - used < 0.3
            assert algorithm.counters.num_env_steps_sampled == sampled
        assert balance(algorithm.step()["counters"]) == algorithm.counters.num_env_steps_sampled
    finally:
        algorithm.stop()


def test_a_failing_worker_is_named(ray_cluster: None) -> None:  # spec A18, fault F19
    broken = config("faulty_environments:Faulty-v0")
    broken["environment"]["env_config"] = {"fault": "step", "after": 20}
    algorithm = Impala(config=broken)
    try:
        with pytest.raises(WorkerError, match=r"(?s)Rollout worker \d .*the physics exploded"):
            algorithm.train()
    finally:
        algorithm.stop()


@pytest.mark.slow
def test_tune_runs_a_grid_with_reused_actors(  # spec A1, "Stand-alone use"
    ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray
    from ray import tune

    from actorlearner import ImpalaConfig

    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "0")
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    space = (
        ImpalaConfig()
        .environment("CartPole-v1")
        .rollouts(num_workers=0, num_envs_per_worker=4, rollout_fragment_length=8)
        .resources(num_cpus_for_driver=1)
        .training(train_batch_size=32, lr=tune.grid_search([0.001, 0.01, 0.02]))
        .to_dict()
    )
    tuner = tune.Tuner(
        Impala,
        param_space=space,
        tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=1),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            stop={"training_iteration": 3},
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
        ),
    )
    handler = signal.getsignal(signal.SIGINT)
    try:
        results = tuner.fit()
    finally:
        signal.signal(signal.SIGINT, handler)  # Tune leaves its own behind
    assert not results.errors
    assert len(results) == 3
    found = {
        result.config["algorithm"]["lr"]: result.metrics["info"]["learner"]["default_policy"]["learning_rate"]
        for result in results
    }
    assert found == {0.001: 0.001, 0.01: 0.01, 0.02: 0.02}
    fresh = Impala(config=results[2].config)
    curve = [fresh.step() for _ in range(3)][-1]
    statistics = curve["info"]["learner"]["default_policy"]
    reported = results[2].metrics["info"]["learner"]["default_policy"]
    assert {name: value for name, value in reported.items() if math.isfinite(value)} == {
        name: value for name, value in statistics.items() if math.isfinite(value)
    }
    fresh.restore(results[2].checkpoint.path)
    assert fresh.progress()[0] == 3
    assert all(np.isfinite(array).all() for array in fresh.learner.get_weights().arrays.values())
    fresh.stop()
    assert ray.is_initialized()
