"""What rounding does to a sealed number, and what is charged for it.

A sealed number ``x`` of sensitivity ``s`` is a double, computed from exact counts; noise is a whole number of steps of a grid. Two
roundings lie between the mathematics and the noise.

**To the grid.** The step ``g`` is a power of two, at least ``2**-20`` of ``s`` and less than ``2**-19`` of it. Two numbers at distance
``d`` round to whole numbers of steps at distance at most ``d/g + 1``.

**In the computation.** 128 steps more, at least ``2**-13 s``, are charged for the distance of two numbers as computed beyond that of
the exact ones. They cover three things.

*Records.* A term of a sum takes part in fewer than 64 roundings: its own conversion, product or difference, 18 in the block of 128
terms that NumPy adds in eight lanes, one for each doubling of the block (20 for ``10**8`` cells), and those of the result. Each is at most
``2**-53`` of a partial sum, so the sum is off by at most ``2**-47`` of the sizes of its terms. What ``n`` rows contribute is at most
``n s`` in all, so two numbers are off by ``2**-46 n s``: half of the allowance for ``2**32`` rows. That is why sums here must be
added in pairs: a running sum of a million cells would be off a thousand times as much. Entropies and mutual information have terms of up
to ``6 n s`` in all; with what a choice allows, ``2**-13 s`` for each score, that is enough for two billion rows.

*Public numbers that enter the same sum*: a vector that counts are compared with, or an offset that all weights share. Their sizes ``P``
have nothing to do with ``s``; two numbers are off by ``2**-46 P`` more. Up to ``2**-15 s`` this lies within the allowance. Where it is
more, :func:`as_computed` adds it to the sensitivity.

*A public constant that is added later*: one more rounding of a number of its size, treated alike, with ``2**-15 s`` of its own.
"""

from __future__ import annotations

import math

from understudy.privacy import Accounting, Noise, noise_within

__all__ = ["GRID_WIDENING", "as_computed", "charged_steps", "grid_of", "scalar_noise"]

_GRID_BITS = 20
"""Sealed numbers are rounded to 2**-20 of their sensitivity before integer noise is added."""

_STEPS_OFF: int = 2 ** (_GRID_BITS - 13)
"""Steps of that grid by which two sealed numbers together may be off as computed: 2**-13 of their sensitivity, as in a choice."""

GRID_WIDENING: float = (3 + _STEPS_OFF) * 2.0 ** (1 - _GRID_BITS)
"""Rounding to the grid is charged for: a scale widened by this share of itself stays within its epsilon."""

_PER_SIZE = 2.0**-46
"""What two sums of doubles may be off, together, as a share of the sizes of their terms."""

_SPARE = 2.0**-15
"""The share of a sensitivity that is set aside for public numbers in a sum."""


def grid_of(sensitivity: float) -> float:
    """Return the step of the grid that a number of this sensitivity is rounded to.

    Examples
    --------
    >>> grid_of(1.0) == 2.0**-20, grid_of(1.5) == 2.0**-19
    (True, True)
    """
    return 2.0 ** (math.ceil(math.log2(sensitivity)) - _GRID_BITS)


def charged_steps(sensitivity: float, step: float) -> int:
    """Return the steps by which a number is said to move, rounding included; proof at the head of this module.

    Examples
    --------
    >>> charged_steps(1.0, grid_of(1.0)) - 2**20
    129
    """
    return math.ceil(sensitivity / step) + 1 + _STEPS_OFF


def as_computed(sensitivity: float, *, size: float) -> float:
    """Widen a sensitivity where public numbers of a size would blur the sum that they enter.

    Parameters
    ----------
    sensitivity
        Of the exact number.
    size
        Sum of the absolute values of the public numbers, or a bound on it. Public.

    Returns
    -------
    float
        The sensitivity itself unless rounding may take more than the ``2**-15`` of it set aside, that is for sizes of up to
        ``2**31`` times the sensitivity. A number that nobody can change has none either way.

    Privacy
    -------
    Proof at the head of this module.

    Examples
    --------
    >>> as_computed(1.0, size=1e9)
    1.0
    >>> as_computed(1.0, size=2.0**46)
    2.0
    """
    off = _PER_SIZE * size
    return sensitivity if sensitivity == 0 or off <= _SPARE * sensitivity else sensitivity + off


def scalar_noise(accounting: Accounting, cost: float, sensitivity: float) -> Noise:
    """Return the noise with which a sealed number of a sensitivity costs at most ``cost``, the grid it is put on included.

    Examples
    --------
    >>> from understudy.privacy import PURE
    >>> round(scalar_noise(PURE, 0.5, 1.0).scale, 2)
    2.0
    """
    room = sensitivity * (1 + GRID_WIDENING)
    return noise_within(accounting, cost, l1=room, l2=room)
