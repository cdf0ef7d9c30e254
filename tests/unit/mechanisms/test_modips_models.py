"""The models of modips: what each asks for, what it refuses, and that it finds what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import BudgetError, DomainTooLarge, WorkloadError
from understudy.mechanisms import Model, create, load_model
from understudy.mechanisms.parametric.modips.conjugate import GammaPoisson
from understudy.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

MIXED = Schema.parse(
    """
columns:
  - {name: height, kind: real, minimum: 140, maximum: 210}
  - {name: weight, kind: real, minimum: 30, maximum: 150, missing: true}
  - {name: male, kind: boolean}
  - {name: colour, kind: categorical, values: [red, green, blue], missing: true}
  - {name: visits, kind: integer, minimum: 0, maximum: 7}
constraints:
  - not (male == true and colour == "blue")
"""
)
NUMBERS = Schema.parse(
    """
columns:
  - {name: height, kind: real, minimum: 140, maximum: 210}
  - {name: born, kind: date, minimum: 1940-01-01, maximum: 1999-12-31, resolution: month}
  - {name: weight, kind: real, minimum: 30, maximum: 150, missing: true}
"""
)
BINARY = Schema.parse("columns: [{name: smokes, kind: boolean}]")
UNITS = {
    "add": Unit.add_remove(),
    "replace": Unit.replace_one(),
    "person": Unit.add_remove_person("person", max_rows=2),
    "replaced person": Unit.replace_person("person", max_rows=2),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "auto": {},
    "multinomial": {"model": "multinomial"},
    "loglinear": {"model": "loglinear", "generators": [["male", "colour"], ["colour", "visits"]]},
    "glom": {"model": "glom"},
    "naive glom": {"model": "glom", "posterior": "naive"},
    "mean glom": {"model": "glom", "parameters": "mean", "bounds": "redraw"},
    "slomag": {"model": "slomag", "order": ["visits", "male"]},
    "average": {"model": "average", "models": ["glom", "multinomial"], "weights": [3, 1]},
    "conjugate": {"model": "conjugate", "conjugate": [GammaPoisson("visits")]},
}


def _frame(n: int, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    male = generator.random(n) < 0.4
    height = np.clip(generator.normal(165 + 12 * male, 6, n), 140, 210)
    weight = np.clip(0.9 * (height - 100) + generator.normal(8, 7, n), 30, 150)
    weight[generator.random(n) < 0.1] = np.nan
    colour = np.where(generator.random(n) < 0.6, "red", np.where(male, "green", "blue")).astype(object)
    colour[generator.random(n) < 0.05] = None
    born = pd.to_datetime("1940-01-01") + pd.to_timedelta(generator.integers(0, 21_000, n), unit="D")
    return pd.DataFrame(
        {
            "height": height,
            "weight": weight,
            "male": male,
            "colour": colour,
            "visits": np.minimum(generator.poisson(2.0, n), 7),
            "born": born,
            "smokes": generator.random(n) < 0.3,
            "person": np.arange(n) // 2,
        }
    )


def _fit(
    schema: Schema,
    options: dict[str, Any],
    budget: Budget,
    *,
    n: int = 1_500,
    unit: str = "add",
    seed: int = 1,
) -> tuple[Model, Curator]:
    who = UNITS[unit]
    table = read_table(_frame(n), schema, id_column=who.id_column)
    book = Ledger.in_memory(budget=budget, unit=who, table="t")
    curator = Curator(table, unit=who, ledger=book, randomness=SeededRandomness(seed))
    return create("modips", **options).fit(curator, budget), curator


@pytest.mark.parametrize("name", OPTIONS)
def test_every_model_fits_draws_and_survives_a_file(name: str, tmp_path: Path) -> None:
    budget = ZCDP(0.5)
    model, curator = _fit(MIXED, OPTIONS[name], budget)
    assert 0.45 < curator.ledger.spent <= 0.5
    rows = model.sample(300, seed=2)
    codes = MIXED.encode_frame(rows)
    assert all(rule.holds_codes(codes).all() for rule in MIXED.constraints)
    model.save(tmp_path / "m.zip")
    loaded = load_model(tmp_path / "m.zip")
    pd.testing.assert_frame_equal(rows, loaded.sample(300, seed=2))
    drawn = loaded.distribution.posterior(np.random.default_rng(0))  # type: ignore[attr-defined]
    assert drawn.sample_codes(10, np.random.default_rng(0)).shape == (10, 5)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("n", [0, 1, 40])
@pytest.mark.parametrize("name", ["glom", "slomag"])
def test_small_tables_of_every_unit(name: str, n: int, unit: str) -> None:
    budget: Budget = PureDP(0.3) if n else ApproxDP(0.3, 1e-6)
    model, curator = _fit(MIXED, OPTIONS[name], budget, n=n, unit=unit)
    assert len(model.sample(20, seed=0)) == 20
    curator.ledger.verify()


@pytest.mark.parametrize("name", ["auto", "glom", "slomag", "mean glom"])
def test_a_generous_budget_finds_the_structure(name: str) -> None:
    """4,000 rows at epsilon 100: a few standard errors of the sampling."""
    model, _ = _fit(MIXED, OPTIONS[name], PureDP(100.0), n=4_000)
    real, made = _frame(4_000), model.sample(4_000, seed=3)
    assert made.height.mean() == pytest.approx(real.height.mean(), abs=1.2)
    assert made.weight.std() == pytest.approx(real.weight.std(), rel=0.1)
    assert made.weight.isna().mean() == pytest.approx(0.1, abs=0.03)
    gap = [frame.height[frame.male.astype(bool)].mean() - frame.height[~frame.male.astype(bool)].mean() for frame in (real, made)]  # fmt: skip
    assert gap[1] == pytest.approx(gap[0], abs=1.5)
    assert made[["height", "weight"]].corr().iloc[0, 1] == pytest.approx(
        real[["height", "weight"]].corr().iloc[0, 1], abs=0.06
    )
    assert made.visits.mean() == pytest.approx(2.0, abs=0.3)


def test_auto_takes_the_model_that_fits_the_columns() -> None:
    plans = {
        "normal": (NUMBERS, {}),
        "glom": (MIXED, {}),
        "slomag": (MIXED, {"max_cells": 10}),
        "saturated": (BINARY, {}),
    }
    for name, (schema, options) in plans.items():
        plan = create("modips", **options).plan(schema, unit=Unit.add_remove(), budget=PureDP(1.0))
        assert f"Model {name};" in plan.notes[0]
    wide = Schema.parse(
        "columns: ["
        + ", ".join(f"{{name: c{i}, kind: integer, minimum: 0, maximum: 9}}" for i in range(9))
        + "]"
    )
    plan = create("modips").plan(wide, unit=Unit.add_remove(), budget=PureDP(1.0))
    assert "Model multinomial;" in plan.notes[0]


def test_the_normal_model_knows_dates_and_missing_numbers() -> None:
    model, _ = _fit(NUMBERS, {"model": "normal"}, PureDP(200.0), n=3_000)
    real, made = _frame(3_000), model.sample(3_000, seed=4)
    assert made.height.std() == pytest.approx(real.height.std(), rel=0.08)
    assert abs((made.born.mean() - real.born.mean()).days) < 500
    assert made.weight.isna().mean() == pytest.approx(0.1, abs=0.03)


def test_of_two_cells_with_a_known_sum_one_is_measured() -> None:
    """A replaced record moves the count by one, so that Laplace noise of scale 1 / epsilon is enough."""
    model, curator = _fit(BINARY, {}, PureDP(0.5), unit="replace")
    (statistic,) = model.statistics
    assert statistic.scale / 4**15 == pytest.approx(2.0, rel=1e-9)
    assert not model.measurements
    assert curator.ledger.spent == pytest.approx(0.5)
    private, _ = _fit(BINARY, {}, PureDP(0.5), unit="add")
    assert private.measurements[0].scale == pytest.approx(2.0)


@pytest.mark.parametrize("unit", ["add", "replace"])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_plan_is_what_is_paid(name: str, unit: str) -> None:
    budget = PureDP(1.0)
    plan = create("modips", **OPTIONS[name]).plan(MIXED, unit=UNITS[unit], budget=budget)
    model, _ = _fit(MIXED, OPTIONS[name], budget, n=100, unit=unit)
    planned = sorted(item.noise.scale for item in plan.measurements)
    paid = [item.scale for item in model.measurements]
    for item in model.statistics:
        paid.append(item.scale if "counts" in item.name else item.scale / 4**15)
    assert planned == pytest.approx(sorted(paid))
    assert plan.model_cells > 0


def test_noise_grows_with_the_range_and_not_with_the_cells() -> None:
    """All sums of a record lie in one cell, so that their sensitivity is the number of columns."""
    plan = create("modips", model="glom").plan(MIXED, unit=Unit.add_remove(), budget=PureDP(3.0))
    sums = next(item for item in plan.measurements if item.cells == 2 * 2 * 4 * 8 * 2)
    assert sums.noise.scale == pytest.approx(2.0, rel=1e-6)  # two columns at a third of epsilon 3


def test_fits_are_functions_of_the_release() -> None:
    one, _ = _fit(MIXED, {"model": "glom"}, PureDP(1.0), n=200)
    two, _ = _fit(MIXED, {"model": "glom"}, PureDP(1.0), n=200)
    pd.testing.assert_frame_equal(one.sample(50, seed=0), two.sample(50, seed=0))


@pytest.mark.parametrize(
    ("schema", "options", "error", "complaint"),
    [
        (MIXED, {"model": "normal"}, WorkloadError, "columns of numbers only; male, colour are not"),
        (MIXED, {"model": "saturated"}, DomainTooLarge, "at most 20,000 are allowed"),
        (MIXED, {"model": "loglinear"}, WorkloadError, "needs generators"),
        (
            MIXED,
            {"model": "loglinear", "generators": [["height", "weight", "visits"]]},
            DomainTooLarge,
            "Use smaller generators",
        ),
        (MIXED, {"model": "slomag", "order": ["height"]}, WorkloadError, "name categories only"),
        (MIXED, {"continuous": ["male"]}, WorkloadError, "cannot be taken as numbers"),
        (MIXED, {"model": "conjugate"}, WorkloadError, "disjoint columns"),
        (
            MIXED,
            {"model": "conjugate", "conjugate": [GammaPoisson("height")]},
            WorkloadError,
            "integer column from 0",
        ),
    ],
)
def test_tables_that_cannot_be_served_cost_nothing(schema, options, error, complaint) -> None:  # type: ignore[no-untyped-def]
    budget = PureDP(1.0)
    book = Ledger.in_memory(budget=budget, unit=Unit.add_remove(), table="t")
    curator = Curator(read_table(_frame(20), schema), unit=Unit.add_remove(), ledger=book)
    with pytest.raises(error, match=complaint):
        create("modips", **options).fit(curator, budget)
    assert book.spent == 0


@pytest.mark.parametrize(
    "options",
    [
        {"model": "gaussian"},
        {"posterior": "exact"},
        {"parameters": "mode"},
        {"bounds": "wrap"},
        {"alpha": 0.0},
        {"prior_variance": -1.0},
        {"prior_weight": -1.0},
        {"deviation": float("nan")},
        {"few": 1},
        {"continuous": "height"},
        {"model": "average"},
        {"model": "average", "models": ["glom"], "weights": [1, 2]},
        {"model": "average", "models": ["glom"], "weights": [0]},
        {"model": "average", "models": ["average"]},
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(BudgetError):
        create("modips", **options)
