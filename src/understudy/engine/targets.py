"""What the estimator is pulled towards: measurements merged, their total, and targets that agree.

Noise makes measurements contradict each other: two of them that share a column imply two different
one-way tables. Fitting such targets in turn moves the model to and fro. But the sum of squares

    f(p) = sum_i  w_i / 2 |M_i p - y_i|^2

depends on the ``y_i`` only through their weighted projection onto *consistent* marginals: with
``t`` that projection, f(p) = sum_i w_i / 2 |M_i p - t_i|^2 + constant for every table p. So the
estimator may use the targets ``t``, which agree with each other, and minimises the same function.

The projection has a closed form. Split every table into its residual parts (the total, main effects,
interactions: one part per subset ``A`` of its columns). Parts of different subsets are orthogonal, so
independent noise of variance ``v`` per cell leaves part ``A`` of a table over ``C`` with a noise that
is ``v |C \\ A|`` times a fixed projection, where ``|C \\ A|`` is the number of cells over the columns
summed out. The best estimate of part ``A`` is therefore the average over all measurements that
contain ``A``, weighted by ``1 / (v |C \\ A|)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from understudy.engine.factors import Array, Columns, cells_of, spread, sum_to, to_columns
from understudy.errors import WorkloadError
from understudy.marginals import Measurement
from understudy.schema import Domain

GAUSSIAN, LAPLACE = 0, 1


@dataclass(frozen=True, eq=False)
class Target:
    """One table the estimator is pulled towards.

    Attributes
    ----------
    columns
        Sorted column positions.
    values
        Noisy counts.
    weight
        ``1 / variance`` for squares, ``1 / scale`` for absolute values.
    kind
        ``GAUSSIAN`` (squares) or ``LAPLACE`` (absolute values).
    """

    columns: Columns
    values: Array
    weight: float
    kind: int = GAUSSIAN

    def loss(self, marginal: Array) -> float:
        """Return the negative log likelihood of a marginal, up to a constant."""
        difference = marginal - self.values
        if self.kind == GAUSSIAN:
            return 0.5 * self.weight * float(np.square(difference).sum())
        return self.weight * float(np.abs(difference).sum())


def collect_targets(
    domain: Domain, measurements: Sequence[Measurement], *, absolute_laplace: bool = False
) -> list[Target]:
    """Merge measurements of the same clique; measurements of the bare total are left out.

    Tables with squared loss merge exactly: weights add, values average. With ``absolute_laplace``
    Laplace measurements keep their own likelihood and stay apart.
    """
    sums: dict[Columns, tuple[Array, float]] = {}
    apart: list[Target] = []
    for measurement in measurements:
        columns = to_columns(domain, measurement.clique)
        if measurement.values.shape != domain.shape(domain.canonical(measurement.clique)):
            raise WorkloadError(
                f"The measurement of {measurement.clique} has shape {measurement.values.shape};"
                f" the domain says {domain.shape(domain.canonical(measurement.clique))}."
            )
        if tuple(domain.canonical(measurement.clique)) != tuple(measurement.clique):
            raise WorkloadError(f"The columns of {measurement.clique} must be in the order of the domain.")
        if not np.isfinite(measurement.values).all():
            raise WorkloadError(f"The measurement of {measurement.clique} holds values that are not finite.")
        if not columns:
            continue
        if measurement.noise == "laplace" and absolute_laplace:
            apart.append(Target(columns, measurement.values, 1.0 / measurement.scale, LAPLACE))
            continue
        weight = 1.0 / measurement.variance
        values, total = sums.get(columns, (np.zeros(measurement.values.shape), 0.0))
        sums[columns] = (values + weight * measurement.values, total + weight)
    merged = [Target(columns, values / weight, weight) for columns, (values, weight) in sums.items()]
    return merged + apart


def estimate_total(measurements: Sequence[Measurement]) -> float:
    """Return the minimum-variance unbiased combination of the totals of all measurements, at least 1.

    The sum of a table of ``k`` cells estimates the number of records with variance ``k`` times that
    of a cell, independently of the other tables; nothing else in a table speaks of the total.

    Examples
    --------
    >>> a = Measurement(("a",), np.array([4.0, 8.0]), "gaussian", 1.0)
    >>> b = Measurement((), np.array(15.0), "gaussian", 1.0)
    >>> estimate_total([a, b])
    14.0
    """
    if not measurements:
        raise WorkloadError("Without measurements the number of records is unknown; give it as total=.")
    weights = np.array([1.0 / (item.variance * item.values.size) for item in measurements])
    totals = np.array([float(item.values.sum()) for item in measurements])
    return max(1.0, float(np.dot(weights, totals) / weights.sum()))


def reconcile(sizes: Sequence[int], targets: Sequence[Target], total: float) -> list[Target]:
    """Replace the values of squared-loss targets by their weighted projection onto consistent tables.

    The result has the given total and agrees on every shared subset of columns. Targets with absolute
    loss are returned as they are. Entries may still be negative.
    """
    parts: dict[Columns, tuple[Array, float]] = {}
    for target in targets:
        if target.kind != GAUSSIAN:
            continue
        for size in range(1, len(target.columns) + 1):
            for subset in combinations(target.columns, size):
                summed = cells_of(sizes, target.columns) // cells_of(sizes, subset)
                weight = target.weight / summed
                part = weight * residual(sum_to(target.values, target.columns, subset))
                if subset in parts:
                    old, known = parts[subset]
                    parts[subset] = (old + part, known + weight)
                else:
                    parts[subset] = (part, weight)
    result = []
    for target in targets:
        if target.kind != GAUSSIAN:
            result.append(target)
            continue
        cells = cells_of(sizes, target.columns)
        values = np.full(target.values.shape, total / cells)
        for size in range(1, len(target.columns) + 1):
            for subset in combinations(target.columns, size):
                part, weight = parts[subset]
                share = cells_of(sizes, subset) / (cells * weight)
                values = values + spread(part, subset, target.columns) * share
        result.append(Target(target.columns, values, target.weight))
    return result


def residual(values: Array) -> Array:
    """Subtract the mean along every axis: what no smaller table explains.

    Examples
    --------
    >>> residual(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[0., 0.],
           [0., 0.]])
    """
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def squared_scale(targets: Sequence[Target]) -> float:
    """Return half the number of measured cells: the expected loss of the true table."""
    return 0.5 * math.fsum(target.values.size for target in targets)
