"""Choosing single cells of marginals: how far one unit moves a score, with which law cells are drawn, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from alpha import ALPHA

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, BudgetExceeded
from understudy.mechanisms.queries import look as module
from understudy.mechanisms.queries.look import choose_cells
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: a, kind: integer, minimum: 0, maximum: 3}
  - {name: b, kind: categorical, values: [x, y, z]}
"""
)
CLIQUES = [("a",), ("b",), ("a", "b")]
SHAPES = [(4,), (3,), (4, 3)]


def curator_of(rows: np.ndarray, unit: Unit, *, epsilon: float = 1e6, seed: int = 0) -> Curator:
    ledger = Ledger.in_memory(budget=PureDP(epsilon), unit=unit, table="t")
    local = LocalTable(SCHEMA, {"a": rows[:, 0], "b": rows[:, 1]})
    return Curator(local, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))


def scores_of(
    monkeypatch: pytest.MonkeyPatch, rows: np.ndarray, unit: Unit, public: list[np.ndarray]
) -> tuple[np.ndarray, float]:
    """Return the scores that the sampler is given, and the sensitivity it is told."""
    seen: list[tuple[np.ndarray, float]] = []

    def sampler(scores: np.ndarray, *, sensitivity: float, score_error: float, **_: object) -> int:
        assert score_error == 0.0
        seen.append((np.array(scores), sensitivity))
        return 0

    monkeypatch.setattr(module, "exponential_mechanism", sampler)
    curator = curator_of(rows, unit)
    choose_cells(curator, curator.counts_many(CLIQUES), public, epsilon=1.0, number=1, purpose="c")
    return seen[0]


@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=lambda unit: unit.relation)
def test_one_unit_moves_no_score_by_more_than_is_claimed(monkeypatch: pytest.MonkeyPatch, unit: Unit) -> None:
    """300 random neighbours and public tables, with negative, huge and fractional numbers; some pair reaches the claim."""
    generator = np.random.default_rng(1)
    largest = 0.0
    for _ in range(300):
        n = int(generator.integers(0, 12)) + (unit.relation == "replace-one")
        rows = np.stack([generator.integers(0, 4, n), generator.integers(0, 3, n)], axis=1)
        other = np.stack([generator.integers(0, 4, 1), generator.integers(0, 3, 1)], axis=1)
        if unit.relation == "add-remove":
            near = np.concatenate([rows, other])
        else:
            near = np.concatenate([rows[1:], other])
        size = 10.0 ** generator.integers(-2, 15)
        public = [size * generator.normal(size=shape) for shape in SHAPES]
        one, claimed = scores_of(monkeypatch, rows, unit, public)
        two, again = scores_of(monkeypatch, near, unit, public)
        assert claimed == again == 1.0
        assert (one % 1 == 0).all(), "scores are whole numbers: nothing is lost to rounding"
        moved = float(np.abs(one - two).max())
        assert moved <= claimed
        largest = max(largest, moved)
    assert largest == 1.0


def test_draws_follow_the_exponential_law() -> None:
    """Frequencies of 3,000 choices among 19 cells; an epsilon half or twice as large is caught.

    A chi-square statistic with 18 degrees of freedom exceeds 82 with probability below 1e-9.
    """
    assert ALPHA == 1e-9
    rows = np.array([[0, 0]] * 4 + [[1, 2]] * 3 + [[3, 1]])
    curator = curator_of(rows, Unit.add_remove(), seed=5)
    sealed = curator.counts_many(CLIQUES)
    public = [np.full(shape, 1.2) for shape in SHAPES]
    starts = np.cumsum([0, 4, 3])
    drawn = []
    for _ in range(3_000):
        ((table, cell),) = choose_cells(curator, sealed, public, epsilon=1.0, number=1, purpose="c")
        drawn.append(int(starts[table]) + cell)
    exact = np.concatenate(
        [np.bincount(rows[:, 0], minlength=4), np.bincount(rows[:, 1], minlength=3),
         np.bincount(rows[:, 0] * 3 + rows[:, 1], minlength=12)]
    )  # fmt: skip

    def misfit(epsilon: float) -> float:
        law = np.exp(epsilon * np.abs(exact - 1) / 2)
        expected = 3_000 * law / law.sum()
        return float((np.square(np.bincount(drawn, minlength=19) - expected) / expected).sum())

    assert misfit(1.0) < 82
    assert misfit(2.0) > 82
    assert misfit(0.5) > 82
    assert curator.ledger.spent == pytest.approx(3_000)


def test_no_cell_is_chosen_twice_and_each_is_charged_first() -> None:
    rows = np.array([[0, 0]] * 9)
    curator = curator_of(rows, Unit.add_remove(), epsilon=10.0)
    sealed = curator.counts_many(CLIQUES)
    public = [np.zeros(shape) for shape in SHAPES]
    first = choose_cells(curator, sealed, public, epsilon=0.5, number=10, purpose="c")
    assert len(set(first)) == 10
    assert curator.ledger.spent == pytest.approx(5.0)
    rest = choose_cells(curator, sealed, public, epsilon=0.5, number=99, without=first, purpose="c")
    assert len(rest) == 9
    assert not set(rest) & set(first)
    with pytest.raises(BudgetExceeded):
        choose_cells(curator, sealed, public, epsilon=0.6, number=1, purpose="c")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0**53])
def test_public_numbers_that_are_none_cost_nothing(bad: float) -> None:
    curator = curator_of(np.array([[0, 0]]), Unit.add_remove())
    public = [np.zeros(shape) for shape in SHAPES]
    public[1] = np.array([0.0, bad, 0.0])
    with pytest.raises(BudgetError, match="must be finite"):
        choose_cells(curator, curator.counts_many(CLIQUES), public, epsilon=1.0, number=1, purpose="c")
    with pytest.raises(BudgetError, match="for each"):
        choose_cells(curator, curator.counts_many(CLIQUES), public[:2], epsilon=1.0, number=1, purpose="c")
    with pytest.raises(BudgetError, match="epsilon"):
        choose_cells(curator, curator.counts_many(CLIQUES), public, epsilon=-1.0, number=1, purpose="c")
    assert curator.ledger.spent == 0
