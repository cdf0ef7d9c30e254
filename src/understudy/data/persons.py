"""Who a row is about, and bounding what one person contributes: a keyed choice of a fixed number of rows.

**Who is who.** A person is a *text*: the id as `id_text` writes it, the same whichever file, frame, library or database held it. The whole number 7, the real number 7.0, the decimal
7.00 and the text ``7`` are one person; the texts ``7``, ``07`` and `` 7`` are three, because nobody can say that they are not. Text is compared character by
character; nothing is trimmed, folded or normalised. An id that is missing (nothing entered, not a number, an empty field of a CSV file, or a word for a missing entry
such as ``NA``) is refused.

**Which rows stay.** Let ``K`` be a key of 256 bits from the curator's generator. Every person gets a 128-bit hash of its text, keyed with the first half of ``K``
(`person_keys`). Rows of a person with equal records are numbered 0, 1, ...; which of them gets which number makes no difference, because they are equal. So every row has a
name ``(record, number)`` that no other row of its person has. Its *word* is a 64-bit hash of ``(person, record, number)``, keyed with the second half of ``K``. A person keeps the
``k`` rows whose words are smallest; equal words are settled by record and number. The rows that stay are put in the order of persons' hashes and rows' words.

**Stability.** Take any fixed key. The rows that a person keeps are a function of the multiset of *that person's* records and the key: no other person, no row number, batch, partition or
place of storage has a part in it. So the table that stays is a union, over persons, of functions of their own rows, of at most ``k`` rows each. Add a person: the rows of
everybody else stay what they were, and at most ``k`` rows come. Remove one: at most ``k`` rows go. Replace all rows of a person by others, or the person by another one: at most ``k``
rows go and at most ``k`` come, ``2 k`` changes. A mechanism that is private for each key on tables that differ in so many rows is private for a key that is drawn without looking at the records.
Nothing here rests on the hash of rows: a bad one, or a key that somebody reads, may favour some rows of a person over others and changes no guarantee.

**Collisions.** Persons are told apart by 128 bits. For ``n`` persons, a secret key and a hash that cannot be told from a random function, two of them share their hash with probability
below ``n**2 / 2**129``: 1.5e-21 for 10**9 persons. Such two would be cut as if they were one: together they would keep ``k`` rows, and when one of them is removed up to ``k`` rows of it
would go and up to ``k`` rows of the other come, ``2 k`` changes instead of ``k``. Nothing worse can happen.

**Fairness.** For a hash that cannot be told from a random function the words of the rows of a person are independent and uniform, and independent of those of other persons, because all names
``(person, record, number)`` differ. So every set of ``k`` of the ``n`` rows of a person is equally likely to stay, and each row stays with probability ``k / n``. That the word depends on the *record*
favours no record: a different key gives it a different word, and a record that occurs three times has three words. Only somebody who knows the key could write records that stay; whoever
writes records does not know it.

**Codes.** A record is its codes (`RecordWords`), so it is the same wherever the same schema encodes it. Another schema gives other words: the same rows of a table that is read with other bins are
another choice, as fair as the first. A table that keeps more than codes of a row (texts, the order of events) puts that into the record as well.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import code_dtype
from understudy.data.files.stream import attempt
from understudy.errors import BudgetError, DataError
from understudy.schema.coding.reading import MISSING_TEXT, distinct_entries, is_nothing

if TYPE_CHECKING:
    import pyarrow as pa

    from understudy.schema import Codes, Domain

Persons = npt.NDArray[np.int64]
"""A number per row that is the same for rows of the same person. Private."""

Words = npt.NDArray[np.uint64]
"""Hashes, or records as words. Private."""

KEY_BYTES = 32
"""Of the key that decides which rows of a person stay: half for persons, half for rows."""

ROWS_AT_ONCE = 1 << 17
"""Rows of persons that are compared together, about: what fits the caches of a core."""


def check_max_rows(max_rows: int) -> None:
    """Refuse a bound that is not a whole number of at least one."""
    if isinstance(max_rows, bool) or not isinstance(max_rows, int | np.integer) or max_rows < 1:
        raise BudgetError(
            f"The maximum number of rows per person ({max_rows!r}) must be a whole number, 1 or more."
        )


def check_key(key: bytes) -> None:
    """Refuse a key that is none."""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise DataError(f"Which rows of a person stay is decided by a key of {KEY_BYTES} random bytes.")


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


def _has_missing_words(ids: pa.Array) -> bool:
    """Do what `refuse_missing_words` does for many ids."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)):
        return False
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(ids))
    return bool(pc.any(pc.is_in(plain, pa.array(sorted(MISSING_TEXT), ids.type))).as_py())


def _unusable(id_column: str) -> DataError:
    return DataError(f"The id column {id_column!r} must hold text, whole numbers or dates, one per row.")


# ----------------------------------------------------------------------------------------
# Ids as text.


def id_text(item: object) -> str:
    """Return an id as it is written, the same whichever library read it.

    A moment with a time zone is written in UTC. One without, at midnight, is its date.

    Raises
    ------
    TypeError
        If it is nothing that names a person.

    Examples
    --------
    >>> id_text(7), id_text(7.0), id_text(decimal.Decimal("7.00")), id_text("007")
    ('7', '7', '7', '007')
    >>> id_text(dt.datetime(2020, 1, 2)), id_text(dt.date(2020, 1, 2)), id_text(dt.datetime(2020, 1, 2, 3, 4, 5, 600000))
    ('2020-01-02', '2020-01-02', '2020-01-02T03:04:05.6')
    """
    if isinstance(item, str):
        return str(item)
    if isinstance(item, bool | np.bool_):
        return str(bool(item))
    if isinstance(item, int | np.integer):
        return str(int(item))
    if isinstance(item, float | np.floating):
        number = float(item)
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(item, decimal.Decimal):
        if not item.is_finite():
            return str(item)
        return str(int(item)) if item == item.to_integral_value() else format(item, "f").rstrip("0")
    if isinstance(item, dt.datetime):
        if item.tzinfo is None:
            return _moment(item.isoformat())
        return _moment(item.astimezone(dt.UTC).replace(tzinfo=None).isoformat(), aware=True)
    if isinstance(item, dt.date):
        return item.isoformat()
    if isinstance(item, np.datetime64):
        return _moment(str(item))
    if isinstance(item, uuid.UUID):
        return str(item)
    if isinstance(item, bytes):
        return item.hex()
    raise TypeError("an id is text, a number or a date")


def _moment(text: str, *, aware: bool = False) -> str:
    """Return a moment as text without what is zero: ``2020-01-02 00:00:00.000`` is ``2020-01-02``."""
    day, _, time = text.replace(" ", "T").partition("T")
    time = time.rstrip("0").rstrip(".") if "." in time else time
    if aware:
        return f"{day}T{time}+00:00"
    return f"{day}T{time}" if time.strip("0:") else day


def id_texts(ids: pa.Array, id_column: str) -> pa.Array:
    """Return ids of any type as their texts, in UTF-8 (Arrow's large binary): what `id_text` says, vectorised. Private.

    Raises
    ------
    DataError
        If some are missing, or are of a type that names no persons.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(ids.type):
        if ids.indices.null_count:
            raise missing_ids(id_column)
        used = ids.dictionary
        if used.null_count:  # an entry that no row has does no harm
            if ids.dictionary_decode().null_count:
                raise missing_ids(id_column)
            used = used.fill_null(_filler(used.type))
        if _has_missing_words(used):  # again, an entry that no row has does no harm
            return id_texts(ids.dictionary_decode(), id_column)
        return id_texts(used, id_column).take(ids.indices)
    if ids.null_count:
        raise missing_ids(id_column)
    return attempt(lambda: _texts(ids, id_column), lambda _: _unusable(id_column))


def require_ids(ids: pa.Array, id_column: str) -> None:
    """Refuse ids of which some are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) and ids.dictionary.null_count else ids
    if plain.null_count or (pa.types.is_floating(plain.type) and pc.any(pc.is_nan(plain)).as_py()):
        raise missing_ids(id_column)
    coded = pa.types.is_dictionary(plain.type)
    if _has_missing_words(plain.dictionary if coded else plain) and (
        not coded or _has_missing_words(plain.dictionary_decode())
    ):
        raise missing_ids(id_column)


def _filler(kind: pa.DataType) -> Any:
    import pyarrow as pa

    return (
        pa.scalar(0).cast(kind) if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)) else "0"
    )


def _texts(ids: pa.Array, id_column: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, text = ids.type, pa.large_string()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        written = ids.cast(text)
        if _has_missing_words(written):
            raise missing_ids(id_column)
        return written.cast(pa.large_binary())
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        return ids.cast(text).cast(pa.large_binary())
    if pa.types.is_floating(kind):
        if pc.any(pc.is_nan(ids)).as_py():
            raise missing_ids(id_column)
        values = ids.cast(pa.float64())
        small = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2.0**53))
        if pc.all(small).as_py():
            return values.cast(pa.int64()).cast(text).cast(pa.large_binary())
    distinct = ids.dictionary_encode()
    if pa.types.is_timestamp(kind):
        moments = distinct.dictionary
        if kind.tz is not None:  # Arrow keeps such moments in UTC
            moments = moments.view(pa.int64()).view(pa.timestamp(kind.unit))
        listed = [_moment(item, aware=kind.tz is not None) for item in moments.cast(text).to_pylist()]
    else:
        listed = [id_text(item) for item in distinct.dictionary.to_pylist()]
    return pa.array([item.encode("utf-8") for item in listed], pa.large_binary()).take(distinct.indices)


@dataclass(frozen=True, eq=False)
class People:
    """Whose each row is. Private.

    Attributes
    ----------
    numbers
        For each row the place of its person in ``texts``.
    texts
        The ids of the persons, each once, as `id_texts` writes them.
    """

    numbers: Persons = field(repr=False)
    texts: pa.Array = field(repr=False)

    @classmethod
    def of(cls, places: npt.NDArray[Any], texts: pa.Array) -> People:
        """Put persons together, of whom some may have the same text."""
        import pyarrow as pa

        coded = texts.dictionary_encode()
        which = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        numbers = which[places] if len(which) else np.zeros(len(places), np.int64)
        distinct = coded.dictionary.cast(pa.large_binary())
        present = np.bincount(numbers, minlength=len(distinct)) > 0
        if not present.all():  # such as categories without rows
            numbers = (np.cumsum(present) - 1)[numbers]
            distinct = distinct.filter(pa.array(present))
        numbers.flags.writeable = False
        return cls(numbers, distinct)

    @classmethod
    def numbered(cls, numbers: npt.NDArray[np.integer[Any]]) -> People:
        """Return persons whose ids are whole numbers, one for each row."""
        import pyarrow as pa

        distinct, places = np.unique(numbers, return_inverse=True)
        return cls.of(places.reshape(-1), id_texts(pa.array(distinct), ""))

    def __len__(self) -> int:
        return len(self.numbers)


def number_persons(ids: Sequence[pa.Array], id_column: str) -> People:
    """Return whose the rows of consecutive batches are.

    Privacy
    -------
    In and out: private.
    """
    import pyarrow as pa

    ids = [batch for batch in ids if len(batch)]
    if not ids:
        return People(np.zeros(0, np.int64), pa.array([], pa.large_binary()))
    plain = [batch.dictionary_decode() if pa.types.is_dictionary(batch.type) else batch for batch in ids]
    if any(batch.null_count for batch in plain):
        raise missing_ids(id_column)
    mixed_types = len({batch.type for batch in plain}) > 1
    if mixed_types:
        plain = [id_texts(batch, id_column) for batch in plain]
    # encoding a chunked array gives all its chunks one dictionary
    encoded = attempt(lambda: pa.chunked_array(plain).dictionary_encode(), lambda _: _unusable(id_column))
    places = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
    distinct = encoded.chunks[-1].dictionary
    return People.of(places, distinct if mixed_types else id_texts(distinct, id_column))


def ids_from_pandas(values: Any, id_column: str) -> People:
    """Return whose the rows of a pandas frame are, given its id column of any type."""
    import pandas as pd
    import pyarrow as pa

    series = pd.Series(values)
    if series.dtype != object and not isinstance(series.dtype, pd.CategoricalDtype):
        made = attempt(lambda: pa.array(series, from_pandas=True), lambda _: _unusable(id_column))
        return number_persons(getattr(made, "chunks", [made]), id_column)

    def listed() -> tuple[npt.NDArray[np.intp], list[bytes]]:
        places, entries = distinct_entries(series)
        absent = np.array([*map(is_nothing, entries), True])
        if absent[places].any():
            raise missing_ids(id_column)
        refuse_missing_words(entries, id_column)
        entries = ["" if nothing else entry for entry, nothing in zip(entries, absent[:-1], strict=True)]
        return places, [id_text(entry).encode("utf-8", "surrogatepass") for entry in entries]

    places, texts = attempt(listed, lambda _: _unusable(id_column))
    return People.of(places, pa.array(texts, pa.large_binary()))


# ----------------------------------------------------------------------------------------
# Which rows stay.


def person_keys(ids: pa.Array, key: bytes, id_column: str = "") -> Words:
    """Return 128 bits for each id, as two words: equal for equal persons, and otherwise different (see *Collisions* in the head of this module).

    Parameters
    ----------
    ids
        Ids of any type that names persons, row by row.
    key
        `KEY_BYTES` bytes; the first half counts.
    id_column
        What to call them in errors.

    Privacy
    -------
    In: private. Out: private.

    Examples
    --------
    >>> import pyarrow as pa
    >>> numbers, texts = (person_keys(pa.array(ids), bytes(32)) for ids in ([7, 8, 7], ["7", "8", "7"]))
    >>> bool((numbers == texts).all()), bool((numbers[0] == numbers[2]).all()), bool((numbers[0] == numbers[1]).any())
    (True, True, False)
    """
    import pyarrow as pa

    check_key(key)
    coded = pa.types.is_dictionary(ids.type) and not ids.null_count and not ids.dictionary.null_count
    if coded and not _has_missing_words(ids.dictionary):
        return np.asarray(
            person_keys(ids.dictionary, key, id_column)[ids.indices.to_numpy(zero_copy_only=False)]
        )
    return hashed_texts(id_texts(ids, id_column), key)


def hashed_texts(texts: pa.Array, key: bytes) -> Words:
    """Return 128 bits for each text (large binary), as two words. Private."""
    from understudy._compile import of_one_type
    from understudy.data.counting.person_kernels import hash_texts

    if not len(texts):
        return np.zeros((0, 2), np.uint64)
    _, offsets, letters = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(texts) + 1, texts.offset * 8)
    text = np.zeros(0, np.uint8) if letters is None else np.frombuffer(letters, np.uint8)
    hashed: Words = hash_texts(of_one_type(bounds), of_one_type(text), _half(key, 0))
    return hashed


def _half(key: bytes, which: int) -> Words:
    half = np.frombuffer(key, "<u8").astype(np.uint64)[2 * which : 2 * which + 2]
    half.flags.writeable = False
    return half


@dataclass(frozen=True)
class RecordWords:
    """Where the code of each column lies in the 64-bit words that stand for a record.

    Columns come in the order of the domain; each takes as many bits as its largest code and lies in one word. The same domain gives the same words everywhere.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> words = RecordWords.of(Domain(("a", "b"), (300, 2)))
    >>> packed = words.pack({"a": np.array([299, 0], np.uint16), "b": np.array([1, 1], np.uint8)})
    >>> packed.tolist(), words.unpack(packed, ("b",))["b"].tolist()
    ([[811], [512]], [1, 1])
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    width: int

    @classmethod
    def of(cls, domain: Domain) -> RecordWords:
        """Return the layout of a domain."""
        places: list[tuple[int, int]] = []
        word = used = 0
        for size in domain.sizes:
            bits = (size - 1).bit_length()
            if used + bits > 64:
                word, used = word + 1, 0
            places.append((word, used))
            used += bits
        return cls(tuple(domain.names), tuple(domain.sizes), tuple(places), word + (used > 0))

    def pack(self, columns: Mapping[str, Codes], rows: int | None = None) -> Words:
        """Return the words of each row. In and out: private."""
        rows = len(next(iter(columns.values()))) if rows is None else rows
        words = np.zeros((self.width, rows), np.uint64)
        for name, (word, shift) in zip(self.names, self.places, strict=True):
            if word < self.width:
                words[word] |= columns[name].astype(np.uint64) << np.uint64(shift)
        return np.ascontiguousarray(words.T)

    def unpack(self, words: Words, names: Sequence[str] | None = None) -> dict[str, Codes]:
        """Return the codes of some columns, all by default. In and out: private."""
        wanted = self.names if names is None else names
        found: dict[str, Codes] = {}
        for name, size, (word, shift) in zip(self.names, self.sizes, self.places, strict=True):
            if name in wanted:
                mask = np.uint64((1 << (size - 1).bit_length()) - 1)
                dtype = code_dtype(size)
                found[name] = (
                    ((words[:, word] >> np.uint64(shift)) & mask).astype(dtype)
                    if word < self.width
                    else np.zeros(len(words), dtype)
                )
        return {name: found[name] for name in wanted}


def chosen_rows(
    persons: Words, records: Words, max_rows: int, key: bytes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], Words]:
    """Choose at most ``max_rows`` rows of each person, by the rule in the head of this module.

    All rows of a person must be among those given. Whoever divides a table does it by persons: by the first bits of the first word, for example.

    Parameters
    ----------
    persons
        Two words for each row, from `person_keys`.
    records
        The records as words, from `RecordWords.pack`.
    max_rows
        Most rows of a person.
    key
        `KEY_BYTES` bytes; the second half counts.

    Returns
    -------
    tuple
        The places of the rows that stay, by the first and second word of their person and then by their own word; for each, whether it is the first of its person; and
        the words of *all* rows.

    Privacy
    -------
    In and out: private. The proof is in the head of this module.

    Examples
    --------
    >>> import pyarrow as pa
    >>> persons = person_keys(pa.array(["ann", "bob", "ann", "ann"]), bytes(32))
    >>> rows, first, _ = chosen_rows(persons, np.array([[5], [9], [2], [7]], np.uint64), 2, bytes(32))
    >>> len(rows), int(first.sum())
    (3, 2)
    """
    from understudy._compile import of_one_type
    from understudy.data.counting.person_kernels import choose

    check_max_rows(max_rows)
    check_key(key)
    most = min(int(max_rows), len(persons) + 1)
    rows, words, first = choose(of_one_type(persons), of_one_type(records), most, _half(key, 1))
    return rows, first, words


def first_words(
    persons: Words, records: Words, key: bytes, copies: npt.NDArray[np.int64] | None = None
) -> Words:
    """Return the words of rows, each with the number that is given, or as the first of its kind. Private."""
    from understudy._compile import of_one_type
    from understudy.data.counting.person_kernels import row_words

    numbers = np.zeros(len(persons), np.int64) if copies is None else copies
    words: Words = row_words(of_one_type(persons), of_one_type(records), of_one_type(numbers), _half(key, 1))
    return words


def number_of_equals(persons: Words, weights: npt.NDArray[np.int64]) -> tuple[Words, npt.NDArray[np.int64]]:
    """Return each person once, with the sum of its weights. Private."""
    order = np.lexsort((persons[:, 1], persons[:, 0]))
    persons = persons[order]
    if not len(persons):
        return persons, weights
    first = np.concatenate(([True], (persons[1:] != persons[:-1]).any(axis=1)))
    return persons[first], np.add.reduceat(weights[order], np.flatnonzero(first))


def parts_of_people(people: People, key: bytes) -> Iterator[tuple[npt.NDArray[np.int64], Words]]:
    """Iterate over parts of a table in memory, each with all rows of its persons, in the order of the persons' words: the places of the rows, and the words of their persons. Private."""
    check_key(key)
    hashed = hashed_texts(people.texts, key)
    rows = len(people)
    bits = max(0, min(16, (rows // ROWS_AT_ONCE).bit_length()))
    if not bits:
        yield np.arange(rows), hashed[people.numbers]
        return
    part = (hashed[:, 0] >> np.uint64(64 - bits)).astype(np.uint16)[people.numbers]
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange((1 << bits) + 1))
    for start, stop in pairwise(bounds):
        places = order[start:stop]
        yield places, hashed[people.numbers[places]]


def kept_rows(
    people: People, records: Callable[[npt.NDArray[np.int64]], Words], max_rows: int, key: bytes
) -> tuple[npt.NDArray[np.int64], Persons]:
    """Choose rows of a table in memory: the places of those that stay, in their order, and a number for each that is the same for rows of one person. Private.

    Parameters
    ----------
    people
        Whose the rows are.
    records
        Returns the records at some places as words.
    max_rows, key
        As for `chosen_rows`.
    """
    check_max_rows(max_rows)
    check_key(key)
    kept: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    firsts: list[npt.NDArray[np.bool_]] = [np.zeros(0, bool)]
    for places, persons in parts_of_people(people, key):
        rows, first, _ = chosen_rows(persons, records(places), max_rows, key)
        kept.append(places[rows])
        firsts.append(first)
    return np.concatenate(kept), np.cumsum(np.concatenate(firsts), dtype=np.int64) - 1


def words_of_rows(people: People, records: Words, key: bytes) -> Words:
    """Return the word of each row of a table in memory, as it is compared with those of the other rows of its person. Private."""
    check_key(key)
    words = np.empty(len(people), np.uint64)
    for places, persons in parts_of_people(people, key):
        words[places] = chosen_rows(persons, records[places], len(people) + 1, key)[2]
    return words


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
