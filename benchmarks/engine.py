"""Env steps per second that are sampled and trained on, in local mode.

``python -m benchmarks.engine CASE SEED SECONDS`` prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from hydra import compose, initialize_config_dir

from actorlearner import Impala
from sweeps.paths import config_directory
from sweeps.schema import load, register_schemas

# The shipped presets, as `python -m sweeps.train` would run them.
CASES = {
    "cartpole": (["resources.num_cpus_for_driver=1"], 1),
    "pong": (["+experiment=atari", "resources.num_cpus_for_driver=2", "resources.precision=float32"], 2),
    "pong-bfloat16": (["+experiment=atari", "resources.num_cpus_for_driver=2", "resources.precision=bfloat16"], 2),
    "pong-bfloat16-32": (
        [
            "+experiment=atari",
            "resources.num_cpus_for_driver=2",
            "resources.precision=bfloat16",
            "resources.num_envs_per_worker=32",
        ],
        2,
    ),
}


def engine_config(overrides: list[str], seed: int) -> dict[str, Any]:
    """Compose the engine's configuration as the commands do."""
    register_schemas()
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        config = load(compose("config", overrides=[*overrides, f"sweep.seed={seed}"]), overrides=overrides)
    return config.engine_config()


def throughput(case: str, seed: int, seconds: float) -> dict[str, float]:
    """Train for ``seconds`` after a warm-up of a tenth, and return env steps trained per second."""
    config = engine_config(CASES[case][0], seed)
    config["algorithm"]["min_sample_timesteps_per_iteration"] = 2000
    algorithm = Impala(config=config)
    start = time.perf_counter()
    while time.perf_counter() - start < seconds / 10:
        result = algorithm.train()
    steps, start = result["num_env_steps_trained"], time.perf_counter()
    while time.perf_counter() - start < seconds:
        result = algorithm.train()
    elapsed = time.perf_counter() - start
    algorithm.stop()
    return {
        "steps_per_second": (result["num_env_steps_trained"] - steps) / elapsed,
        "return": result["episode_return_mean"],
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    name, seed_text, seconds_text = sys.argv[1:]
    print(json.dumps(throughput(name, int(seed_text), float(seconds_text))))
