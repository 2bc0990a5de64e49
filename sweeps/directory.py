"""The sweep's one directory: what lies where, and how it is written."""

from __future__ import annotations

import itertools
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from actorlearner.exceptions import ConfigError

if TYPE_CHECKING:
    from sweeps.schema import SweepConfig


@dataclass(frozen=True)
class SweepDirectory:
    """Paths below ``sweep.dir``.

    Attributes:
        root: the directory itself, absolute.
    """

    root: Path

    @property
    def config(self) -> Path:
        """The composed configuration."""
        return self.root / "config.yaml"

    @property
    def log(self) -> Path:
        """Everything that Ray, Optuna, MLflow and this package log, with tracebacks."""
        return self.root / "sweep.log"

    @property
    def study(self) -> Path:
        """The Optuna study (SQLite)."""
        return self.root / "study.db"

    @property
    def trials(self) -> Path:
        """Tune's results and checkpoints, one folder per trial."""
        return self.root / "trials"

    @property
    def best(self) -> Path:
        """The best configuration as a Hydra experiment: ``--config-dir <root> +experiment=best``."""
        return self.root / "experiment" / "best.yaml"

    @property
    def summary(self) -> Path:
        """The outcome for scripts."""
        return self.root / "summary.json"

    def claim(self, config: str) -> bool:
        """Make the directory with ``config.yaml`` in it; False when another command has done so before."""
        self.root.mkdir(parents=True, exist_ok=True)
        try:
            with self.config.open("x", encoding="utf-8") as file:
                file.write(config)
        except FileExistsError:
            return False
        return True

    def write_text(self, path: Path, text: str) -> None:
        """Write a file whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)

    def write_json(self, path: Path, data: dict[str, Any]) -> None:
        """Write plain data as JSON; NaN is not allowed in it."""
        self.write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")

    def write_experiment(self, data: dict[str, Any], comment: str) -> None:
        """Write ``experiment/best.yaml``: a Hydra config of the global package that fixes every value."""
        body = OmegaConf.to_yaml(OmegaConf.create(data))
        self.write_text(self.best, f"# @package _global_\n# {comment}\n{body}")


def claim_directory(config: SweepConfig) -> SweepDirectory:
    """Make the directory of a sweep or a training, and write its configuration into it.

    Two commands of the same second generate the same name; the later one takes the next free number.

    Raises:
        ConfigError: another command has taken a directory that was named by hand.
    """
    name, root = str(config.sweep.name), config.directory
    generated = root.name == name and re.search(r"-\d{8}-\d{6}(-\d+)?$", name)
    for number in itertools.count(2):
        directory = SweepDirectory(config.directory)
        try:
            claimed = directory.claim(config.to_yaml())
        except OSError as error:
            raise ConfigError(
                f"sweep.dir={directory.root} cannot be made ({error.strerror}): choose another.",
                key="sweep.dir",
                value=str(directory.root),
            ) from None
        if claimed:
            return directory
        if not generated:
            raise ConfigError(
                f"sweep.dir must be new or empty, but another command has just taken {root}: choose another.",
                key="sweep.dir",
                value=str(root),
            )
        config.sweep.name = f"{name}-{number}"
        config.sweep.dir = str(root.with_name(config.sweep.name))
    raise AssertionError("itertools.count ended")
