"""Records drawn from a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.factors import from_mask, to_mask
from understudy.engine.graphical.model import GraphicalModel
from understudy.errors import WorkloadError

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
    from understudy.engine.graphical.kernels import distribute, order_by_group

    if n < 0:
        raise WorkloadError(f"The number of records ({n}) must not be negative.")
    if method not in ("rounding", "independent"):
        raise WorkloadError(f"No sampling method named {method!r}. Known: rounding, independent.")

    sizes, ranked = model.order.sizes, model.order.ranked
    codes = np.zeros((n, len(sizes)), dtype=np.min_scalar_type(max(1, max(sizes, default=1) - 1)))
    tree = model.tree
    for bag, columns in enumerate(tree.bags):
        separator = tree.separators[bag]
        fresh = from_mask(to_mask(columns) & ~to_mask(separator))
        table = model.tables[bag]
        axes = [columns.index(column) for column in (*separator, *fresh)]
        rows = int(np.prod([sizes[column] for column in separator], dtype=np.int64))
        conditional = np.ascontiguousarray(table.transpose(axes)).reshape(rows, -1)
        group = np.zeros(n, dtype=np.int64)
        for column in separator:
            group = group * sizes[column] + codes[:, ranked[column]]
        order = order_by_group(group, generator.permutation(n), rows)
        values = distribute(conditional, group, order, generator.random(n), method == "rounding")
        for column in reversed(fresh):
            codes[:, ranked[column]] = values % sizes[column]
            values //= sizes[column]
    return codes


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
