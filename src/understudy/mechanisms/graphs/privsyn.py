"""PrivSyn: a dense graph of measured pairs, made consistent and turned into records (Zhang et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np

from understudy.curator import Curator
from understudy.engine import Distribution, estimate
from understudy.engine.distributions.released import ReleasedRecords
from understudy.engine.graphical.targets import estimate_total
from understudy.engine.record_fitting.records import fit_records
from understudy.inference import History
from understudy.marginals import Measurement, Workload
from understudy.mechanisms.allocation import cells_of, noises_by_size, workload_for
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    Progress,
    Synthesizer,
    planned,
    support_of,
    total_deviation,
)
from understudy.mechanisms.graphs.gum import Updates, make_consistent, synthesize_records
from understudy.mechanisms.graphs.look import gap_noises, measure_gaps
from understudy.mechanisms.options import at_least, one_of, positive, refuse, unused
from understudy.mechanisms.rounds import columns_again, expected_absolute_noise, require_columns
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit, noise_for
from understudy.schema import Clique, Domain, Schema

# ----------------------------------------------------------------------------------------
# Which pairs to measure, and which of them together: DenseMarg of PrivSyn. Public inputs only.
#
# Leaving a pair out costs its distance from independence; measuring it costs noise, and makes the noise of all others
# larger. With ``c`` cells in a marginal, cost shares proportional to ``c^(2/3)`` minimise the summed expected L1 noise of
# Gaussian measurements; the least sum is ``k (sum c^(2/3))^(3/2)``, where ``k`` is the expected absolute noise of one cell
# if one marginal got the whole cost. For Laplace noise, whose scale falls with the cost instead of its root, shares are
# proportional to ``c^(1/2)`` and the sum is ``k (sum c^(1/2))^2``.

_MOST_CLIQUES = 20_000


def share_power(accounting: str) -> float:
    """Return the power of the number of cells that a marginal's share of a cost is proportional to."""
    return 0.5 if accounting == "pure" else 2 / 3


def noise_error(cells: Iterable[int], *, one_cell: float, power: float) -> float:
    """Return the expected L1 noise of several marginals that share a cost in the best way, in rows.

    Parameters
    ----------
    cells
        Number of cells of each marginal.
    one_cell
        Expected absolute noise of a cell when a single marginal gets the whole cost.
    power
        That of :func:`share_power`; the sum of the shares is raised to its inverse.

    Examples
    --------
    >>> noise_error([8], one_cell=1.0, power=2 / 3)
    8.0
    >>> noise_error([4, 16], one_cell=1.0, power=0.5)
    36.0
    """
    total = sum(float(size) ** power for size in cells)
    return float(round(one_cell * total ** (1 / power), 9))


def select_pairs(
    cells: Sequence[int], gaps: Sequence[float], *, one_cell: float, power: float
) -> tuple[list[int], list[float]]:
    """Choose pairs greedily as long as the expected error of all pairs falls (PrivSyn, Algorithm 1).

    Parameters
    ----------
    cells
        Number of cells of each pair.
    gaps
        Noisy distance from independence of each pair, in rows.
    one_cell, power
        As in :func:`noise_error`.

    Returns
    -------
    chosen
        Positions in the order they were chosen.
    errors
        Expected error before the first and after each choice; falls strictly.

    Examples
    --------
    >>> select_pairs([4, 4, 4], [900.0, 5.0, 400.0], one_cell=2.0, power=2 / 3)[0]
    [0, 2]
    """
    weights = np.asarray(cells, dtype=np.float64) ** power
    gap = np.asarray(gaps, dtype=np.float64)
    open_ = np.ones(len(weights), dtype=bool)
    chosen: list[int] = []
    shares, noise = 0.0, 0.0
    errors = [float(gap.sum())]
    while open_.any():
        noises = one_cell * (shares + weights) ** (1 / power)
        after = np.where(open_, errors[-1] - gap + (noises - noise), np.inf)
        best = int(np.argmin(after))
        if not after[best] < errors[-1]:
            break
        chosen.append(best)
        open_[best] = False
        shares += float(weights[best])
        noise = float(noises[best])
        errors.append(float(after[best]))
    return chosen, errors


def combine_pairs(domain: Domain, pairs: Sequence[Clique], *, max_cells: int) -> list[Clique]:
    """Merge pairs that form small cliques of the dependency graph (PrivSyn, Algorithm 2).

    Cliques are looked at from large to small, those with fewer cells first among equally large ones. One is taken if it
    has at most ``max_cells`` cells and shares at most two columns with those taken before. Pairs inside no clique
    that was taken stay pairs.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))
    >>> combine_pairs(domain, [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")], max_cells=100)
    [('a', 'b', 'c'), ('c', 'd')]
    >>> combine_pairs(domain, [("a", "b"), ("a", "c"), ("b", "c")], max_cells=10)
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    taken: list[Clique] = []
    covered: set[str] = set()
    for clique in _cliques(domain, pairs, max_cells):
        if len(covered.intersection(clique)) <= 2:
            taken.append(clique)
            covered.update(clique)
    return [*taken, *(pair for pair in pairs if not any(set(pair) <= set(clique) for clique in taken))]


def _cliques(domain: Domain, pairs: Sequence[Clique], max_cells: int) -> list[Clique]:
    """Return cliques of three columns or more within a number of cells, large ones first.

    Every part of a clique has fewer cells than the clique, so cliques are grown column by column from ones that fit.
    """
    after: dict[str, set[str]] = {name: set() for name in domain.names}
    for left, right in pairs:
        after[left].add(right)
    found: list[Clique] = []
    layer: list[tuple[Clique, set[str]]] = [
        (pair, after[pair[0]] & after[pair[1]]) for pair in pairs if domain.cells(pair) <= max_cells
    ]
    while layer and len(found) < _MOST_CLIQUES:
        layer = [
            ((*clique, name), rest & after[name])
            for clique, rest in layer
            for name in sorted(rest, key=domain.index)
            if domain.cells((*clique, name)) <= max_cells
        ][:_MOST_CLIQUES]
        found += [clique for clique, _ in layer]
    return sorted(found, key=lambda clique: (-len(clique), domain.cells(clique), clique))


_LEAST_ROWS = 1_000
"""Records that the gradual update works on at least: on fewer the marginals cannot be told apart."""
_MOST_ROWS = 2_000_000


@dataclass(frozen=True, kw_only=True)
class PrivSyn(Synthesizer):
    """Measure as many dependent pairs as the noise allows, make them agree, and fit records to them.

    A part of the budget measures the columns, a part how far each pair of columns is from independent (*InDif*). Pairs are
    then chosen greedily while the dependence they capture is worth more than the noise they add
    (*DenseMarg*); small cliques of chosen pairs are measured as one marginal. The rest of the budget
    measures the marginals, divided in proportion to the two-thirds power of their cells.

    Parameters
    ----------
    workload
        Marginals that drawn rows are fitted to, with ``records="fitted"``; all 3-way marginals by default. It changes
        neither what is measured nor the model.
    column_share
        Share of the budget that measures the columns.
    column_noise
        Tolerated noise of the one-way marginals, as a share of the records. Where ``column_share`` leaves more, they are
        measured again, more exactly, for at most seven tenths of the budget in all, and the rest is divided as before.
        Only small tables and small budgets are concerned. Zero never measures them again (the paper's rule).
    gap_share
        Share of the budget that measures the distances from independence.
    max_clique_cells
        Pairs are merged into marginals of at most this many cells.
    max_cells
        Most cells that all columns together, or one pair, may have; larger pairs are not considered.
    max_model_mb
        Largest junction tree, in megabytes; beyond it marginals are only made to agree with each other.
    records
        How rows come about. ``"fitted"``: a model of the marginals is estimated, rows are drawn from it and moved until
        their marginals are the model's. ``"gum"``: as published, by weighted averages and the gradual update of
        records; the records are then part of the model.
    iterations
        Passes of the gradual update over all marginals.
    public_seed
        Seed of the gradual update, which is post-processing; privacy noise takes no seed.

    Privacy
    -------
    Three kinds of looks. (1) Every one-way marginal is measured once, or twice, the second time at a price that follows from
    the released number of rows. What is left is divided by fixed shares. (2) The
    distance from independence of every pair that is small enough (a rule on public sizes) is measured once; one row
    moves it by at most 4, a replaced one by at most 6 (:mod:`understudy.mechanisms.graphs.look`). (3) The chosen marginals are
    measured once each. Which ones, and with which noise, is a function of the noisy numbers of (2) and of
    public sizes. Costs add up to the budget in each accounting, adaptively. The rest is post-processing.

    Examples
    --------
    >>> PrivSyn(max_clique_cells=1000).name
    'privsyn'
    """

    name: ClassVar[str] = "privsyn"
    summary: ClassVar[str] = "a dense graph of dependent pairs, made consistent, records fitted to it"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on distances from independence and on marginals",
        papers={Paper.AIM: "Table 2"},
        origin="Zhang et al. 2021",
    )

    workload: Workload | None = None
    column_share: float = 0.1
    column_noise: float = 0.1
    gap_share: float = 0.1
    max_clique_cells: int = 5_000
    max_cells: int = 4_000_000
    max_model_mb: float = 80.0
    records: Literal["fitted", "gum"] = "fitted"
    iterations: int = 100
    public_seed: int = 0

    def __post_init__(self) -> None:
        together = []
        if not self.column_share + self.gap_share < 1:
            together.append("column_share and gap_share together must leave a share for the marginals.")
        refuse(
            positive(self, "column_share", "gap_share", "max_model_mb"),
            at_least(self, 1, "max_clique_cells", "max_cells", "iterations"),
            at_least(self, 0, "column_noise"),
            one_of(self, "records", ("fitted", "gum")),
            []
            if self.records == "gum"
            else unused(self, "iterations", "public_seed", because="records is not gum, the gradual update"),
            together,
        )

    # ------------------------------------------------------------------ public facts

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell of a pair, if as many are measured as there are columns. Without pairs, of all columns."""
        domain = schema.domain
        pairs = self._pairs(domain)
        one_way, _, rest = self._parts(accounting, cost, bool(pairs))
        if pairs:
            number = min(len(domain), len(pairs))
            return total_deviation(
                [(1, noise_for(accounting, unit, accounting.split(rest, [1.0] * number)[0]))]
            )
        noises = noises_by_size(accounting, unit, one_way, domain.sizes)
        return total_deviation(zip(domain.sizes, noises, strict=True))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how columns and dependences will be measured, and what a marginal could get at best."""
        domain = schema.domain
        workload_for(self.workload, domain)
        columns = require_columns(
            schema, max_cells=self.max_cells, max_model_mb=self.max_model_mb, method=self.name
        )
        pairs = self._pairs(domain)
        accounting = self.accounting(budget, schema, unit)
        one_way, gaps, rest = self._parts(accounting, accounting.total(budget), bool(pairs))
        design = list(zip(columns, noises_by_size(accounting, unit, one_way, domain.sizes), strict=True))
        notes = []
        if pairs:
            scale = gap_noises(accounting, unit, gaps, len(pairs)).scale
            best = noise_for(accounting, unit, rest)
            notes.append(
                f"Then the dependence of {len(pairs)} pairs, with {best.kind} noise of scale {scale:.4g} rows each, and the "
                f"marginals chosen from them; {best.kind} noise of scale {best.scale:.4g} rows per cell if only one is chosen."
            )
        left_out = len(domain) * (len(domain) - 1) // 2 - len(pairs)
        if left_out:
            notes.append(f"{left_out} pairs have more than {self.max_cells:,} cells and are never measured.")
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=cells_of(self.max_model_mb),
            notes=tuple(notes),
        )

    def _pairs(self, domain: Domain) -> list[Clique]:
        """Return the pairs that may be measured: a rule on public sizes. Columns of one value depend on nothing."""
        names = [name for name in domain.names if domain.size(name) > 1]
        return [pair for pair in combinations(names, 2) if domain.cells(pair) <= self.max_cells]

    def _parts(self, accounting: Accounting, total: float, pairs: bool) -> tuple[float, float, float]:
        """Divide a cost between columns, dependences and marginals; without pairs the columns get all of it."""
        if not pairs:
            return total, 0.0, 0.0
        columns, gaps, rest = accounting.split(
            total, [self.column_share, self.gap_share, 1 - self.column_share - self.gap_share]
        )
        return columns, gaps, rest

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        columns: list[Clique] = [(name,) for name in domain.names]
        pairs = self._pairs(domain)
        progress("columns", 0.0)
        measurements = self._columns(curator, columns, bool(pairs))
        batches = [len(columns)] * (len(measurements) // len(columns))
        chosen: list[Clique] = []
        statistics = []
        if pairs:
            progress("dependences", 0.1)
            share = self.gap_share / (1 - self.column_share)
            gaps = measure_gaps(curator, pairs, share * curator.remaining)
            statistics.append(gaps.statistic)
            chosen = self._choose(accounting, unit, domain, pairs, gaps.values.tolist(), curator.remaining)
            progress("marginals", 0.3)
            measurements += self._measure(curator, chosen or columns)
        progress("estimating", 0.5)
        distribution, workload = self._finish(curator, measurements)
        progress("done", 1.0)
        batches.append(len(measurements) - sum(batches))
        return Fitted(
            distribution,
            measurements,
            workload=workload,
            history=History(tuple(count for count in batches if count)),
            statistics=statistics,
        )

    def _columns(self, curator: Curator, columns: list[Clique], pairs: bool) -> list[Measurement]:
        """Measure the columns, and again where their noise is more than tolerated."""
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        cost = curator.remaining
        first, _, _ = self._parts(accounting, cost, pairs)
        sealed = curator.counts_many(columns)
        measurements = curator.measure_many(
            sealed,
            noise=noises_by_size(accounting, unit, first, domain.sizes),
            purpose=f"measure {len(columns)} one-way marginals",
        )
        if not pairs:
            return measurements
        total = curator.rows.total
        rows = estimate_total(measurements) if total is None else total
        return measurements + columns_again(
            curator, sealed, cost=cost, spent=first, rows=rows, tolerated=self.column_noise
        )

    def _choose(
        self,
        accounting: Accounting,
        unit: Unit,
        domain: Domain,
        pairs: list[Clique],
        gaps: list[float],
        cost: float,
    ) -> list[Clique]:
        """Choose marginals from released dependences and public sizes."""
        one_cell = expected_absolute_noise(noise_for(accounting, unit, cost))
        chosen, _ = select_pairs(
            [domain.cells(pair) for pair in pairs],
            gaps,
            one_cell=one_cell,
            power=share_power(accounting.name),
        )
        return combine_pairs(
            domain, sorted(pairs[index] for index in chosen), max_cells=self.max_clique_cells
        )

    def _measure(self, curator: Curator, cliques: list[Clique]) -> list[Measurement]:
        """Spend what is left on marginals, in the shares that minimise their expected L1 noise."""
        cells = [curator.domain.cells(clique) for clique in cliques]
        return curator.measure_many(
            curator.counts_many(cliques),
            noise=noises_by_size(curator.accounting, curator.unit, curator.remaining, cells),
            purpose=f"measure {len(cliques)} chosen marginals",
        )

    def _finish(
        self, curator: Curator, measurements: list[Measurement]
    ) -> tuple[Distribution, Workload | None]:
        """Turn measurements into a distribution, and say which marginals drawn rows are fitted to."""
        domain, total, support = curator.domain, curator.rows.total, support_of(curator.schema)
        if curator.rows_measurement is not None:  # paid for before; one more number to go by
            measurements = [*measurements, curator.rows_measurement]
        if self.records == "fitted":
            model = estimate(
                domain,
                measurements,
                total=total,
                zeros=support,
                max_cells=cells_of(self.max_model_mb),
                thorough=True,
                if_too_large="local-consistency",
            )
            return model, workload_for(self.workload, domain)
        total = estimate_total(measurements) if total is None else total
        tables = make_consistent(domain, measurements, total)
        rows = int(min(max(round(total), _LEAST_ROWS), _MOST_ROWS))
        generator = np.random.default_rng(self.public_seed)
        codes = synthesize_records(domain, tables, rows, Updates(iterations=self.iterations), generator)
        if support:  # records that break a constraint are moved to where the marginals allow
            codes = fit_records(
                codes,
                domain,
                [clique for clique, _ in tables],
                [table for _, table in tables],
                allowed=support,
                proposals=0,
                seed=self.public_seed,
            ).codes
        return ReleasedRecords(domain, total, codes), None
