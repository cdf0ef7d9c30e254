"""Linear transforms of counts as sealed vectors on a fixed-point grid: Fourier coefficients and their tails.

A row in cell ``x`` adds the column ``ψ(x)`` of the transform. Entries are rounded to whole multiples of a power of two
*before* they are multiplied by counts, so coefficients are exact whole numbers of steps, whole-number noise protects
them exactly, and floating-point error has no part in the sensitivity.

**From one row to a unit.** Let every column have norm at most ``s`` and every difference of two columns at most ``d``. A
unit of ``k`` rows that joins or leaves moves the coefficients by at most ``k s``. A replaced unit takes ``a <= k`` rows
away and brings ``b <= k``: pair as many as possible, the rest are single, so at most ``k max(s, d)``; and ``d <= 2 s``.

**Rounding.** A rounded entry is off by at most half a step, and 3/4 of one covers the error of the entry as
computed. ``m`` entries add ``3/4 m`` steps to a norm in L1 and ``3/4 √m`` in L2; differences add twice as much.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.curator import Reach, SealedCounts, SealedNumbers, SealedScalar
from understudy.curator.sealed import require_seals
from understudy.errors import BudgetError
from understudy.privacy import Unit
from understudy.privacy.exact_floats import float_up
from understudy.privacy.own import own
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# Kernel sums of counts: the Gaussian-process mechanism of Hall, Rinaldo and Wasserman (2013) on a grid of bins.
#
# The kernel density estimate over bins is ``K c``, with counts ``c`` and the kernel matrix ``K`` (ones on its diagonal). Hall
# et al. add a Gaussian process with covariance ``s² K``: then a row in bin ``i``, which moves the estimate by ``K e_i``, moves
# it by ``sqrt(e_i' K K^-1 K e_i) = sqrt(K_ii) = 1`` in the norm of the noise, whatever the bandwidth. That is their bound in
# the kernel's Hilbert space, and it makes the mechanism ``1/s``-GDP.
#
# Here the same law is drawn with independent whole-number noise. Write ``K = W'W``. Release ``y = W c + s z`` with
# independent ``z``: one row moves ``W c`` by ``|W e_i|_2 = sqrt(K_ii)``. Then ``W'y = K c + s W'z`` has noise of covariance
# ``s² K``: the process. Releasing ``y`` instead of ``W'y`` is what is paid for, and no correlated noise is ever rounded.
#
# ``W`` may have more rows than columns. It is rounded to whole multiples of a power of two *before* it meets the counts, so ``W c`` is a whole number of
# steps and the sensitivity is computed from the rounded matrix itself. With several columns the kernel is a product and
# ``W`` is a Kronecker product of one factor per column.

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
    one in size and the steps together at least ``2**-30``, so sums fit 64 bits for any table of up to ``2**32`` rows.
    """
    table = sealed._exact.astype(np.int64)
    factors = [np.array(item, dtype=np.float64) for item in factors]
    steps = [float(step) for step in steps]
    if not all(0 < step <= 1 for step in steps) or math.prod(steps) < 2.0**-30:
        raise BudgetError("The steps of kernels lie between 0 and 1, and are together at least 2**-30.")
    if len(factors) != table.ndim or len(steps) != table.ndim:
        raise BudgetError(f"Kernels are needed for {table.ndim} axes; got {len(factors)}.")
    for axis, (item, step) in enumerate(zip(factors, steps, strict=True)):
        matrix = item
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


Ints = npt.NDArray[np.int64]

GRID_BITS = 20
_PAIRS = 20_000_000
_PATTERNS = 14
_CHUNK = 4_000_000
_TAIL_BITS = 30
_ROOT_BITS = 20


def grid_step(scale: float) -> float:
    """Return the step of the grid for noise of this scale: ``2**-20`` of a row, coarser under enormous noise."""
    return 2.0 ** max(-GRID_BITS, math.ceil(math.log2(scale)) - _LARGEST_SCALE_BITS)


# ---------------------------------------------------------------------------- one histogram


def linear_reach(basis: Array, unit: Unit, *, step: float = 2.0**-GRID_BITS) -> Reach:
    """Return how far one unit moves ``basis @ counts``, from the rounded basis itself.

    Differences of columns are tried pair by pair where that is quick; otherwise twice the largest column bounds
    them.

    Examples
    --------
    >>> reach = linear_reach(np.array([[0.5, 0.5], [0.5, -0.5]]), Unit.add_remove())
    >>> round(reach.l1, 6), round(reach.l2, 6)
    (1.0, 0.707107)
    """
    columns = np.rint(np.asarray(basis, dtype=np.float64) / step)
    size, cells = columns.shape
    one_l1 = float(np.abs(columns).sum(axis=0).max(initial=0.0))
    one_l2 = math.sqrt(float(np.square(columns).sum(axis=0).max(initial=0.0)))
    if unit.relation == "add-remove":
        l1, l2 = one_l1, one_l2
    else:
        two_l1, two_l2 = 2 * one_l1, 2 * one_l2
        if size * cells * cells <= _PAIRS:
            apart = [np.abs(columns - columns[:, [x]]) for x in range(cells)]
            two_l1 = max(float(item.sum(axis=0).max()) for item in apart)
            two_l2 = math.sqrt(max(float(np.square(item).sum(axis=0).max()) for item in apart))
        l1, l2 = max(one_l1, two_l1), max(one_l2, two_l2)
    return Reach(unit.max_rows * l1 * step * _UP, unit.max_rows * l2 * step * _UP)


def linear_coefficients(sealed: SealedCounts, basis: Array, *, name: str, step: float) -> SealedNumbers:
    """Seal ``basis @ counts`` for a public matrix over the cells of one histogram.

    Privacy
    -------
    In: private. Out: under seal, with the sensitivities of :func:`linear_reach`. No entry is larger than ``2**30`` steps, so sums fit 64 bits for any
    table of up to ``2**32`` rows.
    """
    flat = sealed._exact.ravel().astype(np.int64)
    matrix, step = np.array(basis, dtype=np.float64), float(step)
    if matrix.ndim != 2 or matrix.shape[1] != flat.size or not np.isfinite(matrix).all():
        raise BudgetError(f"The basis must be a finite matrix with {flat.size} columns.")
    if not 0 < step < math.inf or not (np.abs(matrix) <= step * 2.0**30).all():
        raise BudgetError("The entries of a basis are at most 2**30 steps in size.")
    reach = linear_reach(matrix, sealed._unit, step=step)
    return SealedNumbers(np.rint(matrix / step).astype(np.int64) @ flat, name=name, step=step, reach=reach)


def tail_norms(sealed: SealedCounts, basis: Array, kept: Sequence[int]) -> list[SealedScalar]:
    """Return how much of the counts is lost, in L2, when only the first few coefficients are kept.

    Parameters
    ----------
    sealed
        Exact counts. Private.
    basis
        Orthonormal rows, as many as there are cells. Public.
    kept
        How many coefficients are kept, for each number that is wanted.

    Privacy
    -------
    In: private. Out: under seal. The loss is ``|P c|_2`` where ``P`` projects onto the coefficients left out. It is a
    norm of a linear map: it moves by at most ``|P (c' - c)|_2 <= |P| histogram_l2``. The basis is rounded to whole multiples of ``2**-30``
    first and ``P`` is made of the rounded rows ``B``, so coefficients and the sums of their squares are exact. ``|P|² <= |B B'|``, which is at
    most the largest sum of absolute values in a row of ``B B'``: one, but for what rounding does to orthonormal rows. That sum is taken in
    doubles and ``m² 2**-52`` is added for it. The root is rounded down by less than ``2**-50``, which is added too.
    """
    matrix = np.asarray(basis, dtype=np.float64)
    cells = sealed._exact.size
    if matrix.shape != (cells, cells) or not np.allclose(matrix @ matrix.T, np.eye(cells), atol=1e-9):
        raise BudgetError("The loss needs an orthonormal basis over all cells.")
    whole = np.rint(np.ldexp(matrix, _TAIL_BITS))
    rounded = np.ldexp(whole, -_TAIL_BITS)
    largest = float(np.abs(rounded @ rounded.T).sum(axis=1).max()) + cells * cells * 2.0**-52
    # entries are at most a little more than one, so sums stay below 2**62 in a table smaller than 2**31
    kind = np.int64 if sealed._total < 1 << 31 else object
    found = (whole.astype(np.int64).astype(kind) @ sealed._exact.ravel().astype(kind)).tolist()
    squares = [*[*itertools.accumulate(x * x for x in reversed(found))][::-1], 0]
    reach = math.nextafter(sealed.l2 * math.sqrt(largest), math.inf) * _UP + 2.0**-50
    return [
        SealedScalar(
            Fraction(math.isqrt(squares[number] << 2 * _ROOT_BITS), 1 << (_TAIL_BITS + _ROOT_BITS)),
            sensitivity=reach,
        )
        for number in (int(many) for many in kept)
    ]


# ---------------------------------------------------------------------------- many tables


def contrasts(size: int) -> Array:
    """Return the real Fourier basis over ``size`` values without its constant, each row of mean square one.

    Two values give the single contrast (1, -1) of Walsh and Hadamard. Rows are orthogonal to each other and to
    the constant, and the squares of every column add up to ``size - 1``.

    Examples
    --------
    >>> contrasts(2)
    array([[ 1., -1.]])
    >>> np.round(contrasts(3), 3)
    array([[ 1.414, -0.707, -0.707],
           [ 0.   ,  1.225, -1.225]])
    """
    turn = 2 * np.pi * np.arange(size) / size
    rows = []
    for frequency in range(1, (size - 1) // 2 + 1):
        rows += [math.sqrt(2) * np.cos(frequency * turn), math.sqrt(2) * np.sin(frequency * turn)]
    if size % 2 == 0:
        rows.append(np.where(np.arange(size) % 2 == 0, 1.0, -1.0))
    return np.array(rows).reshape(size - 1, size)


def interaction_basis(domain: Domain, part: Clique) -> Array:
    """Return the products of contrasts of some columns: a matrix of coefficients by cells of their marginal."""
    basis: Array = np.ones((1, 1))
    for name in part:
        basis = np.kron(basis, contrasts(domain.size(name))).astype(np.float64)
    return basis


def fourier_reach(
    domain: Domain,
    parts: Sequence[Clique],
    weights: Sequence[float],
    unit: Unit,
    *,
    step: float = 2.0**-GRID_BITS,
) -> Reach:
    """Return how far one unit moves the weighted Fourier coefficients of several interactions together.

    Privacy
    -------
    A part ``S`` has ``p = prod (n_i - 1)`` coefficients. A row in cell ``x`` adds ``ψ_S(x)``, a product of contrasts, to
    them: ``|ψ_S(x)|_2² = p`` for every ``x``, and ``|ψ_S(x)|_1`` is a product over columns whose factors take their
    maxima independently of each other. Adding over parts gives the exact column norms ``s``. For two rows
    ``⟨ψ_S(x), ψ_S(y)⟩`` is the product over the columns of ``S`` of ``n_i - 1`` where they agree and ``-1`` where not. It
    depends only on the set of columns that agree; all sets are tried (for up to 14 columns), with
    ``|ψ_S(x) - ψ_S(y)|_2² = 2 (p - ⟨.,.⟩)`` and ``|.|_1 <= √p |.|_2``; for binary columns the latter is an
    equality, so ``d`` is exact there. With more columns ``d <= 2 s``.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> reach = fourier_reach(domain, [("a",), ("b",), ("a", "b")], [1.0, 1.0, 1.0], Unit.replace_one())
    >>> round(reach.l1, 3), round(reach.l2, 3)
    (4.0, 2.828)
    """
    w = np.asarray(weights, dtype=np.float64)
    numbers = np.array([math.prod(domain.size(name) - 1 for name in part) for part in parts], dtype=float)
    largest = {name: float(np.abs(contrasts(domain.size(name))).sum(axis=0).max()) for name in domain.names}
    tall = np.array([math.prod(largest[name] for name in part) for part in parts])
    m = float(numbers.sum())
    l1, l2 = float(w @ tall), math.sqrt(float(np.square(w) @ numbers))
    slack = 0.75 * step
    if unit.relation == "replace-one":
        two_l1, two_l2 = 2 * l1, 2 * l2
        used = [name for name in domain.names if any(name in part for part in parts)]
        if len(used) <= _PATTERNS:
            alike = _agreements(domain, used, parts)
            squares = np.maximum(0.0, 2 * (numbers - alike))
            two_l1 = min(two_l1, float((np.sqrt(numbers * squares) @ w).max()))
            two_l2 = min(two_l2, math.sqrt(float((squares @ np.square(w)).max())))
        l1, l2, slack = max(l1, two_l1), max(l2, two_l2), 2 * slack
    rows = unit.max_rows
    return Reach(rows * (l1 + slack * m) * _UP, rows * (l2 + slack * math.sqrt(m)) * _UP)


def _agreements(domain: Domain, used: Sequence[str], parts: Sequence[Clique]) -> Array:
    """Return the inner product of each part's coefficients of two rows, for each set of columns that agree."""
    patterns = np.array(list(itertools.product((False, True), repeat=len(used))), dtype=bool)
    patterns = patterns.reshape(-1, len(used))
    patterns |= np.array([domain.size(name) == 1 for name in used], dtype=bool)  # one value: always agrees
    factors = {name: np.where(patterns[:, i], domain.size(name) - 1.0, -1.0) for i, name in enumerate(used)}
    alike = np.ones((len(patterns), len(parts)))
    for j, part in enumerate(parts):
        for name in part:
            alike[:, j] *= factors[name]
    return alike


def fourier_coefficients(
    sealed: Sequence[SealedCounts],
    domain: Domain,
    weights: Sequence[float],
    *,
    unit: Unit,
    step: float,
) -> SealedNumbers:
    """Seal the weighted Fourier coefficients of one marginal per interaction, in the order given.

    Privacy
    -------
    In: private. Out: under seal, with the joint sensitivity of :func:`fourier_reach` for the unit that the counts were sealed for. No coefficient of a row is larger than ``2**30`` steps,
    so sums fit 64 bits for any table of up to ``2**32`` rows.
    """
    sealed, weights, step = list(sealed), [float(weight) for weight in weights], float(step)
    unit, domain = own(unit, Unit), own(domain, Domain)
    require_seals(sealed, SealedCounts)
    if any(item._unit != unit for item in sealed):
        raise BudgetError("The counts were sealed for another unit.")
    if len(sealed) != len(weights) or not all(0 < w < math.inf for w in weights):
        raise BudgetError("Every interaction needs a positive weight.")
    pieces = []
    for item, weight in zip(sealed, weights, strict=True):
        if item.shape != domain.shape(item.clique):
            raise BudgetError("Fourier coefficients need whole marginals.")
        basis = interaction_basis(domain, item.clique)
        flat = item._exact.reshape(-1).astype(np.int64)
        rows = max(1, _CHUNK // max(1, flat.size))
        for start in range(0, len(basis), rows):
            whole = np.rint(basis[start : start + rows] * (weight / step))
            if not (np.abs(whole) <= 2.0**30).all():
                raise BudgetError("The weights of interactions are too large for their step.")
            pieces.append(whole.astype(np.int64) @ flat)
    reach = fourier_reach(domain, [item.clique for item in sealed], weights, unit, step=step)
    joined = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
    return SealedNumbers(joined, name="weighted Fourier coefficients", step=step, reach=reach)
