"""Refuses to search a key that other keys switch off: the search would spend its trials on nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actorlearner.exceptions import ConfigError

if TYPE_CHECKING:
    from sweeps.space.dimension import Dimension

# Key -> the only state of another key in which it has an effect.
EFFECTIVE: dict[str, tuple[str, Any]] = {
    "algorithm.lr": ("algorithm.lr_schedule", None),
    "algorithm.entropy_coeff": ("algorithm.entropy_coeff_schedule", None),
    "algorithm.epsilon": ("algorithm.opt_type", "rmsprop"),
    "algorithm.decay": ("algorithm.opt_type", "rmsprop"),
    "algorithm.momentum": ("algorithm.opt_type", "rmsprop"),
    "algorithm.adam_epsilon": ("algorithm.opt_type", "adam"),
}


def check_effects(dimensions: Sequence[Dimension], base: Mapping[str, Any]) -> None:
    """Check that each dimension has an effect wherever it exists.

    Raises:
        ConfigError: another key, of the base or of the space, switches a dimension off.
    """
    searched = {dimension.key: dimension for dimension in dimensions}
    for dimension in dimensions:
        if dimension.key not in EFFECTIVE:
            continue
        switch, wanted = EFFECTIVE[dimension.key]
        if switch in dimension.when:
            states = dimension.when[switch]
        elif switch in searched:
            states = searched[switch].leaf.choices
        else:
            section, name = switch.split(".")
            states = (base[section].get(name),)
        if any(state != wanted for state in states):
            raise _no_effect(dimension.key, switch, wanted, is_searched=switch in searched)


def _no_effect(key: str, switch: str, wanted: Any, *, is_searched: bool) -> ConfigError:
    state = "null" if wanted is None else wanted
    removal = f"take the key out of the space with ~search_space.{key}"
    if is_searched:
        return ConfigError(
            f"{key} cannot be searched beside {switch}: it has an effect only where {switch} is {state}. Say so with "
            f"search_space.{key}={{low: ..., high: ..., when: {{{switch}: {state}}}}}, or {removal}.",
            key=key,
        )
    if wanted is None:
        return ConfigError(
            f"{key} cannot be searched while {switch} is set, which overrules it: set {switch}=null, or {removal}.",
            key=key,
        )
    return ConfigError(
        f"{key} cannot be searched while {switch} is not {state}, because it has no effect: set {switch}={state}, or "
        f"{removal}.",
        key=key,
    )
