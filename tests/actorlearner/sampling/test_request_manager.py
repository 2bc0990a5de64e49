"""Requests in flight: order, room, failures, and waiting without spinning."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest
import ray
from tiny_workers import Echo

from actorlearner.sampling.request_manager import RequestManager


@contextlib.contextmanager
def two_actors():
    made = [ray.remote(Echo).options(num_cpus=0.5).remote() for _ in range(2)]
    try:
        yield made
    finally:
        for actor in made:
            ray.kill(actor)


@pytest.fixture(scope="module")
def kept_actors():
    with two_actors() as made:
        yield made


@pytest.fixture
def actors(ray_cluster, request):
    made = request.getfixturevalue("kept_actors")  # Asked for late: Ray has to run first.
    ray.get([actor.restart.remote() for actor in made], timeout=30)
    return made


def manager_of(actors, max_in_flight=2, seconds=lambda worker: 0.0, errors=None):
    manager = RequestManager(
        lambda worker: actors[worker].work.remote(seconds(worker), (errors or {}).get(worker)), max_in_flight
    )
    for worker in range(len(actors)):
        manager.add(worker)
    return manager


def take(manager, wanted, timeout=20.0):
    """Collect results until there are ``wanted``."""
    results = []
    deadline = time.monotonic() + timeout
    while len(results) < wanted:
        assert time.monotonic() < deadline, f"only {results}"
        ready = manager.ready(1.0)
        assert not ready.failures
        results += ready.results
    return results


def test_keeps_as_many_requests_in_flight_as_allowed_and_no_more(actors):  # spec I4, fault F8
    manager = manager_of(actors, max_in_flight=3)
    assert manager.submit_all() == 6
    assert manager.submit_all() == 0
    assert manager.num_in_flight == 6
    results = take(manager, 6)
    assert manager.num_in_flight == 0
    assert manager.ready(0.0).results == []
    assert len(results) == 6  # Nobody asked again, so nothing else was made.
    assert ray.get([actor.work.remote() for actor in actors], timeout=20) == [4, 4]


def test_each_workers_results_come_oldest_first(actors):  # fault F7
    manager = manager_of(actors, max_in_flight=4)
    results = []
    for _ in range(5):
        manager.submit_all()
        results += take(manager, 3)
    for worker in (0, 1):
        numbers = [number for who, number in results if who == worker]
        assert numbers == list(range(1, len(numbers) + 1))


def test_takes_everything_that_is_ready(actors):
    manager = manager_of(actors, max_in_flight=2)
    manager.submit_all()
    ray.get([actor.work.remote() for actor in actors], timeout=20)  # Answers queue up behind the requests.
    assert len(manager.ready(5.0).results) == 4


def test_a_slow_worker_does_not_hold_up_a_fast_one(actors):
    manager = manager_of(actors, max_in_flight=1, seconds=lambda worker: 2.0 if worker == 0 else 0.0)
    manager.submit_all()
    start = time.monotonic()
    assert [worker for worker, _ in manager.ready(10.0).results] == [1]
    assert time.monotonic() - start < 1.5
    assert manager.oldest_wait()[0] == 0


def test_waiting_costs_no_processor_time(actors):  # fault F6
    manager = manager_of(actors, max_in_flight=1, seconds=lambda worker: 2.0)
    manager.submit_all()
    start, used = time.monotonic(), time.process_time()
    assert manager.ready(1.0).results == []
    assert time.monotonic() - start >= 0.9
    assert time.process_time() - used < 0.3
    assert manager.oldest_wait()[1] >= 0.9


def test_returns_at_once_with_nothing_in_flight(actors):
    manager = manager_of(actors)
    start = time.monotonic()
    assert manager.ready(30.0).results == []
    assert time.monotonic() - start < 1.0
    assert manager.oldest_wait() is None


def test_forgets_the_requests_of_a_removed_worker(actors):  # spec I7
    manager = manager_of(actors, max_in_flight=2, seconds=lambda worker: 0.2)
    manager.submit_all()
    assert manager.remove(0) == 2
    assert manager.remove(0) == 0
    assert manager.num_in_flight == 2
    assert {worker for worker, _ in take(manager, 2)} == {1}
    manager.add(0)
    assert manager.submit_all() == 4
    # Its two forgotten answers, 1 and 2, are never handed out.
    assert [number for worker, number in take(manager, 4) if worker == 0] == [3, 4]


def test_a_failing_worker_is_reported_once_and_removed(actors):  # spec I7
    manager = manager_of(actors, errors={0: ValueError("boom")})
    manager.submit_all()
    ray.wait([actor.work.remote() for actor in actors], num_returns=2, timeout=20)
    ready = manager.ready(5.0)
    assert [worker for worker, _ in ready.failures] == [0]
    assert isinstance(ready.failures[0][1], ValueError)
    assert [worker for worker, _ in ready.results] == [1, 1]
    assert manager.submit_all() == 2


def test_a_killed_worker_is_reported_and_the_others_go_on(ray_cluster):  # spec I7
    with two_actors() as actors:
        manager = manager_of(actors, max_in_flight=2, seconds=lambda worker: 30.0 if worker == 0 else 0.0)
        pid = ray.get(actors[0].ping.remote(), timeout=20)
        manager.submit_all()
        assert [worker for worker, _ in take(manager, 2)] == [1, 1]
        os.kill(pid, signal.SIGKILL)
        ready = manager.ready(20.0)
        assert [worker for worker, _ in ready.failures] == [0]
        assert isinstance(ready.failures[0][1], ray.exceptions.RayActorError)
        assert manager.num_in_flight == 0
        assert manager.submit_all() == 2
        assert len(take(manager, 2)) == 2


def test_refuses_a_limit_below_one():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        RequestManager(lambda worker: None, 0)
