"""What the benchmark scripts share: repeated runs in fresh processes, mean and spread, the machine's description."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: what was measured.
        unit: of the numbers.
        values: one per run.
        floor: what was asked for; None where nothing was.
        lower_is_better: whether the floor is a ceiling.
        command: how to measure it again.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    floor: float | None
    lower_is_better: bool
    command: str

    @property
    def mean(self) -> float:
        """Mean over the runs."""
        return statistics.mean(self.values)

    def cells(self) -> list[str]:
        """Return the table's cells."""
        spread = statistics.stdev(self.values) if len(self.values) > 1 else 0.0
        floor = "" if self.floor is None else f"{'≤' if self.lower_is_better else '≥'} {self.floor:,g}"
        digits = 2 if self.mean < 100 else 0
        numbers = f"{self.mean:,.{digits}f} ± {spread:,.{digits}f} {self.unit}"
        return [self.name, numbers, str(len(self.values)), floor, self.verdict(), f"`{self.command}`"]

    def verdict(self) -> str:
        """Return reached, missed, or nothing."""
        if self.floor is None:
            return ""
        reached = self.mean <= self.floor if self.lower_is_better else self.mean >= self.floor
        return "reached" if reached else "missed"


def in_fresh_process(module: str, *arguments: str, cores: int | None = None) -> Any:
    """Run ``python -m module arguments`` and return the JSON that its last line holds.

    Args:
        module: of ``benchmarks``.
        arguments: its command line.
        cores: how many of this process's cores it may use; None for all.
    """

    def pin() -> None:
        if cores is not None:
            os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))

    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=pin,
    )
    return json.loads(done.stdout.splitlines()[-1])


def machine() -> str:
    """Describe processor, cores, memory and the versions that matter."""
    name = platform.processor() or platform.machine()
    flags = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
        if line.startswith("flags"):
            flags = ", ".join(flag for flag in ("avx512_bf16", "amx_bf16") if flag in line.split())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{package} {version(package)}" for package in ("torch", "gymnasium", "ale-py", "ray"))
    cores = len(os.sched_getaffinity(0))
    instructions = flags or "no bfloat16 instructions"
    return f"{name} ({instructions}), {cores} cores, {memory:.0f} GiB; Python {platform.python_version()}, {packages}"


def commit() -> str:
    """Return the commit measured, marked where the tree differs from it."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "--", "src", "sweeps", "conf"], cwd=ROOT, capture_output=True, text=True
    )
    return head.stdout.strip() + ("+changes" if dirty.stdout.strip() else "")
