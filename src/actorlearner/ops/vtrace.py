"""V-trace value targets and advantages (Espeholt et al. 2018, section 4.1): pure, float32, no gradient."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class VTraceReturns(NamedTuple):
    """What ``vtrace`` returns; on masked rows (``valid`` False) both are meaningless and belong in no sum.

    Attributes:
        value_targets: [T, B] float32, ``vs`` of the paper's equation 1.
        advantages: [T, B] float32, clipped ratio times (q - V): the weight of the policy gradient.
    """

    value_targets: Tensor
    advantages: Tensor


def vtrace(
    *,
    log_rhos: Tensor,
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor,
    gamma: float,
    clip_rho_threshold: float = 1.0,
    clip_c_threshold: float = 1.0,
    clip_pg_rho_threshold: float = 1.0,
    lambda_: float = 1.0,
) -> VTraceReturns:
    """Correct returns for the lag between the sampling policy mu and the learner's policy pi.

    The recursion is cut where an episode ends and around masked rows; a termination also ends the discount, a
    truncation and the fragment's last row bootstrap from ``next_values``.

    Args:
        log_rhos: [T, B] float32, log pi(a) - log mu(a), in this order.
        rewards: [T, B] float32, as the learner sees them.
        values: [T, B] float32, V of the observation before each step.
        next_values: [T, B] float32, V of the *same episode's* observation after each step: the next row's value inside
            an episode, the final observation's at a truncation, the bootstrap value on the last row. Ignored at a
            termination.
        terminated: [T, B] bool, the episode ended at this step by the task itself.
        truncated: [T, B] bool, the episode was cut at this step.
        valid: [T, B] bool, False on the reset steps that next-step autoreset inserts.
        gamma: discount per step.
        clip_rho_threshold: largest ratio in the temporal difference (rho bar).
        clip_c_threshold: largest ratio in the trace (c bar); lowered to rho bar where it is larger, because the
            paper's fixed point holds for rho bar >= c bar only.
        clip_pg_rho_threshold: largest ratio in the advantage.
        lambda_: decay of the trace.

    Returns:
        Value targets and advantages, both detached.

    Raises:
        ValueError: a tensor has the wrong rank, shape or dtype; names it.
    """
    _check_tensors(
        {"log_rhos": log_rhos, "rewards": rewards, "values": values, "next_values": next_values}, torch.float32, values
    )
    _check_tensors({"terminated": terminated, "truncated": truncated, "valid": valid}, torch.bool, values)
    with torch.no_grad():
        rhos = log_rhos.exp()
        discounts = ~terminated * gamma
        continues = _continues(terminated | truncated, valid)
        deltas = rhos.clamp(max=clip_rho_threshold) * (rewards + discounts * next_values - values)
        traces = rhos.clamp(max=min(clip_c_threshold, clip_rho_threshold)) * discounts * continues * lambda_
        # Row by row and in place: `corrections` becomes vs - V, from the last row backwards.
        corrections, rows = deltas.unbind(0), traces.unbind(0)
        for t in range(len(rows) - 2, -1, -1):
            corrections[t].addcmul_(rows[t], corrections[t + 1])
        value_targets = values + deltas

        successors = torch.cat((value_targets[1:], next_values[-1:]))
        if lambda_ != 1.0:
            successors = torch.lerp(next_values, successors, lambda_)
        q_values = rewards + discounts * torch.where(continues, successors, next_values)
        advantages = rhos.clamp(max=clip_pg_rho_threshold) * (q_values - values)
    return VTraceReturns(value_targets, advantages)


def _continues(done: Tensor, valid: Tensor) -> Tensor:
    """Return [T, B] bool: the next row is the same episode's next step."""
    continues = ~done & valid
    continues[:-1] &= valid[1:]
    continues[-1] = False
    return continues


def _check_tensors(tensors: dict[str, Tensor], dtype: torch.dtype, like: Tensor) -> None:
    shape = like.shape
    for name, tensor in tensors.items():
        if tensor.dtype != dtype or tensor.shape != shape or tensor.ndim != 2 or not len(tensor):
            raise ValueError(
                f"vtrace: {name} must be a {dtype} tensor [T, B] with T >= 1 and the shape of values {list(shape)}, "
                f"got {tensor.dtype} {list(tensor.shape)}; convert it before the call."
            )
