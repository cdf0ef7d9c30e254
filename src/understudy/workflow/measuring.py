"""Steps before a fit that learn a schema under a share of the budget: measure, go on with the measured schema, fit with the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from understudy.curator import remember_measured
from understudy.data.drafting.hints import columns_of_persons
from understudy.data.entries import header_of, read_entries
from understudy.data.holdout import HoldOut
from understudy.discovery import (
    Discovery,
    DiscoveryPlan,
    NothingDiscovered,
    Shares,
    plan_discovery,
    rows_of_share,
    share_for,
    shares_of,
)
from understudy.errors import DataError, UsageError
from understudy.mechanisms import Progress, Synthesizer
from understudy.privacy import Budget, Unit, accounting_for
from understudy.schema import Boolean, Column, Schema
from understudy.schema.columns.numeric import Ordered
from understudy.schema.problems import did_you_mean, listing

if TYPE_CHECKING:
    from understudy.workflow.paid import PaidWork
    from understudy.workflow.synthesis.fits import Fit

__all__ = [
    "Continued",
    "Discover",
    "Read",
    "SchemaStep",
    "Steps",
    "ask_about_people",
    "discovering",
    "require_one_accounting",
    "run_steps",
    "with_steps",
]

_FEW_VALUES = 20
"""A declared column with so many values or fewer is no id."""


class Read(Protocol):
    """How a table is read, and who is protected: what a step needs of the fit that it is a step of."""

    @property
    def table(self) -> Any:
        """The private table."""
        ...

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        ...

    @property
    def separator(self) -> str | None:
        """Of a CSV file."""
        ...

    @property
    def encoding(self) -> str | None:
        """Of a CSV file."""
        ...

    @property
    def names(self) -> Sequence[str] | None:
        """Of the columns of a CSV file without a header."""
        ...


class SchemaStep(Protocol):
    """A step that measures facts of a schema under a share of the budget that is left when it begins."""

    def shares(self, budget: Budget) -> Shares:
        """Divide a budget between this step and what comes after it."""
        ...

    def facts(self) -> Any:
        """Return plain public values that tell this step from others."""
        ...

    def describe(self, fit: Fit, shares: Shares) -> Sequence[str]:
        """Say in advance, in plain sentences, what becomes public and what can be found; refuse what cannot be done."""
        ...

    def details(self, fit: Fit, shares: Shares) -> Sequence[str]:
        """Say what will be asked, and with which noise."""
        ...

    def read(self, fit: Read, hold_out: HoldOut | None = None) -> Any:
        """Read what the step asks about, without rows that are set aside, before the ledger is opened. Private."""
        ...

    def measure(self, fit: Fit, work: PaidWork, read: Any, shares: Shares, progress: Progress) -> Discovery:
        """Ask, and return the measured schema."""
        ...

    def measured(self, schema: Schema) -> Sequence[Column]:
        """Return the columns of the measured schema that this step asked about and paid for."""
        ...

    @property
    def given_columns(self) -> Sequence[Column]:
        """The columns that were declared, or measured before at the cost of the same ledger."""
        ...


@dataclass(frozen=True, kw_only=True)
class Discover:
    """Learn about every column that is not declared: see :func:`understudy.discovery.discover`.

    Attributes
    ----------
    share
        Of the budget; ``"auto:1000"`` chooses it for a table of about 1,000 rows, a number that is public or guessed.
    header
        The columns of the table. Public.
    unit
        Who is protected.
    given
        A schema that declares some of the columns, or None.
    numbers_only
        Consent to a budget without a delta, which finds no texts.
    """

    share: float | str
    header: tuple[str, ...]
    unit: Unit
    given: Schema | None = None
    numbers_only: bool = False

    def shares(self, budget: Budget) -> Shares:
        """Divide a budget between discovery and the fit."""
        return shares_of(budget, self.share_of(budget))

    def share_of(self, budget: Budget) -> float:
        """Return the share of a budget, chosen by public facts where it is ``auto``."""
        rows = rows_of_share(self.share)
        if rows is None:
            assert not isinstance(self.share, str)
            return self.share
        return share_for(rows, self.header, self.given_columns, unit=self.unit, budget=budget)

    def facts(self) -> Any:
        """Return plain public values that tell this step from others."""
        return ["discover", self.share, list(self.header)]

    def plan(self, unit: Unit, shares: Shares) -> DiscoveryPlan:
        """Return what will be asked; refuse a budget that cannot find texts unless that was agreed to."""
        columns = () if self.given is None else self.given.columns
        if unit.id_column is not None and unit.id_column not in self.header:
            raise DataError(
                f"The table has no column {unit.id_column!r}, which the unit names as the id column (--id-column)."
                f"{did_you_mean(unit.id_column, self.header)}"
            )
        plan = plan_discovery(
            self.header, columns, unit=unit, budget=shares.measuring, reserve=shares.reserve
        )
        if not plan.finds_texts and not self.numbers_only:
            raise UsageError(
                f"Discovery finds the texts of a column with a part of the delta, and {shares.measuring.describe()} has none: every column of text would be left out. Give an epsilon with a delta "
                f"(--epsilon 1 --delta 1e-6), or declare the columns of text in a schema; if only numbers, dates and truth words are wanted, say so (--numbers-only, numbers_only=True). The columns "
                f"that nothing is declared about: {listing(plan.columns)}."
            )
        rows = rows_of_share(self.share)
        if rows is not None and rows < plan.rows_least():
            raise UsageError(
                f"A table of about {rows:,} rows is too small for this discovery: with {len(plan.columns)} columns and {shares.measuring.describe()} not even their kinds can be told from the noise in fewer "
                f"than about {plan.rows_least():,} rows. Nothing was charged. Declare the columns in a schema (understudy schema draft), allow a larger budget, or give the share as a number to try all the same."
            )
        return plan

    def describe(self, fit: Fit, shares: Shares) -> Sequence[str]:
        """Say in advance, in plain sentences, what becomes public and what can be found."""
        return [*self.chosen(shares), *self.plan(fit.unit, shares).describe()]

    def chosen(self, shares: Shares) -> list[str]:
        """Say what discovery may spend, where the share was chosen for a number of rows."""
        rows = rows_of_share(self.share)
        if rows is None:
            return []
        return [
            f"Discovery may spend {shares.measuring.describe()}, chosen for about {rows:,} rows; {shares.rest.describe()} is left for a fit."
        ]

    def details(self, fit: Fit, shares: Shares) -> Sequence[str]:
        """Say what will be asked, and with which noise."""
        return self.plan(fit.unit, shares).details()

    def read(self, fit: Read, hold_out: HoldOut | None = None) -> Any:
        """Read the raw entries of the columns that are not declared. Private."""
        columns = [
            name for name in self.header if name not in _declared(self.given) and name != fit.unit.id_column
        ]
        return read_entries(
            fit.table,
            columns,
            id_column=fit.unit.id_column,
            separator=fit.separator,
            encoding=fit.encoding,
            names=fit.names,
            hold_out=hold_out,
        )

    def measured(self, schema: Schema) -> Sequence[Column]:
        """Return the columns of the measured schema that were asked about; those that were given are not among them."""
        given = _declared(self.given)
        return [column for column in schema.columns if column.name not in given]

    @property
    def given_columns(self) -> Sequence[Column]:
        """The columns that were declared, or measured before at the cost of the same ledger."""
        return () if self.given is None else self.given.columns

    def measure(self, fit: Fit, work: PaidWork, read: Any, shares: Shares, progress: Progress) -> Discovery:
        """Ask, and return the measured schema."""
        return work.discover(read, self.plan(fit.unit, shares), given=self.given, progress=progress)


def _declared(given: Schema | None) -> tuple[str, ...]:
    return () if given is None else given.names


def discovering(
    table: Any,
    given: Schema | None,
    share: float | str,
    *,
    unit: Unit,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    header: bool = False,
    numbers_only: bool = False,
) -> tuple[Discover, Schema]:
    """Return the step that discovers a table, and a schema that stands in for the one it will find.

    The stand-in has the columns of the header, declared ones as they are; the others are marks. It serves to check a mechanism, its workload and the
    output before anything is read.

    Raises
    ------
    UnderstudyError
        If the header cannot be read, or a declared fact is not public.
    """
    rows_of_share(share)  # refused before the table is opened
    if given is not None:
        given.require_public()
    columns_named = header_of(table, separator=separator, encoding=encoding, names=names, header=header)
    step = Discover(share=share, header=columns_named, unit=unit, given=given, numbers_only=numbers_only)
    declared = {} if given is None else {column.name: column for column in given.columns}
    marks: dict[str, Column] = {
        name: Boolean(name, missing=True, out_of_domain="to-missing", origin="measured")
        for name in columns_named
        if name != unit.id_column
    }
    # in the order of the header, like the schema that will be found; what is declared and not there is refused by the plan
    columns = tuple({**marks, **declared}.values())
    return step, Schema(columns=columns) if given is None else replace(given, columns=columns)


@dataclass(frozen=True)
class Continued:
    """A fit as it goes on after the steps that measure its schema.

    Attributes
    ----------
    fit
        With the measured schema, its mechanism, and the rest of the budget.
    found
        What the last step found; None where there was no step.
    """

    fit: Fit
    found: Discovery | None = None


@dataclass(frozen=True)
class Steps:
    """The steps of a fit with their shares of the budget.

    Attributes
    ----------
    shares
        Of each step, in order.
    rest
        What is left for the fit.
    notes, details
        What a person should read before, and the numbers behind it.
    """

    shares: tuple[Shares, ...] = ()
    rest: Budget | None = None
    notes: tuple[str, ...] = field(default=())
    details: tuple[str, ...] = field(default=())

    @property
    def reserve(self) -> float:
        """The delta that the steps need a ledger to set aside."""
        return sum(item.reserve for item in self.shares)


def with_steps(fit: Fit) -> Steps:
    """Divide the budget of a fit among its steps and the fit itself, and say what the steps will ask."""
    shares: list[Shares] = []
    notes: list[str] = []
    details: list[str] = []
    left = fit.budget
    for step in fit.steps:
        parts = step.shares(left)
        notes += step.describe(fit, parts)
        details += step.details(fit, parts)
        shares.append(parts)
        left = parts.rest
    return Steps(tuple(shares), left, tuple(notes), tuple(details))


def ask_about_people(names: Iterable[str], unit: Unit, declared: Sequence[Column] = ()) -> tuple[str, ...]:
    """Ask whether somebody has several rows, where the name of a column, which is public, suggests it and the unit is a row.

    A declared column with a handful of values tells no people apart, whatever its name.

    Examples
    --------
    >>> ask_about_people(["guest_id", "age"], Unit.add_remove())[0].partition("?")[0]
    "The column 'guest_id' may tell people apart. Does somebody have several rows"
    >>> ask_about_people(["guest_id", "age"], Unit.add_remove_person("guest_id", max_rows=3))
    ()
    """
    few = {column.name for column in declared if _number_of_values(column) <= _FEW_VALUES}
    found = columns_of_persons(name for name in names if name not in few) if unit.id_column is None else []
    if not found:
        return ()
    verb = "column" if len(found) == 1 else "columns"
    return (
        f"The {verb} {listing(found, most=3)} may tell people apart. Does somebody have several rows? Then this protects single rows of theirs and not the person: "
        f"name the column and how many rows count (--id-column {found[0]} --max-rows-per-person K; "
        f"from Python unit=Unit.add_remove_person({found[0]!r}, max_rows=K)).",
    )


def _number_of_values(column: Column) -> float:
    """Return how many values a column may have, by its declaration."""
    if not isinstance(column, Ordered):
        return column.finest.value_count
    cells = column.cells
    if not cells.whole or cells.open_low or cells.open_high:
        return inf
    return int(cells.high[-1]) - int(cells.low[0]) + 1


def require_one_accounting(mechanism: Synthesizer, rest: Budget) -> None:
    """Refuse a mechanism that spends the rest of a budget in another accounting than the one by which the budget was divided.

    Privacy
    -------
    The parts of a budget (`understudy.discovery.shares_of`) add up to at most the whole in the usual accounting of its kind. A part that is spent as a pure epsilon, say, is not worth
    less than the whole by what was measured before: both together would be worth more than the budget that the model names.
    """
    usual, own = accounting_for(rest), mechanism.accountings(rest)[0]
    if own.name != usual.name:
        raise UsageError(
            f"{mechanism.name} adds up a budget like this ({rest.describe()}) as {own.name}, and what is measured before the fit adds up as {usual.name}; parts of the two do not add up to the "
            "budget. Leave --discover, --rows-lost and --max-rows-per-person auto out, choose another method, or give a budget of the kind that the method adds up: an epsilon without a delta, or a rho."
        )


def run_steps(fit: Fit, steps: Steps, work: PaidWork, read: Sequence[Any], progress: Progress) -> Continued:
    """Run the steps of a fit; return the fit with the schema they measured and the rest of the budget."""
    found: Discovery | None = None
    rebuild: Callable[[Schema], Synthesizer] | None = fit.rebuild
    for step, shares, table in zip(fit.steps, steps.shares, read, strict=True):
        try:
            found = step.measure(fit, work, table, shares, progress)
        except NothingDiscovered:  # an answer, too: there is nothing to go on with
            work.done()
            raise
        if rebuild is None:
            raise UsageError(
                "A fit whose schema is measured says how its mechanism is made for it (rebuild)."
            )
        remember_measured(work.ledger, step.measured(found.schema))
        mechanism = rebuild(found.schema).with_fixed_accounting()
        require_one_accounting(mechanism, shares.rest)
        fit = replace(fit, schema=found.schema, synthesizer=mechanism)
    if found is None:
        return Continued(fit)
    assert steps.rest is not None
    return Continued(replace(fit, budget=steps.rest, steps=()), found)
