"""Rehearsals of designs in processes of their own: started, watched, cancelled, and kept by what they rehearse.

A finished rehearsal is found again by the digest of its specification and table, so that going back to an earlier design shows its numbers at once. Trials are
kept one by one: a rehearsal that was cancelled goes on where it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.datasets import names
from understudy.errors import UsageError
from understudy.release.spec.spec import Spec
from understudy.studio.designs import fit_key
from understudy.studio.folder import Folder

__all__ = ["Found", "Rehearsals", "State", "Table", "watch"]

_AT_ONCE = 2
FACTORS = (0.25, 0.5, 2.0, 4.0)
"""Of the total epsilon, rehearsed beside it for the frontier."""


@dataclass(frozen=True)
class Table:
    """The public table that a design is rehearsed on.

    Attributes
    ----------
    kind
        ``made-up`` (drawn from the schema alone), ``simulated`` (one of Understudy's) or ``public`` (a file under ``public``, which its owner declares
        public by putting it there).
    name
        Of the simulated table or of the file.
    rows
        How many rows; None for a file.
    """

    kind: str
    name: str = ""
    rows: int | None = None

    @classmethod
    def parse(cls, text: str, rows: int | None, folder: Folder) -> Table:
        """Read the choice of a form: ``made-up``, ``simulated:births`` or ``public:file.csv``."""
        kind, _, name = text.partition(":")
        if kind == "made-up" and not name:
            return cls("made-up", "", rows)
        if kind == "simulated" and name in names():
            return cls("simulated", name, rows)
        if kind == "public" and name in folder.public_tables():
            return cls("public", name, None)
        raise UsageError("There is no such table to rehearse on.")

    @property
    def text(self) -> str:
        """As a form says it."""
        return f"{self.kind}:{self.name}" if self.name else self.kind

    def describe(self) -> str:
        """Say what it is."""
        if self.kind == "public":
            return f"the public table {self.name}"
        what = "made up from the schema" if self.kind == "made-up" else f"of the simulated table {self.name}"
        return f"{self.rows or 0:,} rows {what}"


@dataclass(frozen=True)
class State:
    """How a rehearsal stands: ``none``, ``running``, ``done``, ``cancelled`` or ``failed``, with words and a fraction."""

    kind: str
    text: str = ""
    fraction: float = 0.0


@dataclass(frozen=True)
class Found:
    """What a rehearsal found; ``exact`` if it is of just this design, otherwise of one that differs in thresholds alone."""

    key: str
    result: Mapping[str, Any]
    exact: bool


class Rehearsals:
    """The rehearsals of a folder."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = threading.Lock()

    @property
    def _root(self) -> Path:
        return self.folder.hidden / "rehearsals"

    @staticmethod
    def key(spec: Spec, table: Table) -> str:
        """Return the name of a rehearsal: its fit, then all of it."""
        whole = json.dumps([spec.fingerprint(), table.text, table.rows])
        return f"{fit_key(spec)}-{_digest(table.text, table.rows)}-{hashlib.sha256(whole.encode()).hexdigest()[:24]}"

    def start(self, spec: Spec, table: Table, *, trials: int, frontier: bool = True) -> str:
        """Begin a rehearsal, unless it is running, and return its name."""
        key = self.key(spec, table)
        place = self._root / key
        with self._guard:
            self._tidy()
            if key in self._running:
                return key
            if len(self._running) >= _AT_ONCE:
                raise UsageError(
                    f"{_AT_ONCE} rehearsals are running already. Wait for one, or cancel it; what it has done so far is kept."
                )
            job = {
                "spec": spec.to_dict(),
                "source": {} if spec.source.simulated is None else spec.source.simulated.model_dump(),
                "table": {"kind": table.kind, "name": table.name, "rows": table.rows},
                "trials": trials,
                "factors": list(FACTORS) if frontier else [],
                "where": str(self.folder.designs),
                "public": str(self.folder.public),
            }
            self.folder.write(place / "job.json", json.dumps(job, default=str))
            self.folder.write(
                place / "progress.json", json.dumps({"kind": "running", "text": "starting", "fraction": 0.0})
            )
            self._running[key] = subprocess.Popen(
                [sys.executable, "-m", "understudy.studio.worker", str(place)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return key

    def state(self, key: str) -> State:
        """Say how a rehearsal stands."""
        with self._guard:
            self._tidy()
            alive = key in self._running
        try:
            told = json.loads((self._root / key / "progress.json").read_text(encoding="utf-8"))
            found = State(str(told["kind"]), str(told["text"]), float(told["fraction"]))
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return State("none")
        if (
            found.kind == "running" and not alive
        ):  # its process ended without a word, or that of another studio
            return State("cancelled", "It was interrupted; what it has done so far is kept.", found.fraction)
        return found

    def running(self) -> int:
        """Return how many rehearsals are running."""
        with self._guard:
            self._tidy()
            return len(self._running)

    def cancel(self, key: str) -> None:
        """End a rehearsal; its finished trials are kept."""
        with self._guard:
            process = self._running.pop(key, None)
        if process is None:
            return
        _end(process)
        self.folder.write(
            self._root / key / "progress.json",
            json.dumps(
                {"kind": "cancelled", "text": "Cancelled; what it has done so far is kept.", "fraction": 0.0}
            ),
        )

    def close(self) -> None:
        """End every rehearsal."""
        for key in list(self._running):
            self.cancel(key)

    def find(self, spec: Spec, table: Table) -> Found | None:
        """Return what is known about a design: of itself, or else of one with other thresholds."""
        key = self.key(spec, table)
        exact = self._result(key)
        if exact is not None:
            return Found(key, exact, True)
        for other in sorted(self._root.glob(f"{key[:-25]}-*/result.json")) if self._root.is_dir() else ():
            found = self._result(other.parent.name)
            if found is not None:
                return Found(other.parent.name, found, False)
        return None

    def _result(self, key: str) -> Mapping[str, Any] | None:
        try:
            found = json.loads((self._root / key / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) and found.get("points") else None

    def _tidy(self) -> None:
        for key, process in list(self._running.items()):
            if process.poll() is not None:
                del self._running[key]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _end(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        try:
            process.wait(timeout=3)
            return
        except subprocess.TimeoutExpired:
            continue


def watch(parent: int) -> None:
    """End this process when the one that started it has gone, however that ended."""

    def look() -> None:
        pause = threading.Event()
        while os.getppid() == parent:
            pause.wait(1.0)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()
