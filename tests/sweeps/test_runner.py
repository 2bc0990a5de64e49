import json
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from actorlearner.settings import settings_from_dict
from sweeps import runner
from sweeps.paths import config_directory
from sweeps.runner import checkpoint_frequency, run_sweep
from sweeps.schema import load, register_schemas


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError("disk full"), "failed"), (KeyboardInterrupt(), "interrupted")]
)
def test_when_tune_itself_fails_the_sweep_is_not_called_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str
):
    monkeypatch.chdir(tmp_path)
    register_schemas()
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        config = load(compose("config", overrides=["sweep.name=mine", "tracking.enabled=false"]))

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(runner._Sweep, "_fit", fail)
    with pytest.raises(type(error)):
        run_sweep(config, [])
    summary = json.loads((tmp_path / "outputs/sweeps/mine/summary.json").read_text())
    assert summary["status"] == status
    assert type(error).__name__ in summary["reason"]


@pytest.mark.parametrize(("steps", "expected"), [(10_000, 5), (2_000, 50)])
def test_long_trials_are_saved_twenty_times(steps: int, expected: int):
    settings = settings_from_dict({"algorithm": {"min_sample_timesteps_per_iteration": steps}})
    budget = 200_000 if steps == 10_000 else 2_000_000
    assert checkpoint_frequency(budget, settings) == expected
