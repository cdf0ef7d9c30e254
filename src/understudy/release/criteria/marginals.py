"""Maximal errors of marginals, absolute and relative (paper Births, section 4.5.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from understudy.errors import WorkloadError
from understudy.privacy.exact_floats import float_up
from understudy.release.criteria.base import (
    Criterion,
    CriterionConfig,
    CriterionContext,
    PlanFacts,
    ShareOfRows,
)
from understudy.release.criteria.groups import column_of
from understudy.release.record_types import IntArray, RecordTypes, record_keys
from understudy.release.spec.parts import Positive, Whole
from understudy.schema import Clique, Domain

if TYPE_CHECKING:
    from understudy.privacy import Unit
    from understudy.schema.entities import Entity

# ----------------------------------------------------------------------------------------
# Differences of marginals of two tables over the whole declared domain, absent cells included.

_DENSE_CELLS = 1 << 24
_MOST_CLIQUES = 100_000


def cliques_of_orders(domain: Domain, orders: Sequence[int] | None) -> list[Clique]:
    """Return the column sets of the given sizes (of all sizes by default), large ones first."""
    if too_many(domain, orders):
        raise WorkloadError(f"There are {too_many(domain, orders)}.")
    return [clique for k in _wanted(domain, orders) for clique in combinations(domain.names, k)]


def too_many(domain: Domain, orders: Sequence[int] | None) -> str:
    """Return what is wrong with asking for the marginals of the given orders, or nothing.

    Examples
    --------
    >>> too_many(Domain(tuple("abc"), (2, 2, 2)), None)
    ''
    """
    d = len(domain)
    if sum(math.comb(d, k) for k in _wanted(domain, orders)) <= _MOST_CLIQUES:
        return ""
    return f"more than {_MOST_CLIQUES:,} marginals of these orders over {d} columns; name fewer orders"


def _wanted(domain: Domain, orders: Sequence[int] | None) -> list[int]:
    d = len(domain)
    return sorted({min(k, d) for k in (range(1, d + 1) if orders is None else orders)}, reverse=True)


def differences(
    real: RecordTypes, synthetic: RecordTypes, cliques: Sequence[Clique]
) -> Iterator[tuple[Clique, IntArray]]:
    """Yield each clique with real minus synthetic counts, as a flat array.

    Cells that are absent from both tables have the difference zero. They are part of the array where the
    table of the clique is small enough, and left out otherwise; a cell that is present in one of the
    two tables is never left out.
    """
    domain = real.domain
    if domain.cells() <= _DENSE_CELLS:
        yield from _dense(real, synthetic, cliques)
        return
    weights = np.concatenate([real.counts, -synthetic.counts])
    for clique in cliques:
        columns = [domain.index(name) for name in clique]
        keys = np.concatenate(
            record_keys([real.codes[:, columns], synthetic.codes[:, columns]], domain.shape(clique))
        )
        if domain.cells(clique) <= _DENSE_CELLS:
            sums = np.bincount(keys, weights=weights, minlength=domain.cells(clique))
        else:
            sums = np.bincount(np.unique(keys, return_inverse=True)[1].reshape(-1), weights=weights)
        yield clique, np.rint(sums).astype(np.int64)


def _dense(
    real: RecordTypes, synthetic: RecordTypes, cliques: Sequence[Clique]
) -> Iterator[tuple[Clique, IntArray]]:
    """Sum the full table down to each clique, through the smallest table that is there already."""
    domain = real.domain
    full = np.zeros(domain.cells(), dtype=np.int64)
    full[real.keys()] += real.counts
    full[synthetic.keys()] -= synthetic.counts
    known: dict[Clique, IntArray] = {domain.names: full.reshape(domain.shape())}
    for clique in sorted(cliques, key=len, reverse=True):
        if clique not in known:
            inside = set(clique)
            parents = (other for other in known if inside <= set(other))
            parent = min(parents, key=lambda other: known[other].size)
            axes = tuple(axis for axis, name in enumerate(parent) if name not in inside)
            known[clique] = known[parent].sum(axis=axes)
        yield clique, known[clique].reshape(-1)


Ints = npt.NDArray[np.int64]

_PARTS = 1 << 20
"""Public limits of counts are whole numbers of this part of a record."""
_MOST_ROWS = 2.0**41
"""Limits and counts beyond are taken for this."""


@dataclass(frozen=True, kw_only=True)
class _Marginals(ShareOfRows):
    """Criteria over the cells of all marginals of some orders."""

    orders: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.orders is not None:
            if not self.orders or any(k < 1 for k in self.orders):
                raise WorkloadError(f"The orders of {self.name!r} must be one or more whole numbers from 1.")
            object.__setattr__(self, "orders", tuple(self.orders))

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        too_large = [k for k in self.orders or () if k > len(domain)]
        found = [f"there are no marginals of order {k} over {len(domain)} columns" for k in too_large]
        many = too_many(domain, self.orders)
        return [*found, f"there are {many}"] if many else found

    def _cliques(self, domain: Domain) -> list[Clique]:
        return cliques_of_orders(domain, self.orders)


class MarginalsConfig(CriterionConfig):
    """Configuration of criteria over the cells of all marginals of some orders."""

    measured_in: ClassVar[str] = "share of rows"

    orders: list[Whole] | None = Field(
        None, description="Numbers of columns of the marginals; all by default."
    )

    @property
    def _orders(self) -> tuple[int, ...] | None:
        return None if self.orders is None else tuple(self.orders)

    @property
    def ways(self) -> str:
        """The orders of the marginals, for people."""
        return "all k-way" if self.orders is None else f"{', '.join(map(str, self.orders))}-way"


class MaxMarginalConfig(MarginalsConfig):
    """Largest error of a cell of any marginal, as a share of the rows."""

    family: ClassVar[str] = "Maximal error of marginals"

    kind: Literal["max-marginal-error"]

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"absolute, {self.ways}"

    @classmethod
    def subject(cls, given: Mapping[str, Any], entity: Entity | None) -> str:
        """Say what a criterion as it was written looks at, for people who know the table.

        Examples
        --------
        >>> MaxMarginalConfig.subject({"orders": [1, 2]}, None)
        'Every share of rows, by 1 or 2 columns together'
        """
        ways = " or ".join(map(str, given.get("orders") or ())) or "any number of"
        columns = "column" if ways == "1" else "columns together"
        return f"Every share of {'rows' if entity is None else 'event records'}, by {ways} {columns}"

    def build(self, context: CriterionContext) -> MaxMarginalError:
        """Return the criterion."""
        return MaxMarginalError(name=self.name, threshold=self.threshold, orders=self._orders)


class RelativeMarginalConfig(CriterionConfig):
    """Largest factor by which the count of a value of any column is wrong."""

    family: ClassVar[str] = "Maximal error of marginals"
    measured_in: ClassVar[str] = "factor"

    kind: Literal["relative-marginal-error"]
    clip: Positive = Field(description="Upper end of the published value; at least the threshold.")
    columns: list[str] | None = Field(None, description="The columns looked at; all by default.")

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return "relative, 1-way"

    def build(self, context: CriterionContext) -> RelativeMarginalError:
        """Return the criterion."""
        for name in self.columns or ():
            column_of(context.schema, name)
        return RelativeMarginalError(
            name=self.name,
            threshold=self.threshold,
            clip=self.clip,
            columns=None if self.columns is None else tuple(self.columns),
        )


def beside_marginals(others: Sequence[CriterionConfig], *, published: bool) -> list[str]:
    """Warn of a criterion whose published form relies on a bound of all marginals, if no other criterion keeps one."""
    if published and not any(isinstance(other, MaxMarginalConfig) for other in others):
        return ["Resized means rely on a maximal marginal error criterion beside them; there is none."]
    return []


@dataclass(frozen=True, kw_only=True)
class MaxMarginalError(_Marginals):
    """The largest difference of a cell of any marginal, as a share of the rows.

    ``max |q(R) - q(S)| / n`` over all cells ``q`` of all marginals of the given orders, over the *declared
    domain*: a cell that occurs in one table only counts in full. (The published code of paper Births dropped
    such cells; one record then moved the error by almost one half.)

    Parameters
    ----------
    threshold
        Largest error, as a share of the rows (the paper: .01).
    orders
        Numbers of columns of the marginals; all by default.

    Privacy
    -------
    *Sensitivity* ``k/n``. A step changes each count ``q(R)`` by at most one, hence each ``|q(R) - q(S)|`` by
    at most one by the triangle inequality, hence their maximum by at most one: if ``f_i <= f'_i + 1`` for all
    ``i`` then ``max f <= max f' + 1``, and the other way round. Adding a row under add-remove changes
    counts by at most one as well; ``n`` is the public number of rows of the candidate in both relations.

    *Slack* ``n T - max |q(R) - q(S)|`` is positive exactly when the criterion is met and has step
    sensitivity 1 by the same argument. It is attained when all of the error sits in one cell.

    Examples
    --------
    >>> domain = Domain(("a",), (3,))
    >>> real = RecordTypes.from_rows(domain, [[0], [0], [1], [1]])
    >>> synthetic = RecordTypes.from_rows(domain, [[0], [0], [2], [2]])
    >>> criterion = MaxMarginalError(name="cells", threshold=0.6)
    >>> criterion.value(real, synthetic), round(float(criterion.slack(real, synthetic)), 6)
    (0.5, 0.4)
    """

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the largest error of a cell as a share of the rows. Private."""
        return float(self.released_value(real, synthetic))

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return the largest error of a cell as an exact share of the rows. Private."""
        return Fraction(self._largest(real, synthetic), synthetic.rows)

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the rows per unit over the rows."""
        return float_up(Fraction(unit.max_rows, n))

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return how many records may move before a cell is too wrong. Private."""
        return Fraction(synthetic.rows * self.threshold) - self._largest(real, synthetic)

    def _largest(self, real: RecordTypes, synthetic: RecordTypes) -> int:
        self.require(real, synthetic)
        largest = 0
        for _, difference in differences(real, synthetic, self._cliques(real.domain)):
            if len(difference):
                largest = max(largest, int(difference.max()), -int(difference.min()))
        return largest


@dataclass(frozen=True, kw_only=True)
class RelativeMarginalError(Criterion):
    """The largest factor by which the smoothed count of a value of any column is wrong.

    ``max((r + 1)/(s + 1), (s + 1)/(r + 1))`` over all values of all columns of the declared domain, those
    absent from one or both tables included, where ``r`` and ``s`` are the counts in the real and in the
    synthetic table. The published form is clipped to ``[1, clip]``.

    Parameters
    ----------
    threshold
        Largest factor, more than 1. Published and clipped, it must not exceed ``clip``.
    clip
        Upper end of the published value. The unclipped error has a sensitivity of the order of ``n``
        (Proposition 4). A clipped error cannot tell bad from worse, so use `recommended_threshold` with
        ``wanted=clip``.
    columns
        The columns looked at; all by default.

    Privacy
    -------
    *Sensitivity.* A unit moves the count ``r`` of a value by at most ``k`` in either relation, and the clipped
    error of a value depends on ``r`` only. So the sensitivity is the largest
    ``|e_s(r + j) - e_s(r)|`` over ``j <= k``, over all ``r >= 0`` and over the counts ``s`` that occur in the
    candidate (zero for a value it lacks): a maximum moves no more than its parts. It is found by
    enumeration, see `clipped_ratio_sensitivity`; the closed form of Proposition 5 is an upper bound for ``k = 1``.

    *Slack* ``min(T (s + 1) - (r + 1), (r + 1) - (s + 1)/T)`` over all values. Each term is positive exactly
    when one of the two ratios is below ``T``, and has slope 1 or -1 in ``r``, which a step moves by at most one. The public numbers
    ``T (s + 1)`` and ``(s + 1)/T`` are rounded to ``2**-20`` of a record, away from what the candidate gains by.

    Examples
    --------
    >>> domain = Domain(("a",), (3,))
    >>> real = RecordTypes(domain, [[0], [1]], [9, 4])
    >>> synthetic = RecordTypes(domain, [[0], [1]], [7, 6])
    >>> criterion = RelativeMarginalError(name="bins", threshold=1.5, clip=2.0)
    >>> criterion.value(real, synthetic)
    1.4
    >>> round(float(criterion.slack(real, synthetic)), 3)
    0.333
    """

    least_error: ClassVar[float] = 1.0

    clip: float
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.threshold > 1:
            raise WorkloadError(f"The threshold of {self.name!r} ({self.threshold}) is a factor above 1.")
        if not (np.isfinite(self.clip) and self.clip >= self.threshold):
            raise WorkloadError(
                f"{self.name!r} is clipped at {self.clip:g}, below its threshold {self.threshold:g}: raise clip."
            )

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        return [f"no column named {name!r}" for name in self.columns or () if name not in domain]

    @property
    def bounds(self) -> tuple[float, float]:
        """Range of the clipped factor."""
        return 1.0, self.clip

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the largest factor, unclipped. Private."""
        return float(self._largest(real, synthetic))

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return the largest factor, clipped to ``[1, clip]``. Private."""
        return min(self._largest(real, synthetic), Fraction(self.clip))

    def _largest(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return the largest factor exactly: doubles find the few that may be it, fractions decide between these."""
        r, s = (counts + 1 for counts in self._counts(real, synthetic))
        larger, smaller = np.maximum(r, s), np.minimum(r, s)
        ratios = larger / smaller
        nearly = ratios >= ratios.max(initial=1.0) * (1 - 2.0**-50)
        pairs = {*zip(larger[nearly].tolist(), smaller[nearly].tolist(), strict=True)}
        return max((Fraction(a, b) for a, b in pairs), default=Fraction(1))

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the largest change of the clipped factor, by enumeration over the candidate's counts."""
        if synthetic is None:
            return float_up(Fraction(self.clip) - 1)
        self.require(synthetic)
        counts = self._counts(synthetic, synthetic)[1]
        return clipped_ratio_sensitivity(counts, clip=self.clip, rows_per_unit=unit.max_rows)

    def needs(self, slack: float, n: int | None) -> str:
        """Say how many rows the rarest value must have."""
        return f"{math.ceil(slack / (1 - 1 / self.threshold)):,} rows in the rarest value"

    def planned_sensitivity(self, facts: PlanFacts) -> float | None:
        """Return the sensitivity for the counts of the example, or for an assumed count of the rarest value."""
        if facts.example is not None:
            return super().planned_sensitivity(facts)
        return clipped_ratio_sensitivity([facts.smallest], clip=self.clip, rows_per_unit=facts.unit.max_rows)

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction | float:
        """Return how many records may move before a value is too wrong. Private."""
        r, s = (counts + 1 for counts in self._counts(real, synthetic))
        if not len(r):
            return math.inf
        with np.errstate(over="ignore"):
            most = np.floor(np.minimum(s * self.threshold, _MOST_ROWS) * _PARTS).astype(np.int64)
        least = np.ceil(s / self.threshold * _PARTS).astype(np.int64)
        steps = np.minimum(r, int(_MOST_ROWS)) * _PARTS
        return Fraction(int(np.minimum(most - steps, steps - least).min()), _PARTS)

    def _counts(self, real: RecordTypes, synthetic: RecordTypes) -> tuple[Ints, Ints]:
        self.require(real, synthetic)
        names = real.domain.names if self.columns is None else self.columns
        if not names:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        tables = [np.concatenate([table.marginal((name,)) for name in names]) for table in (real, synthetic)]
        return tables[0], tables[1]


def clipped_ratio_sensitivity(counts: npt.ArrayLike, *, clip: float, rows_per_unit: int = 1) -> float:
    """Return the largest change of ``clip(max((r+1)/(s+1), (s+1)/(r+1)))`` when ``r`` moves by a few rows.

    The error ``e_s(r)`` is constant at ``clip`` up to ``r + 1 = (s + 1)/clip``, falls convexly to 1 at
    ``r = s``, rises with slope ``1/(s + 1)`` to ``clip`` at ``r + 1 = clip (s + 1)``, and stays there. On the rising side ``k`` rows change it
    by at most ``min(clip - 1, k/(s + 1))``. On the falling side, which is convex from the last ``r`` with the value ``clip`` on, a window of ``k`` rows
    changes it most where it begins highest: at that ``r``, or, since the value before it is cut, at the next one. A window
    that reaches beyond ``r = s`` changes it by less than its longer side. Computed in fractions and rounded up.

    Parameters
    ----------
    counts
        The counts ``s`` of the candidate, zeros included.
    clip
        Upper end of the clipped ratio.
    rows_per_unit
        ``k``.

    Examples
    --------
    >>> round(clipped_ratio_sensitivity([50, 900], clip=2.0), 4)
    0.0726
    """
    k, top = int(rows_per_unit), Fraction(clip)
    largest = Fraction(0)
    for s in {int(count) for count in np.unique(np.asarray(counts, dtype=np.int64))}:
        last = math.floor((s + 1) / top) - 1  # the last r where the falling side is cut, -1 if none is
        rising = min(top - 1, Fraction(k, s + 1))
        largest = max(largest, rising)
        for r in (max(last, 0), last + 1):
            if r < s:
                largest = max(largest, min(top, Fraction(s + 1, r + 1)) - Fraction(s + 1, min(r + k, s) + 1))
    return float_up(largest)


def proposition_5(smallest_count: int, *, clip: float) -> float:
    """Return the closed form of paper Births, Proposition 5: an upper bound for units of one row.

    Examples
    --------
    >>> round(proposition_5(50, clip=2.0), 4)
    0.0755
    """
    share = 1 / (smallest_count + 1)
    return max(share, clip - 1 / (1 / clip + share))
