"""Multilayer perceptron for observation vectors; policy and value have separate networks unless told otherwise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from actorlearner.models.base import (
    HIDDEN_GAIN,
    POLICY_HEAD_GAIN,
    VALUE_HEAD_GAIN,
    ActorCritic,
    ModelOutput,
    linear,
)
from actorlearner.models.precision import resolve_precision
from actorlearner.settings import Activation, Precision


class Mlp(ActorCritic):
    """Hidden layers and two linear heads on flattened observations.

    Args:
        observation_shape: shape of one observation; flattened.
        num_actions: number of discrete actions.
        hidden_sizes: units of each hidden layer.
        activation: non-linearity after each hidden layer.
        share_layers: whether policy and value share the hidden layers.
        precision: arithmetic of the layers; ``auto`` is float32 here, because casting costs more than small matrices.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        num_actions: int,
        *,
        hidden_sizes: Sequence[int],
        activation: Activation,
        share_layers: bool,
        precision: Precision,
    ) -> None:
        super().__init__()
        num_inputs = math.prod(observation_shape)
        self.share_layers = share_layers
        self.precision = precision
        # Functions instead of modules and nn.Sequential: calls are half the cost of such small layers.
        self._activate = torch.tanh if activation is Activation.tanh else torch.relu
        self.policy_trunk = _trunk(num_inputs, hidden_sizes)
        self.value_trunk = None if share_layers else _trunk(num_inputs, hidden_sizes)
        self.policy_head = linear(hidden_sizes[-1], num_actions, POLICY_HEAD_GAIN)
        self.value_head = linear(hidden_sizes[-1], 1, VALUE_HEAD_GAIN)

    def forward(self, observations: Tensor) -> ModelOutput:
        """Evaluate policy and value; see ``ActorCritic.forward``."""
        inputs = _flat_float(observations)
        hidden = self._hidden(self.policy_trunk, inputs)
        value_hidden = hidden if self.value_trunk is None else self._hidden(self.value_trunk, inputs)
        return ModelOutput(self.policy_head(hidden), self.value_head(value_hidden).squeeze(-1))

    def policy_logits(self, observations: Tensor) -> Tensor:
        """Return the logits alone, without the value's layers; see ``ActorCritic.policy_logits``."""
        logits: Tensor = self.policy_head(self._hidden(self.policy_trunk, _flat_float(observations)))
        return logits

    def _hidden(self, trunk: nn.ModuleList, inputs: Tensor) -> Tensor:
        # Entering an autocast context costs as much as a small layer: float32 goes without one.
        if self.precision is not Precision.bfloat16:
            return self._through(trunk, inputs)
        dtype = resolve_precision(self.precision, False, inputs.device)
        with torch.autocast(inputs.device.type, dtype):
            return self._through(trunk, inputs).float()

    def _through(self, trunk: nn.ModuleList, hidden: Tensor) -> Tensor:
        for layer in trunk:
            hidden = self._activate(layer(hidden))
        return hidden


def _trunk(num_inputs: int, hidden_sizes: Sequence[int]) -> nn.ModuleList:
    sizes = [num_inputs, *hidden_sizes]
    return nn.ModuleList(linear(before, after, HIDDEN_GAIN) for before, after in itertools.pairwise(sizes))


def _flat_float(observations: Tensor) -> Tensor:
    inputs = observations if observations.ndim == 2 else observations.flatten(1)
    if inputs.dtype is torch.float32:
        return inputs
    return inputs.float() / 255.0 if inputs.dtype is torch.uint8 else inputs.float()
