"""The program: what the console script calls, from the first import to the last breath of the interpreter.

An interrupt is answered in one of three ways. Before the command has begun and after it has ended there is nothing to tidy up,
so the process ends at once; in between it is Python's own exception, so that files and ledgers are closed in order. Either way
the exit code is 130 and there is no traceback. This module imports almost nothing, so that the first answer is in place
before the imports that take time.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from understudy.cli.exits import Exit

__all__ = ["INTERRUPTED", "main"]

_ENDED = "Interrupted. The command had ended before; nothing of it is left to do.\n"
INTERRUPTED = "Interrupted. What the ledger shows as spent is spent. synth and release keep its answers: the same command goes on.\n"


def main() -> None:
    """Run the command line as a program of its own.

    An interrupt that whoever started the program wants ignored stays ignored.

    Examples
    --------
    >>> main.__name__
    'main'
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        from understudy.cli.main import run

        run()
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        from understudy.cli.main import prepare, run

        prepare()
        answer: Callable[..., None] = _leave
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            run()
            answer = _leave_after_the_end
        finally:
            signal.signal(signal.SIGINT, answer)
    except KeyboardInterrupt:  # a second one, while the first was being answered
        _leave()


def _leave_after_the_end(*_: object) -> None:
    """End the process at once; the same command once more would not go on, but begin anew and pay again."""
    _leave(message=_ENDED)


def _leave(*_: object, message: str = INTERRUPTED) -> None:
    """End the process at once, with what it has said so far."""
    try:
        sys.stdout.flush()
        sys.stderr.write(message)
        sys.stderr.flush()
    except Exception:  # a stream that is closed, broken or in the middle of a write: there is nobody to tell
        pass
    finally:
        os._exit(Exit.INTERRUPTED)
