"""Tables with every awkward entry we know, and the local reading of the same records as the referee."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa

from understudy.data import Derived, Preparation
from understudy.schema import Boolean, Categorical, Constraint, Date, Integer, Ordinal, Real, Schema

TEXTS = (
    "", " ", "7", "007", "7.0", " 7 ", "+7", "-7", "-0", "1e1", "1e400", "0.1", "0.30000000000000004", ".5", "5.",
    "NA", "n/a", "nan", "inf", "-inf", "Yes", "no", "TRUE", "f", " true", "1", "0", "1.0", "2", "x,y", "é", "?", "-9",
    "2000-02-29", "2001-02-29", "2000-13-01", "2000-12-31", " 2000-06-01", "2000-06-01T23:59:59", "0000-01-01",
    "9999-12-31", "<18", "18-64", "64<", "99999999999999999999", "12\n", "o'clock", "100%", "a\\b", "other", "missing",
)  # fmt: skip
WHOLES = (-(2**62), -10, -9, -1, 0, 1, 2, 7, 17, 18, 64, 65, 99, 100, 101, 2**53 + 1, 2**62)
REALS = (
    -np.inf, -1e300, -9.0, -0.5, -0.0, 0.0, 0.1, 0.1 + 0.2, 0.3, 0.5, 1.0, 2.0, 2.5, 6.999999999999999, 7.0, 9.999999999999998,
    10.0, 10.000000000000002, 17.5, 18.0, 64.0, 64.5, 1e18, 1e19, 1e300, np.inf, np.nan,
)  # fmt: skip
DAYS = ("1999-12-31", "2000-01-01", "2000-02-29", "2000-06-30", "2000-12-31", "2001-01-01", "1901-05-05")


def lenient(name, kind, **facts):
    """A column that gives every entry a code, so that whole tables of awkward entries can be counted."""
    return kind(name, missing=True, out_of_domain="to-other", **facts)


def columns_under_test(name):
    """Every kind of column, lenient and clamping, over the same entries."""
    yield lenient(
        name, Categorical, values=("7", "x,y", "é", "o'clock", "100%", "a\\b", "TRUE", "2000-02-29", "0.1")
    )
    yield lenient(name, Categorical, values=(7, 0.1, "x,y", 1), missing_values=("?", -9))
    yield lenient(name, Categorical, values=tuple(range(5)))
    yield lenient(name, Ordinal, values=(0, 1, 2, 7), missing_values=(-9,))
    yield (
        Ordinal(name, values=(0, 1, 2, 7), missing=True, out_of_domain="clamp")
        if name != "text"
        else lenient(name, Ordinal, values=("0", "1"))
    )
    yield lenient(name, Boolean)
    yield lenient(name, Boolean, missing_values=("?", -9))
    yield lenient(name, Integer, minimum=0, maximum=99, missing_values=(-9,))
    yield lenient(name, Integer, bins=["<18", "18-64", "64<"])
    yield lenient(name, Integer, values=(-1, 0, 7, 64))
    yield lenient(name, Integer, minimum=0, maximum=99, bins=10)
    yield lenient(name, Real, minimum=0, maximum=10, bins=5, missing_values=("?", -0.5))
    yield lenient(name, Real, minimum=0, maximum=1)
    yield lenient(name, Real, values=(0.1, 0.3, 7))
    yield lenient(name, Real, bins=["<0", "[0, 0.3)", "[0.3, 10]"])
    yield lenient(name, Date, minimum="2000-01-01", maximum="2000-12-31", resolution="month")
    yield lenient(name, Date, minimum="2000-01-01", maximum="2000-12-31")
    yield lenient(name, Date, minimum="2000-01-03", maximum="2000-12-31", resolution="week")
    yield lenient(name, Date, bins=["2000-01-01", "2000-03-01", "2001-01-01"], missing_values=("1901-05-05",))
    if name != "text":
        yield (
            Integer(name, minimum=0, maximum=50, missing=True, out_of_domain="clamp")
            if name != "day"
            else Date(name, minimum="2000-01-05", maximum="2000-06-01", missing=True, out_of_domain="clamp")
        )
        if name in ("whole", "real"):
            yield Real(name, minimum=0, maximum=10, bins=4, missing=True, out_of_domain="clamp")
            yield Integer(name, values=(0, 7, 18, 64), missing=True, out_of_domain="clamp")
            yield Integer(name, bins=["0-10", "11-30", "30<"], missing=True, out_of_domain="clamp")


def awkward_table(seed=0, rows=400):
    """Awkward entries in each way a database can store them, as an Arrow table."""
    generator = np.random.default_rng(seed)

    def draw(entries, kind):
        chosen = [entries[place] for place in generator.integers(0, len(entries), rows)]
        absent = generator.random(rows) < 0.1
        return pa.array([None if gone else entry for entry, gone in zip(chosen, absent, strict=True)], kind)

    days = [pd.Timestamp(day).date() for day in DAYS]
    moments = [pd.Timestamp(day) + pd.Timedelta(hours=23, minutes=59) for day in DAYS]
    return pa.table(
        {
            "text": draw(TEXTS, pa.string()),
            "whole": draw(WHOLES, pa.int64()),
            "small": draw((0, 1, 2, 7, 100, -9), pa.int16()),
            "real": draw(REALS, pa.float64()),
            "day": draw(days, pa.date32()),
            "moment": draw(moments, pa.timestamp("us")),
            "truth": draw((True, False), pa.bool_()),
            "person": draw([f"p{i}" for i in range(40)], pa.string()).fill_null("p0"),
            "number": pa.array(generator.integers(0, 60, rows), pa.int64()),
        }
    )


STORED = ("text", "whole", "small", "real", "day", "moment", "truth")


def awkward_schemas():
    """One schema per kind of column, each over all ways of storage."""
    lists = {name: list(columns_under_test(name)) for name in STORED}
    most = max(map(len, lists.values()))
    for place in range(most):
        yield Schema(columns=tuple(found[place % len(found)] for found in lists.values()))


def rule_schema():
    """Columns for cleaning rules, of every kind."""
    return Schema(
        columns=(
            lenient("whole", Integer, minimum=-10, maximum=200),
            lenient("real", Real, minimum=0, maximum=10, bins=5),
            lenient("day", Date, minimum="2000-01-01", maximum="2000-12-31", resolution="month"),
            lenient("text", Integer, minimum=0, maximum=9),
            lenient("small", Ordinal, values=(0, 1, 2, 7)),
            lenient("level", Ordinal, values=(0, 1, 2, 7)),
            lenient("truth", Boolean),
            lenient("month", Integer, minimum=1, maximum=12),
            lenient("weekday", Integer, minimum=1, maximum=7),
            lenient("sort", Categorical, values=("A", "B")),
        )
    )


RULES = (
    "whole > 3",
    "not (whole < 18 and real > 0.3)",
    "whole is missing or real >= 0.3",
    "day < '2000-06-30' or truth == true",
    "text <= 7",
    "small >= 1",
    "whole + 2 * month > real",
    "not (small in [1, 2]) and month != 2",
    "whole * month - real <= 40",
    "small == level or level > small",
    "text + weekday > 5",
    "sort != 'A'",
    "week_of(day) > 9 and day_of(day) <= 20",
    "small != quarter_of(day) and weekday_of(day) + year_of(day) < 2005",
)


def preparations(schema):
    """Derived columns, alone and with each cleaning rule."""
    derived = (
        Derived(name="month", source="moment", part="month"),
        Derived(name="weekday", source="day", part="weekday"),
        Derived(name="level", source="whole", values=(("0", "7"), ("7", "1"), ("1", "2"), ("2", "0"))),
        Derived(name="sort", source="text", values=(("7", "A"), ("x,y", "B"), ("1", "B"))),
    )
    yield Preparation(derived=derived)
    for text in RULES:
        yield Preparation(derived=derived, rules=(Constraint.parse(text, schema),))


def small_cliques(schema, most=2):
    """Every clique of at most ``most`` columns, the empty one included."""
    return [clique for size in range(most + 1) for clique in itertools.combinations(schema.names, size)]


def assert_same_counts(one, two, cliques):
    """Compare exact counts bit for bit: values, shapes and types."""
    assert one.exact_row_count() == two.exact_row_count()
    for clique, left, right in zip(cliques, one.count_many(cliques), two.count_many(cliques), strict=True):
        assert left.dtype == right.dtype == np.int64
        assert left.shape == right.shape
        assert (left == right).all(), clique
