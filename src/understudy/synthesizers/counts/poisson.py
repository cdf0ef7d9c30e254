"""The Poisson synthesis mechanism (Jackson, Mitra, Francis and Dove)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.count_models import Family
from understudy.synthesizers.counts._redrawn import RedrawnTable


@dataclass(frozen=True, kw_only=True)
class PoissonTable(RedrawnTable):
    """Replace every cell count ``a`` of the full table by a draw from ``Poisson(a + alpha)``.

    Parameters
    ----------
    alpha
        Pseudocount. ``None`` (default): the smallest one that keeps the budget.
    post_processing
        ``"simplex"`` (default): the pseudocount is subtracted again and the closest non-negative table with the right
        total is kept. ``"none"``: the redrawn counts themselves, as in the paper; they add up to about ``alpha`` more rows
        per cell than the table has.
    max_cells
        Largest table that will be enumerated.

    Privacy
    -------
    See :class:`~understudy.synthesizers.counts._redrawn.RedrawnTable`. For this family the worst case is exact for every unit:
    the emptiest cell, changed by all rows of the unit.

    Examples
    --------
    >>> from understudy.privacy import ApproxDP, Unit
    >>> round(PoissonTable().law(ApproxDP(3.0, 0.21), Unit.add_remove()).alpha, 3)
    0.098
    """

    name: ClassVar[str] = "poisson"
    summary: ClassVar[str] = "every cell of the full table redrawn from a Poisson distribution"
    family: ClassVar[Family] = "poisson"
