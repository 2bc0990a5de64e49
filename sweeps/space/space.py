"""The whole search space: which dimensions exist, in which order, and what they mean for a configuration."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import optuna

from actorlearner.exceptions import ConfigError
from sweeps.keys import Key, is_free, known_keys, unknown_key_error
from sweeps.overrides import NOT_SEARCHED, SEARCHED_SECTIONS
from sweeps.space.dimension import Dimension, make_dimension
from sweeps.space.effects import check_effects
from sweeps.space.grammar import MAPPING_KEYS, read_leaf, to_field
from sweeps.space.proposals import check_proposals


class SpaceRow(NamedTuple):
    """One dimension for people; empty texts where a column does not apply."""

    name: str
    kind: str
    low: str
    high: str
    scale: str
    default: str
    condition: str


class SearchSpace:
    """A checked search space over one base configuration; pickles.

    Args:
        dimensions: in an order in which every condition's key comes before what depends on it.
        base: the configuration that the dimensions vary, as plain nested dicts.
    """

    def __init__(self, dimensions: tuple[Dimension, ...], base: dict[str, Any]) -> None:
        self.dimensions = dimensions
        self._base = base

    @classmethod
    def from_config(cls, tree: Mapping[str, Any], base: dict[str, Any]) -> SearchSpace:
        """Read and check a search space.

        Args:
            tree: mirrors ``base``; leaves are texts in Hydra's sweep grammar, mappings, or null for "not searched".
            base: the engine's configuration (``SweepConfig.engine_config()``).

        Raises:
            ConfigError: an unknown key, a distribution that cannot be read, bounds that break the key's type or
                range, a proposal that breaks a rule of its section, a key without an effect, a condition on something
                that does not exist, or no dimension at all.
        """
        keys = known_keys(base["algorithm"]["name"])
        found = [
            make_dimension(key, read_leaf(key, written, keys.get(key)))
            for key, written in _walk(tree, "", keys)
            if written is not None
        ]
        if not found:
            raise ConfigError(
                "The search space is empty: give at least one dimension, for example "
                "'algorithm.lr=tag(log,interval(1e-4,1e-2))' or search_space=classic; "
                "python -m sweeps.train trains without a search.",
                key="search_space",
            )
        check_effects(found, base)
        space = cls(_ordered(found, keys), copy.deepcopy(base))
        check_proposals(space)
        return space

    def suggest(self, trial: optuna.trial.BaseTrial) -> dict[str, Any]:
        """Draw one configuration define-by-run.

        Returns:
            Dotted key -> plain value, only for the dimensions that exist in this trial.
        """
        values: dict[str, Any] = {}
        for dimension in self.dimensions:
            if self._exists(dimension, values):
                values[dimension.key] = dimension.suggest(trial)
        return values

    def encode_default(self, base: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the base configuration as parameters for ``study.enqueue_trial``.

        Args:
            base: another configuration to encode; default the one that the space was made for.

        Returns:
            Parameter -> value, or None when the configuration lies outside the space.
        """
        base = self._base if base is None else base
        parameters: dict[str, Any] = {}
        for dimension in self.dimensions:
            if self._exists(dimension, {}, base):
                try:
                    parameters[dimension.parameter] = dimension.encode(_get(base, dimension.key))
                except ValueError:
                    return None
        return parameters

    def allows(self, values: Mapping[str, Any]) -> bool:
        """Say whether the conditions let these dimensions (dotted key -> value) exist beside the base."""
        return all(self._exists(dimension, values) for dimension in self.dimensions if dimension.key in values)

    @property
    def base(self) -> dict[str, Any]:
        """Return a copy of the configuration that the dimensions vary."""
        return copy.deepcopy(self._base)

    def describe(self) -> list[SpaceRow]:
        """Return one row for each dimension."""
        return [_row(dimension, _get(self._base, dimension.key)) for dimension in self.dimensions]

    def _exists(self, dimension: Dimension, values: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> bool:
        tree = self._base if base is None else base
        return all(values.get(key, _get(tree, key)) in wanted for key, wanted in dimension.when.items())


def apply(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of nested dicts with dotted keys set."""
    result = copy.deepcopy(dict(base))
    for key, value in values.items():
        *path, leaf = key.split(".")
        node = result
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = copy.deepcopy(value)
    return result


def _walk(tree: Mapping[str, Any], prefix: str, keys: Mapping[str, Key]) -> Iterator[tuple[str, Any]]:
    """Yield the leaves with their dotted keys; every key is checked."""
    for name, entry in tree.items():
        key = f"{prefix}{name}"
        inside = is_free(key) or key == "environment.env_config"
        if key in NOT_SEARCHED:
            raise ConfigError(f"{key} cannot differ inside one sweep; -m {key}=A,B runs one sweep each.", key=key)
        if (key in keys and not inside) or (is_free(key) and _is_leaf(entry)):
            yield key, entry
        elif inside or any(known.startswith(f"{key}.") for known in keys):
            if not isinstance(entry, Mapping):
                raise ConfigError(f"search_space.{key} must hold keys of {key}, got {entry!r}.", key=key, value=entry)
            _check_section(key)
            yield from _walk(entry, f"{key}.", keys)
        else:
            raise unknown_key_error(key, _searchable(keys), where=" in search_space")


def _is_leaf(entry: Any) -> bool:
    return not isinstance(entry, Mapping) or any(name in MAPPING_KEYS for name in entry)


def _check_section(key: str) -> None:
    if key.split(".")[0] not in SEARCHED_SECTIONS:
        raise ConfigError(
            f"search_space.{key}: only keys of {', '.join(SEARCHED_SECTIONS)} can be searched; "
            f"-m {key}.KEY=A,B runs one sweep per value.",
            key=key,
        )


def _searchable(keys: Mapping[str, Key]) -> set[str]:
    return {key for key in keys if key.split(".")[0] in SEARCHED_SECTIONS and key not in NOT_SEARCHED}


def _ordered(dimensions: list[Dimension], keys: Mapping[str, Key]) -> tuple[Dimension, ...]:
    """Put every dimension after those that its condition asks for."""
    by_key = {dimension.key: dimension for dimension in dimensions}
    ordered: dict[str, Dimension] = {}

    def place(dimension: Dimension, waiting: tuple[str, ...]) -> None:
        if dimension.key in waiting:
            circle = " -> ".join([*waiting, dimension.key])
            raise ConfigError(f"search_space: conditions go round in a circle: {circle}.", key=dimension.key)
        for key, wanted in dimension.when.items():
            _check_condition(dimension.key, key, wanted, keys)
            if key in by_key:
                place(by_key[key], (*waiting, dimension.key))
        ordered[dimension.key] = dimension

    for dimension in dimensions:
        place(dimension, ())
    return tuple(ordered.values())


def _check_condition(dimension: str, key: str, wanted: tuple[Any, ...], keys: Mapping[str, Key]) -> None:
    if is_free(key):
        return
    if key not in keys:
        raise unknown_key_error(key, _searchable(keys), where=f" in search_space.{dimension}.when")
    for value in wanted:
        to_field(f"{dimension}.when", value, keys[key])


def _get(tree: Mapping[str, Any], key: str) -> Any:
    node: Any = tree
    for part in key.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _row(dimension: Dimension, default: Any) -> SpaceRow:
    leaf = dimension.leaf
    condition = ", ".join(f"{key}={'|'.join(map(_text, wanted))}" for key, wanted in leaf.when.items())
    if leaf.kind == "categorical":
        options = ", ".join(_text(choice) for choice in leaf.choices)
        return SpaceRow(dimension.key, "choice", options, "", "", _text(default), condition)
    scale = {"one_minus": "log of 1 - value", "power_of_two": "powers of two"}.get(leaf.scale or "", "")
    scale = scale or ("log" if leaf.log else f"steps of {leaf.step:g}" if leaf.step else "linear")
    return SpaceRow(dimension.key, leaf.kind, _text(leaf.low), _text(leaf.high), scale, _text(default), condition)


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
