"""A fresh database takes MLflow seconds: it is made once and copied."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeps.tracking import SweepTracker, prepare, resolve_uri


@pytest.fixture(scope="session")
def fresh_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    prepare(resolve_uri(str(path)), "template")
    return path


@pytest.fixture
def uri(fresh_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A resolved URI in a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs").mkdir()
    shutil.copy(fresh_database, tmp_path / "outputs" / "mlflow.db")
    return resolve_uri(None)


@pytest.fixture
def make_tracker(uri: str) -> Iterator[Callable[..., SweepTracker]]:
    trackers: list[SweepTracker] = []

    def make(**options: object) -> SweepTracker:
        tracker = SweepTracker(uri, **options)
        trackers.append(tracker)
        return tracker

    yield make
    for tracker in trackers:
        tracker.close(5)
