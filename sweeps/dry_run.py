"""``sweep.dry_run=true``: shows what would run; starts nothing and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import optuna

from sweeps.preflight import Bundle, Preflight, preflight
from sweeps.schema import SweepConfig
from sweeps.space import SearchSpace

NUM_SAMPLES = 5


def show_sweep(config: SweepConfig) -> None:
    """Print configuration, search space, resources, budget and a few sampled configurations."""
    space = SearchSpace.from_config(config.search_space, config.engine_config())
    found = preflight(config)
    default = space.encode_default()
    parts = [
        ("Configuration", config.to_yaml().rstrip()),
        ("Search space", _space(space, config.fixed, config.search.default_first, default is not None)),
        ("Resources", _resources(found, config.search.max_concurrent)),
        ("Budget", _budget(config)),
        (f"{NUM_SAMPLES} sampled configurations", _samples(space, config.sweep.seed)),
    ]
    _print(parts)


def show_training(config: SweepConfig) -> None:
    """Print configuration, resources and budget of one training."""
    steps = config.sweep.budget.env_steps_per_trial
    _print(
        [
            ("Configuration", config.to_yaml().rstrip()),
            ("Resources", _reserved(preflight(config), "The training")),
            ("Budget", f"{steps:,} env steps"),
        ]
    )


def _print(parts: Sequence[tuple[str, str]]) -> None:
    print("\n\n".join(f"== {title} ==\n{text}" for title, text in parts))
    print("\nDry run: nothing was started or written.")


def _space(space: SearchSpace, fixed: Sequence[str], default_first: bool, default_inside: bool) -> str:
    header = ("name", "kind", "low", "high", "scale", "default", "only if")
    rows = space.describe()
    width = len(header) if any(row.condition for row in rows) else len(header) - 1
    text = format_table([header[:width], *(row[:width] for row in rows)])
    if fixed:
        text += f"\nFixed by the command line, so not searched: {', '.join(fixed)}."
    if not default_inside:
        text += "\nThe configuration as composed lies outside this space, so it is not tried."
    elif default_first:
        text += "\nTrial 0 is the configuration as composed (column default)."
    return text


def _resources(found: Preflight, max_concurrent: int | None) -> str:
    if found.concurrent is None:
        at_once = "known when the cluster (RAY_ADDRESS) is asked, at the start."
    else:
        limit = f", limited to {max_concurrent} by search.max_concurrent" if max_concurrent is not None else ""
        at_once = f"{found.concurrent} on this machine{limit}"
    return f"{_reserved(found, 'Each trial')}\nTrials at once: {at_once}"


def _reserved(found: Preflight, who: str) -> str:
    resolved = ", ".join(f"{name}={value}" for name, value in found.settings.to_dict()["resources"].items())
    bundles = " + ".join(_bundle(bundle) for bundle in found.bundles)
    return f"Resolved: {resolved}\n{who} reserves: {bundles}"


def _bundle(bundle: Bundle) -> str:
    return "{" + ", ".join(f"{amount:g} {name}" for name, amount in bundle.items()) + "}"


def _budget(config: SweepConfig) -> str:
    trials, steps = config.search.num_trials, config.sweep.budget.env_steps_per_trial
    per_result = config.algorithm.min_sample_timesteps_per_iteration
    lines = [f"{trials} trials of {steps:,} env steps: at most {trials * steps:,}, a result every {per_result:,}"]
    if config.scheduler.type.name != "none":
        grace = round(config.scheduler.grace_fraction * steps)
        lines.append(f"{config.scheduler.type.name} may stop a trial after {grace:,} env steps")
    return "\n".join(lines)


def _samples(space: SearchSpace, seed: int) -> str:
    """Draw independently; the search itself learns from its results."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    drawn = [space.suggest(study.ask()) for _ in range(NUM_SAMPLES)]
    names = [dimension.key for dimension in space.dimensions]
    return format_table([names, *([_short(values.get(name, "-")) for name in names] for values in drawn)])


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as left-aligned columns, two spaces apart."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
