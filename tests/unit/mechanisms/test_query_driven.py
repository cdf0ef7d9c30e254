"""pep, rap, gem and dualquery: what they learn, what they charge, what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import EntropyProjection, GraphicalModel, ProductMixture
from understudy.errors import BudgetError, DomainTooLarge, WorkloadError
from understudy.marginals import all_kway, box, linear, prefix
from understudy.mechanisms import Model, Synthesizer
from understudy.mechanisms.queries.dualquery import DualQuery, _climbed, best_record
from understudy.mechanisms.queries.gem import GEM, Generator
from understudy.mechanisms.queries.mwem import MWEM
from understudy.mechanisms.queries.pep import PEP
from understudy.mechanisms.queries.product import (
    Layout,
    Target,
    loss_gradient,
    shares,
    softmax,
    softmax_back,
    sparsemax,
    sparsemax_back,
    target_of_cells,
)
from understudy.mechanisms.queries.rap import RAP, RelaxedRows
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
from understudy.schema import Domain, Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: a, kind: integer, minimum: 0, maximum: 3}
  - {name: b, kind: categorical, values: [x, y, z]}
  - {name: c, kind: boolean}
  - {name: d, kind: integer, minimum: 0, maximum: 4}
"""
)
DOMAIN = SCHEMA.domain
QUICK: dict[str, Synthesizer] = {
    "pep": PEP(num_iterations=6),
    "rap": RAP(rounds=5, relaxed_rows=120, steps=80),
    "gem": GEM(rounds=5, batch=120, hidden=48, steps=80),
    "dualquery": DualQuery(rounds=120, num_query=300, samples=60),
}


def table(n: int, seed: int = 0) -> LocalTable:
    """b follows a; c is true for large a; d is on its own."""
    generator = np.random.default_rng(seed)
    a = generator.choice(4, n, p=[0.5, 0.2, 0.2, 0.1])
    b = np.where(generator.random(n) < 0.8, np.minimum(a, 2), generator.integers(0, 3, n))
    d = generator.choice(5, n, p=[0.1, 0.2, 0.4, 0.2, 0.1])
    return LocalTable(SCHEMA, {"a": a, "b": b, "c": (a >= 2).astype(int), "d": d})


def fit(
    method: Synthesizer, budget: Budget, *, n: int = 4_000, unit: Unit | None = None
) -> tuple[Model, Ledger]:
    unit = unit or Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(table(n), unit=unit, ledger=ledger, randomness=SeededRandomness(3))
    return method.fit(curator, budget), ledger


def distance(model: Model, clique: tuple[str, ...], n: int = 4_000) -> float:
    """Half the L1 distance of a marginal, as a share of the rows."""
    return float(np.abs(model.marginal(clique) - table(n).count(clique)).sum() / (2 * n))


# ---------------------------------------------------------------------------------------- what they learn


@pytest.mark.parametrize(("name", "bar"), [("pep", 0.01), ("rap", 0.03), ("gem", 0.03), ("dualquery", 0.12)])
def test_a_very_large_budget_recovers_the_marginals(name: str, bar: float) -> None:
    """a and b are far from independent (.37), a and d independent: the relation is learnt and none is made up.

    Not a matter of chance: the noise of every measurement is below a row; the bars are what 120 parts or 120
    records can do.
    """
    model, _ = fit(QUICK[name], GDP(1_000.0))
    for clique in (("a",), ("a", "b"), ("a", "c"), ("a", "d")):
        assert distance(model, clique) < bar, clique


@pytest.mark.parametrize("name", QUICK)
def test_error_falls_with_the_budget(name: str) -> None:
    """At mu .005 noise is in the thousands for 4,000 rows; at mu 5 it is in the single digits."""
    poor, _ = fit(QUICK[name], GDP(0.005))
    rich, _ = fit(QUICK[name], GDP(5.0))
    cliques = all_kway(DOMAIN, 2).cliques
    assert sum(distance(rich, c) for c in cliques) < 0.5 * sum(distance(poor, c) for c in cliques)


@pytest.mark.parametrize("budget", [PureDP(2.0), ApproxDP(1.0, 1e-6), ZCDP(0.2), GDP(0.7)], ids=repr)
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=lambda u: u.relation)
@pytest.mark.parametrize("name", QUICK)
def test_all_charges_add_up_to_the_budget_and_never_more(name: str, unit: Unit, budget: Budget) -> None:
    model, ledger = fit(QUICK[name], budget, n=300, unit=unit)
    accounting = accounting_named(model.provenance.accounting)
    total, spent = accounting.total(budget), ledger.spending.spent(accounting.name)
    assert 0.999 * total <= spent <= total
    assert model.provenance.spent == pytest.approx(spent)
    ledger.verify()


def test_own_queries_are_answered_without_enumerating() -> None:
    """30 columns of 10 codes have 1e30 cells. The answers of the models come within 5 % of the table's."""
    names = [f"v{i}" for i in range(30)]
    wide = Schema.parse(
        "columns: [" + ", ".join(f"{{name: {n}, kind: integer, minimum: 0, maximum: 9}}" for n in names) + "]"
    )
    generator = np.random.default_rng(0)
    base = generator.integers(0, 10, 3_000)
    columns = {
        n: np.where(generator.random(3_000) < 0.5, base, generator.integers(0, 10, 3_000)) for n in names
    }
    rows = LocalTable(wide, columns)
    domain = wide.domain
    queries = [
        box(domain, {x: [0, 1, 2], y: [0, 1, 2]}) for x, y in zip(names[:8:2], names[1:8:2], strict=True)
    ]
    queries.append(linear(domain, ["v9"], np.arange(10) / 9))
    exact = [query.answer(rows.count(query.clique)) for query in queries]
    methods = [
        PEP(queries=queries, num_iterations=5),
        RAP(queries=queries, rounds=3, per_round=2, relaxed_rows=150),
        GEM(queries=queries, rounds=5, batch=150),
        MWEM(queries=queries, num_iterations=5, num_inner_updates=20),
    ]
    for method in methods:
        budget, unit = GDP(50.0), Unit.replace_one()
        curator = Curator(rows, unit=unit, ledger=Ledger.in_memory(budget=budget, unit=unit, table="t"))
        model = method.fit(curator, budget)
        told = [query.answer(model.marginal(query.clique)) for query in queries]
        np.testing.assert_allclose(told, exact, atol=0.05 * 3_000, err_msg=method.name)
        assert model.statistics
        assert len(model.sample(50, seed=1)) == 50


def test_pep_measures_single_queries_as_paper_births_does() -> None:
    model, _ = fit(PEP(ask="queries", num_query=200, num_iterations=60, marginal=2), GDP(100.0))
    assert len(model.statistics) == 60
    assert distance(model, ("a", "b")) < 0.1
    assert isinstance(model.distribution, GraphicalModel)


def test_kinds_of_models() -> None:
    rap, _ = fit(QUICK["rap"], GDP(1.0), n=200)
    dual, _ = fit(QUICK["dualquery"], GDP(1.0), n=200)
    assert isinstance(rap.distribution, ProductMixture)
    assert len(dual.distribution.parts) == 120  # type: ignore[attr-defined]
    assert len(np.unique(dual.distribution.sample_codes(1_000, np.random.default_rng(0)), axis=0)) <= 120


@pytest.mark.parametrize("name", QUICK)
def test_public_seeds_change_no_noise_and_noise_no_seed(name: str) -> None:
    """Same noise source and seed: the same model. Another noise source: other values. The seed is public."""
    budget = GDP(1.0)
    one, two = (fit(QUICK[name], budget, n=300)[0] for _ in range(2))
    for x, y in zip(one.statistics + one.measurements, two.statistics + two.measurements, strict=True):
        np.testing.assert_array_equal(x.values, y.values)
    other = replace(QUICK[name], public_seed=9)  # type: ignore[type-var, call-arg]
    assert fit(other, budget, n=300)[0].total > 0


# ---------------------------------------------------------------------------------------- refusals


def test_bad_options_are_refused_with_all_reasons() -> None:
    with pytest.raises(BudgetError, match="num_query"):
        PEP(num_query=50, num_iterations=100)
    with pytest.raises(BudgetError) as caught:
        PEP(num_query=0, num_inner_updates=0, marginal=0, slack=0, one_way_share=1.0, ask="all")  # type: ignore[arg-type]
    for word in ("num_query", "num_inner_updates", "marginal", "slack", "one_way_share", "ask"):
        assert word in str(caught.value)
    for cls in (RAP, GEM):
        with pytest.raises(BudgetError) as caught:
            cls(rounds=0, per_round=0, steps=0, measure_share=0.0, calm=-1.0)
        for word in ("rounds", "per_round", "steps", "measure_share", "calm"):
            assert word in str(caught.value)
        with pytest.raises(BudgetError, match="rate"):
            cls(rate=0.0)
        with pytest.raises(BudgetError, match="not both"):
            cls(queries=[prefix(DOMAIN, "a", 1)], workload=all_kway(DOMAIN, 2))
        with pytest.raises(BudgetError, match="per_round"):
            cls(queries=[prefix(DOMAIN, "a", 1)], per_round=2)
    with pytest.raises(BudgetError, match="relax"):
        RAP(relax="hardmax")  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="at least 2"):
        DualQuery(rounds=1)
    with pytest.raises(BudgetError, match="samples"):
        DualQuery(samples=0)


@pytest.mark.parametrize("name", QUICK)
def test_tables_that_cannot_be_served_are_refused_before_anything_is_spent(name: str) -> None:
    unit, budget = Unit.add_remove(), PureDP(1.0)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(table(50), unit=unit, ledger=ledger)
    wrong = Domain(("z",), (3,))
    quick = DualQuery(rounds=120, samples=60) if name == "dualquery" else QUICK[name]
    cases: list[tuple[Synthesizer, type[Exception]]] = [
        (replace(quick, queries=[prefix(wrong, "z", 1)], **_fewer(name)), WorkloadError),  # type: ignore[type-var]
        (replace(quick, queries=[{"box": {"a": [7]}}]), WorkloadError),  # type: ignore[type-var]
        (replace(quick, queries="/nonexistent.yaml"), WorkloadError),  # type: ignore[type-var]
    ]
    if name == "pep":
        cases.append((PEP(max_model_mb=1e-5), DomainTooLarge))
        cases.append((PEP(queries=[{"prefix": {"a": 1}}], num_iterations=3), BudgetError))
    if name in ("rap", "gem"):
        cases.append((replace(QUICK[name], max_cells=3), DomainTooLarge))  # type: ignore[type-var, call-arg]
        cases.append((replace(QUICK[name], per_round=99), BudgetError))  # type: ignore[type-var, call-arg]
    for method, error in cases:
        with pytest.raises(error):
            method.plan(SCHEMA, unit=unit, budget=budget)
        with pytest.raises(error):
            method.fit(curator, budget)
    assert ledger.spent == 0


def _fewer(name: str) -> dict[str, int]:
    return {"num_iterations": 1} if name == "pep" else {}


# ---------------------------------------------------------------------------------------- parts


def test_gradients_are_those_of_finite_differences() -> None:
    domain = Domain(("a", "b", "c"), (3, 4, 5))
    layout = Layout(domain)
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(6, 12)).astype(np.float32)
    targets = [
        Target(("a", "b", "c"), 10 * generator.random(60), 2.0),
        Target(("b",), 10 * generator.random(4), 1.0),
        Target(("a", "c"), 10 * generator.random(2), 1.0, generator.random((2, 15))),
    ]
    for forward, back in ((softmax, softmax_back), (sparsemax, sparsemax_back)):
        margins = forward(layout, scores)
        assert margins.reshape(-1).min() >= 0
        gradient = back(layout, margins, loss_gradient(layout, margins, targets, 100.0)[1])
        for place in ((0, 0), (2, 5), (3, 11), (5, 2)):
            step = np.zeros_like(scores)
            step[place] = 0.01
            up, down = (
                loss_gradient(layout, forward(layout, scores + s), targets, 100.0)[0] for s in (step, -step)
            )
            assert gradient[place] == pytest.approx((up - down) / 0.02, rel=2e-3, abs=0.05)


def test_gradients_of_the_network_are_those_of_finite_differences() -> None:
    layout = Layout(Domain(("a", "b"), (3, 4)))
    start = {"a": np.full(3, 1 / 3), "b": np.full(4, 0.25)}
    network = Generator(layout, start, batch=20, inputs=4, hidden=6, rate=0.01, seed=1)
    targets = [Target(("a", "b"), np.arange(12.0), 1.0)]
    _, slopes = network.gradients(targets, 60.0, calm=0.0)
    for which, place in ((0, (1, 2)), (1, (3,)), (2, (0, 5)), (4, (2, 1)), (5, (3, 6)), (6, (0,))):
        array = network.parameters[which]
        kept = array[place]
        losses = []
        for shift in (0.003, -0.003):
            array[place] = kept + shift
            losses.append(network.gradients(targets, 60.0, calm=0.0)[0])
        array[place] = kept
        assert slopes[which][place] == pytest.approx((losses[0] - losses[1]) / 0.006, rel=0.02, abs=0.05)


def test_a_mixture_answers_any_clique_in_the_order_asked() -> None:
    generator = np.random.default_rng(1)
    domain = Domain(("a", "b", "c"), (5, 2, 3))
    layout = Layout(domain)
    matrix = softmax(layout, generator.normal(size=(7, 10)).astype(np.float32))
    margins = layout.split(matrix)
    whole = np.einsum("pi,pj,pk->ijk", *(margins[n].astype(float) for n in "abc")) / 7
    for clique, axes in ((("a", "b", "c"), ()), (("a", "c"), (1,)), (("b",), (0, 2))):
        np.testing.assert_allclose(shares(margins, clique), whole.sum(axis=axes), atol=1e-6)


@pytest.mark.parametrize("relax", ["softmax", "sparsemax"])
def test_calm_rows_do_not_make_relations_up(relax: str) -> None:
    """Fitted to independent columns, the rows stay nearly alike; without calm they drift apart."""
    layout = Layout(Domain(("a", "b"), (4, 4)))
    start = {"a": np.full(4, 0.25), "b": np.full(4, 0.25)}
    targets = [Target(("a",), np.full(4, 250.0), 1.0), Target(("b",), np.full(4, 250.0), 1.0)]
    spread = []
    for calm in (1_000.0, 0.0):
        rows = RelaxedRows(layout, start, rows=40, relax=relax, rate=0.1, seed=0)  # type: ignore[arg-type]
        rows.fit(targets, 1_000.0, calm=calm, steps=200)
        assert abs(rows.margins().mean() - 0.25) < 1e-3
        spread.append(float(rows.margins().std()))
    assert spread[0] < 0.3 * spread[1]


def test_entropy_projection_agrees_with_brute_force() -> None:
    """Bounds on two overlapping marginals and on one query, against exponentiated gradients on all 24 cells."""
    domain = Domain(("a", "b", "c"), (4, 3, 2))
    truth = np.random.default_rng(3).dirichlet(np.ones(24)).reshape(4, 3, 2) * 100
    held = EntropyProjection(domain, 100.0)
    values = np.linspace(0, 1, 8).reshape(4, 2)
    held.bound_cells(("a", "b"), truth.sum(axis=2) - 1, truth.sum(axis=2) + 1)
    held.bound_cells(("b", "c"), truth.sum(axis=0) - 1, truth.sum(axis=0) + 1)
    answer = float((truth.sum(axis=1) * values).sum())
    held.bound_query(("a", "c"), values, answer - 0.5, answer + 0.5)
    held.project(updates=50)
    held.sweep(200)
    model = held.model()
    ab, bc = model.marginal(("a", "b")), model.marginal(("b", "c"))
    assert (np.abs(ab - truth.sum(axis=2)) <= 1 + 1e-6).all()
    assert (np.abs(bc - truth.sum(axis=0)) <= 1 + 1e-6).all()
    assert abs((model.marginal(("a", "c")) * values).sum() - answer) <= 0.5 + 1e-6
    found = model.marginal(domain.names)
    best = _most_random(truth, values, answer)

    def entropy(p: np.ndarray) -> float:
        q = p.ravel() / p.sum()
        return float(-(q * np.log(np.maximum(q, 1e-300))).sum())

    assert entropy(found) == pytest.approx(entropy(best), abs=1e-4)


def _most_random(truth: np.ndarray, values: np.ndarray, answer: float) -> np.ndarray:
    """The same problem handed to a general solver."""
    from scipy.optimize import LinearConstraint, minimize

    rows: list[np.ndarray] = []
    low: list[float] = []
    high: list[float] = []
    for axis, exact in ((2, truth.sum(axis=2)), (0, truth.sum(axis=0))):
        for cell in range(exact.size):
            mask = np.zeros(exact.size)
            mask[cell] = 1
            spread = np.expand_dims(mask.reshape(exact.shape), axis)
            rows.append(np.broadcast_to(spread, truth.shape).ravel())
            low.append((exact.ravel()[cell] - 1) / 100)
            high.append((exact.ravel()[cell] + 1) / 100)
    rows.append(np.broadcast_to(values[:, None, :], truth.shape).ravel())
    low.append((answer - 0.5) / 100)
    high.append((answer + 0.5) / 100)
    found = minimize(
        lambda p: float((p * np.log(np.maximum(p, 1e-12))).sum()),
        truth.ravel() / 100,
        jac=lambda p: np.log(np.maximum(p, 1e-12)) + 1,
        bounds=[(1e-9, 1)] * 24,
        constraints=[LinearConstraint(np.array(rows), low, high), LinearConstraint(np.ones((1, 24)), 1, 1)],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return np.asarray(found.x).reshape(truth.shape)


def test_impossible_bounds_are_moved_apart_and_zeros_kept() -> None:
    allowed = np.array([[True, True], [True, False]])
    held = EntropyProjection(Domain(("a", "b"), (2, 2)), 100.0, zeros=[(("a", "b"), allowed)])
    held.bound_cells(("a",), np.array([-9.0, -8.0]), np.array([-5.0, -4.0]))  # far too low for a total of 100
    held.bound_cells(("b",), np.array([90.0, 90.0]), np.array([95.0, 95.0]))  # far too high
    held.sweep(30)
    found = held.model().marginal(("a", "b"))
    assert found.sum() == pytest.approx(100)
    assert found[1, 1] == 0
    with pytest.raises(WorkloadError, match="do not fit"):
        held.bound_cells(("a",), np.zeros(3), np.ones(3))
    with pytest.raises(WorkloadError, match="does not fit"):
        held.bound_query(("a",), np.zeros(2), 2.0, 1.0)


def test_the_search_for_records_finds_the_best_one() -> None:
    """Climbing from many starts agrees with trying all records, on sums of random boxes."""
    from understudy.marginals import random_boxes

    domain = Domain(tuple("abcde"), (4, 3, 5, 2, 3))
    for number in range(20):
        generator = np.random.default_rng(number)
        asked = random_boxes(domain, 12, order=2, generator=generator)
        signs = generator.choice([-1.0, 1.0], 12).tolist()

        def score(record: np.ndarray, asked=asked, signs=signs) -> float:
            return sum(
                s * q.values[tuple(record[domain.index(n)] for n in q.clique)]
                for s, q in zip(signs, asked, strict=True)
            )

        best = best_record(domain, asked, signs, starts=8, generator=generator)
        climbed = _climbed(domain, domain.names, asked, signs, 64, generator)
        assert score(climbed) == score(best)
        every = np.stack(np.unravel_index(np.arange(domain.cells()), domain.sizes), axis=1)
        assert score(best) == max(score(record) for record in every)


# ---------------------------------------------------------------------------------------- published forms

PUBLISHED: dict[str, Synthesizer] = {
    "rap": RAP(form="published", rounds=4, per_round=6, relaxed_rows=120, steps=80),
    "gem": GEM(form="published", rounds=4, batch=120, hidden=48, steps=80),
}


@pytest.mark.parametrize("budget", [PureDP(2.0), ApproxDP(1.0, 1e-6), ZCDP(0.2), GDP(0.7)], ids=repr)
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=lambda u: u.relation)
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_forms_spend_no_more_than_the_budget(name: str, unit: Unit, budget: Budget) -> None:
    """Cells of one marginal that are measured together cost less than the sum that rap reserves for them."""
    model, ledger = fit(PUBLISHED[name], budget, n=300, unit=unit)
    accounting = accounting_named(model.provenance.accounting)
    total, spent = accounting.total(budget), ledger.spending.spent(accounting.name)
    assert (0.5 if name == "rap" else 0.999) * total <= spent <= total
    ledger.verify()
    plan = PUBLISHED[name].plan(SCHEMA, unit=unit, budget=budget)
    assert [item.clique for item in plan.measurements] == ([] if unit.keeps_rows else [()])


@pytest.mark.parametrize(("rounds", "per_round", "rho"), [(1, 3, 0.75), (2, 3, 1.5), (4, 2, 2.0)])
def test_budgets_without_slack_pay_for_all_published_rounds(rounds: int, per_round: int, rho: float) -> None:
    """The joint distance of a round's cells is rounded up, which a price that leaves nothing over did not pay."""
    unit, budget = Unit.replace_one(), ZCDP(rho)
    method = RAP(form="published", rounds=rounds, per_round=per_round, relaxed_rows=40, steps=10)
    _, ledger = fit(method, budget, n=300, unit=unit)
    assert ledger.spent <= rho


def test_rap_as_published_measures_cells_that_are_most_wrong() -> None:
    """At mu 1000 the choice is the worst cell of all 3-way marginals, by rows of hundreds: no matter of chance."""
    model, ledger = fit(PUBLISHED["rap"], GDP(1_000.0))
    assert not model.measurements
    assert [len(item.values) for item in model.statistics if "cells" in item.name] == [6] * 4
    purposes = [entry.purpose for entry in ledger.entries() if entry.event is not None]
    assert purposes[0] == "measure the number of rows"
    assert purposes[1:8] == ["choose a cell"] * 6 + ["measure 6 cells"]
    exact = np.concatenate([table(4_000).count(clique).ravel() for clique in all_kway(DOMAIN, 3).cliques])
    first = next(item for item in model.statistics if "cells" in item.name)
    assert sorted(np.round(first.values)) == sorted(
        exact[np.argsort(-np.abs(exact - np.rint(_uniform())), kind="stable")[:6]]
    )


def _uniform() -> np.ndarray:
    """Counts of 4,000 rows spread as the relaxed rows are at first, over all 3-way marginals."""
    layout = Layout(DOMAIN)
    even = {name: np.full(size, 1 / size) for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)}
    rows = RelaxedRows(layout, even, rows=120, relax="sparsemax", rate=0.1, seed=0)
    margins = layout.split(rows.margins())
    return np.concatenate([4_000 * shares(margins, c).ravel() for c in all_kway(DOMAIN, 3).cliques])


def test_gem_as_published_measures_workload_marginals_alone() -> None:
    model, _ = fit(PUBLISHED["gem"], GDP(5.0))
    assert {len(item.clique) for item in model.measurements} == {3}
    assert len(model.measurements) == 4
    usual, _ = fit(QUICK["gem"], GDP(5.0))
    assert 1 in {len(item.clique) for item in usual.measurements}


@pytest.mark.parametrize("absolute", [False, True])
def test_the_gradient_of_single_cells_is_that_of_differences(absolute: bool) -> None:
    """Against central differences of the loss, in double steps of single precision: within a hundredth."""
    layout = Layout(DOMAIN)
    generator = np.random.default_rng(0)
    matrix = softmax(layout, generator.normal(size=(7, layout.width)).astype(np.float32))
    cells = [(("a", "b", "c"), (1, 2, 0)), (("b", "d"), (0, 3)), (("a", "b", "c"), (3, 0, 1))]
    targets = target_of_cells(layout, cells, np.array([30.0, 5.0, 80.0]), 9.0)
    assert {target.places.shape for target in targets} == {(2, 3), (1, 2)}
    _, gradient = loss_gradient(layout, matrix, targets, 400.0, absolute=absolute)
    for part, column in [(0, 1), (3, 6), (6, 7), (2, 12)]:
        near = []
        for step in (1e-2, -1e-2):
            moved = matrix.copy()
            moved[part, column] += np.float32(step)
            near.append(loss_gradient(layout, moved, targets, 400.0, absolute=absolute)[0])
        assert gradient[part, column] == pytest.approx((near[0] - near[1]) / 2e-2, rel=1e-2, abs=1e-2)


def test_cells_and_their_marginal_have_the_same_loss() -> None:
    layout = Layout(DOMAIN)
    matrix = softmax(layout, np.random.default_rng(1).normal(size=(5, layout.width)).astype(np.float32))
    values = np.arange(12.0)
    cells = [(("a", "b"), (i, j)) for i in range(4) for j in range(3)]
    one = loss_gradient(layout, matrix, target_of_cells(layout, cells, values, 4.0), 100.0)
    two = loss_gradient(layout, matrix, [Target(("a", "b"), values, 4.0)], 100.0)
    assert one[0] == pytest.approx(two[0], rel=1e-5)
    np.testing.assert_allclose(one[1], two[1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [RAP, GEM])
def test_options_of_the_improved_form_are_refused_in_the_published(kind: type[RAP] | type[GEM]) -> None:
    for options in ({"calm": 0.1}, {"one_way_share": 0.2}, {"measure_share": 0.8}, {"max_cells": 9}):
        with pytest.raises(BudgetError, match="form is published"):
            kind(form="published", **options)
    with pytest.raises(BudgetError, match="form"):
        kind(form="other")  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="per_round"):
        kind(form="published", per_round=10_000).plan(SCHEMA, unit=Unit.add_remove(), budget=GDP(1.0))
    with pytest.raises(BudgetError, match="relax"):
        RAP(form="published", relax="sparsemax")
