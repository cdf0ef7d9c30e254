"""One comparable whole number per record, also where a domain has more cells than fit in 64 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

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
