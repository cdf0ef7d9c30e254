"""Fits of rows that are cut by person: how many rows that loses, and how many rows of a person should count; measured under a small share of the budget.

One look counts people by how many rows they have (:meth:`understudy.curator.Curator.people_by_rows`), each person once, so that it takes little noise. Everything else follows from
what it released: the rows that a cut leaves out, and, where nobody says how many rows of a person count, the number with the least error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from understudy.curator import Curator
from understudy.discovery import Shares, shares_of
from understudy.errors import UsageError
from understudy.inference.people import MOST_ROWS, PEOPLE, STARTS, RowsPerPerson, lost_by, rows_of_bins
from understudy.marginals import Statistic
from understudy.mechanisms import Model
from understudy.privacy import ApproxDP, Budget, Ledger, Unit, noise_for
from understudy.schema import Schema
from understudy.schema.entities import USUAL_RECORDS
from understudy.workflow.choice import Facts

__all__ = ["AUTO_ROWS", "CutLook", "choose_rows", "rows_per_person", "unit_with_look"]

AUTO_ROWS = "auto"
"""In place of a number of rows per person: it is chosen."""
_USUAL = 4
"""Rows of a person for which a fit is planned while the number is yet to be chosen."""
SHARE = 0.05
"""Of the budget, for the look."""
_BIAS = 0.2
"""Distance of pairs of columns of a cut table from the whole one, over the share of rows that is lost: .16 to .29 on one simulated table of stays and one of households where 2 % or more are lost. A rule of thumb."""
_CLEAR = 4.0
"""Deviations of the noise above which a bin has people: one false bin of people with many rows would decide the choice."""


@dataclass(frozen=True, kw_only=True)
class CutLook:
    """A look at how many rows people have, before a fit of their rows.

    Attributes
    ----------
    choose
        Whether the number of rows of a person that count is chosen from it; the unit then holds the most that may be.
    share
        Of the budget.
    """

    choose: bool = False
    share: float = SHARE

    def shares(self, budget: Budget) -> Shares:
        """Divide a budget between the look and the fit."""
        parts = shares_of(budget, self.share)
        if isinstance(parts.measuring, ApproxDP) and isinstance(parts.rest, ApproxDP):
            parts = replace(parts, measuring=replace(parts.measuring, delta=parts.rest.delta), reserve=0.0)
        return parts

    def facts(self) -> Any:
        """Return plain public values that tell this look from others."""
        return [self.choose, self.share, list(STARTS)]

    def check(self, schema: Schema, unit: Unit, *, two_levels: bool, alone: bool, reserve: float) -> None:
        """Refuse a look that has no meaning, or cannot share a budget, before anything is read.

        Parameters
        ----------
        alone
            Whether one model is fitted to a schema that is known.
        reserve
            Delta that the mechanism needs for itself.
        """
        if unit.id_column is None or two_levels:
            raise UsageError(
                "Rows are lost by a cut where rows of people are fitted (--id-column with --flat). Leave --rows-lost (rows_lost) out: nothing is cut here."
            )
        if schema.row_count is not None:
            raise UsageError(
                "The schema declares row_count, which is about rows, and the look counts people. Leave row_count out of the schema for this fit, or --rows-lost and "
                "--max-rows-per-person auto."
            )
        if not alone or reserve:
            raise UsageError(
                "--rows-lost and --max-rows-per-person auto go with one fit of a known schema: leave --sets and --discover out, and choose a method that needs no part of the delta for itself."
            )

    def planned_unit(self, unit: Unit) -> Unit:
        """Return the unit that a fit is planned with before the number of rows is known."""
        return replace(unit, max_rows=min(_USUAL, unit.max_rows)) if self.choose else unit

    def describe(self) -> str:
        """Say in advance what will be asked."""
        what = (
            f"chooses how many rows of a person count (at most {MOST_ROWS})"
            if self.choose
            else "estimates how many rows the cut leaves out"
        )
        return f"{self.share:.0%} of the budget counts people by their number of rows, each person once, and {what}."

    def notes(self, unit: Unit) -> list[str]:
        """Return what a plan says about the look."""
        usual = self.planned_unit(unit).max_rows
        shown = f"The plan is shown for {usual} rows of a person; noise grows with their number."
        return [self.describe(), *([shown] if self.choose else [])]

    def run(
        self, curator: Curator, ledger: Ledger, budget: Budget, rest: Budget
    ) -> tuple[Curator, Statistic]:
        """Measure, and return the curator that the fit goes on with, with what was released.

        Parameters
        ----------
        ledger
            The ledger that pays: it is told which number of rows was chosen.
        budget, rest
            What the look may spend, and what is left for the fit.

        Privacy
        -------
        In: private. Out: releasable counts, and a curator. One look at a histogram with the sensitivities of :meth:`~understudy.curator.Curator.people_by_rows`, charged before noise is drawn. The
        number of rows is a function of what was released and of public facts; :meth:`~understudy.curator.Curator.cut_to` has the bounds that go with it.
        """
        limited = curator.within(budget, scope="people")
        noise = noise_for(limited.accounting, replace(curator.unit, max_rows=1), limited.remaining)
        (answer,) = limited.measure_many(
            [limited.people_by_rows(STARTS)], noise=[noise], purpose="count people by their number of rows"
        )
        found = Statistic(PEOPLE, answer.values, answer.noise, answer.scale)
        if not self.choose:
            return curator, found
        chosen = choose_rows(found, curator.schema, curator.unit, rest)
        note = f"at most {chosen} rows of a person count, chosen from the counts of people by their number of rows"
        if all(entry.purpose != note for entry in ledger.entries()):
            ledger.note(note, scope="people")
        return curator.cut_to(chosen), found


def rows_per_person(model: Model) -> RowsPerPerson | None:
    """Return what a model says about the rows that its cut left out; None where nobody paid for that."""
    found = [item for item in model.statistics if item.name == PEOPLE]
    if not found or model.provenance.unit.id_column is None:
        return None
    return lost_by(found[-1], model.provenance.unit.max_rows)


def choose_rows(people: Statistic, schema: Schema, unit: Unit, budget: Budget) -> int:
    """Return how many rows of a person should count: the number with the least sum of what the cut and the noise do to pairs of columns.

    The cut to ``k`` rows moves pairs of columns by about a fifth of the share of rows that it leaves out. Noise grows with ``k``, over the rows that are left; it is that of the facts by which a
    method is chosen (`understudy.workflow.choice.Facts`). Where a replaced person may have one row only, the number of rows would be fixed; so at least
    two count there.

    Privacy
    -------
    In: released counts and public facts. Out: public.
    """
    facts = Facts.of(schema, unit=replace(unit, max_rows=1, id_column=unit.id_column), budget=budget)
    one = facts.pair_noise * facts.rows
    deviation = math.sqrt(people.variance)
    noisy = np.asarray(people.values, np.float64)
    seen = np.where(
        noisy > _CLEAR * deviation, noisy, 0.0
    )  # what cannot be told from nobody counts for nothing
    middle = rows_of_bins()
    rows = float(seen @ middle)
    if rows <= 0:
        return _least(unit)
    best, least = _least(unit), math.inf
    for k in range(_least(unit), unit.max_rows + 1):
        kept = float(seen @ np.minimum(middle, k))
        error = _BIAS * (1.0 - kept / rows) + min(1.0, k * one / max(1.0, kept))
        if error < least - 1e-12:
            best, least = k, error
    return best


def _least(unit: Unit) -> int:
    return 1 if unit.relation == "add-remove" else min(2, unit.max_rows)


def unit_with_look(
    given: Unit | str | Mapping[str, Any] | None, *, flat: bool, rows_lost: bool = False, **parts: Any
) -> tuple[Unit, CutLook | None]:
    """Return the unit of a fit, and the look at people's numbers of rows that goes before it, if one does.

    Parameters
    ----------
    given, parts
        As :meth:`understudy.privacy.Unit.of` takes them; ``max_rows`` may be ``"auto"``, among the fields or beside a relation.
    flat
        Whether rows are fitted. People with their rows need no choice: as many records of each count as is good, at no cost.
    rows_lost
        Whether an estimate of the rows that the cut leaves out is paid for.

    Examples
    --------
    >>> unit, look = unit_with_look("add-remove", flat=True, id_column="patient", max_rows="auto")
    >>> unit.max_rows, look.choose
    (64, True)
    """
    auto = False
    if isinstance(given, Mapping) and given.get("max_rows") == AUTO_ROWS:
        auto, given = True, {**given, "max_rows": MOST_ROWS if flat else USUAL_RECORDS}
    elif parts.get("max_rows") == AUTO_ROWS:
        auto, parts = True, {**parts, "max_rows": MOST_ROWS if flat else USUAL_RECORDS}
    unit = Unit.of(given, **parts)
    if auto and flat:
        return unit, CutLook(choose=True)
    return unit, CutLook() if rows_lost else None
