"""A distribution held cell by cell: for domains small enough to enumerate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
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
