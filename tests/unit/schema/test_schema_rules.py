"""Rules between columns: values inside bins obey together, dependencies, derived columns, the calendar."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import ConstraintError, SchemaError
from understudy.schema import Categorical, Constraint, Date, Integer, Ordinal, Real, Schema
from understudy.schema.coding.calendar import CALENDAR, NAMES, calendar_number

STAYS = """
columns:
  - {name: arrival, kind: date, minimum: 2015-01-01, maximum: 2016-12-31, resolution: month}
  - {name: departure, kind: date, minimum: 2015-01-01, maximum: 2017-01-31, resolution: month, missing: true}
  - {name: week, kind: integer, minimum: 1, maximum: 53}
  - {name: city, kind: categorical, values: [Lyon, Lille, Porto], missing: true}
  - {name: country, kind: categorical, values: [France, Portugal]}
rules:
  - departure >= arrival + 1
  - {rule: departure - arrival <= 30, description: Nobody stays longer}
  - week == week_of(arrival)
determines:
  city: {country: {Lyon: France, Lille: France, Porto: Portugal}}
derived:
  nights: {value: departure - arrival, after: departure, description: How long}
  day: weekday_name_of(arrival)
"""


def codes_of(schema: Schema, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random codes that pass."""
    generator = np.random.default_rng(seed)
    codes = {column.name: generator.integers(0, column.size, rows) for column in schema.columns}
    kept = schema.holds_codes(codes)
    return {name: part[kept] for name, part in codes.items()}


# -- files -----------------------------------------------------------------------------------------


def test_a_schema_with_rules_goes_to_a_file_and_back() -> None:
    schema = Schema.parse(STAYS)
    again = Schema.parse(schema.to_yaml())
    assert again == schema
    assert again.fingerprint() == schema.fingerprint()
    assert [rule.straddle for rule in schema.rules] == ["values"] * 3
    assert schema.output_names == (
        "arrival",
        "departure",
        "nights",
        "week",
        "city",
        "country",
        "day",
    )


def test_a_rule_and_a_constraint_that_says_values_are_the_same() -> None:
    columns = [Integer("a", bins=["0-4", "5-9"]), Integer("b", bins=["0-4", "5-9"])]
    one = Schema(columns, rules=["a <= b"])
    two = Schema(columns, [{"rule": "a <= b", "straddle": "values"}])
    assert one == two
    assert one.to_dict()["rules"] == ["a <= b"]
    assert "constraints" not in one.to_dict()


def test_what_rules_promise_is_part_of_the_fingerprint() -> None:
    schema = Schema.parse(STAYS)
    plain = schema.to_dict()
    prints = {schema.fingerprint()}
    for key in ("rules", "determines", "derived"):
        prints.add(
            Schema.from_dict({name: part for name, part in plain.items() if name != key}).fingerprint()
        )
    loose = {**plain, "rules": [], "constraints": ["departure >= arrival + 1"]}
    prints.add(Schema.from_dict(loose).fingerprint())
    assert len(prints) == 5
    plain["derived"]["nights"]["description"] = "other words"
    assert Schema.from_dict(plain).fingerprint() == schema.fingerprint()


def test_a_schema_of_version_0_1_0_means_what_it_meant() -> None:
    """Fingerprint and values of version 0.1.0, bit for bit: constraints do not move values."""
    schema = Schema.parse(
        """
columns:
  - {name: a, kind: integer, bins: [0-9, 10-19], decode_by: uniform}
  - {name: b, kind: integer, bins: [0-9, 10-19], decode_by: uniform}
constraints: [a <= b, {rule: a < 15 or b > 3, straddle: forbid}]
"""
    )
    assert schema.fingerprint() == OLD_PRINT
    rows = schema.decode({"a": [0, 0, 1, 0], "b": [0, 0, 1, 1]}, seed=1)
    assert rows.to_numpy().tolist() == OLD_VALUES


OLD_PRINT = "a408584e93b539f0a7a25c759d76471586dac5b467a4dea24538721885ca76cc"
OLD_VALUES = [[0, 9], [6, 4], [18, 11], [1, 16]]


def test_rules_read_from_data_must_be_declared() -> None:
    plain = Schema.parse(STAYS).to_dict()
    schema = Schema.from_dict({**plain, "origin": {"rules": "from-data", "determines": "from-data"}})
    assert schema.facts_from_data() == ("rules", "determines")
    assert schema.declare_public().facts_from_data() == ()


def test_a_selection_keeps_what_it_can_compute() -> None:
    part = Schema.parse(STAYS).select(["arrival", "week", "city"])
    assert [rule.text for rule in part.rules] == ["week == week_of(arrival)"]
    assert part.determines == ()
    assert part.output_names == ("arrival", "week", "city", "day")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rules": ["week == week_off(arrival)"]}, r"No function named 'week_off'. Did you mean 'week_of'"),
        ({"rules": ["week == week_of(city)"]}, "needs a date column; 'city' is categorical"),
        ({"rules": ["week == week_of(arrival"]}, r"Expected '\)' here"),
        ({"rules": ["week == week_of(arrival + 1)"]}, "takes the name of a date column"),
        ({"rules": ["week == week_of(arival)"]}, "No column named 'arival'. Did you mean 'arrival'"),
        (
            {"rules": ["city == month_of(arrival)"]},
            "None of the values of column 'city' is a number from 1 to 12",
        ),
        ({"rules": ["city < month_of(arrival)"]}, "by == and != only"),
        ({"rules": ["week == month_name_of(arrival)"]}, "gives a name"),
        ({"rules": ["month_name_of(arrival) + 1 == 3"]}, "gives a name"),
        ({"rules": ["arrival + departure > 3"]}, "Dates can be subtracted"),
        ({"rules": "departure > arrival"}, "must be a list"),
        ({"rules": [{"rule": "departure > arrival", "straddel": "values"}]}, "Did you mean 'straddle'"),
        ({"determines": {"city": ["contry"]}}, "no column named 'contry'. Did you mean 'country'"),
        ({"determines": {"city": ["city"]}}, "cannot follow from itself"),
        ({"determines": {"city": ["country"], "week": ["country"]}}, "follows from 'city' already"),
        ({"determines": {"city": ["country"], "country": ["city"]}}, "in a circle"),
        ({"determines": {"city": {"country": {"Lyon": "France"}}}}, "no partner for 'Lille', 'Porto'"),
        ({"determines": {"city": {"country": {"Lyon": "Frnce"}}}}, "Did you mean 'France'"),
        ({"determines": {"city": {"country": {}}}}, "table of values is empty"),
        ({"determines": {"city": 3}}, "write the columns it decides"),
        ({"determines": ["city"]}, "write a mapping"),
        ({"derived": {"week": "week_of(arrival)"}}, "take it out of 'columns'"),
        ({"derived": {"x": "wek + 1"}}, "Did you mean 'week'"),
        ({"derived": {"x": "week >= 3"}}, r"Expected '\+'"),
        ({"derived": {"x": "3 + 4"}}, "at least one column"),
        ({"derived": {"x": ""}}, "is empty"),
        ({"derived": {"x": 3}}, "write a formula as text"),
        ({"derived": {"x": "city"}}, "needs 'values'"),
        ({"derived": {"x": {"value": "city", "values": {"Lyn": "L"}}}}, "Did you mean 'Lyon'"),
        ({"derived": {"x": {"value": "week", "aftr": "week"}}}, "Did you mean 'after'"),
        ({"derived": {"x": {"value": "week", "after": "wek"}}}, "Did you mean 'week'"),
        ({"derived": {"x": {"value": "week", "after": "week", "before": "city"}}}, "not both"),
        ({"derived": {"x": {"values": {"1": "a"}}}}, "must hold a formula"),
        ({"derived": {"": "week"}}, "must not be empty"),
        ({"derived": ["x"]}, "write a mapping"),
    ],
)
def test_what_is_wrong_is_said_in_its_place(change: dict[str, Any], complaint: str) -> None:
    plain = Schema.parse(STAYS).to_dict()
    for key in ("rules", "determines", "derived"):
        plain.pop(key)
    with pytest.raises(SchemaError, match=complaint):
        Schema.from_dict({**plain, **change})


def test_calendar_functions_need_dates_with_an_end() -> None:
    born = Date("born", bins={"edges": ["2000-01-01", "2010-01-01"], "open": "high"})
    with pytest.raises(ConstraintError, match="Give 'born' a minimum and a maximum"):
        Schema([born], rules=["year_of(born) > 1999"])


# -- the calendar ----------------------------------------------------------------------------------


@given(st.dates())
def test_the_calendar_is_that_of_the_library(day: dt.date) -> None:
    number = np.int64((day - dt.date(1970, 1, 1)).days)
    wanted = {
        "year_of": day.year,
        "quarter_of": (day.month + 2) // 3,
        "month_of": day.month,
        "week_of": day.isocalendar()[1],
        "weekday_of": day.isoweekday(),
        "day_of": day.day,
        "month_name_of": day.month,
        "weekday_name_of": day.isoweekday(),
    }
    assert set(wanted) == set(CALENDAR)
    for function, expected in wanted.items():
        assert int(calendar_number(function, number)) == expected
        low, high = CALENDAR[function]
        assert low <= expected <= high
    assert NAMES["month_name_of"][day.month - 1] == f"{day:%B}"
    assert NAMES["weekday_name_of"][day.isoweekday() - 1] == f"{day:%A}"


@pytest.mark.parametrize(
    "labels", [range(1, 13), NAMES["month_name_of"], [f"{n[:3].upper()}." for n in NAMES["month_name_of"]]]
)
def test_a_column_of_months_follows_a_date(labels: Any) -> None:
    month = Ordinal("month", values=list(labels))
    date = Date("date", minimum="2019-01-01", maximum="2020-12-31")
    schema = Schema([date, month], rules=["month == month_of(date)"])
    days = pd.date_range("2019-01-01", "2020-12-31")
    codes = {"date": np.arange(len(days)), "month": days.month.to_numpy() - 1}
    assert schema.holds_codes(codes).all()
    assert not schema.holds_codes({**codes, "month": (codes["month"] + 1) % 12}).any()
    frame = schema.decode(codes, seed=0)
    assert schema.holds_raw(frame).all()
    opposite = Constraint.parse("month != month_of(date)", schema)
    assert not opposite.holds_raw(frame).any()


# -- values inside bins ----------------------------------------------------------------------------


def spans(draw: st.DrawFn, kind: str) -> Any:
    """Return a small column of whole numbers or dates in bins."""
    edges = sorted(draw(st.lists(st.integers(0, 14), min_size=2, max_size=5, unique=True)))
    if kind == "date":
        first = dt.date(2020, 2, 25)
        days = [(first + dt.timedelta(days=edge)).isoformat() for edge in edges]
        return {"edges": days}
    return {"edges": edges}


@st.composite
def ruled(draw: st.DrawFn) -> Schema:
    """A schema of three columns of one sort and one or two rules on their differences."""
    kind = draw(st.sampled_from(["integer", "date"]))
    way = st.sampled_from(["midpoint", "uniform", "edge", "label"])
    make = {"integer": Integer, "date": Date}[kind]
    columns = [
        make(name, bins=spans(draw, kind), decode_by=draw(way), missing=draw(st.booleans()))
        for name in ("a", "b", "c")
    ]
    sign = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    pair = st.sampled_from([("a", "b"), ("b", "c"), ("a", "c"), ("c", "a")])
    one = st.builds(
        lambda p, s, k: f"{p[0]} {s} {p[1]} {'+' if k >= 0 else '-'} {abs(k)}", pair, sign, st.integers(-6, 6)
    )
    if kind == "date":
        one = st.one_of(
            one,
            st.builds(
                lambda n, f, s, k: f"{f}({n}) {s} {k}",
                st.sampled_from("abc"),
                st.sampled_from(["day_of", "weekday_of", "month_of"]),
                sign,
                st.integers(1, 7),
            ),
        )
    rule = st.one_of(
        one,
        st.builds(lambda x, y: f"{x} or {y}", one, one),
        st.builds(lambda x, y: f"({x}) implies ({y})", one, one),
        st.builds(lambda x: f"not ({x})", one),
        st.builds(lambda x: f"{x} and b is not missing", one),
    )
    return Schema(columns, rules=draw(st.lists(rule, min_size=1, max_size=3)))


def behind(column: Any, code: int) -> list[Any]:
    """Return every raw entry behind a code."""
    if code == column.missing_code:
        return [None]
    numbers = range(int(column.cells.low[code]), int(column.cells.high[code]) + 1)
    if column.kind == "integer":
        return list(numbers)
    return [(dt.date(1970, 1, 1) + dt.timedelta(days=number)).isoformat() for number in numbers]


@settings(max_examples=150, deadline=None)
@given(ruled(), st.integers(0, 2**32))
def test_values_exist_exactly_where_brute_force_finds_them_and_stay_in_their_bins(
    schema: Schema, seed: int
) -> None:
    grid = list(itertools.product(*(range(column.size) for column in schema.columns)))
    codes = {name: np.array([cell[place] for cell in grid]) for place, name in enumerate(schema.names)}
    allowed = schema.holds_codes(codes)
    for number, cell in enumerate(grid[:40]):
        raw = list(
            itertools.product(*(behind(c, code) for c, code in zip(schema.columns, cell, strict=True)))
        )
        frame = {name: [record[place] for record in raw] for place, name in enumerate(schema.names)}
        assert bool(allowed[number]) == bool(schema.holds_raw(frame).any())
    some = {name: part[allowed] for name, part in codes.items()}
    decoded = schema.decode(some, seed=seed)
    back = schema.encode_frame(decoded)
    for name, part in some.items():
        assert (back[name] == part).all()
    # labels are no values, and hold only what their bins hold
    assert schema.holds_raw(decoded).all()


def test_rules_leave_the_rest_of_the_table_alone() -> None:
    """Without a rule, or where it holds anyway, values are those of the column's own stream."""
    columns = [
        Integer("a", bins=["0-9", "10-19"], decode_by="uniform"),
        Integer("b", bins=["0-9", "10-19"], decode_by="uniform"),
        Real("c", minimum=0, maximum=1, bins=4, decode_by="uniform"),
    ]
    generator = np.random.default_rng(0)
    codes = {name: generator.integers(0, 2, 500) for name in ("a", "b", "c")}
    codes["b"] = np.maximum(codes["a"], codes["b"])
    free, ruled_ = (
        Schema(columns).decode(codes, seed=3),
        Schema(columns, rules=["a <= b"]).decode(codes, seed=3),
    )
    obeys = (free["a"] <= free["b"]).to_numpy()
    assert not obeys.all()
    assert (free[obeys] == ruled_[obeys]).all(axis=None)
    assert (ruled_["a"] <= ruled_["b"]).all()
    assert (free["c"] == ruled_["c"]).all()


def test_redrawn_values_have_the_law_of_the_draw_given_the_rule() -> None:
    """Pairs in the bin 0-9 under a < b are uniform on the 45 pairs.

    Chi-square with 44 degrees of freedom; false alarms once in 10^9. Clipping to the bound, which puts a tenth of the mass on the
    diagonal's neighbours, is caught.
    """
    from scipy.stats import chi2

    columns = [Integer(name, bins=["0-9", "10-19"], decode_by="uniform") for name in "ab"]
    rows = Schema(columns, rules=["a < b"]).decode(
        {"a": np.zeros(20_000, int), "b": np.zeros(20_000, int)}, seed=5
    )
    counts = np.bincount(rows["a"] * 10 + rows["b"], minlength=100).reshape(10, 10)
    pairs = counts[np.triu_indices(10, 1)]
    assert pairs.sum() == 20_000
    expected = 20_000 / 45
    assert ((pairs - expected) ** 2 / expected).sum() < chi2.isf(1e-9, 44)


def test_an_open_bin_gives_a_value_beyond_its_edge_only_if_a_rule_needs_it() -> None:
    columns = [
        Integer("low", bins=["0-9", "9<"]),
        Integer("high", bins=["0-9", "10-99"], decode_by="edge"),
    ]
    schema = Schema(columns, rules=["low > high"])
    rows = schema.decode({"low": [1, 1], "high": [0, 1]}, seed=0)
    assert rows["low"].iloc[0] == 10
    assert (rows["low"] > rows["high"]).all()
    assert rows["high"].between(10, 99).iloc[1]


def test_decimals_and_smooth_values_obey_on_their_own_grid() -> None:
    columns = [
        Real("net", minimum=0, maximum=100, bins=5, decimals=2, decode_by="smooth"),
        Real("gross", minimum=0, maximum=120, bins=6, decimals=1),
        Integer("items", minimum=0, maximum=99, bins=5, decode_by="uniform", missing=True, missing_text="?"),
    ]
    schema = Schema(columns, rules=["net < gross", "items <= gross"])
    codes = codes_of(schema, 20_000)
    rows = schema.decode(codes, seed=1)
    assert schema.holds_raw(rows).all()
    assert (rows["net"] < rows["gross"]).all()
    for name, digits in (("net", 2), ("gross", 1)):
        assert (rows[name].round(digits) == rows[name]).all()
    back = schema.encode_frame(rows)
    assert all((back[name] == codes[name]).all() for name in schema.names)


def test_arithmetic_that_is_no_difference_is_searched_and_never_broken() -> None:
    columns = [
        Integer("width", minimum=1, maximum=30, bins=5),
        Integer("height", minimum=1, maximum=30, bins=5),
        Integer("area", minimum=1, maximum=900, bins=30),
    ]
    schema = Schema(columns, rules=["width * height <= area", "2 * width + height >= area - 600"])
    codes = codes_of(schema, 4_000)
    assert len(codes["width"]) > 100
    rows = schema.decode(codes, seed=2)
    assert (rows["width"] * rows["height"] <= rows["area"]).all()
    assert (2 * rows["width"] + rows["height"] >= rows["area"] - 600).all()


def test_many_alternatives_are_searched_and_never_broken() -> None:
    columns = [Integer(name, minimum=0, maximum=99, bins=4) for name in "ab"]
    text = " and ".join(f"(b > a + {k} or b < a - {k} or a == {k})" for k in range(9))
    schema = Schema(columns, rules=[text])
    grid = np.array(list(itertools.product(range(4), repeat=2)))
    codes = {name: grid[:, place] for place, name in enumerate("ab")}
    assert schema.holds_codes(codes).all()
    assert schema.holds_raw(schema.decode(codes, seed=0)).all()


def test_rules_that_exclude_each_other_leave_no_codes() -> None:
    """Each pair of bins passes each rule; only together they leave nothing."""
    columns = [Integer(name, bins=["0-9", "10-19"]) for name in "abc"]
    schema = Schema(columns, rules=["a < b", "b < c", "c <= a + 1"])
    grid = np.array(list(itertools.product(range(2), repeat=3)))
    assert not schema.holds_codes({name: grid[:, place] for place, name in enumerate("abc")}).any()


# -- dependencies and derived columns --------------------------------------------------------------


def test_a_declared_dependency_is_a_structural_zero() -> None:
    schema = Schema.parse(STAYS)
    rule = next(rule for rule in schema.constraints if rule.dependency)
    assert rule.columns == ("city", "country")
    assert rule.allowed(schema.domain).astype(int).tolist() == [[1, 0], [1, 0], [0, 1], [1, 1]]
    assert rule.holds_raw(
        {"city": ["Lyon", "Porto", None], "country": ["France", "France", "France"]}
    ).tolist() == [
        True,
        False,
        True,
    ]


def test_derived_columns_have_types_that_no_record_decides() -> None:
    schema = Schema(
        [
            Date("day", minimum="2020-01-01", maximum="2020-12-31"),
            Integer("nights", minimum=0, maximum=9, missing=True),
            Real("price", minimum=0, maximum=100, bins=10, decimals=2, decode_by="uniform"),
            Categorical("city", values=["Lyon", "Porto"]),
        ],
        derived={
            "leaves": "day + nights",
            "weeks": "7 * nights",
            "cost": "price * nights",
            "half": "0.5 * nights",
            "month": {"value": "month_of(day)", "values": {"1": "janvier", "2": "fevrier"}},
            "land": {"value": "city", "values": {"Lyon": "F", "Porto": "P"}, "before": "day"},
            "name": "weekday_name_of(day)",
        },
    )
    rows = schema.decode(
        {"day": [0, 40, 366 - 1], "nights": [2, 3, 10], "price": [1, 2, 3], "city": [0, 1, 0]}, seed=0
    )
    assert list(rows.columns) == [
        "land",
        "day",
        "nights",
        "price",
        "city",
        "leaves",
        "weeks",
        "cost",
        "half",
        "month",
        "name",
    ]
    assert rows["leaves"].astype(str).tolist() == ["2020-01-03", "2020-02-13", "NaT"]
    assert rows["weeks"].tolist()[:2] == [14, 21]
    assert rows["weeks"].isna().tolist() == [False, False, True]
    assert rows["month"].tolist() == ["janvier", "fevrier", None]
    assert rows["land"].tolist() == ["F", "P", "F"]
    assert rows["name"].tolist() == ["Wednesday", "Monday", "Thursday"]
    assert (rows["cost"] == (rows["price"] * rows["nights"].astype("Float64")).round(2)).iloc[:2].all()
    empty = schema.decode({name: np.zeros(0, int) for name in schema.names}, seed=0)
    full = schema.decode({name: np.zeros(3, int) for name in schema.names}, seed=0)
    assert (empty.dtypes == rows.dtypes).all()
    assert (full.dtypes == rows.dtypes).all()


def test_a_table_may_lack_its_derived_columns_or_hold_anything_in_them() -> None:
    schema = Schema.parse(STAYS)
    frame = schema.decode(codes_of(schema, 20_000), seed=0)
    without = frame.drop(columns=["nights", "day"])
    other = frame.assign(nights="anything", day=None)
    for table in (without, other):
        back = schema.encode_frame(table)
        assert all((back[name] == part).all() for name, part in schema.encode_frame(frame).items())


def test_a_derived_column_of_labels_is_refused() -> None:
    with pytest.raises(SchemaError, match="labels of bins"):
        Schema([Integer("a", bins=["0-4", "5-9"], decode_by="label")], derived={"b": "a + 1"})
