"""What passes from the callers to the thread that writes: runs, and what each of them still lacks in MLflow."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import NamedTuple


class Point(NamedTuple):
    """Metrics of one result: env steps, wall time in ms since 1970, values by MLflow name."""

    step: int
    timestamp: int
    metrics: dict[str, float]


class End(NamedTuple):
    """How a run ended: MLflow's run status and the wall time in ms since 1970."""

    status: str
    timestamp: int


@dataclass
class Pending:
    """What has not reached MLflow yet."""

    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # artifacts by file name
    points: list[Point] = field(default_factory=list)
    end: End | None = None

    def put_back(self, rest: Pending) -> None:
        """Take back what an attempt did not write; what came in meanwhile is newer and wins."""
        self.tags = {**rest.tags, **self.tags}
        self.params = {**rest.params, **self.params}
        self.texts = {**rest.texts, **self.texts}
        self.points[:0] = rest.points
        self.end = self.end or rest.end


@dataclass
class RunRecord:
    """One MLflow run and what it still lacks.

    Attributes:
        key: the caller's name for it, such as the trial id.
        name: shown to people.
        identity: tags by which a resumed sweep finds the run of an earlier process; values from ``searchable``.
        started: wall time in ms since 1970.
        parent: the sweep's run; None for the sweep itself and for a single training.
        run_id: MLflow's id once the run exists.
        nonce: tag by which this process finds the run when MLflow's answer to its creation was lost.
        resume: whether a run of an earlier process with the same identity is continued.
        creation_tried: whether the run may exist although MLflow's answer never came.
        last_step: env steps of the latest result.
        ended: whether its end has been told.
    """

    key: str
    name: str
    identity: dict[str, str]
    started: int
    parent: RunRecord | None = None
    run_id: str | None = None
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex)
    resume: bool = False
    creation_tried: bool = False
    last_step: int = 0
    ended: bool = False
    pending: Pending = field(default_factory=Pending)


def searchable(text: str) -> str:
    """Return an id in a form that MLflow's search language can quote: quotes and backslashes as ``%27``."""
    return re.sub(r"['\"\\%]", lambda match: f"%{ord(match[0]):02X}", text)
