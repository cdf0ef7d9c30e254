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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from understudy.curator._softmax import minimise, weighted_records
from understudy.curator.curator import Curator
from understudy.errors import BudgetError
from understudy.marginals import Statistic
from understudy.privacy import Laplace, PureEvent, Unit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
    for name, table in (*model.predictors, (model.target, model.classes)):
        if len(table) != curator.domain.size(name):
            raise BudgetError(f"The regression does not fit the codes of {name!r}.")
    plan = objective_for(model, curator.unit, epsilon, ridge=ridge)
    shape = (model.width, model.number - 1)
    records = weighted_records(curator._table, model.target, model.classes, model.predictors)

    def draw() -> npt.NDArray[np.float64]:
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
