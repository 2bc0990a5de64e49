"""Every dotted key of the configuration with its type and range, and what a mistyped one may have meant."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from actorlearner.algorithms.registry import algorithm_names, settings_class
from actorlearner.exceptions import UnknownKeyError
from actorlearner.settings import Section, check_range, coerce, field_types
from sweeps.schema import SECTIONS

# Trees whose keys are free: any key may be added.
FREE_TREES = ("search_space", "environment.env_config")
# More names than this are not listed in a message.
FEW = 12
# What other tools call it; the closest text alone would not find these.
SYNONYMS = {
    "learning_rate": "algorithm.lr",
    "discount": "algorithm.gamma",
    "batch_size": "algorithm.train_batch_size",
    "entropy_cost": "algorithm.entropy_coeff",
    "ent_coef": "algorithm.entropy_coeff",
    "vf_coef": "algorithm.vf_loss_coeff",
    "max_grad_norm": "algorithm.grad_clip",
    "n_steps": "algorithm.rollout_fragment_length",
    "env": "environment",
    "env_id": "environment.id",
    "num_envs": "resources.num_envs_per_worker",
    "n_trials": "search.num_trials",
    "num_samples": "search.num_trials",
    "trials": "search.num_trials",
    "total_timesteps": "sweep.budget.env_steps_per_trial",
    "num_env_steps": "sweep.budget.env_steps_per_trial",
    "metric": "sweep.objective.metric",
    "mode": "sweep.objective.mode",
    "output_dir": "sweep.dir",
}


@dataclass(frozen=True)
class Key:
    """One configuration field: its dotted name, type, default and metadata (help and bounds)."""

    name: str
    annotation: Any
    default: Any
    metadata: Mapping[str, Any]

    def check(self, value: Any, name: str | None = None) -> Any:
        """Return ``value`` as this field's type; ConfigError names ``name`` (default: the key), value and rule."""
        checked = coerce(name or self.name, value, self.annotation)
        check_range(name or self.name, checked, self.metadata)
        return checked

    @property
    def is_integer(self) -> bool:
        """Whether the field holds whole numbers."""
        return self.annotation in (int, int | None)

    @property
    def is_number(self) -> bool:
        """Whether the field holds numbers."""
        return self.is_integer or self.annotation in (float, float | None)


@cache
def known_keys(algorithm: str | None = None) -> Mapping[str, Key]:
    """Return all keys by dotted name; with None the union of all algorithms' keys."""
    keys: dict[str, Key] = {}
    for name in [algorithm] if algorithm is not None else algorithm_names():
        keys.update(_section_keys(settings_class(name)))
    for section in SECTIONS.values():
        keys.update(_section_keys(section))
    return keys


def _section_keys(section: type[Section]) -> dict[str, Key]:
    keys: dict[str, Key] = {}
    types = field_types(section)
    for field in dataclasses.fields(section):
        annotation = types[field.name]
        if isinstance(annotation, type) and issubclass(annotation, Section):
            keys.update(_section_keys(annotation))
            continue
        factory = field.default_factory
        default = field.default if factory is dataclasses.MISSING else factory()
        name = f"{section.section}.{field.name}"
        keys[name] = Key(name, annotation, default, field.metadata)
    return keys


def section_names() -> set[str]:
    """Return the dotted names that hold keys themselves, such as ``sweep`` and ``sweep.budget``."""
    names = {"search_space"}
    for key in known_keys():
        parts = key.split(".")
        names.update(".".join(parts[:depth]) for depth in range(1, len(parts)))
    return names


def is_free(key: str) -> bool:
    """Whether a key lies in a tree whose keys are free."""
    return any(key.startswith(f"{tree}.") for tree in FREE_TREES)


def closest(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that a mistyped one most likely means.

    Tried in turn: the same last part elsewhere, a near miss of a last part (synonyms included), a near miss of the
    whole key.
    """
    names = sorted(set(known))
    leaf = key.rsplit(".", 1)[-1]
    leaves: dict[str, str] = {synonym: name for synonym, name in SYNONYMS.items() if name in names}
    for name in names:  # a leaf of the same section wins over one from elsewhere
        own = name.rsplit(".", 1)[-1]
        if own not in leaves or name.rsplit(".", 1)[0] == key.rsplit(".", 1)[0]:
            leaves[own] = name
    for cutoff in (1.0, 0.75):
        near = difflib.get_close_matches(leaf, leaves, n=1, cutoff=cutoff)
        if near and not key.startswith(f"{leaves[near[0]]}."):
            return leaves[near[0]]
    candidates = difflib.get_close_matches(key, [name for name in names if "." in name], n=1, cutoff=0.85)
    return candidates[0] if candidates else None


def unknown_key_error(key: str, known: Iterable[str] | None = None, *, where: str = "") -> UnknownKeyError:
    """Return the error for a key that does not exist.

    Args:
        key: the dotted key.
        known: the keys to suggest from; default all of the configuration.
        where: text that follows the key, for example ``" in search_space"``.
    """
    names = set(known) if known is not None else {*known_keys(), *section_names()}
    guess = closest(key, names)
    siblings = sorted(name for name in names if name.rpartition(".")[0] == key.rpartition(".")[0])
    if guess is not None:
        cure = f"did you mean {guess}?"
    elif 0 < len(siblings) <= FEW:
        cure = f"known are {', '.join(siblings)}."
    else:
        cure = f"--cfg {'hydra' if key.startswith('hydra.') else 'job'} shows every key."
    return UnknownKeyError(f"Unknown key {key}{where}: {cure}", key=key)
