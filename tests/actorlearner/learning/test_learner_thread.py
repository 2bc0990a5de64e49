"""The learner thread: order, backpressure, starvation, failure, stop."""

import threading
import time
import traceback
from collections.abc import Iterator
from typing import cast

import pytest
from fragments import ControlledLearner, make_batch

from actorlearner.learning.learner import Learner
from actorlearner.learning.learner_thread import LearnerThread
from actorlearner.metrics import Timers


class Running:
    def __init__(self, queue_size: int = 2, starvation_timeout: float = 60.0) -> None:
        self.learner = ControlledLearner()
        self.thread = LearnerThread(
            cast(Learner, self.learner), Timers(), queue_size=queue_size, starvation_timeout=starvation_timeout
        )

    def put(self, version: int = 0, timeout: float = 0.0) -> bool:
        return self.thread.put(make_batch(version=version), env_steps_sampled=0, timeout=timeout)


@pytest.fixture
def running() -> Iterator[Running]:
    started = Running()
    yield started
    started.learner.may_go_on.set()
    started.thread.stop()


def wait_until(condition: object, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_slow_source_is_counted_and_no_error() -> None:  # fault F1
    running = Running(starvation_timeout=0.01)
    wait_until(lambda: running.thread.num_starvations >= 2)
    running.thread.check()
    assert running.put()
    wait_until(lambda: running.thread.results())
    running.thread.stop()


def test_batches_are_learned_in_order(running: Running) -> None:  # fault F7
    for version in range(20):
        assert running.put(version, timeout=5.0)
    wait_until(lambda: len(running.learner.seen) == 20)
    assert running.learner.seen == list(range(20))


def test_put_says_no_when_full_and_waits_without_spinning(running: Running) -> None:  # faults F3, F6, F8
    running.learner.may_go_on.clear()
    assert running.put()
    wait_until(lambda: running.thread.queue_length == 0)
    assert running.put()
    assert running.put()
    assert not running.put()
    used, started = time.process_time(), time.monotonic()
    assert not running.put(timeout=0.5)
    assert time.monotonic() - started >= 0.5
    assert time.process_time() - used < 0.1
    assert running.thread.queue_length == 2


def test_put_wakes_up_when_there_is_room(running: Running) -> None:
    running.learner.may_go_on.clear()
    while running.put(timeout=0.05):
        pass
    running.learner.may_go_on.set()
    assert running.put(timeout=5.0)


def test_queued_steps_leave_when_their_results_are_taken(running: Running) -> None:  # fault F12
    running.learner.may_go_on.clear()
    running.put()
    running.put()
    assert running.thread.env_steps_queued == 16
    running.learner.may_go_on.set()
    wait_until(lambda: len(running.learner.seen) == 2)
    assert running.thread.env_steps_queued == 16
    wait_until(lambda: running.learner.version == 2 and running.thread.weights().version == 2)
    results = running.thread.results()
    assert running.thread.env_steps_queued == 16 - sum(result.env_steps for result in results)


def test_the_learners_own_error_reaches_the_driver_with_an_empty_out_queue(running: Running) -> None:  # faults F2, F3
    running.learner.error = ZeroDivisionError("loss broke")
    running.put()
    wait_until(lambda: running.thread._error is not None, seconds=1.0)
    with pytest.raises(ZeroDivisionError, match="loss broke") as raised:
        running.thread.check()
    assert raised.value is running.learner.error
    assert any(frame.name == "update" for frame in traceback.extract_tb(raised.value.__traceback__))


def test_the_learners_own_error_reaches_a_driver_that_waits_on_a_full_queue(running: Running) -> None:  # fault F3
    running.learner.may_go_on.clear()
    while running.put(timeout=0.05):
        pass
    running.learner.error = ZeroDivisionError("loss broke")
    threading.Timer(0.1, running.learner.may_go_on.set).start()
    started = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="loss broke"):
        running.put(timeout=30.0)
    assert time.monotonic() - started < 1.0


def test_stop_joins_the_thread(running: Running) -> None:  # fault F5
    running.put()
    running.thread.stop()
    assert not running.thread._thread.is_alive()
    assert not running.put(timeout=1.0)


def test_paused_keeps_the_learner_between_two_updates(running: Running) -> None:
    with running.thread.paused():
        running.put()
        time.sleep(0.05)
        assert running.learner.version == 0
    wait_until(lambda: running.learner.version == 1)
