"""An environment that draws from the global generators; importable by workers as ``random_environments:Dice-v0``."""

from __future__ import annotations

import random

import gymnasium
import numpy as np

ID = "random_environments:Dice-v0"


class Dice(gymnasium.Env):
    """Each observation is one draw of numpy's and one of Python's global generator; episodes of five steps."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._draw(), {}

    def step(self, action):
        self.steps += 1
        return self._draw(), 0.0, self.steps >= 5, False, {}

    def _draw(self):
        return np.array([np.random.random(), random.random()], np.float32)


gymnasium.register("Dice-v0", entry_point=Dice)
