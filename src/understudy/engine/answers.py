"""Many marginals from one calibrated tree.

A marginal inside a bag is a sum. A marginal across bags is cut at an edge of the tree: if the
separator ``S`` of that edge splits the query into ``A`` and ``B``, then

    p(A, B, R) = sum over S \\ R of  p(A, S) p(B, S) / p(S),      R = the queried columns inside S,

and both factors are again marginals of the model, over fewer bags. So every intermediate is a
marginal with a name, is remembered under it, and serves all other queries that need it. Among the
edges that cut a query the one with the least work is taken. An intermediate that would be too large
is never built: one of the queried columns is cut into slices and the query answered slice by slice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from understudy.engine.factors import Array, Columns, cells_of, from_mask, quotient, shape_of, spread, to_mask
from understudy.engine.junction import JunctionTree
from understudy.errors import DomainTooLarge

MAX_RESULT_CELLS = 64_000_000
MEMORY_CELLS = 48_000_000
PIECE_CELLS = 16_000_000
_CUTS_EXPLORED = 8
_CHEAP, _CHEAP_CUTS_EXPLORED = 1e5, 2
"""Below this work planning costs more than it saves."""
_MOVE_COST = 16
"""Reordering a cell costs about as much as this many multiplications."""


class _Plan(NamedTuple):
    """How to compute a marginal: the work, the edge to cut it at (-1: inside a bag), the largest intermediate."""

    work: float
    bag: int
    peak: int


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
    max_cells
        Largest marginal that may be asked for.
    memory_cells
        How many cells may be remembered; beyond it, everything is forgotten between two queries.
    piece_cells
        Intermediates larger than this are worked through in slices where that is possible.
    """

    def __init__(
        self,
        tree: JunctionTree,
        tables: Sequence[Array],
        total: float,
        *,
        max_cells: int = MAX_RESULT_CELLS,
        memory_cells: int = MEMORY_CELLS,
        piece_cells: int = PIECE_CELLS,
    ) -> None:
        self._tree = tree
        self._tables = dict(zip(tree.masks, tables, strict=True))
        self._total = total
        self._max_cells, self._memory, self._piece = max_cells, memory_cells, piece_cells
        self._sizes = tree.sizes
        self._known: dict[int, Array] = {0: np.array(total)}
        self._held = 1
        self._plans: dict[int, _Plan] = {}
        self._homes: dict[int, int] = {}
        self._counts: dict[int, int] = {}
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
        # Per edge and column: 0 inside the separator, 1 below it, 2 above it.
        self._sides = np.full((n - 1, len(tree.sizes)), 2, dtype=np.int8)
        for bag in range(1, n):
            self._sides[bag - 1, from_mask(self._below[bag])] = 1
            self._sides[bag - 1, tree.separators[bag]] = 0
        self._between: Array | None = None

    def marginal(self, columns: Columns) -> Array:
        """Return expected counts over sorted column numbers."""
        return self.marginals([columns])[0]

    def marginals(self, queries: Iterable[Columns]) -> list[Array]:
        """Return expected counts for many cliques."""
        wanted = list(queries)
        results = dict(self.each(wanted))
        return [results[columns] for columns in wanted]

    def each(self, queries: Iterable[Columns]) -> Iterator[tuple[Columns, Array]]:
        """Yield each distinct clique with its expected counts; costly ones first, cheap ones reuse them."""
        wanted = {to_mask(columns) for columns in queries}
        for mask in wanted:
            self._check(mask)
        for mask in sorted(wanted, key=lambda mask: (-self._plan(mask).work, mask)):
            yield from_mask(mask), self._answer(mask)
            if self._held > self._memory:
                self._forget()

    def _check(self, mask: int) -> None:
        cells = self._cells(mask)
        if cells > self._max_cells:
            raise DomainTooLarge(
                f"A marginal over {len(from_mask(mask))} columns needs {cells:,} cells;"
                f" {self._max_cells:,} are allowed at a time. Ask for fewer columns.",
                cells=cells,
                allowed=self._max_cells,
            )

    def _forget(self) -> None:
        self._known = {0: np.array(self._total)}
        self._held = 1

    def _remember(self, mask: int, values: Array) -> None:
        self._known[mask] = values
        self._held += values.size

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

    def _plan(self, mask: int) -> _Plan:
        known = self._plans.get(mask)
        if known is None:
            known = _Plan(float(self._cells(mask)), -1, 0) if self._home(mask) else self._cheapest_cut(mask)
            self._plans[mask] = known
        return known

    def _cheapest_cut(self, mask: int) -> _Plan:
        best = _Plan(math.inf, -1, 0)
        for work, bag in self._cuts(mask):
            if work >= best.work:
                break
            separator = self._separators[bag]
            left, right = (mask & self._below[bag]) | separator, (mask & self._above[bag]) | separator
            plans = self._plan(left), self._plan(right)
            cost = work + plans[0].work + plans[1].work
            if cost < best.work:
                peaks = [plans[0].peak, plans[1].peak]
                peaks += [part for part in (left, right) if not self._home(part)]
                best = _Plan(cost, bag, max(peaks, key=self._peak_cells))
        return best

    def _cuts(self, mask: int) -> list[tuple[float, int]]:
        """List the edges that cut a query with the work at that edge, the most promising few, best first."""
        columns = from_mask(mask)
        sides = self._sides[:, columns]
        widths = np.array([self._sizes[column] for column in columns], dtype=np.float64)
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
            self._between = np.array([float(self._cells(mask)) for mask in self._separators[1:]])
        return self._between

    def _peak_cells(self, mask: int) -> int:
        return self._cells(mask) if mask else 0

    def _parts(self, mask: int) -> tuple[int, int, int]:
        """Return the separator a query is cut at and the two marginals it is put together from."""
        bag = self._plan(mask).bag
        separator = self._separators[bag]
        return separator, (mask & self._below[bag]) | separator, (mask & self._above[bag]) | separator

    # ---- computing --------------------------------------------------------------------------------

    def _answer(self, mask: int) -> Array:
        known = self._known.get(mask)
        if known is not None:
            return known
        home = self._home(mask)
        if home:
            result = self._inside(mask, home)
        else:
            peak = self._plan(mask).peak
            pieces = -(-self._peak_cells(peak) // self._piece)
            column = self._slice_column(mask, peak) if pieces > 1 else -1
            result = self._by_slices(mask, column, pieces) if column >= 0 else self._across(mask)
        self._remember(mask, result)
        return result

    def _slice_column(self, mask: int, peak: int) -> int:
        """Choose a queried column of the largest intermediate to cut into slices, -1 if there is none.

        On the side where the intermediate is cheaper to come by: what does not hold the column is
        computed once for all slices.
        """
        _, left, right = self._parts(peak)
        sides = sorted((left, right), key=lambda part: self._plan(part).work)
        for side in (*sides, peak):
            columns = [column for column in from_mask(side & mask & peak) if self._sizes[column] > 1]
            if columns:
                return max(columns, key=lambda column: (self._sizes[column], column))
        return -1

    def _by_slices(self, mask: int, column: int, pieces: int) -> Array:
        size = self._sizes[column]
        width = max(1, size // pieces)
        axis = (mask & ((1 << column) - 1)).bit_count()
        result = np.empty(shape_of(self._sizes, from_mask(mask)))
        window = [slice(None)] * result.ndim
        for start in range(0, size, width):
            window[axis] = slice(start, min(start + width, size))
            result[tuple(window)] = self._slice(column, window[axis])._answer(mask)
        return result

    def _slice(self, column: int, window: slice) -> Answers:
        return _Slice(self, {column: window})

    def _inside(self, mask: int, home: int) -> Array:
        """Sum inside a bag, dropping the widest column first so that most work is shared and small."""
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
            self._remember(larger, source)
        axis = (larger & (drop - 1)).bit_count()
        return _drop_axis(source, axis)

    def _across(self, mask: int) -> Array:
        separator, left_mask, right_mask = self._parts(mask)
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


class _Slice(Answers):
    """The same tree with some columns restricted to a range of their values.

    Only marginals that hold all of these columns are computed here. One that lacks a column needs
    every value of it, and is left to the whole tree or to a slice along the columns it does hold.
    """

    def __init__(self, whole: Answers, windows: dict[int, slice]) -> None:
        self._whole = whole
        self._windows = windows
        self._mask = to_mask(windows)
        self._others: dict[int, Answers] = {0: whole}
        self._tree, self._total = whole._tree, whole._total
        self._max_cells, self._memory, self._piece = whole._max_cells, whole._memory, whole._piece
        self._below, self._above, self._separators = whole._below, whole._above, whole._separators
        self._homes, self._sides, self._between = whole._homes, whole._sides, None
        sizes = list(whole._sizes)
        for column, window in windows.items():
            sizes[column] = window.stop - window.start
        self._sizes = tuple(sizes)
        self._tables = {
            mask: table[tuple(windows.get(column, slice(None)) for column in from_mask(mask))]
            for mask, table in whole._tables.items()
        }
        self._known = {}
        self._held = 0
        self._plans = {}
        self._counts = {}

    def _answer(self, mask: int) -> Array:
        held = mask & self._mask
        if held == self._mask:
            return super()._answer(mask)
        if held not in self._others:
            self._others[held] = _Slice(
                self._whole, {column: self._windows[column] for column in from_mask(held)}
            )
        return self._others[held]._answer(mask)

    def _slice(self, column: int, window: slice) -> Answers:
        return _Slice(self._whole, {**self._windows, column: _inner(self._windows.get(column), window)})


def _inner(outer: slice | None, window: slice) -> slice:
    """Return a window inside a window, in the numbering of the whole."""
    start = outer.start if outer is not None else 0
    return slice(start + window.start, start + window.stop)


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
