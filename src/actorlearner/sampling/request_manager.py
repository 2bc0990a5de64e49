"""Keeps workers busy without waiting for any: requests in flight, handed out as they finish."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import ray
from ray.exceptions import RayError

WorkerT = TypeVar("WorkerT", bound=Hashable)
ResultT = TypeVar("ResultT")


class _Request(NamedTuple):
    reference: Any
    submitted_at: float


@dataclass
class _Line:
    """One worker's requests, oldest first, and when it last delivered (seconds of the monotonic clock)."""

    requests: deque[_Request] = field(default_factory=deque)
    delivered_at: float = 0.0


@dataclass(frozen=True)
class Ready(Generic[WorkerT, ResultT]):
    """What ``RequestManager.ready`` found.

    Attributes:
        results: (worker, result) pairs; each worker's own in the order in which they were asked for.
        failures: (worker, error) pairs, at most one per worker; these workers have been removed.
    """

    results: list[tuple[WorkerT, ResultT]]
    failures: list[tuple[WorkerT, RayError]]


class RequestManager(Generic[WorkerT, ResultT]):
    """Keeps up to ``max_in_flight`` requests at each worker; workers come and go at run time (spec I4).

    Asking is the caller's move (``submit_all``): who has no room for results does not ask (fault F8).

    Args:
        submit: sends one request to a worker and returns Ray's object reference of the result.
        max_in_flight: requests per worker, at least 1; 2 keep a worker busy while its last result travels.
        fetch_timeout_s: longest wait for the bytes of a result that Ray says is ready, in seconds.
    """

    def __init__(self, submit: Callable[[WorkerT], Any], max_in_flight: int, *, fetch_timeout_s: float = 60.0) -> None:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, got {max_in_flight}.")
        self._submit = submit
        self._max_in_flight = max_in_flight
        self._fetch_timeout_s = fetch_timeout_s
        self._lines: dict[WorkerT, _Line] = {}

    @property
    def num_in_flight(self) -> int:
        """Number of requests whose results have not been handed out."""
        return sum(len(line.requests) for line in self._lines.values())

    def add(self, worker: WorkerT) -> None:
        """Serve one more worker, from the next ``submit_all`` on."""
        self._lines.setdefault(worker, _Line())

    def remove(self, worker: WorkerT) -> int:
        """Forget a worker and its requests; return how many were lost. Unknown workers are no error."""
        line = self._lines.pop(worker, None)
        return len(line.requests) if line else 0

    def submit_all(self) -> int:
        """Fill every worker up to its limit, one request each in turn; return the number of new requests."""
        submitted = 0
        for depth in range(self._max_in_flight):
            for worker, line in self._lines.items():
                if len(line.requests) <= depth:
                    line.requests.append(_Request(self._submit(worker), time.monotonic()))
                    submitted += 1
        return submitted

    def ready(self, timeout: float = 0.0) -> Ready[WorkerT, ResultT]:
        """Wait up to ``timeout`` seconds for the first result, then take all that are ready.

        Waits on the object references, without polling; with nothing in flight it returns at once.
        """
        found: Ready[WorkerT, ResultT] = Ready([], [])
        finished = self._finished(timeout)
        for worker in list(self._lines) if finished else ():
            self._take(worker, finished, found)
        return found

    def oldest_wait(self) -> tuple[WorkerT, float] | None:
        """Return the worker that has kept us waiting longest and for how many seconds; None with nothing in flight.

        A request waits from when it was sent or from when its worker delivered last, whichever is later.
        """
        now = time.monotonic()
        waits = [
            (worker, now - max(line.requests[0].submitted_at, line.delivered_at))
            for worker, line in self._lines.items()
            if line.requests
        ]
        return max(waits, key=lambda wait: wait[1], default=None)

    def _finished(self, timeout: float) -> set[Any]:
        # Waits on each worker's oldest request only: the death of a worker may reach its later ones first, and
        # waking up for those would be waking up for nothing.
        oldest = [line.requests[0].reference for line in self._lines.values() if line.requests]
        if not oldest or not ray.wait(oldest, num_returns=1, timeout=timeout)[0]:
            return set()
        everything = [request.reference for line in self._lines.values() for request in line.requests]
        return set(ray.wait(everything, num_returns=len(everything), timeout=0)[0])

    def _take(self, worker: WorkerT, finished: set[Any], found: Ready[WorkerT, ResultT]) -> None:
        line = self._lines[worker]
        while line.requests and line.requests[0].reference in finished:
            try:
                result = ray.get(line.requests[0].reference, timeout=self._fetch_timeout_s)
            except RayError as error:
                self.remove(worker)
                found.failures.append((worker, error))
                return
            line.requests.popleft()
            line.delivered_at = time.monotonic()
            found.results.append((worker, result))
