"""Noisy distances from independence for many pairs of columns, in one look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, SealedCounts, SealedScalar, scalar_noise
from understudy.errors import BudgetError
from understudy.marginals import Statistic, in_batches
from understudy.privacy import Accounting, Noise, Unit
from understudy.schema import Clique

# ----------------------------------------------------------------------------------------
# How far two columns are from independent, in rows: the sharp sensitivity of PrivSyn's InDif.
#
# Let ``c`` be the exact counts of two columns over ``n`` rows, ``a`` and ``b`` their one-way counts, ``p = a/n`` and
# ``q = b/n``. The gap is the L1 norm of ``d = c - a b' / n`` (zero for an empty table).
#
# **One row joins** ``n`` rows, in cell ``(i, j)``. With ``e_i`` for the unit vector,
#
#     (a + e_i)(b + e_j)' / (n+1) - a b' / n = (n (p e_j' + e_i q' - p q') + e_i e_j') / (n+1), so
#     d_new - d = n/(n+1) (e_i - p)(e_j - q)'.
#
# Its L1 norm is ``n/(n+1) |e_i - p|_1 |e_j - q|_1 = n/(n+1) · 2 (1 - p_i) · 2 (1 - q_j) < 4``, and the gap moves by no more
# than that. Four is approached: if the ``n`` rows are all alike, ``d = 0``, and a row that differs from them in both
# columns makes the gap ``4n/(n+1)``.
#
# **One row is replaced**, ``(i, j)`` by ``(k, l)``. Both tables are the same ``m = n - 1`` rows and one more, so
#
#     d_new - d_old = m/(m+1) (e_k e_l' - e_i e_j' - (e_k - e_i) q' - p (e_l - e_j)'),
#
# where the terms ``p q'`` cancel. Its L1 norm is at most ``m/(m+1) (2 + 2 + 2) < 6``: less than the 8 that removing and
# adding would give, and without the ``4/n`` that comes from changing both one-way tables at once.
#
# **A unit of k rows** that is replaced by one of at most ``k`` rows is a chain of at most ``k`` steps, each a replacement, an
# addition or a removal: at most ``6k``; one that joins or leaves is a chain of ``k`` additions or removals: at most ``4k``. None of
# these bounds depends on the number of rows.


def gap_sensitivity(unit: Unit) -> float:
    """Return the most that one unit can change an independence gap, in rows.

    Examples
    --------
    >>> gap_sensitivity(Unit.add_remove()), gap_sensitivity(Unit.replace_one())
    (4.0, 6.0)
    """
    return (4.0 if unit.relation == "add-remove" else 6.0) * unit.max_rows


def independence_gap(sealed: SealedCounts) -> SealedScalar:
    """Seal the L1 distance, in rows, between the counts of two columns and what independence would make of them.

    Privacy
    -------
    In: private. Out: under seal. One unit moves the number by at most :func:`gap_sensitivity`, proved at the head of
    this module: 4 for a row that is added or removed (the published value), 6 for one that is replaced.

    Examples
    --------
    >>> import numpy as np
    >>> from understudy.schema import Domain
    >>> domain, unit = Domain(("a", "b"), (2, 2)), Unit.add_remove()
    >>> counts = np.array([[5, 0], [0, 5]])
    >>> independence_gap(SealedCounts(counts, clique=("a", "b"), domain=domain, unit=unit, known_rows=None))
    SealedScalar(sensitivity=4)
    """
    if len(sealed.clique) != 2:
        raise BudgetError(f"An independence gap is about two columns, not {len(sealed.clique)}.")
    half = sealed.dependence(sealed.clique[:1])  # score R of PrivBayes is half of it
    return SealedScalar(2 * half._exact, sensitivity=gap_sensitivity(sealed._unit))


_CELLS_AT_ONCE = 20_000_000
"""Pairs are counted in batches of so many cells; only one number of each is kept."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Released distances from independence, in rows, one per pair."""

    pairs: tuple[Clique, ...]
    values: npt.NDArray[np.float64]

    @property
    def statistic(self) -> Statistic:
        """The numbers as they are kept in a model file."""
        return Statistic(f"distance from independence of {len(self.pairs)} pairs", self.values, "mechanism")


def gap_noises(accounting: Accounting, unit: Unit, cost: float, pairs: int) -> Noise:
    """Return the noise of each of several distances that share a cost equally, from public facts alone.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> round(gap_noises(PURE, Unit.add_remove(), 1.0, 10).scale, 2)
    40.0
    """
    share = accounting.split(cost, [1.0] * pairs)[0]
    return scalar_noise(accounting, share, gap_sensitivity(unit))


def measure_gaps(curator: Curator, pairs: Sequence[Clique], cost: float) -> Gaps:
    """Measure how far each pair of columns is from independent.

    Privacy
    -------
    In: private. Out: releasable. One number per pair, moved by at most 4 rows (6 for a replaced record) by one row
    (:mod:`understudy.mechanisms.graphs.look`), each with noise for an equal share of ``cost``, charged together before any is
    drawn.
    """
    sealed = [
        independence_gap(counts)
        for batch in in_batches(pairs, curator.domain.cells, most=_CELLS_AT_ONCE)
        for counts in curator.counts_many(batch)
    ]
    noise = gap_noises(curator.accounting, curator.unit, cost, len(pairs))
    values = curator.measure_scalars(
        sealed, noise=[noise] * len(pairs), purpose=f"measure the dependence of {len(pairs)} pairs of columns"
    )
    return Gaps(tuple(pairs), np.array(values))
