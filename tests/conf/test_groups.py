"""Every YAML of every group composes, loads, and says only what differs from the dataclasses' defaults."""

import dataclasses
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir

from actorlearner.settings import Section, to_plain
from sweeps.keys import known_keys
from sweeps.paths import config_directory
from sweeps.schema import SECTIONS, load, register_schemas
from sweeps.space import SearchSpace

CONF = config_directory()
FILES = sorted(path.relative_to(CONF) for path in CONF.rglob("*.yaml") if path.parent != CONF)
OPTIONS = [path for path in FILES if path.parent.name != "preset"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def load_with(*overrides: str):
    register_schemas()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return load(compose("config", overrides=list(overrides)), overrides=overrides)


def flatten(tree, prefix=""):
    for name, entry in tree.items():
        if isinstance(entry, dict) and entry and f"{prefix}{name}" not in known_keys():
            yield from flatten(entry, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", entry


@pytest.mark.parametrize("path", OPTIONS, ids=str)
def test_every_option_composes_and_loads(path: Path):
    group = str(path.parent)
    plus = "+" if group == "experiment" else ""
    config = load_with(f"{plus}{group}={path.stem}")
    assert config.engine_config()["algorithm"]["name"] == "impala"


@pytest.mark.parametrize("path", [path for path in FILES if path.parts[0] != "search_space"], ids=str)
def test_a_yaml_says_only_what_differs_from_the_defaults(path: Path):
    """House style 6: defaults live only in the dataclasses."""
    text = (CONF / path).read_text()
    written = {name: entry for name, entry in (yaml.safe_load(text) or {}).items() if name != "defaults"}
    prefix = "" if "@package _global_" in text else f"{path.parts[0]}."
    for key, value in flatten(written, prefix):
        assert key in known_keys(), f"{path} sets {key}, which does not exist"
        assert value != to_plain(known_keys()[key].default), f"{path} repeats the default of {key}"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_yaml_says_what_it_is(path: Path):
    comments = [line for line in (CONF / path).read_text().splitlines() if line.startswith("#")]
    assert any("@package" not in line for line in comments), f"{path} needs a first comment, which --help shows"


def test_without_overrides_only_preset_and_environment_differ_from_the_dataclasses():
    config = load_with("environment.reward_scale=1.0")
    for name, section in SECTIONS.items():
        loaded, plain = getattr(config, name), section()
        resolved = {"tracking": {"uri"}, "sweep": {"name", "dir"}}.get(name, set())
        for field in dataclasses.fields(section):
            if field.name not in resolved:
                assert getattr(loaded, field.name) == getattr(plain, field.name), f"{name}.{field.name}"
    assert config.algorithm.vtrace_drop_last_ts is False


def test_every_key_has_a_help_text():
    for key in known_keys().values():
        assert key.metadata["help"], key.name


@pytest.mark.parametrize("environment", [path.stem for path in FILES if path.parts[0] == "environment"])
def test_the_default_lies_in_the_classic_space(environment: str):
    config = load_with(f"environment={environment}")
    space = SearchSpace.from_config(config.search_space, config.engine_config())
    assert space.encode_default() is not None


def test_the_atari_experiment():
    config = load_with("+experiment=atari", "environment.id=ALE/Breakout-v5")
    assert config.environment.id == "ALE/Breakout-v5"
    assert config.environment.reward_clipping.name == "clip"
    assert (config.search.num_trials, config.sweep.budget.env_steps_per_trial) == (20, 2_000_000)
    assert config.algorithm.min_sample_timesteps_per_iteration == 2000
    space = SearchSpace.from_config(config.search_space, config.engine_config())
    assert "algorithm.epsilon" in {dimension.key for dimension in space.dimensions}
    assert space.encode_default() is not None


def test_overrides_win_over_a_preset():
    config = load_with("environment=atari", "algorithm.rollout_fragment_length=40")
    assert config.algorithm.rollout_fragment_length == 40


def test_experiment_is_no_default_group():
    defaults = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
    assert not any("experiment" in entry for entry in defaults if isinstance(entry, dict))


def test_sections_are_sections():
    assert all(issubclass(section, Section) for section in SECTIONS.values())
