"""What discovery takes from public names and lists: parts of the calendar, and the partner of a truth word.

Seeds are fixed, so a test fails always or never.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data.entries import header_of, read_entries
from understudy.discovery import Discovery, Found, discover, plan_discovery, shares_of
from understudy.discovery.columns import Descent, column_of
from understudy.discovery.profiles import Profile
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema.coding.profile import PROFILE


def _discovered(frame: pd.DataFrame, *, epsilon: float, seed: int = 3) -> Discovery:
    unit, budget = Unit.add_remove(), ApproxDP(epsilon, 1e-6)
    parts = shares_of(budget, 0.5)
    plan = plan_discovery(header_of(frame), (), unit=unit, budget=parts.measuring, reserve=parts.reserve)
    with Ledger.in_memory(budget=budget, unit=unit, approximate_delta=parts.reserve) as ledger:
        table = read_entries(frame, plan.columns, id_column=None)
        return discover(Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed)), plan)


@pytest.mark.parametrize(
    ("name", "low", "high", "expected"),
    [
        ("arrival_day_of_month", 1, 31, (1, 31)),
        ("day_of_week", 0, 6, (0, 6)),
        ("weekday", 1, 7, (1, 7)),
        ("month", 3, 5, (1, 12)),
    ],
)
@pytest.mark.parametrize("run", [1, 2, 3])
def test_a_part_of_the_calendar_has_the_range_that_its_name_says(
    name: str, low: int, high: int, expected: tuple[int, int], run: int
) -> None:
    entries = np.random.default_rng(run).integers(low, high + 1, 4_000)
    column = _discovered(pd.DataFrame({name: entries}), epsilon=0.5, seed=run).schema.column(name)
    assert (column.minimum, column.maximum) == expected


def test_a_name_does_not_hide_numbers_beyond_its_calendar() -> None:
    entries = np.random.default_rng(1).integers(1, 61, 4_000)
    column = _discovered(pd.DataFrame({"stay_day": entries}), epsilon=4.0).schema.column("stay_day")
    assert getattr(column, "maximum", None) != 31


@pytest.mark.parametrize(("rare", "common"), [("TRUE", "FALSE"), ("yes", "no"), ("N", "Y")])
def test_a_truth_word_brings_its_partner(rare: str, common: str) -> None:
    entries = np.array([common] * 3_990 + [rare] * 10)
    column = _discovered(pd.DataFrame({"vip": entries}), epsilon=1.0).schema.column("vip")
    assert set(column.values) == {rare, common}


# ---------------------------------------------------------------------- years and ages


def _years(rows: int, *, low: int, high: int) -> list[str]:
    return [str(year) for year in np.random.default_rng(5).integers(low, high + 1, rows)]


@pytest.mark.parametrize("name", ["arrival_year", "YearBuilt", "year_of_birth"])
def test_a_few_years_are_found_one_by_one(name: str) -> None:
    """By their size alone, at this noise, they would be one range of decades."""
    years = _years(3_000, low=2021, high=2023)
    column = _discovered(pd.DataFrame({name: years} | _others(3_000)), epsilon=0.25).schema.column(name)
    assert (column.minimum, column.maximum) == (2021, 2023), column.to_dict()


def test_years_over_a_long_time_keep_their_reach() -> None:
    years = _years(5_000, low=1931, high=2005)
    column = _discovered(pd.DataFrame({"birth_year": years} | _others(5_000)), epsilon=0.5).schema.column(
        "birth_year"
    )
    edges = column.bins.edges
    assert 1900 <= edges[0] <= 1931
    assert 1926 <= edges[1] <= 1940
    assert 2005 <= edges[-1] <= 2010
    assert len(edges) > 12


def test_a_name_of_years_hides_no_other_numbers() -> None:
    """Sums of money in a column called year: most are no years, and all are inside of what is found."""
    sums = [str(number) for number in np.random.default_rng(5).integers(3_000, 9_000, 6_000)]
    column = _discovered(pd.DataFrame({"year": sums}), epsilon=4.0).schema.column("year")
    assert column.bins.edges[0] <= 3_000
    assert column.bins.edges[-1] >= 9_000 or column.bins.open in ("high", "both")


def _wave(counts: list[float]) -> Found:
    """What is found from counts of a round over ranges of a thousand from 1,000 on."""
    edges = [Decimal(k) for k in range(1_000, 1_000 * (len(counts) + 2), 1_000)]
    seen = np.zeros(len(PROFILE))
    seen[PROFILE.index("number +1e3 0")] = sum(counts)
    descent = Descent("wave", edges, 1, 1.0, lambda work, steps: None, lambda low, high, parts: [])  # type: ignore[arg-type,return-value]
    descent.counts = np.array([0.0, *counts, 0.0, 0.0])
    descent.sigma, descent.sure = np.full(len(descent.counts), 20.0), 3.0
    found = column_of("wave", Profile(seen, 20.0, 70.0), "number", None, descent, sum(counts))
    assert isinstance(found, Found)
    return found


def test_one_bin_that_holds_nearly_all_rows_is_said() -> None:
    assert "one bin, 2000 to 3000, holds nearly all rows" in " ".join(_wave([90.0, 5_000.0, 90.0]).remarks)
    assert "holds nearly all rows" not in " ".join(_wave([900.0, 2_500.0, 900.0]).remarks)


def _ages(rows: int) -> list[str]:
    return [str(int(age)) for age in np.clip(np.random.default_rng(3).normal(52, 20, rows).round(), 0, 101)]


def _others(rows: int) -> dict[str, list[str]]:
    return {f"other {k}": ["a", "b"] * (rows // 2) for k in range(5)}


@pytest.mark.parametrize("draw", range(4))
@pytest.mark.parametrize("marks", [0.0, 0.03])
def test_ages_are_from_0_to_120_and_never_a_mark_of_missing_ones(draw: int, marks: float) -> None:
    ages = _ages(6_000)
    ages[: int(marks * 6_000)] = ["-99"] * int(marks * 6_000)
    found = _discovered(pd.DataFrame({"age": ages} | _others(6_000)), epsilon=0.5, seed=draw)
    column = found.schema.column("age")
    assert column.bins.edges[0] == 0
    assert 95 <= column.bins.edges[-1] <= 120
    assert column.bins.open == "none"
    if marks:
        assert column.missing
        assert column.encode(["-99"])[0] == column.missing_code


def test_an_age_beyond_what_people_live_is_not_cut() -> None:
    """Ages of trees: the counts say that there is more than a name does."""
    ages = [str(age) for age in np.random.default_rng(3).integers(0, 600, 20_000)]
    column = _discovered(pd.DataFrame({"age": ages}), epsilon=4.0).schema.column("age")
    assert column.bins.edges[-1] >= 580


# ---------------------------------------------------------------------- what is said of columns


def test_the_report_says_what_becomes_of_entries_that_were_not_found() -> None:
    rng, rows = np.random.default_rng(2), 20_000
    codes = [f"{'KLMN'[k % 4]}{k * 7919 % 9973}.{k % 7}" for k in np.minimum(rng.geometric(0.005, rows), 900)]
    frame = pd.DataFrame(
        {
            "meal": rng.choice([" BB", " HB", " SC"], rows, p=[0.7, 0.2, 0.1]),
            "diag": codes,
            "price": [f"{price:.2f}" for price in np.exp(rng.normal(4.2, 1.3, rows))],
            "booked": [f"2021-0{1 + k % 9}-1{k % 9} 1{k % 9}:30" for k in range(rows)],
            "weight": rng.choice(["[0-25)", "[25-50)", "[100-125)", "?"], rows, p=[0.2, 0.3, 0.2, 0.3]),
        }
    )  # fmt: skip
    found = _discovered(frame, epsilon=1.0)
    assert found.found["meal"].others.startswith("counted as ' BB' (the most frequent)")
    assert found.found["meal"].missing == "none"
    assert found.found["weight"].missing in ("about 29 %", "about 30 %", "about 31 %")
    assert found.schema.column("weight").values == ("[0-25)", "[25-50)", "[100-125)")
    assert found.found["diag"].others.startswith("other, about ")
    assert "docs/how-to/hierarchies.md" in found.found["diag"].remarks[0]
    price = " ".join(found.found["price"].remarks)
    assert "the last bin" in price
    assert "heavy tails come out low" in price
    assert found.found["booked"].remarks == ("times of day are not kept: synthetic entries are days",)


def test_a_rare_entry_is_in_nothing_that_is_said() -> None:
    frame = pd.DataFrame(
        {"t": ["a", "b"] * 3_000 + ["secret"], "n": [*map(str, range(100, 6_100)), "987654"]}
    )
    found = _discovered(frame, epsilon=1.0)
    assert set(found.found) == {"t", "n"}
    assert "secret" not in str(found.found)
    assert "987654" not in str(found.found)


@pytest.mark.parametrize("draw", range(4))
def test_spellings_of_missing_entries_that_only_noise_has_are_not_believed(draw: int) -> None:
    """Thirty columns of texts without a missing entry: a count of the first look that barely stands out is doubted where the look at texts speaks against it."""
    names = {f"c{k}": ["a", "b", "c"] * 2_000 for k in range(30)}
    found = _discovered(pd.DataFrame(names), epsilon=0.5, seed=draw)
    assert not [c.name for c in found.schema.columns if {"nan", "null", "na", "n/a"} & set(c.missing_values)]
