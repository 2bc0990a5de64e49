"""Errors that name the rule, the value received and the cure; everything this package raises on purpose."""

from __future__ import annotations

from typing import Any


class ActorLearnerError(Exception):
    """Base of all errors that this package raises on purpose."""


class ConfigError(ActorLearnerError, ValueError):
    """A configuration value breaks a rule.

    Args:
        message: the rule, the value received and the cure, as one or two sentences.
        key: dotted path of the offending key, for example ``algorithm.gamma``; None when several keys clash.
        value: what was received.
    """

    def __init__(self, message: str, *, key: str | None = None, value: Any = None) -> None:
        super().__init__(message)
        self.key = key
        self.value = value


class UnknownKeyError(ConfigError):
    """A configuration key does not exist; the message names the closest one that does."""


class EnvironmentNotFoundError(ConfigError):
    """No environment with this id is registered."""


class MissingExtraError(ConfigError):
    """The environment needs a package that is not installed; the message names the pip extra."""


class ResourceError(ConfigError):
    """A trial asks for more CPUs or GPUs than there are."""


class CheckpointError(ActorLearnerError, ValueError):
    """A checkpoint is missing, truncated, corrupted, foreign or made by a newer release."""


class NonFiniteError(ActorLearnerError, ArithmeticError):
    """A loss, gradient or observation became NaN or infinite; the message names which one."""


class WorkerError(ActorLearnerError, RuntimeError):
    """A rollout worker failed or did not answer in time; the message names the worker and its own error."""
