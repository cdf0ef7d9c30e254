"""Rounding errors of exact statistics stay within what the proofs set aside for them.

The nasty cases are worst cases: logits that cancel, counts of 2^28 equal records whose errors do not cancel, smoothers so close to
doing nothing that their sensitivity is smaller than rounding errors of the counts.
"""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.mechanisms.histograms.transforms.look import smoothing_error
from understudy.mechanisms.parametric.look import Bounds, Group, bounds_of
from understudy.mechanisms.parametric.regression.look import (
    Softmax,
    Weighted,
    _derivatives,
    minimise,
    objective_for,
    rounding_of_logits,
    twice_precise,
)
from understudy.privacy import Ledger, PureDP, Unit
from understudy.schema import Schema

getcontext().prec = 60
MANY = float(1 << 27)
NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-6)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20), st.data())
def test_products_with_twice_the_digits(terms: list[tuple[float, float]], data: st.DataObject) -> None:
    x = np.array([[a for a, _ in terms]])
    w = np.array([[b] for _, b in terms])
    exact = sum(Fraction(a) * Fraction(b) for a, b in terms)
    sizes = sum(abs(Fraction(a) * Fraction(b)) for a, b in terms)
    high, low = twice_precise(x, w)
    error = abs(Fraction(float(high[0, 0])) + Fraction(float(low[0, 0])) - exact)
    assert error <= (len(terms) + 2) ** 2 * sizes / Fraction(2) ** 105


def exact_gradient(
    records: list[Weighted], weights: np.ndarray, linear: np.ndarray, ridge: float
) -> np.ndarray:
    """The gradient of a regression of two classes in sixty decimal digits."""
    total = [
        Decimal(ridge) * Decimal(float(w)) + Decimal(float(b))
        for w, b in zip(weights[:, 0], linear[:, 0], strict=True)
    ]
    for item in records:
        for x, y, count in zip(item.design(slice(None)), item.classes, item.counts, strict=True):
            logit = sum(
                (Decimal(float(a)) * Decimal(float(b)) for a, b in zip(x, weights[:, 0], strict=True)),
                Decimal(0),
            )
            p = 1 / (1 + (-logit).exp())
            for place, a in enumerate(x):
                total[place] += Decimal(float(count)) * Decimal(float(a)) * (p - int(y))
    return np.array([float(x) for x in total])


def _records(numbers: list[list[float]], classes: list[int], counts: list[float]) -> list[Weighted]:
    table = np.array(numbers)
    codes = np.arange(len(numbers))
    return [Weighted((codes,), (table,), np.array(classes), np.array(counts))]


def test_gradients_of_logits_that_cancel() -> None:
    """Plain products are wrong by more than the whole tolerance here; those with twice the digits are not."""
    generator = np.random.default_rng(4)
    numbers = generator.uniform(-1, 1, size=(2, 12)).round(3).tolist()
    records = _records(numbers, [0, 1], [MANY, MANY])
    weights = np.concatenate([[0.0], generator.uniform(-1, 1, size=12) * 2.0**20])[:, None]
    weights[0] = -float(np.array(numbers[0]) @ weights[1:, 0])  # the first logit is nearly zero
    linear, ridge = np.zeros((13, 1)), 0.01
    model = Softmax("y", np.array([0, 1]), (("x", np.array(numbers)),))
    gamma = 2.0**-18 * model.gradient_l1
    true = exact_gradient(records, weights, linear, ridge)
    plain = _derivatives(records, weights, linear, ridge, 1)[1][:, 0]
    careful = _derivatives(records, weights, linear, ridge, 1, careful=True)[1][:, 0]
    assert np.linalg.norm(plain - true) > gamma
    # the quadratic term is far from its size at a minimum; its own rounding is left out
    quadratic = ridge * float(np.abs(weights).max()) * 2.0**-50
    assert np.linalg.norm(careful - true) <= 0.75 * gamma + quadratic
    assert rounding_of_logits(records, weights) >= np.linalg.norm(plain - true)


def test_a_minimum_of_many_records_is_as_good_as_the_proof_says() -> None:
    numbers = [[0.1, 1.0], [0.3, -0.7], [0.7, 0.2]]
    records = _records(numbers + numbers, [0, 0, 0, 1, 1, 1], [MANY / 3, 5.0, MANY / 7, 3.0, MANY, MANY / 9])
    model = Softmax("y", np.array([0, 1]), (("x", np.array(numbers)),))
    plan = objective_for(model, Unit.add_remove(), 1.0)
    linear = np.array([[3.0], [-1.0], [0.5]])
    found = minimise(records, linear, ridge=plan.ridge, tolerance=plan.tolerance / 4)
    assert rounding_of_logits(records, found) > plan.tolerance / 64  # so the careful way was taken
    true = exact_gradient(records, found, linear, plan.ridge)
    assert np.linalg.norm(true) <= plan.tolerance


@pytest.mark.parametrize("width", [3, 400, 1_999])
def test_norms_of_predictors_are_never_understated(width: int) -> None:
    generator = np.random.default_rng(width)
    table = generator.normal(size=(4, width)) * 10.0 ** generator.integers(-8, 8, size=(4, width))
    model = Softmax("y", np.array([0, 1]), (("x", table),))
    rows = [[Fraction(float(value)) for value in row] for row in table]
    assert Fraction(model.gradient_l1) >= max(1 + sum(map(abs, row)) for row in rows)
    assert Fraction(model.curvature) >= max(1 + sum(x * x for x in row) for row in rows) / 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 1 << 15), min_size=1, max_size=40), st.booleans())
def test_bounds_of_moments_are_never_understated(values: list[int], replaced: bool) -> None:
    """Each group is one square; the exact change is a sum of whole numbers."""
    groups = [Group(np.array([[v]]), np.array([[v]]), ((0, 0),), same=True) for v in values]
    unit = Unit.replace_one() if replaced else Unit.add_remove()
    found: Bounds = bounds_of(groups, unit, cells=1, rows_fixed=False)
    assert Fraction(found.l1) >= sum(v * v for v in values)
    assert Fraction(found.l2) ** 2 >= sum(v**4 for v in values)


@pytest.mark.parametrize("closeness", [0.0, 1e-9, 1e-3, 0.4])
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=["add", "replace"])
def test_smoothing_errors_move_by_no_more_than_stated(closeness: float, unit: Unit) -> None:
    """A smoother that does nearly nothing has a tiny sensitivity, and counts of millions have rounding errors."""
    size, generator = 40, np.random.default_rng(3)
    schema = Schema.parse(
        f"{{columns: [{{name: a, kind: real, minimum: 0, maximum: {size}, bins: {size}}}]}}"
    )
    smoother = (1 - closeness) * np.eye(size) + closeness / 3 * (
        np.eye(size) + np.eye(size, k=1) + np.eye(size, k=-1)
    )
    rows = np.repeat(np.arange(size), generator.integers(1, 3_000, size))
    tables = [rows, np.append(rows, 7) if unit.relation == "add-remove" else np.append(rows[:-1], 7)]
    found = []
    for codes in tables:
        with Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t") as book:
            box = Curator(LocalTable(schema, {"a": codes}), unit=unit, ledger=book)
            found.append(smoothing_error(box.counts(("a",)), [smoother]))
    moved = abs(Fraction(found[0]._exact) - Fraction(found[1]._exact))
    assert moved <= Fraction(found[0].sensitivity)
    wanted = float(
        np.abs(np.bincount(rows, minlength=size) - smoother @ np.bincount(rows, minlength=size)).sum()
    )
    assert math.isclose(found[0]._exact, wanted, rel_tol=1e-4, abs_tol=len(rows) * 2.0**-22)
