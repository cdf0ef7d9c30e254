"""Columns that rules derive from others: computed and not searched, and with the marginals that the model has."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import understudy
from understudy.errors import ConstraintError
from understudy.mechanisms.rules import effect_of_rules, require_possible
from understudy.schema import Categorical, Date, Integer, Ordinal, Real, Schema
from understudy.schema.constraints import joint, listing, solving
from understudy.schema.constraints.joint import JointValues

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")  # fmt: skip
RULES = (
    "departure >= arrival",
    "year == year_of(arrival)",
    "month == month_of(arrival)",
    "day == day_of(arrival)",
    "nights == departure - arrival",
)
ROWS = 8_000
DEVIATIONS = 6.1
"""Two-sided normal deviations with a false-alarm rate of 1e-9 each."""


def bookings(rows: int = ROWS, seed: int = 5) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    days = pd.to_timedelta(generator.integers(0, 730, rows), unit="D")
    arrival = pd.Series(pd.Timestamp("2022-01-01") + days)
    nights = np.minimum(1 + generator.poisson(2.2, rows), 12)
    return pd.DataFrame(
        {
            "hotel": generator.choice(["City", "Resort"], rows, p=[0.66, 0.34]),
            "arrival": arrival,
            "departure": arrival + pd.to_timedelta(nights, unit="D"),
            "month": np.array(MONTHS)[arrival.dt.month - 1],
            "day": arrival.dt.day,
            "year": arrival.dt.year,
            "nights": nights,
        }
    )


def schema(*, missing: bool = False) -> Schema:
    return Schema(
        [
            Categorical("hotel", values=["City", "Resort"]),
            Date("arrival", minimum="2022-01-01", maximum="2023-12-31", resolution="month"),
            Date(
                "departure", minimum="2022-01-01", maximum="2024-01-31", resolution="month", missing=missing
            ),
            Ordinal("month", values=MONTHS),
            Integer("day", minimum=1, maximum=31, missing=missing),
            Integer("year", minimum=2022, maximum=2023),
            Integer("nights", minimum=1, maximum=12, missing=missing),
        ],
        rules=RULES,
    )


def fitted(method: str) -> understudy.Model:
    made = understudy.synthesize(
        bookings(), schema=schema(), epsilon=100.0, delta=1e-6, unit="add-remove", method=method, ledger="memory", rows=10, seed=1
    )  # fmt: skip
    return made.model


def shares(frame: pd.DataFrame) -> dict[str, float]:
    arrival, departure = pd.to_datetime(frame["arrival"]), pd.to_datetime(frame["departure"])
    return {
        "crosses a month end": float((arrival.dt.month != departure.dt.month).mean()),
        "arrives late": float((arrival.dt.day >= 29).mean()),
        "leaves early": float((departure.dt.day <= 3).mean()),
        "February": float((arrival.dt.month == 2).mean()),
        "one night": float((frame["nights"] == 1).mean()),
    }


@pytest.mark.parametrize("method", ["independent", "mst"])
def test_rules_keep_the_shares_of_the_model(method: str) -> None:
    """Shares of the rows drawn are those of the table within sampling error; the noise of epsilon 100 is far below that.

    Each of the five differences exceeds 6.1 deviations of two samples with a probability below 1e-9. Throwing away rows whose columns
    contradict each other leaves 3.6 % instead of 10.4 % of stays that cross a month end, which is 14 deviations.
    """
    model = fitted(method)
    frame = model.sample(ROWS, seed=3)
    assert model.schema.holds_raw(frame).all()
    pd.testing.assert_frame_equal(frame, model.sample(ROWS, seed=3))
    wanted = shares(bookings())
    for name, share in shares(frame).items():
        deviation = np.sqrt(2 * wanted[name] * (1 - wanted[name]) / ROWS)
        assert abs(share - wanted[name]) < DEVIATIONS * deviation, name
    effect = model.effect_of_rules(frame)
    assert effect is not None
    assert effect.broken > 0.05
    assert effect.column is None
    pieces = pd.concat(model.sample_chunks(ROWS, rows_per_chunk=3_000, seed=4))
    assert model.schema.holds_raw(pieces).all()
    crossing = shares(pieces)["crosses a month end"]
    assert abs(crossing - wanted["crosses a month end"]) < 0.03  # 6.1 deviations of two samples are 0.029


def test_functional_rules_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """No record under rules that say what a column is goes to the solver, with missing entries or without."""

    def never(*_: object) -> None:
        raise AssertionError("the solver was asked")

    monkeypatch.setattr(JointValues, "_solve", never)
    for described in (schema(), schema(missing=True)):
        generator = np.random.default_rng(0)
        codes = {c.name: generator.integers(0, c.size, 3_000) for c in described.columns}
        (group,) = described.joint_values
        assert group.listing is not None
        assert len(group.listing) == 730 * 12
        assert group.listing.deciding == ("arrival", "day", "nights")
        held = group.possible(codes)
        kept = {name: np.append(part[held], group.listing.of([name])[0] if name != "hotel" else np.zeros(730 * 12, int)) for name, part in codes.items()}  # fmt: skip
        assert described.holds_raw(described.decode(kept, seed=1)).all()


def test_a_combination_of_codes_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that only exclude are searched, each distinct combination of codes one time."""
    columns = [Integer(name, bins=["0-4", "5-9", "10-14"]) for name in "abc"]
    (group,) = Schema(columns, rules=["a < b", "b < c", "c <= a + 6"]).joint_values
    assert group.listing is None
    asked: list[int] = []
    witness = JointValues._witness

    def counted(self, codes):  # type: ignore[no-untyped-def]
        asked.append(len(codes["a"]))
        return witness(self, codes)

    monkeypatch.setattr(JointValues, "_witness", counted)
    generator = np.random.default_rng(0)
    codes = {name: generator.integers(0, 3, 5_000) for name in "abc"}
    first = group.possible(codes)
    assert np.array_equal(first, group.possible(codes))
    assert sum(asked) == 27


@pytest.mark.parametrize("number", range(6))
def test_the_list_has_what_the_solver_finds(number: int) -> None:
    """The solver is exact for difference rules, and was there first."""
    generator = np.random.default_rng(number)
    low = int(generator.integers(0, 3))
    columns = [
        Integer("a", bins=["0-3", "4-9", "10-14"], missing=number % 2 == 1),
        Integer("b", bins=["0-6", "7-20", "21-30"], missing=number % 3 == 1),
        Integer("c", minimum=low, maximum=12),
        Date("d", minimum="2020-01-20", maximum="2020-04-10", resolution="month"),
        Integer("e", minimum=1, maximum=31, missing=number % 2 == 0),
    ]
    rules = ["c == b - a", "e == day_of(d)", "a <= e", "b != 9"]
    (group,) = Schema(columns, rules=rules[: 3 + number % 2]).joint_values
    assert group.listing is not None
    codes = {c.name: generator.integers(0, c.size, 150) for c in columns}
    distinct, places = group._distinct(codes)
    solved = group._witness(distinct)[1][places]
    assert 0 < solved.mean() < 1
    assert np.array_equal(group.possible(codes), solved)


def test_what_decides_is_kept_and_what_follows_is_computed() -> None:
    described = schema()
    (group,) = described.joint_values
    listing = group.listing
    assert listing is not None
    codes = {name: np.array([code]) for name, code in {"arrival": 0, "departure": 7, "month": 3, "day": 30, "year": 1, "nights": 1}.items()}  # fmt: skip

    def even(name: str, given: str | None, some: np.ndarray) -> np.ndarray:
        return np.ones((len(some), listing.columns[name]))

    made = listing.complete(codes, tuple(listing.columns), even, np.random.default_rng(0))
    assert {name: int(part[0]) for name, part in made.items()} == {
        "arrival": 0, "departure": 1, "month": 0, "day": 30, "year": 0, "nights": 1
    }  # fmt: skip
    codes["arrival"] = np.array([1])  # there is no 31 February: the day is drawn again, the month is kept
    made = listing.complete(codes, tuple(listing.columns), even, np.random.default_rng(0))
    assert made["arrival"][0] == 1
    assert made["day"][0] < 28
    assert made["nights"][0] == 1


def test_a_moved_distribution_is_named() -> None:
    """The column that rows leave furthest behind is named, one that only varies by chance is not."""
    described = Schema(
        [Integer("a", minimum=0, maximum=3), Integer("b", minimum=0, maximum=3)], rules=["a <= b"]
    )
    generator = np.random.default_rng(1)
    codes = {"a": generator.integers(0, 4, 2_000), "b": generator.choice(4, 2_000, p=[0.1, 0.2, 0.3, 0.4])}
    found = effect_of_rules(described, codes, np.array([True, False]), lambda cliques: [np.ones(4)] * len(cliques))  # fmt: skip
    assert found.column == "b"
    assert abs(found.distance - 0.2) < 0.05
    assert "'b'" in found.describe()
    assert "1,000 of 2,000" in found.describe()


BOOKED = (*RULES, "week == week_of(arrival)", "booked <= arrival", "booked <= departure")
"""What a draft proposes for a table of bookings with the day of booking: a list of all columns would have millions of rows."""


def booked_schema(*, missing: bool = False) -> Schema:
    booked = Date(
        "booked", minimum="2021-01-01", maximum="2023-12-31", resolution="month", decode_by="smooth", missing=missing
    )  # fmt: skip
    return Schema([*schema().columns, booked, Integer("week", minimum=1, maximum=53)], rules=BOOKED)


def booked_bookings() -> pd.DataFrame:
    frame = bookings()
    days = np.random.default_rng(6).integers(0, 300, len(frame))
    week = frame["arrival"].dt.isocalendar().week.astype(int)
    return frame.assign(booked=frame["arrival"] - pd.to_timedelta(days, unit="D"), week=week)


def test_columns_that_are_only_compared_are_drawn_given_those_of_the_list() -> None:
    """Equations are listed whatever else is compared with their columns; a date that is only compared follows the model given them.

    The two sides of each share differ by 6.1 deviations of two samples with a probability below 1e-9.
    """
    described, real = booked_schema(), booked_bookings()
    (group,) = described.tied_values
    assert group.listing is None
    (listed,) = group.listed
    assert {rule.text for rule in group.unlisted} == {"booked <= arrival", "booked <= departure"}
    assert listed.listing is not None
    assert len(listed.listing) == 730 * 12
    made = understudy.synthesize(
        real, schema=described, epsilon=100.0, delta=1e-6, unit="add-remove", method="mst", ledger="memory", rows=10, seed=1
    )  # fmt: skip
    with solving.effort_counted(1e8) as effort:  # without lists, 4e9 cells for half as many rows
        frame = made.model.sample(ROWS, seed=3)
    assert effort.spent > 0
    assert described.holds_raw(frame).all()
    wanted, drawn = shares(real), shares(frame)
    ahead = [pd.to_datetime(side["booked"]).dt.year < 2022 for side in (real, frame)]
    wanted["booked early"], drawn["booked early"] = (float(side.mean()) for side in ahead)
    for name, share in drawn.items():
        deviation = np.sqrt(2 * wanted[name] * (1 - wanted[name]) / ROWS)
        assert abs(share - wanted[name]) < DEVIATIONS * deviation, name


def test_codes_that_no_list_has_keep_the_values_of_their_bins() -> None:
    described = booked_schema()
    generator = np.random.default_rng(2)
    codes = {c.name: generator.integers(0, c.size, 2_000) for c in described.columns}
    held = described.holds_codes(codes)
    assert held.mean() < 0.01
    frame = described.decode(codes, seed=1)
    again = described.encode_frame(frame)
    assert all(np.array_equal(again[name], part) for name, part in codes.items())
    columns = [Integer("a", bins=["0-4", "5-9"]), Integer("b", bins=["20-24", "25-29"]), Integer("c", bins=["0-999", "1000-3999"])]  # fmt: skip
    impossible = Schema(columns, rules=["b == a + 1", "c * c >= b"])
    (group,) = impossible.tied_values
    alone = {name: np.array([0, 1]) for name in "abc"}
    assert not group.possible(alone).any()
    assert np.array_equal(impossible.encode_frame(impossible.decode(alone, seed=0))["a"], alone["a"])


def test_missing_entries_beside_lists_leave_the_rules_on_the_others() -> None:
    described = booked_schema(missing=True)
    generator = np.random.default_rng(4)
    listed = described.tied_values[0].listed[0].listing
    assert listed is not None
    chosen = generator.integers(0, len(listed), 3_000)
    codes = {name: part[chosen] for name, part in zip(listed.columns, listed.codes.T, strict=True)}
    codes |= {"hotel": np.zeros(3_000, int), "booked": generator.integers(0, 37, 3_000)}
    absent = codes["booked"] == 36
    held = described.holds_codes(codes)
    assert 0.3 < held[~absent].mean() < 0.9
    assert held[absent].all()
    assert described.holds_raw(described.decode({n: c[held] for n, c in codes.items()}, seed=1)).all()


@pytest.mark.parametrize("number", range(8))
def test_lists_of_some_columns_and_the_solver_find_what_a_list_of_all_has(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(number)
    columns = [
        Integer("a", bins=["0-3", "4-9", "10-14"]),
        Integer("b", bins=["0-6", "7-20", "21-30"]),
        Integer("c", minimum=int(generator.integers(0, 3)), maximum=12),
        Integer("x", bins=["0-2", "3-9", "10-19"]),
        Integer("y", bins=["0-4", "5-11", "12-19"]),
        Date("d", minimum="2020-01-20", maximum="2020-03-10", resolution="month"),
        Integer("e", minimum=1, maximum=31),
    ]
    ties = [["x <= a - 2", "x + 9 >= a"], ["x > a", "x + 1 <= y", "y <= b"], ["x == y - 3", "x <= a", "y >= c"]][number % 3]  # fmt: skip
    dates = ["e == day_of(d)", "day_of(d) >= a + 3"] if number % 2 else []
    used = [c for c in columns if any(c.name in rule.replace("day_of", "") for rule in ("c == b - a", *ties, *dates))]  # fmt: skip
    described = Schema(used, rules=["c == b - a", *ties, *dates])
    (group,) = described.tied_values
    every = np.meshgrid(*(np.arange(c.size) for c in used), indexing="ij")
    codes = {c.name: part.ravel() for c, part in zip(used, every, strict=True)}
    brute = _obeyed_by_values(described, codes)
    monkeypatch.setattr(listing, "_MOST_LISTED", 400)
    fresh = JointValues(group.columns, group.rules)
    assert fresh.listing is None
    assert fresh.listed
    assert 0 < brute.mean() < 1
    assert np.array_equal(fresh.possible(codes), brute)
    held = {name: part[brute] for name, part in codes.items()}
    decoded = {c.name: c.decode(held[c.name], generator) for c in used}
    fresh.settle(held, decoded, generator)
    assert described.holds_raw(pd.DataFrame(decoded)).all()


def test_more_values_than_are_tried_leave_the_question_to_the_solver_where_it_is_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = [
        Integer("a", bins=["0-49", "50-99"]),
        Integer("b", bins=["5-44", "45-104"]),
        Integer("c", bins=[f"{10 * low}-{10 * low + 9}" for low in range(12)]),
    ]
    described = Schema(columns, rules=["b == a + 5", "c >= b", "c <= b"])
    every = np.meshgrid(*(np.arange(c.size) for c in columns), indexing="ij")
    codes = {c.name: part.ravel() for c, part in zip(columns, every, strict=True)}
    brute = _obeyed_by_values(described, codes)
    monkeypatch.setattr(listing, "_MOST_LISTED", 200)
    monkeypatch.setattr(joint, "_SEARCHES", 2)
    fresh = JointValues(described.tied_values[0].columns, described.rules)
    assert fresh.listing is None
    assert fresh.listed
    assert np.array_equal(fresh.possible(codes), brute)
    held = {name: part[brute] for name, part in codes.items()}
    generator = np.random.default_rng(0)
    decoded = {c.name: c.decode(held[c.name], generator) for c in columns}
    fresh.settle(held, decoded, generator)
    assert described.holds_raw(pd.DataFrame(decoded)).all()


def _obeyed_by_values(described: Schema, codes: dict[str, np.ndarray]) -> np.ndarray:
    """Go through every combination of values, in one order of columns after the other, and tell which codes have one that obeys."""
    frame: pd.DataFrame | None = None
    for column in described.columns:
        cells = column.cells  # type: ignore[attr-defined]
        values = np.arange(int(cells.low[0]), int(cells.high[-1]) + 1)
        part = pd.DataFrame({column.name: values, f"{column.name} code": np.searchsorted(cells.low, values, side="right") - 1})  # fmt: skip
        if isinstance(column, Date):
            part[column.name] = values.astype("datetime64[D]")
        frame = part if frame is None else frame.merge(part, how="cross")
        for rule in described.constraints:
            if column.name in rule.columns and set(rule.columns) <= set(frame.columns):
                frame = frame[rule.holds_raw(frame)]
    assert frame is not None
    names = list(described.names)
    found = set(map(tuple, frame[[f"{name} code" for name in names]].drop_duplicates().to_numpy().tolist()))
    wanted = zip(*(codes[name].tolist() for name in names), strict=True)
    return np.array([key in found for key in wanted])


def test_rules_that_take_too_long_to_draw_under_are_refused_before_anything_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The refusal names the rules that are searched for, whether the trial is cut short or each row takes too much."""
    columns = [
        *(Real(name, minimum=0, maximum=100, bins=20, decimals=2) for name in ("price", "rate", "total")),
        Date("paid", minimum="2020-01-01", maximum="2022-12-31", resolution="year"),
        *(Integer(name, minimum=1, maximum=31) for name in ("day", "share")),
    ]
    rules = ["price * rate * share == total", "day == day_of(paid)", "share + day_of(paid) <= price"]
    described = Schema(columns, rules=rules)
    named = "'price \\* rate \\* share == total', 'share \\+ day_of\\(paid\\) <= price' together would take too long.*Nothing was charged"
    for name, most in (("_MOST_SEARCHED", 1 << 16), ("_MOST_PER_ROW", 16)):
        with monkeypatch.context() as limits:
            limits.setattr(f"understudy.mechanisms.rules.{name}", most)
            with pytest.raises(ConstraintError, match=named):
                require_possible(described)
    require_possible(booked_schema())
    monkeypatch.setattr(JointValues, "listed", ())
    monkeypatch.setattr("understudy.mechanisms.rules._MOST_SEARCHED", 1 << 28)
    with pytest.raises(ConstraintError, match=r"'booked <= arrival'.*too long"):
        require_possible(booked_schema())
