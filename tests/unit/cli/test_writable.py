"""Trying whether an output can be written leaves nothing behind, whenever it is interrupted."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from understudy.cli._options import require_writable
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


class Strike:
    """Interrupt at one line of whatever runs."""

    def __init__(self, line: int) -> None:
        self.left, self.struck = line, False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Strike:
        self.left -= event == "line"
        if self.left == 0 and not self.struck:
            self.struck = True
            raise KeyboardInterrupt
        return self


# The interrupt may fall between making the file and noting it; the collector closes it then, and says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_interrupt_at_any_line_leaves_no_file(tmp_path: Path) -> None:
    if not nameless_files(tmp_path):
        pytest.skip("this file system has no files without a name")
    for line in range(1, 1000):
        strike, before = Strike(line), sys.gettrace()
        sys.settrace(strike)
        try:
            require_writable(tmp_path / "rows.csv", what="table")
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert list(tmp_path.iterdir()) == [], f"interrupted at line {line}"
        if not strike.struck:
            break
    assert 10 < line < 999, "every line was struck once"


def test_a_folder_that_takes_no_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(OutputError, match=r"table cannot be written to .*Permission denied"):
        require_writable(tmp_path / "rows.csv", what="table")
