"""The convolutional network of Mnih et al. 2015 (Nature 518, "Model architecture") for uint8 images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from actorlearner.exceptions import ConfigError
from actorlearner.models.base import (
    HIDDEN_GAIN,
    POLICY_HEAD_GAIN,
    VALUE_HEAD_GAIN,
    ActorCritic,
    ModelOutput,
    init_orthogonal,
    linear,
)
from actorlearner.models.precision import resolve_precision
from actorlearner.settings import Precision
from actorlearner.spaces import channels_come_last

_HIDDEN_SIZE = 512
_SMALLEST_SIDE = 36


class NatureCnn(ActorCritic):
    """Three convolutions and one fully connected layer shared by policy and value, then a linear head for each.

    The trunk runs in the resolved precision; the heads run in float32, because rounded logits would add noise to the
    ratio between learner and sampler.

    Args:
        observation_shape: [channels, height, width] or [height, width, channels] of uint8 images.
        num_actions: number of discrete actions.
        precision: arithmetic of the trunk.

    Raises:
        ConfigError: the image is smaller than the three convolutions need.
    """

    def __init__(self, observation_shape: tuple[int, int, int], num_actions: int, *, precision: Precision) -> None:
        super().__init__()
        self.precision = precision
        self.channels_last = channels_come_last(observation_shape)
        channels, *sides = observation_shape
        if self.channels_last:
            *sides, channels = observation_shape
        if min(sides) < _SMALLEST_SIDE:
            raise ConfigError(
                f"model.type=nature_cnn needs images of at least {_SMALLEST_SIDE}x{_SMALLEST_SIDE} pixels, "
                f"got {sides[0]}x{sides[1]}; set model.type=mlp.",
                key="model.type",
                value="nature_cnn",
            )
        self.conv1 = _convolution(channels, 32, kernel=8, stride=4)
        self.conv2 = _convolution(32, 64, kernel=4, stride=2)
        self.conv3 = _convolution(64, 64, kernel=3, stride=1)
        for layer in (self.conv1, self.conv2, self.conv3):
            sides = [(side - layer.kernel_size[0]) // layer.stride[0] + 1 for side in sides]
        self.hidden = linear(64 * sides[0] * sides[1], _HIDDEN_SIZE, HIDDEN_GAIN)
        self.policy_head = linear(_HIDDEN_SIZE, num_actions, POLICY_HEAD_GAIN)
        self.value_head = linear(_HIDDEN_SIZE, 1, VALUE_HEAD_GAIN)

    def forward(self, observations: Tensor) -> ModelOutput:
        """Evaluate policy and value of images [N, ...] uint8; see ``ActorCritic.forward``."""
        hidden = self._trunk(observations)
        return ModelOutput(self.policy_head(hidden), self.value_head(hidden).squeeze(-1))

    def policy_logits(self, observations: Tensor) -> Tensor:
        """Return the logits alone; see ``ActorCritic.policy_logits``."""
        logits: Tensor = self.policy_head(self._trunk(observations))
        return logits

    def _trunk(self, observations: Tensor) -> Tensor:
        """Return the shared features [N, 512] float32."""
        device = observations.device.type
        dtype = resolve_precision(self.precision, True, observations.device)
        if self.channels_last:
            observations = observations.permute(0, 3, 1, 2)
        # Channels-last convolutions are faster in both directions; bytes are cheaper to rearrange than floats. Whole
        # numbers up to 255 are exact in bfloat16 too: pixels are converted as they are, and the scale to [0, 1] goes
        # into the first layer's 8 thousand weights instead of into every pixel.
        inputs = observations.contiguous(memory_format=torch.channels_last).to(dtype)
        scale = 1.0 / 255.0 if observations.dtype is torch.uint8 else 1.0
        first = self.conv1
        with torch.autocast(device, dtype, enabled=dtype is not torch.float32):
            features = functional.relu(functional.conv2d(inputs, first.weight * scale, first.bias, first.stride))
            features = functional.relu(self.conv2(features))
            features = functional.relu(self.conv3(features))
            # Flattened in memory order (pixel by pixel), which copies nothing.
            features = functional.relu(self.hidden(features.permute(0, 2, 3, 1).flatten(1)))
        return features.float()


def _convolution(num_inputs: int, num_filters: int, *, kernel: int, stride: int) -> nn.Conv2d:
    layer = nn.Conv2d(num_inputs, num_filters, kernel, stride)
    init_orthogonal(layer, HIDDEN_GAIN)
    return layer
