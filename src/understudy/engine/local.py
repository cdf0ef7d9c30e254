"""A fallback for marginals whose junction tree does not fit: local consistency.

The measured tables are replaced by the nearest tables (in the weights of their noise) that are
non-negative, have the same total and agree on every shared set of columns. They need not be the
marginals of any joint table, which is what a junction tree would guarantee, but they use every
measurement and cost no more memory than the measurements. Questions inside a measured clique are
answered from them. Everything else, and sampling, uses a *backbone*: an exact model of as many of
these tables as fit, the most informative first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.engine.calibration import Potential
from understudy.engine.consistency import Consistency
from understudy.engine.factors import Array, Columns, spread, sum_to
from understudy.engine.support import forbidden_cells
from understudy.engine.targets import Target
from understudy.engine.triangulation import triangulate

_ITERATIONS = 5000
_TOLERANCE = 1e-9


def consistent_tables(
    sizes: Sequence[int], targets: Sequence[Target], support: Sequence[Potential], total: float
) -> list[Target]:
    """Return the targets with their values replaced by agreeing non-negative tables.

    Measurements are weighted by their precision whatever their kind of loss. Support restrictions are
    applied where a measured clique contains their columns.
    """
    values = np.concatenate([target.values.ravel() for target in targets])
    agree = Consistency(
        sizes, [target.columns for target in targets], [_precision(item) for item in targets], total
    )
    forbidden = np.concatenate(
        [forbidden_cells(target.columns, target.values.shape, support).ravel() for target in targets]
    )
    _, nearest, _ = agree.untangle(
        values, forbidden=forbidden if forbidden.any() else None, tolerance=_TOLERANCE, iterations=_ITERATIONS
    )
    nearest = np.where(forbidden, 0.0, np.maximum(nearest, 0.0))
    tables = []
    for target, start, end in zip(targets, agree.starts, agree.starts[1:], strict=False):
        table = nearest[start:end].reshape(target.values.shape)
        tables.append(Target(target.columns, table * (total / table.sum()), target.weight, target.kind))
    return tables


def _precision(target: Target) -> float:
    """Return the inverse variance: that of Laplace noise of scale b is 1 / (2 b^2)."""
    return target.weight if target.kind == 0 else 0.5 * target.weight**2


def backbone(
    sizes: Sequence[int], tables: Sequence[Target], support: Sequence[Potential], max_cells: int
) -> list[int]:
    """Choose tables whose junction tree fits, by how much they say beyond their one-way tables."""
    cliques: list[Columns] = [columns for columns, _ in support]
    chosen: list[int] = []
    ranking = sorted(range(len(tables)), key=lambda index: (-_information(tables[index]), index))
    for index in ranking:
        if triangulate(sizes, [*cliques, tables[index].columns]).cells <= max_cells:
            cliques.append(tables[index].columns)
            chosen.append(index)
    return sorted(chosen)


def _information(table: Target) -> float:
    """Return the divergence of a table from the product of its one-way tables, in nats times records."""
    total = float(table.values.sum())
    product: Array = np.full(table.values.shape, total)
    for column in table.columns:
        share = sum_to(table.values, table.columns, (column,)) / total
        product = product * spread(share, (column,), table.columns)
    positive = table.values > 0
    return float(np.sum(table.values[positive] * np.log(table.values[positive] / product[positive])))
