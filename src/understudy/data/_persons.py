"""Bounding what one person contributes: random truncation to a fixed number of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.table import Words
from understudy.errors import BudgetError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

Persons = npt.NDArray[np.int64]
"""A number per row that is the same for rows of the same person. Private."""


def check_max_rows(max_rows: int) -> None:
    """Refuse a bound that is not a whole number of at least one."""
    if isinstance(max_rows, bool) or not isinstance(max_rows, int | np.integer) or max_rows < 1:
        raise BudgetError(f"The maximum number of rows per person ({max_rows!r}) must be a whole number, 1 or more.")


def missing_ids(id_column: str) -> DataError:
    """Return the error for rows that belong to nobody."""
    return DataError(
        f"Some rows have no value in the id column {id_column!r}, so it is unknown whose they are. "
        "Fill in the ids or remove those rows before reading the table."
    )


def draw_words(words: Words, rows: int) -> npt.NDArray[np.uint64]:
    """Return one random word per row, from a source or as given."""
    drawn = words(rows) if callable(words) else words
    drawn = np.asarray(drawn)
    if drawn.dtype != np.uint64 or drawn.shape != (rows,):
        raise DataError("Truncation needs one random 64-bit unsigned word per row of the table.")
    return drawn


def number_persons(ids: pa.ChunkedArray | pa.Array, id_column: str) -> Persons:
    """Replace ids by numbers: equal ids get equal numbers, and the ids are forgotten.

    Privacy
    -------
    In and out: private. The numbers say who shares a row with whom, nothing about the ids.
    """
    import pyarrow as pa

    if pa.types.is_floating(ids.type):
        import pyarrow.compute as pc

        ids = pc.if_else(pc.is_nan(ids), pa.scalar(None, ids.type), ids)
    if ids.null_count:
        raise missing_ids(id_column)
    chunks = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
    chunks = [chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk for chunk in chunks]
    if any(chunk.null_count for chunk in chunks):
        raise missing_ids(id_column)
    if not chunks:
        return np.zeros(0, np.int64)
    try:
        # encoding a chunked array gives all chunks one dictionary
        encoded = pa.chunked_array(chunks).dictionary_encode()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise DataError(
            f"The id column {id_column!r} must hold text, whole numbers or dates, one per row."
        ) from None
    numbers = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.concatenate(numbers).astype(np.int64)


def ids_from_pandas(values: Any, id_column: str) -> Persons:
    """Replace the ids of a pandas column, of any type, by numbers."""
    import pandas as pd

    try:
        numbers, _ = pd.factorize(values)
    except TypeError:
        raise DataError(
            f"The id column {id_column!r} must hold text, whole numbers or dates, one per row."
        ) from None
    if (numbers < 0).any():
        raise missing_ids(id_column)
    return np.asarray(numbers, np.int64)


def kept_rows(persons: Persons, words: npt.NDArray[np.uint64], max_rows: int) -> npt.NDArray[np.bool_]:
    """Say for each row whether it is among the ``max_rows`` smallest words of its person.

    Only persons with more rows than allowed are sorted. Equal words (probability below ``n**2 / 2**65``)
    are settled by the order of the rows, which keeps the bound exact.

    Privacy
    -------
    In: private. Out: private. Two tables that differ in the rows of one person, with the same words on
    all other rows, keep the same rows of everybody else; so they differ in at most ``max_rows`` rows.

    Examples
    --------
    >>> persons = np.array([0, 1, 0, 0])
    >>> kept_rows(persons, np.array([5, 9, 2, 7], np.uint64), 2)
    array([ True,  True,  True, False])
    """
    kept = np.ones(len(persons), bool)
    if not len(persons):
        return kept
    contested = np.flatnonzero(np.bincount(persons)[persons] > max_rows)
    if not len(contested):
        return kept
    order = contested[np.lexsort((words[contested], persons[contested]))]
    who = persons[order]
    starts = np.flatnonzero(np.concatenate(([True], who[1:] != who[:-1])))
    lengths = np.diff(starts, append=len(order))
    rank = np.arange(len(order)) - np.repeat(starts, lengths)
    kept[order[rank >= max_rows]] = False
    return kept


def join(parts: Iterable[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Concatenate parts that may be none at all."""
    listed = list(parts)
    return np.concatenate(listed) if listed else np.zeros(0, dtype)
