"""Drawing from a graphical model when many columns of each record are given, and the rest is wanted.

A tree with all given columns in one bag would have a cell for every combination of their codes. But where a row says what they are, they are no
variables any more: each potential shrinks to the columns that are free. What is left is a model of the free columns alone, another one for each row but with the
same graph, so that one order of elimination serves all rows. A table that comes up depends on some of the given columns only, and rows that agree on those share it:
each step is one operation on arrays with an axis for groups of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.junction import triangulate
from understudy.schema import Clique

if TYPE_CHECKING:
    from understudy.engine.graphical.model import GraphicalModel

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Factor = tuple[tuple[int, ...], Array, Ints | None]
"""Free columns, a table with an axis for groups of rows and one for each column, and the group of each row (None where all rows are one group)."""

MOST_CELLS = 1 << 24
"""Most cells of a table over free columns; there is one for each row, so that far smaller ones take long already."""
_SAFE_REACH = 600.0
"""Up to so many steps of the logarithm between the cells of all potentials together, no product of numbers is lost: each is at least ``exp(-600)`` of the largest, and so is each
sum of them. Beyond, logarithms are added. Potentials over the same column may be huge and cancel each other, so that a product that looks like nothing beside one factor may be all there is."""
_NUMBERS_AT_ONCE = 1 << 24
"""Of all tables of some rows together, if no two rows agree; sharing tables pays more than what the caches of a processor hold."""


def sample_each(
    model: GraphicalModel,
    given: Clique,
    values: npt.NDArray[np.integer[Any]],
    generator: np.random.Generator,
) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]] | None:
    """Draw a record for each row of codes of some columns, independently, and say which rows can occur.

    Exact: each record has the distribution of the model under its own codes. None where a table over the free columns would be too large.

    Examples
    --------
    >>> from understudy.engine import GraphicalModel
    >>> from understudy.schema import Domain
    >>> potential = np.log(np.array([[0.5, 0.0], [0.25, 0.25]]), where=[[1, 0], [1, 1]], out=np.full((2, 2), -np.inf))
    >>> model = GraphicalModel(Domain(("a", "b"), (2, 2)), 1.0, ((("a", "b"), potential),))
    >>> codes, possible = sample_each(model, ("b",), np.array([[1], [1]]), np.random.default_rng(0))
    >>> codes.tolist(), possible.tolist()
    ([[1, 1], [1, 1]], [True, True])
    """
    domain = model.domain
    sizes = domain.sizes
    known = {domain.index(name): place for place, name in enumerate(given)}
    free = [column for column in range(len(sizes)) if column not in known]
    potentials = [(tuple(map(domain.index, clique)), logs) for clique, logs in model.potentials]
    plan = _order(
        free, [[column for column in clique if column not in known] for clique, _ in potentials], sizes
    )
    if plan is None:
        return None
    order, cells = plan
    codes = np.zeros((len(values), len(sizes)), dtype=np.min_scalar_type(max(1, max(sizes, default=1) - 1)))
    for column, place in known.items():
        codes[:, column] = values[:, place]
    possible = np.ones(len(values), dtype=bool)
    tables = [_by_given(clique, logs, known, sizes) for clique, logs in potentials]
    logs = sum(_reach(table) for _, _, table in tables) > _SAFE_REACH
    if not logs:
        tables = [(columns, wanted, _scaled(table)) for columns, wanted, table in tables]
    step = max(1, _NUMBERS_AT_ONCE // max(1, cells))
    alike = (
        np.lexsort(values.T[::-1]) if len(given) else np.arange(len(values))
    )  # rows that agree stand together
    for start in range(0, len(values), step):
        rows = alike[start : start + step]
        some = codes[rows]
        possible[rows] = _draw(_factors(tables, some, sizes), order, some, sizes, generator, logs=logs)
        codes[rows] = some
    return codes, possible


Table = tuple[tuple[int, ...], tuple[int, ...], Array]
"""Free columns, given columns, and a table with one row per combination of given codes."""


def _factors(tables: Sequence[Table], codes: npt.NDArray[Any], sizes: Sequence[int]) -> list[Factor]:
    """Return what is left of each table where some rows say what the given columns are."""
    factors: list[Factor] = []
    for columns, wanted, table in tables:
        if not wanted:
            factors.append((columns, table, None))
            continue
        cell = np.zeros(len(codes), dtype=np.int64)
        for column in wanted:
            cell = cell * sizes[column] + codes[:, column]
        found, group = np.unique(cell, return_inverse=True)
        factors.append((columns, table[found], group.reshape(-1)))
    return factors


def _joined(groupings: Sequence[Ints | None]) -> tuple[Ints | None, list[Ints | None]]:
    """Return the coarsest grouping of rows that is finer than all of some, and the group of each of these in its groups (None for the same one)."""
    joint: Ints | None = None
    one = True
    for grouping in groupings:
        if grouping is None:
            continue
        if joint is None:
            joint = grouping
        elif joint is not grouping:
            one = False
            joint = np.unique(joint * (int(grouping.max()) + 1) + grouping, return_inverse=True)[1].reshape(
                -1
            )
    if joint is None or one:
        return joint, [None] * len(groupings)
    first = np.zeros(int(joint.max()) + 1, dtype=np.int64)
    first[joint] = np.arange(len(joint))
    return joint, [None if grouping is None else grouping[first] for grouping in groupings]


def _reach(logs: Array) -> float:
    """Return the largest difference of two logarithms in one row of a table, of cells that can occur."""
    flat = logs.reshape(len(logs), -1)
    low = np.where(np.isfinite(flat), flat, np.inf).min(axis=1)
    apart = flat.max(axis=1) - low
    return float(apart[np.isfinite(low)].max(initial=0.0))


def _scaled(logs: Array) -> Array:
    """Return a table of logarithms as numbers, each row with one as the largest."""
    peak = logs.reshape(len(logs), -1).max(axis=1).reshape(-1, *[1] * (logs.ndim - 1))
    return np.asarray(np.exp(logs - np.where(np.isfinite(peak), peak, 0.0)), dtype=np.float64)


def _by_given(clique: tuple[int, ...], logs: Array, known: dict[int, int], sizes: Sequence[int]) -> Table:
    """Return the free and the given columns of a potential, and its table with one row per combination of given codes."""
    wanted = tuple(column for column in clique if column in known)
    columns = tuple(column for column in clique if column not in known)
    axes = [clique.index(column) for column in (*wanted, *columns)]
    return columns, wanted, np.transpose(logs, axes).reshape(-1, *(sizes[column] for column in columns))


def _order(
    free: Sequence[int], cliques: Sequence[Sequence[int]], sizes: Sequence[int]
) -> tuple[list[int], int] | None:
    """Return an order of elimination of the free columns, and how many cells its tables have together; None where one is too large."""
    place = {column: number for number, column in enumerate(free)}
    within = [tuple(place[column] for column in clique) for clique in cliques if clique]
    order = [free[number] for number in triangulate([sizes[column] for column in free], within).order]
    beside: dict[int, set[int]] = {column: set() for column in free}
    for clique in cliques:
        for column in clique:
            beside[column] |= set(clique) - {column}
    cells = 0
    for column in order:
        others = beside.pop(column)
        size = math.prod(sizes[other] for other in (column, *others))
        if size > MOST_CELLS:
            return None
        cells += size
        for other in others:
            beside[other] |= others
            beside[other] -= {other, column}
    return order, cells


def _draw(
    factors: list[Factor],
    order: Sequence[int],
    codes: npt.NDArray[np.unsignedinteger[Any]],
    sizes: Sequence[int],
    generator: np.random.Generator,
    *,
    logs: bool,
) -> npt.NDArray[np.bool_]:
    """Eliminate the free columns, then fill them in the other way round; return which rows can occur.

    Factors are numbers, or their logarithms: slower, and safe whatever their size.
    """
    n = len(codes)
    kept: list[Factor] = []
    for column in order:
        mine = [factor for factor in factors if column in factor[0]]
        factors = [factor for factor in factors if column not in factor[0]]
        columns = tuple(sorted({other for names, _, _ in mine for other in names} | {column}))
        shape = tuple(sizes[other] for other in columns)
        group, places = _joined([grouping for _, _, grouping in mine])
        total: Array = np.full([1] * (1 + len(columns)), 0.0 if logs else 1.0)
        parts = [(names, table, place) for (names, table, _), place in zip(mine, places, strict=True)]
        for names, table, place in sorted(parts, key=lambda part: part[1].size):  # small tables first
            own = table if place is None else table[place]
            inner = np.transpose(own, (0, *(1 + i for i in np.argsort(names, kind="stable")))).reshape(
                [own.shape[0], *(sizes[other] if other in names else 1 for other in columns)]
            )
            total = total + inner if logs else total * inner
        total = np.broadcast_to(total, (total.shape[0], *shape))
        kept.append((columns, total, group))
        axis = 1 + columns.index(column)
        rest = tuple(other for other in columns if other != column)
        factors.append((rest, _added(total, axis) if logs else _summed(total, axis), group))
    possible = np.ones(n, dtype=bool)
    for _, table, group in factors:  # no columns are left
        flat = table.reshape(table.shape[0])
        fine = np.isfinite(flat) if logs else flat > 0
        possible &= np.broadcast_to(fine, n) if group is None else fine[group]
    for column, (columns, table, group) in zip(reversed(order), reversed(kept), strict=True):
        last = np.moveaxis(table, 1 + columns.index(column), -1)
        rows = np.zeros(n, dtype=np.int64) if group is None else group
        others = tuple(codes[:, other].astype(np.int64) for other in columns if other != column)
        weights = last[(rows, *others)]
        if logs:
            peak = weights.max(axis=1, keepdims=True)
            weights = np.exp(weights - np.where(np.isfinite(peak), peak, 0.0))
        so_far = np.cumsum(weights, axis=1)
        wanted = generator.random(n) * so_far[:, -1]
        drawn = (so_far <= wanted[:, None]).sum(axis=1)
        most = (
            sizes[column] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
        )  # rounding must not reach what cannot occur
        codes[:, column] = np.minimum(drawn, most)
    return possible


def _summed(table: Array, axis: int) -> Array:
    """Return the sum along an axis, each row with one as the largest number unless all are zero."""
    total = table.sum(axis=axis)
    peak = total.reshape(len(total), -1).max(axis=1).reshape(-1, *[1] * (total.ndim - 1))
    return np.asarray(total / np.where(peak > 0, peak, 1.0), dtype=np.float64)


def _added(logs: Array, axis: int) -> Array:
    """Return the logarithm of the sum along an axis."""
    peak = logs.max(axis=axis, keepdims=True)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(logs - safe).sum(axis=axis))
    return np.asarray(total + np.squeeze(safe, axis=axis), dtype=np.float64)
