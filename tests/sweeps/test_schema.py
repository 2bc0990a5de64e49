"""From Hydra's composition to a checked, typed configuration."""

import pickle
import re
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from actorlearner.exceptions import ConfigError, UnknownKeyError
from actorlearner.settings import settings_from_dict
from sweeps.naming import short_environment_name
from sweeps.paths import config_directory
from sweeps.schema import load, register_schemas


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def composed(*overrides: str):
    register_schemas()
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return compose("config", overrides=list(overrides))


def test_the_engine_gets_a_plain_complete_dict():
    config = load(composed("algorithm.lr=1e-3", "sweep.seed=7"))
    engine = config.engine_config()
    assert engine["algorithm"]["lr"] == 1e-3
    assert engine["algorithm"]["opt_type"] == "adam"
    assert engine["debugging"]["seed"] == 7
    assert settings_from_dict(engine).to_dict() == engine


def test_the_yaml_composes_again_to_the_same():
    config = load(composed("environment=atari"))
    assert OmegaConf.to_container(OmegaConf.create(config.to_yaml())) == config.to_dict()


def test_it_pickles():
    config = load(composed())
    assert pickle.loads(pickle.dumps(config)).to_dict() == config.to_dict()


def test_names_and_directories_are_resolved(tmp_path: Path):
    config = load(composed())
    assert re.fullmatch(r"impala-cartpole-\d{8}-\d{6}", config.sweep.name)
    assert config.directory == tmp_path / "outputs" / "sweeps" / config.sweep.name
    assert config.tracking.uri == f"sqlite:///{tmp_path}/outputs/mlflow.db"
    assert not list(tmp_path.iterdir()), "loading must not write"


def test_a_generated_name_is_unique(tmp_path: Path):
    first = load(composed())
    first.directory.mkdir(parents=True)
    second = load(composed())
    assert second.directory != first.directory


@pytest.mark.parametrize("key", ["sweep.name", "sweep.dir"])
def test_a_directory_with_something_in_it_is_refused(tmp_path: Path, key: str):
    value = "mine" if key == "sweep.name" else "outputs/sweeps/mine"
    place = tmp_path / "outputs/sweeps/mine"
    place.mkdir(parents=True)
    assert load(composed(f"{key}={value}")).directory == place
    (place / "summary.json").touch()
    with pytest.raises(ConfigError, match=rf"{key} .* taken. Choose another {key}"):
        load(composed(f"{key}={value}"))


def test_jobs_of_a_multirun_get_their_own_names_and_directories(tmp_path: Path):
    assert load(composed("sweep.name=mine"), job_number=3).sweep.name == "mine-3"
    assert load(composed("sweep.dir=here"), job_number=3).directory == tmp_path / "here" / "3"


@pytest.mark.parametrize("name", ["a/b", "", ".hidden"])
def test_a_name_must_do_as_a_folder(name: str):
    with pytest.raises(ConfigError, match="folder's name"):
        load(composed(f"sweep.name='{name}'"))


def test_iterations_follow_from_results_per_trial_unless_given():
    assert load(composed()).algorithm.min_sample_timesteps_per_iteration == 10_000
    cfg = composed("sweep.budget.env_steps_per_trial=1000", "sweep.budget.results_per_trial=3")
    assert load(cfg).algorithm.min_sample_timesteps_per_iteration == 334
    cfg = composed("algorithm.min_sample_timesteps_per_iteration=777")
    assert load(cfg).algorithm.min_sample_timesteps_per_iteration == 777


def test_a_plain_value_leaves_the_search_space():
    overrides = ["algorithm.lr=1e-3"]
    config = load(composed(*overrides), overrides=overrides)
    assert config.fixed == ("algorithm.lr",)
    assert "lr" not in config.search_space["algorithm"]
    assert "gamma" in config.search_space["algorithm"]


def test_a_mapping_of_values_leaves_the_search_space():
    overrides = ["algorithm={lr:1e-3,gamma:0.9}"]
    assert load(composed(*overrides), overrides=overrides).fixed == ("algorithm.lr", "algorithm.gamma")


@pytest.mark.parametrize("choice", ["algorithm=impala", "environment=cartpole", "model=auto", "search_space=classic"])
def test_an_option_of_a_group_takes_nothing_out_of_the_search_space(choice: str):
    config = load(composed(choice), overrides=[choice])
    assert config.search_space == load(composed()).search_space
    assert config.fixed == ()


@pytest.mark.parametrize("choice", ["environment=acrobot", "model=mlp"])
def test_a_section_of_the_space_survives_an_option_of_its_group(choice: str):
    section = choice.split("=")[0]
    space = {"environment": "environment.env_config.gravity", "model": "model.activation"}[section]
    overrides = [choice, f"++search_space.{space}='choice(tanh,relu)'"]
    config = load(composed(*overrides), overrides=[choice])
    assert section in config.search_space
    assert config.search_space[section]


def test_a_value_beside_its_distribution_is_only_the_start():
    overrides = ["algorithm.lr=1e-3", "search_space.algorithm.lr.high=0.1"]
    config = load(composed(*overrides), overrides=overrides)
    assert config.fixed == ()
    assert config.search_space["algorithm"]["lr"]["high"] == 0.1
    assert config.algorithm.lr == 1e-3


def test_a_value_in_an_experiment_does_not_leave_the_search_space():
    assert load(composed("+experiment=atari"), overrides=["+experiment=atari"]).fixed == ()


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"algorithmm": {}}, "Unknown key algorithmm: did you mean algorithm"),
        ({"algorithm": 3}, "algorithm must be a mapping"),
        ({"sweep": {"budget": 3}}, "sweep.budget must be a mapping"),
        ({"sweep": {"budget": {"env_steps_per_trial": 0}}}, "sweep.budget.env_steps_per_trial must be at least 1"),
        ({"scheduler": {"reduction_factor": 1}}, "greater than 1"),
        ({"search_space": [1]}, "search_space must be a mapping"),
    ],
)
def test_mistakes_in_the_tree(tree, message):
    with pytest.raises(ConfigError, match=message):
        load(OmegaConf.create(tree))


def test_unknown_keys_are_unknown_key_errors():
    with pytest.raises(UnknownKeyError):
        load(OmegaConf.create({"sweep": {"seeed": 1}}))


@pytest.mark.parametrize(
    ("id", "name"),
    [("ALE/Breakout-v5", "breakout"), ("CartPole-v1", "cartpole"), ("pkg.mod:My_Env-v0", "my-env"), ("v", "v")],
)
def test_short_environment_names(id: str, name: str):
    assert short_environment_name(id) == name


def test_a_password_in_the_tracking_uri_reaches_no_file():
    config = load(composed("tracking.uri='http://me:secret@127.0.0.1:5000'"))
    assert config.tracking.uri == "http://me:secret@127.0.0.1:5000"
    assert "secret" not in config.to_yaml()
