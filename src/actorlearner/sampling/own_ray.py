"""The Ray that remote workers run on where none runs: started for the first who needs it, ended with the last."""

from __future__ import annotations

import logging
import os
import threading

import ray

_lock = threading.Lock()
# Who uses a Ray that was started here, and its node's id: somebody may have replaced that Ray by another meanwhile.
_users: set[int] = set()
_node_id: str | None = None


def acquire(user: object) -> None:
    """Start a quiet Ray where none runs; one that was started here stays until its last user releases it."""
    global _node_id
    with _lock:
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
            _node_id = ray.get_runtime_context().get_node_id()
            _users.clear()
        if _is_own():
            _users.add(id(user))


def release(user: object) -> None:
    """End the Ray that was started here if nobody else uses it; harmless for a Ray that somebody else started."""
    with _lock:
        if id(user) not in _users:
            return
        _users.remove(id(user))
        if not _users and _is_own():
            ray.shutdown()


def _is_own() -> bool:
    return _node_id is not None and ray.is_initialized() and ray.get_runtime_context().get_node_id() == _node_id
