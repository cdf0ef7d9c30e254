"""Kernel sums of counts: the Gaussian-process mechanism of Hall, Rinaldo and Wasserman (2013) on a grid of bins.

The kernel density estimate over bins is ``K c``, with counts ``c`` and the kernel matrix ``K`` (ones on its diagonal). Hall
et al. add a Gaussian process with covariance ``s² K``: then a row in bin ``i``, which moves the estimate by ``K e_i``, moves
it by ``sqrt(e_i' K K^-1 K e_i) = sqrt(K_ii) = 1`` in the norm of the noise, whatever the bandwidth. That is their bound in
the kernel's Hilbert space, and it makes the mechanism ``1/s``-GDP.

Here the same law is drawn with independent whole-number noise. Write ``K = W'W``. Release ``y = W c + s z`` with
independent ``z``: one row moves ``W c`` by ``|W e_i|_2 = sqrt(K_ii)``. Then ``W'y = K c + s W'z`` has noise of covariance
``s² K``: the process. Releasing ``y`` instead of ``W'y`` is what is paid for, and no correlated noise is ever rounded.

``W`` may have more rows than columns. It is rounded to whole multiples of a power of two *before* it meets the counts, so ``W c`` is a whole number of
steps and the sensitivity is computed from the rounded matrix itself. With several columns the kernel is a product and
``W`` is a Kronecker product of one factor per column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.curator.numbers import Reach, SealedNumbers
from understudy.curator.sealed import SealedCounts, SealedScalar
from understudy.errors import BudgetError
from understudy.privacy import Unit, float_up

Array = npt.NDArray[np.float64]

_UP = 1 + 2.0**-40
_ROUND_BITS = 20
_SMOOTH_BITS = 24
_LARGEST_SCALE_BITS = 38
_LARGEST_SMOOTHER = 2.0**20


def factor_steps(factors: Sequence[Array], sigma: float) -> list[float]:
    """Return the step each factor is rounded to, for noise of about this many rows.

    Factors of whole numbers stay as they are. The others share 20 bits if there is one and 10 each otherwise,
    fewer where the noise is enormous.
    """
    rough = [not np.array_equal(item, np.rint(item)) for item in factors]
    many = max(1, sum(rough))
    room = math.floor((_LARGEST_SCALE_BITS - max(0.0, math.log2(sigma))) / many)
    bits = max(4, min(_ROUND_BITS if many == 1 else _ROUND_BITS // 2, room))
    return [2.0**-bits if item else 1.0 for item in rough]


def kernel_reach(factors: Sequence[Array], steps: Sequence[float], unit: Unit) -> Reach:
    """Return how far one unit moves the kernel sums ``(W_1 x W_2 x ...) c``, from the rounded factors themselves.

    Privacy
    -------
    A row in cell ``(i_1, i_2, ...)`` adds a product of columns, whose squared length is the product of theirs: at most
    ``S``, the product of the largest. Two such vectors are ``|u|² + |v|² - 2 <u, v>`` apart, and ``<u, v>`` is a
    product of entries of the Gram matrices of the factors, at least the least product ``g`` of numbers between their
    extremes. So adding a row moves the sums by ``sqrt(S)`` and replacing one by at most ``sqrt(2 S - 2 g)``; with one
    factor all pairs are tried. A unit of ``k`` rows that joins adds ``k`` vectors; a replaced one is a
    difference of two sums of at most ``k``, largest when each sum is empty or has ``k`` equal terms: ``k`` times
    the larger of the two bounds. Sums of squares stay below ``2**53``, so floating point computes them exactly.

    Examples
    --------
    >>> round(kernel_reach([np.eye(3)], [1.0], Unit.replace_one()).l2, 6)
    1.414214
    """
    largest = 1
    low, high = 1, 1
    apart = 0
    for item, step in zip(factors, steps, strict=True):
        columns = np.rint(item / step)
        gram = columns.T @ columns
        squares = np.diag(gram)
        largest *= int(squares.max())
        ends = [low * int(gram.min()), low * int(gram.max()), high * int(gram.min()), high * int(gram.max())]
        low, high = min(ends), max(ends)
        apart = int((squares[:, None] + squares[None, :] - 2 * gram).max())
    if len(factors) > 1:
        apart = 2 * largest - 2 * low
    moved = largest if unit.relation == "add-remove" else max(largest, apart)
    l2 = unit.max_rows * math.sqrt(moved) * math.prod(steps) * _UP
    size = math.prod(len(item) for item in factors)
    return Reach(l1=l2 * math.sqrt(size) * _UP, l2=l2)


def kernel_sums(
    sealed: SealedCounts, factors: Sequence[Array], steps: Sequence[float], *, name: str
) -> SealedNumbers:
    """Seal ``(W_1 x W_2 x ...) c`` for public factors, one per axis of the counts.

    Privacy
    -------
    In: private. Out: under seal, with the sensitivity of :func:`kernel_reach`. Entries of the factors are at most
    one in size, so sums fit 64 bits for any table of up to ``2**33`` rows.
    """
    table = sealed._exact.astype(np.int64)
    if len(factors) != table.ndim or len(steps) != table.ndim:
        raise BudgetError(f"Kernels are needed for {table.ndim} axes; got {len(factors)}.")
    for axis, (item, step) in enumerate(zip(factors, steps, strict=True)):
        matrix = np.asarray(item, dtype=np.float64)
        wide = matrix.ndim == 2 and matrix.shape[1] == table.shape[axis]
        if not wide or not (np.abs(matrix) <= 1.0 + 1e-6).all():
            raise BudgetError(
                f"The factor of axis {axis} needs {table.shape[axis]} columns of entries within one."
            )
        rounded = np.rint(matrix / step).astype(np.int64)
        if not np.array_equal(rounded, np.eye(*rounded.shape, dtype=np.int64)):
            table = np.moveaxis(np.tensordot(rounded, table, axes=(1, axis)), 0, axis)
    reach = kernel_reach(factors, steps, sealed._unit)
    return SealedNumbers(table.ravel(), name=name, step=math.prod(steps), reach=reach)


def smoothing_error(sealed: SealedCounts, smoothers: Sequence[Array]) -> SealedScalar:
    """Return how many rows smoothing moves: the L1 distance of counts to their smoothed version.

    Parameters
    ----------
    sealed
        Exact counts. Private.
    smoothers
        One public matrix per axis, without negative entries and with a diagonal of at most one; the smoothed
        counts are their Kronecker product times the counts.

    Privacy
    -------
    In: private. Out: under seal. ``c - S c`` is linear, so one row in cell ``i`` moves its L1 norm by at most
    ``|e_i - S e_i|_1 = (1 - S_ii) + (sum_x S_xi - S_ii)``. Column sums and diagonals of a Kronecker product are
    products, hence at most ``1 + (product of largest column sums) - 2 (product of smallest diagonals)``. Times
    ``histogram_l1`` for a unit: rows that join, leave or are exchanged one by one.

    The smoothers are rounded to whole multiples of a power of two before they meet the counts, and these rounded ones are what
    the bound is about. All sums are then whole numbers: of 64 bits where they fit, of Python's own where not. Nothing is rounded.
    """
    table = sealed._exact.astype(np.int64)
    if len(smoothers) != table.ndim:
        raise BudgetError(f"Smoothers are needed for {table.ndim} axes; got {len(smoothers)}.")
    bits = _SMOOTH_BITS // max(1, table.ndim)
    smooth, sums, diagonal, one = table, 1, 1, 1
    for axis, given in enumerate(smoothers):
        matrix = np.asarray(given, dtype=np.float64)
        if (
            matrix.shape != (table.shape[axis],) * 2
            or (matrix < 0).any()
            or (np.diag(matrix) > 1 + 1e-12).any()
        ):
            raise BudgetError(f"The smoother of axis {axis} must be square, and not negative.")
        if not (matrix <= _LARGEST_SMOOTHER).all():
            raise BudgetError(
                f"The entries of the smoother of axis {axis} must be at most {_LARGEST_SMOOTHER:g}."
            )
        rounded = np.rint(matrix * 2.0**bits).astype(np.int64)
        np.fill_diagonal(rounded, np.minimum(np.diag(rounded), 1 << bits))
        sums *= int(rounded.sum(axis=0).max())
        diagonal *= int(np.diag(rounded).min())
        one <<= bits
        # whole numbers below 2**53 are exact in floating point too, where products are quicker
        most = sealed._total * max(sums, one)
        kind = np.float64 if most < 1 << 53 else np.int64 if most < 1 << 62 else object
        smooth = np.tensordot(rounded.astype(kind), smooth.astype(kind), axes=(1, axis))
        smooth = np.moveaxis(smooth, 0, axis).astype(object if kind is object else np.int64)
    worst = Fraction(max(0, one + sums - 2 * diagonal), one)
    wide = object if 2 * sealed._total * max(sums, one) >= 1 << 62 else np.int64
    error = Fraction(int(np.abs(table.astype(wide) * one - smooth).sum()), one)
    return SealedScalar(error, sensitivity=float_up(worst * sealed._unit.histogram_l1))
