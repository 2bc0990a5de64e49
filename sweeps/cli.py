"""What ``sweeps.run`` and ``sweeps.train`` share: flags, Hydra, error messages and exit codes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from actorlearner.exceptions import ActorLearnerError, ConfigError
from sweeps import __version__
from sweeps.help import CommandHelp, render
from sweeps.outcome import EXIT_FAILED, EXIT_MISTAKE, EXIT_OK, exit_code_of_signal
from sweeps.paths import config_directory
from sweeps.tracking.uri import redact

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from sweeps.schema import SweepConfig

EXIT_INTERRUPTED = exit_code_of_signal(signal.SIGINT)
EXIT_TERMINATED = exit_code_of_signal(signal.SIGTERM)


@dataclass(frozen=True)
class Command:
    """One of the two commands.

    Attributes:
        help: the parts of its help text.
        folder: where its directories go, under ``outputs``.
        check: raises ConfigError for what can be known before anything starts; touches nothing on disk.
        start: does the work; gets the configuration and the overrides of its job; returns the exit code.
        searches: whether the search space means anything to it.
    """

    help: CommandHelp
    folder: str
    check: Callable[[SweepConfig], None]
    start: Callable[[SweepConfig, list[str]], int]
    searches: bool = True


SWITCHES: tuple[tuple[str, ...], ...] = (
    ("--help", "-h"),
    ("--hydra-help",),
    ("--version",),
    ("--resolve",),
    ("--run", "-r"),
    ("--multirun", "-m"),
    ("--shell-completion", "-sc"),
)
VALUES: tuple[tuple[str, ...], ...] = (
    ("--package", "-p"),
    ("--config-path", "-cp"),
    ("--config-name", "-cn"),
    ("--config-dir", "-cd"),
    ("--experimental-rerun",),
)
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
# Read once: Hydra is made to raise by the same variable.
WANTS_TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"


class _Parser(argparse.ArgumentParser):
    """Says mistakes in our words instead of argparse's usage text."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[0].upper()}{message[1:]}. --help shows the flags.")


def parse_flags(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Split a command line into flags and overrides, in any order.

    Returns:
        The flags (with ``overrides``), and the arguments that are no overrides, as Hydra takes them.

    Raises:
        ConfigError: an unknown flag, or a flag without its value.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    for names in SWITCHES:
        parser.add_argument(*names, action="store_true")
    for names in VALUES:
        parser.add_argument(*names)
    parser.add_argument("--cfg", "-c", choices=["job", "hydra", "all"])
    parser.add_argument("--info", "-i", nargs="?", const="all", choices=INFO)
    parsed, unknown = parser.parse_known_intermixed_args(list(arguments))
    if unknown:
        raise _unknown_flag(unknown[0])
    flags, overrides = [], list(parsed.overrides)
    for argument in arguments:
        if overrides and argument == overrides[0]:
            overrides.pop(0)
        else:
            flags.append(argument)
    return parsed, flags


def _unknown_flag(flag: str) -> ConfigError:
    from sweeps.keys import closest, known_keys

    name, _, value = flag.lstrip("-").partition("=")
    key = closest(name.replace("-", "_"), known_keys()) or "search.num_trials"
    return ConfigError(
        f"Unknown flag {flag.partition('=')[0]}: settings are written key=value without dashes, "
        f"for example {key}={value or 'VALUE'}; --help shows the flags."
    )


def main(command: Command, argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        command: which one.
        argv: the arguments; default ``sys.argv``'s.

    Returns:
        The exit code: 0 for success, 1 when all failed, 2 for a mistake in the configuration, 130 after Ctrl-C, 143
        after SIGTERM; of a multirun the worst.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _main(command, arguments)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except SystemExit as stop:  # a job was interrupted, or Hydra has shown what it was asked for
        return stop.code if isinstance(stop.code, int) else EXIT_OK
    except Exception as error:
        return _report(error)


def _report(error: Exception) -> int:
    """Print one message and return the exit code."""
    from sweeps.messages import CONFIGURATION_ERRORS, translate

    if WANTS_TRACEBACK:
        traceback.print_exception(error)
    if isinstance(error, CONFIGURATION_ERRORS) or "Config group override must be" in str(error):
        error = translate(error)
    if isinstance(error, ConfigError):
        print(f"error: {redact(str(error))}", file=sys.stderr)
        return EXIT_MISTAKE
    hint = "" if WANTS_TRACEBACK else " (HYDRA_FULL_ERROR=1 shows where)"
    kind = "" if isinstance(error, ActorLearnerError) else f"unexpected {type(error).__name__}: "
    print(f"error: {kind}{redact(str(error))}{hint}", file=sys.stderr)
    return EXIT_FAILED


def _main(command: Command, arguments: list[str]) -> int:
    parsed, flags = parse_flags(arguments)
    if parsed.version:
        print(f"impala-sweeps {__version__}")
        return EXIT_OK
    if parsed.help:
        print(render(command.help, Path(parsed.config_dir) if parsed.config_dir else None))
        return EXIT_OK
    if parsed.hydra_help or parsed.shell_completion or parsed.experimental_rerun:
        _hydra(flags, parsed.overrides, lambda cfg: None)
        return EXIT_OK
    from sweeps.overrides import CommandLine, grid, rewrite

    own_groups = any((parsed.config_dir, parsed.config_path, parsed.config_name)) or any(
        text.startswith("hydra.searchpath") for text in parsed.overrides
    )
    line = CommandLine(multirun=parsed.multirun, custom_groups=own_groups, searches=command.searches)
    overrides = rewrite(parsed.overrides, line)
    if not parsed.multirun or parsed.cfg or parsed.info:
        task = _Task(command, [])
    else:
        # Every job is checked before the first one starts: the second one's mistake must not wait for hours.
        jobs = grid(overrides)
        single = [flag for flag in flags if flag not in ("-m", "--multirun")]
        configs = [_compose(command, single, job, number) for number, job in enumerate(jobs)]
        labels = [redact(" ".join(text for text in job if any(text not in other for other in jobs))) for job in jobs]
        if configs and all(config.sweep.dry_run for config in configs):  # Hydra's multirun would write its grid
            for config, job, label in zip(configs, jobs, labels, strict=True):
                print(f"\n#### {label}")
                command.start(config, job)
            return EXIT_OK
        task = _Task(command, labels)
    if parsed.multirun:
        # Hydra writes the overrides into its directory, with the password of tracking.uri as people gave it.
        with tempfile.TemporaryDirectory(prefix="sweeps-multirun-") as folder:
            _hydra(flags, [*overrides, f"hydra.sweep.dir='{folder}'"], task)
    else:
        _hydra(flags, overrides, task)
    return task.worst


def _compose(command: Command, flags: list[str], overrides: list[str], number: int) -> SweepConfig:
    """Compose and check one job of a multirun; raises what is wrong with it."""
    from sweeps.schema import load

    found: list[SweepConfig | Exception] = []

    def check(cfg: DictConfig) -> None:
        # Raised inside, Hydra would print a line of its own.
        try:
            config = load(cfg, overrides=overrides, job_number=number, folder=command.folder)
            command.check(config)
            found.append(config)
        except Exception as mistake:
            found.append(mistake)

    _hydra(flags, overrides, check)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


class _Task:
    """The function that Hydra calls for each job; keeps the worst exit code."""

    def __init__(self, command: Command, labels: list[str]) -> None:
        self.command = command
        self.labels = labels
        self.worst = EXIT_OK

    def __call__(self, cfg: DictConfig) -> None:
        """Load, check and start one job; report its failure without stopping the others."""
        try:
            code = self._start(cfg)
        except Exception as error:
            code = _report(error)
        self.worst = max(self.worst, code)
        if code in (EXIT_INTERRUPTED, EXIT_TERMINATED):  # the other jobs of a multirun are not started
            raise SystemExit(code)

    def _start(self, cfg: DictConfig) -> int:
        from hydra.core.hydra_config import HydraConfig
        from hydra.types import RunMode

        from sweeps.schema import load

        hydra = HydraConfig.get()
        overrides = list(hydra.overrides.task)
        number = int(hydra.job.num) if hydra.mode == RunMode.MULTIRUN else None
        config = load(cfg, overrides=overrides, job_number=number, folder=self.command.folder)
        self.command.check(config)
        if number is not None:
            label = self.labels[number] if self.labels else redact(" ".join(overrides))
            print(f"[{number + 1}/{len(self.labels) or '?'}] {label}", flush=True)
        return self.command.start(config, overrides)


def _hydra(flags: Sequence[str], overrides: Sequence[str], task: Callable[[DictConfig], None]) -> None:
    """Let Hydra compose and call ``task``; errors come out as they are, because we word them ourselves."""
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    from sweeps.messages import MISSING_FOLDER
    from sweeps.schema import register_schemas

    warnings.filterwarnings("error", message=MISSING_FOLDER)
    register_schemas()
    GlobalHydra.instance().clear()
    arguments, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [arguments[0], *flags, *overrides]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        hydra.main(config_path=str(config_directory()), config_name="config", version_base="1.3")(task)()
    finally:
        sys.argv = arguments
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error
