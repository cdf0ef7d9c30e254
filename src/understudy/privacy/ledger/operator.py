"""Who runs a program, and where: written beside each line of a ledger if somebody says so, and never by itself.

A name and a host are personal data of those who work with the table, and a ledger is kept for good: nothing is looked up unless it was
asked for. They stay with the ledger; bundles and certificates do not repeat them.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from understudy.errors import LedgerError
from understudy.privacy.ledger.kinds import public_text

__all__ = ["LONGEST_NAME", "operated_by", "present_operator"]

LONGEST_NAME = 200
_present: dict[str, str] = {}


def present_operator() -> Mapping[str, str]:
    """Return what is written beside each line now: ``operator``, ``host``, both or neither."""
    return dict(_present)


@contextmanager
def operated_by(name: str = "", *, host: bool = False) -> Iterator[None]:
    """Write a name, and with ``host`` the name of this machine, beside each line that this program adds to any ledger meanwhile.

    Raises
    ------
    LedgerError
        If the name is no text of one line, or is too long.

    Examples
    --------
    >>> from understudy.privacy import Ledger, PureDP, Unit
    >>> with Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove()) as ledger:
    ...     with operated_by("A. Example, registry"):
    ...         noted = ledger.note("a remark")
    ...     noted.operator, ledger.note("another").operator
    ('A. Example, registry', '')
    """
    name = public_text("operator", name).strip()
    if len(name) > LONGEST_NAME or any(not mark.isprintable() for mark in name):
        raise LedgerError(
            f"The ledger's operator must be a name of one line and at most {LONGEST_NAME} characters."
        )
    before = dict(_present)
    _present.update({"operator": name} if name else {})
    _present.update({"host": platform.node() or "unknown"} if host else {})
    try:
        yield
    finally:
        _present.clear()
        _present.update(before)
