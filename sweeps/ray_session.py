"""Start and end Ray quietly, embedded or on a cluster, and turn Ctrl-C and SIGTERM into an orderly stop."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ray.tune.stopper import Stopper

from actorlearner.exceptions import ConfigError

# Ray reads these when it is imported or started; a person's own value wins.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DEDUP_LOGS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_WARN_THRESHOLD_S": "5",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_LOG_TO_DRIVER_EVENT_LEVEL": "ERROR",
}
# How long a cluster may take to answer.
CLUSTER_TIMEOUT_S = 5.0
# A socket's name has at most 107 characters, of which Ray's own part takes about 70.
LONGEST_TEMPORARY_FOLDER = 30
LOCAL_OBJECT_STORE_BYTES = 128 * 2**20
REMOTE_OBJECT_STORE_BYTES = 768 * 2**20


def prepare_environment() -> None:
    """Set the variables that keep Ray quiet; must run before the first import of ray."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def on_cluster() -> bool:
    """Tell whether a Ray cluster was named (RAY_ADDRESS)."""
    return bool(os.environ.get("RAY_ADDRESS"))


@contextmanager
def imports_in_background(*modules: str) -> Iterator[None]:
    """Import modules while the body runs; done when it ends.

    Ray's start is mostly waiting, and torch and Optuna take seconds to import.
    """

    def load() -> None:
        for module in modules:
            importlib.import_module(module)

    thread = threading.Thread(target=load, name="imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def short_temporary_folder() -> str | None:
    """Return a folder for Ray's sockets where the usual one is too deep for their names; None keeps the usual one."""
    if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY_FOLDER:
        return None
    return tempfile.mkdtemp(prefix="ray-", dir="/tmp")


@contextmanager
def ray_session(*, remote_workers: bool) -> Iterator[list[dict[str, float]]]:
    """Start an embedded Ray, or connect to the cluster in RAY_ADDRESS; shut it down afterwards.

    Args:
        remote_workers: whether fragments travel through the object store, which then needs room.

    Yields:
        The resources of each node.
    """
    import ray

    from actorlearner.resources import detect_machine

    arguments: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if not on_cluster():
        # A token of this Ray's own: Ray would write one into the home folder, which need not be writable.
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        machine = detect_machine()
        arguments.update(
            address="local",
            num_cpus=int(machine.num_cpus),
            num_gpus=int(machine.num_gpus),
            include_dashboard=False,
            object_store_memory=REMOTE_OBJECT_STORE_BYTES if remote_workers else LOCAL_OBJECT_STORE_BYTES,
            _temp_dir=short_temporary_folder(),
        )
    with imports_in_background("actorlearner.algorithm", "sweeps.search"):
        ray.init(**arguments)
    try:
        yield [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]
    finally:
        ray.shutdown()


def check_cluster_address(address: str) -> None:
    """Raise ConfigError unless something listens at a cluster's ``[ray://]host:port``; ``auto`` is left to Ray.

    Ray itself would try for more than a minute and print nothing but its own internals.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=CLUSTER_TIMEOUT_S).close()
    except OSError as error:
        raise ConfigError(
            f"RAY_ADDRESS={address} does not answer ({error}): start the cluster, correct the address, or unset "
            "RAY_ADDRESS to run on this machine.",
            key="RAY_ADDRESS",
            value=address,
        ) from None


@contextmanager
def cluster_nodes() -> Iterator[list[dict[str, float]] | None]:
    """Connect to the cluster in RAY_ADDRESS, if there is one, before anything is made.

    Yields:
        The resources of each of its nodes; None for an embedded Ray, which starts later.
    """
    if not on_cluster():
        yield None
        return
    check_cluster_address(os.environ["RAY_ADDRESS"])
    with ray_session(remote_workers=False) as nodes:
        yield nodes


class StopRequest(Stopper):
    """Ends a trial at its budget, and all trials on the first Ctrl-C or SIGTERM (Tune asks ten times a second).

    Args:
        budget: env steps of one trial.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._event = threading.Event()
        self.signal_number: int | None = None

    def __getstate__(self) -> Mapping[str, Any]:
        """Tune pickles stoppers at each snapshot; the event belongs to this process."""
        return {"budget": self.budget, "signal_number": self.signal_number}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._event = threading.Event()
        self.budget = state["budget"]
        self.signal_number = state["signal_number"]

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Stop a trial that has used its budget."""
        return int(result["num_env_steps_sampled"]) >= self.budget

    def stop_all(self) -> bool:
        """Tell Tune to end all trials."""
        return self._event.is_set()

    def request(self, signal_number: int) -> None:
        """Ask for the stop."""
        self.signal_number = signal_number
        self._event.set()


@contextmanager
def stop_on_signals(request: StopRequest, on_stop: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into ``request`` and call ``on_stop``; a second one interrupts at once.

    The handlers that were there before are put back: a multirun's next job must hear Ctrl-C, too.

    Yields:
        A function that sets the handlers again, for after Ray's start: Ray sets its own for SIGTERM, which aborts.
    """

    def handle(signal_number: int, frame: FrameType | None) -> None:
        if request.stop_all():
            raise KeyboardInterrupt
        request.request(signal_number)
        on_stop()

    def install() -> None:
        for number in before:
            signal.signal(number, handle)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    install()
    try:
        yield install
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
