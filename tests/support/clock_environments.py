"""Environments whose returns and ends are known beforehand; registered on import."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


class Clock(gymnasium.Env[np.ndarray, int]):
    """Pays 1 on the last of ``length`` steps and nothing before; shows the time and a number drawn at reset."""

    def __init__(self, length: int = 5, terminates: bool = True, pays_every_step: bool = False) -> None:
        self.observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._length, self._terminates, self._pays_every_step = length, terminates, pays_every_step

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._time, self._mark = 0, float(self.np_random.random())
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._time += 1
        ended = self._time >= self._length
        reward = 1.0 if ended or self._pays_every_step else 0.0
        return self._observation(), reward, ended and self._terminates, ended and not self._terminates, {}

    def _observation(self) -> np.ndarray:
        return np.array([self._time, self._mark], np.float32)


class NanObservation(Clock):
    """Shows NaN from the third step on."""

    def _observation(self) -> np.ndarray:
        return np.array([np.nan if self._time >= 3 else 0.0, 0.0], np.float32)


class Slow(Clock):
    """Takes 0.05 s per step."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        import time

        time.sleep(0.05)
        return super().step(action)


for _name, _class in {"Clock-v0": Clock, "NanObservation-v0": NanObservation, "Slow-v0": Slow}.items():
    if _name not in gymnasium.registry:
        gymnasium.register(_name, _class)
