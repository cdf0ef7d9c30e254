"""Run cells of a benchmark in copies of one warm process, so that none pays for imports, kernels and reading tables.

Nothing that starts threads may have run in the process that is copied: its kernels are sequential, and the variables
in ``THREADS`` of the runner are set to 1 before anything is imported.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

Record = dict[str, Any]


def run_forked(work: Callable[[Record], Record], spec: Record, *, wall: float) -> Record:
    """Return what ``work`` makes of a specification in a copy of this process.

    After ``wall`` seconds the copy is ended and the record has the status ``stopped``; a copy that ends without an
    answer (for want of memory, say) is ``failed``.
    """
    context = multiprocessing.get_context("fork")
    answers, tell = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(work, spec, tell))
    process.start()
    tell.close()
    try:
        if not answers.poll(wall):
            return {"status": "stopped", "message": f"ended after {wall:.0f} s on the clock"}
        found: Record = answers.recv()
    except EOFError:
        process.join()
        found = {"status": "failed", "message": f"ended without an answer, exit code {process.exitcode}"}
    finally:
        if process.is_alive():
            process.join(5)
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        answers.close()
    return found


def _child(work: Callable[[Record], Record], spec: Record, tell: Connection) -> None:
    try:
        found = work(spec)
    except Exception as error:  # the record says what went wrong, and the other cells go on
        found = {
            "status": "failed",
            "message": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300],
        }
    tell.send(found)
    tell.close()
