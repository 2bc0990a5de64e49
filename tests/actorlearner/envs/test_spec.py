"""What a probe says about an environment, and that it leaves nothing behind."""

import pickle
import threading

import gymnasium
import numpy as np
import pytest

from actorlearner.envs.spec import probe_environment
from actorlearner.exceptions import EnvironmentNotFoundError
from actorlearner.settings import EnvironmentSettings


@pytest.mark.parametrize(
    ("environment_id", "shape", "num_actions", "is_image", "native_vector"),
    [
        ("CartPole-v1", (4,), 2, False, True),
        ("Acrobot-v1", (6,), 3, False, False),
        ("MountainCar-v0", (2,), 3, False, False),
        ("ALE/Pong-v5", (4, 84, 84), 6, True, True),
        ("ALE/MsPacman-v5", (4, 84, 84), 9, True, True),
    ],
)
def test_known_environments(environment_id, shape, num_actions, is_image, native_vector):
    spec = probe_environment(EnvironmentSettings(id=environment_id))
    assert spec.id == environment_id
    assert spec.observation_space.shape == shape
    assert spec.observation_space.dtype == (np.uint8 if is_image else np.float32)
    assert spec.action_space == gymnasium.spaces.Discrete(num_actions)
    assert (spec.is_image, spec.native_vector) == (is_image, native_vector)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_the_probe_closes_what_it_opened(monkeypatch):
    closed = []
    original = gymnasium.envs.classic_control.AcrobotEnv.close
    monkeypatch.setattr(
        gymnasium.envs.classic_control.AcrobotEnv, "close", lambda self: (closed.append(True), original(self))
    )
    before = threading.active_count()
    probe_environment(EnvironmentSettings(id="Acrobot-v1"))
    assert closed
    assert threading.active_count() == before


def test_errors_pass_through():
    with pytest.raises(EnvironmentNotFoundError):
        probe_environment(EnvironmentSettings(id="Akrobat-v1"))
