"""IMPALA's loss against the formula written out, its masks and its reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from actorlearner.algorithms.impala.loss import ImpalaLoss, LossConstants, impala_loss

STEPS, WIDTH, ACTIONS = 5, 3, 4


def inputs(seed: int = 0) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return {
        "logits": normal(STEPS, WIDTH, ACTIONS).requires_grad_(),
        "values": normal(STEPS, WIDTH).requires_grad_(),
        "next_values": normal(STEPS, WIDTH),
        "actions": torch.randint(0, ACTIONS, (STEPS, WIDTH), generator=generator),
        "behaviour_log_probs": -normal(STEPS, WIDTH).abs(),
        "rewards": normal(STEPS, WIDTH),
        "terminated": torch.zeros(STEPS, WIDTH, dtype=torch.bool),
        "truncated": torch.zeros(STEPS, WIDTH, dtype=torch.bool),
        "valid": torch.ones(STEPS, WIDTH, dtype=torch.bool),
    }


def loss(tensors: dict[str, Any], **options: Any) -> ImpalaLoss:
    settings: dict[str, Any] = {
        "gamma": 0.9,
        "clip_rho_threshold": 1.0,
        "clip_pg_rho_threshold": 1.0,
        "lambda_": 1.0,
        "vf_loss_coeff": 0.5,
        "entropy_coeff": 0.02,
        "sum_over_steps": False,
    }
    return impala_loss(LossConstants(**{**settings, **options}), **tensors)


def test_one_step_episodes_give_the_formula_by_hand() -> None:  # spec I2
    tensors = inputs()
    tensors["terminated"] = torch.ones(STEPS, WIDTH, dtype=torch.bool)
    found = loss(tensors)
    logits = tensors["logits"].detach().double().numpy()
    policy = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    chosen = np.take_along_axis(policy, tensors["actions"].numpy()[..., None], -1)[..., 0]
    rho = np.minimum(1.0, chosen / np.exp(tensors["behaviour_log_probs"].double().numpy()))
    # The episode ends at every step: target V + rho (r - V), advantage rho (r - V).
    delta = rho * (tensors["rewards"].double().numpy() - tensors["values"].detach().double().numpy())
    policy_loss = -(delta * np.log(chosen)).mean()
    value_loss = 0.5 * (delta**2).mean()
    entropy = -(policy * np.log(policy)).sum(-1).mean()
    assert found.policy_loss.item() == pytest.approx(policy_loss, rel=1e-5)
    assert found.value_loss.item() == pytest.approx(value_loss, rel=1e-5)
    assert found.entropy.item() == pytest.approx(entropy, rel=1e-5)
    assert found.total_loss.item() == pytest.approx(policy_loss + 0.5 * value_loss - 0.02 * entropy, rel=1e-5)


def test_no_gradient_flows_through_targets_and_advantages() -> None:  # spec I2
    tensors = inputs()
    policy_only = loss(tensors, vf_loss_coeff=0.0, entropy_coeff=0.0).total_loss
    (gradient,) = torch.autograd.grad(policy_only, [tensors["values"]], materialize_grads=True)
    assert not gradient.any()
    tensors["next_values"].requires_grad_()
    everything = loss(tensors).total_loss
    (gradient,) = torch.autograd.grad(everything, [tensors["next_values"]], materialize_grads=True, allow_unused=True)
    assert not gradient.any()


def test_masked_rows_change_nothing() -> None:  # spec I2
    tensors = inputs()
    tensors["valid"][2, 1] = False
    before = loss(tensors)
    gradients = torch.autograd.grad(before.total_loss, [tensors["logits"], tensors["values"]])
    assert not gradients[0][2, 1].any()
    assert not gradients[1][2, 1].any()
    for name in ("logits", "values", "rewards", "next_values"):
        with torch.no_grad():
            tensors[name][2, 1] += 3.0
    after = loss(tensors)
    torch.testing.assert_close(after, before)


def test_sum_is_mean_times_the_valid_steps() -> None:
    tensors = inputs()
    tensors["valid"][0, 0] = False
    mean, total = loss(tensors), loss(tensors, sum_over_steps=True)
    count = STEPS * WIDTH - 1
    for name in ("total_loss", "policy_loss", "value_loss"):
        assert getattr(total, name).item() == pytest.approx(count * getattr(mean, name).item(), rel=1e-4)
    assert total.entropy.item() == pytest.approx(mean.entropy.item(), rel=1e-5)


def test_the_ratio_is_the_learners_policy_over_the_samplers() -> None:
    tensors = inputs()
    with torch.no_grad():
        log_probs = torch.log_softmax(tensors["logits"], -1).gather(-1, tensors["actions"].unsqueeze(-1)).squeeze(-1)
    tensors["behaviour_log_probs"] = log_probs - np.log(3.0)
    found = loss(tensors, clip_rho_threshold=2.0)
    assert found.mean_rho.item() == pytest.approx(3.0, rel=1e-4)
    assert found.clipped_rho_fraction.item() == pytest.approx(1.0)
    assert loss(tensors, clip_rho_threshold=4.0).clipped_rho_fraction.item() == 0.0


def test_explained_variance_is_one_for_perfect_values() -> None:
    tensors = inputs()
    tensors["terminated"] = torch.ones(STEPS, WIDTH, dtype=torch.bool)
    tensors["behaviour_log_probs"] = torch.full((STEPS, WIDTH), -20.0)  # every ratio is clipped at 1
    tensors["values"] = tensors["rewards"].clone().requires_grad_()
    assert loss(tensors).explained_variance.item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("reward", [0.0, 0.1, 1.0])
def test_explained_variance_of_equal_targets_is_undefined(reward: float) -> None:
    tensors = inputs()
    tensors["terminated"] = torch.ones(STEPS, WIDTH, dtype=torch.bool)
    tensors["behaviour_log_probs"] = torch.full((STEPS, WIDTH), -20.0)  # every ratio is clipped at 1
    tensors["rewards"] = torch.full((STEPS, WIDTH), reward)
    assert loss(tensors).explained_variance.isnan()
