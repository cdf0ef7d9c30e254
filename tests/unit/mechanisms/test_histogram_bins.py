"""Bins, grouped tables, and what the four histograms refuse and release."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import read_table
from understudy.engine import DenseTable, distribution_from_arrays
from understudy.engine.distributions.dense import GroupedTable
from understudy.errors import BudgetError, DomainTooLarge, ModelFileError, SchemaError, WorkloadError
from understudy.mechanisms import Model, create
from understudy.mechanisms.histograms.bins import (
    Grid,
    choose_grid,
    even_grid,
    ladder,
    legitimate,
    planned_grids,
    schema_grid,
)
from understudy.privacy import GDP, ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit, noise_for
from understudy.schema import Domain, Schema

COLUMN = "name: t\ncolumns: [{name: x, kind: real, minimum: 0, maximum: 64, bins: %d}]"
MIXED = """
name: t
columns:
  - {name: size, kind: ordinal, values: [a, b, c, d, e], missing: true}
  - {name: colour, kind: categorical, values: [red, green, blue, white]}
  - {name: age, kind: integer, minimum: 0, maximum: 9, out_of_domain: to-other}
"""


def one_column(bins: int) -> Schema:
    return Schema.parse(COLUMN % bins)


def curator_of(
    schema: Schema, frame: pd.DataFrame, budget: Budget, *, unit: Unit | None = None, seed: int = 1
) -> Curator:
    protected = unit or Unit.add_remove()
    book = Ledger.in_memory(budget=budget, unit=protected, table="t")
    table = read_table(frame, schema)
    return Curator(table, unit=protected, ledger=book, randomness=SeededRandomness(seed))


def fit(
    name: str,
    schema: Schema,
    frame: pd.DataFrame,
    budget: Budget,
    *,
    unit: Unit | None = None,
    seed: int = 1,
    **options: Any,
) -> Model:
    return create(name, **options).fit(curator_of(schema, frame, budget, unit=unit, seed=seed), budget)


# ---------------------------------------------------------------------------- grids


def test_only_values_of_ordered_columns_are_merged() -> None:
    grid = even_grid(Schema.parse(MIXED), 2)
    assert [labels.tolist() for labels in grid.labels] == [
        [0, 0, 0, 1, 1, 2],  # missing stays by itself
        [0, 1, 2, 3],  # colours have no order
        [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2],  # so does other
    ]
    assert grid.coarse.sizes == (3, 4, 3)


@pytest.mark.parametrize("bins", [5, 37, 64, 100])
def test_the_grids_of_a_ladder_are_nested_and_grow(bins: int) -> None:
    grids = ladder(one_column(bins), max_cells=1_000)
    assert grids[0].cells == 1
    assert grids[-1].is_fine
    for coarse, fine in pairwise(grids):
        assert coarse.cells < fine.cells
        pairs = set(zip(fine.labels[0].tolist(), coarse.labels[0].tolist(), strict=True))
        assert len(pairs) == fine.cells, "a fine bin lies in two coarse ones"


def test_a_ladder_stops_where_the_table_gets_too_large() -> None:
    assert [grid.cells for grid in ladder(one_column(64), max_cells=20)] == [1, 2, 4, 8, 16]
    with pytest.raises(DomainTooLarge, match="fewer bins"):
        planned_grids(Schema.parse(MIXED), bins="private", max_cells=5, method="perturbed-histogram")


def test_a_private_choice_follows_shape_and_noise() -> None:
    """Flat data at a small budget want few bins; spikes at a large one want them all."""
    schema = one_column(256)
    flat = pd.DataFrame({"x": np.linspace(0, 64, 5_000, endpoint=False)})
    spikes = pd.DataFrame({"x": np.repeat([1.1, 17.3, 40.2], 2_000)})
    chosen = []
    for frame, epsilon in ((flat, 0.2), (spikes, 10.0)):
        curator = curator_of(schema, frame, PureDP(epsilon))
        noise = noise_for(curator.accounting, curator.unit, 0.9 * epsilon)
        grids = ladder(schema, max_cells=1_000)
        chosen.append(choose_grid(curator, grids, cost=0.1 * epsilon, noise=noise).cells)
        assert curator.ledger.spent == pytest.approx(0.1 * epsilon)
    assert chosen[0] <= 32
    assert chosen[1] == 256


def test_one_candidate_costs_nothing() -> None:
    curator = curator_of(one_column(8), pd.DataFrame({"x": [1.0]}), PureDP(1.0))
    grid = schema_grid(curator.schema)
    noise = noise_for(curator.accounting, curator.unit, 1.0)
    assert choose_grid(curator, [grid], cost=0.5, noise=noise) is grid
    assert curator.ledger.spent == 0


@pytest.mark.parametrize("how", ["simplex", "zero-truncation", "boundary-inflated"])
def test_counts_become_legitimate(how: str) -> None:
    noisy = np.array([[5.0, -2.0], [1.0, 30.0]])
    made = legitimate(noisy, 20.0, how=how)
    assert made.shape == noisy.shape
    assert (made >= 0).all()
    if how != "boundary-inflated":
        assert made.sum() == pytest.approx(20.0)
    assert made.max() <= 20.0 + 1e-9


# ---------------------------------------------------------------------------- grouped tables

SMALL = GroupedTable(
    Domain(("a", "b"), (5, 3)),
    (np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1])),
    np.array([[4.0, 6.0], [0.0, 30.0]]),
)


def dense_of(table: GroupedTable) -> DenseTable:
    widths = [np.bincount(labels) for labels in table.labels]
    cells = table.cells / np.multiply.outer(*widths)
    return DenseTable(table.domain, cells[np.ix_(*table.labels)])


@pytest.mark.parametrize("clique", [(), ("a",), ("b",), ("a", "b"), ("b", "a")])
def test_grouped_marginals_are_those_of_the_spread_table(clique: tuple[str, ...]) -> None:
    (made,) = SMALL.marginals([clique])
    (wanted,) = dense_of(SMALL).marginals([tuple(sorted(clique))])
    np.testing.assert_allclose(made, wanted.T if clique == ("b", "a") else wanted)


def test_grouped_samples_are_spread_evenly() -> None:
    codes = SMALL.sample_codes(4_000, np.random.default_rng(0))
    cells = np.zeros((5, 3))
    np.add.at(cells, tuple(codes.T.astype(int)), 1)
    wanted = dense_of(SMALL).cells * 100
    # whole strata: one-way marginals are off by a few records, never by sampling error
    assert np.abs(cells.sum(axis=0) - wanted.sum(axis=0)).max() <= 4
    assert np.abs(cells.sum(axis=1) - wanted.sum(axis=1)).max() <= 4
    assert cells[2:, 0].sum() == 0
    # columns are independent inside a cell: all six codes of it occur about equally often (5 sigma of 500)
    assert np.abs(cells[2:, 1:] - 500).max() < 5 * np.sqrt(500)


def test_grouped_tables_survive_a_file_and_refuse_nonsense() -> None:
    meta, arrays = SMALL.to_arrays()
    again = distribution_from_arrays("grouped-table", SMALL.domain, meta, arrays)
    np.testing.assert_array_equal(again.marginals([("a", "b")])[0], SMALL.marginals([("a", "b")])[0])
    with pytest.raises(ModelFileError):
        distribution_from_arrays("grouped-table", SMALL.domain, meta, {"cells": arrays["cells"]})
    for labels in ([0, 1, 0, 1, 1], [1, 1, 1, 2, 2], [0, 0, 2, 2, 2], [0, 0, 1]):
        with pytest.raises(WorkloadError):
            GroupedTable(SMALL.domain, (np.array(labels), SMALL.labels[1]), SMALL.cells)
    empty = GroupedTable(SMALL.domain, SMALL.labels, np.zeros((2, 2)))
    assert len(empty.sample_codes(7, np.random.default_rng(0))) == 7


# ---------------------------------------------------------------------------- the methods

FRAME = pd.DataFrame({"x": np.random.default_rng(3).gamma(2.0, 6.0, 1_500).clip(0, 63.9)})


@pytest.mark.parametrize("bins", ["schema", 16, "private"])
def test_a_perturbed_histogram_keeps_what_it_measured(bins: int | str) -> None:
    model = fit("perturbed-histogram", one_column(64), FRAME, PureDP(1.0), bins=bins)
    kept = (*model.measurements, *model.statistics)
    assert len(kept) == 1
    assert kept[0].scale == pytest.approx(1 / 0.9 if bins == "private" else 1.0)
    assert (len(model.measurements) == 1) == (kept[0].values.size == 64)
    assert model.marginal(["x"]).sum() == pytest.approx(max(0.0, kept[0].values.sum()), abs=1e-6)


def test_a_smoothed_histogram_releases_its_records_once() -> None:
    """Two samples of one model hold the same records; a fresh draw would be a second release."""
    model = fit("smoothed-histogram", one_column(8), FRAME, ApproxDP(2.0, 1e-6), records=300)
    shown = model.statistics[0].values
    assert shown.sum() == 300
    for seed in (1, 2):
        codes = model.sample_codes(300, seed=seed)["x"]
        np.testing.assert_array_equal(np.bincount(codes, minlength=8), shown)
        twice = model.sample_codes(600, seed=seed)["x"]
        np.testing.assert_array_equal(np.bincount(twice, minlength=8), 2 * shown)


def test_more_records_are_pulled_more_strongly_towards_uniform() -> None:
    notes = [
        create("smoothed-histogram", records=records)
        .plan(one_column(16), unit=Unit.add_remove(), budget=PureDP(1.0))
        .notes[1]
        for records in (100, 200)
    ]
    added = [float(note.split()[0].replace(",", "")) for note in notes]
    # t = 1 / (exp(epsilon / records) - 1) rows in each of 16 bins
    assert added == pytest.approx([16 / np.expm1(0.01), 16 / np.expm1(0.005)], rel=1e-4)


def test_a_sorted_histogram_pays_for_its_order_unless_it_is_public() -> None:
    measured = fit("sorted-histogram", one_column(16), FRAME, PureDP(1.0))
    assert [item.scale for item in (*measured.measurements, *measured.statistics)] == [2.0, 2.0]
    public = fit("sorted-histogram", one_column(16), FRAME, PureDP(1.0), order="decreasing")
    assert [item.scale for item in (*public.measurements, *public.statistics)] == [1.0]
    assert (np.diff(public.marginal(["x"])) <= 1e-9).all()
    listed = fit("sorted-histogram", one_column(4), FRAME, PureDP(1.0), order=[3, 2, 0, 1])
    assert (np.diff(listed.marginal(["x"])[[3, 2, 0, 1]]) >= -1e-9).all()


def test_sorted_counts_go_to_the_bins_of_their_rank() -> None:
    """At a huge budget the ranks are right, so every bin gets its own count back."""
    frame = pd.DataFrame({"x": np.repeat([0.5, 1.5, 2.5, 3.5], [50, 400, 10, 200])})
    schema = Schema.parse("name: t\ncolumns: [{name: x, kind: real, minimum: 0, maximum: 4, bins: 4}]")
    model = fit("sorted-histogram", schema, frame, PureDP(50.0))
    np.testing.assert_allclose(model.marginal(["x"]), [50, 400, 10, 200], atol=2)


@pytest.mark.parametrize("name", ["kde", "ecdf"])
def test_densities_keep_totals_and_shapes(name: str) -> None:
    model = fit(name, one_column(64), FRAME, ApproxDP(8.0, 1e-6), unit=Unit.replace_one())
    made = model.marginal(["x"])
    assert made.sum() == pytest.approx(1_500)
    exact = np.bincount(one_column(64).encode_frame(FRAME)["x"], minlength=64)
    assert np.abs(np.cumsum(made - exact)).max() < 150


def test_a_kernel_density_of_several_columns_keeps_groups_apart() -> None:
    schema = Schema.parse(
        """
name: t
columns:
  - {name: x, kind: real, minimum: 0, maximum: 10, bins: 40, missing: true}
  - {name: y, kind: real, minimum: 0, maximum: 10, bins: 30}
  - {name: g, kind: boolean}
"""
    )
    generator = np.random.default_rng(5)
    g = generator.random(4_000) < 0.5
    x = np.where(g, generator.normal(3, 1, 4_000), generator.normal(7, 1, 4_000)).clip(0, 10)
    frame = pd.DataFrame({"x": x, "y": (10 - x + generator.normal(0, 0.5, 4_000)).clip(0, 10), "g": g})
    frame.loc[:399, "x"] = np.nan
    model = fit("kde", schema, frame, GDP(1.0), bandwidth=0.05)
    table = model.marginal(["x", "g"])
    assert table[-1].sum() == pytest.approx(400, abs=60)
    middles = np.arange(40) + 0.5
    means = (table[:-1] * middles[:, None]).sum(axis=0) / table[:-1].sum(axis=0) / 4
    assert means == pytest.approx([7, 3], abs=0.5)
    both = model.marginal(["x", "y"])[:-1]
    spread = np.cov(np.indices(both.shape).reshape(2, -1), aweights=both.ravel())
    assert spread[0, 1] / np.sqrt(spread[0, 0] * spread[1, 1]) < -0.8


# ---------------------------------------------------------------------------- refusals

ONE = one_column(16)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("ecdf", MIXED, SchemaError),
        ("ecdf", "name: t\ncolumns: [{name: a, kind: boolean}]", SchemaError),
        ("ecdf", "name: t\ncolumns: [{name: a, kind: ordinal, values: [one]}]", SchemaError),
        ("kde", "name: t\ncolumns: [{name: a, kind: boolean}]", SchemaError),
        (
            "kde",
            "name: t\ncolumns:\n" + "\n".join(f"  - {{name: c{i}, kind: integer, minimum: 0, maximum: 3}}" for i in range(4)),
            SchemaError,
        ),
        ("kde", "name: t\ncolumns: [{name: a, kind: integer, minimum: 0, maximum: 5000}]", DomainTooLarge),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_served_are_refused_in_the_plan(
    name: str, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        create(name).plan(Schema.parse(text), unit=Unit.add_remove(), budget=ApproxDP(1.0, 1e-6))


@pytest.mark.parametrize(
    "name", ["perturbed-histogram", "smoothed-histogram", "sorted-histogram", "universal-histogram", "kde"]
)
def test_too_many_cells_are_refused_with_a_suggestion(name: str) -> None:
    with pytest.raises(DomainTooLarge, match="fewer bins"):
        create(name, max_cells=10).plan(ONE, unit=Unit.add_remove(), budget=ApproxDP(1.0, 1e-6))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("perturbed-histogram", {"bins": 0}),
        ("perturbed-histogram", {"bins": "scott"}),
        ("perturbed-histogram", {"bins_share": 1.0}),
        ("perturbed-histogram", {"post_processing": "none"}),
        ("perturbed-histogram", {"max_cells": 0}),
        ("smoothed-histogram", {"records": 0}),
        ("smoothed-histogram", {"records": 30_000}),
        ("smoothed-histogram", {"bins": "private"}),
        ("sorted-histogram", {"order": "alphabetical"}),
        ("sorted-histogram", {"order_share": 0.0}),
        ("sorted-histogram", {"bins": "private"}),
        ("universal-histogram", {"branching": 1}),
        ("universal-histogram", {"levels": "best"}),
        ("universal-histogram", {"bins": "private"}),
        ("universal-histogram", {"post_processing": "none"}),
        ("kde", {"bandwidth": 0.0}),
        ("kde", {"bandwidth": "scott"}),
        ("kde", {"bandwidth_share": 2.0}),
        ("kde", {"bins": "private"}),
        ("ecdf", {"points": 1}),
        ("ecdf", {"points": 1_000}),
        ("ecdf", {"rows_share": 0.0}),
    ],
)
def test_options_that_make_no_sense(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(BudgetError):
        create(name, **options)


@pytest.mark.parametrize("order", ["increasing", [0, 1], [0] * 1056])
def test_a_public_order_must_fit_the_bins(order: Any) -> None:
    with pytest.raises(SchemaError):
        create("sorted-histogram", order=order).plan(
            Schema.parse(MIXED), unit=Unit.add_remove(), budget=PureDP(1.0)
        )


def test_a_grid_of_codes_releases_a_marginal() -> None:
    grid = schema_grid(ONE)
    assert isinstance(grid, Grid)
    assert grid.is_fine
    assert grid.distribution(np.ones(16)).kind == "dense"
    assert even_grid(ONE, 4).distribution(np.ones(4)).kind == "grouped-table"
