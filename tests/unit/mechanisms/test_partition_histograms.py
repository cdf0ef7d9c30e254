"""DPCube, NoiseFirst, StructureFirst, EFPA and P-HPartition: structure, budgets, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, DomainTooLarge, SchemaError
from understudy.mechanisms import Model, create
from understudy.mechanisms.histograms.partitions.dpcube import KdTree
from understudy.mechanisms.histograms.partitions.partition import best_buckets, line_of
from understudy.mechanisms.histograms.transforms.efpa import cosine_basis, fourier_basis
from understudy.privacy import GDP, ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

ONE_COLUMN = ("noise-first", "structure-first", "efpa", "p-hp")


def line_schema(bins: int, *, missing: bool = False) -> Schema:
    extra = ", missing: true" if missing else ""
    return Schema.parse(
        f"name: t\ncolumns: [{{name: a, kind: integer, minimum: 0, maximum: {bins - 1}{extra}}}]"
    )


def curator_of(
    schema: Schema, counts: np.ndarray, budget: Budget, unit: Unit | None = None, seed: int = 0
) -> Curator:
    """A curator of the table with these counts."""
    cells = np.asarray(counts)
    codes = np.unravel_index(np.repeat(np.arange(cells.size), cells.ravel()), cells.shape)
    columns = {name: code.astype(np.uint16) for name, code in zip(schema.names, codes, strict=True)}
    chosen = unit or Unit.add_remove()
    book = Ledger.in_memory(budget=budget, unit=chosen, table="t")
    return Curator(LocalTable(schema, columns), unit=chosen, ledger=book, randomness=SeededRandomness(seed))


def fit(
    name: str, schema: Schema, counts: np.ndarray, budget: Budget, **options: Any
) -> tuple[Model, Curator]:
    curator = curator_of(schema, counts, budget)
    return create(name, **options).fit(curator, budget), curator


def purposes(curator: Curator) -> list[str]:
    return [entry.purpose for entry in curator.ledger.entries() if entry.event is not None]


# ------------------------------------------------------------------ buckets


@pytest.mark.parametrize("penalty", [0.0, 1.0, 30.0, 1e6])
def test_penalised_buckets_are_brute_force(penalty: float) -> None:
    values = np.random.default_rng(3).normal(0, 3, 9) + np.repeat([0, 8, 2], 3)

    def cost(cuts: tuple[int, ...]) -> float:
        pieces = np.split(values, cuts)
        return sum(float(((p - p.mean()) ** 2).sum()) for p in pieces) + penalty * len(pieces)

    every = [cuts for k in range(9) for cuts in itertools.combinations(range(1, 9), k)]
    best = min(every, key=cost)
    found = best_buckets(values, penalty)
    assert cost(tuple(found[1:])) == pytest.approx(cost(best))
    assert found[0] == 0


def test_a_missing_entry_is_a_bucket_of_its_own() -> None:
    schema = line_schema(8, missing=True)
    line = line_of(schema, bins="schema", max_bins=100, method="p-hp")
    assert (line.cells, line.ordered) == (9, 8)
    counts = np.array([40] * 8 + [7])
    for name in ONE_COLUMN:
        model, _ = fit(name, schema, counts, PureDP(300.0))
        made = model.marginal(("a",))
        assert made[8] == pytest.approx(7, abs=0.6), name
        assert made[7] == pytest.approx(40, abs=0.6), name


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_bins_can_be_merged_first(name: str) -> None:
    schema = line_schema(60)
    counts = np.repeat([30, 10, 20], 20)
    model, _ = fit(name, schema, counts, PureDP(100.0), bins=6)
    np.testing.assert_allclose(model.marginal(("a",)), counts, atol=1.5)
    assert len(model.sample(50, seed=1)) == 50


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_one_bin_is_enough(name: str) -> None:
    """A column with one value has no structure to choose; everything measures the number of rows."""
    model, curator = fit(name, line_schema(1), np.array([50]), PureDP(20.0))
    assert model.total == pytest.approx(50, abs=3)
    assert len(purposes(curator)) == 1


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_the_number_of_rows_is_kept_where_it_is_public(name: str) -> None:
    schema = line_schema(16)
    budget = ApproxDP(0.2, 1e-6)
    curator = curator_of(schema, np.full(16, 9), budget, Unit.replace_one())
    model = create(name).fit(curator, budget)
    assert model.total == pytest.approx(144)


# ------------------------------------------------------------------ what is charged


def test_structure_first_pays_for_each_cut() -> None:
    schema, counts = line_schema(20), np.repeat([50, 5], 10)
    _, curator = fit("structure-first", schema, counts, PureDP(1.0), buckets=5)
    said = purposes(curator)
    assert said == [f"choose where bucket {k} of 5 begins" for k in (5, 4, 3, 2)] + ["measure 5 buckets"]
    costs = [
        curator.accounting.cost(entry.event) for entry in curator.ledger.entries() if entry.event is not None
    ]
    assert costs == pytest.approx([0.1] * 4 + [0.6])


@pytest.mark.parametrize("buckets", [1, 20])
def test_structure_first_without_cuts_measures_with_everything(buckets: int) -> None:
    model, curator = fit("structure-first", line_schema(20), np.full(20, 9), PureDP(1.0), buckets=buckets)
    assert len(purposes(curator)) == 1
    assert model.statistics[0].scale == pytest.approx(1.0)
    assert model.statistics[0].values.size == buckets


def test_structure_first_chooses_few_buckets_for_flat_and_many_for_rough_columns() -> None:
    flat = np.full(64, 100)
    rough = np.where(np.arange(64) % 2, 5_000, 0)
    for counts, wanted in ((flat, 1), (rough, 64)):
        model, curator = fit("structure-first", line_schema(64), counts, PureDP(5.0))
        assert model.statistics[0].values.size == wanted
        assert purposes(curator)[0].startswith("choose a number of buckets from 7")


def test_p_hp_returns_the_levels_it_did_not_need() -> None:
    """A flat column at a large budget stops at once; the counts then get nearly everything."""
    model, curator = fit("p-hp", line_schema(64), np.zeros(64, dtype=int), PureDP(3.0), structure_share=0.5)
    used = len(purposes(curator)) - 1
    counts = 3.0 - 1.5 * used / 3
    assert model.statistics[0].scale == pytest.approx(1 / counts, rel=1e-6)
    assert curator.spent == pytest.approx(3.0)


def test_gaussian_budgets_get_gaussian_noise() -> None:
    for name in (*ONE_COLUMN, "dpcube"):
        model, _ = fit(name, line_schema(16), np.full(16, 9), GDP(1.0))
        assert {item.noise for item in (*model.statistics, *model.measurements)} == {"gaussian"}, name


# ------------------------------------------------------------------ transforms


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("basis", [cosine_basis, fourier_basis])
def test_bases_are_orthonormal(basis: Any, size: int) -> None:
    np.testing.assert_allclose(basis(size) @ basis(size).T, np.eye(size), atol=1e-12)


def test_efpa_keeps_pairs_of_frequencies() -> None:
    """Sine and cosine of a frequency are kept or dropped together; a single wave needs three numbers at least."""
    counts = np.rint(1_000 + 900 * np.cos(2 * np.pi * np.arange(32) / 32)).astype(int)
    kept = set()
    for seed in range(8):
        curator = curator_of(line_schema(32), counts, PureDP(1.0), seed=seed)
        kept.add(create("efpa").fit(curator, PureDP(1.0)).statistics[0].values.size)
    assert all(number % 2 == 1 and 3 <= number < 32 for number in kept)


# ------------------------------------------------------------------ DPCube


def square_schema(sizes: tuple[int, ...]) -> Schema:
    return Schema.parse(
        "name: t\ncolumns:\n"
        + "\n".join(
            f"  - {{name: {name}, kind: integer, minimum: 0, maximum: {size - 1}}}"
            for name, size in zip("xyz", sizes, strict=False)
        )
    )


def boxed() -> np.ndarray:
    counts = np.full((12, 10), 5)
    counts[2:6, 3:9] = 400
    return counts


@pytest.mark.parametrize("rule", ["variance", "median"])
def test_dpcube_boxes_are_flat_and_cover_the_table(rule: str) -> None:
    generator = np.random.default_rng(0)
    noisy = boxed() + generator.normal(0, 3.0, (12, 10))
    labels = KdTree(noisy, np.ones((12, 10), dtype=bool), 9.0, 2.0, rule, 2.0).labels()
    for label in range(labels.max() + 1):
        place = np.argwhere(labels == label)
        assert len(place) == math.prod(place.max(axis=0) - place.min(axis=0) + 1), "a box"
        if rule == "variance":
            assert np.ptp(boxed()[labels == label]) == 0
    if rule == "variance":
        assert labels.max() + 1 <= 8


def test_dpcube_does_not_cut_noise() -> None:
    cuts = 0
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(0, 2.0, (16, 16))
        for rule in ("variance", "median"):
            cuts += KdTree(noise, np.ones((16, 16), dtype=bool), 4.0, 2.0, rule, 3.0).labels().max()
    assert cuts <= 8


def test_dpcube_beats_noisy_cells_on_boxes() -> None:
    schema = square_schema((12, 10))
    errors = {}
    for name, options in (("dpcube", {}), ("laplace", {}), ("dpcube cells", {"inside": "cells"})):
        total = 0.0
        for seed in range(6):
            budget = PureDP(0.3)
            curator = curator_of(schema, boxed(), budget, seed=seed)
            model = create(name.split()[0], **options).fit(curator, budget)
            total += float(np.square(model.marginal(("x", "y")) - boxed()).sum())
        errors[name] = total
    assert errors["dpcube"] < errors["laplace"] / 3
    assert errors["dpcube"] < errors["dpcube cells"]


def test_dpcube_leaves_impossible_cells_empty() -> None:
    schema = Schema.parse(
        """
name: t
columns:
  - {name: x, kind: integer, minimum: 0, maximum: 5}
  - {name: y, kind: integer, minimum: 0, maximum: 3}
constraints:
  - not (x > 3 and y == 0)
"""
    )
    counts = np.full((6, 4), 20)
    counts[4:, 0] = 0
    model, _ = fit("dpcube", schema, counts, PureDP(0.5))
    assert model.marginal(("x", "y"))[4:, 0].tolist() == [0, 0]


def test_dpcube_boxes_of_impossible_cells_hold_nothing() -> None:
    values = np.zeros((2, 4))
    allowed = np.array([[False] * 4, [True] * 4])
    assert KdTree(values, allowed, 1.0, 2.0, "variance", 2.0).labels().max() == 0


# ------------------------------------------------------------------ refusals

MANY = Schema.parse(
    "name: t\ncolumns: [{name: a, kind: integer, minimum: 0, maximum: 4}, {name: b, kind: integer, minimum: 0, maximum: 4}]"
)
UNORDERED = Schema.parse("name: t\ncolumns: [{name: a, kind: categorical, values: [x, y, z]}]")


@pytest.mark.parametrize("schema", [MANY, UNORDERED], ids=["two columns", "no order"])
@pytest.mark.parametrize("name", ONE_COLUMN)
def test_tables_of_another_kind_are_refused_with_a_suggestion(name: str, schema: Schema) -> None:
    budget = PureDP(1.0)
    with pytest.raises(SchemaError, match="use perturbed-histogram"):
        create(name).plan(schema, unit=Unit.add_remove(), budget=budget)
    curator = curator_of(schema, np.ones(schema.domain.sizes, dtype=int), budget)
    with pytest.raises(SchemaError):
        create(name).fit(curator, budget)
    assert curator.ledger.spent == 0


@pytest.mark.parametrize("name", [*ONE_COLUMN, "dpcube"])
def test_too_many_bins_are_refused_with_a_suggestion(name: str) -> None:
    limit = {"max_cells": 10} if name == "dpcube" else {"max_bins": 10}
    with pytest.raises(DomainTooLarge, match="fewer bins"):
        create(name, **limit).plan(line_schema(11), unit=Unit.add_remove(), budget=PureDP(1.0))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("noise-first", {"penalty": "none"}),
        ("noise-first", {"bins": 0}),
        ("noise-first", {"bins": "private"}),
        ("noise-first", {"max_bins": 0}),
        ("noise-first", {"post_processing": "hope"}),
        ("structure-first", {"buckets": 0}),
        ("structure-first", {"max_count": 0}),
        ("structure-first", {"structure_share": 1.0}),
        ("structure-first", {"structure_share": 0.6, "number_share": 0.4}),
        ("efpa", {"basis": "wavelet"}),
        ("efpa", {"choice_share": 0.0}),
        ("p-hp", {"levels": 0}),
        ("p-hp", {"structure_share": -0.1}),
        ("dpcube", {"rule": "mean"}),
        ("dpcube", {"inside": "out"}),
        ("dpcube", {"threshold": -1.0}),
        ("dpcube", {"bins": True}),
        ("dpcube", {"max_cells": 0}),
        ("dpcube", {"cell_share": 1.0}),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(BudgetError, match=next(iter(options))):
        create(name, **options)


def test_more_buckets_than_bins_are_refused_before_anything_is_spent() -> None:
    with pytest.raises(BudgetError, match="more than the 8 bins"):
        create("structure-first", buckets=9).plan(line_schema(8), unit=Unit.add_remove(), budget=PureDP(1.0))


@pytest.mark.parametrize("name", [*ONE_COLUMN, "dpcube"])
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_person("id", max_rows=3)])
def test_plans_say_how_noisy_it_will_be(name: str, unit: Unit) -> None:
    plan = create(name).plan(line_schema(32), unit=unit, budget=PureDP(1.0))
    assert plan.measurements[0].noise.scale >= unit.histogram_l1
    assert "scale" in plan.notes[0]
