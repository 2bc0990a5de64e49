"""One learner update: batch in, new weights and statistics out. No threads in here (see learner_thread.py)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from actorlearner.exceptions import NonFiniteError
from actorlearner.learning.rewards import clip_rewards
from actorlearner.learning.schedules import PiecewiseLinear
from actorlearner.models.base import ActorCritic
from actorlearner.settings import RewardClipping
from actorlearner.types import Batch, LearnerResult, Weights


class TensorBatch(NamedTuple):
    """A batch on the learner's device; shapes as in ``Batch``, rewards as the learner sees them."""

    observations: Tensor
    actions: Tensor
    behaviour_log_probs: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    final_index: Tensor
    final_observations: Tensor


class Loss(Protocol):
    """An algorithm's loss."""

    def __call__(
        self, batch: TensorBatch, *, logits: Tensor, values: Tensor, next_values: Tensor, entropy_coeff: float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the scalar to minimise and scalar statistics without gradient, by name.

        Args:
            batch: what was sampled.
            logits: [T, B, A] float32, with gradient.
            values: [T, B] float32, with gradient.
            next_values: [T, B] float32, value of the same episode's successor, without gradient.
            entropy_coeff: the schedule's current value.
        """


@dataclass(frozen=True)
class LearnerOptions:
    """What a learner needs besides model, optimizer and loss.

    Attributes:
        learning_rate: by lifetime env steps sampled.
        entropy_coeff: by lifetime env steps sampled.
        grad_clip: largest global gradient norm; None clips nothing.
        num_passes: passes over each batch; ratios are computed anew in each.
        reward_clipping: the learner's view of rewards.
        reward_scale: factor on them after the clipping.
    """

    learning_rate: PiecewiseLinear
    entropy_coeff: PiecewiseLinear
    grad_clip: float | None = None
    num_passes: int = 1
    reward_clipping: RewardClipping = RewardClipping.none
    reward_scale: float = 1.0


class Learner:
    """Owns the trained model and its optimizer.

    Args:
        model: the policy and value network, already on ``device``.
        optimizer: of the model's parameters.
        loss: the algorithm's loss.
        options: schedules, clipping and passes.
        device: where updates run.

    Attributes:
        version: updates so far.
    """

    def __init__(
        self,
        model: ActorCritic,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        options: LearnerOptions,
        device: torch.device,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.version = 0
        self._loss = loss
        self._options = options
        self._device = device
        self._state = model.state_dict()  # the tensors themselves, which loading and updates change in place
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def update(self, batch: Batch, env_steps_sampled: int) -> LearnerResult:
        """Take one or more passes over a batch.

        Args:
            batch: what was sampled.
            env_steps_sampled: lifetime env steps sampled, the schedules' position.

        Raises:
            NonFiniteError: observations, rewards, loss or gradient are NaN or infinite; the parameters are
                those before the pass in which it showed.
        """
        learning_rate = self._options.learning_rate.value(env_steps_sampled)
        entropy_coeff = self._options.entropy_coeff.value(env_steps_sampled)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        policy_lag = self.version - batch.behaviour_version
        tensors = self._to_device(batch)
        for _ in range(self._options.num_passes):
            statistics = self._pass(tensors, entropy_coeff)
        self.version += 1
        statistics["policy_lag"] = policy_lag
        statistics["learning_rate"] = learning_rate
        statistics["entropy_coeff"] = entropy_coeff
        return LearnerResult(env_steps=batch.env_steps, statistics=statistics, version=self.version)

    def _to_device(self, batch: Batch) -> TensorBatch:
        def tensor(array: np.ndarray) -> Tensor:
            return _as_tensor(array).to(self._device, non_blocking=True)

        return TensorBatch(
            observations=tensor(batch.observations),
            actions=tensor(batch.actions),
            behaviour_log_probs=tensor(batch.behaviour_log_probs),
            rewards=clip_rewards(tensor(batch.rewards), self._options.reward_clipping) * self._options.reward_scale,
            terminated=tensor(batch.terminated),
            truncated=tensor(batch.truncated),
            valid=tensor(batch.valid),
            final_index=tensor(batch.final_index),
            final_observations=tensor(batch.final_observations),
        )

    def _pass(self, batch: TensorBatch, entropy_coeff: float) -> dict[str, float]:
        steps, width = batch.rewards.shape
        output = self.model(batch.observations.flatten(0, 1))
        logits = output.logits.view(steps + 1, width, -1)[:-1]
        all_values = output.values.view(steps + 1, width)
        next_values = self._next_values(batch, all_values.detach())
        total_loss, statistics = self._loss(
            batch, logits=logits, values=all_values[:-1], next_values=next_values, entropy_coeff=entropy_coeff
        )
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(total_loss)
        norm = self._clip_gradients()
        names = [*statistics, "total_loss", "gradient_norm"]
        # One transfer from the device for everything that is reported or checked.
        numbers = torch.stack([*statistics.values(), total_loss.detach(), norm]).tolist()
        found = dict(zip(names, numbers, strict=True))
        if not (math.isfinite(found["total_loss"]) and math.isfinite(found["gradient_norm"])):
            raise _non_finite(batch, found)
        self.optimizer.step()
        return found

    def _next_values(self, batch: TensorBatch, all_values: Tensor) -> Tensor:
        next_values = all_values[1:]
        if len(batch.final_index):
            with torch.no_grad():
                final_values = self.model(batch.final_observations).values
            next_values = next_values.clone()
            next_values[batch.final_index[:, 0], batch.final_index[:, 1]] = final_values
        return next_values

    def _clip_gradients(self) -> Tensor:
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        if self._options.grad_clip is not None:
            nn.utils.clip_grads_with_norm_(self._parameters, self._options.grad_clip, norm)
        return norm

    def get_weights(self) -> Weights:
        """Return a copy of parameters and buffers that later updates leave alone."""
        arrays = {name: tensor.detach().cpu().numpy().copy() for name, tensor in self._state.items()}
        return Weights(version=self.version, arrays=arrays)

    def state_dict(self) -> dict[str, Any]:
        """Return model, optimizer and version (tensors are not copied)."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "version": self.version,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set what ``state_dict`` returned; the learning rate stays this learner's own (fault F15)."""
        self.model.load_state_dict(state["model"])
        own_groups = [dict(group) for group in self.optimizer.param_groups]
        # torch's optimizers keep the tensors they are given: without a copy two learners would share moments.
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        for group, own in zip(self.optimizer.param_groups, own_groups, strict=True):
            group.update({name: value for name, value in own.items() if name != "params"})
        self.version = int(state["version"])


class _WriteableView:
    """Shows a read-only array (Ray's object store) as writeable: torch warns otherwise, and nothing here writes."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _as_tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_WriteableView(array)))


def _non_finite(batch: TensorBatch, found: Mapping[str, float]) -> NonFiniteError:
    for name in ("observations", "rewards", "behaviour_log_probs"):
        tensor = getattr(batch, name)
        if not bool(torch.isfinite(tensor).all()):
            return NonFiniteError(
                f"The batch's {name} hold NaN or infinite numbers: look at the environment, or clip its rewards "
                "with environment.reward_clipping."
            )
    name = "loss" if not math.isfinite(found["total_loss"]) else "gradient"
    parts = ", ".join(f"{key}={value:g}" for key, value in found.items())
    return NonFiniteError(
        f"The {name} became NaN or infinite ({parts}): lower algorithm.lr or algorithm.grad_clip, or clip rewards "
        "with environment.reward_clipping."
    )
