"""Table mechanisms as users meet them: solved or given pseudocounts, refusals, post-processing, the comparison."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import BudgetError, BudgetExceeded, DomainTooLarge, NoSuchGuarantee, WorkloadError
from understudy.mechanisms import Model, Synthesizer, create
from understudy.mechanisms.counts.compare import compare, gaussian_probabilistic_delta
from understudy.mechanisms.counts.table import possible_cells
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.count_models.solving import released_delta
from understudy.schema import Schema

REDRAWN = ("poisson", "negative-binomial", "poisson-inverse-gaussian", "delaporte", "sichel")
SCHEMA = Schema.parse(
    """
name: answers
columns:
  - {name: colour, kind: categorical, values: [red, green, blue]}
  - {name: age, kind: integer, bins: {edges: [0, 18, 65, 100]}}
  - {name: drives, kind: boolean}
constraints:
  - not (age < 18 and drives == true)
"""
)
ROW = Unit.add_remove()


def frame(n: int = 900) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    age = generator.integers(0, 100, n)
    return pd.DataFrame(
        {
            "colour": generator.choice(["red", "green", "blue"], n, p=[0.7, 0.2, 0.1]),
            "age": age,
            "drives": (age >= 18) & (generator.random(n) < 0.6),
        }
    )


def fitted(synthesizer: Synthesizer, budget: Budget, unit: Unit = ROW, *, n: int = 900) -> Model:
    ledger = Ledger.in_memory(
        budget=budget, unit=unit, table="t", approximate_delta=synthesizer.reserve(SCHEMA, budget)
    )
    curator = Curator(read_table(frame(n), SCHEMA), unit=unit, ledger=ledger, randomness=SeededRandomness(1))
    return synthesizer.fit(curator, budget)


@pytest.mark.parametrize("name", REDRAWN)
def test_the_budget_s_pseudocount_is_the_smallest(name: str) -> None:
    budget = ApproxDP(2.0, 1e-3)
    law = create(name).law(budget, ROW)
    assert 0.999 * budget.delta < released_delta(law, budget.epsilon, ROW) <= budget.delta
    plan = create(name).plan(SCHEMA, unit=ROW, budget=budget)
    assert f"alpha={law.alpha:.6g}" in plan.notes[0]


@pytest.mark.parametrize("name", REDRAWN)
def test_a_given_pseudocount_is_used_or_refused(name: str) -> None:
    budget = ApproxDP(2.0, 1e-3)
    enough = create(name).law(budget, ROW).alpha
    generous = create(name, alpha=2 * enough)
    assert generous.law(budget, ROW).alpha == 2 * enough
    model = fitted(generous, budget)
    assert model.provenance.spent == pytest.approx(2.0)
    with pytest.raises(NoSuchGuarantee, match="true delta"):
        create(name, alpha=enough / 2).plan(SCHEMA, unit=ROW, budget=budget)
    with pytest.raises(BudgetError):
        create(name, alpha=-1.0)


@pytest.mark.parametrize("name", REDRAWN)
def test_budgets_without_a_delta_are_refused(name: str) -> None:
    for budget in (PureDP(1.0), ZCDP(0.1), GDP(1.0)):
        with pytest.raises(NoSuchGuarantee):
            create(name).require(budget)


def test_the_release_of_the_paper_keeps_the_redrawn_counts() -> None:
    model = fitted(create("poisson", post_processing="none"), ApproxDP(3.0, 0.3))
    (shown,) = model.statistics
    assert (model.distribution.cells == shown.values).all()
    assert (shown.values == np.round(shown.values)).all()
    centred = fitted(create("poisson"), ApproxDP(3.0, 0.3))
    possible = possible_cells(SCHEMA)
    assert possible is not None
    assert centred.distribution.cells[~possible].sum() == 0
    law = create("poisson").law(ApproxDP(3.0, 0.3), ROW)
    assert centred.total == pytest.approx(shown.values.sum() - 18 * law.alpha)


def test_a_known_number_of_rows_is_kept() -> None:
    for name in (*REDRAWN, "gaussian-table", "multinomial-dirichlet"):
        model = fitted(create(name), ApproxDP(2.0, 1e-2), Unit.replace_one())
        assert model.total == pytest.approx(900), name


def test_tables_with_too_many_cells_are_refused() -> None:
    for name in (*REDRAWN, "gaussian-table", "multinomial-dirichlet"):
        with pytest.raises(DomainTooLarge, match="18 cells"):
            create(name, max_cells=10).plan(SCHEMA, unit=ROW, budget=ApproxDP(1.0, 1e-6))


def test_a_ledger_without_a_reserve_says_what_is_missing() -> None:
    budget = ApproxDP(3.0, 0.2)
    ledger = Ledger.in_memory(budget=budget, unit=ROW, table="t")
    curator = Curator(read_table(frame(), SCHEMA), unit=ROW, ledger=ledger)
    with pytest.raises(BudgetExceeded, match="approximate_delta"):
        create("poisson").fit(curator, budget)
    assert ledger.spent == 0


def test_options_that_make_no_sense() -> None:
    for name, options in (
        ("poisson", {"post_processing": "wish"}),
        ("poisson", {"max_cells": 0}),
        ("negative-binomial", {"sigma": -1.0}),
        ("delaporte", {"nu": 2.0}),
        ("multinomial-dirichlet", {"records": 0}),
        ("multinomial-dirichlet", {"rows_share": 1.0}),
        ("binomial-beta", {"records": 0}),
        ("binomial-beta", {"rows_share": 0.0}),
        ("mcclure-reiter", {"records": 0}),
        ("mcclure-reiter", {"records": 20_001}),
        ("gaussian-table", {"noise": "laplace"}),
    ):
        with pytest.raises(BudgetError):
            create(name, **options)


def test_fewer_records_need_a_smaller_prior() -> None:
    """Rows of the posterior are what costs; the model still stands for the whole table."""
    few = fitted(create("multinomial-dirichlet", records=50), PureDP(1.0), Unit.replace_one())
    many = fitted(create("multinomial-dirichlet"), PureDP(1.0), Unit.replace_one())
    assert few.statistics[0].values.sum() == 50
    assert many.statistics[0].values.sum() == 900
    assert few.total == many.total == 900

    def prior(model: Model) -> float:
        return float(model.statistics[0].name.split()[-1].rstrip(")"))

    assert prior(few) == pytest.approx(50 / (np.e - 1), rel=1e-5)
    assert prior(many) == pytest.approx(900 / (np.e - 1), rel=1e-5)


def test_no_record_is_drawn_that_breaks_a_constraint() -> None:
    model = fitted(create("multinomial-dirichlet"), PureDP(0.1))
    possible = possible_cells(SCHEMA)
    assert possible is not None
    assert model.distribution.cells[~possible].sum() == 0


def test_binomial_beta_refuses_other_columns() -> None:
    with pytest.raises(WorkloadError, match="colour, age"):
        create("binomial-beta").plan(SCHEMA, unit=ROW, budget=PureDP(1.0))


def test_the_discrete_gaussian_goes_with_concentrated_budgets() -> None:
    model = fitted(create("gaussian-table", noise="discrete"), ZCDP(0.5))
    assert model.measurements[0].scale == pytest.approx(1.0)
    with pytest.raises(BudgetError):
        create("gaussian-table", noise="discrete").require(GDP(1.0))
    with pytest.raises(NoSuchGuarantee):
        create("gaussian-table").require(PureDP(1.0))
    clipped = fitted(create("gaussian-table", post_processing="none"), ZCDP(0.5))
    assert clipped.distribution.cells.min() >= 0


def test_the_comparison_says_that_redrawing_is_noisy() -> None:
    """At epsilon=1, delta=1e-6 every count distribution has more noise than discrete Laplace at pure epsilon=1."""
    table = compare(ApproxDP(1.0, 1e-6), ROW, histogram={0: 900, 3: 80, 200: 20}).set_index("method")
    assert set(table.index) == {*REDRAWN, "laplace", "gaussian-table", "multinomial-dirichlet"}
    for name in REDRAWN:
        assert table.loc[name, "delta"] <= 1e-6
        assert table.loc[name, "probabilistic_delta"] > table.loc[name, "delta"]
        for column in ("sd_0", "sd_1", "sd_10", "sd_100", "sd_1000", "rmse"):
            assert table.loc[name, column] > 3 * table.loc["laplace", column]
    assert table.loc["laplace", "sd_0"] == pytest.approx(1.357, abs=1e-3)
    assert table.loc["multinomial-dirichlet", "rmse"] > 20 * table.loc["laplace", "rmse"]
    generous = compare(ApproxDP(3.0, 0.2), Unit.replace_one()).set_index("method")
    assert generous.loc["poisson", "sd_0"] < generous.loc["laplace", "sd_0"]  # where delta is a fifth
    assert generous["probabilistic_delta"].isna().sum() == 6
    with pytest.raises(BudgetError):
        compare(PureDP(1.0), ROW)  # type: ignore[arg-type]


def test_the_gaussian_example_of_the_paper() -> None:
    """Example 2 is the probabilistic notion: at the same sigma its delta is above the true one."""
    from understudy.privacy.accounting.conversions import gdp_delta

    for sigma in (0.7, 2.0, 5.0):
        assert gaussian_probabilistic_delta(sigma, 1.0) > gdp_delta(1 / sigma, 1.0)
