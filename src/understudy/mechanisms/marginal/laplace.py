"""The Laplace sanitizer on the full cross-tabulation (paper DIPS, section 3.1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.engine import DenseTable, project_to_simplex
from understudy.errors import BudgetError, DomainTooLarge
from understudy.inference import History
from understudy.mechanisms.allocation import total_is_public
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer, planned
from understudy.mechanisms.options import at_least, refuse, shares
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, ApproxDP, Budget, Laplace, Unit, accounting_for
from understudy.privacy.accounting.accounting import PURE
from understudy.schema import Clique, Domain, Schema

Array = npt.NDArray[np.float64]
POST_PROCESSING = ("simplex", "zero-truncation", "boundary-inflated")


@dataclass(frozen=True, kw_only=True)
class LaplaceTable(Synthesizer):
    """Add Laplace noise to every cell of the full table, then make the cells legitimate.

    Parameters
    ----------
    post_processing
        ``"simplex"`` (default): the closest non-negative table with the right total, in the Euclidean
        sense; it removes most of the noise that sits in empty cells. ``"zero-truncation"``: negative
        cells become zero and the rest is scaled to the right total. ``"boundary-inflated"``: cells
        below zero become zero and cells above the number of rows become that number, as in the
        paper; the total is whatever results.
    max_cells
        Largest table that will be enumerated.
    rows_share
        Share of the budget spent on the number of rows when it is private. It is spent only on
        tables with more than ``1 / rows_share²`` cells, where the sum of the noisy cells would be
        a worse estimate.

    Privacy
    -------
    The cells partition the records, so one unit changes the vector of counts by at most ``l1`` (one
    for add-remove, two for replace-one, times the rows per unit), and discrete Laplace noise of
    scale ``l1 / epsilon`` on every cell is ``epsilon``-DP. The number of rows, where measured, is a
    second query with its own share. Cells absent from the data get noise like all others. Under an
    approximate budget the method spends its epsilon as a pure budget and leaves delta unused.
    The post-processing sees only noisy numbers.

    Examples
    --------
    >>> LaplaceTable(post_processing="zero-truncation").max_cells
    50000000
    """

    name: ClassVar[str] = "laplace"
    summary: ClassVar[str] = "Laplace noise on every cell of the full cross-tabulation"
    source: ClassVar[Source] = Source(
        law="Laplace on every cell",
        papers={Paper.DIPS: "section 3.1.1", Paper.POISSON: "Example 1"},
        origin="Dwork, McSherry, Nissim and Smith 2006; Barak et al. 2007",
    )

    post_processing: str = "simplex"
    max_cells: int = 50_000_000
    rows_share: float = 0.02

    def __post_init__(self) -> None:
        refuse(
            at_least(self, 1, "max_cells"),
            shares(self, "rows_share"),
        )
        if self.post_processing not in POST_PROCESSING:
            raise BudgetError(
                f"post_processing ({self.post_processing!r}) must be one of {', '.join(POST_PROCESSING)}."
            )

    def accountings(self, budget: Budget) -> tuple[Accounting, ...]:
        """One pure mechanism needs no delta, so an approximate budget is spent as a pure one."""
        return (PURE if isinstance(budget, ApproxDP) else accounting_for(budget),)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy each cell will be, or how much too large the table is."""
        domain = schema.domain
        cells = domain.cells()
        if cells > self.max_cells:
            widest = sorted(domain.names, key=domain.size, reverse=True)[:3]
            raise DomainTooLarge(
                f"The full table has {_large(cells)} cells; laplace enumerates at most {_large(self.max_cells)}. "
                f"Use coarser bins (the widest columns are {', '.join(widest)}), fewer columns, "
                "or a method that works with marginals, such as independent.",
                cells=cells,
                allowed=self.max_cells,
            )
        accounting = self.accounting(budget)
        known = total_is_public(schema, unit)
        design = self._design(domain, unit, accounting, accounting.total(budget), total_known=known)
        scale = design[-1][1].scale
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=cells,
            notes=(
                f"Cells with fewer than about {3 * scale:.0f} records will be hard to tell from noise; "
                f"the table has {_large(cells)} cells.",
            ),
        )

    def _design(
        self, domain: Domain, unit: Unit, accounting: Accounting, total: float, *, total_known: bool
    ) -> list[tuple[Clique, Laplace]]:
        """Divide the cost between the number of rows, where it is worth measuring, and the table."""
        measure_total = not total_known and domain.cells() > 1 / self.rows_share**2
        weights = [self.rows_share, 1 - self.rows_share] if measure_total else [1.0]
        cliques: list[Clique] = [(), domain.names] if measure_total else [domain.names]
        costs = accounting.split(total, weights)
        # the number of rows changes by at most as many rows as the unit has, even under replacement
        changes = [unit.max_rows, unit.histogram_l1] if measure_total else [unit.histogram_l1]
        return [
            (clique, Laplace(accounting.laplace_scale(cost, change)))
            for clique, cost, change in zip(cliques, costs, changes, strict=True)
        ]

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        known = curator.rows.number
        design = self._design(
            curator.domain, curator.unit, curator.accounting, curator.remaining, total_known=known is not None
        )
        progress("counting", 0.1)
        sealed = curator.counts_many([clique for clique, _ in design])
        progress("measuring", 0.4)
        measurements = curator.measure_many(
            sealed, noise=[noise for _, noise in design], purpose="measure the full cross-tabulation"
        )
        progress("post-processing", 0.7)
        noisy = measurements[-1].values
        if known is not None:
            total = float(known)
        else:
            total = max(0.0, float(measurements[0].values if len(measurements) > 1 else noisy.sum()))
        cells = self._legitimate(noisy, total)
        progress("done", 1.0)
        return Fitted(
            DenseTable(curator.domain, cells), measurements, history=History.planned(len(measurements))
        )

    def _legitimate(self, noisy: Array, total: float) -> Array:
        """Turn noisy cells into a table without negative cells."""
        if self.post_processing == "simplex":
            return project_to_simplex(noisy, total)
        if self.post_processing == "boundary-inflated":
            return np.clip(noisy, 0.0, total)
        kept = np.maximum(noisy, 0.0)
        mass = float(kept.sum())
        return kept * (total / mass) if mass > 0 else kept


def _large(number: int) -> str:
    """Write a count so that people can read it, however large."""
    return f"{number:,}" if number < 10**12 else f"{float(number):.2e}" if number < 10**300 else "over 1e300"
