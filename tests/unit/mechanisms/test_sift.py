"""Sift: what it measures and in which order, what it does with noise, and how it compares with AIM where a tree is too small."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine.distributions.patched import PatchedModel
from understudy.errors import BudgetError, ModelFileError
from understudy.marginals import SumsOfSigns, Workload, all_kway, count_codes
from understudy.mechanisms import Model, create
from understudy.mechanisms.marginal.fields import nearer
from understudy.mechanisms.marginal.sift import Sift
from understudy.mechanisms.marginal.sifting.dividing import divide, without_noise
from understudy.mechanisms.marginal.sifting.learner import Learner
from understudy.mechanisms.marginal.sifting.signs import SignSums, measure_sums, signs
from understudy.privacy import GDP, ZCDP, ApproxDP, Gaussian, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING
from understudy.schema import Constraint, Integer, Schema

WIDE = {f"c{number}": 6 for number in range(8)}


def schema(sizes: dict[str, int] = WIDE, **more: Any) -> Schema:
    return Schema(
        columns=tuple(Integer(name, minimum=0, maximum=size - 1) for name, size in sizes.items()), **more
    )


def tangled_codes(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Eight columns, each pair related through two hidden causes: no small tree holds all of it."""
    generator = np.random.default_rng(seed)
    first, second = generator.integers(0, 6, rows), generator.integers(0, 6, rows)
    codes = {}
    for number, name in enumerate(WIDE):
        mixed = np.where(generator.random(rows) < 0.5, first, second + number) % 6
        codes[name] = np.where(generator.random(rows) < 0.85, mixed, generator.integers(0, 6, rows)).astype(
            np.uint8
        )
    return codes


def tangled(rows: int) -> LocalTable:
    return LocalTable(schema(), tangled_codes(rows))


def fit(
    private: LocalTable, budget: Any, method: str = "sift", unit: Unit | None = None, **options: Any
) -> tuple[Model, Ledger]:
    unit = unit or Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(private, unit=unit, ledger=ledger, randomness=SeededRandomness(4))
    return create(method, **options).fit(curator, budget), ledger


def error(model: Model, private: LocalTable, seed: int = 0) -> float:
    domain = private.schema.domain
    rows = private.exact_row_count()
    drawn = model.sample_codes(rows, seed=seed)
    codes = np.stack([drawn[name] for name in domain.names], axis=1)
    cliques = all_kway(domain, 3).cliques
    real = private.count_many(list(cliques))
    return (
        float(
            np.mean(
                [
                    np.abs(count_codes(domain, codes, clique) - table).sum()
                    for clique, table in zip(cliques, real, strict=True)
                ]
            )
        )
        / rows
    )


def test_it_is_well_ahead_of_aim_where_a_tree_is_too_small() -> None:
    """Seeded, so no false alarm; the wrong answers it catches are patches that are not drawn and pairs that are not measured (both errors would be equal)."""
    private = tangled(20_000)
    budget = ApproxDP(3.0, 1e-9)
    ours, _ = fit(private, budget, max_model_mb=0.02)
    theirs, _ = fit(private, budget, "aim", max_model_mb=0.02)
    assert isinstance(ours.distribution, PatchedModel)
    assert error(ours, private) < 0.85 * error(theirs, private)


def test_the_looks_come_in_the_order_of_the_privacy_section_and_cost_the_budget() -> None:
    private = tangled(20_000)
    model, ledger = fit(private, ZCDP(0.2), rounds=5)
    purposes = [entry.purpose for entry in ledger.entries() if "allowance" not in entry.purpose]
    assert purposes[0].startswith("measure 8 one-way marginals")
    assert purposes.pop(1).startswith("measure 8 one-way marginals again")
    assert purposes[1].startswith("compare 28 pairs of columns with independence")
    assert "dependent pairs of columns" in purposes[2]
    assert purposes[3::2] == ["choose a marginal to measure"] * 5
    assert ledger.spent == pytest.approx(0.2, rel=1e-6)
    assert model.history is not None
    assert len(model.history.rounds) == 5
    assert sum(model.history.batches) == len(model.measurements)


def many_columns(rows: int) -> LocalTable:
    """Twenty columns of ten values, in pairs that depend on each other: there are few rows for their noise."""
    generator = np.random.default_rng(3)
    sizes = {f"c{number}": 10 for number in range(20)}
    codes: dict[str, np.ndarray] = {}
    for number, name in enumerate(sizes):
        fresh = np.minimum(9, generator.exponential(1.0 + number % 5, rows)).astype(np.uint8)
        before = codes.get(f"c{number - 1}") if number % 2 else None
        codes[name] = fresh if before is None else np.where(generator.random(rows) < 0.5, before, fresh)
    return LocalTable(schema(sizes), codes)


def test_columns_get_as_much_as_their_noise_asks_for() -> None:
    """The share is .45 times the root of the noise of all columns together, of which the released number of rows is a part."""
    private, budget = many_columns(3_000), GDP(0.3)
    spent = {}
    for tolerated in (None, 0.0, 0.1):
        model, ledger = fit(private, budget, column_noise=tolerated, rounds=1)
        looks = model.measurements[: 40 if tolerated is None else 20]
        assert {len(item.clique) for item in looks} == {1}
        spent[tolerated] = sum(item.scale**-2 for item in looks)
        assert ledger.spent == pytest.approx(0.3**2, rel=1e-6)
        purposes = [entry.purpose for entry in ledger.entries() if "allowance" not in entry.purpose]
        assert ("again" in purposes[1]) == (tolerated is None)
    noise = 10 * math.sqrt(20) / 0.3 * math.sqrt(2 / math.pi) / 3_000
    assert spent[0.0] == spent[0.1] == pytest.approx(0.1 * 0.3**2, rel=1e-6)
    assert spent[None] == pytest.approx(0.45 * math.sqrt(20 * noise) * 0.3**2, rel=0.05)


def test_better_columns_make_better_tables_of_many_columns_and_few_rows() -> None:
    """Seeded, so no false alarm; the wrong answer it catches is a share for columns that is taken and not used."""
    private, budget = many_columns(3_000), GDP(0.3)
    errors = [error(fit(private, budget, column_noise=own)[0], private) for own in (None, 0.1)]
    assert errors[0] < 0.95 * errors[1]


def test_triples_follow_the_pairs_at_once_and_pairs_may_come_again() -> None:
    private = tangled(20_000)
    model, ledger = fit(private, ZCDP(0.2))
    purposes = [entry.purpose for entry in ledger.entries() if "allowance" not in entry.purpose]
    assert purposes.pop(1).startswith("measure 8 one-way marginals again")
    assert purposes[1].startswith("compare 28 pairs of columns with independence")
    assert "dependent pairs of columns" in purposes[2]
    assert purposes[3] == "compare 56 triples of columns with the model"
    assert not any("choose" in purpose for purpose in purposes)
    assert {"again" if "again" in purpose else "triples" for purpose in purposes[4:]} <= {"again", "triples"}
    assert ledger.spent == pytest.approx(0.2, rel=1e-6)
    assert model.history is not None
    assert not model.history.rounds
    assert sum(model.history.batches) == len(model.measurements)
    assert [item.values.shape for item in model.statistics] == [(28,), (56,)]


@pytest.mark.parametrize("by_signs", [False, True])
def test_triples_that_only_three_columns_together_show_are_measured(by_signs: bool) -> None:
    """The third column is the parity of two others: all pairs are independent, and only triples show it, by their distances or by sums of signs. Seeded."""
    generator = np.random.default_rng(5)
    codes = {name: generator.integers(0, 2, 20_000).astype(np.uint8) for name in "abdef"}
    codes["c"] = codes["a"] ^ codes["b"]
    # one pair that depends, so that there is something to measure before the triples
    codes["d"] = np.where(generator.random(20_000) < 0.7, codes["e"], codes["d"]).astype(np.uint8)
    sizes = dict.fromkeys(sorted(codes), 2) | {"f": 2 if by_signs else 3}
    private = LocalTable(schema(sizes), {name: codes[name] for name in sorted(codes)})
    model, _ = fit(private, ZCDP(0.05))
    assert (("a", "b", "c") in {item.clique for item in model.measurements}) != by_signs
    found = model.marginals([("a", "b", "c")])[0]
    assert found[0, 0, 1] + found[1, 1, 1] < 0.1 * found.sum()


def sealed_distances(
    monkeypatch: pytest.MonkeyPatch, private: LocalTable, unit: Unit, answers: dict[Any, np.ndarray]
) -> tuple[list[float], list[float]]:
    """Return the exact distances of triples from a model's answers, and their claimed sensitivities."""
    seen: list[Any] = []

    class Answering:
        def marginals(self, cliques: Any) -> list[np.ndarray]:
            return [answers[clique] for clique in cliques]

    class Learning:
        model = Answering()

    def keep(self: Curator, sealed: Any, **rest: Any) -> list[float]:
        seen.extend(sealed)
        return [0.0] * len(sealed)

    monkeypatch.setattr(Curator, "measure_scalars", keep)
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
    learning: Any = Learning()
    Sift._distances(Curator(private, unit=unit, ledger=ledger), learning, list(answers), 0.1, [])
    return [float(item._exact) for item in seen], [float(item.sensitivity) for item in seen]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(0, 12),
    scale=st.sampled_from([0.0, 1e-9, 0.3, 1.0, 1e4, 1e12]),
)
@pytest.mark.parametrize("replaced", [False, True])
def test_one_row_moves_each_distance_of_a_triple_by_no_more_than_is_claimed(
    replaced: bool, seed: int, rows: int, scale: float
) -> None:
    """Random neighbours; models whose answers are huge, tiny and zero."""
    generator = np.random.default_rng(seed)
    sizes = dict.fromkeys(("a", "b", "c", "d"), 3)
    codes = {name: generator.integers(0, 3, rows + 1).astype(np.uint8) for name in sizes}
    other = {
        name: np.append(column[:-1], generator.integers(0, 3)).astype(np.uint8) if replaced else column[:-1]
        for name, column in codes.items()
    }
    answers = {
        clique: scale * np.maximum(0.0, generator.normal(1, 2, (3, 3, 3)))
        for clique in (("a", "b", "c"), ("a", "c", "d"))
    }
    unit = Unit.replace_one() if replaced else Unit.add_remove()
    with pytest.MonkeyPatch.context() as patch:
        first, claimed = sealed_distances(patch, LocalTable(schema(sizes), codes), unit, answers)
        second, _ = sealed_distances(patch, LocalTable(schema(sizes), other), unit, answers)
    assert len(first) == 2
    for one, another, most in zip(first, second, claimed, strict=True):
        assert most == (2.0 if replaced else 1.0)
        assert abs(one - another) <= most


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10_000), scale=st.sampled_from([1e-9, 1e-3, 1.0, 1e3, 1e9]), number=st.integers(1, 8)
)
def test_no_other_division_has_a_smaller_expected_error(seed: int, scale: float, number: int) -> None:
    """Random marginals with noise far above and below their gaps; 50 other divisions each."""
    generator = np.random.default_rng(seed)
    gaps, cells = generator.exponential(100, number), generator.integers(1, 500, number).astype(float)
    weights = generator.exponential(1, number)
    found = divide(gaps, cells, weights, one_cell=scale, accounting=GDP_ACCOUNTING)
    assert found.shares.sum() == pytest.approx(1.0)
    assert (found.shares >= 0).all()
    for _ in range(50):
        shares = generator.dirichlet(np.full(number, 0.3))
        error_ = weights * gaps * scale * cells / np.sqrt(gaps**2 * shares + (scale * cells) ** 2)
        assert found.error <= (1 + 1e-9) * error_.sum()


def test_marginals_that_would_stay_mostly_wrong_are_left_out() -> None:
    gaps, cells = np.array([500.0, 450.0, 3.0, 2.0]), np.full(4, 10.0)
    every = divide(gaps, cells, np.ones(4), one_cell=1.0, accounting=GDP_ACCOUNTING, worth=0.8)
    assert np.flatnonzero(every.shares).tolist() == [0, 1]
    none = divide(gaps, cells, np.ones(4), one_cell=1e6, accounting=GDP_ACCOUNTING, worth=0.8)
    assert not none.shares.any()
    assert none.error == pytest.approx(gaps.sum())


def test_columns_that_share_an_effect_do_not_become_dependent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two independent columns and their sum: a model that knows how each depends on the sum makes the two dependent, which their released distance contradicts.

    Seeded, so no false alarm; the wrong answer it catches is that of a model that never holds such pairs at independence.
    """
    generator = np.random.default_rng(3)
    sizes = {"first": 16, "second": 16, "sum": 31, **{f"other{number}": 3 for number in range(6)}}
    codes = {name: generator.integers(0, size, 20_000).astype(np.uint8) for name, size in sizes.items()}
    codes["sum"] = (codes["first"] + codes["second"]).astype(np.uint8)
    private = LocalTable(schema(sizes), codes)

    def dependence() -> float:
        model, _ = fit(private, ApproxDP(1.0, 1e-9))
        (table,) = model.distribution.marginals([("first", "second")])
        product = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        return float(np.abs(table - product).sum() / table.sum())

    held = dependence()
    monkeypatch.setattr("understudy.mechanisms.marginal.sifting.learner._TWICE", math.inf)
    assert held < 0.1 < 0.15 < dependence()


def test_marginals_with_a_column_of_one_value_are_not_measured() -> None:
    """They say no more than the marginal of the other columns, and were measured as triples whose noise stayed in the pair."""
    sizes = {**WIDE, "same": 1}
    codes = {**tangled_codes(20_000), "same": np.zeros(20_000, dtype=np.uint8)}
    cases: tuple[dict[str, Any], ...] = ({}, {"rounds": 5})
    for options in cases:
        model, _ = fit(LocalTable(schema(sizes), codes), ZCDP(0.2), **options)
        assert all(item.clique == ("same",) or "same" not in item.clique for item in model.measurements)
        assert model.sample_codes(10, seed=1)["same"].tolist() == [0] * 10


def test_noise_is_taken_out_of_pairs_that_only_triples_tell_of() -> None:
    """However little what was expected of measured pairs is trusted: the noise of a triple that is summed to a pair is much larger than what a pair is measured for."""
    sizes = {"a": 2, "b": 3, "c": 40}
    generator = np.random.default_rng(5)
    private = LocalTable(
        schema(sizes),
        {name: generator.integers(0, size, 20_000).astype(np.uint8) for name, size in sizes.items()},
    )
    unit, budget = Unit.add_remove(), ZCDP(1.0)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(private, unit=unit, ledger=ledger, randomness=SeededRandomness(1))
    columns = curator.measure_many(
        curator.counts_many([("a",), ("b",), ("c",)]), noise=[Gaussian(3.0)] * 3, purpose="columns"
    )
    learner = Learner(private.schema, columns, 20_000.0, total=None, limit_mb=0.0005, trust=0.5)
    expected = learner.model.marginals([("a", "c")])[0]
    (triple,) = curator.measure_many(
        curator.counts_many([("a", "b", "c")]), noise=[Gaussian(150.0)], purpose="triple"
    )
    learner.learn([triple], np.array([9_000.0]))
    (found,) = (table for clique, table in learner.model.patches if set(clique) == {"a", "c"})
    noise = triple.values.sum(axis=1) - expected
    assert np.abs(found - expected).sum() < 0.2 * np.abs(noise).sum()


def test_the_tree_grows_with_the_number_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default five megabytes, more from 23 columns on and at most 40; fewer measured pairs become patches then."""
    by_columns = {
        columns: Sift().model_mb(schema({f"c{place}": 2 for place in range(columns)}).domain)
        for columns in (2, 22, 23, 50, 64, 65, 300)
    }
    assert by_columns == pytest.approx({2: 5, 22: 5, 23: 5.06, 50: 24.5, 64: 40, 65: 40, 300: 40})
    assert Sift(max_model_mb=3.0).model_mb(schema().domain) == 3.0
    patches = []
    for by_pair in (0.0, 0.02):
        monkeypatch.setattr("understudy.mechanisms.marginal.sift._MODEL_MB", 0.01)
        monkeypatch.setattr("understudy.mechanisms.marginal.sift._MODEL_MB_PER_PAIR", by_pair)
        model, _ = fit(tangled(4_000), ZCDP(0.5))
        patches.append(len(getattr(model.distribution, "patches", ())))
    assert patches[0] > patches[1]


def test_a_hopeless_budget_leaves_the_dependences_unmeasured() -> None:
    _, ledger = fit(tangled(500), ZCDP(0.0005))
    assert not any("dependence" in entry.purpose for entry in ledger.entries())
    assert ledger.spent == pytest.approx(0.0005, rel=1e-6)


@pytest.mark.parametrize("budget", [PureDP(2.0), ApproxDP(1.0, 1e-6), ZCDP(0.1), GDP(1.0)])
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()])
def test_every_kind_of_budget_and_unit(budget: Any, unit: Unit) -> None:
    model, _ = fit(tangled(3_000), budget, unit=unit, rounds=2)  # a ledger refuses what is beyond its budget
    assert len(model.sample(50, seed=1)) == 50


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", [ZCDP(1e-4), ZCDP(1e4), PureDP(0.01), PureDP(1e5)], ids=repr)
def test_nothing_fails_after_a_charge_on_a_table_of_nobody(rows: int, unit: Unit, budget: Any) -> None:
    """Hostile sizes: numbers of rows that come out negative, noise far above and far below everything."""
    model, _ = fit(tangled(rows), budget, unit=unit)
    assert len(model.sample(5, seed=0)) == 5


@pytest.mark.parametrize("budget", [ZCDP(0.01), ZCDP(2.0), PureDP(1.0), PureDP(100.0)], ids=repr)
def test_a_large_share_for_distances_leaves_something_for_the_rest(budget: Any) -> None:
    """Columns that are measured again may take seven tenths: shares of the whole would not add up."""
    model, _ = fit(tangled(400), budget, gap_share=0.4)
    assert len(model.sample(5, seed=0)) == 5


def test_the_same_table_and_noise_give_the_same_model() -> None:
    """Nothing but the curator is random: a fit can be repeated from its noise."""
    private = tangled(2_000)
    first, _ = fit(private, ZCDP(0.5), rounds=3)
    second, _ = fit(private, ZCDP(0.5), rounds=3)
    for left, right in zip(first.measurements, second.measurements, strict=True):
        assert left.clique == right.clique
        np.testing.assert_array_equal(left.values, right.values)


def test_certified_errors_are_measured_on_every_marginal() -> None:
    model, ledger = fit(tangled(5_000), ZCDP(1.0), certify=0.02, rounds=3)
    assert model.history is not None
    assert model.history.certificate is not None
    assert len(model.history.certificate.cliques) == 56
    assert ledger.spent == pytest.approx(1.0, rel=1e-6)


def test_pairs_that_matter_more_get_less_noise() -> None:
    private = tangled(4_000)
    domain = private.schema.domain
    cliques = all_kway(domain, 2).cliques
    weights = tuple(100.0 if "c0" in clique else 1.0 for clique in cliques)
    model, _ = fit(private, ZCDP(0.02), workload=Workload(domain, cliques, weights), rounds=1)
    plain, _ = fit(private, ZCDP(0.02), workload=all_kway(domain, 2), rounds=1)

    def scales(fitted: Model) -> tuple[set[float], set[float]]:
        """Noise of pairs with the column and without it, the one of the round left out."""
        pairs = [item for item in fitted.measurements[:-1] if len(item.clique) == 2]
        return {item.scale for item in pairs if "c0" in item.clique}, {
            item.scale for item in pairs if "c0" not in item.clique
        }

    with_it, without = scales(model)
    assert max(with_it) < min(without)
    assert np.mean(list(scales(plain)[0])) == pytest.approx(np.mean(list(scales(plain)[1])), rel=0.1)


def test_rules_of_the_schema_hold_in_patches_and_rows() -> None:
    codes = tangled_codes(3_000)
    forbidden = Schema.parse(
        "columns: ["
        + ", ".join(f"{{name: {name}, kind: integer, minimum: 0, maximum: 5}}" for name in WIDE)
        + "]\nconstraints: ['not (c0 == 0 and c1 == 0)']"
    )
    both = (codes["c0"] == 0) & (codes["c1"] == 0)
    legal = LocalTable(forbidden, {name: column[~both] for name, column in codes.items()})
    model, _ = fit(legal, ZCDP(1.0), max_model_mb=0.01, rounds=6)
    assert isinstance(model.distribution, PatchedModel)
    assert model.distribution.marginals([("c0", "c1", "c2")])[0][0, 0].sum() == 0
    drawn = model.sample(2_000, seed=0)
    assert not ((drawn["c0"] == 0) & (drawn["c1"] == 0)).any()


def test_an_unmeasured_difference_is_taken_out_and_a_large_one_kept() -> None:
    generator = np.random.default_rng(0)
    expected = np.full(400, 50.0)
    noisy = expected + generator.normal(0, 10, 400)
    assert np.abs(nearer(noisy, expected, 100.0) - expected).sum() < 0.3 * np.abs(noisy - expected).sum()
    truth = expected * generator.lognormal(0, 1, 400)
    noisy = truth + generator.normal(0, 10, 400)
    assert np.abs(nearer(noisy, expected, 100.0) - truth).sum() < np.abs(noisy - truth).sum()


@pytest.mark.parametrize("variance", [1e-12, 1e-3, 1e9])
@pytest.mark.parametrize("scale", [0.0, 1e-9, 1.0, 1e12])
def test_extreme_noise_and_counts_give_numbers(variance: float, scale: float) -> None:
    generator = np.random.default_rng(1)
    expected = scale * generator.random((4, 5))
    found = nearer(expected + generator.normal(0, variance**0.5, (4, 5)), expected, variance)
    assert np.isfinite(found).all()


def test_dependences_below_their_noise_are_mostly_noise() -> None:
    generator = np.random.default_rng(2)
    truth = np.append(np.zeros(95), np.full(5, 5_000.0))
    found = without_noise(truth + generator.normal(0, 300, 100), 300.0)
    assert (found > 0).all()
    assert found[95:].min() > 4_000
    assert found[:95].mean() < 300
    assert np.isfinite(without_noise(np.full(3, -1e9), 1.0)).all()


@pytest.mark.parametrize(
    "options",
    [
        {"column_share": 0.0},
        {"column_noise": -0.1},
        {"column_share": 0.9, "gap_share": 0.2},
        {"column_share": 0.9, "gap_share": 0.05},
        {"pair_share": 1.0},
        {"rounds": 0},
        {"max_model_mb": 0.0},
        {"certify": 1.0},
    ],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BudgetError):
        Sift(**options)


# ------------------------------------------------------------------------------------ columns of two values

TWO_VALUED = {f"c{number}": 2 for number in range(10)}


def two_valued_codes(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Ten columns of two values: a hidden cause of most of them, and one that is the parity of two others more often than not."""
    generator = np.random.default_rng(seed)
    cause = generator.random(rows) < 0.4
    codes = {
        name: (generator.random(rows) < np.where(cause, 0.75, 0.05 + 0.04 * number)).astype(np.uint8)
        for number, name in enumerate(TWO_VALUED)
    }
    parity = codes["c7"] ^ codes["c8"]
    codes["c9"] = np.where(generator.random(rows) < 0.8, parity, codes["c9"]).astype(np.uint8)
    return codes


def two_valued(rows: int) -> LocalTable:
    return LocalTable(schema(TWO_VALUED), two_valued_codes(rows))


def test_sums_of_signs_come_in_the_order_of_the_privacy_section_and_cost_the_budget() -> None:
    model, ledger = fit(two_valued(20_000), ZCDP(0.2))
    purposes = [entry.purpose for entry in ledger.entries() if "allowance" not in entry.purpose]
    assert purposes[0].startswith("measure 10 one-way marginals")
    assert purposes[1] == "measure the sums of signs of 45 pairs of columns"
    assert purposes[2] == "measure the sums of signs of 120 triples of columns"
    assert len(purposes) == 4
    assert purposes[3].endswith("sums of signs again")
    assert ledger.spent == pytest.approx(0.2, rel=1e-5)  # numbers are put on a grid, which is paid for
    assert [item.values.shape for item in model.statistics[:2]] == [(45,), (120,)]
    assert model.history is not None
    assert sum(model.history.batches) == len(model.measurements) == 10


def test_sums_of_signs_are_better_than_measuring_all_triples_and_than_tables() -> None:
    """Seeded, so no false alarm; the wrong answers it catches are signs in another order than cells, and noise that stays in."""
    private = two_valued(20_000)
    by_signs, triples = (
        error(fit(private, ZCDP(budget), method)[0], private)
        for budget, method in ((0.02, "sift"), (0.02, "gaussian"))
    )
    assert by_signs < 0.8 * triples
    tables = error(fit(private, ZCDP(0.02), gap_share=0.02)[0], private)
    assert by_signs < 0.9 * tables


def test_pairs_and_triples_have_supported_intervals_that_a_file_keeps(tmp_path: Path) -> None:
    """Seeded; 180 cells of pairs at .999 each miss with probability below .18, and the wrong answer, signs in another order than cells, misses most of them."""
    private = two_valued(20_000)
    model, _ = fit(private, ZCDP(0.2))
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    pairs = all_kway(private.schema.domain, 2).cliques
    for pair, counts in zip(pairs, private.count_many(list(pairs)), strict=True):
        found, kept = (item.interval(pair, confidence=0.999) for item in (model, again))
        assert found.basis == "measured"
        assert (found.low <= counts).all()
        assert (counts <= found.high).all()
        assert found.width.max() < 0.05 * 20_000
        np.testing.assert_array_equal(found.low, kept.low)
    triple = ("c7", "c8", "c9")
    inside = model.count_interval(triple, [(0, 0, 1), (1, 1, 1)], confidence=0.999)
    truth = private.count(triple)
    assert inside.low <= truth[0, 0, 1] + truth[1, 1, 1] <= inside.high
    bounds = model.uncertainty.error_bounds([pairs[0], triple])
    assert bounds["kind"].tolist() == ["supported", "supported"]
    assert (bounds["bound"] < 0.5).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"cliques": []},
        {"cliques": [["c0", "nobody"]]},
        {"cliques": [["c0", "c1"]] * 3},
        {"cliques": [["three"], ["c0", "c1"], ["c0"]]},
        {"planned": None, "cliques": None},
    ],
    ids=["none", "unknown", "twice", "three-values", "no-list"],
)
def test_files_with_wrong_sums_of_signs_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """A file of a model of which one column has three values, with three sums of signs of the others."""
    right = SumsOfSigns(
        "sums of signs",
        np.zeros(3),
        "mechanism",
        cliques=(("c0",), ("c1",), ("c0", "c1")),
        scales=np.ones(3),
    )
    private = LocalTable(
        schema({"c0": 2, "c1": 2, "three": 3}),
        {name: np.zeros(50, dtype=np.uint8) for name in ("c0", "c1", "three")},
    )
    model, _ = fit(private, ZCDP(1.0), "independent")
    replace(model, statistics=(right,)).save(tmp_path / "right")
    (kept,) = Model.load(tmp_path / "right").statistics
    assert isinstance(kept, SumsOfSigns)
    assert (kept.cliques, kept.planned) == (right.cliques, False)
    with (
        zipfile.ZipFile(tmp_path / "right") as source,
        zipfile.ZipFile(tmp_path / "wrong", "w") as target,
    ):
        for name in source.namelist():
            content = source.read(name)
            if name == "model.json":
                document = json.loads(content)
                document["statistics"][0]["signs"].update(wrong)
                content = json.dumps(document).encode()
            target.writestr(name, content)
    with pytest.raises(ModelFileError):
        Model.load(tmp_path / "wrong")


def test_signs_of_triples_are_left_out_where_they_would_drown() -> None:
    """The budget is the same; the number of rows that is released decides."""
    for rows, wanted in ((40_000, True), (1_000, False)):
        _, ledger = fit(two_valued(rows), ZCDP(0.01))
        assert any("triples" in entry.purpose for entry in ledger.entries()) == wanted


@pytest.mark.parametrize(
    ("options", "budget"),
    [({"rounds": 2}, ZCDP(0.1)), ({"pair_share": 0.5}, ZCDP(0.1)), ({}, PureDP(2.0))],
    ids=["rounds", "pair-share", "pure"],
)
def test_tables_are_measured_where_options_or_budgets_ask_for_them(
    options: dict[str, Any], budget: Any
) -> None:
    _, ledger = fit(two_valued(3_000), budget, **options)
    assert not any("signs" in entry.purpose for entry in ledger.entries())


def sealed_signs(private: LocalTable, unit: Unit) -> tuple[list[float], list[float]]:
    """Return the exact sums that the mechanism seals of pairs and triples, and how far it says that one unit moves each."""
    found: list[tuple[float, float]] = []

    def note(self: Curator, sealed: Any, *, noise: Any, purpose: str) -> list[float]:
        found.extend((float(item._exact), item.sensitivity) for item in sealed)
        return [0.0] * len(sealed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Curator, "measure_scalars", note)
        ledger = Ledger.in_memory(budget=ZCDP(1.0), unit=unit, table="t")
        curator = Curator(private, unit=unit, ledger=ledger)
        sums = SignSums(all_kway(private.schema.domain, 3).cliques, [1.0] * 4, rows=10.0)
        places = np.concatenate([sums.of(2), sums.of(3)])
        measure_sums(curator, sums, places, np.ones(len(places)), 0.5, "measure them", planned=True)
    return [value for value, _ in found], [most for _, most in found]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.integers(0, 12))
@pytest.mark.parametrize("replaced", [False, True])
def test_one_row_moves_each_sum_of_signs_by_no_more_than_is_claimed(
    replaced: bool, seed: int, rows: int
) -> None:
    """Random neighbours; every sum is that of the product of signs over the rows."""
    generator = np.random.default_rng(seed)
    names = ("a", "b", "c", "d")
    sizes = dict.fromkeys(names, 2)
    codes = {name: generator.integers(0, 2, rows + 1).astype(np.uint8) for name in names}
    other = {
        name: np.append(column[:-1], generator.integers(0, 2)).astype(np.uint8) if replaced else column[:-1]
        for name, column in codes.items()
    }
    unit = Unit.replace_one() if replaced else Unit.add_remove()
    first, claimed = sealed_signs(LocalTable(schema(sizes), codes), unit)
    second, _ = sealed_signs(LocalTable(schema(sizes), other), unit)
    asked = [*combinations(names, 2), *combinations(names, 3)]
    plus = {name: 1 - 2 * column.astype(int) for name, column in codes.items()}
    assert first == [int(np.prod([plus[name] for name in clique], axis=0).sum()) for clique in asked]
    for one, another, most in zip(first, second, claimed, strict=True):
        assert most == (2.0 if replaced else 1.0)
        assert abs(one - another) <= most


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=["add-remove", "replace-one"])
@pytest.mark.parametrize(
    "budget", [ZCDP(1e-4), ZCDP(1e4), ApproxDP(1.0, 1e-9), GDP(1e-3), GDP(1e3)], ids=repr
)
def test_signs_of_a_table_of_nobody(rows: int, unit: Unit, budget: Any) -> None:
    """Hostile sizes: numbers of rows that come out negative, noise far above and far below everything."""
    model, _ = fit(two_valued(rows), budget, unit=unit)
    assert len(model.sample(5, seed=0)) == 5


def test_signs_keep_rules_workloads_and_columns_of_one_value() -> None:
    codes = two_valued_codes(5_000)
    codes["c1"] = np.where(codes["c0"] == 0, 0, codes["c1"]).astype(np.uint8)
    codes["c2"][:] = 0
    sizes = TWO_VALUED | {"c2": 1}
    ruled = schema(sizes, constraints=[Constraint("c1 <= c0")])
    domain = ruled.domain
    workload = Workload(domain, (("c0", "c1", "c3"), ("c2", "c4"), ("c5", "c6")), (4.0, 1.0, 1.0))
    model, ledger = fit(LocalTable(ruled, codes), ZCDP(0.5), workload=workload, certify=0.05)
    purposes = [entry.purpose for entry in ledger.entries()]
    assert "measure the sums of signs of 4 pairs of columns" in purposes
    drawn = model.sample_codes(2_000, seed=1)
    assert not ((drawn["c1"] == 1) & (drawn["c0"] == 0)).any()
    assert not drawn["c2"].any()
    assert model.history is not None
    assert model.history.certificate is not None
    assert ledger.spent == pytest.approx(0.5, rel=1e-5)


def known_sums(rows: int, precision: float) -> tuple[SignSums, list[np.ndarray]]:
    """Sums of signs of a table, known with some precision and without any noise, and the exact marginals."""
    private = LocalTable(schema(TWO_VALUED), two_valued_codes(rows))
    cliques = all_kway(private.schema.domain, 3).cliques
    sums = SignSums(cliques, [1.0] * len(cliques), rows=float(rows))
    counts = private.count_many(list(sums.parts))
    values = np.array(
        [float((signs(len(part)) * table).sum()) for part, table in zip(sums.parts, counts, strict=True)]
    )
    sums.learn(np.arange(len(sums.parts)), values, np.full(len(values), precision))
    return sums, private.count_many(list(cliques))


def test_exact_sums_give_exact_tables() -> None:
    sums, exact = known_sums(1_000, 1e12)
    for made, table in zip(sums.tables(), exact, strict=True):
        np.testing.assert_allclose(made, table, atol=0.05)


def test_sums_far_below_their_noise_give_what_columns_say() -> None:
    """Of pairs and triples nothing is left, of columns everything: nothing is expected of them."""
    sums, _ = known_sums(1_000, 1e-8)
    for made in sums.tables():
        shares = made / made.sum()
        product = np.einsum("i,j,k->ijk", shares.sum((1, 2)), shares.sum((0, 2)), shares.sum((0, 1)))
        np.testing.assert_allclose(shares, product, atol=0.02)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), precision=st.sampled_from([1e-8, 1e-4, 1e-2, 1.0]))
def test_no_other_division_of_signs_is_expected_to_be_better(seed: int, precision: float) -> None:
    """Errors to expect after the division found, and after others that cost as much: random ones, and small steps away."""
    sums, _ = known_sums(2_000, precision)
    cost = 100 * precision
    found = sums.divide(cost)
    assert found.sum() == pytest.approx(cost)
    assert (found >= 0).all()

    def expected(shares: np.ndarray) -> float:
        prior = np.where(sums.order == 1, 0.0, 1 / np.maximum(sums._spread, 1e-9))
        left = 1 / (prior + sums._precision + shares)
        place = {part: number for number, part in enumerate(sums.parts)}
        return float(
            sum(
                math.sqrt(sum(left[place[part]] for k in (1, 2, 3) for part in combinations(clique, k)))
                for clique in sums.cliques
            )
        )

    generator = np.random.default_rng(seed)
    best = expected(found)
    for other in (generator.random(len(found)), found * generator.uniform(0.5, 2.0, len(found))):
        assert best <= expected(other * cost / other.sum()) * 1.002
