"""The Gaussian sanitizer on the full cross-tabulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.engine import DenseTable
from understudy.errors import BudgetError
from understudy.inference import History
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer, planned
from understudy.mechanisms.counts.table import MAX_CELLS, check_table_options, legitimate, require_enumerable
from understudy.mechanisms.options import one_of, refuse
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import (
    GDP,
    ZCDP,
    Accounting,
    ApproxDP,
    Budget,
    DiscreteGaussian,
    Gaussian,
    Unit,
    accounting_for,
)
from understudy.schema import Schema

NOISES = ("rounded", "discrete")


@dataclass(frozen=True, kw_only=True)
class GaussianTable(Synthesizer):
    """Add whole-number Gaussian noise to every cell of the full table, then make the cells legitimate.

    Parameters
    ----------
    noise
        ``"rounded"`` (default): continuous Gaussian noise, rounded; its guarantee is the exact Gaussian curve. ``"discrete"``: the
        discrete Gaussian of Canonne, Kamath and Steinke, accounted for as zCDP; not for GDP budgets.
    post_processing
        ``"simplex"`` (default): the closest non-negative table with the right total. ``"none"``: negative cells become zero.
    max_cells
        Largest table that will be enumerated.

    Privacy
    -------
    One unit moves the vector of counts by at most ``l2`` (1 for add-remove, the root of 2 for replace-one, times the rows per unit), so
    noise of deviation ``sigma`` is ``l2/sigma``-GDP (rounded) or ``l2^2/(2 sigma^2)``-zCDP (both). Absent cells get noise too.
    The paper's formula, the probability that the loss of continuous noise leaves ``[-epsilon, epsilon]``, is the probabilistic
    notion and asks for more noise than needed.

    Examples
    --------
    >>> GaussianTable(noise="discrete").name
    'gaussian-table'
    """

    name: ClassVar[str] = "gaussian-table"
    summary: ClassVar[str] = "Gaussian noise on every cell of the full cross-tabulation"
    source: ClassVar[Source] = Source(
        law="Gaussian on every cell",
        papers={Paper.POISSON: "Example 2"},
        origin="Balle and Wang 2018; Canonne, Kamath and Steinke 2020",
    )
    budgets: ClassVar[tuple[type, ...]] = (ApproxDP, ZCDP, GDP)

    noise: str = "rounded"
    post_processing: str = "simplex"
    max_cells: int = MAX_CELLS

    def __post_init__(self) -> None:
        refuse(one_of(self, "noise", NOISES))
        check_table_options(self.post_processing, self.max_cells)

    def accountings(self, budget: Budget) -> tuple[Accounting, ...]:
        """The discrete Gaussian is known to be zCDP; the rounded one follows the Gaussian curve."""
        if self.noise == "discrete" and isinstance(budget, ApproxDP):
            return (accounting_for(budget, name="zcdp"),)
        return (accounting_for(budget),)

    def require(self, budget: Budget) -> None:
        """Refuse pure budgets, and GDP budgets for the discrete Gaussian."""
        super().require(budget)
        if self.noise == "discrete" and isinstance(budget, GDP):
            raise BudgetError(
                "The discrete Gaussian is not known to be GDP. Use noise='rounded', or another budget."
            )

    def _noise(self, accounting: Accounting, cost: float, unit: Unit) -> Gaussian | DiscreteGaussian:
        sigma = accounting.gaussian_sigma(cost, unit.histogram_l2)
        return DiscreteGaussian(sigma) if self.noise == "discrete" else Gaussian(sigma)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy each cell will be, or how much too large the table is."""
        cells = require_enumerable(schema.domain, self.max_cells, method=self.name)
        self.require(budget)
        accounting = self.accounting(budget)
        noise = self._noise(accounting, accounting.total(budget), unit)
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(schema.domain, [(schema.domain.names, noise)]),
            model_cells=cells,
            notes=(
                f"Cells with fewer than about {2 * noise.scale:.0f} records will be hard to tell from noise; "
                f"the table has {cells:,} cells.",
            ),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        noise = self._noise(curator.accounting, curator.remaining, curator.unit)
        progress("counting", 0.1)
        sealed = curator.counts(curator.domain.names)
        progress("measuring", 0.4)
        measurement = curator.measure(sealed, noise=noise, purpose="measure the full cross-tabulation")
        progress("post-processing", 0.7)
        noisy = measurement.values
        if self.post_processing == "none":
            table = DenseTable(curator.domain, np.maximum(noisy, 0.0))
        else:
            known = curator.rows.number
            total = float(known) if known is not None else max(0.0, float(noisy.sum()))
            table = legitimate(curator.schema, noisy, total)
        progress("done", 1.0)
        return Fitted(table, [measurement], history=History.planned(1))
