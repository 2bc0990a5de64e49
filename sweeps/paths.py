"""Finds the Hydra groups: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path


def config_directory() -> Path:
    """Return the absolute path of ``conf/``.

    Raises:
        FileNotFoundError: neither place has it (a broken installation).
    """
    package = Path(__file__).resolve().parent
    for place in (package / "conf", package.parent / "conf"):
        if (place / "config.yaml").is_file():
            return place
    raise FileNotFoundError(f"No conf/config.yaml in {package} or {package.parent}: reinstall impala-sweeps.")
