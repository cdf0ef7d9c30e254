"""Logistic and multinomial regression by objective perturbation, with minima that need not be exact.

The model: a record with predictors ``x`` (the constant one among them) has class ``k`` with probability proportional to
``exp(w_k . x)``, with ``w_0 = 0``. The mechanism minimises

    ``L(w) = sum over records of loss(w; x, y) + ridge/2 |w|² + b . w``

with random ``b``: objective perturbation (Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012). Sums take
the place of means, so the number of rows may be private. Two flaws of the textbook form are repaired.

**No exact minimum.** The proofs hold for the exact minimiser, which no computer finds. Here it is an ideal point that is
never published. What is published is the computed point plus a second, very small noise that hides how far it lies from
the ideal one (approximate minima perturbation, Iyengar et al. 2019).

**No real numbers.** ``b`` is ``g K`` with whole numbers ``K`` from the discrete Laplace distribution and a fine step ``g``. The
ideal ``b`` is ``g (K + U)`` with ``U`` uniform in ``[-1/2, 1/2]``, which has a density; leaving ``U`` out moves the minimiser a
little, and the second noise hides that too.

Privacy
-------
*The ideal minimiser.* For every table ``w -> b(w) = -grad(L without b)(w)`` is one-to-one and smooth, because the ridge makes the
sum strongly convex. So the minimiser has the density ``h(b(w)) |det J(w)|`` with ``J`` the matrix of second derivatives, of at
least ``ridge``. Between neighbours:

- ``b(w)`` moves by the gradients of the records that differ. A gradient is ``(p - e_y) x``, without class 0. If ``y = 0`` the
  entries of ``p`` add up to at most 1; otherwise the L1 norm is at most ``2 (1 - p_y)``, and with two classes ``1 - p_y``. So it is
  at most ``c |x|_1`` with ``c = 1`` for two classes and 2 for more. Under replace-one two gradients differ, under a unit
  of ``k`` rows ``k`` or ``2k``; call the sum ``D1``.
- Moving ``b`` by ``a`` moves each of ``d`` rounded coordinates by at most ``|a_i|/g + 1`` steps, so ``ln h`` changes by at most
  ``(D1/g + d)/s``, where ``s`` is the scale of ``K`` in steps: the first part of epsilon.
- Write ``J = H + F`` with ``H >= ridge`` from what the neighbours share and ``F >= 0`` from the ``k`` records that one of them has
  (under replace-one each has ``k``, and the bound below holds for both, hence for their ratio). ``F`` has rank at most ``r = k (K - 1)`` and
  trace at most ``k t |x|_2²``, where ``t = max sum p (1 - p)`` over classes other than 0 is 1/4 for two classes and
  ``1 - 1/(K - 1)`` for more. With eigenvalues ``l_j`` of ``H^-1 F``, ``ln det(I + H^-1 F) = sum ln(1 + l_j) <= r ln(1 + T/r)``,
  ``T = k t |x|_2² / ridge``: the second part.

*The published point.* Let ``w`` be the ideal point, the same on both sides, and ``v`` the computed one. The gradient at ``v`` of the
ideal objective has norm at most ``gamma + g sqrt(d)/2``, where ``gamma`` bounds the gradient of the computed objective, so
``|v - w|_2 <= e = (gamma + g sqrt(d)/2)/ridge``. Given ``w``, two tables therefore have computed points at most ``2e`` apart,
and after rounding to a grid of step ``f`` at most ``2 sqrt(d) e/f + d`` steps in L1. Discrete Laplace noise with that many
steps divided by the third part of epsilon hides them. The publication is a function of ``w`` (first two parts) and of
this noisy point (third part), whose costs add up.

*Rounding.* ``gamma`` is 2^-18 of the largest gradient ``G`` of one record, and the solver stops when the computed gradient is a quarter of it. The
rest is for rounding errors of the computed gradient, with ``u = 2^-53`` and up to 2^28 records, worst case. Products over blocks
of 64 records err by at most ``64 u`` of the sum of sizes, ``64 u 2^28 G = gamma/2``; blocks are added without errors of their own.
Logits err by at most ``gamma/64`` in their effect on the gradient, by the bound of ``rounding_of_logits``, or else are computed with twice the digits,
and exponentials, their sum and quotient by less than ``16 u G`` a record, together ``gamma/8``. The linear and the quadratic term add a few
``u`` of themselves, which near the minimum are of the size of the sum of gradients: ``gamma/32``. The norms in the sensitivities are rounded sums of fewer than 2,000
terms, so ``1 + 2^-40`` times them is at least the true norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Sealed
from understudy.data import Table
from understudy.errors import BudgetError, UnderstudyError
from understudy.marginals import Statistic
from understudy.privacy import Laplace, Unit
from understudy.privacy.events import PureEvent
from understudy.privacy.own import own

# ----------------------------------------------------------------------------------------
# Minimising a regularised multinomial loss over private records. Exact and private: only the curator calls this.

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BLOCK = 64
"""Records whose gradients are added in one product; rounding errors grow with it."""
_DISTINCT_CELLS = 1_000_000
_ITERATIONS = 1_000
"""Far more than ever needed: a failure to converge would be an outcome that the proof does not cover."""
_CURVED = 40_000
"""Second derivatives only steer the steps: about this many records say enough about them."""


@dataclass(frozen=True, eq=False, repr=False)
class Weighted(Sealed):
    """Some records as codes of their columns, the class of each, and how often it occurs. Private."""

    codes: tuple[Ints, ...]
    tables: tuple[Floats, ...]
    classes: Ints
    counts: Floats

    def design(self, rows: slice) -> Floats:
        """Return the predictors of some of the records, the constant first."""
        parts = [np.ones((len(self.classes[rows]), 1))]
        parts += [table[codes[rows]] for codes, table in zip(self.codes, self.tables, strict=True)]
        return np.concatenate(parts, axis=1)


def weighted_records(
    table: Table, target: str, classes: Ints, predictors: Sequence[tuple[str, Floats]]
) -> list[Weighted]:
    """Read the records a regression needs: distinct ones with their counts where there are few possible ones."""
    names = [name for name, _ in predictors]
    tables = tuple(numbers for _, numbers in predictors)
    columns = [*names, target]
    if table.schema.domain.cells(tuple(columns)) <= _DISTINCT_CELLS:
        codes, counts = table.distinct(columns)
        chunks = [({name: codes[:, i] for i, name in enumerate(columns)}, counts.astype(np.float64))]
    else:
        chunks = [
            (chunk, np.ones(len(chunk[target])))
            for chunk in table.chunks(table.schema.domain.canonical(columns))
        ]
    read = []
    for chunk, weights in chunks:
        which = classes[chunk[target]]
        kept = which >= 0
        if kept.any():
            found = tuple(np.asarray(chunk[name][kept], dtype=np.int64) for name in names)
            read.append(Weighted(found, tables, which[kept], weights[kept]))
    return read


def probabilities(logits: Floats, rest: Floats | None = None) -> Floats:
    """Return class probabilities, class 0 first; its logit is zero.

    ``rest`` is what rounding left out of the logits. Differences of logits are then right to one part in 2^53, and every
    probability to a few units in its last place, however large the logits are.
    """
    full = np.concatenate([np.zeros((len(logits), 1)), logits], axis=1)
    place = full.argmax(axis=1)[:, None]
    full -= np.take_along_axis(full, place, axis=1)
    if rest is not None:
        more = np.concatenate([np.zeros((len(rest), 1)), rest], axis=1)
        full += more - np.take_along_axis(more, place, axis=1)
    np.exp(full, out=full)
    return np.asarray(full / full.sum(axis=1, keepdims=True))


def _losses(logits: Floats, classes: Ints) -> Floats:
    """Return minus the logarithm of the probability of each record's class, however small that probability is.

    From the logits, not from the probabilities, which underflow: a loss that no longer rises far from the minimum
    would let Newton's method accept steps away from it and, for some tables and not for others, never end.
    """
    full = np.concatenate([np.zeros((len(logits), 1)), logits], axis=1)
    peak = full.max(axis=1)
    own = full[np.arange(len(full)), classes]
    return np.asarray(peak - own + np.log(np.exp(full - peak[:, None]).sum(axis=1)))


def minimise(records: Sequence[Weighted], linear: Floats, *, ridge: float, tolerance: float) -> Floats:
    """Return a point at which the computed gradient of the perturbed objective has norm at most ``tolerance``.

    How far the computed gradient may be from the true one is in the head of :mod:`understudy.mechanisms.parametric.regression.look`. Where a bound of the
    rounding errors of the logits does not say that they are negligible, the logits are computed in twice the precision
    before a point is believed. Newton's method with halved steps. The objective is strongly convex and smooth, so it converges from everywhere. Values and gradients
    are those of all records; the second derivatives of a large table are taken from every so many-th record, unless that
    turns out not to be good enough.
    """
    width, others = linear.shape
    weights = np.zeros((width, others))
    stride = max(1, sum(len(item.classes) for item in records) // _CURVED)
    careful = False
    value, gradient, curvature = _derivatives(records, weights, linear, ridge, stride)
    for iteration in range(_ITERATIONS):
        if iteration == 30:
            stride = 1
        if float(np.linalg.norm(gradient)) <= tolerance and not careful:
            careful = rounding_of_logits(records, weights) > tolerance / 16
            if careful:
                value, gradient, curvature = _derivatives(records, weights, linear, ridge, stride, careful)
        if float(np.linalg.norm(gradient)) <= tolerance:
            return weights
        step = np.linalg.solve(curvature, gradient.T.ravel()).reshape(others, width).T
        decrease = float((gradient * step).sum())
        length = 1.0
        while True:
            tried = weights - length * step
            new = _derivatives(records, tried, linear, ridge, stride, careful)
            # close to the minimum the values no longer tell points apart; the gradients do
            better = float(np.linalg.norm(new[1])) < 0.5 * float(np.linalg.norm(gradient))
            if new[0] <= value - 1e-4 * length * decrease or better or length < 2.0**-40:
                break
            length /= 2
        weights = tried
        value, gradient, curvature = new
    raise UnderstudyError("A regression did not converge; this is a defect, please report it.")


def rounding_of_logits(records: Sequence[Weighted], weights: Floats) -> float:
    """Bound what rounding errors of ordinary products of predictors and weights do to the norm of the gradient. Private.

    A product of ``w`` terms errs by at most ``w`` units of rounding of the sum of their sizes; probabilities, added over
    classes, move by at most twice the largest error of a logit; and each record's share of the gradient is that times its
    predictors.
    """
    total = 0.0
    for item in records:
        sizes = np.abs(weights[:1]).max(initial=0.0)
        squares, start = 1.0, 1
        for table in item.tables:
            part = np.abs(table) @ np.abs(weights[start : start + table.shape[1]])
            sizes += part.max(initial=0.0)
            squares += float((table**2).sum(axis=1).max(initial=0.0))
            start += table.shape[1]
        error = (len(weights) + 1) * 2.0**-53 * float(sizes)
        total += float(item.counts.sum()) * 2 * error * math.sqrt(squares)
    return total


def twice_precise(x: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return ``x @ weights`` as a sum of two numbers, about as good as with twice the digits (Ogita, Rump and Oishi 2005).

    Products are split into a rounded part and what rounding left out (Dekker 1971), sums likewise (Knuth); what was left out is added
    up apart. Up to ``n² 2^-106`` of the sum of sizes of ``n`` terms is lost.

    Examples
    --------
    >>> high, low = twice_precise(np.array([[1.0, 1.0, 1.0]]), np.array([[2.0**60], [1.0], [-(2.0**60)]]))
    >>> float(high[0, 0] + low[0, 0])
    1.0
    """
    total, rest = np.zeros((len(x), weights.shape[1])), np.zeros((len(x), weights.shape[1]))
    for place, row in enumerate(weights):
        column = x[:, place, None]
        product = column * row
        a, b = _halves(column), _halves(row)
        left = ((a[0] * b[0] - product) + a[0] * b[1] + a[1] * b[0]) + a[1] * b[1]
        added = total + product
        virtual = added - total
        left += (total - (added - virtual)) + (product - virtual)
        total, rest = added, rest + left
    return total, rest


def _halves(numbers: Floats) -> tuple[Floats, Floats]:
    """Split numbers into two of 26 binary digits each."""
    scaled = 134_217_729.0 * numbers
    high = scaled - (scaled - numbers)
    return high, numbers - high


def _derivatives(
    records: Sequence[Weighted],
    weights: Floats,
    linear: Floats,
    ridge: float,
    stride: int,
    careful: bool = False,
) -> tuple[float, Floats, Floats]:
    """Return value, gradient and second derivatives; coefficients are ordered by class, then predictor."""
    width, others = weights.shape
    values = [ridge / 2 * float((weights**2).sum()), float((linear * weights).sum())]
    gradients: list[Floats] = []
    curvature = ridge * np.eye(width * others)
    for _, x, classes, counts in _batches(records):
        logits, rest = twice_precise(x, weights) if careful else (x @ weights, None)
        p = probabilities(logits, rest)
        values.append(float(counts @ _losses(logits, classes)))
        residual = p[:, 1:] - (classes[:, None] == np.arange(1, others + 1))
        residual *= counts[:, None]
        gradients.append(_block_products(x, residual))
        few, share = x[::stride], p[::stride, 1:]
        weighed = share * (counts[::stride, None] * stride)
        for k in range(others):
            for m in range(k, others):
                factor = weighed[:, k] * ((k == m) - share[:, m])
                block = few.T @ (few * factor[:, None])
                curvature[k * width : (k + 1) * width, m * width : (m + 1) * width] += block
                if m > k:
                    curvature[m * width : (m + 1) * width, k * width : (k + 1) * width] += block.T
    total = ridge * weights + linear
    if gradients:
        stacked = np.concatenate(gradients)
        flat = stacked.reshape(len(stacked), -1)
        total = total + np.array([math.fsum(column) for column in flat.T]).reshape(width, others)
    return math.fsum(values), total, curvature


def _batches(records: Sequence[Weighted]) -> Iterator[tuple[range, Floats, Ints, Floats]]:
    """Build the predictors of a few thousand records at a time."""
    size = 256 * _BLOCK
    for item in records:
        for start in range(0, len(item.classes), size):
            rows = slice(start, min(start + size, len(item.classes)))
            yield range(rows.start, rows.stop), item.design(rows), item.classes[rows], item.counts[rows]


def _block_products(x: Floats, residual: Floats) -> Floats:
    """Return one product of predictors and residuals per block of records."""
    whole = len(x) // _BLOCK * _BLOCK
    blocks = np.matmul(
        x[:whole].reshape(-1, _BLOCK, x.shape[1]).transpose(0, 2, 1),
        residual[:whole].reshape(-1, _BLOCK, residual.shape[1]),
    )
    return np.concatenate([blocks, (x[whole:].T @ residual[whole:])[None]])


MAX_PARAMETERS = 2_000
_TOLERANCE = 2.0**-18
_SMALLEST_RIDGE = 0.01
_LARGEST_SCALE = 2.0**40


@dataclass(frozen=True, eq=False)
class Softmax:
    """A regression of classes on numbers read from other columns. Public.

    Parameters
    ----------
    target
        The column whose class is predicted.
    classes
        Class of each of its codes; -1 leaves the record out.
    predictors
        Columns, each with an array of shape (codes, numbers); a constant one comes before all of them.

    Examples
    --------
    >>> model = Softmax("smokes", np.array([0, 1]), (("age", np.array([[-1.0], [0.0], [1.0]])),))
    >>> model.width, model.number, model.largest_l1, model.largest_squared
    (2, 2, 2.0, 2.0)
    """

    target: str
    classes: Ints
    predictors: tuple[tuple[str, Floats], ...]

    def __post_init__(self) -> None:
        classes = np.asarray(self.classes, dtype=np.int64)
        if classes.ndim != 1 or classes.max(initial=-1) < 1 or classes.min() < -1:
            raise BudgetError(f"A regression of {self.target!r} needs at least two classes.")
        columns = []
        for name, numbers in self.predictors:
            table = np.array(numbers, dtype=np.float64)
            if name == self.target or table.ndim != 2 or not np.isfinite(table).all():
                raise BudgetError(f"The predictors from {name!r} must be finite numbers, one row per code.")
            columns.append((name, table))
        object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "predictors", tuple(columns))
        if self.parameters > MAX_PARAMETERS:
            raise BudgetError(
                f"The regression of {self.target!r} has {self.parameters:,} parameters; at most {MAX_PARAMETERS:,} are "
                "fitted by objective perturbation."
            )

    @property
    def number(self) -> int:
        """Number of classes."""
        return int(self.classes.max()) + 1

    @property
    def width(self) -> int:
        """Number of predictors, the constant included."""
        return 1 + sum(int(table.shape[1]) for _, table in self.predictors)

    @property
    def parameters(self) -> int:
        """Number of coefficients."""
        return int(self.width * (self.number - 1))

    @cached_property
    def largest_l1(self) -> float:
        """Largest sum of absolute predictors of a record."""
        return 1.0 + math.fsum(float(np.abs(table).sum(axis=1).max()) for _, table in self.predictors)

    @cached_property
    def largest_squared(self) -> float:
        """Largest squared Euclidean norm of the predictors of a record."""
        return 1.0 + math.fsum(float((table**2).sum(axis=1).max()) for _, table in self.predictors)

    @property
    def gradient_l1(self) -> float:
        """Largest L1 norm of the gradient of one record's loss."""
        return (1.0 if self.number == 2 else 2.0) * self.largest_l1 * (1 + 2.0**-40)

    @property
    def curvature(self) -> float:
        """Largest trace of the second derivatives of one record's loss."""
        trace = 0.25 if self.number == 2 else 1.0 - 1.0 / (self.number - 1)
        return trace * self.largest_squared * (1 + 2.0**-40)


@dataclass(frozen=True)
class Objective:
    """How a budget is used by objective perturbation. Public; see :func:`objective_for`.

    Attributes
    ----------
    epsilon
        What the fit costs, the sum of the three parts.
    parts
        Epsilon of the random linear term, of the second derivatives, and of the second noise.
    ridge
        Strength of the quadratic term.
    step, noise
        The linear term is ``step`` times whole numbers with this noise.
    grid, blur
        The published coefficients are ``grid`` times whole numbers; ``blur`` is the second noise, in such steps.
    tolerance
        Largest gradient at the computed minimum.
    """

    epsilon: float
    parts: tuple[float, float, float]
    ridge: float
    step: float
    noise: Laplace
    grid: float
    blur: Laplace
    tolerance: float


def objective_for(
    model: Softmax,
    unit: Unit,
    epsilon: float,
    *,
    ridge: float = 0.0,
    shares: tuple[float, float] = (0.2, 0.03),
) -> Objective:
    """Divide epsilon among the three parts of the proof. From public facts alone.

    Parameters
    ----------
    ridge
        Smallest strength of the quadratic term; the proof may need a larger one.
    shares
        Most of epsilon that the second derivatives may take, and the share of the second noise.

    Examples
    --------
    >>> model = Softmax("smokes", np.array([0, 1]), (("age", np.array([[-1.0], [0.0], [1.0]])),))
    >>> plan = objective_for(model, Unit.add_remove(), 1.0)
    >>> sum(plan.parts) <= 1.0, round(plan.ridge, 3), round(plan.noise.scale * plan.step, 3)
    (True, 2.258, 2.597)
    """
    if not (math.isfinite(epsilon) and epsilon > 0 and ridge >= 0):
        raise BudgetError(
            f"epsilon ({epsilon}) of a regression must be positive, and its ridge not negative."
        )
    k = unit.max_rows
    rank, trace = k * (model.number - 1), k * model.curvature
    most = shares[0] * epsilon
    strength = max(ridge, _SMALLEST_RIDGE, trace / (rank * math.expm1(min(most / rank, 500.0))))
    jacobian = min(most, rank * math.log1p(trace / strength / rank)) * (1 + 2.0**-40)
    output = shares[1] * epsilon
    linear = (epsilon - jacobian - output) * (1 - 2.0**-40)
    moved = unit.histogram_l1 * model.gradient_l1
    d = model.parameters
    step = 2.0 ** math.floor(math.log2(moved / (linear * 2.0**30)))  # noise of about 2**30 steps
    scale = (moved / step + d) / linear * (1 + 2.0**-40)
    tolerance = _TOLERANCE * model.gradient_l1
    error = (tolerance + step * math.sqrt(d) / 2) / strength
    grid = 2.0 ** math.floor(math.log2(error / (8 * math.sqrt(d))))
    blur = (2 * math.sqrt(d) * error / grid + d) / output * (1 + 2.0**-40)
    if max(scale, blur) > _LARGEST_SCALE:
        raise BudgetError("The budget is too small for a regression: the noise would hide everything.")
    return Objective(
        epsilon, (linear, jacobian, output), strength, step, Laplace(scale), grid, Laplace(blur), tolerance
    )


def fit_softmax(
    curator: Curator, model: Softmax, *, epsilon: float, purpose: str, ridge: float = 0.0
) -> Statistic:
    """Fit a regression by objective perturbation and charge for it first.

    Returns
    -------
    Statistic
        Coefficients of shape (predictors, classes - 1), the constant first, class 0 left out.

    Privacy
    -------
    In: private. Out: releasable. ``epsilon``-DP; the proof is at the head of this module. The noise is that of
    :func:`objective_for` for this model and the curator's unit.
    """
    model, epsilon, ridge = own(model, Softmax), float(epsilon), float(ridge)
    for name, table in (*model.predictors, (model.target, model.classes)):
        if len(table) != curator.domain.size(name):
            raise BudgetError(f"The regression does not fit the codes of {name!r}.")
    plan = objective_for(model, curator.unit, epsilon, ridge=ridge)
    shape = (model.width, model.number - 1)

    def draw() -> npt.NDArray[np.float64]:
        records = weighted_records(curator._table, model.target, model.classes, model.predictors)
        linear = plan.noise.draw(shape, curator._randomness).astype(np.float64) * plan.step
        blur = plan.blur.draw(shape, curator._randomness)
        computed = minimise(records, linear, ridge=plan.ridge, tolerance=plan.tolerance / 4)
        return np.asarray(np.rint(computed / plan.grid) + blur, dtype=np.float64)

    steps = curator._answer(
        PureEvent(plan.epsilon),
        purpose=purpose,
        about=[model.target, [name for name, _ in model.predictors], shape],
        draw=draw,
    )
    return Statistic(f"coefficients of {model.target}", steps * plan.grid, "mechanism")
