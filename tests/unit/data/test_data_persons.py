"""Random truncation to a number of rows per person: the bound, the choice, and the ids kept secret."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from data_support import code_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import LocalTable, read_table
from understudy.data import persons as _persons
from understudy.data.persons import ids_from_pandas, kept_rows, kept_rows_of_stream, number_persons
from understudy.errors import BudgetError, DataError
from understudy.schema import Schema

LARGEST_WORD = 2**64 - 1


def words_from(seed):
    generator = np.random.default_rng(seed)
    return lambda n: generator.integers(0, LARGEST_WORD, n, dtype=np.uint64, endpoint=True)


def brute_force_kept(persons, words, max_rows):
    kept = np.zeros(len(persons), bool)
    for person in set(persons.tolist()):
        rows = sorted(np.flatnonzero(persons == person), key=lambda row: (int(words[row]), row))
        kept[rows[:max_rows]] = True
    return kept


@settings(max_examples=150, deadline=None)
@given(
    persons=st.lists(st.integers(0, 5), max_size=40),
    max_rows=st.integers(1, 6),
    few=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_kept_rows_equal_brute_force_with_ties_too(persons, max_rows, few, seed):
    persons = np.array(persons, np.int64)
    words = words_from(seed)(len(persons)) % np.uint64(3 if few else LARGEST_WORD)
    np.testing.assert_array_equal(
        kept_rows(persons, words, max_rows), brute_force_kept(persons, words, max_rows)
    )


@settings(max_examples=150, deadline=None)
@given(
    persons=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    person=st.integers(0, 5),
    max_rows=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_neighbouring_tables_differ_in_at_most_max_rows_rows(persons, person, max_rows, seed):
    """Coupling: the words of everybody else stay, wherever the person's rows stood in the table."""
    generator = np.random.default_rng(seed)
    ids = np.array(persons)
    codes = generator.integers(0, 4, len(ids))
    words = words_from(seed)(len(ids))
    schema = code_schema({"a": 4})
    others = ids != person
    with_person = LocalTable(schema, {"a": codes}, persons={"id": ids}).truncated("id", max_rows, words)
    without = LocalTable(schema, {"a": codes[others]}, persons={"id": ids[others]}).truncated(
        "id", max_rows, words[others]
    )
    change = with_person.count(("a",)) - without.count(("a",))
    assert (change >= 0).all()
    assert change.sum() <= max_rows


def test_an_untruncated_table_breaks_the_bound_that_the_test_above_checks():
    ids = np.array([0, 0, 0, 1])
    table = LocalTable(code_schema({"a": 2}), {"a": [1, 1, 1, 0]}, persons={"id": ids})
    truncated = table.truncated("id", 1, words_from(0))
    assert table.count(("a",)).tolist() == [1, 3]
    assert truncated.count(("a",)).tolist() == [1, 1]
    assert truncated.exact_row_count() == 2


def test_every_row_of_a_person_is_kept_equally_often():
    """Kept counts are Binomial(20000, 2/5) per row.

    False alarm: 1e-9 per row (two-sided, 6.11 deviations). Wrong answers caught: a share of .36 instead of
    .40 for any row lies 11 deviations away; keeping the first rows gives shares of 1 and 0.
    """
    draws, persons = 20_000, np.zeros(5, np.int64)
    source = words_from(2024)
    kept = sum(kept_rows(persons, source(5), 2).astype(int) for _ in range(draws))
    deviation = np.sqrt(draws * 0.4 * 0.6)
    assert np.all(np.abs(kept - 0.4 * draws) < 6.11 * deviation)
    assert abs(0.36 * draws - 0.4 * draws) > 6.11 * deviation


@pytest.mark.parametrize("max_rows", [0, -1, 1.5, True, "2"])
def test_bounds_that_make_no_sense_are_refused(max_rows):
    table = LocalTable(code_schema({"a": 2}), {"a": [1]}, persons={"id": [0]})
    with pytest.raises(BudgetError, match="whole number"):
        table.truncated("id", max_rows, words_from(0))


def test_an_id_column_that_was_not_read_is_named_in_the_error():
    table = LocalTable(code_schema({"a": 2}), {"a": [1]})
    with pytest.raises(DataError, match="id_column='who'"):
        table.truncated("who", 1, words_from(0))


@pytest.mark.parametrize("words", [np.zeros(3, np.uint64), np.zeros(2), lambda n: np.zeros(n + 1, np.uint64)])
def test_words_of_the_wrong_kind_are_refused(words):
    table = LocalTable(code_schema({"a": 2}), {"a": [1, 0]}, persons={"id": [0, 0]})
    with pytest.raises(DataError, match="one random 64-bit"):
        table.truncated("id", 1, words)


@pytest.mark.parametrize("ids", [[0], ["x", "y"], [0.5, 1.0]])
def test_person_numbers_must_be_one_whole_number_per_row(ids):
    with pytest.raises(DataError, match="one whole number per row"):
        LocalTable(code_schema({"a": 2}), {"a": [1, 0]}, persons={"id": ids})


# -- ids of every type, at once and streamed ----------------------------------------------------------

IDS = {
    "text": pa.array(["b", "a", "b", "-", "a", "ü"]),
    "large text": pa.array(["b", "a", "b", "-", "a", "ü"], pa.large_string()),
    "numbers": pa.array([7, -1, 7, 2**62, -1, 0]),
    "unsigned": pa.array([7, 2**64 - 1, 7, 3, 2**64 - 1, 0], pa.uint64()),
    "reals": pa.array([1.0, 2.0, 1.0, 3.0, 2.0, 4.5]),
    "dictionary": pa.array(["b", "a", "b", "-", "a", "ü"]).dictionary_encode(),
    "dates": pa.array([1, 2, 1, 3, 2, 4], pa.date32()),
}
SAME = [0, 1, 0, 2, 1, 3]


@pytest.mark.parametrize("kind", IDS)
def test_equal_ids_get_equal_numbers_across_batches(kind):
    ids = IDS[kind]
    for batches in ([ids], [ids.slice(0, 2), ids.slice(2)], [ids.slice(0, 0), ids]):
        assert number_persons(batches, "id").tolist() == SAME


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("rows_per_part", [1, 2, 6, 100])
def test_streamed_truncation_equals_truncation_in_memory(kind, rows_per_part, monkeypatch):
    monkeypatch.setattr(_persons, "ROWS_PER_PART", rows_per_part)
    ids = (
        pa.concat_arrays([IDS[kind]] * 5)
        if kind != "dictionary"
        else pa.array(["b", "a", "b", "-", "a", "ü"] * 5)
    )
    if kind == "dictionary":
        ids = ids.dictionary_encode()
    words = words_from(5)(len(ids))
    kept = kept_rows_of_stream(
        lambda: iter([ids.slice(0, 7), ids.slice(7, 0), ids.slice(7)]), "id", rows=30, max_rows=3, words=words
    )
    np.testing.assert_array_equal(kept, brute_force_kept(np.array(SAME * 5), words, 3))


def test_streamed_truncation_draws_its_words_from_a_source(monkeypatch):
    monkeypatch.setattr(_persons, "ROWS_PER_PART", 4)
    ids = pa.array(["a", "b"] * 10)
    kept = kept_rows_of_stream(lambda: iter([ids]), "id", rows=20, max_rows=3, words=words_from(1))
    assert kept.sum() == 6


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["a", None]),
        pa.array([1.0, float("nan")]),
        pa.array([None, 3]),
        *(pa.array(["a", word]) for word in ("NA", "n/a", " null ", "None", "nan", "<NA>", "", "  ")),
        pa.array(["a", "NA"]).dictionary_encode(),
        pa.array(["a", "NA"], pa.large_string()),
    ],
)
def test_missing_ids_are_refused(ids):
    """Words for a missing entry count as missing in every column, so they do here: all whose id is unknown would count as one person."""
    with pytest.raises(DataError, match="no value in the id column 'who'"):
        number_persons([ids], "who")
    with pytest.raises(DataError, match="no value in the id column 'who'"):
        kept_rows_of_stream(lambda: iter([ids]), "who", rows=2, max_rows=1, words=words_from(0))
    with pytest.raises(DataError, match="no value in the id column 'who'"):
        ids_from_pandas(ids.to_pandas(), "who")


def test_words_that_only_look_alike_are_ids():
    ids = pa.array(["NA1", "nano", "0", "-"])
    assert number_persons([ids], "who").tolist() == [0, 1, 2, 3]
    assert ids_from_pandas(ids.to_pandas(), "who").tolist() == [0, 1, 2, 3]


def test_nested_ids_are_refused_without_showing_them():
    with pytest.raises(DataError, match="must hold text") as caught:
        number_persons([pa.array([["canary"], ["canary"]])], "who")
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("per_part", [1 << 22, 3])
def test_rows_of_one_person_are_known_on_disk_as_in_memory(tmp_path, monkeypatch, per_part):
    """Whether a file fits into memory depends on private things, so a mechanism must be able to do the same with its rows."""
    monkeypatch.setattr("understudy.data.persons.ROWS_PER_PART", per_part)
    schema = Schema.parse("columns: [{name: ward, kind: integer, minimum: 0, maximum: 99}]")
    frame = pd.DataFrame({"ward": range(12), "id": list("abcabcaaaxyx")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = []
    for memory in (1024, 0):
        table = read_table(tmp_path / "t.csv", schema, id_column="id", max_memory_mb=memory)
        cut = table.truncated("id", 2, np.arange(12, dtype=np.uint64))
        wards = np.concatenate([chunk["ward"] for chunk in cut.chunks()])
        groups: dict[int, set[int]] = {}
        for who, ward in zip(cut.whose.tolist(), wards.tolist(), strict=True):
            groups.setdefault(who, set()).add(ward)
        found.append((type(cut).__name__, sorted(map(sorted, groups.values()))))
    assert [name for name, _ in found] == ["LocalTable", "ArrowTable"]
    assert found[0][1] == found[1][1] == [[0, 3], [1, 4], [2, 5], [9, 11], [10]]
