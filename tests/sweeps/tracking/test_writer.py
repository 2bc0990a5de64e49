"""Failures of the store: said once, never raised, never waited for."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sweeps.tracking import SweepTracker
from sweeps.tracking.records import Pending, Point, RunRecord
from sweeps.tracking.writer import BackgroundWriter


def wait_for(condition, timeout=30.0):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.05)


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class FlakySink:
    """Stands for MLflow where a test must decide when a call fails or blocks."""

    def __init__(self):
        self.broken = False
        self.busy = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.written = []

    def connect(self):
        pass

    def write(self, record, work):
        self.busy.set()
        assert self.goes_on.wait(30)
        if self.broken:
            raise ConnectionError("http://me:pw@host is away")
        self.written += work.points
        work.points.clear()
        work.__init__()


def make_record(key="t"):
    return RunRecord(key, key, {}, 0)


def add_points(writer, record, count, first=0):
    for step in range(first, first + count):
        point = Point(step, step, {"x": 1.0})
        writer.update(record, lambda pending, point=point: pending.points.append(point))


def test_an_outage_is_said_once_counted_and_made_up_for(caplog):
    sink = FlakySink()
    sink.broken = True
    writer = BackgroundWriter(sink, flush_interval=0.01, retry_delay=0.01)
    record = make_record()
    add_points(writer, record, 50)
    wait_for(lambda: any("times" in problem for problem in writer.problems))
    sink.broken = False
    assert writer.close(10)
    assert [point.step for point in sink.written] == list(range(50))
    assert len(warnings_of(caplog)) == 1
    assert "ConnectionError: http://me:***@host is away" in warnings_of(caplog)[0]
    assert "The sweep goes on." in warnings_of(caplog)[0]


def test_a_slow_store_thins_curves_and_never_blocks(caplog):
    sink = FlakySink()
    sink.goes_on.clear()
    writer = BackgroundWriter(sink, flush_interval=0.0, max_points=100)
    record = make_record()
    add_points(writer, record, 1)
    assert sink.busy.wait(10)
    add_points(writer, record, 2999, first=1)  # the first write goes on only after all of them
    assert not sink.written
    sink.goes_on.set()
    assert writer.close(10)
    steps = [point.step for point in sink.written]
    assert steps == sorted(set(steps))
    assert steps[-1] == 2999  # the latest point is never dropped
    assert len(steps) < 400
    assert f"{3000 - len(steps)} metric points were not written to MLflow." in writer.problems
    assert any("slower than the sweep" in text for text in warnings_of(caplog))


def test_the_bound_holds_over_all_trials_but_for_the_last_point_of_each():
    sink = FlakySink()
    sink.goes_on.clear()
    writer = BackgroundWriter(sink, flush_interval=0.0, max_points=10)
    add_points(writer, make_record("in flight"), 1)
    assert sink.busy.wait(10)
    records = [make_record(f"t{index}") for index in range(30)]
    for record in records:
        add_points(writer, record, 3)
    assert [point.step for record in records for point in record.pending.points] == [2] * 30
    dropped = writer.problems[-1]
    add_points(writer, make_record("one more"), 1)  # nothing can be dropped any more
    assert writer.problems[-1] == dropped == "60 metric points were not written to MLflow."
    sink.goes_on.set()
    assert writer.close(5)


def test_close_gives_up_in_time_and_says_so(caplog):
    sink = FlakySink()
    sink.goes_on.clear()
    writer = BackgroundWriter(sink, flush_interval=0.0)
    record = make_record()
    add_points(writer, record, 5)
    assert sink.busy.wait(10)
    assert not writer.close(0.3)
    assert not sink.written  # it is still busy
    assert any("did not answer in time" in text for text in writer.problems)
    add_points(writer, record, 5)  # after close: nothing happens
    assert record.pending.points == []
    sink.goes_on.set()


def test_nothing_is_connected_before_the_first_point():
    class Sink(FlakySink):
        connected = False

        def connect(self):
            self.connected = True

    sink = Sink()
    writer = BackgroundWriter(sink)
    record = make_record()
    writer.update(record, lambda pending: pending.tags.update(a="b"))
    time.sleep(0.3)
    assert not sink.connected
    add_points(writer, record, 1)
    wait_for(lambda: sink.written)
    assert sink.connected
    assert writer.close(5)


def test_what_came_in_meanwhile_wins_over_what_is_put_back():
    pending = Pending(tags={"status": "new"}, points=[Point(2, 0, {})])
    pending.put_back(Pending(tags={"status": "old", "kept": "yes"}, points=[Point(1, 0, {})]))
    assert pending.tags == {"status": "new", "kept": "yes"}
    assert [point.step for point in pending.points] == [1, 2]


def test_a_refused_item_does_not_hold_up_the_others(make_tracker, uri, caplog):
    tracker = make_tracker()
    tracker.start_trial("t", {"a": 1}, "")
    tracker.log("t", 0, {"episode_return_mean": 1.0})
    wait_for(lambda: tracker._runs["t"].run_id is not None)
    time.sleep(1.5)
    tracker.start_trial("t", {"a": 2}, "")  # MLflow's parameters cannot change
    tracker.log("t", 1, {"episode_return_mean": 3.0})
    tracker.end_trial("t", "completed", 3.0)
    assert tracker.close(30)
    client = MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("sweeps").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params == {"a": "1"}
    assert run.data.metrics["episode/episode_return_mean"] == 3.0
    assert len(warnings_of(caplog)) == 1
    assert "MLflow refused data" in warnings_of(caplog)[0]


def test_a_database_removed_midway_is_reported_and_nothing_raises(make_tracker, uri, caplog, capfd):
    tracker = make_tracker()
    tracker.start_trial("t", {}, "")
    tracker.log("t", 0, {"episode_return_mean": 1.0})
    wait_for(lambda: tracker._runs["t"].run_id is not None)
    Path(uri.removeprefix("sqlite:///")).unlink()
    for step in range(20):
        tracker.log("t", step, {"episode_return_mean": 1.0})
        time.sleep(0.1)
    tracker.end_trial("t", "completed", 1.0)
    assert not tracker.close(15)
    assert any("A call to MLflow failed" in problem for problem in tracker.problems)
    assert capfd.readouterr().err == ""
    assert sum("failed" in text for text in warnings_of(caplog)) == 1


def test_a_store_that_cannot_be_made_is_reported(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with SweepTracker(f"sqlite:///{tmp_path}/file/mlflow.db") as tracker:
        tracker.start_sweep("id", "x")
        tracker.log("t", 0, {"episode_return_mean": 1.0})
        wait_for(lambda: tracker.problems)
    assert "NotADirectoryError" in tracker.problems[0] or "FileExistsError" in tracker.problems[0]


@pytest.fixture
def server(uri, tmp_path):
    """A real MLflow server on the copied database; ended by its process group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--workers", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--artifacts-destination", str(tmp_path / "artifacts")]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"

    def kill():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def answers():
        assert process.poll() is None, (tmp_path / "server.log").read_text()
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=1):
                return True
        except OSError:
            return False

    try:
        wait_for(answers, 90)
        yield address, kill
    finally:
        kill()


@pytest.mark.slow
def test_a_server_killed_midway_does_not_stop_the_sweep(server, uri, caplog):
    address, kill = server
    tracker = SweepTracker(address)
    tracker.start_sweep("id-1", "remote")
    tracker.start_trial("t", {"a": 1}, "a: 1\n", number=0)
    tracker.log("t", 1, {"episode_return_mean": 1.0})
    client = MlflowClient(uri)

    def is_written():
        found = client.get_experiment_by_name("sweeps")
        runs = client.search_runs([found.experiment_id]) if found else []
        return any("episode/episode_return_mean" in run.data.metrics for run in runs)

    wait_for(is_written)
    kill()
    for step in range(2, 40):
        tracker.log("t", step, {"episode_return_mean": 1.0})
        time.sleep(0.05)
    tracker.end_trial("t", "completed", 1.0)
    tracker.end_sweep("completed", {})
    assert not tracker.close(20)
    failures = [text for text in warnings_of(caplog) if "A call to MLflow failed" in text]
    assert len(failures) == 1
    assert any("incomplete" in problem for problem in tracker.problems)
