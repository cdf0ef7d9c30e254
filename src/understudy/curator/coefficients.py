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

from understudy.curator.numbers import Reach, SealedNumbers
from understudy.curator.sealed import SealedCounts, SealedScalar
from understudy.errors import BudgetError
from understudy.privacy import Unit
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

GRID_BITS = 20
_LARGEST_SCALE_BITS = 38
_PAIRS = 20_000_000
_PATTERNS = 14
_CHUNK = 4_000_000
_UP = 1 + 2.0**-40
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
    In: private. Out: under seal, with the sensitivities of :func:`linear_reach`.
    """
    flat = sealed._exact.ravel().astype(np.int64)
    matrix = np.asarray(basis, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != flat.size or not np.isfinite(matrix).all():
        raise BudgetError(f"The basis must be a finite matrix with {flat.size} columns.")
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
        for number in kept
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
    In: private. Out: under seal, with the joint sensitivity of :func:`fourier_reach`.
    """
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
            pieces.append(np.rint(basis[start : start + rows] * (weight / step)).astype(np.int64) @ flat)
    reach = fourier_reach(domain, [item.clique for item in sealed], weights, unit, step=step)
    joined = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
    return SealedNumbers(joined, name="weighted Fourier coefficients", step=step, reach=reach)
