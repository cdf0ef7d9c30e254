"""Slow, plain implementations in log space: the referee of every fast path.

Nothing here is clever. `calibrate_log` passes messages with NumPy's logaddexp reductions and never
leaves log space, `brute_force` builds the whole joint table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.engine.graphical.factors import Array, Columns, shape_of, spread, sum_to
from understudy.engine.graphical.junction import JunctionTree


def max_to(values: Array, columns: Columns, target: Columns) -> Array:
    """Maximise a table over the columns that are not in ``target``."""
    if columns == target:
        return values
    kept = set(target)
    return np.asarray(
        values.max(axis=tuple(axis for axis, column in enumerate(columns) if column not in kept))
    )


def log_sum_to(values: Array, columns: Columns, target: Columns) -> Array:
    """Sum a table of logarithms down to ``target`` without leaving log space.

    Examples
    --------
    >>> log_sum_to(np.log([[1.0, 3.0]]), (0, 1), (0,)).round(6)
    array([1.386294])
    """
    peak = max_to(values, columns, target)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    total = sum_to(np.exp(values - spread(safe, target, columns)), columns, target)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) + safe)


def bag_potentials(tree: JunctionTree, potentials: Sequence[tuple[Columns, Array]]) -> list[Array]:
    """Add log potentials over cliques into the smallest bag that holds each."""
    tables = [np.zeros(shape_of(tree.sizes, bag)) for bag in tree.bags]
    for columns, values in potentials:
        bag = tree.home(columns)
        tables[bag] = tables[bag] + spread(values, columns, tree.bags[bag])
    return tables


def calibrate_log(
    tree: JunctionTree, potentials: Sequence[tuple[Columns, Array]], total: float
) -> tuple[list[Array], float]:
    """Return the log of the expected counts of every bag, and the log partition function."""
    tables = bag_potentials(tree, potentials)
    messages: list[Array] = [np.zeros(()) for _ in tree.bags]
    for bag in reversed(range(len(tree.bags))):
        columns = tree.bags[bag]
        messages[bag] = log_sum_to(tables[bag], columns, tree.separators[bag])
        parent = tree.parents[bag]
        if parent >= 0:
            tables[parent] = tables[parent] + spread(messages[bag], tree.separators[bag], tree.bags[parent])
    log_partition = float(messages[0])
    tables[0] = tables[0] - log_partition + np.log(total)
    for bag in range(1, len(tree.bags)):
        parent, separator = tree.parents[bag], tree.separators[bag]
        outer = log_sum_to(tables[parent], tree.bags[parent], separator)
        ratio = np.where(
            np.isfinite(messages[bag]),
            outer - np.where(np.isfinite(messages[bag]), messages[bag], 0),
            -np.inf,
        )
        tables[bag] = tables[bag] + spread(ratio, separator, tree.bags[bag])
    return tables, log_partition


def brute_force(sizes: Sequence[int], potentials: Sequence[tuple[Columns, Array]], total: float) -> Array:
    """Return the whole joint table of a small model, as expected counts."""
    every = tuple(range(len(sizes)))
    table = np.zeros(tuple(sizes))
    for columns, values in potentials:
        table = table + spread(values, columns, every)
    table = np.exp(table - table.max())
    return np.asarray(total * table / table.sum())
