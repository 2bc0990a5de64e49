"""An actor-learner engine on Ray, torch and gymnasium: IMPALA first. Public names load on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actorlearner.algorithm import Algorithm
    from actorlearner.algorithms.impala.algorithm import Impala
    from actorlearner.config import AlgorithmConfig, ImpalaConfig

_HOME = {
    "Algorithm": "actorlearner.algorithm",
    "AlgorithmConfig": "actorlearner.config",
    "Impala": "actorlearner.algorithms.impala.algorithm",
    "ImpalaConfig": "actorlearner.config",
}

__all__ = ["Algorithm", "AlgorithmConfig", "Impala", "ImpalaConfig"]


def __getattr__(name: str) -> Any:
    """Import a public name's module when it is first asked for: reading configurations must not load torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'actorlearner' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
