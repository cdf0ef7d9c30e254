"""Records drawn from a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.calibration import Workspace
from understudy.engine.graphical.factors import Array, Columns, from_mask, to_mask
from understudy.engine.graphical.junction import ColumnOrder, JunctionTree, build_tree, rooted_at
from understudy.engine.graphical.model import GraphicalModel, freeze_tables
from understudy.errors import WorkloadError
from understudy.schema import Clique

Method = Literal["rounding", "independent"]


def sample_codes(
    model: GraphicalModel, n: int, generator: np.random.Generator, *, method: Method = "rounding"
) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Draw ``n`` records from a model as a matrix of codes, one column per column of the domain.

    Parameters
    ----------
    model
        A fitted model.
    n
        Number of records.
    generator
        Source of randomness; the same generator state gives the same records.
    method
        ``"rounding"`` (default): walk down the tree and, among the records that share the values of a
        separator, hand out each bag's values in their expected numbers, rounded at random. Marginals
        come out closer to the model's than those of independent draws. ``"independent"``: records are
        independent of each other.

    Returns
    -------
    numpy.ndarray
        Shape ``(n, len(domain))``, the smallest unsigned type that holds every code.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> model = GraphicalModel(Domain(("a", "b"), (2, 3)), 1.0)
    >>> codes = sample_codes(model, 6, np.random.default_rng(0))
    >>> np.bincount(codes[:, 1])
    array([2, 2, 2])
    """
    if n < 0:
        raise WorkloadError(f"The number of records ({n}) must not be negative.")
    if method not in ("rounding", "independent"):
        raise WorkloadError(f"No sampling method named {method!r}. Known: rounding, independent.")

    sizes = model.order.sizes
    codes = np.zeros((n, len(sizes)), dtype=np.min_scalar_type(max(1, max(sizes, default=1) - 1)))
    _walk(model.tree, model.tables, model.order, codes, (), generator, rounding=method == "rounding")
    return codes


def sample_given(
    model: GraphicalModel,
    given: Clique,
    values: npt.NDArray[np.integer[Any]],
    generator: np.random.Generator,
) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]]:
    """Draw a record for each row of codes of some columns, and say which rows can occur.

    The tree is built once more with the given columns in one bag, which becomes the root: from there on every row walks down as
    in :func:`sample_codes`. Rows with equal codes share out the rest in the expected numbers.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> potential = np.log(np.array([[0.5, 0.0], [0.25, 0.25]]), where=[[1, 0], [1, 1]], out=np.full((2, 2), -np.inf))
    >>> model = GraphicalModel(Domain(("a", "b"), (2, 2)), 1.0, ((("a", "b"), potential),))
    >>> codes, possible = sample_given(model, ("b",), np.array([[1], [1]]), np.random.default_rng(0))
    >>> codes.tolist(), possible.tolist()
    ([[1, 1], [1, 1]], [True, True])
    """
    order = model.order
    columns = order.columns(given)
    tree = build_tree(order.sizes, [*(order.columns(clique) for clique in model.cliques), columns])
    tree = rooted_at(tree, tree.home(columns))
    workspace = Workspace(tree, [], model.column_potentials(), model.total)
    workspace.load()
    codes = np.zeros((len(values), len(order.sizes)), dtype=np.min_scalar_type(max(1, max(order.sizes) - 1)))
    for place, name in enumerate(given):
        codes[:, model.domain.index(name)] = values[:, place]
    tables = freeze_tables(workspace)
    possible = _walk(tree, tables, order, codes, columns, generator, rounding=True)
    return codes, possible


def _walk(
    tree: JunctionTree,
    tables: Sequence[Array],
    order: ColumnOrder,
    codes: npt.NDArray[np.unsignedinteger[Any]],
    given: Columns,
    generator: np.random.Generator,
    *,
    rounding: bool,
) -> npt.NDArray[np.bool_]:
    """Fill in the columns that are not given, bag by bag from the root; return which records can occur."""
    from understudy.engine.graphical.kernels import distribute, order_by_group

    n = len(codes)
    possible = np.ones(n, dtype=bool)
    for bag, columns in enumerate(tree.bags):
        known = tree.separators[bag] if bag else given
        fresh = from_mask(to_mask(columns) & ~to_mask(known))
        axes = [columns.index(column) for column in (*known, *fresh)]
        rows = int(np.prod([tree.sizes[column] for column in known], dtype=np.int64))
        conditional = np.ascontiguousarray(tables[bag].transpose(axes)).reshape(rows, -1)
        group = np.zeros(n, dtype=np.int64)
        for column in known:
            group = group * tree.sizes[column] + codes[:, order.ranked[column]]
        if bag == 0 and given:
            possible = conditional.sum(axis=1)[group] > 0
        shuffled = order_by_group(group, generator.permutation(n), rows)
        values = distribute(conditional, group, shuffled, generator.random(n), rounding)
        for column in reversed(fresh):
            codes[:, order.ranked[column]] = values % tree.sizes[column]
            values //= tree.sizes[column]
    return possible


def sample_chunks(
    model: GraphicalModel,
    n: int,
    generator: np.random.Generator,
    *,
    rows: int = 1_000_000,
    method: Method = "rounding",
) -> Iterator[npt.NDArray[np.unsignedinteger[Any]]]:
    """Draw ``n`` records in pieces of at most ``rows``, for tables larger than memory."""
    if rows < 1:
        raise WorkloadError(f"A chunk needs at least one row, not {rows}.")
    for start in range(0, n, rows):
        yield sample_codes(model, min(rows, n - start), generator, method=method)
