"""Exact sums of counts and public numbers.

A number that noise is added to must be the one that its sensitivity was proved for, not a double near it. Counts are whole, so only the
public numbers that they are multiplied or compared with need care, and these may be rounded at will *before* they meet a
count: a rounded public number is a public number. So every vector of public numbers is put on a public grid first, and from there on
all is done in whole numbers (or in doubles that are whole numbers of steps below ``2**53``, which doubles add without rounding).
A sum that would not fit into 64 bits is added in Python's whole numbers, which have no end; the result is the same.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PublicNumbers", "exact_distance", "to_float"]

Ints = npt.NDArray[np.signedinteger[Any]]
Floats = npt.NDArray[np.float64]

_LIMB = 30
"""Bits of the upper and of the lower half of a public number on its grid."""

_SAFE_ROWS = 1 << 32
"""Up to so many rows, times a half of ``2**30`` steps, sums stay below ``2**62``."""

_LARGEST: float = sys.float_info.max


@dataclass(frozen=True, eq=False)
class PublicNumbers:
    """Public numbers on a public grid: ``base + step (2**30 upper + lower)``, ``2**60`` steps from the least to the largest.

    The values that take part in a sum are those on the grid, within ``2**-53`` of the range of the given ones (where these are
    far from zero for their range, within what their own differences are rounded to). :attr:`low` and :attr:`high` are exact.

    Examples
    --------
    >>> numbers = PublicNumbers.of([1e16, 1e16 + 2])
    >>> numbers.dot(np.array([1, 3]))
    Fraction(40000000000000006, 1)
    >>> numbers.high - numbers.low
    Fraction(2, 1)
    """

    base: Fraction
    step: Fraction
    upper: npt.NDArray[np.int64]
    lower: npt.NDArray[np.int64]

    @classmethod
    def of(cls, values: npt.ArrayLike) -> PublicNumbers:
        """Put finite numbers on their grid."""
        given = np.asarray(values, dtype=np.float64)
        shift = math.frexp(float(np.abs(given).max(initial=0.0)))[1]
        scaled = np.ldexp(given, -shift)  # at most one in size, so that no difference overflows
        base = float(scaled.min(initial=math.inf)) if given.size else 0.0
        above = scaled - base
        width = math.frexp(float(above.max(initial=0.0)))[1]
        whole = np.ldexp(above, 2 * _LIMB - width)  # below 2**60
        upper = np.floor(np.ldexp(whole, -_LIMB))
        lower = np.rint(whole - np.ldexp(upper, _LIMB))
        return cls(
            Fraction(base) * Fraction(2) ** shift,
            Fraction(2) ** (shift + width - 2 * _LIMB),
            upper.astype(np.int64),
            lower.astype(np.int64),
        )

    def _at(self, steps: int) -> Fraction:
        return self.base + self.step * steps

    @property
    def _steps(self) -> npt.NDArray[np.int64]:
        return (self.upper << _LIMB) + self.lower

    @property
    def low(self) -> Fraction:
        """The least of the numbers."""
        return self._at(int(self._steps.min()))

    @property
    def high(self) -> Fraction:
        """The largest of the numbers."""
        return self._at(int(self._steps.max()))

    def value(self, index: int) -> Fraction:
        """One of the numbers, in the order of a flat array."""
        return self._at((int(self.upper.flat[index]) << _LIMB) + int(self.lower.flat[index]))

    def dot(self, counts: Ints) -> Fraction:
        """Return the sum over all cells of count times number. As private as the counts."""
        return self.dots(counts.reshape(1, -1))[0]

    def dots(self, counts: Ints) -> list[Fraction]:
        """Return the sums of :meth:`dot` for each row of a matrix of counts. As private as the counts."""
        table = counts.reshape(counts.shape[0], -1).astype(np.int64)
        rows = np.abs(table).sum(axis=1)
        if (rows >= _SAFE_ROWS).any() or (rows < 0).any():
            whole = table.astype(object) @ self._steps.ravel().astype(object)
            totals = table.astype(object).sum(axis=1)
            return [self.base * int(n) + self.step * int(s) for n, s in zip(totals, whole, strict=True)]
        upper, lower = table @ self.upper.ravel(), table @ self.lower.ravel()
        return [
            self.base * n + self.step * ((u << _LIMB) + v)
            for n, u, v in zip(table.sum(axis=1).tolist(), upper.tolist(), lower.tolist(), strict=True)
        ]


def exact_distance(counts: Ints, public: Floats, *, rows: int) -> Fraction:
    """Return the L1 distance between counts and public numbers that were put on a public grid.

    The step of the grid is ``2**-k`` with the largest ``k <= 30`` for which the public numbers and as many rows stay below ``2**51`` steps.

    Parameters
    ----------
    counts
        Whole numbers, not negative. Private.
    public
        Finite numbers in the shape of the counts.
    rows
        The sum of the counts. Private.

    Notes
    -----
    *Why it is exact.* Adding and taking away ``1.5 2**(52-k)`` rounds a double to a multiple of ``2**-k``. Counts are such multiples too, so
    are all differences and all partial sums of them, and none is larger than ``rows + sum |public|``: below ``2**52`` steps a
    double holds each of them exactly, in whatever order they are added. Where that is too much, Python's whole numbers are added.

    Examples
    --------
    >>> exact_distance(np.array([3, 0]), np.array([1.5, 2.25]), rows=3)
    Fraction(15, 4)
    """
    size = float(np.abs(public).sum())
    bits = min(30, 51 - max(1, math.frexp(size)[1])) if math.isfinite(size) else -1
    if bits >= 0 and rows < 1 << (51 - bits):
        magic = 1.5 * 2.0 ** (52 - bits)
        difference = public + magic
        difference -= magic
        difference -= counts
        np.abs(difference, out=difference)
        return Fraction(float(difference.sum()))
    bits = max(0, bits)
    steps = np.frompyfunc(lambda x: round(Fraction(x) * (1 << bits)), 1, 1)(public.ravel())
    distances = np.abs(counts.ravel().astype(object) * (1 << bits) - steps)
    return Fraction(int(distances.sum()), 1 << bits)


def to_float(value: Fraction | int) -> float:
    """Return the double nearest to a number, at most the largest one in size.

    Examples
    --------
    >>> to_float(Fraction(1, 4)), to_float(10**400) == sys.float_info.max
    (0.25, True)
    """
    try:
        return float(value)
    except OverflowError:
        return _LARGEST if value > 0 else -_LARGEST
