"""Differentially private linear classifiers to compare with (Chaudhuri, Monteleoni and Sarwate 2011).

These are *baselines of a comparison on data that may be looked at*: they take a seeded generator and draw
floating-point noise, so they must not be used to release anything.

Both minimise ``J(w) = 1/n sum of l(y_i w.x_i) + Λ/2 |w|²`` over records with ``|x| <= 1`` and labels ±1, with
``|l'| <= 1`` and ``0 <= l'' <= c``; neighbours replace one record.

- *Output perturbation.* ``J`` is ``Λ``-strongly convex and a record changes its gradient by at most ``2/n``, so the
  minimiser moves by at most ``2/(nΛ)``. Noise with density proportional to ``exp(-(nΛε/2) |b|)`` is ``ε``-DP.
- *Objective perturbation.* Minimise ``J(w) + b.w/n + Δ/2 |w|²`` with ``b`` of density proportional to
  ``exp(-(ε'/2)|b|)``, where ``ε' = ε - ln(1 + 2c/(nΛ) + c²/(nΛ)²)`` and ``Δ = 0`` if that is positive, else
  ``Δ = c/(n (e^(ε/4) - 1)) - Λ`` and ``ε' = ε/2``: ``ε``-DP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from understudy.errors import WorkloadError
from understudy.evaluation.comparison import Floats

HUBER_WIDTH = 0.5


@dataclass(frozen=True)
class Loss:
    """A loss of the margin ``z = y w.x`` with bounded slope and curvature."""

    name: str
    curvature: float

    def value(self, z: Floats) -> Floats:
        """Return the loss."""
        if self.name == "logistic":
            return np.logaddexp(0.0, -z)
        h = HUBER_WIDTH
        middle = (1 + h - z) ** 2 / (4 * h)
        return np.where(z > 1 + h, 0.0, np.where(z < 1 - h, 1 - z, middle))

    def slope(self, z: Floats) -> Floats:
        """Return its derivative, between -1 and 0."""
        if self.name == "logistic":
            return np.asarray(-0.5 * (1 - np.tanh(z / 2)))
        h = HUBER_WIDTH
        return np.where(z > 1 + h, 0.0, np.where(z < 1 - h, -1.0, -(1 + h - z) / (2 * h)))


LOGISTIC = Loss("logistic", 0.25)
HUBER = Loss("huber", 1 / (2 * HUBER_WIDTH))
"""The smoothed hinge loss of a support vector machine."""


def minimiser(
    features: Floats,
    labels: Floats,
    *,
    loss: Loss,
    regularisation: float,
    linear: Floats | None = None,
    extra: float = 0.0,
) -> Floats:
    """Return the weights that minimise the regularised mean loss plus ``linear.w/n + extra/2 |w|²``."""
    n, width = features.shape
    if not n or not regularisation > 0:
        raise WorkloadError("A classifier needs records and a positive regularisation.")
    if float(np.linalg.norm(features, axis=1).max()) > 1 + 1e-9:
        raise WorkloadError("Records must have norm at most one.")
    if not np.isin(labels, (-1.0, 1.0)).all():
        raise WorkloadError("Labels must be -1 or 1.")
    tilt = np.zeros(width) if linear is None else linear / n
    ridge = regularisation + extra
    rows = csr_matrix(features)  # indicator features are mostly zero
    columns = csr_matrix(features.T)

    def objective(w: Floats) -> tuple[float, Floats]:
        z: Floats = labels * np.asarray(rows @ w)
        value = float(loss.value(z).mean()) + ridge / 2 * float(w @ w) + float(tilt @ w)
        gradient = np.asarray(columns @ (labels * loss.slope(z))) / n + ridge * w + tilt
        return value, gradient

    found = minimize(
        objective,
        np.zeros(width),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9},
    )
    return np.asarray(found.x, dtype=np.float64)


def output_sensitivity(n: int, regularisation: float) -> float:
    """Return the most that replacing a record can move the minimiser."""
    return 2 / (n * regularisation)


def output_perturbation(
    features: Floats,
    labels: Floats,
    *,
    loss: Loss,
    regularisation: float,
    epsilon: float,
    generator: np.random.Generator,
) -> Floats:
    """Return the minimiser plus noise."""
    _positive(epsilon)
    exact = minimiser(features, labels, loss=loss, regularisation=regularisation)
    scale = output_sensitivity(len(features), regularisation) / epsilon
    return exact + _spherical(len(exact), scale, generator)


def objective_parameters(
    n: int, *, curvature: float, regularisation: float, epsilon: float
) -> tuple[float, float]:
    """Return ``ε'`` and ``Δ`` of objective perturbation.

    Examples
    --------
    >>> epsilon, extra = objective_parameters(10_000, curvature=0.25, regularisation=1e-3, epsilon=1.0)
    >>> round(epsilon, 3), extra
    (0.951, 0.0)
    """
    _positive(epsilon)
    share = curvature / (n * regularisation)
    left = epsilon - math.log1p(2 * share + share**2)
    if left > 0:
        return left, 0.0
    return epsilon / 2, curvature / (n * math.expm1(epsilon / 4)) - regularisation


def objective_perturbation(
    features: Floats,
    labels: Floats,
    *,
    loss: Loss,
    regularisation: float,
    epsilon: float,
    generator: np.random.Generator,
) -> Floats:
    """Return the minimiser of the perturbed objective."""
    left, extra = objective_parameters(
        len(features), curvature=loss.curvature, regularisation=regularisation, epsilon=epsilon
    )
    tilt = _spherical(features.shape[1], 2 / left, generator)
    return minimiser(features, labels, loss=loss, regularisation=regularisation, linear=tilt, extra=extra)


def linear_accuracy(weights: Floats, features: Floats, labels: Floats) -> float:
    """Return how often the sign of ``w.x`` is the label."""
    return float((np.where(features @ weights >= 0, 1.0, -1.0) == labels).mean())


def _spherical(width: int, scale: float, generator: np.random.Generator) -> Floats:
    """Draw a vector with density proportional to ``exp(-|b| / scale)``: its norm is gamma of shape ``width``."""
    direction = generator.standard_normal(width)
    return direction / np.linalg.norm(direction) * generator.gamma(width, scale)


def _positive(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise WorkloadError(f"epsilon ({epsilon}) must be positive and finite.")
