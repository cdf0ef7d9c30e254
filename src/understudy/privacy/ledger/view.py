"""A ledger as a mechanism may see it: everything can be read, nothing can be written."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from understudy.errors import BudgetError
from understudy.privacy.accounting.accounting import Accounting
from understudy.privacy.accounting.filter import Filter, Spending
from understudy.privacy.budget import Budget
from understudy.privacy.events import Event
from understudy.privacy.ledger.anchors import Anchor
from understudy.privacy.ledger.format import Entry
from understudy.privacy.ledger.kinds import FactsRecord, Invariant, TotalChange
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.ledger.report import LedgerGuarantee
from understudy.privacy.unit import Unit

__all__ = ["WRITING", "LedgerView"]

WRITING = frozenset({"change_total", "charge", "close", "note", "record_facts", "record_invariant"})
"""What changes a ledger, or ends it."""


class LedgerView:
    """A ledger that can be read and not written: what :attr:`understudy.curator.Curator.ledger` hands out.

    It shows the ledger as it is now, not as it was when the view was made.

    Privacy
    -------
    A mechanism gets a curator, and a curator gets its allowance; who could write to the ledger behind it could put another total in force or state
    facts in the owner's name. Charges go through the looks of a curator, totals and facts through whoever holds the ledger itself.
    What the methods return are values that nobody else shares, or that cannot be changed.

    Examples
    --------
    >>> from understudy.privacy import PureDP
    >>> seen = LedgerView(Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove()))
    >>> seen.remaining
    1.0
    >>> seen.change_total(PureDP(50.0), who="the owner", why="as agreed")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    understudy.errors.BudgetError: The ledger of a curator can be read, not written (change_total). ...
    """

    __slots__ = ("_written",)

    def __init__(self, ledger: Ledger) -> None:
        self._written = ledger

    def __getattr__(self, name: str) -> NoReturn:
        if name in WRITING:
            raise BudgetError(
                f"The ledger of a curator can be read, not written ({name}). Looks are charged by the curator (measure_many, choose, test); "
                "totals and facts are changed by the owner of the table (understudy ledger total)."
            )
        raise AttributeError(f"'LedgerView' object has no attribute {name!r}")

    @property
    def path(self) -> Path | None:
        """The file, or None for a ledger in memory."""
        return self._written.path

    @property
    def table(self) -> str:
        """Public name of the table."""
        return self._written.table

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return self._written.unit

    @property
    def budget(self) -> Budget:
        """The promise about everything that is ever charged there."""
        return self._written.budget

    @property
    def first_budget(self) -> Budget:
        """The total that the ledger was made with."""
        return self._written.first_budget

    @property
    def provisional(self) -> bool:
        """Whether the total is that of a first use and nobody's decision, as long as nothing was charged."""
        return self._written.provisional

    @property
    def charged(self) -> bool:
        """Whether anything was ever charged."""
        return self._written.charged

    @property
    def rule(self) -> Filter:
        """The filter that admits or refuses charges."""
        return self._written.rule

    @property
    def accounting(self) -> Accounting:
        """The accounting that ``spent``, ``remaining`` and ``total`` are in."""
        return self._written.accounting

    @property
    def ledger_id(self) -> str:
        """Random name given at creation."""
        return self._written.ledger_id

    @property
    def created(self) -> str:
        """When the ledger was made (UTC, ISO 8601)."""
        return self._written.created

    @property
    def total(self) -> float:
        """What may be spent, in the additive unit of ``accounting``, rounded down."""
        return self._written.total

    @property
    def spent(self) -> float:
        """What has been charged, in the additive unit of ``accounting``, rounded up."""
        return self._written.spent

    @property
    def remaining(self) -> float:
        """What is left of ``total``, rounded down."""
        return self._written.remaining

    @property
    def spending(self) -> Spending:
        """What has been charged, exactly, in the accountings that the filter looks at."""
        return self._written.spending

    @property
    def facts(self) -> tuple[FactsRecord, ...]:
        """What the owner declared about the table, as fingerprints, in the order they were accepted."""
        return self._written.facts

    @property
    def head_hash(self) -> str:
        """Hash of the last line."""
        return self._written.head_hash

    @property
    def length(self) -> int:
        """Number of entries."""
        return self._written.length

    def totals(self) -> tuple[TotalChange, ...]:
        """Return every change of the total, in order."""
        return self._written.totals()

    def invariants(self) -> tuple[Invariant, ...]:
        """Return the exact public facts that the promise is conditioned on, in the order they were written."""
        return self._written.invariants()

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries in order, having checked the chain."""
        return self._written.entries()

    def can_afford(self, event: Event) -> bool:
        """Return whether an event would be admitted now; another process may be quicker."""
        return self._written.can_afford(event)

    def anchor(self) -> Anchor:
        """Return the ledger's name, head and length."""
        return self._written.anchor()

    def check_anchor(self, anchor: Anchor, *, source: str = "the anchor") -> None:
        """Refuse a ledger that an anchor shows to be an older copy. See :meth:`understudy.Ledger.check_anchor`."""
        self._written.check_anchor(anchor, source=source)

    def guarantee(self) -> LedgerGuarantee:
        """Return what the ledger promises and how much of it has been used, by every valid accounting."""
        return self._written.guarantee()

    def verify(self, *, head: str | None = None) -> str:
        """Check the whole file and return its head hash. See :meth:`understudy.Ledger.verify`."""
        return self._written.verify(head=head)

    def __repr__(self) -> str:
        return f"<View of the ledger of {self.table!r}, {self.budget.describe()}>"
