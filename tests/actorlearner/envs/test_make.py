"""Ids and what is missing: every message names the cure."""

import sys

import gymnasium
import numpy as np
import pytest

from actorlearner.envs.make import find_spec, has_native_vector, make_vector_env
from actorlearner.exceptions import ConfigError, EnvironmentNotFoundError, MissingExtraError
from actorlearner.settings import EnvironmentSettings


def make(environment_id, **env_config):
    return make_vector_env(EnvironmentSettings(id=environment_id, env_config=env_config), 1)


@pytest.mark.parametrize(
    ("wrong", "suggestion"),
    [
        ("CartPole-v2", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPol", "CartPole-v1"),
        ("Pong-v5", "ALE/Pong-v5"),
        ("ALE/Breakotu-v5", "ALE/Breakout-v5"),
        ("PongNoFrameskip-v4", "ALE/Pong-v5"),
        ("LunarLander-v2", "LunarLander-v3"),
    ],
)
def test_an_unknown_id_brings_the_closest_ones(wrong, suggestion):
    with pytest.raises(EnvironmentNotFoundError, match=f"environment.id={wrong} .*did you mean {suggestion}") as error:
        make(wrong)
    assert error.value.key == "environment.id"
    assert error.value.value == wrong


def test_an_id_like_no_other_says_how_to_bring_ones_own():
    with pytest.raises(EnvironmentNotFoundError, match=r"no registered id is similar\. .*module:id"):
        make("Xyzzy-v0")


def without(monkeypatch, module, extra_module):
    """Make a package look uninstalled, whether or not it is here."""
    monkeypatch.setitem(sys.modules, module, None)
    for name in [name for name in sys.modules if name.startswith(extra_module)]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("environment_id", "module", "home", "extra"),
    [
        ("LunarLander-v3", "Box2D", "gymnasium.envs.box2d", "box2d"),
        ("HalfCheetah-v5", "mujoco", "gymnasium.envs.mujoco", "mujoco"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, environment_id, module, home, extra):
    without(monkeypatch, module, home)
    with pytest.raises(MissingExtraError, match=rf"{environment_id} needs .*pip install 'impala-sweeps\[{extra}\]'"):
        make(environment_id)


def test_any_other_missing_module_is_named(monkeypatch):
    with pytest.raises(MissingExtraError, match=r"needs the module 'no_such_module', which is not installed"):
        make("no_such_module:Own-v0")
    without(monkeypatch, "jax", "gymnasium.envs.phys2d")
    with pytest.raises(MissingExtraError, match=r"phys2d/CartPole-v1 needs the module 'jax'"):
        make("phys2d/CartPole-v1")


@pytest.mark.parametrize("environment_id", ["CartPole-v1", "Acrobot-v1"])
def test_a_keyword_that_the_constructor_refuses(environment_id):
    with pytest.raises(
        ConfigError, match=rf"env_config={{'gravity_': 1}} does not fit environment.id={environment_id}"
    ):
        make(environment_id, gravity_=1)


def test_env_config_reaches_the_constructor():
    env = make("CartPole-v1", sutton_barto_reward=True)
    env.reset(0)
    assert env.step(np.array([0])).rewards[0] == 0.0
    env.close()


def test_a_module_of_ones_own_registers_its_id(tmp_path, monkeypatch):
    (tmp_path / "own_environments.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Own-v0', 'gymnasium.envs.classic_control:AcrobotEnv', max_episode_steps=7)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert find_spec("own_environments:Own-v0").max_episode_steps == 7
    make("own_environments:Own-v0").close()
    gymnasium.registry.pop("Own-v0")


def test_native_vector_versions_are_taken():
    assert has_native_vector(find_spec("CartPole-v1"))
    assert has_native_vector(find_spec("ALE/Pong-v5"))
    assert not has_native_vector(find_spec("Acrobot-v1"))
