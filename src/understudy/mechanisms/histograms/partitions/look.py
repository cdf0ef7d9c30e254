"""Proved primitives for histograms that choose their own bins: bucket errors, bisections, merged cells.

**Errors as norms.** Give every bucket (a set of cells) the mean of its counts. The residual ``R c = c - mean`` is
an orthogonal projection of the counts ``c``. So:

- the *root squared error* ``|R c|_2`` moves by at most ``|R (c' - c)|_2 <= |c' - c|_2``, which is at most
  ``Unit.histogram_l2``: one for a row, whatever the counts are. The squared error itself, which Xu et al. score,
  moves by about twice the largest count and has no bound unless counts are capped;
- the *absolute error* ``|R c|_1`` moves by at most ``2 (1 - 1/w)`` per row, ``w`` being the size of the largest
  bucket: a row adds ``1 - 1/w`` to its own cell and takes ``1/w`` from the ``w - 1`` others.

The smallest error over any public family of partitions moves no further than the errors it is the smallest of.

**Capped squared error.** Cap counts at ``F`` first: ``c_i -> min(c_i, F)``. Capping moves no count further, so
neighbours are joined by at most ``histogram_l1`` single steps of one cell by one. A step from ``x`` to ``x + 1 <= F`` in
a bucket of ``m`` cells with mean ``μ`` changes the squared error by ``2 (x - μ) + 1 - 1/m``, where
``-F (1 - 1/m) <= x - μ <= (F - 1) (1 - 1/m)``: in absolute value at most ``(2F - 1) (1 - 1/m)``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Sealed, SealedCounts, SealedScalar
from understudy.curator.sealed import require_seals
from understudy.errors import BudgetError
from understudy.privacy.events import SelectionEvent
from understudy.privacy.exact_floats import float_up
from understudy.privacy.noise.selection import exponential_mechanism

_MOST_COUNT = 1 << 40
"""No count is taken for more when buckets are judged."""


def most_in_a_cell(cells: int) -> int:
    """Return where counts are capped before buckets of so many cells are judged, so that what doubles do to errors has a public bound.

    Examples
    --------
    >>> most_in_a_cell(64), most_in_a_cell(8192)
    (27148435253, 23575698)
    """
    return min(_MOST_COUNT, (1 << 44) // ((cells + 8) * (math.isqrt(cells) + 1)))


def merged_cells(sealed: SealedCounts, labels: npt.ArrayLike) -> SealedCounts:
    """Merge cells into public groups of any form: a coarser partition of the same rows.

    Parameters
    ----------
    sealed
        Exact counts. Private.
    labels
        The group of each cell, numbered from zero without gaps, in the shape of the counts.

    Returns
    -------
    SealedCounts
        One count per group, over one axis called ``groups``.

    Privacy
    -------
    In: private. Out: under seal. Every row lies in exactly one group, so the sensitivities are those of
    any histogram; a single group is the number of rows, which a unit changes by at most its rows.

    Examples
    --------
    >>> from understudy.privacy import Unit
    >>> from understudy.schema import Domain
    >>> counts = SealedCounts(np.array([[3, 1], [0, 2]]), clique=("a", "b"), domain=Domain(("a", "b"), (2, 2)),
    ...                       unit=Unit.replace_one(), known_rows=None)
    >>> merged_cells(counts, [[0, 1], [1, 1]])
    SealedCounts(('groups',), shape=(2,), l1=2)
    """
    which = np.asarray(labels, dtype=np.int64)
    groups = int(which.max(initial=-1)) + 1
    if which.shape != sealed.shape or which.min(initial=0) < 0 or len(np.unique(which)) != groups:
        raise BudgetError(
            f"The groups must number the cells of shape {sealed.shape} from zero, without gaps."
        )
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, which.ravel(), sealed._exact.ravel())
    coarse = object.__new__(SealedCounts)
    coarse._exact, coarse._unit, coarse._known_rows = sums, sealed._unit, sealed._known_rows
    coarse.clique, coarse.shape = ("groups",), sums.shape
    rows = float(sealed._unit.max_rows)
    coarse.l1, coarse.l2 = (rows, rows) if groups == 1 else (sealed.l1, sealed.l2)
    coarse.linf, coarse.cells = sealed.linf, sealed.cells
    return coarse


class SealedBuckets(Sealed):
    """Errors of the best ways to cut a range of adjacent cells into buckets, under seal.

    Parameters
    ----------
    sealed
        Exact counts over one axis. Private.
    cells
        How many of them, from the first, are cut; the others (such as missing values) are no neighbours.
    buckets
        Largest number of buckets.
    max_count
        ``None`` for the root squared error; otherwise counts are capped there and the error is the squared one.

    Attributes
    ----------
    sensitivity
        Most that one unit changes any of the errors; proof at the head of the module. Public.
    cells, buckets
        Public.

    Privacy
    -------
    In: private. Out: under seal. The errors of all partitions are found by dynamic programming over exact
    counts, which are capped at ``F``, which is :func:`most_in_a_cell` unless ``max_count`` says less: capping moves no two counts further apart.
    A squared error is a sum of numbers that are not negative. Over ``m`` cells each takes part in at most ``2 m + 8`` roundings of a double, so
    it is off by at most ``(2 m + 8) 2**-53`` of itself, and so is the least of several. It is at most ``m F²/4`` (a variance of numbers
    between 0 and ``F``), and its root, which is off by half as much of itself, at most ``F sqrt(m)/2``. Twice that width, less than
    ``2**-9`` of a row for roots, is part of the sensitivity.

    Examples
    --------
    >>> from understudy.privacy import Unit
    >>> from understudy.schema import Domain
    >>> counts = SealedCounts(np.array([5, 5, 0, 0]), clique=("a",), domain=Domain(("a",), (4,)),
    ...                       unit=Unit.add_remove(), known_rows=None)
    >>> round(SealedBuckets(counts, cells=4, buckets=2).sensitivity, 2)
    1.0
    >>> round(SealedBuckets(counts, cells=4, buckets=2, max_count=10).sensitivity, 6)
    14.25
    """

    __slots__ = ("_best", "_counts", "_root", "buckets", "cells", "sensitivity")

    def __init__(
        self, sealed: SealedCounts, *, cells: int, buckets: int, max_count: int | None = None
    ) -> None:

        from understudy.mechanisms.histograms.kernels import best_errors

        cells, buckets = int(cells), int(buckets)
        max_count = None if max_count is None else int(max_count)
        if len(sealed.shape) != 1 or not 1 <= cells <= sealed.shape[0]:
            raise BudgetError("Buckets need counts over one axis, of which at least one cell is cut.")
        if not 1 <= buckets <= cells:
            raise BudgetError(f"{cells} cells cannot be cut into {buckets} buckets.")
        self._root = max_count is None
        cap = most_in_a_cell(cells) if max_count is None else min(max_count, most_in_a_cell(cells))
        if cap < 1:
            raise BudgetError(f"max_count ({max_count}) must be at least 1.")
        counts = np.minimum(sealed._exact[:cells].astype(np.int64), cap)
        off = (2 * cells + 8) * Fraction(1, 1 << 53)
        if max_count is None:
            width = off / 2 * cap * (math.isqrt(cells) + 1) / 2
            self.sensitivity = float_up(Fraction(sealed.l2) + 2 * width)
        else:
            width = off * cells * cap * cap / 4
            reach = Fraction(sealed.l1) * (2 * cap - 1) * (1 - Fraction(1, cells))
            self.sensitivity = float_up(reach + 2 * width) if cells > 1 else 0.0
        self.cells, self.buckets = cells, buckets
        self._counts = counts
        self._best = best_errors(counts, buckets)

    def totals(self, candidates: Sequence[int]) -> list[SealedScalar]:
        """Return the error of the best partition into each of some numbers of buckets."""
        candidates = [int(number) for number in candidates]
        if not all(1 <= number <= self.buckets or number == self.cells for number in candidates):
            raise BudgetError(f"Numbers of buckets go from 1 to {self.buckets}, or one per cell.")
        exact = [
            0.0 if number == self.cells else float(self._best[number, self.cells]) for number in candidates
        ]
        return [self._sealed(error) for error in exact]

    def last_bucket(self, *, end: int, buckets: int) -> list[SealedScalar]:
        """Return the error of the first ``end`` cells for each start of their last bucket.

        The cells before the start are cut in the best way into ``buckets - 1`` buckets, so possible starts
        are ``buckets - 1``, ..., ``end - 1``, in this order.
        """

        from understudy.mechanisms.histograms.kernels import errors_up_to

        end, buckets = int(end), int(buckets)
        if not 2 <= buckets <= min(self.buckets, end) or end > self.cells:
            raise BudgetError(f"The first {end} cells cannot be cut into {buckets} buckets.")
        last = errors_up_to(self._counts, end)
        return [self._sealed(float(self._best[buckets - 1, q] + last[q])) for q in range(buckets - 1, end)]

    def _sealed(self, squared: float) -> SealedScalar:
        return SealedScalar(math.sqrt(squared) if self._root else squared, sensitivity=self.sensitivity)

    def __repr__(self) -> str:
        return f"SealedBuckets({self.cells} cells, up to {self.buckets} buckets)"


def bisect_ranges(
    curator: Curator,
    sealed: SealedCounts,
    parts: Sequence[tuple[int, int]],
    *,
    price: float,
    epsilon: float,
    purpose: str,
    singles: bool = False,
) -> list[list[int]]:
    """Choose, for each of several ranges of cells, where to cut it in two or to leave it whole; charge first.

    The score of an outcome is minus the sum over the resulting buckets of their absolute deviations from the mean
    plus ``price``: the rows that even buckets misplace, and the noise each bucket will get.

    Parameters
    ----------
    sealed
        Exact counts over one axis. Private.
    parts
        Disjoint ranges ``(first, end)`` of at least two cells. Public.
    price
        Expected absolute noise of one bucket. Public.
    epsilon
        Privacy parameter of all these choices together.
    singles
        Whether a range may also be cut into its single cells, which have no deviation.

    Returns
    -------
    list of lists of int
        For each range the first cells of all its new buckets but the first: none if it is left whole.

    Privacy
    -------
    In: private. Out: the cuts. All ranges together are *one* exponential mechanism: an outcome names a choice for
    each range, its score is the sum over ranges, and since that sum splits, each range can be drawn by itself with
    the same rate. The sum is minus the absolute error of one partition of disjoint buckets, plus public
    numbers, so it moves by at most ``D = 2 (1 - 1/w) histogram_l1`` (head of the module), also where a replaced
    row leaves one range and enters another: no factor for parallel parts is needed. The act is ``epsilon``-DP and
    ``epsilon``-bounded-range. *Rounding*: only the ``t`` ranges that a unit touches can move. The deviation of each bucket is a whole number
    over its number of cells; it is rounded down to ``2**-24`` of a row, so the two buckets of an outcome are off by less than ``2**-23``, and the
    score is rounded to at most ``2**-20`` of the sensitivity. The sensitivity ``D / (1 - 3 t 2**-20)`` covers both, as ``D >= 1``.
    """

    from understudy.mechanisms.histograms.kernels import SPLIT_BITS, split_deviations

    require_seals([sealed], SealedCounts)
    parts, epsilon, price = [(int(a), int(b)) for a, b in parts], float(epsilon), float(price)
    if len(sealed.shape) != 1 or not parts:
        raise BudgetError("Bisections need counts over one axis and at least one range.")
    ends = [0, *(place for part in sorted(parts) for place in part), sealed.shape[0]]
    if any(b < a for a, b in itertools.pairwise(ends)) or any(b - a < 2 for a, b in parts):
        raise BudgetError("The ranges must be disjoint, inside the cells, and hold at least two cells each.")
    if not (math.isfinite(epsilon) and epsilon > 0 and math.isfinite(price) and price >= 0):
        raise BudgetError("epsilon must be positive and finite, and the price of a bucket not negative.")
    widest = max(b - a for a, b in parts)
    steps = min(round(Fraction(price) * 2**SPLIT_BITS), 2**60 // widest)
    cap = min(_MOST_COUNT, 2**39 // widest)
    touched = min(len(parts), sealed._unit.parts_touched)
    sensitivity = 2.0 * (1.0 - 1.0 / widest) * sealed.l1 / (1.0 - 3 * touched * 2.0**-20)

    def choose(first: int, end: int) -> int:
        errors = split_deviations(np.minimum(sealed._exact[first:end].astype(np.int64), cap))
        errors += 2 * steps
        errors[0] -= steps  # one bucket instead of two
        if singles and end - first > 2:
            errors = np.append(errors, (end - first) * steps)
        return exponential_mechanism(
            -errors,
            epsilon=epsilon,
            sensitivity=sensitivity * 2.0**SPLIT_BITS,
            randomness=curator._randomness,
            score_error=0.0,
        )

    choices = curator._answer(
        SelectionEvent(epsilon),
        purpose=purpose,
        about=[sealed.clique, parts, price],
        draw=lambda: [choose(first, end) for first, end in parts],
    )
    return [
        list(range(first + 1, end)) if chosen == end - first else [first + chosen] if chosen else []
        for (first, end), chosen in zip(parts, choices, strict=True)
    ]
