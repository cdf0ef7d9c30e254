"""Work in processes of their own: begun, watched, cancelled, and kept by what it is about.

Each job has a folder with ``job.json`` (what is to be done), ``progress.json`` (how far it is) and ``result.json`` (what it has found, perhaps more to come).
A finished one is found again by its name, which is a digest of what it is about.
"""

from __future__ import annotations

import contextlib
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

from understudy.studio.folder import Folder

__all__ = ["Jobs", "State", "watch"]


@dataclass(frozen=True)
class State:
    """How a job stands: ``none``, ``waiting``, ``running``, ``done``, ``cancelled`` or ``failed``, with words and a fraction."""

    kind: str
    text: str = ""
    fraction: float = 0.0


class Jobs:
    """The jobs of one kind of a folder.

    Parameters
    ----------
    folder
        Of the studio.
    kind
        Name of the kind, and of its folder.
    at_once
        How many may run at a time.
    """

    def __init__(self, folder: Folder, *, kind: str, at_once: int) -> None:
        self.folder, self._kind, self._at_once = folder, kind, at_once
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = threading.Lock()

    @property
    def _root(self) -> Path:
        return self.folder.hidden / self._kind

    def begin(self, key: str, job: Mapping[str, Any]) -> bool:
        """Begin a job, unless it is running; say whether it runs now."""
        place = self._root / key
        with self._guard:
            self._tidy()
            if key in self._running:
                return True
            if len(self._running) >= self._at_once:
                return False
            self.folder.write(place / "job.json", json.dumps({"task": self._kind, **job}, default=str))
            self.folder.write(
                place / "progress.json", json.dumps({"kind": "running", "text": "starting", "fraction": 0.0})
            )
            self._running[key] = subprocess.Popen(
                [sys.executable, "-m", "understudy.studio.background.worker", str(place)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return True

    def state(self, key: str) -> State:
        """Say how a job stands."""
        with self._guard:
            self._tidy()
            alive = key in self._running
        try:
            said = json.loads((self._root / key / "progress.json").read_text(encoding="utf-8"))
            found = State(str(said["kind"]), str(said["text"]), float(said["fraction"]))
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return State("none")
        if (
            found.kind == "running" and not alive
        ):  # its process ended without a word, or that of another studio
            return State("cancelled", "It was interrupted; what it has done so far is kept.", found.fraction)
        return found

    def running(self) -> int:
        """Return how many jobs are running."""
        with self._guard:
            self._tidy()
            return len(self._running)

    def cancel(self, key: str) -> None:
        """End a job; what it has found is kept."""
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
        """End every job."""
        for key in list(self._running):
            self.cancel(key)

    def _result(self, key: str) -> Mapping[str, Any] | None:
        try:
            found = json.loads((self._root / key / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def _tidy(self) -> None:
        for key, process in list(self._running.items()):
            if process.poll() is not None:
                del self._running[key]


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
