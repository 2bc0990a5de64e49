"""``python -m sweeps.ui``: shows the tracked sweeps in MLflow's web pages."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import IO

from actorlearner.exceptions import ConfigError
from sweeps.tracking.store import check_store
from sweeps.tracking.uri import redact, resolve_uri, sqlite_path

DEFAULT_PORT = 5000
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 5.0


class Stopped(Exception):
    """The person or the system asked for the end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the store until Ctrl-C.

    Returns:
        0 after Ctrl-C or SIGTERM, 1 when MLflow's server ends by itself, 2 for a mistake in the options.
    """
    options = _parse(arguments)
    try:
        with _stopped_by_signals():
            return _show(options)
    except Stopped:
        return 0
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sweeps.ui", description="Show the tracked sweeps in MLflow.")
    parser.add_argument("--uri", help="what tracking.uri was in the sweep (default: outputs/mlflow.db in this folder)")
    parser.add_argument(
        "--port", type=int, help=f"port of the pages (default: {DEFAULT_PORT}, or the next free one when it is taken)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--experiment", default="sweeps", help="experiment to open (default: %(default)s)")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into Stopped, once: a second one must not interrupt the cleaning up."""
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]

    def stop(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(options: argparse.Namespace) -> int:
    uri = resolve_uri(options.uri)
    path = sqlite_path(uri)
    if path is not None and not path.exists():
        raise ConfigError(
            f"There is no MLflow database at {path}: run a sweep in this folder first (python -m sweeps.run), "
            "or name the database with --uri."
        )
    check_store(uri)
    if uri.startswith(("http://", "https://")):
        print(f"This store has its own server. Open {redact(uri)}")
        return 0
    port = _choose_port(options.host, options.port)
    print(f"Starting MLflow on {redact(uri)} ...", flush=True)
    with tempfile.TemporaryFile() as log, _server(uri, options.host, port, log) as process:
        address = f"http://{'127.0.0.1' if options.host == '0.0.0.0' else options.host}:{port}"
        if not _wait_until(lambda: _answers(address), process):
            raise ConfigError(f"MLflow's server did not start: {_last_line(log)}")
        print(f"Open {address}/{_page(address, options.experiment)}\nStop with Ctrl-C.", flush=True)
        process.wait()
        print(f"error: MLflow's server ended by itself: {_last_line(log)}", file=sys.stderr)
        return 1


def _choose_port(host: str, wanted: int | None) -> int:
    """Return the wanted port, or without a wish the first free one from DEFAULT_PORT on."""
    if wanted is not None:
        reason = _why_not(host, wanted)
        if reason:
            raise ConfigError(f"Port {wanted} on {host} cannot be used ({reason}): choose another one with --port.")
        return wanted
    for port in range(DEFAULT_PORT, DEFAULT_PORT + 100):
        reason = _why_not(host, port)
        if reason is None:
            if port != DEFAULT_PORT:
                print(f"Port {DEFAULT_PORT} is taken, using {port}.", flush=True)
            return port
    raise ConfigError(f"No free port from {DEFAULT_PORT} to {port} on {host} ({reason}): choose one with --port.")


def _why_not(host: str, port: int) -> str | None:
    """Return why a port cannot be listened on; None when it can."""
    try:
        with socket.create_server((host, port)):
            return None
    except (OSError, OverflowError) as error:
        return str(getattr(error, "strerror", None) or error)


@contextlib.contextmanager
def _server(uri: str, host: str, port: int, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``mlflow server`` with one worker in a process group of its own; all of it is gone afterwards."""
    path = sqlite_path(uri)
    command = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port), "--workers", "1"]
    if path is not None:
        # Otherwise MLflow would put both into the working directory.
        artifacts = str(path.parent / "mlartifacts")
        command += ["--default-artifact-root", artifacts, "--artifacts-destination", artifacts]
    environment = {
        **os.environ,
        # Not as an option: a command line shows its password to everyone on the machine.
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": os.environ.get("MLFLOW_DISABLE_TELEMETRY", "true"),
        # The job runner starts a dozen more processes, for features that sweeps do not use.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
    )
    try:
        yield process
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
    # The server is gone; its children may need the second signal's time.


def _wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if condition():
            return True
        time.sleep(0.2)
    return False


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _page(address: str, experiment: str) -> str:
    """Return the page of the experiment's runs; MLflow's start page where there is no such experiment."""
    query = json.dumps({"max_results": 1000, "order_by": ["last_update_time DESC"]}).encode()
    request = urllib.request.Request(
        f"{address}/api/2.0/mlflow/experiments/search", query, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            found = json.load(response).get("experiments", [])
    except (OSError, ValueError):
        return ""
    ids = [entry["experiment_id"] for entry in found if entry["name"] == experiment]
    # Without the workflow MLflow shows the menus for language models.
    return f"#/experiments/{ids[0]}/runs?workflowType=machine_learning" if ids else ""


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    return redact(lines[-1].strip()) if lines else "it said nothing."


if __name__ == "__main__":
    sys.exit(main())
