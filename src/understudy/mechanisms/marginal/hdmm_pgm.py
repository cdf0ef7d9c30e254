"""HDMM+PGM: an optimised set of marginals, chosen without looking at the data, and a graphical model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from understudy.curator import Curator
from understudy.inference import History
from understudy.marginals import Workload
from understudy.mechanisms.allocation import (
    Design,
    ResidualParts,
    best_design,
    noises,
    require_cells,
    total_is_public,
    workload_for,
)
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer, planned
from understudy.mechanisms.marginal.fixed import estimate_fixed, model_note
from understudy.mechanisms.options import at_least, one_of, positive, refuse
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema

NORMS = ("l1", "l2")


@dataclass(frozen=True, kw_only=True)
class HDMMPGM(Synthesizer):
    """Measure the marginals, with the precisions, that answer the workload best in combination.

    Candidates are all marginals in the downward closure of the workload. The precisions minimise the
    expected error of the best linear combination of everything measured, which
    :mod:`understudy.mechanisms.allocation` derives; marginals that do not pay are not measured.

    Parameters
    ----------
    workload
        The marginals that matter; all 3-way marginals by default.
    norm
        The error to minimise: ``"l1"`` (default) sums standard deviations over cells, ``"l2"`` sums
        variances.
    max_model_mb
        Largest junction tree, in megabytes; beyond it the marginals are only made to agree with each other.
    max_cells
        Most cells that all workload marginals may have together.

    Privacy
    -------
    What is measured and with which noise is computed from public sizes and weights. The costs of
    the measurements add up to the budget (sequential composition in each accounting). The
    rest is post-processing.

    Examples
    --------
    >>> HDMMPGM(norm="l2").name
    'hdmm-pgm'
    """

    name: ClassVar[str] = "hdmm-pgm"
    summary: ClassVar[str] = "marginals and precisions optimised for the workload in advance"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on marginals",
        papers={Paper.AIM: "Table 2"},
        origin="McKenna, Miklau, Hay and Machanavajjhala 2018; McKenna, Sheldon and Miklau 2019",
    )

    workload: Workload | None = None
    norm: str = "l1"
    max_model_mb: float = 80.0
    max_cells: int = 4_000_000

    def __post_init__(self) -> None:
        refuse(
            one_of(self, "norm", NORMS),
            positive(self, "max_model_mb"),
            at_least(self, 1, "max_cells"),
        )

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the error of the best design: its noise, as the workload sees it."""
        parts = self._parts(schema.domain, total_known=total_is_public(schema, unit))
        whole = noise_for(accounting, unit, cost).variance  # of a marginal that gets all of the cost
        error = self._design(parts, accounting).error
        return error * (whole if self.norm == "l2" else math.sqrt(whole))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say which marginals will be measured, and how close the design is to the best there is."""
        domain = schema.domain
        accounting = self.accounting(budget, schema, unit)
        known = total_is_public(schema, unit)
        parts = self._parts(domain, total_known=known)
        design = self._design(parts, accounting)
        cells, note = model_note(schema, design.cliques, max_model_mb=self.max_model_mb)
        scale = noises(accounting, unit, accounting.total(budget), design.weights)
        notes = [note]
        if accounting.name != "pure" and self.norm == "l2":
            ratio = math.sqrt(design.error / parts.best_linear())
            notes.append(
                f"The root mean square error to expect is {ratio:.3f} times that of the best possible linear "
                "Gaussian measurement."
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, list(zip(design.cliques, scale, strict=True))),
            model_cells=cells,
            notes=tuple(notes),
        )

    def _parts(self, domain: Domain, *, total_known: bool) -> ResidualParts:
        """Set up the optimisation, or refuse a workload that is too large to measure."""
        workload = workload_for(self.workload, domain)
        heavy = [(clique, weight) for clique, weight in workload if weight > 0]
        kept = Workload(domain, tuple(clique for clique, _ in heavy), tuple(weight for _, weight in heavy))
        require_cells(domain, kept.cliques, self.max_cells, method=self.name)
        return ResidualParts(domain, kept.closure() or ((),), kept, total_known=total_known)

    def _design(self, parts: ResidualParts, accounting: Accounting) -> Design:
        return best_design(parts, norm=self.norm, power=0.5 if accounting.name == "pure" else 1.0)

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        progress("optimising", 0.0)
        known = total_is_public(curator.schema, curator.unit)
        design = self._design(self._parts(curator.domain, total_known=known), curator.accounting)
        progress("counting", 0.2)
        sealed = curator.counts_many(design.cliques)
        noise: list[Noise] = noises(curator.accounting, curator.unit, curator.remaining, design.weights)
        cliques: tuple[Clique, ...] = design.cliques
        progress("measuring", 0.3)
        measurements = curator.measure_many(
            sealed, noise=noise, purpose=f"measure {len(cliques)} marginals chosen in advance"
        )
        progress("estimating", 0.5)
        model = estimate_fixed(curator, measurements, max_model_mb=self.max_model_mb)
        progress("done", 1.0)
        return Fitted(
            model,
            measurements,
            workload=workload_for(self.workload, curator.domain),
            history=History.planned(len(measurements)),
        )
