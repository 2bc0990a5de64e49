"""Base of all algorithms: a Ray Tune Trainable around ``training_step()``; works without Ray too (spec A1)."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import ray.tune
import torch

from actorlearner.checkpoint import read_checkpoint, write_checkpoint
from actorlearner.envs.spec import EnvironmentSpec, probe_environment
from actorlearner.exceptions import CheckpointError
from actorlearner.learning.learner import Learner
from actorlearner.learning.runner import LearnerRunner
from actorlearner.metrics import Counters, EpisodeWindow, Timers, mean_statistics, result_dict
from actorlearner.resources import placement_group, resolve_resources
from actorlearner.sampling.local_source import FragmentSource
from actorlearner.settings import Settings, settings_from_dict
from actorlearner.setup import seed_everything, set_up_logging, trial_machine
from actorlearner.state import pack_state, unpack_state
from actorlearner.types import LearnerResult, Weights


class Algorithm(ray.tune.Trainable):
    """Trains one configuration; ``training_step()`` is what algorithms define.

    Give it a nested configuration (see ``settings.py``; missing keys take their defaults) and call ``train()``, or
    give the class to ``ray.tune.Tuner``. Only remote workers (``resources.num_workers > 0``) need Ray to run: where
    none does, a quiet one is started for them, and ``stop()`` ends it unless other workers use it too.

    Attributes:
        settings: the resolved configuration.
        spec: the environment.
        learner: model, optimizer and update.
        counters: lifetime counters.
    """

    settings: Settings
    spec: EnvironmentSpec
    learner: Learner
    counters: Counters
    episodes: EpisodeWindow
    timers: Timers
    _runner: LearnerRunner
    _source: FragmentSource
    _results: list[LearnerResult]
    _statistics: Mapping[str, float]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a subclass that hides Tune's iteration counter by accident."""
        super().__init_subclass__(**kwargs)
        if "training_iteration" in vars(cls):
            raise TypeError(
                f"{cls.__name__} must not define training_iteration, which is Tune's counter of results: "
                "name the method training_step."
            )

    # What an algorithm defines.

    def build_learner(self) -> Learner:
        """Return a fresh learner for ``self.settings``."""
        raise NotImplementedError

    def build_runner(self, learner: Learner) -> LearnerRunner:
        """Return what runs the learner: inline, or a thread."""
        raise NotImplementedError

    def build_source(self, weights: Weights, previous: FragmentSource | None) -> FragmentSource:
        """Return what gives the fragments, first sampled with ``weights``.

        Args:
            weights: version 0.
            previous: the source of the configuration before a reset; reused as if new, or stopped.
        """
        raise NotImplementedError

    def build(self) -> None:
        """Make the algorithm's own state; called last in set-up, and again after a restore."""

    def training_step(self) -> None:
        """Do one round of sampling and learning; called until the iteration's minimums are reached."""
        raise NotImplementedError

    @property
    def env_steps_waiting(self) -> int:
        """Env steps sampled that the learner has not been given."""
        return 0

    # Ray Tune's interface.

    def setup(self, config: dict[str, Any]) -> None:
        """Start everything; on any failure, stop what was started and raise.

        Raises:
            ConfigError: a key, value or combination is wrong.
        """
        try:
            self._start(self._resolve(config))
        except BaseException:
            # Tune waits for ever on a trainable whose constructor fails while it owns actors.
            self._close_quietly()
            raise

    def step(self) -> dict[str, Any]:
        """Train one iteration: ``training_step`` until all ``min_*_per_iteration`` hold (spec A19)."""
        started = time.perf_counter()
        algorithm = self.settings.algorithm
        before = dataclasses.replace(self.counters)
        while True:
            self.training_step()
            sampled = self.counters.num_env_steps_sampled - before.num_env_steps_sampled
            trained = self.counters.num_env_steps_trained - before.num_env_steps_trained
            elapsed = time.perf_counter() - started
            if (
                elapsed >= algorithm.min_time_s_per_iteration
                and sampled >= algorithm.min_sample_timesteps_per_iteration
                and trained >= algorithm.min_train_timesteps_per_iteration
            ):
                break
        self._statistics = mean_statistics(self._results, self._statistics)
        self._results = []
        self.counters.num_times_learner_starved = self._starved_before + self._runner.num_starvations
        return result_dict(
            episodes=self.episodes.summarise(),
            before=before,
            counters=self.counters,
            env_steps_queued=self._runner.env_steps_queued,
            env_steps_waiting=self.env_steps_waiting,
            statistics=self._statistics,
            timers=self.timers.summarise(),
            learner_queue_length=self._runner.queue_length,
            num_healthy_workers=self._source.healthy_count,
            seconds=elapsed,
        )

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write weights, optimizer, counters, episode window and random states (spec A15)."""
        with self._runner.paused():
            self._take_results()
            tensors, state = pack_state(self)
            write_checkpoint(checkpoint_dir, tensors, state)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a checkpoint directory; hyperparameters stay this configuration's (fault F15).

        Data sampled before and not yet trained on is dropped, and counted so.

        Raises:
            CheckpointError: not a whole checkpoint of this algorithm and network; nothing was changed.
        """
        loaded = unpack_state(self, read_checkpoint(str(checkpoint)))
        self._runner.stop()
        loaded.apply(self)
        self._statistics, self._results = {}, []
        self._starved_before = self.counters.num_times_learner_starved
        self._runner = self.build_runner(self.learner)
        # Started over, so that the samplers hold these weights whatever version they had before, and a used
        # algorithm goes on as a fresh one would.
        self._source = self.build_source(self._runner.weights(), self._source)
        loaded.apply_random_states(self)
        self.build()

    def restore(self, checkpoint_path: Any) -> None:
        """Load what ``save`` returned, or a checkpoint directory.

        Raises:
            CheckpointError: see ``load_checkpoint``; or the directory holds a pickle, which is never opened.
        """
        found = getattr(checkpoint_path, "checkpoint", checkpoint_path)
        folder = Path(str(getattr(found, "path", found)))
        pickles = [path.name for path in folder.glob("*.pkl")]
        if pickles:
            raise CheckpointError(f"{folder} holds the pickle {pickles[0]}, which could run code: it is not opened.")
        super().restore(checkpoint_path)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become what a fresh trainable with this configuration would be, without a new process.

        Returns:
            True, always: Tune waits for ever on a trainable that says False.

        Raises:
            ConfigError: as in ``setup``.
        """
        try:
            settings = self._resolve(new_config)
            self._runner.stop()
            self._start(settings, previous=self._source)
        except BaseException:
            self._close_quietly()
            raise
        return True

    def cleanup(self) -> None:
        """Stop the learner, the workers and the environments."""
        with contextlib.ExitStack() as stack:  # one that fails to stop must not keep the other running
            for name in ("_source", "_runner"):
                if hasattr(self, name):
                    stack.callback(getattr(self, name).stop)

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """Return a trial's placement group: the driver's bundle, then one per remote worker (spec A16)."""
        settings = settings_from_dict(config)
        return placement_group(resolve_resources(settings, probe_environment(settings.environment), trial_machine()))

    @classmethod
    def resource_help(cls, config: dict[str, Any]) -> str:
        """Say which keys set a trial's resources."""
        return (
            "A trial takes resources.num_cpus_for_driver CPUs and resources.num_gpus GPUs for its own process, and "
            "resources.num_cpus_per_worker CPUs for each of resources.num_workers remote workers. Lower them, or set "
            "resources.num_workers=0, which samples inside the trial's own process."
        )

    # For people.

    def compute_single_action(self, observation: Any, *, explore: bool = False) -> int:
        """Return the policy's action for one observation.

        Args:
            observation: one unbatched observation, as the environment gives it.
            explore: draw from the policy instead of taking its most probable action.
        """
        batch = torch.from_numpy(np.asarray(observation, self.spec.observation_space.dtype)[None])
        with self._runner.paused(), torch.inference_mode():
            model = self.learner.model
            logits = model.policy_logits(batch.to(next(model.parameters()).device))[0]
            chosen = torch.multinomial(torch.softmax(logits, -1), 1) if explore else logits.argmax()
        return int(chosen) + int(self.spec.action_space.start)

    # For checkpoints (state.py).

    def generators(self) -> dict[str, torch.Generator]:
        """Return the random generators that a checkpoint holds, by name."""
        return {"torch": torch.default_generator}

    def progress(self) -> tuple[int, float]:
        """Return the number of results so far and the seconds they took."""
        return self._iteration, self._time_total

    def set_progress(self, iteration: int, seconds: float) -> None:
        """Set what ``progress`` returns."""
        self._iteration, self._time_total = iteration, seconds

    # The engine's own.

    def _resolve(self, config: Mapping[str, Any]) -> Settings:
        settings = settings_from_dict(config)
        if not hasattr(self, "settings") or settings.environment != self.settings.environment:
            self.spec = probe_environment(settings.environment)
        return resolve_resources(settings, self.spec, trial_machine())

    def _start(self, settings: Settings, previous: FragmentSource | None = None) -> None:
        self.settings = settings
        set_up_logging(settings.debugging.log_level)
        seed_everything(settings.debugging.seed)
        if settings.resources.num_workers == 0:
            # Sampler and learner share the trial's CPUs: one thread each (the learner's thread sets its own number).
            torch.set_num_threads(1)
        else:
            torch.set_num_threads(max(1, int(settings.resources.num_cpus_for_driver or 1)))
        self.counters = Counters()
        self.episodes = EpisodeWindow(settings.algorithm.metrics_num_episodes_for_smoothing)
        self.timers = Timers()
        self._statistics = {}
        self._results = []
        self._starved_before = 0
        self.learner = self.build_learner()
        self._runner = self.build_runner(self.learner)
        self._source = self.build_source(self._runner.weights(), previous)
        self.build()

    def _take_results(self) -> None:
        results = self._runner.results()
        self._results += results
        self.counters.num_learner_updates += len(results)
        self.counters.num_env_steps_trained += sum(result.env_steps for result in results)

    def _close_quietly(self) -> None:
        with contextlib.suppress(Exception):
            self.cleanup()
