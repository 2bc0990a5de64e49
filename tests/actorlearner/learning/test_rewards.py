"""The learner's view of rewards."""

import pytest
import torch

from actorlearner.learning.rewards import clip_rewards
from actorlearner.settings import RewardClipping

REWARDS = [-10.0, -0.5, 0.0, 0.5, 10.0]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (RewardClipping.none, REWARDS),
        (RewardClipping.clip, [-1.0, -0.5, 0.0, 0.5, 1.0]),
        (RewardClipping.sign, [-1.0, -1.0, 0.0, 1.0, 1.0]),
        (RewardClipping.tanh, [-1.446042, -0.149502, 0.0, 0.498340, 4.820138]),
        (RewardClipping.soft_asymmetric, [-0.3, -0.138635, 0.0, 2.310586, 5.0]),
    ],
)
def test_modes(mode: RewardClipping, expected: list[float]) -> None:  # spec I2
    found = clip_rewards(torch.tensor(REWARDS), mode)
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-5)
