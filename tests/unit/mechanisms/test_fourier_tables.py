"""Consistent k-way tables from Fourier coefficients: exactness, consistency, the linear programme, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Workload, all_kway
from understudy.mechanisms import Model, create
from understudy.mechanisms.histograms.transforms.fourier import (
    closest_table,
    coefficients_for,
    maximal,
    spread_table,
)
from understudy.mechanisms.histograms.transforms.look import interaction_basis
from understudy.privacy import GDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Schema


def schema_of(sizes: tuple[int, ...], constraints: str = "") -> Schema:
    names = "abcdefghijklmnop"
    columns = "\n".join(
        f"  - {{name: {name}, kind: integer, minimum: 0, maximum: {size - 1}}}"
        for name, size in zip(names, sizes, strict=False)
    )
    return Schema.parse(f"name: t\ncolumns:\n{columns}\n{constraints}")


def table_of(schema: Schema, rows: int = 600, seed: int = 0) -> LocalTable:
    """Columns that rise together."""
    generator = np.random.default_rng(seed)
    shared = generator.random(rows)
    sizes = schema.domain.sizes
    return LocalTable(
        schema,
        {
            name: np.clip((shared + generator.normal(0, 0.2, rows)) * size, 0, size - 1).astype(np.uint16)
            for name, size in zip(schema.names, sizes, strict=True)
        },
    )


def fit(
    table: LocalTable, budget: Budget, unit: Unit | None = None, seed: int = 0, **options: Any
) -> tuple[Model, Curator]:
    chosen = unit or Unit.add_remove()
    book = Ledger.in_memory(budget=budget, unit=chosen, table="t")
    curator = Curator(table, unit=chosen, ledger=book, randomness=SeededRandomness(seed))
    return create("fourier", **options).fit(curator, budget), curator


def exact_values(domain: Domain, parts: Any, weights: Any, table: LocalTable) -> np.ndarray:
    """Weighted coefficients computed from exact marginals, without the grid."""
    marginals = table.count_many(list(parts))
    return np.concatenate(
        [
            weight * (interaction_basis(domain, part) @ counts.reshape(-1))
            for part, counts, weight in zip(parts, marginals, weights, strict=True)
        ]
    )


@pytest.mark.parametrize("allocation", ["optimal", "uniform"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(("sizes", "k"), [((2, 2, 2, 2), 2), ((3, 2, 4), 2), ((3, 2, 4), 3), ((1, 5, 2), 2)])
def test_exact_coefficients_give_back_exact_tables(
    sizes: tuple[int, ...], k: int, norm: str, allocation: str
) -> None:
    schema = schema_of(sizes)
    table = table_of(schema)
    workload = all_kway(schema.domain, k)
    design = coefficients_for(workload, total=True, norm=norm, allocation=allocation)
    values = exact_values(schema.domain, design.parts, design.weights, table)
    pieces = design.pieces(values)
    for clique, counts in zip(workload.cliques, table.count_many(workload.cliques), strict=True):
        np.testing.assert_allclose(design.table(clique, pieces, None), counts, atol=1e-8)
        np.testing.assert_allclose(design.table(clique, pieces, 600.0), counts, atol=1e-8)
    full = table.count(schema.names).reshape(-1)
    np.testing.assert_allclose(design.matrix() @ full, values, atol=1e-6)


def test_the_number_of_coefficients_of_binary_tables_is_that_of_the_paper() -> None:
    """All tables of k of p binary columns need the sum of p choose j for j up to k."""
    domain = Domain(tuple("abcdefg"), (2,) * 7)
    for k in (1, 2, 3):
        design = coefficients_for(all_kway(domain, k), total=True, norm="l1", allocation="uniform")
        assert sum(design.numbers) == sum(math.comb(7, j) for j in range(k + 1))
        assert design.reach(Unit.add_remove()).l1 == pytest.approx(sum(design.numbers), rel=1e-4)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_other_weights_have_a_smaller_expected_error(norm: str) -> None:
    """Perturb the optimal weights: the expected squared error at the same sensitivity only grows."""
    domain = Domain(("a", "b", "c"), (2, 3, 5))
    workload = all_kway(domain, 2)
    design = coefficients_for(workload, total=True, norm=norm, allocation="optimal")

    def error(weights: np.ndarray) -> float:
        scaled = type(design)(domain, design.parts, tuple(weights))
        reach = scaled.reach(Unit.add_remove())
        spread = sum(scaled.cell_variance(clique, 1.0) * domain.cells(clique) for clique in workload.cliques)
        return spread * (reach.l1 if norm == "l1" else reach.l2) ** 2

    best = error(np.array(design.weights))
    generator = np.random.default_rng(0)
    for _ in range(200):
        other = np.array(design.weights) * np.exp(generator.normal(0, 0.2, len(design.weights)))
        assert error(other) >= best * (1 - 1e-5)
    assert error(np.ones(len(design.parts))) > best * 1.02


def test_planned_variance_of_a_cell_is_what_noise_does() -> None:
    """Push unit noise through: the variance of every cell is the planned one, exactly (linear algebra)."""
    domain = Domain(("a", "b"), (2, 3))
    design = coefficients_for(all_kway(domain, 2), total=True, norm="l2", allocation="optimal")
    size = sum(design.numbers)
    columns = np.stack(
        [design.table(("a", "b"), design.pieces(row), None).reshape(-1) for row in np.eye(size)], axis=1
    )
    variances = np.square(columns).sum(axis=1)
    np.testing.assert_allclose(variances, design.cell_variance(("a", "b"), 1.0), rtol=1e-9)


@pytest.mark.parametrize("objective", ["total", "largest"])
@pytest.mark.parametrize("options", [{}, {"max_programme": 1}], ids=["programme", "engine"])
@pytest.mark.parametrize("budget", [PureDP(0.5), GDP(0.3)], ids=["pure", "gaussian"])
def test_tables_are_consistent_and_not_negative(
    budget: Budget, options: dict[str, Any], objective: str
) -> None:
    schema = schema_of((2, 3, 2, 4))
    model, _ = fit(table_of(schema), budget, objective=objective, **options)
    pairs = list(itertools.combinations(schema.names, 2))
    tables = dict(zip(pairs, model.marginals(pairs), strict=True))
    for pair, table in tables.items():
        assert (table >= 0).all()
        assert table.sum() == pytest.approx(model.total, rel=1e-6)
        for axis, name in enumerate(pair):
            for other, second in tables.items():
                if name in other:
                    np.testing.assert_allclose(
                        table.sum(axis=1 - axis),
                        second.sum(axis=1 - other.index(name)),
                        atol=1e-4 * model.total,
                    )


def test_the_programme_is_no_further_from_the_noisy_coefficients_than_the_truth() -> None:
    """Barak's bound: the true table is a candidate, so the largest difference is at most the largest noise."""
    schema = schema_of((2, 2, 2, 2, 2))
    domain, table = schema.domain, table_of(schema, rows=60)
    design = coefficients_for(all_kway(domain, 2), total=True, norm="l1", allocation="uniform")
    truth = design.matrix() @ table.count(schema.names).reshape(-1)
    generator = np.random.default_rng(1)
    everything = np.ones(domain.sizes, dtype=bool)
    for _ in range(20):
        noisy = truth + np.rint(generator.laplace(0, 16.0, len(truth)))
        largest, total = (
            closest_table(design.matrix(), noisy, allowed=everything, total=None, objective=objective)
            for objective in ("largest", "total")
        )
        assert largest is not None
        assert total is not None
        for made in (largest, total):
            assert made.min() >= 0
        apart = [np.abs(design.matrix() @ made - noisy) for made in (largest, total)]
        assert apart[0].max() <= np.abs(noisy - truth).max() + 1e-6
        assert apart[1].sum() <= np.abs(noisy - truth).sum() + 1e-6
        assert apart[0].max() <= apart[1].max() + 1e-6
        assert apart[1].sum() <= apart[0].sum() + 1e-6


@pytest.mark.parametrize("objective", ["total", "largest"])
@pytest.mark.parametrize("noise", [0.0, 2.0, 200.0])
def test_the_spread_table_is_on_the_optimal_face_and_has_more_entropy_than_its_corner(
    objective: str, noise: float
) -> None:
    """Also where noise is far larger than the table, so that no table fits and some cells must be empty."""
    schema = schema_of((2, 3, 2, 2))
    design = coefficients_for(all_kway(schema.domain, 2), total=False, norm="l1", allocation="optimal")
    matrix, everything = design.matrix(), np.ones(schema.domain.cells(), dtype=bool)
    everything[[3, 7]] = False
    cells = table_of(schema).count(schema.domain.names).ravel() * everything
    generator = np.random.default_rng(7)
    for _ in range(5):
        noisy = matrix @ cells + noise * generator.laplace(size=len(matrix))
        found, entropy = [], []
        for solve in (closest_table, spread_table):
            made = solve(matrix, noisy, allowed=everything, total=cells.sum(), objective=objective)
            assert made is not None
            assert made[~everything].sum() == 0
            assert made.min() >= 0
            assert made.sum() == pytest.approx(cells.sum())
            gaps = np.abs(matrix @ made - noisy)
            found.append(gaps.sum() if objective == "total" else gaps.max())
            shares = made[made > 0] / made.sum()
            entropy.append(-(shares * np.log(shares)).sum())
        assert found[1] <= 1.005 * found[0] + 2e-5 * cells.sum()
        assert entropy[1] > entropy[0]


def test_what_was_not_measured_is_left_open() -> None:
    """Three-way tables from measured pairs: a corner of the programme makes much of what nobody measured."""
    schema = schema_of((2,) * 6)
    table = table_of(schema, rows=3_000)

    def error(**options: Any) -> float:
        model, _ = fit(table, PureDP(8.0), **options)
        gaps = [
            np.abs(model.marginal(clique) - table.count(clique)).sum()
            for clique in itertools.combinations(schema.names, 3)
        ]
        return float(np.mean(gaps)) / 6_000

    assert error() < 0.25 * error(solution="vertex")


def test_negative_coefficients_have_a_programme_too() -> None:
    """Noise may say that there are fewer than no rows; the closest table is empty."""
    matrix = np.array([[1.0, 1.0], [1.0, -1.0]])
    made = closest_table(
        matrix, np.array([-9.0, 0.0]), allowed=np.ones(2, dtype=bool), total=None, objective="total"
    )
    assert made is not None
    assert made.tolist() == [0, 0]


def test_impossible_cells_stay_empty() -> None:
    schema = schema_of((3, 2, 2), "constraints:\n  - not (a == 2 and b == 1)\n")
    table = table_of(schema_of((3, 2, 2)), rows=300)
    rows = next(table.chunks(schema.names, rows=300))
    keep = ~((rows["a"] == 2) & (rows["b"] == 1))
    legal = LocalTable(schema, {name: values[keep] for name, values in rows.items()})
    for options in ({}, {"max_programme": 1}):
        model, _ = fit(legal, PureDP(0.3), **options)
        assert model.marginal(("a", "b"))[2, 1] == pytest.approx(0, abs=1e-9)
        drawn = model.sample_codes(200, seed=1)
        assert not ((drawn["a"] == 2) & (drawn["b"] == 1)).any()


@pytest.mark.parametrize("options", [{}, {"max_programme": 1}], ids=["programme", "engine"])
def test_a_public_number_of_rows_is_kept_and_not_measured(options: dict[str, Any]) -> None:
    schema = schema_of((2, 2, 3))
    model, _ = fit(table_of(schema), PureDP(0.5), Unit.replace_one(), **options)
    assert model.total == pytest.approx(600)
    numbers = model.statistics[0].values.size
    assert numbers == (1 + 1 + 2) + (1 + 2 + 2)
    private, _ = fit(table_of(schema), PureDP(0.5), **options)
    assert private.statistics[0].values.size == numbers + 1


def test_large_budgets_give_exact_tables() -> None:
    schema = schema_of((2, 3, 4))
    table = table_of(schema)
    for options in ({"k": 3}, {"k": 2, "objective": "largest"}, {"k": 9}):
        model, _ = fit(table, PureDP(5e4), **options)
        workload = all_kway(schema.domain, min(options["k"], 3))
        for made, counts in zip(
            model.marginals(workload.cliques), table.count_many(workload.cliques), strict=True
        ):
            np.testing.assert_allclose(made, counts, atol=0.1)


def test_only_the_wanted_tables_are_measured() -> None:
    schema = schema_of((2, 2, 2, 2))
    workload = Workload(schema.domain, (("a", "b"), ("c",)), (1.0, 1.0))
    model, curator = fit(table_of(schema), PureDP(1.0), workload=workload)
    assert model.statistics[0].values.size == 1 + 3 + 1
    assert model.provenance.spent == pytest.approx(1.0, rel=1e-6)
    assert [entry.purpose for entry in curator.ledger.entries() if entry.event is not None] == [
        "measure 5 Fourier coefficients"
    ]


def test_a_wide_table_goes_to_the_engine() -> None:
    schema = schema_of((3,) * 12)
    plan = create("fourier").plan(schema, unit=Unit.add_remove(), budget=PureDP(1.0))
    assert "too large for a linear programme" in plan.notes[1]
    model, _ = fit(table_of(schema), PureDP(5.0))
    assert len(model.sample(30, seed=0)) == 30


def test_too_many_coefficients_are_refused_with_a_suggestion() -> None:
    schema = schema_of((200,) * 5)
    for k in (2, 3, 5):
        with pytest.raises(DomainTooLarge, match="smaller k"):
            create("fourier", k=k).plan(schema, unit=Unit.add_remove(), budget=PureDP(1.0))
    small = schema_of((3, 2))  # six coefficients
    create("fourier", k=2, max_coefficients=6).plan(small, unit=Unit.add_remove(), budget=PureDP(1.0))
    with pytest.raises(DomainTooLarge, match="5 are allowed"):
        create("fourier", k=2, max_coefficients=5).plan(small, unit=Unit.add_remove(), budget=PureDP(1.0))


@pytest.mark.parametrize(
    "options", [{"k": 0}, {"allocation": "fair"}, {"objective": "least"}, {"max_programme": 0}]
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(BudgetError, match=next(iter(options))):
        create("fourier", **options)


def test_maximal_cliques() -> None:
    assert maximal([("a",), ("a", "b"), ("c",)]) == [("a", "b"), ("c",)]


@pytest.mark.parametrize("max_programme", [1_000_000, 1])
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=["add-remove", "replace-one"])
def test_a_number_of_rows_measured_before_is_used(unit: Unit, max_programme: int) -> None:
    """A release measures the number of rows first; it is then no coefficient, and not exact either.

    Catches: looking for it among the coefficients after the budget was spent.
    """
    table, budget = table_of(schema_of((2, 3))), PureDP(20.0)
    book = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(table, unit=unit, ledger=book, rows=580, randomness=SeededRandomness(1))
    model = create("fourier", max_programme=max_programme).fit(curator, budget)
    assert model.total == pytest.approx(580, abs=1)
