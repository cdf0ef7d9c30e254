"""How far two columns are from independent, in rows: the sharp sensitivity of PrivSyn's InDif.

Let ``c`` be the exact counts of two columns over ``n`` rows, ``a`` and ``b`` their one-way counts, ``p = a/n`` and
``q = b/n``. The gap is the L1 norm of ``d = c - a b' / n`` (zero for an empty table).

**One row joins** ``n`` rows, in cell ``(i, j)``. With ``e_i`` for the unit vector,

    (a + e_i)(b + e_j)' / (n+1) - a b' / n = (n (p e_j' + e_i q' - p q') + e_i e_j') / (n+1), so
    d_new - d = n/(n+1) (e_i - p)(e_j - q)'.

Its L1 norm is ``n/(n+1) |e_i - p|_1 |e_j - q|_1 = n/(n+1) · 2 (1 - p_i) · 2 (1 - q_j) < 4``, and the gap moves by no more
than that. Four is approached: if the ``n`` rows are all alike, ``d = 0``, and a row that differs from them in both
columns makes the gap ``4n/(n+1)``.

**One row is replaced**, ``(i, j)`` by ``(k, l)``. Both tables are the same ``m = n - 1`` rows and one more, so

    d_new - d_old = m/(m+1) (e_k e_l' - e_i e_j' - (e_k - e_i) q' - p (e_l - e_j)'),

where the terms ``p q'`` cancel. Its L1 norm is at most ``m/(m+1) (2 + 2 + 2) < 6``: less than the 8 that removing and
adding would give, and without the ``4/n`` that comes from changing both one-way tables at once.

**A unit of k rows** that is replaced by one of at most ``k`` rows is a chain of at most ``k`` steps, each a replacement, an
addition or a removal: at most ``6k``; one that joins or leaves is a chain of ``k`` additions or removals: at most ``4k``. None of
these bounds depends on the number of rows.
"""

from __future__ import annotations

from understudy.curator.sealed import SealedCounts, SealedScalar
from understudy.errors import BudgetError
from understudy.privacy import Unit

__all__ = ["gap_sensitivity", "independence_gap"]


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
