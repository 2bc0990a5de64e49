"""Why a trial failed, in one line."""

from __future__ import annotations

from pathlib import Path


def error_line(error_file: str | Path | None) -> str:
    """Return the last line of a trial's traceback without the exception's module: ``ValueError: no such level``.

    Args:
        error_file: ``trial.error_file``, on the driver's disk; ``trial.get_error()`` reads the sweep's storage, where
            the file arrives only after Tune has told its callbacks.
    """
    try:
        lines = Path(error_file or "").read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    if not lines:
        return "the trial raised an error and left no traceback"
    kind, colon, message = lines[-1].strip().partition(": ")
    return (kind if " " in kind else kind.rpartition(".")[2]) + colon + message
