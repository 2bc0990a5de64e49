"""How well the shipped presets learn.

``python -m benchmarks.learning OVERRIDES... SEED`` prints one JSON line, for example
``python -m benchmarks.learning environment=cartpole 0``.
"""

from __future__ import annotations

import json
import math
import sys

from actorlearner import Impala
from benchmarks.engine import engine_config

BUDGET = 200_000
SOLVED = 475.0


def learn(overrides: list[str], seed: int) -> dict[str, float]:
    """Train a preset for ``BUDGET`` env steps.

    Returns:
        final: mean return of the last 100 episodes; solved_at: env steps at which it first reached ``SOLVED``,
        infinite when it never did.
    """
    config = engine_config(overrides, seed)
    config["resources"].update(num_workers=0, num_cpus_for_driver=1.0)
    algorithm = Impala(config=config)
    solved_at, result = math.inf, {"num_env_steps_sampled": 0}
    while result["num_env_steps_sampled"] < BUDGET:
        result = algorithm.train()
        if result["episode_return_mean"] >= SOLVED:
            solved_at = min(solved_at, result["num_env_steps_sampled"])
    algorithm.stop()
    return {"final": result["episode_return_mean"], "solved_at": solved_at}


if __name__ == "__main__":
    *given, seed_text = sys.argv[1:]
    print(json.dumps(learn(given, int(seed_text))))
