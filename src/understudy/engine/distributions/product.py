"""Distributions made of others: independent parts side by side, and several models of the same table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from understudy.engine.distributions.distribution import Distribution, distribution_from_arrays
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# Tables with categories and continuous numbers: which cell and which number each code stands for.

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Factor:
    """A column, or the question whether a number is there, as one axis of the table of cells.

    Parameters
    ----------
    column
        Its name.
    labels
        The level of each code. A categorical column has one level per code; a column of numbers has level 0
        for all numbers and one more for each code without a number.
    """

    column: str
    labels: Ints

    @cached_property
    def levels(self) -> int:
        """Number of levels."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True, eq=False)
class Number:
    """A column of numbers on the scale from -1 to 1.

    Parameters
    ----------
    column
        Its name.
    edges
        Where one code ends and the next begins: one fewer than there are codes of numbers.
    """

    column: str
    edges: Floats

    def codes(self, t: Floats) -> Ints:
        """Return the code of each number; numbers beyond the ends get the first or the last."""
        return np.asarray(np.searchsorted(self.edges, t, side="right"), dtype=np.int64)

    def shares(self, means: Floats, deviation: float) -> Floats:
        """Return the probability of each code for normal numbers, the tails counted to the end codes."""
        below = ndtr((self.edges - means[:, None]) / deviation)
        ends = np.zeros((len(means), 1))
        return np.diff(np.concatenate([ends, below, ends + 1.0], axis=1), axis=1)


@dataclass(frozen=True, eq=False)
class Mixed:
    """How the columns of a domain divide into factors and numbers. All of it public."""

    domain: Domain
    factors: tuple[Factor, ...]
    numbers: tuple[Number, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Levels of each factor."""
        return tuple(factor.levels for factor in self.factors)

    @cached_property
    def cells(self) -> int:
        """Number of combinations of levels."""
        return math.prod(self.shape)

    @cached_property
    def present(self) -> npt.NDArray[np.bool_]:
        """Which numbers are there in each cell, of shape (cells, numbers)."""
        there = np.ones((self.cells, len(self.numbers)), dtype=bool)
        levels = np.indices(self.shape or (1,)).reshape(max(1, len(self.shape)), -1)
        for axis, factor in enumerate(self.factors):
            for place, number in enumerate(self.numbers):
                if factor.column == number.column:
                    there[:, place] = levels[axis] == 0
        return there

    def assemble(self, cell: Ints, t: Floats) -> Codes:
        """Return encoded records from their cells and numbers."""
        return self.assemble_levels(np.unravel_index(cell, self.shape) if self.shape else (), t)

    def assemble_levels(self, levels: Sequence[npt.NDArray[np.integer[Any]]], t: Floats) -> Codes:
        """Return encoded records from the level of each factor and the numbers."""
        dtype = np.min_scalar_type(max(self.domain.sizes) - 1)
        made = np.zeros((len(t), len(self.domain)), dtype=np.int64)
        for place, number in enumerate(self.numbers):
            made[:, self.domain.index(number.column)] = number.codes(t[:, place])
        numeric = {number.column: len(number.edges) + 1 for number in self.numbers}
        for factor, level in zip(self.factors, levels, strict=True):
            column = self.domain.index(factor.column)
            if factor.column in numeric:
                made[:, column] = np.where(level > 0, numeric[factor.column] + level - 1, made[:, column])
            else:
                made[:, column] = level
        return made.astype(dtype)

    def marginal(self, clique: Clique, shares: Floats, means: Floats, covariance: Floats) -> Floats:
        """Return the probabilities of a clique with at most one number, exactly."""
        table = shares.reshape(self.shape or (1,))
        kept = [axis for axis, factor in enumerate(self.factors) if factor.column in clique]
        numeric = [place for place, number in enumerate(self.numbers) if number.column in clique]
        if not numeric:
            out = tuple(axis for axis in range(table.ndim) if axis not in kept)
            return self._ordered(clique, table.sum(axis=out) if self.shape else table.reshape(()), kept, None)
        number = self.numbers[numeric[0]]
        place = numeric[0]
        within = (
            number.shares(means[:, place], math.sqrt(covariance[place, place])) * self.present[:, [place]]
        )
        size = self.domain.size(number.column)
        full = np.zeros((self.cells, size))
        full[:, : within.shape[1]] = within * shares.ravel()[:, None]
        others = [axis for axis in kept if self.factors[axis].column != number.column]
        for axis, factor in enumerate(self.factors):
            if factor.column == number.column:
                level = np.unravel_index(np.arange(self.cells), self.shape)[axis]
                absent = level > 0
                full[absent, within.shape[1] + level[absent] - 1] += shares.ravel()[absent]
        stacked = full.reshape((*(self.shape or (1,)), size))
        out = tuple(axis for axis in range(stacked.ndim - 1) if axis not in others)
        return self._ordered(clique, stacked.sum(axis=out), others, number.column)

    def _ordered(self, clique: Clique, table: Floats, kept: Sequence[int], last: str | None) -> Floats:
        names = [self.factors[axis].column for axis in kept] + ([] if last is None else [last])
        return np.asarray(np.transpose(table, [names.index(name) for name in clique]), dtype=np.float64)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for index, factor in enumerate(self.factors):
            arrays[f"factor-{index}"] = factor.labels
        for index, number in enumerate(self.numbers):
            arrays[f"number-{index}"] = number.edges
        meta = {
            "factors": [factor.column for factor in self.factors],
            "numbers": [number.column for number in self.numbers],
        }
        return meta, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Mixed:
        """Rebuild from the description and arrays of a model file."""
        factors = tuple(Factor(name, arrays[f"factor-{i}"]) for i, name in enumerate(meta["factors"]))
        numbers = tuple(Number(name, arrays[f"number-{i}"]) for i, name in enumerate(meta["numbers"]))
        return cls(domain, factors, numbers)


def numbers_in(mixed: Mixed, clique: Clique) -> int:
    """Number of columns of a clique that hold numbers."""
    return sum(number.column in clique for number in mixed.numbers)


@dataclass(frozen=True, eq=False)
class ProductModel:
    """Parts over disjoint columns that know nothing of each other.

    Examples
    --------
    >>> from understudy.engine.distributions.dense import DenseTable
    >>> a, b = (DenseTable(Domain((name,), (2,)), np.array([3.0, 1.0])) for name in "ab")
    >>> ProductModel(Domain(("a", "b"), (2, 2)), (a, b), 8.0).marginals([("a", "b")])[0]
    array([[4.5, 1.5],
           [1.5, 0.5]])
    """

    domain: Domain
    parts: tuple[Distribution, ...]
    total: float
    kind: str = "parametric-product"

    def posterior(self, generator: np.random.Generator) -> ProductModel:
        """Return the model with the parameters of every part drawn anew."""
        return replace(self, parts=tuple(drawn_again(part, generator) for part in self.parts))

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return expected counts over each clique: products of those of the parts."""
        answers = []
        for clique in cliques:
            table = np.array(self.total)
            names: list[str] = []
            for part in self.parts:
                inside = tuple(name for name in clique if name in part.domain.names)
                if inside:
                    share = part.marginals([inside])[0] / part.total
                    table = np.multiply.outer(table, share)
                    names += inside
            answers.append(np.transpose(table, [names.index(name) for name in clique]))
        return answers

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw the parts of each record independently."""
        made = np.zeros((n, len(self.domain)), dtype=np.min_scalar_type(max(self.domain.sizes) - 1))
        for part in self.parts:
            drawn = part.sample_codes(n, generator)
            for place, name in enumerate(part.domain.names):
                made[:, self.domain.index(name)] = drawn[:, place]
        return made

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        meta, arrays = _pack(self.parts)
        return meta | {"total": self.total}, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> ProductModel:
        """Rebuild from the description and arrays of a model file."""
        return cls(domain, _unpack(domain, meta, arrays), float(meta["total"]))


@dataclass(frozen=True, eq=False)
class AveragedModel:
    """Several models of the same table with plausibility weights (paper DIPS, section 3.2.2).

    As a distribution it is their mixture. A draw of its parameters is a draw from one of them, chosen with its
    weight, so that sets made of such draws carry the uncertainty between models.
    """

    domain: Domain
    models: tuple[Distribution, ...]
    weights: tuple[float, ...]
    kind: str = "parametric-average"

    @property
    def total(self) -> float:
        """Expected number of records."""
        return float(sum(w * model.total for w, model in zip(self.weights, self.models, strict=True)))

    def posterior(self, generator: np.random.Generator) -> Distribution:
        """Choose a model with its weight and return it with parameters of a new draw."""
        which = int(generator.choice(len(self.models), p=np.array(self.weights) / sum(self.weights)))
        return drawn_again(self.models[which], generator)

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return the expected counts of the mixture."""
        answered = [model.marginals(cliques) for model in self.models]
        scales = [self.total * w / model.total for w, model in zip(self.weights, self.models, strict=True)]
        return [
            np.asarray(sum(x * table for x, table in zip(scales, tables, strict=True)), dtype=np.float64)
            for tables in zip(*answered, strict=True)
        ]

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records from the mixture, in random order."""
        share = generator.multinomial(n, np.array(self.weights) / sum(self.weights))
        drawn = [
            model.sample_codes(int(rows), generator) for model, rows in zip(self.models, share, strict=True)
        ]
        made: Codes = np.concatenate(drawn).astype(np.min_scalar_type(max(self.domain.sizes) - 1))
        return made[generator.permutation(n)]

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        meta, arrays = _pack(self.models)
        return meta | {"weights": list(self.weights)}, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> AveragedModel:
        """Rebuild from the description and arrays of a model file."""
        return cls(domain, _unpack(domain, meta, arrays), tuple(float(w) for w in meta["weights"]))


@dataclass(frozen=True, eq=False)
class DrawnTables:
    """One table of probabilities and a store of posterior draws of it, for models whose sampler is not in the file.

    ``draws`` has one table per draw; a new draw of the parameters is one of them, taken at random.
    """

    domain: Domain
    cells: Floats
    draws: Floats
    total: float
    kind: str = "parametric-draws"

    def posterior(self, generator: np.random.Generator) -> DrawnTables:
        """Return the model at one of the stored draws."""
        return replace(self, cells=self.draws[int(generator.integers(len(self.draws)))])

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return expected counts over each clique."""
        table = self.total * self.cells.reshape(self.domain.sizes)
        names = self.domain.names
        return [
            np.asarray(table.sum(axis=tuple(i for i, name in enumerate(names) if name not in clique)))
            for clique in cliques
        ]

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records, each independent of the others."""
        flat = self.cells.ravel()
        line = np.cumsum(flat)
        cell = np.minimum(np.searchsorted(line, generator.random(n) * line[-1], side="right"), len(flat) - 1)
        dtype = np.min_scalar_type(max(self.domain.sizes) - 1)
        made: Codes = np.stack(np.unravel_index(cell, self.domain.sizes), axis=1).astype(dtype)
        return made

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        return {"total": self.total}, {"cells": self.cells, "draws": self.draws}

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> DrawnTables:
        """Rebuild from the description and arrays of a model file."""
        return cls(domain, arrays["cells"], arrays["draws"], float(meta["total"]))


def drawn_again(distribution: Distribution, generator: np.random.Generator) -> Distribution:
    """Return a distribution with parameters of a new draw, if it can draw them."""
    posterior = getattr(distribution, "posterior", None)
    drawn: Distribution = distribution if posterior is None else posterior(generator)
    return drawn


def _pack(parts: Sequence[Distribution]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    described, arrays = [], {}
    for index, part in enumerate(parts):
        meta, own = part.to_arrays()
        described.append({"kind": part.kind, "columns": list(part.domain.names), "meta": meta})
        arrays.update({f"part-{index}-{name}": array for name, array in own.items()})
    return {"parts": described}, arrays


def _unpack(
    domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[Distribution, ...]:
    parts = []
    for index, answered in enumerate(meta["parts"]):
        prefix = f"part-{index}-"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        columns = tuple(answered["columns"])
        inside = Domain(columns, domain.shape(columns))
        parts.append(distribution_from_arrays(answered["kind"], inside, dict(answered["meta"]), own))
    return tuple(parts)
