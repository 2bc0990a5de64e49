"""Turns what Ray says about a failed worker into one error that names worker, environment and cause."""

from __future__ import annotations

import re

from ray.exceptions import GetTimeoutError, OutOfMemoryError, RayActorError, RayError, RayTaskError

from actorlearner.exceptions import WorkerError

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_CARETS = re.compile(r"^[\s~^]*$")

MEMORY_ADVICE = (
    "Often the machine ran out of memory: lower resources.num_workers or resources.num_envs_per_worker, "
    "or sample in the trial's own process with resources.num_workers=0."
)
ENVIRONMENT_ADVICE = (
    "(If the environment is at fault, correct it or environment.env_config. The worker's own traceback follows.)"
)
SLOW_ADVICE = (
    "Look for an environment that hangs; if it is only slow, lower algorithm.rollout_fragment_length "
    "or resources.num_envs_per_worker."
)


def worker_error(worker: object, doing: str, error: BaseException) -> WorkerError:
    """Return the error to raise for a worker's failure; its ``__cause__`` is the original exception.

    Args:
        worker: printed at the start of the message; names the worker and its environment.
        doing: what the worker was asked for, such as "sampling".
        error: what ``ray.get`` raised, or the GetTimeoutError of a worker that does not answer.

    Returns:
        A WorkerError whose first line says who, what and why; the worker's own traceback follows where there is one.
    """
    if isinstance(error, GetTimeoutError):
        failure = WorkerError(f"{worker} did not answer while {doing}: {error} {SLOW_ADVICE}")
    elif isinstance(error, OutOfMemoryError) or (isinstance(error, RayActorError) and not error.actor_init_failed):
        failure = WorkerError(f"{worker} died while {doing}: {_death(error)} {MEMORY_ADVICE}")
    else:
        trace = _trace(error)
        reason = trace.splitlines()[-1] if trace else type(error).__name__
        failure = WorkerError(f"{worker} failed while {doing}: {reason} {ENVIRONMENT_ADVICE}\n\n{trace}")
    failure.__cause__ = _original(error)
    return failure


def _original(error: BaseException) -> BaseException:
    # What cannot be pickled arrives as a bare RayError that holds only a text.
    cause = error.cause if isinstance(error, RayTaskError) else None
    return cause if isinstance(cause, BaseException) and not isinstance(cause, RayError) else error


def _trace(error: BaseException) -> str:
    lines = _ANSI.sub("", str(error)).strip().splitlines()
    # Ray cuts its own frames out and leaves their underlines behind.
    return "\n".join(line for line in lines if not _CARETS.match(line))


def _death(error: BaseException) -> str:
    last = _ANSI.sub("", str(error)).strip().splitlines()[-1]
    detail = last.rpartition("Worker exit detail: ")[2].partition(" Some common causes")[0]
    return detail.rstrip(".") + "."
