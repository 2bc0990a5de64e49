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
) -> ActorCritic:
    """Return a fresh network on the CPU, initialised from torch's global random state.

    Args:
        observation_space: Box of one observation; uint8 boxes of three dimensions are images.
        action_space: Discrete.
        settings: architecture; ``auto`` takes ``nature_cnn`` for images and ``mlp`` for everything else.
        precision: arithmetic of the layers.

    Raises:
        ConfigError: the network cannot take these spaces, or the hardware lacks the precision.
    """
    if not isinstance(observation_space, Box) or not isinstance(action_space, Discrete):
        raise ConfigError(
            f"Networks take Box observations and Discrete actions, got {observation_space} and {action_space}; "
            "choose another environment.id.",
            key="environment.id",
        )
    is_image = is_image_space(observation_space)
    kind = settings.type
    if kind is ModelType.auto:
        kind = ModelType.nature_cnn if is_image else ModelType.mlp
    is_convolutional = kind is ModelType.nature_cnn
    # Fail here rather than at the first forward pass, which may be in another process.
    resolve_precision(precision, is_convolutional, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    num_actions = int(action_space.n)
    if is_convolutional:
        if not is_image:
            raise ConfigError(
                f"model.type=nature_cnn needs uint8 images, and observations are {observation_space}; "
                "set model.type=auto.",
                key="model.type",
                value="nature_cnn",
            )
        channels, height, width = observation_space.shape
        return NatureCnn((channels, height, width), num_actions, precision=precision)
    return Mlp(
        observation_space.shape,
        num_actions,
        hidden_sizes=settings.hidden_sizes,
        activation=settings.activation,
        share_layers=settings.share_layers,
        precision=precision,
    )
