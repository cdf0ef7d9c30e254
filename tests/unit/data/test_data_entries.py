"""Raw entries: every one is read by itself, and one unit moves what is sealed about them by no more than it says."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import read_table
from understudy.data.entries import EntryTable, header_of, read_entries
from understudy.discovery.look import seal_days, seal_keys, seal_profiles, seal_ranges
from understudy.errors import BudgetError, DataError
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema import Boolean, Categorical, Column, Date, Integer, Real, Schema
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


NIGHT = dt.datetime(2020, 1, 1, 23, 30, tzinfo=dt.UTC)
"""One moment whose local date depends on where it is written; its date in UTC does not."""
NEXT_DAY = NIGHT.astimezone(dt.timezone(dt.timedelta(hours=1)))


def _objects(entries: list[object]) -> pd.DataFrame:
    series = pd.Series([None] * len(entries), dtype=object)
    for row, entry in enumerate(entries):
        series.iat[row] = entry
    return pd.DataFrame({"a": series})


@pytest.mark.parametrize("other", [dt.date(2019, 5, 5), pd.NA, pd.NaT, None, np.datetime64("NaT"), True])
@pytest.mark.parametrize("first", [True, False])
def test_one_row_does_not_change_the_dates_of_others(other: object, first: bool) -> None:
    """A plain date or a missing entry beside equal moments of two zones: the hundred others keep their day, in discovery and in every fit."""
    rows = [NIGHT, *[NEXT_DAY] * 100]
    beside = _objects([other, *rows] if first else [*rows, other])
    texts = read_entries(beside, ["a"]).texts("a")
    assert texts["2020-01-01 23:30:00"] == 101
    days = Date(
        "a",
        minimum="2019-01-01",
        maximum="2020-12-31",
        resolution="day",
        missing=True,
        out_of_domain="to-missing",
    )
    counts = read_table(beside, Schema(columns=(days,))).count(("a",))
    assert counts[365:367].tolist() == [101, 0]


MOMENTS = st.sampled_from(
    [NIGHT, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 3, 1, 12, tzinfo=dt.UTC)]
)
ZONES = st.sampled_from(
    [
        dt.UTC,
        dt.timezone(dt.timedelta(hours=1)),
        dt.timezone(dt.timedelta(hours=-9)),
        ZoneInfo("Europe/Berlin"),
    ]
)
OBJECTS = st.one_of(
    st.sampled_from([dt.date(2019, 5, 5), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 23, 30)]),
    st.builds(lambda moment, zone: moment.astimezone(zone), MOMENTS, ZONES),
    st.builds(lambda moment, zone: pd.Timestamp(moment).tz_convert(zone), MOMENTS, ZONES),
    st.sampled_from([0, 1, -9, 2**53 + 1, 2**63, 10**20]),
    st.sampled_from([True, False, np.bool_(True), np.bool_(False)]),
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e20, float("inf"), np.float32(0.1), np.float64(1), np.float16(1), np.int8(1), np.uint64(2**63)]),
    st.sampled_from([Decimal(1), Decimal("1.0"), Decimal("-0"), Decimal("Infinity"), Decimal("20200101")]),
    st.sampled_from([None, float("nan"), np.float32("nan"), Decimal("NaN"), Decimal("sNaN"), pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), complex("nan")]),
    st.sampled_from([np.datetime64("2020-01-01"), np.datetime64("2020-01-01T23:30"), np.datetime64("10000-01-01"), np.timedelta64(1, "D"), np.timedelta64(1, "s")]),
    st.sampled_from(["1", "1.0", "true", "2020-01-01", np.str_("1"), "", "NA", "x", b"1", 1 + 0j, (1,), dt.time(1), dt.timedelta(1), pd.Period("2020-01-01", "D")]),
    st.builds(list),
)  # fmt: skip
COLUMNS: list[Column] = [
    Date("a", minimum="2019-01-01", maximum="2020-12-31", resolution="day", missing=True, out_of_domain="to-missing"),
    Date("a", minimum="2019-01-01", maximum="2020-12-31", resolution="day", format="%Y%m%d", missing=True, out_of_domain="to-missing"),
    Boolean("a", missing=True, out_of_domain="to-missing"),
    Integer("a", minimum=-5, maximum=5, missing=True, missing_values=(-9,), out_of_domain="to-missing"),
    Real("a", minimum=-1.0, maximum=2.0, missing=True, out_of_domain="to-missing"),
    Categorical("a", values=("1", "true", "2020-01-01"), missing=True, out_of_domain="to-missing"),
    Categorical("a", values=(0, 1, 0.1), missing=True, out_of_domain="to-missing"),
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(OBJECTS, min_size=2, max_size=6))
def test_an_entry_reads_alike_alone_and_beside_any_others(entries: list[object]) -> None:
    """Each entry by itself, summed, is the column: for discovery and for columns of every kind."""
    texts: Counter[str] = Counter()
    for entry in entries:
        texts += read_entries(_objects([entry]), ["a"]).texts("a")
    assert read_entries(_objects(entries), ["a"]).texts("a") == texts
    for column in COLUMNS:
        alone = [int(column.encode(_objects([entry])["a"])[0]) for entry in entries]
        assert column.encode(_objects(entries)["a"]).tolist() == alone


@pytest.mark.parametrize(
    "huge",
    [10**5000, -(10**5000), Decimal("1E+999999"), Decimal("-1E+999999")],
    ids=["long", "long negative", "decimal", "decimal negative"],
)
def test_a_number_too_long_to_be_written_ends_nothing(huge: object) -> None:
    assert read_entries(_objects([huge, 1]), ["a"]).texts("a")["1"] == 1
    for column in COLUMNS:
        (alone,) = column.encode(_objects([1])["a"])
        assert column.encode(_objects([huge, 1])["a"])[1] == alone


UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"]


@settings(max_examples=300, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(UNITS))
def test_a_moment_of_any_unit_has_a_text(number: int, unit: str) -> None:
    for entry in (np.datetime64(number, unit), np.timedelta64(number, unit)):
        text = text_of_entry(entry)
        assert text is None or isinstance(text, str)
        assert 0 <= profile_of(text) < len(PROFILE)


@st.composite
def _far_columns(draw: st.DrawFn) -> pa.Array:
    """A typed column of dates, with entries of any year that its type can hold."""
    kind = draw(st.sampled_from([pa.date32(), pa.date64(), *(pa.timestamp(unit, tz) for unit in ("s", "ms", "us", "ns") for tz in (None, "UTC", "Europe/Berlin"))]))  # fmt: skip
    size = 31 if kind == pa.date32() else 55 if kind == pa.date64() else 63
    numbers = draw(
        st.lists(
            st.one_of(st.none(), st.integers(-(2**size) + 1, 2**size - 1), st.just(0)), min_size=1, max_size=4
        )
    )
    if kind == pa.date64():
        numbers = [None if number is None else number // 86_400_000 * 86_400_000 for number in numbers]
    return pa.array(numbers, pa.int32() if size == 31 else pa.int64()).cast(kind)


@settings(max_examples=60, deadline=None)
@given(_far_columns())
def test_no_date_of_any_year_ends_the_reading(
    tmp_path_factory: pytest.TempPathFactory, column: pa.Array
) -> None:
    """pandas, Arrow, Parquet, Polars: every row is read, and those at 1970-01-01 stay what they are."""
    table = pa.table({"a": column})
    sources: list[object] = [table, table.to_batches()[0], table.to_pandas(date_as_object=False)]
    if getattr(column.type, "unit", "") != "s":  # Parquet has no seconds
        path: Path = tmp_path_factory.mktemp("far") / "t.parquet"
        pq.write_table(table, path)
        sources.append(path)
    if column.type != pa.date64():
        polars = pytest.importorskip("polars")
        if getattr(column.type, "unit", "") != "s":
            frame = polars.from_arrow(table)
            sources += [frame, frame.lazy()]
    plain = sum(
        entry == 0
        for entry in column.cast(pa.int32() if column.type == pa.date32() else pa.int64()).to_pylist()
    )
    for source in sources:
        assert header_of(source) == ("a",)
        texts = read_entries(source, ["a"]).texts("a")
        assert texts.total() == len(column) - column.null_count
        assert texts["1970-01-01"] >= plain


def test_far_moments_with_a_zone_do_not_end_the_process() -> None:
    """pandas ends it (a segmentation fault) where such a column becomes Python objects."""
    moments = pd.Series(np.array([2**62, 0, -(2**62)], dtype="int64").view("M8[s]"))
    local = moments.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    texts = read_entries(pd.DataFrame({"a": local}), ["a"]).texts("a")
    assert texts.total() == 3
    assert sum(text.startswith("1970-01-01") for text in texts.elements()) == 1


def test_repeated_names_are_not_quoted(tmp_path: Path) -> None:
    """They may be a record."""
    (tmp_path / "t.csv").write_text("anna,ward,anna\nbob,north,bob\n")
    frame = pd.DataFrame([["bob", "north", "bob"]], columns=["anna", "ward", "anna"])
    for source, words in ((tmp_path / "t.csv", "share a name"), (frame, "columns 1 and 3")):
        with pytest.raises(DataError, match=words) as caught:
            header_of(source)
        assert "anna" not in str(caught.value)


def test_a_far_period_is_outside_and_the_others_stay() -> None:
    days = Date("a", minimum="2019-01-01", maximum="2020-12-31", resolution="year", missing=True, out_of_domain="to-missing")  # fmt: skip
    far = pd.Series(pd.PeriodIndex.from_ordinals([6_585_443, 18_262], freq="D"))
    assert read_table(pd.DataFrame({"a": far}), Schema(columns=(days,))).count(("a",)).tolist() == [0, 1, 1]


def test_a_csv_file_is_text(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n007,x\n7,\n7.0,NA\n")
    table = read_entries(path, ["a", "b"])
    assert dict(table.texts("a")) == {"007": 1, "7": 1, "7.0": 1}
    assert dict(table.texts("b")) == {"x": 1, "NA": 1}
    assert header_of(path) == ("a", "b")


@pytest.mark.parametrize(
    "line",
    [
        "39,State-gov",
        "Anna Smith,2020-01-31",
        "Anna Smith,?",
        "Anna Smith,",
        "Bob,Yes",
        "Bob;1.5",
        "a,NA",
        "31/12/2020\tx",
    ],
)
def test_a_first_line_that_reads_like_a_record_does_not_name_columns(tmp_path: Path, line: str) -> None:
    """The line alone decides, whatever follows, and nothing of it is in the message."""
    path = tmp_path / "t.csv"
    for rest in ("", "\nBob,flu\n", "\n1,2\n" * 3):
        path.write_text(line + rest)
        with pytest.raises(DataError, match="names were wanted") as caught:
            header_of(path)
        assert not any(word in str(caught.value) for word in ("39", "Anna", "Smith", "Bob", "2020", "gov"))
    path.write_text(line.replace(";", ",").replace("\t", ",") + "\nBob,flu\n")
    assert header_of(path, names=("who", "what")) == ("who", "what")
    assert len(header_of(path, header=True)) == 2 - line.endswith(",")


def test_names_pass_for_a_header_and_columns_are_never_numbered(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,sector,007,date of birth\n1,2,3,4\n")
    assert header_of(path) == ("age", "sector", "007", "date of birth")
    for record in ("29,east,ok", "29,east,a;b;c;d;e"):  # neighbours: one record would decide the columns
        path.write_text(f"{record}\n30,west,ok\n")
        with pytest.raises(DataError, match="names="):
            header_of(path, names=())
        assert header_of(path, names=("a", "b", "c")) == ("a", "b", "c")


def test_what_cannot_be_read_is_refused_without_values(tmp_path) -> None:
    with pytest.raises(DataError, match="database"):
        read_entries("postgresql://x/y", ["a"])
    with pytest.raises(DataError):
        read_entries(pd.DataFrame({"a": ["secret"]}), ["b"])
    assert "secret" not in repr(read_entries(pd.DataFrame({"a": ["secret"]}), ["a"]))


# ---------------------------------------------------------------------- sensitivity


def _seals(
    texts: list[str | None], ids: list[int], unit: Unit, key: bytes
) -> list[np.ndarray | dict[str, int]]:
    """What each question seals about a table, by one key."""
    frame = pd.DataFrame({"a": pd.Series(texts, dtype=object), "id": pd.Series(ids, dtype=np.int64)})
    table: EntryTable = read_entries(frame, ["a"], id_column=unit.id_column)
    if unit.id_column is not None:
        table = table.truncated("id", unit.max_rows, key)
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
    key = np.random.default_rng(seed).bytes(32)
    others = list(range(100, 100 + len(rest)))

    def seals(own: list[str | None]) -> list[np.ndarray | dict[str, int]]:
        return _seals([*rest, *own], [*others, *[7] * len(own)], unit, key)

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
