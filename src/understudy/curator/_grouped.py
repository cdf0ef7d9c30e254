"""Counting over public groups of codes. Exact and private: only the curator calls this, and seals the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from understudy.data import Table
from understudy.errors import BudgetError
from understudy.schema import Domain

IntArray = npt.NDArray[np.int64]


def count_grouped(
    table: Table, wanted: Sequence[Mapping[str, npt.ArrayLike]]
) -> list[tuple[Domain, IntArray]]:
    """Return the exact marginal over some groups of codes, with the coarse domain it speaks of.

    Each column is regrouped once per pass, however many marginals use it.
    """
    domain = table.schema.domain
    shapes: list[Domain] = []
    keys: list[list[tuple[str, bytes]]] = []
    labels: dict[tuple[str, bytes], IntArray] = {}
    for groups in wanted:
        clique = domain.canonical(groups)
        arrays = [_checked(name, groups[name], domain.size(name)) for name in clique]
        if not arrays:
            raise BudgetError("A marginal over groups of codes needs at least one column.")
        shapes.append(Domain(clique, tuple(int(which.max()) + 1 for which in arrays)))
        keys.append([(name, which.tobytes()) for name, which in zip(clique, arrays, strict=True)])
        labels.update(zip(keys[-1], arrays, strict=True))
    exact = [np.zeros(shape.cells(), dtype=np.int64) for shape in shapes]
    columns = domain.canonical({name for shape in shapes for name in shape.names})
    for chunk in table.chunks(columns):
        coarse = {key: which[chunk[key[0]]] for key, which in labels.items()}
        for counts, shape, key in zip(exact, shapes, keys, strict=True):
            cell = coarse[key[0]]
            for item, size in zip(key[1:], shape.sizes[1:], strict=True):
                cell = cell * size + coarse[item]
            counts += np.bincount(cell, minlength=counts.size)
    return [(shape, counts.reshape(shape.sizes)) for shape, counts in zip(shapes, exact, strict=True)]


def _checked(name: str, groups: npt.ArrayLike, size: int) -> IntArray:
    which = np.asarray(groups, dtype=np.int64)
    if which.shape != (size,) or which.min() < 0:
        raise BudgetError(f"The groups of {name!r} must be {size} numbers, not negative.")
    return which
