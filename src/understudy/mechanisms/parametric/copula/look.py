"""Rank correlations of pairs of columns, with or without a partition of the records.

For ``n`` records write ``S`` for the sum over all pairs of records of ``sgn(x_i - x_j) sgn(y_i - y_j)``. Kendall's tau
is ``2 S / (n (n - 1))``. What is sealed here is **n times tau**, ``2 S / (n - 1)`` (zero where ``n < 2``), because
its change between neighbours does not depend on ``n``, so that nothing need be known about the number of rows.

**Adding one record** to ``n >= 2``: the new record forms ``n`` pairs, so ``S`` becomes ``S + s`` with ``|s| <= n``, and
``2 (S + s)/n - 2 S/(n - 1) = 2 s/n - tau``, which lies between -3 and 3. From one record to two it lies between
-2 and 2. For tau itself the same step gives ``|tau' - tau| <= 4/(n + 1)`` (Li, Xiong and Jiang 2014), which
cannot be used as it stands where ``n`` is private.

**Replacing one of n records**: at most ``n - 1`` terms change, each by at most 2, so ``n tau`` changes by at most
``2 * 2 (n - 1)/(n - 1) = 4``. Where the replaced record may go from one part to another, or be left out, it is one
removal and one addition: ``3 + 3``.

Records may be left out of a pair of columns (missing entries): their terms are zero, which only shrinks the sums,
while ``n`` counts all records of the part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Reach, SealedNumbers
from understudy.data import Table
from understudy.errors import BudgetError
from understudy.marginals.counting import cell_numbers
from understudy.privacy import Accounting, Gaussian, Laplace, Noise, Unit
from understudy.privacy.own import own
from understudy.schema import Domain

Ints = npt.NDArray[np.int64]

STEPS = 1 << 16
"""``n tau`` is rounded to this share of one before whole-number noise is added."""
_LARGEST_SCALE = 2.0**40


@dataclass(frozen=True, eq=False)
class Ranks:
    """How the codes of a column are ranked in each part of the table. Public.

    Attributes
    ----------
    column
        The column.
    labels
        Rank of each code in each part, of shape (parts, codes); equal ranks are ties, and a negative rank leaves
        the record out.
    """

    column: str
    labels: Ints

    def __post_init__(self) -> None:
        labels = np.atleast_2d(np.asarray(self.labels, dtype=np.int64))
        labels.flags.writeable = False
        object.__setattr__(self, "labels", labels)


def concordance_bounds(
    unit: Unit, *, pairs: int, parts: int, per_part: bool, rows_fixed: bool
) -> tuple[float, float]:
    """Return the L1 and L2 change between neighbours of all ``n tau``, in steps of the grid.

    Parameters
    ----------
    pairs, parts
        Number of pairs of columns, and of parts of the table.
    per_part
        Whether the numbers of the parts are kept apart, or added up.
    rows_fixed
        Whether all neighbours have equally many rows (replace-one, one row per unit, none left out).

    Privacy
    -------
    One record changes the numbers of its own part only. *Add-remove*: each pair's number changes by at most 3, by
    3 ``pairs`` in L1 and 3 sqrt(``pairs``) in L2, and ``k`` records by ``k`` times as much. *Replace-one* with a fixed
    number of rows and one part: 4 in place of 3. Otherwise one removal and one addition: 6 in L1; in L2 6 where
    both meet in one number, and ``3 sqrt(2)`` where they fall on different parts that are kept apart (a
    replacement within a part is at most 4, which is less). Several records per unit: every one of the ``k`` removals
    and ``k`` additions is a step of at most 3, ``6 k`` in both norms. Rounding to the grid adds at most one step
    to each pair's number in each part that a unit can touch.

    Examples
    --------
    >>> l1, l2 = concordance_bounds(Unit.add_remove(), pairs=4, parts=1, per_part=False, rows_fixed=False)
    >>> round(l1 / STEPS, 3), round(l2 / STEPS, 3)
    (12.0, 6.0)
    """
    apart = per_part and parts > 1
    k = unit.max_rows
    if unit.relation == "add-remove":
        l1, l2 = 3.0 * k, 3.0 * k
    elif k == 1 and rows_fixed and parts == 1:
        l1, l2 = 4.0, 4.0
    elif k == 1 and apart:
        l1, l2 = 6.0, 3.0 * math.sqrt(2.0)
    else:
        l1, l2 = 6.0 * k, 6.0 * k
    touched = min(unit.parts_touched, parts)  # each of their numbers may be rounded the other way
    slack = 1 + 2.0**-40
    return (
        (l1 * STEPS + touched) * pairs * slack,
        (l2 * STEPS + (math.sqrt(touched) if apart else touched)) * math.sqrt(pairs) * slack,
    )


def concordance_noise(accounting: Accounting, bounds: tuple[float, float], cost: float) -> Noise:
    """Return the noise, in steps of the grid, for numbers with these bounds. From public facts alone."""
    if accounting.name == "pure":
        scale = accounting.laplace_scale(cost, bounds[0])
    else:
        scale = accounting.gaussian_sigma(cost, bounds[1])
    if scale > _LARGEST_SCALE:
        raise BudgetError("The budget is too small to measure correlations: the noise would hide everything.")
    return Laplace(scale) if accounting.name == "pure" else Gaussian(scale)


def seal_concordance(
    curator: Curator,
    ranks: Sequence[Ranks],
    pairs: Sequence[tuple[int, int]],
    *,
    partition: Sequence[str] = (),
    per_part: bool = False,
) -> SealedNumbers:
    """Seal ``n tau`` of pairs of ranked columns, in each cell of a partition or added up over its cells.

    The numbers have the shape (parts, pairs) and are in steps of the grid: divide by ``STEPS``.

    Parameters
    ----------
    ranks
        The ranked columns; the labels have one row, or one per cell of the partition.
    pairs
        Pairs of places in ``ranks``.
    partition
        Columns whose combinations of codes are the parts.
    per_part
        Whether the parts are kept apart; otherwise their ``n tau`` are added up.

    Privacy
    -------
    In: private. Out: under seal; bounds and proof in :func:`concordance_bounds`. The sums are computed in
    whole numbers and divided exactly, so rounding to the grid is the only error.
    """
    domain, ranks = curator.domain, [own(item, Ranks) for item in ranks]
    pairs, per_part = [(int(one), int(two)) for one, two in pairs], bool(per_part)
    clique = domain.canonical(partition)
    parts = domain.cells(clique) if clique else 1
    for item in ranks:
        if item.labels.shape not in {(1, domain.size(item.column)), (parts, domain.size(item.column))}:
            raise BudgetError(f"The ranks of {item.column!r} do not fit its codes and the parts.")
    if not pairs:
        raise BudgetError("There are no pairs of columns to correlate.")
    tables, rows = _tables(curator._table, domain, ranks, pairs, clique, parts)
    exact = np.zeros((parts, len(pairs)), dtype=np.int64)
    for place, table in enumerate(tables):
        for part in range(parts):
            n = int(rows[part])
            if n > 1:
                exact[part, place] = round(Fraction(2 * STEPS * concordance(table[part]), n - 1))
    if not per_part:
        exact = exact.sum(axis=0, keepdims=True)
    l1, l2 = concordance_bounds(
        curator.unit, pairs=len(pairs), parts=parts, per_part=per_part, rows_fixed=curator.rows.fixed
    )
    return SealedNumbers(exact, name=f"rows times Kendall's tau of {len(pairs)} pairs", reach=Reach(l1, l2))


def concordance(table: Ints) -> int:
    """Return the number of concordant less that of discordant pairs of records, from a table of ranks.

    Examples
    --------
    >>> concordance(np.array([[2, 0], [1, 3]]))
    6
    """
    above = np.flip(np.cumsum(np.flip(table, 0), axis=0), 0)
    above = np.concatenate([above[1:], np.zeros_like(table[:1])])  # rows of higher left rank, by right rank
    running = np.cumsum(above, axis=1)
    higher = running[:, -1:] - running
    lower = running - above
    total = 0
    for counts, difference in zip(table, higher - lower, strict=True):  # whole numbers of any size
        total += sum(int(a) * int(b) for a, b in zip(counts.tolist(), difference.tolist(), strict=True) if a)
    return total


def _tables(
    table: Table,
    domain: Domain,
    ranks: Sequence[Ranks],
    pairs: Sequence[tuple[int, int]],
    clique: tuple[str, ...],
    parts: int,
) -> tuple[list[Ints], Ints]:
    """Count the ranks of every pair of columns in every part, in one pass over the records."""
    sizes = [max(1, int(item.labels.max()) + 1) for item in ranks]
    made = [np.zeros((parts, sizes[i], sizes[j]), dtype=np.int64) for i, j in pairs]
    rows = np.zeros(parts, dtype=np.int64)
    columns = domain.canonical({*clique, *(item.column for item in ranks)})
    for chunk in table.chunks(columns):
        part = cell_numbers(domain, chunk, clique)
        rows += np.bincount(part, minlength=parts)
        seen = [item.labels[part if len(item.labels) > 1 else 0, chunk[item.column]] for item in ranks]
        for counts, (i, j) in zip(made, pairs, strict=True):
            both = (seen[i] >= 0) & (seen[j] >= 0)
            cell = (part[both] * sizes[i] + seen[i][both]) * sizes[j] + seen[j][both]
            counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
    return made, rows
