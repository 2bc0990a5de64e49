"""Tracking URIs and the checks before a sweep starts."""

from __future__ import annotations

import logging
import multiprocessing
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from actorlearner.exceptions import ConfigError
from sweeps.tracking import check_store, prepare, redact, resolve_uri
from sweeps.tracking.store import connect


def test_null_is_an_absolute_database_under_outputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert resolve_uri(None) == f"sqlite:///{tmp_path}/outputs/mlflow.db"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("sqlite:///runs/a.db", "sqlite:////base/runs/a.db"),
        ("sqlite:////srv/a.db", "sqlite:////srv/a.db"),
        ("sqlite+pysqlite:///a.db?timeout=5", "sqlite+pysqlite:////base/a.db?timeout=5"),
        ("runs", "sqlite:////base/runs/mlflow.db"),
        ("../other/x.sqlite", "sqlite:////other/x.sqlite"),
        ("/srv/my runs", "sqlite:////srv/my runs/mlflow.db"),
        ("http://host:5000/", "http://host:5000"),
        (" https://user:pw@host/mlflow ", "https://user:pw@host/mlflow"),
        ("postgresql+psycopg://u:p@host/db", "postgresql+psycopg://u:p@host/db"),
    ],
)
def test_uris_get_one_form(given, expected):
    assert resolve_uri(given, Path("/base")) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("ftp://host/x", "'ftp://host/x' cannot be used: the scheme must be one of sqlite, http"),
        ("file:///srv/mlruns", "no longer writes file stores; use sqlite:///"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite://", "in memory"),
        ("databricks://u:s3cret@profile", r"databricks://u:\*\*\*@profile"),
    ],
)
def test_uris_that_cannot_work_are_refused(given, message):
    with pytest.raises(ConfigError, match=message) as caught:
        resolve_uri(given)
    assert caught.value.key == "tracking.uri"
    assert "s3cret" not in str(caught.value)


def test_redact_hides_passwords_only():
    assert redact("at http://me:pw@host/x and postgresql://h/db?user=a&password=b c") == (
        "at http://me:***@host/x and postgresql://h/db?user=a&password=*** c"
    )
    assert redact("http://host:5000/a@b: no password") == "http://host:5000/a@b: no password"


def test_check_creates_nothing(tmp_path):
    check_store(f"sqlite:///{tmp_path}/deep/er/mlflow.db")
    assert list(tmp_path.iterdir()) == []


def test_a_database_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file is not a writable folder; choose another place"):
        check_store(f"sqlite:///{tmp_path}/file/mlflow.db")


def test_a_read_only_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(ConfigError, match="is not a writable folder"):
        check_store(f"sqlite:///{tmp_path}/mlflow.db")
    (tmp_path / "mlflow.db").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"mlflow\.db or its folder is not writable"):
        check_store(f"sqlite:///{tmp_path}/mlflow.db")


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "mlflow.db").write_text("x" * 2000)
    with pytest.raises(ConfigError, match="is not a readable sqlite database"):
        check_store(f"sqlite:///{tmp_path}/mlflow.db")
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(ConfigError, match=r"folder\.db is not a file"):
        check_store(f"sqlite:///{tmp_path}/folder.db")


def test_an_existing_database_is_accepted_unchanged(uri):
    path = Path(uri.removeprefix("sqlite:///"))
    before = path.read_bytes()
    check_store(uri)
    assert path.read_bytes() == before


def test_a_server_that_is_down_is_refused_at_once():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    start = time.monotonic()
    with pytest.raises(ConfigError, match=rf"u:\*\*\*@127\.0\.0\.1:{port}' cannot .*does not answer .*tracking=none"):
        check_store(f"http://u:pw@127.0.0.1:{port}")
    assert time.monotonic() - start < 2


def test_a_server_that_accepts_but_never_answers_is_refused_in_time():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        with pytest.raises(ConfigError, match="does not answer"):
            check_store(f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert time.monotonic() - start < 10


def test_a_name_that_does_not_exist_is_refused_in_time():
    start = time.monotonic()
    with pytest.raises(ConfigError, match="does not answer"):
        check_store("http://no-such-host.invalid:5000")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("status", "message"),
    [(404, "is it an MLflow server"), (401, "MLFLOW_TRACKING_USERNAME"), (403, "allowed-hosts"), (200, None)],
)
def test_http_answers_are_told_apart(status, message):
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers["Authorization"]))
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"OK")

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        uri = f"http://me:pw@127.0.0.1:{server.server_port}/prefix"
        if message is None:
            check_store(uri)
        else:
            with pytest.raises(ConfigError, match=message):
                check_store(uri)
    assert seen == [("/prefix/health", "Basic bWU6cHc=")]


def test_a_database_server_needs_a_driver_and_an_answer():
    with pytest.raises(ConfigError, match=r"driver 'pyodbc' is not installed; install it"):
        check_store("mssql://u:p@127.0.0.1/db")


def test_prepare_makes_database_and_experiment_quietly(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    uri = resolve_uri("a folder with % and ü")
    experiment_id = prepare(uri, "sweeps")
    assert prepare(uri, "sweeps") == experiment_id
    folder = tmp_path / "a folder with % and ü"
    assert [path.name for path in folder.iterdir()] == ["mlflow.db"]  # nothing half-made, no mlruns
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    client = connect(uri)
    run = client.create_run(experiment_id)
    client.log_text(run.info.run_id, "a: 1\n", "config.yaml")
    assert (folder / "mlartifacts" / run.info.run_id / "artifacts" / "config.yaml").read_text() == "a: 1\n"
    assert capfd.readouterr() == ("", "")


def test_prepare_refuses_a_deleted_experiment(uri):
    client = connect(uri)
    client.delete_experiment(prepare(uri, "gone"))
    with pytest.raises(ConfigError, match=r"'gone' was deleted: restore it .* or choose another tracking\.experiment"):
        prepare(uri, "gone")


def _prepare_in_process(uri, queue):
    logging.disable()
    try:
        queue.put(prepare(uri, "sweeps"))
    except Exception as error:
        queue.put(repr(error))


@pytest.mark.slow
def test_two_sweeps_can_make_the_same_fresh_database_at_once(tmp_path):
    # Opening a fresh database from several processes breaks MLflow's own migration.
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    processes = [context.Process(target=_prepare_in_process, args=(uri, queue)) for _ in range(2)]
    for process in processes:
        process.start()
    answers = {queue.get(timeout=100) for _ in processes}
    for process in processes:
        process.join(20)
    assert answers == {"1"}
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]
