"""Structural zeros and schema constraints: cells that cannot occur."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from understudy.engine.calibration import Potential
from understudy.engine.factors import Array, Columns, spread
from understudy.engine.order import order_of
from understudy.errors import ConstraintError
from understudy.schema import Domain

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
