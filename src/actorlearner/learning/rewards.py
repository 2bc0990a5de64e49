"""What the learner sees of a reward; episode returns are reported from the unclipped ones."""

from __future__ import annotations

import torch
from torch import Tensor

from actorlearner.settings import RewardClipping


def clip_rewards(rewards: Tensor, mode: RewardClipping) -> Tensor:
    """Return rewards in the learner's view (one formula per mode of ``RewardClipping``).

    Args:
        rewards: float32 of any shape, unclipped.
        mode: see ``RewardClipping``.
    """
    if mode is RewardClipping.none:
        return rewards
    if mode is RewardClipping.clip:
        return rewards.clamp(-1.0, 1.0)
    if mode is RewardClipping.sign:
        return rewards.sign()
    if mode is RewardClipping.tanh:
        squeezed = 5.0 * torch.tanh(rewards / 5.0)
        return torch.where(rewards < 0, 0.3 * squeezed, squeezed)
    squeezed = torch.tanh(rewards)
    return 0.3 * squeezed.clamp(max=0.0) + 5.0 * squeezed.clamp(min=0.0)
