"""The end of a sweep: the table of trials, ``summary.json`` for scripts, and the best configuration to run again."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console

from sweeps.directory import SweepDirectory
from sweeps.progress import duration, number
from sweeps.records import SweepRecords, TrialRecord, TrialStatus
from sweeps.table import SHOWN_TRIALS, trials_table


def sweep_status(records: SweepRecords, interrupted: bool) -> str:
    """Return ``interrupted``, ``failed`` (no trial succeeded) or ``completed``."""
    if interrupted:
        return "interrupted"
    succeeded = records.count(TrialStatus.completed) + records.count(TrialStatus.pruned)
    return "completed" if succeeded else "failed"


def summary_data(records: SweepRecords, status: str, **extra: Any) -> dict[str, Any]:
    """Return the outcome as plain data without NaN.

    Args:
        records: the trials.
        status: see ``sweep_status``.
        extra: further top-level entries, such as the sweep's name.
    """
    best = records.best()
    return {
        **extra,
        "status": status,
        "objective": {"metric": records.metric, "mode": "max" if records.maximize else "min"},
        "num_trials": {
            "planned": records.num_trials,
            "started": len(records),
            **{state.value: records.count(state) for state in TrialStatus if state is not TrialStatus.running},
        },
        "best_trial": None if best is None else _trial_data(best),
        "trials": [_trial_data(record) for record in records],
        "env_steps": sum(record.env_steps for record in records),
        "wall_time_s": round(records.seconds, 3),
    }


def _trial_data(record: TrialRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "id": record.trial_id,
        "status": record.status.value,
        "score": record.score if math.isfinite(record.score) else None,
        "params": record.params,
        "env_steps": record.env_steps,
        "seed": record.config["debugging"]["seed"],
        "checkpoint": record.checkpoint,
        "reason": record.reason,
    }


def write_outcome(
    directory: SweepDirectory, records: SweepRecords, status: str, name: str, reason: str | None = None
) -> None:
    """Write ``summary.json`` and, where a trial has a score, ``experiment/best.yaml``.

    Args:
        directory: the sweep's.
        records: the trials.
        status: see ``sweep_status``.
        name: of the sweep.
        reason: why the sweep itself failed; None where it did not.
    """
    directory.write_json(directory.summary, summary_data(records, status, name=name, reason=reason))
    best = records.best()
    if best is None:
        return
    sections = {key: best.config[key] for key in ("algorithm", "environment", "model", "resources")}
    sweep = {
        "seed": best.config["debugging"]["seed"],
        "objective": {"metric": records.metric, "mode": "max" if records.maximize else "min"},
        "budget": {"env_steps_per_trial": records.budget},
    }
    comment = (
        f"Trial {best.number} of sweep {name}: {records.metric} {number(best.score)}, {best.env_steps:,} env steps."
    )
    directory.write_experiment({**sections, "sweep": sweep}, comment)


def print_outcome(console: Console, directory: SweepDirectory, records: SweepRecords, status: str) -> None:
    """Print the table, the failures with their reasons, the best trial and how the sweep ended."""
    if len(records):
        console.print()
        console.print(trials_table(records, console.width))
        hidden = len(records) - SHOWN_TRIALS
        if hidden > 0:
            console.print(f"… and {hidden} more in {directory.summary.name}")
    for reason, numbers in _failures(records).items():
        trials = "trial" if len(numbers) == 1 else "trials"
        console.print(f"{trials} {', '.join(map(str, numbers))} failed: {reason}", style="red", markup=False)
    counts = ", ".join(
        f"{records.count(state)} {state.value}"
        for state in TrialStatus
        if state is not TrialStatus.running and records.count(state)
    )
    steps = sum(record.env_steps for record in records)
    console.print()
    console.print(
        f"Sweep {status} after {duration(records.seconds)}: {counts or 'no trial started'}; {steps:,} env steps.",
        highlight=False,
    )
    best = records.best()
    if best is not None:
        console.print(
            f"Best: trial {best.number}, {records.metric} {number(best.score)} (one seed, not yet confirmed on others)",
            highlight=False,
            soft_wrap=True,
            style="bold",
        )


def _failures(records: SweepRecords) -> dict[str, list[int]]:
    reasons: dict[str, list[int]] = {}
    for record in records:
        if record.status is TrialStatus.failed:
            reasons.setdefault(record.reason or "unknown", []).append(record.number)
    return reasons
