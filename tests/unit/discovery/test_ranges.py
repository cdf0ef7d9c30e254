"""Ranges from noisy counts: which cells are asked for, how two rounds are put together, where the edges lie."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.discovery.ranges import (
    MARKED_DAYS,
    MOST_CELLS,
    Ranges,
    bins_for,
    by_month,
    combined,
    day_of_month,
    extended,
    first_numbers,
    marked_day,
    months_of,
    refined,
    round_number,
    settled,
    split_days,
    split_numbers,
    tails_of_numbers,
)
from understudy.schema.coding.reading import days_since_epoch

NUMBERS = st.decimals(min_value=-(10**12), max_value=10**12, places=3)


@settings(max_examples=200, deadline=None)
@given(NUMBERS, NUMBERS, st.floats(0.0, 5_000.0), st.sampled_from(["1", "0.01", "0.000001"]))
def test_splits_lie_inside_and_are_multiples_of_the_unit(
    a: Decimal, b: Decimal, parts: float, unit: str
) -> None:
    """Whatever the noise says: ascending doubles, so that no question fails after others were paid for."""
    low, high = sorted([a.quantize(Decimal(unit)), b.quantize(Decimal(unit))])
    found = split_numbers(low, high, parts, unit=Decimal(unit))
    assert all(low < edge < high and not edge % Decimal(unit) for edge in found)
    assert len(found) <= parts + 1
    assert all(x < y for x, y in pairwise(found))


@settings(max_examples=200, deadline=None)
@given(NUMBERS, NUMBERS, st.sampled_from(["1", "0.01"]))
def test_tails_lie_outside_and_are_multiples_of_the_unit(a: Decimal, b: Decimal, unit: str) -> None:
    low, high = sorted([a.quantize(Decimal(unit)), b.quantize(Decimal(unit))])
    if low == high:
        return
    below, above = tails_of_numbers(low, high, least=Decimal(0), unit=Decimal(unit))
    assert below is None or (below < low and not below % Decimal(unit) and (low < 0 or below >= 0))
    assert above is None or (above > high and not above % Decimal(unit))


def test_counts_of_two_rounds_agree_and_are_better_than_either() -> None:
    """The mean squared error of 2,000 draws; the standard deviation that is stated is the one that is found (within 5 %: false alarm below 1e-3)."""
    rng = np.random.default_rng(0)
    old_edges, edges = [0, 10, 20], [0, 2, 5, 10, 20]
    fine = np.array([3.0, 100, 50, 20, 400, 7, 1])
    coarse = np.array([3.0, 170, 400, 7, 1])
    found, stated = [], np.zeros(0)
    for _ in range(2_000):
        made, stated = combined(
            old_edges, coarse + rng.normal(0, 30, 5), 30.0, edges, fine + rng.normal(0, 20, 7), 20.0
        )
        found.append(made - fine)
    spread = np.std(found, axis=0)
    np.testing.assert_allclose(spread, stated, rtol=0.05)
    assert (spread < 20).all()


def test_cells_are_as_fine_as_the_noise_allows() -> None:
    decades = [(sign, power, 0.0) for sign in (1, -1) for power in range(-6, 15)]
    decades[decades.index((1, 1, 0.0))] = (1, 1, 9_000.0)
    sizes = {
        sigma: len(
            first_numbers(
                decades, sure=50.0, sigma=sigma, rows=9_000.0, whole=True, unit=Decimal(1), zero=0.0
            )
        )
        for sigma in (10.0, 200.0, 1_000.0)
    }
    assert sizes[10.0] > 90 > sizes[200.0] > sizes[1_000.0]


def test_only_what_holds_enough_is_split_further() -> None:
    counts = np.array([0.0, 1_000, 30, 0, 0, 0])
    edges = [Decimal(0), Decimal(100), Decimal(200), Decimal(300)]
    finer = refined(
        edges,
        counts,
        sigma=20.0,
        split=lambda low, high, parts: split_numbers(low, high, parts, unit=Decimal(1)),
    )
    inside = [edge for edge in finer if edge not in edges]
    assert inside
    assert all(edge < 100 for edge in inside)


@pytest.mark.parametrize("rows", [9_000.0, 200_000.0])
def test_round_edges_come_first(rows: float) -> None:
    """An even spread from 0 to 100: with few rows multiples of 50 or 25, with many all tens; never an odd one without its round neighbours."""
    edges = [Decimal(k) for k in range(101)]
    counts = np.concatenate([[0.0], np.full(100, rows / 100), [0.0, 0.0]])
    found = settled(edges, counts, sigma=np.full(len(counts), 60.0), sure=4.0, roundness=round_number)
    assert found is not None
    made = {int(edge) for edge in found.edges}
    if any(edge % 10 and edge % 25 for edge in made):
        assert {10, 20, 30, 40, 50, 60, 70, 80, 90} <= made
    assert 50 in made


@pytest.mark.parametrize(("rows", "single"), [(2_000.0, True), (400.0, False)])
def test_values_of_a_short_range_are_told_apart_where_the_fit_can(rows: float, single: bool) -> None:
    """School years 3 to 16, and noise of 40: ranges of three to five years would be cut, the fit has a third of that noise. With 30 rows a value nothing is gained."""
    edges = [Decimal(k) for k in (0, 1, 3, 5, 8, 10, 12, 14, 17, 20)]
    widths = np.diff([float(edge) for edge in edges])
    inside = np.where((widths.cumsum() > 3) & (widths.cumsum() <= 17), widths * rows / 14, 0.0)
    counts = np.concatenate([[0.0], inside, [0.0, 0.0]])
    found = {
        step: settled(edges, counts, sigma=np.full(len(counts), 40.0), sure=2.0, finest=step)
        for step in (None, Decimal(1))
    }
    ranges, values = found[None], found[Decimal(1)]
    assert ranges is not None
    assert values is not None
    assert max(np.diff(ranges.edges)) > 1
    assert (set(np.diff(values.edges)) == {1}) is single


def test_a_few_wide_ranges_are_not_all_there_is() -> None:
    """Beside four values that were counted one by one a tail is probably empty; beside four ranges that noise kept wide it is not."""
    for widths, kept in ((1, False), (10, True)):
        edges = [Decimal(widths * k) for k in range(1, 9)]
        counts = np.array([0.0, *[500.0] * 4, 12.0, 9.0, 6.0, 0.0, 0.0])
        found = settled(
            edges,
            counts,
            sigma=np.full(len(counts), 40.0),
            sure=4.0,
            tails=lambda low, high: (None, 2 * high),
            finest=Decimal(1),
        )
        assert found is not None
        assert (found.edges[-1] > edges[4]) is kept


def test_nothing_but_noise_is_no_range() -> None:
    counts = np.random.default_rng(1).normal(0, 10, 53)
    edges = [Decimal(k) for k in range(51)]
    assert settled(edges, counts, sigma=np.full(53, 10.0), sure=4.5) is None


def test_counts_that_stand_out_from_one_side_only_are_a_range() -> None:
    """It was an error, when the counts had been paid for."""
    inside = [0.667, 0.667, 1, -0.5, 0, 0, 0, 0.5, 0, 0, 0, 0, -0.5, 0.5, 0.667, 0.667]
    noise = np.array([1.0, 0.398, 0.398, *[0.345] * 12, 0.398, 0.398, 1.0, 1.0])
    edges = [Decimal(k) for k in range(17)]
    for way in (1, -1):
        counts = np.array([0.0, *inside[::way], 0.0, 0.0])
        found = settled(edges, counts, sigma=noise, sure=4.5)
        assert found is not None
        assert all(low < high for low, high in pairwise(found.edges))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0.0, 8.0), st.booleans())
def test_noisy_counts_never_end_in_an_error(seed: int, cells: int, height: float, heavy: bool) -> None:
    rng = np.random.default_rng(seed)
    sigma = rng.uniform(0.1, 2.0, cells + 3)
    noise = rng.laplace(0, sigma) * 3 if heavy else rng.normal(0, sigma)
    counts = noise + height * (rng.random(cells + 3) < 0.2)
    found = settled([Decimal(k) for k in range(cells + 1)], counts, sigma=sigma, sure=4.5)
    assert found is None or all(low < high for low, high in pairwise(found.edges))


def test_a_nearly_empty_value_beside_a_frequent_one_does_not_get_its_rows() -> None:
    """Of two neighbours one holds 13 rows and the other 2,308: in one range, half of the rows would be drawn at the wrong one."""
    edges = [Decimal(k) for k in range(1, 8)]
    counts = np.array([0.0, 48_690, 6_946, 20_875, 3_459, 13, 2_308, 0, 0])
    found = settled(edges, counts, sigma=np.full(len(counts), 37.0), sure=4.0, roundness=round_number)
    assert found is not None
    assert {5, 6} <= {int(edge) for edge in found.edges}


@pytest.mark.parametrize("unit", ["1", "0.1", "0.001"])
def test_every_first_edge_is_a_possible_number(unit: str) -> None:
    """Ages with one decimal: edges at 0.01 and 0.02 made bins that hold no such number, and the column was left out after it was paid for."""
    decades = [
        (sign, power, 900.0 if (sign, power) in ((1, 0), (1, 1)) else 0.0)
        for sign in (1, -1)
        for power in range(-6, 15)
    ]
    whole = unit == "1"
    edges = first_numbers(
        decades, sure=50.0, sigma=40.0, rows=1_800.0, whole=whole, unit=Decimal(unit), zero=0.0
    )
    assert len(edges) > 5
    assert not [edge for edge in edges if edge % Decimal(unit)]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 40), st.sampled_from(["1", "0.1"]), st.booleans())
def test_what_is_kept_beside_a_reach_lies_beside_it(seed: int, cells: int, unit: str, negative: bool) -> None:
    """Whatever the counts: the reach that was found stays, what is added touches it, and nothing below zero is added to numbers above it."""
    rng = np.random.default_rng(seed)
    widths = rng.choice([1, 1, 1, 5, 50], cells)
    start = -int(widths[: cells // 2].sum()) if negative else 0
    edges = [start * Decimal(unit), *((start + int(far)) * Decimal(unit) for far in widths.cumsum())]
    first = int(rng.integers(0, cells))
    last = int(rng.integers(first, cells))
    inside, noise = rng.normal(0, 200, cells), rng.uniform(1, 100, cells)

    def tails(low: Decimal, high: Decimal) -> tuple[Decimal | None, Decimal | None]:
        return tails_of_numbers(low, high, least=Decimal(0), unit=Decimal(unit))

    step = Decimal(1) if unit == "1" else None
    low, high = extended(edges, inside, noise, (first, last), step, tails)
    assert 0 <= low <= first <= last <= high < cells
    assert edges[first] < 0 or edges[low] >= 0
    if low < first:
        assert inside[low:first].sum() > 0
    if high > last:
        assert inside[last + 1 : high + 1].sum() > 0


def test_a_rare_value_at_the_end_of_a_short_range_is_kept() -> None:
    """An answer of 60 rows beside answers of hundreds, with noise of 50, is no sure value; left out it would be lost in every pair."""
    edges = [Decimal(k) for k in range(11)]
    counts = np.array([0.0, 60.0, 400.0, 300.0, *[-10.0] * 7, 0.0, 0.0])
    found = settled(edges, counts, sigma=np.full(len(counts), 50.0), sure=4.0, finest=Decimal(1))
    assert found is not None
    assert found.edges[0] == 0
    assert found.edges[-1] == 3


def test_digits_are_always_asked_for_one_by_one() -> None:
    """Cells cost nothing, and two digits in one cell could not be told apart by a fit."""
    decades = [(sign, power, 0.0) for sign in (1, -1) for power in range(-6, 15)]
    for one, zero in ((300.0, 0.0), (300.0, 400.0), (0.0, 400.0)):
        known = [(sign, power, one if (sign, power) == (1, 0) else many) for sign, power, many in decades]
        edges = first_numbers(
            known, sure=250.0, sigma=100.0, rows=700.0, whole=True, unit=Decimal(1), zero=zero
        )
        assert {Decimal(digit) for digit in range(11)} <= set(edges)


@pytest.mark.parametrize(("held", "found"), [(2_000.0, True), (600.0, False)])
def test_a_range_that_stands_out_is_searched_for_a_frequent_value(held: float, found: bool) -> None:
    """A top code of 501 among numbers of three digits: its range of 25 holds many times what the ranges beside it do."""
    edges = [Decimal(25 * k) for k in range(41)]
    counts = np.concatenate([[0.0], np.full(40, 220.0), [0.0, 0.0]])
    counts[1 + edges.index(Decimal(500))] = held
    finer = refined(
        edges,
        counts,
        sigma=100.0,
        split=lambda low, high, parts: split_numbers(low, high, parts, unit=Decimal(1)),
        unit=Decimal(1),
    )
    assert ({Decimal(501), Decimal(502)} <= set(finer)) is found


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1e9), st.sampled_from(["1", "0.01"]))
def test_a_question_never_has_more_cells_than_it_may(seed: int, most: float, unit: str) -> None:
    """Whatever the counts: the edges of the round before stay, and hardly more than the most cells are asked for."""
    rng = np.random.default_rng(seed)
    edges = [Decimal(int(edge)) for edge in np.unique(rng.integers(0, 10**6, 60))]
    counts = rng.uniform(-1, 1, len(edges) + 2) * most
    finer = refined(
        edges,
        counts,
        sigma=10.0,
        split=lambda low, high, parts: split_numbers(low, high, parts, unit=Decimal(unit)),
        unit=Decimal(unit),
    )
    assert set(edges) <= set(finer)
    assert len(finer) <= 2 * MOST_CELLS + 2


def test_the_last_answers_of_a_scale_are_asked_for_one_by_one() -> None:
    """Answers 1 to 12, most of them 10 to 12: the first round sees no two digits, or one range of them, in which the numbers end."""
    decades = [(sign, power, 0.0) for sign in (1, -1) for power in range(-6, 15)]
    unseen = [(sign, power, 500.0 if (sign, power) == (1, 0) else many) for sign, power, many in decades]
    edges = first_numbers(unseen, sure=400.0, sigma=50.0, rows=800.0, whole=True, unit=Decimal(1), zero=0.0)
    assert {Decimal(number) for number in range(1, 21)} <= set(edges)
    coarse = [Decimal(edge) for edge in (0, 1, 5, 10, 25, 50, 100)]
    for beyond, single in ((0.0, True), (400.0, False)):
        counts = np.array([0.0, 0.0, 60.0, 90.0, 600.0, beyond, 0.0, 0.0, 0.0])
        finer = refined(
            coarse,
            counts,
            sigma=70.0,
            split=lambda low, high, parts: split_numbers(low, high, parts, unit=Decimal(1)),
            unit=Decimal(1),
        )
        assert ({Decimal(10), Decimal(11), Decimal(12), Decimal(13)} <= set(finer)) is single


@pytest.mark.parametrize("rows", [1_000.0, 400.0])
def test_a_range_that_the_noise_kept_wide_is_cut_evenly_where_it_surely_holds_much(rows: float) -> None:
    edges = [Decimal(edge) for edge in (0, 10, 20, 50, 100)]
    counts = np.array([0.0, 0.05 * rows, 0.05 * rows, 0.6 * rows, 0.3 * rows, 0.0, 0.0])

    def split(low: Decimal, high: Decimal, parts: float) -> list[Decimal]:
        return split_numbers(low, high, parts, unit=Decimal(1))

    made = {
        way: settled(edges, counts, sigma=np.full(len(counts), 60.0), sure=3.0, split=split if way else None)
        for way in (True, False)
    }
    assert made[False] is not None
    assert made[True] is not None
    assert set(made[False].edges) <= set(made[True].edges)
    assert max(b - a for a, b in pairwise(made[True].edges)) < max(
        b - a for a, b in pairwise(made[False].edges)
    )
    assert len(made[True].edges) <= bins_for(rows, 60.0) + len(made[False].edges)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(MARKED_DAYS),
    st.integers(0, 400),
    st.floats(0.1, 500.0),
    st.integers(1, 40),
)
def test_dates_of_one_day_of_the_month_are_told_from_others_whatever_the_noise(
    seed: int, day: int, start: int, sigma: float, many: int
) -> None:
    """Edges as rounds ask for them. What is said is a marked day, or nothing, and days are only said where counts leave hardly anything beside them.

    The noise is a third of what it is said to be, so that what lies beside the day exceeds its bound, two deviations, with probability 1e-9 in an example.
    """
    rng = np.random.default_rng(seed)
    years = [days_since_epoch(dt.date(year, 1, 1)) for year in (2018, 2019, 2020)]
    edges = sorted({*years, *split_days(years[0], years[1], 12.0), *split_days(years[1], years[2], 500.0)})
    counts = rng.normal(0.0, sigma / 3, len(edges) + 2)
    counts[start % len(counts)] += 50.0 * many * sigma
    found = marked_day(edges, counts, np.full(len(counts), sigma))
    assert found in (None, *MARKED_DAYS)
    for month in np.arange("2018-01", "2020-01", dtype="datetime64[M]"):
        place = edges.index(mark) if (mark := day_of_month(month, day)) in edges else None
        if place is not None:
            counts[place + 1] += 1_000.0 * sigma
    counts[start % len(counts)] -= 50.0 * many * sigma
    assert marked_day(edges, counts, np.full(len(counts), sigma)) == day
    kept, sums, spread = by_month(edges, counts, np.full(len(counts), sigma))
    assert set(kept) <= set(edges)
    assert sums.sum() == pytest.approx(counts.sum())
    assert (spread**2).sum() == pytest.approx(len(counts) * sigma**2)
    found_months = months_of(Ranges(tuple(kept), False, False), day)
    assert found_months is not None
    assert len(found_months.edges) == 25
    assert months_of(Ranges(tuple(kept), True, False), day) is None


def test_some_months_of_a_year_are_cut_around_days_that_stand_for_months() -> None:
    start, end = (days_since_epoch(dt.date(year, 1, 1)) for year in (2019, 2020))
    found = split_days(start, end, 20.0)
    assert (
        len([month for month in range(1, 12) if days_since_epoch(dt.date(2019, month + 1, 1)) in found]) == 11
    )
    assert {days_since_epoch(dt.date(2019, 3, day)) for day in (2, 15, 16, 31)} <= set(found)
    assert days_since_epoch(dt.date(2019, 4, 15)) not in found
    assert all(start < day < end for day in found)
