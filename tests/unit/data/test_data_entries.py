"""Raw entries: every one is read by itself, and one unit moves what is sealed about them by no more than it says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data.entries import EntryTable, header_of, read_entries
from understudy.discovery.look import seal_days, seal_keys, seal_profiles, seal_ranges
from understudy.errors import BudgetError, DataError
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema.coding.profile import PROFILE, profile_of, text_of_entry

ODD = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", " ", "?", " NA", "NULL", "nan", "inf", "-inf", "1e999", "-0", "0", "007", "9" * 20, "9" * 500, "1e-320",
         "-1234567890123456789", "2020-02-30", "2020-02-29", "2020-02-29T10:00", "31/12/2020", "12/31/2020", "1/1/2020",
         "0000-00-00", "1.1.0", "99.99.9999", "Yes", "n", "TRUE", "x" * 1000, "a\x00b", "\ud800", "٣", "½", "1_000", "0x1f"]
    ),
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers().map(str),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(ODD)
def test_every_text_is_in_exactly_one_cell(text: str) -> None:
    assert 0 <= profile_of(text) < len(PROFILE)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.decimals(), st.dates(), st.datetimes(), st.text(), st.binary(),
        st.lists(st.integers(), max_size=2),
    )
)  # fmt: skip
def test_every_object_has_a_text_or_none(entry: object) -> None:
    text = text_of_entry(entry)
    assert text is None or isinstance(text, str)


@pytest.mark.parametrize(
    ("entries", "other"),
    [
        ([1, 20, 300], None),
        ([2**60 + 1, 5], None),
        ([True, False], None),
        ([1.5, 2.0], "x"),
        (["007", "7"], None),
    ],
)
def test_an_entry_reads_alike_whatever_another_row_does_to_the_type_of_its_column(entries, other) -> None:
    """A row with nothing in it, or with text, makes pandas store a column otherwise; the texts of the others stay."""
    alone = read_entries(pd.DataFrame({"a": entries}), ["a"])
    beside = read_entries(pd.DataFrame({"a": [*entries, other]}), ["a"])
    left, right = alone.texts("a"), beside.texts("a")
    right.subtract(left)
    assert sum(right.values()) == (0 if other is None else 1)
    assert min(right.values()) >= 0


def test_a_csv_file_is_text(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n007,x\n7,\n7.0,NA\n")
    table = read_entries(path, ["a", "b"])
    assert dict(table.texts("a")) == {"007": 1, "7": 1, "7.0": 1}
    assert dict(table.texts("b")) == {"x": 1, "NA": 1}
    assert header_of(path) == ("a", "b")


def test_what_cannot_be_read_is_refused_without_values(tmp_path) -> None:
    with pytest.raises(DataError, match="database"):
        read_entries("postgresql://x/y", ["a"])
    with pytest.raises(DataError):
        read_entries(pd.DataFrame({"a": ["secret"]}), ["b"])
    assert "secret" not in repr(read_entries(pd.DataFrame({"a": ["secret"]}), ["a"]))


# ---------------------------------------------------------------------- sensitivity


def _seals(
    texts: list[str | None], ids: list[int], unit: Unit, words: np.ndarray
) -> list[np.ndarray | dict[str, int]]:
    """What each question seals about a table whose rows have given words for the choice among a person's rows."""
    frame = pd.DataFrame({"a": pd.Series(texts, dtype=object), "id": pd.Series(ids, dtype=np.int64)})
    table: EntryTable = read_entries(frame, ["a"], id_column=unit.id_column)
    if unit.id_column is not None:
        table = table.truncated("id", unit.max_rows, words)
    ledger = Ledger.in_memory(budget=ApproxDP(1.0, 1e-6), unit=Unit.add_remove())
    curator = Curator(table, unit=Unit.add_remove(), ledger=ledger, randomness=SeededRandomness(0))
    return [
        seal_profiles(curator, ["a"])[0]._exact,
        seal_ranges(curator, "a", [-10.0, 0.0, 0.5, 7.0, 1e9])._exact,
        seal_days(curator, "a", [-100, 0, 18_000, 18_400], "%d/%m/%Y")._exact,
        seal_keys(curator, "a")._exact,
    ]


def _moved(one: object, other: object) -> tuple[float, float, int]:
    if isinstance(one, dict):
        keys = sorted(set(one) | set(other))
        apart = np.array([one.get(k, 0) - other.get(k, 0) for k in keys], dtype=float)
        return np.abs(apart).sum(), float(np.sqrt((apart**2).sum())), len(set(one) - set(other))
    apart = np.asarray(one, dtype=float) - np.asarray(other, dtype=float)
    return np.abs(apart).sum(), float(np.sqrt((apart**2).sum())), 0


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.one_of(ODD, st.none()), max_size=12),
    st.lists(st.one_of(ODD, st.none()), min_size=1, max_size=6),
    st.lists(st.one_of(ODD, st.none()), max_size=6),
    st.sampled_from([("add-remove", 1), ("replace-one", 1), ("add-remove", 3), ("replace-one", 2)]),
    st.integers(0, 2**32),
)
def test_neighbours_move_every_seal_within_its_claim(rest, mine, instead, kind, seed) -> None:
    """Random and hostile neighbours: a person's rows are added or exchanged, with more rows than are kept; no sampling error is involved."""
    relation, rows = kind
    person = rows > 1
    unit = Unit(relation, rows, "id") if person else Unit(relation)
    if not person:
        mine, instead = mine[:1], (instead or ["x"])[:1]
    if relation == "add-remove":
        instead = []
    words = np.random.default_rng(seed).integers(0, 2**63, 40).astype(np.uint64)
    others = list(range(100, 100 + len(rest)))

    def seals(own: list[str | None]) -> list[np.ndarray | dict[str, int]]:
        at = np.concatenate([words[: len(rest)], words[20 : 20 + len(own)]])
        return _seals([*rest, *own], [*others, *[7] * len(own)], unit, at)

    for one, other in zip(seals(mine), seals(instead), strict=True):
        l1, l2, alone = _moved(one, other)
        assert l1 <= unit.histogram_l1
        assert l2 <= unit.histogram_l2 * (1 + 1e-12)
        assert alone <= unit.max_rows, "keys that one unit alone holds"


def test_ranges_need_ascending_edges() -> None:
    ledger = Ledger.in_memory(budget=ApproxDP(1.0, 1e-6), unit=Unit.add_remove())
    curator = Curator(read_entries(pd.DataFrame({"a": ["1"]}), ["a"]), unit=Unit.add_remove(), ledger=ledger)
    for edges in ([], [1.0, 1.0], [2.0, 1.0], [float("nan")] * 2):
        with pytest.raises(BudgetError, match="ascending"):
            seal_ranges(curator, "a", edges)


def test_every_row_is_in_a_cell_also_one_without_an_entry() -> None:
    ledger = Ledger.in_memory(budget=ApproxDP(1.0, 1e-6), unit=Unit.add_remove())
    frame = pd.DataFrame({"a": ["1", None, "x", "nan", "12"]})
    curator = Curator(read_entries(frame, ["a"]), unit=Unit.add_remove(), ledger=ledger)
    assert seal_ranges(curator, "a", [0.0, 10.0])._exact.tolist() == [0, 1, 1, 3]
    assert int(seal_profiles(curator, ["a"])[0]._exact.sum()) == 5
