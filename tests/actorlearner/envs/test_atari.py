"""Atari: protocol of the registered id, unclipped full games, final observations, silence."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from actorlearner.envs.atari import import_ale
from actorlearner.envs.make import find_spec, make_vector_env
from actorlearner.exceptions import ConfigError
from actorlearner.settings import EnvironmentSettings


def make(environment_id="ALE/Pong-v5", num_envs=2, num_threads=1, **env_config):
    return make_vector_env(
        EnvironmentSettings(id=environment_id, env_config=env_config), num_envs, num_threads=num_threads
    )


def test_every_registered_game_has_its_rom():
    import_ale()
    from ale_py import roms

    specs = [spec for name, spec in gymnasium.registry.items() if name.startswith("ALE/")]
    assert len(specs) > 100
    for spec in specs:
        assert Path(roms.get_rom_path(spec.kwargs["game"])).is_file(), spec.id
    assert find_spec("ALE/SpaceInvaders-v5").kwargs["game"] == "space_invaders"


def test_the_v5_protocol_is_taken_from_the_registered_id(monkeypatch):
    import ale_py.vector_env

    seen = {}
    original = ale_py.vector_env.AtariVectorEnv.__init__

    @functools.wraps(original)
    def record(self, **kwargs):
        seen.update(kwargs)
        original(self, **kwargs)

    monkeypatch.setattr(ale_py.vector_env.AtariVectorEnv, "__init__", record)
    make("ALE/Breakout-v5", num_threads=8).close()
    assert seen["game"] == "breakout"
    assert seen["repeat_action_probability"] == 0.25
    assert seen["frameskip"] == 4
    assert seen["max_num_frames_per_episode"] == 108_000
    assert not seen["full_action_space"]
    assert not seen["reward_clipping"]
    assert not seen["episodic_life"]
    assert seen["num_threads"] == 2
    make("ALE/Breakout-v5", repeat_action_probability=0.0).close()
    assert seen["repeat_action_probability"] == 0.0


def test_the_cut_is_a_truncation_with_the_final_stack():
    env = make(num_envs=2, max_num_frames_per_episode=80, noop_max=1)
    before = env.reset(0)
    for step_index in range(1, 21):
        step = env.step(np.array([2, 3]))
        assert step.truncated.all() == (step_index == 20)
        assert not step.terminated.any()
        if step_index < 20:
            before = step.observations
    for index, final in step.final_observations.items():
        # The final stack continues the one before; what was handed out starts a new game.
        assert np.array_equal(final[:3], before[index, 1:])
        assert not np.array_equal(step.observations[index, :3], before[index, 1:])
    assert sorted(step.final_observations) == [0, 1]
    env.close()


def test_random_breakout_games_are_whole_and_unclipped():  # fault F25
    env = make("ALE/Breakout-v5", num_envs=4)
    generator = np.random.default_rng(0)
    env.reset(0)
    lengths, length = [], np.zeros(4, int)
    for _ in range(300):
        step = env.step(generator.integers(4, size=4))
        length += 1
        lengths += length[step.terminated].tolist()
        length[step.terminated | step.truncated] = 0
    env.close()
    assert lengths
    assert min(lengths) > 100  # five lives of random play; a single one lasts about 30 steps


def test_rewards_are_not_clipped():
    env = make("ALE/SpaceInvaders-v5", num_envs=4)
    generator = np.random.default_rng(0)
    env.reset(0)
    largest = max(env.step(generator.integers(6, size=4)).rewards.max() for _ in range(150))
    env.close()
    assert largest >= 5


@pytest.mark.parametrize(
    ("env_config", "message"),
    [
        ({"reward_clipping": True}, r"reward_clipping cannot be set: set environment\.reward_clipping"),
        ({"episodic_life": True}, r"episodic_life cannot be set: episodes are full games"),
        ({"autoreset_mode": "NextStep"}, r"autoreset_mode cannot be set"),
        ({"frame_skip": 4}, r"Unknown key environment\.env_config\.frame_skip: Atari takes .*frameskip"),
        ({"frameskip": 0}, r"refused by ALE: Invalid frameskip of 0"),
    ],
)
def test_what_a_person_cannot_set(env_config, message):
    with pytest.raises(ConfigError, match=message):
        make(**env_config)


def test_closing_ends_ales_threads():
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        pytest.skip("threads are counted through /proc")
    env = make(num_envs=4, num_threads=2)
    env.reset(0)
    during = len(list(tasks.iterdir()))
    env.close()
    assert len(list(tasks.iterdir())) <= during - 2


def test_nothing_is_written_to_the_terminal():
    code = (
        "import numpy as np\n"
        "from actorlearner.envs.make import make_vector_env\n"
        "from actorlearner.settings import EnvironmentSettings\n"
        "env = make_vector_env(EnvironmentSettings(id='ALE/Pong-v5'), 1)\n"
        "env.reset(0); env.step(np.array([0])); env.close()\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
