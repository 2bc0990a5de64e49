"""The two commands from outside: exit codes, messages, and that nothing is left on disk."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sweeps import run, train
from sweeps.cli import Command, main, parse_flags
from sweeps.help import GROUPS
from sweeps.paths import config_directory

ROOT = Path(__file__).parents[2]
RUN = run.COMMAND
TRAIN = train.COMMAND


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def mistake(capsys: pytest.CaptureFixture[str], *argv: str, command: Command = RUN) -> str:
    """Run the command, expecting exit code 2, one message, nothing on stdout and nothing on disk."""
    assert main(command, argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert err.count("\n") == 1
    assert not list(Path.cwd().iterdir())
    return err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["algorithm.learing_rate=1e-3"], "did you mean algorithm.lr"),
        (
            ["environment=cartpol"],
            "did you mean environment=cartpole? Options of environment: acrobot, atari, cartpole",
        ),
        (["experiment=atar"], "Did you mean experiment=atari"),
        (["algorithm.lr=fast"], "algorithm.lr must be a number, got 'fast'"),
        (["algorithm.gamma=1.5"], "algorithm.gamma must be between 0 and 1, got 1.5"),
        (["algorithm.gamma=interval(0.9,1.2)"], "every value of algorithm.gamma"),
        (
            ["environment.env_config.nonsense=choice(1,2)"],
            "search_space.environment.env_config.nonsense = 1: environment.env_config={'nonsense': 1} does not fit",
        ),
        (
            ["algorithm.rollout_fragment_length=choice(1,8)", "algorithm.vtrace_drop_last_ts=true"],
            "search_space.algorithm.rollout_fragment_length = 1: algorithm.rollout_fragment_length must be at least 2",
        ),
        (["model=nature_cnn"], "model.type=nature_cnn needs uint8 images"),
        (["model.type=choice(mlp,nature_cnn)"], "search_space.model.type = nature_cnn: model.type=nature_cnn needs"),
        (["sweep.objective.metric=episode_return"], "did you mean episode_return_mean? Known are episode_return_mean,"),
        (["sweep.objective.metric=entropy"], "did you mean info/learner/default_policy/entropy?"),
        (["search_space=none"], "at least one dimension"),
        (["+foo=1"], "Unknown key foo"),
        (["algorithm.lr=${foo}"], "Interpolation key 'foo' not found"),
        (["--num-trials", "4"], "written key=value without dashes, for example search.num_trials=VALUE"),
        (["--cfg", "everything"], "invalid choice: 'everything'"),
        (["--config-dir", "/does/not/exist"], "Additional config directory '/does/not/exist' not found"),
        (["hydra.searchpath=[file:///does/not/exist]"], "names a folder that does not exist: /does/not/exist"),
        (["environment.id=CartPol-v1"], "CartPole-v1"),
        (["resources.num_cpus_for_driver=4096"], "One trial needs 4096 CPUs"),
        (["-m", "environment=cartpole,acrobt"], "did you mean environment=acrobot"),
        (["-m", "resources.num_cpus_for_driver=1,4096"], "One trial needs 4096 CPUs"),
    ],
)
def test_a_mistake_is_one_message(capsys, argv, message):
    assert message.lower() in mistake(capsys, *argv).lower()


def test_a_persons_own_files_are_checked_too(tmp_path_factory, capsys):
    folder = tmp_path_factory.mktemp("own")
    (folder / "experiment").mkdir()
    file = folder / "experiment" / "mine.yaml"
    for text, message in (
        ("algorithm: {learing_rate: 1}", "Unknown key algorithm.learing_rate: did you mean algorithm.lr"),
        ("algorithm: {gamma: high}", "algorithm.gamma must be a number, got 'high'"),
        ("algorithm: {gamma: 1.5}", "algorithm.gamma must be between 0 and 1, got 1.5"),
        ('environment: {env_config: {x: "???"}}', "environment.env_config.x needs a value"),
        ("algorithm: {lr_schedule: [[0, 1]]}", "numbers with a decimal point"),
        ("algorithm: [", "not valid YAML"),
    ):
        file.write_text(f"# @package _global_\n{text}\n")
        assert message in mistake(capsys, "--config-dir", str(folder), "+experiment=mine")


def test_best_of_a_sweep_trains_again(tmp_path_factory, capsys):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "experiment").mkdir()
    (folder / "experiment" / "best.yaml").write_text("# @package _global_\nalgorithm: {lr: 0.00123}\n")
    argv = ["--config-dir", str(folder), "+experiment=best", "sweep.dry_run=true"]
    assert main(TRAIN, argv) == 0
    assert "lr: 0.00123" in capsys.readouterr().out
    assert main(TRAIN, [f"hydra.searchpath=[file://{folder}]", *argv[2:]]) == 0
    assert "lr: 0.00123" in capsys.readouterr().out


@pytest.mark.parametrize(
    "override",
    [
        "algorithm.lr=interval(1e-4,1e-2)",
        "search_space.algorithm.lr.low=1e-5",
        "search_space=atari",
        "~search_space.algorithm.lr",
    ],
)
def test_a_training_has_no_search_space(override, capsys):
    message = mistake(capsys, override, command=TRAIN)
    assert f"{override}: sweeps.train trains one configuration and has no search" in message
    assert "python -m sweeps.run" in message


def test_a_training_is_checked_as_well(capsys, monkeypatch):
    assert "needs uint8 images" in mistake(capsys, "model=nature_cnn", command=TRAIN)
    assert "is no key of a result" in mistake(capsys, "sweep.objective.metric=zzz", command=TRAIN)
    monkeypatch.setattr("actorlearner.models.precision.has_bfloat16", lambda *device: False)
    assert "needs hardware that multiplies it" in mistake(capsys, "resources.precision=bfloat16", command=TRAIN)


def test_a_nested_objective_may_be_written_with_dots(capsys):
    metric = "info.learner.default_policy.entropy"
    assert main(RUN, [f"sweep.objective.metric={metric}", "sweep.dry_run=true"]) == 0
    assert f"metric: {metric.replace('.', '/')}" in capsys.readouterr().out


def test_dry_run_of_a_training_speaks_of_no_trials(capsys):
    assert main(TRAIN, ["sweep.dry_run=true"]) == 0
    resources = capsys.readouterr().out.split("== Resources ==")[1]
    assert "The training reserves: {" in resources
    assert "rial" not in resources.replace("algorithm", "")


def test_dry_run_shows_everything_and_writes_nothing(capsys):
    argv = ["sweep.dry_run=true", "algorithm.lr=1e-3", "algorithm.vtrace_lambda=interval(0.9,1)"]
    assert main(RUN, argv) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for text in ("lr: 0.001", "algorithm.vtrace_lambda", "log of 1 - value", "Each trial reserves", "Trials at once"):
        assert text in out
    assert "Fixed by the command line, so not searched: algorithm.lr." in out
    assert "16 trials of 200,000 env steps" in out
    assert len(out.split("5 sampled configurations ==")[1].split("\n\n")[0].strip().splitlines()) == 6
    assert not list(Path.cwd().iterdir())


def test_a_multirun_gives_each_combination_its_own_sweep(capsys):
    assert main(RUN, ["-m", "environment=cartpole,acrobot", "sweep.name=mine", "sweep.dry_run=true"]) == 0
    out = capsys.readouterr().out
    assert "#### environment=acrobot" in out
    assert "id: Acrobot-v1" in out
    assert "name: mine-0" in out
    assert "name: mine-1" in out
    assert not list(Path.cwd().iterdir())


def test_a_multirun_ends_with_its_worst_code(capsys):
    started = []

    def start(config, overrides):
        started.append((config.environment.id, config.sweep.name))
        return 1 if config.environment.id == "CartPole-v1" else 0

    command = run.Command(run.HELP, "sweeps", lambda config: None, start)
    assert main(command, ["-m", "environment=cartpole,acrobot", "sweep.name=mine"]) == 1
    assert started == [("CartPole-v1", "mine-0"), ("Acrobot-v1", "mine-1")]
    assert "[2/2] environment=acrobot" in capsys.readouterr().out
    assert not list(Path.cwd().iterdir())


def test_a_multirun_tells_nobody_the_trackings_password(capsys, tmp_path, tmp_path_factory, monkeypatch):
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    argv = ["-m", "tracking.uri='http://me:hunter2@a','http://me:hunter2@b'", "sweep.seed=0,1"]
    command = Command(run.HELP, "sweeps", lambda config: None, lambda config, overrides: 0)
    assert main(command, argv) == 0
    out, err = capsys.readouterr()
    assert "tracking.uri='http://me:***@b' sweep.seed=1" in out
    written = [path.read_text() for folder in (tmp_path, temporary) for path in folder.rglob("*") if path.is_file()]
    assert not any("hunter2" in text for text in (out, err, *written))
    assert not list(temporary.iterdir())
    assert main(command, [*argv, "sweep.dry_run=true"]) == 0
    assert "hunter2" not in capsys.readouterr().out
    assert main(command, ["tracking.uri=http://me:hunter2@a,["]) == 2
    assert "http://me:***@a" in capsys.readouterr().err


@pytest.mark.parametrize("code", [130, 143])
def test_an_interrupted_job_ends_a_multirun(code):
    started = []

    def start(config, overrides):
        started.append(config.sweep.seed)
        return code

    command = run.Command(run.HELP, "sweeps", lambda config: None, start)
    assert main(command, ["-m", "sweep.seed=0,1"]) == code
    assert started == [0]


def test_a_bug_is_told_from_a_mistake(capsys):
    def start(config, overrides):
        raise TypeError("oh")

    command = run.Command(run.HELP, "sweeps", lambda config: None, start)
    assert main(command, []) == 1
    assert capsys.readouterr().err == "error: unexpected TypeError: oh (HYDRA_FULL_ERROR=1 shows where)\n"


def test_flags_and_overrides_in_any_order():
    parsed, flags = parse_flags(["a=1", "-m", "b=2", "--config-dir", "x", "c=3"])
    assert parsed.multirun
    assert parsed.overrides == ["a=1", "b=2", "c=3"]
    assert flags == ["-m", "--config-dir", "x"]


@pytest.mark.parametrize("command", [RUN, TRAIN])
def test_help_names_groups_options_and_five_examples(command, capsys):
    assert main(command, ["--help"]) == 0
    out = capsys.readouterr().out
    for group in command.help.groups:
        assert group in out
        for file in (config_directory() / group).glob("*.yaml"):
            assert file.stem in out
    assert len(command.help.examples) == 5
    assert all(line in out for line, _ in command.help.examples)


def test_help_knows_every_group():
    assert set(GROUPS) == {path.name for path in config_directory().iterdir() if path.is_dir()}


@pytest.mark.parametrize("command", [RUN, TRAIN])
def test_the_examples_of_the_help_work(command, capsys, tmp_path_factory):
    for line, _ in command.help.examples:
        if "outputs/sweeps/NAME" not in line:
            argv = [part.strip("'") for part in line.split()[3:]]
            assert main(command, [*argv, "sweep.dry_run=true"]) == 0, line


# --- in processes of their own ---------------------------------------------------------------------------------------


def shell(
    *argv: str, code: int, path: str = f"{ROOT}:{ROOT / 'src'}", timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("HYDRA_FULL_ERROR", None)
    done = subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, env=environment, timeout=timeout, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def test_help_imports_nothing_heavy():
    script = (
        "import sys; sys.argv=['run','--help']; from sweeps.run import main; main();"
        "print([name for name in ('torch','ray','mlflow','optuna','gymnasium','hydra') if name in sys.modules])"
    )
    done = shell("-c", script, code=0)
    assert done.stdout.strip().endswith("[]")


def test_a_mistake_from_the_shell(tmp_path):
    done = shell("-m", "sweeps.run", "algorithm.gamma=1.5", code=2)
    assert done.stderr == "error: algorithm.gamma must be between 0 and 1, got 1.5.\n"
    assert not list(tmp_path.iterdir())


def test_the_traceback_is_there_for_those_who_ask(tmp_path, monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    argv = [sys.executable, "-m", "sweeps.run", "environment=cartpol"]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 2
    assert "Traceback" in done.stderr


@pytest.mark.slow
def test_it_works_as_installed_from_a_wheel(tmp_path):
    """In a wheel the groups lie inside the package (pyproject.toml, force-include)."""
    site = tmp_path / "site"
    built = shell("-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT), code=0, timeout=300)
    assert "impala" in built.stdout
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    assert not any("tests" in path.parts for path in site.rglob("*"))
    assert "python -m sweeps.run" in shell("-m", "sweeps.run", "--help", code=0, path=str(site)).stdout
    where = shell("-c", "import sweeps; print(sweeps.__file__)", code=0, path=str(site)).stdout
    assert where.startswith(str(site))
    done = shell("-m", "sweeps.run", "+experiment=atari", "--cfg", "job", "-p", "environment", code=0, path=str(site))
    assert "id: ALE/Pong-v5" in done.stdout
