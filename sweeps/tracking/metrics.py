"""Turns the engine's nested results and configurations into MLflow's flat names and values.

Where a result's numbers go. MLflow draws one section of charts per prefix, in alphabetical order: what the agent
achieves comes first.

| result                                                    | metric                     |
|-----------------------------------------------------------|----------------------------|
| ``episode_return_mean``, other ``episode_*``              | ``episode/<key>``          |
| ``evaluation.<key>``                                      | ``eval/<key>``             |
| ``info.learner.default_policy.<key>``                     | ``learner/<key>``          |
| ``info.learner.<policy>.<key>``                           | ``learner/<policy>/<key>`` |
| ``timers.<key>``, ``counters.<key>``                      | ``perf/<key>``             |
| ``env_steps_per_second``, ``num_healthy_workers``, ..     | ``perf/<key>``             |
| lifetime counts: ``num_env_steps_trained``, ..            | ``steps/<key>``            |
| any other number at the top                               | ``train/<key>``            |
| any other mapping ``<name>.<key>``                        | ``<name>/<key>``           |

Left out: what Ray Tune adds about the process, and ``*_this_iter`` counts (the differences of the lifetime ones).
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from numbers import Real
from typing import Any

# MLflow's own limits (mlflow.utils.validation of MLflow 3); a longer value is refused by the server.
MAX_KEY_LENGTH = 250
MAX_PARAM_LENGTH = 6000
MAX_TAG_LENGTH = 8000

_PERF_KEYS = frozenset({"env_steps_per_second", "num_healthy_workers", "time_total_s"})
_STEP_KEYS = frozenset({"episodes_total", "training_iteration"})
_LEFT_OUT = frozenset(
    {
        "config",
        "done",
        "iterations_since_restore",
        "pid",
        "should_checkpoint",
        "time_since_restore",
        "time_this_iter_s",
        "timestamp",
        "timesteps_since_restore",
        "timesteps_total",
        "warmup_time",
    }
)
_FORBIDDEN = re.compile(r"[^\w\-. /:]", re.ASCII)


@lru_cache(maxsize=4096)
def clean_key(key: str) -> str:
    """Return a name that MLflow accepts for a metric, parameter or tag.

    Other characters than letters, digits and ``_-. /:`` become ``_``; empty, ``.`` and ``..`` path parts go away;
    the name is cut at 250 characters.
    """
    parts = [part for part in _FORBIDDEN.sub("_", key).split("/") if part.strip(" .")]
    return "/".join(parts)[:MAX_KEY_LENGTH].rstrip("/") or "_"


def flatten(tree: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (path, leaf) of a nested mapping, in its order."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            for path, leaf in flatten(value):
                yield (str(key), *path), leaf
        else:
            yield (str(key),), value


def group_metrics(result: Mapping[str, Any]) -> dict[str, float]:
    """Return a result's finite numbers under MLflow names (table in the module's docstring).

    Names that already have a prefix (``sweep/x``) stay as they are. Texts, lists, booleans, NaN and infinities are
    left out: NaN means "no episode has ended yet", and MLflow draws an infinity as 1.8e308.
    """
    metrics: dict[str, float] = {}
    for key, value in result.items():
        if key in _LEFT_OUT:
            continue
        if isinstance(value, Mapping):
            for path, leaf in flatten(value):
                _add(metrics, (key, *path), leaf)
        else:
            _add(metrics, (key,), value)
    return metrics


def _add(metrics: dict[str, float], path: tuple[str, ...], value: Any) -> None:
    if type(value) is not float:
        if isinstance(value, bool) or not isinstance(value, Real):
            return
        value = float(value)
    if math.isfinite(value):
        name = metric_name(path)
        if name:
            metrics[name] = value


@lru_cache(maxsize=4096)
def metric_name(path: tuple[str, ...]) -> str:
    """Return the MLflow name for a result's path; empty where the value is left out."""
    head, rest = path[0], path[1:]
    if path[-1].endswith("_this_iter"):
        return ""
    if not rest:
        if "/" in head:
            return clean_key(head)
        return clean_key(f"{_group_of(head)}/{head}")
    if head == "info" and rest[0] == "learner":
        policy = [part for part in rest[1:] if part != "default_policy"]
        return clean_key("/".join(["learner", *policy]))
    prefix = {"timers": "perf", "counters": "perf", "evaluation": "eval"}.get(head, head)
    return clean_key("/".join([prefix, *rest]))


def _group_of(key: str) -> str:
    if key in _PERF_KEYS or key.endswith("_per_second"):
        return "perf"
    if key in _STEP_KEYS or key.startswith("num_"):
        return "steps"
    return "episode" if key.startswith("episode_") else "train"


def plain_params(tree: Mapping[str, Any]) -> dict[str, str]:
    """Return a configuration's plain values as MLflow parameters: ``algorithm.lr`` -> ``"0.0005"``.

    Lists become JSON; anything else (objects, functions) is left out. Values are cut at 6000
    characters. Path separators ``/`` inside keys (Tune's flat names) become dots.
    """
    params: dict[str, str] = {}
    for path, value in flatten(tree):
        text = _plain_text(value)
        if text is not None:
            params[clean_key(".".join(path).replace("/", "."))] = text[:MAX_PARAM_LENGTH]
    return params


def _plain_text(value: Any) -> str | None:
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, Real):
        return str(value)
    if isinstance(value, (list, tuple)):
        with contextlib.suppress(TypeError, ValueError):
            return json.dumps(value, default=float)
    return None
