"""What a column accepts as its own description, and how entries of every storage become codes."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from understudy.errors import DataError, SchemaError
from understudy.schema import Boolean, Categorical, Column, Date, Integer, Ordinal, Real, Schema

GENERATOR = np.random.default_rng(0)


# -- descriptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: Categorical("x"), "at least one possible value"),
        (lambda: Categorical("x", values="abc"), "write a list"),
        (lambda: Categorical("x", values=5), "write a list"),  # type: ignore[arg-type]
        (lambda: Categorical("x", values=["a", "a"]), "'a' is listed twice"),
        (lambda: Categorical("x", values=[1, "1"]), "'1' is listed twice"),
        (lambda: Categorical("x", values=[1, 1.0]), "'1' is listed twice"),
        (lambda: Categorical("x", values=[True, False]), "kind: boolean"),
        (lambda: Categorical("x", values=[None]), "text or a finite number"),  # type: ignore[list-item]
        (lambda: Categorical("x", values=[math.nan]), "text or a finite number"),
        (lambda: Categorical("x", values=["a"], out_of_domain="clamp"), "clamp has no meaning"),
        (lambda: Categorical("x", values=["other"], out_of_domain="to-other"), "needs that word"),
        (
            lambda: Categorical("x", values=["?"], missing=True, missing_values=["?"]),
            "also one of the values",
        ),
        (lambda: Boolean("x", out_of_domain="clamp"), "clamp has no meaning"),
        (lambda: Ordinal("x", values=["lo", "hi"], out_of_domain="clamp"), "ascending numbers"),
        (lambda: Ordinal("x", values=[2, 1], out_of_domain="clamp"), "ascending numbers"),
        (lambda: Integer("x"), "needs a minimum and a maximum"),
        (lambda: Integer("x", minimum=0), "needs a minimum and a maximum"),
        (lambda: Integer("x", minimum=5, maximum=4), r"minimum \(5\) must not exceed maximum \(4\)"),
        (lambda: Integer("x", minimum=0.5, maximum=4), "minimum: must be a finite whole number"),
        (lambda: Integer("x", minimum=0, maximum=math.inf), "maximum: must be a finite whole number"),
        (lambda: Integer("x", minimum="0", maximum=4), "minimum: must be"),  # type: ignore[arg-type]
        (lambda: Integer("x", minimum=True, maximum=4), "minimum: must be"),
        (lambda: Integer("x", minimum=0, maximum=10**9), "divide it into bins"),
        (lambda: Integer("x", minimum=0, maximum=2**63), "maximum: must be"),
        (lambda: Integer("x", values=[1, 2], bins=[1, 2]), "not both"),
        (lambda: Integer("x", values=[1, 2], minimum=0), "needs no minimum"),
        (lambda: Integer("x", values=[2, 1]), "must ascend"),
        (lambda: Integer("x", values=[1.5]), "whole number"),
        (lambda: Integer("x", values=[]), "at least one number"),
        (lambda: Integer("x", values="12"), "at least one number"),  # type: ignore[arg-type]
        (lambda: Real("x"), "needs a minimum and a maximum"),
        (lambda: Real("x", minimum=0), "needs a minimum and a maximum"),
        (lambda: Real("x", minimum=1, maximum=1), "more than the range can be divided into"),
        (lambda: Real("x", minimum=10**400, maximum=1), "minimum: must be a finite number"),
        (lambda: Real("x", bins=[0, 1], decode_by="median"), "decode_by: write one of"),  # type: ignore[arg-type]
        (
            lambda: Real("x", bins=[0.1, 0.9, 2], decode_by="integer-uniform"),
            "integer-uniform needs a whole number",
        ),
        (lambda: Date("x"), "needs a minimum and a maximum"),
        (lambda: Date("x", minimum="2014-13-01", maximum="2015-01-01"), "minimum: write a date"),
        (lambda: Date("x", minimum="2015-01-01", maximum="2014-01-01"), "must not be after"),
        (lambda: Date("x", minimum="2014-01-01", maximum="2015-01-01", resolution="decade"), "resolution"),  # type: ignore[arg-type]
        (
            lambda: Date("x", minimum="0001-01-01", maximum="9999-12-31", resolution="day"),
            "coarser resolution",
        ),
        (lambda: Date("x", bins=["2014-01-01", "soon"]), "every edge must be a date"),
        (lambda: Date("x", bins=["2014-01-01", "2013-01-01"]), "ascend"),
        (lambda: Date("x", bins={"labels": ["<2014"]}), "edges or by a resolution"),
        (lambda: Date("x", bins=["2014-01-01", "2015-01-01"], resolution="day"), "not both"),
        (lambda: Date("x", bins=["2014-01-01", "2015-01-01"], decode_by="integer-uniform"), "decode_by"),
        (lambda: Date("x", minimum="2014-01-01", maximum="2015-01-01", format=""), "format"),
        (
            lambda: Date("x", minimum="2014-01-01", maximum="2015-01-01", format="dd.mm.yyyy"),
            "format: write it like",
        ),
        (
            lambda: Date("x", minimum="2014-01-01", maximum="2015-01-01", format="%d.%m."),
            "format: write it like",
        ),
        (
            lambda: Date("x", minimum="2014-01-01", maximum="2015-01-01", format="%-d.%m.%Y"),
            "format: write it like",
        ),
        (lambda: Boolean(""), "name: must not be empty"),
        (lambda: Boolean("  "), "name: must not be empty"),
        (lambda: Boolean("a\nb"), "one line"),
        (lambda: Boolean("x" * 20_000), "longer than"),
        (lambda: Boolean(5), "name: must be text"),  # type: ignore[arg-type]
        (lambda: Boolean("x", description=5), "description: must be text"),  # type: ignore[arg-type]
        (lambda: Boolean("x", missing="yes"), "missing: write true or false"),  # type: ignore[arg-type]
        (lambda: Boolean("x", out_of_domain="ignore"), "out_of_domain: write one of"),  # type: ignore[arg-type]
        (lambda: Boolean("x", out_of_domain="to-missing"), "to-missing needs missing"),
        (lambda: Boolean("x", missing_values=["?"]), "they need missing"),
        (lambda: Boolean("x", missing=True, missing_values="?"), "write a list"),
        (lambda: Boolean("x", missing=True, missing_values=[None]), "text or numbers"),  # type: ignore[list-item]
        (lambda: Boolean("x", origin="guess"), "origin: write"),  # type: ignore[arg-type]
        (lambda: Boolean("x", origin={"values": "from-data"}), "no fact named 'values'"),
        (lambda: Boolean("x", origin={"kind": "guess"}), "origin.kind"),  # type: ignore[dict-item]
        (lambda: Boolean("x", origin=("kind",)), "pairs"),  # type: ignore[arg-type]
        (lambda: Column("x"), "base"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(build: Callable[[], Column], complaint: str) -> None:
    with pytest.raises((SchemaError, TypeError), match=complaint):
        build()


def test_all_problems_of_a_column_are_reported_at_once() -> None:
    with pytest.raises(SchemaError) as caught:
        Integer("x", minimum="a", maximum=math.nan, decode_by="x", out_of_domain="to-missing", unit=3)  # type: ignore[arg-type]
    for word in ("minimum", "maximum", "decode_by", "out_of_domain", "unit"):
        assert f"- {word}" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["getting in/out of bed", "income>50K", "0", "né(e)", "日本", "a.b", "x'y\"z", "`x`", "=1+1"]
)
def test_odd_names_are_fine(name: str) -> None:
    column = Boolean(name)
    assert column.encode([True]).tolist() == [1]
    assert repr(name) in repr(column)


def test_codes_are_values_then_other_then_missing() -> None:
    column = Categorical("x", values=["a", "b"], missing=True, out_of_domain="to-other")
    assert column.labels == ("a", "b", "other", "missing")
    assert (column.size, column.other_code, column.missing_code, column.value_count) == (4, 2, 3, 2)
    assert column.encode(["b", "zzz", None]).tolist() == [1, 2, 3]
    assert Categorical("x", values=["missing"], missing=True).labels == ("missing", "(missing)")


@pytest.mark.parametrize(
    ("size", "dtype"), [(1, "uint8"), (256, "uint8"), (257, "uint16"), (65537, "uint32")]
)
def test_codes_are_as_small_as_they_can_be(size: int, dtype: str) -> None:
    column = Integer("x", minimum=0, maximum=size - 1)
    assert column.encode([0, size - 1]).dtype == dtype


def test_columns_are_values() -> None:
    column = Integer("x", bins=["<18", "18", "18<"], missing=True)
    assert column == Integer("x", bins=("<18", "18", "18<"), missing=True)
    assert hash(column) == hash(Integer("x", bins=("<18", "18", "18<"), missing=True))
    column.encode([3])
    again = pickle.loads(pickle.dumps(column))
    assert again == column
    assert again.labels == column.labels
    with pytest.raises(AttributeError):
        column.name = "y"  # type: ignore[misc]


def test_reprs_are_short_and_plain() -> None:
    assert repr(Categorical("x", values=["a" * 100, "b"])).endswith("...; 2 codes)")
    assert (
        repr(Integer("age", minimum=0, maximum=99, missing=True))
        == "Integer('age': 0, 1, ..., 99, missing; 101 codes)"
    )


# -- storage ---------------------------------------------------------------------------------------

WHOLE = [3, 0, 99]


@pytest.mark.parametrize(
    "entries",
    [
        WHOLE,
        tuple(WHOLE),
        np.array(WHOLE, dtype=np.int8),
        np.array(WHOLE, dtype=np.uint64),
        np.array(WHOLE, dtype=np.float32),
        pd.Series(WHOLE, dtype="Int64"),
        pd.Series(WHOLE, dtype="Float64"),
        pd.Series(WHOLE, dtype="category"),
        pd.Series(["3", "0", "99"]),
        pd.Series(["3", "0", "99"], dtype=object),
        pd.Series(["3", "0", "99"], dtype="string"),
        pd.Series(["3", "0", "99"], dtype="category"),
        pd.Series([" 3", "0 ", "99.0"]),
        pd.Series(["003", "-0", "9.9e1"]),
        pd.Series([3, "0", 99.0], dtype=object),
        pd.Series([Decimal(3), Decimal(0), Decimal("99.00")], dtype=object),
        pd.Series(WHOLE, dtype=pd.ArrowDtype(pa.int16())),
        pd.Series(WHOLE, dtype=pd.ArrowDtype(pa.uint64())),
        pd.Series(WHOLE, dtype=pd.ArrowDtype(pa.float64())),
        pd.Series(["3", "0", "99"], dtype=pd.ArrowDtype(pa.string())),
        pd.Series([Decimal(3), Decimal(0), Decimal(99)], dtype=pd.ArrowDtype(pa.decimal128(5, 1))),
        pd.Series(WHOLE, dtype=pd.SparseDtype("int64", 0)),
        pa.array(WHOLE),
        pd.Index(WHOLE),
        (value for value in WHOLE),
        pd.Series([3, -0.0, 99], index=[7, 7, 7]),
    ],
)
def test_whole_numbers_however_stored(entries: Any) -> None:
    assert Integer("x", minimum=0, maximum=99).encode(entries).tolist() == WHOLE


@pytest.mark.parametrize(
    "entries",
    [
        [1, None],
        [1.0, math.nan],
        np.array([1.0, np.nan]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1, None], dtype="Float64"),
        pd.Series([1, None], dtype=pd.ArrowDtype(pa.int32())),
        pd.Series(["1", None]),
        pd.Series(["1", ""]),
        pd.Series(["1", " NA "]),
        pd.Series(["1", "nan"]),
        pd.Series([1, pd.NA], dtype=object),
        pd.Series([1, pd.NaT], dtype=object),
        pd.Series([1, None], dtype="category"),
        pd.Series(["1", "?"]),
        pd.Series([1, -9]),
        pd.Series(["1", "-9"]),
        pd.Series([1, -9.0], dtype=object),
    ],
)
def test_missing_numbers_however_stored(entries: Any) -> None:
    column = Integer("x", minimum=0, maximum=4, missing=True, missing_values=["?", -9])
    assert column.encode(entries).tolist() == [1, 5]
    real = Real("x", bins=[0, 1, 2], missing=True, missing_values=["?", -9])
    assert real.encode(entries).tolist() == [1, 2]


def test_infinities_are_never_possible_values() -> None:
    open_ended = Real("x", bins=["<0", ">=0"])
    for infinite in (math.inf, -math.inf, "inf", "-Infinity"):
        with pytest.raises(DataError, match="outside the declared domain"):
            open_ended.encode([0.0, infinite])
    clamped = Real("x", bins=["<0", ">=0"], out_of_domain="clamp")
    assert clamped.encode([math.inf, -math.inf]).tolist() == [1, 0]
    assert Integer("x", bins=["<0", ">=0"], out_of_domain="clamp").encode(["inf", "-inf"]).tolist() == [1, 0]


def test_negative_zero_is_zero() -> None:
    assert Real("x", bins=["<0", ">=0"]).encode([-0.0, 0.0]).tolist() == [1, 1]
    assert Categorical("x", values=[0, 1]).encode([-0.0]).tolist() == [0]
    assert Real("x", values=[-0.0, 1.0]).encode([0.0]).tolist() == [0]


def test_large_whole_numbers_stay_exact() -> None:
    big = 2**53
    column = Integer("x", values=[big, big + 1, big + 2])
    assert column.encode([big + 1]).tolist() == [1]
    assert column.encode([str(big + 1)]).tolist() == [1]
    assert column.encode(pd.Series([big + 2], dtype="Int64")).tolist() == [2]
    with pytest.raises(DataError):
        column.encode([10**30])
    with pytest.raises(DataError):
        column.encode(np.array([2**64 - 1], dtype=np.uint64))
    wide = Integer("x", minimum=-(2**62), maximum=2**62, bins=2)
    assert wide.encode([-(2**62), 2**62, 0]).tolist() == [0, 1, 1]


def test_fractions_are_outside_a_whole_number_domain() -> None:
    for entries in ([1.5], ["1.5"], pd.Series([1.5], dtype="Float64"), [Decimal("1.5")]):
        with pytest.raises(DataError, match="outside"):
            Integer("x", minimum=0, maximum=4).encode(entries)
    assert Integer("x", minimum=0, maximum=4, out_of_domain="clamp").encode(
        [1.5, 1.6, -3.2, 88]
    ).tolist() == [1, 2, 0, 4]


@pytest.mark.parametrize(
    "junk", ["abc", "1,5", "0x1", "1_0", "٣", "--1", [1, 2], {"a": 1}, b"1", dt.date(2014, 1, 1), 1j]
)
def test_entries_that_are_not_numbers(junk: Any) -> None:
    entries = pd.Series([1, junk], dtype=object)
    with pytest.raises(DataError, match=r"not whole numbers \(written like 1234:"):
        Integer("x", minimum=0, maximum=4).encode(entries)
    with pytest.raises(DataError, match="not whole numbers"):
        Integer("x", minimum=0, maximum=4, out_of_domain="clamp").encode(entries)
    assert Integer("x", minimum=0, maximum=4, out_of_domain="to-other").encode(entries).tolist() == [1, 5]
    lost = Integer("x", minimum=0, maximum=4, missing=True, out_of_domain="to-missing")
    assert lost.encode(entries).tolist() == [1, 5]


def test_bins_are_also_read_from_their_labels() -> None:
    age = Integer("age", bins=["<18", "18-64", "64<"], missing=True)
    assert age.encode(["<18", " 18-64 ", "64<", "64", None]).tolist() == [0, 1, 2, 1, 3]
    born = Date("d", minimum="2014-01-01", maximum="2014-12-31", resolution="month")
    assert born.encode(["2014-03", "2014-03-31"]).tolist() == [2, 2]


# -- categories ------------------------------------------------------------------------------------


def test_text_matches_exactly() -> None:
    column = Categorical("zip", values=["007", "7", "07"])
    assert column.encode(["7", "007", "07"]).tolist() == [1, 0, 2]
    assert column.encode([7]).tolist() == [1]
    with pytest.raises(DataError):
        column.encode([" 7"])


def test_declared_numbers_match_by_value() -> None:
    column = Categorical("x", values=[1, 2, 2.5])
    assert column.encode(["1.0", 2, "2.50", 1.0, Decimal("2.5"), np.int8(2)]).tolist() == [0, 1, 2, 0, 2, 1]
    with pytest.raises(DataError):
        column.encode(["one"])


def test_categories_of_other_types() -> None:
    truth = Categorical("x", values=["True", "False"])
    assert truth.encode([True, False]).tolist() == [0, 1]
    assert truth.encode(pd.Series([True, "False"], dtype=object)).tolist() == [0, 1]
    assert Categorical("x", values=["1", "true"]).encode(pd.Series([1, True], dtype=object)).tolist() == [
        0,
        1,
    ]
    day = Categorical("x", values=["2014-01-31"])
    assert day.encode([dt.date(2014, 1, 31)]).tolist() == [0]
    assert day.encode(pd.Series(pd.to_datetime(["2014-01-31"]))).tolist() == [0]
    with pytest.raises(DataError, match="neither text nor numbers"):
        day.encode(pd.Series([["a"]], dtype=object))
    with pytest.raises(DataError, match="outside"):
        day.encode([True])


def test_unused_categories_of_a_frame_do_no_harm() -> None:
    entries = pd.Series(pd.Categorical(["a", "b"], categories=["a", "b", "surprise"]))
    assert Categorical("x", values=["a", "b"]).encode(entries).tolist() == [0, 1]


def test_an_empty_text_is_missing_unless_it_is_a_value() -> None:
    assert Categorical("x", values=["a"], missing=True).encode(["", "a"]).tolist() == [1, 0]
    assert Categorical("x", values=["a", ""]).encode(["", "a"]).tolist() == [1, 0]
    assert Categorical("x", values=["a", "NA"]).encode(["NA"]).tolist() == [1]
    assert Categorical("x", values=["a"], missing=True, missing_values=["?", 9]).encode(
        ["?", 9, "9"]
    ).tolist() == [1, 1, 1]


def test_ordinals_clamp_to_the_nearest_number() -> None:
    stars = Ordinal("stars", values=[1, 2, 5], out_of_domain="clamp")
    assert stars.encode([0, 3, 4, 9, "inf", "2", 10**400]).tolist() == [0, 1, 2, 2, 2, 1, 2]
    with pytest.raises(DataError, match="neither"):
        stars.encode(["many"])
    with pytest.raises(DataError):
        stars.encode([True])


@pytest.mark.parametrize(
    "spelling", ["true", "TRUE", "T", "yes", "Y", "1", "1.0", True, 1, 1.0, np.True_, Decimal(1)]
)
def test_spellings_of_true(spelling: Any) -> None:
    assert Boolean("x").encode(pd.Series([spelling], dtype=object)).tolist() == [1]


@pytest.mark.parametrize("spelling", ["false", "F", "no", " n ", "0", False, 0, 0.0, np.False_])
def test_spellings_of_false(spelling: Any) -> None:
    assert Boolean("x").encode(pd.Series([spelling], dtype=object)).tolist() == [0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_lie_on_their_days_up_to_the_first_that_there_is(unit: str) -> None:
    """Caught: a day in 1677 that NumPy takes for one in 2262, and a moment before 1970 that is rounded up to the next day."""
    column = Date("d", minimum="1677-01-01", maximum="2262-12-31")
    firsts = [pd.Timestamp.min.ceil(unit), pd.Timestamp("1970-01-01") - pd.Timedelta(f"1{unit}")]
    moments = pd.Series([*firsts, pd.Timestamp.max.floor(unit)]).astype(np.dtype(f"datetime64[{unit}]"))
    days = [(moment.date() - dt.date(1677, 1, 1)).days for moment in moments]
    for kind in (moments.dtype, pd.ArrowDtype(pa.timestamp(unit)), pd.ArrowDtype(pa.timestamp(unit, "UTC"))):
        assert column.encode(moments.astype(kind)).tolist() == days


def test_truth_values_of_every_storage() -> None:
    for entries in (
        [True, False],
        pd.Series([True, False], dtype="boolean"),
        pd.Series([True, False], dtype=pd.ArrowDtype(pa.bool_())),
        pd.Series([1, 0], dtype="Int8"),
        pd.Series(["yes", "no"], dtype="category"),
    ):
        assert Boolean("x").encode(entries).tolist() == [1, 0]
    column = Boolean("x", missing=True, missing_values=["dk", 9])
    assert column.encode(pd.Series([True, None, "dk", 9, "", "na"], dtype=object)).tolist() == [
        1,
        2,
        2,
        2,
        2,
        2,
    ]
    for junk in ("maybe", 2, 0.5, [True]):
        with pytest.raises(DataError, match="not truth values"):
            Boolean("x").encode(pd.Series([True, junk], dtype=object))


# -- dates -----------------------------------------------------------------------------------------

YEAR = Date("d", minimum="2014-01-01", maximum="2014-12-31", resolution="month", missing=True)


@pytest.mark.parametrize(
    "entries",
    [
        ["2014-03-31", None],
        ["2014-03-31T23:59:59", ""],
        ["2014-03-31 10:00", "NaT"],
        [dt.date(2014, 3, 31), None],
        [dt.datetime(2014, 3, 31, 23), None],
        pd.to_datetime(pd.Index(["2014-03-31", None])),
        # a moment with a time zone lies on its day in UTC
        pd.Series(pd.to_datetime(pd.Index(["2014-02-28 23:30", None])).tz_localize("America/New_York")),
        [pd.Timestamp("2014-02-28 23:30", tz="America/New_York"), None],
        [dt.datetime(2014, 2, 28, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-5))), None],
        pd.Series(np.array(["2014-03-31", "NaT"], dtype="datetime64[s]")),
        pd.Series(pd.PeriodIndex(["2014-03", "NaT"], freq="M")),
        pd.Series([dt.date(2014, 3, 31), None], dtype=pd.ArrowDtype(pa.date32())),
        pd.Series([dt.datetime(2014, 3, 31, 23), None], dtype=pd.ArrowDtype(pa.timestamp("us"))),
        pd.Series(pd.to_datetime(pd.Index(["2014-04-01 08:30", None])).tz_localize("Asia/Tokyo")).astype(
            pd.ArrowDtype(pa.timestamp("us", tz="Asia/Tokyo"))
        ),
        pd.Series([np.datetime64("2014-03-31"), None], dtype=object),
        pd.Series(["2014-03-31", None], dtype="category"),
    ],
)
def test_dates_however_stored(entries: Any) -> None:
    assert YEAR.encode(entries).tolist() == [2, 12]


def test_times_before_1970_fall_on_their_own_day() -> None:
    column = Date("d", minimum="1969-12-30", maximum="1970-01-02")
    stamps = pd.Series(pd.to_datetime(["1969-12-31 23:59", "1970-01-01 00:00"]))
    assert column.encode(stamps).tolist() == [1, 2]
    assert column.encode(stamps.astype(pd.ArrowDtype(pa.timestamp("us")))).tolist() == [1, 2]


@pytest.mark.parametrize("junk", ["31.03.2014", "2014-02-30", "20140331", "2014", 5, 20140331, "soon", [1]])
def test_entries_that_are_not_dates(junk: Any) -> None:
    with pytest.raises(DataError, match="not dates"):
        YEAR.encode(pd.Series(["2014-01-01", junk], dtype=object))
    with pytest.raises(DataError, match="not dates"):
        YEAR.encode(pd.Series([1, 2]))


def test_other_date_formats_are_declared() -> None:
    column = Date("d", minimum="2014-01-01", maximum="2014-12-31", resolution="month", format="%d/%m/%Y")
    assert column.encode(["31/3/2014", "01/12/2014"]).tolist() == [2, 11]
    compact = Date("d", minimum="2014-01-01", maximum="2014-12-31", resolution="month", format="%Y%m%d")
    assert compact.encode([20140331]).tolist() == [2]
    for junk in ("2014-03-31T10:00", "2014-3-31", "31.3.2014", "2014-02-30"):
        with pytest.raises(DataError, match="not dates"):
            column.encode([junk])


def test_synthetic_dates_in_a_file_fit_a_column_with_a_format() -> None:
    column = Date("d", minimum="2014-01-01", maximum="2014-12-31", resolution="day", format="%m/%d/%Y")
    codes = np.arange(column.size)
    written = pd.Series(column.decode(codes, np.random.default_rng(0))).astype(str)
    assert written[40] == "2014-02-10"
    assert column.encode(written).tolist() == codes.tolist()
    with pytest.raises(SchemaError, match="reads ISO dates"):
        Date("d", minimum="2014-01-01", maximum="2014-12-31", resolution="day", format="%Y-%d-%m")


@pytest.mark.parametrize(
    ("resolution", "size", "first", "last"),
    [
        ("day", 366, "2013-12-31", "2014-12-31"),
        ("week", 53, "2014-W01", "2015-W01"),
        ("month", 13, "2013-12", "2014-12"),
        ("quarter", 5, "2013-Q4", "2014-Q4"),
        ("year", 2, "2013", "2014"),
    ],
)
def test_resolutions(resolution: Any, size: int, first: str, last: str) -> None:
    column = Date("d", minimum="2013-12-31", maximum="2014-12-31", resolution=resolution)
    assert (column.size, column.labels[0], column.labels[-1]) == (size, first, last)
    days = [str(day) for day in np.arange("2013-12-31", "2015-01-01", dtype="datetime64[D]")]
    codes = column.encode(days).astype(int)
    assert codes[0] == 0
    assert codes[-1] == size - 1
    assert set(np.diff(codes)) <= {0, 1}
    assert column.encode(list(column.labels)).tolist() == list(range(size))


def test_dates_by_edges() -> None:
    column = Date("d", bins={"edges": ["2014-01-01", "2014-07-01"], "open": "both"}, out_of_domain="refuse")
    assert column.labels == ("<=2013-12-31", "2014-01-01 to 2014-06-30", ">=2014-07-01")
    assert column.encode(["1600-01-01", "2014-06-30", "2014-07-01"]).tolist() == [0, 1, 2]
    half = Date("d", bins=["2014-01-01", "2014-07-01", "2014-07-02"])
    assert half.labels == ("2014-01-01 to 2014-06-30", "2014-07-01 to 2014-07-02")
    clamped = Date("d", bins=["2014-01-01", "2014-07-01"], out_of_domain="clamp")
    assert clamped.encode(["1900-01-01", "2100-01-01"]).tolist() == [0, 0]
    assert clamped.decode([0], GENERATOR).astype("datetime64[D]").astype(str).tolist() == ["2014-04-01"]


# -- decoding --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (Integer("x", minimum=0, maximum=3), "int64"),
        (Integer("x", minimum=0, maximum=3, missing=True), "Int64"),
        (Integer("x", bins=["<3", "3<="], decode_by="label"), "object"),
        (Integer("x", minimum=0, maximum=3, out_of_domain="to-other"), "object"),
        (Real("x", bins=[0, 1, 2]), "float64"),
        (Real("x", bins=[0, 1, 2], missing=True), "float64"),
        (Boolean("x"), "bool"),
        (Boolean("x", missing=True), "boolean"),
        (Categorical("x", values=["a", "b"]), "object"),
        (Categorical("x", values=[1, 2]), "int64"),
        (Categorical("x", values=[1, 2], missing=True), "Int64"),
        (Categorical("x", values=[1, 2.5]), "float64"),
        (Categorical("x", values=[1, 2**70]), "float64"),
        (Categorical("x", values=[1, "b"]), "object"),
        (YEAR, "datetime64[s]"),
    ],
)
def test_the_type_of_decoded_values_depends_on_the_column_only(column: Column, dtype: str) -> None:
    for codes in ([], [0], list(range(column.size))):
        assert str(pd.Series(column.decode(np.array(codes, dtype=np.uint8), GENERATOR)).dtype) in (
            dtype,
            "str" if dtype == "object" else dtype,
        )
        assert str(column.decode(np.array(codes, dtype=np.uint8), GENERATOR).dtype) == dtype


@pytest.mark.parametrize("codes", [[3], [-1], [0.5], ["a"], [[0]], 0, [True]])
def test_codes_that_are_none(codes: Any) -> None:
    with pytest.raises(DataError, match="codes of column 'x'"):
        Integer("x", minimum=0, maximum=2).decode(codes, GENERATOR)


def test_uniform_values_fill_their_bin() -> None:
    """400 draws miss one of 10 values with probability below 10 * 0.9**400, about 5e-18."""
    column = Integer("x", bins=[0, 10, 20], decode_by="integer-uniform")
    drawn = column.decode(np.zeros(400, dtype=int), np.random.default_rng(5))
    assert sorted(set(drawn.tolist())) == list(range(10))
    real = Real("x", bins=[0, 10, 20], decode_by="integer-uniform")
    assert sorted(set(real.decode(np.zeros(400, dtype=int), np.random.default_rng(5)).tolist())) == list(
        range(10)
    )
    smooth = Real("x", bins=[0, 10, 20], decode_by="uniform").decode(
        np.ones(400, dtype=int), np.random.default_rng(5)
    )
    assert len(set(smooth.tolist())) == 400
    assert smooth.min() >= 10
    assert smooth.max() <= 20


def test_a_missing_spelling_must_not_be_a_possible_value() -> None:
    for build in (
        lambda: Integer("x", minimum=0, maximum=99, missing=True, missing_values=[99]),
        lambda: Integer("x", bins=["0-50", "50<"], missing=True, missing_values=["51"]),
        lambda: Real("x", bins=[0, 10], missing=True, missing_values=[-1, 5.5]),
        lambda: Date(
            "x", minimum="2014-01-01", maximum="2014-12-31", missing=True, missing_values=["2014-06-06"]
        ),
    ):
        with pytest.raises(SchemaError, match="also a possible value"):
            build()
    aged = Integer("x", bins=["<18", "18-64", "64<"], missing=True, missing_values=[99, "998"])
    assert aged.encode([98, 99, "99", 998.0, "998"]).tolist() == [2, 3, 3, 3, 3]
    seen = Date("x", minimum="2014-01-01", maximum="2014-12-31", missing=True, missing_values=["9999-12-31"])
    for entries in (["9999-12-31"], [dt.date(9999, 12, 31)], np.array(["9999-12-31"], dtype="datetime64[D]")):
        assert seen.encode(entries).tolist() == [365]


def test_a_real_column_with_bounds_alone_is_a_fine_grid() -> None:
    height = Real("height", minimum=120, maximum=220, missing=True)
    assert height.size == 1_025
    assert height.encode([120.0, 120.05, 120.1, 220.0, None]).tolist() == [0, 0, 1, 1_023, 1_024]
    assert height.midpoints[0] == 120 + 100 / 2_048
    assert Real("x", minimum=0, maximum=1, bins=100_000).size == 100_000


def test_a_grid_decodes_to_any_value_of_its_cells() -> None:
    height = Real("height", minimum=0, maximum=1_024)
    codes = np.repeat(np.array([3, 1_023], dtype=np.uint16), 500)
    values = height.decode(codes, np.random.default_rng(0))
    assert (np.floor(values[:500]) == 3).all()
    assert len(np.unique(values)) == 1_000
    assert height.encode(values).tolist() == codes.tolist()


def test_a_grid_survives_a_file() -> None:
    schema = Schema([Real("height", minimum=120, maximum=220)])
    assert "bins" not in schema.to_yaml()
    assert Schema.parse(schema.to_yaml()) == schema
    assert Schema.parse(schema.to_yaml()).fingerprint() == schema.fingerprint()


@pytest.mark.parametrize(
    "format", ["%d.%m.%Y", "%y%m%d", "%Y", "%d %b %Y", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S%z", "%G-W%V-%u"]
)
def test_formats_that_name_a_year(format: str) -> None:
    Date("x", minimum="2001-01-01", maximum="2001-12-31", resolution="month", format=format)
