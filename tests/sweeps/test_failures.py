from pathlib import Path

import pytest

from sweeps.failures import error_line


@pytest.mark.parametrize(
    ("last", "line"),
    [
        ("ValueError: no such level", "ValueError: no such level"),
        ("actorlearner.exceptions.NonFiniteError: the loss: NaN", "NonFiniteError: the loss: NaN"),
        ("some text of a library: why", "some text of a library: why"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_the_reason_is_the_last_line_without_the_module(tmp_path: Path, last: str, line: str):
    file = tmp_path / "error.txt"
    file.write_text(f"Failure # 1\nTraceback ...\n  raise ValueError\n{last}\n\n")
    assert error_line(file) == line


def test_a_trial_without_a_traceback_says_so(tmp_path: Path):
    assert "no traceback" in error_line(tmp_path / "missing.txt")
    assert "no traceback" in error_line(None)
