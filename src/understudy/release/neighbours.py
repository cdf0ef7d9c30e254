"""Try a criterion on neighbouring tables: does one unit move it further than claimed?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from understudy.errors import BudgetError
from understudy.release.criteria.base import Criterion, Number
from understudy.release.record_types import IntArray, RecordTypes
from understudy.schema import Domain

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["Moves", "largest_moves", "neighbouring_tables"]


@dataclass(frozen=True)
class Moves:
    """The largest moves seen, as shares of what was claimed. Above 1, a claim is refuted."""

    value: float
    slack: float


def neighbouring_tables(
    domain: Domain, unit: Unit, *, rows: int, pairs: int, generator: np.random.Generator
) -> Iterator[tuple[RecordTypes, RecordTypes, RecordTypes]]:
    """Yield (real, neighbour, candidate) on simulated tables chosen to be difficult.

    Tables are uniform, skewed, or nearly constant, so that many cells and whole groups are absent from one or
    all of them; the unit's rows are often extreme. All three have ``rows`` rows, up to the unit's own.
    """
    for _ in range(pairs):
        candidate = _table(domain, rows, generator)
        kept = _table(domain, max(0, rows - unit.max_rows), generator)
        if generator.random() < 0.5:
            # start from the candidate, so that criteria are close to their thresholds
            kept = generator.permutation(candidate)[: len(kept)]
        leaving = _unit_rows(domain, _rows_of(unit, 1, generator), generator)
        # a replaced unit of several rows may come back with fewer, or none
        arriving = _unit_rows(domain, _rows_of(unit, 1 if unit.max_rows == 1 else 0, generator), generator)
        real = RecordTypes.from_rows(domain, np.concatenate([kept, leaving]))
        other = kept if unit.relation == "add-remove" else np.concatenate([kept, arriving])
        yield real, RecordTypes.from_rows(domain, other), RecordTypes.from_rows(domain, candidate)


def largest_moves(
    criterion: Criterion, domain: Domain, *, unit: Unit, rows: int = 40, pairs: int = 1000, seed: int = 0
) -> Moves:
    """Return the largest moves of a criterion over simulated neighbours, relative to its claims.

    What is tried is what a release adds noise to or chooses by: the `published_numbers`, and the slack, which must be a whole number, a fraction or infinite.

    A value above one refutes the claim; a value well below one says that the claim may be loose, or that the
    neighbours were too easy. It proves nothing: the docstring of a criterion has to.

    Raises
    ------
    BudgetError
        If a slack is a double with decimals.

    Examples
    --------
    >>> from understudy.privacy import Unit
    >>> from understudy.release import MaxMarginalError
    >>> criterion = MaxMarginalError(name="cells", threshold=0.1)
    >>> largest_moves(criterion, Domain(("a", "b"), (2, 3)), unit=Unit.replace_one(), pairs=100)
    Moves(value=1.0, slack=1.0)
    """
    generator = np.random.default_rng(seed)
    worst_value = worst_slack = 0.0
    tables = neighbouring_tables(domain, unit, rows=rows, pairs=pairs, generator=generator)
    for real, neighbour, candidate in tables:
        claims = criterion.published_sensitivities(unit, candidate)
        numbers = [criterion.published_numbers(table, candidate) for table in (real, neighbour)]
        for one, two, claimed in zip(*numbers, claims, strict=True):
            worst_value = max(worst_value, _share(one, two, claimed))
        slacks = criterion.slack(real, candidate), criterion.slack(neighbour, candidate)
        for slack in slacks:
            _require_exact(criterion, slack)
        worst_slack = max(worst_slack, _share(*slacks, criterion.slack_sensitivity(unit)))
    return Moves(float(round(worst_value, 5)), float(round(worst_slack, 5)))


def _require_exact(criterion: Criterion, slack: Number) -> None:
    """Refuse a slack that was rounded: what a unit moves it by could then be more than its proof says."""
    if isinstance(slack, float) and math.isfinite(slack) and not slack.is_integer():
        raise BudgetError(
            f"The slack of the criterion {criterion.name!r} ({type(criterion).__module__}.{type(criterion).__name__}) is a double on a made-up table "
            f"({slack:g}). It must be exact: a whole number, or a fraction such as Fraction(rows * self.threshold) - Fraction(moved, 2). Nothing was charged."
        )


def _share(one: Number, two: Number, claimed: float) -> float:
    """Return how far a number moved, as a share of what was claimed."""
    if one == two:
        return 0.0
    if claimed <= 0 or not (math.isfinite(one) and math.isfinite(two)):
        return math.inf
    return float(abs(Fraction(one) - Fraction(two)) / Fraction(claimed))


def _table(domain: Domain, rows: int, generator: np.random.Generator) -> IntArray:
    style = generator.integers(4)
    sizes = np.asarray(domain.sizes)
    if style == 0:
        return generator.integers(0, sizes, (rows, len(sizes)))
    skewed = np.minimum(generator.geometric(0.6, (rows, len(sizes))) - 1, sizes - 1)
    if style == 1:
        return np.asarray(skewed)
    if style == 2:
        return np.asarray(sizes - 1 - skewed)
    constant = generator.integers(0, sizes, (1, len(sizes)))
    return np.where(generator.random((rows, 1)) < 0.9, constant, skewed)


def _rows_of(unit: Unit, least: int, generator: np.random.Generator) -> int:
    """Return how many rows a unit has: all it may have, half of the time."""
    if generator.random() < 0.5:
        return unit.max_rows
    return int(generator.integers(least, unit.max_rows + 1))


def _unit_rows(domain: Domain, count: int, generator: np.random.Generator) -> IntArray:
    """Return rows in a corner of the domain, rows that are alike (where sums over rows move most), or any rows."""
    sizes = np.asarray(domain.sizes)
    style = generator.random()
    if style < 0.4:
        return np.tile(np.where(generator.random(len(sizes)) < 0.5, 0, sizes - 1), (count, 1))
    if style < 0.8:
        return np.tile(generator.integers(0, sizes), (count, 1))
    return generator.integers(0, sizes, (count, len(sizes)))
