"""Checks on numbers a caller writes, and rounding in a chosen direction.

A privacy cost that is rounded the wrong way is a wrong promise, however small the error. Everything
here therefore works on exact fractions and says in its name which way it rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from numbers import Real

from understudy.errors import BudgetError

__all__ = [
    "SCALE_BITS",
    "ceil_bits",
    "float_down",
    "float_up",
    "floor_bits",
    "fraction_up",
    "largest_double",
    "non_negative",
    "positive",
    "probability",
    "smallest_double",
    "sqrt_down",
    "sqrt_up",
    "whole",
]

SCALE_BITS = 40
"""Significant bits of a noise scale computed from a cost.

Scales are rounded up to 40 bits rather than to the 53 of a double. The loss is below 1e-12 of the
budget, and it buys two things: a share of a budget computed with ordinary floating point (``total / 3``)
never overspends by its last bit, and a scale that should be 10 is exactly 10.
"""


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BudgetError(f"{name} must be a number, not {type(value).__name__}.")
    try:
        number = float(value)
    except OverflowError:
        raise BudgetError(f"{name} is too large for a floating-point number.") from None
    if not math.isfinite(number):
        raise BudgetError(f"{name} ({number}) must be finite.")
    return number


def positive(name: str, value: object) -> float:
    """Return ``value`` as a finite float above zero, or raise `BudgetError` naming the field."""
    number = _real(name, value)
    if number <= 0:
        raise BudgetError(f"{name} ({number}) must be positive.")
    return number


def non_negative(name: str, value: object) -> float:
    """Return ``value`` as a finite float of at least zero."""
    number = _real(name, value)
    if number < 0:
        raise BudgetError(f"{name} ({number}) must not be negative.")
    return number + 0.0  # -0.0 becomes 0.0


def probability(name: str, value: object) -> float:
    """Return ``value`` as a float strictly between zero and one."""
    number = _real(name, value)
    if not 0 < number < 1:
        raise BudgetError(f"{name} ({number}) must lie strictly between 0 and 1.")
    return number


def whole(name: str, value: object) -> int:
    """Return ``value`` as an integer of at least one."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise BudgetError(f"{name} must be a whole number, not {type(value).__name__}.")
    number = int(value.__index__())
    if number < 1:
        raise BudgetError(f"{name} ({number}) must be at least 1.")
    return number


def float_up(value: Fraction) -> float:
    """Return the smallest double that is at least ``value`` (infinity above the largest double)."""
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -1.7976931348623157e308
    return math.nextafter(number, math.inf) if Fraction(number) < value else number


def float_down(value: Fraction) -> float:
    """Return the largest double that is at most ``value``."""
    return -float_up(-value)


def _exponent(value: Fraction) -> int:
    """Return an ``e`` with ``2**(e-1) < value < 2**(e+1)``."""
    return value.numerator.bit_length() - value.denominator.bit_length()


def _scaled(value: Fraction, shift: int) -> Fraction:
    return value * (1 << shift) if shift >= 0 else value / (1 << -shift)


def ceil_bits(value: Fraction, bits: int = SCALE_BITS) -> Fraction:
    """Round a positive fraction up to about ``bits`` significant binary digits.

    Examples
    --------
    >>> ceil_bits(Fraction(9999999999999999, 10**15))
    Fraction(10, 1)
    """
    shift = bits - _exponent(value)
    return _scaled(Fraction(math.ceil(_scaled(value, shift))), -shift)


def floor_bits(value: Fraction, bits: int = SCALE_BITS) -> Fraction:
    """Round a positive fraction down to about ``bits`` significant binary digits."""
    shift = bits - _exponent(value)
    return _scaled(Fraction(math.floor(_scaled(value, shift))), -shift)


def fraction_up(value: Fraction, *, tolerated_bits: int = 2048, bits: int = 256) -> Fraction:
    """Return ``value``, or a slightly larger fraction if its denominator has grown out of hand.

    Adding thousands of exact costs with unrelated denominators would take quadratic time; past
    ``tolerated_bits`` the sum is rounded *up* to ``bits`` significant digits, which stays on the safe side.
    """
    return ceil_bits(value, bits) if value.denominator.bit_length() > tolerated_bits else value


def sqrt_up(value: Fraction, bits: int = SCALE_BITS) -> Fraction:
    """Return a fraction of about ``bits`` significant digits that is at least the square root of ``value``.

    Examples
    --------
    >>> sqrt_up(Fraction(9, 4))
    Fraction(3, 2)
    """
    shift = bits - _exponent(value) // 2
    target = math.ceil(_scaled(value, 2 * shift))
    root = math.isqrt(target)
    return _scaled(Fraction(root if root * root == target else root + 1), -shift)


def sqrt_down(value: Fraction, bits: int = 60) -> Fraction:
    """Return a fraction of about ``bits`` significant digits that is at most the square root of ``value``."""
    shift = bits - _exponent(value) // 2
    return _scaled(Fraction(math.isqrt(math.floor(_scaled(value, 2 * shift)))), -shift)


def largest_double(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the largest double in ``[low, high]`` for which a monotone condition still holds.

    ``holds`` must be true at ``low``; the search halves the number of doubles between the two ends, so it
    takes at most 64 steps at any magnitude.
    """
    if holds(high):
        return high
    return _last_inside(holds, _ordinal(low), _ordinal(high))


def smallest_double(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest double in ``[low, high]`` with a monotone property that ``high`` has."""
    if holds(low):
        return low
    return _last_inside(holds, _ordinal(high), _ordinal(low))


def _last_inside(holds: Callable[[float], bool], inside: int, outside: int) -> float:
    """Return the last double for which a condition holds, on the way from one rank to another."""
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        if holds(_double(middle)):
            inside = middle
        else:
            outside = middle
    return _double(inside)


def _ordinal(number: float) -> int:
    """Return the rank of a non-negative double among all non-negative doubles."""
    import struct

    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _double(rank: int) -> float:
    import struct

    return float(struct.unpack("<d", struct.pack("<q", rank))[0])
