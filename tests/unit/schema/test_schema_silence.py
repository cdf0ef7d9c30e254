"""No message ever shows an entry of a table, or how many there are."""

from __future__ import annotations

import datetime as dt
import traceback
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from understudy.errors import UnderstudyError
from understudy.schema import Boolean, Categorical, Column, Constraint, Date, Integer, Ordinal, Real, Schema

CANARY = "canary-4711"
NUMBER = 947113
COLUMNS: list[Column] = [
    Categorical("x", values=["a", "b"]),
    Categorical("x", values=[1, 2]),
    Ordinal("x", values=[1, 2, 3], out_of_domain="clamp"),
    Boolean("x"),
    Integer("x", minimum=0, maximum=9),
    Integer("x", minimum=0, maximum=9, out_of_domain="clamp"),
    Integer("x", bins=["0-4", "5-9"]),
    Real("x", minimum=0, maximum=1, bins=3),
    Date("x", minimum="2014-01-01", maximum="2014-12-31", resolution="month"),
    Date("x", minimum="2014-01-01", maximum="2014-12-31", format="%d/%m/%Y"),
]


class Odd:
    """An entry whose text and comparisons are all revealing."""

    def __repr__(self) -> str:
        return CANARY

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise ValueError(CANARY)

    def __hash__(self) -> int:
        raise TypeError(CANARY)


ENTRIES: list[Any] = [
    pd.Series([CANARY, "1"]),
    pd.Series([CANARY, "1"], dtype=object),
    pd.Series([CANARY, "1"], dtype="category"),
    pd.Series([CANARY, "1"], dtype=pd.ArrowDtype(pa.string())),
    pd.Series([NUMBER, 1]),
    pd.Series([NUMBER + 0.5, 1.0]),
    pd.Series([str(NUMBER), "1"]),
    pd.Series([Decimal(NUMBER), 1], dtype=object),
    pd.Series([10**400 + NUMBER, 1], dtype=object),
    pd.Series([CANARY.encode(), 1], dtype=object),
    pd.Series([[CANARY], {"a": CANARY}], dtype=object),
    pd.Series([Odd(), 1], dtype=object),
    pd.Series([dt.datetime(4711, 9, 4, 7, 11, 3), 1], dtype=object),
    pd.Series([f"4711-09-47{CANARY}", "1"]),
    pd.Series([complex(NUMBER, NUMBER), 1j]),
    pd.Series([pd.Interval(NUMBER, NUMBER + 1), dt.timedelta(days=NUMBER)], dtype=object),
    pd.Series(pd.to_timedelta([NUMBER], unit="s")),
    pd.Series([[NUMBER]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    np.array([[NUMBER, 1]]),
    [None, CANARY],
    [np.nan, NUMBER],
]


@pytest.mark.parametrize("place", range(len(ENTRIES)))
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.kind}-{column.out_of_domain}")
def test_no_entry_appears_in_an_error_or_its_traceback(column: Column, place: int) -> None:
    entries = ENTRIES[place]
    for attempt in (
        lambda: column.encode(entries),
        lambda: Schema([column]).encode_frame(
            pd.DataFrame({"x": pd.Series(np.ravel(entries) if isinstance(entries, np.ndarray) else entries)})
        ),
    ):
        try:
            attempt()
        except UnderstudyError as error:
            # what a terminal would show, chained errors included, without the source lines of this file
            shown = "".join(traceback.TracebackException.from_exception(error).format_exception_only())
            chain = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
            shown += str(chain) + repr(getattr(error, "problems", ""))
            for secret in ("4711", str(NUMBER), CANARY):
                assert secret not in shown
            assert "Column 'x'" in shown


@pytest.mark.parametrize("place", range(len(ENTRIES)))
def test_constraints_on_raw_entries_are_silent_too(place: int) -> None:
    for column, rule in (
        (Integer("x", minimum=0, maximum=9), "x < 3"),
        (Categorical("x", values=["a"]), "x == 'a'"),
        (Date("x", minimum="2014-01-01", maximum="2014-12-31"), "x < '2014-03-01'"),
        (Boolean("x"), "x"),
    ):
        message = ""
        try:
            holds = Constraint.parse(rule, [column]).holds_raw({"x": ENTRIES[place]})
            assert holds.dtype == bool
        except UnderstudyError as error:
            message = str(error)
        assert CANARY not in message
        assert str(NUMBER) not in message


def test_messages_do_not_tell_how_many() -> None:
    column = Integer("x", minimum=0, maximum=9)
    messages = set()
    for wrong in (1, 10, 1000):
        _, problems = column.try_encode(np.array([3] * 50 + [99] * wrong))
        messages.update(problems)
    assert len(messages) == 1
    assert "private and not shown" in messages.pop()


@pytest.mark.parametrize("policy", ["to-missing", "to-other"])
@pytest.mark.parametrize("place", range(len(ENTRIES)))
@pytest.mark.parametrize(
    "build",
    [
        lambda **k: Categorical("x", values=["a", "b"], **k),
        lambda **k: Boolean("x", **k),
        lambda **k: Integer("x", minimum=0, maximum=9, **k),
        lambda **k: Real("x", bins=[0, 1], **k),
        lambda **k: Date("x", minimum="2014-01-01", maximum="2014-12-31", **k),
    ],
)
def test_total_policies_accept_whatever_comes(build: Any, place: int, policy: str) -> None:
    column = build(missing=True, out_of_domain=policy)
    codes = column.encode(ENTRIES[place])
    assert len(codes) == np.size(ENTRIES[place])
    assert (codes < column.size).all()
    again = column.encode(column.decode(codes, np.random.default_rng(0)))
    assert (again == codes).all()  # what an entry became is a value of the column


NEAREST: list[Column] = [
    Categorical("x", values=["a", "b"], out_of_domain="to-nearest"),
    Ordinal("x", values=[1, 2, 3], out_of_domain="to-nearest"),
    Ordinal("x", values=["low", "high"], out_of_domain="to-nearest"),
    Boolean("x", out_of_domain="to-nearest"),
    Integer("x", minimum=0, maximum=9, out_of_domain="to-nearest"),
    Integer("x", minimum=0, maximum=9, missing=True, out_of_domain="to-nearest"),
    Integer("x", values=[0, 7, 9], out_of_domain="to-nearest"),
    Real("x", minimum=0, maximum=1, bins=3, out_of_domain="to-nearest"),
    Real("x", minimum=0, maximum=1, bins=3, decimal=",", out_of_domain="to-nearest"),
    Date("x", minimum="2014-01-01", maximum="2014-12-31", resolution="month", out_of_domain="to-nearest"),
]


@pytest.mark.parametrize("column", NEAREST, ids=str)
def test_to_nearest_takes_every_entry_by_itself(column: Column) -> None:
    """Whatever an entry holds, it has a code, and the code does not depend on the other entries: neighbours stay neighbours."""
    entries: list[Any] = [
        *(CANARY, "", None, "?", "1", "1,5", "0.5", -1e300, 1e300, float("nan"), float("inf"), True, 10**400),
        *("2013-01-01", "2031-05-05", dt.date(2014, 5, 5), Decimal("7.5"), b"x", "low", "a", "7"),
    ]
    together = column.encode(pd.Series(entries, dtype=object)).tolist()
    alone = [int(column.encode(pd.Series([entry], dtype=object))[0]) for entry in entries]
    assert together == alone
    assert all(0 <= code < column.size for code in together)
    assert together[0] == (column.missing_code if column.missing else column.stray_code)


def test_to_nearest_moves_numbers_and_dates_to_the_ends() -> None:
    age = Integer("age", bins=["18-39", "40-64"], out_of_domain="to-nearest")
    assert age.encode([3, 99, "x"]).tolist() == [0, 1, 1]
    day = Date("d", bins=["2014-01-01", "2014-07-01", "2015-01-01"], out_of_domain="to-nearest")
    assert day.encode(["2001-01-01", "2020-01-01"]).tolist() == [0, 1]
    assert Schema.from_dict(Schema([age, day]).to_dict()) == Schema([age, day])
