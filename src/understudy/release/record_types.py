"""Record types: the distinct records of an encoded table and how often each occurs.

Projection, faithfulness and every acceptance criterion depend on a table only through its record types.
A registry of 160,000 births in 230,400 possible cells has some 27,000 of them, so working on types instead of
rows is what makes an attempt cost fractions of a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.errors import DataError
from understudy.schema import Clique, Domain

if TYPE_CHECKING:
    from understudy.data import Table

# ----------------------------------------------------------------------------------------
# One comparable whole number per record, also where a domain has more cells than fit in 64 bits.

IntArray = npt.NDArray[np.int64]

_LIMIT = 1 << 62  # mixed-radix keys must fit in a signed 64-bit number


def record_keys(blocks: Sequence[IntArray], sizes: Sequence[int]) -> list[IntArray]:
    """Return keys that are equal (smaller) exactly where records are equal (lexicographically smaller).

    Keys are mixed-radix numbers. Where the columns have too many combinations, the key so far is replaced
    by its rank among all keys that occur in any of the blocks, which keeps the order and makes room.

    Parameters
    ----------
    blocks
        Arrays of codes, one row per record and one column per size; keys of all blocks are comparable.
    sizes
        Number of codes of each column.

    Examples
    --------
    >>> left, right = record_keys([np.array([[1, 2], [0, 0]]), np.array([[1, 2]])], [2, 3])
    >>> left.tolist(), right.tolist()
    ([5, 0], [5])
    """
    lengths = [len(block) for block in blocks]
    cuts = np.cumsum(lengths)[:-1]
    key = np.zeros(sum(lengths), dtype=np.int64)
    bound = 1
    for axis, size in enumerate(sizes):
        if bound * size > _LIMIT:
            kept, rank = np.unique(key, return_inverse=True)
            key, bound = rank.astype(np.int64).reshape(key.shape), max(1, len(kept))
        key *= size
        key += np.concatenate([np.asarray(block[:, axis], dtype=np.int64) for block in blocks])
        bound *= size
    return np.split(key, cuts)


def merge_equal(codes: IntArray, counts: IntArray, sizes: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the distinct records in lexicographic order with the sum of their counts."""
    (key,) = record_keys([codes], sizes)
    if len(key) == 0 or bool(np.all(key[1:] > key[:-1])):
        return codes, counts
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    return codes[order[first]], np.add.reduceat(counts[order], first)


_DENSE_CELLS = 1 << 26


@dataclass(frozen=True, eq=False)
class RecordTypes:
    """Distinct records with their counts, over a public domain.

    Parameters
    ----------
    domain
        The public domain of the columns.
    codes
        One row per record type, one column per column of the domain. Equal rows are merged and rows are
        brought into lexicographic order.
    counts
        How often each type occurs, at least once. Types that do not occur are left out.

    Raises
    ------
    DataError
        If shapes do not match, a code lies outside its column, or a count is not positive. No values are shown.

    Privacy
    -------
    The types of the real table are as private as the table. The repr shows neither types nor counts. The
    types of a synthetic candidate are public once the candidate has been paid for.

    Examples
    --------
    >>> domain = Domain(("sex", "age"), (2, 3))
    >>> types = RecordTypes.from_rows(domain, [[1, 2], [0, 0], [1, 2]])
    >>> types
    RecordTypes(2 columns; records not shown)
    >>> types.codes.tolist(), types.counts.tolist(), types.rows
    ([[0, 0], [1, 2]], [1, 2], 3)
    >>> types.marginal(("age",)).tolist()
    [1, 0, 2]
    """

    domain: Domain
    codes: IntArray
    counts: IntArray

    def __post_init__(self) -> None:
        codes = _whole(self.codes, "The codes of record types")
        counts = _whole(self.counts, "The counts of record types")
        if codes.ndim != 2 or counts.ndim != 1 or codes.shape != (len(counts), len(self.domain)):
            raise DataError(
                "Record types need one row of codes per count and one code per column of the domain."
            )
        if np.any(codes < 0) or np.any(codes >= np.asarray(self.domain.sizes, dtype=np.int64)):
            raise DataError("Record types hold codes outside their column; they are not shown.")
        if np.any(counts < 1):
            raise DataError("Every record type must occur at least once.")
        codes, counts = merge_equal(codes, counts, self.domain.sizes)
        codes.flags.writeable = counts.flags.writeable = False
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "counts", counts)

    # ------------------------------------------------------------------ reading

    @classmethod
    def from_table(cls, table: Table, columns: Iterable[str] | None = None) -> RecordTypes:
        """Return the record types of a table, or of some of its columns. Private if the table is."""
        domain = table.schema.domain
        if columns is not None:
            domain = domain.project(columns)
        codes, counts = table.distinct(domain.names)
        return cls(domain, codes.astype(np.int64), counts.astype(np.int64))

    @classmethod
    def from_rows(cls, domain: Domain, rows: npt.ArrayLike) -> RecordTypes:
        """Return the record types of an array with one record per row, columns in the order of the domain."""
        codes = np.asarray(rows)
        if codes.size == 0:
            codes = np.zeros((0, len(domain)), dtype=np.int64)
        return cls(domain, codes, np.ones(len(codes), dtype=np.int64))

    # ------------------------------------------------------------------ looking

    def __repr__(self) -> str:
        return f"RecordTypes({len(self.domain)} columns; records not shown)"

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return int(self.counts.sum())

    def column(self, name: str) -> IntArray:
        """Return the code of one column for each type."""
        return self.codes[:, self.domain.index(name)]

    def keys(self, columns: Sequence[str] | None = None) -> IntArray:
        """Return one number per type that is equal exactly where the types agree on the columns."""
        names = self.domain.names if columns is None else tuple(columns)
        picked = self.codes[:, [self.domain.index(name) for name in names]]
        return record_keys([picked], self.domain.shape(names))[0]

    def marginal(self, clique: Sequence[str]) -> IntArray:
        """Return the counts over some columns, in the order given, absent cells included."""
        shape = self.domain.shape(clique)
        cells = math.prod(shape)
        if cells > _DENSE_CELLS:
            raise DataError(f"A table over {', '.join(clique)} has {cells:,} cells; ask for fewer columns.")
        counted = np.bincount(self.keys(clique), weights=self.counts, minlength=cells)
        return np.rint(counted).astype(np.int64).reshape(shape)

    # ------------------------------------------------------------------ deriving

    def project(self, columns: Iterable[str]) -> RecordTypes:
        """Return the record types of some columns, in the order of the domain."""
        clique: Clique = self.domain.canonical(columns)
        picked = self.codes[:, [self.domain.index(name) for name in clique]]
        return RecordTypes(self.domain.project(clique), picked, self.counts.copy())

    def with_counts(self, counts: npt.ArrayLike) -> RecordTypes:
        """Return the same types with other counts; types whose count is zero are left out."""
        new = np.asarray(counts, dtype=np.int64)
        if new.shape != self.counts.shape or np.any(new < 0):
            raise DataError("New counts need one number per type, none of them negative.")
        kept = new > 0
        return RecordTypes(self.domain, self.codes[kept], new[kept])

    def expand(self, generator: np.random.Generator | None = None) -> IntArray:
        """Return one row of codes per record: sorted, or in random order if a generator is given."""
        rows = np.repeat(self.codes, self.counts, axis=0)
        return rows if generator is None else generator.permutation(rows, axis=0)


def _whole(values: npt.ArrayLike, what: str) -> IntArray:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iub":
        raise DataError(f"{what} must be whole numbers.")
    # a copy: the types are frozen, the caller's array is not
    return array.astype(np.int64)
