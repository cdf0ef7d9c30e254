"""Graphical models with patches: answers agree with the patches, conditions, files, and records."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from understudy.engine import GraphicalModel, estimate
from understudy.engine.distributions.distribution import distribution_from_arrays
from understudy.engine.distributions.patched import PatchedModel, rake
from understudy.errors import ModelFileError
from understudy.marginals import Measurement, count_codes
from understudy.schema import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (3, 2, 4, 2))


def joint(seed: int) -> np.ndarray:
    """A table over all columns with relations between all of them."""
    return (
        np.random.default_rng(seed).dirichlet(np.full(48, 0.4)).reshape(DOMAIN.shape(DOMAIN.names)) * 1000.0
    )


def over(table: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    return table.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique))


def patched(table: np.ndarray, held: list[tuple[str, ...]], patches: list[tuple[str, ...]]) -> PatchedModel:
    """A tree that holds some exact marginals, and exact patches for others."""
    tree = estimate(
        DOMAIN,
        [Measurement(clique, over(table, clique), "gaussian", 0.1) for clique in held],
        total=1000.0,
        thorough=True,
    )
    return PatchedModel(DOMAIN, tree, tuple((clique, over(table, clique)) for clique in patches))


@pytest.mark.parametrize("draw", range(4))
def test_raking_meets_marginals_that_belong_together_and_keeps_the_rest(draw: int) -> None:
    table = over(joint(draw), ("a", "b", "c"))
    start = np.random.default_rng(draw + 9).random((3, 2, 4)) + 0.1
    wanted = [((0, 1), table.sum(axis=2)), ((1, 2), table.sum(axis=0)), ((0, 2), table.sum(axis=1))]
    made = rake(start, wanted, sweeps=2_000)
    for axes, sums in wanted:
        (other,) = {0, 1, 2} - set(axes)
        np.testing.assert_allclose(made.sum(axis=other), sums, atol=1e-3 * table.sum())

    # the three-way interactions are those of the start: ratios of ratios of cells
    def odds(t: np.ndarray) -> float:
        return float(
            t[0, 0, 0]
            * t[0, 1, 1]
            * t[1, 0, 1]
            * t[1, 1, 0]
            / (t[1, 1, 1] * t[1, 0, 0] * t[0, 1, 0] * t[0, 0, 1])
        )

    assert odds(made) == pytest.approx(odds(start), rel=1e-6)


def test_raking_leaves_impossible_cells_empty() -> None:
    start = np.array([[0.0, 1.0], [1.0, 1.0]])
    made = rake(start, [((0,), np.array([1.0, 3.0])), ((1,), np.array([2.0, 2.0]))], sweeps=50)
    assert made[0, 0] == 0.0
    np.testing.assert_allclose(made, [[0.0, 1.0], [2.0, 1.0]], atol=0.05)


@pytest.mark.parametrize("draw", range(4))
def test_answers_agree_with_every_patch_inside_them(draw: int) -> None:
    table = joint(draw)
    model = patched(table, [("a", "b"), ("b", "c")], [("a", "c"), ("c", "d"), ("a", "b", "d")])
    for clique in [("a", "c"), ("c", "d"), ("a", "b", "d")]:
        np.testing.assert_array_equal(model.marginals([clique])[0], over(table, clique))
    (answer,) = model.marginals([("a", "c", "d")])
    # the last part is met exactly, the others nearly
    assert np.abs(answer.sum(axis=2) - over(table, ("a", "c"))).sum() < 0.05 * 1000
    assert np.abs(answer.sum(axis=0) - over(table, ("c", "d"))).sum() < 0.05 * 1000
    before = model.tree.marginals([("a", "c", "d")])[0]
    truth = over(table, ("a", "c", "d"))
    assert np.abs(answer - truth).sum() < np.abs(before - truth).sum()
    # a whole table that is asked for has the patches too, and columns in any order
    (whole,) = model.marginals([("d", "c", "b", "a")])
    assert np.abs(over(whole, ("a", "b", "d")) - over(table, ("a", "b", "d"))).sum() < 0.05 * 1000


def test_without_patches_answers_are_those_of_the_tree() -> None:
    model = patched(joint(1), [("a", "b"), ("b", "c")], [])
    for clique in [("a",), ("a", "c"), ("a", "b", "c")]:
        np.testing.assert_array_equal(model.marginals([clique])[0], model.tree.marginals([clique])[0])


@pytest.mark.parametrize("draw", range(3))
def test_a_condition_is_what_is_left_of_the_answers(draw: int) -> None:
    model = patched(joint(draw), [("a", "b"), ("b", "c")], [("a", "c"), ("c", "d")])
    allowed = np.array([True, False, True])
    condition = model.restricted(("a",), allowed)
    assert condition is not None
    assert condition.total == pytest.approx(model.marginals([("a",)])[0][allowed].sum())
    for pair in [("a", "c"), ("c", "d")]:
        wide = DOMAIN.canonical({*pair, "a"})
        (table,) = model.marginals([wide])
        table = table * allowed.reshape([3 if name == "a" else 1 for name in wide])
        kept = table.sum(axis=tuple(axis for axis, name in enumerate(wide) if name not in pair))
        np.testing.assert_allclose(condition.marginals([pair])[0], kept)
    drawn = condition.sample_codes(500, np.random.default_rng(draw))
    assert set(np.unique(drawn[:, 0])) <= {0, 2}


def test_records_follow_the_patches_and_not_only_the_tree() -> None:
    table = joint(2)
    model = patched(table, [("a",), ("b",), ("c",), ("d",)], list(combinations(DOMAIN.names, 2)))
    codes = model.sample_codes(5_000, np.random.default_rng(0))
    for pair in combinations(DOMAIN.names, 2):
        counts = count_codes(DOMAIN, codes, pair)
        assert np.abs(counts / 5 - over(table, pair)).sum() < 0.02 * 1000, pair
    assert len(model.sample_codes(0, np.random.default_rng(0))) == 0
    again = model.sample_codes(5_000, np.random.default_rng(0))
    np.testing.assert_array_equal(codes, again)


def test_impossible_combinations_stay_impossible_in_records() -> None:
    zeros = np.ones((3, 2), dtype=bool)
    zeros[0, 0] = False
    flat = [
        Measurement((name,), np.full(DOMAIN.size(name), 1000.0 / DOMAIN.size(name)), "gaussian", 1.0)
        for name in DOMAIN.names
    ]
    tree = estimate(DOMAIN, flat, total=1000.0, zeros=[(("a", "b"), zeros)])
    patch = np.full((4, 2), 125.0)
    model = PatchedModel(DOMAIN, tree, ((("c", "d"), patch),))
    codes = model.sample_codes(2_000, np.random.default_rng(1))
    assert not ((codes[:, 0] == 0) & (codes[:, 1] == 0)).any()


def test_a_model_file_gives_back_the_same_answers() -> None:
    model = patched(joint(3), [("a", "b")], [("c", "d"), ("a", "c", "d")])
    meta, arrays = model.to_arrays()
    again = distribution_from_arrays(model.kind, DOMAIN, meta, arrays)
    for clique in [("a", "b"), ("c", "d"), ("a", "b", "c"), ("a", "c", "d")]:
        np.testing.assert_allclose(again.marginals([clique])[0], model.marginals([clique])[0], rtol=1e-12)


@pytest.mark.parametrize(
    "damage",
    [
        lambda meta, arrays: meta.update(format=2),
        lambda meta, arrays: meta.pop("tree"),
        lambda meta, arrays: meta.update(tree=None),
        lambda meta, arrays: meta.update(patches=[["c", "nobody"]]),
        lambda meta, arrays: meta.update(patches=[["c"]]),
        lambda meta, arrays: arrays.pop("patch-0"),
        lambda meta, arrays: arrays.update({"patch-0": -np.ones((4, 2))}),
        lambda meta, arrays: arrays.update({"patch-0": np.full((4, 2), np.nan)}),
        lambda meta, arrays: arrays.update({"patch-0": np.ones(3)}),
    ],
)
def test_damaged_files_are_refused(damage: object) -> None:
    model = PatchedModel(DOMAIN, GraphicalModel(DOMAIN, 8.0), ((("c", "d"), np.ones((4, 2))),))
    meta, arrays = model.to_arrays()
    assert callable(damage)
    damage(meta, arrays)
    with pytest.raises(ModelFileError):
        PatchedModel.from_arrays(DOMAIN, meta, arrays)
