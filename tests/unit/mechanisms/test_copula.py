"""DPCopula: layout, inversion of rank statistics, repaired matrices, mixed tables with fine grids."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import BudgetError, DomainTooLarge, ModelFileError, WorkloadError
from understudy.mechanisms import Model
from understudy.mechanisms.parametric.copula.copula import (
    ANGLES,
    DPCopula,
    correlation_from,
    dimensions_of,
    expected_curve,
    nearest_correlation,
)
from understudy.mechanisms.parametric.copula.distribution import GaussianCopula, Latent, orthant_tables
from understudy.mechanisms.parametric.margins import ladder_of, project_rows, refine
from understudy.privacy import GDP, ApproxDP, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Integer, Real, Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: x, kind: real, minimum: -4, maximum: 4}
  - {name: y, kind: real, minimum: 0, maximum: 60, missing: true}
  - {name: sick, kind: boolean}
  - {name: group, kind: categorical, values: [a, b, c]}
"""
)


def frame(n: int, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    group = generator.choice(3, n, p=[0.5, 0.3, 0.2])
    normal = generator.multivariate_normal([0, 0, 0], [[1, 0.7, 0.5], [0.7, 1, 0.3], [0.5, 0.3, 1]], n)
    y = np.clip(np.exp(normal[:, 1] * 0.6 + 1.5), 0, 60)
    y[generator.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "x": np.clip(normal[:, 0] * 0.8 + group - 0.7, -4, 4),
            "y": y,
            "sick": normal[:, 2] > 0.8,
            "group": np.array(["a", "b", "c"])[group],
        }
    )


def fit(data: pd.DataFrame, budget: PureDP | GDP | ApproxDP, **options: object) -> Model:
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(read_table(data, SCHEMA), unit=unit, ledger=ledger, randomness=SeededRandomness(2))
    return DPCopula(**options).fit(curator, budget)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"correlation": "kendall"}, {"per_part": True}, {"partition": ()}])
def test_a_large_budget_recovers_the_table(options: dict[str, object]) -> None:
    """With practically no noise: margins, rank correlations, missing share and differences between groups."""
    data = frame(6_000)
    model = fit(data, PureDP(5_000.0), **options)
    rows = model.sample(6_000, seed=1)
    columns = ["x", "y", "sick"]
    real, made = (table[columns].astype(float).corr(method="spearman").to_numpy() for table in (data, rows))
    np.testing.assert_allclose(made, real, atol=0.05)
    assert abs(rows["y"].isna().mean() - data["y"].isna().mean()) < 0.01
    assert (
        np.abs(np.quantile(rows["x"], [0.1, 0.5, 0.9]) - np.quantile(data["x"], [0.1, 0.5, 0.9])).max() < 0.1
    )
    if options != {"partition": ()}:
        means = [table.groupby("group")["x"].mean().to_numpy() for table in (data, rows)]
        np.testing.assert_allclose(means[1], means[0], atol=0.1)


def test_a_fine_grid_does_not_drown_in_noise() -> None:
    """1,024 cells with noise of scale 14 each would move the distribution function by far more than .06."""
    data = frame(5_000)
    rows = fit(data, ApproxDP(1.0, 1e-6)).sample(5_000, seed=1)
    grid = np.linspace(-4, 4, 200)
    real, made = (np.searchsorted(np.sort(table["x"]), grid) / 5_000 for table in (data, rows))
    assert np.abs(real - made).max() < 0.06


def test_the_layout_partitions_by_unordered_columns() -> None:
    layout = DPCopula()._layout(SCHEMA)
    assert layout.partition == ("group",)
    assert layout.latents == (("x", "value"), ("y", "value"), ("y", "state"), ("sick", "value"))
    assert (1, 2) not in layout.pairs
    assert len(layout.pairs) == 5
    assert DPCopula(partition=())._layout(SCHEMA).notes[0].startswith("group: without an order")
    assert DPCopula(max_parts=2)._layout(SCHEMA).partition == ()


def test_one_column_and_only_partition_columns() -> None:
    for text in (
        "columns: [{name: x, kind: real, minimum: 0, maximum: 1}]",
        "columns: [{name: g, kind: categorical, values: [a, b, c]}]",
    ):
        schema = Schema.parse(text)
        unit = Unit.replace_one()
        data = schema.decode({name: np.zeros(50, dtype=np.uint16) for name in schema.names}, seed=0)
        ledger = Ledger.in_memory(budget=GDP(1.0), unit=unit, table="t")
        curator = Curator(read_table(data, schema), unit=unit, ledger=ledger, randomness=SeededRandomness(2))
        model = DPCopula().fit(curator, GDP(1.0))
        assert len(model.sample(20, seed=0)) == 20
        assert curator.ledger.spent == pytest.approx(1.0)


def test_refusals_and_options() -> None:
    for options in (
        {"correlation": "pearson"},
        {"partition": "group"},
        {"max_parts": 0},
        {"margin_share": 1.0},
        {"groups": 1},
    ):
        with pytest.raises(BudgetError):
            DPCopula(**options)  # type: ignore[arg-type]
    wide = Schema.parse(
        "columns: [{name: a, kind: real, minimum: 0, maximum: 1, bins: 1000}, "
        "{name: b, kind: integer, minimum: 0, maximum: 99999}]"
    )
    with pytest.raises(DomainTooLarge):
        DPCopula(partition=("a",)).plan(wide, unit=Unit.add_remove(), budget=PureDP(1.0))
    plan = DPCopula().plan(SCHEMA, unit=Unit.add_remove(), budget=PureDP(1.0))
    assert "5 correlations" in plan.notes[-1]


# ---------------------------------------------------------------------- post-processing


def test_orthant_tables_agree_with_the_bivariate_normal() -> None:
    left, right = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.4])
    angles = np.linspace(-1.5, 1.5, 61)
    tables = orthant_tables(left, right, angles)
    np.testing.assert_allclose(tables.sum(axis=2), np.tile(left, (61, 1)), atol=1e-9)
    from scipy.special import ndtri

    for place in (4, 30, 45, 58):
        rho = float(np.sin(angles[place]))
        expected = multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf([ndtri(0.2), ndtri(0.6)])
        assert tables[place, 0, 0] == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("statistic", ["kendall", "scores"])
def test_statistics_invert_to_the_correlation_behind_them(statistic: str) -> None:
    """Also for columns with two or three values, whose ties shrink every rank statistic."""
    margins = {"fine": np.full((1, 100), 0.01), "binary": np.array([[0.8, 0.2]])}
    a = dimensions_of("fine", 100, margins["fine"], groups=24)[0]
    b = dimensions_of("binary", 2, margins["binary"], groups=24)[0]
    curve = expected_curve(a, b, 0, statistic=statistic)
    for place in (10, 25, 40, 55):
        found = correlation_from(curve, float(curve[place]), 0.0)
        assert found == pytest.approx(float(np.sin(ANGLES[place])), abs=1e-6)
    assert abs(correlation_from(curve, float(curve[36]), 10.0)) < 0.01  # all noise
    assert correlation_from(np.zeros(len(ANGLES)), 0.3, 0.1) == 0.0


def test_kendall_of_continuous_columns_is_the_arcsine() -> None:
    fine = dimensions_of("x", 400, np.full((1, 400), 1 / 400), groups=100)[0]
    curve = expected_curve(fine, fine, 0, statistic="kendall")
    inside = slice(10, 51)
    np.testing.assert_allclose(curve[inside], 2 / np.pi * ANGLES[inside], atol=0.02)


def test_repaired_matrices_are_correlations_and_close() -> None:
    generator = np.random.default_rng(0)
    noisy = np.corrcoef(generator.normal(size=(6, 40))) + generator.normal(0, 0.4, (6, 6))
    repaired = nearest_correlation(np.clip((noisy + noisy.T) / 2, -1, 1))
    assert np.linalg.eigvalsh(repaired).min() > 0
    np.testing.assert_array_equal(repaired.diagonal(), 1.0)
    fine = np.array([[1.0, 0.3], [0.3, 1.0]])
    np.testing.assert_array_equal(nearest_correlation(fine), fine)


def test_ladders_are_nested_and_refining_keeps_totals() -> None:
    for column in (
        Real("x", minimum=0, maximum=1),
        Integer("i", minimum=0, maximum=99, missing=True),
        Integer("j", minimum=0, maximum=4_000, missing=True, out_of_domain="to-other"),
    ):
        ladder = ladder_of(column)
        for coarse, fine in zip(ladder.steps, ladder.steps[1:], strict=False):
            assert all(len(np.unique(coarse[fine == group])) == 1 for group in range(int(fine.max()) + 1))
        exact = (
            np.random.default_rng(0)
            .multinomial(10_000, np.full(column.size, 1 / column.size), 3)
            .astype(float)
        )
        steps = [np.stack([np.bincount(step, row) for row in exact]) for step in ladder.steps]
        made = refine(ladder, steps, [1e-12] * len(steps), exact.sum(axis=1))
        np.testing.assert_allclose(made, exact, atol=1e-4)
        noisy = [step + np.random.default_rng(1).normal(0, 50, step.shape) for step in steps]
        rough = refine(ladder, noisy, [2_500.0] * len(steps), [10_000.0, 0.0, 5.0])
        np.testing.assert_allclose(rough.sum(axis=1), [10_000.0, 0.0, 5.0])
        assert (rough >= 0).all()


def test_projection_is_the_closest_point() -> None:
    values = np.random.default_rng(0).normal(size=(50, 6))
    made = project_rows(values, np.full(50, 2.0))
    np.testing.assert_allclose(made.sum(axis=1), 2.0)
    for row, close in zip(values, made, strict=True):
        free = close > 1e-12
        np.testing.assert_allclose(np.ptp((row - close)[free]), 0, atol=1e-9)
        assert (row[~free] <= (row - close)[free].max() + 1e-9).all()


def test_the_distribution_checks_its_parts() -> None:
    domain = Domain(("x", "y"), (2, 3))
    latents = (Latent("x", "value"), Latent("y", "value"), Latent("y", "state"))
    margins = {"x": np.array([[0.5, 0.5]]), "y": np.array([[0.2, 0.3, 0.5]])}
    good = GaussianCopula(domain, (), np.array([10.0]), latents, {"x": 2, "y": 2}, margins, np.eye(3)[None])
    meta, arrays = good.to_arrays()
    again = GaussianCopula.from_arrays(domain, meta, arrays)
    np.testing.assert_array_equal(
        good.sample_codes(50, np.random.default_rng(1)), again.sample_codes(50, np.random.default_rng(1))
    )
    np.testing.assert_allclose(good.marginals([("x",), ()])[0], [5, 5])
    counts = np.bincount(good.sample_codes(1_000, np.random.default_rng(0))[:, 1], minlength=3)
    np.testing.assert_allclose(counts, [200, 300, 500], atol=40)
    with pytest.raises(ModelFileError):
        GaussianCopula.from_arrays(domain, {**meta, "format": 9}, arrays)
    with pytest.raises(ModelFileError):
        GaussianCopula.from_arrays(domain, meta, {})
    for bad in (
        {"correlations": -np.eye(3)[None]},
        {"parts": np.array([-1.0])},
        {"latents": latents[:2]},
        {"margins": {**margins, "x": np.array([[0.0, 0.0]])}},
        {"values": {"x": 5, "y": 2}},
        {"correlations": np.eye(2)[None]},
    ):
        fields = {
            "domain": domain, "partition": (), "parts": np.array([10.0]), "latents": latents,
            "values": {"x": 2, "y": 2}, "margins": margins, "correlations": np.eye(3)[None],
        }  # fmt: skip
        with pytest.raises(WorkloadError):
            GaussianCopula(**{**fields, **bad})  # type: ignore[arg-type]
    with pytest.raises(WorkloadError):
        good.sample_codes(-1, np.random.default_rng(0))
