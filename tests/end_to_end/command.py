"""Run the command line in this process, as the shell would, and collect what it says."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest.mock import patch


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def understudy(*words: object) -> Result:
    """Run ``understudy WORDS...`` and return its exit code and both streams."""
    from rich.console import Console

    from understudy.cli import output as _output
    from understudy.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["understudy", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        patch.object(_output, "console", Console(file=out, highlight=False, width=200)),
        patch.object(_output, "errors", Console(file=err, highlight=False, width=200)),
    ):
        try:
            run()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else (0 if stop.code is None else 1)
    return Result(code, out.getvalue(), err.getvalue())
