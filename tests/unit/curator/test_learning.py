"""Objective perturbation: the parts of its proof on neighbouring tables, its minimum, charges and refusals."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import minimize as reference

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, BudgetExceeded
from understudy.mechanisms.parametric.regression import look as _softmax
from understudy.mechanisms.parametric.regression.look import (
    Softmax,
    Weighted,
    fit_softmax,
    minimise,
    objective_for,
    probabilities,
    weighted_records,
)
from understudy.privacy import ZCDP, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: x, kind: integer, minimum: 0, maximum: 10}
  - {name: group, kind: categorical, values: [a, b, c]}
  - {name: two, kind: boolean}
  - {name: three, kind: categorical, values: [u, v, w], missing: true}
"""
)
NUMBERS = np.linspace(-1, 1, 11)[:, None]
INDICATORS = np.eye(3)[:, 1:]
PREDICTORS = (("x", NUMBERS), ("group", INDICATORS))
BINARY = Softmax("two", np.array([0, 1]), PREDICTORS)
TERNARY = Softmax("three", np.array([0, 1, 2, -1]), PREDICTORS)
CONSTANT = Softmax("two", np.array([0, 1]), ())
UNITS = {
    "add-remove": Unit.add_remove(),
    "replace-one": Unit.replace_one(),
    "person": Unit.add_remove_person("id", max_rows=2),
    "replaced person": Unit.replace_person("id", max_rows=2),
}


def table_of(rows: np.ndarray) -> LocalTable:
    return LocalTable(SCHEMA, {name: rows[:, i].astype(np.uint8) for i, name in enumerate(SCHEMA.names)})


def random_rows(generator: np.random.Generator, n: int) -> np.ndarray:
    return np.stack([generator.integers(0, size, n) for size in (11, 3, 2, 4)], axis=1)


def curator_of(rows: np.ndarray, *, budget: PureDP | ZCDP | None = None, seed: int = 1) -> Curator:
    budget = budget or PureDP(1e9)
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    return Curator(table_of(rows), unit=unit, ledger=ledger, randomness=SeededRandomness(seed))


# ---------------------------------------------------------------------- the proof, piece by piece


def gradients(model: Softmax, rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and second derivatives of the loss of some rows, from the definition."""
    gradient = np.zeros(weights.size)
    curvature = np.zeros((weights.size, weights.size))
    target = SCHEMA.names.index(model.target)
    for row in rows:
        y = int(model.classes[row[target]])
        if y < 0:
            continue
        x = np.concatenate(
            [[1.0], *(table[row[SCHEMA.names.index(name)]] for name, table in model.predictors)]
        )
        p = probabilities((x @ weights)[None])[0][1:]
        gradient += np.outer(x, p - (np.arange(1, len(p) + 1) == y)).ravel()
        curvature += np.kron(np.outer(x, x), np.diag(p) - np.outer(p, p))
    return gradient, curvature


def neighbours(unit: Unit, generator: np.random.Generator, number: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Shared rows, the rows that one table has besides, and those that the other has."""
    for _ in range(number):
        shared = random_rows(generator, int(generator.choice([0, 1, 2, 20])))
        one = random_rows(generator, unit.max_rows)
        other = random_rows(generator, unit.max_rows if unit.relation == "replace-one" else 0)
        yield shared, one, other


@pytest.mark.parametrize("model", [BINARY, TERNARY], ids=["two classes", "three classes"])
@pytest.mark.parametrize("unit", UNITS)
def test_gradients_and_determinants_stay_within_the_claims(unit: str, model: Softmax) -> None:
    generator = np.random.default_rng(3)
    plan = objective_for(model, UNITS[unit], 1.0)
    worst = np.zeros(2)
    for shared, one, other in neighbours(UNITS[unit], generator, 150):
        weights = generator.normal(0, generator.choice([0.0, 1.0, 10.0]), (model.width, model.number - 1))
        first, second = (gradients(model, rows, weights) for rows in (one, other))
        moved = float(np.abs(first[0] - second[0]).sum())
        assert moved <= UNITS[unit].histogram_l1 * model.gradient_l1
        ridge = gradients(model, shared, weights)[1] + plan.ridge * np.eye(model.parameters)
        ratio = np.linalg.slogdet(ridge + first[1])[1] - np.linalg.slogdet(ridge + second[1])[1]
        assert abs(ratio) <= plan.parts[1]
        worst = np.maximum(
            worst, [moved / (UNITS[unit].histogram_l1 * model.gradient_l1), ratio / plan.parts[1]]
        )
    assert (worst > 0.25).all()  # claims a quarter as large would have been refuted


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_density_ratio_of_the_ideal_minimum(relation: str, epsilon: float) -> None:
    """One coefficient, no predictors: the density of the minimum is known in closed form for every table.

    ``n`` rows of which ``m`` have class 1: ``b(w) = m - n p(w) - ridge w`` and the minimum has density
    ``h(b(w)) (n p (1 - p) + ridge)``, where ``h`` is the density of the step function behind the discrete Laplace noise. The
    log ratio between neighbours must never exceed what was paid for it, and comes close to it.
    """
    unit = UNITS[relation]
    plan = objective_for(CONSTANT, unit, epsilon)
    w = np.concatenate([np.linspace(-60, 60, 4_001), np.linspace(-3, 3, 2_001)])
    p = 1 / (1 + np.exp(-w))

    def log_density(n: int, m: int) -> np.ndarray:
        steps = np.rint((m - n * p - plan.ridge * w) / plan.step)
        return np.asarray(-np.abs(steps) / plan.noise.scale + np.log(n * p * (1 - p) + plan.ridge))

    worst = 0.0
    for n in (0, 1, 2, 5, 50):
        for m in range(0, n + 1, max(1, n // 5)):
            if relation == "add-remove":
                pairs = [((n, m), (n + 1, m)), ((n, m), (n + 1, m + 1))]
            else:
                pairs = [((n, m), (n, m + 1))] if m < n else []
            for one, two in pairs:
                worst = max(worst, float(np.abs(log_density(*one) - log_density(*two)).max()))
    assert worst <= plan.parts[0] + plan.parts[1]
    # replacing a record moves this one gradient by 1; the claim is 2, for predictors that differ as well
    assert worst > (0.75 if relation == "add-remove" else 0.35) * (plan.parts[0] + plan.parts[1])
    assert sum(plan.parts) <= epsilon


def test_half_the_noise_would_be_caught() -> None:
    """The same comparison refuses a mechanism with half the noise it needs."""
    plan = objective_for(CONSTANT, Unit.add_remove(), 1.0)
    w = np.linspace(-60, 60, 4_001)
    p = 1 / (1 + np.exp(-w))
    logs = [
        -np.abs(m - n * p - plan.ridge * w) / (plan.noise.scale * plan.step / 2)
        + np.log(n * p * (1 - p) + plan.ridge)
        for n, m in ((5, 0), (6, 1))
    ]
    assert float(np.abs(logs[0] - logs[1]).max()) > plan.epsilon


# ---------------------------------------------------------------------- the minimum


@pytest.mark.parametrize("model", [BINARY, TERNARY, CONSTANT], ids=["two", "three", "constant"])
@pytest.mark.parametrize("n", [0, 1, 7, 3_000])
def test_the_computed_minimum_is_as_exact_as_the_proof_asks(model: Softmax, n: int) -> None:
    generator = np.random.default_rng(n)
    rows = random_rows(generator, n)
    linear = generator.normal(0, 30, (model.width, model.number - 1))
    records = weighted_records(table_of(rows), model.target, model.classes, model.predictors)
    found = minimise(records, linear, ridge=2.0, tolerance=1e-6)
    exact = gradients(model, rows, found)[0].reshape(linear.shape) + 2.0 * found + linear
    assert float(np.linalg.norm(exact)) < 1.5e-6


def test_chunks_and_distinct_records_give_the_same_minimum() -> None:
    rows = random_rows(np.random.default_rng(0), 2_000)
    records = weighted_records(table_of(rows), "three", TERNARY.classes, TERNARY.predictors)
    assert sum(len(item.classes) for item in records) < 2_000  # distinct ones with counts
    kept = rows[rows[:, 3] < 3]
    each = [Weighted((kept[:, 0], kept[:, 1]), (NUMBERS, INDICATORS), kept[:, 3], np.ones(len(kept)))]
    linear = np.zeros((4, 2))
    one, two = (minimise(item, linear, ridge=1.0, tolerance=1e-8) for item in (records, each))
    np.testing.assert_allclose(one, two, atol=1e-8)


def test_steps_from_some_of_the_records_reach_the_same_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(np.random.default_rng(0), 5_000)
    each = [Weighted((rows[:, 0], rows[:, 1]), (NUMBERS, INDICATORS), rows[:, 2], np.ones(len(rows)))]
    linear = np.full((4, 1), 20.0)
    exact = minimise(each, linear, ridge=1.0, tolerance=1e-8)
    monkeypatch.setattr(_softmax, "_CURVED", 100)
    np.testing.assert_allclose(minimise(each, linear, ridge=1.0, tolerance=1e-8), exact, atol=1e-7)


def test_a_large_budget_gives_the_regularised_estimate() -> None:
    generator = np.random.default_rng(5)
    x = generator.integers(0, 11, 4_000)
    y = generator.random(4_000) < 1 / (1 + np.exp(-(0.5 + 2 * np.linspace(-1, 1, 11)[x])))
    rows = np.stack([x, generator.integers(0, 3, 4_000), y, np.zeros(4_000, dtype=int)], axis=1)
    found = fit_softmax(curator_of(rows), BINARY, epsilon=1e5, purpose="p").values
    design = np.concatenate([np.ones((4_000, 1)), NUMBERS[x], INDICATORS[rows[:, 1]]], axis=1)

    def loss(w: np.ndarray) -> float:
        z = design @ w
        return float(np.logaddexp(0, z).sum() - z[y].sum())

    expected = reference(loss, np.zeros(4)).x
    np.testing.assert_allclose(found[:, 0], expected, atol=0.02)
    assert abs(found[1, 0] - 2) < 0.3


def test_several_rows_far_apart_converge() -> None:
    """Separable classes and a huge linear term: Newton steps must be shortened."""
    rows = np.array([[0, 0, 0, 0], [10, 2, 1, 2]] * 500)
    for factor in (0.0, 1e6):
        records = weighted_records(table_of(rows), "two", BINARY.classes, BINARY.predictors)
        linear = np.full((4, 1), factor)
        found = minimise(records, linear, ridge=1e-2, tolerance=1e-6)
        exact = gradients(BINARY, rows, found)[0].reshape(4, 1) + 1e-2 * found + linear
        assert float(np.linalg.norm(exact)) < 1e-4


# ---------------------------------------------------------------------- charging


def test_charged_as_a_pure_mechanism_first() -> None:
    curator = curator_of(random_rows(np.random.default_rng(0), 50), budget=PureDP(1.0))
    released = fit_softmax(curator, TERNARY, epsilon=0.75, purpose="regression of three")
    assert released.values.shape == (4, 2)
    assert released.noise == "mechanism"
    assert curator.ledger.spent == pytest.approx(0.75)
    with pytest.raises(BudgetExceeded):
        fit_softmax(curator, TERNARY, epsilon=0.75, purpose="again")


def test_published_numbers_lie_on_the_grid() -> None:
    curator = curator_of(random_rows(np.random.default_rng(0), 50))
    plan = objective_for(BINARY, Unit.add_remove(), 1.0)
    released = fit_softmax(curator, BINARY, epsilon=1.0, purpose="p").values
    np.testing.assert_array_equal(released / plan.grid, np.rint(released / plan.grid))
    assert plan.grid * plan.blur.scale < 0.001  # the second noise is small beside the first


def test_the_parts_add_up_and_follow_the_unit() -> None:
    plans = {name: objective_for(TERNARY, unit, 0.5) for name, unit in UNITS.items()}
    for plan in plans.values():
        assert sum(plan.parts) <= 0.5
        assert plan.parts[1] <= 0.2 * 0.5 * (1 + 1e-9)
    single, double = plans["add-remove"], plans["replace-one"]
    assert double.noise.scale * double.step == pytest.approx(2 * single.noise.scale * single.step, rel=1e-3)
    assert double.ridge == single.ridge
    person = plans["person"]
    assert person.noise.scale * person.step == pytest.approx(2 * single.noise.scale * single.step, rel=1e-3)
    strong = objective_for(TERNARY, Unit.add_remove(), 0.5, ridge=1_000.0)
    assert strong.ridge == 1_000.0
    assert strong.parts[1] < single.parts[1]
    rank, trace = 2, TERNARY.curvature
    assert strong.parts[1] == pytest.approx(rank * math.log1p(trace / 1_000 / rank), rel=1e-6)


def test_refusals() -> None:
    with pytest.raises(BudgetError, match="two classes"):
        Softmax("two", np.array([0, 0]), ())
    with pytest.raises(BudgetError, match="finite"):
        Softmax("two", np.array([0, 1]), (("x", np.full((11, 1), np.nan)),))
    with pytest.raises(BudgetError, match="parameters"):
        Softmax("two", np.arange(60), (("x", np.ones((11, 50))),))
    with pytest.raises(BudgetError, match="positive"):
        objective_for(BINARY, Unit.add_remove(), 0.0)
    with pytest.raises(BudgetError, match="too small"):
        objective_for(BINARY, Unit.add_remove(), 1e-9)
    curator = curator_of(random_rows(np.random.default_rng(0), 5))
    with pytest.raises(BudgetError, match="codes of 'x'"):
        fit_softmax(
            curator, Softmax("two", np.array([0, 1]), (("x", np.ones((3, 1))),)), epsilon=1.0, purpose="p"
        )
    assert curator.ledger.spent == 0


@pytest.mark.parametrize("case", range(4))
def test_extreme_noise_does_not_keep_the_solver_from_its_minimum(case: int) -> None:
    """Probabilities underflow far from the minimum; a loss cut off there made some tables fail and others not.

    Catches: an exception that depends on the records, which nothing was charged for.
    """
    generator = np.random.default_rng(case)
    codes = (generator.integers(0, 5, 200), generator.integers(0, 4, 200))
    classes = (codes[0] > 2).astype(np.int64) + (codes[1] == 0)
    tables = (generator.uniform(-1, 1, (5, 3)), np.eye(4)[:, 1:])
    records = [Weighted(codes, tables, classes, np.full(200, 5.0))]
    linear = generator.normal(size=(7, 2)) * 1_000
    found = minimise(records, linear, ridge=1.0, tolerance=1e-5)
    x = records[0].design(slice(0, 200))
    residual = probabilities(x @ found)[:, 1:] - (classes[:, None] == np.arange(1, 3))
    assert np.linalg.norm(found + linear + 5.0 * x.T @ residual) <= 1.1e-5
