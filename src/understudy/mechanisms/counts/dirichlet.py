"""The multinomial-Dirichlet synthesizer on the full table (Abowd and Vilhuber 2008; Machanavajjhala et al. 2008)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.engine import DenseTable
from understudy.errors import BudgetError
from understudy.inference import History
from understudy.marginals import Statistic
from understudy.mechanisms.base import Fitted, Plan, Progress
from understudy.mechanisms.counts.look import draw_from_urns
from understudy.mechanisms.counts.table import (
    MAX_CELLS,
    UrnSynthesizer,
    check_table_options,
    legitimate,
    possible_cells,
    require_enumerable,
)
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit
from understudy.privacy.count_models.urn import UrnPrior
from understudy.schema import Schema


@dataclass(frozen=True, kw_only=True)
class MultinomialDirichlet(UrnSynthesizer):
    """Draw synthetic records from the posterior predictive law of a multinomial with a Dirichlet prior.

    Parameters
    ----------
    records
        Number ``m`` of records drawn from the posterior. ``None`` (default): the number of rows, where it is no secret, or else
        a noisy one. Fewer need a smaller prior; the model can be asked for any number of rows afterwards.
    rows_share
        Share of the budget spent on the number of rows, where it is private and ``records`` is not given.
    post_processing
        ``"none"`` (default): the drawn records, as in the papers. ``"simplex"``: the prior is subtracted again.
    max_cells
        Largest table that will be enumerated.

    Privacy
    -------
    The records cost ``max_rows ln(1 + m/alpha)``, pure, under either relation; :mod:`understudy.privacy.count_models.urn` proves it
    and :func:`~understudy.mechanisms.counts.look.draw_from_urns` charges it. ``alpha`` is the smallest that keeps the budget, the same in every
    cell of the domain that the record constraints allow. ``m`` is public: given, declared, fixed by the relation, or the number of rows measured with Laplace noise
    that was charged before.

    Examples
    --------
    >>> MultinomialDirichlet(records=500).name
    'multinomial-dirichlet'
    """

    name: ClassVar[str] = "multinomial-dirichlet"
    summary: ClassVar[str] = "records drawn from a multinomial with a Dirichlet prior on every cell"
    source: ClassVar[Source] = Source(
        law="Dirichlet-multinomial draw of records; Laplace on a private number of rows",
        papers={Paper.DIPS: "section 3.2.1", Paper.POISSON: "Example 3"},
        origin="Machanavajjhala et al. 2008; Abowd and Vilhuber 2008",
    )

    post_processing: str = "none"
    max_cells: int = MAX_CELLS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_table_options(self.post_processing, self.max_cells)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the pseudocount per record drawn."""
        _, left = self._planned(schema, unit, accounting, cost)
        return UrnPrior.for_epsilon(accounting.pure_epsilon(left), rows=1, unit=unit).alpha

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how large the prior must be, from public facts alone."""
        cells = require_enumerable(schema.domain, self.max_cells, method=self.name)
        possible = possible_cells(schema)
        cells = cells if possible is None else int(possible.sum())
        if not cells:
            raise BudgetError("The record constraints rule out every cell of the table.")
        accounting = self.accounting(budget, schema, unit)
        measured, cost = self._planned(schema, unit, accounting, accounting.total(budget))
        epsilon = accounting.pure_epsilon(cost)
        records = self.records or schema.row_count
        if records:
            prior = UrnPrior.for_epsilon(epsilon, rows=records, unit=unit)
            note = (
                f"{records:,} records need a pseudocount of {prior.alpha:.4g} in each of {cells:,} cells: "
                f"{prior.alpha * cells:.3g} imaginary rows in all."
            )
        else:
            one = UrnPrior.for_epsilon(epsilon, rows=1, unit=unit)
            note = (
                f"Every record drawn needs a pseudocount of {one.alpha:.4g} more in each of {cells:,} cells; declare the number "
                "of rows or give records to see the prior here."
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(measured),
            model_cells=cells,
            notes=(note, "Where the imaginary rows outnumber the real ones the result is close to uniform."),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        records, total, measurements, cost = self._drawing(curator)
        prior = UrnPrior.for_epsilon(curator.accounting.pure_epsilon(cost), rows=records, unit=curator.unit)
        progress("counting", 0.2)
        sealed = curator.counts(curator.domain.names)
        possible = possible_cells(curator.schema)
        progress("drawing", 0.5)
        (drawn,) = draw_from_urns(
            curator,
            [sealed],
            priors=[prior],
            purpose="draw records from a multinomial with a Dirichlet prior",
            possible=possible,
        )
        progress("post-processing", 0.8)
        counts = drawn.astype(np.float64)
        if self.post_processing == "none":
            table = DenseTable(curator.domain, counts * (total / records))
        else:
            cells = counts.size if possible is None else int(possible.sum())
            weight = (total + prior.alpha * cells) / records
            table = legitimate(curator.schema, counts * weight - prior.alpha, total)
        progress("done", 1.0)
        shown = Statistic(f"synthetic counts (pseudocount {prior.alpha:.6g})", counts, "mechanism")
        return Fitted(table, measurements, history=History.planned(len(measurements)), statistics=(shown,))
