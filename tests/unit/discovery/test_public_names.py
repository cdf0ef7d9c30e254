"""What discovery takes from public names and lists: parts of the calendar, and the partner of a truth word.

Seeds are fixed, so a test fails always or never.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data.entries import header_of, read_entries
from understudy.discovery import Discovery, discover, plan_discovery, shares_of
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit


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
