"""The search space: read from the configuration, checked, and handed to Optuna define-by-run."""

from sweeps.space.dimension import Dimension
from sweeps.space.space import SearchSpace, SpaceRow, apply

__all__ = ["Dimension", "SearchSpace", "SpaceRow", "apply"]
