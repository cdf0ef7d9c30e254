"""Finished trials on the disk, one JSON document per line, so that a rehearsal can be interrupted and resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from understudy.errors import OutputError
from understudy.release._rehearsal_trial import Trial

__all__ = ["TrialStore"]


class TrialStore:
    """An append-only file of trials, or memory alone.

    A line that is not a trial (the last one of a run that was interrupted while it wrote, say) is passed over, and
    its trial is done again. Trials of other specifications or tables may stand in the same file.

    Parameters
    ----------
    path
        The file; None keeps trials in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, Trial] = {}
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_bytes() if path.exists() else b""
            if text and not text.endswith(b"\n"):
                self._append(b"\n")
        except OSError as error:
            raise _refused(path, error) from None
        for line in text.split(b"\n"):
            try:
                trial = Trial.from_dict(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
            self._known[trial.key] = trial

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __len__(self) -> int:
        return len(self._known)

    def get(self, keys: Iterable[str]) -> list[Trial]:
        """Return the trials that are known among some keys."""
        return [self._known[key] for key in keys if key in self._known]

    def add(self, trial: Trial) -> None:
        """Keep a trial; it is on the disk when this returns."""
        if trial.key in self._known:
            return
        if self._path is not None:
            try:
                self._append(json.dumps(trial.to_dict(), allow_nan=False).encode("utf-8") + b"\n")
            except OSError as error:
                raise _refused(self._path, error) from None
        self._known[trial.key] = trial

    def _append(self, line: bytes) -> None:
        assert self._path is not None
        with self._path.open("ab") as stream:
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())


def _refused(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"Trials cannot be kept in {str(path)!r}: {error.strerror or error}. Finished trials written before are safe; "
        "rehearse again when there is room, or choose another folder (--out)."
    )
