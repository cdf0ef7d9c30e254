"""What DPCopula measures: the table of its partition, margins on grids, pairs of dimensions. Public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.curator import Feature, Noise
from understudy.marginals import Measurement, Statistic
from understudy.privacy import Accounting
from understudy.schema import Clique, Domain, Schema
from understudy.synthesizers.parametric._latent import Dimension
from understudy.synthesizers.parametric._margins import (
    Ladder,
    combined_total,
    ladder_of,
    noise_variance,
    proportions_of,
    refine,
)

Array = npt.NDArray[np.float64]


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
        return self.schema.domain

    @property
    def inside(self) -> tuple[str, ...]:
        """The columns of the copula."""
        return tuple(name for name in self.domain.names if name not in self.partition)

    @property
    def parts(self) -> int:
        return self.domain.cells(self.partition) if self.partition else 1

    @property
    def cells(self) -> int:
        return self.parts * (1 + sum(self.domain.size(name) for name in self.inside))

    @property
    def ladders(self) -> tuple[Ladder, ...]:
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
