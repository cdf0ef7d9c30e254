"""The order in which the engine lays out columns: narrow ones first.

Inside the engine a column is its rank by size, and a clique is a sorted tuple of ranks. Tables then
have their widest column last, next to each other in memory, which is what makes sums over them
fast. Names, and the order of the domain, exist only at the front door.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.factors import Array, Columns
from understudy.schema import Clique, Domain


@dataclass(frozen=True)
class ColumnOrder:
    """Translates between names in the order of a domain and the engine's ranks.

    Examples
    --------
    >>> order = ColumnOrder(Domain(("a", "b", "c"), (9, 2, 5)))
    >>> order.sizes
    (2, 5, 9)
    >>> order.columns(("a", "b"))
    (0, 2)
    >>> order.clique((0, 2))
    ('a', 'b')
    >>> order.inward(("a", "b"), np.ones((9, 2))).shape
    (2, 9)
    """

    domain: Domain

    @cached_property
    def ranked(self) -> tuple[int, ...]:
        """Positions in the domain, narrow columns first."""
        return tuple(sorted(range(len(self.domain)), key=lambda index: (self.domain.sizes[index], index)))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each rank."""
        return tuple(self.domain.sizes[index] for index in self.ranked)

    @cached_property
    def _rank(self) -> dict[str, int]:
        return {self.domain.names[index]: rank for rank, index in enumerate(self.ranked)}

    @cached_property
    def _columns(self) -> dict[tuple[str, ...], Columns]:
        return {}

    @cached_property
    def _axes(self) -> dict[Columns, tuple[int, ...]]:
        return {}

    def columns(self, clique: Iterable[str]) -> Columns:
        """Return the sorted ranks of the columns of a clique, refusing unknown and repeated names."""
        key = tuple(clique)
        known = self._columns.get(key)
        if known is None:
            known = tuple(sorted(self._rank[name] for name in self.domain.canonical(key)))
            self._columns[key] = known
        return known

    def clique(self, columns: Iterable[int]) -> Clique:
        """Return the names of some ranks in the order of the domain."""
        return tuple(self.domain.names[index] for index in sorted(self.ranked[rank] for rank in columns))

    def inward(self, clique: Sequence[str], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Reorder the axes of a table over ``clique`` (in the order given) for the engine."""
        return np.asarray(values.transpose(np.argsort([self._rank[name] for name in clique])), order="C")

    def outward(self, columns: Columns, values: Array) -> Array:
        """Reorder the axes of an engine table into the order of the domain."""
        axes = self._axes.get(columns)
        if axes is None:
            axes = tuple(np.argsort([self.ranked[rank] for rank in columns]).tolist())
            self._axes[columns] = axes
        return np.asarray(values.transpose(axes), order="C")


@lru_cache(maxsize=64)
def order_of(domain: Domain) -> ColumnOrder:
    """Return the column order of a domain, remembered."""
    return ColumnOrder(domain)
