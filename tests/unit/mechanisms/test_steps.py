"""STEPS: divisions follow importance, stop where noise would rule, and keep relations no correlation sees."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import read_table
from understudy.engine import ProductMixture
from understudy.errors import BudgetError, DomainTooLarge, ModelFileError, WorkloadError
from understudy.mechanisms import Model
from understudy.mechanisms.parametric.steps.steps import STEPS, coarse_groups
from understudy.privacy import ZCDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Integer, Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: x, kind: real, minimum: -3, maximum: 3}
  - {name: bend, kind: real, minimum: 0, maximum: 9, missing: true}
  - {name: group, kind: categorical, values: [a, b, c]}
  - {name: coin, kind: boolean}
"""
)


def frame(n: int, seed: int = 0) -> pd.DataFrame:
    """``bend`` is the square of ``x``: no rank correlation, full dependence; ``coin`` is noise."""
    generator = np.random.default_rng(seed)
    x = np.clip(generator.normal(size=n), -3, 3)
    bend = np.clip(x**2 + generator.normal(0, 0.1, n), 0, 9)
    bend[generator.random(n) < 0.05] = np.nan
    group = np.digitize(x + generator.normal(0, 0.5, n), [-0.5, 0.5])
    return pd.DataFrame(
        {"x": x, "bend": bend, "group": np.array(["a", "b", "c"])[group], "coin": generator.random(n) < 0.5}
    )


def fit(
    data: pd.DataFrame, budget: Budget, schema: Schema = SCHEMA, **options: object
) -> tuple[Model, Curator]:
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(read_table(data, schema), unit=unit, ledger=ledger, randomness=SeededRandomness(2))
    return STEPS(**options).fit(curator, budget), curator  # type: ignore[arg-type]


def parts(model: Model) -> int:
    assert isinstance(model.distribution, ProductMixture)
    return len(model.distribution.parts)


def test_relations_that_are_not_monotone_are_kept() -> None:
    data = frame(8_000)
    model, _ = fit(data, PureDP(50.0))
    rows = model.sample(8_000, seed=1)
    centre = [table.loc[table["x"].abs() < 0.3, "bend"].mean() for table in (data, rows)]
    edges = [table.loc[table["x"].abs() > 1.2, "bend"].mean() for table in (data, rows)]
    assert centre[1] < 0.6  # independence would give 1
    assert edges[1] > 1.6
    assert abs(rows["coin"].mean() - data["coin"].mean()) < 0.02
    assert abs(rows["bend"].isna().mean() - 0.05) < 0.01
    share = pd.crosstab(rows["group"], rows["x"] > 0, normalize="index")[True]
    assert share["c"] - share["a"] > 0.5


def test_the_unrelated_column_is_never_elected_with_a_large_budget() -> None:
    _, curator = fit(frame(5_000), PureDP(200.0), layers=1)
    model, _ = fit(frame(5_000), PureDP(200.0), layers=1)
    assert isinstance(model.distribution, ProductMixture)
    coin = model.distribution.margins["coin"]
    assert np.ptp(coin[:, 0]) < 0.2  # not divided by coin
    assert any("elect" in entry.purpose for entry in curator.ledger.entries())


def test_divisions_stop_where_the_noise_would_rule() -> None:
    data = frame(2_000)
    small, large = (parts(fit(data, ZCDP(rho))[0]) for rho in (1e-4, 50.0))
    assert small == 1
    assert large > 10
    assert parts(fit(data, ZCDP(50.0), min_rows=1e9)[0]) == 1
    assert parts(fit(data, ZCDP(50.0), layers=0)[0]) == 1
    assert parts(fit(data, ZCDP(50.0), layers=1, branches=2)[0]) == 2


def test_a_given_order_costs_no_election() -> None:
    model, curator = fit(frame(5_000), PureDP(20.0), order=("group", "x"))
    assert parts(model) == 12
    assert not any("elect" in entry.purpose for entry in curator.ledger.entries())
    assert isinstance(model.distribution, ProductMixture)
    group = model.distribution.margins["group"]
    assert ((group > 0).sum(axis=1) == 1).all()  # a subset keeps to the codes it stands for


def test_nothing_is_left_over() -> None:
    for options in ({}, {"order": ("coin",)}, {"layers": 0}, {"min_rows": 1e9}):
        _, curator = fit(frame(300), PureDP(1.0), **options)
        assert 0.999 < curator.ledger.spent <= 1.0


def test_histograms_of_wide_columns_get_their_share() -> None:
    for share in (0.05, 0.25):
        _, curator = fit(frame(300), PureDP(1.0), histogram_share=share)
        spent = sum(entry.costs["pure"] for entry in curator.ledger.entries() if "histogram" in entry.purpose)
        assert spent == pytest.approx(share, rel=1e-6)


def test_one_column_and_one_divisible_column() -> None:
    schema = Schema.parse("columns: [{name: x, kind: real, minimum: 0, maximum: 1}]")
    assert parts(fit(pd.DataFrame({"x": np.full(500, 0.5)}), PureDP(50.0), schema)[0]) == 1
    wide = Schema.parse(
        "columns: [{name: c, kind: boolean}, {name: v, kind: categorical, values: [a, b, c, d, e, f]}]"
    )
    generator = np.random.default_rng(0)
    c = generator.random(3_000) < 0.5
    data = pd.DataFrame({"c": c, "v": np.where(c, "a", generator.choice(list("def"), 3_000))})
    model, _ = fit(data, PureDP(20.0), wide)
    assert parts(model) == 2
    rows = model.sample(1_000, seed=0)
    assert ((rows["v"] == "a") == rows["c"]).mean() > 0.98


def test_groups_hold_about_equally_many_rows() -> None:
    column = Integer("i", minimum=0, maximum=99, missing=True)
    weights = np.concatenate([np.full(10, 10.0), np.full(90, 0.1), [5.0]])
    labels = coarse_groups(column, 5, weights)
    assert labels[-1] == 4
    sizes = np.bincount(labels[:100], weights=weights[:100])
    assert sizes.min() > 15
    assert (np.diff(labels) >= 0).all()
    point = np.zeros(101)
    point[50] = 1.0
    assert coarse_groups(column, 3, point).max() == 2  # all rows in one value: equal widths instead


def test_refusals_and_options() -> None:
    for options in (
        {"order": "group"},
        {"order": ("x", "x")},
        {"layers": -1},
        {"branches": 1},
        {"min_rows": -1.0},
        {"election_share": 0.5},
        {"size_share": 0.0},
        {"histogram_share": 0.3},
    ):
        with pytest.raises(BudgetError):
            STEPS(**options)  # type: ignore[arg-type]
    unit, budget = Unit.add_remove(), PureDP(1.0)
    with pytest.raises(BudgetError, match="not in the schema"):
        STEPS(order=("nobody",)).plan(SCHEMA, unit=unit, budget=budget)
    with pytest.raises(BudgetError, match="cannot divide"):
        STEPS(order=("group",), branches=2).plan(SCHEMA, unit=unit, budget=budget)
    with pytest.raises(DomainTooLarge):
        STEPS(layers=4, branches=50).plan(SCHEMA, unit=unit, budget=budget)
    plan = STEPS().plan(SCHEMA, unit=unit, budget=budget)
    assert "elections" in plan.notes[0]


def test_the_mixture_answers_exactly_and_checks_its_parts() -> None:
    domain = Domain(("a", "b", "c"), (2, 3, 2))
    generator = np.random.default_rng(0)
    margins = {
        name: generator.dirichlet(np.ones(size), 4)
        for name, size in zip(domain.names, domain.sizes, strict=True)
    }
    mixture = ProductMixture(domain, np.array([10.0, 20.0, 0.0, 70.0]), margins)
    full = np.einsum("p,pa,pb,pc->abc", mixture.parts, margins["a"], margins["b"], margins["c"])
    np.testing.assert_allclose(mixture.marginals([("a", "b", "c")])[0], full)
    np.testing.assert_allclose(mixture.marginals([("b",)])[0], full.sum(axis=(0, 2)))
    assert float(mixture.marginals([()])[0]) == pytest.approx(100.0)
    drawn = mixture.sample_codes(100_000, generator)
    made = np.zeros(domain.sizes)
    np.add.at(made, tuple(drawn.T), 100 / 100_000)
    np.testing.assert_allclose(made, full, atol=0.5)
    meta, arrays = mixture.to_arrays()
    assert ProductMixture.from_arrays(domain, meta, arrays).total == mixture.total
    with pytest.raises(ModelFileError):
        ProductMixture.from_arrays(domain, {"format": 7}, arrays)
    with pytest.raises(ModelFileError):
        ProductMixture.from_arrays(domain, meta, {})
    with pytest.raises(WorkloadError):
        ProductMixture(domain, np.array([-1.0]), margins)
    with pytest.raises(WorkloadError):
        ProductMixture(domain, np.ones(3), margins)
    with pytest.raises(WorkloadError):
        mixture.sample_codes(-1, generator)
