"""PrivBayes: a Bayesian network with a private structure and noisy conditional tables (Zhang et al. 2014, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.engine import Resolution
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement, Workload
from understudy.mechanisms.allocation import direct_weights, noises, rows_noise, total_is_public, workload_for
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.networks.conditionals import Learnt, network_of
from understudy.mechanisms.networks.network import (
    SCORES,
    Admit,
    Family,
    Limits,
    learn_network,
    measured_families,
    resolution_of,
    seal_families,
)
from understudy.mechanisms.options import at_least, one_of, positive, refuse, shares, unused
from understudy.mechanisms.rounds import expected_absolute_noise
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Domain, Schema

FLAVOURS = ("theta", "degree")
ALLOCATIONS = ("cells", "equal")


@dataclass(frozen=True, kw_only=True)
class PrivBayes(Synthesizer):
    """Choose a Bayesian network privately, measure the table of each family, draw rows down the network.

    Parameters
    ----------
    flavour
        ``"theta"`` (default): families as large as their noise allows. A table is useful if its average
        cell holds at least ``theta`` times the expected noise; parents may be generalised so that more of
        them fit. ``"degree"``: families of at most ``degree`` parents.
    theta
        The usefulness that a table must have (flavour theta).
    degree
        Most parents of a column, 1 to 4 (flavour degree).
    epsilon_split
        Share of the budget spent on the structure; the rest measures tables.
    score
        How dependence is scored: ``"R"`` (rows that independence gets wrong), ``"R-net"`` (the same less the
        rows that noise will get wrong), ``"F"`` (all columns must have two codes), ``"mutual-information"``
        (the number of rows must be public). ``"auto"`` (default) is F for flavour degree where all columns
        have two codes, and R-net otherwise.
    allocation
        How the budget of the tables is divided: ``"cells"`` (default) gives larger tables more, so that the
        expected error of all together is smallest; ``"equal"`` gives every table the same, as in the paper.
    generalise
        Whether parents with an order may be taken in coarser groups where they do not fit as they are.
    max_cells
        Largest table of a family, whatever the noise.
    max_candidates
        Most families considered in one step; beyond it a public random choice of them.
    rows_share
        Share of the budget that measures the number of rows, where flavour theta needs it and it is private.
    root
        The first column; by default one drawn with ``public_seed``.
    public_seed
        Seed of the public random choices. It has nothing to do with privacy noise.
    workload
        Marginals that drawn rows are fitted to; all 3-way marginals by default, unless the network is too
        large to answer them exactly. It changes neither what is measured nor the network.

    Privacy
    -------
    Three kinds of looks. (1) In flavour theta, where the number of rows is private, one noisy count; its
    noise and share are fixed in advance. (2) The structure: at most ``d - 1`` runs of the exponential
    mechanism (:func:`~understudy.mechanisms.networks.network.learn_network`). Their candidates depend on public
    facts, on (1) and on earlier choices. The scores change between neighbours, in rows, by at most: R: 2 for
    add-remove, ``min(4, 3 + 2/n)`` for replace-one; F: 1 for both; mutual information: the bounds of
    :mod:`understudy.curator.sealed`, which need a public ``n``; times the rows per person where a
    unit has several. (3) The tables of the families, each a histogram (of coarser public groups where parents are
    generalised) that changes by at most 1 in L1 and L2 for add-remove, 2 and sqrt 2 for replace-one, times
    rows per person; a table that is a sum of another is not measured.

    Under pure budgets (2) costs its epsilons and (3) is Laplace noise, and all epsilons add up to at most
    the budget. Under zCDP, GDP and approximate budgets each choice costs what an exponential mechanism
    of bounded range costs there, (1) and (3) are Gaussian, and rho or squared mu add up. The composition is
    adaptive and runs inside the curator's filter. The root, consistency, conditional tables and sampling are
    public choices or post-processing.

    Examples
    --------
    >>> PrivBayes(flavour="degree", degree=3).name
    'privbayes'
    """

    name: ClassVar[str] = "privbayes"
    summary: ClassVar[str] = "privately chosen Bayesian network, noisy conditional tables"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on tables of families; exponential mechanism for choices",
        papers={Paper.BIRTHS: "section 4.7.2", Paper.AIM: "Table 2", Paper.DIPS: "Table 2"},
        origin="Zhang, Cormode, Procopiuc, Srivastava and Xiao 2014 and 2017",
    )

    flavour: str = "theta"
    theta: float = 4.0
    degree: int = 2
    epsilon_split: float = 0.3
    score: str = "auto"
    allocation: str = "cells"
    generalise: bool = True
    max_cells: int = 1_000_000
    max_candidates: int = 5_000
    rows_share: float = 0.02
    root: str | None = None
    public_seed: int = 0
    workload: Workload | None = None

    def __post_init__(self) -> None:
        refuse(
            one_of(self, "flavour", FLAVOURS),
            one_of(self, "score", ("auto", *SCORES)),
            one_of(self, "allocation", ALLOCATIONS),
            positive(self, "theta"),
            shares(self, "epsilon_split", "rows_share"),
            at_least(self, 1, "max_cells", "max_candidates"),
            at_least(self, 0, "public_seed"),
            unused(self, "degree", because="flavour is theta, which limits the size of tables")
            if self.flavour == "theta"
            else unused(
                self, "theta", "rows_share", because="flavour is degree, which limits the number of parents"
            ),
        )
        if self.degree not in range(1, 5):
            raise BudgetError(f"degree ({self.degree}) must be 1, 2, 3 or 4.")

    # ------------------------------------------------------------------ before

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell of a measured table."""
        domain = schema.domain
        _, _, tables = self._shares(accounting, cost, domain, known=total_is_public(schema, unit))
        return total_deviation(
            [(1, noise_for(accounting, unit, accounting.split(tables, [1.0] * len(domain))[0]))]
        )

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how large families may be and how noisy their tables will be, or refuse with a reason."""
        domain = schema.domain
        workload_for(self.workload, domain)
        widest = max(domain.names, key=domain.size)
        if domain.size(widest) > self.max_cells:
            raise DomainTooLarge(
                f"The column {widest} alone has {domain.size(widest):,} codes; max_cells allows {self.max_cells:,}. "
                "Use coarser bins or raise max_cells.",
                cells=domain.size(widest),
                allowed=self.max_cells,
            )
        root, score = self._root(domain), self._score(schema, unit)
        accounting = self.accounting(budget, schema, unit)
        known = total_is_public(schema, unit)
        row_cost, structure, tables = self._shares(accounting, accounting.total(budget), domain, known=known)
        noise = noise_for(accounting, unit, accounting.split(tables, [1.0] * len(domain))[0])
        measurements = []
        if row_cost:
            measurements.append(PlannedMeasurement((), 1, rows_noise(accounting, unit, row_cost)))
        notes = [f"The network starts at {root}; scores are {score}."]
        if structure:
            notes.append(
                f"{len(domain) - 1} choices take {self.epsilon_split:.0%} of the budget; then at most {len(domain)} "
                f"tables are measured with {noise.kind} noise of scale about {noise.scale:.4g} rows per cell."
            )
        cells = self.max_cells
        if self.flavour == "theta" and schema.row_count is not None:
            cells = self._cells(schema.row_count, noise)
            notes.append(f"Tables of more than {cells:,} cells would not be {self.theta:g}-useful.")
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(measurements),
            model_cells=len(domain) * max(cells, domain.size(widest)),
            notes=tuple(notes),
        )

    def _root(self, domain: Domain) -> str:
        """Return the first column, by name or by the public seed."""
        if self.root is None:
            return domain.names[int(np.random.default_rng(self.public_seed).integers(len(domain)))]
        return domain.names[domain.index(self.root)]

    def _score(self, schema: Schema, unit: Unit) -> str:
        """Return the score to use, or say why the one asked for cannot serve."""
        if self.score == "F" and any(size != 2 for size in schema.domain.sizes):
            raise BudgetError("The score F needs columns with exactly two codes. Use R.")
        if self.score == "mutual-information" and not total_is_public(schema, unit):
            raise BudgetError(
                "Mutual information can change by a large part of its range unless the number of rows is public. "
                "Declare row_count in the schema, protect by replace-one, or use the score R."
            )
        if self.score != "auto":
            return self.score
        return "F" if self.flavour == "degree" and set(schema.domain.sizes) == {2} else "R-net"

    def _shares(
        self, accounting: Accounting, total: float, domain: Domain, *, known: bool
    ) -> tuple[float, float, float]:
        """Divide the cost between the number of rows, the structure and the tables."""
        rows = 0.0
        if self.flavour == "theta" and not known and len(domain) > 1:
            rows, total = accounting.split(total, [self.rows_share, 1 - self.rows_share])
        if len(domain) == 1:
            return rows, 0.0, total
        structure, tables = accounting.split(total, [self.epsilon_split, 1 - self.epsilon_split])
        return rows, structure, tables

    def _cells(self, rows: float, noise: Noise) -> int:
        """Return the largest useful table: its average cell holds ``theta`` times the expected noise."""
        useful = max(0.0, rows) / (self.theta * expected_absolute_noise(noise))
        return int(min(useful, self.max_cells))

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        learnt = self._learn(
            curator, resolution_of(curator.schema, generalise=self.generalise), None, progress
        )
        progress("consistency", 0.8)
        total = learnt.total(curator.rows.total)
        network = network_of(curator.schema, learnt, total)
        progress("done", 1.0)
        workload = workload_for(self.workload, curator.domain) if self.workload or network.exact else None
        return Fitted(network, learnt.plain(), workload=workload, history=learnt.history())

    def _learn(
        self, curator: Curator, resolution: Resolution, admit: Admit | None, progress: Progress
    ) -> Learnt:
        """Spend the budget: number of rows where needed, structure, tables."""
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        known = curator.rows.number
        row_cost, structure, tables = self._shares(
            accounting, curator.remaining, domain, known=known is not None
        )
        rows: Measurement | None = None
        if row_cost:
            rows = curator.measure(curator.counts(()), noise=rows_noise(accounting, unit, row_cost))
        noise = noise_for(accounting, unit, accounting.split(tables, [1.0] * len(domain))[0])
        cells, degree = self.max_cells, None
        if self.flavour == "degree":
            degree = self.degree
        else:
            cells = self._cells(float(rows.values) if rows is not None else float(known or 0), noise)
        families = [Family(self._root(domain), ())]
        if len(domain) > 1:
            families = learn_network(
                curator,
                resolution,
                root=self._root(domain),
                score=self._score(curator.schema, unit),
                limits=Limits(
                    cells, degree, self.max_candidates, self.public_seed, expected_absolute_noise(noise)
                ),
                cost=structure,
                admit=admit,
                progress=lambda fraction: progress("structure", 0.6 * fraction),
            )
        progress("measuring", 0.6)
        measured = measured_families(resolution, families)
        sizes = [resolution.cells(family.views(resolution)) for family in measured]
        weights = [1.0] * len(sizes)
        if self.allocation == "cells":
            weights = direct_weights(accounting, weights, sizes)
        released = curator.measure_many(
            seal_families(curator, resolution, measured),
            noise=noises(accounting, unit, curator.remaining, weights),
            purpose=f"measure the tables of {len(measured)} families",
        )
        return Learnt(resolution, families, measured, released, rows)
