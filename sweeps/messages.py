"""Says in one message what Hydra, OmegaConf and YAML report over several lines and in their own words."""

from __future__ import annotations

import difflib
import re

import yaml  # type: ignore[import-untyped]
from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

from actorlearner.exceptions import ConfigError
from sweeps.keys import known_keys, unknown_key_error

# Lines of Hydra's and OmegaConf's messages that help nobody.
NOISE = (
    "See http",
    "full_key:",
    "object_type=",
    "reference_type=",
    "Config search path:",
    "provider=",
    "Error merging",
)
# What people can cause by their configuration; everything else is a bug.
CONFIGURATION_ERRORS = (HydraException, OmegaConfBaseException, yaml.YAMLError, UserWarning)
# Hydra only warns, with the place in its own code, when a folder of hydra.searchpath does not exist.
MISSING_FOLDER = r"provider=hydra\.searchpath.*, path=(?P<path>.*) is not available"


def translate(error: Exception) -> ConfigError:
    """Return a ConfigError that says what ``error``, one of CONFIGURATION_ERRORS, means."""
    if isinstance(error, ConfigError):
        return error
    if isinstance(error, MissingConfigException):
        return _missing_config(error)
    folder = re.match(MISSING_FOLDER, str(error))
    if folder is not None:
        return ConfigError(f"hydra.searchpath names a folder that does not exist: {folder['path']}.")
    chain = _chain(error)
    inner = next((link for link in chain if isinstance(link, OmegaConfBaseException)), None)
    if inner is not None:
        return _omegaconf(inner, error)
    invalid = next((link for link in chain if isinstance(link, yaml.YAMLError)), None)
    if invalid is not None:
        return ConfigError(f"A configuration file is not valid YAML: {_one_line(str(invalid))}")
    return ConfigError(_one_line(str(error)))


def _missing_config(error: MissingConfigException) -> ConfigError:
    wanted = error.missing_cfg_file or ""
    if "/" not in wanted or not error.options:
        return ConfigError(_one_line(str(error)))
    group, option = wanted.rsplit("/", 1)
    near = difflib.get_close_matches(option, error.options, n=1, cutoff=0.6)
    cure = f"Did you mean {group}={near[0]}? " if near else ""
    return ConfigError(
        f"{group}={option} does not exist. {cure}Options of {group}: {', '.join(error.options)}.",
        key=group,
        value=option,
    )


def _omegaconf(inner: OmegaConfBaseException, outer: Exception) -> ConfigError:
    key = inner.full_key or str(inner.key or "")
    if isinstance(inner, MissingMandatoryValue):
        return ConfigError(f"{key} needs a value (it is ??? in the configuration): give it as {key}=...", key=key)
    if isinstance(inner, InterpolationResolutionError):
        return ConfigError(f"{key or 'A value'} refers to something that cannot be found: {_one_line(str(inner))}")
    if isinstance(inner, (ConfigKeyError, ConfigAttributeError)):
        return unknown_key_error(key)
    if isinstance(inner, ValidationError) and key in known_keys():
        received = re.match(r"Value '(?P<value>.*)' of type '\w+'|Invalid value '(?P<other>[^']*)'", str(inner))
        if received is not None:
            value = received["value"] if received["value"] is not None else received["other"]
            return _wrong_value(key, value)
    if "is incompatible with type hint 'float'" in str(inner):
        return ConfigError(f"{key} must hold numbers with a decimal point (0.0 instead of 0).", key=key)
    place = _one_line(str(outer)) or (key and f"{key}:")
    return ConfigError(" ".join(part for part in (place, _one_line(str(inner))) if part), key=key or None)


def _wrong_value(key: str, text: str) -> ConfigError:
    """Say the key's own rule; the value is only known as text here."""
    try:
        known_keys()[key].check(yaml.safe_load(text))
        known_keys()[key].check(text)
    except ConfigError as error:
        return error
    return ConfigError(f"{key} does not accept {text!r}.", key=key, value=text)


def _chain(error: BaseException) -> list[BaseException]:
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in links:
        links.append(link)
        link = link.__cause__ or link.__context__
    return links


def _one_line(text: str) -> str:
    """Join the lines that say something; links to Hydra's manual and dumps of node types do not."""
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line and not line.startswith(NOISE)]
    return " ".join(told)
