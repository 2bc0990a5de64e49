"""Names and values as MLflow gets them."""

from __future__ import annotations

from enum import Enum

import numpy as np
import pytest

from sweeps.tracking.metrics import clean_key, group_metrics, plain_params


def test_results_are_grouped_by_what_they_describe():
    result = {
        "episode_return_mean": 1.0,
        "loss_scale": 7.0,
        "episodes_total": 3,
        "episodes_this_iter": 1,
        "num_env_steps_sampled": 100,
        "num_env_steps_sampled_this_iter": 100,
        "num_healthy_workers": 2,
        "env_steps_per_second": np.float32(5.0),
        "training_iteration": np.int64(4),
        "info": {"learner": {"default_policy": {"entropy": 0.5}, "left": {"entropy": 0.25}}},
        "timers": {"sample_ms": 1.5},
        "counters": {"stalls": 1},
        "evaluation": {"episode_return_mean": 9.0},
        "custom": {"deep": {"x": 2}},
        "sweep/best_score": 8.0,
        # Ray Tune's own additions
        "pid": 5,
        "timestamp": 1,
        "time_this_iter_s": 0.1,
        "timesteps_total": 100,
        "config": {"algorithm": {"lr": 0.1}},
        "trial_id": "abc",
        "done": False,
    }
    assert group_metrics(result) == {
        "episode/episode_return_mean": 1.0,
        "train/loss_scale": 7.0,
        "steps/episodes_total": 3.0,
        "steps/num_env_steps_sampled": 100.0,
        "perf/num_healthy_workers": 2.0,
        "perf/env_steps_per_second": 5.0,
        "steps/training_iteration": 4.0,
        "learner/entropy": 0.5,
        "learner/left/entropy": 0.25,
        "perf/sample_ms": 1.5,
        "perf/stalls": 1.0,
        "eval/episode_return_mean": 9.0,
        "custom/deep/x": 2.0,
        "sweep/best_score": 8.0,
    }


def test_what_is_no_finite_number_is_left_out():
    # fault F27: the mean is NaN before the first episode has ended.
    values = {"a": float("nan"), "b": float("inf"), "c": "text", "d": True, "e": [1.0], "f": None, "g": np.nan}
    assert group_metrics(values) == {}


@pytest.mark.parametrize(
    ("key", "expected"),
    [("a%b", "a_b"), ("a//b/", "a/b"), ("../a/./b", "a/b"), ("/", "_"), ("größe", "gr__e"), ("x" * 300, "x" * 250)],
)
def test_keys_become_what_mlflow_accepts(key, expected):
    assert clean_key(key) == expected


def test_params_are_flat_plain_values():
    class Color(Enum):
        red = "red"

    config = {
        "algorithm": {"lr": 5e-4, "grad_clip": None, "schedule": [[0, 1.0]], "color": Color.red},
        "model": {"hidden_sizes": [64, 64], "share_layers": False},
        "object": object(),
        "objects": [object()],
        "empty": {},
        "algorithm/gamma": 0.99,
        "long": "y" * 7000,
    }
    assert plain_params(config) == {
        "algorithm.lr": "0.0005",
        "algorithm.grad_clip": "null",
        "algorithm.schedule": "[[0, 1.0]]",
        "algorithm.color": "red",
        "model.hidden_sizes": "[64, 64]",
        "model.share_layers": "false",
        "algorithm.gamma": "0.99",
        "long": "y" * 6000,
    }
