"""What a person sees while a sweep runs: a live display in a terminal, plain lines anywhere else."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeps.records import SweepRecords, TrialRecord, TrialStatus

PLAIN_LINE_SECONDS = 10.0
_SPARKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 20) -> str:
    """Draw values as one line of bars, the newest at the right; at most ``width`` of them, evenly picked."""
    if not values:
        return ""
    if len(values) > width:
        values = [values[round(index * (len(values) - 1) / (width - 1))] for index in range(width)]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_SPARKS[round((value - low) / span * (len(_SPARKS) - 1))] for value in values)


def duration(seconds: float) -> str:
    """Write a duration as 42 s, 3:07 min or 2:05:00 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d} h"


def number(value: float) -> str:
    """Write a score to four significant digits; a dash where there is none."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"


def values(params: dict[str, object]) -> str:
    """Write a configuration's varied values as ``lr=0.001 gamma=0.99``."""
    parts = []
    for key, value in params.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        parts.append(f"{key.rpartition('.')[2]}={text}")
    return " ".join(parts)


class Progress:
    """Shows a sweep's records; use as a context manager.

    Args:
        records: the trials.
        console: where to draw; without a terminal it prints a line per finished trial and one every
            ``PLAIN_LINE_SECONDS`` in between.
    """

    def __init__(self, records: SweepRecords, console: Console) -> None:
        self.records = records
        self.console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self.render)
        self._last_line = time.monotonic()
        self._seen_first_result = False

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def result(self, trial_id: str) -> None:
        """Take note of a new result."""
        if not self._seen_first_result:
            self._seen_first_result = True
            if not self.console.is_terminal:
                self._print(f"first result after {duration(self.records.seconds)}")
        self.tick()

    def finished(self, trial_id: str) -> None:
        """Say how a trial ended."""
        if not self.console.is_terminal:
            record = next(record for record in self.records if record.trial_id == trial_id)
            self._print(f"{describe(record, self.records.metric)}; {self.overview()}")

    def tick(self) -> None:
        """Print a plain line when the last one is old; does nothing in a terminal."""
        if not self.console.is_terminal and time.monotonic() - self._last_line >= PLAIN_LINE_SECONDS:
            self._print(self.overview())

    def overview(self) -> str:
        """Say in one line how far the sweep is, with the best score and the time left."""
        if not len(self.records):
            return "starting Ray"
        parts = [f"{self._done()} of {self.records.num_trials} trials done"]
        best = self.records.best()
        if best is not None:
            parts.append(f"best {number(best.score)} (trial {best.number})")
        left = self.seconds_left()
        if left is not None and left >= 1:
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def seconds_left(self) -> float | None:
        """Estimate the time to go from the share of all env steps that is done; None before the first result.

        A pruned trial counts as a whole one: what it saved is saved for good.
        """
        budget, total = self.records.budget, self.records.num_trials
        done = sum(
            min(record.env_steps / budget, 1.0) if record.status is TrialStatus.running else 1.0
            for record in self.records
        )
        return self.records.training_seconds * (total - done) / done if done > 0 else None

    def render(self) -> RenderableType:
        """Draw the live display."""
        failed = self.records.count(TrialStatus.failed)
        head = Table.grid(padding=(0, 1))
        head.add_row(
            ProgressBar(total=self.records.num_trials, completed=self._done(), width=30),
            Text(f"{self.overview()}, {duration(self.records.seconds)} so far"),
        )
        parts: list[RenderableType] = [head]
        best = self.records.best()
        if best is not None:
            parts.append(Text(f"best so far: {values(best.params)}", style="green", overflow="ellipsis", no_wrap=True))
        running = [record for record in self.records if record.status is TrialStatus.running]
        if running:
            parts.append(self._running_table(running))
        if failed:
            last = [record for record in self.records if record.status is TrialStatus.failed][-1]
            parts.append(Text(f"{failed} failed; last: trial {last.number}: {last.reason}", style="red"))
        return Group(*parts)

    def _running_table(self, running: list[TrialRecord]) -> Table:
        table = Table(box=None, padding=(0, 2), header_style="dim")
        for name, justify in (("trial", "right"), ("score", "right"), ("env steps", "right"), ("per second", "right")):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        table.add_column("curve")
        for record in running[:16]:
            share = 100 * record.env_steps / self.records.budget
            table.add_row(
                str(record.number),
                number(record.score),
                f"{record.env_steps:,} ({share:.0f}%)",
                f"{record.steps_per_second:,.0f}" if record.env_steps else "starting",
                sparkline([score for _, score in record.curve]),
            )
        return table

    def _done(self) -> int:
        return sum(record.status is not TrialStatus.running for record in self.records)

    def _print(self, line: str) -> None:
        self._last_line = time.monotonic()
        self.console.print(line, highlight=False, soft_wrap=True, markup=False)


def describe(record: TrialRecord, metric: str) -> str:
    """Say in a few words how one trial ended."""
    head = f"trial {record.number} {record.status.value}"
    if record.status is TrialStatus.failed:
        return f"{head}: {record.reason}"
    speed = f"{record.steps_per_second:,.0f}/s"
    return f"{head}: {metric} {number(record.score)} after {record.env_steps:,} env steps ({speed})"
