"""Exit codes of the commands."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_MISTAKE = 2


def exit_code_of_signal(signal_number: int) -> int:
    """Return the shell's convention for a stop by signal: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + signal_number
