"""The one thread that talks to MLflow: callers say what a run should look like, it writes what is still missing.

Nothing here waits for MLflow but the thread itself and ``close``. Each run keeps what is not written yet; a call that
fails leaves it there for the next attempt, so an outage costs nothing but resolution: when too many metric points
wait, every second one of the longest waiting curve is dropped and counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from sweeps.tracking.records import Pending, RunRecord
from sweeps.tracking.sink import MlflowSink, RefusedError
from sweeps.tracking.uri import redact

logger = logging.getLogger("sweeps.tracking")

CLOSE_ATTEMPTS = 3
MAX_BACKOFF_S = 30.0


class BackgroundWriter:
    """Writes runs to MLflow in a daemon thread, from the first metric point on.

    Until then nothing is imported or connected: importing MLflow and creating its database take seconds of a core,
    which the sweep needs for starting Ray and its first trials.

    Args:
        sink: the calls to MLflow; connecting (import, database creation) is done in the thread too.
        flush_interval: seconds during which points are gathered before they are written.
        max_points: metric points that may wait, over all runs; where there are more runs, one point of each.
        retry_delay: seconds before the second attempt after a failure; doubles up to 30 s.
    """

    def __init__(
        self, sink: MlflowSink, *, flush_interval: float = 1.0, max_points: int = 20_000, retry_delay: float = 1.0
    ) -> None:
        self._sink = sink
        self._flush_interval = flush_interval
        self._max_points = max_points
        self._retry_delay = retry_delay
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._dirty: dict[str, RunRecord] = {}
        self._waiting_points = 0
        self._dropped_points = 0
        self._problems: dict[str, tuple[str, int]] = {}
        self._thread = threading.Thread(target=self._run, name="mlflow-writer", daemon=True)
        self._thread.start()

    def update(self, record: RunRecord, change: Callable[[Pending], None]) -> None:
        """Change what a run should look like; returns at once. After ``close`` nothing happens."""
        with self._work:
            if self._closing.is_set():
                return
            before = len(record.pending.points)
            change(record.pending)
            self._waiting_points += len(record.pending.points) - before
            self._dirty[record.key] = record
            thinned = self._waiting_points > self._max_points and self._thin()
            self._work.notify()
        if thinned:
            self._report("slow", "MLflow is slower than the sweep: curves were thinned out.")

    @property
    def problems(self) -> list[str]:
        """What went wrong so far, one sentence each, for the end's summary."""
        with self._lock:
            lines = [text if count == 1 else f"{text} ({count} times)" for text, count in self._problems.values()]
            if self._dropped_points:
                lines.append(f"{self._dropped_points} metric points were not written to MLflow.")
            return lines

    def close(self, timeout: float) -> bool:
        """Write what waits, for at most ``timeout`` seconds; True when everything has been written."""
        with self._work:
            self._closing.set()
            self._work.notify()
        self._thread.join(timeout)
        with self._lock:
            unfinished = len(self._dirty) or int(self._thread.is_alive())
            self._dropped_points += self._waiting_points
            self._waiting_points = 0
        if unfinished:
            self._report("unfinished", f"{unfinished} MLflow runs are incomplete: it did not answer in time.")
        return not unfinished

    def _thin(self) -> bool:
        """Drop every second waiting point of the longest curve, never its last one, which may hold the score.

        Called with the lock held. Returns whether a point was dropped.
        """
        points = max((record.pending.points for record in self._dirty.values()), key=len)
        before = len(points)
        del points[-2::-2]
        self._waiting_points -= before - len(points)
        self._dropped_points += before - len(points)
        return len(points) < before

    def _run(self) -> None:
        failures = 0
        with self._work:
            self._work.wait_for(lambda: self._waiting_points or self._closing.is_set())
        while True:
            if self._flush():
                failures = 0
                with self._work:
                    while not self._dirty:
                        if self._closing.is_set():
                            return
                        self._work.wait()
                self._closing.wait(self._flush_interval)
            else:
                failures += 1
                if self._closing.is_set():
                    if failures >= CLOSE_ATTEMPTS:
                        return
                    time.sleep(min(self._retry_delay, 0.5))
                else:
                    self._closing.wait(min(self._retry_delay * 2 ** (failures - 1), MAX_BACKOFF_S))

    def _flush(self) -> bool:
        """Write all runs that lack something; False when MLflow failed and the rest waits for another attempt."""
        with self._lock:
            records = list(self._dirty.values())
            self._dirty.clear()
        try:
            self._sink.connect()
            while records:
                self._write(records[0])
                records.pop(0)
        except Exception as error:  # whatever MLflow raises must not reach the sweep
            self._report("call", f"A call to MLflow failed: {_one_line(error)}", detail=error)
            with self._lock:
                self._dirty = {**{record.key: record for record in records}, **self._dirty}
            return False
        return True

    def _write(self, record: RunRecord) -> None:
        with self._lock:
            work, record.pending = record.pending, Pending()
            self._waiting_points -= len(work.points)
        try:
            while True:
                try:
                    self._sink.write(record, work)
                    return
                except RefusedError as error:
                    self._dropped_points += error.lost_points
                    self._report("refused", f"MLflow refused data: {_one_line(error)}", detail=error)
        except BaseException:
            with self._lock:
                record.pending.put_back(work)
                self._waiting_points += len(work.points)
            raise

    def _report(self, kind: str, text: str, detail: Exception | None = None) -> None:
        """Warn once per kind of problem, count the others."""
        with self._lock:
            first, count = self._problems.get(kind, (text, 0))
            self._problems[kind] = (first, count + 1)
        if count == 0:
            logger.warning("%s The sweep goes on.", text, extra={"mlflow_error": detail})
        else:
            logger.debug("%s", text, exc_info=detail)


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    text = redact(f"{type(error).__name__}: {lines[0]}")
    return text[:300] + ("…" if len(text) > 300 else ".")
