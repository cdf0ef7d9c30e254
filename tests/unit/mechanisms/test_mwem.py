"""MWEM: queries, sealed answers, weights, and what it learns."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import DenseTable, ProductModel
from understudy.errors import BudgetError, BudgetExceeded, DomainTooLarge, WorkloadError
from understudy.marginals import Predicate, box, halfspace, linear, prefix, random_boxes
from understudy.mechanisms.queries.look import measure_answer, seal_answers
from understudy.mechanisms.queries.mwem import MWEM, Factor, _block
from understudy.privacy import Gaussian, Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Schema

DOMAIN = Domain(("a", "b", "c"), (4, 3, 2))
SCHEMA = Schema.parse(
    """
columns:
  - {name: a, kind: integer, minimum: 0, maximum: 3}
  - {name: b, kind: categorical, values: [x, y, z]}
  - {name: c, kind: boolean}
"""
)


def table(n: int, seed: int = 0) -> LocalTable:
    """b follows a; c is true for large a."""
    generator = np.random.default_rng(seed)
    a = generator.choice(4, n, p=[0.5, 0.2, 0.2, 0.1])
    b = np.where(generator.random(n) < 0.8, np.minimum(a, 2), generator.integers(0, 3, n))
    return LocalTable(SCHEMA, {"a": a, "b": b, "c": (a >= 2).astype(int)})


def curator(n: int, budget=None, unit=None, noise_seed: int = 1) -> Curator:
    unit = unit or Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget or PureDP(1.0), unit=unit, table="t")
    return Curator(table(n), unit=unit, ledger=ledger, randomness=SeededRandomness(noise_seed))


# ---------------------------------------------------------------------------------------- queries


def test_predicates_count_what_they_say() -> None:
    counts = np.arange(24).reshape(4, 3, 2)
    assert box(DOMAIN, {"b": [1], "a": [0, 3]}).count(counts.sum(axis=2)) == counts[[0, 3], 1].sum()
    assert prefix(DOMAIN, "a", 1).count(counts.sum(axis=(1, 2))) == counts[:2].sum()
    steep = halfspace(DOMAIN, {"a": 1.0, "c": 2.0}, 3.0)
    expected = sum(counts[i, :, k].sum() for i in range(4) for k in range(2) if i + 2 * k >= 3)
    assert steep.count(counts.sum(axis=1)) == expected
    with pytest.raises(WorkloadError, match="axis"):
        Predicate(("a",), np.ones((2, 2), dtype=bool))
    with pytest.raises(WorkloadError, match="does not fit"):
        Predicate(("a",), np.ones(9, dtype=bool)).check(DOMAIN)


def test_random_boxes_are_public_proper_and_repeatable() -> None:
    one, two = (random_boxes(DOMAIN, 50, order=2, generator=np.random.default_rng(3)) for _ in range(2))
    assert all(x.clique == y.clique and (x.cells == y.cells).all() for x, y in zip(one, two, strict=True))
    assert all(len(query.clique) == 2 and 0 < query.cells.sum() < query.cells.size for query in one)


@pytest.mark.parametrize("number", range(40))
def test_answers_move_by_at_most_the_rows_of_a_unit(number: int) -> None:
    """One row more, or replaced, moves every answer by at most one; k rows by k. Half of it would be refuted."""
    generator = np.random.default_rng(number)
    queries = random_boxes(DOMAIN, 30, order=3, generator=generator)
    k = int(generator.integers(1, 4))
    n = int(generator.integers(0, 12))
    rows = np.stack([generator.integers(0, size, n + k) for size in DOMAIN.sizes], axis=1)
    other = rows.copy()
    other[n:] = np.stack([generator.integers(0, size, k) for size in DOMAIN.sizes], axis=1)

    def exact(codes: np.ndarray) -> np.ndarray:
        unit = Unit.add_remove()
        ledger = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
        made = LocalTable(SCHEMA, {name: codes[:, i] for i, name in enumerate("abc")})
        return seal_answers(Curator(made, unit=unit, ledger=ledger), queries)._exact

    assert np.abs(exact(rows) - exact(rows[:n])).max() <= k
    assert np.abs(exact(rows) - exact(other)).max() <= k


def test_noise_that_cannot_be_drawn_is_refused_before_it_is_paid_for() -> None:
    box_ = curator(500)
    sealed = seal_answers(box_, [linear(DOMAIN, ["a"], [0.0, 0.5, 1.0, 0.25])])
    with pytest.raises(BudgetError, match="scale"):
        measure_answer(box_, sealed, 0, noise=Laplace(2.0**21), purpose="too wide for parts of a row")
    assert box_.ledger.spent == 0


def test_sealed_answers_show_nothing_and_are_paid_for() -> None:
    box_ = curator(500)
    sealed = seal_answers(box_, [prefix(DOMAIN, "a", 1)])
    assert sealed.sensitivity == 1
    assert "500" not in repr(sealed)
    for act in (np.asarray, list, iter):
        with pytest.raises(TypeError):
            act(sealed)
    with pytest.raises(BudgetError, match="public numbers"):
        sealed.distances([1.0, 2.0])
    value = measure_answer(box_, sealed, 0, noise=Laplace(2.0), purpose="a query")
    assert value == round(value)
    assert box_.ledger.spent == pytest.approx(0.5)
    with pytest.raises(BudgetExceeded):
        measure_answer(box_, sealed, 0, noise=Laplace(1.0), purpose="a query")
    with pytest.raises(BudgetExceeded):
        measure_answer(box_, sealed, 0, noise=Gaussian(5.0), purpose="a pure ledger cannot pay this")


# ---------------------------------------------------------------------------------------- weights


def test_weights_keep_their_mass_and_reach_the_answers() -> None:
    queries = random_boxes(DOMAIN, 12, order=2, generator=np.random.default_rng(1))
    truth = np.random.default_rng(2).dirichlet(np.ones(24)).reshape(4, 3, 2)
    part = Factor(DOMAIN, queries)
    exact = [
        float(truth.sum(axis=tuple(i for i, n in enumerate("abc") if n not in q.clique))[q.cells].sum())
        for q in queries
    ]
    for _ in range(30):
        for place, share in enumerate(exact):
            part.learn(place, share, updates=10)
            assert part.shares(average=False).sum() == pytest.approx(1)
    np.testing.assert_allclose(part.answers(), exact, atol=0.02)
    assert part.shares(average=True).sum() == pytest.approx(1)


def test_blocks_and_masks_name_the_same_cells() -> None:
    weights = np.random.default_rng(0).random(DOMAIN.sizes)
    pool = random_boxes(DOMAIN, 40, order=2, generator=np.random.default_rng(5))
    pool += [halfspace(DOMAIN, {"a": 1.0, "b": 1.0}, 3.0), box(DOMAIN, {"a": [0, 2]})]
    kinds = set()
    for query in pool:
        where = _block(DOMAIN, query)
        kinds.add(type(where))
        others = tuple(i for i, name in enumerate(DOMAIN.names) if name not in query.clique)
        assert weights[where].sum() == pytest.approx(query.count(weights.sum(axis=others)))
    assert kinds == {tuple, np.ndarray}


# ---------------------------------------------------------------------------------------- the method


def test_it_learns_relations_with_enough_budget() -> None:
    """The share of b following a is .87; the uniform start says .33."""
    budget = PureDP(200.0)
    model = MWEM(num_query=300, num_iterations=150).fit(curator(5_000, budget), budget)
    exact = table(5_000).count(("a", "b")) / 5_000
    made = model.marginal(("a", "b")) / model.total
    assert np.abs(exact - made).sum() / 2 < 0.1
    assert len(model.statistics[-1].values) == 150
    assert isinstance(model.distribution, DenseTable)


def test_large_domains_are_factored() -> None:
    budget = PureDP(50.0)
    model = MWEM(max_cells=12, num_query=60, num_iterations=40).fit(curator(2_000, budget), budget)
    assert isinstance(model.distribution, ProductModel)
    assert model.marginal(("a", "c")).sum() == pytest.approx(model.total)
    plan = MWEM(max_cells=12).plan(SCHEMA, unit=Unit.add_remove(), budget=budget)
    assert any("factors" in note for note in plan.notes)
    assert plan.model_cells == 12 + 2


def test_own_queries_and_the_average() -> None:
    budget = PureDP(100.0)
    queries = [box(DOMAIN, {"a": [i], "b": [j]}) for i in range(4) for j in range(3)]
    model = MWEM(queries=queries, num_iterations=12, average=True).fit(curator(2_000, budget), budget)
    assert model.total > 0
    with pytest.raises(DomainTooLarge, match="join"):
        MWEM(queries=[box(DOMAIN, {"a": [0], "c": [1]})], max_cells=7).plan(
            SCHEMA, unit=Unit.add_remove(), budget=budget
        )


def test_refusals() -> None:
    with pytest.raises(BudgetError, match="num_query"):
        MWEM(num_query=50, num_iterations=100)
    with pytest.raises(BudgetError) as caught:
        MWEM(num_query=0, num_inner_updates=0, marginal=0, measure_share=1.0, num_iterations=0)
    for name in ("num_query", "num_inner_updates", "marginal", "measure_share", "num_iterations"):
        assert name in str(caught.value)
    with pytest.raises(DomainTooLarge, match="alone"):
        MWEM(max_cells=3).plan(SCHEMA, unit=Unit.add_remove(), budget=PureDP(1.0))
