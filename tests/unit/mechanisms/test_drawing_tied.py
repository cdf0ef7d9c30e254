"""Columns that rules derive from others: computed and not searched, and with the marginals that the model has."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import understudy
from understudy.mechanisms.rules import effect_of_rules
from understudy.schema import Categorical, Date, Integer, Ordinal, Schema
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
