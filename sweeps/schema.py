"""The sweep's typed configuration: schemas for Hydra's groups, and ``load``, the border where OmegaConf ends.

Light on purpose: no torch, Ray, Optuna or MLflow, because ``--help`` and every check of the command line read it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import DictConfig, OmegaConf

from actorlearner.algorithms.registry import algorithm_names, settings_class
from actorlearner.exceptions import ConfigError
from actorlearner.settings import (
    AlgorithmSettings,
    DebuggingSettings,
    EnvironmentSettings,
    ModelSettings,
    ResourceSettings,
    Section,
    Settings,
    section_from_dict,
    setting,
    settings_from_dict,
    to_plain,
    unknown_key,
)
from sweeps.fixed import remove_fixed
from sweeps.naming import default_name, resolve_directory
from sweeps.tracking.uri import redact, resolve_uri

ENGINE_SECTIONS = ("algorithm", "environment", "model", "resources")


class SamplerType(str, Enum):
    """How Optuna proposes configurations."""

    tpe = "tpe"
    random = "random"
    gp = "gp"
    qmc = "qmc"


class SchedulerType(str, Enum):
    """What stops trials early."""

    asha = "asha"
    none = "none"


class Mode(str, Enum):
    """Whether a larger or a smaller objective is better."""

    max = "max"
    min = "min"


@dataclass
class SearchSettings(Section):
    """How configurations are proposed, and how many."""

    section: ClassVar[str] = "search"

    sampler: SamplerType = setting(SamplerType.tpe, "How Optuna proposes configurations: tpe, random, gp or qmc.")
    num_trials: int = setting(16, "Number of trials.", ge=1)
    max_concurrent: int | None = setting(None, "Most trials at once; null: as many as fit the machine.", ge=1)
    default_first: bool = setting(
        True, "Whether trial 0 is the configuration as composed, if it lies inside the search space."
    )


@dataclass
class SchedulerSettings(Section):
    """When a trial that lags behind is stopped."""

    section: ClassVar[str] = "scheduler"

    type: SchedulerType = setting(SchedulerType.asha, "asha or none.")
    grace_fraction: float = setting(0.25, "Share of its budget that every trial gets.", gt=0, le=1)
    reduction_factor: float = setting(3.0, "Of this many trials one goes on at each rung.", gt=1)


@dataclass
class TrackingSettings(Section):
    """Where runs are tracked."""

    section: ClassVar[str] = "tracking"

    uri: str | None = setting(None, "MLflow tracking URI; null: sqlite:///<working directory>/outputs/mlflow.db.")
    experiment: str = setting("sweeps", "Name of the MLflow experiment.")
    enabled: bool = setting(True, "Whether anything is tracked.")


@dataclass
class ObjectiveSettings(Section):
    """Which number is optimized."""

    section: ClassVar[str] = "sweep.objective"

    metric: str = setting("episode_return_mean", "Key of the result that scores a trial.")
    mode: Mode = setting(Mode.max, "max or min.")


@dataclass
class BudgetSettings(Section):
    """How long a trial trains."""

    section: ClassVar[str] = "sweep.budget"

    env_steps_per_trial: int = setting(200_000, "Env steps after which a trial is complete.", ge=1)
    results_per_trial: int = setting(
        20, "Results per trial, where algorithm.min_sample_timesteps_per_iteration is 0.", ge=1
    )


@dataclass
class SweepSettings(Section):
    """The sweep as a whole."""

    section: ClassVar[str] = "sweep"

    name: str | None = setting(None, "Name of the sweep; null: algorithm, environment and time.")
    dir: str | None = setting(None, "Directory that holds everything; null: outputs/sweeps/<name>.")
    seed: int = setting(0, "Seed of the search and of every training.", ge=0, le=2**31 - 1)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    dry_run: bool = setting(False, "Show configuration, space, resources and samples; start nothing.")

    def check(self) -> None:
        """Give an explicit name the rules of a folder's name."""
        if self.name is not None and (not self.name.strip() or set(self.name) & set("/\\\0") or self.name[0] == "."):
            raise ConfigError(
                f"sweep.name must do as a folder's name (no slash, no leading dot, not empty), got {self.name!r}.",
                key="sweep.name",
                value=self.name,
            )


SECTIONS: dict[str, type[Section]] = {
    "environment": EnvironmentSettings,
    "model": ModelSettings,
    "resources": ResourceSettings,
    "search": SearchSettings,
    "scheduler": SchedulerSettings,
    "tracking": TrackingSettings,
    "sweep": SweepSettings,
}


@dataclass
class SweepConfig:
    """Everything that one sweep needs, checked; plain dataclasses that pickle.

    Attributes:
        search_space: tree that mirrors ``algorithm``, ``environment`` and ``model``; its leaves are distributions in
            Hydra's sweep grammar or mappings. ``sweeps.space.SearchSpace.from_config`` reads it.
        fixed: dotted keys that left the search space because the command line gave them a value.
    """

    algorithm: AlgorithmSettings
    environment: EnvironmentSettings
    model: ModelSettings
    resources: ResourceSettings
    search: SearchSettings
    search_space: dict[str, Any]
    scheduler: SchedulerSettings
    tracking: TrackingSettings
    sweep: SweepSettings
    fixed: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        """Return the absolute directory that holds everything of this sweep."""
        assert self.sweep.dir is not None
        return Path(self.sweep.dir)

    def engine_config(self) -> dict[str, Any]:
        """Return the engine's plain nested dict, as ``Settings.to_dict`` gives it; the seed is the sweep's."""
        debugging = DebuggingSettings(seed=self.sweep.seed)
        return Settings(self.algorithm, self.environment, self.model, self.resources, debugging).to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Return plain nested dicts in the order of the Hydra groups, for people and files: no password in the URI."""
        engine = self.engine_config()
        parts = {name: to_plain(dataclasses.asdict(getattr(self, name))) for name in SECTIONS if name not in engine}
        if self.tracking.uri is not None:
            parts["tracking"]["uri"] = redact(self.tracking.uri)
        return {
            **{name: engine[name] for name in ENGINE_SECTIONS},
            "search": parts["search"],
            "search_space": self.search_space,
            **{name: parts[name] for name in ("scheduler", "tracking", "sweep")},
        }

    def to_yaml(self) -> str:
        """Return the composed configuration as YAML."""
        return OmegaConf.to_yaml(OmegaConf.create(self.to_dict()))


def register_schemas() -> None:
    """Put every schema into Hydra's ConfigStore, under ``schema/``; may be called again."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for name in algorithm_names():
        store.store(group="schema", name=name, node=settings_class(name))
    for name, section in SECTIONS.items():
        store.store(group="schema", name=name, node=section)


def load(
    cfg: DictConfig, *, overrides: Sequence[str] = (), job_number: int | None = None, folder: str = "sweeps"
) -> SweepConfig:
    """Turn a composed configuration into a checked one; touches nothing on disk.

    Args:
        cfg: what Hydra composed, without its own ``hydra`` node.
        overrides: the command line's overrides; a plain value takes its key out of the search space.
        job_number: number of the job in a multirun; appended to an explicit ``sweep.name``, a folder inside an
            explicit ``sweep.dir``.
        folder: ``sweeps`` or ``training``, the folder under ``outputs`` for a ``sweep.dir`` of null.

    Raises:
        ConfigError: anything wrong; also an existing directory with something in it.
    """
    tree = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True, enum_to_str=True)
    assert isinstance(tree, dict)
    known = ["algorithm", "search_space", *SECTIONS]
    for name in tree:
        if name not in known:
            raise unknown_key(str(name), known)
    parts = {name: section_from_dict(section, _mapping(name, tree.get(name))) for name, section in SECTIONS.items()}
    engine = settings_from_dict({name: _mapping(name, tree.get(name)) for name in ENGINE_SECTIONS})
    space, fixed = remove_fixed(_mapping("search_space", tree.get("search_space")), overrides)
    config = SweepConfig(algorithm=engine.algorithm, search_space=space, fixed=fixed, **parts)  # type: ignore[arg-type]
    _resolve(config, job_number, folder)
    return config


def _resolve(config: SweepConfig, job_number: int | None, folder: str) -> None:
    """Replace every null that means "choose" by what is chosen, except in ``resources``."""
    sweep, algorithm, budget = config.sweep, config.algorithm, config.sweep.budget
    # Tune hands flat results to scheduler and searcher, with slashes between the names.
    sweep.objective.metric = sweep.objective.metric.replace(".", "/")
    if algorithm.min_sample_timesteps_per_iteration == 0:
        algorithm.min_sample_timesteps_per_iteration = math.ceil(budget.env_steps_per_trial / budget.results_per_trial)
    if job_number is not None:
        sweep.name = f"{sweep.name}-{job_number}" if sweep.name is not None else None
        sweep.dir = str(Path(sweep.dir) / str(job_number)) if sweep.dir is not None else None
    base = default_name(algorithm.name, config.environment.id)
    sweep.name, sweep.dir = resolve_directory(sweep.name, sweep.dir, base, folder)
    config.tracking.uri = resolve_uri(config.tracking.uri)


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a mapping of keys to values, got {value!r}.", key=name, value=value)
    return dict(value)
