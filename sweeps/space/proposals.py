"""Tries what a space may propose on the sections' own rules, so that a bad proposal is found before Ray starts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actorlearner.exceptions import ConfigError
from actorlearner.settings import Section, settings_from_dict
from sweeps.keys import known_keys
from sweeps.overrides import SEARCHED_SECTIONS

if TYPE_CHECKING:
    from sweeps.space.dimension import Dimension
    from sweeps.space.space import SearchSpace


def check_proposals(space: SearchSpace) -> None:
    """Make the section for each choice and bound, alone and beside those of every other dimension of its section.

    Raises:
        ConfigError: a proposal breaks a rule of its section; names the keys of the space.
    """
    settings = settings_from_dict(space.base)
    sections: dict[str, Section] = {name: getattr(settings, name) for name in SEARCHED_SECTIONS}
    for values in _alone(space.dimensions):
        _try(space, sections, values)
    for one, other in itertools.combinations(space.dimensions, 2):
        if one.key.split(".")[0] == other.key.split(".")[0]:
            for left, right in itertools.product(extremes(one), extremes(other)):
                _try(space, sections, {one.key: left, other.key: right})


def extremes(dimension: Dimension) -> Sequence[Any]:
    """Return every choice of a categorical, and both bounds of a number."""
    leaf = dimension.leaf
    return leaf.choices if leaf.kind == "categorical" else tuple(dict.fromkeys((leaf.low, leaf.high)))


def _alone(dimensions: Sequence[Dimension]) -> Iterator[dict[str, Any]]:
    for dimension in dimensions:
        for value in extremes(dimension):
            yield {dimension.key: value}


def _try(space: SearchSpace, sections: Mapping[str, Section], values: Mapping[str, Any]) -> None:
    """Check one proposal; one that the conditions rule out passes, and so do free keys, which have no rules."""
    section = sections[next(iter(values)).split(".")[0]]
    keys = known_keys(sections["algorithm"].name)  # type: ignore[attr-defined]
    changes = {key.split(".")[1]: keys[key].check(value) for key, value in values.items() if key in keys}
    if not changes or not space.allows(values):
        return
    try:
        dataclasses.replace(section, **changes)
    except ConfigError as error:
        text = " with ".join(f"search_space.{key} = {value}" for key, value in values.items())
        raise ConfigError(f"{text}: {error}", key=next(iter(values)), value=dict(values)) from error
