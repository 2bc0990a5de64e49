"""The categorical distribution against torch's own, and its sampling."""

import math

import pytest
import torch

from actorlearner.ops.distributions import Categorical


def logits_of(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 2


def test_log_probs_entropy_and_mode_equal_torchs():
    logits = logits_of(5, 3, 6)
    ours, theirs = Categorical(logits), torch.distributions.Categorical(logits=logits)
    actions = theirs.sample()
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert torch.equal(ours.mode(), theirs.mode)


def test_samples_have_the_right_frequencies():
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0])
    actions = Categorical(logits.expand(200_000, 4)).sample(torch.Generator().manual_seed(1))
    frequencies = torch.bincount(actions, minlength=4) / 200_000
    torch.testing.assert_close(frequencies, logits.softmax(0), atol=5e-3, rtol=0)


def test_the_same_generator_state_gives_the_same_actions():
    distribution = Categorical(logits_of(32, 18))
    first, second, other = (distribution.sample(torch.Generator().manual_seed(seed)) for seed in (7, 7, 8))
    assert first.dtype == torch.int64
    assert first.shape == (32,)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    Categorical(logits_of(32, 2)).sample(torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.get_rng_state())


def test_a_forbidden_action_is_never_taken_and_costs_no_nan():
    logits = logits_of(4096, 3)
    logits[:, 1] = -math.inf
    logits.requires_grad_()
    distribution = Categorical(logits)
    assert not (distribution.sample(torch.Generator().manual_seed(0)) == 1).any()
    entropy = distribution.entropy()
    torch.testing.assert_close(entropy, Categorical(logits[:, [0, 2]]).entropy())
    entropy.sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_gradients_flow_through_log_prob_and_entropy():
    logits = logits_of(4, 3).requires_grad_()
    distribution = Categorical(logits)
    (distribution.log_prob(torch.tensor([0, 1, 2, 0])).sum() + distribution.entropy().sum()).backward()
    assert logits.grad.abs().sum() > 0


@pytest.mark.parametrize("logits", [torch.zeros(2, 3, dtype=torch.bfloat16), torch.tensor(0.0)])
def test_anything_but_float32_logits_is_refused(logits):
    with pytest.raises(ValueError, match=r"logits must be a float32 tensor \[\.\.\., A\], got"):
        Categorical(logits)
