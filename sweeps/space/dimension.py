"""One dimension: the Optuna distribution of a leaf, and the way from what Optuna draws to the field's value."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from sweeps.space.grammar import Leaf

Choice: TypeAlias = "bool | int | float | str | None"


@dataclass(frozen=True)
class Dimension:
    """What one key may be.

    Attributes:
        key: dotted key in the configuration.
        parameter: the name in the Optuna study: the key, ``1-<key>`` or ``log2-<key>``.
        distribution: what Optuna draws under that name; bounds included.
        leaf: the distribution in the field's own values.
    """

    key: str
    parameter: str
    distribution: BaseDistribution
    leaf: Leaf

    @property
    def when(self) -> Mapping[str, tuple[Any, ...]]:
        """Dotted key -> the values for which this dimension exists; empty: always."""
        return self.leaf.when

    def suggest(self, trial: optuna.trial.BaseTrial) -> Any:
        """Draw a value of the field."""
        name, wanted = self.parameter, self.distribution
        if isinstance(wanted, CategoricalDistribution):
            return self.decode(trial.suggest_categorical(name, wanted.choices))
        if isinstance(wanted, IntDistribution):
            return self.decode(trial.suggest_int(name, wanted.low, wanted.high, step=wanted.step, log=wanted.log))
        assert isinstance(wanted, FloatDistribution)
        return self.decode(trial.suggest_float(name, wanted.low, wanted.high, step=wanted.step, log=wanted.log))

    def decode(self, drawn: Any) -> Any:
        """Turn what Optuna drew into a value of the field."""
        leaf = self.leaf
        if leaf.kind == "categorical":
            return dict(zip(_labels(leaf.choices), leaf.choices, strict=True))[drawn]
        if leaf.scale == "one_minus":
            return min(max(_complement(drawn), leaf.low), leaf.high)
        return 2**drawn if leaf.scale == "power_of_two" else drawn

    def encode(self, value: Any) -> Any:
        """Turn a value of the field into what Optuna would draw for it.

        Raises:
            ValueError: the value is outside the distribution.
        """
        leaf = self.leaf
        if leaf.kind == "categorical":
            for label, choice in zip(_labels(leaf.choices), leaf.choices, strict=True):
                if value == choice and isinstance(value, bool) == isinstance(choice, bool):
                    return label
            raise ValueError(f"{value!r} is none of the choices")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not leaf.low <= value <= leaf.high:
            raise ValueError(f"{value!r} is not between {leaf.low:g} and {leaf.high:g}")
        if leaf.step is not None and (Decimal(str(value)) - Decimal(str(leaf.low))) % Decimal(str(leaf.step)):
            raise ValueError(f"{value!r} is between two steps")
        if leaf.scale == "one_minus":
            return min(max(_complement(value), _complement(leaf.high)), _complement(leaf.low))
        if leaf.scale != "power_of_two":
            return value
        exponent = math.log2(value)
        if not exponent.is_integer():
            raise ValueError(f"{value!r} is not a power of two")
        return int(exponent)


def make_dimension(key: str, leaf: Leaf) -> Dimension:
    """Build the Optuna distribution of a leaf."""
    if leaf.kind == "categorical":
        return Dimension(key, key, CategoricalDistribution(_labels(leaf.choices)), leaf)
    if leaf.scale == "one_minus":
        low, high = _complement(leaf.high), _complement(leaf.low)
        return Dimension(key, f"1-{key}", FloatDistribution(low, high, log=True), leaf)
    if leaf.scale == "power_of_two":
        exponents = IntDistribution(int(math.log2(leaf.low)), int(math.log2(leaf.high)))
        return Dimension(key, f"log2-{key}", exponents, leaf)
    if leaf.kind == "int":
        step = 1 if leaf.step is None else int(leaf.step)
        return Dimension(key, key, IntDistribution(int(leaf.low), int(leaf.high), log=leaf.log, step=step), leaf)
    return Dimension(key, key, FloatDistribution(float(leaf.low), float(leaf.high), log=leaf.log, step=leaf.step), leaf)


def _labels(choices: tuple[Any, ...]) -> list[Choice]:
    """Return what Optuna may store for each choice: lists and mappings as JSON text."""
    return [
        choice if choice is None or isinstance(choice, (bool, int, float, str)) else json.dumps(choice)
        for choice in choices
    ]


def _complement(value: float) -> float:
    """Return 1 - value without binary noise: 1 - 0.99 is 0.01."""
    return float(1 - Decimal(repr(float(value))))
