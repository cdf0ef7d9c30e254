"""Records drawn from a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from understudy._compile import compiled, of_one_type
from understudy.engine.graphical.factors import from_mask, to_mask
from understudy.engine.graphical.model import GraphicalModel
from understudy.errors import WorkloadError

# ----------------------------------------------------------------------------------------
# Numba kernel that hands out values to records. Import on first use only.


@compiled()
def order_by_group(group, permutation, n_groups):  # type: ignore[no-untyped-def]
    """List the records group by group, in the order of a permutation within each group."""
    starts = np.zeros(n_groups + 1, np.int64)
    for r in range(group.shape[0]):
        starts[group[r] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    order = np.empty(group.shape[0], np.int64)
    for r in permutation:
        order[starts[group[r]]] = r
        starts[group[r]] += 1
    return order


def distribute(
    conditional: npt.NDArray[np.float64],
    group: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    uniforms: npt.NDArray[np.float64],
    systematic: bool,
) -> npt.NDArray[np.int64]:
    """Give each record a value drawn from the row of ``conditional`` of its group.

    ``order`` lists the records group by group, shuffled within groups. With ``systematic`` the ``k``
    records of a group take the values at ``(u + j) / k``, j = 0..k-1, of the cumulative distribution:
    every value, and every run of consecutive values, comes out within one of its expected number.
    """
    return _distribute(of_one_type(conditional), group, order, uniforms, systematic)  # type: ignore[no-any-return]


@compiled()
def _distribute(conditional, group, order, uniforms, systematic):  # type: ignore[no-untyped-def]
    """See `distribute`."""
    n = group.shape[0]
    width = conditional.shape[1]
    values = np.empty(n, np.int64)
    cumulative = np.empty(width)
    position = 0
    while position < n:
        row = group[order[position]]
        end = position
        while end < n and group[order[end]] == row:
            end += 1
        k = end - position
        mass = 0.0
        last = 0
        for j in range(width):
            if conditional[row, j] > 0.0:
                mass += conditional[row, j]
                last = j  # rounding must never step onto an impossible value
        if systematic or k == 1:
            step = mass / k
            point = uniforms[position] * step
            running = 0.0
            j = -1
            for r in range(position, end):
                while running <= point and j < last:
                    j += 1
                    running += conditional[row, j]
                values[order[r]] = j
                point += step
        else:
            running = 0.0
            for j in range(last + 1):
                running += conditional[row, j]
                cumulative[j] = running
            for r in range(position, end):
                point = uniforms[r] * running
                low, high = 0, last
                while low < high:
                    middle = (low + high) // 2
                    if cumulative[middle] > point:
                        high = middle
                    else:
                        low = middle + 1
                values[order[r]] = low
        position = end
    return values


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
