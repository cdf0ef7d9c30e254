"""The in-memory table: what it accepts, what it answers, what it never shows."""

from __future__ import annotations

import numpy as np
import pytest
from data_support import all_cliques, brute_force_counts, code_schema, random_codes
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import LocalTable, Table
from understudy.data.counting.counting import distinct_records, merge_distinct
from understudy.errors import DataError, WorkloadError

SIZES = {"a": 2, "b": 300, "c": 7}


@pytest.fixture(scope="module")
def codes():
    return random_codes(SIZES, 100)


@pytest.fixture(scope="module")
def table(codes):
    return LocalTable(code_schema(SIZES), codes)


def test_it_is_a_table(table):
    assert isinstance(table, Table)
    assert table.schema.domain.names == ("a", "b", "c")
    assert table.exact_row_count() == 100


def test_columns_are_held_in_the_smallest_type_and_cannot_be_written(table):
    (chunk,) = table.chunks()
    assert [chunk[name].dtype.name for name in SIZES] == ["uint8", "uint16", "uint8"]
    with pytest.raises(ValueError, match="read-only"):
        chunk["a"][0] = 1


def test_later_changes_of_the_source_arrays_do_not_reach_the_table():
    mine = np.array([0, 1], np.uint8)
    table = LocalTable(code_schema({"a": 2}), {"a": mine})
    mine[:] = 1
    assert table.count(("a",)).tolist() == [1, 1]


def test_counts_equal_brute_force(table, codes):
    cliques = all_cliques(SIZES)
    for clique, counts in zip(cliques, table.count_many(cliques), strict=True):
        np.testing.assert_array_equal(counts, brute_force_counts(codes, SIZES, clique, 100))
    assert table.count(()).shape == ()
    assert int(table.count(())) == 100


def test_repr_shows_neither_values_nor_rows(table):
    assert repr(table) == "LocalTable(3 columns; records not shown)"


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_single_row_tables_are_legal(rows):
    table = LocalTable(code_schema(SIZES), {name: np.zeros(rows, np.uint8) for name in SIZES})
    assert table.exact_row_count() == rows
    assert table.count(("a", "c")).sum() == rows
    found, counts = table.distinct(("a", "b"))
    assert found.shape == (rows, 2)
    assert counts.sum() == rows
    assert len(list(table.chunks())) == rows


@pytest.mark.parametrize("rows", [1, 7, 50, 99, 100, 1000])
def test_chunks_cover_every_row_once_and_in_order(table, codes, rows):
    chunks = list(table.chunks(["c", "a"], rows=rows))
    assert all(list(chunk) == ["c", "a"] and len(chunk["a"]) <= rows for chunk in chunks)
    np.testing.assert_array_equal(np.concatenate([chunk["c"] for chunk in chunks]), codes["c"])


def test_all_problems_are_reported_at_once_without_values():
    bad = {"a": [0, 2], "b": [0.5, 1.0], "extra": [123456, 654321]}
    with pytest.raises(DataError) as caught:
        LocalTable(code_schema(SIZES), bad)
    message = str(caught.value)
    for part in ("'a' has codes outside 0 to 1", "'b' must be", "'c' is missing", "does not declare"):
        assert part in message
    assert "123456" not in message
    assert "extra" not in message


@pytest.mark.parametrize("codes", [[-1, 0], [[0, 1]], ["0", "1"], [0, None]])
def test_codes_that_are_no_codes_are_refused(codes):
    with pytest.raises(DataError):
        LocalTable(code_schema({"a": 2}), {"a": codes})


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(DataError, match="different lengths"):
        LocalTable(code_schema({"a": 2, "b": 2}), {"a": [0, 1], "b": [0]})


@pytest.mark.parametrize("columns", [("x",), ("a", "a")])
def test_unknown_and_repeated_columns_are_refused(table, columns):
    for ask in (table.count, table.distinct, lambda names: next(table.chunks(names))):
        with pytest.raises(WorkloadError):
            ask(columns)


def test_chunks_of_no_rows_are_refused(table):
    with pytest.raises(DataError, match="at least one row"):
        next(table.chunks(rows=0))


# -- distinct records ---------------------------------------------------------------------------------


def brute_force_distinct(columns, rows):
    seen = {}
    for row in range(rows):
        record = tuple(int(column[row]) for column in columns)
        seen[record] = seen.get(record, 0) + 1
    return sorted(seen.items())


@settings(max_examples=80, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 3, 256, 65536, 65537, 2**31]), min_size=0, max_size=7),
    rows=st.integers(0, 30),
    seed=st.integers(0, 2**32 - 1),
)
def test_distinct_records_equal_brute_force_beyond_64_bits_too(sizes, rows, seed):
    generator = np.random.default_rng(seed)
    # few distinct values per column, near both ends, so that records repeat
    columns = [
        np.where(generator.random(rows) < 0.5, generator.integers(0, min(size, 2), rows), size - 1).astype(
            np.uint32
        )
        for size in sizes
    ]
    codes, counts = distinct_records(columns, sizes, rows=rows)
    found = [(tuple(map(int, record)), int(n)) for record, n in zip(codes, counts, strict=True)]
    assert found == brute_force_distinct(columns, rows)


def test_distinct_follows_the_order_of_columns_asked_for(table, codes):
    found, counts = table.distinct(("c", "a"))
    expected = brute_force_distinct([codes["c"], codes["a"]], 100)
    assert [tuple(map(int, record)) for record in found] == [record for record, _ in expected]
    assert counts.tolist() == [n for _, n in expected]


@pytest.mark.parametrize("parts", [1, 2, 13])
def test_merged_parts_equal_the_whole(codes, parts, monkeypatch):
    from understudy.data.counting import counting as _records

    monkeypatch.setattr(_records, "_MERGE_ROWS", 10)
    columns = [codes[name].astype(np.uint16) for name in SIZES]
    sizes = list(SIZES.values())
    pieces = zip(*(np.array_split(column, parts) for column in columns), strict=True)
    merged = merge_distinct((distinct_records(piece, sizes, rows=len(piece[0])) for piece in pieces), sizes)
    whole = distinct_records(columns, sizes, rows=100)
    for left, right in zip(merged, whole, strict=True):
        np.testing.assert_array_equal(left, right)
