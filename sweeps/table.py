"""The table of trials at the end of a sweep."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from sweeps.progress import number, sparkline, values
from sweeps.records import SweepRecords, TrialRecord, TrialStatus

SHOWN_TRIALS = 20
_HEAD = ("trial", "state", "score", "env steps", "curve")
_GAP = 2
_STYLES = {
    TrialStatus.completed: "green",
    TrialStatus.pruned: "dim",
    TrialStatus.failed: "red",
    TrialStatus.interrupted: "yellow",
}


def trials_table(records: SweepRecords, width: int) -> Table:
    """Return the trials, best first, with the values in which they differ.

    Args:
        records: the trials.
        width: columns of the screen; where a column per varied key does not fit, the values share one.
    """
    ranked = records.ranked()[:SHOWN_TRIALS]
    head = list(_HEAD)
    fixed = [_fixed_cells(record) for record in ranked]
    keys = list(ranked[0].params) if ranked else []
    varied = [[_value(value) for value in record.params.values()] for record in ranked]
    names = [key.rpartition(".")[2] for key in keys]
    # A long name can break after each underscore, so that it needs no wide column.
    broken = [name.replace("_", "_ ") for name in names]
    for title in (names, broken):
        if _needed([head + title, *(left + right for left, right in zip(fixed, varied, strict=True))]) <= width:
            names = title
            break
    else:
        names, varied = ["values"], [[values(record.params)] for record in ranked]
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="bold", pad_edge=False)
    for name in head:
        table.add_column(name, justify="right" if name in ("trial", "score", "env steps") else "left", no_wrap=True)
    for name in names:
        table.add_column(name, justify="left" if name == "values" else "right", vertical="bottom", overflow="fold")
    best = records.best()
    for record, left, right in zip(ranked, fixed, varied, strict=True):
        state = Text(left[1], style=_STYLES.get(record.status, ""))
        table.add_row(left[0], state, *left[2:], *right, style="bold" if record is best else "")
    return table


def _fixed_cells(record: TrialRecord) -> list[str]:
    curve = sparkline([score for _, score in record.curve], width=10)
    return [str(record.number), record.status.value, number(record.score), f"{record.env_steps:,}", curve]


def _needed(rows: list[list[str]]) -> int:
    head, *body = rows
    words = [name if name in _HEAD else max(name.split(), key=len) for name in head]
    return sum(max(len(cell) for cell in column) + _GAP for column in zip(words, *body, strict=True))


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
