"""The calls to MLflow for one run, made so that each can be repeated; used by the writer's thread only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sweeps.tracking.records import Pending, Point, RunRecord
from sweeps.tracking.store import connect, prepare

if TYPE_CHECKING:
    from mlflow import MlflowClient

# MLflow's limits for one log_batch.
MAX_METRICS = 1000
MAX_OTHERS = 100

# Tags that start with "mlflow." are not shown on a run's page.
NONCE_TAG = "mlflow.sweeps.nonce"
_REFUSALS = frozenset(
    {
        "BAD_REQUEST",
        "ENDPOINT_NOT_FOUND",
        "FEATURE_DISABLED",
        "INVALID_PARAMETER_VALUE",
        "INVALID_STATE",
        "MALFORMED_REQUEST",
        "NOT_IMPLEMENTED",
        "PERMISSION_DENIED",
        "RESOURCE_ALREADY_EXISTS",
        "RESOURCE_DOES_NOT_EXIST",
    }
)
# An artifact store without its client library, or a server's folder that this machine does not have.
_BROKEN_ARTIFACT_STORE = (ImportError, PermissionError, FileNotFoundError, NotADirectoryError)


class RefusedError(Exception):
    """MLflow refused something for a reason that another attempt would not change; it has been taken out.

    Args:
        message: what MLflow said.
        lost_points: metric points that were taken out.
    """

    def __init__(self, message: str, lost_points: int = 0) -> None:
        super().__init__(message)
        self.lost_points = lost_points


class MlflowSink:
    """MLflow as the writer sees it.

    Args:
        uri: resolved tracking URI.
        experiment: name of the experiment.
    """

    def __init__(self, uri: str, experiment: str) -> None:
        self._uri = uri
        self._experiment = experiment
        self._client: MlflowClient | None = None
        self._experiment_id = ""

    def connect(self) -> None:
        """Import MLflow, create database and experiment where they are missing; seconds on the first call."""
        if self._client is None:
            self._experiment_id = prepare(self._uri, self._experiment)
            self._client = connect(self._uri)

    def write(self, record: RunRecord, work: Pending) -> None:
        """Write a run's pending data; what has been written is taken out of ``work``.

        Raises:
            RefusedError: something was refused and has been taken out; call again for the rest.
            Exception: MLflow failed; ``work`` holds what is left.
        """
        assert self._client is not None
        run_id = self._run_id(self._client, record, work)
        self._write_batches(self._client, run_id, work)
        for name, text in list(work.texts.items()):
            self._call(partial(work.texts.pop, name), self._client.log_text, run_id, text, name)
        if work.end is not None:
            self._call(partial(setattr, work, "end", None), self._client.set_terminated, run_id, *work.end)

    def _write_batches(self, client: MlflowClient, run_id: str, work: Pending) -> None:
        from mlflow.entities import Metric, Param, RunTag

        for keys in _chunks(work.params, MAX_OTHERS):
            params = [Param(key, work.params[key]) for key in keys]
            self._call(partial(_drop, work.params, keys), client.log_batch, run_id, params=params)
        _split_large(work.points)
        while work.points:
            count = _count_fitting(work.points)
            metrics = [
                Metric(key, value, point.timestamp, point.step)
                for point in work.points[:count]
                for key, value in point.metrics.items()
            ]
            self._call(
                partial(_drop_first, work.points, count),
                client.log_batch,
                run_id,
                metrics=metrics,
                lost_points=count,
            )
        for keys in _chunks(work.tags, MAX_OTHERS):
            tags = [RunTag(key, work.tags[key]) for key in keys]
            self._call(partial(_drop, work.tags, keys), client.log_batch, run_id, tags=tags)

    def _call(
        self,
        take_out: Callable[[], object],
        call: Callable[..., object],
        *args: Any,
        lost_points: int = 0,
        **kwargs: Any,
    ) -> None:
        """Make one call; take its data out of the pending ones once it was made, or refused for good."""
        from mlflow.exceptions import MlflowException

        try:
            call(*args, **kwargs)
        except _BROKEN_ARTIFACT_STORE as error:
            take_out()
            raise RefusedError(f"{type(error).__name__}: {error}", lost_points) from error
        except MlflowException as error:
            if error.error_code not in _REFUSALS:
                raise
            take_out()
            raise RefusedError(str(error), lost_points) from error
        take_out()

    def _run_id(self, client: MlflowClient, record: RunRecord, work: Pending) -> str:
        """Return the run's id; the run is created here, after its parent, unless it exists already."""
        if record.run_id is not None:
            return record.run_id
        tags = dict(record.identity)
        if record.parent is not None:
            tags["mlflow.parentRunId"] = self._run_id(client, record.parent, record.parent.pending)
        if record.creation_tried:
            record.run_id = self._find(client, {NONCE_TAG: record.nonce})
        if record.run_id is None and record.resume:
            record.run_id = self._find(client, tags)
        if record.run_id is not None:
            client.update_run(record.run_id, status="RUNNING")
            return record.run_id
        record.creation_tried = True  # from here on: the answer may be lost
        run = client.create_run(
            self._experiment_id,
            start_time=record.started,
            tags={**work.tags, **tags, NONCE_TAG: record.nonce},
            run_name=record.name,
        )
        record.run_id = str(run.info.run_id)
        return record.run_id

    def _find(self, client: MlflowClient, tags: dict[str, str]) -> str | None:
        assert not any("'" in value for value in tags.values()), "identities come from searchable()"
        conditions = [f"tags.`{key}` = '{value}'" for key, value in tags.items()]
        runs = client.search_runs([self._experiment_id], " and ".join(conditions), max_results=1)
        return str(runs[0].info.run_id) if runs else None


def _chunks(mapping: Mapping[str, Any], size: int) -> Iterator[list[str]]:
    keys = list(mapping)
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def _drop(mapping: dict[str, str], keys: list[str]) -> None:
    for key in keys:
        del mapping[key]


def _drop_first(points: list[Point], count: int) -> None:
    del points[:count]


def _split_large(points: list[Point]) -> None:
    """Make several points of each one that holds more metrics than one call takes."""
    if all(len(point.metrics) <= MAX_METRICS for point in points):
        return
    points[:] = [
        point._replace(metrics={key: point.metrics[key] for key in keys})
        for point in points
        for keys in _chunks(point.metrics, MAX_METRICS)
    ]


def _count_fitting(points: list[Point]) -> int:
    """Return how many points fit into one call; none is larger than that."""
    total = 0
    for index, point in enumerate(points):
        total += len(point.metrics)
        if total > MAX_METRICS:
            return index
    return len(points)
