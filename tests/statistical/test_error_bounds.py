"""Coverage of intervals and error bounds, on simulated noise.

Each test repeats an experiment with independent noise and counts how often the truth was missed. With failure
probability ``beta`` per experiment the count is at most binomial, so the test fails honestly only if
``P(Binomial(n, beta) >= misses) < ALPHA``: a false-alarm rate of 1e-9 per assertion. Each test also
shows the same code told a wrong scale (or a wrong epsilon), which must be caught at the same threshold; the
number of repetitions was chosen from that: at 400 and ``beta = .05`` the alarm is raised at 50 misses, and the
wrong answers below miss at least 70 times in 400 on average, most of them far more often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from alpha import ALPHA
from scipy.stats import binom

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.inference import (
    Certificate,
    Evidence,
    History,
    Round,
    cell_intervals,
    count_interval,
    mean_interval,
)
from understudy.inference.bounds import Bounder, candidate_distance, score_bound
from understudy.inference.covers import Cover
from understudy.inference.dual import ball_bound, distance_bound
from understudy.inference.laws import CellNoise
from understudy.marginals import Measurement, SumsOfSigns
from understudy.mechanisms import create
from understudy.privacy import GDP, Ledger, SeededRandomness, Unit
from understudy.schema import Domain, Schema

BETA = 0.05
REPEATS = 400
DOMAIN = Domain(("a", "b"), (4, 5))
REAL = np.random.default_rng(7).integers(200, 900, (4, 5)).astype(float)

Draw = Callable[[float, tuple[int, ...]], np.ndarray]


def too_many(misses: int, repeats: int = REPEATS, beta: float = BETA) -> bool:
    """Say whether this many misses are incredible at failure probability beta."""
    return bool(binom.sf(misses - 1, repeats, beta) < ALPHA)


def too_few(misses: int, repeats: int = REPEATS, beta: float = BETA) -> bool:
    return bool(binom.cdf(misses, repeats, beta) < ALPHA)


def drawer(kind: str, generator: np.random.Generator) -> Draw:
    def gaussian(scale: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.rint(generator.normal(0, scale, shape))

    def laplace(scale: float, shape: tuple[int, ...]) -> np.ndarray:
        stop = 1 - np.exp(-1 / scale)
        return (generator.geometric(stop, shape) - generator.geometric(stop, shape)).astype(float)

    return gaussian if kind == "gaussian" else laplace


def planned(draw: Draw, kind: str, *, told: float = 1.0) -> Evidence:
    """One batch that covers the pair and both columns; ``told`` scales what the noise is said to be."""
    cliques = [(("a", "b"), 9.0), (("a",), 6.0), (("b",), 4.0)]
    items = []
    for clique, scale in cliques:
        gone = tuple(axis for axis, name in enumerate("ab") if name not in clique)
        real = REAL.sum(axis=gone)
        items.append(Measurement(clique, real + draw(scale, real.shape), kind, scale * told))  # type: ignore[arg-type]
    return Evidence(DOMAIN, tuple(items), History.planned(3))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_planned_intervals_cover_as_often_as_they_say(kind: str, seed: int) -> None:
    draw = drawer(kind, np.random.default_rng(seed))
    mask = np.zeros((4, 5), dtype=bool)
    mask[1:3, 2:] = True
    values = np.array([1.0, 2.0, 5.0, 9.0])
    truth = REAL[mask].sum(), float(REAL.sum(axis=1) @ values / REAL.sum())
    group = np.full((4, 5), np.nan)  # the mean of a among the rows in two of five groups of b
    group[:, 1:3] = values[:, None]
    of_group = float((REAL * np.nan_to_num(group)).sum() / REAL[:, 1:3].sum())
    for told, wrong in ((1.0, False), (0.4, True)):
        misses = np.zeros(4, dtype=int)
        # a mean takes longer; of 100 the alarm is raised at 22 misses
        repeats = (REPEATS, REPEATS, 160, 100 if kind == "gaussian" else 0)
        for run in range(REPEATS):
            evidence = planned(draw, kind, told=told)
            cells = cell_intervals(evidence, ("a", "b"), confidence=1 - BETA)
            count = count_interval(evidence, ("a", "b"), mask, confidence=1 - BETA)
            assert cells is not None
            assert count is not None
            misses[0] += not cells.low[2, 3] <= REAL[2, 3] <= cells.high[2, 3]
            misses[1] += not count.low <= truth[0] <= count.high
            if run < repeats[2]:
                mean = mean_interval(evidence, ("a",), values, confidence=1 - BETA)
                assert mean is not None
                misses[2] += not mean.low <= truth[1] <= mean.high
            if run < repeats[3]:
                mean = mean_interval(evidence, ("a", "b"), group, confidence=1 - BETA)
                assert mean is not None
                misses[3] += not mean.low <= of_group <= mean.high
        for missed, tried in zip(misses, repeats, strict=True):
            assert not tried or too_many(int(missed), tried) == wrong
        # exact, not merely safe: intervals of twice the width would miss once in 10,000
        assert not too_few(int(misses[0]))
        assert not too_few(int(misses[1]))


def test_intervals_survive_measuring_again_until_the_noise_looks_large(seed: int) -> None:
    """An adversary adds measurements until the average is off by two standard deviations."""
    generator = np.random.default_rng(seed)
    domain, truth, sigma = Domain(("a",), (2,)), 500.0, 20.0
    misses = naive = 0
    for _ in range(REPEATS):
        items: list[Measurement] = []
        total = 0.0
        while len(items) < 40:
            values = np.array([truth, 300.0]) + np.rint(generator.normal(0, sigma, 2))
            items.append(Measurement(("a",), values, "gaussian", sigma))
            total += values[0] - truth
            if abs(total) > 2 * sigma * np.sqrt(len(items)):
                break
        evidence = Evidence(domain, tuple(items), History.unknown(len(items)))
        blind = replace(evidence, history=History.planned(len(items)))
        for told, blinded in ((evidence, False), (blind, True)):
            found = cell_intervals(told, ("a",), confidence=1 - BETA)
            assert found is not None
            missed = not found.low[0] <= truth <= found.high[0]
            misses, naive = misses + (missed and not blinded), naive + (missed and blinded)
    assert not too_many(misses)
    assert too_many(naive)  # which takes the same measurements as planned


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_distance_bounds_cover_where_they_are_tight(kind: str, seed: int) -> None:
    """Dense cells, and an answer that follows the noise: the error is the noise itself."""
    generator = np.random.default_rng(seed)
    draw = drawer(kind, generator)
    real = np.full(60, 400.0)
    for factor, wrong in ((1.0, False), (0.5, True)):
        misses = 0
        for _ in range(REPEATS):
            measured = real + draw(10.0, real.shape)
            cover = Cover(measured, CellNoise(kind, 10.0 * factor))  # type: ignore[arg-type]
            answer = measured * (real.sum() / measured.sum())
            bound = distance_bound(cover, answer, total=real.sum(), beta=BETA)
            misses += bool(np.abs(real - answer).sum() > bound)
        assert too_many(misses) == wrong


def test_distance_bounds_cover_on_sparse_tables_with_groups(seed: int) -> None:
    """Most cells are empty; the answer keeps the noise it likes best, cells of small expectation grouped apart."""
    generator = np.random.default_rng(seed)
    real = np.where(generator.random(500) < 0.3, 300.0, 0.0)
    before = np.maximum(0, real + generator.normal(0, 20, 500))
    for factor, wrong in ((1.0, False), (0.3, True)):
        misses = 0
        for _ in range(REPEATS // 2):
            measured = real + np.rint(generator.normal(0, 10, 500))
            answer = np.where(before > 100, np.maximum(measured, 0), 0.0)
            answer *= real.sum() / answer.sum()
            cover = Cover(measured, CellNoise("gaussian", 10.0 * factor), before)
            bound = distance_bound(cover, answer, total=real.sum(), beta=BETA)
            misses += bool(np.abs(real - answer).sum() > bound)
        assert too_many(misses, REPEATS // 2) == wrong


def test_averages_of_adaptive_measurements_cover(seed: int) -> None:
    """The next measurement is precise if the last noise was small, and coarse if it was large."""
    generator = np.random.default_rng(seed)
    real = np.full(25, 1000.0)
    for factor, wrong in ((1.0, False), (0.3, True)):
        misses = 0
        for _ in range(REPEATS // 2):
            covers, sigma = [], 30.0
            for _ in range(6):
                noise = np.rint(generator.normal(0, sigma, real.shape))
                covers.append(Cover(real + noise, CellNoise("gaussian", sigma * factor)))
                sigma = 15.0 if np.abs(noise).sum() < 0.8 * sigma * 25 else 60.0
            weights = np.array([1 / cover.noise.variance for cover in covers])
            answer = np.tensordot(weights / weights.sum(), np.stack([c.values for c in covers]), axes=1)
            answer *= real.sum() / answer.sum()
            bound = ball_bound(covers, answer, total=real.sum(), beta=BETA)
            misses += bool(np.abs(real - answer).sum() > bound)
        assert too_many(misses, REPEATS // 2) == wrong


def test_choices_bound_what_was_not_chosen(seed: int) -> None:
    """Two candidates; the worse one is chosen now and then, and the bound has to allow for it."""
    generator = np.random.default_rng(seed)
    epsilon, l1 = 0.1, 2.0
    distances = {("a",): 1000.0, ("b",): 1000.0 - 1.6 * 2 * l1 / epsilon}
    cliques = tuple(distances)
    for factor, wrong in ((1.0, False), (5.0, True)):
        misses = 0
        for _ in range(REPEATS):
            scores = np.array(list(distances.values())) * epsilon / (2 * l1)
            clique = cliques[int(np.argmax(scores + generator.gumbel(size=2)))]
            answer = np.array([4000.0, 4000.0])
            half = distances[clique] / 2
            values = answer + half * np.array([1.0, -1.0]) + np.rint(generator.normal(0, 1.0, 2))
            step = Round(
                clique=clique,
                answer=answer,
                measurement=Measurement(clique, values, "gaussian", 1.0),
                epsilon=epsilon * factor,
                candidates=cliques,
                weight=1.0,
                largest_weight=1.0,
                penalty=0.8,
                l1=l1,
            )
            score = score_bound(step, total=8000.0, beta=BETA)
            misses += any(
                distance > candidate_distance(step, score, weight=1.0, cells=2)
                for distance in distances.values()
            )
        assert too_many(misses) == wrong


def test_certified_errors_cover(seed: int) -> None:
    generator = np.random.default_rng(seed)
    truth, scale = 600.0, 40.0
    item = Measurement(("a", "b"), REAL, "gaussian", 1e6)
    model = np.full((4, 5), REAL.sum() / 20)
    for factor, wrong in ((1.0, False), (0.4, True)):
        misses = 0
        for _ in range(REPEATS):
            value = truth + np.rint(generator.normal(0, scale, 1))
            certificate = Certificate((("a", "b"),), value, "gaussian", scale * factor)
            history = History((1,), certificate=certificate)
            bound = Bounder(Evidence(DOMAIN, (item,), history, REAL.sum()), BETA).bound(("a", "b"), model)
            misses += bool(bound.rows < truth)
        assert too_many(misses) == wrong


SCHEMA = """
name: coverage
columns:
  - {name: a, kind: categorical, values: [p, q, r, s]}
  - {name: b, kind: categorical, values: [p, q, r]}
  - {name: c, kind: categorical, values: [p, q, r]}
  - {name: d, kind: categorical, values: [p, q]}
"""


@pytest.mark.parametrize("certify", [0.0, 0.05])
def test_bounds_and_intervals_of_whole_fits_cover(certify: float, seed: int) -> None:
    """AIM from the curator to the bounds: at most one marginal in twenty may be missed, and cells likewise."""
    generator = np.random.default_rng(11)
    a = generator.choice(4, 6000, p=[0.4, 0.3, 0.2, 0.1])
    b = np.where(generator.random(6000) < 0.7, a % 3, generator.integers(0, 3, 6000))
    c = np.where(generator.random(6000) < 0.6, b, generator.integers(0, 3, 6000))
    d = (generator.random(6000) < 0.2 + 0.2 * c).astype(int)
    codes = {name: column.astype(np.uint8) for name, column in zip("abcd", (a, b, c, d), strict=True)}
    table = LocalTable(Schema.parse(SCHEMA), codes)
    budget, unit = GDP(0.5), Unit.add_remove()
    missed_cells = fits = 0
    missed = np.zeros(4, dtype=int)
    for run in range(12):
        ledger = Ledger.in_memory(budget=budget, unit=unit, table="coverage")
        randomness = SeededRandomness(1000 * seed + run + (500 if certify else 0))
        curator = Curator(table, unit=unit, ledger=ledger, randomness=randomness)
        model = create("aim", certify=certify).fit(curator, budget)
        bounds = model.error_bounds(confidence=1 - BETA)
        fits += 1
        for index, (clique, bound) in enumerate(
            zip(bounds["clique"], bounds["bound"].to_numpy(float), strict=True)
        ):
            real = table.count(clique)
            missed[index] += bool(np.abs(real - model.marginal(clique)).sum() / 6000 > bound)
        cell = model.interval(["a", "b"], confidence=1 - BETA)
        missed_cells += not cell.low[0, 0] <= table.count(("a", "b"))[0, 0] <= cell.high[0, 0]
    # independent runs: 12 fits raise the alarm at 8 misses of one marginal
    assert not any(too_many(int(count), fits) for count in missed)
    assert not too_many(int(missed_cells), fits)


# ------------------------------------------------------------------------------------ sums of signs

TWO_VALUED = Domain(("a", "b", "c"), (2, 2, 2))
COUNTS = np.random.default_rng(11).integers(50, 900, (2, 2, 2)).astype(float)
PARTS = (("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c"))


def sum_of_signs(clique: tuple[str, ...]) -> float:
    """The exact sum of signs of some columns of the table of these tests."""
    sign = np.ones((2, 2, 2))
    for axis, name in enumerate(TWO_VALUED.names):
        if name in clique:
            sign = sign * np.array([1.0, -1.0]).reshape([2 if place == axis else 1 for place in range(3)])
    return float((sign * COUNTS).sum())


def two_looks(generator: np.random.Generator, *, told: float, public: bool) -> Evidence:
    """Columns, a first look at all sums with noise that was planned, and a second one whose noise an adversary chose by the noise before; ``told`` times the true scales are told."""
    columns = tuple(
        Measurement(
            (name,),
            COUNTS.sum(axis=tuple(other for other in range(3) if other != axis))
            + np.rint(generator.normal(0, 12.0, 2)),
            "gaussian",
            12.0 * told,
        )
        for axis, name in enumerate(TWO_VALUED.names)
    )
    first = generator.normal(0, 25.0, len(PARTS))
    exact = np.array([sum_of_signs(clique) for clique in PARTS])
    one = SumsOfSigns(
        "first",
        exact + first,
        "mechanism",
        cliques=PARTS,
        scales=np.full(len(PARTS), 25.0 * told),
        planned=True,
    )
    again = (*(("a",), ("b",), ("c",)), *PARTS)
    # where the first look erred upwards it is corrected well, and badly where it erred downwards
    scale = 5.0 if first.sum() < 0 else 40.0
    values = np.array([sum_of_signs(clique) for clique in again]) + generator.normal(0, scale, len(again))
    two = SumsOfSigns("again", values, "mechanism", cliques=again, scales=np.full(len(again), scale * told))
    total = float(COUNTS.sum()) if public else None
    return Evidence(TWO_VALUED, columns, History.planned(3), total, (one, two))


@pytest.mark.parametrize("public", [True, False], ids=["rows-public", "rows-private"])
def test_intervals_from_sums_of_signs_cover_pairs_and_triples(seed: int, public: bool) -> None:
    """A cell, a count and an error bound of a pair, and a cell of a triple, each at ``BETA``; the wrong answer is told half of the scales."""
    generator = np.random.default_rng(seed)
    pair, same = COUNTS.sum(axis=2), np.eye(2, dtype=bool)
    guess = pair + np.array([[30.0, -10.0], [-40.0, 20.0]])
    distance = float(np.abs(pair - guess).sum())
    misses = {told: np.zeros(4, dtype=int) for told in (1.0, 0.5)}
    widest = 0.0
    for _ in range(REPEATS):
        for told, missed in misses.items():
            evidence = two_looks(generator, told=told, public=public)
            cell = cell_intervals(evidence, ("a", "b"), confidence=1 - BETA)
            count = count_interval(evidence, ("a", "b"), same, confidence=1 - BETA)
            triple = cell_intervals(evidence, ("a", "b", "c"), confidence=1 - BETA)
            assert cell is not None
            assert count is not None
            assert triple is not None
            widest = max(widest, float(cell.width.max()))
            found = Bounder(evidence, BETA).bound(("a", "b"), guess)
            assert (found.kind, found.basis) == ("supported", "measured")
            missed += [
                not cell.low[0, 1] <= pair[0, 1] <= cell.high[0, 1],
                not count.low <= pair[same].sum() <= count.high,
                not triple.low[1, 0, 1] <= COUNTS[1, 0, 1] <= triple.high[1, 0, 1],
                found.rows < distance,
            ]
    assert not any(too_many(int(count)) for count in misses[1.0])
    assert all(too_many(int(count)) for count in misses[0.5][:3])
    assert widest < 0.1 * pair.sum()  # an interval that says everything covers, too
