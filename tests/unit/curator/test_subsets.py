"""Subsets of a table: assignment, counts, elections inside them, what they cost and how far a unit moves them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, BudgetExceeded
from understudy.mechanisms.parametric.steps.look import (
    Subsets,
    elect,
    election_epsilon,
    seal_importances,
    seal_subset_counts,
)
from understudy.privacy import Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE, ZCDP_ACCOUNTING
from understudy.privacy.events import Parallel, SelectionEvent
from understudy.schema import Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: a, kind: integer, minimum: 0, maximum: 3}
  - {name: b, kind: integer, minimum: 0, maximum: 2}
  - {name: subset, kind: boolean}
"""
)
GROUPS = {"a": np.array([0, 0, 1, 1]), "b": np.arange(3), "subset": np.arange(2)}
TREE = Subsets().divided({0: ("a", GROUPS["a"])}).divided({1: ("b", GROUPS["b"])})
UNITS = {
    "add-remove": Unit.add_remove(),
    "replace-one": Unit.replace_one(),
    "person": Unit.add_remove_person("id", max_rows=3),
    "replaced person": Unit.replace_person("id", max_rows=2),
}


class Uncut(LocalTable):
    """A table whose persons have few enough rows already."""

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> Uncut:
        return self


def curator_of(rows: np.ndarray, unit: Unit, budget: float = 1e6, seed: int = 0) -> Curator:
    codes = {name: rows[:, i].astype(np.uint8) for i, name in enumerate(SCHEMA.names)}
    ledger = Ledger.in_memory(budget=PureDP(budget), unit=unit, table="t")
    return Curator(Uncut(SCHEMA, codes), unit=unit, ledger=ledger, randomness=SeededRandomness(seed))


def random_rows(generator: np.random.Generator, n: int) -> np.ndarray:
    rows = np.stack([generator.integers(0, size, n) for size in (4, 3, 2)], axis=1)
    if generator.random() < 0.5:
        rows[:, 2] = rows[:, 1] > 0
    return rows


def test_every_record_lies_in_one_subset() -> None:
    rows = random_rows(np.random.default_rng(0), 200)
    leaf = TREE.assign({name: rows[:, i] for i, name in enumerate(SCHEMA.names)})
    assert TREE.number == 4
    expected = np.where(rows[:, 0] < 2, 0, np.array([1, 2, 3])[rows[:, 1]])
    np.testing.assert_array_equal(leaf, expected)
    assert TREE.path(0).keys() == {"a"}
    assert TREE.path(3)["a"].tolist() == [False, False, True, True]
    assert TREE.path(3)["b"].tolist() == [False, False, True]
    assert TREE.columns == {"a", "b"}
    counts = seal_subset_counts(curator_of(rows, UNITS["add-remove"]), TREE, [{}, {"b": GROUPS["b"]}])
    np.testing.assert_array_equal(counts[0]._exact, np.bincount(leaf, minlength=4))
    assert counts[1]._exact[2].tolist() == [0, int((expected == 2).sum()), 0]
    assert counts[1].clique[0] == "subset_"  # a column is called subset already
    assert counts[1].l1 == 1.0


@pytest.mark.parametrize("unit", UNITS)
def test_no_unit_moves_an_importance_or_a_count_further_than_claimed(unit: str) -> None:
    generator = np.random.default_rng(1)
    protected = UNITS[unit]
    worst = 0.0
    for _ in range(150):
        rest = random_rows(generator, int(generator.choice([0, 1, 3, 10, 40])))
        one = random_rows(generator, protected.max_rows)
        other = random_rows(generator, protected.max_rows if protected.relation == "replace-one" else 0)
        first, second = (curator_of(np.concatenate([rest, rows]), protected) for rows in (one, other))
        for tree, leaf in ((Subsets(), 0), (TREE, 0), (TREE, 2)):
            pairs = zip(
                seal_importances(first, tree, {leaf: SCHEMA.names}, GROUPS)[leaf],
                seal_importances(second, tree, {leaf: SCHEMA.names}, GROUPS)[leaf],
                strict=True,
            )
            for x, y in pairs:
                assert abs(x._exact - y._exact) <= x.sensitivity
                worst = max(worst, abs(x._exact - y._exact) / x.sensitivity)
        counts = [seal_subset_counts(item, TREE, [{"b": GROUPS["b"]}])[0] for item in (first, second)]
        change = np.abs(counts[0]._exact - counts[1]._exact)
        assert change.sum() <= counts[0].l1
        assert np.sqrt((change**2).sum()) <= counts[0].l2 * (1 + 1e-12)
    # the pairs are hard enough: a claim a fifth as large would have been refuted
    assert worst > 0.2


def test_elections_of_a_layer_cost_as_much_as_the_subsets_a_unit_can_touch() -> None:
    rows = random_rows(np.random.default_rng(0), 100)
    for unit, factor in ((UNITS["add-remove"], 1), (UNITS["replace-one"], 2)):
        curator = curator_of(rows, unit, budget=1.0)
        candidates = {0: ["b", "subset"], 1: ["b", "subset"], 3: ["subset", "a"]}
        chosen = elect(curator, TREE, candidates, GROUPS, epsilon=0.2, purpose="elect")
        assert set(chosen) == {0, 1, 3}
        assert all(name in candidates[leaf] for leaf, name in chosen.items())
        assert curator.ledger.spent == pytest.approx(0.2 * factor)
        event = curator.ledger.entries()[-1].event
        assert isinstance(event, Parallel)
        assert list(event) == [SelectionEvent(0.2)] * 3
        with pytest.raises(BudgetExceeded):
            elect(curator, TREE, candidates, GROUPS, epsilon=1.0, purpose="elect")


@pytest.mark.parametrize("accounting", [PURE, ZCDP_ACCOUNTING, GDP_ACCOUNTING], ids=lambda item: item.name)
@pytest.mark.parametrize("unit", UNITS)
def test_epsilon_of_a_layer_keeps_to_its_share(unit: str, accounting: object) -> None:
    epsilon = election_epsilon(accounting, UNITS[unit], 0.1)  # type: ignore[arg-type]
    layer = Parallel(tuple(SelectionEvent(epsilon) for _ in range(10)))
    cost = accounting.cost(layer, parts=UNITS[unit].parts_touched)  # type: ignore[attr-defined]
    assert 0.099 < cost <= 0.1 * (1 + 1e-9)


def test_elections_follow_the_exponential_mechanism() -> None:
    """One subset, two candidates with known scores; frequencies within five standard errors of the stated odds."""
    rows = np.array([[0, 0, 0], [3, 2, 1]] * 30)  # b and subset repeat a
    rows[:, 1] = np.random.default_rng(0).integers(0, 3, 60)  # now b is unrelated
    scores = seal_importances(curator_of(rows, UNITS["add-remove"]), Subsets(), {0: ["a", "b"]}, GROUPS)[0]
    epsilon = 0.3
    odds = np.exp(epsilon * (scores[0]._exact - scores[1]._exact) / (2 * scores[0].sensitivity))
    draws = 2_000
    curator = curator_of(rows, UNITS["add-remove"], seed=3)
    found = Counter(
        elect(curator, Subsets(), {0: ["a", "b"]}, GROUPS, epsilon=epsilon, purpose="p")[0]
        for _ in range(draws)
    )
    p = odds / (1 + odds)
    assert 0.6 < p < 0.95
    assert abs(found["a"] / draws - p) < 5 * np.sqrt(p * (1 - p) / draws)


def test_counts_are_measured_like_any_histogram() -> None:
    curator = curator_of(random_rows(np.random.default_rng(0), 50), UNITS["add-remove"])
    sealed = seal_subset_counts(curator, TREE, [{"subset": GROUPS["subset"]}])
    released = curator.measure(sealed[0], noise=Laplace(2.0))
    assert released.values.shape == (4, 2)
    assert curator.ledger.spent == pytest.approx(0.5)


def test_refusals() -> None:
    with pytest.raises(BudgetError, match="division"):
        Subsets().divided({3: ("a", GROUPS["a"])})
    with pytest.raises(BudgetError, match="division"):
        Subsets().divided({0: ("a", [0, 0, 0, 0])})
    assert Subsets().divided({}).number == 1
    curator = curator_of(random_rows(np.random.default_rng(0), 5), UNITS["add-remove"])
    with pytest.raises(BudgetError, match="subsets"):
        elect(curator, TREE, {}, GROUPS, epsilon=1.0, purpose="p")
    with pytest.raises(BudgetError, match="relation"):
        elect(curator, TREE, {0: ["a"]}, {"a": GROUPS["a"]}, epsilon=1.0, purpose="p")
    with pytest.raises(BudgetError, match="groups of 'b'"):
        seal_subset_counts(curator, TREE, [{"b": [0, 1]}])
    assert curator.ledger.spent == 0
