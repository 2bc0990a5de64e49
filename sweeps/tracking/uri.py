"""Tracking URIs: what people may write, in the one form that MLflow gets, and without passwords where it is shown."""

from __future__ import annotations

import os
import re
from pathlib import Path

from actorlearner.exceptions import ConfigError

URI_KEY = "tracking.uri"
DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):[^/\s]*@")
_SECRET_QUERY = re.compile(r"(?i)([?&](?:password|token|secret|api_key)=)[^&\s]+")


def redact(text: str) -> str:
    """Return a text with the passwords of all URIs in it replaced by ``***``."""
    return _SECRET_QUERY.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text))


def resolve_uri(uri: str | None, folder: Path | None = None) -> str:
    """Return the tracking URI in the form that MLflow gets; creates nothing.

    - None: ``outputs/mlflow.db`` under ``folder``, as an absolute ``sqlite:///`` URI;
    - ``sqlite:///relative.db``: made absolute against ``folder``;
    - a plain path: the database file itself where it ends in .db, .sqlite or .sqlite3, else the folder of mlflow.db;
    - ``http://`` and ``https://``: an MLflow server; ``postgresql://``, ``mysql://``, ``mssql://``: a database server.

    Args:
        uri: the value of ``tracking.uri``.
        folder: base of relative paths; the working directory by default.

    Raises:
        ConfigError: MLflow's file store, a database in memory, or a scheme that is none of these.
    """
    base = (folder or Path.cwd()).absolute()
    if uri is None:
        return sqlite_uri(base / "outputs" / "mlflow.db")
    text = uri.strip()
    if not text:
        raise uri_error(uri, "it must not be empty", "leave it at null for a database under outputs/.")
    scheme = scheme_of(text)
    if scheme == "":
        path = base / Path(text).expanduser()
        return sqlite_uri(path if path.suffix in _DATABASE_SUFFIXES else path / "mlflow.db")
    if scheme == "sqlite":
        return _resolve_sqlite(text, base)
    if scheme in ("http", "https"):
        return text.rstrip("/")
    if scheme in DATABASE_PORTS:
        return text
    if scheme == "file":
        raise uri_error(text, "MLflow no longer writes file stores", f"use {sqlite_uri(base / 'mlflow.db')}.")
    known = "sqlite, http, https, postgresql, mysql, mssql, or a path"
    raise uri_error(text, f"the scheme must be one of {known}", "for a local database leave tracking.uri at null.")


def sqlite_path(uri: str) -> Path | None:
    """Return the database file of a resolved sqlite URI; None for all others."""
    if scheme_of(uri) != "sqlite":
        return None
    return Path(uri.partition("///")[2].partition("?")[0])


def scheme_of(uri: str) -> str:
    """Return the scheme in lower case without its driver; empty for a plain path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.\-]+):", uri)  # two letters at least: C:\ is a path
    return match.group(1).lower().partition("+")[0] if match else ""


def sqlite_uri(path: Path) -> str:
    """Return the absolute sqlite URI of a database file."""
    # os.path.abspath also takes out "..", without following links.
    return f"sqlite:///{os.path.abspath(path)}"


def _resolve_sqlite(uri: str, base: Path) -> str:
    scheme, _, rest = uri.partition("://")
    name, mark, query = rest.removeprefix("/").partition("?")
    if not name or name == ":memory:":
        raise uri_error(uri, "a database in memory is gone when the sweep ends", "name a file: sqlite:///mlflow.db.")
    return f"{scheme}:///{os.path.abspath(base / Path(name).expanduser())}{mark}{query}"


def uri_error(uri: str, rule: str, cure: str) -> ConfigError:
    """Return the error for a URI that cannot be used, without its password."""
    shown = redact(uri)
    return ConfigError(f"{URI_KEY} {shown!r} cannot be used: {rule}; {cure}", key=URI_KEY, value=shown)
