"""Fourier: consistent k-way tables from noisy Fourier coefficients (Barak et al. 2007)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from understudy.curator import Curator, measure_numbers
from understudy.engine import DenseTable, Distribution, estimate
from understudy.errors import DomainTooLarge
from understudy.marginals import Measurement, Statistic, Workload
from understudy.mechanisms.allocation import total_is_public, workload_for
from understudy.mechanisms.base import Fitted, Plan, PlannedMeasurement, Progress, Synthesizer, support_of
from understudy.mechanisms.histograms.bins import large, schema_grid
from understudy.mechanisms.histograms.partitions.partition import possible_cells
from understudy.mechanisms.histograms.transforms.coefficients import (
    Coefficients,
    closest_table,
    coefficients_for,
    maximal,
    spread_table,
)
from understudy.mechanisms.histograms.transforms.look import fourier_coefficients, grid_step
from understudy.mechanisms.options import at_least, one_of, positive, refuse
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Domain, Schema

ALLOCATIONS = ("optimal", "uniform")
OBJECTIVES = ("total", "largest")
SOLUTIONS = {"maximum-entropy": spread_table, "vertex": closest_table}


@dataclass(frozen=True, kw_only=True)
class Fourier(Synthesizer):
    """Measure the Fourier coefficients that all k-way tables need, and find one table that fits them.

    A k-way table is determined by the coefficients of its columns and their subsets. Measuring each coefficient once,
    instead of every table, keeps all tables consistent, and binary columns need few of them. Columns with more than two
    values use the real Fourier basis over their codes, which for two values is that of Walsh and Hadamard. A linear
    programme then finds a table without negative cells whose coefficients are as close as possible to the
    noisy ones; all k-way tables of the result are consistent because they belong to one table.

    Parameters
    ----------
    k
        Tables of how many columns are wanted; all of them.
    workload
        The tables that are wanted, if not all of ``k`` columns.
    allocation
        How noise is divided: ``"optimal"`` (default) minimises the expected squared error of the tables, ``"uniform"``
        gives every coefficient the same noise, as in the paper.
    objective
        What the linear programme minimises: ``"total"`` (default), the sum of all differences between coefficients, for
        the noisy number of rows, or ``"largest"``, the largest difference, as in the paper.
    solution
        Which of the tables that are equally close to the noisy coefficients: ``"maximum-entropy"`` (default), the most spread-out
        one, or ``"vertex"``, whichever a linear programme returns, as in the paper.
    max_programme
        Largest linear programme, in coefficients times cells. Beyond it the tables implied by the coefficients are made
        non-negative and consistent by the engine, without enumerating the cells of the whole table.
    max_model_mb
        Largest graphical model in that case; beyond it tables are only made to agree with each other.
    max_coefficients
        Most coefficients that will be measured.

    Privacy
    -------
    One look: a vector of weighted coefficients. One row adds to it a column whose L1 and L2 norms are products of
    public numbers, added over the interactions (:func:`~understudy.mechanisms.histograms.transforms.look.fourier_reach`); for ``m`` unweighted
    coefficients of binary columns they are ``m`` and ``√m``, and a replaced row moves about half of them by two.
    Coefficients are rounded to a grid before noise is added. Laplace noise under pure accounting, Gaussian noise otherwise.
    The linear programme and all tables are post-processing.

    Examples
    --------
    >>> Fourier(k=3).name
    'fourier'
    """

    name: ClassVar[str] = "fourier"
    summary: ClassVar[str] = "consistent k-way tables from noisy Fourier coefficients by linear programming"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on Fourier coefficients",
        papers={Paper.DIPS: "section 3.1.1"},
        origin="Barak et al. 2007",
    )

    k: int = 2
    workload: Workload | None = None
    allocation: str = "optimal"
    objective: str = "total"
    solution: str = "maximum-entropy"
    max_programme: int = 1_000_000
    max_model_mb: float = 80.0
    max_coefficients: int = 50_000

    def __post_init__(self) -> None:
        refuse(
            at_least(self, 1, "k"),
            one_of(self, "allocation", ALLOCATIONS),
            one_of(self, "objective", OBJECTIVES),
            one_of(self, "solution", tuple(SOLUTIONS)),
            at_least(self, 1, "max_programme", "max_coefficients"),
            positive(self, "max_model_mb"),
        )

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of all cells of the largest tables, before they are made legitimate."""
        known = total_is_public(schema, unit)
        design = self._design(self._wanted(schema.domain), accounting, total=not known)
        variance = design.reach(unit).noise(accounting, cost).variance
        return math.fsum(
            schema.domain.cells(table) * math.sqrt(design.cell_variance(table, variance))
            for table in maximal([part for part in design.parts if part])
        )

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many coefficients there are and how noisy, or why there are too many."""
        accounting = self.accounting(budget, schema, unit)
        design = self._design(
            self._wanted(schema.domain), accounting, total=not total_is_public(schema, unit)
        )
        number = sum(design.numbers)
        noise = design.reach(unit).noise(accounting, accounting.total(budget))
        whole = self._fits(design)
        tables = maximal([part for part in design.parts if part])
        worst = max(math.sqrt(design.cell_variance(table, noise.variance)) for table in tables)
        cells = schema.domain.cells() if whole else sum(schema.domain.cells(table) for table in tables)
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(PlannedMeasurement(tables[0], number, noise),),
            model_cells=cells,
            notes=(
                f"{number:,} coefficients are measured with {noise.kind} noise of scale {noise.scale:.4g}; cells of "
                f"{len(tables)} tables get a standard deviation of up to {worst:.4g} rows before they are made legitimate.",
                "One table is fitted to the coefficients, the most spread-out of the closest ones."
                if whole and self.solution == "maximum-entropy"
                else "One table is fitted by linear programming."
                if whole
                else "The whole table is too large for a linear programme; the engine makes the tables consistent.",
            ),
        )

    def _wanted(self, domain: Domain) -> Workload:
        return workload_for(self.workload, domain, k=min(self.k, len(domain)))

    def _design(self, workload: Workload, accounting: Accounting, *, total: bool) -> Coefficients:
        """Return the coefficients to measure, or refuse when there are too many."""
        domain = workload.domain
        norm = "l1" if accounting.name == "pure" else "l2"
        cliques = maximal([clique for clique, weight in workload if weight > 0])
        bound = max(domain.cells(clique) for clique in cliques)
        if bound > self.max_coefficients:
            number = bound
        else:
            design = coefficients_for(workload, total=total, norm=norm, allocation=self.allocation)
            number = sum(design.numbers)
            if number <= self.max_coefficients:
                return design
        widest = sorted(domain.names, key=domain.size, reverse=True)[:3]
        raise DomainTooLarge(
            f"The tables need {large(number)} coefficients or more; {self.max_coefficients:,} are allowed. Use a smaller k, "
            f"fewer tables, or coarser bins (the widest columns are {', '.join(widest)}), or a method that chooses "
            "its marginals, such as aim or mst.",
            cells=number,
            allowed=self.max_coefficients,
        )

    def _fits(self, design: Coefficients) -> bool:
        """Whether the linear programme over the whole table is small enough."""
        return design.domain.cells() * sum(design.numbers) <= self.max_programme

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        accounting, unit = curator.accounting, curator.unit
        workload = self._wanted(curator.domain)
        design = self._design(workload, accounting, total=curator.rows.number is None)
        cost = curator.remaining
        step = grid_step(design.reach(unit).noise(accounting, cost).scale)
        progress("counting", 0.1)
        sealed = curator.counts_many(design.parts)
        progress("transforming", 0.2)
        coefficients = fourier_coefficients(sealed, curator.domain, design.weights, unit=unit, step=step)
        (released,) = measure_numbers(
            curator,
            [coefficients],
            noise=[coefficients.reach.noise(accounting, cost)],
            purpose=f"measure {coefficients.size} Fourier coefficients",
        )
        progress("fitting a table", 0.4)
        distribution = self._distribution(curator, design, released)
        progress("done", 1.0)
        return Fitted(distribution, [], workload=workload, statistics=[released])

    def _distribution(self, curator: Curator, design: Coefficients, released: Statistic) -> Distribution:
        """Fit one table by linear programming where that is small enough, and consistent tables elsewhere."""
        domain = curator.domain
        pieces = design.pieces(released.values)
        # where the number of rows is known, or was measured before, it is not among the coefficients
        known = None if () in pieces else float(max(1, curator.rows.number or 0))
        total = max(1.0, float(pieces[()][0])) if known is None else known
        if self._fits(design):
            allowed = possible_cells(curator.schema, schema_grid(curator.schema))
            cells = SOLUTIONS[self.solution](
                design.matrix(),
                released.values,
                allowed=allowed,
                # a sum of differences would trade the number of rows against many noisy interactions
                total=total if self.objective == "total" else known,
                objective=self.objective,
            )
            if cells is not None:
                if not cells.any():  # nothing but noise below zero: every possible record is as likely
                    cells = allowed / allowed.sum()
                return DenseTable(domain, cells.reshape(domain.sizes))
        implied = [
            Measurement(
                table,
                design.table(table, pieces, known),
                "gaussian",
                math.sqrt(design.cell_variance(table, released.variance)),
            )
            for table in maximal([part for part in design.parts if part])
        ]
        return estimate(
            domain,
            implied,
            total=total,
            zeros=support_of(curator.schema),
            max_cells=int(self.max_model_mb * 2**20 / 8),
            if_too_large="local-consistency",
        )
