"""IMPALA's loss as a pure function: policy gradient, value and entropy on V-trace targets (spec I2)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from actorlearner.ops.vtrace import vtrace


class ImpalaLoss(NamedTuple):
    """Scalars, float32; only ``total_loss`` carries a gradient. Entropy and diagnostics are means, never sums.

    Attributes:
        total_loss: policy_loss + vf_loss_coeff * value_loss - entropy_coeff * entropy.
        policy_loss: minus the advantage-weighted log-probabilities.
        value_loss: half the squared distance to the V-trace targets.
        entropy: of the policy.
        mean_rho: mean importance ratio, unclipped.
        clipped_rho_fraction: share of the ratios above ``clip_rho_threshold``.
        explained_variance: 1 - Var(target - value) / Var(target); NaN where all targets are equal.
    """

    total_loss: Tensor
    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    mean_rho: Tensor
    clipped_rho_fraction: Tensor
    explained_variance: Tensor


class LossConstants(NamedTuple):
    """Numbers in IMPALA's loss.

    Attributes:
        gamma: discount per env step.
        clip_rho_threshold: clip of the ratio in the value target; the trace is clipped at 1 or at this, if smaller.
        clip_pg_rho_threshold: clip of the ratio in the policy gradient.
        lambda_: lambda of the trace.
        vf_loss_coeff: weight of the value loss.
        entropy_coeff: weight of the entropy bonus.
        sum_over_steps: sum the losses over the valid steps (the paper) instead of averaging.
    """

    gamma: float
    clip_rho_threshold: float
    clip_pg_rho_threshold: float
    lambda_: float
    vf_loss_coeff: float
    entropy_coeff: float
    sum_over_steps: bool

    def for_vtrace(self) -> dict[str, float]:
        """Return those that ``vtrace`` takes, by its names."""
        return {
            "gamma": self.gamma,
            "clip_rho_threshold": self.clip_rho_threshold,
            "clip_pg_rho_threshold": self.clip_pg_rho_threshold,
            "lambda_": self.lambda_,
        }


def impala_loss(
    constants: LossConstants,
    *,
    logits: Tensor,
    values: Tensor,
    next_values: Tensor,
    actions: Tensor,
    behaviour_log_probs: Tensor,
    rewards: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor,
) -> ImpalaLoss:
    """Return IMPALA's loss and diagnostics over the valid steps (Espeholt et al. 2018, section 4.2).

    Args:
        constants: discount, clips and weights.
        logits: [T, B, A] float32, with gradient.
        values: [T, B] float32, with gradient.
        next_values: [T, B] float32, value of the same episode's successor; no gradient flows into it.
        actions: [T, B] int64.
        behaviour_log_probs: [T, B] float32.
        rewards: [T, B] float32, as the learner sees them.
        terminated: [T, B] bool.
        truncated: [T, B] bool.
        valid: [T, B] bool; rows that are not valid enter no sum and no mean.
    """
    log_probs, entropies = _policy_terms(logits, actions)
    with torch.no_grad():
        log_rhos = log_probs - behaviour_log_probs
        targets, advantages = vtrace(
            log_rhos=log_rhos,
            rewards=rewards,
            values=values,
            next_values=next_values,
            terminated=terminated,
            truncated=truncated,
            valid=valid,
            **constants.for_vtrace(),
        )
        weight, share = _step_weights(valid, sum_over_steps=constants.sum_over_steps)
    policy_loss = -(log_probs * (advantages * weight)).sum()
    value_loss = 0.5 * ((values - targets).square() * weight).sum()
    bonus = constants.entropy_coeff * (entropies * weight).sum()
    rhos = log_rhos.exp()
    return ImpalaLoss(
        total_loss=policy_loss + constants.vf_loss_coeff * value_loss - bonus,
        policy_loss=policy_loss.detach(),
        value_loss=value_loss.detach(),
        entropy=(entropies.detach() * share).sum(),
        mean_rho=(rhos * share).sum(),
        clipped_rho_fraction=((rhos > constants.clip_rho_threshold) * share).sum(),
        explained_variance=_explained_variance(values.detach(), targets, share),
    )


def _step_weights(valid: Tensor, *, sum_over_steps: bool) -> tuple[Tensor, Tensor]:
    """Return each step's weight in the losses and in a mean, both [T, B]; masked rows weigh nothing."""
    mask = valid.to(torch.float32)
    share = mask / mask.sum().clamp_(min=1.0)
    return mask if sum_over_steps else share, share


def _policy_terms(logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the actions' log-probabilities and the policy's entropies, both [T, B]."""
    log_policy = torch.log_softmax(logits, dim=-1)
    log_probs = log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    return log_probs, -(log_policy.exp() * log_policy).sum(-1)


def _explained_variance(values: Tensor, targets: Tensor, share: Tensor) -> Tensor:
    residuals = targets - values
    target_variance = ((targets - (targets * share).sum()).square() * share).sum()
    # Equal targets leave a variance of rounding errors, which would divide to a huge number.
    rounding = 1e-10 * (targets.square() * share).sum()
    residual_variance = ((residuals - (residuals * share).sum()).square() * share).sum()
    return torch.where(target_variance > rounding, 1.0 - residual_variance / target_variance, math.nan)
