"""Tables with categories and continuous numbers: which cell and which number each code stands for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from understudy.schema import Clique, Domain

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
