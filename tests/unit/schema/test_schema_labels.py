"""Bins as people write them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import SchemaError
from understudy.schema import Bins, Integer, Real
from understudy.schema.coding.labels import Span, expand_labels, parse_label, show_number

TABLE_1 = {
    "mother_age": ["<18", "18-19", "20-24", "25-29", "30-34", "35-36", "37-39", "40-42", "43-44", "44<"],
    "parity": ["1", "2-3", "4-6", "7-10", "10<"],
    "gestation_week": ["<29", "29-31", "32-33", "34-36", "37-41", "41<"],
    "birth_weight": ["<1500", "1500-1599", "...", "4400-4499", "4499<"],
}


@pytest.mark.parametrize(
    ("label", "span"),
    [
        ("7", Span(7, 7)),
        ("-7", Span(-7, -7)),
        ("0.5", Span(0.5, 0.5)),
        ("18-19", Span(18, 19)),
        ("18 - 19", Span(18, 19)),
        ("18–19", Span(18, 19)),
        ("18 to 19", Span(18, 19)),
        ("18..19", Span(18, 19)),
        ("-5 to -1", Span(-5, -1)),
        ("-5--1", Span(-5, -1)),
        ("1e-5-2e-5", Span(1e-5, 2e-5)),
        ("<18", Span(None, 18, high_included=False)),
        ("<=17", Span(None, 17)),
        ("≤17", Span(None, 17)),
        ("17>=", Span(None, 17)),
        ("18>", Span(None, 18, high_included=False)),
        ("44<", Span(44, None, low_included=False)),
        (">44", Span(44, None, low_included=False)),
        ("45<=", Span(45, None)),
        (">=45", Span(45, None)),
        ("≥45", Span(45, None)),
        ("45+", Span(45, None)),
        ("[0, 10)", Span(0, 10, True, False)),
        ("(0,10]", Span(0, 10, False, True)),
        ("[45, )", Span(45, None, True, False)),
        ("(-inf, 3]", Span(None, 3, False, True)),
        ("[3, inf)", Span(3, None, True, False)),
        (" 7 ", Span(7, 7)),
    ],
)
def test_every_form_of_label(label: str, span: Span) -> None:
    assert parse_label(label) == span


@pytest.mark.parametrize(
    "label",
    [
        "",
        "young",
        "18-",
        "-",
        "<",
        "<<18",
        "18<19",
        "[0, 10",
        "0, 10)",
        "(inf, 3]",
        "[3, -inf)",
        "1e999",
        "19-18",
        "(3, 3]",
        "[3, 3)",
        "1,000",
        "0x10",
        "١-٢",
        "18_19",
    ],
)
def test_other_text_is_not_a_label(label: str) -> None:
    with pytest.raises(ValueError, match=r"label|value|large"):
        parse_label(label)


def test_table_1_of_paper_births() -> None:
    sizes = {name: Integer(name, bins=labels).size for name, labels in TABLE_1.items()}
    assert sizes == {"mother_age": 10, "parity": 5, "gestation_week": 6, "birth_weight": 32}
    age = Integer("mother_age", bins=TABLE_1["mother_age"])
    assert age.labels == tuple(TABLE_1["mother_age"])
    assert age.encode([12, 17, 18, 19, 20, 24, 36, 37, 44, 45, 99]).tolist() == [
        0,
        0,
        1,
        1,
        2,
        2,
        5,
        6,
        8,
        9,
        9,
    ]


def test_midpoints_follow_the_rule_of_paper_births() -> None:
    """Single value itself, bounded bin the mean of its ends, open bin its edge."""
    age = Integer("a", bins=["<18", "18-19", "20-24", "25", "25<"])
    assert age.midpoints.tolist() == [17.0, 18.5, 22.0, 25.0, 26.0]
    real = Real("r", bins=["<0", "[0, 10)", "[10, 20]", "20<"])
    assert real.midpoints.tolist() == [0.0, 5.0, 15.0, 20.0]
    bounded = Integer("a", minimum=12, maximum=60, bins=["<18", "18-50", "50<"])
    assert bounded.midpoints.tolist() == [14.5, 34.0, 55.5]


def test_dots_continue_equal_bins() -> None:
    texts, spans = expand_labels(["<1500", "1500-1599", "...", "4400-4499", "4499<"], whole=True)
    assert len(texts) == len(spans) == 32
    assert texts[2] == "1600-1699"
    assert expand_labels(["[0, 10)", "…", "[30, 40)"], whole=False)[0] == [
        "[0, 10)",
        "[10, 20)",
        "[20, 30)",
        "[30, 40)",
    ]
    assert expand_labels(["-3 to -2", "...", "3 to 4"], whole=True)[0] == [
        "-3 to -2",
        "-1 to 0",
        "1-2",
        "3 to 4",
    ]
    assert expand_labels(["1", "...", "2"], whole=True)[0] == ["1", "2"]


@pytest.mark.parametrize(
    "labels",
    [
        ["...", "5"],
        ["5", "..."],
        ["5", "...", "...", "9"],
        ["<5", "...", "9"],
        ["5", "...", "<9"],
        ["5", "...", "3"],
        ["1500-1599", "...", "4450-4549"],
        ["0", "...", "99999"],
    ],
)
def test_dots_that_lead_nowhere(labels: list[str]) -> None:
    with pytest.raises(ValueError, match=r"\.\.\."):
        expand_labels(labels, whole=True)


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        (["<29", "29", "31", "31<"], "gap"),  # as in section 4.7.1 of paper Births
        (["1", "2-3", "3-4"], "overlaps"),
        (["5", "3"], "overlaps"),
        (["18-19", "18-19"], "same label"),
        (["<18", "18-19", "20<", "21"], "gap"),  # 20< is 21 and above
        (["0.2 to 0.8"], "no possible value"),
        (["1-99999999999999999999"], "64-bit"),
    ],
)
def test_bins_must_follow_each_other(labels: list[str], complaint: str) -> None:
    if labels[-1] == "21":
        complaint = "overlaps|gap"
    with pytest.raises(SchemaError, match=complaint):
        Integer("x", bins=labels)


def test_real_bins_must_say_who_owns_the_edge() -> None:
    with pytest.raises(SchemaError, match=r"half-open"):
        Real("x", bins=["18-19", "20-24"])
    with pytest.raises(SchemaError, match="overlaps"):
        Real("x", bins=["18-20", "20-24"])
    assert Real("x", bins=["[18, 20)", "[20, 24]"]).encode([18, 19.999, 20, 24]).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("bins", "low", "high"),
    [
        (Bins.of([0, 5, 9]), [0, 5], [4, 9]),
        (Bins.of({"edges": [0, 5, 9], "closed": "right"}), [0, 6], [5, 9]),
        (Bins.of({"edges": [0, 5], "open": "both"}), [None, 0, 5], [-1, 4, None]),
        (Bins.of({"edges": [0, 5], "open": "low"}), [None, 0], [-1, 5]),
        (Bins.of({"edges": [0, 5], "open": "high"}), [0, 5], [4, None]),
        (Bins.of({"edges": [0, 5], "open": "both", "closed": "right"}), [None, 1, 6], [0, 5, None]),
        (Bins.of({"edges": [5], "open": "both"}), [None, 5], [4, None]),
        (Bins.of({"edges": [5], "open": "high"}), [5], [None]),
        (Bins.of({"edges": [5], "open": "low"}), [None], [5]),
    ],
)
def test_edges_of_whole_numbers(bins: Bins, low: list[int | None], high: list[int | None]) -> None:
    cells = Integer("x", bins=bins).cells
    ends = np.iinfo(np.int64)
    assert cells.low.tolist() == [ends.min if value is None else value for value in low]
    assert cells.high.tolist() == [ends.max if value is None else value for value in high]


@pytest.mark.parametrize(
    ("bins", "complaint"),
    [
        ([3, 2], "ascend"),
        ([3], "two edges"),
        ({"edges": [3, 3]}, "ascend"),
        ({"edges": [1, 2], "labels": ["1"]}, "exactly one"),
        ({}, "exactly one"),
        ({"edges": [1, 2], "open": "up"}, "open"),
        ({"edges": [1, 2], "closed": "both"}, "closed"),
        ({"count": 3, "open": "both"}, "edges only"),
        ({"edge": [1, 2]}, "no option named 'edge'"),
        ({"edges": "1 2"}, "lists"),
        ({"edges": []}, "lists"),
        (0, "whole number from 1"),
        (-4, "whole number from 1"),
        (10**9, "whole number from 1"),
        (True, "list of labels"),
        ("<18", "list of labels"),
        (3.5, "list of labels"),
        ([math.inf, 3], "label must be|not a bin label|text or a number"),
        ([None, 3], "label must be"),
        (["2014-01-01", "2015-01-01"], "not a bin label"),
        ({"edges": ["2014-01-01", "2015-01-01"]}, "must be numbers"),
        ({"edges": [None, 2]}, "every edge"),
    ],
)
def test_bins_that_cannot_be_read(bins: object, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        Integer("x", minimum=0, maximum=9, bins=bins)  # type: ignore[arg-type]


def test_a_number_of_bins_divides_the_bounds() -> None:
    assert Integer("x", minimum=0, maximum=9, bins=3).labels == ("0-2", "3-5", "6-9")
    assert Integer("x", minimum=-5, maximum=4, bins=2).labels == ("-5 to -1", "0-4")
    assert Integer("x", minimum=0, maximum=2, bins=3).labels == ("0", "1", "2")
    assert Real("x", minimum=0, maximum=1, bins=3).labels == (
        "[0, 0.333333)",
        "[0.333333, 0.666667)",
        "[0.666667, 1]",
    )
    for column, complaint in (
        (lambda: Integer("x", minimum=0, bins=3), "needs a minimum and a maximum"),
        (lambda: Integer("x", minimum=0, maximum=1, bins=3), "more than the whole numbers"),
        (lambda: Real("x", minimum=-1e308, maximum=1e308, bins=3), "too wide"),
        (lambda: Real("x", minimum=1.0, maximum=math.nextafter(1.0, 2.0), bins=50), "more than the range"),
    ):
        with pytest.raises(SchemaError, match=complaint):
            column()


def test_bounds_cut_open_bins_off() -> None:
    weight = Integer("w", minimum=500, maximum=5500, bins=["<1500", "1500-4499", "4499<"])
    assert weight.cells.low.tolist() == [500, 1500, 4500]
    assert weight.cells.high.tolist() == [1499, 4499, 5500]
    assert weight.labels == ("<1500", "1500-4499", "4499<")
    with pytest.raises(SchemaError, match="no possible value"):
        Integer("w", minimum=2000, bins=["<1500", "1500-4499", "4499<"])


@given(
    st.lists(st.integers(-50, 50), min_size=2, max_size=8, unique=True).map(sorted),
    st.booleans(),
    st.booleans(),
)
def test_labels_of_edges_read_back_to_the_same_cells(edges: list[int], low: bool, high: bool) -> None:
    ends = {(False, False): "none", (True, False): "low", (False, True): "high", (True, True): "both"}[
        low, high
    ]
    column = Integer("x", bins={"edges": edges, "open": ends})
    again = Integer(
        "x", bins=list(column.labels) if len(column.labels) > 1 else {"labels": list(column.labels)}
    )
    assert again.cells.low.tolist() == column.cells.low.tolist()
    assert again.cells.high.tolist() == column.cells.high.tolist()


@given(st.one_of(st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False)))
def test_a_number_shown_reads_back(value: int | float) -> None:
    assert float(parse_label(show_number(value)).low or 0) == float(value)


@pytest.mark.parametrize(
    "plain", [5, [0, 1, 2], ["<1", "1", "1<"], {"edges": [0, 1], "open": "both", "closed": "right"}]
)
def test_bins_survive_their_plain_form(plain: object) -> None:
    assert Bins.of(Bins.of(plain).to_plain()) == Bins.of(plain)
    assert Bins.of(Bins.of(plain)) is not None
