"""From plain values to typed sections: how fields are declared, checked and converted; torch-free and Ray-free."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, TypeVar

from actorlearner.exceptions import ConfigError, UnknownKeyError


def setting(
    default: Any, help: str, *, ge: float | None = None, le: float | None = None, gt: float | None = None
) -> Any:
    """Declare one configuration field.

    Args:
        default: the default; lists and dicts are copied for each instance.
        help: one sentence with unit and range, shown to people.
        ge: smallest accepted value, included.
        le: largest accepted value, included.
        gt: bound that the value must exceed.

    Returns:
        A dataclass field whose metadata holds ``help`` and the bounds.
    """
    metadata = {"help": help, "ge": ge, "le": le, "gt": gt}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def range_rule(metadata: Mapping[str, Any]) -> str:
    """Say a field's range in words, for example ``between 0 and 1``; empty where there is none."""
    low, high, above = (_number(metadata.get(name)) for name in ("ge", "le", "gt"))
    if above is not None:
        return f"greater than {above}" + (f" and at most {high}" if high is not None else "")
    if low is not None and high is not None:
        return f"between {low} and {high}"
    if low is not None:
        return f"at least {low}"
    return f"at most {high}" if high is not None else ""


def _number(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


def check_range(key: str, value: Any, metadata: Mapping[str, Any]) -> None:
    """Raise ConfigError unless a number is finite and within the field's bounds; None and non-numbers pass."""
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float)):
        return
    low, high, above = metadata.get("ge"), metadata.get("le"), metadata.get("gt")
    outside = (
        not math.isfinite(value)
        or (low is not None and value < low)
        or (high is not None and value > high)
        or (above is not None and value <= above)
    )
    if outside:
        rule = range_rule(metadata) or "a finite number"
        raise ConfigError(f"{key} must be {rule}, got {value}.", key=key, value=value)


@dataclass
class Section:
    """Base of all sections: checks every field's range when it is made."""

    section: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Check the fields' ranges, then the section's own rules."""
        for field in dataclasses.fields(self):
            check_range(f"{self.section}.{field.name}", getattr(self, field.name), field.metadata)
        self.check()

    def check(self) -> None:
        """Check rules that ranges cannot say; overridden by sections that have some."""


SectionT = TypeVar("SectionT", bound=Section)


def section_from_dict(cls: type[SectionT], data: Mapping[str, Any]) -> SectionT:
    """Make one section from plain data merged over its defaults.

    Raises:
        UnknownKeyError: a key does not exist; names the closest one.
        ConfigError: a value has the wrong type or breaks its range.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    hints = field_types(cls)
    for name, value in data.items():
        if name not in fields:
            raise unknown_key(f"{cls.section}.{name}", [f"{cls.section}.{known}" for known in fields])
        values[name] = coerce(f"{cls.section}.{name}", value, hints[name])
    return cls(**values)


def unknown_key(key: str, known: Iterable[str]) -> UnknownKeyError:
    """Return the error for a key that does not exist, with the closest one that does."""
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    cure = f"did you mean {close[0]}?" if close else f"known keys: {', '.join(names)}."
    return UnknownKeyError(f"Unknown key {key}: {cure}", key=key)


def field_types(cls: type[Section]) -> dict[str, Any]:
    """Return the resolved type of each field."""
    return typing.get_type_hints(cls)


def coerce(key: str, value: Any, annotation: Any) -> Any:
    """Return ``value`` as the annotated type, or raise ConfigError that names key, value and rule.

    Integers become floats and whole floats become integers; enums are accepted by name. Texts never become numbers.
    """
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        inner = next(part for part in typing.get_args(annotation) if part is not type(None))
        return coerce(key, value, inner)
    if annotation is Any:
        return value
    if origin is list:
        if not isinstance(value, (list, tuple)):
            raise _type_error(key, value, "a list")
        (item,) = typing.get_args(annotation)
        return [coerce(f"{key}[{index}]", entry, item) for index, entry in enumerate(value)]
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _type_error(key, value, "a mapping")
        return dict(value)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _coerce_enum(key, value, annotation)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        if not isinstance(value, Mapping):
            raise _type_error(key, value, "a mapping")
        return section_from_dict(annotation, value)
    return _coerce_scalar(key, value, annotation)


def _coerce_enum(key: str, value: Any, annotation: type[Enum]) -> Enum:
    if isinstance(value, annotation):
        return value
    if isinstance(value, str) and value in annotation.__members__:
        return annotation[value]
    raise _type_error(key, value, f"one of {', '.join(annotation.__members__)}")


def _coerce_scalar(key: str, value: Any, annotation: type) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is float and is_number:
        return float(value)
    if annotation is int and is_number and float(value).is_integer():
        return int(value)
    if annotation is bool and isinstance(value, bool):
        return value
    if annotation is str and isinstance(value, str):
        return value
    names = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}
    raise _type_error(key, value, names[annotation])


def _type_error(key: str, value: Any, rule: str) -> ConfigError:
    return ConfigError(f"{key} must be {rule}, got {value!r}.", key=key, value=value)


def to_plain(value: Any) -> Any:
    """Return a value with enums as their names and containers as dicts and lists."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {name: to_plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(entry) for entry in value]
    return value
