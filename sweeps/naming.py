"""Names and directories of sweeps: unique by themselves, or as told and then refused when taken."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from actorlearner.exceptions import ConfigError


def short_environment_name(environment_id: str) -> str:
    """Return an id without namespace and version, in lower case: ``breakout`` for ``ALE/Breakout-v5``."""
    name = re.sub(r"-v\d+$", "", environment_id.rsplit("/", 1)[-1].rsplit(":", 1)[-1])
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "environment"


def default_name(algorithm: str, environment_id: str) -> str:
    """Return ``<algorithm>-<environment>-<YYYYmmdd-HHMMSS>``."""
    return f"{algorithm}-{short_environment_name(environment_id)}-{datetime.now():%Y%m%d-%H%M%S}"


def resolve_directory(name: str | None, directory: str | None, default: str, folder: str) -> tuple[str, str]:
    """Choose name and absolute directory.

    Args:
        name: an explicit name, or None for ``default`` with -2, -3, … appended until its directory is free.
        directory: an explicit directory, or None for ``outputs/<folder>/<name>`` under the working directory.
        default: the name to take when none is given.
        folder: folder under ``outputs``.

    Raises:
        ConfigError: the directory exists and is not empty, or is a file.
    """
    root = Path.cwd() / "outputs" / folder
    if directory is not None:
        place = (Path.cwd() / Path(directory).expanduser()).resolve()
        _require_free(place, "sweep.dir")
        return name or default, str(place)
    if name is not None:
        _require_free(root / name, "sweep.name")
        return name, str(root / name)
    unique, number = default, 1
    while (root / unique).exists():
        number += 1
        unique = f"{default}-{number}"
    return unique, str(root / unique)


def _require_free(place: Path, key: str) -> None:
    if place.is_dir() and not any(place.iterdir()):
        return
    if place.exists():
        raise ConfigError(
            f"{key} must name a directory that is new or empty, but {place} is taken. "
            f"Choose another {key}, or move the old directory away.",
            key=key,
            value=str(place),
        )
