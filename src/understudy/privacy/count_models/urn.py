"""Pólya's urn: exact draws of synthetic counts from a multinomial with a Dirichlet prior.

The multinomial-Dirichlet synthesizer draws cell probabilities from the posterior ``Dirichlet(a + alpha)`` and then ``m`` records
from them. The probabilities are not published, so the law of the synthetic counts ``b`` is the Dirichlet-multinomial, which is
that of an urn: record ``j`` falls into cell ``i`` with probability ``(a_i + alpha + records of earlier draws in i) / (n + K alpha + j)``.
An urn needs whole numbers only: ``alpha`` is a fraction with a power of two below, and each draw is one uniform integer.

Privacy
-------
``P(b | a) = c(b) Gamma(A)/Gamma(A + m) prod_i Gamma(a_i + alpha + b_i)/Gamma(a_i + alpha)`` with ``A = n + K alpha``, for a *public* ``m``.

*Replacing a row* (``n`` stays): the ratio of likelihoods is ``(1 + b_k/(a_k - 1 + alpha)) / (1 + b_l/(a_l + alpha))`` for a row that
leaves cell ``k`` for cell ``l``. As ``a_k >= 1`` and ``b_k <= m`` it is at most ``1 + m/alpha``, and so is its reciprocal.

*Adding a row* to cell ``k`` changes ``A`` too: the ratio is ``(1 + b_k/(a_k + alpha)) (A/(A + m))`` with the numbers before. It is at
most ``1 + m/alpha``, and its reciprocal is at most ``1 + m/A <= 1 + m/(K alpha)``. The paper leaves the second factor out, which
does not change the condition.

Hence ``epsilon = ln(1 + m/alpha)`` for one row under either relation; it is reached for ``b_k = m`` in an otherwise huge table. All
cells get the same ``alpha``, so the condition ``alpha_i >= m/(exp(epsilon) - 1)`` holds for the **smallest** of them, as it must:
the maximum printed in the paper would protect one cell. A unit of ``k`` rows changes them one by one: ``k ln(1 + m/alpha)``. The
``m`` records together cost this; counting them one by one, ``m ln(1 + 1/alpha)``, would be more.

``m`` must not depend on private data. Where the number of rows is private, it is the rows of the table plus noise that was
paid for, or a number somebody chose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError
from understudy.privacy.exact_floats import positive, whole
from understudy.privacy.noise.randomness import Randomness
from understudy.privacy.unit import Unit

IntArray = npt.NDArray[np.int64]

_MOST_OWNERS = 1 << 28
_MOST_ROWS = 1 << 36
_LARGEST_WEIGHT = 1 << 63


@dataclass(frozen=True)
class UrnPrior:
    """A pseudocount ``numerator / 2**shift`` for every cell, and how many records will be drawn.

    Examples
    --------
    >>> prior = UrnPrior.for_epsilon(1.0, rows=100, unit=Unit.add_remove())
    >>> round(prior.alpha, 3), prior.epsilon(Unit.add_remove()) <= 1.0
    (58.198, True)
    """

    numerator: int
    shift: int
    rows: int

    def __post_init__(self) -> None:
        whole("numerator", self.numerator)
        whole("rows", self.rows)
        if not 0 <= self.shift <= 40:
            raise BudgetError(f"shift ({self.shift}) must lie between 0 and 40.")

    @property
    def alpha(self) -> float:
        """The pseudocount."""
        return self.numerator / 2.0**self.shift

    @classmethod
    def for_alpha(cls, alpha: float, *, rows: int) -> UrnPrior:
        """Return the closest prior that is not smaller than ``alpha``; small ones keep 20 bits or more."""
        positive("alpha", alpha)
        shift = min(40, max(0, 20 - math.floor(math.log2(alpha))))
        return cls(max(1, math.ceil(Fraction(alpha) * (1 << shift))), shift, rows)

    @classmethod
    def for_epsilon(cls, epsilon: float, *, rows: int, unit: Unit) -> UrnPrior:
        """Return the smallest prior that makes ``rows`` synthetic records ``epsilon``-DP for the unit."""
        share = positive("epsilon", epsilon) / unit.max_rows
        alpha = rows / math.expm1(share) if share < 700 else 1e-12
        found = cls.for_alpha(max(alpha * (1 + 1e-12), 1e-12), rows=rows)
        while found.epsilon(unit) > epsilon:
            found = cls(found.numerator + max(1, found.numerator >> 40), found.shift, rows)
        return found

    def epsilon(self, unit: Unit) -> float:
        """Return what the records cost together, rounded up."""
        return unit.max_rows * math.log1p(self.rows / self.alpha) * (1 + 1e-14)


def draw_urn(prior: UrnPrior, counts: IntArray, randomness: Randomness) -> IntArray:
    """Draw synthetic counts that add up to ``prior.rows``.

    Parameters
    ----------
    prior
        Pseudocount and number of records.
    counts
        Exact counts of all cells of the domain. Private.
    randomness
        32 bytes key the stream of integers.

    Privacy
    -------
    In: private. Out: releasable at the cost of ``prior.epsilon(unit)``. The draws are exact: uniform integers below the total
    weight, without rounding. See the module.

    Examples
    --------
    >>> from understudy.privacy.noise.randomness import SeededRandomness
    >>> int(draw_urn(UrnPrior(1, 0, rows=50), np.array([3, 0, 7]), SeededRandomness(2)).sum())
    50
    """
    from understudy.privacy.count_models.kernels import urn
    from understudy.privacy.noise.kernels import new_stream

    flat = np.ascontiguousarray(counts, dtype=np.int64).ravel()
    occupied = np.flatnonzero(flat)
    n = int(flat.sum())
    numerator, shift = _weights(prior, flat.size)
    owners = np.repeat(occupied, flat[occupied]) if n <= _MOST_OWNERS else np.zeros(0, np.int64)
    ends = np.cumsum(flat[occupied])
    drawn = np.empty(prior.rows, dtype=np.int64)
    stream = new_stream(randomness.bytes(32))
    urn(
        np.uint64(numerator), np.uint64(shift), np.uint64(flat.size), n, owners, occupied, ends, stream, drawn
    )
    return np.bincount(drawn, minlength=flat.size).astype(np.int64).reshape(counts.shape)


def _weights(prior: UrnPrior, cells: int) -> tuple[int, int]:
    """Return the prior as whole numbers whose total fits a word for any table of up to ``2**36`` rows.

    Decided by public numbers alone. Coarser weights are rounded up: a larger prior only costs less.
    """
    numerator, shift = prior.numerator, prior.shift

    def total() -> int:
        return cells * numerator + ((_MOST_ROWS + prior.rows) << shift)

    while total() >= _LARGEST_WEIGHT and shift:
        numerator, shift = (numerator + 1) // 2, shift - 1
    if total() >= _LARGEST_WEIGHT:
        raise BudgetError("The prior is too large for this number of cells.")
    return numerator, shift
