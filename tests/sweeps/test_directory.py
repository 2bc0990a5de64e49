from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from actorlearner.exceptions import ConfigError
from sweeps.directory import SweepDirectory, claim_directory
from sweeps.paths import config_directory
from sweeps.schema import SweepConfig, load, register_schemas


def loaded(*overrides: str) -> SweepConfig:
    register_schemas()
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return load(compose("config", overrides=list(overrides)))


def test_two_commands_of_the_same_second_get_two_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    first, second = loaded(), loaded()
    second.sweep.name, second.sweep.dir = first.sweep.name, first.sweep.dir
    one, two = claim_directory(first), claim_directory(second)
    assert two.root == one.root.with_name(f"{one.root.name}-2")
    assert second.sweep.name == two.root.name
    assert one.config.read_text() == first.to_yaml()


def test_a_directory_named_by_hand_is_refused_when_another_command_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    first, second = loaded("sweep.name=mine"), loaded("sweep.name=mine")
    claim_directory(first)
    with pytest.raises(ConfigError, match="another command has just taken"):
        claim_directory(second)


def test_files_are_written_whole(tmp_path: Path):
    directory = SweepDirectory(tmp_path)
    directory.write_text(directory.summary, "old")
    directory.write_json(directory.summary, {"a": 1})
    assert directory.summary.read_text() == '{\n  "a": 1\n}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
