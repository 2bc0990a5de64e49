"""What ran: command, user, commit and versions, as tags of the sweep's run."""

from __future__ import annotations

import contextlib
import getpass
import importlib.metadata
import platform
import shlex
import subprocess
import sys
from pathlib import Path

from sweeps.tracking.uri import redact

PACKAGES = ("impala-sweeps", "ray", "torch", "optuna", "gymnasium", "mlflow")


def source_tags() -> dict[str, str]:
    """Return the tags that say what ran: command, user, git commit of the working directory, versions."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    name = Path(sys.argv[0]).name if spec is None else spec.name.removesuffix(".__main__")
    command = redact(shlex.join([*([] if spec is None else ["python", "-m"]), name, *_typed_arguments()]))
    # MLflow's pages show the source from its last slash on, so it must be a name without arguments.
    tags = {"command": command, "mlflow.source.name": name, "mlflow.source.type": "LOCAL"}
    with contextlib.suppress(OSError, KeyError, ImportError):
        tags["mlflow.user"] = getpass.getuser()
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        git = ["git", "rev-parse", "--verify", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, timeout=2, check=True).stdout.strip()
        tags["mlflow.source.git.commit"] = commit
    tags["version.python"] = platform.python_version()
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            tags[f"version.{package}"] = importlib.metadata.version(package)
    return tags


def _typed_arguments() -> list[str]:
    """Return the arguments as they were typed; the commands rewrite ``sys.argv`` for Hydra."""
    marker, skip = ("-m", 2) if "-m" in sys.orig_argv else (sys.argv[0], 1)
    return sys.orig_argv[sys.orig_argv.index(marker) + skip :] if marker in sys.orig_argv else sys.argv[1:]
