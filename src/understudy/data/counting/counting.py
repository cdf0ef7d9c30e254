"""Distinct records and how often each occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import DomainTooLarge
from understudy.schema import Clique, Codes, Domain

# ----------------------------------------------------------------------------------------
# Counting many marginals in one pass over chunks of codes.

Counts = npt.NDArray[np.int64]
"""Exact counts, one axis per column of a clique. Private."""

MAX_CELLS = 200_000_000
"""Largest single marginal that is counted (1.6 GB of 64-bit counts)."""

MAX_BATCH_CELLS = 500_000_000
"""Largest total of the marginals counted in one call (4 GB)."""

_SUM_FROM_CELLS = 1 << 16  # a subset of a counted clique this small is summed from it, not counted again
_SUM_FROM_COLUMNS = 6


def code_dtype(size: int) -> np.dtype[Any]:
    """Return the smallest unsigned integer type that holds the codes of a column.

    Examples
    --------
    >>> code_dtype(256), code_dtype(257)
    (dtype('uint8'), dtype('uint16'))
    """
    if size > 1 << 32:
        raise DomainTooLarge(
            f"A column may have at most 2**32 possible values, not {size}. Declare wider bins.",
            cells=size,
            allowed=1 << 32,
        )
    return np.min_scalar_type(size - 1)


@dataclass(frozen=True)
class _Group:
    """Cliques with a common prefix, as the kernel wants them."""

    width: int  # bytes per code
    prefix: npt.NDArray[np.int64]
    prefix_sizes: npt.NDArray[np.int64]
    members: npt.NDArray[np.int64]
    member_sizes: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    totals: Counts


class MarginalCounter:
    """Accumulates exact counts of several cliques over chunks of codes.

    Parameters
    ----------
    domain
        Public shape of the table.
    cliques
        What to count. Columns may come in any order; results have their axes in that order.

    Raises
    ------
    DomainTooLarge
        If one marginal has more than ``MAX_CELLS`` cells or all together more than ``MAX_BATCH_CELLS``.

    Privacy
    -------
    In: private codes. Out: private counts, for the curator only.

    Examples
    --------
    >>> counter = MarginalCounter(Domain(("a", "b"), (2, 2)), [("a",), ("b", "a")])
    >>> counter.add({"a": np.array([0, 1, 1], np.uint8), "b": np.array([1, 1, 0], np.uint8)})
    >>> [counts.tolist() for counts in counter.counts()]
    [[1, 2], [[0, 1], [1, 1]]]
    """

    def __init__(self, domain: Domain, cliques: Iterable[Sequence[str]]) -> None:
        self._domain = domain
        self._asked = [tuple(clique) for clique in cliques]
        canonical = [domain.canonical(clique) for clique in self._asked]
        self._canonical = canonical
        self._times_asked = Counter(canonical)
        self._rows = 0
        _check_cells(domain, canonical)
        self._summed_from = _sums(domain, canonical)
        counted = [
            clique for clique in dict.fromkeys(canonical) if clique and clique not in self._summed_from
        ]
        self.columns: Clique = domain.canonical({name for clique in counted for name in clique})
        self._groups: list[_Group] = []
        self._place: dict[Clique, tuple[Counts, int]] = {}
        self._plan(counted)

    def _plan(self, counted: Sequence[Clique]) -> None:
        domain, row_of = self._domain, {name: row for row, name in enumerate(self.columns)}
        grouped: dict[tuple[Clique, int], list[Clique]] = {}
        for clique in counted:
            width = max(code_dtype(size).itemsize for size in domain.shape(clique))
            grouped.setdefault((clique[:-1], width), []).append(clique)
        for (prefix, width), cliques in grouped.items():
            cells = [domain.cells(clique) for clique in cliques]
            offsets = np.concatenate(([0], np.cumsum(cells, dtype=np.int64)))
            totals = np.zeros(int(offsets[-1]), np.int64)
            for clique, offset in zip(cliques, offsets[:-1], strict=True):
                self._place[clique] = (totals, int(offset))
            self._groups.append(
                _Group(
                    width=width,
                    prefix=np.array([row_of[name] for name in prefix], np.int64),
                    prefix_sizes=np.array(domain.shape(prefix), np.int64),
                    members=np.array([row_of[clique[-1]] for clique in cliques], np.int64),
                    member_sizes=np.array([domain.size(clique[-1]) for clique in cliques], np.int64),
                    offsets=offsets[:-1],
                    totals=totals,
                )
            )

    def add(
        self, columns: Mapping[str, Codes], *, rows: int | None = None, weights: Counts | None = None
    ) -> None:
        """Add one chunk of rows; codes must already be known to lie below the sizes of their columns.

        Parameters
        ----------
        columns
            Codes by column.
        rows
            How many rows the chunk has, where no column is needed (only the total is counted).
        weights
            How many rows each record stands for, where that is not one.
        """
        if rows is None:
            rows = len(next(iter(columns.values()))) if weights is None else len(weights)
        self._rows += rows if weights is None else int(weights.sum())
        if not self._groups:
            return
        from understudy.data.counting.kernels import MAX_ROWS_PER_CALL, add_counts, add_weights

        for start in range(0, rows, MAX_ROWS_PER_CALL):
            stop = min(rows, start + MAX_ROWS_PER_CALL)
            matrices: dict[int, npt.NDArray[Any]] = {}
            for group in self._groups:
                if group.width not in matrices:
                    matrices[group.width] = self._matrix(columns, group.width, start, stop)
                where = (group.prefix, group.prefix_sizes, group.members, group.member_sizes)
                if weights is None:
                    add_counts(matrices[group.width], *where, group.offsets, group.totals)
                else:
                    part = weights[start:stop]
                    add_weights(matrices[group.width], part, *where, group.offsets, group.totals)

    def _matrix(self, columns: Mapping[str, Codes], width: int, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the columns that fit in ``width`` bytes, one per row; other rows stay unused."""
        matrix = np.empty((len(self.columns), stop - start), np.dtype(f"u{width}"))
        for row, name in enumerate(self.columns):
            if code_dtype(self._domain.size(name)).itemsize <= width:
                matrix[row] = columns[name][start:stop]
        return matrix

    @property
    def layout(self) -> list[object]:
        """What the arrays of `state` hold, in public names."""
        return [[clique, offset] for clique, (_, offset) in self._place.items()]

    @property
    def state(self) -> list[Counts]:
        """The counts so far as flat arrays, for `restore` of a counter of the same cliques. Private."""
        return [group.totals for group in self._groups]

    def restore(self, rows: int, state: Sequence[Counts]) -> None:
        """Go on from the counts of the first ``rows`` rows."""
        self._rows = rows
        for group, totals in zip(self._groups, state, strict=True):
            group.totals[...] = totals

    @property
    def rows(self) -> int:
        """How many rows were counted so far. Private."""
        return self._rows

    def merge(self, rows: int, state: Sequence[Counts]) -> None:
        """Add the counts of other rows, made by a counter of the same cliques over the same domain.

        Counts are whole numbers, so partial counts add up to the counts of all rows in whatever order they come and however the rows
        were divided.

        Parameters
        ----------
        rows, state
            The `rows` and the `state` of the other counter.

        Examples
        --------
        >>> one, two = (MarginalCounter(Domain(("a",), (2,)), [("a",)]) for _ in range(2))
        >>> one.add({"a": np.array([0, 1], np.uint8)})
        >>> two.add({"a": np.array([1], np.uint8)})
        >>> one.merge(two.rows, two.state)
        >>> one.rows, one.counts()[0].tolist()
        (3, [1, 2])
        """
        sizes = [totals.shape for totals in state]
        if sizes != [group.totals.shape for group in self._groups]:
            raise ValueError("The counts are of other cliques, or of another domain.")
        self._rows += rows
        for group, totals in zip(self._groups, state, strict=True):
            np.add(group.totals, totals, out=group.totals)

    def counts(self) -> list[Counts]:
        """Return the counts, in the order the cliques were given; call it once, after the last chunk."""
        return [
            self._counts(asked, clique) for asked, clique in zip(self._asked, self._canonical, strict=True)
        ]

    def _counts(self, asked: Clique, clique: Clique) -> Counts:
        if not clique:
            return np.array(self._rows, np.int64)
        source = self._summed_from.get(clique, clique)
        totals, offset = self._place[source]
        counts = totals[offset : offset + self._domain.cells(source)].reshape(self._domain.shape(source))
        if source != clique:
            counts = counts.sum(axis=tuple(axis for axis, name in enumerate(source) if name not in clique))
        elif self._times_asked[clique] > 1:
            counts = counts.copy()  # the answers must not share memory
        return np.ascontiguousarray(counts.transpose([clique.index(name) for name in asked]))


def _check_cells(domain: Domain, cliques: Sequence[Clique]) -> None:
    total = 0
    for clique in cliques:
        cells = domain.cells(clique)
        total += cells
        if cells > MAX_CELLS:
            raise DomainTooLarge(
                f"The marginal over {clique} has {cells:,} cells; at most {MAX_CELLS:,} can be counted. "
                "Choose fewer columns or wider bins.",
                cells=cells,
                allowed=MAX_CELLS,
            )
    if total > MAX_BATCH_CELLS:
        raise DomainTooLarge(
            f"The {len(cliques)} marginals have {total:,} cells together; at most {MAX_BATCH_CELLS:,} can be "
            "counted in one call. Count them in smaller batches.",
            cells=total,
            allowed=MAX_BATCH_CELLS,
        )


def _sums(domain: Domain, cliques: Sequence[Clique]) -> dict[Clique, Clique]:
    """Return the cliques that can be summed from another, small one: ``{subset: superset}``."""
    available: dict[Clique, Clique] = {}
    found: dict[Clique, Clique] = {}
    for clique in sorted(set(cliques), key=lambda clique: (-len(clique), clique)):
        if clique in available:
            found[clique] = available[clique]
        elif 1 < len(clique) <= _SUM_FROM_COLUMNS and domain.cells(clique) <= _SUM_FROM_CELLS:
            for size in range(1, len(clique)):
                for subset in combinations(clique, size):
                    available.setdefault(subset, clique)
    return found


_KEY_LIMIT = 1 << 64  # mixed-radix keys are 64-bit
_MERGE_ROWS = 1 << 20


def distinct_records(
    columns: Sequence[Codes], sizes: Sequence[int], *, rows: int, weights: Counts | None = None
) -> tuple[Codes, Counts]:
    """Return the distinct rows of some columns in lexicographic order, and the weight of each.

    Every row becomes one 64-bit mixed-radix key. When the columns have more than 2**64 combinations,
    the key so far is replaced by its rank among the keys that occur, which keeps the order and leaves
    room for more columns.

    Examples
    --------
    >>> a, b = np.array([1, 0, 1], np.uint8), np.array([2, 0, 2], np.uint8)
    >>> codes, counts = distinct_records([a, b], [2, 3], rows=3)
    >>> codes.tolist(), counts.tolist()
    ([[0, 0], [1, 2]], [1, 2])
    """
    key = np.zeros(rows, np.uint64)
    bound = 1
    for column, size in zip(columns, sizes, strict=True):
        if bound * size > _KEY_LIMIT:
            kept, rank = np.unique(key, return_inverse=True)
            key, bound = rank.astype(np.uint64), max(1, len(kept))
        key *= np.uint64(size)
        key += column
        bound *= size
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.concatenate((np.ones(min(1, rows), bool), key[1:] != key[:-1])))
    if weights is None:
        counts = np.diff(first, append=rows).astype(np.int64)
    else:
        counts = np.add.reduceat(weights[order], first) if rows else np.zeros(0, np.int64)
    chosen = order[first]
    dtype: np.dtype[Any] = code_dtype(max(sizes, default=1))
    codes = np.empty((len(chosen), len(columns)), dtype)
    for axis, column in enumerate(columns):
        codes[:, axis] = column[chosen]
    return codes, counts


def merge_distinct(parts: Iterable[tuple[Codes, Counts]], sizes: Sequence[int]) -> tuple[Codes, Counts]:
    """Merge the distinct records of several chunks, holding little more than the distinct ones at a time."""
    codes: npt.NDArray[Any] = np.empty((0, len(sizes)), code_dtype(max(sizes, default=1)))
    counts = np.zeros(0, np.int64)
    waiting: list[tuple[Codes, Counts]] = []
    waiting_rows = 0
    for part in parts:
        waiting.append(part)
        waiting_rows += len(part[1])
        if waiting_rows >= max(_MERGE_ROWS, len(counts)):
            codes, counts = _merge([(codes, counts), *waiting], sizes)
            waiting, waiting_rows = [], 0
    return _merge([(codes, counts), *waiting], sizes)


def _merge(parts: Sequence[tuple[Codes, Counts]], sizes: Sequence[int]) -> tuple[Codes, Counts]:
    codes = np.concatenate([part[0] for part in parts])
    counts = np.concatenate([part[1] for part in parts])
    return distinct_records(list(codes.T), sizes, rows=len(counts), weights=counts)
