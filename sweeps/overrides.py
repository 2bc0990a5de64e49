"""Rewrites the command line before Hydra reads it, so that what people write is what they get.

A distribution in place of a value becomes a dimension of the search space, ``experiment=`` gets its plus sign, free
trees accept new keys, ``1e6`` is a whole number. Single values are checked here, where their text is known.
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString, ValueType
from hydra.errors import HydraException

from actorlearner.exceptions import ConfigError
from sweeps.keys import Key, is_free, known_keys, section_names, unknown_key_error

SEARCHED_SECTIONS = ("algorithm", "environment", "model")
# These decide what a sweep is about; they cannot differ between its trials.
NOT_SEARCHED = ("algorithm.name", "environment.id")


@dataclass(frozen=True)
class CommandLine:
    """What the rewriting needs to know.

    Attributes:
        multirun: whether ``-m`` was given, so that plain comma lists make Hydra's grid.
        custom_groups: whether the person brings own config folders, whose groups are not known here.
        searches: whether the command has a search at all.
    """

    multirun: bool = False
    custom_groups: bool = False
    searches: bool = True


def rewrite(overrides: Sequence[str], line: CommandLine) -> list[str]:
    """Return the overrides as Hydra should see them.

    Raises:
        ConfigError: malformed text, an unknown key, a value that breaks its key's type or range.
    """
    parsed = [parse(text) for text in overrides]
    rewritten = [_rewrite(override, line) for override in parsed]
    _refuse_overruled(parsed)
    if not line.searches:
        _refuse_search(overrides, rewritten)
    return rewritten


def _refuse_overruled(overrides: Sequence[Override]) -> None:
    """Refuse a plain value beside the schedule that overrules it: one of the two is not meant."""
    given = {each.key_or_group: each for each in overrides if not each.is_delete() and not each.is_sweep_override()}
    for key, override in given.items():
        schedule = given.get(f"{key}_schedule")
        if schedule is not None and schedule.value() is not None:
            raise ConfigError(
                f"{override.input_line} has no effect beside {schedule.input_line}, which overrules it; keep one.",
                key=key,
            )


def _refuse_search(overrides: Sequence[str], rewritten: Sequence[str]) -> None:
    """Refuse a search space where nothing would search it."""
    for text, result in zip(overrides, rewritten, strict=True):
        if re.match(r"[+~]*search_space\b", result):
            raise ConfigError(
                f"{text}: sweeps.train trains one configuration and has no search; give a plain value, or search with "
                "python -m sweeps.run.",
                key="search_space",
            )


def grid(overrides: Sequence[str]) -> list[list[str]]:
    """Return each job's overrides of a multirun, in Hydra's order; empty where a glob makes them unknown here."""
    choices: list[list[str]] = []
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        if override.value_type == ValueType.GLOB_CHOICE_SWEEP or override.is_interval_sweep():
            return []
        if override.is_sweep_override():
            key = override.get_key_element()
            choices.append([f"{key}={value}" for value in override.sweep_string_iterator()])
        else:
            choices.append([str(override.input_line)])
    return [list(job) for job in itertools.product(*choices)]


def parse(text: str) -> Override:
    """Parse one override.

    Raises:
        ConfigError: malformed; names the text and the place.
    """
    try:
        return OverridesParser.create().parse_overrides([text])[0]
    except HydraException as error:
        if "=" not in text:
            raise ConfigError(_missing_equals(text)) from error
        reason = str(error).splitlines()[0].removeprefix(f"Error parsing override '{text}'").strip()
        if not reason or "Exception" in reason:
            reason = "the text after = is not a value"
        raise ConfigError(
            f"Cannot read {text!r}: {reason}. Check brackets and commas; "
            "a text with special characters needs quotes of its own: key='\"text\"'."
        ) from error


def _missing_equals(text: str) -> str:
    keys = {*known_keys(), *section_names()}
    near = difflib.get_close_matches(text, sorted(keys), n=1, cutoff=0.8)
    example = f"{near[0]}=VALUE" if near else "search.num_trials=4"
    return f"Cannot read {text!r}: settings are written key=value, for example {example}; --help shows more."


def _rewrite(override: Override, line: CommandLine) -> str:
    key, text = override.key_or_group, str(override.input_line)
    if key.startswith(("hydra.", "hydra/")) or "/" in key or override.package is not None:
        return text
    if key == "experiment" or key in section_names():
        return _group(override, text, line)
    if override.is_delete():
        return _deletion(key, text)
    if key.startswith("search_space."):
        return f"++{key}={_space_value(override)}"
    if override.is_sweep_override() and _is_dimension(override, line):
        _check_searchable(key)
        return f"++search_space.{key}={_space_value(override)}"
    return _value(override, line)


def _deletion(key: str, text: str) -> str:
    if key in known_keys():
        raise ConfigError(
            f"{text}: a key cannot be removed. ~search_space.{key} takes it out of the search; {key}=VALUE sets it.",
            key=key,
        )
    return text


def _group(override: Override, text: str, line: CommandLine) -> str:
    """Handle ``group=option``; ``experiment`` is not in the defaults list and so needs a plus sign."""
    if override.is_sweep_override() and not (line.multirun and override.is_choice_sweep()):
        raise ConfigError(
            f"{text}: a group cannot be searched inside one sweep; -m {override.key_or_group}=A,B runs one sweep each.",
            key=override.key_or_group,
        )
    if override.key_or_group == "experiment" and not text.startswith(("+", "~")):
        return f"+{text}"
    return text


def _is_dimension(override: Override, line: CommandLine) -> bool:
    if override.value_type in (ValueType.SIMPLE_CHOICE_SWEEP, ValueType.GLOB_CHOICE_SWEEP):
        if not line.multirun:
            raise ConfigError(
                f"{override.input_line} gives several values: add -m for one sweep per value, "
                f"or search over them with '{override.key_or_group}=choice({override.get_value_string()})'.",
                key=override.key_or_group,
            )
        return False
    return not line.multirun or override.key_or_group.split(".")[0] in SEARCHED_SECTIONS


def _check_searchable(key: str) -> None:
    if key.split(".")[0] not in SEARCHED_SECTIONS and key in known_keys():
        raise ConfigError(
            f"{key} cannot be searched: a search space holds keys of {', '.join(SEARCHED_SECTIONS)}. "
            f"-m {key}=A,B runs one sweep per value.",
            key=key,
        )


def _space_value(override: Override) -> str:
    """Return the part after = so that Hydra takes a distribution as a text."""
    text = override.get_value_string()
    return QuotedString(text, quote=Quote.single).with_quotes() if override.is_sweep_override() else text


def _value(override: Override, line: CommandLine) -> str:
    """Check a plain value, or each value of a grid, against its key."""
    key, text = override.key_or_group, str(override.input_line)
    if is_free(key):
        return f"++{key}={override.get_value_string()}"
    known = known_keys().get(key)
    if known is None:
        if "." not in key and (line.custom_groups or override.is_add()):
            return text
        raise unknown_key_error(key)
    if not override.is_sweep_override():
        return f"{key}={_checked(known, override.value(), override.get_value_string())}"
    if override.value_type == ValueType.SIMPLE_CHOICE_SWEEP:
        pairs = zip(override.sweep_iterator(), override.sweep_string_iterator(), strict=True)
        return f"{key}={','.join(_checked(known, value, written) for value, written in pairs)}"
    return text


def _checked(key: Key, value: Any, text: str) -> str:
    value = value.text if isinstance(value, QuotedString) else value
    if isinstance(value, str) and "${" in value:  # an interpolation: its value is known after composition
        return text
    checked = key.check(value)
    if key.is_integer and checked is not None:  # 1e6 is written as the whole number it is
        return str(checked)
    # OmegaConf refuses whole numbers inside a list of floats.
    return json.dumps(checked) if isinstance(checked, list) and checked != [] else text
