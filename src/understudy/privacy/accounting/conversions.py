"""From one privacy notion to another, each rounded so that the promise holds.

Every number returned is a valid bound: an ``epsilon`` or ``delta`` that is reported is rounded up, a ``mu``
or ``rho`` that may be spent is rounded down. The arithmetic carries fifty digits and is rounded once.

=============  ====================================================================================
from           to, and by what argument
=============  ====================================================================================
zCDP           ``(epsilon, delta)``: Canonne, Kamath and Steinke (arXiv:2004.00010) at the best order
GDP            ``(epsilon, delta)``: the exact curve of Balle and Wang (arXiv:1805.06530)
pure DP        zCDP ``epsilon tanh(epsilon/2)``; GDP ``2 probit(1/(1 + exp(-epsilon)))``
bounded range  zCDP ``epsilon^2/8``; GDP ``2 probit(1/(1 + exp(-epsilon/2)))``
any            the same notion for a group of ``k`` units
=============  ====================================================================================

The two rows in the middle are proved in :mod:`understudy.privacy.accounting.pure`.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from understudy.errors import NoSuchGuarantee
from understudy.privacy.accounting.precise import decimal, hockey_stick, log1p, tanh_half, working
from understudy.privacy.accounting.pure import (
    bounded_range_to_gdp,
    bounded_range_to_zcdp,
    pure_to_gdp,
    pure_to_zcdp,
)
from understudy.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.exact_floats import (
    float_up,
    largest_double,
    non_negative,
    positive,
    probability,
    smallest_double,
    whole,
)

__all__ = [
    "approx_to_gdp",
    "approx_to_zcdp",
    "bounded_range_to_gdp",
    "bounded_range_to_zcdp",
    "gdp_delta",
    "gdp_to_approx",
    "group_privacy",
    "pure_to_gdp",
    "pure_to_zcdp",
    "zcdp_delta",
    "zcdp_to_approx",
]

_TINIEST = 5e-324
_LARGEST = 1.7976931348623157e308
_SLACK = 1 + Decimal("1e-25")  # far above the error of the fifty-digit arithmetic, far below a double's


def _up(value: Decimal) -> float:
    with working():
        return float_up(Fraction(value * _SLACK))


def zcdp_to_approx(rho: float, delta: float) -> float:
    """Return the best ``epsilon`` for which this route turns ``rho``-zCDP into ``(epsilon, delta)``-DP.

    Parameters
    ----------
    rho, delta
        The concentrated guarantee and the delta it is to be read at.

    Privacy
    -------
    Proposition 12 of Canonne, Kamath and Steinke: for every order ``a = 1 + x > 1``,
    ``delta = exp(x (a rho - epsilon)) / a * (1 - 1/a)^x`` is valid, that is

        epsilon(x) = rho (1 + x) + (ln(1/delta) - ln(1 + x)) / x + ln(x / (1 + x)).

    Every ``x`` gives a valid ``epsilon``; the best satisfies ``rho x^2 + ln(1 + x) = ln(1/delta)`` (set the
    derivative in ``x`` of ``ln delta`` to zero and eliminate ``epsilon``), whose left side increases, so
    that it is found by bisection at any magnitude. An error of size ``h`` in ``x`` costs only ``O(h^2)``.

    Examples
    --------
    >>> round(zcdp_to_approx(0.5, 1e-6), 4)
    5.2215
    """
    return _zcdp_to_approx(positive("rho", rho), probability("delta", delta))


@lru_cache(maxsize=4096)
def _zcdp_to_approx(rho: float, delta: float) -> float:
    with working():
        r, log_inverse = decimal(rho), -decimal(delta).ln()
        x = decimal(_best_order(rho, float(log_inverse)))
        epsilon = r * (1 + x) + (log_inverse - log1p(x)) / x - log1p(1 / x)
        if epsilon <= 0:
            return 0.0
        # where the terms cancel, the rounding error is relative to them and not to their sum
        return _up(epsilon + (r * (1 + x) + log_inverse / x) * Decimal("1e-40"))


def _best_order(rho: float, log_inverse_delta: float) -> float:
    """Return ``x = order - 1`` that solves ``rho x^2 + ln(1 + x) = ln(1/delta)``, to double precision."""
    low, high = -745.0, 709.0  # of ln(x)
    log_rho = math.log(rho)
    for _ in range(64):
        s = (low + high) / 2
        exponent = 2 * s + log_rho
        value = math.log1p(math.exp(s)) + (math.exp(exponent) if exponent < 700 else math.inf)
        low, high = (s, high) if value < log_inverse_delta else (low, s)
    return math.exp((low + high) / 2)


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return the best ``delta`` for which this route turns ``rho``-zCDP into ``(epsilon, delta)``-DP.

    The bound of :func:`zcdp_to_approx`, minimised over the order for fixed ``epsilon``: the best ``x``
    solves ``(2x + 1) rho - ln(1 + 1/x) = epsilon``. Never more than 1.

    Examples
    --------
    >>> round(zcdp_delta(0.5, 5.2215) * 1e6, 3)
    1.0
    """
    rho, epsilon = positive("rho", rho), non_negative("epsilon", epsilon)
    low, high = -745.0, 709.0
    for _ in range(64):
        s = (low + high) / 2
        reciprocal = math.log1p(math.exp(-s)) if s > -700 else -s
        low, high = (s, high) if (2 * math.exp(s) + 1) * rho - reciprocal < epsilon else (low, s)
    with working():
        x, r = decimal(math.exp((low + high) / 2)), decimal(rho)
        log_delta = x * ((1 + x) * r - decimal(epsilon)) - log1p(x) - x * log1p(1 / x)
        if log_delta < -1000:
            return _TINIEST
        return 1.0 if log_delta >= 0 else min(1.0, _up(log_delta.exp()))


def approx_to_zcdp(epsilon: float, delta: float) -> float:
    """Return the largest ``rho`` that :func:`zcdp_to_approx` still turns into ``(epsilon, delta)``.

    Examples
    --------
    >>> rho = approx_to_zcdp(1.0, 1e-9)
    >>> round(rho, 6), zcdp_to_approx(rho, 1e-9) <= 1.0
    (0.014973, True)
    """
    return _approx_to_zcdp(positive("epsilon", epsilon), probability("delta", delta))


@lru_cache(maxsize=1024)
def _approx_to_zcdp(epsilon: float, delta: float) -> float:
    def fits(rho: float) -> bool:
        return _zcdp_to_approx(rho, delta) <= epsilon

    if not fits(_TINIEST):
        raise NoSuchGuarantee(f"epsilon={epsilon} with delta={delta} is too small to be spent as zCDP.")
    # epsilon exceeds rho - ln(1/x) with ln(1/x) far below 800, so twice that is beyond reach
    return largest_double(fits, _TINIEST, min(_LARGEST, 2 * (epsilon + 800)))


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the exact ``delta`` of ``mu``-Gaussian differential privacy at ``epsilon``, rounded up.

    ``delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)`` (Balle and Wang 2018, Theorem
    8; Dong, Roth and Su 2019, Corollary 2.13). No smaller ``delta`` is possible.

    Examples
    --------
    >>> round(gdp_delta(1.0, 1.0), 6)
    0.126937
    """
    return _gdp_delta(positive("mu", mu), non_negative("epsilon", epsilon))


def _gdp_delta(mu: float, epsilon: float) -> float:
    with working():
        return min(1.0, _up(hockey_stick(decimal(mu), decimal(epsilon))))


def gdp_to_approx(mu: float, delta: float) -> float:
    """Return the smallest ``epsilon`` for which ``mu``-GDP is ``(epsilon, delta)``-DP; exact, rounded up.

    Examples
    --------
    >>> epsilon = gdp_to_approx(1.0, 1e-6)
    >>> round(epsilon, 4), gdp_delta(1.0, epsilon) <= 1e-6
    (4.8866, True)
    """
    return _gdp_to_approx(positive("mu", mu), probability("delta", delta))


@lru_cache(maxsize=1024)
def _gdp_to_approx(mu: float, delta: float) -> float:
    # delta <= Phi(-a) <= exp(-a^2/2) with a = epsilon/mu - mu/2 >= 0, so this epsilon is enough
    high = (mu * math.sqrt(-2 * math.log(delta)) + mu * mu / 2) * 1.0001 + _TINIEST
    if not math.isfinite(high):
        raise NoSuchGuarantee(f"mu={mu} is too large to give a finite epsilon.")
    return smallest_double(lambda epsilon: _gdp_delta(mu, epsilon) <= delta, 0.0, high)


def approx_to_gdp(epsilon: float, delta: float) -> float:
    """Return the largest ``mu`` for which ``mu``-GDP is ``(epsilon, delta)``-DP; exact, rounded down.

    Examples
    --------
    >>> mu = approx_to_gdp(1.0, 1e-9)
    >>> round(mu, 5), gdp_delta(mu, 1.0) <= 1e-9
    (0.18197, True)
    """
    return _approx_to_gdp(positive("epsilon", epsilon), probability("delta", delta))


@lru_cache(maxsize=1024)
def _approx_to_gdp(epsilon: float, delta: float) -> float:
    # mu = delta is small enough: the curve falls in epsilon and is 2 Phi(mu/2) - 1 < mu at epsilon = 0.
    # The upper end is far too large: there a < -70, so that the curve differs from 1 by less than 1e-1000.
    high = min(_LARGEST, 4 * (epsilon + 40))
    return largest_double(lambda mu: _gdp_delta(mu, epsilon) <= delta, delta, high)


def group_privacy(budget: Budget, size: int) -> Budget:
    """Return what a budget promises to a group of ``size`` units.

    Privacy
    -------
    Walk from one table to the other by ``k`` single changes. Pure: the likelihood ratios multiply, giving
    ``k epsilon``. GDP: ``k mu`` (Dong, Roth and Su, Theorem 2.14). zCDP: ``k^2 rho`` (Bun and Steinke,
    Proposition 27). Approximate: iterating ``P_0(E) <= e^epsilon P_1(E) + delta`` gives ``k epsilon`` and
    ``delta (1 + e^epsilon + ... + e^((k-1) epsilon))``.

    Examples
    --------
    >>> group_privacy(ZCDP(0.125), 2)
    ZCDP(rho=0.5)
    >>> group_privacy(PureDP(0.5), 3)
    PureDP(epsilon=1.5)
    """
    k = whole("size", size)
    if isinstance(budget, PureDP):
        return PureDP(float_up(k * Fraction(budget.epsilon)))
    if isinstance(budget, ZCDP):
        return ZCDP(float_up(k * k * Fraction(budget.rho)))
    if isinstance(budget, GDP):
        return GDP(float_up(k * Fraction(budget.mu)))
    assert isinstance(budget, ApproxDP)
    with working():
        e, d = decimal(budget.epsilon), decimal(budget.delta)
        # (e^(k epsilon) - 1)/(e^epsilon - 1), written so that a small epsilon does not cancel
        ratio = tanh_half(k * e) * (1 + (k * e).exp()) / (tanh_half(e) * (1 + e.exp()))
        delta = _up(d * ratio) if k > 1 else budget.delta
    if delta >= 1:
        raise NoSuchGuarantee(
            f"{budget.describe()} promises nothing to a group of {k}: delta would reach 1. "
            "Ask for a smaller delta, or use a pure, zCDP or GDP budget."
        )
    return ApproxDP(float_up(k * Fraction(budget.epsilon)), delta)
