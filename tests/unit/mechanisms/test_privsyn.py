"""PrivSyn: which pairs it chooses, how it merges and pays for them, and how records come about."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement, all_kway, count_codes, workload_error
from understudy.mechanisms import Model, create
from understudy.mechanisms.allocation import direct_weights
from understudy.mechanisms.graphs.gum import Updates, make_consistent, synthesize_records
from understudy.mechanisms.graphs.privsyn import combine_pairs, noise_error, select_pairs
from understudy.privacy import GDP, PureDP, SeededRandomness, Unit
from understudy.privacy import Ledger as Book
from understudy.schema import Domain, Integer, Schema

SIZES = {"a": 4, "b": 4, "c": 3, "d": 2, "e": 5}


def schema(sizes: dict[str, int] = SIZES, **more: Any) -> Schema:
    columns = tuple(Integer(name, minimum=0, maximum=size - 1) for name, size in sizes.items())
    return Schema(columns=columns, name="graph", **more)


def table(n: int, seed: int = 0, **more: Any) -> LocalTable:
    """b and c follow a; d follows the parity of a and c together; e is alone."""
    generator = np.random.default_rng(seed)
    a = generator.integers(0, 4, n)
    b = np.where(generator.random(n) < 0.8, a, generator.integers(0, 4, n))
    c = np.where(generator.random(n) < 0.7, a % 3, generator.integers(0, 3, n))
    d = np.where(generator.random(n) < 0.9, (a + c) % 2, generator.integers(0, 2, n))
    codes = {"a": a, "b": b, "c": c, "d": d, "e": generator.integers(0, 5, n)}
    return LocalTable(schema(**more), {name: values.astype(np.uint8) for name, values in codes.items()})


def fit(private: LocalTable, budget: Any, unit: Unit | None = None, **options: Any) -> tuple[Model, Book]:
    unit = unit or Unit.add_remove()
    book = Book.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(private, unit=unit, ledger=book, randomness=SeededRandomness(3))
    return create("privsyn", **options).fit(curator, budget), book


@pytest.mark.parametrize("power", [0.5, 2 / 3])
def test_the_noise_of_a_selection_is_what_the_best_shares_leave(power: float) -> None:
    """Closed form against the shares themselves: scale falls with the cost (Laplace) or with its root (Gaussian)."""
    from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE

    cells = [4, 9, 100, 35]
    shares = np.array(direct_weights(PURE if power == 0.5 else GDP_ACCOUNTING, [1.0] * 4, cells))
    shares /= shares.sum()
    scales = 3.0 * (1 / shares if power == 0.5 else 1 / np.sqrt(shares))
    assert noise_error(cells, one_cell=3.0, power=power) == pytest.approx(float(np.dot(cells, scales)))


def _error(cells: list[int], gaps: list[float], one_cell: float, items: list[int]) -> float:
    left = sum(gap for index, gap in enumerate(gaps) if index not in items)
    return left + noise_error([cells[i] for i in items], one_cell=one_cell, power=2 / 3)


def test_pairs_are_chosen_as_a_slow_greedy_search_would(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(30):
        number = int(generator.integers(1, 9))
        cells = generator.integers(2, 60, number).tolist()
        gaps = generator.normal(200, 200, number).tolist()
        one_cell = float(generator.uniform(0.5, 10))
        chosen, errors = select_pairs(cells, gaps, one_cell=one_cell, power=2 / 3)
        error = partial(_error, cells, gaps, one_cell)
        held: list[int] = []
        while len(held) < number:
            best = min(set(range(number)) - set(held), key=lambda index: error([*held, index]))
            if error([*held, best]) >= error(held):
                break
            held.append(best)
        assert chosen == held
        assert (np.diff(errors) < 0).all()
        assert errors[-1] == pytest.approx(error(held), rel=1e-6)


def test_merging_keeps_every_pair_and_every_limit(seed: int) -> None:
    generator = np.random.default_rng(seed)
    domain = Domain(tuple("abcdefg"), (2, 3, 4, 5, 2, 3, 9))
    pairs = [pair for pair in combinations(domain.names, 2) if generator.random() < 0.7]
    for limit in (1, 30, 200, 10_000):
        cliques = combine_pairs(domain, pairs, max_cells=limit)
        assert all(any(set(pair) <= set(clique) for clique in cliques) for pair in pairs)
        merged = [clique for clique in cliques if len(clique) > 2]
        assert all(domain.cells(clique) <= limit for clique in merged)
        assert all(pair in pairs for clique in cliques for pair in combinations(clique, 2))
        if limit == 10_000:
            assert merged
            seen: set[str] = set()
            for clique in merged:
                assert len(seen.intersection(clique)) <= 2
                seen.update(clique)
        if limit == 1:
            assert cliques == pairs


def test_shares_of_the_budget_are_those_of_the_paper() -> None:
    """A tenth, a tenth, and the rest with sigma proportional to cells^(-1/3)."""
    model, book = fit(table(20_000), GDP(2.0), max_clique_cells=1)
    columns, gaps, marginals = [entry for entry in book.entries() if entry.event is not None]
    assert "one-way" in columns.purpose
    assert "10 pairs" in gaps.purpose
    assert "marginals" in marginals.purpose
    chosen = [item for item in model.measurements if len(item.clique) > 1]
    assert {item.clique for item in chosen} >= {("a", "b"), ("a", "c"), ("a", "d")}
    constant = [item.scale * item.values.size ** (1 / 3) for item in chosen]
    assert max(constant) == pytest.approx(min(constant), rel=1e-6)
    spent = [sum(1 / item.scale**2 for item in part) for part in (model.measurements[:5], chosen)]
    assert spent[0] == pytest.approx(0.4, rel=1e-6)
    assert spent[1] == pytest.approx(3.2, rel=1e-3)
    assert book.spent == pytest.approx(4.0, rel=1e-3)
    assert book.spent <= 4.0


def test_columns_that_drown_in_noise_are_measured_again() -> None:
    """200 rows at mu .2: a tenth leaves noise of a multiple of the rows; seven tenths go to the columns, the rest is divided."""
    model, book = fit(table(200), GDP(0.2))
    twice, once = model.measurements[:10], fit(table(200), GDP(0.2), column_noise=0)[0].measurements
    assert [item.clique for item in twice] == [(name,) for name in SIZES] * 2
    assert sum(1 / item.scale**2 for item in twice) == pytest.approx(0.7 * 0.04, rel=1e-6)
    assert [item.clique for item in once[:5]] == [(name,) for name in SIZES]
    assert 0.99 * 0.04 < book.spent <= 0.04
    assert model.history is not None
    assert model.history.batches[:2] == (5, 5)
    large, _ = fit(table(20_000), GDP(2.0))
    assert sum(len(item.clique) == 1 for item in large.measurements) == 5, "large tables are not concerned"


def test_a_group_of_dependent_columns_is_one_marginal() -> None:
    model, _ = fit(table(50_000), GDP(5.0))
    cliques = [item.clique for item in model.measurements]
    assert any({"a", "c", "d"} <= set(clique) for clique in cliques), cliques


def test_without_a_pair_that_is_worth_it_columns_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.mechanisms.graphs.privsyn.select_pairs", lambda *_, **__: ([], [0.0]))
    model, book = fit(table(3_000), PureDP(0.5))
    assert [item.clique for item in model.measurements] == [(name,) for name in SIZES] * 2
    assert book.spent >= 0.99 * 0.5


def test_a_single_column_gets_everything() -> None:
    codes = np.random.default_rng(0).integers(0, 6, 100).astype(np.uint8)
    model, book = fit(LocalTable(schema({"x": 6}), {"x": codes}), PureDP(1.0))
    assert [item.clique for item in model.measurements] == [("x",)]
    assert book.spent >= 0.99


def test_pairs_that_are_too_large_are_never_measured_and_the_plan_says_so() -> None:
    method = create("privsyn", max_cells=18)
    plan = method.plan(schema(), unit=Unit.add_remove(), budget=PureDP(1.0))
    assert "1 pairs have more than 18 cells" in " ".join(plan.notes) or "pairs have more than 18" in " ".join(
        plan.notes
    )
    model, _ = fit(table(5_000), GDP(5.0), max_cells=18, max_clique_cells=1)
    assert all(item.values.size <= 18 for item in model.measurements)


def test_a_table_that_is_too_large_is_refused_before_anything_is_spent() -> None:
    wide = schema({"a": 3_000, "b": 3_000})
    records = LocalTable(wide, {name: np.zeros(5, dtype=np.uint16) for name in ("a", "b")})
    book = Book.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="t")
    curator = Curator(records, unit=Unit.add_remove(), ledger=book)
    with pytest.raises(DomainTooLarge, match="max_cells"):
        create("privsyn", max_cells=1_000).fit(curator, PureDP(1.0))
    assert book.spent == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"column_share": 0.0},
        {"gap_share": -1.0},
        {"column_noise": -0.1},
        {"column_share": 0.5, "gap_share": 0.5},
        {"max_clique_cells": 0},
        {"iterations": 0},
        {"records": "gumm"},
        {"max_model_mb": float("nan")},
    ],
)
def test_options_without_a_meaning_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(BudgetError, match=next(iter(bad))):
        create("privsyn", **bad)


def test_consistent_tables_agree_and_are_closer_to_the_truth(seed: int) -> None:
    """Averaging what several tables say about a column cannot make it worse by more than chance; here it must help.

    The one-way error of a single pair's table has variance 4 or more times that of the average of four sources, so a
    mean over 20 repetitions that is not lower would need a deviation of many standard errors.
    """
    generator = np.random.default_rng(seed)
    domain = Domain(("a", "b", "c"), (4, 5, 3))
    codes = np.stack(
        [np.minimum(generator.geometric(0.5, 4_000) - 1, size - 1) for size in domain.sizes], axis=1
    )
    cliques = [("a",), ("a", "b"), ("a", "c"), ("b", "c")]
    before, after = [], []
    for _ in range(20):
        noisy = [
            Measurement(
                clique,
                count_codes(domain, codes, clique) + generator.normal(0, 30, domain.shape(clique)),
                "gaussian",
                30.0,
            )
            for clique in cliques
        ]
        tables = dict(make_consistent(domain, noisy, 4_000.0))
        truth = count_codes(domain, codes, ("a",))
        before.append(np.abs(noisy[1].values.sum(axis=1) - truth).sum())
        after.append(np.abs(tables["a", "b"].sum(axis=1) - truth).sum())
        assert all((values >= 0).all() for values in tables.values())
        for clique, values in tables.items():
            assert values.sum() == pytest.approx(4_000.0, rel=1e-6), clique
        np.testing.assert_allclose(tables["a", "b"].sum(axis=1), tables["a", "c"].sum(axis=1), atol=4.0)
    assert np.mean(after) < 0.7 * np.mean(before)


def test_gradual_updates_reach_the_marginals(seed: int) -> None:
    records = table(4_000, seed)
    domain = records.schema.domain
    cliques = [("a", "b"), ("a", "c"), ("c", "d"), ("e",)]
    tables = [(clique, records.count(clique).astype(float)) for clique in cliques]
    generator = np.random.default_rng(seed)
    start = synthesize_records(domain, tables, 4_000, Updates(iterations=1, rate=1e-9), generator)
    made = synthesize_records(domain, tables, 4_000, Updates(), generator)

    def error(codes: np.ndarray) -> float:
        return max(
            float(np.abs(count_codes(domain, codes, clique) - wanted).sum()) / 4_000
            for clique, wanted in tables
        )

    assert error(start) > 0.3, "columns drawn apart do not know each other"
    assert error(made) < 0.05
    assert made.dtype == np.uint8
    assert (synthesize_records(domain, tables, 0, Updates(), generator)).shape == (0, 5)


@pytest.mark.parametrize("way", ["fitted", "gum"])
def test_rows_know_the_relations_and_keep_constraints(way: str) -> None:
    records = table(10_000, 5)
    (codes,) = records.chunks(rows=10_000)
    kept = ~((codes["a"] == 3) & (codes["b"] == 0))
    narrowed = schema(constraints=("not (a == 3 and b == 0)",))
    private = LocalTable(narrowed, {name: values[kept] for name, values in codes.items()})
    model, _ = fit(private, GDP(2.0), records=way)
    n = private.exact_row_count()
    drawn = model.sample_codes(n, seed=1)
    assert not ((drawn["a"] == 3) & (drawn["b"] == 0)).any()
    made = LocalTable(narrowed, {name: np.ascontiguousarray(values) for name, values in drawn.items()})
    workload = all_kway(narrowed.domain, 2)
    cliques = list(workload.cliques)
    error = workload_error(workload, private.count_many(cliques), made.count_many(cliques), n_rows=n)
    assert error < 0.06
    assert model.history is not None
    assert sum(model.history.batches) == len(model.measurements)
