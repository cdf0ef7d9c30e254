"""Which values there are beside those that were released: public lists and numbered names."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.discovery.public_lists import completed, in_order, public_order


@pytest.mark.parametrize(
    ("released", "there", "many"),
    [
        (["CA", "TX", "NY", "FL"], "WY", 51),
        (["ca", "tx", "ny"], "wy", 51),
        (["DE", "FR", "AT"], "JP", 249),
        (["DEU", "FRA", "AUT"], "JPN", 249),
        (["A1", "B4", "C2"], "G5", 35),
        (["emp_1", "emp_2", "emp_4", "emp_lt_1", "unknown"], "emp_3", None),
        (["2015", "2016", "2018"], "2017", 4),
    ],
)
def test_lists_and_series_are_completed(released: list[str], there: str, many: int | None) -> None:
    found = completed(released, rest=20_000, noise=50.0, threshold=20_000)
    assert there in found
    assert set(released) <= set(found)
    assert many is None or len(found) == many


@pytest.mark.parametrize(
    ("released", "rest"),
    [
        (["CA", "TX", "NY"], 1_000),  # forty-eight values more would take more from noise than the rest holds
        (["CA", "TX"], 10**6),  # two tell too little
        (["CA", "TX", "NY", "somewhere"], 10**6),
        (["10115", "80331", "50667"], 10**6),  # codes, not a series
        (["1", "40", "977"], 10**6),
        (["red", "green", "blue"], 10**6),
    ],
)
def test_what_is_no_list_or_not_worth_it_stays_as_it_is(released: list[str], rest: float) -> None:
    assert completed(released, rest=rest, noise=50.0, threshold=300) == sorted(
        released, key=lambda text: (not text.isdigit(), int(text) if text.isdigit() else 0, text)
    )


@given(st.lists(st.text(max_size=8), unique=True), st.floats(0, 1e9), st.floats(1, 1e6))
def test_whatever_was_released_stays_and_nothing_is_twice(
    released: list[str], rest: float, noise: float
) -> None:
    found = completed(released, rest=rest, noise=noise, threshold=300)
    assert set(released) <= set(found)
    assert len(found) == len(set(found)) <= max(2 * len(released), 249)


def test_orders_are_complete_and_spelled_as_they_were_found() -> None:
    assert public_order([" MAY", " JUN", " JUL"][:3]) is not None
    assert len(public_order(["Mon", "Tue"]) or ()) == 7
    assert public_order(["May"]) is None
    assert public_order(["May", "Lee"], "month") is None
    assert len(public_order([" May"], "arrival_month") or ()) == 12
    assert public_order(["may", "jun", "Aug"]) is None


@settings(max_examples=60)
@given(st.lists(st.integers(0, 900), min_size=2, max_size=12, unique=True), st.randoms())
def test_intervals_are_ordered_by_their_numbers(begins: list[int], shuffled: Random) -> None:
    ordered = [f"[{begin}-{begin + 25})" for begin in sorted(begins)]
    found = list(ordered)
    shuffled.shuffle(found)
    assert in_order(found) == tuple(ordered)
    assert in_order([*found, "north"]) is None
    assert in_order([*found, f"[{begins[0]}-950)"]) is None  # two that begin alike have no order


@pytest.mark.parametrize(
    "values", [["1,000", "<5", "10-20"], ["5", "6", "7"], ["<5", ">9"], ["2020-01-01", "2020-02-01"], []]
)
def test_what_is_no_interval_has_no_order(values: list[str]) -> None:
    assert in_order(values) is None
