"""The Optuna study on disk: made before the first trial, readable by Optuna's own tools while the sweep runs."""

from __future__ import annotations

import contextlib
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, GPSampler, QMCSampler, RandomSampler, TPESampler
from optuna.storages import RDBStorage
from optuna.study import StudyDirection

from actorlearner.exceptions import ConfigError

# A dashboard may hold the database for a moment; SQLite's own default of 5 s is short on a busy disk.
LOCK_TIMEOUT_S = 30


def study_url(sweep_dir: Path) -> str:
    """Return the absolute storage URL of a sweep's study, ``<sweep dir>/study.db``."""
    database = str(sweep_dir.resolve() / "study.db")
    return sqlalchemy.URL.create("sqlite", database=database).render_as_string()


def make_sampler(sampler: str, seed: int, num_trials: int) -> BaseSampler:
    """Make one of Optuna's samplers, seeded.

    TPE and GP propose at random until a quarter of the trials, between 4 and 10, have ended: Optuna's fixed 10
    would leave little of a small sweep to the search.

    Args:
        sampler: ``tpe``, ``random``, ``gp`` or ``qmc``.
        seed: same seed, same proposals, as long as trials end in the same order.
        num_trials: how many trials the sweep has.

    Raises:
        ConfigError: no such sampler.
    """
    startup = min(10, max(4, num_trials // 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        if sampler == "tpe":
            # group: keys with a condition are modelled jointly too, instead of falling back to one by one.
            return TPESampler(seed=seed, n_startup_trials=startup, multivariate=True, group=True)
        if sampler == "random":
            return RandomSampler(seed=seed)
        if sampler == "gp":
            return GPSampler(seed=seed, n_startup_trials=startup, warn_independent_sampling=False)
        if sampler == "qmc":
            return QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)
    raise ConfigError(
        f"search.sampler must be one of tpe, random, gp, qmc, got {sampler!r}.", key="search.sampler", value=sampler
    )


def open_storage(storage_url: str) -> RDBStorage:
    """Open a storage, with SQLite set up for a writer that must not wait; ``storage.engine.dispose()`` closes it.

    The write-ahead log lets readers and the writer pass each other and takes a report from 3 ms to 0.8 ms
    (``delete``/``full`` against ``wal``/``normal``, ext4). A killed process loses nothing.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if not storage_url.startswith("sqlite"):
        return RDBStorage(storage_url)
    storage = RDBStorage(storage_url, engine_kwargs={"connect_args": {"timeout": LOCK_TIMEOUT_S}})
    sqlalchemy.event.listen(storage.engine, "connect", _set_up_sqlite)
    storage.engine.dispose()  # connections made so far lack the settings
    return storage


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    # Some network file systems cannot share memory between processes; there SQLite stays with its slower journal.
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")


def create_study(storage: RDBStorage, study_name: str, sampler: BaseSampler, *, metric: str, mode: str) -> optuna.Study:
    """Create a sweep's study.

    Args:
        storage: where to.
        study_name: the sweep's name.
        sampler: proposes configurations.
        metric: name of the objective, shown by Optuna's tools.
        mode: ``max`` or ``min``.

    Raises:
        ConfigError: the storage already has a study of this name; two sweeps never mix.
    """
    direction = StudyDirection.MAXIMIZE if mode == "max" else StudyDirection.MINIMIZE
    try:
        study = optuna.create_study(storage=storage, study_name=study_name, sampler=sampler, direction=direction)
    except optuna.exceptions.DuplicatedStudyError as error:
        raise ConfigError(
            f"sweep.name must be new, but {storage.url} already holds a study named {study_name!r}: "
            "choose another sweep.name or sweep.dir, or remove the old directory.",
            key="sweep.name",
            value=study_name,
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study.set_metric_names([metric])
    return study
