"""What a person waits for: the help text, the first result of a sweep, the whole main job."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def help_seconds() -> float:
    """Time ``python -m sweeps.run --help``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "sweeps.run", "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main_job(seed: int) -> dict[str, float]:
    """Run the main job in an empty folder.

    Returns:
        first_result: seconds from the command to the first trial's first result; whole: to the end of the command;
        best: score of the best trial.
    """
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "sweeps.run", f"sweep.seed={seed}", "sweep.name=bench"],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        first = 0.0
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("first result"):
                first = time.perf_counter() - start
        process.wait()
        whole = time.perf_counter() - start
        summary = json.loads((Path(folder) / "outputs/sweeps/bench/summary.json").read_text())
    return {"first_result": first, "whole": whole, "best": summary["best_trial"]["score"]}
