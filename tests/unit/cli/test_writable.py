"""Trying whether an output can be written leaves nothing behind, whenever it is interrupted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from understudy.data.output import require_writable
from understudy.errors import OutputError


def nameless_files(folder: Path) -> bool:
    """Whether files without a name can be made here."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        return False
    return True


STRIKES = """
import sys, warnings
from pathlib import Path
from understudy.data.output import require_writable

warnings.simplefilter("ignore", ResourceWarning)  # of files that an interrupt cut off from their name
folder = Path(sys.argv[1])
for line in range(1, 1000):
    left = line
    def strike(frame, event, argument):
        global left
        left -= event == "line"
        if event == "line" and left == 0:
            raise KeyboardInterrupt
        return strike
    sys.settrace(strike)
    try:
        require_writable(folder / "rows.csv", what="table")
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    if list(folder.iterdir()):
        sys.exit(f"something was left behind by an interrupt at line {line}")
    if left > 0:
        print(line - 1)
        break
"""


def test_an_interrupt_at_any_line_leaves_no_file(tmp_path: Path) -> None:
    """In a process of its own: exceptions out of a trace leave the interpreter in a state that later errors show."""
    if not nameless_files(tmp_path):
        pytest.skip("this file system has no files without a name")
    command = [sys.executable, "-c", STRIKES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10, "several lines were struck"


def test_a_folder_that_takes_no_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(OutputError, match=r"table cannot be written to .*Permission denied"):
        require_writable(tmp_path / "rows.csv", what="table")
