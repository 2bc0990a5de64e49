"""Values that change with lifetime env steps: learning rate and entropy coefficient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class PiecewiseLinear:
    """Linear between points, constant after the last one.

    Args:
        points: [env steps, value] pairs, increasing in steps, the first at step 0 (checked by the configuration).
    """

    def __init__(self, points: Sequence[Sequence[float]]) -> None:
        self._steps = [float(point[0]) for point in points]
        self._values = [float(point[1]) for point in points]

    @classmethod
    def from_setting(cls, constant: float, points: Sequence[Sequence[float]] | None) -> PiecewiseLinear:
        """Make the schedule of a pair of keys: the points where given, else the constant."""
        return cls(points if points is not None else [[0.0, constant]])

    def value(self, env_steps: int) -> float:
        """Return the value after ``env_steps`` lifetime env steps sampled."""
        if len(self._steps) == 1:
            return self._values[0]
        return float(np.interp(env_steps, self._steps, self._values))
