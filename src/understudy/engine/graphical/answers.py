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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from understudy.engine.graphical.factors import (
    Array,
    Columns,
    cells_of,
    from_mask,
    quotient,
    shape_of,
    spread,
    to_mask,
)
from understudy.engine.graphical.junction import JunctionTree
from understudy.errors import DomainTooLarge

# ----------------------------------------------------------------------------------------
# How a marginal across bags is put together from smaller ones: planning, from the sizes of columns alone.
#
# Sets of columns are bit masks. If the separator ``S`` of an edge splits a query into ``A`` and ``B``, the query follows
# from the marginals over ``A`` and ``S`` and over ``B`` and ``S``, which are planned in the same way.

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


MAX_RESULT_CELLS = 64_000_000
MEMORY_CELLS = 48_000_000
PIECE_CELLS = 16_000_000
_BY_KERNEL = 20_000
"""Cells from which a sum is computed by a kernel."""


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
        self._tables = dict(zip(tree.masks, tables, strict=True))
        self._cuts = Cuts(tree)
        self._total = total
        self._max_cells, self._memory, self._piece = max_cells, memory_cells, piece_cells
        self._forget()

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
        for mask in sorted(wanted, key=lambda mask: (-self._cuts.plan(mask).work, mask)):
            yield from_mask(mask), self._table_of(mask)
            if self._held > self._memory:
                self._forget()

    def _check(self, mask: int) -> None:
        cells = self._cuts.cells(mask)
        if cells > self._max_cells:
            raise DomainTooLarge(
                f"A marginal over {len(from_mask(mask))} columns needs {cells:,} cells;"
                f" {self._max_cells:,} are allowed at a time. Ask for fewer columns.",
                cells=cells,
                allowed=self._max_cells,
            )

    def _forget(self) -> None:
        self._known: dict[int, Array] = {0: np.array(self._total)}
        self._held = 1

    def _remember(self, mask: int, values: Array) -> None:
        self._known[mask] = values
        self._held += values.size

    def _table_of(self, mask: int) -> Array:
        known = self._known.get(mask)
        if known is not None:
            return known
        home = self._cuts.home(mask)
        if home:
            result = self._inside(mask, home)
        else:
            pieces = -(-self._cuts.peak_cells(mask) // self._piece)
            column = self._cuts.slice_column(mask) if pieces > 1 else -1
            result = self._by_slices(mask, column, pieces) if column >= 0 else self._across(mask)
        self._remember(mask, result)
        return result

    def _by_slices(self, mask: int, column: int, pieces: int) -> Array:
        size = self._cuts.sizes[column]
        width = max(1, size // pieces)
        axis = (mask & ((1 << column) - 1)).bit_count()
        result = np.empty(shape_of(self._cuts.sizes, from_mask(mask)))
        window = [slice(None)] * result.ndim
        for start in range(0, size, width):
            window[axis] = slice(start, min(start + width, size))
            result[tuple(window)] = self._slice(column, window[axis])._table_of(mask)
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
        separator, left_mask, right_mask = self._cuts.parts(mask)
        left, right = self._table_of(left_mask), self._table_of(right_mask)
        weight = self._table_of(separator)
        if left.size <= right.size:
            left = quotient(left, np.broadcast_to(_over(weight, separator, left_mask), left.shape))
        else:
            right = quotient(right, np.broadcast_to(_over(weight, separator, right_mask), right.shape))
        batch, inner = mask & separator, separator & ~mask
        a, b = left_mask & ~separator, right_mask & ~separator
        if self._cuts.cells(a) > self._cuts.cells(b):  # the wider side runs along memory
            left, left_mask, a, right, right_mask, b = right, right_mask, b, left, left_mask, a
        product = _product(
            _arrange(left, left_mask, (batch, a, inner)), _arrange(right, right_mask, (batch, inner, b))
        )
        order = (*from_mask(batch), *from_mask(a), *from_mask(b))
        shaped = product.reshape(shape_of(self._cuts.sizes, order))
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
        self._cuts = whole._cuts.narrowed(
            {column: window.stop - window.start for column, window in windows.items()}
        )
        self._max_cells, self._memory, self._piece = whole._max_cells, whole._memory, whole._piece
        self._tables = {
            mask: table[tuple(windows.get(column, slice(None)) for column in from_mask(mask))]
            for mask, table in whole._tables.items()
        }
        self._known, self._held = {}, 0

    def _table_of(self, mask: int) -> Array:
        held = mask & self._mask
        if held == self._mask:
            return super()._table_of(mask)
        if held not in self._others:
            self._others[held] = _Slice(
                self._whole, {column: self._windows[column] for column in from_mask(held)}
            )
        return self._others[held]._table_of(mask)

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


def try_answering() -> None:
    """Compute one product and one sum by the kernels, which many a small model would never ask for."""
    _product(np.ones((1, 2, 2)), np.ones((1, 2, 2)))
    _drop_axis(np.ones((2, _BY_KERNEL)), 1)


def _product(left: Array, right: Array) -> Array:
    """Return the batched matrix product of two three-way tables."""
    from understudy._compile import of_one_type
    from understudy.engine.graphical.kernels import contract

    out = np.empty((left.shape[0], left.shape[1], right.shape[2]))
    contract(of_one_type(left), of_one_type(right), out)
    return out


def _drop_axis(values: Array, axis: int) -> Array:
    """Sum a table over one axis."""
    shape = values.shape
    if values.size < _BY_KERNEL:
        return np.asarray(values.sum(axis=axis))
    from understudy._compile import of_one_type
    from understudy.engine.graphical.kernels import sum_middle

    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    out = np.empty((outer, inner))
    sum_middle(of_one_type(values).reshape(outer, shape[axis], inner), out)
    return out.reshape(shape[:axis] + shape[axis + 1 :])
