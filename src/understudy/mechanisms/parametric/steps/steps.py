"""STEPS: the table is divided by one important column after another, and drawn part by part (Bowen, Liu and Su)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.engine import ProductMixture
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer, total_deviation
from understudy.mechanisms.options import at_least, between, refuse, unused
from understudy.mechanisms.parametric.margins import (
    ORDERED,
    Ladder,
    combined_total,
    ladder_of,
    noise_variance,
    proportions_of,
    refine,
)
from understudy.mechanisms.parametric.steps.look import Subsets, elect, election_epsilon, seal_subset_counts
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Column, Schema

# ----------------------------------------------------------------------------------------
# Parts of STEPS: groups of codes to divide by, counts in subsets, margins that keep to their subset.

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shares:
    """Shares of the budget: each histogram, the elections and the sizes of each layer, all margins."""

    histograms: list[float]
    elections: list[float]
    sizes: list[float]
    margins: float


def coarse_groups(column: Column, most: int, weights: Array | None = None) -> Labels:
    """Group the codes of a column for a division; a single group if it cannot be divided into at most so many.

    Extra codes are groups of their own. The values of an ordered column are divided into runs of about equal weight.

    Examples
    --------
    >>> from understudy.schema import Integer
    >>> coarse_groups(Integer("i", minimum=0, maximum=7, missing=True), 4).tolist()
    [0, 0, 0, 1, 1, 1, 2, 2, 3]
    """
    values, extra = column.value_count, column.size - column.value_count
    room = most - extra
    if room < 1 or (column.kind not in ORDERED and values > room):
        return np.zeros(column.size, dtype=np.int64)
    number = min(values, room)
    inside = np.arange(values, dtype=np.int64) * number // values
    if weights is not None and number < values:
        share = proportions_of(np.asarray(weights[:values], dtype=np.float64))
        middle = np.cumsum(share) - share / 2
        found = np.minimum((middle * number).astype(np.int64), number - 1)
        if found[-1] > found[0]:
            inside = np.unique(found, return_inverse=True)[1].astype(np.int64)
    return np.concatenate([inside, inside[-1] + 1 + np.arange(extra)])


def all_groups(schema: Schema, branches: int) -> dict[str, Labels]:
    """Groups of every column, so that a single column that can divide has others to depend on."""
    made = {}
    for column in schema.columns:
        labels = coarse_groups(column, branches)
        made[column.name] = labels if labels.max() > 0 else np.arange(column.size)
    return made


def released_counts(
    curator: Curator, subsets: Subsets, wanted: list[dict[str, Labels]], noise: list[Noise], what: str
) -> tuple[list[Measurement], list[Statistic]]:
    """Measure counts in the subsets and keep them as statistics of the model."""
    sealed = seal_subset_counts(curator, subsets, wanted)
    released = curator.measure_many(
        sealed, noise=noise, purpose=f"measure {what} in {subsets.number} subsets"
    )
    statistics = [
        Statistic(
            f"{', '.join(item.clique[1:]) or 'rows'} in {subsets.number} subsets",
            item.values,
            item.noise,
            item.scale,
        )
        for item in released
    ]
    return released, statistics


def inside(margins: Array, subsets: Subsets, column: str) -> Array:
    """Keep only codes that a subset allows; equal shares where nothing is left."""
    made = margins.copy()
    for leaf in range(len(made)):
        allowed = subsets.path(leaf).get(column)
        if allowed is not None:
            made[leaf] = np.where(allowed, made[leaf], 0.0)
            if not made[leaf].sum() > 0:
                made[leaf] = allowed / allowed.sum()
    return made


MAX_CELLS = 20_000_000


@dataclass(frozen=True, kw_only=True)
class STEPS(Synthesizer):
    """Divide the table by its most important columns, layer by layer; draw the columns independently in each part.

    Parameters
    ----------
    order
        Columns by practical importance, the most important first: each layer divides by the next one. By default
        importance is statistical: in every subset an election finds the column on which the others depend most.
    layers
        Most layers of divisions.
    branches
        Most groups that a subset is divided into. Ordered columns with more codes are divided into groups of neighbouring
        values that are about equally large, by histograms measured first; unordered ones cannot divide.
    min_rows
        Subsets with fewer noisy rows are not divided; by default as many as make the margins of the parts stand
        out from their noise.
    election_share
        Share of the budget for elections, divided equally among the layers.
    histogram_share
        Share of the budget for the histograms that ordered columns with many codes are divided by.
    size_share
        Share of the budget for the sizes of subsets, which decide where divisions stop.

    Privacy
    -------
    Every layer is a partition of all possible records that depends on public facts and on earlier releases. (1) Elections of a
    layer concern disjoint subsets: one ``Parallel`` event of exponential mechanisms, whose scores (rows that independence
    gets wrong) change by at most 2 (add-remove) or 4 (replace-one) times the rows per unit. (2) Histograms of ordered columns
    with many codes, and the sizes of the subsets of each layer: one histogram each. (3) The margin of each column in all
    final subsets, on one to four grids: one histogram per grid. Costs add up to at most the budget; with ``order`` there are
    no elections. Laplace noise under pure accounting, Gaussian noise otherwise. What is not used goes to (3).

    Examples
    --------
    >>> STEPS(order=("age", "sex"), layers=2).name
    'steps'
    """

    name: ClassVar[str] = "steps"
    summary: ClassVar[str] = (
        "the table divided by elected columns, layer by layer; columns independent in each part"
    )
    source: ClassVar[Source] = Source(
        law="exponential mechanism for elections; Laplace or Gaussian on histograms",
        papers={Paper.DIPS: "section 3.2.3"},
        origin="Bowen, Liu and Su 2018",
    )

    order: tuple[str, ...] | None = None
    layers: int = 3
    branches: int = 4
    min_rows: float | None = None
    election_share: float = 0.2
    histogram_share: float = 0.1
    size_share: float = 0.1

    def __post_init__(self) -> None:
        refuse(
            between(self, 0, 10, "layers"),
            between(self, 2, 100, "branches"),
            at_least(self, 0, "min_rows", optional=True),
            [] if self.order is None else unused(self, "election_share", because="the order is given"),
        )
        if self.order is not None:
            if isinstance(self.order, str) or len(set(self.order)) != len(tuple(self.order)):
                raise BudgetError("order must be a list of different column names.")
            object.__setattr__(self, "order", tuple(self.order))
        for option in ("election_share", "histogram_share", "size_share"):
            if not 0 < getattr(self, option) < 0.3:
                raise BudgetError(f"{option} ({getattr(self, option)}) must lie between 0 and 0.3.")

    # ------------------------------------------------------------------ before

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the noise of the coarsest margins of all columns."""
        groups = self._groups(schema)
        layers = self._layer_count(schema, groups)
        shares = self._shares(accounting, cost, layers, self._wide(schema, groups))
        each = accounting.split(shares.margins, [1.0] * len(schema.names))[0]
        return total_deviation(
            (
                int(steps[0].max()) + 1,
                noise_for(accounting, unit, accounting.split(each, [1.0] * len(steps))[0]),
            )
            for steps in (ladder_of(column).steps for column in schema.columns)
        )

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many parts there may be and how noisy their margins will be, or refuse with a reason."""
        accounting = self.accounting(budget, schema, unit)
        groups = self._groups(schema)
        layers = self._layer_count(schema, groups)
        subsets = self._most_subsets(groups, layers)
        cells = subsets * (1 + sum(schema.domain.sizes))
        if cells > MAX_CELLS:
            raise DomainTooLarge(
                f"Up to {subsets:,} subsets would have margins with {cells:,} cells; steps holds at most {MAX_CELLS:,}. Use "
                "fewer layers or branches, or coarser bins.",
                cells=cells,
                allowed=MAX_CELLS,
            )
        shares = self._shares(accounting, accounting.total(budget), layers, self._wide(schema, groups))
        threshold = self._threshold(schema, unit, accounting, shares.margins)
        chosen = "the given order" if self.order is not None else "elections"
        notes = (
            f"Up to {layers} layers of divisions by {chosen}, {subsets:,} subsets at most.",
            f"Subsets with fewer than about {threshold:,.0f} rows are not divided.",
        )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(),
            model_cells=cells,
            notes=notes,
        )

    def _groups(self, schema: Schema) -> dict[str, Labels]:
        """Return the groups of codes of each column that can divide; others are left out."""
        made = {}
        for column in schema.columns:
            labels = coarse_groups(column, self.branches)
            if labels.max() > 0:
                made[column.name] = labels
        if self.order is not None:
            unknown = [name for name in self.order if name not in schema.names]
            if unknown:
                raise BudgetError(f"order names columns that are not in the schema: {', '.join(unknown)}.")
            cannot = [name for name in self.order if name not in made]
            if cannot:
                raise BudgetError(
                    f"These columns cannot divide a table into 2 to {self.branches} groups: {', '.join(cannot)}."
                )
        return made

    def _layer_count(self, schema: Schema, groups: Mapping[str, Labels]) -> int:
        """How many layers there can be; a division by the last column left would tell nothing."""
        if self.order is not None:
            return min(self.layers, len(self.order))
        return min(self.layers, len(groups)) if len(schema.names) > 1 else 0

    def _most_subsets(self, groups: Mapping[str, Labels], layers: int) -> int:
        """Most subsets that the divisions can lead to."""
        names = groups if self.order is None else self.order[:layers]
        sizes = sorted((int(groups[name].max()) + 1 for name in names), reverse=True)
        return math.prod(sizes[:layers])

    def _wide(self, schema: Schema, groups: Mapping[str, Labels]) -> list[Ladder]:
        """Return the columns whose groups need a histogram, on the coarse grids of their ladders."""
        names = groups if self.order is None else self.order[: self.layers]
        wide = []
        for name in schema.names:
            column = schema.column(name)
            if name in names and int(groups[name].max()) + 1 < column.size:
                steps = ladder_of(column).steps
                wide.append(Ladder(name, steps[:2]))
        return wide

    def _shares(self, accounting: Accounting, total: float, layers: int, wide: list[Ladder]) -> Shares:
        """Divide the budget among histograms, elections, sizes and margins."""
        if not layers:
            return Shares([], [], [], total)
        elections = 0.0 if self.order is not None else self.election_share
        looks = sum(len(ladder.steps) for ladder in wide)
        histograms = self.histogram_share if looks else 0.0
        weights = [histograms / looks] * looks if looks else []
        weights += [elections / layers] * layers if elections else []
        weights += [self.size_share / layers] * layers
        costs = accounting.split(total, [*weights, 1.0 - elections - self.size_share - histograms])
        last = looks + (layers if elections else 0)
        return Shares(list(costs[:looks]), list(costs[looks:last]), list(costs[last:-1]), costs[-1])

    def _by_size(
        self, curator: Curator, groups: dict[str, Labels], wide: list[Ladder], costs: list[float]
    ) -> tuple[dict[str, Labels], list[Statistic]]:
        """Measure histograms and return groups of about equally many rows."""
        if not wide:
            return groups, []
        noise = [noise_for(curator.accounting, curator.unit, cost) for cost in costs]
        wanted = [{ladder.column: step} for ladder in wide for step in ladder.steps]
        released, statistics = released_counts(curator, Subsets(), wanted, noise, "histograms")
        made, place = dict(groups), 0
        for ladder in wide:
            steps = slice(place, place + len(ladder.steps))
            place = steps.stop
            tables = [item.values for item in released[steps]]
            variances = [noise_variance(kind) for kind in noise[steps]]
            rows = max(1.0, float(tables[0].sum()))
            finest = refine(ladder, tables, variances, [rows])[0]
            made[ladder.column] = coarse_groups(
                curator.schema.column(ladder.column), self.branches, finest[ladder.steps[-1]]
            )
        return made, statistics

    def _threshold(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return how many rows a subset must have to be divided.

        Its parts should hold, on average over the columns, as many rows as the coarsest grid of a margin carries noise.
        """
        if self.min_rows is not None:
            return self.min_rows
        shares = accounting.split(cost, [1.0] * len(schema.names))
        needed = []
        for column, share in zip(schema.columns, shares, strict=True):
            steps = ladder_of(column).steps
            noise = noise_for(accounting, unit, accounting.split(share, [1.0] * len(steps))[0])
            needed.append(noise.scale * (int(steps[0].max()) + 1))
        return self.branches * math.fsum(needed) / len(needed)

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        schema, accounting, unit = curator.schema, curator.accounting, curator.unit
        groups = self._groups(schema)
        layers = self._layer_count(schema, groups)
        wide = self._wide(schema, groups)
        shares = self._shares(accounting, curator.remaining, layers, wide)
        threshold = self._threshold(schema, unit, accounting, shares.margins)
        groups, statistics = self._by_size(curator, groups, wide if layers else [], shares.histograms)
        subsets = Subsets()
        for layer in range(layers):
            progress("dividing", 0.6 * layer / layers)
            sizes = released_counts(
                curator, subsets, [{}], [noise_for(accounting, unit, shares.sizes[layer])], "sizes"
            )
            statistics += sizes[1]
            large = np.flatnonzero(sizes[0][0].values.ravel() >= threshold).tolist()
            candidates = {leaf: self._candidates(subsets, leaf, groups, layer) for leaf in large}
            candidates = {leaf: names for leaf, names in candidates.items() if names}
            if not candidates:
                break
            if self.order is None:
                chosen = elect(
                    curator,
                    subsets,
                    candidates,
                    groups if len(groups) > 1 else all_groups(schema, self.branches),
                    epsilon=election_epsilon(accounting, unit, shares.elections[layer]),
                    purpose=f"elect columns in {len(candidates)} subsets",
                )
            else:
                chosen = {leaf: names[0] for leaf, names in candidates.items()}
            subsets = subsets.divided({leaf: (name, groups[name]) for leaf, name in chosen.items()})
        progress("margins", 0.6)
        distribution, more = self._margins(curator, subsets)
        progress("done", 1.0)
        return Fitted(distribution, (), statistics=[*statistics, *more])

    def _candidates(self, subsets: Subsets, leaf: int, groups: Mapping[str, Labels], layer: int) -> list[str]:
        """Columns that may divide a subset: those that have not done so on the way to it."""
        used = subsets.path(leaf)
        if self.order is not None:
            return [self.order[layer]]
        return [name for name in groups if name not in used]

    def _margins(self, curator: Curator, subsets: Subsets) -> tuple[ProductMixture, list[Statistic]]:
        """Spend what is left on the margins of all columns in all subsets."""
        schema, accounting, unit = curator.schema, curator.accounting, curator.unit
        ladders = [ladder_of(column) for column in schema.columns]
        weights = [1.0 / len(ladder.steps) for ladder in ladders for _ in ladder.steps]
        noise = [noise_for(accounting, unit, cost) for cost in curator.split(weights)]
        wanted = [{ladder.column: step} for ladder in ladders for step in ladder.steps]
        released, statistics = released_counts(curator, subsets, wanted, noise, "margins")
        variances = [noise_variance(kind) for kind in noise]
        tables = [item.values for item in released]
        sums = [
            (table.sum(axis=1), variance * table.shape[1])
            for table, variance in zip(tables, variances, strict=True)
        ]
        weight = math.fsum(1.0 / variance for _, variance in sums)
        sizes = sum((values / variance for values, variance in sums), np.zeros(subsets.number)) / weight
        known = curator.rows.number
        total = (
            float(max(1, known))
            if known is not None
            else combined_total(
                [(float(values.sum()), variance * subsets.number) for values, variance in sums]
            )
        )
        parts = refine(
            Ladder("subsets", (np.arange(subsets.number),)), [sizes[None]], [1.0 / weight], [total]
        )[0]
        margins, place = {}, 0
        for ladder in ladders:
            steps = slice(place, place + len(ladder.steps))
            place = steps.stop
            made = proportions_of(refine(ladder, tables[steps], variances[steps], parts))
            margins[ladder.column] = inside(made, subsets, ladder.column)
        return ProductMixture(schema.domain, parts, margins), statistics
