"""What the sweep and a single training tell MLflow: one run per sweep, one child run per trial, env steps as axis."""

from __future__ import annotations

import json
import math
import threading
import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from sweeps.records import TrialStatus
from sweeps.tracking.metrics import MAX_TAG_LENGTH, clean_key, group_metrics, plain_params
from sweeps.tracking.records import End, Pending, Point, RunRecord, searchable
from sweeps.tracking.sink import MlflowSink
from sweeps.tracking.source import source_tags
from sweeps.tracking.uri import redact
from sweeps.tracking.writer import BackgroundWriter

_SWEEP = "sweep"


_MLFLOW_STATUS = {
    TrialStatus.completed: "FINISHED",
    TrialStatus.pruned: "FINISHED",
    TrialStatus.failed: "FAILED",
    TrialStatus.interrupted: "KILLED",
}


class SweepTracker:
    """Tracks a sweep and its trials, or a single training (no ``start_sweep``: the run has no parent).

    Every method returns at once and none raises because of MLflow: problems are warned about once, through the logger
    ``sweeps.tracking``, and listed in ``problems``. MLflow is imported and its database created in the background, from
    the first result on. All methods may be called from any thread, in any order: a run is made at its first mention.

    Args:
        uri: tracking URI, resolved (``resolve_uri``) and checked (``check_store``).
        experiment: MLflow experiment; created where it is missing.
        mode: ``max`` or ``min``, which scores are better.
        resume: whether runs of an earlier process with the same ids are continued.
        max_waiting_points: metric points that may wait for MLflow; more are thinned out.
    """

    def __init__(
        self,
        uri: str,
        experiment: str = "sweeps",
        *,
        mode: str = "max",
        resume: bool = False,
        max_waiting_points: int = 20_000,
    ) -> None:
        self._sign = -1.0 if mode == "min" else 1.0
        self._resume = resume
        self._writer = BackgroundWriter(MlflowSink(uri, experiment), max_points=max_waiting_points)
        self._lock = threading.RLock()
        self._sweep: RunRecord | None = None
        self._runs: dict[str, RunRecord] = {}
        self._open: set[str] = set()
        self._searched: dict[str, dict[str, str]] = {}
        self._counts = dict.fromkeys(TrialStatus, 0)
        self._best: tuple[str, float] | None = None
        self._source = source_tags()

    def start_sweep(
        self, sweep_id: str | None, name: str, *, config: Mapping[str, Any] | None = None, yaml_text: str = ""
    ) -> None:
        """Begin the parent run.

        Args:
            sweep_id: unique among all sweeps of the store (the key by which ``resume`` finds it again); None for a
                sweep that will not be resumed: it gets a random one.
            name: shown to people.
            config: composed configuration, nested; its plain values become parameters.
            yaml_text: composed configuration as YAML, kept as the artifact ``config.yaml``.
        """
        identity = {"kind": "sweep", "sweep.id": searchable(uuid.uuid4().hex if sweep_id is None else sweep_id)}
        with self._lock:
            record = RunRecord(_SWEEP, name, identity, _now(), resume=self._resume)
            self._sweep = record
        tags = {"mlflow.runName": name, "sweep.name": name, **self._source}
        self._describe(record, tags, config or {}, yaml_text)

    def start_trial(
        self,
        trial_id: str,
        params: Mapping[str, Any],
        yaml_text: str,
        *,
        number: int | None = None,
        seed: int | None = None,
        name: str | None = None,
        searched: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin a trial's run, a child of the sweep; without ``start_sweep`` a single training's own run.

        Args:
            trial_id: unique within the sweep; for a single training unique in the store.
            params: configuration, nested or flat; its plain values become parameters.
            yaml_text: composed configuration as YAML, kept as the artifact ``config.yaml``.
            number: the trial's place in the sweep, from 0.
            seed: what the trial's randomness starts from.
            name: shown to people; by default ``trial_00007``, like the trial's folder.
            searched: the values that the search chose, by dotted key; shown, rounded, on the run's page.
        """
        record = self._record(trial_id)
        shown = name or (trial_id if number is None else f"trial_{number:05d}")
        record.name = shown
        # Trials have the sweep's source, so that MLflow's pages show it; its versions stand on the sweep's run only.
        is_child = record.parent is not None
        tags = {key: value for key, value in self._source.items() if key.startswith("mlflow.") or not is_child}
        tags["mlflow.runName"] = shown
        if number is not None:
            tags["trial.number"] = str(number)
        if seed is not None:
            tags["trial.seed"] = str(seed)
        if searched:
            self._searched[trial_id] = plain_params({key: _rounded(value) for key, value in searched.items()})
            tags["mlflow.note.content"] = "**Chosen by the search**\n\n" + _bullets(self._searched[trial_id])
        self._describe(record, tags, params, yaml_text)

    def log(self, trial_id: str, step: int, metrics: Mapping[str, Any]) -> None:
        """Add one result.

        Args:
            trial_id: the trial.
            step: env steps sampled so far; the charts' axis.
            metrics: the engine's result as it is; names are grouped as ``sweeps.tracking.metrics`` says.
        """
        values = group_metrics(metrics)
        if values:
            record = self._record(trial_id)
            record.last_step = int(step)
            point = Point(int(step), _now(), values)
            self._writer.update(record, lambda pending: pending.points.append(point))

    def end_trial(
        self, trial_id: str, status: TrialStatus | str, score: float | None = None, reason: str | None = None
    ) -> None:
        """End a trial's run.

        Args:
            trial_id: the trial.
            status: completed, pruned, failed or interrupted.
            score: the objective's value; None or NaN where there is none.
            reason: one line that says why it failed.

        Raises:
            ValueError: an unknown status.
        """
        status = TrialStatus(status)
        record = self._record(trial_id)
        tags = {"status": status.value}
        if reason:
            tags["error"] = redact(reason)
        self._finish(record, status, tags, {} if score is None else {"score": score})
        with self._lock:
            self._open.discard(trial_id)
            self._counts[status] += 1
            if status is TrialStatus.completed and score is not None and self._is_best(score):
                self._best = (trial_id, float(score))
            progress = {f"sweep/trials_{kind.value}": float(count) for kind, count in self._counts.items() if count}
            if self._best is not None:
                progress["sweep/best_score"] = self._best[1]
            point = Point(sum(self._counts.values()), _now(), progress)
            if self._sweep is not None:
                self._writer.update(self._sweep, lambda pending: pending.points.append(point))

    def end_sweep(self, status: TrialStatus | str, summary: Mapping[str, Any], best_trial: str | None = None) -> None:
        """End the parent run; trials that have not ended are marked as interrupted.

        Args:
            status: completed, failed (no trial succeeded) or interrupted.
            summary: kept as the artifact ``summary.json``.
            best_trial: id of the best trial; by default the one with the best score among the completed ones.

        Raises:
            ValueError: an unknown status.
        """
        status = TrialStatus(status)
        self._interrupt_open()
        record = self._sweep
        if record is None:
            return
        if best_trial is None and self._best is not None:
            best_trial = self._best[0]
        tags = {"status": status.value, "mlflow.note.content": self._note(best_trial)}
        if best_trial in self._runs:
            tags["best_trial"] = self._runs[best_trial].name
            tags |= {f"best.{key}": value for key, value in self._searched.get(best_trial, {}).items()}
        text = json.dumps(summary, indent=2, default=str)
        self._writer.update(record, lambda pending: pending.texts.update({"summary.json": text}))
        self._finish(record, status, tags, {} if self._best is None else {"best_score": self._best[1]})

    @property
    def problems(self) -> list[str]:
        """What MLflow did not take, one sentence each, for the summary at the end."""
        return self._writer.problems

    def close(self, timeout: float = 30.0) -> bool:
        """Write what waits, for at most ``timeout`` seconds; runs that have not ended are marked as interrupted.

        Returns:
            Whether everything was written. Later calls of any method change nothing.
        """
        self._interrupt_open()
        if self._sweep is not None and not self._sweep.ended:
            self._finish(self._sweep, TrialStatus.interrupted, {"status": TrialStatus.interrupted.value}, {})
        return self._writer.close(timeout)

    def __enter__(self) -> SweepTracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _record(self, trial_id: str) -> RunRecord:
        with self._lock:
            record = self._runs.get(trial_id)
            if record is None:
                kind = "training" if self._sweep is None else "trial"
                identity = {"kind": kind, "trial.id": searchable(trial_id)}
                if self._sweep is not None:
                    identity["sweep.id"] = self._sweep.identity["sweep.id"]
                record = RunRecord(trial_id, trial_id, identity, _now(), self._sweep, resume=self._resume)
                self._runs[trial_id] = record
                self._open.add(trial_id)
            return record

    def _describe(self, record: RunRecord, tags: dict[str, str], params: Mapping[str, Any], yaml_text: str) -> None:
        values = {key: redact(value) for key, value in plain_params(params).items()}

        def change(pending: Pending) -> None:
            pending.tags.update(_clean_tags(tags))
            pending.params.update(values)
            if yaml_text:
                pending.texts["config.yaml"] = redact(yaml_text)

        self._writer.update(record, change)

    def _finish(self, record: RunRecord, status: TrialStatus, tags: dict[str, str], metrics: dict[str, float]) -> None:
        record.ended = True
        now = _now()
        finite = {key: float(value) for key, value in metrics.items() if math.isfinite(value)}

        def change(pending: Pending) -> None:
            pending.tags.update(_clean_tags(tags))
            if finite:
                pending.points.append(Point(record.last_step, now, finite))
            pending.end = End(_MLFLOW_STATUS[status], now)

        self._writer.update(record, change)

    def _interrupt_open(self) -> None:
        with self._lock:
            left = sorted(self._open)
        for trial_id in left:
            self.end_trial(trial_id, TrialStatus.interrupted)

    def _is_best(self, score: float) -> bool:
        is_better = self._best is None or self._sign * score > self._sign * self._best[1]
        return math.isfinite(score) and is_better

    def _note(self, best_trial: str | None) -> str:
        counts = ", ".join(f"{count} {kind.value}" for kind, count in self._counts.items() if count)
        lines = []
        if best_trial in self._runs:
            score = f", score {self._best[1]:.6g}" if self._best is not None and self._best[0] == best_trial else ""
            lines += [f"**Best: {self._runs[best_trial].name}{score}**", ""]
            lines += [_bullets(self._searched.get(best_trial, {})), ""]
        return "\n".join([*lines, f"Trials: {counts or 'none'}."])


def _clean_tags(tags: Mapping[str, str]) -> dict[str, str]:
    return {clean_key(key): value[:MAX_TAG_LENGTH] for key, value in tags.items()}


def _rounded(value: Any) -> Any:
    """Return what people read; the exact value is among the parameters."""
    return f"{value:.6g}" if isinstance(value, float) else value


def _bullets(values: Mapping[str, str]) -> str:
    return "\n".join(f"- {key}: **{value}**" for key, value in values.items())


def _now() -> int:
    return int(time.time() * 1000)
