"""The lines around a sweep: what is about to run, and what to type next."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from sweeps.directory import SweepDirectory
from sweeps.records import SweepRecords

if TYPE_CHECKING:
    from sweeps.runner import Plan
    from sweeps.schema import SweepConfig


# Lines in a file or a pipe are not folded.
PLAIN_WIDTH = 200


def make_console() -> Console:
    """Return the console of a command: as wide as the terminal, and wide where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def print_head(console: Console, config: SweepConfig, plan: Plan) -> None:
    """Say what is searched, with which budget, and where everything goes."""
    settings, budget = plan.found.settings, config.sweep.budget.env_steps_per_trial
    resources = settings.resources
    workers = f"{resources.num_workers} rollout workers" if resources.num_workers else "local mode"
    lines = (
        ("sweep", str(config.sweep.name)),
        ("trains", f"{settings.algorithm.name} on {settings.environment.id}"),
        ("searches", ", ".join(dimension.key.rpartition(".")[2] for dimension in plan.space.dimensions)),
        ("budget", f"{config.search.num_trials} trials of {budget:,} env steps, {plan.concurrency} at a time"),
        ("trial", f"{workers}, {_cpus(plan)}"),
        ("directory", shown_path(config.directory)),
    )
    for label, text in lines:
        console.print(f"[dim]{label:<10}[/dim] {text}", highlight=False, soft_wrap=True)
    console.print()


def print_next_steps(console: Console, config: SweepConfig, directory: SweepDirectory, records: SweepRecords) -> None:
    """Print the paths and the commands that people type next."""
    root = shown_path(directory.root)
    best = records.best()
    rows = [("log", shown_path(directory.log)), ("study", shown_path(directory.study))]
    if best is not None:
        rows.append(("best", shown_path(directory.best)))
        if best.checkpoint:
            rows.append(("policy", shown_path(Path(best.checkpoint))))
        rows.append(
            ("train it", f"{python_command()} -m sweeps.train --config-dir {shlex.quote(root)} +experiment=best")
        )
    if config.tracking.enabled:
        rows.append(("look at it", f"{python_command()} -m sweeps.ui{_uri_argument(config)}"))
    for label, text in rows:
        console.print(f"[dim]{label:<10}[/dim] {text}", highlight=False, soft_wrap=True)


def python_command() -> str:
    """Return how people start this interpreter: ``python`` where that is it, else its path."""
    found = shutil.which("python")
    # The folder decides: virtual environments link to one and the same interpreter.
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "python"
    return shlex.quote(shown_path(Path(sys.executable)))


def shown_path(path: Path) -> str:
    """Return a path as people type it: relative where it lies below the working directory."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _cpus(plan: Plan) -> str:
    total: dict[str, float] = {}
    for bundle in plan.found.bundles:
        for name, amount in bundle.items():
            total[name] = total.get(name, 0.0) + amount
    return ", ".join(f"{amount:g} {name}{'s' if amount != 1 else ''}" for name, amount in total.items() if amount)


def _uri_argument(config: SweepConfig) -> str:
    from sweeps.tracking import redact, resolve_uri

    uri = str(config.tracking.uri)
    return "" if uri == resolve_uri(None) else f" --uri {shlex.quote(redact(uri))}"
