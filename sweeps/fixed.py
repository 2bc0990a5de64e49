"""A value given on the command line is meant: its key leaves the search space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SPACE = "search_space."


def remove_fixed(space: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a copy of the tree without the keys that overrides gave a plain value, and those keys.

    A key whose distribution the command line gives too (``search_space.<key>``) stays: then the value is only where
    the search starts.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from sweeps.keys import section_names

    groups = section_names()
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    spaces = [override.key_or_group for override in parsed if override.key_or_group.startswith(SPACE)]
    values: set[str] = set()
    for override in parsed:
        key = override.key_or_group
        if override.is_delete() or override.is_sweep_override() or key.startswith(("hydra", SPACE)):
            continue
        value = override.value()
        if isinstance(value, Mapping) or key not in groups:  # algorithm=impala chooses a file; it gives no key a value
            values.update(_leaves(key, value))
    removed = {key for key in values if not any(f"{name}.".startswith(f"{SPACE}{key}.") for name in spaces)}
    kept, fixed = _without(space, removed, "")
    return kept, tuple(fixed)


def _leaves(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, entry in value.items():
            yield from _leaves(f"{key}.{name}", entry)
    else:
        yield key


def _without(tree: Mapping[str, Any], removed: set[str], prefix: str) -> tuple[dict[str, Any], list[str]]:
    kept: dict[str, Any] = {}
    fixed: list[str] = []
    for name, entry in tree.items():
        key = f"{prefix}{name}"
        if key in removed:
            fixed.append(key)
        elif isinstance(entry, Mapping):
            kept[name], inner = _without(entry, removed, f"{key}.")
            fixed += inner
        else:
            kept[name] = entry
    return kept, fixed
