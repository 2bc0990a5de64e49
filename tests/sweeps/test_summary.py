import io
import json
from pathlib import Path

from omegaconf import OmegaConf
from rich.console import Console

from sweeps.directory import SweepDirectory
from sweeps.records import SweepRecords, TrialStatus
from sweeps.summary import print_outcome, summary_data, sweep_status, write_outcome
from sweeps.table import trials_table

CONFIG = {
    "algorithm": {"name": "impala", "lr": 0.1},
    "environment": {"id": "CartPole-v1"},
    "model": {"type": "mlp"},
    "resources": {"num_workers": 0},
    "debugging": {"seed": 41},
}


def make_records(*states: TrialStatus) -> SweepRecords:
    records = SweepRecords("episode_return_mean", True, budget=100, num_trials=len(states))
    for trial, state in enumerate(states):
        name = f"id{trial}"
        params = {"algorithm.lr": 0.1 * (trial + 1), "algorithm.fragment": 32}
        records.start(trial, name, params, CONFIG)
        if state is not TrialStatus.failed:
            steps = 100 if state is TrialStatus.completed else 40
            records.result(name, {"num_env_steps_sampled": steps, "episode_return_mean": 10.0 + trial})
        records.finish(name, state, "ValueError: no" if state is TrialStatus.failed else None)
    return records


def test_status_tells_interrupted_failed_and_completed():
    records = make_records(TrialStatus.failed, TrialStatus.failed)
    assert sweep_status(records, interrupted=False) == "failed"
    assert sweep_status(make_records(TrialStatus.failed, TrialStatus.pruned), interrupted=False) == "completed"
    assert sweep_status(records, interrupted=True) == "interrupted"


def test_summary_is_json_without_nan():
    records = make_records(TrialStatus.completed, TrialStatus.pruned, TrialStatus.failed)
    data = json.loads(json.dumps(summary_data(records, "completed", name="mine"), allow_nan=False))
    assert data["name"] == "mine"
    assert data["num_trials"] == {
        "planned": 3,
        "started": 3,
        "completed": 1,
        "pruned": 1,
        "failed": 1,
        "interrupted": 0,
    }
    assert data["best_trial"]["id"] == "id0"
    assert data["best_trial"]["params"]["algorithm.lr"] == 0.1
    assert data["trials"][2]["score"] is None
    assert data["trials"][2]["reason"] == "ValueError: no"


def test_best_yaml_is_a_hydra_experiment_that_fixes_everything(tmp_path: Path):
    directory = SweepDirectory(tmp_path)
    write_outcome(directory, make_records(TrialStatus.completed), "completed", "mine")
    assert directory.best.read_text().startswith("# @package _global_\n")
    best = OmegaConf.to_container(OmegaConf.load(directory.best))
    assert isinstance(best, dict)
    assert best["algorithm"] == CONFIG["algorithm"]
    assert best["environment"] == CONFIG["environment"]
    assert best["sweep"]["seed"] == 41
    assert best["sweep"]["budget"]["env_steps_per_trial"] == 100


def test_no_best_yaml_when_all_failed(tmp_path: Path):
    directory = SweepDirectory(tmp_path)
    write_outcome(directory, make_records(TrialStatus.failed), "failed", "mine")
    assert json.loads(directory.summary.read_text())["best_trial"] is None
    assert not directory.best.exists()


def render(records: SweepRecords, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(trials_table(records, width))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table_has_a_column_per_varied_value_where_they_fit():
    text = render(make_records(TrialStatus.completed, TrialStatus.pruned), 120)
    assert "fragment" in text.splitlines()[0]
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["0", "1"]


def test_the_table_joins_the_values_on_a_narrow_screen():
    text = render(make_records(TrialStatus.completed, TrialStatus.pruned), 54)
    assert "values" in text.splitlines()[0]
    assert "lr=0.1" in text
    assert "…" not in text


def test_equal_reasons_of_failure_are_said_once(tmp_path: Path):
    console = Console(file=io.StringIO(), width=120, color_system=None)
    records = make_records(TrialStatus.failed, TrialStatus.completed, TrialStatus.failed)
    print_outcome(console, SweepDirectory(tmp_path), records, "completed")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "trials 0, 2 failed: ValueError: no" in text
    assert "Sweep completed after 0 s: 1 completed, 2 failed; 100 env steps." in text
    assert "Best: trial 1, episode_return_mean 11" in text
