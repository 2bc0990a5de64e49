"""The typed configuration tree: one dataclass per section, with every default, unit and range.

Torch-free and Ray-free on purpose: ``sweeps.run --help`` and all configuration checks read it.
The sections mirror the Hydra groups of the same name. The fluent builder is in ``config.py``, how values
are checked and converted in ``parsing.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from actorlearner.exceptions import ConfigError
from actorlearner.parsing import Section as Section
from actorlearner.parsing import check_range as check_range
from actorlearner.parsing import coerce as coerce
from actorlearner.parsing import field_types as field_types
from actorlearner.parsing import section_from_dict as section_from_dict
from actorlearner.parsing import setting as setting
from actorlearner.parsing import to_plain as to_plain
from actorlearner.parsing import unknown_key as unknown_key


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
