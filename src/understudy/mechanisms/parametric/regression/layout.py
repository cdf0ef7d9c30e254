"""What sequential regression measures: the model of each column, predictors, moments. Public facts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from understudy.errors import BudgetError
from understudy.mechanisms.parametric.features import ONE, Feature
from understudy.mechanisms.parametric.look import MomentBlock
from understudy.mechanisms.parametric.margins import ORDERED, proportions_of
from understudy.mechanisms.parametric.regression.look import Softmax
from understudy.schema import Column, Schema

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Role = Literal["histogram", "classes", "line"]

WIDEST = 3.0
"""Normal scores are cut here, and divided by it."""
COARSE = 4
"""Groups of a column with many values when it divides a histogram."""


@dataclass(frozen=True, eq=False)
class RegressionLayout:
    """The order of the columns and how each is modelled.

    Attributes
    ----------
    schema
        The columns.
    order
        All of them, in the order of drawing.
    histograms
        Columns that are modelled by histograms, whatever their kind.
    max_classes
        Most codes of a column that is modelled by classes.
    max_cells
        Most combinations of earlier columns that a histogram is divided by.
    by_moments
        Whether classes are fitted to moments; otherwise each by objective perturbation.
    ranked
        Whether numbers are seen by the normal scores of their ranks, for which their histograms are measured.
    scores
        These scores, once the histograms are known.
    """

    schema: Schema
    order: tuple[str, ...]
    histograms: frozenset[str]
    max_classes: int
    max_cells: int
    by_moments: bool
    ranked: bool
    scores: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if sorted(self.order) != sorted(self.schema.names):
            raise BudgetError("order must name every column once.")
        unknown = self.histograms - set(self.schema.names)
        if unknown:
            raise BudgetError(
                f"histograms names columns that are not in the schema: {', '.join(sorted(unknown))}."
            )

    def role(self, name: str) -> Role:
        """Say how a column is modelled."""
        column = self.schema.column(name)
        if name == self.order[0] or name in self.histograms or column.size == 1:
            return "histogram"
        if self.is_number(column):
            return "line"
        return "classes" if column.size <= self.max_classes else "histogram"

    def is_number(self, column: Column) -> bool:
        """Whether a column is a number to regressions: ordered, with more values than classes are made of."""
        return column.kind in ORDERED and column.value_count > max(1, self.max_classes)

    def positions(self, name: str) -> Array:
        """Where the ordinary codes of a number lie between -1 and 1."""
        if name in self.scores:
            return self.scores[name]
        column = self.schema.column(name)
        middles = np.asarray(getattr(column, "midpoints", np.arange(column.value_count)), dtype=np.float64)
        low, high = float(middles[0]), float(middles[-1])
        half = high / 2 - low / 2
        if not half > 0:
            return np.linspace(-1.0, 1.0, column.value_count)
        return np.asarray(np.clip((middles - (low / 2 + high / 2)) / half, -1.0, 1.0))

    @cached_property
    def features(self) -> dict[str, Array]:
        """The numbers that regressions read from each column, of shape (codes, numbers).

        A number gives its position, zero for extra codes, and an indicator of each extra code. A column with few
        codes gives an indicator of each but the first. A column with many codes and no order gives nothing.
        """
        made = {}
        for column in self.schema.columns:
            if self.is_number(column):
                extra = column.size - column.value_count
                table = np.zeros((column.size, 1 + extra))
                table[: column.value_count, 0] = self.positions(column.name)
                table[column.value_count :, 1:] = np.eye(extra)
            elif column.size <= self.max_classes:
                table = np.eye(column.size)[:, 1:]
            else:
                table = np.zeros((column.size, 0))
            made[column.name] = table
        return made

    def with_ranks(self, shares: Mapping[str, Array]) -> RegressionLayout:
        """Return the layout with positions from released histograms: normal scores of middle ranks, cut at 3."""
        if not self.ranked:
            return self
        scores = {}
        for column in self.schema.columns:
            if self.is_number(column) and column.name not in self.divided:
                inside = proportions_of(shares[column.name][0, : column.value_count])
                middle = np.clip(np.cumsum(inside) - inside / 2, 1e-6, 1 - 1e-6)
                scores[column.name] = np.clip(ndtri(middle) / WIDEST, -1.0, 1.0)
        return replace(self, scores=scores)

    @property
    def divided(self) -> frozenset[str]:
        """Columns whose histograms are divided by earlier columns, so that they have no single one."""
        return frozenset(name for name in self.tables if self.given(name))

    def before(self, name: str) -> tuple[str, ...]:
        """The columns drawn before one."""
        return self.order[: self.order.index(name)]

    # ------------------------------------------------------------------ looks

    @property
    def tables(self) -> tuple[str, ...]:
        """Columns whose histograms are measured."""
        return tuple(
            name
            for name in self.order
            if self.role(name) == "histogram" or (self.ranked and self.role(name) == "line")
        )

    def given(self, name: str) -> tuple[tuple[str, Labels], ...]:
        """Earlier columns that divide a histogram, nearest first as long as there are few enough combinations."""
        if self.role(name) != "histogram":
            return ()
        chosen: list[tuple[str, Labels]] = []
        cells = 1
        for other in reversed(self.before(name)):
            column = self.schema.column(other)
            values = np.arange(column.value_count, dtype=np.int64)
            if column.kind in ORDERED and column.value_count > COARSE:
                values = values * COARSE // column.value_count
            extra = values[-1] + 1 + np.arange(column.size - column.value_count)
            labels = np.concatenate([values, extra]).astype(np.int64)
            groups = int(labels[-1]) + 1
            if groups > 1 and cells * groups <= self.max_cells:
                chosen.append((other, labels))
                cells *= groups
        return tuple(chosen[::-1])

    @property
    def regressions(self) -> tuple[Softmax, ...]:
        """The regressions of classes: of columns with few codes, and of whether a number is there."""
        found = []
        for name in self.order:
            column, role = self.schema.column(name), self.role(name)
            if role == "classes":
                classes = np.arange(column.size)
            elif role == "line" and column.size > column.value_count:
                classes = np.maximum(np.arange(column.size) - column.value_count + 1, 0)
            else:
                continue
            predictors = tuple((other, self.features[other]) for other in self.before(name))
            found.append(Softmax(name, classes, tuple(item for item in predictors if item[1].shape[1])))
        return tuple(found)

    @cached_property
    def block(self) -> MomentBlock | None:
        """All products of predictors and targets that the regressions need; ``None`` where they need none."""
        lines = [name for name in self.order if self.role(name) == "line"]
        targets = [*lines, *(item.target for item in self.regressions if self.by_moments)]
        if not targets:
            return None
        last = max(self.order.index(name) for name in targets)
        return MomentBlock.second("moments of the regressions", self.block_features(self.order[: last + 1]))

    def block_features(self, names: tuple[str, ...]) -> list[Feature]:
        """The constant and the features of some columns, in the order of drawing."""
        made = [ONE]
        for name in names:
            for place, values in enumerate(self.features[name].T):
                made.append(Feature(f"{name} {place}", (name,), values))
        return made

    def places(self, name: str) -> tuple[slice, slice]:
        """Where the predictors of a column, and its own features, stand among the features of the block."""
        start = 1 + sum(self.features[other].shape[1] for other in self.before(name))
        return slice(0, start), slice(start, start + self.features[name].shape[1])

    @property
    def weights(self) -> tuple[list[float], list[float], float]:
        """Shares of the budget: each histogram, each regression by objective perturbation, all moments."""
        lines = sum(self.role(name) == "line" for name in self.order)
        tables = [1.0] * len(self.tables)
        if self.by_moments:
            return tables, [], float(lines + len(self.regressions)) if self.block is not None else 0.0
        return tables, [1.0] * len(self.regressions), float(lines)

    @property
    def cells(self) -> int:
        """Numbers that the model will hold."""
        total = 0
        for name in self.order:
            width = self.places(name)[0].stop
            size = self.schema.column(name).size
            role = self.role(name)
            if role == "histogram":
                total += size * math.prod(int(labels[-1]) + 1 for _, labels in self.given(name))
            else:
                total += width * (size if role == "classes" else 2)
        return total
