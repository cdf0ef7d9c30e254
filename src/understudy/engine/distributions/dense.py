"""A distribution held cell by cell: for domains small enough to enumerate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import ModelFileError, WorkloadError
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]


def systematic_counts(weights: Array, n: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Round ``n`` times the normalised weights to integers that add up to ``n``.

    Each cell gets the floor or the ceiling of its expectation, with the right probability: cells
    are laid on a line by weight, and ``n`` equally spaced points with one random offset are counted.
    The order of the cells is shuffled first, so that neighbouring cells are not tied together.

    Examples
    --------
    >>> systematic_counts(np.array([0.5, 0.25, 0.25]), 8, np.random.default_rng(0))
    array([4, 2, 2])
    """
    total = float(weights.sum())
    if n == 0 or not total > 0:
        return np.zeros(len(weights), dtype=np.int64)
    expected = weights * (n / total)
    counts = np.floor(expected).astype(np.int64)
    left = n - int(counts.sum())
    if left > 0:
        fraction = expected - counts
        order = generator.permutation(np.flatnonzero(fraction > 0))
        line = np.cumsum(fraction[order])
        if len(order) and line[-1] > 0:
            points = (generator.random() + np.arange(left)) * (line[-1] / left)
            hit = np.minimum(np.searchsorted(line, points, side="right"), len(order) - 1)
            np.add.at(counts, order[hit], 1)
        else:  # every expectation is whole; rounding lost a unit
            counts[int(np.argmax(weights))] += left
    return counts


@dataclass(frozen=True, eq=False)
class DenseTable:
    """Non-negative expected counts for every cell of the domain."""

    domain: Domain
    cells: Array
    kind: str = "dense"

    def __post_init__(self) -> None:
        cells = np.array(self.cells, dtype=np.float64)
        if cells.shape != self.domain.sizes:
            raise WorkloadError(f"The cells must have shape {self.domain.sizes}, not {cells.shape}.")
        if not np.isfinite(cells).all() or (cells < 0).any():
            raise WorkloadError("The cells of a distribution must be finite and not negative.")
        cells.flags.writeable = False
        object.__setattr__(self, "cells", cells)

    @property
    def total(self) -> float:
        """Expected number of rows."""
        return float(self.cells.sum())

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return expected counts over each clique by summing out the other columns."""
        answers = []
        for clique in cliques:
            keep = {self.domain.index(name) for name in clique}
            answers.append(self.cells.sum(axis=tuple(i for i in range(len(self.domain)) if i not in keep)))
        return answers

    def sample_codes(self, n: int, generator: np.random.Generator) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Draw records by systematic rounding of the cells, in random order.

        A table whose cells are all zero knows nothing about the records: it is sampled uniformly.
        """
        flat = self.cells.ravel()
        counts = systematic_counts(flat if flat.any() else np.ones(flat.size), n, generator)
        occupied = np.flatnonzero(counts)
        which = np.repeat(occupied, counts[occupied])
        generator.shuffle(which)
        codes = np.unravel_index(which, self.domain.sizes)
        dtype = np.min_scalar_type(max(self.domain.sizes) - 1)
        return np.stack([np.asarray(code, dtype=dtype) for code in codes], axis=1)

    def restricted(self, columns: Clique, allowed: npt.NDArray[np.bool_]) -> DenseTable:
        """Return the table with the cells whose codes in some columns are not allowed set to zero."""
        shape = [
            size if name in columns else 1
            for name, size in zip(self.domain.names, self.domain.sizes, strict=True)
        ]
        return DenseTable(self.domain, self.cells * allowed.reshape(shape))

    def sample_given(
        self, columns: Clique, codes: npt.NDArray[np.integer[Any]], generator: np.random.Generator
    ) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]]:
        """Draw one record for each row of codes of some columns, and say which rows can occur."""
        given = [self.domain.index(name) for name in columns]
        rest = [index for index in range(len(self.domain)) if index not in given]
        rows = int(np.prod([self.domain.sizes[index] for index in given], dtype=np.int64))
        table = self.cells.transpose([*given, *rest]).reshape(rows, -1)
        group = np.zeros(len(codes), dtype=np.int64)
        for place, index in enumerate(given):
            group = group * self.domain.sizes[index] + codes[:, place]
        line = np.cumsum(table, axis=1)[group]
        point = generator.random(len(codes)) * line[:, -1]
        cell = np.minimum((line <= point[:, None]).sum(axis=1), table.shape[1] - 1)
        made = np.empty((len(codes), len(self.domain)), dtype=np.min_scalar_type(max(self.domain.sizes) - 1))
        made[:, given] = codes
        for index, values in zip(
            rest, np.unravel_index(cell, [self.domain.sizes[index] for index in rest] or (1,)), strict=False
        ):
            made[:, index] = values
        return made, np.asarray(line[:, -1] > 0)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        return {}, {"cells": self.cells}

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> DenseTable:
        """Rebuild from the description and arrays of a model file."""
        return cls(domain, arrays["cells"])


def project_to_simplex(values: Array, total: float) -> Array:
    """Return the non-negative array with the given sum that is closest to ``values`` (Euclidean).

    The solution subtracts one threshold from every cell and cuts at zero; the threshold is found from
    the sorted cells.

    Examples
    --------
    >>> project_to_simplex(np.array([3.0, 1.0, -2.0]), 3.0)
    array([2.5, 0.5, 0. ])
    """
    if total <= 0:
        return np.zeros_like(values, dtype=np.float64)
    flat = np.sort(np.asarray(values, dtype=np.float64).ravel())[::-1]
    excess = np.cumsum(flat) - total
    candidates = excess / np.arange(1, len(flat) + 1)
    last = int(np.flatnonzero(flat > candidates)[-1])
    result: Array = np.maximum(values - candidates[last], 0.0)
    return result


# ----------------------------------------------------------------------------------------
# A table over groups of adjacent codes: a histogram whose bins are coarser than the schema's.

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GroupedTable:
    """Expected counts of every combination of bins; inside a bin all codes are equally likely.

    Parameters
    ----------
    domain
        The columns with all their codes.
    labels
        For each column the bin of each code. Bins are numbered from zero and hold adjacent codes.
    cells
        Expected counts, one axis per column with as many entries as it has bins. Not negative.

    Examples
    --------
    >>> table = GroupedTable(Domain(("a",), (4,)), (np.array([0, 0, 0, 1]),), np.array([6.0, 1.0]))
    >>> table.marginals([("a",)])[0]
    array([2., 2., 2., 1.])
    >>> np.bincount(table.sample_codes(7, np.random.default_rng(0))[:, 0])
    array([2, 2, 2, 1])
    """

    domain: Domain
    labels: tuple[Labels, ...]
    cells: Array
    kind: str = "grouped-table"

    def __post_init__(self) -> None:
        labels = tuple(np.asarray(which, dtype=np.int64) for which in self.labels)
        for name, size, which in zip(self.domain.names, self.domain.sizes, labels, strict=True):
            steps = np.diff(which)
            if which.shape != (size,) or which[0] != 0 or (steps < 0).any() or (steps > 1).any():
                raise WorkloadError(f"The bins of {name!r} must be adjacent codes, numbered from zero.")
        cells = np.array(self.cells, dtype=np.float64)
        if cells.shape != tuple(int(which[-1]) + 1 for which in labels):
            raise WorkloadError("The cells must have one axis per column with one entry per bin.")
        if not np.isfinite(cells).all() or (cells < 0).any():
            raise WorkloadError("The cells of a distribution must be finite and not negative.")
        cells.flags.writeable = False
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "cells", cells)

    @property
    def total(self) -> float:
        """Expected number of rows."""
        return float(self.cells.sum())

    @cached_property
    def _widths(self) -> tuple[Labels, ...]:
        return tuple(np.bincount(which) for which in self.labels)

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return expected counts over each clique: sums of cells, divided evenly over their codes."""
        answers = []
        for clique in cliques:
            kept = [self.domain.index(name) for name in clique]
            answer = self.cells.sum(axis=tuple(i for i in range(self.cells.ndim) if i not in kept))
            answer = answer.transpose([sorted(kept).index(axis) for axis in kept])
            for place, axis in enumerate(kept):
                which = self.labels[axis]
                share = 1.0 / self._widths[axis][which]
                shape = [-1 if i == place else 1 for i in range(len(kept))]
                answer = answer.take(which, axis=place) * share.reshape(shape)
            answers.append(np.asarray(answer, dtype=np.float64))
        return answers

    def sample_codes(self, n: int, generator: np.random.Generator) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Draw records by systematic rounding of the cells, spread evenly over the codes of each bin.

        The records of a cell are placed one in each of as many equal slices of the bin as there are
        records, separately for every column. A table whose cells are all zero is sampled uniformly over codes.
        """
        flat = self.cells.ravel()
        if not flat.any():
            flat = np.ones(1)
            for widths in self._widths:
                flat = np.outer(flat, widths).ravel()
        counts = systematic_counts(flat.astype(np.float64), n, generator)
        occupied = np.flatnonzero(counts)
        cell = np.repeat(occupied, counts[occupied])
        many = counts[cell]
        start = np.repeat(np.cumsum(counts[occupied]) - counts[occupied], counts[occupied])
        dtype = np.min_scalar_type(max(self.domain.sizes) - 1)
        codes = np.empty((n, len(self.domain)), dtype=dtype)
        for axis, bins in enumerate(np.unravel_index(cell, self.cells.shape)):
            rank = np.empty(n, dtype=np.int64)
            rank[np.lexsort((generator.random(n), cell))] = np.arange(n)
            widths = self._widths[axis]
            first = np.cumsum(widths) - widths
            inside = (rank - start + generator.random(n)) / many * widths[bins]
            codes[:, axis] = first[bins] + np.minimum(inside.astype(np.int64), widths[bins] - 1)
        generator.shuffle(codes, axis=0)
        return codes

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        return {}, {"cells": self.cells, **{f"bins-{i}": which for i, which in enumerate(self.labels)}}

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> GroupedTable:
        """Rebuild from the description and arrays of a model file."""
        try:
            return cls(domain, tuple(arrays[f"bins-{i}"] for i in range(len(domain))), arrays["cells"])
        except (KeyError, ValueError, WorkloadError) as error:
            raise ModelFileError(f"The model file is incomplete or damaged: {error}.") from None
