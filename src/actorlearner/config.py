"""Fluent configuration for stand-alone use: chained calls over the defaults of settings.py (spec A2)."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from ray.tune.search.sample import Domain

from actorlearner.algorithm import Algorithm
from actorlearner.algorithms.registry import algorithm_class, settings_class
from actorlearner.exceptions import ConfigError
from actorlearner.settings import (
    DebuggingSettings,
    EnvironmentSettings,
    ModelSettings,
    ResourceSettings,
    Section,
    Settings,
    check_range,
    coerce,
    field_types,
    settings_from_dict,
    unknown_key,
)

ConfigT = TypeVar("ConfigT", bound="AlgorithmConfig")

_ROLLOUT_KEYS = ("num_workers", "num_envs_per_worker", "rollout_fragment_length")
_REPORTING_KEYS = (
    "min_time_s_per_iteration",
    "min_sample_timesteps_per_iteration",
    "min_train_timesteps_per_iteration",
    "metrics_num_episodes_for_smoothing",
)


class AlgorithmConfig:
    """One algorithm's configuration; each section method sets keys and returns the same object.

    A value may be one of Ray Tune's search objects (``tune.loguniform(...)``, ``tune.grid_search([...])``): it is kept
    as it is for ``tune.Tuner(Impala, param_space=config.to_dict())``. Everything else is checked when it is set.

    Args:
        algorithm: name in the registry.
    """

    def __init__(self, algorithm: str) -> None:
        self._sections: dict[str, type[Section]] = {
            "algorithm": settings_class(algorithm),
            "environment": EnvironmentSettings,
            "model": ModelSettings,
            "resources": ResourceSettings,
            "debugging": DebuggingSettings,
        }
        self._values: dict[str, dict[str, Any]] = {name: {} for name in self._sections}
        self._values["algorithm"]["name"] = algorithm
        self._frozen = False

    def environment(self: ConfigT, id: Any = None, **values: Any) -> ConfigT:
        """Set the environment: ``id``, ``env_config``, ``reward_clipping``, ``reward_scale``."""
        return self._set("environment", {} if id is None else {"id": id}, values)

    def rollouts(self: ConfigT, **values: Any) -> ConfigT:
        """Set sampling: ``num_workers``, ``num_envs_per_worker``, ``rollout_fragment_length``."""
        _check_known("rollouts", values, _ROLLOUT_KEYS)
        fragment = {name: value for name, value in values.items() if name == "rollout_fragment_length"}
        self._set("algorithm", fragment)
        return self._set("resources", {name: value for name, value in values.items() if name not in fragment})

    def training(self: ConfigT, *, model: Mapping[str, Any] | None = None, **values: Any) -> ConfigT:
        """Set the algorithm's own keys (``lr``, ``gamma``, ``train_batch_size``, ...) and the network's."""
        self._set("model", model or {})
        return self._set("algorithm", values)

    def resources(self: ConfigT, **values: Any) -> ConfigT:
        """Set processes, CPUs, GPUs and precision: the keys of ``ResourceSettings``."""
        return self._set("resources", values)

    def reporting(self: ConfigT, **values: Any) -> ConfigT:
        """Set the ``min_*_per_iteration`` keys and ``metrics_num_episodes_for_smoothing``."""
        _check_known("reporting", values, _REPORTING_KEYS)
        return self._set("algorithm", values)

    def debugging(self: ConfigT, **values: Any) -> ConfigT:
        """Set ``seed`` and ``log_level``."""
        return self._set("debugging", values)

    def update_from_dict(self: ConfigT, data: Mapping[str, Any]) -> ConfigT:
        """Merge a partial nested dict, as ``to_dict`` returns it."""
        for name, values in data.items():
            if name not in self._sections:
                raise unknown_key(name, self._sections)
            self._set(name, values)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the whole configuration, defaults included, as plain nested dicts and search objects."""
        fixed = {
            name: {key: value for key, value in values.items() if not is_search_object(value)}
            for name, values in self._values.items()
        }
        tree = settings_from_dict(fixed).to_dict()
        for name, values in self._values.items():
            tree[name].update({key: value for key, value in values.items() if is_search_object(value)})
        return tree

    def to_settings(self) -> Settings:
        """Return the typed settings.

        Raises:
            ConfigError: a rule is broken, or a search object is still in there.
        """
        for name, values in self._values.items():
            for key, value in values.items():
                if is_search_object(value):
                    raise ConfigError(
                        f"{name}.{key} is a search object ({value!r}): give it one value, or give to_dict() to "
                        "tune.Tuner(..., param_space=...).",
                        key=f"{name}.{key}",
                        value=value,
                    )
        return settings_from_dict(self._values)

    def copy(self: ConfigT) -> ConfigT:
        """Return an independent copy that can be changed."""
        # Search objects are shared: Tune never changes them.
        other = copy.copy(self)
        other._values = {name: dict(values) for name, values in self._values.items()}
        other._frozen = False
        return other

    def freeze(self: ConfigT) -> ConfigT:
        """Refuse changes from here on."""
        self._frozen = True
        return self

    def build(self) -> Algorithm:
        """Make the algorithm; this configuration is frozen."""
        settings = self.freeze().to_settings()
        return algorithm_class(settings.algorithm.name)(config=settings.to_dict())

    def _set(self: ConfigT, section: str, *parts: Mapping[str, Any]) -> ConfigT:
        if self._frozen:
            raise ConfigError("This configuration is frozen, because an algorithm was built from it: change a copy().")
        section_class = self._sections[section]
        fields = {field.name: field for field in dataclasses.fields(section_class)}
        for key, value in ((key, value) for values in parts for key, value in values.items()):
            name = f"{section}.{key}"
            if key not in fields:
                raise unknown_key(name, [f"{section}.{known}" for known in fields])
            if not is_search_object(value):
                # Type and range only: rules between keys wait until all are set.
                check_range(name, coerce(name, value, field_types(section_class)[key]), fields[key].metadata)
            self._values[section][key] = value
        return self


class ImpalaConfig(AlgorithmConfig):
    """IMPALA's configuration: ``ImpalaConfig().environment("CartPole-v1").training(lr=3e-4).build().train()``."""

    def __init__(self) -> None:
        super().__init__("impala")


def is_search_object(value: Any) -> bool:
    """Say whether a value is one of Ray Tune's search objects rather than a value."""
    return isinstance(value, Domain) or (isinstance(value, Mapping) and set(value) == {"grid_search"})


def _check_known(method: str, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in values:
        if name not in known:
            raise unknown_key(f"{method}.{name}", [f"{method}.{key}" for key in known])
