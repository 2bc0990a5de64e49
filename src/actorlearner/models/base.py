"""What every policy and value network offers to the sampler and the learner."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

# Orthogonal weights keep the scale of activations and gradients through the layers (Saxe et al. 2014,
# arXiv:1312.6120); the almost-zero policy head starts close to the uniform policy (Andrychowicz et al. 2021,
# arXiv:2006.05990, section 3.2).
POLICY_HEAD_GAIN = 0.01
VALUE_HEAD_GAIN = 1.0
HIDDEN_GAIN = math.sqrt(2.0)


class ModelOutput(NamedTuple):
    """One forward pass over N observations.

    Attributes:
        logits: [N, A] float32, the action distribution's parameters.
        values: [N] float32, expected discounted return.
    """

    logits: Tensor
    values: Tensor


class ActorCritic(nn.Module, ABC):
    """A policy and a value function of one observation; outputs are float32 whatever the layers compute in."""

    @abstractmethod
    def forward(self, observations: Tensor) -> ModelOutput:
        """Evaluate policy and value.

        Args:
            observations: [N, ...] in the environment's dtype; uint8 images are scaled to [0, 1] inside.

        Returns:
            Logits [N, A] and values [N], both float32.
        """

    @abstractmethod
    def policy_logits(self, observations: Tensor) -> Tensor:
        """Return the logits [N, A] float32 alone; cheaper where the value has layers of its own."""


def init_orthogonal(layer: nn.Linear | nn.Conv2d, gain: float) -> None:
    """Give a layer orthogonal weights of this gain and zero biases, in place."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def linear(num_inputs: int, num_outputs: int, gain: float) -> nn.Linear:
    """Return a linear layer with orthogonal weights of this gain and zero biases."""
    layer = nn.Linear(num_inputs, num_outputs)
    init_orthogonal(layer, gain)
    return layer
