"""Counting queries: how many records satisfy a predicate over some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.schema import Clique, Domain

__all__ = ["Predicate", "box", "halfspace", "prefix", "random_boxes"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Predicate:
    """A yes-or-no question about a record: the cells of some columns that count.

    Attributes
    ----------
    clique
        The columns, in the order of the domain.
    cells
        One truth value per combination of their codes.

    Examples
    --------
    >>> domain = Domain(("age", "sex"), (3, 2))
    >>> young = Predicate(("age",), np.array([True, False, False]))
    >>> int(young.count(np.array([5, 2, 1])))
    5
    """

    clique: Clique
    cells: Bools

    def __post_init__(self) -> None:
        cells = np.array(self.cells, dtype=np.bool_)
        if cells.ndim != len(self.clique) or not self.clique:
            raise WorkloadError("A predicate needs columns, and one axis of cells per column.")
        cells.flags.writeable = False
        object.__setattr__(self, "cells", cells)

    def check(self, domain: Domain) -> None:
        """Refuse a predicate that does not speak of this domain."""
        if domain.canonical(self.clique) != self.clique or domain.shape(self.clique) != self.cells.shape:
            raise WorkloadError(
                f"A predicate over {', '.join(self.clique)} does not fit the columns of the table."
            )

    def count(self, counts: npt.ArrayLike) -> float:
        """Return the sum of counts over its cells."""
        return float(np.asarray(counts)[self.cells].sum())


def box(domain: Domain, sides: Mapping[str, Sequence[int] | Bools]) -> Predicate:
    """Return the predicate that every named column takes one of the given codes (or is true in a mask).

    Examples
    --------
    >>> box(Domain(("a", "b"), (3, 2)), {"a": [0, 1], "b": [1]}).cells.sum()
    np.int64(2)
    """
    clique = domain.canonical(sides)
    cells = np.ones((), dtype=np.bool_)
    for name in clique:
        given = np.asarray(sides[name])
        mask = given if given.dtype == np.bool_ else np.isin(np.arange(domain.size(name)), given)
        cells = np.logical_and.outer(cells, mask)
    return Predicate(clique, cells)


def prefix(domain: Domain, column: str, last: int) -> Predicate:
    """Return the predicate that an ordered column is at most a code."""
    return box(domain, {column: np.arange(domain.size(column)) <= last})


def halfspace(domain: Domain, weights: Mapping[str, float], threshold: float) -> Predicate:
    """Return the predicate that a weighted sum of codes is at least a threshold."""
    clique = domain.canonical(weights)
    total = np.zeros(())
    for name in clique:
        total = np.add.outer(total, weights[name] * np.arange(domain.size(name)))
    return Predicate(clique, total >= threshold)


def random_boxes(
    domain: Domain, number: int, *, order: int, generator: np.random.Generator
) -> list[Predicate]:
    """Draw boxes over random sets of columns: for each column a random run of its codes, never all of them.

    Parameters
    ----------
    order
        How many columns a box speaks of, as far as there are so many.
    generator
        Public randomness: which questions are asked does not depend on the records.
    """
    found = []
    for _ in range(number):
        names = generator.choice(len(domain), size=min(order, len(domain)), replace=False)
        sides: dict[str, Bools] = {}
        for index in sorted(int(i) for i in names):
            size = domain.sizes[index]
            mask = np.zeros(size, dtype=np.bool_)
            length = int(generator.integers(1, max(2, size)))
            start = int(generator.integers(0, size - length + 1))
            mask[start : start + length] = True
            sides[domain.names[index]] = mask
        found.append(box(domain, sides))
    return found
