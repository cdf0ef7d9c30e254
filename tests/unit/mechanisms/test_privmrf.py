"""PrivMRF: its graph, the marginals it starts from, its rounds and what they cost."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import model_cells
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import all_kway, workload_error
from understudy.mechanisms import Model, create
from understudy.mechanisms.graphs.privmrf import (
    AttributeGraph,
    build_graph,
    candidate_marginals,
    starting_marginals,
)
from understudy.privacy import GDP, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Integer, Schema

DOMAIN = Domain(tuple("abcdefgh"), (2, 3, 4, 5, 2, 3, 7, 2))


def random_scores(seed: int) -> dict[frozenset[str], float]:
    generator = np.random.default_rng(seed)
    return {frozenset(pair): float(generator.normal(0.2, 0.2)) for pair in combinations(DOMAIN.names, 2)}


def is_chordal(graph: AttributeGraph) -> bool:
    """Eliminate columns whose neighbours are all joined; a graph is chordal if that uses up all of them."""
    names = list(graph.domain.names)
    while names:
        for name in names:
            near = [other for other in names if other != name and graph.joined(name, other)]
            if all(graph.joined(*pair) for pair in combinations(near, 2)):
                names.remove(name)
                break
        else:
            return False
    return True


@pytest.mark.parametrize("limit", [40, 300, 5_000])
def test_the_graph_is_chordal_small_and_prefers_strong_pairs(limit: int, seed: int) -> None:
    scores = random_scores(seed)
    graph = build_graph(DOMAIN, scores, max_clique_cells=limit, max_cells=3 * limit)
    assert is_chordal(graph)
    assert all(DOMAIN.cells(clique) <= limit for clique in graph.cliques)
    assert graph.cells <= 3 * limit
    assert model_cells(DOMAIN, graph.cliques) <= graph.cells, "no more cells are needed than the cliques have"
    strongest = max(scores, key=lambda pair: scores[pair])
    assert graph.joined(*strongest)
    fixed = build_graph(DOMAIN, scores, fixed=[("d", "g")], max_clique_cells=40, max_cells=4_000)
    assert fixed.joined("d", "g")


def test_pairs_without_dependence_are_not_joined() -> None:
    nothing = {frozenset(pair): -0.01 for pair in combinations(DOMAIN.names, 2)}
    graph = build_graph(DOMAIN, nothing, max_clique_cells=10**6, max_cells=10**6)
    assert all(len(clique) == 1 for clique in graph.cliques)


def test_first_marginals_cover_all_columns_and_are_useful(seed: int) -> None:
    scores = random_scores(seed)
    graph = build_graph(DOMAIN, scores, max_clique_cells=5_000, max_cells=20_000)
    for useful in (1.0, 20.0, 200.0):
        first = starting_marginals(graph, scores, useful_cells=useful, max_order=3)
        assert {name for clique in first for name in clique} == set(DOMAIN.names)
        assert all(len(clique) == 1 or DOMAIN.cells(clique) <= useful for clique in first)
        assert all(len(clique) <= 3 for clique in first)
        assert all(any(set(clique) <= set(bag) for bag in graph.cliques) for clique in first)
        assert not any(set(one) < set(two) for one in first for two in first)
    assert all(len(clique) == 1 for clique in starting_marginals(graph, scores, useful_cells=1, max_order=3))


def test_companions_that_say_the_same_are_worth_less() -> None:
    """b and c both tell about a; c repeats b, d does not and is a little weaker."""
    domain = Domain(tuple("abcd"), (2, 2, 2, 2))
    scores = {frozenset(pair): 0.0 for pair in combinations("abcd", 2)}
    scores |= {frozenset("ab"): 0.4, frozenset("ac"): 0.39, frozenset("ad"): 0.35, frozenset("bc"): 0.9}
    graph = AttributeGraph(domain, (tuple("abcd"),))
    first = starting_marginals(graph, scores, useful_cells=8, max_order=3)
    assert ("a", "b", "d") in first
    assert ("a", "b", "c") not in first


def test_candidates_lie_inside_cliques_and_are_useful(seed: int) -> None:
    graph = build_graph(DOMAIN, random_scores(seed), max_clique_cells=500, max_cells=2_000)
    found = candidate_marginals(graph, useful_cells=60, max_order=4, most=1_000)
    inside = {
        part
        for clique in graph.cliques
        for order in range(2, 5)
        for part in combinations(clique, order)
        if DOMAIN.cells(part) <= 60
    }
    assert set(found) == inside | {(name,) for name in DOMAIN.names}
    assert len(candidate_marginals(graph, useful_cells=60, max_order=4, most=12)) <= 12


# ---------------------------------------------------------------------- the mechanism


def schema(sizes: dict[str, int], **more: Any) -> Schema:
    columns = tuple(Integer(name, minimum=0, maximum=size - 1) for name, size in sizes.items())
    return Schema(columns=columns, name="field", **more)


def table(n: int, seed: int = 0) -> LocalTable:
    """Three binary columns whose parity is fixed: no pair of them depends on each other. d follows a; e is alone."""
    generator = np.random.default_rng(seed)
    a, b = generator.integers(0, 2, n), generator.integers(0, 2, n)
    c = np.where(generator.random(n) < 0.9, a ^ b, generator.integers(0, 2, n))
    d = np.where(generator.random(n) < 0.8, a + b, generator.integers(0, 3, n))
    codes = {"a": a, "b": b, "c": c, "d": d, "e": generator.integers(0, 6, n)}
    sizes = {"a": 2, "b": 2, "c": 2, "d": 3, "e": 6}
    return LocalTable(schema(sizes), {name: values.astype(np.uint8) for name, values in codes.items()})


def fit(private: LocalTable, budget: Any, unit: Unit | None = None, **options: Any) -> tuple[Model, Ledger]:
    unit = unit or Unit.add_remove()
    book = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(private, unit=unit, ledger=book, randomness=SeededRandomness(5))
    return create("privmrf", **options).fit(curator, budget), book


def test_prices_are_fixed_and_add_up() -> None:
    model, book = fit(table(20_000), GDP(1.0))
    entries = [entry.purpose for entry in book.entries() if entry.event is not None]
    assert "number of rows" in entries[0]
    assert "10 pairs" in entries[1]
    assert "first marginals" in entries[2]
    marginals = [item for item in model.measurements if item.clique]
    assert len(marginals) == 5 + 4, "one per column and 0.8 per column more"
    assert len({item.scale for item in marginals}) == 1
    assert len(model.rounds) == sum("choose" in purpose for purpose in entries)
    assert 0.98 < book.spent <= 1.0
    assert model.history is not None
    assert sum(model.history.batches) == len(model.measurements)


def test_under_replace_one_the_number_of_rows_costs_nothing() -> None:
    model, book = fit(table(5_000), GDP(1.0), Unit.replace_one())
    assert all(item.clique for item in model.measurements)
    assert model.total == 5_000
    assert 0.98 < book.spent <= 1.0


def test_rounds_choose_by_distance_from_the_model_at_the_price_that_was_fixed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What reaches the exponential mechanism: L1 distances, their sensitivity, and a tenth of the budget in all."""
    seen: list[tuple[list[float], float, float]] = []
    original = Curator.choose

    def choose(self: Curator, scores: Any, *, epsilon: float, purpose: str) -> int:
        seen.append(([score._exact for score in scores], max(score.sensitivity for score in scores), epsilon))
        return original(self, scores, epsilon=epsilon, purpose=purpose)

    private = table(5_000)
    create("privmrf").prepare(
        private.schema, unit=Unit.add_remove(), budget=PureDP(2.0)
    )  # its trial chooses too
    monkeypatch.setattr(Curator, "choose", choose)
    model, _ = fit(private, PureDP(2.0))
    assert len(seen) == len(model.rounds) > 0
    assert sum(epsilon for _, _, epsilon in seen) == pytest.approx(0.2, rel=1e-9)
    for step, (scores, sensitivity, epsilon) in zip(model.rounds, seen, strict=True):
        assert sensitivity == 1.0
        assert epsilon == step.epsilon
        wanted = float(np.abs(private.count(step.clique) - step.answer).sum())
        assert scores[step.candidates.index(step.clique)] == pytest.approx(wanted, rel=1e-4)
        assert len(scores) == len(step.candidates)


def test_only_useful_marginals_are_measured() -> None:
    """The average cell must be theta times the deviation of the noise; columns alone are excepted."""
    orders = []
    for theta in (1.0, 300.0):
        model, _ = fit(table(3_000), GDP(0.5), theta=theta)
        limit = float(model.measurements[0].values) / (theta * model.measurements[1].scale)
        for item in model.measurements[1:]:
            assert len(item.clique) == 1 or item.values.size <= limit
        orders.append(max(len(item.clique) for item in model.measurements))
    assert orders == [max(orders), 1]
    assert orders[0] > 2


def test_more_rounds_find_relations_that_no_pair_shows() -> None:
    """c is the parity of a and b. A model of pairs has an error of about .9 on (a, b, c); a round that looks finds it."""
    private = table(20_000)
    workload = all_kway(private.schema.domain, 3)
    cliques = list(workload.cliques)
    exact = private.count_many(cliques)
    errors = []
    for order in (2, 3):
        model, _ = fit(private, GDP(4.0), max_order=order, rounds_per_column=2.0)
        errors.append(workload_error(workload, exact, model.marginals(cliques), n_rows=20_000))
    assert errors[1] < 0.5 * errors[0]


def test_a_table_that_is_too_large_is_refused_before_anything_is_spent() -> None:
    wide = schema({"a": 300_000, "b": 2})
    private = LocalTable(wide, {"a": np.zeros(5, dtype=np.uint32), "b": np.zeros(5, dtype=np.uint8)})
    book = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="t")
    curator = Curator(private, unit=Unit.add_remove(), ledger=book)
    with pytest.raises(DomainTooLarge, match="coarser bins"):
        create("privmrf", max_model_mb=1.0).fit(curator, PureDP(1.0))
    assert book.spent == 0


def test_a_single_column_is_a_table_too() -> None:
    codes = np.random.default_rng(0).integers(0, 6, 500).astype(np.uint8)
    model, book = fit(LocalTable(schema({"x": 6}), {"x": codes}), PureDP(1.0), rounds_per_column=0)
    assert [item.clique for item in model.measurements] == [(), ("x",)]
    assert book.spent >= 0.9


@pytest.mark.parametrize(
    "bad",
    [
        {"theta": 0.0},
        {"gap_share": 0.0},
        {"choose_share": -0.1},
        {"gap_share": 0.5, "choose_share": 0.5},
        {"max_order": 0},
        {"max_candidates": 0},
        {"rounds_per_column": -1.0},
        {"max_model_mb": float("nan")},
    ],
)
def test_options_without_a_meaning_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(BudgetError, match=next(iter(bad))):
        create("privmrf", **bad)
