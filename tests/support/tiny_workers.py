"""Workers without torch and environments, whose processes start in a fraction of a second."""

from __future__ import annotations

import os
import time

import numpy as np

from actorlearner.types import Fragment


class TwoArgumentsError(Exception):
    """An exception that cannot be unpickled: its constructor wants more than it passes on."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


class Echo:
    """Answers a request with its running number, after the seconds it was told."""

    def __init__(self):
        self.count = 0

    def work(self, seconds=0.0, error=None):
        time.sleep(seconds)
        if error is not None:
            raise error
        self.count += 1
        return self.count

    def ping(self):
        return os.getpid()

    def restart(self):
        self.count = 0


def tiny_fragment(worker_index, version, steps=2):
    """A fragment of ``steps`` steps of one sub-environment, with nothing in it."""
    zeros = np.zeros((steps, 1), np.float32)
    nothing = np.zeros((steps, 1), np.bool_)
    return Fragment(
        observations=np.zeros((steps + 1, 1, 3), np.float32),
        actions=np.zeros((steps, 1), np.int64),
        behaviour_log_probs=zeros,
        rewards=zeros,
        terminated=nothing,
        truncated=nothing,
        valid=~nothing,
        final_index=np.zeros((0, 2), np.int64),
        final_observations=np.zeros((0, 3), np.float32),
        episodes=(),
        weights_version=version,
        worker_index=worker_index,
    )


class TinyWorker:
    """The methods of ``RolloutWorker``; ``env_config`` says how it behaves.

    ``seconds``: how long a fragment takes, one number or one per worker. ``deaf``: index of a worker that ignores new
    weights. ``broken``: index of a worker whose ``set_weights`` raises, from its second call on. ``pid_file``: where
    to write the process id. ``start_hangs``: whether ``start`` does. ``fault``: how ``sample`` fails, "unpicklable" or
    "exit".
    """

    def __init__(self, worker_index, num_cpus=1.0):
        self.index = worker_index

    def start(self, settings, spec):
        self.version, self.updates = -1, 0
        self.config = settings.environment.env_config
        if "pid_file" in self.config:
            with open(self.config["pid_file"], "a") as file:
                file.write(f"{os.getpid()}\n")
        if self.config.get("start_hangs"):
            time.sleep(600)

    def sample(self):
        if self.config.get("fault") == "unpicklable":
            raise TwoArgumentsError("the physics exploded twice", 2)
        if self.config.get("fault") == "exit":
            os._exit(3)
        seconds = self.config.get("seconds", 0.0)
        time.sleep(seconds[self.index - 1] if isinstance(seconds, list) else seconds)
        return tiny_fragment(self.index, self.version)

    def set_weights(self, weights):
        self.updates += 1
        if self.config.get("broken") == self.index and self.updates > 1:
            raise ValueError("these weights do not fit")
        if self.config.get("deaf") != self.index or self.updates == 1:
            self.version = weights.version

    def ping(self):
        return os.getpid()

    def close(self):
        pass


class Hotel:
    """One process that houses many tiny workers; calls name the worker."""

    def __init__(self, indices, settings):
        self.workers = {index: TinyWorker(index) for index in indices}
        for worker in self.workers.values():
            worker.start(settings, None)

    def call(self, index, method, *arguments):
        return getattr(self.workers[index], method)(*arguments)


class Nest:
    """Stands for a trial: owns a worker set."""

    def start(self, settings):
        from actorlearner.sampling.worker_set import WorkerSet

        self.workers = WorkerSet(settings, None, start_timeout_s=20.0, worker_class=TinyWorker)
        import ray

        return ray.get([actor.ping.remote() for actor in self.workers.actors], timeout=20)

    def refuse(self, settings):
        from actorlearner.exceptions import ResourceError
        from actorlearner.sampling.worker_set import WorkerSet

        try:
            WorkerSet(settings, None, worker_class=TinyWorker)
        except ResourceError as error:
            return str(error)
        return "not refused"

    def ping(self):
        return os.getpid()
