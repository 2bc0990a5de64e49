"""The sweep's one directory: what lies where, and how it is written."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf


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

    def create(self) -> None:
        """Make the directory."""
        self.root.mkdir(parents=True, exist_ok=True)

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
