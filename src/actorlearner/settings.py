"""The typed configuration tree: one dataclass per section, with every default, unit and range.

Torch-free and Ray-free on purpose: ``sweeps.run --help`` and all configuration checks read it.
The sections mirror the Hydra groups of the same name. The fluent builder is in ``config.py``.
"""

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


class Precision(str, Enum):
    """Arithmetic of the network's layers; log-probabilities, V-trace, losses and the optimizer stay float32."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"


class ModelType(str, Enum):
    """Network architecture; ``auto`` takes ``nature_cnn`` for images and ``mlp`` for everything else."""

    auto = "auto"
    mlp = "mlp"
    nature_cnn = "nature_cnn"


class Activation(str, Enum):
    """Non-linearity between hidden layers."""

    tanh = "tanh"
    relu = "relu"


class RewardClipping(str, Enum):
    """What the learner sees of a reward r; episode returns are always reported unclipped.

    ``clip``: r limited to [-1, 1]; ``sign``: sign(r); ``tanh``: 5 tanh(r / 5), times 0.3 where r is negative;
    ``soft_asymmetric``: 0.3 min(tanh r, 0) + 5 max(tanh r, 0) (spec: vtrace.md, "Reward clipping has modes").
    """

    none = "none"
    clip = "clip"
    sign = "sign"
    tanh = "tanh"
    soft_asymmetric = "soft_asymmetric"


class LossReduction(str, Enum):
    """How per-step losses become one number; learning rates do not carry over from one to the other."""

    mean = "mean"
    sum = "sum"


class OptimizerType(str, Enum):
    """The optimizer; ``decay``, ``momentum`` and ``epsilon`` belong to ``rmsprop``."""

    adam = "adam"
    rmsprop = "rmsprop"


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
    low, high, above = metadata.get("ge"), metadata.get("le"), metadata.get("gt")
    if above is not None:
        return f"greater than {above:g}" + (f" and at most {high:g}" if high is not None else "")
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}"
    if low is not None:
        return f"at least {low:g}"
    return f"at most {high:g}" if high is not None else ""


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


@dataclass
class EnvironmentSettings(Section):
    """What the agent acts in."""

    section: ClassVar[str] = "environment"

    id: str = setting("CartPole-v1", "Gymnasium id, such as CartPole-v1 or ALE/Pong-v5.")
    env_config: dict[str, Any] = setting({}, "Keyword arguments for the environment's constructor (free form).")
    reward_clipping: RewardClipping = setting(RewardClipping.none, "What the learner sees of a reward.")
    reward_scale: float = setting(
        1.0, "Factor on the rewards that the learner sees, after clipping; returns are reported without it.", gt=0
    )

    def check(self) -> None:
        """Require an id."""
        if not self.id.strip():
            raise ConfigError("environment.id must name an environment, got an empty text.", key="environment.id")


@dataclass
class ModelSettings(Section):
    """The policy and value network."""

    section: ClassVar[str] = "model"

    type: ModelType = setting(ModelType.auto, "Architecture: auto, mlp or nature_cnn.")
    hidden_sizes: list[int] = setting([64, 64], "Units of each hidden layer of the MLP.")
    activation: Activation = setting(Activation.tanh, "Non-linearity of the MLP: tanh or relu.")
    share_layers: bool = setting(False, "Whether policy and value share the MLP's hidden layers.")

    def check(self) -> None:
        """Require positive layer sizes."""
        if not self.hidden_sizes or any(size < 1 for size in self.hidden_sizes):
            raise ConfigError(
                f"model.hidden_sizes must be a list of at least one positive number, got {list(self.hidden_sizes)}.",
                key="model.hidden_sizes",
                value=self.hidden_sizes,
            )


@dataclass
class ResourceSettings(Section):
    """Processes, cores and arithmetic of one trial; null means "choose by machine and environment"."""

    section: ClassVar[str] = "resources"

    num_workers: int | None = setting(
        None, "Remote rollout workers; 0 samples inside the trial's own process (local mode).", ge=0, le=10_000
    )
    num_envs_per_worker: int | None = setting(None, "Sub-environments per worker.", ge=1, le=100_000)
    num_cpus_for_driver: float | None = setting(
        None, "CPUs of the trial's own process; in local mode 2 or more overlap sampling with learning.", gt=0
    )
    num_cpus_per_worker: float = setting(1.0, "CPUs of each remote rollout worker.", gt=0)
    num_gpus: float | None = setting(None, "GPUs of the learner.", ge=0)
    precision: Precision = setting(Precision.auto, "Arithmetic of the layers: auto, float32 or bfloat16.")
    placement_strategy: str = setting("PACK", "Ray's placement strategy: PACK, SPREAD, STRICT_PACK, STRICT_SPREAD.")

    def check(self) -> None:
        """Require a placement strategy that Ray knows."""
        known = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
        if self.placement_strategy not in known:
            raise ConfigError(
                f"resources.placement_strategy must be one of {', '.join(known)}, got {self.placement_strategy!r}.",
                key="resources.placement_strategy",
                value=self.placement_strategy,
            )


@dataclass
class DebuggingSettings(Section):
    """Seed and log level of one training."""

    section: ClassVar[str] = "debugging"

    seed: int = setting(
        0,
        "Seed of Python, numpy, torch and the environments; each worker's own is a hash of it and the worker's index.",
        ge=0,
        le=2**31 - 1,
    )
    log_level: str = setting("WARNING", "Level of the logger 'actorlearner' only.")


@dataclass
class AlgorithmSettings(Section):
    """What every algorithm has; each algorithm adds its own keys in its own folder."""

    section: ClassVar[str] = "algorithm"

    name: str = setting("", "The algorithm's name in the registry.")
    gamma: float = setting(0.99, "Discount per env step.", ge=0, le=1)
    lr: float = setting(5e-4, "Learning rate.", gt=0, le=10)
    grad_clip: float | None = setting(40.0, "Largest global gradient norm; null clips nothing.", gt=0)
    rollout_fragment_length: int = setting(50, "Env steps per sub-environment in one fragment.", ge=1)
    train_batch_size: int = setting(
        500, "Fewest env steps in one batch; fragments are joined up to it (reset and dropped steps count here).", ge=1
    )
    min_time_s_per_iteration: float = setting(0.0, "An iteration lasts at least this many seconds.", ge=0)
    min_sample_timesteps_per_iteration: int = setting(0, "An iteration samples at least this many env steps.", ge=0)
    min_train_timesteps_per_iteration: int = setting(0, "An iteration trains on at least this many env steps.", ge=0)
    metrics_num_episodes_for_smoothing: int = setting(100, "Episodes in the window of the reported means.", ge=1)


@dataclass
class Settings:
    """Everything that one training needs; made by ``settings_from_dict`` and treated as read-only."""

    algorithm: AlgorithmSettings
    environment: EnvironmentSettings
    model: ModelSettings
    resources: ResourceSettings
    debugging: DebuggingSettings

    def to_dict(self) -> dict[str, Any]:
        """Return plain nested dicts (enums as their names), ready for JSON, YAML and ``settings_from_dict``."""
        plain = to_plain(dataclasses.asdict(self))
        assert isinstance(plain, dict)
        return plain


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


def settings_from_dict(data: Mapping[str, Any]) -> Settings:
    """Make the whole tree from a partial nested dict; ``algorithm.name`` selects the algorithm (default impala)."""
    from actorlearner.algorithms.registry import settings_class

    known = [field.name for field in dataclasses.fields(Settings)]
    for name, part in data.items():
        if name not in known:
            raise unknown_key(name, known)
        if not isinstance(part, Mapping):
            raise ConfigError(f"{name} must be a mapping of keys to values, got {part!r}.", key=name, value=part)
    algorithm = dict(data.get("algorithm", {}))
    return Settings(
        algorithm=section_from_dict(settings_class(algorithm.get("name", "impala")), algorithm),
        environment=section_from_dict(EnvironmentSettings, data.get("environment", {})),
        model=section_from_dict(ModelSettings, data.get("model", {})),
        resources=section_from_dict(ResourceSettings, data.get("resources", {})),
        debugging=section_from_dict(DebuggingSettings, data.get("debugging", {})),
    )


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
