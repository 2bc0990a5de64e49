"""The command that searches: ``python -m sweeps.run``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sweeps.cli import Command
from sweeps.cli import main as run_command
from sweeps.help import GROUPS, CommandHelp
from sweeps.outcome import EXIT_OK

if TYPE_CHECKING:
    from sweeps.schema import SweepConfig

HELP = CommandHelp(
    about="""Searches for good hyperparameters of reinforcement-learning agents.

Each configuration that Optuna proposes is trained (a trial) on Ray Tune, tracked in MLflow, and scored; trials that
lag behind are stopped early. The best configuration is written as a YAML file that runs again.""",
    usage="python -m sweeps.run [group=option ...] [key=value ...] ['key=distribution' ...] [flags]",
    groups=GROUPS,
    keys=(
        "search.num_trials",
        "sweep.budget.env_steps_per_trial",
        "sweep.name",
        "sweep.seed",
        "sweep.dry_run",
        "environment.id",
        "algorithm.lr",
        "algorithm.gamma",
        "resources.num_workers",
        "resources.num_envs_per_worker",
        "resources.num_gpus",
        "search.max_concurrent",
        "tracking.uri",
        "tracking.experiment",
    ),
    examples=(
        ("python -m sweeps.run", "16 trials of IMPALA on CartPole"),
        ("python -m sweeps.run +experiment=atari environment.id=ALE/Breakout-v5", "20 trials on an Atari game"),
        (
            "python -m sweeps.run environment=acrobot algorithm.gamma=0.99 'algorithm.lr=tag(log,interval(1e-4,1e-2))'",
            "gamma is fixed, lr is searched between these bounds (included); choice(a,b) and range(low,high,step) too",
        ),
        (
            "python -m sweeps.run -m environment=cartpole,acrobot search.num_trials=4",
            "one sweep for each environment",
        ),
        ("python -m sweeps.run +experiment=atari sweep.dry_run=true", "show what would run; start nothing"),
    ),
)


def check(config: SweepConfig) -> None:
    """Check what can be known before Ray starts: search space, objective, environment, network, resources, tracking."""
    from sweeps.preflight import check_environments, check_models, check_objective, check_tracking, preflight
    from sweeps.space import SearchSpace

    space = SearchSpace.from_config(config.search_space, config.engine_config())
    check_objective(config)
    found = preflight(config)
    check_environments(space)
    check_models(found, space)
    if not config.sweep.dry_run:
        check_tracking(config)


def start(config: SweepConfig, overrides: list[str]) -> int:
    """Run the sweep, or only show it."""
    if config.sweep.dry_run:
        from sweeps.dry_run import show_sweep

        show_sweep(config)
        return EXIT_OK
    from sweeps.runner import run_sweep

    return run_sweep(config, overrides)


COMMAND = Command(HELP, "sweeps", check, start)


def main() -> int:
    """Run the command; returns its exit code."""
    return run_command(COMMAND)


if __name__ == "__main__":
    sys.exit(main())
