"""``python -m sweeps.ui`` as a person runs it: messages, ports, and a clean end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from sweeps.tracking import prepare, resolve_uri


def run_ui(folder, *options):
    command = [sys.executable, "-m", "sweeps.ui", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def assert_mistake(done, message):
    assert done.returncode == 2
    assert re.search(message, done.stderr), done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_missing_database_is_a_message(tmp_path):
    done = run_ui(tmp_path)
    assert_mistake(done, r"no MLflow database at .*outputs/mlflow\.db: run a sweep .*, or name the database with --uri")
    assert list(tmp_path.iterdir()) == []


def test_a_bad_uri_is_a_message(tmp_path):
    assert_mistake(run_ui(tmp_path, "--uri", "ftp://me:pw@x"), r"ftp://me:\*\*\*@x' cannot be used: the scheme")
    (tmp_path / "mlflow.db").write_text("x" * 1000)
    assert_mistake(run_ui(tmp_path, "--uri", "mlflow.db"), "not a readable sqlite database")


def test_a_server_that_is_down_is_a_message(tmp_path):
    assert_mistake(run_ui(tmp_path, "--uri", "http://127.0.0.1:9"), "does not answer")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ui")
    prepare(resolve_uri(None, folder), "sweeps")
    return folder


def test_a_port_in_use_is_a_message(store):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_mistake(run_ui(store, "--port", str(port)), rf"Port {port} on 127\.0\.0\.1 .*another one with --port")
    assert_mistake(run_ui(store, "--port", "70000"), "Port 70000 .*another one with --port")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_the_experiment_and_leaves_no_process(store, number):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "sweeps.ui", "--port", str(port)]
    with subprocess.Popen(command, cwd=store, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("Starting MLflow on sqlite:///")
            line = process.stdout.readline()
            assert line == f"Open http://127.0.0.1:{port}/#/experiments/1/runs?workflowType=machine_learning\n"
            assert process.stdout.readline() == "Stop with Ctrl-C.\n"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as page:
                assert b"mlflow" in page.read().lower()
            groups = process_groups_below(process.pid)
            assert groups
            commands = command_lines(groups)
            assert "mlflow" in commands
            assert "sqlite:" not in commands  # a store's URI may hold a password
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")
    for group in groups:
        with pytest.raises(ProcessLookupError):
            os.killpg(group, 0)
    assert sorted(path.name for path in store.iterdir()) == ["outputs"]


def process_groups_below(pid):
    listing = subprocess.run(
        ["ps", "-eo", "ppid=,pgid="], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {int(pgid) for ppid, pgid in rows if int(ppid) == pid}


def command_lines(groups):
    listing = subprocess.run(
        ["ps", "-eo", "pgid=,args="], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    return "\n".join(line for line in listing.splitlines() if int(line.split()[0]) in groups)
