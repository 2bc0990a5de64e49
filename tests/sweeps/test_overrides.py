"""What the command line becomes before Hydra reads it."""

import pytest

from actorlearner.exceptions import ConfigError
from sweeps.overrides import CommandLine, grid, rewrite


def one(text: str, *, multirun: bool = False) -> str:
    return rewrite([text], CommandLine(multirun=multirun))[0]


@pytest.mark.parametrize("multirun", [False, True])
@pytest.mark.parametrize("value", ["tag(log,interval(1e-4,1e-2))", "choice(1e-3,1e-2)", "range(0.1,0.5,0.1)"])
def test_a_distribution_becomes_a_dimension(value: str, multirun: bool):
    assert one(f"algorithm.lr={value}", multirun=multirun) == f"++search_space.algorithm.lr='{value}'"


def test_a_distribution_with_quotes_survives():
    rewritten = one("model.activation=choice('tanh',\"relu\")")
    assert rewritten == "++search_space.model.activation='choice(\\'tanh\\',\"relu\")'"


def test_the_space_itself_takes_distributions_and_bounds():
    assert one("search_space.algorithm.lr=interval(1,2)") == "++search_space.algorithm.lr='interval(1,2)'"
    assert one("search_space.algorithm.lr.low=1e-6") == "++search_space.algorithm.lr.low=1e-6"
    assert one("~search_space.algorithm.lr") == "~search_space.algorithm.lr"


def test_comma_lists_are_hydras_grid_only_with_m():
    assert one("algorithm.lr=1e-3,1e-2", multirun=True) == "algorithm.lr=0.001,0.01"
    assert one("environment=cartpole,acrobot", multirun=True) == "environment=cartpole,acrobot"
    with pytest.raises(ConfigError, match=r"add -m .* 'algorithm.lr=choice\(1,2\)'"):
        one("algorithm.lr=1,2")


def test_experiment_works_without_its_plus():
    assert one("experiment=atari") == "+experiment=atari"
    assert one("+experiment=atari") == "+experiment=atari"


def test_free_trees_take_new_keys():
    assert one("environment.env_config.frameskip=4") == "++environment.env_config.frameskip=4"


@pytest.mark.parametrize("text", ["search.num_trials=1e3", "+search.num_trials=1000.0", "search.num_trials=1000"])
def test_whole_numbers_may_be_written_as_floats(text: str):
    assert one(text) == "search.num_trials=1000"


def test_lists_of_floats_take_whole_numbers():
    assert one("algorithm.lr_schedule=[[0,1],[10,2]]") == "algorithm.lr_schedule=[[0.0, 1.0], [10.0, 2.0]]"


def test_hydras_own_overrides_and_interpolations_pass():
    for text in ("hydra.verbose=true", "hydra/launcher=basic", "algorithm.lr=${algorithm.gamma}", "model=mlp"):
        assert one(text) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("algorithm.learing_rate=1e-3", "Unknown key algorithm.learing_rate: did you mean algorithm.lr"),
        ("algorithm.learning_rate=1e-3", "did you mean algorithm.lr"),
        ("lr=1e-3", "did you mean algorithm.lr"),
        ("algorithm.gama=0.9", "did you mean algorithm.gamma"),
        ("env=cartpole", "did you mean environment"),
        ("num_trials=4", "did you mean search.num_trials"),
        ("sweep.objective.mod=min", "did you mean sweep.objective.mode"),
        ("sweep.zzz=1", "known are sweep.budget, sweep.dir"),
        ("algorithm.lr=fast", "algorithm.lr must be a number, got 'fast'"),
        ("algorithm.gamma=1.5", "algorithm.gamma must be between 0 and 1, got 1.5"),
        ("search.sampler=tp", "must be one of tpe, random, gp, qmc, got 'tp'"),
        ("search.num_trials=1.5", "must be a whole number, got 1.5"),
        ("algorithm.lr=tag(log,interval(1e-4", "Cannot read"),
        ("algorithm.lr", "settings are written key=value, for example algorithm.lr=VALUE"),
        ("sweep.seed=range(0,3)", "sweep.seed cannot be searched"),
        ("environment=choice(cartpole,acrobot)", "a group cannot be searched .* -m environment=A,B"),
        ("~algorithm.lr", "~search_space.algorithm.lr takes it out of the search"),
    ],
)
def test_mistakes(text: str, message: str):
    with pytest.raises(ConfigError, match=message):
        one(text)


def test_a_grids_values_are_checked():
    with pytest.raises(ConfigError, match=r"between 0 and 1, got 1.2"):
        one("algorithm.gamma=0.9,1.2", multirun=True)


def test_the_grid_is_hydras():
    jobs = grid(["environment=cartpole,acrobot", "search.num_trials=4", "sweep.seed=range(0,2)"])
    assert jobs == [
        ["environment=cartpole", "search.num_trials=4", "sweep.seed=0"],
        ["environment=cartpole", "search.num_trials=4", "sweep.seed=1"],
        ["environment=acrobot", "search.num_trials=4", "sweep.seed=0"],
        ["environment=acrobot", "search.num_trials=4", "sweep.seed=1"],
    ]
    assert grid(["environment=glob(*)"]) == []


@pytest.mark.parametrize("key", ["algorithm.lr", "algorithm.entropy_coeff"])
def test_a_value_and_the_schedule_that_overrules_it_are_one_too_many(key: str):
    value, schedule = f"{key}=1e-3", f"{key}_schedule=[[0,1e-3],[10,0]]"
    with pytest.raises(ConfigError, match=f"{key}=1e-3 has no effect beside {key}_schedule"):
        rewrite([schedule, value], CommandLine())
    rewrite([value, f"{key}_schedule=null"], CommandLine())
    rewrite([schedule], CommandLine())
