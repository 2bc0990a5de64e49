"""One training run with a sweep's configuration and no search: same engine, same tracking."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sweeps.announce import make_console
from sweeps.directory import SweepDirectory, claim_directory
from sweeps.log import log_to_file
from sweeps.outcome import EXIT_FAILED, EXIT_OK, exit_code_of_signal
from sweeps.preflight import Preflight, preflight
from sweeps.progress import duration, number
from sweeps.ray_session import StopRequest, cluster_nodes, on_cluster, prepare_environment, ray_session, stop_on_signals
from sweeps.records import lookup
from sweeps.schema import SweepConfig
from sweeps.tracking import open_tracker

if TYPE_CHECKING:
    from actorlearner.algorithm import Algorithm
    from sweeps.tracking.tracker import SweepTracker

LINE_SECONDS = 2.0


def run_training(config: SweepConfig, overrides: list[str]) -> int:
    """Train once with ``config`` until its budget is used.

    Args:
        config: the composed configuration; its search, space and scheduler are not used.
        overrides: the command line's overrides; the configuration has them already.

    Returns:
        The exit code: 0 when the budget was used, 1 after an error, 130 after Ctrl-C, 143 after SIGTERM.

    Raises:
        ConfigError: a mistake in the configuration; nothing was started or written.
    """
    prepare_environment()
    with cluster_nodes() as nodes:
        found = preflight(config, nodes)
        directory = claim_directory(config)
        with log_to_file(directory.log):
            return _Training(config, found, directory).run()


class _Training:
    """One training's parts, wired together."""

    def __init__(self, config: SweepConfig, found: Preflight, directory: SweepDirectory) -> None:
        self.config = config
        self.found = found
        self.directory = directory
        self.console = make_console()
        self.budget = config.sweep.budget.env_steps_per_trial
        self.metric = config.sweep.objective.metric
        self.stop = StopRequest(self.budget)
        self.result: dict[str, Any] = {}
        self.checkpoint: str | None = None
        self.name = str(config.sweep.name)

    def run(self) -> int:
        algorithm, environment = self.found.settings.algorithm.name, self.found.settings.environment.id
        self.console.print(f"Training {self.name}: {algorithm} on {environment}, {self.budget:,} env steps")
        tracker = self._start_tracker()
        reason = None
        try:
            with stop_on_signals(self.stop, self._say_stopping) as install_handlers, self._ray():
                install_handlers()
                self._train(tracker)
        except KeyboardInterrupt:
            self.console.print("Stopped at once: no checkpoint was written")
        except Exception as error:
            logging.getLogger(__name__).exception("The training failed")
            reason = f"{type(error).__name__}: {error}"
        status = "failed" if reason else "interrupted" if self.stop.stop_all() else "completed"
        self._end(tracker, status, reason)
        if self.stop.signal_number is not None:
            return exit_code_of_signal(self.stop.signal_number)
        return EXIT_FAILED if reason else EXIT_OK

    def _start_tracker(self) -> SweepTracker | None:
        tracker = open_tracker(self.config)
        if tracker is not None:
            tracker.start_trial(self.name, self.config.to_dict(), self.config.to_yaml(), name=self.name)
        return tracker

    def _ray(self) -> contextlib.AbstractContextManager[object]:
        """Start Ray where there are remote workers; a cluster is connected already."""
        if on_cluster() or not self.found.has_remote_workers:
            return contextlib.nullcontext()
        return ray_session(remote_workers=True)

    def _say_stopping(self) -> None:
        self.console.print("Stopping: the checkpoint is being written (again: stop at once)")

    def _train(self, tracker: SweepTracker | None) -> None:
        from actorlearner.algorithms.registry import algorithm_class

        algorithm = algorithm_class(self.found.settings.algorithm.name)(config=self.found.settings.to_dict())
        try:
            last_line = time.monotonic()
            while self.result.get("num_env_steps_sampled", 0) < self.budget and not self.stop.stop_all():
                self.result = algorithm.train()
                if tracker is not None:
                    tracker.log(self.name, self.result["num_env_steps_sampled"], self.result)
                if time.monotonic() - last_line >= LINE_SECONDS:
                    last_line = time.monotonic()
                    self._print_progress()
            self.checkpoint = self._save(algorithm)
        finally:
            algorithm.stop()

    def _save(self, algorithm: Algorithm) -> str:
        """Write the checkpoint, which never stands half-written under its name."""
        path = self.directory.root / "checkpoint"
        algorithm.save(str(path))
        return str(path)

    def _print_progress(self) -> None:
        steps = self.result["num_env_steps_sampled"]
        self.console.print(
            f"{steps:>12,} env steps ({100 * steps / self.budget:.0f}%)  "
            f"{self.metric} {number(lookup(self.result, self.metric))}  "
            f"{self.result['env_steps_per_second']:,.0f} steps/s"
        )

    def _end(self, tracker: SweepTracker | None, status: str, reason: str | None) -> None:
        score = float(lookup(self.result, self.metric))
        steps = int(self.result.get("num_env_steps_sampled", 0))
        seconds = float(self.result.get("time_total_s", 0.0))
        if tracker is not None:
            tracker.end_trial(self.name, status, score, reason)
            tracker.close()
        outcome = {
            "name": self.name,
            "status": status,
            "score": score if score == score else None,
            "env_steps": steps,
            "wall_time_s": round(seconds, 3),
            "checkpoint": self.checkpoint,
            "reason": reason,
        }
        self.directory.write_json(self.directory.summary, outcome)
        if reason:
            Console(stderr=True, highlight=False, soft_wrap=True).print(
                f"The training failed: {reason}\nThe traceback is in {self.directory.log}", style="red", markup=False
            )
            return
        self.console.print(f"Training {status} after {duration(seconds)}")
        self.console.print(f"  {self.metric:<22} {number(score)} (last {self._window()} episodes)")
        self.console.print(f"  {'env steps':<22} {steps:,} ({steps / seconds if seconds else 0:,.0f} per second)")
        self.console.print(f"  {'checkpoint':<22} {self.checkpoint}")
        for problem in tracker.problems if tracker is not None else ():
            self.console.print(f"Tracking: {problem}", style="yellow", markup=False)

    def _window(self) -> int:
        window = self.found.settings.algorithm.metrics_num_episodes_for_smoothing
        return min(window, int(self.result.get("episodes_total", 0)))
