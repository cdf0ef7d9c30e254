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

import numpy as np

from understudy.engine._cuts import Cuts
from understudy.engine.factors import Array, Columns, from_mask, quotient, shape_of, spread, to_mask
from understudy.engine.junction import JunctionTree
from understudy.errors import DomainTooLarge

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
    from understudy.engine import _tables

    out = np.empty((left.shape[0], left.shape[1], right.shape[2]))
    _tables.contract(of_one_type(left), of_one_type(right), out)
    return out


def _drop_axis(values: Array, axis: int) -> Array:
    """Sum a table over one axis."""
    shape = values.shape
    if values.size < _BY_KERNEL:
        return np.asarray(values.sum(axis=axis))
    from understudy._compile import of_one_type
    from understudy.engine import _tables

    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    out = np.empty((outer, inner))
    _tables.sum_middle(of_one_type(values).reshape(outer, shape[axis], inner), out)
    return out.reshape(shape[:axis] + shape[axis + 1 :])
