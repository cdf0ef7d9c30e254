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

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy._numbers import non_negative, positive, probability
from understudy.privacy.conversions import approx_to_gdp
from understudy.privacy.count_models.divergence import LARGEST_EPSILON, probabilistic_delta
from understudy.privacy.count_models.laws import PARAMETERS, CountLaw, Family
from understudy.privacy.count_models.sampling import released_delta
from understudy.privacy.unit import Unit

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
