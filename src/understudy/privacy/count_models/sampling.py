"""Exact draws of redrawn cells: integers from random words, in one pass over a table of any number of cells.

Privacy
-------
*Law of the draws.* Cells with equal counts share one table of cumulative weights, computed in double-double arithmetic by the
recurrence of the family. A cell uses 106 random bits ``u`` and becomes the first ``b`` whose cumulative weight exceeds ``u``
times the total. The law of the result differs from the stated one by

- rounding: each step has at most eight operations with a relative error below ``2**-100``; errors of the state of a recurrence
  enter later steps with a factor of at most one (:mod:`~understudy.privacy.count_models.probabilities`), so after ``N`` steps a
  weight is wrong by less than ``8 N^2 2**-100`` of itself where there is a recurrence and ``8 N 2**-100`` where not. With tables
  shorter than ``2**24`` that is below ``2**-49`` and ``2**-73``; the first is charged as a *relative* error;
- what the table leaves out: below ``2**-110`` of the total above, ``exp(-80)`` below;
- the grid of ``u``: ``2**-106`` per entry, below ``2**-82`` in all;
- for Sichel, the Bessel functions at the start: a relative error of ``1e-12`` in at most ``|nu| + 2`` ratios, which decays in later
  ones like ``exp(-b^2/z)``; with ``sigma >= 1e-6`` and tables of this length ``z`` is below ``1e7``, so it adds up to less than ``1e-8``.

So every law that is drawn from lies within total variation ``TOTAL_VARIATION = 2**-72`` of a law whose probabilities are
those stated up to a factor of ``1 +- relative_error(law)``. If ``t`` cells can differ between neighbours, a guarantee ``(e, d)`` of
the stated laws gives ``(e + 2 t relative, d (1 + t relative) + t (1 + exp(e + 2 t relative)) 2**-72)`` for what is drawn:
:func:`released_delta` charges that. There is no floating-point noise whose low bits could carry the count: the output is
an index into a table that is the same for all cells with that count.

*Absent cells* have count zero and are redrawn like all others. *Very full cells* would need tables beyond ``2**24`` entries;
to refuse them would reveal them, so counts are cut at :func:`largest_count`, a function of the law alone. Cut counts of
neighbours differ by at most as much as before, and a smaller step reveals less: ``P_{m+s}(b >= t)`` rises with ``s``.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy.count_models.divergence import true_delta
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.count_models.probabilities import first_count, last_count
from understudy.privacy.randomness import Randomness
from understudy.privacy.unit import Unit

IntArray = npt.NDArray[np.int64]

TOTAL_VARIATION = 2.0**-72
_LONGEST = 1 << 24
_CELLS_PER_BATCH = 1 << 22


def relative_error(law: CountLaw) -> float:
    """Return how far, relatively, the probabilities of the draws may be from those of the law."""
    if law.kind < 2:
        return 0.0
    return 2.0**-48 + (1e-8 if law.kind == 4 else 0.0)


def released_delta(law: CountLaw, epsilon: float, unit: Unit) -> float:
    """Return the ``delta`` of the draws themselves at ``epsilon``: the true one, plus what sampling may add.

    Examples
    --------
    >>> law = CountLaw("poisson", 0.1)
    >>> released_delta(law, 3.0, Unit.add_remove()) - true_delta(law, 3.0, Unit.add_remove()) < 1e-19
    True
    """
    touched = unit.parts_touched
    slack = 2 * touched * relative_error(law)
    if epsilon <= slack:
        return 1.0
    exact = true_delta(law, epsilon - slack, unit) * (1 + touched * relative_error(law))
    return min(1.0, exact + touched * (1 + math.exp(epsilon)) * TOTAL_VARIATION * (1 + 1e-12))


def draw_counts(law: CountLaw, counts: IntArray, randomness: Randomness) -> IntArray:
    """Redraw every cell of a table of counts.

    Parameters
    ----------
    law
        How cells are redrawn.
    counts
        Exact counts of *all* cells of the domain, empty ones included. Private.
    randomness
        Two words per cell.

    Returns
    -------
    array of int64, the shape of ``counts``

    Privacy
    -------
    In: private. Out: releasable at the cost of :func:`released_delta`, which the caller charges first.

    Examples
    --------
    >>> from understudy.privacy.randomness import SeededRandomness
    >>> draw_counts(CountLaw("poisson", 0.5), np.array([0, 0, 9]), SeededRandomness(1)).shape
    (3,)
    """
    flat = np.ascontiguousarray(counts, dtype=np.int64).ravel()
    if flat.size and int(flat.min()) < 0:
        raise BudgetError("Counts must not be negative.")
    flat = np.minimum(flat, largest_count(law))
    out = np.empty(flat.size, dtype=np.int64)
    occupied = np.flatnonzero(flat)
    empty = np.flatnonzero(flat == 0)
    for start in range(0, empty.size, _CELLS_PER_BATCH):
        cells = empty[start : start + _CELLS_PER_BATCH]
        out[cells] = _draw(law, np.zeros(1, np.int64), np.array([0, cells.size]), randomness)
    if occupied.size:
        order = occupied[np.argsort(flat[occupied], kind="stable")]
        values, first = np.unique(flat[order], return_index=True)
        out[order] = _draw(law, values, np.append(first, order.size), randomness)
    return out.reshape(counts.shape)


@lru_cache(maxsize=64)
def largest_count(law: CountLaw) -> int:
    """Return the largest count that is redrawn as it is; fuller cells are redrawn as if they held this many.

    Examples
    --------
    >>> largest_count(CountLaw("poisson", 1.0)) > 10**9
    True
    """
    numbers = _numbers(law)

    def fits(count: int) -> bool:
        mean = count + law.alpha
        return last_count(law, mean, numbers, nats=90.0) - first_count(law, mean) < _LONGEST

    if not fits(0):
        raise NoSuchGuarantee(
            f"Even an empty cell spreads over more than {_LONGEST:,} counts under the law {law.describe()}. Use a larger "
            "epsilon or delta, or a smaller sigma."
        )
    low, high = 0, 1 << 48
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _numbers(law: CountLaw) -> tuple[float, float, float, float]:
    """Return ``sigma, nu, psi, chi`` as the compiled code wants them."""
    if law.kind in (2, 4):
        return (law.sigma or 0.0, *law.mixing)
    return law.sigma or 0.0, law.nu or 0.0, 0.0, 0.0


def _draw(law: CountLaw, values: IntArray, starts: IntArray, randomness: Randomness) -> IntArray:
    """Redraw cells in groups of equal counts."""
    from understudy.privacy.count_models._dd_kernels import draw_groups

    sigma, nu, psi, chi = _numbers(law)
    means = values.astype(np.float64) + law.alpha
    ratios = law.first_ratios(means if law.kind == 4 else means[:1])
    firsts = np.array([first_count(law, float(mean)) for mean in means], dtype=np.int64)
    words = randomness.words(2 * int(starts[-1]))
    out = np.empty(int(starts[-1]), dtype=np.int64)
    draw_groups(
        law.kind, law.alpha, sigma, nu, psi, chi, values, firsts, starts.astype(np.int64), ratios, words, out
    )
    return out
