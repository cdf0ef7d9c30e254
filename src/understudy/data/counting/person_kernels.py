"""Compiled loops that find the rows of each person and choose among them. Import this module only when rows are cut by person.

The hash is SipHash-2-4 (Aumasson and Bernstein, 2012), a pseudorandom function made for short messages: under a secret key its values cannot be
told from independent random words. ``tests/unit/data/test_person_kernels.py`` holds it to the vectors of its authors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from understudy._compile import compiled, inner

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

_SMALL = 24  # so many rows are put in order by insertion


@inner(nogil=True)
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    """Return the state after one round of SipHash."""
    v0 = v0 + v1
    v1 = (v1 << np.uint64(13)) | (v1 >> np.uint64(51))
    v1 = v1 ^ v0
    v0 = (v0 << np.uint64(32)) | (v0 >> np.uint64(32))
    v2 = v2 + v3
    v3 = (v3 << np.uint64(16)) | (v3 >> np.uint64(48))
    v3 = v3 ^ v2
    v0 = v0 + v3
    v3 = (v3 << np.uint64(21)) | (v3 >> np.uint64(43))
    v3 = v3 ^ v0
    v2 = v2 + v1
    v1 = (v1 << np.uint64(17)) | (v1 >> np.uint64(47))
    v1 = v1 ^ v2
    v2 = (v2 << np.uint64(32)) | (v2 >> np.uint64(32))
    return v0, v1, v2, v3


@compiled(nogil=True)
def hash_texts(offsets: npt.NDArray[np.int64], text: npt.NDArray[np.uint8], key: Words) -> Words:
    """Return the 128-bit SipHash-2-4 of each text as two words; ``text[offsets[i]:offsets[i + 1]]`` is the i-th."""
    n = len(offsets) - 1
    hashes = np.empty((n, 2), np.uint64)
    for i in range(n):
        v0 = key[0] ^ np.uint64(0x736F6D6570736575)
        v1 = key[1] ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
        v2 = key[0] ^ np.uint64(0x6C7967656E657261)
        v3 = key[1] ^ np.uint64(0x7465646279746573)
        begin, end = offsets[i], offsets[i + 1]
        length = end - begin
        for place in range(begin, begin + length // 8 * 8, 8):
            m = np.uint64(0)
            for byte in range(8):
                m |= np.uint64(text[place + byte]) << np.uint64(8 * byte)
            v3 ^= m
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= m
        m = np.uint64(length) << np.uint64(56)
        for place in range(begin + length // 8 * 8, end):
            m |= np.uint64(text[place]) << np.uint64(8 * ((place - begin) % 8))
        v3 ^= m
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= m
        v2 ^= np.uint64(0xEE)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[i, 0] = v0 ^ v1 ^ v2 ^ v3
        v1 ^= np.uint64(0xDD)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[i, 1] = v0 ^ v1 ^ v2 ^ v3
    return hashes


@inner(nogil=True)
def _row_word(persons: Words, records: Words, row: Any, copy: Any, key: Words) -> Any:
    """Return the 64-bit SipHash-2-4 of a person, a record and a number, as words of 8 bytes."""
    v0 = key[0] ^ np.uint64(0x736F6D6570736575)
    v1 = key[1] ^ np.uint64(0x646F72616E646F6D)
    v2 = key[0] ^ np.uint64(0x6C7967656E657261)
    v3 = key[1] ^ np.uint64(0x7465646279746573)
    width = records.shape[1]
    for i in range(width + 4):
        if i < 2:
            m = persons[row, i]
        elif i < width + 2:
            m = records[row, i - 2]
        elif i == width + 2:
            m = np.uint64(copy)
        else:
            m = np.uint64(8 * (width + 3)) << np.uint64(56)
        v3 ^= m
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= m
    v2 ^= np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@compiled(nogil=True)
def row_words(persons: Words, records: Words, copies: Places, key: Words) -> Words:
    """Return the word of each row: a keyed hash of its person, its record, and how many equal rows of the person came before."""
    words = np.empty(len(persons), np.uint64)
    for row in range(len(words)):
        words[row] = _row_word(persons, records, row, copies[row], key)
    return words


@inner(nogil=True)
def _before(persons: Words, records: Words, words: Words, copies: Places, one: Any, two: Any) -> Any:
    """Say whether a row comes before another: by person, word, record, number."""
    if persons[one, 0] != persons[two, 0]:
        return persons[one, 0] < persons[two, 0]
    if persons[one, 1] != persons[two, 1]:
        return persons[one, 1] < persons[two, 1]
    if words[one] != words[two]:
        return words[one] < words[two]
    for i in range(records.shape[1]):
        if records[one, i] != records[two, i]:
            return records[one, i] < records[two, i]
    return copies[one] < copies[two]


@inner(nogil=True)
def _sort(
    persons: Words, records: Words, words: Words, copies: Places, order: Places, start: Any, stop: Any
) -> None:
    """Put ``order[start:stop]`` in the order of `_before`: by insertion if it is short, as a heap otherwise."""
    size = stop - start
    if size <= _SMALL:
        for i in range(start + 1, stop):
            moved = order[i]
            place = i
            while place > start and _before(persons, records, words, copies, moved, order[place - 1]):
                order[place] = order[place - 1]
                place -= 1
            order[place] = moved
        return
    heap = size // 2
    end = size
    while end > 1:
        if heap > 0:
            heap -= 1
            moved = order[start + heap]
        else:
            end -= 1
            moved = order[start + end]
            order[start + end] = order[start]
            if end == 1:
                order[start] = moved
                break
        place = heap
        child = 2 * place + 1
        while child < end:
            if child + 1 < end and _before(
                persons, records, words, copies, order[start + child], order[start + child + 1]
            ):
                child += 1
            if not _before(persons, records, words, copies, moved, order[start + child]):
                break
            order[start + place] = order[start + child]
            place = child
            child = 2 * place + 1
        order[start + place] = moved


@compiled(nogil=True)
def choose(persons: Words, records: Words, max_rows: int, key: Words) -> Any:
    """Return the rows that stay, person by person, and for each its word and whether it is the first of its person.

    Parameters
    ----------
    persons
        Two words for each row, the same for rows of one person.
    records
        The record of each row as words.
    max_rows
        Most rows of a person that stay.
    key
        Two words.

    Persons come in the order of their words, and the rows of a person in the order of theirs, so that the order of the rows in the arrays plays no part.
    """
    n = len(persons)
    copies = np.zeros(n, np.int64)
    words = np.empty(n, np.uint64)
    for row in range(n):
        words[row] = _row_word(persons, records, row, 0, key)
    # Rows that share the bits of a person that vary most: as many bins as rows, nearly.
    low, high = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)
    for row in range(n):
        low = min(low, persons[row, 0])
        high = max(high, persons[row, 0])
    shift = 0
    while n and ((high - low) >> np.uint64(shift)) > np.uint64(2 * n):
        shift += 1
    starts = np.zeros(int((high - low) >> np.uint64(shift)) + 2 if n else 1, np.int64)
    for row in range(n):
        starts[int((persons[row, 0] - low) >> np.uint64(shift)) + 1] += 1
    for i in range(1, len(starts)):
        starts[i] += starts[i - 1]
    order = np.empty(n, np.int64)
    for row in range(n):
        i = int((persons[row, 0] - low) >> np.uint64(shift))
        order[starts[i]] = row
        starts[i] += 1
    begin = 0
    for i in range(len(starts) - 1):
        _sort(persons, records, words, copies, order, begin, starts[i])
        begin = starts[i]
    kept = np.empty(n, np.int64)
    first = np.zeros(n, np.bool_)
    size = 0
    begin = 0
    while begin < n:
        end = begin + 1
        repeated = False
        while (
            end < n
            and persons[order[end], 0] == persons[order[begin], 0]
            and persons[order[end], 1] == persons[order[begin], 1]
        ):
            one, two = order[end - 1], order[end]
            if words[one] == words[two]:
                same = True
                for i in range(records.shape[1]):
                    if records[one, i] != records[two, i]:
                        same = False
                if same:
                    copies[two] = copies[one] + 1
                    repeated = True
            end += 1
        if repeated:
            for place in range(begin, end):
                if copies[order[place]] > 0:
                    words[order[place]] = _row_word(persons, records, order[place], copies[order[place]], key)
            _sort(persons, records, words, copies, order, begin, end)
        for place in range(begin, min(end, begin + max_rows)):
            kept[size] = order[place]
            first[size] = place == begin
            size += 1
        begin = end
    return kept[:size], words, first[:size]


@compiled(nogil=True)
def grouped(rows: Words, by: Words, low: np.uint64, shift: np.uint64, groups: int) -> Any:
    """Return rows put together in groups, and where each group begins: a row is in group ``(by - low) >> shift``."""
    bounds = np.zeros(groups + 2, np.int64)
    for row in range(len(rows)):
        bounds[int((by[row] - low) >> shift) + 2] += 1
    for group in range(2, groups + 2):
        bounds[group] += bounds[group - 1]
    found = np.empty(rows.shape, np.uint64)
    width = rows.shape[1]
    for row in range(len(rows)):
        group = int((by[row] - low) >> shift) + 1
        place = bounds[group]
        for i in range(width):
            found[place, i] = rows[row, i]
        bounds[group] = place + 1
    return found, bounds[: groups + 1]
