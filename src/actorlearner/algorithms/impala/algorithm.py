"""IMPALA: sampling never waits for the learner; V-trace corrects for the older policy (Espeholt et al. 2018)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from actorlearner.algorithm import Algorithm
from actorlearner.algorithms.impala.config import ImpalaSettings
from actorlearner.algorithms.impala.loss import LossConstants, impala_loss
from actorlearner.exceptions import ConfigError
from actorlearner.learning.batcher import Batcher
from actorlearner.learning.learner import Learner, LearnerOptions, TensorBatch
from actorlearner.learning.learner_thread import LearnerThread
from actorlearner.learning.runner import InlineRunner, LearnerRunner
from actorlearner.learning.schedules import PiecewiseLinear
from actorlearner.models.base import ActorCritic
from actorlearner.models.catalog import build_model
from actorlearner.sampling.local_source import FragmentSource, LocalSource
from actorlearner.settings import LossReduction, OptimizerType
from actorlearner.types import Batch, Weights

# How long one training step waits for a fragment, or for room in the learner's queue, before it looks at the rest.
_WAIT_SECONDS = 0.5


class Impala(Algorithm):
    """Importance-weighted actor-learner.

    One training step for all modes: fragments come from a source (this process's sampler or remote workers) and
    batches go to a learner that runs inline (one CPU: deterministic) or in a thread.
    """

    def build(self) -> None:
        """Make learner, runner, batcher and counters of the batches on their way."""
        settings = cast(ImpalaSettings, self.settings.algorithm)
        self._batcher = Batcher(settings.train_batch_size, drop_last_step=settings.vtrace_drop_last_ts)
        self._dropped_before = self.counters.num_env_steps_dropped
        self._pending: Batch | None = None
        self._steps_since_broadcast = 0
        self._broadcast_version = self.learner.version

    def build_learner(self) -> Learner:
        """Make model, optimizer and loss."""
        settings = cast(ImpalaSettings, self.settings.algorithm)
        num_gpus = self.settings.resources.num_gpus
        if num_gpus and not torch.cuda.is_available():
            raise ConfigError(
                f"resources.num_gpus={num_gpus:g} asks for a GPU, and torch finds none here: set resources.num_gpus=0.",
                key="resources.num_gpus",
                value=num_gpus,
            )
        device = torch.device("cuda" if num_gpus else "cpu")
        model = build_model(
            self.spec.observation_space,
            self.spec.action_space,
            self.settings.model,
            self.settings.resources.precision,
            device,
        )
        options = LearnerOptions(
            learning_rate=PiecewiseLinear.from_setting(settings.lr, settings.lr_schedule),
            entropy_coeff=PiecewiseLinear.from_setting(settings.entropy_coeff, settings.entropy_coeff_schedule),
            grad_clip=settings.grad_clip,
            num_passes=settings.num_sgd_iter,
            reward_clipping=self.settings.environment.reward_clipping,
            reward_scale=self.settings.environment.reward_scale,
        )
        return Learner(model, make_optimizer(model, settings), ConfiguredLoss(settings), options, device)

    def build_runner(self, learner: Learner) -> LearnerRunner:
        """Choose between the inline learner and the thread."""
        settings = cast(ImpalaSettings, self.settings.algorithm)
        resources = self.settings.resources
        cpus = resources.num_cpus_for_driver or 1
        if resources.num_workers == 0 and cpus < 2:
            return InlineRunner(learner, self.timers)
        local = resources.num_workers == 0
        return LearnerThread(
            learner,
            self.timers,
            # In local mode the sampler waits for the learner anyway: a longer queue would only make data older.
            queue_size=1 if local else settings.learner_queue_size,
            starvation_timeout=settings.learner_queue_timeout,
            num_threads=max(1, int(cpus) - (1 if local else 0)),
        )

    def build_source(self, weights: Weights, previous: FragmentSource | None) -> FragmentSource:
        """Sample in this process, or in remote workers; a previous source of the same kind is started over."""
        if self.settings.resources.num_workers == 0:
            if isinstance(previous, LocalSource):
                previous.reset(self.settings, self.spec, weights)
                return previous
            if previous is not None:
                previous.stop()
            return LocalSource(self.settings, self.spec, weights)
        # Ray is used by remote workers only.
        from actorlearner.sampling.source import RemoteSource

        settings = cast(ImpalaSettings, self.settings.algorithm)
        in_flight = settings.max_requests_in_flight_per_sampler_worker
        if isinstance(previous, RemoteSource):
            previous.reset(self.settings, self.spec, weights, max_in_flight=in_flight)
            return previous
        if previous is not None:
            previous.stop()
        return RemoteSource(self.settings, self.spec, weights, max_in_flight=in_flight)

    def generators(self) -> dict[str, torch.Generator]:
        """Return the random generators that a checkpoint holds, by name."""
        local = {"sampler": self._source.sampler.generator} if isinstance(self._source, LocalSource) else {}
        return {**super().generators(), **local}

    def training_step(self) -> None:
        """Take what is sampled, feed the learner, take its results, send its weights (spec I5)."""
        self._runner.check()
        if self._pending is None:
            self._collect()
        self._feed()
        self._take_results()
        self._broadcast()
        self.counters.num_training_steps += 1

    @property
    def env_steps_waiting(self) -> int:
        """Env steps sampled that no learner has been given yet."""
        return self._batcher.env_steps_waiting + (self._pending.env_steps if self._pending is not None else 0)

    def _collect(self) -> None:
        with self.timers.measure("sample"):
            self._source.request()
            settings = cast(ImpalaSettings, self.settings.algorithm)
            fragments = self._source.collect(settings.timeout_s_sampler_manager or _WAIT_SECONDS)
        for fragment in fragments:
            self.counters.num_env_steps_sampled += fragment.env_steps
            self.episodes.add(fragment.episodes)
            self._batcher.add(fragment)
        self.counters.num_env_steps_dropped = self._dropped_before + self._batcher.env_steps_dropped

    def _feed(self) -> None:
        while True:
            self._pending = self._pending or self._batcher.pop()
            if self._pending is None:
                return
            sampled = self.counters.num_env_steps_sampled
            if not self._runner.put(self._pending, env_steps_sampled=sampled):
                self.counters.num_times_learner_queue_full += 1
                # Backpressure: while this batch waits for room, no worker is asked for another fragment.
                with self.timers.measure("queue_full"):
                    if not self._runner.put(self._pending, env_steps_sampled=sampled, timeout=_WAIT_SECONDS):
                        return
            self._pending = None

    def _broadcast(self) -> None:
        self._steps_since_broadcast += 1
        settings = cast(ImpalaSettings, self.settings.algorithm)
        if self._steps_since_broadcast < settings.broadcast_interval:
            return
        self._steps_since_broadcast = 0
        weights = self._runner.weights()
        # Also without an update since the last time: a worker that had not delivered then may have done so now.
        self._source.broadcast(weights)
        if weights.version != self._broadcast_version:
            self._broadcast_version = weights.version
            self.counters.num_weight_broadcasts += 1


class ConfiguredLoss:
    """``impala_loss`` with the configuration's constants filled in."""

    def __init__(self, settings: ImpalaSettings) -> None:
        self._constants = LossConstants(
            gamma=settings.gamma,
            clip_rho_threshold=settings.vtrace_clip_rho_threshold,
            clip_pg_rho_threshold=settings.vtrace_clip_pg_rho_threshold,
            lambda_=settings.vtrace_lambda,
            vf_loss_coeff=settings.vf_loss_coeff,
            entropy_coeff=settings.entropy_coeff,
            sum_over_steps=settings.loss_reduction is LossReduction.sum,
        )

    def __call__(
        self, batch: TensorBatch, *, logits: Tensor, values: Tensor, next_values: Tensor, entropy_coeff: float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the total loss and its statistics; see ``learning.learner.Loss``."""
        loss = impala_loss(
            self._constants._replace(entropy_coeff=entropy_coeff),
            logits=logits,
            values=values,
            next_values=next_values,
            actions=batch.actions,
            behaviour_log_probs=batch.behaviour_log_probs,
            rewards=batch.rewards,
            terminated=batch.terminated,
            truncated=batch.truncated,
            valid=batch.valid,
        )
        statistics = loss._asdict()
        return statistics.pop("total_loss"), statistics


def make_optimizer(model: ActorCritic, settings: ImpalaSettings) -> torch.optim.Optimizer:
    """Return the configured optimizer of a model's parameters."""
    if settings.opt_type is OptimizerType.rmsprop:
        return torch.optim.RMSprop(
            model.parameters(),
            lr=settings.lr,
            alpha=settings.decay,
            eps=settings.epsilon,
            momentum=settings.momentum,
        )
    return torch.optim.Adam(model.parameters(), lr=settings.lr, eps=settings.adam_epsilon, fused=True)
