"""Trees of bins and their consistent counts, held to brute-force least squares."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import read_table
from understudy.engine import project_to_simplex
from understudy.errors import BudgetError
from understudy.mechanisms import Model, create
from understudy.mechanisms.histograms.bins import Grid
from understudy.mechanisms.histograms.universal import (
    consistent,
    nested,
    parents_of,
    tree_of,
    without_negatives,
)
from understudy.privacy import GDP, ZCDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Schema


def leaves_of(*sizes: int) -> Grid:
    names = tuple(f"c{i}" for i in range(len(sizes)))
    return Grid(Domain(names, sizes), tuple(np.arange(size) for size in sizes))


SHAPES = [((6,), 2), ((7,), 3), ((16,), 4), ((1,), 2), ((5, 3), 2), ((4, 4, 3), 3), ((9, 2), 8)]


@pytest.mark.parametrize(("sizes", "branching"), SHAPES)
def test_trees_are_nested_from_one_cell_to_all(sizes: tuple[int, ...], branching: int) -> None:
    tree = tree_of(leaves_of(*sizes), branching=branching)
    assert tree[0].cells == 1
    assert tree[-1].coarse.sizes == sizes
    for coarse, fine in pairwise(tree):
        parents = parents_of(fine, coarse)
        assert len(parents) == fine.cells
        # every fine cell lies in the coarse cell its codes lie in
        for cell in range(fine.cells):
            place = np.unravel_index(cell, fine.coarse.sizes)
            first = [int(np.flatnonzero(fine.labels[a] == i)[0]) for a, i in enumerate(place)]
            above = [int(coarse.labels[a][code]) for a, code in enumerate(first)]
            assert parents[cell] == np.ravel_multi_index(above, coarse.coarse.sizes)
        most = branching ** len(sizes)
        assert np.bincount(parents).min() >= 1
        assert np.bincount(parents).max() <= most


def brute_force(
    noisy: list[np.ndarray | None], variances: list[float], parents: list[np.ndarray]
) -> list[np.ndarray]:
    """Weighted least squares over the leaves, with known levels as (almost) exact."""
    leaves = len(noisy[-1])  # type: ignore[arg-type]
    sums = [np.eye(leaves)]
    for parent in reversed(parents):
        above = np.zeros((parent.max() + 1, leaves))
        np.add.at(above, parent, sums[0])
        sums.insert(0, above)
    fixed = [np.array(values) for values, v in zip(noisy, variances, strict=True) if v == 0]
    rows, targets = [], []
    for matrix, values, variance in zip(sums, noisy, variances, strict=True):
        if values is not None and variance > 0:
            rows.append(matrix / np.sqrt(variance))
            targets.append(values / np.sqrt(variance))
    a, b = np.concatenate(rows), np.concatenate(targets)
    if not fixed:
        best = np.linalg.lstsq(a, b, rcond=None)[0]
    else:  # the total is known: one Lagrange multiplier
        ones = np.ones((1, leaves))
        system = np.block([[a.T @ a, ones.T], [ones, np.zeros((1, 1))]])
        best = np.linalg.solve(system, np.concatenate([a.T @ b, fixed[0]]))[:leaves]
    return [matrix @ best for matrix in sums]


@pytest.mark.parametrize("root", ["measured", "known", "missing"])
@pytest.mark.parametrize(("sizes", "branching"), SHAPES)
def test_two_passes_are_least_squares(sizes: tuple[int, ...], branching: int, root: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = tree_of(leaves_of(*sizes), branching=branching)
    if len(tree) == 1 and root != "measured":
        pytest.skip("a single cell is its own root")
    parents = nested(tree)
    for _ in range(5):
        noisy: list[np.ndarray | None] = [generator.normal(20, 10, grid.cells) for grid in tree]
        variances = generator.uniform(0.5, 8.0, len(tree)).tolist()
        if root == "known":
            variances[0] = 0.0
        elif root == "missing":
            noisy[0] = None
        made = consistent(noisy, variances, parents)
        for level, wanted in zip(made, brute_force(noisy, variances, parents), strict=True):
            np.testing.assert_allclose(level, wanted, atol=1e-6)


def test_hays_closed_form_for_binary_trees() -> None:
    """Theorem 3 of Hay et al.: z = (2^l - 2^(l-1)) / (2^l - 1) y + (2^(l-1) - 1) / (2^l - 1) sum of children's z."""
    generator = np.random.default_rng(1)
    tree = tree_of(leaves_of(8), branching=2)
    noisy: list[np.ndarray | None] = [generator.normal(10, 3, grid.cells) for grid in tree]
    z: list[np.ndarray] = [np.asarray(noisy[-1])]
    for height, values in enumerate(reversed(noisy[:-1]), start=2):
        share = (2**height - 2 ** (height - 1)) / (2**height - 1)
        z.insert(0, share * np.asarray(values) + (1 - share) * z[0].reshape(-1, 2).sum(axis=1))
    wanted = [z[0]]
    for level in z[1:]:
        missing = wanted[-1] - level.reshape(-1, 2).sum(axis=1)
        wanted.append(level + np.repeat(missing, 2) / 2)
    for made, level in zip(consistent(noisy, [1.0] * 4, nested(tree)), wanted, strict=True):
        np.testing.assert_allclose(made, level)


def test_leaves_must_be_measured() -> None:
    with pytest.raises(BudgetError):
        consistent([np.ones(1), None], [1.0, 1.0], [np.zeros(2, dtype=np.int64)])


def test_no_negatives_level_by_level_against_one_group_at_a_time(seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = tree_of(leaves_of(7, 5), branching=2)
    parents = nested(tree)
    agreed = consistent([generator.normal(2, 6, g.cells) for g in tree], [1.0] * len(tree), parents)
    made = without_negatives(agreed, parents)
    assert made[0][0] == max(0.0, agreed[0][0])
    for level, (above, here) in enumerate(pairwise(made)):
        assert (here >= 0).all()
        np.testing.assert_allclose(np.bincount(parents[level], here), above, atol=1e-9)
        for cell, total in enumerate(above):
            inside = parents[level] == cell
            np.testing.assert_allclose(
                here[inside], project_to_simplex(agreed[level + 1][inside], total), atol=1e-9
            )


# ---------------------------------------------------------------------------- the method

SCHEMA = Schema.parse("name: t\ncolumns: [{name: x, kind: real, minimum: 0, maximum: 64, bins: 64}]")
FRAME = pd.DataFrame({"x": np.random.default_rng(0).gamma(2.0, 6.0, 3_000).clip(0, 63.9)})


def fit(budget: Budget, unit: Unit, **options: object) -> Model:
    book = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(read_table(FRAME, SCHEMA), unit=unit, ledger=book, randomness=SeededRandomness(2))
    return create("universal-histogram", **options).fit(curator, budget)


@pytest.mark.parametrize("levels", ["uniform", "geometric"])
def test_the_levels_share_the_budget(levels: str) -> None:
    """The cost of all levels is the budget: epsilon adds up, rho adds up, mu squared adds up."""
    for unit in (Unit.add_remove(), Unit.replace_one()):
        kept = fit(PureDP(1.0), unit, levels=levels, branching=4)
        scales = [item.scale for item in (*kept.measurements, *kept.statistics)]
        assert len(scales) == (4 if unit.relation == "add-remove" else 3), "a known root is not paid for"
        assert sum(unit.histogram_l1 / scale for scale in scales) == pytest.approx(1.0, abs=1e-9)
        kept = fit(ZCDP(0.3), unit, levels=levels, branching=4)
        scales = [item.scale for item in (*kept.measurements, *kept.statistics)]
        assert sum(unit.histogram_l2**2 / scale**2 / 2 for scale in scales) == pytest.approx(0.3, abs=1e-9)


@pytest.mark.parametrize("post_processing", ["top-down", "simplex", "zero-truncation", "boundary-inflated"])
def test_models_are_legitimate(post_processing: str) -> None:
    model = fit(GDP(0.2), Unit.replace_one(), post_processing=post_processing)
    made = model.marginal(["x"])
    assert (made >= 0).all()
    if post_processing != "boundary-inflated":
        assert made.sum() == pytest.approx(3_000)


def test_leaves_may_be_coarser_than_the_schema() -> None:
    model = fit(PureDP(1.0), Unit.add_remove(), bins=16, branching=2)
    assert [item.values.size for item in model.statistics] == [2, 4, 8, 16]
    assert [item.clique for item in model.measurements] == [()]
    assert model.marginal(["x"]).shape == (64,)
