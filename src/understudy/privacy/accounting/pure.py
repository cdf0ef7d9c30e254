"""What pure and bounded-range acts cost in zCDP and in GDP, each with its proof.

An act is ``epsilon``-DP if the likelihood ratio of neighbours lies in ``[exp(-epsilon), exp(epsilon)]``;
it has bounded range ``epsilon`` if, for each pair of neighbours, the ratio lies in *some* interval ``[A, B]``
with ``B/A <= exp(epsilon)``. The exponential mechanism has bounded range (Durfee and Rogers 2019). Names
ending in ``_exact`` take and return fractions.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from understudy.privacy.accounting.precise import decimal, normal_from_logit, tanh_half, working
from understudy.privacy.exact_floats import float_up, positive

__all__ = [
    "bounded_range_to_gdp",
    "bounded_range_to_zcdp",
    "bounded_range_to_zcdp_exact",
    "pure_to_gdp",
    "pure_to_zcdp",
    "pure_to_zcdp_exact",
    "two_normal_from_logit",
]

_SLACK = 1 + Decimal("1e-30")  # far above the rounding error of fifty digits, far below that of a double


def pure_to_zcdp(epsilon: float) -> float:
    """Return the smallest ``rho`` such that every ``epsilon``-DP act is ``rho``-zCDP.

    ``rho = epsilon tanh(epsilon/2)``, which is below the usual ``epsilon^2/2``.

    Privacy
    -------
    Every pair of output distributions of an ``epsilon``-DP act is a post-processing of randomised response
    with odds ``exp(epsilon)`` (Kairouz, Oh and Viswanath 2015; the kernel is written out under
    :func:`bounded_range_to_gdp`, with the likelihood ratio in ``[exp(-epsilon), exp(epsilon)]``). For
    randomised response the Rényi divergence of order ``a`` satisfies

        (a - 1) D_a = ln cosh((a - 1/2) epsilon) - ln cosh(epsilon/2).

    Put ``s = (a - 1/2)^2``, so that ``a (a - 1) = s - 1/4``. The map ``s -> ln cosh(epsilon sqrt(s))`` is
    concave (its derivative ``epsilon tanh(epsilon sqrt(s)) / (2 sqrt(s))`` decreases), so it lies below its
    tangent at ``s = 1/4``: ``(a - 1) D_a <= (s - 1/4) epsilon tanh(epsilon/2) = a (a - 1) rho``. The bound
    is attained as ``a`` tends to 1, so no smaller ``rho`` is valid. Continuous Laplace noise alone would cost
    less (``epsilon + exp(-epsilon) - 1``), but *discrete* Laplace noise of scale ``1/epsilon`` on a count
    that moves by one is exactly randomised response, so this is what a `LaplaceEvent` pays.

    Examples
    --------
    >>> round(pure_to_zcdp(1.0), 6)
    0.462117
    """
    return float_up(pure_to_zcdp_exact(Fraction(positive("epsilon", epsilon))))


def bounded_range_to_zcdp(epsilon: float) -> float:
    """Return a ``rho`` such that every act of bounded range ``epsilon`` is ``rho``-zCDP.

    Privacy
    -------
    ``epsilon^2/8`` (Cesar and Rogers 2021; Dong, Durfee and Rogers 2020). A proof: let ``Z = ln(P/Q)``,
    which takes values in an interval of length ``epsilon``, and ``K(a) = ln E_Q exp(a Z)``. Then ``K(0) =
    K(1) = 0`` and ``K''(a)`` is the variance of ``Z`` under a tilted law, at most ``epsilon^2/4``.
    Interpolating at 0 and 1, ``K(a) = a (a - 1) K''(c)/2 <= a (a - 1) epsilon^2/8``, and ``D_a = K(a)/(a -
    1)``. The range contains 0 (two laws cannot differ in one direction only), so bounded range ``epsilon``
    implies ``epsilon``-DP; the bound of :func:`pure_to_zcdp` holds as well and the smaller is returned (it
    matters near ``epsilon = 8`` and above).

    Examples
    --------
    >>> bounded_range_to_zcdp(1.0)
    0.125
    """
    return float_up(bounded_range_to_zcdp_exact(Fraction(positive("epsilon", epsilon))))


def pure_to_gdp(epsilon: float) -> float:
    """Return the smallest ``mu`` such that every ``epsilon``-DP act is ``mu``-GDP.

    ``mu = 2 probit(1/(1 + exp(-epsilon)))``, about ``1.2533 epsilon`` for small ``epsilon``.

    Privacy
    -------
    The trade-off curve of randomised response is piecewise linear with corners ``(0, 1)``, ``(q, q)`` and
    ``(1, 0)``, ``q = 1/(1 + exp(epsilon))``. A convex curve such as that of ``N(0,1)`` against ``N(mu,1)``
    lies below a piecewise linear one exactly when it does at the corners, here when
    ``Phi(Phi^-1(1 - q) - mu) <= q``, i.e. ``mu >= 2 Phi^-1(1 - q)``.

    Examples
    --------
    >>> round(pure_to_gdp(1.0), 6)
    1.232035
    """
    return float_up(two_normal_from_logit(Fraction(positive("epsilon", epsilon))))


def bounded_range_to_gdp(epsilon: float) -> float:
    """Return the smallest ``mu`` such that every act of bounded range ``epsilon`` is ``mu``-GDP.

    ``mu = 2 probit(1/(1 + exp(-epsilon/2)))``, about ``0.62666 epsilon`` for small ``epsilon``: the same as
    ``pure_to_gdp(epsilon / 2)``.

    Privacy
    -------
    *Reduction to two outcomes.* Let the likelihood ratio ``r = dP/dQ`` take values in ``[A, B]`` with
    ``ln B = t``, ``ln A = t - epsilon`` and ``0 <= t <= epsilon``. Put ``w = (r - A)/(B - A)``, a number in
    ``[0, 1]``, and ``q = E_Q w = (1 - A)/(B - A)``. Draw a bit that is 1 with probability ``q`` (or ``p =
    B q``), then an outcome with density ``w Q / q`` if the bit is 1 and ``(1 - w) Q / (1 - q)`` if it is
    0. This gives ``Q`` (or ``(B w + A (1 - w)) Q = r Q = P``, using ``1 - p = A (1 - q)``). So ``P`` against
    ``Q`` is a post-processing of a bit with probability ``p`` against one with probability ``q``.

    *The bit.* As in :func:`pure_to_gdp`, the bit is ``mu``-GDP exactly when ``mu >= Phi^-1(p) - Phi^-1(q)``.
    Here ``p/(1 - p) = (e^epsilon - e^t)/(e^t - 1)`` and ``(1 - q)/q = e^epsilon (e^t - 1)/(e^epsilon -
    e^t)``, so the log-odds ``x`` of ``p`` and ``y`` of ``1 - q`` add up to ``epsilon`` whatever ``t`` is.
    With ``h(x) = Phi^-1(1/(1 + e^-x))``, an odd function, the cost is ``h(x) + h(epsilon - x)``.

    *The worst bit.* ``h`` is concave on ``x > 0`` (below), so for ``0 <= x <= epsilon`` the sum is largest at
    ``x = epsilon/2``. For ``x < 0`` it is the integral of ``h'`` over an interval of length ``epsilon`` that
    begins at ``|x|``, at most the one that begins at 0, which is the case ``x = 0``; likewise
    for ``x > epsilon``. So the supremum is ``2 h(epsilon/2)``.

    *Concavity.* ``h'`` in terms of ``z = h(x)`` is ``Phi(z) Phi(-z)/phi(z)``. It decreases for ``z > 0`` when
    ``G(z) = phi (2 Phi - 1) - z Phi (1 - Phi) > 0``. Now ``G' = 2 phi^2 - Phi (1 - Phi) =: H`` and ``H' = phi
    K`` with ``K = (2 Phi - 1) - 4 z phi``, ``K' = phi (4 z^2 - 2)``. ``K`` starts at 0, falls until
    ``z = 1/sqrt(2)`` and then rises to 1, so it is first negative and then positive. Hence ``H`` first falls
    from ``1/pi - 1/4 > 0`` and then rises to its limit 0 from below: first positive, then negative. Hence
    ``G`` rises from 0 and then falls to its limit 0, and is positive in between.

    Examples
    --------
    >>> round(bounded_range_to_gdp(1.0), 6)
    0.623893
    """
    return float_up(two_normal_from_logit(Fraction(positive("epsilon", epsilon)) / 2))


@lru_cache(maxsize=16384)
def pure_to_zcdp_exact(epsilon: Fraction) -> Fraction:
    """Return :func:`pure_to_zcdp` before rounding to a double."""
    with working():
        e = decimal(epsilon)
        return Fraction(e * tanh_half(e) * _SLACK)


def bounded_range_to_zcdp_exact(epsilon: Fraction) -> Fraction:
    """Return :func:`bounded_range_to_zcdp` before rounding to a double."""
    square = epsilon * epsilon / 8
    return min(square, pure_to_zcdp_exact(epsilon)) if epsilon > 7 else square


@lru_cache(maxsize=16384)
def two_normal_from_logit(x: Fraction) -> Fraction:
    """Return ``2 probit(1/(1 + exp(-x)))``, rounded up in the fortieth digit."""
    with working():
        return Fraction(2 * normal_from_logit(decimal(x)))
