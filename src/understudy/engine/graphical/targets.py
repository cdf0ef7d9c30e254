"""What the estimator is pulled towards: measurements merged, their total, and targets that agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.calibration import Potential
from understudy.engine.graphical.consistency import Consistency
from understudy.engine.graphical.factors import Array, Columns, spread
from understudy.engine.graphical.junction import order_of
from understudy.errors import ConstraintError, WorkloadError
from understudy.marginals import Measurement
from understudy.schema import Domain

# ----------------------------------------------------------------------------------------
# Structural zeros and schema constraints: cells that cannot occur.

Zeros = tuple[Sequence[str], npt.NDArray[np.bool_]]
"""A clique and a boolean table over it: ``True`` where a combination of values may occur."""


def support_potentials(domain: Domain, zeros: Iterable[Zeros]) -> list[Potential]:
    """Turn support restrictions into log potentials: 0 where allowed, ``-inf`` where not.

    Restrictions over the same columns are combined; those that forbid nothing are dropped.

    Examples
    --------
    >>> support_potentials(Domain(("a",), (2,)), [(("a",), np.array([True, False]))])
    [((0,), array([  0., -inf]))]
    """
    order = order_of(domain)
    tables: dict[Columns, npt.NDArray[np.bool_]] = {}
    for clique, allowed in zeros:
        columns = order.columns(clique)
        table = np.asarray(allowed, dtype=bool)
        shape = domain.shape(tuple(clique))
        if table.shape != shape:
            raise ConstraintError(
                f"The restriction over {tuple(clique)} has shape {table.shape}, not {shape}."
            )
        table = order.inward(tuple(clique), table)
        tables[columns] = tables[columns] & table if columns in tables else table
    potentials: list[tuple[Columns, Array]] = []
    for columns, table in tables.items():
        if not table.any():
            raise ConstraintError(
                "The structural zeros and constraints leave no possible record: every combination of"
                f" {', '.join(order.clique(columns))} is forbidden."
            )
        if not table.all():
            potentials.append((columns, np.where(table, 0.0, -np.inf)))
    return potentials


def forbidden_cells(
    columns: Columns, shape: tuple[int, ...], support: Iterable[Potential]
) -> npt.NDArray[np.bool_]:
    """Return which cells of a table are ruled out by the restrictions that fit inside its columns.

    Examples
    --------
    >>> logs = np.array([0.0, -np.inf])
    >>> forbidden_cells((0, 3), (2, 2), [((3,), logs), ((1,), logs)])
    array([[False,  True],
           [False,  True]])
    """
    forbidden = np.zeros(shape, dtype=bool)
    for inner, logs in support:
        if set(inner) <= set(columns):
            forbidden |= np.isneginf(spread(logs, inner, columns))
    return forbidden


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
    """Check measurements and merge those of the same clique; measurements of the bare total are left out.

    Tables with squared loss merge exactly: weights add, values average. With ``absolute_laplace``
    Laplace measurements keep their own likelihood and stay apart.
    """
    order = order_of(domain)
    sums: dict[Columns, tuple[Array, float]] = {}
    apart: list[Target] = []
    for measurement in measurements:
        columns = order.columns(measurement.clique)
        if measurement.values.shape != domain.shape(measurement.clique):
            raise WorkloadError(
                f"The measurement of {measurement.clique} has shape {measurement.values.shape};"
                f" the domain says {domain.shape(measurement.clique)}."
            )
        if not np.isfinite(measurement.values).all():
            raise WorkloadError(f"The measurement of {measurement.clique} holds values that are not finite.")
        if not columns:
            continue
        noisy = order.inward(measurement.clique, measurement.values)
        if measurement.noise == "laplace" and absolute_laplace:
            apart.append(Target(columns, noisy, 1.0 / measurement.scale, LAPLACE))
            continue
        weight = 1.0 / measurement.variance
        values, total = sums.get(columns, (np.zeros(noisy.shape), 0.0))
        sums[columns] = (values + weight * noisy, total + weight)
    merged = [Target(columns, values / weight, weight) for columns, (values, weight) in sums.items()]
    return merged + apart


def constant_loss(
    domain: Domain, measurements: Sequence[Measurement], targets: Sequence[Target], total: float
) -> float:
    """Return the part of the squared loss that no table can change.

    That of measurements of the bare total, and the scatter of repeated measurements around their mean.
    """
    order = order_of(domain)
    means = {target.columns: target.values for target in targets if target.kind == GAUSSIAN}
    constant = 0.0
    for measurement in measurements:
        columns = order.columns(measurement.clique)
        if not columns:
            difference = measurement.values - total
        elif columns in means:
            difference = order.inward(measurement.clique, measurement.values) - means[columns]
        else:
            continue
        constant += 0.5 * float(np.square(difference).sum()) / measurement.variance
    return constant


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


def untangle(
    sizes: Sequence[int],
    targets: Sequence[Target],
    total: float,
    *,
    support: Sequence[Potential] = (),
    tolerance: float = 1e-4,
) -> tuple[list[Target], float, float]:
    """Replace squared-loss targets by equivalent ones that do not contradict each other.

    See `understudy.engine.graphical.consistency`. Targets with absolute loss are returned as they are.

    Returns
    -------
    targets
        The loss of any table differs from the original by ``constant``, returned last.
    bound
        A lower bound on the original loss of any table (0 when there is absolute loss as well).
    constant
        What to add to the loss of the new targets to get that of the old ones.
    """
    squared = [target for target in targets if target.kind == GAUSSIAN]
    if not squared:
        return list(targets), 0.0, 0.0
    agree = Consistency(
        sizes, [target.columns for target in squared], [target.weight for target in squared], total
    )
    values = np.concatenate([target.values.ravel() for target in squared])
    forbidden = None
    if support:
        ruled_out = [forbidden_cells(target.columns, target.values.shape, support) for target in squared]
        forbidden = np.concatenate([cells.ravel() for cells in ruled_out])
    flat, _, bound = agree.untangle(values, forbidden=forbidden, tolerance=tolerance, iterations=1000)
    result, constant = [], 0.0
    pieces = iter(zip(agree.starts, agree.starts[1:], strict=False))
    for target in targets:
        if target.kind != GAUSSIAN:
            result.append(target)
            continue
        start, end = next(pieces)
        new = Target(target.columns, flat[start:end].reshape(target.values.shape), target.weight)
        uniform = np.full(target.values.shape, total / target.values.size)
        constant += target.loss(uniform) - new.loss(uniform)
        result.append(new)
    return result, bound if len(squared) == len(targets) else 0.0, constant


def squared_scale(targets: Sequence[Target]) -> float:
    """Return half the number of measured cells: the expected loss of the true table."""
    return 0.5 * math.fsum(target.values.size for target in targets)
