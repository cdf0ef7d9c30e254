"""What a command did, as lines of JSON for programs that watch it (``--log-json``).

Privacy
-------
A line holds a time, an event and public words: the command's name, stages, charges as they stand in the ledger, the code and message of a deliberate error. Not: arguments (a path
may name a patient), the stages of a release (how many attempts a private selection made is not paid for), fractions (while a table is read they are its exact number of rows), output for people, messages of foreign code, tracebacks. The times say
how long a run took, and that depends on the records, a little: a log is for those who may see the table's ledger, not for publication.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from understudy.errors import OutputError

__all__ = ["close_log", "log", "open_log", "watched"]

_NUMBER = re.compile(r"\d[\d,.]*")
_ROUND = re.compile(r"round \d+")
_SILENT = ("release", "refresh", "rehearse")
"""Commands whose stages are not written: they would count the attempts of a selection."""


class _Log(logging.Handler):
    """Writes one line for each event, at once."""

    def __init__(self, stream: TextIO, *, owned: bool) -> None:
        super().__init__(logging.INFO)
        self._stream, self._owned = stream, owned
        self.begun, self.command, self.ended = time.monotonic(), "", False

    def line(self, event: str, level: str = "info", **facts: Any) -> None:
        """Write one event."""
        said = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "event": event,
            "command": self.command,
            **facts,
        }
        self._stream.write(json.dumps(said, ensure_ascii=True) + "\n")
        self._stream.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Write what the package says to those who listen, which is public."""
        self.line("message", record.levelname.lower(), message=record.getMessage())

    def close(self) -> None:
        """End the log."""
        if self._owned:
            self._stream.close()
        super().close()


_open: list[_Log] = []


def open_log(target: str, command: str) -> None:
    """Begin to write to a file, which grows, or to standard error (``-``).

    Raises
    ------
    OutputError
        If the file cannot be written. The command has not begun.
    """
    from understudy import __version__

    close_log()
    try:
        stream = sys.stderr if target == "-" else Path(target).open("a", encoding="utf-8")  # noqa: SIM115 - it lives as long as the command
    except OSError as error:
        raise OutputError(f"The log {target!r} cannot be written: {error.strerror or error}.") from None
    handler = _Log(stream, owned=target != "-")
    handler.command = command
    _open.append(handler)
    package = logging.getLogger("understudy")
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    handler.line("start", version=__version__)


def log(event: str, level: str = "info", **facts: Any) -> None:
    """Write an event, if there is a log."""
    for handler in _open:
        handler.line(event, level, **facts)


def close_log(code: int | None = None) -> None:
    """Write how the command ended, if there is a log, and close it."""
    while _open:
        handler = _open.pop()
        if code is not None:
            handler.line(
                "end",
                "info" if code == 0 else "error",
                exit_code=code,
                seconds=round(time.monotonic() - handler.begun, 3),
            )
        package = logging.getLogger("understudy")
        package.removeHandler(handler)
        package.setLevel(logging.NOTSET)
        handler.close()


def watched(progress: Any) -> Any:
    """Return a callback that also writes each new stage into the log, without the numbers in its name but those of rounds."""
    if not _open or _open[-1].command in _SILENT:
        return progress
    told: list[str] = []

    def tell(stage: str, fraction: float) -> None:
        shown = stage if _ROUND.fullmatch(stage) else _NUMBER.sub("#", stage)
        if told[-1:] != [shown]:
            told[:] = [shown]
            log("stage", stage=shown)
        progress(stage, fraction)

    return tell
