"""The command that trains once, without a search: ``python -m sweeps.train``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sweeps.cli import Command
from sweeps.cli import main as run_command
from sweeps.help import CommandHelp
from sweeps.outcome import EXIT_OK

if TYPE_CHECKING:
    from sweeps.schema import SweepConfig

HELP = CommandHelp(
    about="Trains one configuration, without a search; the configuration and the tracking are those of sweeps.run.",
    usage="python -m sweeps.train [group=option ...] [key=value ...] [flags]",
    groups=("algorithm", "environment", "model", "resources", "tracking", "experiment"),
    keys=(
        "sweep.budget.env_steps_per_trial",
        "sweep.name",
        "sweep.seed",
        "sweep.dry_run",
        "environment.id",
        "algorithm.lr",
        "algorithm.gamma",
        "algorithm.entropy_coeff",
        "resources.num_workers",
        "resources.num_gpus",
        "tracking.uri",
    ),
    examples=(
        ("python -m sweeps.train environment=cartpole algorithm.lr=2e-3", "one training on CartPole"),
        (
            "python -m sweeps.train --config-dir outputs/sweeps/NAME +experiment=best",
            "train the best configuration of the sweep NAME again",
        ),
        (
            "python -m sweeps.train +experiment=atari sweep.budget.env_steps_per_trial=1e7",
            "a long training on Pong",
        ),
        ("python -m sweeps.train -m sweep.seed=0,1,2", "three seeds, one after the other"),
        ("python -m sweeps.train environment=acrobot sweep.dry_run=true", "show what would run; start nothing"),
    ),
)


def check(config: SweepConfig) -> None:
    """Check what can be known before anything starts: objective, environment, network, resources, tracking."""
    from sweeps.preflight import check_models, check_objective, check_tracking, preflight

    check_objective(config)
    check_models(preflight(config))
    if not config.sweep.dry_run:
        check_tracking(config)


def start(config: SweepConfig, overrides: list[str]) -> int:
    """Train, or only show what would be trained."""
    if config.sweep.dry_run:
        from sweeps.dry_run import show_training

        show_training(config)
        return EXIT_OK
    from sweeps.training import run_training

    return run_training(config, overrides)


COMMAND = Command(HELP, "training", check, start, searches=False)


def main() -> int:
    """Run the command; returns its exit code."""
    return run_command(COMMAND)


if __name__ == "__main__":
    sys.exit(main())
