"""How a sealed number comes onto the grid of its noise, and what is charged for it.

A sealed number ``x`` is exact: a whole number, a rational, or a number that is within a public distance ``w`` of one that cannot be written
down (an entropy, a root). What it is said to move by, its sensitivity ``s``, includes ``2 w``. Noise is a whole number of steps of a grid.

**To the grid.** The step ``g`` is a power of two, at least ``2**-20`` of ``s`` and less than ``2**-19`` of it. Rounding a number to the
nearest whole number of steps moves it by at most half a step. Two numbers at distance at most ``s`` therefore become whole numbers that
differ by at most ``s/g + 1``, and so by at most ``floor(s/g) + 1``. That is what is charged, and nothing else is: the number is rounded once, from
an exact fraction, and Python's whole numbers have no end, so it does not matter how large it is for its sensitivity, or how many rows
the table has.

**Its range.** Every sealed number lies between plus and minus ``2**1023``; what lies beyond, and what is not finite, is one end
of that range (a value that is no number is the lower end). This is done when it is sealed, before anything is charged. Cutting to an
interval brings no two numbers further apart.
"""

from __future__ import annotations

import math
from fractions import Fraction

from understudy.privacy import Accounting, Noise
from understudy.privacy.noise.noise import noise_within

__all__ = [
    "GRID_WIDENING",
    "LEAST_SENSITIVITY",
    "LIMIT",
    "charged_steps",
    "grid_of",
    "on_grid",
    "scalar_noise",
]

_GRID_BITS = 20
"""Sealed numbers are rounded to 2**-20 of their sensitivity before integer noise is added."""

GRID_WIDENING: float = 2.0 ** (2 - _GRID_BITS)
"""Rounding to the grid is charged for: a scale widened by this share of itself stays within its epsilon."""

LIMIT: float = 2.0**1023
"""No sealed number is larger in size."""

LEAST_SENSITIVITY: float = 2.0**-1000
"""A smaller sensitivity is charged as this one, so that its grid is a double."""


def grid_of(sensitivity: float) -> float:
    """Return the step of the grid that a number of this sensitivity is rounded to.

    Examples
    --------
    >>> grid_of(1.0) == 2.0**-20, grid_of(1.5) == 2.0**-19
    (True, True)
    """
    mantissa, exponent = math.frexp(max(sensitivity, LEAST_SENSITIVITY))
    return 2.0 ** (exponent - (1 if mantissa == 0.5 else 0) - _GRID_BITS)


def on_grid(exact: Fraction, step: float) -> int:
    """Return a number as a whole number of steps: the nearest one."""
    return round(exact / Fraction(step))


def charged_steps(sensitivity: float, step: float) -> int:
    """Return the steps by which a number is said to move, rounding included; proof at the head of this module.

    Examples
    --------
    >>> charged_steps(1.0, grid_of(1.0)) - 2**20
    1
    """
    return math.floor(Fraction(sensitivity) / Fraction(step)) + 1


def scalar_noise(accounting: Accounting, cost: float, sensitivity: float) -> Noise:
    """Return the noise with which a sealed number of a sensitivity costs at most ``cost``, the grid it is put on included.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> round(scalar_noise(PURE, 0.5, 1.0).scale, 2)
    2.0
    """
    room = sensitivity * (1 + GRID_WIDENING)
    return noise_within(accounting, cost, l1=room, l2=room)
