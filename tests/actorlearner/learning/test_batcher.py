"""Joining fragments, oldest first, with exact counts."""

import numpy as np
import pytest
from fragments import make_fragment

from actorlearner.learning.batcher import Batcher, join


def test_joins_the_oldest_fragments_first() -> None:  # fault F7
    batcher = Batcher(16, drop_last_step=False)
    for version in range(5):
        batcher.add(make_fragment(version=version, reward=version))
    first, second = batcher.pop(), batcher.pop()
    assert first is not None
    assert second is not None
    assert first.rewards[0].tolist() == [0, 0, 1, 1]
    assert second.rewards[0].tolist() == [2, 2, 3, 3]
    assert (first.behaviour_version, second.behaviour_version) == (0.5, 2.5)
    assert batcher.pop() is None
    assert batcher.env_steps_waiting == 8


def test_env_steps_are_the_valid_rows() -> None:  # fault F12
    valid = np.ones((4, 2), np.bool_)
    valid[1, 0] = False
    batcher = Batcher(8, drop_last_step=False)
    batcher.add(make_fragment(valid=valid))
    assert batcher.env_steps_waiting == 7
    batch = batcher.pop()
    assert batch is not None
    assert batch.env_steps == 7
    assert batcher.env_steps_waiting == 0


def test_dropped_last_steps_are_counted_and_leave_their_observation_as_bootstrap() -> None:  # spec I1, fault F12
    valid = np.ones((4, 2), np.bool_)
    valid[3, 1] = False
    fragment = make_fragment(valid=valid, truncated=((1, 0), (3, 1)))
    batcher = Batcher(8, drop_last_step=True)
    batcher.add(fragment)
    assert (batcher.env_steps_waiting, batcher.env_steps_dropped) == (6, 1)
    batch = batcher.pop()
    assert batch is not None
    assert batch.rewards.shape == (3, 2)
    np.testing.assert_array_equal(batch.observations, fragment.observations[:4])
    assert batch.final_index.tolist() == [[1, 0]]
    assert len(batch.final_observations) == 1
    assert batch.env_steps + batcher.env_steps_dropped == fragment.env_steps


def test_final_observations_stay_with_their_sub_environment() -> None:
    fragments = [make_fragment(truncated=((2, 1),), final=1.0), make_fragment(truncated=((0, 0), (3, 1)), final=2.0)]
    batch = join(fragments)
    assert batch.final_index.tolist() == [[2, 1], [0, 2], [3, 3]]
    assert batch.final_observations[:, 0].tolist() == [1.0, 2.0, 2.0]
    assert batch.truncated[tuple(batch.final_index.T)].all()


def test_one_fragment_is_passed_on_without_a_copy() -> None:
    fragment = make_fragment()
    assert join([fragment]).observations is fragment.observations


def test_fragments_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"equally many time steps, got \[4, 5\]"):
        join([make_fragment(4), make_fragment(5)])
