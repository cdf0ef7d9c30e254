"""One multinomial per column, the columns independent of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from understudy.engine import Distribution, ProductModel
from understudy.engine.distributions.product import AveragedModel, Factor, Mixed, Number
from understudy.errors import WorkloadError
from understudy.marginals import Statistic
from understudy.mechanisms.parametric.features import Standard, standardised
from understudy.mechanisms.parametric.look import MomentBlock
from understudy.mechanisms.parametric.modips.location import LocationEvidence, LocationModel
from understudy.schema import Clique, Column, Domain, Schema

# ----------------------------------------------------------------------------------------
# What a parametric model is to `modips`: statistics to ask for, and a distribution learnt from their noisy values.

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Priors:
    """Prior weights; see `Modips` for what they mean."""

    alpha: float | None = None
    weight: float = 0.0
    variance: float = 0.05
    deviation: float = 5.0

    def cell(self, cells: int) -> float:
        """Return the prior weight of each of so many cells, in records."""
        return self.alpha if self.alpha is not None else min(0.5, 12.0 / cells)


@dataclass(frozen=True)
class Setting:
    """The public facts and options that a model is learnt with.

    Attributes
    ----------
    schema
        The schema of the table.
    continuous
        Columns that are taken as numbers.
    rows
        The number of records where it is known.
    rows_fixed
        Whether all neighbouring tables have equally many rows.
    aware, parameters, bounds
        How parameters are drawn and what happens beyond the ends of a column.
    """

    schema: Schema
    continuous: tuple[str, ...]
    rows: int | None
    rows_fixed: bool
    aware: bool = True
    parameters: Literal["draw", "mean"] = "draw"
    bounds: Literal["clip", "redraw"] = "clip"
    priors: Priors = field(default_factory=Priors)

    @property
    def domain(self) -> Domain:
        """The domain of the table."""
        return self.schema.domain

    @cached_property
    def standards(self) -> tuple[Standard, ...]:
        """The continuous columns on the scale from -1 to 1."""
        return tuple(standardised(self.schema.column(name)) for name in self.continuous)

    def mixed(self, *, presence_first: bool = False, order: Sequence[str] = ()) -> Mixed:
        """Divide the columns into factors and numbers."""
        presence, categories = [], []
        for name in (*order, *(name for name in self.domain.names if name not in order)):
            column = self.schema.column(name)
            if name not in self.continuous:
                categories.append(Factor(name, np.arange(column.size)))
            elif column.size > column.value_count:
                presence.append(Factor(name, presence_levels(column)))
        numbers = tuple(
            Number(standard.feature.name, edges_of(self.schema.column(standard.feature.name), standard))
            for standard in self.standards
        )
        if presence_first:
            return Mixed(self.domain, (*presence, *categories), numbers)
        factors = {factor.column: factor for factor in (*presence, *categories)}
        ordered = tuple(factors[name] for name in self.domain.names if name in factors)
        return Mixed(self.domain, ordered, numbers)


@dataclass(frozen=True, eq=False)
class AskCounts:
    """Ask for the counts of a clique, or of merged codes of it.

    ``share`` is the part of the budget, in proportion to those of the other questions.
    """

    clique: Clique
    share: float
    labels: Mapping[str, Ints] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class AskMoments:
    """Ask for sums of products; ``share`` as in `AskCounts`."""

    block: MomentBlock
    share: float


Ask = AskCounts | AskMoments


class ParametricModel(Protocol):
    """A model that `modips` can sanitise: it names its sufficient statistics and learns from noisy ones."""

    @property
    def name(self) -> str:
        """What users call it."""

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the statistics to release, from public facts alone, or refuse the table with a reason."""

    def cells(self, setting: Setting) -> int:
        """Return about how many numbers the fitted model holds."""

    def learn(
        self, setting: Setting, statistics: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return a distribution from the released statistics, in the order in which they were asked for.

        Counts come in records and moments in units of their features; noise scales likewise.
        """


def presence_levels(column: Column) -> Ints:
    """Return level 0 for every code with a number and one more level for each code without."""
    return np.maximum(np.arange(column.size) - column.value_count + 1, 0).astype(np.int64)


def edges_of(column: Column, standard: Standard) -> npt.NDArray[np.float64]:
    """Return where each bin of a column begins, but the first, on the scale from -1 to 1."""
    cells = column.cells  # type: ignore[attr-defined]
    starts = np.asarray(cells.low[1:], dtype=np.float64) - (0.5 if cells.whole else 0.0)
    return np.asarray((starts - standard.centre) / standard.half, dtype=np.float64)


def can_be_number(column: Column) -> bool:
    """Whether a column is one of numbers or dates with at least two bins."""
    return getattr(column, "midpoints", None) is not None and column.value_count >= 2


def subdomain(domain: Domain, names: Sequence[str]) -> Domain:
    """Return the domain of some columns."""
    kept = domain.canonical(names)
    return Domain(kept, domain.shape(kept))


# ----------------------------------------------------------------------------------------
# Model averaging: several models of one table, each with a share of the budget.


@dataclass(frozen=True)
class Averaging:
    """Several models with plausibility weights, known beforehand or from other data.

    Each model's statistics get a share of the budget in proportion to its weight.
    """

    models: tuple[ParametricModel, ...]
    weights: tuple[float, ...]
    name: str = "average"

    def __post_init__(self) -> None:
        if not self.models or len(self.models) != len(self.weights) or min(self.weights) <= 0:
            raise WorkloadError("Averaging needs models, and one positive weight for each.")

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the questions of all models."""
        asked: list[Ask] = []
        for model, weight in zip(self.models, self.weights, strict=True):
            own = model.ask(setting)
            whole = sum(question.share for question in own)
            asked += [replace(question, share=question.share * weight / whole) for question in own]
        return tuple(asked)

    def cells(self, setting: Setting) -> int:
        """Return the numbers that all models hold."""
        return sum(model.cells(setting) for model in self.models)

    def learn(
        self, setting: Setting, statistics: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the weighted models."""
        heard, made = list(statistics), []
        for model in self.models:
            own = len(model.ask(setting))
            made.append(model.learn(setting, heard[:own], generator))
            heard = heard[own:]
        total = sum(self.weights)
        return AveragedModel(setting.domain, tuple(made), tuple(w / total for w in self.weights))


@dataclass(frozen=True)
class Multinomial:
    """One multinomial with a Dirichlet prior for each column; the columns are independent."""

    name: str = "multinomial"

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the counts of every column."""
        return tuple(AskCounts((name,), 1.0) for name in setting.domain.names)

    def cells(self, setting: Setting) -> int:
        """Return the number of codes of all columns."""
        return sum(setting.domain.sizes)

    def learn(
        self, setting: Setting, statistics: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the product of the columns' distributions."""
        parts = []
        for name, counts in zip(setting.domain.names, statistics, strict=True):
            inside = subdomain(setting.domain, [name])
            mixed = Mixed(inside, (Factor(name, np.arange(inside.sizes[0])),), ())
            alpha = setting.priors.cell(inside.sizes[0])
            evidence = LocationEvidence(counts, setting.rows, alpha, None, setting.aware)
            parts.append(LocationModel.learn(mixed, evidence, generator, parameters=setting.parameters))
        # the columns tell the number of rows with different certainty: noise grows with the number of codes
        certainty = np.array([1.0 / (counts.variance * counts.values.size) for counts in statistics])
        sums = np.array([float(counts.values.sum()) for counts in statistics])
        guess = float((certainty * sums).sum() / certainty.sum())
        total = float(setting.rows) if setting.rows is not None else guess
        return ProductModel(setting.domain, tuple(parts), max(1.0, total))
