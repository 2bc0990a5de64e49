"""IMPALA's own keys and defaults (spec I1); torch-free."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from actorlearner.exceptions import ConfigError
from actorlearner.settings import AlgorithmSettings, LossReduction, OptimizerType, setting


@dataclass
class ImpalaSettings(AlgorithmSettings):
    """Importance-weighted actor-learner (Espeholt et al. 2018, arXiv:1802.01561)."""

    name: str = setting("impala", "The algorithm's name in the registry.")
    vtrace_clip_rho_threshold: float = setting(1.0, "Clip of the ratio in the value target (rho bar).", gt=0)
    vtrace_clip_pg_rho_threshold: float = setting(1.0, "Clip of the ratio in the policy gradient.", gt=0)
    vtrace_lambda: float = setting(1.0, "Lambda of the trace.", ge=0, le=1)
    vtrace_drop_last_ts: bool = setting(
        True, "Drop each fragment's last step instead of bootstrapping from the observation after it."
    )
    num_sgd_iter: int = setting(1, "Passes over each batch.", ge=1)
    learner_queue_size: int = setting(16, "Batches that may wait for the learner (remote mode).", ge=1)
    learner_queue_timeout: float = setting(300.0, "Seconds without a batch that count as a starvation.", gt=0)
    max_requests_in_flight_per_sampler_worker: int = setting(2, "Fragments asked of a worker ahead of time.", ge=1)
    timeout_s_sampler_manager: float = setting(
        0.0, "Longest wait of one poll for a fragment, in seconds; 0 lets the engine choose.", ge=0
    )
    broadcast_interval: int = setting(1, "Training steps between weight broadcasts.", ge=1)
    opt_type: OptimizerType = setting(OptimizerType.adam, "Optimizer: adam or rmsprop.")
    adam_epsilon: float = setting(1e-8, "Adam's epsilon.", gt=0)
    decay: float = setting(0.99, "RMSProp's smoothing constant.", ge=0, le=1)
    momentum: float = setting(0.0, "RMSProp's momentum.", ge=0, le=1)
    epsilon: float = setting(0.1, "RMSProp's epsilon.", gt=0)
    lr_schedule: list[list[float]] | None = setting(
        None, "Learning rate by lifetime env steps: [[0, value], [steps, value], ...], linear in between."
    )
    entropy_coeff: float = setting(0.01, "Weight of the entropy bonus.", ge=0)
    entropy_coeff_schedule: list[list[float]] | None = setting(
        None, "Entropy coefficient by lifetime env steps: [[0, value], [steps, value], ...]."
    )
    vf_loss_coeff: float = setting(0.5, "Weight of the value loss.", ge=0)
    loss_reduction: LossReduction = setting(LossReduction.mean, "Whether losses are averaged or summed over steps.")

    def check(self) -> None:
        """Check schedules (spec I3), and that something is left of a fragment whose last step is dropped."""
        if self.vtrace_drop_last_ts and self.rollout_fragment_length < 2:
            raise ConfigError(
                "algorithm.rollout_fragment_length must be at least 2 where algorithm.vtrace_drop_last_ts drops each "
                f"fragment's last step, got {self.rollout_fragment_length}; set vtrace_drop_last_ts=false.",
                key="algorithm.rollout_fragment_length",
                value=self.rollout_fragment_length,
            )
        for key in ("lr_schedule", "entropy_coeff_schedule"):
            schedule = getattr(self, key)
            if schedule is not None:
                _check_schedule(f"algorithm.{key}", schedule)


def _check_schedule(key: str, schedule: list[list[float]]) -> None:
    rule = "must be a list of [env steps, value] pairs that starts at step 0 and increases"
    pairs = all(len(point) == 2 and all(math.isfinite(number) for number in point) for point in schedule)
    steps = [point[0] for point in schedule] if pairs else []
    increasing = all(earlier < later for earlier, later in itertools.pairwise(steps))
    if not pairs or not steps or steps[0] != 0 or not increasing or any(point[1] < 0 for point in schedule):
        raise ConfigError(f"{key} {rule}, with values of at least 0; got {schedule}.", key=key, value=schedule)
