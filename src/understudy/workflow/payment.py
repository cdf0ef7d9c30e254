"""Who pays: the ledger of a table, how it is found, and what is compared with it before a record is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from understudy.curator import require_measured, require_unmeasured
from understudy.data import Database
from understudy.data.identity import table_file
from understudy.data.linked import LinkedTables
from understudy.ledgers import LedgerPlace, find_ledger
from understudy.privacy import Budget, Ledger, Unit
from understudy.privacy.facts import Facts, check_facts
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.schema import Column
from understudy.workflow.paid import Unfinished

__all__ = ["PayingLedger", "Payment", "name_of"]

_ADVICE = (
    "Use the ledger of this table (--ledger), name the table as the ledger does (--table-name), or give it a ledger of its own (--ledger FILE, with "
    "--another-ledger if this table has one already: then what the two promise adds up)."
)
"""For those whose ledger is of another table or unit."""


@dataclass(frozen=True, kw_only=True)
class Payment:
    """Which ledger pays, and what the owner of the table agrees to.

    Attributes
    ----------
    ledger
        The file of the ledger, its place, a ledger that is open already, ``"memory"`` for one that lives as long as the call, or None for
        the ledger that belongs to the table: beside a file, in a folder of the user for databases and frames.
    table_name
        What the table is called in its ledger, if otherwise than its file.
    another
        Consent to a second ledger for a table that has one; their budgets add up.
    consent
        Other facts, or another exact number of rows, than the ledger knows.
    unfinished
        What to do about another fit on the ledger that was interrupted.
    """

    ledger: Path | LedgerPlace | Ledger | Literal["memory"] | None = None
    table_name: str | None = None
    another: bool = False
    consent: Consent = NO_CONSENT
    unfinished: Unfinished = "refuse"

    def place(
        self, table: Any, *, earlier: Path | None = None, evidence: Sequence[Path] = ()
    ) -> LedgerPlace | None:
        """Return where the ledger of a table is or will be; None for one in memory or one that is open already.

        Parameters
        ----------
        earlier
            Where earlier versions put a ledger.
        evidence
            Outputs, beside which an earlier run may have left one: :func:`understudy.ledgers.find_ledger`.
        """
        given = self.ledger
        if given == "memory" or isinstance(given, Ledger):
            return None
        if isinstance(given, LedgerPlace):
            return given
        name = name_of(table)
        label = self.table_name or name
        return find_ledger(
            table,
            name=name,
            label=label,
            ledger=given,
            earlier=earlier,
            evidence=evidence,
            another=self.another,
        )


def name_of(table: Any) -> str:
    """Return the public name of a table: that of its file, or of the table of its database."""
    if isinstance(table, Database):
        return table.label
    if isinstance(table, LinkedTables):
        return table.name
    if isinstance(table, str | PathLike):
        return Path(table).name
    file = table_file(table)
    return "table" if file is None else file.name


@dataclass(frozen=True, kw_only=True)
class PayingLedger:
    """The ledger that pays for one piece of work: what is compared with it before a record is read, and on which terms it is opened.

    Attributes
    ----------
    payment, place
        What was asked for, and where the ledger is or will be: None for one in memory or one that is open already.
    table
        Name of the table, unless the payment has another for it.
    budget, unit
        The total of a new ledger, and who is protected.
    reserve
        Delta that a new ledger sets aside for events with a delta of their own.
    """

    payment: Payment
    place: LedgerPlace | None
    table: str
    budget: Budget
    unit: Unit
    reserve: float = 0.0

    @property
    def is_new(self) -> bool:
        """Whether a file will be made for it."""
        return self.place is not None and not self.place.path.exists()

    def check(self, facts: Facts, *, measured: Sequence[Column] = ()) -> None:
        """Refuse facts that an existing ledger does not know, before a record is read: what does not fit is an answer too.

        Parameters
        ----------
        facts
            What the owner of the table declares.
        measured
            Columns whose facts may be measurements: they are good for the ledger that paid for them.
        """
        if self.is_new:
            require_unmeasured(measured)
        elif self.place is not None or isinstance(self.payment.ledger, Ledger):
            with self.opened() as ledger:
                check_facts(ledger, facts, self.payment.consent)
                require_measured(ledger, measured)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Ledger]:
        """Open the ledger; one that was handed over stays open."""
        named, given = self.payment.table_name, self.payment.ledger
        terms: dict[str, Any] = {
            "budget": self.budget,
            "unit": self.unit,
            "table": named or self.table,
            "approximate_delta": self.reserve,
        }
        if self.place is not None:
            with self.place.opened(**terms, named=named is not None, advice=_ADVICE) as ledger:
                yield ledger
        elif isinstance(given, Ledger):
            yield given
        else:
            with Ledger.in_memory(**terms) as ledger:
                yield ledger
