"""Choosing parameters: given all but one of epsilon, delta, alpha and the extra parameters, find the missing one.

``delta`` falls as ``alpha`` grows (the theorem of :mod:`~understudy.privacy.count_models.divergence` holds for every real mean)
and as ``epsilon`` grows, so those two are found by bracketing. How ``delta`` depends on ``sigma`` and ``nu`` is not monotone in
general: a grid is searched for the value with the least noise that keeps the promise. Whatever is returned is checked:
the promise holds for the very numbers returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy.accounting.conversions import approx_to_gdp
from understudy.privacy.count_models.divergence import (
    LARGEST_EPSILON,
    first_count,
    last_count,
    probabilistic_delta,
    true_delta,
)
from understudy.privacy.count_models.laws import PARAMETERS, CountLaw, Family
from understudy.privacy.exact_floats import non_negative, positive, probability
from understudy.privacy.noise.randomness import Randomness
from understudy.privacy.unit import Unit

# ----------------------------------------------------------------------------------------
# Exact draws of redrawn cells: integers from random words, in one pass over a table of any number of cells.
#
# Privacy
# -------
# *Law of the draws.* Cells with equal counts share one table of cumulative weights, computed in double-double arithmetic by the
# recurrence of the family. A cell uses 106 random bits ``u`` and becomes the first ``b`` whose cumulative weight exceeds ``u``
# times the total. The law of the result differs from the stated one by
#
# - rounding: each step has at most eight operations with a relative error below ``2**-100``; errors of the state of a recurrence
#   enter later steps with a factor of at most one (:mod:`~understudy.privacy.count_models.divergence`), so after ``N`` steps a
#   weight is wrong by less than ``8 N^2 2**-100`` of itself where there is a recurrence and ``8 N 2**-100`` where not. With tables
#   shorter than ``2**24`` that is below ``2**-49`` and ``2**-73``; the first is charged as a *relative* error;
# - what the table leaves out: below ``2**-110`` of the total above, ``exp(-80)`` below;
# - the grid of ``u``: ``2**-106`` per entry, below ``2**-82`` in all;
# - for Sichel, the Bessel functions at the start: a relative error of ``1e-12`` in at most ``|nu| + 2`` ratios, which decays in later
#   ones like ``exp(-b^2/z)``; with ``sigma >= 1e-6`` and tables of this length ``z`` is below ``1e7``, so it adds up to less than ``1e-8``.
#
# So every law that is drawn from lies within total variation ``TOTAL_VARIATION = 2**-72`` of a law whose probabilities are
# those stated up to a factor of ``1 +- relative_error(law)``. If ``t`` cells can differ between neighbours, a guarantee ``(e, d)`` of
# the stated laws gives ``(e + 2 t relative, d (1 + t relative) + t (1 + exp(e + 2 t relative)) 2**-72)`` for what is drawn:
# :func:`released_delta` charges that. There is no floating-point noise whose low bits could carry the count: the output is
# an index into a table that is the same for all cells with that count.
#
# *Absent cells* have count zero and are redrawn like all others. *Very full cells* would need tables beyond ``2**24`` entries;
# to refuse them would reveal them, so counts are cut at :func:`largest_count`, a function of the law alone. Cut counts of
# neighbours differ by at most as much as before, and a smaller step reveals less: ``P_{m+s}(b >= t)`` rises with ``s``.

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
    >>> from understudy.privacy.noise.randomness import SeededRandomness
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
    from understudy.privacy.count_models.kernels import draw_groups

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


_SMALLEST_ALPHA, _LARGEST_ALPHA = 1e-9, 1e12
_CLOSE = 1e-7
_GRID = 48


def solve_alpha(
    family: Family,
    *,
    epsilon: float,
    delta: float,
    unit: Unit,
    sigma: float | None = None,
    nu: float | None = None,
) -> CountLaw:
    """Return the law with the smallest pseudocount (to seven digits) that is ``(epsilon, delta)``-DP for the unit.

    Examples
    --------
    >>> law = solve_alpha("poisson", epsilon=3.0, delta=0.207, unit=Unit.add_remove())
    >>> round(law.alpha, 2)
    0.1
    """
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    return _solve_alpha(family, epsilon, delta, unit, sigma, nu)


@lru_cache(maxsize=256)
def _solve_alpha(
    family: Family, epsilon: float, delta: float, unit: Unit, sigma: float | None, nu: float | None
) -> CountLaw:
    law = CountLaw(family, 1.0, sigma, nu)

    def excess(log_alpha: float) -> float:
        found = released_delta(replace(law, alpha=math.exp(log_alpha)), epsilon, unit)
        return math.log(max(found, 1e-300)) - math.log(delta)

    # for a Poisson cell the deviation is the root of alpha; others need less
    guess = unit.histogram_l2**2 / approx_to_gdp(epsilon, delta) ** 2
    start = math.log(min(max(guess, 1e-6), 1e9))
    found = _falling_root(excess, start, math.log(_SMALLEST_ALPHA), math.log(_LARGEST_ALPHA))
    if found is None:
        raise NoSuchGuarantee(
            f"No pseudocount up to {_LARGEST_ALPHA:g} makes {family} ({epsilon:g}, {delta:g})-DP for {unit.describe()}."
        )
    return replace(law, alpha=math.exp(found))


def _falling_root(function: Callable[[float], float], start: float, low: float, high: float) -> float | None:
    """Return a point at or just above the root of a falling function; None if it is beyond ``high``."""
    step = 0.7
    left, right = start, start
    value = function(start)
    above = below = value
    while below > 0:  # go right until the function is not positive
        left, above = right, below
        if right >= high:
            return None
        right = min(high, right + step)
        below, step = function(right), step * 2
    while above <= 0:  # go left until it is positive
        right, below = left, above
        if left <= low:
            return low
        left = max(low, left - step)
        above, step = function(left), step * 2
    side = 0
    while right - left > _CLOSE:
        slope = above / (above - below) if side < 3 else 0.5
        middle = left + (right - left) * min(max(slope, 0.02), 0.98)
        value = function(middle)
        if value > 0:
            left, above = middle, value
            side = side + 1 if side > 0 else 1
        else:
            right, below = middle, value
            side = side - 1 if side < 0 else -1
        side = 3 if abs(side) > 2 else side
    return right


def solve_epsilon(law: CountLaw, *, delta: float, unit: Unit) -> float:
    """Return the smallest ``epsilon`` (to seven digits) for which redrawing with ``law`` is ``(epsilon, delta)``-DP.

    Examples
    --------
    >>> round(solve_epsilon(CountLaw("poisson", 1.0), delta=0.02562, unit=Unit.add_remove()), 2)
    2.0
    """
    delta = probability("delta", delta)
    low = high = 1e-6
    while released_delta(law, high, unit) > delta:
        if high >= LARGEST_EPSILON:
            raise NoSuchGuarantee(
                f"{law.describe()} has no epsilon up to {LARGEST_EPSILON:g} at delta={delta:g}. Raise alpha or delta."
            )
        low, high = high, min(4 * high, LARGEST_EPSILON)
    while high - low > _CLOSE * high:
        middle = math.sqrt(low * high) if high > 2 * low else (low + high) / 2
        low, high = (middle, high) if released_delta(law, middle, unit) > delta else (low, middle)
    return high


def solve_parameter(
    family: Family,
    name: str,
    *,
    epsilon: float,
    delta: float,
    alpha: float,
    unit: Unit,
    sigma: float | None = None,
    nu: float | None = None,
) -> CountLaw:
    """Return the law with the extra parameter ``name`` that keeps the promise with the least noise in an empty cell.

    Examples
    --------
    >>> law = solve_parameter(
    ...     "negative-binomial", "sigma", epsilon=1.0, delta=1e-3, alpha=8.0, unit=Unit.add_remove()
    ... )
    >>> released_delta(law, 1.0, Unit.add_remove()) <= 1e-3
    True
    """
    if name not in PARAMETERS[family]:
        raise BudgetError(f"{family} has no extra parameter {name!r}.")
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)

    def law_with(value: float) -> CountLaw:
        numbers = {"sigma": sigma, "nu": nu, name: value}
        return CountLaw(family, alpha, numbers["sigma"], numbers["nu"])

    def keeps(value: float) -> bool:
        try:
            return released_delta(law_with(value), epsilon, unit) <= delta
        except (NoSuchGuarantee, BudgetError):
            return False

    grid = _grid(family, name)
    quiet = sorted(range(len(grid)), key=lambda place: law_with(grid[place]).variance(0))
    best = next((place for place in quiet if keeps(grid[place])), None)
    if best is None:
        raise NoSuchGuarantee(
            f"No {name} makes {family} with alpha={alpha:g} ({epsilon:g}, {delta:g})-DP for {unit.describe()}. Raise alpha."
        )
    good = grid[best]
    quieter = set(quiet[: quiet.index(best)])
    for other in (best - 1, best + 1):
        if other in quieter:
            found = _edge(keeps, grid[best], grid[other])
            if law_with(found).variance(0) < law_with(good).variance(0):
                good = found
    return law_with(good)


def _grid(family: Family, name: str) -> list[float]:
    if name == "sigma":
        return [float(x) for x in np.geomspace(1e-4, 1.0 if family == "delaporte" else 100.0, _GRID)]
    if family == "delaporte":
        return [float(x) for x in np.linspace(0.01, 0.99, _GRID)]
    return [float(x) for x in np.linspace(-12.0, 12.0, _GRID + 1)]


def _edge(keeps: Callable[[float], bool], good: float, bad: float) -> float:
    """Move from a value that keeps the promise towards one that does not, as far as it is kept."""
    while abs(good - bad) > 1e-6 * (abs(good) + abs(bad)):
        middle = (good + bad) / 2
        good, bad = (middle, bad) if keeps(middle) else (good, middle)
    return good


def solve_probabilistic_alpha(
    family: Family, *, epsilon: float, delta: float, sigma: float | None = None, nu: float | None = None
) -> CountLaw:
    """Return a law with a small pseudocount whose *probabilistic* delta is at most ``delta``.

    In that notion ``delta`` is not monotone in ``alpha``: it jumps up where the band gains no count. The first grid
    point (twelve per doubling) that keeps it is refined towards the last that does not.

    Examples
    --------
    >>> law = solve_probabilistic_alpha("poisson", epsilon=2.0, delta=0.053)
    >>> probabilistic_delta(law, 2.0) <= 0.053, law.alpha <= 1.0
    (True, True)
    """
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    law = CountLaw(family, 1.0, sigma, nu)

    def keeps(alpha: float) -> bool:
        return probabilistic_delta(replace(law, alpha=alpha), epsilon) <= delta

    previous, alpha = 0.0, 1e-3
    while not keeps(alpha):
        previous, alpha = alpha, alpha * 2 ** (1 / 12)
        if alpha > 1e6:
            raise NoSuchGuarantee(
                f"No alpha up to 1e6 gives {family} a probabilistic delta of {delta:g} at epsilon={epsilon:g}."
            )
    return replace(law, alpha=_edge(keeps, alpha, previous) if previous else alpha)


def solve_law(
    family: Family,
    *,
    unit: Unit,
    epsilon: float | None = None,
    delta: float | None = None,
    alpha: float | None = None,
    sigma: float | None = None,
    nu: float | None = None,
) -> tuple[CountLaw, float, float]:
    """Find the one number that is missing; return the law with its ``epsilon`` and ``delta``.

    Examples
    --------
    >>> law, epsilon, delta = solve_law("poisson", unit=Unit.add_remove(), epsilon=2.0, alpha=1.0)
    >>> round(delta, 4)
    0.0256
    """
    given = {"epsilon": epsilon, "delta": delta, "alpha": alpha, "sigma": sigma, "nu": nu}
    wanted = ("epsilon", "delta", "alpha", *PARAMETERS[family])
    missing = [name for name in wanted if given[name] is None]
    if len(missing) > 1:
        raise BudgetError(f"Give all but one of {', '.join(wanted)}; {' and '.join(missing)} are missing.")
    unknown = missing[0] if missing else "delta"
    if unknown in ("epsilon", "delta"):
        assert alpha is not None
        law = CountLaw(family, alpha, sigma, nu)
        if unknown == "epsilon":
            assert delta is not None
            epsilon = solve_epsilon(law, delta=delta, unit=unit)
    else:
        assert epsilon is not None
        assert delta is not None
        if unknown == "alpha":
            law = solve_alpha(family, epsilon=epsilon, delta=delta, unit=unit, sigma=sigma, nu=nu)
        else:
            assert alpha is not None
            law = solve_parameter(
                family, unknown, epsilon=epsilon, delta=delta, alpha=alpha, unit=unit, sigma=sigma, nu=nu
            )
    assert epsilon is not None
    reached = released_delta(law, non_negative("epsilon", epsilon), unit)
    if delta is not None and reached > delta:
        raise NoSuchGuarantee(
            f"{law.describe()} has delta={reached:.4g} at epsilon={epsilon:g}, above the {delta:g} asked for."
        )
    return law, epsilon, reached
