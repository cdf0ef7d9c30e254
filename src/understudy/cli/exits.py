"""How a command ends, as a number: the only place that says so. The page ``docs/reference/exit-codes.md`` is held to it by a test."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["MEANINGS", "Exit"]


class Exit(IntEnum):
    """Exit codes of the program; one never changes its meaning."""

    DONE = 0
    FAULT = 1
    USAGE = 2
    BUDGET = 3
    INPUT = 4
    LEDGER = 5
    OUTPUT = 6
    VIOLATION = 7
    INTERRUPTED = 130


MEANINGS = {
    Exit.DONE: "Done.",
    Exit.FAULT: "An unexpected fault (a bug: please report it), or no memory left.",
    Exit.USAGE: "A command line that cannot be understood.",
    Exit.BUDGET: "A budget or guarantee that cannot be had, or a release that was not accepted.",
    Exit.INPUT: "A schema, table, workload, model, method, signature or system that cannot be used.",
    Exit.LEDGER: "A ledger that cannot be trusted.",
    Exit.OUTPUT: "An output that cannot be written.",
    Exit.VIOLATION: "An audit that shows more than was claimed.",
    Exit.INTERRUPTED: "Interrupted, or declined when asked.",
}
"""What each code says."""
