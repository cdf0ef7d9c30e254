"""Releasing keys that are private themselves: the threshold that keeps a key of one unit alone unseen, but for a stated probability.

A table holds keys (texts in a column) that nobody has listed in advance. Every key that occurs gets whole-number noise on its count,
independently of the others; it is released, with its noisy count, if that reaches a public threshold ``T``. A key that does not occur is
never released.

**What a unit can do.** A unit of at most ``k`` rows holds at most ``k`` keys. If it holds ``j`` keys that nobody else holds, each of them has a
count of at least one and all of them together at most ``k``, so each has at most ``k - j + 1``.

**The probability.** With noise ``X``, one such key of count ``c`` is released with probability ``P(X >= T - c)``, which grows in ``c``. So one
unit's own keys are seen, any of them, with probability at most ``d = max over j = 1..k of j P(X >= T - (k - j + 1))``. (For many rows a range of ``j`` from ``a``
to ``b`` is bounded by ``b P(X >= T - (k - a + 1))``.) For the rounded Gaussian
``P(X >= m) = P(Z >= m - 1/2)`` exactly, ``Z`` being normal with standard deviation ``sigma``; for the discrete Laplace ``P(X >= m) = q**m / (1 + q)`` with
``q = exp(-1/b)`` for ``m >= 1``. Both are computed to fifty digits and rounded up. `threshold_for` returns the smallest ``T`` with ``d`` at most
what was allowed.

**Why that is enough.** Let ``D`` and ``D'`` be neighbours, ``K`` the keys of the rows that they share, and ``G(D)`` the mechanism on the keys of ``K``
alone: those of its noisy counts that reach ``T``. ``G`` is a function of noisy counts over keys that do not depend on which of the two tables it is, so it
loses at most what noise on a histogram does (`Unit.histogram_l1`, `Unit.histogram_l2`: counts of fewer cells move no further). On ``D`` there are
besides only the keys that the unit alone holds, whose noise is independent of the rest. With probability ``1 - p``, ``p <= d``, none of them is
released, and what comes out is ``G(D)``. Hence the law of the output on ``D`` is ``(1 - p) G(D) + p Q`` for some law ``Q``, which is also
``(1 - d) G(D) + d Q*``; and on ``D'``, in the same way, ``(1 - d) G(D') + d Q'*`` (where a row is only added, ``D'`` has no keys of its own). Two mixtures with
equal weights: for each ``epsilon`` the part beyond ``exp(epsilon)`` times the other is at most ``(1 - d)`` times that of ``G``, plus ``d``. So the act is one that, but for
an event of probability ``d``, is no worse than its noise; such probabilities add up in composition beside any accounting of the noise. That is
what :class:`~understudy.privacy.events.Thresholded` says, and how it is priced.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

from understudy.errors import BudgetError
from understudy.privacy.accounting.precise import decimal, normal_tail, working
from understudy.privacy.exact_floats import float_up, probability
from understudy.privacy.noise.noise import Gaussian, Laplace
from understudy.privacy.unit import Unit

__all__ = ["seen_alone", "threshold_for", "upper_tail"]

_MOST = 1 << 60
_RANGES = 64
"""Numbers of keys that are looked at one by one, or as so many ranges."""
_NOT_COMPUTED = "Keys are released with Gaussian or Laplace noise; the tail of no other is computed exactly."
_LEAST = Decimal("1e-300")
"""Smaller probabilities are rounded up to this one."""
_SLACK = Fraction(1, 10**30)
"""Far more than fifty digits leave open."""


def upper_tail(noise: Gaussian | Laplace, least: int) -> float:
    """Return the probability that noise is at least a whole number, rounded up.

    Examples
    --------
    >>> round(upper_tail(Gaussian(2.0), 1), 6), upper_tail(Laplace(1.0), 0) > 0.73
    (0.401294, True)
    """
    if not isinstance(noise, Gaussian | Laplace):
        raise BudgetError(_NOT_COMPUTED)
    with working():
        if isinstance(noise, Gaussian):
            place = decimal((Fraction(least) - Fraction(1, 2)) / Fraction(noise.sigma))
            tail = normal_tail(place)
        else:
            ratio = (-1 / decimal(Fraction(noise.scale))).exp()
            # P(X >= m) for m >= 1; below, the complement of the other side
            tail = ratio**least / (1 + ratio) if least >= 1 else 1 - ratio ** (1 - least) / (1 + ratio)
        if tail < _LEAST:  # too long a fraction, and no smaller matters
            return float(_LEAST)
        return min(1.0, float_up(Fraction(tail) * (1 + _SLACK)))


def seen_alone(noise: Gaussian | Laplace, threshold: int, unit: Unit) -> float:
    """Return the most probable it is that a key which one unit alone holds is released, rounded up.

    Examples
    --------
    >>> unit = Unit.add_remove()
    >>> seen_alone(Laplace(1.0), 10, unit) == upper_tail(Laplace(1.0), 9)
    True
    """
    found = Fraction(0)
    for fewest, most in _ranges(unit.max_rows):
        # a range of numbers is bounded by the most keys with the largest count
        largest = unit.max_rows - fewest + 1
        found = max(found, most * Fraction(upper_tail(noise, threshold - largest)))
    return min(1.0, float_up(found))


def threshold_for(noise: Gaussian | Laplace, unit: Unit, delta: float) -> int:
    """Return the smallest threshold at which no unit's own keys are seen with a larger probability than ``delta``.

    Examples
    --------
    >>> unit = Unit.add_remove()
    >>> least = threshold_for(Gaussian(10.0), unit, 1e-9)
    >>> least, seen_alone(Gaussian(10.0), least, unit) <= 1e-9 < seen_alone(Gaussian(10.0), least - 1, unit)
    (62, True)
    """
    allowed = probability("delta", delta)
    low, high = unit.max_rows, unit.max_rows + 1  # at its own rows a key is seen half the time
    while _about(noise, high, unit) > allowed:
        low, high = high, 2 * high
        if high > _MOST:
            raise BudgetError(
                "No threshold keeps rare keys unseen at this scale of noise; ask for a larger share of the budget."
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _about(noise, middle, unit) <= allowed else (middle, high)
    # doubles led here; what counts is exact
    while seen_alone(noise, high, unit) > allowed:
        high += 1
    while high > unit.max_rows + 1 and seen_alone(noise, high - 1, unit) <= allowed:
        high -= 1
    return high


def _about(noise: Gaussian | Laplace, threshold: int, unit: Unit) -> float:
    """Return about what `seen_alone` returns, in doubles."""

    def tail(least: int) -> float:
        if isinstance(noise, Gaussian):
            return 0.5 * math.erfc((least - 0.5) / (noise.sigma * math.sqrt(2.0)))
        return math.exp(-least / noise.scale) / (1 + math.exp(-1 / noise.scale)) if least >= 1 else 0.5

    if not isinstance(noise, Gaussian | Laplace):
        raise BudgetError(_NOT_COMPUTED)
    return max(
        most * tail(threshold - (unit.max_rows - fewest + 1)) for fewest, most in _ranges(unit.max_rows)
    )


def _ranges(rows: int) -> list[tuple[int, int]]:
    """Return ranges of numbers of keys, from one to as many as there are rows."""
    ends = [*range(1, rows + 1, max(1, -(-rows // _RANGES))), rows + 1]
    return [(fewest, end - 1) for fewest, end in itertools.pairwise(ends)]
