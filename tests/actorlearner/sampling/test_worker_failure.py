"""The words of a worker's failure, from each kind of error that Ray has."""

from __future__ import annotations

from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayTaskError

from actorlearner.exceptions import WorkerError
from actorlearner.sampling.worker_failure import worker_error

TRACE = """\x1b[36mray::RolloutWorker.sample()\x1b[39m (pid=1)
           ^^^^^^^^^^^^^^^^
  File "game.py", line 3, in step
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero"""

DEATH = """The actor died unexpectedly before finishing this task.
\tclass_name: RolloutWorker
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: \
Worker unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) this"""


def test_an_exception_of_the_worker_is_the_cause_and_its_traceback_is_readable():  # spec A4
    original = ZeroDivisionError("division by zero")
    error = RayTaskError("sample", TRACE, original, pid=1, ip="here").as_instanceof_cause()
    failure = worker_error("Rollout worker 2 (environment Pong)", "sampling", error)
    assert isinstance(failure, WorkerError)
    assert failure.__cause__ is original
    first, _, *trace = str(failure).splitlines()
    assert first.startswith(
        "Rollout worker 2 (environment Pong) failed while sampling: ZeroDivisionError: division by zero"
    )
    assert trace == [
        "ray::RolloutWorker.sample() (pid=1)",
        '  File "game.py", line 3, in step',
        "    return 1 / 0",
        "ZeroDivisionError: division by zero",
    ]


def test_a_death_is_told_in_one_line_with_advice():  # spec A18
    error = RayActorError(error_msg=DEATH)
    failure = worker_error("Rollout worker 2 (environment Pong)", "sampling", error)
    assert str(failure).startswith(
        "Rollout worker 2 (environment Pong) died while sampling: "
        "Worker unexpectedly exits with a connection error code 2. End of file. Often the machine ran out of memory: "
    )
    assert "resources.num_workers=0" in str(failure)
    assert "\n" not in str(failure)
    assert failure.__cause__ is error


def test_silence_is_told_with_advice():
    failure = worker_error("Rollout worker 2 (environment Pong)", "sampling", GetTimeoutError("nothing for 300 s."))
    assert "did not answer while sampling: nothing for 300 s. Look for an environment that hangs" in str(failure)


def test_a_class_that_the_process_cannot_import_is_no_death():
    trace = "ray::RolloutWorker.__init__() (pid=1)\nModuleNotFoundError: No module named 'game'"
    cause = RayTaskError("__init__", trace, None, pid=1, ip="here")
    cause._actor_id = None
    failure = worker_error("Rollout worker 2 (environment Pong)", "starting", ActorDiedError(cause))
    assert "failed while starting: ModuleNotFoundError: No module named 'game'" in str(failure)
    assert "memory" not in str(failure)
