"""Names of the shipped algorithms and where their classes live; imports nothing heavy until asked."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from actorlearner.exceptions import ConfigError
from actorlearner.settings import AlgorithmSettings

if TYPE_CHECKING:
    from actorlearner.algorithm import Algorithm

_SETTINGS = {"impala": "actorlearner.algorithms.impala.config:ImpalaSettings"}
_ALGORITHMS = {"impala": "actorlearner.algorithms.impala.algorithm:Impala"}


def algorithm_names() -> list[str]:
    """Return the names that ``algorithm.name`` accepts."""
    return sorted(_SETTINGS)


def settings_class(name: str) -> type[AlgorithmSettings]:
    """Return the settings dataclass of an algorithm; torch-free."""
    found: type[AlgorithmSettings] = _load(_SETTINGS, name)
    return found


def algorithm_class(name: str) -> type[Algorithm]:
    """Return the ``Algorithm`` subclass of a name."""
    found: type[Algorithm] = _load(_ALGORITHMS, name)
    return found


def _load(table: dict[str, str], name: str) -> Any:
    if name not in table:
        raise ConfigError(
            f"algorithm.name must be one of {', '.join(sorted(table))}, got {name!r}.", key="algorithm.name", value=name
        )
    module, attribute = table[name].split(":")
    return getattr(importlib.import_module(module), attribute)
