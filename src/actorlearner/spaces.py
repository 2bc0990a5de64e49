"""Questions about gymnasium spaces that environments, models and resources must answer alike."""

from __future__ import annotations

import gymnasium
import numpy as np


def is_image_space(space: gymnasium.Space[object]) -> bool:
    """Say whether observations are uint8 images: three dimensions, one of them the channels."""
    return isinstance(space, gymnasium.spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


def channels_come_last(shape: tuple[int, ...]) -> bool:
    """Say whether an image's shape is [height, width, channels]: the channels are the smallest dimension."""
    return shape[2] < shape[0]
