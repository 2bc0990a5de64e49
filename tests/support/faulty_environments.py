"""An environment that fails on demand; importable by Ray's workers as ``faulty_environments:Faulty-v0``."""

from __future__ import annotations

import os
from pathlib import Path

import gymnasium
import numpy as np

ID = "faulty_environments:Faulty-v0"


class Faulty(gymnasium.Env):
    """Three observations, two actions; episodes of ten steps with reward 1 each.

    Args:
        fault: None, "constructor" or "step": where it fails.
        after: steps that still go well.
        pid_file: where to write the process id.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, fault=None, after=5, pid_file=None, render_mode=None):
        self.fault, self.left, self.steps = fault, after, 0
        if pid_file:
            with Path(pid_file).open("a") as file:
                file.write(f"{os.getpid()}\n")
        if fault == "constructor":
            raise LookupError("the game's files are missing")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        self.left -= 1
        if self.left < 0 and self.fault == "step":
            raise ArithmeticError("the physics exploded")
        return np.full(3, self.steps / 10, np.float32), 1.0, self.steps >= 10, False, {}


gymnasium.register("Faulty-v0", entry_point=Faulty)
