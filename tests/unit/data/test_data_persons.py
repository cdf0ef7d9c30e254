"""Rows of a person chosen by a key: the bound, the choice, who is who, and the ids kept secret."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_support import code_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import ArrowTable, LocalTable, read_table
from understudy.data import persons as _persons
from understudy.data.entries import read_entries
from understudy.data.events import EventsTable
from understudy.data.persons import (
    People,
    RecordWords,
    chosen_rows,
    id_text,
    ids_from_pandas,
    number_persons,
    person_keys,
    require_ids,
)
from understudy.errors import BudgetError, DataError
from understudy.schema import Domain, Schema


def key_of(seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(32)


# -- the hash -----------------------------------------------------------------------------------------

_MASK = 2**64 - 1


def siphash(message: bytes, key: bytes, *, size: int) -> bytes:
    """SipHash-2-4 as it is published, in plain Python."""
    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def left(x: int, bits: int) -> int:
        return ((x << bits) | (x >> (64 - bits))) & _MASK

    def rounds(number: int) -> None:
        for _ in range(number):
            v[0], v[2] = (v[0] + v[1]) & _MASK, (v[2] + v[3]) & _MASK
            v[1], v[3] = left(v[1], 13) ^ v[0], left(v[3], 16) ^ v[2]
            v[0] = left(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) & _MASK, (v[0] + v[3]) & _MASK
            v[1], v[3] = left(v[1], 17) ^ v[2], left(v[3], 21) ^ v[0]
            v[2] = left(v[2], 32)

    if size == 16:
        v[1] ^= 0xEE
    whole = len(message) // 8 * 8
    last = (len(message) % 256) << 56 | int.from_bytes(message[whole:], "little")
    for m in [*(int.from_bytes(message[at : at + 8], "little") for at in range(0, whole, 8)), last]:
        v[3] ^= m
        rounds(2)
        v[0] ^= m
    v[2] ^= 0xEE if size == 16 else 0xFF
    rounds(4)
    out = (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    if size == 8:
        return out
    v[1] ^= 0xDD
    rounds(4)
    return out + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("length", "digest"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
    ],
)
def test_the_hash_of_persons_gives_the_vectors_of_its_authors(length, digest):
    message, key = bytes(range(length)), bytes(range(16))
    assert siphash(message, key, size=16).hex() == digest
    words = _persons.hashed_texts(pa.array([message], pa.large_binary()), key + bytes(16))
    assert words.astype("<u8").tobytes().hex() == digest


def test_the_hash_of_rows_gives_the_vector_of_its_authors():
    assert siphash(bytes(range(15)), bytes(range(16)), size=8)[::-1].hex() == "a129ca6149be45e5"


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.text(), min_size=1, max_size=8), key=st.binary(min_size=32, max_size=32))
def test_persons_are_hashed_as_published(texts, key):
    texts = ["-" + text.encode("utf-8", "surrogatepass").decode("utf-8", "ignore") for text in texts]
    found = person_keys(pa.array(texts), key)
    wanted = [siphash(text.encode(), key[:16], size=16) for text in texts]
    assert [row.astype("<u8").tobytes() for row in found] == wanted


# -- the choice ---------------------------------------------------------------------------------------


def reference(
    rows: list[tuple[str, tuple[int, ...]]], layout: RecordWords, max_rows: int, key: bytes
) -> Counter:
    """The definition, row by row, in plain Python: the smallest hashes of person, record and number among equal rows."""
    seen: Counter = Counter()
    named = defaultdict(list)
    for who, codes in rows:
        number = seen[who, codes]
        seen[who, codes] += 1
        columns = {name: np.array([code]) for name, code in zip(layout.names, codes, strict=True)}
        packed = layout.pack(columns)[0].astype("<u8").tobytes()
        message = siphash(who.encode(), key[:16], size=16) + packed + number.to_bytes(8, "little")
        word = int.from_bytes(siphash(message, key[16:], size=8), "little")
        named[who].append((word, codes, number))
    return Counter((who, codes) for who, mine in named.items() for _, codes, _ in sorted(mine)[:max_rows])


SIZES = {"a": 3, "b": 300, "c": 1, "d": 2**31}
SMALL = code_schema({"a": 3, "b": 2})

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "-", "ü"]),
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.just(0), st.sampled_from([0, 2**31 - 1])),
    ),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(rows=ROWS, max_rows=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_the_rows_that_stay_are_those_of_the_definition(rows, max_rows, seed):
    key, layout = key_of(seed), RecordWords.of(Domain(tuple(SIZES), tuple(SIZES.values())))
    persons = person_keys(pa.array([who for who, _ in rows], pa.string()), key)
    codes = np.array([codes for _, codes in rows], np.int64).reshape(-1, 4)
    records = layout.pack({name: codes[:, place] for place, name in enumerate(SIZES)}, len(rows))
    kept, first, _ = chosen_rows(persons, records, max_rows, key)
    assert Counter(rows[row] for row in kept) == reference(rows, layout, max_rows, key)
    assert first.sum() == len({who for who, _ in rows})
    assert np.all(np.diff(persons[kept, 0].astype(object)) >= 0)


def cut(source, schema: Schema, max_rows: int, key: bytes, **options) -> list[tuple[int, ...]]:
    """The rows that stay, in their order, with whose they are."""
    table = read_table(source, schema, id_column="who", **options).truncated("who", max_rows, key)
    codes = [np.concatenate([chunk[name] for chunk in table.chunks()]) if table.exact_row_count() else np.zeros(0) for name in schema.names]  # fmt: skip
    return list(zip(table.whose.tolist(), *(column.tolist() for column in codes), strict=True))


def frame_of(people, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    n = len(people)
    return pd.DataFrame({"who": people, "a": rng.integers(0, 3, n), "b": rng.integers(0, 2, n)})


def stored(frame: pd.DataFrame, folder, kind: str):
    """A source of a kind, and how to read it."""
    if kind == "frame":
        return frame, {}
    if kind == "arrow":
        return pa.Table.from_pandas(frame, preserve_index=False), {}
    path = folder / f"t{len(list(folder.iterdir()))}.{'csv' if kind.startswith('csv') else 'parquet'}"
    if kind.startswith("csv"):
        frame.to_csv(path, index=False)
    else:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=7)
    return path, {"max_memory_mb": 0 if kind.endswith("streamed") else 1024}


KINDS = ["frame", "arrow", "csv", "csv streamed", "parquet", "parquet streamed"]


@pytest.mark.parametrize("trial", range(6))
def test_one_key_keeps_the_same_rows_of_every_source_in_every_order(tmp_path, monkeypatch, trial):
    rng = np.random.default_rng(trial)
    people = rng.integers(0, 12, 150)
    frame = frame_of(people, trial)
    if trial % 2:
        frame["who"] = [f"p{who}" for who in people]
    wanted = cut(frame, SMALL, 3, key_of(trial))
    assert len(wanted) < 150
    for place, kind in enumerate(KINDS):
        monkeypatch.setattr("understudy.data.files.dataset.BATCH_ROWS", int(rng.integers(1, 40)))
        monkeypatch.setattr("understudy.data.files.csv._BLOCK_BYTES", 300 + 50 * place)
        monkeypatch.setattr(_persons, "ROWS_AT_ONCE", int(rng.integers(1, 60)))
        source, options = stored(frame.sample(frac=1, random_state=place), tmp_path, kind)
        assert cut(source, SMALL, 3, key_of(trial), **options) == wanted
    assert cut(frame, SMALL, 3, key_of(trial + 1)) != wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", ["add", "remove", "replace"])
def test_one_person_changes_the_rows_that_stay_by_what_the_unit_says(tmp_path, kind, relation):
    """Random neighbours, with more and fewer rows than stay; the rows of everybody else are the same in both."""
    rng = np.random.default_rng(len(kind) + len(relation))
    for trial in range(8):
        max_rows = int(rng.integers(1, 4))
        people = rng.integers(0, 6, 40)
        frame = frame_of(people, trial)
        others = frame[frame["who"] != 3]
        come = frame_of([3 if rng.random() < 0.5 else 99] * int(rng.integers(1, 9)), trial + 50)
        one, two = {
            "add": (others, pd.concat([come, others])),
            "remove": (frame, others),
            "replace": (frame, pd.concat([others, come])),
        }[relation]
        kept = []
        for table in (one, two.sample(frac=1, random_state=trial)):
            source, options = stored(table, tmp_path, kind)
            kept.append(Counter(row[1:] for row in cut(source, SMALL, max_rows, key_of(trial), **options)))
        lost, gained = sum((kept[0] - kept[1]).values()), sum((kept[1] - kept[0]).values())
        assert lost <= (0 if relation == "add" else max_rows)
        assert gained <= (0 if relation == "remove" else max_rows)


@settings(max_examples=150, deadline=None)
@given(
    persons=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    person=st.integers(0, 5),
    max_rows=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_neighbouring_tables_differ_in_at_most_max_rows_rows(persons, person, max_rows, seed):
    ids, key = np.array(persons), key_of(seed)
    codes = np.random.default_rng(seed).integers(0, 4, len(ids))
    schema = code_schema({"a": 4})
    others = ids != person
    whole = LocalTable(schema, {"a": codes}, persons={"id": ids}).truncated("id", max_rows, key)
    without = LocalTable(schema, {"a": codes[others]}, persons={"id": ids[others]}).truncated(
        "id", max_rows, key
    )
    change = whole.count(("a",)) - without.count(("a",))
    assert (change >= 0).all()
    assert change.sum() <= max_rows


def test_an_untruncated_table_breaks_the_bound_that_the_test_above_checks():
    ids = np.array([0, 0, 0, 1])
    table = LocalTable(code_schema({"a": 2}), {"a": [1, 1, 1, 0]}, persons={"id": ids})
    truncated = table.truncated("id", 1, key_of(0))
    assert table.count(("a",)).tolist() == [1, 3]
    assert truncated.count(("a",)).tolist() == [1, 1]
    assert truncated.exact_row_count() == 2


def test_every_set_of_rows_is_equally_likely():
    """Two of five rows (records 0, 0, 0, 1, 2) of 20,000 persons: sets of records have chances 3, 3, 3, 1 in 10 (both zeros; 0 and 1; 0 and 2; 1 and 2).

    False alarm: 1e-9 in each of four cells (two-sided, 6.11 deviations). Wrong answers caught: a hash of the record without the number among equal rows
    never keeps one zero without the others; a choice that favours a record by a tenth of its share lies 8 deviations away.
    """
    persons = 20_000
    who = np.repeat(np.arange(persons), 5)
    a = np.tile([0, 0, 0, 1, 2], persons)
    schema = code_schema({"a": 3})
    table = LocalTable(schema, {"a": a}, persons={"who": who}).truncated("who", 2, key_of(7))
    (chunk,) = table.chunks()
    pairs = Counter(tuple(sorted(pair)) for pair in chunk["a"].reshape(-1, 2).tolist())
    wanted = Counter(tuple(sorted(pair)) for pair in combinations([0, 0, 0, 1, 2], 2))
    assert sum(pairs.values()) == persons
    for pair, ways in wanted.items():
        share = ways / 10
        assert abs(pairs[pair] - persons * share) < 6.11 * np.sqrt(persons * share * (1 - share))
    assert abs(persons * 0.03) > 6.11 * np.sqrt(persons * 0.21)


def test_every_row_of_one_person_is_kept_equally_often_over_keys():
    """Six different records of one person, two kept, 3,000 keys: each is kept with probability 1/3.

    False alarm: 1e-9 per record (6.11 deviations). Caught: a share of .27 or of .39 for any record lies 7 deviations away.
    """
    draws, records = 3_000, np.arange(6, dtype=np.uint64).reshape(-1, 1)
    kept = np.zeros(6)
    for seed in range(draws):
        key = key_of(seed)
        rows, _, _ = chosen_rows(person_keys(pa.array(["x"] * 6), key), records, 2, key)
        kept[rows] += 1
    assert np.all(np.abs(kept - draws / 3) < 6.11 * np.sqrt(draws * 2 / 9))


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("max_rows", [0, -1, 1.5, True, "2"])
def test_bounds_that_make_no_sense_are_refused(max_rows):
    table = LocalTable(code_schema({"a": 2}), {"a": [1]}, persons={"id": [0]})
    with pytest.raises(BudgetError, match="whole number"):
        table.truncated("id", max_rows, key_of(0))


def test_an_id_column_that_was_not_read_is_named_in_the_error():
    table = LocalTable(code_schema({"a": 2}), {"a": [1]})
    with pytest.raises(DataError, match="id_column='who'"):
        table.truncated("who", 1, key_of(0))


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(33), "0" * 32, None, np.zeros(4, np.uint64)])
def test_keys_of_the_wrong_kind_are_refused(key, tmp_path):
    table = LocalTable(code_schema({"a": 2}), {"a": [1, 0]}, persons={"id": [0, 0]})
    with pytest.raises(DataError, match="32 random bytes"):
        table.truncated("id", 1, key)
    pq.write_table(pa.table({"a": [0, 1], "id": [0, 0]}), tmp_path / "t.parquet")
    streamed = ArrowTable(tmp_path / "t.parquet", code_schema({"a": 2}), id_column="id")
    with pytest.raises(DataError, match="32 random bytes"):
        streamed.truncated("id", 1, key)


@pytest.mark.parametrize("ids", [[0], ["x", "y"], [0.5, 1.0]])
def test_person_numbers_must_be_one_whole_number_per_row(ids):
    with pytest.raises(DataError, match="one whole number per row"):
        LocalTable(code_schema({"a": 2}), {"a": [1, 0]}, persons={"id": ids})


# -- ids of every type, at once and streamed ----------------------------------------------------------

IDS = {
    "text": pa.array(["b", "a", "b", "-", "a", "ü"]),
    "large text": pa.array(["b", "a", "b", "-", "a", "ü"], pa.large_string()),
    "views": pa.array(["b", "a", "b", "-", "a", "ü"], pa.string_view()),
    "numbers": pa.array([7, -1, 7, 2**62, -1, 0]),
    "unsigned": pa.array([7, 2**64 - 1, 7, 3, 2**64 - 1, 0], pa.uint64()),
    "reals": pa.array([1.0, 2.0, 1.0, 3.0, 2.0, 4.5]),
    "large reals": pa.array([1e300, -0.0, 1e300, float("inf"), 0.0, 4.5]),
    "decimals": pa.array([decimal.Decimal(x) for x in ("1.50", "7", "1.5", "3", "7.00", "-2")]),
    "dictionary": pa.array(["b", "a", "b", "-", "a", "ü"]).dictionary_encode(),
    "dates": pa.array([1, 2, 1, 3, 2, 4], pa.date32()),
    "moments": pa.array([1, 2, 1, 3, 2, 4], pa.timestamp("ns")),
    "moments with a zone": pa.array([1, 2, 1, 3, 2, 4], pa.timestamp("us", "Europe/Berlin")),
    "truth": pa.array([True, False, True, True, False, True]),
    "bytes": pa.array([b"b", b"a", b"b", b"", b"a", b"\xff"]),
}
SAME = [0, 1, 0, 2, 1, 3]


@pytest.mark.parametrize("kind", IDS)
def test_equal_ids_are_one_person_across_batches(kind):
    ids = IDS[kind]
    same = [0, 1, 0, 0, 1, 0] if kind == "truth" else SAME
    for batches in ([ids], [ids.slice(0, 2), ids.slice(2)], [ids.slice(0, 0), ids]):
        assert number_persons(batches, "id").numbers.tolist() == same
    words = person_keys(ids, key_of(1))
    assert [row.tobytes() for row in words] == [words[same.index(number)].tobytes() for number in same]
    assert len({row.tobytes() for row in words}) == len(set(same))
    np.testing.assert_array_equal(
        words, np.concatenate([person_keys(ids.slice(at, 2), key_of(1)) for at in (0, 2, 4)])
    )
    texts = number_persons([ids], "id").texts
    np.testing.assert_array_equal(_persons.hashed_texts(texts, key_of(1))[same], words)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (pa.array([7, 8]), pa.array(["7", "8"])),
        (pa.array([7, 8]), pa.array([7.0, 8.0])),
        (pa.array([7, 8], pa.uint8()), pa.array([decimal.Decimal("7.00"), decimal.Decimal("8.00")])),
        (pa.array([0, 1], pa.date32()), pa.array(["1970-01-01", "1970-01-02"])),
        (pa.array([0, 86_400], pa.timestamp("s")), pa.array([0, 1], pa.date32())),
        (pa.array([0, 1], pa.timestamp("s", "UTC")), pa.array([0, 10**9], pa.timestamp("ns", "Asia/Tokyo"))),
        (pa.array([1500], pa.timestamp("ms")), pa.array(["1970-01-01T00:00:01.5"])),
        (pa.array(["x", "y"]).dictionary_encode(), pa.array(["x", "y"], pa.large_string())),
    ],
)  # fmt: skip
def test_one_person_is_one_however_the_id_is_stored(one, two):
    np.testing.assert_array_equal(person_keys(one, key_of(3)), person_keys(two, key_of(3)))
    for kind in (one, two):
        from_frame = ids_from_pandas(kind.to_pandas(), "id")
        np.testing.assert_array_equal(
            _persons.hashed_texts(from_frame.texts, key_of(3))[from_frame.numbers],
            person_keys(one, key_of(3)),
        )


def test_texts_that_look_alike_are_different_persons():
    ids = ["7", "07", " 7", "7 ", "7.0", "\u00e9", "e\u0301", "Straße", "STRASSE", "\u200b", "a\x00", "a"]
    assert len({row.tobytes() for row in person_keys(pa.array(ids), key_of(0))}) == len(ids)


MIXED = [
    7, "7", 7.0, True, "True", decimal.Decimal("7.0"), dt.date(2020, 1, 2), dt.datetime(2020, 1, 2), "2020-01-02",
    2**200, str(2**200), uuid.UUID(int=5), str(uuid.UUID(int=5)), "\ud800", "-", pd.Timestamp("2020-01-02"), np.int64(7), np.float32(7.0),
    dt.datetime(2020, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), pd.Timestamp("2020-01-01T22:00", tz="UTC"),
]  # fmt: skip
GROUPS = [0, 0, 0, 1, 1, 0, 2, 2, 2, 3, 3, 4, 4, 5, 6, 2, 0, 0, 7, 7]


def test_mixed_ids_of_a_frame_are_read_one_by_one():
    """Whichever stands first: pandas takes 1, 1.0 and True for one value and lets the first stand for all."""
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(MIXED))
        entries = np.empty(len(MIXED), object)
        entries[:] = [MIXED[place] for place in order]
        people = ids_from_pandas(pd.Series(entries, dtype=object), "id")
        assert len(set(zip(people.numbers.tolist(), [GROUPS[place] for place in order], strict=True))) == 8
        assert len(people.texts) == 8


@pytest.mark.parametrize("item", [(1, 2), [1], {"a": 1}, object(), 1j, dt.timedelta(1)])
def test_what_names_no_person_is_refused(item):
    with pytest.raises(TypeError):
        id_text(item)
    entries = np.empty(2, object)
    entries[:] = [item, item]
    with pytest.raises(DataError, match="must hold text") as caught:
        ids_from_pandas(pd.Series(entries), "who")
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["a", None]),
        pa.array([1.0, float("nan")]),
        pa.array([None, 3]),
        pa.array([None, None]),
        pa.array(["a", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
        *(pa.array(["a", word]) for word in ("NA", "n/a", " null ", "None", "nan", "<NA>", "", "  ")),
        pa.array(["a", "NA"]).dictionary_encode(),
        pa.array(["a", "NA"], pa.large_string()),
    ],
)
def test_missing_ids_are_refused(ids, tmp_path):
    """Words for a missing entry count as missing in every column, so they do here: all whose id is unknown would count as one person."""
    for refuse in (
        lambda: number_persons([ids], "who"),
        lambda: person_keys(ids, key_of(0), "who"),
        lambda: ids_from_pandas(pd.Series(ids.to_pylist(), dtype=object), "who"),
    ):
        with pytest.raises(DataError, match="no value in the id column 'who'"):
            refuse()


def test_words_that_only_look_alike_are_ids():
    ids = pa.array(["NA1", "nano", "0", "-"])
    assert number_persons([ids], "who").numbers.tolist() == [0, 1, 2, 3]
    assert ids_from_pandas(ids.to_pandas(), "who").numbers.tolist() == [0, 1, 2, 3]


def test_an_unused_entry_of_a_dictionary_that_is_nothing_does_no_harm():
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0]), pa.array(["a", None, "b"]))
    spelled = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0]), pa.array(["a", "NA", "b"]))
    np.testing.assert_array_equal(person_keys(ids, key_of(1), "who"), person_keys(spelled, key_of(1), "who"))
    require_ids(spelled, "who")
    np.testing.assert_array_equal(
        person_keys(ids, key_of(0)), person_keys(pa.array(["a", "b", "a"]), key_of(0))
    )


def test_nested_ids_are_refused_without_showing_them():
    for refuse in (
        lambda: number_persons([pa.array([["canary"], ["canary"]])], "who"),
        lambda: person_keys(pa.array([["canary"], ["canary"]]), key_of(0), "who"),
    ):
        with pytest.raises(DataError, match="must hold text") as caught:
            refuse()
        assert "canary" not in str(caught.value)
        assert caught.value.__context__ is None


def test_people_show_nothing():
    assert "canary" not in repr(People.of(np.array([0]), pa.array([b"canary"], pa.large_binary())))


@pytest.mark.parametrize("at_once", [1 << 22, 3])
def test_rows_of_one_person_are_known_on_disk_as_in_memory(tmp_path, monkeypatch, at_once):
    """Whether a file fits into memory depends on private things, so a mechanism must be able to do the same with its rows."""
    monkeypatch.setattr(_persons, "ROWS_AT_ONCE", at_once)
    schema = Schema.parse("columns: [{name: ward, kind: integer, minimum: 0, maximum: 99}]")
    frame = pd.DataFrame({"ward": range(12), "id": list("abcabcaaaxyx")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = []
    for memory in (1024, 0):
        table = read_table(tmp_path / "t.csv", schema, id_column="id", max_memory_mb=memory)
        cut = table.truncated("id", 2, key_of(0))
        wards = np.concatenate([chunk["ward"] for chunk in cut.chunks()])
        groups: dict[int, set[int]] = {}
        for who, ward in zip(cut.whose.tolist(), wards.tolist(), strict=True):
            groups.setdefault(who, set()).add(ward)
            assert frame["id"][min(groups[who])] == frame["id"][ward]
        found.append((type(cut).__name__, sorted(map(sorted, groups.values()))))
    assert [name for name, _ in found] == ["LocalTable", "ArrowTable"]
    assert found[0][1] == found[1][1]
    assert sorted(map(len, found[0][1])) == [1, 2, 2, 2, 2]


def test_raw_entries_of_a_person_are_chosen_by_their_texts_in_every_order():
    """All of them look alike, so that their codes are equal: without the texts the order of storage would decide."""
    texts = [f"name {letter}" for letter in "abcdefgh"]
    frame = pd.DataFrame({"a": texts, "who": ["x"] * 4 + ["y"] * 4})
    found = set()
    for seed in range(6):
        shuffled = frame.sample(frac=1, random_state=seed)
        table = read_entries(shuffled, ["a"], id_column="who").truncated("who", 2, key_of(3))
        assert len(np.unique(next(table.chunks())["a"])) == 1
        found.add(tuple(sorted(table.texts("a"))))
    assert len(found) == 1
    (kept,) = found
    assert len(kept) == 4
    assert len({text for text in kept if text <= "name d"}) == 2


def test_event_records_do_not_depend_on_the_order_of_storage():
    """Events with days of their own; those of one day would stay in the order of the table."""
    schema = Schema.parse(
        "columns: [{name: day, kind: integer, minimum: 0, maximum: 99}, {name: ward, kind: integer, minimum: 0, maximum: 2}]\n"
        "entity: {id: who, order: day}"
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": np.repeat(range(9), 7), "day": np.tile(rng.permutation(90)[:7], 9), "ward": rng.integers(0, 3, 63)})  # fmt: skip
    found = []
    for seed in range(4):
        shuffled = frame.sample(frac=1, random_state=seed)
        rows = read_table(shuffled, schema, id_column="who")
        records = EventsTable(rows, order=shuffled["day"].to_numpy()).truncated("who", 3, key_of(1))
        found.append(records.distinct(records.schema.names))
    for codes, counts in found[1:]:
        np.testing.assert_array_equal(codes, found[0][0])
        np.testing.assert_array_equal(counts, found[0][1])


@pytest.mark.parametrize("kind", ["object", "string[python]", "string[pyarrow]"])
def test_texts_that_are_equal_up_to_a_nul_are_several_persons(kind: str) -> None:
    """Before they were one in a frame: rows of one person then displaced those of another."""
    found = ids_from_pandas(pd.Series(["a\0b", "a", "a\0c", "a"], dtype=kind), "who").numbers
    assert len(set(found.tolist())) == 3
    assert found[1] == found[3]
