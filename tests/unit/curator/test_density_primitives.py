"""Primitives for densities: exact laws on tiny tables, and what they refuse."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator, SealedCounts
from understudy.data import read_table
from understudy.errors import BudgetError
from understudy.mechanisms.histograms import look as steps
from understudy.mechanisms.histograms.look import (
    PathDesign,
    Smoothing,
    choose_path,
    log_paths,
    log_weights,
    smoothed_records,
    sorted_counts,
    spread_error,
)
from understudy.mechanisms.histograms.transforms.look import (
    factor_steps,
    kernel_reach,
    kernel_sums,
    smoothing_error,
)
from understudy.privacy import Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.events import PureEvent, SelectionEvent
from understudy.privacy.noise.randomness import BitReader
from understudy.schema import Domain, Schema

SCHEMA = Schema.parse("name: t\ncolumns: [{name: x, kind: integer, minimum: 0, maximum: 3}]")


def curator_of(counts: list[int], budget: Budget, unit: Unit) -> Curator:
    frame = pd.DataFrame({"x": np.repeat(np.arange(len(counts)), counts)})
    book = Ledger.in_memory(budget=budget, unit=unit, table="t")
    return Curator(read_table(frame, SCHEMA), unit=unit, ledger=book, randomness=SeededRandomness(1))


def seal(counts: list[int], unit: Unit) -> SealedCounts:
    domain = Domain(("x",), (len(counts),))
    return SealedCounts(np.array(counts), clique=("x",), domain=domain, unit=unit, known_rows=None)


# ---------------------------------------------------------------------------- smoothed histograms


def test_the_pseudo_count_is_equation_3_3() -> None:
    """The weight of the uniform part is K / (K + n (exp(epsilon / m) - 1)), as printed."""
    epsilon, n, k = 0.7, 40, 9
    t = Smoothing.for_epsilon(Unit.replace_one(), epsilon / n, rows_fixed=True).pseudo
    assert k * t / (n + k * t) == pytest.approx(k / (k + n * math.expm1(epsilon / n)), rel=1e-6)


UNITS = [
    (Unit.add_remove(), False),
    (Unit.replace_one(), True),
    (Unit.replace_one(), False),
    (Unit.add_remove_person("id", max_rows=2), False),
    (Unit.replace_person("id", max_rows=2), False),
]


def _neighbours(counts: np.ndarray, unit: Unit, fixed: bool) -> list[np.ndarray]:
    """Every table that differs from a small one by one unit, as counts."""
    k = unit.max_rows
    joins = [np.array(a) for a in product(range(k + 1), repeat=len(counts)) if sum(a) <= k]
    if unit.relation == "add-remove":
        return [counts + a for a in joins] + [counts - a for a in joins if (counts >= a).all()]
    pairs = [(a, b) for a in joins for b in joins if not fixed or a.sum() == b.sum()]
    return [counts - a + b for a, b in pairs if (counts >= a).all()]


@pytest.mark.parametrize(("unit", "fixed"), UNITS, ids=lambda value: str(getattr(value, "relation", value)))
def test_one_smoothed_record_costs_what_it_says(unit: Unit, fixed: bool) -> None:
    """All small tables and all their neighbours: the log-ratio and its range never exceed the event, and come close."""
    smoothing = Smoothing.for_epsilon(unit, 0.8, rows_fixed=fixed)
    event = smoothing.event
    assert event.epsilon <= 0.8
    assert isinstance(event, PureEvent) == (unit == Unit.replace_one() and fixed)
    worst = 0.0
    for counts in product(range(4), repeat=3):
        here = np.array(counts) + smoothing.pseudo
        for other in _neighbours(np.array(counts), unit, fixed):
            there = other + smoothing.pseudo
            loss = np.log(here / here.sum()) - np.log(there / there.sum())
            worst = max(worst, np.abs(loss).max())
            if isinstance(event, SelectionEvent):
                worst = max(worst, loss.max() - loss.min())
    assert worst <= event.epsilon
    assert worst > 0.85 * event.epsilon


def test_smoothed_records_are_paid_for_together() -> None:
    unit = Unit.add_remove()
    curator = curator_of([5, 0, 3, 1], PureDP(1.0), unit)
    smoothing = Smoothing.affordable(unit, PURE, 1.0, records=50, rows_fixed=False)
    drawn = smoothed_records(curator, curator.counts(["x"]), smoothing, records=50, purpose="draw")
    assert drawn.shape == (50,)
    assert curator.ledger.spent == pytest.approx(1.0, rel=1e-6)
    assert curator.ledger.spent <= 1.0
    with pytest.raises(BudgetError):
        smoothed_records(curator, curator.counts(["x"]), smoothing, records=1, purpose="draw again")


def test_smoothing_for_another_unit_is_refused_unpaid() -> None:
    curator = curator_of([1, 1, 1, 1], PureDP(1.0), Unit.add_remove())
    for wrong in (
        Smoothing.for_epsilon(Unit.replace_one(), 0.1, rows_fixed=False),
        Smoothing(Unit.add_remove(), 0.3, False),  # no whole multiple of 2**-20
        Smoothing(Unit.add_remove(), 2.0**45, False),  # weights would not fit 64 bits
    ):
        with pytest.raises(BudgetError):
            smoothed_records(curator, curator.counts(["x"]), wrong, records=2, purpose="draw")
    good = Smoothing.for_epsilon(Unit.add_remove(), 0.1, rows_fixed=False)
    with pytest.raises(BudgetError):
        smoothed_records(curator, curator.counts(["x"]), good, records=0, purpose="draw")
    for epsilon in (0.0, math.inf):
        with pytest.raises(BudgetError):
            Smoothing.for_epsilon(Unit.add_remove(), epsilon, rows_fixed=False)
    assert curator.ledger.spent == 0


# ---------------------------------------------------------------------------- distribution functions


def _law(ends: np.ndarray, design: PathDesign) -> dict[tuple[int, ...], float]:
    """The probability of every path as drawn: levels by the computed weights, then uniform inside the band."""
    weights = np.exp(log_weights(ends, design))
    law: dict[tuple[int, ...], float] = {}
    for level, weight in enumerate(weights / weights.sum()):
        if weight == 0:
            continue
        low, high = steps._band(ends, level, design)
        inside = [
            path
            for path in product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
            if list(path) == sorted(path)
        ]
        for path in inside:
            law[path] = law.get(path, 0.0) + weight / len(inside)
    return law


DESIGNS = [
    PathDesign(epsilon=1.0, weight=2, records=5, width=1, levels=7, rows_per_unit=1),
    PathDesign(epsilon=2.0, weight=1, records=4, width=1, levels=3, rows_per_unit=2),
    PathDesign(epsilon=0.5, weight=3, records=4, width=3, levels=4, rows_per_unit=2),
]


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("counts", [(3, 0, 2, 4), (0, 0, 0, 0), (0, 9, 0, 1)])
def test_paths_have_the_law_of_the_exponential_mechanism(design: PathDesign, counts: tuple[int, ...]) -> None:
    ends = np.cumsum(counts)[:-1]
    law = _law(ends, design)
    paths = [p for p in product(range(design.records + 1), repeat=3) if list(p) == sorted(p)]
    assert sorted(law) == sorted(paths), "every data set must be possible"
    levels = {
        path: min(math.ceil(max(abs(ends - design.weight * np.array(path))) / design.width), design.levels)
        for path in paths
    }
    weights = {path: math.exp(-design.gamma * level) for path, level in levels.items()}
    for path in paths:
        assert law[path] == pytest.approx(weights[path] / sum(weights.values()), rel=1e-9)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_choice_of_a_path_costs_what_it_says(relation: str) -> None:
    """Exact laws of all tables of up to four rows and their neighbours; the bound is nearly reached."""
    design = DESIGNS[0]
    unit = Unit.add_remove() if relation == "add-remove" else Unit.replace_one()
    worst = spread = 0.0
    tables = [counts for counts in product(range(4), repeat=4) if sum(counts) <= 4]
    laws = {counts: _law(np.cumsum(counts)[:-1], design) for counts in tables}
    for counts in tables:
        for other in _neighbours(np.array(counts), unit, relation == "replace-one"):
            there = laws.get(tuple(int(x) for x in other))
            if there is None:
                continue
            loss = np.array([math.log(p / there[path]) for path, p in laws[counts].items()])
            worst = max(worst, np.abs(loss).max())
            spread = max(spread, loss.max() - loss.min())
    assert max(worst, spread) <= design.event.epsilon
    assert spread > 0.9 * design.epsilon


def test_uniform_paths_reach_every_corner() -> None:
    low, high = [0, 1, 1], [2, 1, 4]
    wanted = {
        path
        for path in product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
        if list(path) == sorted(path)
    }
    reader = BitReader(SeededRandomness(3))
    found = {tuple(steps._uniform_path(low, high, reader)) for _ in range(400)}
    assert found == wanted


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(("bins", "rows"), [(2, 0), (2, 10), (64, 2_000), (256, 10**7)])
def test_designs_stay_within_what_double_precision_holds(epsilon: float, bins: int, rows: int) -> None:
    design = PathDesign.of(Unit.add_remove(), epsilon=epsilon, bins=bins, rows=rows)
    assert 1 <= design.records <= steps.MAX_RECORDS
    assert log_paths(bins, design.records) <= 600
    assert 1 <= design.levels <= 50_001
    assert design.records * design.weight <= 2 * max(rows, 1)
    assert bins * design.records * 2.0**-53 < 2.0**-30


def test_a_path_is_charged_before_it_is_drawn() -> None:
    unit = Unit.add_remove()
    curator = curator_of([5, 0, 3, 1], PureDP(1.0), unit)
    design = PathDesign.of(unit, epsilon=0.9, bins=4, rows=9)
    chosen = choose_path(curator, curator.counts(["x"]), design, purpose="choose")
    assert chosen.sum() == design.records
    assert (chosen >= 0).all()
    assert curator.ledger.spent == pytest.approx(0.9 + steps.SLACK)
    with pytest.raises(BudgetError):
        choose_path(curator, curator.counts(["x"]), design, purpose="choose again")
    other = PathDesign.of(Unit.add_remove_person("id", max_rows=2), epsilon=0.01, bins=4, rows=9)
    with pytest.raises(BudgetError):
        choose_path(curator, curator.counts(["x"]), other, purpose="choose")
    for bad in ({"epsilon": 0.0, "bins": 4}, {"epsilon": 1.0, "bins": 1}, {"epsilon": 1.0, "bins": 300}):
        with pytest.raises(BudgetError):
            PathDesign.of(unit, rows=9, **bad)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- kernels and bins


def test_factors_are_rounded_more_coarsely_under_more_noise() -> None:
    rough, whole = np.full((3, 3), 0.3), np.eye(3)
    assert factor_steps([rough, whole], 1.0) == [2.0**-20, 1.0]
    assert factor_steps([rough, rough], 1.0) == [2.0**-10, 2.0**-10]
    assert factor_steps([rough], 2.0**25) == [2.0**-13]


def test_shapes_that_do_not_fit_are_refused() -> None:
    sealed = seal([3, 1, 2], Unit.add_remove())
    for factors in ([np.eye(2)], [np.eye(3), np.eye(3)], [2 * np.eye(3)]):
        with pytest.raises(BudgetError):
            kernel_sums(sealed, factors, [1.0] * len(factors), name="sums")
    for smoothers in ([np.eye(2)], [-np.eye(3)], [2 * np.eye(3)], []):
        with pytest.raises(BudgetError):
            smoothing_error(sealed, smoothers)
    for labels in ([[0, 1]], [[0, -1, 1]], []):
        with pytest.raises(BudgetError):
            spread_error(sealed, labels)


def test_seals_stay_closed() -> None:
    sealed = seal([777, 1, 2], Unit.add_remove())
    for item in (sorted_counts(sealed), kernel_sums(sealed, [np.eye(3)], [1.0], name="sums")):
        with pytest.raises(TypeError):
            np.asarray(item)
        assert "777" not in repr(item)


def test_a_kernel_that_tells_all_bins_apart_moves_like_a_histogram() -> None:
    reach = kernel_reach([np.eye(4)], [1.0], Unit.add_remove())
    assert reach.l2 == pytest.approx(1.0)
    assert kernel_reach([np.eye(4), np.eye(2)], [1.0, 1.0], Unit.replace_one()).l2 == pytest.approx(2**0.5)
