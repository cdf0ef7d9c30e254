"""Sequential regression: how columns are modelled, coefficients recovered, missing entries, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import BudgetError, DomainTooLarge, ModelFileError, WorkloadError
from understudy.mechanisms import Model
from understudy.mechanisms.parametric.regression.distribution import (
    ClassStep,
    LineStep,
    SequentialModel,
    TableStep,
)
from understudy.mechanisms.parametric.regression.sequential import (
    SequentialRegression,
    classes_from,
    line_from,
)
from understudy.privacy import ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: x, kind: real, minimum: -4, maximum: 4}
  - {name: y, kind: real, minimum: -5, maximum: 5}
  - {name: sick, kind: boolean}
  - {name: dose, kind: real, minimum: 0, maximum: 40, missing: true}
  - {name: grade, kind: ordinal, values: [low, middle, high]}
"""
)
SLOPE, LOGIT = 0.8, 1.5


def frame(n: int, seed: int = 0) -> pd.DataFrame:
    """Linear, logistic, linear with entries missing where sick, and three ordered classes."""
    generator = np.random.default_rng(seed)
    x = np.clip(generator.normal(size=n), -4, 4)
    y = np.clip(SLOPE * x + generator.normal(0, 0.6, n), -5, 5)
    sick = generator.random(n) < 1 / (1 + np.exp(-(LOGIT * x - 0.5)))
    dose = np.clip(20 + 4 * y + 6 * sick + generator.normal(0, 2, n), 0, 40)
    dose[generator.random(n) < np.where(sick, 0.4, 0.1)] = np.nan
    grade = np.digitize(x + y + generator.normal(0, 1, n), [-1, 1])
    names = np.array(["low", "middle", "high"])
    return pd.DataFrame({"x": x, "y": y, "sick": sick, "dose": dose, "grade": names[grade]})


def fit(data: pd.DataFrame, budget: Budget, schema: Schema = SCHEMA, **options: object) -> Model:
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(read_table(data, schema), unit=unit, ledger=ledger, randomness=SeededRandomness(2))
    return SequentialRegression(**options).fit(curator, budget)  # type: ignore[arg-type]


def slopes(data: pd.DataFrame) -> np.ndarray:
    """Slope of y on x, of dose on y and sick (where there), difference of logits of sick between x = 1 and -1."""
    line = np.polyfit(data["x"], data["y"], 1)[0]
    there = data.dropna()
    design = np.stack([np.ones(len(there)), there["y"], there["sick"]], axis=1).astype(float)
    dose = np.linalg.lstsq(design, there["dose"], rcond=None)[0][1:]
    high, low = (data.loc[(data["x"] - at).abs() < 0.5, "sick"].mean() for at in (1, -1))
    return np.array([line, *dose, np.log(high / (1 - high)) - np.log(low / (1 - low))])


@pytest.mark.parametrize("scale", ["ranks", "values"])
@pytest.mark.parametrize("classifier", ["moments", "objective"])
def test_a_large_budget_recovers_the_regressions(classifier: str, scale: str) -> None:
    data = frame(8_000)
    rows = fit(data, PureDP(5_000.0), classifier=classifier, scale=scale).sample(20_000, seed=1)
    real, made = slopes(data), slopes(rows)
    np.testing.assert_allclose(made, real, rtol=0.12, atol=0.1)
    missing = [
        table.groupby("sick")["dose"].apply(lambda x: x.isna().mean()).to_numpy() for table in (data, rows)
    ]
    np.testing.assert_allclose(missing[1], missing[0], atol=0.05)
    shares = [table["grade"].value_counts(normalize=True).sort_index().to_numpy() for table in (data, rows)]
    np.testing.assert_allclose(shares[1], shares[0], atol=0.03)


def test_missing_entries_do_not_bias_a_regression() -> None:
    """Missingness depends on a predictor: fitting to all rows as if a missing dose were the middle would fail."""
    data = frame(8_000)
    rows = fit(data, PureDP(5_000.0)).sample(20_000, seed=1)
    by_group = [table.groupby("sick")["dose"].mean().to_numpy() for table in (data, rows)]
    np.testing.assert_allclose(by_group[1], by_group[0], atol=0.5)


def test_roles_follow_the_schema() -> None:
    schema = Schema.parse(
        """
columns:
  - {{name: first, kind: categorical, values: [a, b]}}
  - {{name: number, kind: integer, minimum: 0, maximum: 99, missing: true}}
  - {{name: few, kind: integer, minimum: 0, maximum: 3}}
  - {{name: constant, kind: categorical, values: [only]}}
  - {{name: many, kind: categorical, values: [{}]}}
  - {{name: last, kind: boolean}}
""".format(", ".join(f"v{i}" for i in range(30)))
    )
    layout = SequentialRegression()._layout(schema)
    assert [layout.role(name) for name in schema.names] == [
        "histogram", "line", "classes", "histogram", "histogram", "classes",
    ]  # fmt: skip
    assert [name for name, _ in layout.given("many")] == ["number", "few"]
    assert [layout.features[name].shape[1] for name in schema.names] == [1, 2, 3, 0, 0, 1]
    assert [model.target for model in layout.regressions] == ["number", "few", "last"]
    assert SequentialRegression(histograms=("few",))._layout(schema).role("few") == "histogram"
    plan = SequentialRegression().plan(schema, unit=Unit.add_remove(), budget=PureDP(1.0))
    assert any("many" in note for note in plan.notes)


def test_a_column_with_many_values_keeps_its_relation_to_the_groups_before_it() -> None:
    schema = Schema.parse(
        "columns: [{{name: a, kind: boolean}}, {{name: many, kind: categorical, values: [{}]}}]".format(
            ", ".join(f"v{i}" for i in range(20))
        )
    )
    generator = np.random.default_rng(0)
    a = generator.random(5_000) < 0.3
    many = np.where(a, generator.integers(0, 10, 5_000), generator.integers(10, 20, 5_000))
    data = pd.DataFrame({"a": a, "many": [f"v{i}" for i in many]})
    rows = fit(data, PureDP(5.0), schema).sample(2_000, seed=0)
    low = rows["many"].str[1:].astype(int) < 10
    assert (low == rows["a"]).mean() > 0.97


def test_the_order_is_public_and_may_be_chosen() -> None:
    order = ("grade", "dose", "sick", "y", "x")
    model = fit(frame(2_000), ApproxDP(5.0, 1e-6), order=order)
    assert isinstance(model.distribution, SequentialModel)
    assert tuple(step.column for step in model.distribution.steps) == order
    assert abs(np.corrcoef(*model.sample(4_000, seed=1)[["x", "y"]].to_numpy().T)[0, 1] - 0.8) < 0.3


def test_refusals_and_options() -> None:
    for options in (
        {"classifier": "forest"},
        {"scale": "log"},
        {"order": "x"},
        {"histograms": "x"},
        {"max_classes": 1},
        {"max_cells": 0},
    ):
        with pytest.raises(BudgetError):
            SequentialRegression(**options)  # type: ignore[arg-type]
    for options in ({"order": ("x",)}, {"histograms": ("nobody",)}):
        with pytest.raises(BudgetError):
            SequentialRegression(**options).plan(SCHEMA, unit=Unit.add_remove(), budget=PureDP(1.0))
    wide = Schema.parse(
        "columns: [{}]".format(
            ", ".join(f"{{name: c{i}, kind: integer, minimum: 0, maximum: 11}}" for i in range(60))
        )
    )
    with pytest.raises(DomainTooLarge, match="predictors"):
        SequentialRegression().plan(wide, unit=Unit.add_remove(), budget=PureDP(1.0))


# ---------------------------------------------------------------------- post-processing


def test_lines_from_exact_moments_are_least_squares() -> None:
    generator = np.random.default_rng(0)
    x = np.concatenate([np.ones((500, 1)), generator.uniform(-1, 1, (500, 3))], axis=1)
    y = x @ [0.1, 0.3, -0.2, 0.0] + generator.normal(0, 0.1, 500)
    line, deviation = line_from(x.T @ x, x.T @ y, float(y @ y), rows=500.0, noise=0.0, finest=1e-3)
    np.testing.assert_allclose(line, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-8)
    assert deviation == pytest.approx(0.1, rel=0.1)
    hidden, spread = line_from(-np.eye(4), np.ones(4), -5.0, rows=10.0, noise=100.0, finest=1e-3)
    assert np.abs(hidden).max() < 0.01  # all noise: nothing is claimed
    assert 0 < spread <= 1


def test_classes_from_moments_are_maximum_likelihood() -> None:
    """On the records themselves the moment equations are those of maximum likelihood."""
    generator = np.random.default_rng(1)
    x = np.concatenate([np.ones((6_000, 1)), generator.uniform(-1, 1, (6_000, 1))], axis=1)
    truth = np.array([[0.5, -0.5], [2.0, -1.0]])
    logits = np.concatenate([np.zeros((6_000, 1)), x @ truth], axis=1)
    y = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    moments = x.T @ (y[:, None] == [1, 2]) / 6_000
    np.testing.assert_allclose(classes_from(x, moments, ridge=0.0), truth, atol=0.25)
    impossible = classes_from(x, np.array([[1.3, 0.2], [0.9, 0.9]]), ridge=0.01)
    assert np.isfinite(impossible).all()


def test_the_distribution_checks_its_steps() -> None:
    domain = Domain(("a", "b", "c"), (2, 3, 4))
    features = {"a": np.eye(2)[:, 1:], "b": np.eye(3)[:, 1:], "c": np.zeros((4, 0))}
    steps = (
        TableStep("a", (), np.array([[0.25, 0.75]])),
        ClassStep("b", np.zeros((2, 2))),
        LineStep(
            "c", np.array([0.5, 0.0, 0.0, 0.0]), 0.2, np.array([-1.5, -0.5, 0.5, 1.5]), np.full((4, 1), -9.0)
        ),
    )
    model = SequentialModel(domain, 10.0, steps, features)
    meta, arrays = model.to_arrays()
    again = SequentialModel.from_arrays(domain, meta, arrays)
    np.testing.assert_array_equal(
        model.sample_codes(60, np.random.default_rng(1)), again.sample_codes(60, np.random.default_rng(1))
    )
    np.testing.assert_allclose(model.marginals([("a",)])[0], [2.5, 7.5], atol=0.01)
    with pytest.raises(ModelFileError):
        SequentialModel.from_arrays(domain, {**meta, "format": 0}, arrays)
    with pytest.raises(ModelFileError):
        SequentialModel.from_arrays(domain, meta, {})
    bad = {
        "table": (TableStep("a", (), np.ones((1, 3))), *steps[1:]),
        "later parent": (TableStep("a", (("b", np.arange(3)),), np.ones((3, 2))), *steps[1:]),
        "classes": (steps[0], ClassStep("b", np.zeros((3, 2))), steps[2]),
        "line": (*steps[:2], LineStep("c", np.zeros(4), 0.0, np.array([-1.5, -0.5, 0.5, 1.5]), None)),
        "incomplete": steps[:2],
    }
    for broken in bad.values():
        with pytest.raises(WorkloadError):
            SequentialModel(domain, 10.0, broken, features)
    with pytest.raises(WorkloadError):
        SequentialModel(domain, 0.0, steps, features)
    with pytest.raises(WorkloadError):
        model.sample_codes(-1, np.random.default_rng(0))


def test_lines_far_outside_the_range_stay_inside() -> None:
    domain = Domain(("a", "b"), (2, 5))
    for centre in (-50.0, 50.0):
        step = LineStep("b", np.array([centre, 0.0]), 0.1, np.linspace(-1, 1, 6), None)
        model = SequentialModel(
            domain,
            1.0,
            (TableStep("a", (), np.ones((1, 2))), step),
            {"a": np.eye(2)[:, 1:], "b": np.zeros((5, 0))},
        )
        codes = model.sample_codes(100, np.random.default_rng(0))[:, 1]
        assert (codes == (0 if centre < 0 else 4)).all()
