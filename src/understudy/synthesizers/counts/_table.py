"""What the table mechanisms share: tables small enough to enumerate, and counts turned into a distribution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.engine import DenseTable, project_to_simplex
from understudy.errors import BudgetError, DomainTooLarge
from understudy.schema import Domain, Schema
from understudy.synthesizers.base import support_of

Array = npt.NDArray[np.float64]

MAX_CELLS = 50_000_000
POST_PROCESSING = ("simplex", "none")


def require_enumerable(domain: Domain, max_cells: int, *, method: str) -> int:
    """Return the number of cells of the full table, or say how much too large it is."""
    cells = domain.cells()
    if cells > max_cells:
        widest = sorted(domain.names, key=domain.size, reverse=True)[:3]
        size = f"{cells:,}" if cells < 10**12 else "over 1e12"
        raise DomainTooLarge(
            f"The full table has {size} cells; {method} redraws every one of them and takes at most {max_cells:,}. Use "
            f"coarser bins (the widest columns are {', '.join(widest)}), fewer columns, or a method that works with "
            "marginals, such as independent.",
            cells=cells,
            allowed=max_cells,
        )
    return cells


def check_table_options(post_processing: str, max_cells: int) -> None:
    """Refuse options that make no sense."""
    if post_processing not in POST_PROCESSING:
        raise BudgetError(
            f"post_processing ({post_processing!r}) must be one of {', '.join(POST_PROCESSING)}."
        )
    if max_cells < 1:
        raise BudgetError(f"max_cells ({max_cells}) must be at least 1.")


def legitimate(schema: Schema, estimate: Array, total: float) -> DenseTable:
    """Return the closest table without negative cells that has the right total and keeps the constraints.

    Cells that the record constraints rule out are set to zero first. Post-processing.
    """
    domain = schema.domain
    possible = possible_cells(schema)
    if possible is not None:
        estimate = np.where(possible, estimate, -np.inf)
    values = estimate[np.isfinite(estimate)]
    cells = np.zeros(domain.sizes)
    if values.size:
        cells[np.isfinite(estimate)] = project_to_simplex(values, total)
    return DenseTable(domain, cells)


def possible_cells(schema: Schema) -> npt.NDArray[np.bool_] | None:
    """Say which cells of the full table keep all record constraints; None if there are no constraints."""
    domain = schema.domain
    possible: npt.NDArray[np.bool_] | None = None
    for columns, allowed in support_of(schema):
        order = sorted(range(len(columns)), key=lambda place: domain.index(columns[place]))
        shape = [1] * len(domain)
        for place in order:
            shape[domain.index(columns[place])] = allowed.shape[place]
        spread = np.transpose(allowed, order).reshape(shape)
        possible = spread if possible is None else possible & spread
    return None if possible is None else np.broadcast_to(possible, domain.sizes)
