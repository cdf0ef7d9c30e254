"""The deniability method: structure, tables, accounting, seed-based records and its refusals."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import BayesianNetwork
from understudy.errors import BudgetError, BudgetExceeded, NoSuchGuarantee
from understudy.mechanisms import load_model
from understudy.mechanisms.deniability.deniability import Deniability, advanced_composition, paper_epsilon
from understudy.mechanisms.deniability.learning import (
    Correlations,
    buckets_of,
    dependency_order,
    dirichlet_table,
    learn_parents,
    merit,
    needed_entropies,
    normal_table,
)
from understudy.privacy import ApproxDP, Ledger, PureDP, SeededRandomness, Unit, accounting_named
from understudy.schema import Categorical, Domain, Integer, Ordinal, Schema

ADD, REPLACE = Unit.add_remove(), Unit.replace_one()
SCHEMA = Schema(
    columns=(
        Categorical("colour", values=("red", "green", "blue")),
        Ordinal("size", values=tuple("abcdefghijkl")),
        Integer("age", minimum=0, maximum=19),
        Categorical("mood", values=("good", "bad")),
    )
)


def table(n: int, seed: int = 0) -> LocalTable:
    """colour -> size -> age; mood is noise."""
    generator = np.random.default_rng(seed)
    colour = generator.integers(0, 3, n)
    size = np.clip(colour * 4 + generator.integers(0, 4, n), 0, 11)
    age = np.clip(size + generator.integers(0, 8, n), 0, 19)
    return LocalTable(
        SCHEMA, {"colour": colour, "size": size, "age": age, "mood": generator.integers(0, 2, n)}
    )


def fit(method: Deniability, budget, unit=ADD, *, n: int = 4000, reserve: float = 0.0, seed: int = 1):
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t", approximate_delta=reserve)
    curator = Curator(table(n), unit=unit, ledger=ledger, randomness=SeededRandomness(seed))
    return method.fit(curator, budget), ledger


# ------------------------------------------------------------------------------------ structure


def test_buckets_are_runs_of_ordered_values_and_can_be_given() -> None:
    resolution = buckets_of(SCHEMA, at_most=4, groups={"colour": [5, 5, 9]})
    assert resolution.labels(("size", 1)).tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert resolution.labels(("colour", 1)).tolist() == [0, 0, 1]
    assert resolution.heights("mood") == 1
    with pytest.raises(BudgetError, match="each of its 3"):
        buckets_of(SCHEMA, at_most=4, groups={"colour": [0]})
    with pytest.raises(BudgetError, match="does not have"):
        buckets_of(SCHEMA, at_most=4, groups={"shape": [0]})


def test_how_many_entropies_are_needed() -> None:
    plain = buckets_of(SCHEMA, at_most=100)
    assert len(needed_entropies(plain, fine_targets=False)) == 4 + 6
    assert len(needed_entropies(plain, fine_targets=True)) == 4 + 6  # nothing is coarse
    coarse = buckets_of(SCHEMA, at_most=4)  # size and age
    assert len(needed_entropies(coarse, fine_targets=False)) == 10
    assert len(needed_entropies(coarse, fine_targets=True)) == 10 + 2 + 3 + 3


def test_correlation_is_symmetrical_uncertainty_cut_to_the_unit_interval() -> None:
    domain = Domain(("a", "b"), (2, 2))
    resolution = buckets_of(
        Schema(columns=tuple(Categorical(name, values=("0", "1")) for name in domain.names)), at_most=2
    )
    a, b = ("a", 0), ("b", 0)

    def between(single: float, other: float, joint: float) -> float:
        entropies = {frozenset([a]): single, frozenset([b]): other, frozenset([a, b]): joint}
        return Correlations(resolution, entropies).between(a, b)

    assert between(math.log(2), math.log(2), math.log(2)) == pytest.approx(1.0)
    assert between(math.log(2), math.log(2), 2 * math.log(2)) == pytest.approx(0.0)
    assert between(0.5, 0.5, -3.0) == 1.0
    assert between(0.5, 0.5, 9.0) == 0.0
    assert between(-0.5, -0.1, 0.3) == 0.0


def test_merit_is_the_paper_s() -> None:
    assert merit([], []) == 0.0
    assert merit([0.4, 0.6], [0.5]) == pytest.approx(1.0 / math.sqrt(2 + 2 * 0.5))


def test_parents_are_acyclic_and_affordable() -> None:
    generator = np.random.default_rng(3)
    names = tuple("abcdef")
    schema = Schema(columns=tuple(Categorical(name, values=("0", "1", "2")) for name in names))
    resolution = buckets_of(schema, at_most=9)
    keys = needed_entropies(resolution, fine_targets=False)
    for _ in range(20):
        entropies = {key: float(generator.uniform(0.2, 1.1) * len(key)) for key in keys}
        parents = learn_parents(
            Correlations(resolution, entropies),
            fine_targets=False,
            affordable=lambda target, views: resolution.cells(views) <= 9,
            least_gain=0.0,
        )
        order = dependency_order(schema.domain, parents)  # would not end on a cycle
        assert sorted(order) == sorted(names)
        assert all(len(views) <= 2 for views in parents.values())


def test_the_right_edges_are_found_with_a_large_budget() -> None:
    model, _ = fit(Deniability(), PureDP(200.0), REPLACE, n=8000)
    assert isinstance(model.distribution, BayesianNetwork)
    edges = {
        frozenset((node.column, parent)) for node in model.distribution.nodes for parent, _ in node.parents
    }
    assert frozenset(("colour", "size")) in edges
    assert frozenset(("size", "age")) in edges
    assert not any("mood" in edge for edge in edges)


# ------------------------------------------------------------------------------------ tables


def test_dirichlet_tables() -> None:
    generator = np.random.default_rng(0)
    noisy = np.array([[30.0, -4.0, 10.0], [0.0, 0.0, 0.0]])
    zero = dirichlet_table(noisy, prior=0.0001, truncation="zero", draw=False, generator=generator)
    np.testing.assert_allclose(zero[0], [0.75, 0.0, 0.25], atol=1e-4)
    pooled = dirichlet_table(noisy, prior=4.0, truncation="simplex", draw=False, generator=generator)
    assert pooled[1].argmax() == 0  # an unseen combination behaves like the average one
    np.testing.assert_allclose(pooled.sum(axis=1), 1.0)
    drawn = [
        dirichlet_table(noisy, prior=1.0, truncation="zero", draw=True, generator=generator)[0]
        for _ in range(400)
    ]
    np.testing.assert_allclose(np.mean(drawn, axis=0), [31 / 41, 0.0, 10 / 41], atol=0.05)
    assert np.std([row[0] for row in drawn]) > 0.02


def test_normal_and_regression_tables() -> None:
    rows = np.array([[100.0, 20.0, 5.0], [100.0, 50.0, 26.0], [100.0, 80.0, 65.0]])
    size = 41
    table = normal_table(rows, size, strength=0.001, regression=None)
    where = np.linspace(0, 1, size)
    np.testing.assert_allclose(table @ where, [0.2, 0.5, 0.8], atol=0.01)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    missing = rows.copy()
    missing[1] = 0.0
    line = normal_table(missing, size, strength=0.001, regression=(3,))
    np.testing.assert_allclose(line @ where, [0.2, 0.5, 0.8], atol=0.02)  # filled in by the line
    assert normal_table(rows.sum(axis=0), size, strength=1.0, regression=None).shape == (size,)


@pytest.mark.parametrize("continuous", ["normal", "regression"])
@pytest.mark.parametrize("budget", [PureDP(50.0), ApproxDP(20.0, 1e-6)])
def test_continuous_columns(continuous, budget) -> None:
    model, ledger = fit(Deniability(continuous=continuous), budget)
    ages = model.sample_codes(5000, seed=1)["age"].astype(float)
    true = table(4000)._columns["age"].astype(float)
    assert abs(ages.mean() - true.mean()) < 1.0
    assert abs(ages.std() - true.std()) < 1.2
    assert ledger.rule.holds(ledger.spending)


@pytest.mark.parametrize(
    "options",
    [
        {"disjoint": True},
        {"fine_targets": True},
        {"noise": "laplace"},
        {"truncation": "zero", "parameters": "draw", "prior": 1.0},
        {"buckets": 3, "maxcost": 9},
    ],
)
@pytest.mark.parametrize("unit", [ADD, REPLACE])
def test_variants_spend_the_budget_and_no_more(options, unit) -> None:
    for budget in (PureDP(2.0), ApproxDP(2.0, 1e-6)):
        model, ledger = fit(Deniability(**options), budget, unit)
        total = accounting_named(model.provenance.accounting).total(budget)
        assert 0.9 * total <= model.provenance.spent <= total
        assert ledger.rule.holds(ledger.spending)
        assert len(model.sample(50, seed=1)) == 50
        ledger.verify()


def test_a_table_with_one_column() -> None:
    schema = Schema(columns=(Categorical("colour", values=("red", "green")),))
    for unit in (ADD, REPLACE):
        ledger = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
        codes = np.repeat([0, 1], [300, 900])
        curator = Curator(
            LocalTable(schema, {"colour": codes}), unit=unit, ledger=ledger, randomness=SeededRandomness(1)
        )
        model = Deniability().fit(curator, PureDP(1.0))
        # noise of scale about 2 rows, and a prior as strong: a fortieth of the table is ten times that
        assert model.marginal(("colour",)) == pytest.approx([300, 900], abs=30)
        assert 0.99 < ledger.spent <= 1


# ------------------------------------------------------------------------------------ accounting


def test_advanced_composition_is_theorem_three() -> None:
    expected = 0.1 * math.sqrt(2 * 66 * math.log(1e9)) + 66 * 0.1 * math.expm1(0.1)
    assert advanced_composition(0.1, 66, 1e-9) == pytest.approx(expected)
    with pytest.raises(BudgetError):
        advanced_composition(0.0, 1, 0.1)


def test_our_accounting_charges_less_than_the_paper_s_for_the_same_noise() -> None:
    budget = ApproxDP(1.0, 1e-9)
    method = Deniability(noise="laplace", disjoint=True)
    design = method._recipe.design(
        SCHEMA, ADD, method.accounting(budget), method.accounting(budget).total(budget), rows_known=False
    )
    assert paper_epsilon(design.structure, design.parameters, 1e-9, disjoint=True) > 1.0
    notes = " ".join(method.plan(SCHEMA, unit=ADD, budget=budget).notes)
    assert "Advanced composition" in notes
    columns = ", ".join(f"{{name: c{place}, kind: boolean}}" for place in range(40))
    wide = Schema.parse(f"name: wide\ncolumns: [{columns}]")  # so many tables that Gaussian noise is smaller
    gaussian = Deniability().plan(wide, unit=ADD, budget=budget)
    assert any("Gaussian" in note for note in gaussian.notes)


# ------------------------------------------------------------------------------------ seeds


def seeded(**options) -> Deniability:
    given = {"omega": (2, 4), "records": 50, "k": 60, "epsilon0": 0.5, "min_seeds": 3000}
    return Deniability(**(given | options))


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("unit", [ADD, REPLACE])
def test_seed_based_records_are_charged_together(unit, disjoint, tmp_path: Path) -> None:
    budget = ApproxDP(8.0, 1e-4)
    model, ledger = fit(seeded(disjoint=disjoint, min_seeds=1200, records=12), budget, unit, reserve=5e-5)
    assert ledger.spending.delta <= 5e-5
    assert 0 < model.provenance.spent <= 8.0
    entries = [entry for entry in ledger.entries() if entry.event is not None]
    assert len(entries) == 1  # everything is paid for before anything is drawn
    rows = model.sample(50, seed=1)
    assert len(rows) == 50
    model.save(tmp_path / "m.understudy")
    loaded = load_model(tmp_path / "m.understudy")
    assert loaded.sample(50, seed=1).equals(rows)
    assert model.sample(120, seed=1).shape == (120, 4)
    ledger.verify()


def test_resampling_every_column_is_free_and_needs_no_reserve() -> None:
    for omega in (None, 4, (4, 4)):
        model, ledger = fit(Deniability(omega=omega), ApproxDP(1.0, 1e-6))
        assert isinstance(model.distribution, BayesianNetwork)
        assert ledger.spending.delta == 0


def test_refusals_before_anything_is_spent() -> None:
    budget = ApproxDP(5.0, 1e-4)
    cases = [
        (seeded(records=None), budget, ADD, 5e-5, "say how many"),
        (seeded(min_seeds=None), budget, ADD, 5e-5, "min_seeds"),
        (seeded(records=100_000, k=50, epsilon0=1.0), budget, ADD, 5e-5, "accept_weak"),
        (seeded(records=2000), budget, ADD, 5e-5, "seed-based records"),
        (seeded(k=2), budget, ADD, 5e-5, "Raise k"),
        (seeded(), PureDP(5.0), ADD, 0.0, "ApproxDP"),
    ]
    for method, given, unit, reserve, words in cases:
        ledger = Ledger.in_memory(budget=given, unit=unit, table="t", approximate_delta=reserve)
        curator = Curator(table(100), unit=unit, ledger=ledger)
        with pytest.raises(NoSuchGuarantee, match=words):
            method.fit(curator, given)
        assert ledger.spent == 0
    with pytest.raises(BudgetError, match="omega"):
        Deniability(omega=9, records=5, min_seeds=100).plan(SCHEMA, unit=ADD, budget=budget)
    without = Ledger.in_memory(budget=budget, unit=ADD, table="t")
    with pytest.raises(BudgetExceeded, match="approximate_delta"):
        seeded().fit(Curator(table(100), unit=ADD, ledger=without), budget)
    assert without.spent == 0
    small = Ledger.in_memory(budget=ApproxDP(1.0, 1e-4), unit=ADD, table="t", approximate_delta=5e-5)
    curator = Curator(table(100), unit=ADD, ledger=small)
    with pytest.raises(BudgetExceeded):
        seeded().fit(curator, ApproxDP(8.0, 1e-4))
    assert small.spent == 0


def test_a_weak_guarantee_can_be_accepted_and_is_written_down() -> None:
    budget = ApproxDP(400.0, 1e-4)
    method = seeded(records=3000, k=50, epsilon0=1.0, accept_weak=True)
    model, ledger = fit(method, budget, reserve=5e-5)
    assert model.provenance.spent > 10
    assert float(ledger.spending.sums["pure"] or 0) == pytest.approx(model.provenance.spent)


def test_what_counts_as_weak_can_be_said() -> None:
    ledger = Ledger.in_memory(budget=ApproxDP(8.0, 1e-4), unit=ADD, table="t", approximate_delta=5e-5)
    with pytest.raises(NoSuchGuarantee, match=r"above 0\.01 and says little"):
        seeded(weak_above=0.01).fit(Curator(table(100), unit=ADD, ledger=ledger), ApproxDP(8.0, 1e-4))
    assert ledger.spent == 0


def test_options_that_make_no_sense() -> None:
    with pytest.raises(BudgetError) as caught:
        Deniability(
            maxcost=0, usefulness=0, buckets=1, structure_share=1, noise="none", parameters="mean", records=0
        )
    assert len(str(caught.value).split(". ")) >= 6


# ------------------------------------------------------------------------------------ lazily learnt tables


@pytest.mark.parametrize("budget", [PureDP(50.0), ApproxDP(50.0, 1e-6)])
def test_lazy_tables_give_records_like_the_network_s(budget) -> None:
    """With little noise both laws are close to the table's; a wrong configuration lookup would break colour -> size."""
    model, ledger = fit(Deniability(lazy=True, records=4000, maxcost=10**6, buckets=20), budget)
    assert model.statistics[0].noise == "mechanism"
    paid = ledger.spending.spent(model.provenance.accounting)
    assert model.provenance.spent >= 0.9 * paid > 0
    made = model.sample_codes(4000, seed=1)
    exact = table(4000).count(("colour", "size"))
    found = np.zeros_like(exact)
    np.add.at(found, (made["colour"], made["size"]), 1)
    # two tables of 4,000 rows over 36 cells, a third of them possible: sampling alone gives about .06
    assert np.abs(found - exact).sum() / 4000 < 0.2
    assert found[exact == 0].sum() < 200


def test_lazy_needs_records_and_no_seeds() -> None:
    with pytest.raises(BudgetError, match="lazy"):
        Deniability(lazy=True)
    with pytest.raises(BudgetError, match="lazy"):
        Deniability(lazy=True, records=10, continuous="normal")
    with pytest.raises(NoSuchGuarantee, match="lazy"):
        Deniability(lazy=True, records=10, omega=2, min_seeds=50).plan(
            SCHEMA, unit=ADD, budget=ApproxDP(1.0, 1e-6)
        )


def test_every_table_that_was_paid_for_is_in_the_model(tmp_path: Path) -> None:
    for continuous in (None, "normal"):
        model, _ = fit(Deniability(continuous=continuous, buckets=3), PureDP(20.0))
        assert len(model.measurements) + len(model.statistics) == len(SCHEMA.names)
        model.save(tmp_path / "m.understudy")
        loaded = load_model(tmp_path / "m.understudy")
        assert [item.name for item in loaded.statistics] == [item.name for item in model.statistics]
        for one, two in zip(loaded.statistics, model.statistics, strict=True):
            np.testing.assert_array_equal(one.values, two.values)
            assert (one.noise, one.scale) == (two.noise, two.scale)


def test_a_plan_without_the_number_of_rows_says_so_under_replacement() -> None:
    plan = seeded(min_seeds=None).plan(SCHEMA, unit=REPLACE, budget=ApproxDP(5.0, 1e-4))
    assert any("row_count" in note for note in plan.notes)
    with pytest.raises(NoSuchGuarantee, match="min_seeds"):
        seeded(min_seeds=None).plan(SCHEMA, unit=ADD, budget=ApproxDP(5.0, 1e-4))
