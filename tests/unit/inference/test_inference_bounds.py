"""Error bounds: the published formulas as printed, ours, and what a model says of itself."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import WorkloadError
from understudy.inference import Certificate, Evidence, History, Round, supported_bound, unsupported_bound
from understudy.inference.bounds import Bounder, candidate_distance, chosen_distance, score_bound
from understudy.inference.history import Standing
from understudy.marginals import Measurement
from understudy.mechanisms import Model, create, load_model
from understudy.privacy import GDP, ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Schema

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))
REAL = np.array([[60.0, 20.0, 5.0, 0.0], [10.0, 80.0, 40.0, 0.0], [0.0, 5.0, 60.0, 20.0]])


def gaussian(clique: tuple[str, ...], values: np.ndarray, scale: float) -> Measurement:
    return Measurement(clique, values, "gaussian", scale)


def test_corollary_one_as_printed() -> None:
    one, two = gaussian(("a", "b"), REAL, 3.0), gaussian(("a",), REAL.sum(axis=1), 4.0)
    evidence = Evidence(DOMAIN, (one, two), History.planned(2))
    answer = np.array([90.0, 125.0, 85.0])
    variance = 1 / (3 / (12 * 9.0) + 1 / 16.0)
    average = variance * (REAL.sum(axis=1) / 36 + REAL.sum(axis=1) / 16)
    lam = math.sqrt(math.log(20))
    printed = (
        np.abs(answer - average).sum()
        + math.sqrt(2 * math.log(2)) * math.sqrt(variance) * 3
        + lam * math.sqrt(variance) * math.sqrt(2 * 3)
    )
    assert supported_bound(evidence, ("a",), answer, beta=0.05) == pytest.approx(printed)
    assert supported_bound(evidence, ("c",), np.zeros(2), beta=0.05) == math.inf
    laplace = Evidence(DOMAIN, (Measurement(("a",), REAL.sum(axis=1), "laplace", 4.0),), History.planned(1))
    # at least the mean of the noise, three times the scale
    assert 12 < supported_bound(laplace, ("a",), REAL.sum(axis=1), beta=0.05) < 60


def a_round(*, last: bool = True, noise: str = "gaussian") -> Round:
    item = Measurement(("a", "b"), REAL + 1.0, noise, 2.0)  # type: ignore[arg-type]
    candidates = (("a", "b"), ("a", "c"), ("b", "c"))
    return Round(("a", "b"), REAL + 4.0, item, 0.5, candidates, 3.0, 4.0, 1.6, 2.0, last)


def test_corollary_two_as_printed() -> None:
    step, standing = a_round(), Standing(("a", "c"), 2.0, 0, 7.0)
    lam1, lam2 = math.sqrt(2 * math.log(40)), math.log(40)
    sensitivity = 2.0 * 4.0
    inside = (
        3.0 * 36.0
        + 1.6 * (2.0 * 6 - 3.0 * 12)
        + 2 * sensitivity / 0.5 * math.log(3)
        + 3.0 * lam1 * 2.0 * math.sqrt(12)
        + lam2 * 2 * sensitivity / 0.5
    )
    assert unsupported_bound(step, standing, cells=6, beta=0.05) == pytest.approx(7.0 + inside / 2.0)
    assert unsupported_bound(a_round(noise="laplace"), standing, cells=6, beta=0.05) > 7.0


def test_what_was_not_chosen_is_bounded_through_what_was() -> None:
    step = a_round()
    assert chosen_distance(step, total=300.0, beta=0.05) >= 36.0 - 20.0
    score = score_bound(step, total=300.0, beta=0.05)
    assert candidate_distance(step, score, weight=2.0, cells=6) == pytest.approx(1.6 * 6 + score / 2)
    assert candidate_distance(step, -1e9, weight=2.0, cells=6) == 0
    assert score_bound(step, total=300.0, beta=0.001) > score


def evidence(certificate: Certificate | None = None, total: float | None = 300.0) -> Evidence:
    step = a_round()
    planned = gaussian(("a",), REAL.sum(axis=1), 2.0)
    history = History((1, 1), (step,), (Standing(("a", "c"), 2.0, 0, 7.0),), certificate)
    return Evidence(DOMAIN, (planned, step.measurement), history, total)


def test_kinds_and_arguments() -> None:
    bounder = Bounder(evidence(), 0.05)
    measured = bounder.bound(("a", "b"), REAL)
    assert (measured.kind, measured.basis) == ("supported", "measured")
    assert 0 < measured.rows < 100
    chosen = bounder.chosen(("a", "c"))
    assert 7.0 < chosen < math.inf
    assert bounder.bound(("a", "c"), np.full((3, 2), 50.0)).kind == "unsupported"
    nothing = bounder.bound(("b", "c"), np.full((4, 2), 37.5))
    assert (nothing.kind, nothing.basis, nothing.rows) == ("unsupported", "trivial", 600.0)
    with pytest.raises(WorkloadError, match="shape"):
        bounder.bound(("a", "b"), np.zeros(3))
    with pytest.raises(WorkloadError, match="failure probability"):
        Bounder(evidence(), 1.5)


def test_rows_drawn_from_the_model_pay_for_their_distance_from_it() -> None:
    signed = Certificate((("a", "c"), ("a", "b", "c")), np.array([30.0, 50.0]), "gaussian", 4.0)
    bounder = Bounder(evidence(signed), 0.05)
    model = np.full((3, 2), 50.0)
    rows = model + np.array([[5.0, -5.0], [0.0, 0.0], [0.0, 0.0]])
    alone, drawn = bounder.bound(("a", "c"), model), bounder.bound(("a", "c"), model, rows=rows)
    assert alone.basis == drawn.basis == "certified"
    assert drawn.rows == pytest.approx(alone.rows + 10)
    assert 30 < alone.rows < 40
    # a marginal without its own certificate takes the smallest one that contains it
    assert bounder.certified(("c",)) == alone.rows
    assert bounder.certified(("b", "c")) == pytest.approx(alone.rows + 20)
    assert Bounder(evidence(), 0.05).certified(("a", "c")) == math.inf


def test_an_unknown_number_of_rows_widens_the_bounds() -> None:
    known, unknown = Bounder(evidence(), 0.05), Bounder(evidence(total=None), 0.05)
    low, high, estimate = unknown.total
    assert low < 300 < high
    assert low < estimate < high
    assert unknown.bound(("a", "b"), REAL).rows > known.bound(("a", "b"), REAL).rows


# ---------------------------------------------------------------- models

SCHEMA = """
name: bounds
columns:
  - {name: colour, kind: categorical, values: [red, green, blue, grey]}
  - {name: size, kind: ordinal, values: [small, middle, large]}
  - {name: age, kind: integer, bins: {edges: [0, 18, 40, 65, 100]}}
  - {name: smokes, kind: boolean, missing: true}
"""


def table(rows: int) -> LocalTable:
    generator = np.random.default_rng(3)
    colour = generator.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05])
    size = np.where(generator.random(rows) < 0.8, colour % 3, generator.integers(0, 3, rows))
    age = generator.integers(0, 4, rows)
    smokes = np.where(generator.random(rows) < 0.1, 2, generator.random(rows) < 0.2 + 0.2 * age)
    columns = {"colour": colour, "size": size, "age": age, "smokes": smokes}
    return LocalTable(Schema.parse(SCHEMA), {name: codes.astype(np.uint8) for name, codes in columns.items()})


def fit(
    name: str, budget: Budget, *, unit: Unit | None = None, rows: int = 4000, **options: object
) -> tuple[Model, Curator]:
    unit = unit or Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="bounds")
    curator = Curator(table(rows), unit=unit, ledger=ledger, randomness=SeededRandomness(5))
    return create(name, **options).fit(curator, budget), curator


def exact(curator: Curator, clique: tuple[str, ...]) -> np.ndarray:
    return curator._table.count(clique).astype(float)


@pytest.mark.parametrize("certify", [0.0, 0.05])
@pytest.mark.parametrize(
    ("budget", "unit"),
    [
        (ApproxDP(1.0, 1e-6), Unit.add_remove()),
        (GDP(1.0), Unit.replace_one()),
        (PureDP(2.0), Unit.add_remove()),
    ],
)
def test_aim_bounds_its_errors(budget: Budget, unit: Unit, certify: float, tmp_path: Path) -> None:
    model, curator = fit("aim", budget, unit=unit, certify=certify)
    spent = model.provenance.spent
    assert 0.99 * curator.accounting.total(budget) <= spent <= curator.accounting.total(budget)
    found = model.error_bounds(confidence=0.95)
    assert list(found.columns) == ["clique", "kind", "bound", "basis", "total"]
    assert model.workload is not None
    assert found["clique"].tolist() == list(model.workload.cliques)
    assert (found["total"] - 4000).abs().max() < 200
    for clique, bound in zip(model.workload.cliques, found["bound"].to_numpy(float), strict=True):
        error = np.abs(exact(curator, clique) - model.marginal(clique)).sum() / 4000
        assert error <= bound <= 2.2
    drawn = model.error_bounds(of=model.sample(3000, seed=1))
    assert (drawn["bound"] >= 0.3 * found["bound"]).all()
    smaller = model.error_bounds(cliques=[["size", "colour"], ["age"]])
    assert smaller["clique"].tolist() == [("colour", "size"), ("age",)]
    path = tmp_path / "model.zip"
    model.save(path)
    again = load_model(path)
    assert again.rounds[-1].last
    pd.testing.assert_frame_equal(again.error_bounds(), found)


@pytest.mark.parametrize("name", ["independent", "mst", "mwem-pgm", "gaussian", "laplace"])
def test_every_mechanism_has_intervals(name: str) -> None:
    model, curator = fit(name, PureDP(4.0) if name == "laplace" else GDP(2.0))
    table_of = exact(curator, ("colour",))
    cells = model.interval(["colour"], confidence=0.999999)
    assert cells.low.shape == (4,)
    assert np.all((cells.low <= table_of) & (table_of <= cells.high))
    assert np.all((cells.low <= cells.estimate) & (cells.estimate <= cells.high))
    count = model.count_interval(["colour"], [(0,), (2,)], confidence=0.999999)
    assert count.low <= table_of[0] + table_of[2] <= count.high
    mask = np.array([True, False, True, False])
    assert model.count_interval(["colour"], mask, confidence=0.999999).high == count.high
    turned = model.count_interval(["size", "colour"], [(2, 0)])
    assert turned.high == model.count_interval(["colour", "size"], [(0, 2)]).high
    both = np.zeros((3, 4), dtype=bool)
    both[2, 0] = True
    assert turned.high == model.count_interval(["size", "colour"], both).high
    ages = np.array([9.0, 29.0, 52.0, 82.0])
    mean = model.mean_interval("age", ages, confidence=0.999999)
    assert mean.low <= exact(curator, ("age",)) @ ages / 4000 <= mean.high
    assert mean.width < 40


def test_intervals_of_what_nobody_measured_fall_back_on_the_error_bound() -> None:
    model, curator = fit("independent", GDP(2.0))
    cells = model.interval(["colour", "size"])
    assert cells.basis == "trivial"
    real = exact(curator, ("colour", "size"))
    assert np.all((cells.low <= real) & (real <= cells.high))
    wide, _ = fit("aim", GDP(2.0), certify=0.2, max_model_mb=0.0006, rows=40_000)
    loose = [clique for clique in wide.workload.cliques if not wide.uncertainty.evidence.supports(clique)]  # type: ignore[union-attr]
    found = wide.interval(loose[0])
    assert found.basis == "bound"
    assert found.width.max() < 40_000
    count = wide.count_interval(loose[0], [(0, 0, 0)])
    assert count.low == found.low[0, 0, 0]


def test_a_mean_without_measurements_and_bad_questions() -> None:
    model, curator = fit("mst", GDP(2.0))
    smokes = model.mean_interval("smokes", [0.0, 1.0, np.nan], confidence=0.999999)
    no, yes, _ = exact(curator, ("smokes",))
    assert smokes.low < yes / (no + yes) < smokes.high < smokes.low + 0.05
    told = model.uncertainty
    with pytest.raises(WorkloadError, match="one value per code"):
        model.mean_interval("smokes", [0.0, 1.0])
    with pytest.raises(WorkloadError, match="not a cell"):
        model.count_interval(["colour"], [(4,)])
    with pytest.raises(WorkloadError, match="booleans"):
        told.count_interval(("colour",), np.ones(4))  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="failure probability"):
        model.interval(["colour"], confidence=1.0)
