"""The search space: forms, scales, conditions, defaults and mistakes."""

import math
import pickle
import warnings

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from actorlearner.exceptions import ConfigError, UnknownKeyError
from actorlearner.settings import settings_from_dict
from sweeps.space import SearchSpace, apply

BASE = settings_from_dict({}).to_dict()


def space(**algorithm) -> SearchSpace:
    return SearchSpace.from_config({"algorithm": algorithm}, BASE)


def only(written, key="lr"):
    (dimension,) = space(**{key: written}).dimensions
    return dimension


def draws(found: SearchSpace, count: int = 50, sampler=None):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=sampler or optuna.samplers.RandomSampler(seed=1))
    return [found.suggest(study.ask()) for _ in range(count)]


@pytest.mark.parametrize(
    ("key", "written", "expected"),
    [
        ("lr", "interval(1e-4,1e-2)", FloatDistribution(1e-4, 1e-2)),
        ("lr", "tag(log,interval(1e-4,1e-2))", FloatDistribution(1e-4, 1e-2, log=True)),
        ("lr", "tag(log, interval(1e-4, 1e-2))", FloatDistribution(1e-4, 1e-2, log=True)),
        ("lr", "range(0.1,0.5,0.1)", FloatDistribution(0.1, 0.5, step=0.1)),
        ("lr", "choice(0.1,1)", CategoricalDistribution([0.1, 1.0])),
        ("lr", {"low": 1e-4, "high": 1, "log": True}, FloatDistribution(1e-4, 1.0, log=True)),
        ("lr", {"type": "int", "low": 1, "high": 3}, IntDistribution(1, 3)),
        ("num_sgd_iter", "interval(1,4)", IntDistribution(1, 4)),
        ("num_sgd_iter", "tag(log,interval(1,64))", IntDistribution(1, 64, log=True)),
        ("num_sgd_iter", "range(1,10,3)", IntDistribution(1, 10, step=3)),
        ("num_sgd_iter", "range(1,12,3)", IntDistribution(1, 10, step=3)),
        ("num_sgd_iter", {"low": 2, "high": 8, "step": 2}, IntDistribution(2, 8, step=2)),
        ("vtrace_drop_last_ts", "choice(true,false)", CategoricalDistribution([True, False])),
        ("opt_type", "choice(adam,rmsprop)", CategoricalDistribution(["adam", "rmsprop"])),
        ("grad_clip", {"choices": [None, 40]}, CategoricalDistribution([None, 40.0])),
    ],
)
def test_forms_of_a_leaf(key, written, expected):
    dimension = only(written, key)
    assert dimension.distribution == expected
    assert dimension.parameter == f"algorithm.{key}"


def test_bounds_are_included():
    values = {drawn["algorithm.num_sgd_iter"] for drawn in draws(space(num_sgd_iter="interval(1,3)"))}
    assert values == {1, 2, 3}


def test_gamma_is_drawn_on_the_scale_of_log_one_minus_gamma():
    found = space(gamma={"low": 0.9, "high": 0.999, "scale": "one_minus"})
    (dimension,) = found.dimensions
    assert dimension.parameter == "1-algorithm.gamma"
    assert dimension.distribution == FloatDistribution(0.001, 0.1, log=True)
    values = [drawn["algorithm.gamma"] for drawn in draws(found, 200)]
    assert all(0.9 <= value <= 0.999 for value in values)
    middle = sorted(1 - value for value in values)[100]
    assert middle == pytest.approx(math.sqrt(0.001 * 0.1), rel=0.4)
    assert found.encode_default() == {"1-algorithm.gamma": 0.01}
    assert dimension.decode(0.01) == 0.99


def test_powers_of_two():
    found = space(train_batch_size={"low": 128, "high": 1024, "scale": "power_of_two"})
    assert found.dimensions[0].distribution == IntDistribution(7, 10)
    assert {drawn["algorithm.train_batch_size"] for drawn in draws(found)} == {128, 256, 512, 1024}
    assert found.encode_default() is None  # 500 is no power of two
    assert found.encode_default(apply(BASE, {"algorithm.train_batch_size": 256})) == {
        "log2-algorithm.train_batch_size": 8
    }


def test_lists_are_choices():
    found = SearchSpace.from_config({"model": {"hidden_sizes": "choice([64,64],[128])"}}, BASE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Optuna warns of choices that a database cannot hold
        values = [tuple(drawn["model.hidden_sizes"]) for drawn in draws(found, 20)]
    assert set(values) == {(64, 64), (128,)}
    assert found.encode_default() == {"model.hidden_sizes": "[64, 64]"}


def test_conditions_are_define_by_run():
    found = space(
        epsilon={"low": 1e-3, "high": 0.3, "log": True, "when": {"algorithm.opt_type": "rmsprop"}},
        opt_type="choice(adam,rmsprop)",
    )
    assert [dimension.key for dimension in found.dimensions] == ["algorithm.opt_type", "algorithm.epsilon"]
    drawn = draws(found)
    assert {len(values) for values in drawn} == {1, 2}
    assert all(("algorithm.epsilon" in values) == (values["algorithm.opt_type"] == "rmsprop") for values in drawn)
    assert found.encode_default() == {"algorithm.opt_type": "adam"}
    assert found.describe()[1].condition == "algorithm.opt_type=rmsprop"


def test_a_condition_on_a_key_outside_the_space_reads_the_configuration():
    written = {"low": 1e-3, "high": 0.3, "when": {"algorithm.opt_type": ["rmsprop"]}}
    assert draws(space(epsilon=written, lr="interval(0.1,1)"), 1)[0].keys() == {"algorithm.lr"}
    base = apply(BASE, {"algorithm.opt_type": "rmsprop"})
    assert "algorithm.epsilon" in draws(SearchSpace.from_config({"algorithm": {"epsilon": written}}, base), 1)[0]


def test_free_keys_of_an_environment():
    tree = {"environment": {"env_config": {"gravity": {"low": -12.0, "high": -1.0}, "wind": "choice(true,false)"}}}
    found = SearchSpace.from_config(tree, BASE)
    drawn = draws(found, 1)[0]
    assert set(drawn) == {"environment.env_config.gravity", "environment.env_config.wind"}
    assert apply(BASE, drawn)["environment"]["env_config"].keys() == {"gravity", "wind"}


def test_null_takes_a_dimension_out():
    assert [dimension.key for dimension in space(lr=None, gamma="interval(0.9,1)").dimensions] == ["algorithm.gamma"]


def test_the_default_is_encoded_only_inside_the_space():
    assert space(lr="tag(log,interval(1e-4,1e-2))").encode_default() == {"algorithm.lr": 5e-4}
    assert space(lr="tag(log,interval(1e-3,1e-2))").encode_default() is None
    assert space(lr="range(0.0001,0.0011,0.0005)").encode_default() is None
    assert space(rollout_fragment_length={"choices": [10, 20]}).encode_default() is None
    assert space(vtrace_drop_last_ts="choice(true,false)").encode_default() == {"algorithm.vtrace_drop_last_ts": True}
    assert (
        space(grad_clip={"low": 1.0, "high": 50.0}).encode_default(apply(BASE, {"algorithm.grad_clip": None})) is None
    )


def test_an_enqueued_default_comes_back_as_the_configuration():
    found = space(lr="tag(log,interval(1e-4,1e-2))", gamma={"low": 0.9, "high": 0.999, "scale": "one_minus"})
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Optuna warns of a value outside its distribution
        study.enqueue_trial(found.encode_default())
        assert found.suggest(study.ask()) == {"algorithm.lr": 5e-4, "algorithm.gamma": 0.99}


def test_every_draw_is_a_valid_configuration():
    found = space(lr="tag(log,interval(1e-4,1e-2))", rollout_fragment_length="choice(10,20)", opt_type="choice(adam)")
    for drawn in draws(found, 5):
        assert settings_from_dict(apply(BASE, drawn)).algorithm.lr == drawn["algorithm.lr"]


def test_apply_leaves_its_argument_alone():
    assert apply(BASE, {"algorithm.lr": 1.0})["algorithm"]["lr"] == 1.0
    assert BASE["algorithm"]["lr"] == 5e-4


def test_rows_for_people():
    rows = space(lr="tag(log,interval(1e-4,1e-2))", opt_type="choice(adam,rmsprop)").describe()
    assert rows[0] == ("algorithm.lr", "float", "0.0001", "0.01", "log", "0.0005", "")
    assert rows[1] == ("algorithm.opt_type", "choice", "adam, rmsprop", "", "", "adam", "")


def test_it_pickles():
    found = space(gamma={"low": 0.9, "high": 0.999, "scale": "one_minus"})
    assert pickle.loads(pickle.dumps(found)).dimensions == found.dimensions


@pytest.mark.parametrize(
    ("key", "written", "message"),
    [
        ("learning_rate", "interval(0,1)", "Unknown key algorithm.learning_rate in search_space: did you mean algorit"),
        ("gamma", "interval(0.9,1.2)", r"every value of algorithm.gamma must be between 0 and 1, got 1.2"),
        ("gamma", "interval(0.99,0.9)", r"lower bound must not be above the upper one, got 0.99 and 0.9"),
        ("num_sgd_iter", "interval(0.5,2)", "must be a whole number, got 0.5"),
        ("num_sgd_iter", {"type": "float", "low": 1, "high": 2}, "takes whole numbers"),
        ("num_sgd_iter", "choice(a,b)", "must be a whole number, got 'a'"),
        ("num_sgd_iter", "choice(0,1)", "at least 1, got 0"),
        ("opt_type", "choice(adam,sgd)", "one of adam, rmsprop, got 'sgd'"),
        ("opt_type", "interval(0,1)", "is not a number, so it has no bounds"),
        ("lr", "choice(1,1)", "offers a value twice"),
        ("lr", 0.01, r"must be a distribution: .* To fix the value write algorithm.lr=0.01"),
        ("lr", "fast", "must be a distribution"),
        ("lr", "interval(1e-4", "cannot be read"),
        ("lr", "tag(lgo,interval(1,2))", "the only tag is log, got lgo"),
        ("lr", "tag(log,range(1,4))", r"tag\(log, ...\) is for interval\(low,high\) only"),
        ("lr", "tag(log, choice(1,2))", r"tag\(log, ...\) is for interval"),
        ("lr", "shuffle(choice(1,2))", "shuffle and sort mean nothing"),
        ("lr", "shuffle(range(1,4))", "shuffle and sort mean nothing"),
        ("lr", "sort(choice(2,1))", "shuffle and sort mean nothing"),
        ("lr", "sort(range(1,4))", "shuffle and sort mean nothing"),
        ("lr", {"low": 1}, "needs a number as high bound, got None"),
        ("lr", {"low": 1, "hihg": 2}, "unknown entry 'hihg'"),
        ("lr", {"low": 1, "high": 2, "choices": [1]}, "both choices and bounds"),
        ("lr", {"choices": []}, "at least one value"),
        ("lr", {"low": 1, "high": 2, "scale": "sqrt"}, "one of one_minus, power_of_two"),
        ("lr", {"low": 1, "high": 2, "step": 0.3}, r"multiple of the step 0.3; the last value below 2 is 1.9"),
        ("lr", {"low": 1, "high": 2, "step": -1}, "step must be above 0"),
        ("lr", {"low": 1, "high": 2, "step": 1, "log": True}, "neither log nor scale"),
        ("lr", {"low": 1, "high": 2, "log": "yes"}, "must be true or false"),
        ("lr", {"type": "int", "low": 0.5, "high": 2}, "needs whole bounds"),
        ("entropy_coeff", "tag(log,interval(0,1))", "bounds above 0, got 0"),
        ("gamma", {"low": 0.9, "high": 1.0, "scale": "one_minus"}, "numbers below 1, got the upper bound 1"),
        ("train_batch_size", {"low": 100, "high": 128, "scale": "power_of_two"}, "powers of two as bounds"),
        ("lr", {"low": 1, "high": 2, "when": {"algorithm.foo": 1}}, "Unknown key algorithm.foo in .*lr.when"),
        ("lr", {"low": 1, "high": 2, "when": {"algorithm.opt_type": "sgd"}}, "one of adam, rmsprop, got 'sgd'"),
        ("lr", {"low": 1, "high": 2, "when": {"algorithm.lr": 1}}, "circle: algorithm.lr -> algorithm.lr"),
        ("name", "choice(impala)", "cannot differ inside one sweep"),
    ],
)
def test_mistakes(key, written, message):
    with pytest.raises(ConfigError, match=message):
        space(**{key: written})


@pytest.mark.parametrize("tree", [{}, {"algorithm": {}}, {"algorithm": {"lr": None}}])
def test_an_empty_space_is_refused(tree):
    with pytest.raises(ConfigError, match="at least one dimension"):
        SearchSpace.from_config(tree, BASE)


def test_only_what_may_differ_between_trials_is_searched():
    with pytest.raises(ConfigError, match="only keys of algorithm, environment, model"):
        SearchSpace.from_config({"resources": {"num_workers": "choice(0,1)"}}, BASE)
    with pytest.raises(UnknownKeyError, match="Unknown key foo in search_space"):
        SearchSpace.from_config({"foo": {"lr": "interval(0,1)"}}, BASE)


@pytest.mark.parametrize("key", ["lr", "entropy_coeff"])
def test_a_value_that_a_schedule_overrules_cannot_be_searched(key: str):
    base = settings_from_dict({"algorithm": {f"{key}_schedule": [[0, 1e-3], [1000, 0.0]]}}).to_dict()
    with pytest.raises(ConfigError, match=rf"{key} cannot be searched while algorithm\.{key}_schedule is set"):
        SearchSpace.from_config({"algorithm": {key: "interval(1e-4,1e-2)"}}, base)


@pytest.mark.parametrize("choices", ["choice(1,8)", "range(1,9,4)", "interval(1,8)"])
def test_a_proposal_that_breaks_a_rule_between_keys_is_refused(choices: str):
    rule = "rollout_fragment_length must be at least 2"
    with pytest.raises(ConfigError, match=rf"search_space.algorithm.rollout_fragment_length = 1: .*{rule}"):
        space(rollout_fragment_length=choices)
    base = apply(BASE, {"algorithm.vtrace_drop_last_ts": False})
    tree = {"algorithm": {"rollout_fragment_length": choices}}
    assert SearchSpace.from_config(tree, base).dimensions
    tree["algorithm"]["vtrace_drop_last_ts"] = "choice(true,false)"
    with pytest.raises(ConfigError, match=rf"length = 1 with search_space.algorithm.vtrace_drop.* = True: .*{rule}"):
        SearchSpace.from_config(tree, base)


def test_a_proposal_that_a_condition_rules_out_passes():
    length = {"choices": [1, 8], "when": {"algorithm.vtrace_drop_last_ts": False}}
    assert space(rollout_fragment_length=length, vtrace_drop_last_ts="choice(true,false)").dimensions
    with pytest.raises(ConfigError, match="at least 2"):
        space(rollout_fragment_length={**length, "when": {"algorithm.vtrace_drop_last_ts": True}})


def test_choices_follow_the_sections_own_rules():
    with pytest.raises(
        ConfigError, match=r"search_space.model.hidden_sizes = \[0\]: model.hidden_sizes must be a list"
    ):
        SearchSpace.from_config({"model": {"hidden_sizes": "choice([0],[64])"}}, BASE)


@pytest.mark.parametrize(
    ("key", "switch", "choices", "cure"),
    [
        ("lr", "lr_schedule", {"choices": [None, [[0, 1e-3]]]}, "null"),
        ("entropy_coeff", "entropy_coeff_schedule", "choice([[0,1e-3]])", "null"),
        ("epsilon", "opt_type", "choice(adam,rmsprop)", "rmsprop"),
        ("adam_epsilon", "opt_type", "choice(adam,rmsprop)", "adam"),
    ],
)
def test_a_key_that_another_dimension_switches_off_needs_a_condition(key, switch, choices, cure):
    with pytest.raises(ConfigError, match=rf"beside algorithm.{switch}: .*when: .algorithm.{switch}: {cure}"):
        space(**{key: "interval(1e-4,1e-2)", switch: choices})
    wanted = None if cure == "null" else cure
    leaf = {"low": 1e-4, "high": 1e-2, "when": {f"algorithm.{switch}": wanted}}
    assert space(**{key: leaf, switch: choices}).dimensions


@pytest.mark.parametrize("key", ["epsilon", "decay", "momentum"])
def test_a_key_of_the_other_optimizer_cannot_be_searched(key: str):
    tree = {"algorithm": {key: "interval(0.1,0.5)"}}
    with pytest.raises(ConfigError, match=rf"{key} cannot be searched while algorithm.opt_type is not rmsprop"):
        SearchSpace.from_config(tree, BASE)
    rmsprop = apply(BASE, {"algorithm.opt_type": "rmsprop"})
    assert SearchSpace.from_config(tree, rmsprop).dimensions
    with pytest.raises(ConfigError, match=r"adam_epsilon cannot be searched while algorithm\.opt_type is not adam"):
        SearchSpace.from_config({"algorithm": {"adam_epsilon": "interval(0.1,0.5)"}}, rmsprop)
    assert space(**{key: "interval(0.1,0.5)", "opt_type": "choice(rmsprop)"}).dimensions
