"""DPCopula: noisy margins and noisy rank correlations of a Gaussian copula (Li, Xiong and Jiang 2014).

From noisy rank statistics to the correlations of latent normal numbers. Post-processing throughout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, measure_numbers
from understudy.errors import BudgetError, DomainTooLarge
from understudy.inference import History
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.allocation import total_is_public
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.options import at_least, between, one_of, refuse, shares
from understudy.mechanisms.parametric.copula.distribution import GaussianCopula, Latent, orthant_tables
from understudy.mechanisms.parametric.copula.look import (
    STEPS,
    Ranks,
    concordance_bounds,
    concordance_noise,
    seal_concordance,
)
from understudy.mechanisms.parametric.features import Feature
from understudy.mechanisms.parametric.look import MomentBlock, moment_noise, seal_moments
from understudy.mechanisms.parametric.margins import (
    Ladder,
    combined_total,
    ladder_of,
    noise_variance,
    proportions_of,
    refine,
)
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

ANGLES = np.linspace(-1.5, 1.5, 61)
"""Correlations are looked for among the sines of these angles: up to 0.9975 in size."""


@dataclass(frozen=True, eq=False)
class Dimension:
    """One dimension of a copula as the records show it: ranked groups of codes, in each part of the table.

    Attributes
    ----------
    latent
        The dimension.
    labels
        Group of each code in each part, of shape (parts, codes); -1 where the dimension is not seen.
    shares
        For each part the probabilities of its groups, given that the dimension is seen.
    seen
        For each part the probability that the dimension is seen.
    """

    latent: Latent
    labels: Labels
    shares: tuple[Array, ...]
    seen: Array

    @property
    def scores(self) -> Array:
        """Score of each code in each part: its middle rank, from -1 to 1; zero where the dimension is not seen."""
        scores = np.zeros(self.labels.shape)
        for part, share in enumerate(self.shares):
            inside = self.labels[part] >= 0
            scores[part, inside] = middle_ranks(share)[self.labels[part, inside]]
        return scores


def middle_ranks(shares: Array) -> Array:
    """Return twice the middle of each group's range of ranks, less one.

    Examples
    --------
    >>> middle_ranks(np.array([0.5, 0.5]))
    array([-0.5,  0.5])
    """
    above = np.cumsum(shares)
    return np.asarray(np.clip(2 * (above - shares / 2) - 1, -1.0, 1.0))


def dimensions_of(column: str, values: int, margins: Array, *, groups: int) -> list[Dimension]:
    """Return the dimensions of one column: its values, and its extra codes if there are any.

    Values are merged into at most ``groups`` groups that are about equally likely in each part.
    """
    inside = proportions_of(margins[:, :values])
    labels = np.full(margins.shape, -1, dtype=np.int64)
    shares: list[Array] = []
    for part, row in enumerate(inside):
        middle = np.cumsum(row) - row / 2
        which = (
            np.minimum((middle * groups).astype(np.int64), groups - 1)
            if values > groups
            else np.arange(values)
        )
        which = np.unique(which, return_inverse=True)[1]
        labels[part, :values] = which
        shares.append(np.bincount(which, weights=row).astype(np.float64))
    seen = margins[:, :values].sum(axis=1)
    found = [Dimension(Latent(column, "value"), labels, tuple(shares), seen)]
    if values < margins.shape[1]:
        state = np.concatenate([seen[:, None], margins[:, values:]], axis=1)
        codes = np.concatenate([np.zeros(values, dtype=np.int64), 1 + np.arange(margins.shape[1] - values)])
        repeated = np.tile(codes, (len(margins), 1))
        found.append(
            Dimension(Latent(column, "state"), repeated, tuple(proportions_of(state)), np.ones(len(margins)))
        )
    return found


def expected_curve(left: Dimension, right: Dimension, part: int, *, statistic: str) -> Array:
    """Return the expected statistic of one record, or of one pair of records, for each correlation of ``ANGLES``.

    ``"kendall"``: the product of the signs of two differences. ``"scores"``: the product of two scores. Records in
    which a dimension is not seen count as zero.
    """
    tables = orthant_tables(left.shares[part], right.shares[part], ANGLES)
    seen = float(left.seen[part] * right.seen[part])
    if statistic == "scores":
        a, b = middle_ranks(left.shares[part]), middle_ranks(right.shares[part])
        return np.asarray(seen * np.einsum("tij,i,j->t", tables, a, b))
    above = np.flip(np.cumsum(np.flip(tables, 1), axis=1), 1)
    above = np.concatenate([above[:, 1:], np.zeros_like(tables[:, :1])], axis=1)
    running = np.cumsum(above, axis=2)
    difference = running[:, :, -1:] - 2 * running + above
    return np.asarray(seen**2 * 2 * (tables * difference).sum(axis=(1, 2)))


def correlation_from(curve: Array, value: float, deviation: float) -> float:
    """Return the correlation at which a rising curve over ``ANGLES`` meets a noisy value, shrunk towards zero.

    Parameters
    ----------
    curve
        Expected value for each angle.
    value
        The noisy statistic.
    deviation
        Standard deviation of its noise.

    Notes
    -----
    With noise of standard deviation ``s`` on the correlation, ``r`` becomes ``r³ / (r² + s²)``: what does not stand
    out from the noise is mostly noise. As the budget grows ``s`` goes to zero and nothing is shrunk.
    """
    rising = np.maximum.accumulate(curve)
    span = rising[-1] - rising[0]
    if not span > 1e-9:
        return 0.0
    angle = float(np.interp(value, rising + 1e-12 * np.arange(len(rising)), ANGLES))
    zero = len(ANGLES) // 2
    slope = (curve[zero + 3] - curve[zero - 3]) / (np.sin(ANGLES[zero + 3]) - np.sin(ANGLES[zero - 3]))
    r = float(np.sin(angle))
    s = deviation / max(slope, 1e-9)
    return r**3 / (r**2 + s**2) if r else 0.0


def nearest_correlation(matrix: npt.ArrayLike, *, smallest: float = 1e-3) -> Array:
    """Return a positive definite correlation matrix close to a symmetric one (Higham 2002).

    Alternating projections, with Dykstra's correction, between matrices with eigenvalues of at least ``smallest``
    and matrices with a unit diagonal; a last scaling makes both hold exactly.

    Examples
    --------
    >>> repaired = nearest_correlation([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])
    >>> bool(np.linalg.eigvalsh(repaired).min() > 0), repaired.diagonal().tolist()
    (True, [1.0, 1.0, 1.0])
    """
    made = np.array(matrix, dtype=np.float64)
    made = (made + made.T) / 2
    np.fill_diagonal(made, 1.0)
    if len(made) == 0 or np.linalg.eigvalsh(made)[0] >= smallest:
        return made
    correction = np.zeros_like(made)
    for _ in range(200):
        shifted = made - correction
        eigenvalues, vectors = np.linalg.eigh(shifted)
        definite = (vectors * np.maximum(eigenvalues, smallest)) @ vectors.T
        correction = definite - shifted
        step = definite.copy()
        np.fill_diagonal(step, 1.0)
        moved = float(np.abs(step - made).max())
        made = step
        if moved < 1e-7:
            break
    eigenvalues, vectors = np.linalg.eigh(made)
    made = (vectors * np.maximum(eigenvalues, smallest)) @ vectors.T
    size = np.sqrt(made.diagonal())
    made = made / size[:, None] / size[None, :]
    made = (made + made.T) / 2
    np.fill_diagonal(made, 1.0)
    return np.asarray(made)


def matrix_of(size: int, pairs: Sequence[tuple[int, int]], correlations: Sequence[float]) -> Array:
    """Put correlations of pairs into a matrix and repair it."""
    made = np.eye(size)
    for (i, j), r in zip(pairs, correlations, strict=True):
        made[i, j] = made[j, i] = r
    return nearest_correlation(made)


# ----------------------------------------------------------------------------------------
# What DPCopula measures: the table of its partition, margins on grids, pairs of dimensions. Public facts alone.


@dataclass(frozen=True)
class Costs:
    """Shares of the budget: one per look at counts, and one for all correlations."""

    counts: tuple[float, ...]
    correlations: float


@dataclass(frozen=True, eq=False)
class Layout:
    """What will be measured: the table of the partition, margins on grids, pairs of dimensions."""

    schema: Schema
    partition: Clique
    notes: tuple[str, ...]

    @property
    def domain(self) -> Domain:
        """The columns and their sizes."""
        return self.schema.domain

    @property
    def inside(self) -> tuple[str, ...]:
        """The columns of the copula."""
        return tuple(name for name in self.domain.names if name not in self.partition)

    @property
    def parts(self) -> int:
        """Cells of the partition."""
        return self.domain.cells(self.partition) if self.partition else 1

    @property
    def cells(self) -> int:
        """Cells measured in all."""
        return self.parts * (1 + sum(self.domain.size(name) for name in self.inside))

    @property
    def ladders(self) -> tuple[Ladder, ...]:
        """The grid of each column of the copula."""
        return tuple(ladder_of(self.schema.column(name)) for name in self.inside)

    @property
    def latents(self) -> tuple[tuple[str, str], ...]:
        """Column and role of each dimension, in order."""
        found = []
        for name in self.inside:
            column = self.schema.column(name)
            found.append((name, "value"))
            if column.value_count < column.size:
                found.append((name, "state"))
        return tuple(found)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of dimensions of different columns; whether an entry is missing says nothing about its value.

        A column with a single value has no dimension to correlate: it cannot vary.
        """
        varying = [
            (i, name)
            for i, (name, role) in enumerate(self.latents)
            if role == "state" or self.schema.column(name).value_count > 1
        ]
        return tuple((i, j) for (i, a), (j, b) in combinations(varying, 2) if a != b)

    @property
    def groupings(self) -> list[dict[str, npt.NDArray[np.int64]]]:
        """The groups of codes of every look: the partition first, then the steps of each ladder."""
        own = {name: np.arange(self.domain.size(name)) for name in self.partition}
        looks = [own] if own else []
        return looks + [{**own, ladder.column: step} for ladder in self.ladders for step in ladder.steps]

    @property
    def looks(self) -> list[tuple[Clique, int]]:
        """Clique and number of cells of every look."""
        return [
            (self.domain.canonical(groups), math.prod(int(labels.max()) + 1 for labels in groups.values()))
            for groups in self.groupings
        ]

    def costs(self, accounting: Accounting, total: float, margin_share: float) -> Costs:
        """Divide the budget: equal shares for the partition and each margin, divided among its grids."""
        weights = [1.0] if self.partition else []
        weights += [1.0 / len(ladder.steps) for ladder in self.ladders for _ in ladder.steps]
        if not self.pairs:
            return Costs(accounting.split(total, weights), 0.0)
        margins, correlations = accounting.split(total, [margin_share, 1 - margin_share])
        return Costs(accounting.split(margins, weights), correlations)

    def estimate(
        self, released: list[Measurement], noise: list[Noise], known: int | None
    ) -> tuple[Array, dict[str, Array]]:
        """Return the expected rows of each part and the margins of each column in each part."""
        tables = [np.asarray(item.values, dtype=np.float64) for item in released]
        variances = [noise_variance(kind) for kind in noise]
        total = float(max(1, known)) if known is not None else None
        if total is None:
            sums = [(float(t.sum()), v * t.size) for t, v in zip(tables, variances, strict=True)]
            total = combined_total(sums)
        first = 1 if self.partition else 0
        parts = np.array([total])
        if self.partition:
            ladder = Ladder("parts", (np.arange(self.parts),))
            parts = refine(ladder, [tables[0].reshape(1, -1)], variances[:1], [total])[0]
        margins = {}
        for ladder in self.ladders:
            last = first + len(ladder.steps)
            axis = self.domain.canonical((*self.partition, ladder.column)).index(ladder.column)
            steps = [np.moveaxis(table, axis, -1).reshape(self.parts, -1) for table in tables[first:last]]
            margins[ladder.column] = proportions_of(refine(ladder, steps, variances[first:last], parts))
            first = last
        return parts, margins

    def sort(self, released: list[Measurement]) -> tuple[list[Measurement], list[Statistic]]:
        """Separate marginals of the schema's own codes from those of groups of them."""
        plain, grouped = [], []
        for item in released:
            if item.values.shape == self.domain.shape(item.clique):
                plain.append(item)
            else:
                label = f"{', '.join(item.clique)} in {item.values.size} groups"
                grouped.append(Statistic(label, item.values, item.noise, item.scale))
        return plain, grouped

    def feature(self, dimension: Dimension) -> Feature:
        """Return the scores of a dimension as a function of the partition and the column."""
        column = dimension.latent.column
        scores = dimension.scores
        if not self.partition:
            return Feature(f"{column} ({dimension.latent.role})", (column,), scores[0])
        clique = self.domain.canonical((*self.partition, column))
        table = scores.reshape(*self.domain.shape(self.partition), -1)
        table = np.moveaxis(table, -1, clique.index(column))
        return Feature(f"{column} ({dimension.latent.role})", clique, table)


CORRELATIONS = ("scores", "kendall")
MAX_CELLS = 20_000_000


@dataclass(frozen=True, kw_only=True)
class DPCopula(Synthesizer):
    """Measure the margin of every column and a rank correlation of every pair; draw from a Gaussian copula.

    Columns without an order have no rank. They, or the columns named in ``partition``, divide the table into parts
    (the hybrid of the paper for columns with few values); every part has margins of its own.

    Parameters
    ----------
    correlation
        ``"scores"`` (default): sums of products of scores, the middle ranks from -1 to 1 that the released margins
        give each code (Spearman's correlation). ``"kendall"``: Kendall's tau, as in the paper.
    partition
        Columns that divide the table into parts; by default those without an order and with more than two values,
        fewest values first, as long as there are no more than ``max_parts`` parts. An empty tuple divides nothing.
    max_parts
        Most parts that are chosen by default.
    per_part
        Whether every part has correlations of its own, as in the paper's hybrid, or all parts share them (default).
    margin_share
        Share of the budget for margins; the rest measures correlations.
    groups
        Number of ranked groups that the codes of a column are merged into for the correlations.

    Privacy
    -------
    Three kinds of looks, whose costs add up to at most the budget. (1) With a partition, its table: one histogram.
    (2) For each column its margin in each part, on one to four grids from coarse to fine (columns with at most 16
    codes: one): each is one histogram over (part, group). (3) The correlations of all pairs in one look. *Kendall*:
    ``n tau`` changes between neighbours by at most 3 (add-remove) or 4 (replace-one), whatever ``n`` is:
    :mod:`understudy.mechanisms.parametric.copula.look`. *Scores*: each product lies between -1 and 1 and is summed over
    records: :mod:`understudy.mechanisms.parametric.look`. Scores and ranked groups are functions of the margins released
    in (2). Laplace noise under pure accounting, Gaussian noise otherwise. Inverting the statistics, repairing the
    correlation matrix and drawing are post-processing.

    Examples
    --------
    >>> DPCopula(correlation="kendall", partition=()).name
    'dpcopula'
    """

    name: ClassVar[str] = "dpcopula"
    summary: ClassVar[str] = (
        "noisy margins and rank correlations of a Gaussian copula, in parts by unordered columns"
    )
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on margins and rank correlations",
        papers={Paper.DIPS: "Table 2"},
        origin="Li, Xiong and Jiang 2014",
    )

    correlation: str = "scores"
    partition: tuple[str, ...] | None = None
    max_parts: int = 64
    per_part: bool = False
    margin_share: float = 0.7
    groups: int = 24

    def __post_init__(self) -> None:
        refuse(
            one_of(self, "correlation", CORRELATIONS),
            at_least(self, 1, "max_parts"),
            shares(self, "margin_share"),
            between(self, 2, 100, "groups"),
        )
        if self.partition is not None:
            if isinstance(self.partition, str):
                raise BudgetError("partition must be a list of column names.")
            object.__setattr__(self, "partition", tuple(self.partition))

    # ------------------------------------------------------------------ before

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of all cells of the margins, and of the correlations in rows."""
        layout = self._layout(schema)
        costs = layout.costs(accounting, cost, self.margin_share)
        margins = total_deviation(
            (cells, noise_for(accounting, unit, each))
            for (_, cells), each in zip(layout.looks, costs.counts, strict=True)
        )
        if not layout.pairs:
            return margins
        scale = self._correlation_scale(layout, schema, unit, accounting, costs.correlations)
        return margins + len(layout.pairs) * scale * (math.sqrt(2) if accounting.name == "pure" else 1.0)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy margins and correlations will be, or refuse with a reason."""
        accounting = self.accounting(budget, schema, unit)
        layout = self._layout(schema)
        costs = layout.costs(accounting, accounting.total(budget), self.margin_share)
        noises = [noise_for(accounting, unit, cost) for cost in costs.counts]
        notes = list(layout.notes)
        if layout.pairs:
            scale = self._correlation_scale(layout, schema, unit, accounting, costs.correlations)
            notes.append(
                f"Each of {len(layout.pairs)} correlations gets noise of about {scale:.3g} divided by the number of "
                "rows; those that do not stand out are shrunk towards zero."
            )
        measurements = tuple(
            PlannedMeasurement(clique, cells, noise)
            for (clique, cells), noise in zip(layout.looks, noises, strict=True)
            if cells == schema.domain.cells(clique)
        )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=measurements,
            model_cells=layout.cells,
            notes=tuple(notes),
        )

    def _layout(self, schema: Schema) -> Layout:
        """Choose the partition and list all looks, from public facts alone."""
        domain = schema.domain
        unordered = [
            column.name
            for column in sorted(schema.columns, key=lambda column: column.size)
            if column.kind == "categorical" and column.value_count > 2
        ]
        notes = []
        if self.partition is None:
            chosen: list[str] = []
            for name in unordered:
                if domain.cells(tuple(chosen)) * domain.size(name) <= self.max_parts:
                    chosen.append(name)
            partition = domain.canonical(chosen)
        else:
            partition = domain.canonical(self.partition)
        ranked = [name for name in unordered if name not in partition]
        if ranked:
            notes.append(
                f"{', '.join(ranked)}: without an order, and not in the partition, so correlations use the order in "
                "which the schema lists the values."
            )
        layout = Layout(schema, partition, tuple(notes))
        if layout.cells > MAX_CELLS:
            raise DomainTooLarge(
                f"Margins in {layout.parts:,} parts of the table have {layout.cells:,} cells; dpcopula holds at most "
                f"{MAX_CELLS:,}. Leave columns out of the partition, or use coarser bins.",
                cells=layout.cells,
                allowed=MAX_CELLS,
            )
        return layout

    def _correlation_scale(
        self, layout: Layout, schema: Schema, unit: Unit, accounting: Accounting, cost: float
    ) -> float:
        """Return the noise scale of one correlation times the number of rows."""
        fixed = total_is_public(schema, unit)
        if self.correlation == "kendall":
            bounds = concordance_bounds(
                unit, pairs=len(layout.pairs), parts=layout.parts, per_part=self.per_part, rows_fixed=fixed
            )
            return concordance_noise(accounting, bounds, cost).scale / STEPS * math.pi / 2
        block = self._block(layout, [np.linspace(-1, 1, 3)] * len(layout.latents))
        toy = Domain(tuple(f"dimension {i}" for i in range(len(layout.latents))), (3,) * len(layout.latents))
        block, noise = moment_noise(block, toy, unit, accounting, cost, rows_fixed=fixed)
        return noise.scale / block.unit * math.pi

    def _block(self, layout: Layout, scores: list[Array]) -> MomentBlock:
        """Return a stand-in block of score products with one column per dimension, for planning."""
        features = tuple(
            Feature(f"dimension {i}", (f"dimension {i}",), values) for i, values in enumerate(scores)
        )
        return MomentBlock("scores", features, layout.pairs)

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        layout = self._layout(curator.schema)
        accounting, unit = curator.accounting, curator.unit
        costs = layout.costs(accounting, curator.remaining, self.margin_share)
        progress("counting", 0.1)
        noise = [noise_for(accounting, unit, cost) for cost in costs.counts]
        sealed = curator.counts_grouped([dict(groups) for groups in layout.groupings])
        released = curator.measure_many(
            sealed, noise=noise, purpose=f"measure {len(sealed)} margins on grids"
        )
        progress("margins", 0.4)
        parts, margins = layout.estimate(released, noise, curator.rows.number)
        measurements, statistics = layout.sort(released)
        dimensions = [
            dimension
            for name in layout.inside
            for dimension in dimensions_of(
                name, curator.schema.column(name).value_count, margins[name], groups=self.groups
            )
        ]
        correlations = np.eye(len(dimensions))[None]
        if layout.pairs:
            progress("correlations", 0.6)
            statistic, scale = self._correlate(curator, layout, dimensions)
            statistics.append(statistic)
            correlations = self._invert(layout, dimensions, parts, statistic.values / scale, statistic, scale)
        copula = GaussianCopula(
            curator.domain,
            layout.partition,
            parts,
            tuple(dimension.latent for dimension in dimensions),
            {name: curator.schema.column(name).value_count for name in layout.inside},
            margins,
            correlations,
        )
        progress("done", 1.0)
        return Fitted(
            copula,
            measurements,
            history=History.planned(len(measurements)) if measurements else None,
            statistics=statistics,
        )

    def _correlate(
        self, curator: Curator, layout: Layout, dimensions: list[Dimension]
    ) -> tuple[Statistic, float]:
        """Spend what is left on the correlations; return the statistic and how many steps make one."""
        unit, accounting, cost = curator.unit, curator.accounting, curator.remaining
        purpose = f"measure {len(layout.pairs)} rank correlations"
        if self.correlation == "kendall":
            ranks = [Ranks(item.latent.column, item.labels) for item in dimensions]
            sealed = seal_concordance(
                curator, ranks, layout.pairs, partition=layout.partition, per_part=self.per_part
            )
            noise = concordance_noise(accounting, (sealed.reach.l1, sealed.reach.l2), cost)
            return measure_numbers(curator, [sealed], noise=[noise], purpose=purpose)[0], float(STEPS)
        features = tuple(layout.feature(item) for item in dimensions)
        within = layout.partition if self.per_part else ()
        block = MomentBlock("products of scores", features, layout.pairs, within)
        fixed = curator.rows.fixed
        block, kind = moment_noise(block, curator.domain, unit, accounting, cost, rows_fixed=fixed)
        statistic = measure_numbers(curator, seal_moments(curator, [block]), noise=[kind], purpose=purpose)[0]
        return statistic, block.unit

    def _invert(
        self,
        layout: Layout,
        dimensions: list[Dimension],
        parts: Array,
        values: Array,
        statistic: Statistic,
        scale: float,
    ) -> Array:
        """Find the correlations that explain the statistics through the margins."""
        deviation = math.sqrt(statistic.variance) / scale
        found = np.zeros((len(values), len(layout.pairs)))
        for place, (i, j) in enumerate(layout.pairs):
            curves = np.stack(
                [
                    rows * expected_curve(dimensions[i], dimensions[j], part, statistic=self.correlation)
                    for part, rows in enumerate(parts)
                ]
            )
            wanted = curves if len(values) > 1 else curves.sum(axis=0, keepdims=True)
            for part, curve in enumerate(wanted):
                found[part, place] = correlation_from(curve, float(values[part, place]), deviation)
        return np.stack([matrix_of(len(dimensions), layout.pairs, row.tolist()) for row in found])
