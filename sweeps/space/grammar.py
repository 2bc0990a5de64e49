"""Reads one leaf of the search space: Hydra's sweep grammar or a mapping, checked against the field it varies."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, QuotedString, RangeSweep
from hydra.errors import HydraException

from actorlearner.exceptions import ConfigError
from sweeps.keys import Key

MAPPING_KEYS = ("type", "low", "high", "log", "step", "choices", "scale", "when")
TYPES = ("float", "int", "categorical")
SCALES = ("one_minus", "power_of_two")
_ORDERED = re.compile(r"\s*(tag\s*\([^()]*,\s*)?(sort|shuffle)\s*\(")
FORMS = "interval(low,high), tag(log,interval(low,high)), range(low,high,step), choice(a,b) or a mapping"


@dataclass(frozen=True)
class Leaf:
    """One distribution as written, with every value of the field's own type; bounds are included.

    Attributes:
        kind: float, int or categorical.
        low: lower bound of a number.
        high: upper bound of a number.
        log: whether numbers are drawn on a logarithmic scale.
        step: distance between numbers, or None.
        choices: the options of a categorical.
        scale: None, ``one_minus`` or ``power_of_two``.
        when: dotted key -> values for which this dimension exists.
    """

    kind: str
    low: float = 0
    high: float = 0
    log: bool = False
    step: float | None = None
    choices: tuple[Any, ...] = ()
    scale: str | None = None
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def read_leaf(key: str, written: Any, target: Key | None) -> Leaf:
    """Read one leaf.

    Args:
        key: dotted key that is varied.
        written: a text in Hydra's sweep grammar, or a mapping with some of MAPPING_KEYS.
        target: the field, or None in a free tree, where nothing is known about the value.

    Raises:
        ConfigError: not a distribution, or one that the field does not allow.
    """
    spec = _from_text(key, written) if isinstance(written, str) else written
    if not isinstance(spec, Mapping):
        raise _not_a_distribution(key, written)
    _check_names(key, spec)
    if "choices" in spec:
        return _categorical(key, spec, target)
    return _numeric(key, spec, target)


def _from_text(key: str, text: str) -> dict[str, Any]:
    """Translate Hydra's grammar into the mapping form."""
    try:
        value = OverridesParser.create().parse_override(f"key={text}").value()
    except HydraException as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"search_space.{key} cannot be read: {text!r} ({reason}).", key=key, value=text) from error
    if not isinstance(value, (ChoiceSweep, RangeSweep, IntervalSweep)):
        raise _not_a_distribution(key, text)
    unknown = value.tags - {"log"}
    if unknown:
        raise ConfigError(f"search_space.{key}: the only tag is log, got {', '.join(sorted(unknown))}.", key=key)
    _check_order(key, text, value)
    if isinstance(value, ChoiceSweep):
        return {"choices": [_unquote(entry) for entry in value.list]}
    if isinstance(value, RangeSweep):
        assert value.start is not None
        assert value.stop is not None
        return {"low": value.start, "high": _reachable(value.start, value.stop, value.step), "step": value.step}
    return {"low": value.start, "high": value.end, "log": "log" in value.tags}


def _check_order(key: str, text: str, value: ChoiceSweep | RangeSweep | IntervalSweep) -> None:
    """Refuse what Hydra's grammar takes and a search has no use for, rather than dropping it."""
    if value.tags and not isinstance(value, IntervalSweep):
        raise ConfigError(
            f"search_space.{key}: tag(log, ...) is for interval(low,high) only, got {text!r}; choice and range have "
            "no scale.",
            key=key,
            value=text,
        )
    # Hydra sorts while it reads, so only the text still says that it did.
    if getattr(value, "shuffle", False) or _ORDERED.match(text):
        raise ConfigError(
            f"search_space.{key}: values are proposed in no given order, so shuffle and sort mean nothing, got "
            f"{text!r}; write the distribution alone.",
            key=key,
            value=text,
        )


def _unquote(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_unquote(entry) for entry in value]
    return value


def _reachable(low: float, high: float, step: float) -> float:
    """Return the last number of a range that is not above ``high``."""
    if step <= 0 or high < low:
        return high
    start, width = Decimal(str(low)), Decimal(str(step))
    last = start + (Decimal(str(high)) - start) // width * width
    return int(last) if all(isinstance(part, int) for part in (low, high, step)) else float(last)


def _check_names(key: str, spec: Mapping[str, Any]) -> None:
    for name in spec:
        if name not in MAPPING_KEYS:
            raise ConfigError(
                f"search_space.{key} has an unknown entry {name!r}; known are {', '.join(MAPPING_KEYS)}.", key=key
            )
    for name, known in (("type", TYPES), ("scale", SCALES)):
        if spec.get(name) is not None and spec[name] not in known:
            raise ConfigError(
                f"search_space.{key}.{name} must be one of {', '.join(known)}, got {spec[name]!r}.", key=key
            )
    if "choices" in spec and any(name in spec for name in ("low", "high", "log", "step", "scale")):
        raise ConfigError(f"search_space.{key} has both choices and bounds; keep one of them.", key=key)


def _categorical(key: str, spec: Mapping[str, Any], target: Key | None) -> Leaf:
    choices = spec["choices"]
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not choices:
        raise ConfigError(f"search_space.{key}.choices must be a list of at least one value, got {choices!r}.", key=key)
    if spec.get("type") not in (None, "categorical"):
        raise ConfigError(f"search_space.{key}: choices need type categorical, got {spec['type']!r}.", key=key)
    if target is not None:
        choices = [to_field(key, value, target) for value in choices]
    if any(choices.count(value) > 1 for value in choices):
        raise ConfigError(f"search_space.{key} offers a value twice: {list(choices)}.", key=key)
    return Leaf("categorical", choices=tuple(choices), when=_conditions(key, spec))


def _numeric(key: str, spec: Mapping[str, Any], target: Key | None) -> Leaf:
    if target is not None and not target.is_number:
        raise ConfigError(
            f"search_space.{key}: {key} is not a number, so it has no bounds; search it with choice(a,b).", key=key
        )
    low, high = (_bound(key, spec, name, target) for name in ("low", "high"))
    kind = _kind(key, spec, target, low, high)
    if kind == "int" and not (float(low).is_integer() and float(high).is_integer()):
        raise ConfigError(f"search_space.{key}: type int needs whole bounds, got {low:g} and {high:g}.", key=key)
    log, step, scale = _flag(key, spec, "log"), spec.get("step"), spec.get("scale")
    if low > high:
        raise ConfigError(
            f"search_space.{key}: the lower bound must not be above the upper one, got {low:g} and {high:g}; "
            "swap them.",
            key=key,
        )
    _check_scale(key, low, high, log=log, step=step, scale=scale, kind=kind)
    if step is not None:
        step = _check_step(key, low, high, step, kind)
    return Leaf(kind, low, high, log, step, scale=scale, when=_conditions(key, spec))


def _bound(key: str, spec: Mapping[str, Any], name: str, target: Key | None) -> float:
    value = spec.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"search_space.{key} needs a number as {name} bound, got {value!r}. Forms: {FORMS}.", key=key)
    return value if target is None else to_field(key, value, target)


def to_field(key: str, value: Any, target: Key) -> Any:
    """Return a value of the space as the field's type (enums by name); ConfigError names the space's key."""
    from actorlearner.settings import to_plain

    return to_plain(target.check(value, f"search_space.{key}: every value of {key}"))


def _kind(key: str, spec: Mapping[str, Any], target: Key | None, low: float, high: float) -> str:
    written = spec.get("type")
    if written == "categorical":
        raise ConfigError(f"search_space.{key}: type categorical needs choices.", key=key)
    if target is None:
        return written or ("int" if isinstance(low, int) and isinstance(high, int) else "float")
    kind = "int" if target.is_integer else "float"
    if written == "float" and kind == "int":
        raise ConfigError(f"search_space.{key}: {key} takes whole numbers; write type int.", key=key)
    return written or kind


def _flag(key: str, spec: Mapping[str, Any], name: str) -> bool:
    value = spec.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"search_space.{key}.{name} must be true or false, got {value!r}.", key=key)
    return value


def _check_scale(key: str, low: float, high: float, *, log: bool, step: Any, scale: str | None, kind: str) -> None:
    if step is not None and (log or scale is not None):
        raise ConfigError(f"search_space.{key}: a step goes with neither log nor scale; drop one.", key=key)
    if log and scale is not None:
        raise ConfigError(f"search_space.{key}: scale {scale} is logarithmic already; drop log.", key=key)
    if log and low <= 0:
        raise ConfigError(f"search_space.{key}: a logarithmic scale needs bounds above 0, got {low:g}.", key=key)
    if scale == "one_minus" and (kind != "float" or high >= 1):
        raise ConfigError(
            f"search_space.{key}: scale one_minus is for numbers below 1, got the upper bound {high:g}.", key=key
        )
    if scale == "power_of_two" and (kind != "int" or not all(_is_power_of_two(value) for value in (low, high))):
        raise ConfigError(
            f"search_space.{key}: scale power_of_two needs powers of two as bounds, got {low:g} and {high:g}.", key=key
        )


def _is_power_of_two(value: float) -> bool:
    return value >= 1 and math.log2(value).is_integer()


def _check_step(key: str, low: float, high: float, step: Any, kind: str) -> float:
    if isinstance(step, bool) or not isinstance(step, (int, float)) or step <= 0:
        raise ConfigError(f"search_space.{key}: the step must be above 0, got {step!r}.", key=key)
    if kind == "int" and not float(step).is_integer():
        raise ConfigError(f"search_space.{key}: the step must be a whole number, got {step}.", key=key)
    last = _reachable(low, high, step)
    if last != high:
        raise ConfigError(
            f"search_space.{key}: high - low must be a multiple of the step {step:g}; "
            f"the last value below {high:g} is {last:g}.",
            key=key,
        )
    return int(step) if kind == "int" else float(step)


def _conditions(key: str, spec: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Read ``when``; its keys and values are checked by the whole space, which knows the other dimensions."""
    when = spec.get("when") or {}
    if not isinstance(when, Mapping):
        raise ConfigError(f"search_space.{key}.when must map keys to values, got {when!r}.", key=key)
    return {str(name): tuple(value) if isinstance(value, (list, tuple)) else (value,) for name, value in when.items()}


def _not_a_distribution(key: str, written: Any) -> ConfigError:
    return ConfigError(
        f"search_space.{key} must be a distribution: {FORMS}; got {written!r}. To fix the value write {key}={written}.",
        key=key,
        value=written,
    )
