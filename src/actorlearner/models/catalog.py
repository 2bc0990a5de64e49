"""Builds the network that the configuration asks for."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Box, Discrete

from actorlearner.exceptions import ConfigError
from actorlearner.models.base import ActorCritic
from actorlearner.models.cnn import NatureCnn
from actorlearner.models.mlp import Mlp
from actorlearner.models.precision import resolve_precision
from actorlearner.settings import ModelSettings, ModelType, Precision
from actorlearner.spaces import is_image_space


def build_model(
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    settings: ModelSettings,
    precision: Precision,
    device: torch.device | None = None,
) -> ActorCritic:
    """Return a fresh network, initialised on the CPU from torch's global random state and moved to its device.

    Args:
        observation_space: Box of one observation; uint8 boxes of three dimensions are images.
        action_space: Discrete.
        settings: architecture; ``auto`` takes ``nature_cnn`` for images and ``mlp`` for everything else.
        precision: arithmetic of the layers.
        device: where it will run; None is the CPU. No other device is looked at: a process that samples on the CPU
            must not open a CUDA context.

    Raises:
        ConfigError: the network cannot take these spaces, or the device lacks the precision.
    """
    if not isinstance(observation_space, Box) or not isinstance(action_space, Discrete):
        raise ConfigError(
            f"Networks take Box observations and Discrete actions, got {observation_space} and {action_space}; "
            "choose another environment.id.",
            key="environment.id",
        )
    kind = settings.type
    if kind is ModelType.auto:
        kind = ModelType.nature_cnn if is_image_space(observation_space) else ModelType.mlp
    device = device or torch.device("cpu")
    # Fail here rather than at the first forward pass, which may be in another process.
    resolve_precision(precision, kind is ModelType.nature_cnn, device)
    num_actions = int(action_space.n)
    if kind is ModelType.nature_cnn:
        return _build_nature_cnn(observation_space, num_actions, precision).to(device)
    return Mlp(
        observation_space.shape,
        num_actions,
        hidden_sizes=settings.hidden_sizes,
        activation=settings.activation,
        share_layers=settings.share_layers,
        precision=precision,
    ).to(device)


def _build_nature_cnn(observation_space: Box, num_actions: int, precision: Precision) -> NatureCnn:
    if not is_image_space(observation_space):
        raise ConfigError(
            f"model.type=nature_cnn needs uint8 images, and observations are {observation_space}; set model.type=auto.",
            key="model.type",
            value="nature_cnn",
        )
    channels, height, width = observation_space.shape
    return NatureCnn((channels, height, width), num_actions, precision=precision)
