"""Many marginals from one calibrated tree.

A marginal inside a bag is a sum. A marginal across bags is cut at an edge of the tree: if the
separator ``S`` of that edge splits the query into ``A`` and ``B``, then

    p(A, B, R) = sum over S \\ R of  p(A, S) p(B, S) / p(S),      R = the queried columns inside S,

and both factors are again marginals of the model, over fewer bags. So every intermediate is a
marginal with a name, is remembered under it, and serves all other queries that need it. Among the
edges that cut a query the one with the least work is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from understudy.engine.factors import Array, Columns, cells_of, from_mask, quotient, shape_of, spread, to_mask
from understudy.engine.junction import JunctionTree
from understudy.errors import DomainTooLarge

DEFAULT_MEMORY_CELLS = 64_000_000
_CUTS_EXPLORED = 8
_MOVE_COST = 16
"""Reordering a cell costs about as much as this many multiplications."""


class Answers:
    """Answers marginals of a calibrated tree, remembering what it has computed.

    Parameters
    ----------
    tree
        The junction tree.
    tables
        Expected counts of each bag.
    total
        Expected number of records.
    memory_cells
        How many cells may be remembered; beyond it, intermediates are forgotten. No single
        intermediate may be larger.
    """

    def __init__(
        self,
        tree: JunctionTree,
        tables: Sequence[Array],
        total: float,
        *,
        memory_cells: int = DEFAULT_MEMORY_CELLS,
    ) -> None:
        self._tree = tree
        self._tables = dict(zip(tree.masks, tables, strict=True))
        self._total = total
        self._limit = memory_cells
        self._known: dict[int, Array] = {0: np.array(total)}
        self._held = 1
        self._plans: dict[int, tuple[float, int]] = {}
        self._homes: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._sizes = tree.sizes
        n = len(tree.bags)
        self._below = list(tree.masks)
        for bag in reversed(range(1, n)):
            self._below[tree.parents[bag]] |= self._below[bag]
        everything = self._below[0]
        self._separators = [to_mask(separator) for separator in tree.separators]
        self._above = [
            (everything & ~below) | separator
            for below, separator in zip(self._below, self._separators, strict=True)
        ]

    def marginal(self, columns: Columns) -> Array:
        """Return expected counts over sorted column positions."""
        return self._answer(to_mask(columns)).reshape(shape_of(self._sizes, columns))

    def marginals(self, queries: Iterable[Columns]) -> list[Array]:
        """Return expected counts for many cliques; large ones first, so that small ones reuse them."""
        wanted = [to_mask(columns) for columns in queries]
        results: dict[int, Array] = {}
        for mask in sorted(set(wanted), key=lambda mask: (-self._plan(mask)[0], mask)):
            results[mask] = self._answer(mask)
            if self._held > self._limit:
                self._forget()
        return [results[mask] for mask in wanted]

    def _forget(self) -> None:
        self._known = {0: np.array(self._total)}
        self._held = 1

    def _cells(self, mask: int) -> int:
        known = self._counts.get(mask)
        if known is None:
            known = cells_of(self._sizes, from_mask(mask))
            self._counts[mask] = known
        return known

    def _home(self, mask: int) -> int:
        """Return the smallest bag that holds a set of columns, as a bit mask; 0 if there is none."""
        if mask not in self._homes:
            bag = self._tree.home(from_mask(mask))
            self._homes[mask] = self._tree.masks[bag] if bag >= 0 else 0
        return self._homes[mask]

    # ---- planning ---------------------------------------------------------------------------------

    def _plan(self, mask: int) -> tuple[float, int]:
        """Return the work for a marginal and the edge to cut it at (-1: it is inside a bag)."""
        known = self._plans.get(mask)
        if known is not None:
            return known
        if self._home(mask):
            plan: tuple[float, int] = (float(self._cells(mask)), -1)
        else:
            plan = self._cheapest_cut(mask)
        self._plans[mask] = plan
        return plan

    def _cheapest_cut(self, mask: int) -> tuple[float, int]:
        cuts = []
        for bag in range(1, len(self._tree.bags)):
            separator = self._separators[bag]
            left, right = mask & self._below[bag] & ~separator, mask & self._above[bag] & ~separator
            if left and right:
                moved = self._cells(left | separator) + self._cells(right | separator)
                work = float(self._cells(mask | separator) + _MOVE_COST * moved)
                cuts.append((work, bag, left | separator, right | separator))
        cuts.sort()
        best: tuple[float, int] = (math.inf, -1)
        for work, bag, left, right in cuts[:_CUTS_EXPLORED]:
            if work >= best[0]:
                break
            cost = work + self._plan(left)[0] + self._plan(right)[0]
            if cost < best[0]:
                best = (cost, bag)
        return best

    # ---- computing --------------------------------------------------------------------------------

    def _answer(self, mask: int) -> Array:
        known = self._known.get(mask)
        if known is not None:
            return known
        cells = self._cells(mask)
        if cells > self._limit:
            raise DomainTooLarge(
                f"A marginal over {len(from_mask(mask))} columns needs {cells:,} cells;"
                f" {self._limit:,} are allowed at a time. Ask for fewer columns.",
                cells=cells,
                allowed=self._limit,
            )
        home = self._home(mask)
        result = self._inside(mask, home) if home else self._across(mask)
        self._known[mask] = result
        self._held += result.size
        return result

    def _inside(self, mask: int, home: int) -> Array:
        """Sum inside a bag, dropping the largest column first so that most work is shared and small."""
        table = self._tables.get(mask)
        if table is not None:
            return table
        rest = home & ~mask
        drop = rest & -rest  # the narrowest column: wider ones are dropped before it, further up
        larger = mask | drop
        source = self._tables.get(larger)
        if source is None:
            source = self._known.get(larger)
        if source is None:
            source = self._inside(larger, home)
            self._known[larger] = source
            self._held += source.size
        axis = (larger & (drop - 1)).bit_count()
        return _drop_axis(source, axis)

    def _across(self, mask: int) -> Array:
        _, bag = self._plan(mask)
        separator = self._separators[bag]
        left_mask = (mask & self._below[bag]) | separator
        right_mask = (mask & self._above[bag]) | separator
        left, right = self._answer(left_mask), self._answer(right_mask)
        weight = self._answer(separator)
        if left.size <= right.size:
            left = quotient(left, np.broadcast_to(_over(weight, separator, left_mask), left.shape))
        else:
            right = quotient(right, np.broadcast_to(_over(weight, separator, right_mask), right.shape))
        batch, inner = mask & separator, separator & ~mask
        a, b = left_mask & ~separator, right_mask & ~separator
        if self._cells(a) > self._cells(b):  # the wider side runs along memory
            left, left_mask, a, right, right_mask, b = right, right_mask, b, left, left_mask, a
        product = _product(
            _arrange(left, left_mask, (batch, a, inner)), _arrange(right, right_mask, (batch, inner, b))
        )
        order = (*from_mask(batch), *from_mask(a), *from_mask(b))
        shaped = product.reshape(shape_of(self._sizes, order))
        return np.asarray(shaped.transpose(np.argsort(order)), order="C")


def _over(values: Array, mask: int, over: int) -> Array:
    return spread(values, from_mask(mask), from_mask(over))


def _arrange(values: Array, mask: int, groups: tuple[int, int, int]) -> Array:
    """Reorder a table into three grouped axes."""
    place = {column: axis for axis, column in enumerate(from_mask(mask))}
    axes = [place[column] for group in groups for column in from_mask(group)]
    shape = [math.prod(values.shape[place[column]] for column in from_mask(group)) for group in groups]
    return values.transpose(axes).reshape(shape)


def _product(left: Array, right: Array) -> Array:
    """Return the batched matrix product of two three-way tables."""
    from understudy.engine import _tables

    out = np.empty((left.shape[0], left.shape[1], right.shape[2]))
    _tables.contract(np.ascontiguousarray(left), np.ascontiguousarray(right), out)
    return out


def _drop_axis(values: Array, axis: int) -> Array:
    """Sum a table over one axis."""
    shape = values.shape
    if values.size < 20_000:
        return np.asarray(values.sum(axis=axis))
    from understudy.engine import _tables

    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    out = np.empty((outer, inner))
    _tables.sum_middle(np.ascontiguousarray(values).reshape(outer, shape[axis], inner), out)
    return out.reshape(shape[:axis] + shape[axis + 1 :])
