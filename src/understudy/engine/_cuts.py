"""How a marginal across bags is put together from smaller ones: planning, from the sizes of columns alone.

Sets of columns are bit masks. If the separator ``S`` of an edge splits a query into ``A`` and ``B``, the query follows
from the marginals over ``A`` and ``S`` and over ``B`` and ``S``, which are planned in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from understudy.engine.factors import Array, cells_of, from_mask, to_mask
from understudy.engine.junction import JunctionTree

_CUTS_EXPLORED = 8
_CHEAP, _CHEAP_CUTS_EXPLORED = 1e5, 2
"""Below this work planning costs more than it saves."""
_MOVE_COST = 16
"""Reordering a cell costs about as much as this many multiplications."""


class Plan(NamedTuple):
    """How to compute a marginal: the work, the edge to cut it at (-1: inside a bag), the largest intermediate."""

    work: float
    bag: int
    peak: int


class _Edges:
    """What the tree says about every edge, whatever the sizes of its columns."""

    def __init__(self, tree: JunctionTree) -> None:
        n = len(tree.bags)
        self.below = list(tree.masks)
        for bag in reversed(range(1, n)):
            self.below[tree.parents[bag]] |= self.below[bag]
        everything = self.below[0]
        self.separators = [to_mask(separator) for separator in tree.separators]
        self.above = [
            (everything & ~below) | separator
            for below, separator in zip(self.below, self.separators, strict=True)
        ]
        # Per edge and column: 0 inside the separator, 1 below it, 2 above it.
        self.sides = np.full((n - 1, len(tree.sizes)), 2, dtype=np.int8)
        for bag in range(1, n):
            self.sides[bag - 1, from_mask(self.below[bag])] = 1
            self.sides[bag - 1, tree.separators[bag]] = 0
        self.homes: dict[int, int] = {}


class Cuts:
    """Plans of marginals of one tree, remembered.

    Parameters
    ----------
    tree
        The junction tree.
    """

    def __init__(self, tree: JunctionTree) -> None:
        self._tree = tree
        self._edges = _Edges(tree)
        self._resize(tree.sizes)

    def _resize(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self._plans: dict[int, Plan] = {}
        self._counts: dict[int, int] = {}
        self._between: Array | None = None

    def narrowed(self, widths: Mapping[int, int]) -> Cuts:
        """Return plans of the same tree where some columns have fewer values."""
        other = object.__new__(Cuts)
        other._tree, other._edges = self._tree, self._edges
        other._resize(tuple(widths.get(column, size) for column, size in enumerate(self.sizes)))
        return other

    def cells(self, mask: int) -> int:
        """Return the number of cells of a marginal."""
        known = self._counts.get(mask)
        if known is None:
            known = cells_of(self.sizes, from_mask(mask))
            self._counts[mask] = known
        return known

    def home(self, mask: int) -> int:
        """Return the smallest bag that holds a set of columns, as a bit mask; 0 if there is none."""
        homes = self._edges.homes
        if mask not in homes:
            bag = self._tree.home(from_mask(mask))
            homes[mask] = self._tree.masks[bag] if bag >= 0 else 0
        return homes[mask]

    def plan(self, mask: int) -> Plan:
        """Return the cheapest way found to compute a marginal."""
        known = self._plans.get(mask)
        if known is None:
            known = Plan(float(self.cells(mask)), -1, 0) if self.home(mask) else self._cheapest_cut(mask)
            self._plans[mask] = known
        return known

    def parts(self, mask: int) -> tuple[int, int, int]:
        """Return the separator a query is cut at and the two marginals it is put together from."""
        return self._cut_at(mask, self.plan(mask).bag)

    def peak_cells(self, mask: int) -> int:
        """Return the number of cells of the largest intermediate on the way to a marginal."""
        return self._cells_or_none(self.plan(mask).peak)

    def slice_column(self, mask: int) -> int:
        """Choose a queried column of the largest intermediate to cut into slices, -1 if there is none.

        On the side where the intermediate is cheaper to come by: what does not hold the column is
        computed once for all slices.
        """
        peak = self.plan(mask).peak
        _, left, right = self.parts(peak)
        sides = sorted((left, right), key=lambda part: self.plan(part).work)
        for side in (*sides, peak):
            columns = [column for column in from_mask(side & mask & peak) if self.sizes[column] > 1]
            if columns:
                return max(columns, key=lambda column: (self.sizes[column], column))
        return -1

    def _cut_at(self, mask: int, bag: int) -> tuple[int, int, int]:
        separator = self._edges.separators[bag]
        return (
            separator,
            (mask & self._edges.below[bag]) | separator,
            (mask & self._edges.above[bag]) | separator,
        )

    def _cells_or_none(self, mask: int) -> int:
        return self.cells(mask) if mask else 0

    def _cheapest_cut(self, mask: int) -> Plan:
        best = Plan(math.inf, -1, 0)
        for work, bag in self._cuts(mask):
            if work >= best.work:
                break
            _, left, right = self._cut_at(mask, bag)
            plans = self.plan(left), self.plan(right)
            cost = work + plans[0].work + plans[1].work
            if cost < best.work:
                peaks = [plans[0].peak, plans[1].peak]
                peaks += [part for part in (left, right) if not self.home(part)]
                best = Plan(cost, bag, max(peaks, key=self._cells_or_none))
        return best

    def _cuts(self, mask: int) -> list[tuple[float, int]]:
        """List the edges that cut a query with the work at that edge, the most promising few, best first."""
        columns = from_mask(mask)
        sides = self._edges.sides[:, columns]
        widths = np.array([self.sizes[column] for column in columns], dtype=np.float64)
        below = np.where(sides == 1, widths, 1.0).prod(axis=1)
        above = np.where(sides == 2, widths, 1.0).prod(axis=1)
        cut = (sides == 1).any(axis=1) & (sides == 2).any(axis=1)
        between = self._separator_cells()
        work = np.where(cut, between * (below * above + _MOVE_COST * (below + above)), np.inf)
        order = np.argsort(work, kind="stable")[:_CUTS_EXPLORED]
        if work[order[0]] < _CHEAP:
            order = order[:_CHEAP_CUTS_EXPLORED]
        return [(float(work[edge]), int(edge) + 1) for edge in order if np.isfinite(work[edge])]

    def _separator_cells(self) -> Array:
        """Cells of the separator of every edge, the root's left out."""
        if self._between is None:
            self._between = np.array([float(self.cells(mask)) for mask in self._edges.separators[1:]])
        return self._between
