"""The side of the fault harness that runs inside the process that is going to be hurt.

Every draw of privacy noise is first written down, by parameters alone, to a log that is flushed to the disk, beside
a copy of the ledger's bytes at that very moment. Whatever then happens to the process, the log holds every draw
that was made, and the copies show what the ledger said just before each of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = ("open", "os.", "sqlite3.", "tempfile.", "shutil.")
"""Audit events that count as a step: the moments around which files change."""


class Witness:
    """Writes down each draw of noise before it is made, and each flush of a file."""

    def __init__(self, side: Path, ledger: Path) -> None:
        self.side = side
        self.ledger = ledger
        self.log = os.open(side / "draws", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self.flushes = os.open(side / "flushes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self.number = len(list(side.glob("image-*")))
        self.inside_attempt = False
        self.trying = False
        self.busy = False

    def note(self, kind: str, scale: float) -> None:
        """Write one draw down, durably, with the ledger's bytes as they are now; not those of a trial on made-up records."""
        if self.trying:
            return
        self.busy = True
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))  # limits are for the one who is watched
        try:
            image = self.ledger.read_bytes() if self.ledger.exists() else b""
            journal = self.ledger.with_name(f"{self.ledger.name}-journal")
            name = f"image-{self.number:05d}"
            self.number += 1
            (self.side / name).write_bytes(image)
            line = {
                "kind": kind,
                "scale": scale,
                "attempt": self.inside_attempt,
                "image": name,
                "open": journal.exists(),
            }
            os.write(self.log, json.dumps(line).encode() + b"\n")
            _real_fsync(self.log)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            self.busy = False

    def flushed(self, descriptor: int) -> None:
        """Write down which file, by its inode, was flushed up to which size."""
        facts = os.fstat(descriptor)
        os.write(self.flushes, f"{facts.st_ino} {facts.st_size}\n".encode())


_real_fsync = os.fsync


def install(witness: Witness) -> None:
    """Put the witness before every draw of noise and behind every flush of this process."""
    from understudy.curator import curator as door
    from understudy.mechanisms import base as _trial
    from understudy.privacy import DiscreteGaussian, Gaussian, Laplace
    from understudy.release.run import planning
    from understudy.release.run.run import Release

    for noise in (Gaussian, DiscreteGaussian, Laplace):
        noise.draw = _watched_draw(witness, noise.__name__, noise.draw)  # type: ignore[method-assign]
    for name in ("exponential_mechanism", "permute_and_flip"):
        setattr(door, name, _watched_choice(witness, name, getattr(door, name)))
    for module, name in ((_trial, "_try"), (planning, "_try_judging")):
        setattr(module, name, _trying(witness, getattr(module, name)))
    attempt = Release._attempt

    def watched_attempt(self: Any, *command_line: Any) -> Any:
        witness.inside_attempt = True
        try:
            return attempt(self, *command_line)
        finally:
            witness.inside_attempt = False

    Release._attempt = watched_attempt  # type: ignore[method-assign]

    def fsync(descriptor: Any) -> None:
        _real_fsync(descriptor)
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        witness.flushed(number)

    os.fsync = fsync


def _watched_draw(witness: Witness, kind: str, draw: Callable[..., Any]) -> Callable[..., Any]:
    def watched(self: Any, shape: Any, randomness: Any) -> Any:
        witness.note(kind, self.scale)
        return draw(self, shape, randomness)

    return watched


def _trying(witness: Witness, trial: Callable[..., None]) -> Callable[..., None]:
    def tried(*given: Any) -> None:
        witness.trying = True
        try:
            trial(*given)
        finally:
            witness.trying = False

    return tried


def _watched_choice(witness: Witness, kind: str, choice: Callable[..., Any]) -> Callable[..., Any]:
    def watched(scores: Any, *, epsilon: float, **rest: Any) -> Any:
        witness.note(kind, epsilon)
        return choice(scores, epsilon=epsilon, **rest)

    return watched


def at_step(number: int, act: Callable[[], None], *, witness: Witness, steps: Path | None = None) -> None:
    """Do something at the given step that touches files; with ``steps``, count all of them into a file."""
    seen = 0
    main = threading.main_thread()

    def hook(event: str, _: tuple[Any, ...]) -> None:
        nonlocal seen
        if witness.busy or not event.startswith(STEPS) or threading.current_thread() is not main:
            return
        seen += 1
        if seen == number:
            act()
        if steps is not None:
            witness.busy = True
            steps.write_text(str(seen))
            witness.busy = False

    sys.addaudithook(hook)


def less_memory(more_megabytes: float) -> None:
    """Let the process grow by no more than this from here on."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + int(more_megabytes * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def smaller_files(most_bytes: int) -> None:
    """Let no file grow beyond this, as a quota does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))


def without_privileges() -> None:
    """Give up root's right to ignore permissions, in this process alone."""
    if os.getuid() != 0:
        return
    library = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: the lower words, then the upper ones
    if library.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    for place in range(3):
        sets[place] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    if library.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def run_command(command_line: list[str], *, out: Path, err: Path, arm: Callable[[], None]) -> int:
    """Run the command line in this process with both streams in files; return its exit code.

    ``arm`` is called last before the command starts. Interrupts are blocked before and after it.
    """
    for stream, path in ((1, out), (2, err)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(descriptor, stream)
        os.close(descriptor)
    # files that are open count against no limit of ours, but buffers of the parent must not be written twice
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    from rich.console import Console

    from understudy.cli import output as _output
    from understudy.cli.main import run

    _output.console = Console(file=sys.stdout, highlight=False, width=200)
    _output.errors = Console(file=sys.stderr, highlight=False, width=200)
    sys.argv = ["understudy", *command_line]
    try:
        arm()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        run()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else (0 if stop.code is None else 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass
    return code
