"""The contract that every vector environment keeps, and the cases in which they differ underneath."""

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from actorlearner.envs.make import make_vector_env
from actorlearner.envs.vector import VectorEnvironment
from actorlearner.exceptions import ConfigError
from actorlearner.settings import EnvironmentSettings

ENVIRONMENTS = [
    pytest.param(EnvironmentSettings(id="CartPole-v1"), id="native-next-step"),
    pytest.param(EnvironmentSettings(id="Acrobot-v1", env_config={"max_episode_steps": 20}), id="sync-same-step"),
    pytest.param(
        EnvironmentSettings(id="ALE/Pong-v5", env_config={"max_num_frames_per_episode": 80}), id="atari-same-step"
    ),
]


class Counter(gymnasium.Env):
    """Observes its step count in a buffer that it overwrites; actions are 5 or 6; ends by itself at step ``length``."""

    def __init__(self, length=3, dtype=np.float64):
        self.observation_space = Box(0, 1e300 if dtype == np.float64 else 100, (2,), dtype)
        self.action_space = Discrete(2, start=5)
        self.length = length
        self.buffer = np.zeros(2, dtype)
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.buffer = np.zeros_like(self.buffer)
        return self.buffer, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.buffer[:] += 1
        return self.buffer, float(action), bool(self.buffer[0] >= self.length), False, {}


@pytest.fixture(autouse=True, scope="module")
def _register():
    gymnasium.register("Counter-v0", Counter, max_episode_steps=3)
    yield
    gymnasium.registry.pop("Counter-v0")


def make(num_envs=2, environment_id="Counter-v0", **env_config):
    return make_vector_env(EnvironmentSettings(id=environment_id, env_config=env_config), num_envs)


def play(env, num_steps, seed=0, action_seed=1):
    generator = np.random.default_rng(action_seed)
    first = env.reset(seed)
    steps = [env.step(generator.integers(env.action_space.n, size=env.num_envs)) for _ in range(num_steps)]
    return first, steps


@pytest.mark.parametrize("settings", ENVIRONMENTS)
class TestEveryVectorEnvironment:
    @pytest.fixture
    def env(self, settings):
        env = make_vector_env(settings, 3)
        yield env
        env.close()

    def test_shapes_and_dtypes(self, env):
        first, steps = play(env, 60)
        assert env.num_envs == 3
        for observations in (first, *(step.observations for step in steps)):
            assert observations.shape == (3, *env.observation_space.shape)
            assert observations.dtype == env.observation_space.dtype
            assert observations.flags.c_contiguous
        for step in steps:
            assert (step.rewards.shape, step.rewards.dtype) == ((3,), np.float32)
            for flag in (step.terminated, step.truncated, step.valid):
                assert (flag.shape, flag.dtype) == ((3,), np.bool_)
            assert not (step.terminated & step.truncated).any()

    def test_what_was_handed_out_is_never_written_again(self, env):
        generator = np.random.default_rng(0)
        kept = []
        env.reset(0)
        for _ in range(40):
            step = env.step(generator.integers(env.action_space.n, size=3))
            finals = list(step.final_observations.values())
            arrays = [*step[:5], *finals]
            kept.append((arrays, [array.copy() for array in arrays]))
        for arrays, copies in kept:
            for array, copy in zip(arrays, copies, strict=True):
                assert np.array_equal(array, copy)

    def test_episodes_end_and_go_on(self, env):
        _, steps = play(env, 60)
        assert sum((step.terminated | step.truncated).sum() for step in steps) >= 3
        for step, after in itertools.pairwise(steps):
            ended = step.terminated | step.truncated
            # Next-step autoreset: exactly the rows after an end are resets. Same-step: none is.
            assert np.array_equal(~after.valid, ended) or after.valid.all()
            assert not after.rewards[~after.valid].any()
            assert not (after.terminated | after.truncated)[~after.valid].any()

    def test_the_same_seed_repeats(self, env, settings):
        first, steps = play(env, 30)
        other = make_vector_env(settings, 3)
        again, steps_again = play(other, 30)
        other.close()
        assert np.array_equal(first, again)
        for step, step_again in zip(steps, steps_again, strict=True):
            assert np.array_equal(step.observations, step_again.observations)
            assert np.array_equal(step.rewards, step_again.rewards)

    def test_seeds_and_sub_environments_differ(self, env):  # fault F23
        histories = []
        for seed in (0, 1):
            observations = [env.reset(seed)]  # all Pong games look alike before the first frames have passed
            observations += [env.step(np.ones(3, np.int64)).observations for _ in range(15)]
            histories += list(np.stack(observations, axis=1))
        assert len({history.tobytes() for history in histories}) == 6

    def test_closing_twice_does_no_harm(self, env):
        env.close()
        env.close()


def test_cartpole_resets_in_the_next_step():
    env = make(4, "CartPole-v1")
    _, steps = play(env, 100)
    assert not all(step.valid.all() for step in steps)
    assert not any(step.final_observations for step in steps)
    env.close()


def test_a_truncation_hands_out_the_final_observation():
    env = make(2, "Acrobot-v1", max_episode_steps=5)
    _, steps = play(env, 5)
    assert [step.truncated.all() for step in steps] == [False] * 4 + [True]
    reference = gymnasium.make("Acrobot-v1")
    assert sorted(steps[-1].final_observations) == [0, 1]
    for final in steps[-1].final_observations.values():
        assert final.dtype == np.float32
        assert reference.observation_space.contains(final)
        # The next episode's first observation hangs at rest, the final one does not.
        assert not any(np.array_equal(final, row) for row in steps[-1].observations)
    assert not any(step.final_observations for step in steps[:-1])
    env.close()


def test_neighbouring_worker_seeds_share_no_sub_environment():  # fault F23
    env = make(8, "Acrobot-v1")
    first, neighbour = env.reset(0), env.reset(1)
    assert len({row.tobytes() for row in np.concatenate([first, neighbour])}) == 16
    env.close()


def test_an_end_that_is_also_a_time_limit_is_a_termination():
    env = make(length=3)
    _, steps = play(env, 3)
    assert steps[-1].terminated.all()
    assert not steps[-1].truncated.any()
    assert not steps[-1].final_observations
    env.close()


def test_a_time_limit_alone_is_a_truncation():  # fault F24
    env = make(length=100)
    _, steps = play(env, 3)
    assert steps[-1].truncated.all()
    assert not steps[-1].terminated.any()
    assert steps[-1].final_observations[1].tolist() == [3.0, 3.0]
    assert steps[-1].observations.tolist() == [[0.0, 0.0]] * 2
    env.close()


def test_actions_count_from_zero_whatever_the_space_says():
    env = make()
    env.reset(0)
    assert env.step(np.array([0, 1])).rewards.tolist() == [5.0, 6.0]
    env.close()


@pytest.mark.parametrize("dtype", [np.float64, np.int16, np.uint8])
def test_vectors_of_any_dtype_become_float32(dtype):
    env = make(dtype=dtype)
    observations, steps = play(env, 2)
    assert env.observation_space.dtype == observations.dtype == np.float32
    assert steps[-1].observations.dtype == np.float32
    assert steps[-1].observations.tolist() == [[2.0, 2.0]] * 2
    env.close()


@pytest.mark.parametrize(
    ("environment_id", "message"),
    [
        ("Pendulum-v1", r"Pendulum-v1 has actions in Box\(-2\.0, 2\.0.*only Discrete actions are supported"),
        ("FrozenLake-v1", r"FrozenLake-v1 has observations in Discrete\(16\).*only Box observations are supported"),
        ("Blackjack-v1", r"Blackjack-v1 has observations in Tuple\("),
    ],
)
def test_spaces_that_are_not_supported_are_named(environment_id, message):
    with pytest.raises(ConfigError, match=message):
        make(1, environment_id)


def test_an_environment_that_does_not_reset_itself_is_refused_and_closed():
    env = gymnasium.make_vec("Acrobot-v1", 1, vectorization_mode="sync", vector_kwargs={"autoreset_mode": "Disabled"})
    with pytest.raises(ConfigError, match="does not reset itself"):
        VectorEnvironment(env, "Acrobot-v1")
    assert env.closed
