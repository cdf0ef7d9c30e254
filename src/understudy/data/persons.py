"""Bounding what one person contributes: random truncation to a fixed number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.files.stream import attempt
from understudy.data.table import Words
from understudy.errors import BudgetError, DataError
from understudy.schema.coding.reading import MISSING_TEXT

if TYPE_CHECKING:
    import pyarrow as pa

Persons = npt.NDArray[np.int64]
"""A number per row that is the same for rows of the same person. Private."""

ROWS_PER_PART = 1 << 22
"""How many ids of a streamed table are compared at a time."""


def check_max_rows(max_rows: int) -> None:
    """Refuse a bound that is not a whole number of at least one."""
    if isinstance(max_rows, bool) or not isinstance(max_rows, int | np.integer) or max_rows < 1:
        raise BudgetError(
            f"The maximum number of rows per person ({max_rows!r}) must be a whole number, 1 or more."
        )


def missing_ids(id_column: str) -> DataError:
    """Return the error for rows that belong to nobody."""
    return DataError(
        f"Some rows have no value in the id column {id_column!r}, or a word for a missing one such as NA, so it is unknown whose they are. "
        "Fill in the ids or remove those rows before reading the table; an id that is really called NA needs another name."
    )


def refuse_missing_words(ids: Iterable[object], id_column: str) -> None:
    """Refuse ids that are spelled as missing entries are (NA, null, nothing but spaces): the rows of all whose id is unknown would count as those of one person.

    Parameters
    ----------
    ids
        The distinct ids.
    """
    if any(isinstance(item, str) and item.strip().lower() in MISSING_TEXT for item in ids):
        raise missing_ids(id_column)


def _unusable(id_column: str) -> DataError:
    return DataError(f"The id column {id_column!r} must hold text, whole numbers or dates, one per row.")


def draw_words(words: Words, rows: int) -> npt.NDArray[np.uint64]:
    """Return one random word per row, from a source or as given."""
    drawn = words(rows) if callable(words) else words
    drawn = np.asarray(drawn)
    if drawn.dtype != np.uint64 or drawn.shape != (rows,):
        raise DataError("Truncation needs one random 64-bit unsigned word per row of the table.")
    return drawn


def number_persons(ids: Sequence[pa.Array], id_column: str) -> Persons:
    """Replace the ids of consecutive batches by numbers: equal ids get equal numbers, the ids are forgotten.

    Privacy
    -------
    In and out: private. The numbers say who shares a row with whom, nothing about the ids.
    """
    import pyarrow as pa

    if not ids:
        return np.zeros(0, np.int64)
    plain = [
        _without_nan(batch.dictionary_decode() if pa.types.is_dictionary(batch.type) else batch)
        for batch in ids
    ]
    if any(batch.null_count for batch in plain):
        raise missing_ids(id_column)
    # encoding a chunked array gives all its chunks one dictionary
    encoded = attempt(lambda: pa.chunked_array(plain).dictionary_encode(), lambda _: _unusable(id_column))
    if encoded.num_chunks and _has_missing_words(encoded.chunk(encoded.num_chunks - 1).dictionary):
        raise missing_ids(id_column)
    numbers = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.concatenate([np.zeros(0, np.int64), *numbers])


def _has_missing_words(ids: pa.Array) -> bool:
    """Do what `refuse_missing_words` does for many ids."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)):
        return False
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(ids))
    return bool(pc.any(pc.is_in(plain, pa.array(sorted(MISSING_TEXT), ids.type))).as_py())


def _without_nan(ids: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return (
        pc.if_else(pc.is_nan(ids), pa.scalar(None, ids.type), ids) if pa.types.is_floating(ids.type) else ids
    )


def ids_from_pandas(values: Any, id_column: str) -> Persons:
    """Replace the ids of a pandas column, of any type, by numbers."""
    import pandas as pd

    numbers, distinct = attempt(lambda: pd.factorize(values), lambda _: _unusable(id_column))
    if (numbers < 0).any():
        raise missing_ids(id_column)
    if not pd.api.types.is_numeric_dtype(distinct.dtype):
        refuse_missing_words(distinct, id_column)
    return np.asarray(numbers, np.int64)


def by_rows(persons: Persons, most: int) -> npt.NDArray[np.int64]:
    """Return how many persons have one row, two rows, and so on; those with ``most`` rows or more come last. Private.

    Examples
    --------
    >>> by_rows(np.array([5, 1, 5, 5, 2]), 2)
    array([2, 1])
    """
    check_max_rows(most)
    rows = np.bincount(persons) if len(persons) else np.zeros(0, np.int64)
    return np.bincount(np.minimum(rows, most), minlength=most + 1)[1:].astype(np.int64)


def marks_of_persons(
    persons: Persons, columns: Sequence[npt.NDArray[Any]], order: npt.NDArray[Any] | None
) -> npt.NDArray[np.uint64]:
    """Return one number for each person, ascending, that stands for the rows of that person; ids and the order in which rows are stored play no part.

    Parameters
    ----------
    columns
        The codes of the rows.
    order
        What puts the rows of a person in order, if something does.

    Examples
    --------
    >>> ward = np.array([4, 4, 7])
    >>> one, other = (marks_of_persons(np.array(who), [ward], None).tolist() for who in ([0, 1, 0], [0, 0, 1]))
    >>> len(one), one == other
    (2, False)
    >>> one == marks_of_persons(np.array([9, 9, 2]), [np.array([7, 4, 4])], None).tolist()  # other ids, stored otherwise
    True
    """
    mark = np.zeros(len(persons), np.uint64)
    for codes in columns:
        mark = mixed(mark ^ codes.astype(np.uint64))
    if order is not None:
        ranks = np.unique(order, return_inverse=True)[1].astype(np.uint64)
        mark = mixed(mark ^ mixed(ranks + np.uint64(1)))
    found = np.zeros(int(persons.max(initial=-1)) + 1, np.uint64)
    rows = np.zeros(len(found), np.uint64)
    np.add.at(found, persons, mark)
    np.add.at(rows, persons, np.uint64(1))
    return np.sort(mixed(found ^ mixed(rows))[rows > 0])


def mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return other words, one for each, that show no pattern of the first (the last steps of SplitMix64)."""
    z = words + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


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


def kept_rows_of_stream(
    read_ids: Callable[[], Iterator[pa.Array]], id_column: str, *, rows: int, max_rows: int, words: Words
) -> npt.NDArray[np.bool_]:
    """Do what `kept_rows` does for ids that are read in batches and do not fit in memory together.

    Persons are dealt out to parts by a hash of their id, and each part is handled on its own by a pass
    over the ids. A person lies in one part, so the result is exact.
    """
    kept = np.ones(rows, bool)
    given = None if callable(words) else draw_words(words, rows)
    for place, persons in parts_of_stream(read_ids, id_column, rows=rows):
        if place is None:
            return np.ones(len(persons), bool)  # the source changed; the caller compares lengths
        drawn = draw_words(words, len(place)) if given is None else given[place]
        kept[place[~kept_rows(persons, drawn, max_rows)]] = False
    return kept


def parts_of_stream(
    read_ids: Callable[[], Iterator[pa.Array]], id_column: str, *, rows: int
) -> Iterator[tuple[npt.NDArray[np.int64] | None, Persons]]:
    """Iterate over parts of a stream of ids, each with all rows of its persons: where the rows stand, and whose they are.

    If the stream has another number of rows than it should, no place is given, and as many numbers as it had rows.
    """
    parts = max(1, -(-rows // ROWS_PER_PART))
    for part in range(parts):
        seen = 0
        ids: list[pa.Array] = []
        places: list[npt.NDArray[np.int64]] = []
        for batch in read_ids():
            if batch.null_count:
                raise missing_ids(id_column)
            mine = np.flatnonzero(_parts_of(batch, parts, id_column) == part)
            ids.append(batch.take(mine))
            places.append(mine + seen)
            seen += len(batch)
        if seen != rows:
            yield None, np.zeros(seen, np.int64)
            return
        if ids:
            yield np.concatenate(places), number_persons(ids, id_column)


def _parts_of(ids: pa.Array, parts: int, id_column: str) -> npt.NDArray[np.int64]:
    """Say which part each id belongs to; equal ids belong to equal parts."""
    import pyarrow as pa

    from understudy.data.counting.kernels import hash_texts

    if parts == 1:
        return np.zeros(len(ids), np.int64)
    if pa.types.is_integer(ids.type):
        numbers = ids.to_numpy(zero_copy_only=False).astype(np.uint64)
        mixed: npt.NDArray[np.uint64] = (numbers * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
        return (mixed % np.uint64(parts)).astype(np.int64)
    texts = attempt(lambda: ids.cast(pa.large_string()), lambda _: _unusable(id_column))
    _, offsets, text = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(ids) + 1, texts.offset * 8)
    letters = np.zeros(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    hashed: npt.NDArray[np.uint64] = hash_texts(bounds, letters)
    return (hashed % np.uint64(parts)).astype(np.int64)
