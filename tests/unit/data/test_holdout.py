"""Rows that are set aside: chosen without a look at them, kept out of the fit, and the same every time."""

from __future__ import annotations

import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from understudy.data import read_table
from understudy.data.entries import read_entries
from understudy.data.holdout import HoldOut
from understudy.errors import DataError
from understudy.schema import Schema

SCHEMA = Schema.parse("columns: [{name: a, kind: integer, minimum: 0, maximum: 999}]")
ALPHA = 1e-9


class GivenWords(HoldOut):
    """A division by words that the test chooses, one per row."""

    words: np.ndarray

    def _words_of_rows(self, start: int, rows: int) -> np.ndarray:
        return self.words[start : start + rows]


def kept(values: np.ndarray, words: np.ndarray, share: float) -> Counter[int]:
    part = GivenWords(share, bytes(32))
    object.__setattr__(part, "words", words)
    return Counter(values[part.chosen(len(values))].tolist())


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.integers(0, 3), min_size=0, max_size=12),
    place=st.integers(0, 12),
    share=st.one_of(st.floats(0.01, 0.99), st.sampled_from([5e-324, 1e-12, 0.5, 1 - 2**-53])),
    seed=st.integers(0, 2**32),
)
def test_neighbours_stay_neighbours_under_the_coupled_words(
    values: list[int], place: int, share: float, seed: int
) -> None:
    """A division that held out an exact share of the rows would fail here: a row more moves another one across."""
    generator = np.random.default_rng(seed)
    words = generator.integers(0, 2**64, len(values), dtype=np.uint64)
    table, place = np.array(values, int), min(place, len(values))
    mine, other = (
        generator.integers(0, 2**64, dtype=np.uint64),
        np.insert(table, place, 7),
    )
    longer = np.insert(words, place, mine)
    before, after = kept(table, words, share), kept(other, longer, share)
    assert not before - after  # nobody else comes or goes
    assert after - before in (Counter(), Counter({7: 1}))
    replaced = other.copy()
    replaced[place] = 8
    one, two = kept(other, longer, share), kept(replaced, longer, share)
    assert one.total() == two.total()
    assert (one - two, two - one) in ((Counter(), Counter()), (Counter({7: 1}), Counter({8: 1})))


def test_every_row_has_the_same_chance_and_no_row_tells_about_another() -> None:
    """False alarm below 1e-9 per assertion. Words that favoured early rows or went along with their neighbours would be found."""
    keys, rows, share = 3000, 40, 0.3
    generator = np.random.default_rng(5)
    aside = np.array([~HoldOut(share, generator.bytes(32)).chosen(rows, start=4080) for _ in range(keys)])
    each = aside.sum(axis=0)
    assert stats.binom.cdf(each.min(), keys, share) > ALPHA / rows
    assert stats.binom.sf(each.max() - 1, keys, share) > ALPHA / rows
    together = (aside[:, 1:] & aside[:, :-1]).sum()
    pairs = keys * (rows - 1)
    deviation = np.sqrt(pairs * share**2 * (1 - share**2) + 2 * pairs * (share**3 - share**4))
    assert abs(together - pairs * share**2) < stats.norm.isf(ALPHA / 2) * deviation


def sources(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    polars = pytest.importorskip("polars")
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.csv.gz", index=False)
    pq.write_table(pa.Table.from_pandas(frame), folder / "t.parquet", row_group_size=300)
    return {
        "csv": folder / "t.csv",
        "gz": folder / "t.csv.gz",
        "parquet": folder / "t.parquet",
        "pandas": frame,
        "polars": polars.from_pandas(frame),
        "arrow": pa.Table.from_pandas(frame),
    }


def entries(table: Any) -> list[int]:
    return [int(code) for chunk in table.chunks() for code in chunk["a"]]


@pytest.mark.parametrize("by", [None, "who"])
def test_every_source_is_divided_alike_and_nothing_is_lost(by: str | None, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(1000), "who": np.arange(1000) // 3 + 10})
    division = HoldOut(0.25, bytes(range(32)), id_column=by)
    expected = None
    for name, source in sources(frame, tmp_path).items():
        read, aside = (read_table(source, SCHEMA, hold_out=part) for part in (division, division.set_aside))
        assert sorted(entries(read) + entries(aside)) == list(range(1000)), name
        expected = expected or entries(read)
        assert entries(read) == expected, name
        assert read.filtered  # the number of rows is private under every unit
        words = read_entries(source, ["a"], id_column=by, hold_out=division)
        assert sorted(map(int, words.texts("a"))) == expected, name
        streamed = read_table(source, SCHEMA, hold_out=division, max_memory_mb=0)
        assert entries(streamed) == expected
    if by is not None:
        people = {row // 3 for row in expected or ()}
        assert len(expected or ()) == sum(len(range(3 * p, min(3 * p + 3, 1000))) for p in people)


@settings(max_examples=100, deadline=None)
@given(
    ids=st.lists(
        st.sampled_from(["a", "a\0", "a\0b", "b", 1, True, 1.0, "1", "True", 2**60, float(2**60)]),
        min_size=2,
        max_size=8,
    ),
    key=st.binary(min_size=32, max_size=32),
)
def test_whose_rows_are_held_out_depends_on_no_other_person(ids: list[object], key: bytes) -> None:
    """Before, pandas took ``True`` and ``1``, and texts up to a NUL character, for one person, and the first in the table decided for both."""
    division = HoldOut(0.5, key, id_column="who")

    def chosen(some: list[object]) -> list[object]:
        frame = pd.DataFrame({"who": pd.Series(some, dtype=object), "row": range(len(some))})
        return [some[row] for row in division.frame(frame)["row"]]

    alone = [item for item in ids if chosen([item])]
    assert [(type(item), item) for item in chosen(ids)] == [(type(item), item) for item in alone]


def test_a_table_on_disk_is_counted_without_the_rows_set_aside(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(1000) % 50})
    frame.to_csv(tmp_path / "t.csv", index=False)
    division = HoldOut(0.5, b"k" * 32)
    small, large = (
        read_table(tmp_path / "t.csv", SCHEMA, hold_out=division, max_memory_mb=mb) for mb in (100, 0)
    )
    assert type(small) is not type(large)
    assert (small.count(("a",)) == large.count(("a",))).all()
    assert small.exact_row_count() == large.exact_row_count() == division.chosen(1000).sum()


def test_what_is_set_aside_is_not_even_checked() -> None:
    """A value that does not fit raises where the row is read, and only there."""
    division = HoldOut(0.5, b"k" * 32)
    values = np.where(division.chosen(100), 1, 5000)
    frame = pd.DataFrame({"a": values})
    assert set(entries(read_table(frame, SCHEMA, hold_out=division))) == {1}
    with pytest.raises(DataError):
        read_table(frame, SCHEMA, hold_out=division.set_aside)


def test_the_file_is_for_its_owner_and_holds_no_record(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [123, 456, 789]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    made = HoldOut.of(tmp_path / "t.csv", 0.2)
    made.write(tmp_path / "t.hold-out")
    assert stat.S_IMODE((tmp_path / "t.hold-out").stat().st_mode) == 0o600
    again = HoldOut.read(tmp_path / "t.hold-out")
    assert again == made
    assert made.key.hex() not in repr(made)
    again.require(tmp_path / "t.csv")
    frame.iloc[::-1].to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="another table"):
        again.require(tmp_path / "t.csv")
    assert HoldOut.of(frame, 0.2).key != made.key


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan"), True, "a"])
def test_shares_that_are_none_are_refused(share: Any) -> None:
    with pytest.raises(DataError, match="between 0 and 1"):
        HoldOut(share, bytes(32))


def test_other_files_are_refused_without_a_word_of_them(tmp_path: Path) -> None:
    for text in ("a\nsecret\n", "{}", "[1]", '{"format": "understudy hold-out 1"}'):
        (tmp_path / "t").write_text(text)
        with pytest.raises(DataError, match="is not a file that") as caught:
            HoldOut.read(tmp_path / "t")
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


# ---------------------------------------------------------------------- one order of rows for every reading


def test_rows_are_not_held_out_of_tables_without_one_order(tmp_path: Path) -> None:
    """Two readers may go through a folder in different orders, and a lazy frame through its rows: one key would divide them in two ways."""
    frame = pd.DataFrame({"a": range(20), "who": range(20)})
    folder = tmp_path / "parts"
    folder.mkdir()
    for place in range(2):
        frame.to_parquet(folder / f"{place}.parquet")
    files = sorted(folder.glob("*.parquet"))
    for source in (folder, files, pl.from_pandas(frame).lazy(), pads.dataset(str(folder))):
        with pytest.raises(DataError, match="one file, or a frame in memory"):
            HoldOut.of(source, 0.5)
    assert HoldOut.of(folder, 0.5, id_column="who").table  # people are told by their ids
    assert HoldOut.of(files[0], 0.5).table


def test_rows_in_another_order_are_another_table() -> None:
    frame = pd.DataFrame({"a": range(20), "who": range(20)})
    rows, people = HoldOut.of(frame, 0.5), HoldOut.of(frame, 0.5, id_column="who")
    rows.require(frame.copy())
    people.require(frame[::-1])
    with pytest.raises(DataError, match="another table"):
        rows.require(frame[::-1])
    with pytest.raises(DataError, match="for which table"):
        replace(rows, table="").require(frame)


def test_a_key_that_others_may_know_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.hold-out"
    HoldOut.of(pd.DataFrame({"a": range(20)}), 0.5).write(path)
    assert HoldOut.read(path).share == 0.5
    path.chmod(0o644)
    with pytest.raises(DataError, match="open to others"):
        HoldOut.read(path)
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(DataError):
        HoldOut.read(tmp_path / "link")


@pytest.mark.parametrize("nobody", [None, float("nan")])
def test_rows_of_nobody_are_read_by_everybody_and_refused_there(nobody: float | None) -> None:
    """An id that is missing must not be set aside silently."""
    frame = pd.DataFrame({"who": [1.0, nobody, 2.0]})
    table = pa.table({"who": pa.array([1.0, nobody, 2.0], from_pandas=False)})
    for key in range(20):
        part = HoldOut(0.5, bytes([key] * 32), id_column="who")
        assert part.frame(frame)["who"].isna().sum() == 1
        kept = part.arrow(table)["who"].to_pylist()
        assert sum(item is None or item != item for item in kept) == 1
    many = pa.DictionaryArray.from_arrays(pa.array([*range(127), 126, None], pa.int8()), pa.array(range(128)))
    assert part.arrow(pa.table({"who": many})).num_rows > 0


def test_entries_that_were_divided_are_not_all_rows() -> None:
    """Under replace-one the number of rows of a whole table is public; that of a part is not written anywhere."""
    frame = pd.DataFrame({"a": range(20)})
    assert not read_entries(frame, ["a"]).filtered
    assert read_entries(frame, ["a"], hold_out=HoldOut.of(frame, 0.5)).filtered
    ids = pd.DataFrame({"a": range(20), "who": range(20)})
    part = HoldOut.of(ids, 0.5, id_column="who")
    divided = read_entries(ids, ["a"], id_column="who", hold_out=part)
    assert divided.truncated("who", 1, bytes(32)).filtered
