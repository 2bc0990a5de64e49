"""What counts as an image, and where its channels are."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from actorlearner.spaces import channels_come_last, is_image_space


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Box(0, 255, (4, 84, 84), np.uint8), True),
        (Box(0, 255, (96, 96, 3), np.uint8), True),
        (Box(0, 1, (4, 84, 84), np.float32), False),
        (Box(0, 255, (128,), np.uint8), False),
        (Discrete(3), False),
    ],
)
def test_images_are_uint8_boxes_of_three_dimensions(space, expected):
    assert is_image_space(space) is expected


def test_channels_are_the_smallest_dimension():
    assert channels_come_last((96, 72, 3))
    assert not channels_come_last((4, 84, 84))
