"""Where MLflow's data lie: checks before a sweep starts, and the database's creation. Imports MLflow only when used."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sqlite3
import ssl
import threading
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from actorlearner.exceptions import ConfigError
from sweeps.tracking.uri import DATABASE_PORTS, redact, resolve_uri, scheme_of, sqlite_path, sqlite_uri, uri_error

if TYPE_CHECKING:
    from mlflow import MlflowClient

CHECK_TIMEOUT_S = 8.0
__all__ = ["check_store", "connect", "prepare", "redact", "resolve_uri"]


def check_store(uri: str) -> None:
    """Check within 10 s that the store of a resolved URI can be used; creates nothing.

    Raises:
        ConfigError: the server does not answer, or the database cannot be written.
    """
    path = sqlite_path(uri)
    if path is not None:
        _check_sqlite(uri, path)
    elif scheme_of(uri) in ("http", "https"):
        _within_deadline(uri, _check_http)
    else:
        _within_deadline(uri, _check_database_server)


def connect(uri: str) -> MlflowClient:
    """Return a client of a resolved URI, quiet and with short time-outs; slow on the first call (imports MLflow)."""
    _import_quietly()
    from mlflow import MlflowClient

    return MlflowClient(uri, registry_uri=uri)


def _import_quietly() -> None:
    # Set before the import, which reads some of them; the user's own values win.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow  # noqa: F401  (sets up its loggers)

    # Their warnings on stderr would tear the live display; what matters comes back as exceptions.
    for name in ("mlflow", "alembic", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def prepare(uri: str, experiment: str) -> str:
    """Create the database (seconds when it is new) and the experiment where they are missing; return the id.

    Artifacts of a sqlite store lie in ``mlartifacts`` beside the database; servers choose for themselves.

    Raises:
        ConfigError: the experiment was deleted in MLflow.
        mlflow.exceptions.MlflowException: the store cannot be used.
    """
    from_path = sqlite_path(uri)
    if from_path is not None:
        _create_database(from_path)
    client = connect(uri)
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(experiment)
    if found is None:
        location = None if from_path is None else (from_path.parent / "mlartifacts").as_uri()
        try:
            return str(client.create_experiment(experiment, artifact_location=location, tags=_EXPERIMENT_TAGS))
        except MlflowException:
            # Another sweep may have been faster.
            found = client.get_experiment_by_name(experiment)
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise ConfigError(
            f"The MLflow experiment {experiment!r} was deleted: restore it (mlflow experiments restore "
            f"--experiment-id {found.experiment_id}) or choose another tracking.experiment.",
            key="tracking.experiment",
            value=experiment,
        )
    return str(found.experiment_id)


# Without it MLflow's page asks on every visit what kind of experiment this is.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}


def _create_database(path: Path) -> None:
    """Make the database under another name first: no other process sees, and no kill leaves, a half-made one."""
    if path.exists() and path.stat().st_size > 0:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    _import_quietly()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    try:
        store = SqlAlchemyStore(sqlite_uri(draft), str(path.parent / "mlartifacts"))
        store.engine.dispose()
        with contextlib.suppress(FileExistsError):
            _publish(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _publish(draft: Path, path: Path) -> None:
    """Give the draft its name unless another process was faster (FileExistsError)."""
    if path.exists() and path.stat().st_size == 0:
        path.unlink()
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        # No hard links on this file system.
        draft.rename(path)


def _check_sqlite(uri: str, path: Path) -> None:
    cure = (
        "choose another place with tracking.uri=sqlite:////absolute/path/mlflow.db or turn it off with tracking=none."
    )
    existing = path
    while not os.path.lexists(existing):
        existing = existing.parent
    if existing == path:
        if not path.is_file():
            raise uri_error(uri, f"{path} is not a file", cure)
        if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
            raise uri_error(uri, f"{path} or its folder is not writable", cure)
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            try:
                database.execute("PRAGMA schema_version").fetchone()
            except sqlite3.DatabaseError as error:
                raise uri_error(uri, f"{path} is not a readable sqlite database ({error})", cure) from error
    elif not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise uri_error(uri, f"{existing} is not a writable folder", cure)


def _within_deadline(uri: str, check: Any) -> None:
    """Run a check that may block without a limit (name resolution has none) in a thread, and wait CHECK_TIMEOUT_S."""
    outcome: list[ConfigError | None] = []

    def run() -> None:
        try:
            check(uri)
            outcome.append(None)
        except ConfigError as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="mlflow-check", daemon=True)
    thread.start()
    thread.join(CHECK_TIMEOUT_S)
    if not outcome:
        raise _no_answer(uri, f"nothing within {CHECK_TIMEOUT_S:g} s")
    if outcome[0] is not None:
        raise outcome[0]


def _no_answer(uri: str, reason: object) -> ConfigError:
    return uri_error(
        uri,
        f"the server does not answer ({reason})",
        "start it or correct the address; tracking.uri=null is a local database, tracking=none does without.",
    )


def _check_http(uri: str) -> None:
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(urlunsplit((parts.scheme, host, parts.path + "/health", "", "")))
    credentials = _credentials(uri)
    if credentials:
        request.add_header("Authorization", credentials)
    try:
        with urllib.request.urlopen(request, timeout=CHECK_TIMEOUT_S / 2, context=_tls(parts.scheme)) as response:
            response.read(64)
    except urllib.error.HTTPError as error:
        error.close()
        raise _refused(uri, error.code) from None
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise _no_answer(uri, getattr(error, "reason", error)) from None


def _refused(uri: str, code: int) -> ConfigError:
    cure = "is it an MLflow server's address?"
    if code == 401:
        cure = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN."
    elif code == 403:
        cure = "is it an MLflow server's address, and does it allow this host name (mlflow server --allowed-hosts)?"
    return uri_error(uri, f"the server refused a request for /health with HTTP status {code}", cure)


def _credentials(uri: str) -> str | None:
    """Return the Authorization header that MLflow's own client would send."""
    parts = urlsplit(uri)
    user, password = parts.username, parts.password
    user = unquote(user) if user else os.environ.get("MLFLOW_TRACKING_USERNAME")
    password = unquote(password) if password else os.environ.get("MLFLOW_TRACKING_PASSWORD")
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if user and password:
        return "Basic " + b64encode(f"{user}:{password}".encode()).decode()
    return f"Bearer {token}" if token else None


def _tls(scheme: str) -> ssl.SSLContext | None:
    if scheme != "https":
        return None
    context = ssl.create_default_context(cafile=os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH"))
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("1", "true"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _check_database_server(uri: str) -> None:
    import sqlalchemy

    try:
        # Loads the driver, connects to nothing.
        url = sqlalchemy.create_engine(uri).url
    except ModuleNotFoundError as error:
        cure = f"install it (pip install {error.name}), or use an MLflow server."
        raise uri_error(uri, f"its driver {error.name!r} is not installed", cure) from None
    except (sqlalchemy.exc.ArgumentError, ValueError) as error:
        raise uri_error(uri, f"SQLAlchemy does not understand it ({error})", "check its spelling.") from None
    address = (url.host or "localhost", url.port or DATABASE_PORTS[scheme_of(uri)])
    try:
        socket.create_connection(address, CHECK_TIMEOUT_S / 2).close()
    except OSError as error:
        raise _no_answer(uri, error) from None
