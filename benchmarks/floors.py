"""``make bench``: measure every floor, three runs each, and write the table in ``benchmarks/README.md``.

Close other programs first: each number is a wall time on this machine's cores.
"""

from __future__ import annotations

import math
import sys
from datetime import date
from pathlib import Path

from benchmarks.commands import help_seconds, main_job
from benchmarks.engine import CASES
from benchmarks.measure import SEEDS, Row, commit, in_fresh_process, machine

README = Path(__file__).with_name("README.md")
START, END = "<!-- table -->", "<!-- end of table -->"
SECONDS = 10
ENGINE = (
    ("CartPole-v1, MLP 64-64, local mode, 1 core", "cartpole", 60_000),
    ("Pong, Nature CNN, local mode, 2 cores, float32", "pong", 1_000),
    ("Pong, Nature CNN, local mode, 2 cores, bfloat16, 16 environments (the default)", "pong-bfloat16", 1_800),
    ("Pong, Nature CNN, local mode, 2 cores, bfloat16, 32 environments", "pong-bfloat16-32", None),
)


def engine_rows() -> list[Row]:
    """Measure the engine's throughput."""
    rows = []
    for name, case, floor in ENGINE:
        cores = CASES[case][1]
        runs = [
            in_fresh_process("benchmarks.engine", case, str(seed), str(SECONDS), cores=cores)["steps_per_second"]
            for seed in SEEDS
        ]
        command = f"python -m benchmarks.engine {case} SEED {SECONDS}"
        rows.append(Row(name, "env steps/s", tuple(runs), floor, lower_is_better=False, command=command))
    return rows


def learning_rows() -> list[Row]:
    """Measure how the CartPole preset learns, over more seeds than speed needs."""
    runs = [in_fresh_process("benchmarks.learning", "environment=cartpole", str(seed), cores=1) for seed in range(5)]
    command = "python -m benchmarks.learning environment=cartpole SEED"
    name = "CartPole-v1 preset, 5 seeds"

    def row(what: str, unit: str, key: str) -> Row:
        values = tuple(run[key] for run in runs if math.isfinite(run[key]))
        return Row(f"{name}: {what}", unit, values, None, lower_is_better=False, command=command)

    return [
        row("mean return of the last 100 episodes after 200,000 env steps", "", "final"),
        row("until that mean reaches 475, of the runs that did", "env steps", "solved_at"),
    ]


def command_rows() -> list[Row]:
    """Measure what a person waits for."""
    help_runs = tuple(help_seconds() for _ in SEEDS)
    jobs = [main_job(seed) for seed in SEEDS]
    command = "python -m sweeps.run sweep.seed=SEED"

    def row(name: str, unit: str, key: str, floor: float, *, lower: bool = True) -> Row:
        return Row(name, unit, tuple(job[key] for job in jobs), floor, lower_is_better=lower, command=command)

    return [
        Row("`--help`", "s", help_runs, 2, lower_is_better=True, command="python -m sweeps.run --help"),
        row("main job: from the command to the first trial's first result", "s", "first_result", 15),
        row("main job: the whole command, 16 trials of 200,000 env steps", "s", "whole", 120),
        row("main job: mean return of the best trial over its last 100 episodes", "", "best", 475, lower=False),
    ]


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown with what was measured where."""
    head = ["what", "mean ± standard deviation", "runs", "asked for", "verdict", "command"]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    seeds = ", ".join(map(str, SEEDS))
    return f"Commit {commit()}, {date.today():%Y-%m-%d}, seeds {seeds}.\n{machine()}.\n\n{body}\n"


def main() -> int:
    """Measure everything; returns 1 when a floor is missed."""
    rows = [*engine_rows(), *learning_rows(), *command_rows()]
    text = table(rows)
    print(text)
    before, _, rest = README.read_text().partition(START)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{START}\n{text}{END}{after}")
    return int(any(row.verdict() == "missed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
