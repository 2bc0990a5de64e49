"""First steps of every training: what it may use, its log level, its seeds."""

from __future__ import annotations

import logging
import random

import numpy as np
import ray
import ray.util
import torch

from actorlearner.exceptions import ConfigError
from actorlearner.resources import Machine, detect_machine


def trial_machine() -> Machine:
    """Return what this training may use: inside a trial its own placement group, else the machine."""
    group = ray.util.get_current_placement_group() if ray.is_initialized() else None
    if group is None:
        return detect_machine()
    return Machine(
        num_cpus=sum(bundle.get("CPU", 0.0) for bundle in group.bundle_specs),
        num_gpus=sum(bundle.get("GPU", 0.0) for bundle in group.bundle_specs),
    )


def set_up_logging(level: str) -> None:
    """Set the level of the engine's own logger and of no other (spec A24)."""
    levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    if level.upper() not in levels:
        raise ConfigError(
            f"debugging.log_level must be one of {', '.join(levels)}, got {level!r}.",
            key="debugging.log_level",
            value=level,
        )
    logging.getLogger("actorlearner").setLevel(level.upper())


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch (spec A5); environments are seeded by their sampler."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
