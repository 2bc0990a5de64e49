"""Fixtures that more than one part of the engine's tests needs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Environments and workers that Ray's processes import by name, as they would a user's own.
SUPPORT = str(Path(__file__).parent / "support")
sys.path.insert(0, SUPPORT)


@pytest.fixture(scope="session")
def _stop_ray_at_the_end() -> Iterator[None]:
    yield
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()


@pytest.fixture
def ray_cluster(_stop_ray_at_the_end: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray of two CPUs, started once and shared by all tests that ask for it (and again if one shut it down)."""
    import ray

    if not ray.is_initialized():
        # Ray's processes inherit the environment of the moment, not the driver's import path.
        paths = [SUPPORT, *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=256 * 2**20,
        )
