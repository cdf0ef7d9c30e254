"""The normal distribution to forty digits, for costs that must be rounded in a known direction.

Privacy parameters are computed once per charge, so speed matters little and certainty matters a lot. These
functions use :mod:`decimal`, whose arithmetic is the same on every platform, with far more digits than a
double holds. A result is then rounded once, up or down. Two machines (or two versions of this package) that
follow the same formula therefore record the same cost, which is what lets a ledger be recomputed years later.

Notation: ``phi`` is the standard normal density, ``Phi`` its distribution function and
``R(x) = (1 - Phi(x)) / phi(x)`` the Mills ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, InvalidOperation, localcontext
from fractions import Fraction
from functools import lru_cache

__all__ = [
    "DIGITS",
    "decimal",
    "fraction",
    "hockey_stick",
    "log1p",
    "logit_of_normal",
    "normal_from_logit",
    "normal_tail",
    "tanh_half",
    "working",
]

DIGITS = 50
_SERIES_BELOW = 5  # the power series is used below, the continued fraction above


@contextmanager
def working(digits: int = DIGITS) -> Iterator[None]:
    """Compute with ``digits`` significant digits and practically unlimited exponents."""
    context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation, DivisionByZero])
    with localcontext(context):
        yield


def decimal(value: float | Fraction) -> Decimal:
    """Return ``value`` in the current precision (exactly, if it is a float and fits)."""
    if isinstance(value, Fraction):
        return Decimal(value.numerator) / Decimal(value.denominator)
    return Decimal(value)


def fraction(value: Decimal) -> Fraction:
    """Return a decimal as an exact fraction."""
    return Fraction(value)


@lru_cache(maxsize=16)
def _pi(digits: int) -> Decimal:
    """Return pi by Machin's formula ``16 atan(1/5) - 4 atan(1/239)`` in integer arithmetic."""
    unit: int = 10 ** (digits + 10)

    def arctangent_of_reciprocal(n: int) -> int:
        power: int = unit // n
        total, k, sign = power, 3, -1
        while power:
            power //= n * n
            total += sign * (power // k)
            k, sign = k + 2, -sign
        return total

    scaled = 16 * arctangent_of_reciprocal(5) - 4 * arctangent_of_reciprocal(239)
    return Decimal(scaled).scaleb(-(digits + 10), Context(prec=digits + 20, Emax=MAX_EMAX, Emin=MIN_EMIN))


def _density(x: Decimal, digits: int) -> Decimal:
    return (-x * x / 2).exp() / (2 * _pi(digits)).sqrt()


def _central(x: Decimal, digits: int) -> Decimal:
    """Return ``Phi(x) - 1/2`` for ``x >= 0`` by ``phi(x) (x + x^3/3 + x^5/(3*5) + ...)``: no cancellation."""
    square, term, total, odd = x * x, x, x, 1
    smallest = Decimal(10) ** -(digits + 2)
    while term > total * smallest:
        odd += 2
        term = term * square / odd
        total += term
    return _density(x, digits) * total


def _mills(x: Decimal, digits: int) -> Decimal:
    """Return ``R(x)`` for ``x >= 0``.

    Above 5: the continued fraction ``1/(x + 1/(x + 2/(x + 3/(x + ...))))``, whose convergents lie alternately
    above and below the limit, so that two neighbours which agree prove the digits they share. Below 5:
    ``1/2 - (Phi(x) - 1/2)``, which cancels fewer than seven digits there.
    """
    if x < _SERIES_BELOW:
        with working(digits + 12):
            return (Decimal("0.5") - _central(x, digits + 12)) / _density(x, digits + 12)
    tolerance = Decimal(10) ** -(digits + 2)
    numerators, denominators = (Decimal(0), Decimal(1)), (Decimal(1), x)
    step = 1
    while True:
        for _ in range(8):
            numerators = (numerators[1], x * numerators[1] + step * numerators[0])
            denominators = (denominators[1], x * denominators[1] + step * denominators[0])
            step += 1
        last, before = numerators[1] / denominators[1], numerators[0] / denominators[0]
        if abs(last - before) <= tolerance * last:
            return last


def normal_tail(x: Decimal) -> Decimal:
    """Return ``1 - Phi(x)``.

    Examples
    --------
    >>> with working():
    ...     round(float(normal_tail(Decimal(2))), 9), round(float(normal_tail(Decimal(-2))), 9)
    (0.022750132, 0.977249868)
    """
    with working(DIGITS + 12):
        tail = _mills(abs(x), DIGITS) * _density(abs(x), DIGITS + 12)
        return tail if x >= 0 else 1 - tail


def log1p(x: Decimal) -> Decimal:
    """Return ``ln(1 + x)`` for ``x >= 0`` with full relative precision near zero."""
    if x > Decimal("0.01"):
        return (1 + x).ln()
    # 2 atanh(x / (2 + x)): odd powers of a small number, all of one sign
    return 2 * _atanh(x / (2 + x))


def _atanh(u: Decimal) -> Decimal:
    if u > Decimal("0.1"):
        return ((1 + u) / (1 - u)).ln() / 2
    square, power, total, odd = u * u, u, u, 1
    while power > total * Decimal(10) ** -(DIGITS + 30):
        odd += 2
        power *= square
        if not power:
            break
        total += power / odd
    return total


def tanh_half(x: Decimal) -> Decimal:
    """Return ``tanh(x / 2) = (e^x - 1) / (e^x + 1)`` for ``x >= 0`` with full relative precision."""
    if x > 1000:
        return Decimal(1)
    if x > Decimal("0.1"):
        e = x.exp()
        return (e - 1) / (e + 1)
    # sinh and cosh of x/2 by their series: no cancellation
    half = x / 2
    square = half * half
    sinh, cosh, term, k = half, Decimal(1), Decimal(1), 0
    while term > Decimal(10) ** -(DIGITS + 30):
        k += 2
        term = term * square / (k * (k - 1))
        cosh += term
        sinh += term * half / (k + 1)
        if not term:
            break
    return sinh / cosh


def logit_of_normal(z: Decimal) -> Decimal:
    """Return ``ln(Phi(z) / Phi(-z))`` for ``z >= 0`` in the current precision."""
    return _logit_and_slope(z)[0]


def _logit_and_slope(z: Decimal) -> tuple[Decimal, Decimal]:
    """Return ``L(z) = ln(Phi(z)/Phi(-z))`` and ``L'(z) = phi(z) / (Phi(z) Phi(-z))``."""
    if z < _SERIES_BELOW:
        with working(DIGITS + 12):
            u = 2 * _central(z, DIGITS + 12)
            slope = 4 * _density(z, DIGITS + 12) / ((1 - u) * (1 + u))
            return 2 * _atanh(u), slope
    mills = _mills(z, DIGITS)
    tail = _density(z, DIGITS) * mills
    log_tail = -z * z / 2 - (2 * _pi(DIGITS)).ln() / 2 + mills.ln()
    return (1 - tail).ln() - log_tail, 1 / (mills * (1 - tail))


def normal_from_logit(x: Decimal) -> Decimal:
    """Return an upper bound, tight to forty digits, on ``z`` with ``ln(Phi(z) / Phi(-z)) = x > 0``.

    ``L(z) = ln(Phi(z)/Phi(-z))`` is increasing and convex on ``z > 0`` (proved in
    :mod:`understudy.privacy.accounting.accounting`), so Newton's method started above the root comes down to it and
    never passes it. Two starts above the root: ``L'`` is at least ``L'(0) = 4/sqrt(2 pi)``, so ``z <= x
    sqrt(2 pi)/4``; and ``Phi(-z) <= exp(-z^2/2)/2``, so ``z <= sqrt(2 x)``. A start below the root would do no
    harm: by convexity the first step lands above it.
    """
    z = min(x * (2 * _pi(DIGITS)).sqrt() / 4, (2 * x).sqrt(), _just_above(x))
    for _ in range(200):
        value, slope = _logit_and_slope(z)
        step = (value - x) / slope
        z -= step
        if abs(step) <= z * Decimal("1e-24"):  # quadratic: the next error is below 1e-45
            break
    return z * (1 + Decimal("1e-40"))


def _just_above(x: Decimal) -> Decimal:
    """Return a start for Newton's method that is a hair above the root, where doubles can tell."""
    if not Decimal("0.01") < x < 500:
        return Decimal("Infinity")
    from statistics import NormalDist

    return Decimal(-NormalDist().inv_cdf(1 / (1 + math.exp(x)))) * (1 + Decimal("1e-12"))


def hockey_stick(mu: Decimal, epsilon: Decimal) -> Decimal:
    """Return ``delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` to 25 digits.

    With ``a = epsilon/mu - mu/2`` and ``b = epsilon/mu + mu/2`` one has ``e^epsilon phi(b) = phi(a)``, hence
    ``delta = phi(a) (R(a) - R(b))``, which neither overflows nor underflows. The difference cancels when
    ``mu`` is small; the digits lost are counted and the computation repeated with that many more.
    """
    digits = DIGITS
    while True:
        with working(digits):
            a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
            if abs(a) > 100:  # phi(100) < 1e-2000: bounds that no double can tell from the value
                return Decimal("1e-1000") if a > 0 else Decimal(1)
            density = _density(a, digits)
            if a >= 0:
                minuend = density * _mills(a, digits)
            else:
                minuend = 1 - density * _mills(-a, digits)
            difference = minuend - density * _mills(b, digits)
            lost = minuend.adjusted() - difference.adjusted() if difference > 0 else digits
        if digits - lost >= 30:
            return difference
        digits += lost + 10
