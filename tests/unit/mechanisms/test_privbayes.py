"""privbayes and privbayes-pgm: parent sets, scores, structure, costs, consistency, refusals."""

from __future__ import annotations

import math
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from understudy.curator import Curator, SealedCounts
from understudy.data import LocalTable
from understudy.engine import BayesianNetwork, Resolution, model_size
from understudy.errors import BudgetError, DomainTooLarge, WorkloadError
from understudy.marginals import all_kway
from understudy.mechanisms import Model, create
from understudy.mechanisms.networks.conditionals import (
    NoisyTable,
    agreeing_tables,
    forbidden_cells,
    shared_views,
)
from understudy.mechanisms.networks.network import (
    Family,
    Limits,
    TooMany,
    candidates,
    family_score,
    learn_network,
    maximal_parent_sets,
    measured_families,
    random_parent_sets,
    resolution_of,
    seal_families,
)
from understudy.mechanisms.networks.privbayes import PrivBayes
from understudy.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Budget,
    Ledger,
    PureDP,
    SeededRandomness,
    Unit,
    accounting_named,
)
from understudy.privacy.accounting.accounting import PURE
from understudy.schema import Boolean, Categorical, Column, Domain, Integer, Ordinal, Schema

FAMILY = ("privbayes", "privbayes-pgm")
BUDGETS: tuple[Budget, ...] = (PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1), GDP(0.5))
UNITS = (
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=2),
    Unit.replace_person("id", max_rows=2),
)


def schema_of(sizes: tuple[int, ...], *, ordered: str = "", row_count: int | None = None) -> Schema:
    columns: list[Column] = []
    for name, size in zip("abcdefgh", sizes, strict=False):
        if name in ordered:
            columns.append(Integer(name, minimum=0, maximum=size - 1))
        else:
            columns.append(Categorical(name, values=[f"v{i}" for i in range(size)]))
    return Schema(columns=tuple(columns), row_count=row_count)


def codes_of(schema: Schema, n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A chain of columns that follow each other in nine rows of ten."""
    generator = np.random.default_rng(seed)
    codes: dict[str, np.ndarray] = {}
    before = generator.integers(0, 1 << 20, n)
    for name, size in zip(schema.names, schema.domain.sizes, strict=True):
        fresh = generator.integers(0, size, n)
        before = np.where(generator.random(n) < 0.9, before % size, fresh)
        codes[name] = before
    return codes


def curator_of(
    schema: Schema, codes: dict[str, np.ndarray], budget: Budget, unit: Unit, seed: int = 3
) -> Curator:
    people = {} if unit.id_column is None else {unit.id_column: np.arange(len(codes[schema.names[0]]))}
    table = LocalTable(schema, codes, persons=people)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="test")
    return Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))


def fit(
    name: str,
    schema: Schema,
    *,
    budget: Budget | None = None,
    unit: Unit | None = None,
    n: int = 500,
    seed: int = 3,
    **options: Any,
) -> tuple[Model, Curator]:
    budget = budget or PureDP(1.0)
    curator = curator_of(schema, codes_of(schema, n), budget, unit or Unit.add_remove(), seed)
    return create(name, **options).fit(curator, budget), curator


def events(curator: Curator) -> list[dict[str, Any]]:
    """Every elementary event in the ledger, in order."""
    flat: list[dict[str, Any]] = []

    def unfold(event: dict[str, Any]) -> None:
        if "events" in event:
            for inner in event["events"]:
                unfold(inner)
        else:
            flat.append(event)

    for entry in curator.ledger.entries():
        if entry.event is not None:
            unfold(entry.event.to_dict())
    return flat


# ------------------------------------------------------------------ levels and parent sets


def test_levels_come_from_the_order_of_the_schema() -> None:
    schema = Schema(
        columns=(
            Ordinal("size", values=["s", "m", "l"]),
            Integer("age", minimum=0, maximum=6, missing=True, out_of_domain="to-other"),
            Categorical("colour", values=["r", "g", "b", "y"]),
            Boolean("smokes", missing=True),
        )
    )
    coarser = resolution_of(schema).coarser
    assert {name: [np.asarray(level).tolist() for level in levels] for name, levels in coarser.items()} == {
        "size": [[0, 0, 1]],
        "age": [[0, 0, 1, 1, 2, 2, 3, 4, 5], [0, 0, 0, 0, 1, 1, 1, 2, 3], [0] * 7 + [1, 2]],
    }
    assert not resolution_of(schema, generalise=False).coarser


def brute_maximal(resolution: Resolution, columns: list[str], cells: int, degree: int) -> set[Any]:
    """All feasible sets, less those that another feasible set refines or enlarges."""
    choices = [[None, *range(resolution.heights(name))] for name in columns]
    feasible = []
    for levels in product(*choices):
        views = [(name, level) for name, level in zip(columns, levels, strict=True) if level is not None]
        if resolution.cells(views) <= cells and len(views) <= degree:
            feasible.append(dict(views))
    return {
        tuple(sorted(one.items()))
        for one in feasible
        if not any(
            other != one and all(name in other and other[name] <= level for name, level in one.items())
            for other in feasible
        )
    }


@settings(deadline=None)
@given(
    st.lists(st.integers(2, 9), min_size=1, max_size=4), st.integers(0, 80), st.sampled_from([1, 2, 3, None])
)
def test_maximal_parent_sets_are_all_maximal_sets(sizes: list[int], cells: int, degree: int | None) -> None:
    resolution = resolution_of(schema_of(tuple(sizes), ordered="abd"))
    columns = list(resolution.domain.names)
    found = maximal_parent_sets(resolution, columns, cells, degree=degree, most=10_000)
    expected = brute_maximal(resolution, columns, cells, degree or len(columns)) if cells else set()
    assert len(found) == len(set(found))
    assert {tuple(sorted(item)) for item in found} == expected
    drawn = random_parent_sets(
        resolution, columns, cells, degree=degree, most=5, generator=np.random.default_rng(0)
    )
    assert {tuple(sorted(item)) for item in drawn} <= expected
    assert len(drawn) == len(set(drawn)) <= 5
    assert bool(drawn) == bool(expected)


def test_too_many_parent_sets_are_thinned_out_by_a_public_rule() -> None:
    resolution = Resolution(Domain(tuple(f"c{i:02}" for i in range(40)), (2,) * 40), {})
    with pytest.raises(TooMany):
        maximal_parent_sets(resolution, resolution.domain.names[:39], 32, most=1_000)
    limits = Limits(cells=64, degree=None, candidates=50, seed=1, noise=0.0)
    runs = [
        candidates(resolution, resolution.domain.names[:38], limits, np.random.default_rng(1))
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(runs[0]) == 50
    assert {family.child for family in runs[0]} == {"c38", "c39"}
    assert all(len(family.parents) == 5 for family in runs[0])


# ------------------------------------------------------------------ scores


def brute_scores(joint: np.ndarray) -> dict[str, float]:
    """The three scores of the paper from their definitions; the first axis is the child."""
    n = joint.sum()
    if n == 0:
        return {"R": 0.0, "mutual-information": 0.0, "F": 0.0}
    flat = joint.reshape(len(joint), -1) / n
    product_ = np.outer(flat.sum(axis=1), flat.sum(axis=0))
    filled = flat > 0
    scores = {
        "R": n * 0.5 * np.abs(flat - product_).sum(),
        "mutual-information": float((flat[filled] * np.log(flat[filled] / product_[filled])).sum()),
    }
    if len(joint) == 2:
        best = math.inf
        for given_to in product((0, 1), repeat=flat.shape[1]):
            masses = [sum(flat[v, i] for i, v_ in enumerate(given_to) if v_ == v) for v in (0, 1)]
            best = min(best, sum(max(0.0, 0.5 - mass) for mass in masses))
        scores["F"] = -n * best
    return scores


@pytest.mark.parametrize("n", [0, 1, 7, 60])
@pytest.mark.parametrize("score", ["R", "R-net", "mutual-information", "F"])
def test_scores_are_those_of_the_paper(score: str, n: int) -> None:
    schema = schema_of((2, 5, 3), ordered="b")
    codes = codes_of(schema, n, seed=n)
    resolution = resolution_of(schema)
    curator = curator_of(schema, codes, PureDP(1.0), Unit.replace_one())
    for parents in [(("b", 0),), (("b", 1),), (("b", 2), ("c", 0)), (("b", 0), ("c", 0))]:
        family = Family("a", parents)
        sealed = seal_families(curator, resolution, [family])[0]
        joint = np.zeros((2, *resolution.shape(parents)))
        cells = [codes["a"], *(resolution.labels(view)[codes[view[0]]] for view in parents)]
        np.add.at(joint, tuple(cells), 1)
        expected = brute_scores(joint)["R" if score == "R-net" else score]
        value = family_score(sealed, family, score, noise=1.5)
        shift = -0.75 * joint.size if score == "R-net" else 0.0
        assert value._exact == pytest.approx(expected + shift, abs=1e-9)
        assert value.sensitivity > 0 or score == "mutual-information"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_coarse_counts_are_merged_counts(unit: Unit) -> None:
    schema = schema_of((4, 7, 3), ordered="ab")
    codes = codes_of(schema, 80)
    curator = curator_of(schema, codes, PureDP(1.0), unit)
    groups = {"b": np.array([0, 0, 1, 1, 2, 2, 3]), "c": np.arange(3), "a": np.zeros(4, dtype=int)}
    for wanted in ({"b": groups["b"]}, {"c": groups["c"], "b": groups["b"]}, groups, {"a": groups["a"]}):
        direct = curator.counts_grouped([wanted])[0]
        merged = curator.counts(tuple(wanted)).grouped(wanted)
        assert isinstance(direct, SealedCounts)
        assert direct.clique == merged.clique
        np.testing.assert_array_equal(direct._exact, merged._exact)
        assert direct._known_rows == merged._known_rows
        assert direct.l2 <= merged.l2
    with pytest.raises(BudgetError, match="at least one column"):
        curator.counts_grouped([{}])
    with pytest.raises(BudgetError, match="must be 7 numbers"):
        curator.counts_grouped([{"b": np.arange(6)}])


# ------------------------------------------------------------------ structure


def families_of(model: Model) -> tuple[Any, ...]:
    assert isinstance(model.distribution, BayesianNetwork)
    return model.distribution.nodes


@pytest.mark.parametrize("draw", range(12))
@pytest.mark.parametrize("flavour", ["theta", "degree"])
def test_no_noise_makes_a_cycle(flavour: str, draw: int) -> None:
    """Choices at epsilon .01 are almost uniform, so any structure the method can produce comes up."""
    schema = schema_of((3, 2, 6, 4, 2), ordered="c")
    options = {"theta": 0.02} if flavour == "theta" else {}
    model, _ = fit(
        "privbayes", schema, budget=PureDP(0.01), flavour=flavour, seed=draw, public_seed=draw, **options
    )
    seen: set[str] = set()
    for node in families_of(model):
        assert {name for name, _ in node.parents} <= seen
        seen.add(node.column)
    assert seen == set(schema.names)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_the_degree_is_kept_and_used(degree: int) -> None:
    schema = schema_of((3, 2, 4, 3, 2, 2))
    model, curator = fit("privbayes", schema, flavour="degree", degree=degree, allocation="equal")
    counts = [len(node.parents) for node in families_of(model)]
    assert counts == [min(index, degree) for index in range(6)]
    assert len(model.measurements) == 6 - degree
    scale = (6 - degree) / 0.7
    assert [item.scale for item in model.measurements] == pytest.approx([scale] * (6 - degree))
    choices = [event["epsilon"] for event in events(curator) if event["kind"] == "selection"]
    assert choices == pytest.approx([0.3 / 5] * 5)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: type(budget).__name__)
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_every_share_of_the_budget_is_where_it_belongs(unit: Unit, budget: Budget) -> None:
    """Rows, choices and tables cost exactly their shares, in the accounting that the method chose."""
    schema = schema_of((3, 2, 5, 4), ordered="cd")
    model, curator = fit("privbayes", schema, budget=budget, unit=unit, epsilon_split=0.4, theta=1.0)
    accounting = accounting_named(model.provenance.accounting)
    total = accounting.total(budget)
    kinds = [event["kind"] for event in events(curator)]
    noise = "laplace" if accounting is PURE else "gaussian"
    invariant = unit == Unit.replace_one()
    assert kinds[0] == ("selection" if invariant else noise)
    assert kinds.count("selection") == 3
    charged = [entry.event for entry in curator.ledger.entries() if entry.event is not None]
    costs = [accounting.cost(event) for event in charged]
    rest = total
    if not invariant:
        assert model.measurements[0].clique == ()
        assert costs.pop(0) == pytest.approx(0.02 * total, rel=1e-6)
        rest = 0.98 * total
    assert costs[:3] == pytest.approx([0.4 * rest / 3] * 3, rel=1e-6)
    assert costs[3] == pytest.approx(0.6 * rest, rel=1e-6)
    assert sum(costs) <= 0.6 * rest + 0.4 * rest


@pytest.mark.parametrize("theta", [0.5, 4.0, 30.0])
@pytest.mark.parametrize("unit", UNITS[:2], ids=lambda unit: unit.relation)
def test_tables_are_theta_useful(unit: Unit, theta: float) -> None:
    """Under pure budgets: cells <= n epsilon_2 / (l1 d theta), the limit of the paper, and it is used."""
    schema = schema_of((3, 2, 16, 4, 2, 8), ordered="cf", row_count=2_000)
    model, _ = fit("privbayes", schema, n=2_000, unit=unit, budget=PureDP(2.0), theta=theta)
    limit = 2_000 * 1.4 / (unit.histogram_l1 * 6 * theta)
    resolution = resolution_of(schema)
    sizes = [resolution.cells(node.views) for node in families_of(model) if node.parents]
    assert sizes
    assert max(sizes) <= limit
    assert max(sizes) > limit / 4
    for node in families_of(model):
        if not node.parents and node is not families_of(model)[0]:
            assert schema.domain.size(node.column) * 2 > limit, "no parent would have fitted"


def test_parents_are_generalised_only_where_they_must_be() -> None:
    schema = schema_of((32, 32, 2), ordered="ab", row_count=1_000)
    options: dict[str, Any] = {"n": 1_000, "unit": Unit.replace_one(), "budget": PureDP(4.0), "root": "a"}
    model, _ = fit("privbayes", schema, theta=3.0, **options)
    parents = {node.column: dict(node.parents) for node in families_of(model)}
    assert parents["b"] == {"a": 3}, "4 groups of a make 128 cells; 8 would make 256, above the limit of 155"
    assert parents["c"]["a"] == 0 or parents["c"]["b"] == 0, "77 groups of parents fit beside c"
    model, _ = fit("privbayes", schema, theta=3.0, generalise=False, **options)
    parents = {node.column: dict(node.parents) for node in families_of(model)}
    assert "a" not in parents["b"]
    assert all(level == 0 for levels in parents.values() for level in levels.values())


def test_contained_families_need_no_table() -> None:
    resolution = Resolution(Domain(tuple("abcd"), (4, 2, 2, 2)), {"a": [np.array([0, 0, 1, 1])]})
    plain = [
        Family("a", ()),
        Family("b", (("a", 0),)),
        Family("c", (("a", 0), ("b", 0))),
        Family("d", (("a", 1),)),
    ]
    assert measured_families(resolution, plain) == plain[2:]
    coarse = [Family("a", ()), Family("b", (("a", 1),)), Family("c", (("a", 1), ("b", 0)))]
    assert measured_families(resolution, coarse) == [coarse[0], coarse[2]]
    covered = [Family("b", ()), Family("a", ()), Family("c", (("a", 1), ("b", 0)))]
    assert measured_families(resolution, covered) == [covered[1], covered[2]]
    hidden = [Family("b", ()), Family("c", (("a", 1), ("b", 0)))]
    assert measured_families(resolution, hidden) == hidden, "one plain table always stays"


def test_a_public_outcome_costs_nothing() -> None:
    """Two columns leave one candidate, so all of the budget measures the one table."""
    schema = schema_of((3, 4))
    model, curator = fit("privbayes", schema, flavour="degree", degree=1, unit=Unit.replace_one())
    assert [event["kind"] for event in events(curator)] == ["laplace"]
    assert model.measurements[0].scale == pytest.approx(2.0)


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("sizes", [(3,), (1,), (1, 1), (1, 3, 2)])
def test_few_and_constant_columns(name: str, sizes: tuple[int, ...]) -> None:
    for flavour in ("theta", "degree"):
        model, curator = fit(name, schema_of(sizes), flavour=flavour)
        assert (
            0.99 < curator.ledger.spent / curator.ledger.total <= 1
        )  # nothing is left over, whatever the columns
        codes = model.sample_codes(10, seed=1)
        for column, size in zip(model.schema.names, sizes, strict=True):
            assert len(codes[column]) == 10
            assert int(codes[column].max()) < size
            assert model.marginal((column,)).sum() == pytest.approx(model.total)


def test_the_root_is_a_public_choice() -> None:
    schema = schema_of((3, 2, 4, 2))
    model, _ = fit("privbayes", schema, root="c")
    assert families_of(model)[0].column == "c"
    drawn = {families_of(fit("privbayes", schema, public_seed=seed)[0])[0].column for seed in range(12)}
    assert len(drawn) > 1
    with pytest.raises(WorkloadError, match="No column named"):
        fit("privbayes", schema, root="z")


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flavour": "thta"}, "flavour"),
        ({"theta": 0.0}, "theta"),
        ({"theta": math.inf}, "theta"),
        ({"degree": 0}, "degree"),
        ({"degree": 5}, "degree"),
        ({"epsilon_split": 1.0}, "epsilon_split"),
        ({"rows_share": 0.0}, "rows_share"),
        ({"score": "G"}, "score"),
        ({"allocation": "most"}, "allocation"),
        ({"public_seed": -1}, "public_seed"),
        ({"max_cells": 0}, "max_cells"),
        ({"max_candidates": 0}, "max_candidates"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    for name in FAMILY:
        with pytest.raises(BudgetError, match=message):
            create(name, **options)
    with pytest.raises(BudgetError, match="max_model_mb"):
        create("privbayes-pgm", max_model_mb=0.0)


def test_scores_are_refused_where_they_mean_nothing() -> None:
    schema = schema_of((2, 3))
    with pytest.raises(BudgetError, match="exactly two codes"):
        fit("privbayes", schema, score="F")
    with pytest.raises(BudgetError, match="unless the number of rows is public"):
        fit("privbayes", schema, score="mutual-information")
    fit("privbayes", schema, score="mutual-information", unit=Unit.replace_one())
    fit("privbayes", schema_of((2, 3), row_count=500), score="mutual-information")
    plan = create("privbayes", flavour="degree").plan(
        schema_of((2, 2)), unit=Unit.add_remove(), budget=PureDP(1.0)
    )
    assert "scores are F" in plan.notes[0]
    plan = create("privbayes").plan(schema, unit=Unit.add_remove(), budget=PureDP(1.0))
    assert "scores are R-net" in plan.notes[0]
    assert plan.measurements[0].clique == ()


def test_a_column_that_is_too_wide_is_refused_before_anything_is_spent() -> None:
    schema = schema_of((40, 2))
    curator = curator_of(schema, codes_of(schema, 10), PureDP(1.0), Unit.add_remove())
    with pytest.raises(DomainTooLarge):
        create("privbayes", max_cells=39).fit(curator, PureDP(1.0))
    assert curator.ledger.spent == 0
    with pytest.raises(BudgetError, match="other columns"):
        create("privbayes", workload=all_kway(Domain(("z",), (2,)), 1)).fit(curator, PureDP(1.0))


# ------------------------------------------------------------------ consistency


def project_exactly(resolution: Resolution, tables: list[NoisyTable], total: float) -> list[np.ndarray]:
    """The closest agreeing non-negative tables, from a general-purpose solver on all equations at once."""
    starts = np.cumsum([0, *(table.values.size for table in tables)])
    noisy = np.concatenate([table.values.ravel() for table in tables])
    weight = np.concatenate([np.full(table.values.size, 1 / table.variance) for table in tables])
    rows, right = [], []
    for start, end in pairwise(starts):
        rows.append(np.zeros(len(noisy)))
        rows[-1][start:end] = 1.0
        right.append(total)
    for (i, one), (j, two) in combinations(enumerate(tables), 2):
        for common in shared_views([one.views, two.views]):
            for cell in range(resolution.cells(common)):
                pick = np.zeros(resolution.shape(common))
                pick.flat[cell] = 1.0
                row = np.zeros(len(noisy))
                for k, table, sign in ((i, one, 1.0), (j, two, -1.0)):
                    spread = resolution.spread(pick, common, table.views)
                    row[starts[k] : starts[k + 1]] = (
                        sign * np.broadcast_to(spread, table.values.shape).ravel()
                    )
                rows.append(row)
                right.append(0.0)
    # equations enter with a weight that makes their violation negligible; forbidden cells are left out
    matrix, target = np.array(rows), np.array(right)
    free = ~np.concatenate(
        [
            np.zeros(table.values.size, bool) if table.forbidden is None else table.forbidden.ravel()
            for table in tables
        ]
    )
    stacked = np.concatenate([np.diag(np.sqrt(weight))[:, free], 1e4 * matrix[:, free]])
    solution = np.zeros(len(noisy))
    solution[free], _ = optimize.nnls(
        stacked, np.concatenate([np.sqrt(weight) * noisy, 1e4 * target]), maxiter=10_000
    )
    return [
        solution[start:end].reshape(table.values.shape)
        for (start, end), table in zip(pairwise(starts), tables, strict=True)
    ]


@pytest.mark.parametrize("draw", range(4))
@pytest.mark.parametrize(
    "views",
    [
        [(("a", 0),), (("a", 0), ("b", 0))],
        [(("a", 0), ("b", 0)), (("b", 0), ("c", 0)), (("a", 0), ("c", 0))],
        [(("a", 1), ("b", 0)), (("a", 0), ("c", 0))],
        [(("a", 1), ("b", 0), ("c", 0)), (("a", 0), ("c", 0)), (("a", 1), ("b", 0))],
    ],
)
def test_tables_agree_and_stay_close(views: list[Any], draw: int) -> None:
    """Groups of a are equally large here, so the average of sums is the exact projection."""
    resolution = Resolution(Domain(tuple("abc"), (4, 3, 2)), {"a": [np.array([0, 0, 1, 1])]})
    generator = np.random.default_rng(draw)
    truth = generator.dirichlet(np.full(24, 0.3)).reshape(4, 3, 2) * 100
    full = [(name, 0) for name in "abc"]
    tables = [
        NoisyTable(
            item,
            resolution.summed(truth, full, item) + generator.normal(0, 4 + index, resolution.shape(item)),
            float((4 + index) ** 2),
            None if index else generator.random(resolution.shape(item)) < 0.1,
        )
        for index, item in enumerate(views)
    ]
    found = agreeing_tables(resolution, tables, 100.0)
    expected = project_exactly(resolution, tables, 100.0)
    for table, one, two in zip(tables, found, expected, strict=True):
        assert (one >= 0).all()
        assert one.sum() == pytest.approx(100.0)
        if table.forbidden is not None:
            assert not one[table.forbidden].any()
        np.testing.assert_allclose(one, two, atol=0.05)


def test_shared_views_are_closed() -> None:
    one, two, three = (("a", 0), ("b", 0), ("c", 0)), (("a", 1), ("b", 0), ("d", 0)), (("a", 0), ("d", 0))
    shared = {frozenset(item) for item in shared_views([one, two, three])}
    for left, right in combinations([*map(frozenset, (one, two, three)), *shared], 2):
        levels = dict(right)
        common = frozenset((name, max(level, levels[name])) for name, level in left if name in levels)
        assert not common or common in shared or common in map(frozenset, (one, two, three))


def test_constraints_empty_the_cells_they_rule_out() -> None:
    schema = Schema.parse(
        "columns: [{name: a, kind: integer, minimum: 0, maximum: 3}, {name: b, kind: boolean}]\n"
        "constraints: [not (a < 2 and b == true)]"
    )
    resolution = resolution_of(schema)
    fine = forbidden_cells(schema, resolution, (("a", 0), ("b", 0)))
    assert fine is not None
    assert fine.tolist() == [[False, True], [False, True], [False, False], [False, False]]
    coarse = forbidden_cells(schema, resolution, (("a", 1), ("b", 0)))
    assert coarse is not None
    assert coarse.tolist() == [[False, True], [False, False]]
    assert forbidden_cells(schema, resolution, (("a", 0),)) is None


# ------------------------------------------------------------------ models


def test_with_much_budget_the_tables_come_back() -> None:
    """At epsilon 1e6 every chosen family has its exact table, up to one row of smoothing."""
    schema = schema_of((3, 2, 6, 4), ordered="c")
    codes = codes_of(schema, 3_000)
    curator = curator_of(schema, codes, PureDP(1e6), Unit.replace_one())
    for options in ({"flavour": "degree", "degree": 2}, {"theta": 1.0}):
        ledger = Ledger.in_memory(budget=PureDP(1e6), unit=Unit.replace_one(), table="test")
        table = LocalTable(schema, codes)
        fresh = Curator(table, unit=Unit.replace_one(), ledger=ledger, randomness=SeededRandomness(1))
        model = PrivBayes(**options).fit(fresh, PureDP(1e6))
        assert isinstance(model.distribution, BayesianNetwork)
        for clique in model.distribution.families:
            exact = curator.counts(clique)._exact
            assert np.abs(model.marginal(clique) - exact).sum() < 10.0
        assert model.total == 3_000
        assert len(model.sample(seed=1)) == 3_000


@pytest.mark.parametrize("generalise", [True, False])
def test_the_graphical_model_learns_from_the_same_measurements(generalise: bool) -> None:
    """103 cells are useful here, so that column b (12 codes) can follow a (16 codes) only in 8 groups."""
    schema = schema_of((16, 12, 2), ordered="ab")
    options: dict[str, Any] = {"n": 2_000, "unit": Unit.replace_one(), "budget": PureDP(2.0), "root": "a"}
    made = {name: fit(name, schema, generalise=generalise, theta=4.5, **options) for name in FAMILY}
    bayes, pgm = (made[name][0] for name in FAMILY)
    assert [item.clique for item in bayes.measurements] == [item.clique for item in pgm.measurements]
    for one, two in zip(bayes.measurements, pgm.measurements, strict=True):
        np.testing.assert_array_equal(one.values, two.values)
    coarse = any(level for node in families_of(bayes) for _, level in node.parents)
    assert coarse == generalise
    assert bayes.history is not None
    assert bayes.history.batches == (len(bayes.measurements),)
    assert pgm.distribution.kind == ("coarse-views" if generalise else "junction-tree")
    difference = bayes.marginal(("a", "b")) - pgm.marginal(("a", "b"))
    assert np.abs(difference).sum() < 0.1 * bayes.total


def test_the_graphical_model_stays_small() -> None:
    """A limit of 2 kB (256 cells) forbids families that PrivBayes would take."""
    schema = schema_of((8, 8, 6, 4, 2))
    options: dict[str, Any] = {"flavour": "degree", "degree": 3, "n": 3_000, "budget": PureDP(100.0)}
    free, _ = fit("privbayes-pgm", schema, **options)
    small, curator = fit("privbayes-pgm", schema, max_model_mb=256 * 8 / 2**20, **options)
    sizes = [
        model_size(schema.domain, [item.clique for item in model.measurements]) for model in (free, small)
    ]
    assert sizes[0] > 256 * 8 / 2**20 >= sizes[1]
    assert len([event for event in events(curator) if event["kind"] == "selection"]) <= 4


def test_steps_whose_scores_are_invariant_are_not_charged() -> None:
    """Nobody can change mutual information in a table of one row under replace-one."""
    schema = schema_of((2, 2, 3))
    curator = curator_of(schema, codes_of(schema, 1), PureDP(1.0), Unit.replace_one())
    limits = Limits(cells=100, degree=1, candidates=100, seed=0, noise=0.0)
    families = learn_network(
        curator, resolution_of(schema), root="a", score="mutual-information", limits=limits, cost=0.5
    )
    assert [family.child for family in families] == ["a", "b", "c"]
    assert curator.ledger.spent == 0
