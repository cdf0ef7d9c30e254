from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import model_size
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Workload, all_kway, workload_error
from understudy.mechanisms import Model, create
from understudy.mechanisms.marginal.aim import AIM
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.accounting import ACCOUNTINGS
from understudy.schema import Domain, Integer, Schema


def table(sizes: tuple[int, ...], n: int, seed: int = 0) -> LocalTable:
    """Columns that form a chain: each mostly copies the one before it."""
    generator = np.random.default_rng(seed)
    columns, before = {}, generator.integers(0, sizes[0], n)
    for index, size in enumerate(sizes):
        copy = generator.random(n) < 0.85
        before = np.where(copy, before % size, generator.integers(0, size, n))
        columns[f"c{index}"] = before.astype(np.uint8)
    schema = Schema(tuple(Integer(f"c{i}", minimum=0, maximum=size - 1) for i, size in enumerate(sizes)))
    return LocalTable(schema, columns)


def fit(
    records: LocalTable, budget: Budget, unit: Unit, *, seed: int = 0, **options: object
) -> tuple[Model, Curator]:
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(records, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))
    return AIM(**options).fit(curator, budget), curator  # type: ignore[arg-type]


budgets = st.one_of(
    st.floats(1e-3, 30).map(PureDP),
    st.floats(1e-4, 5).map(ZCDP),
    st.floats(1e-2, 4).map(GDP),
    st.tuples(st.floats(0.02, 10), st.sampled_from([1e-12, 1e-6, 0.01])).map(lambda pair: ApproxDP(*pair)),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    budget=budgets,
    k=st.integers(1, 3),
    replace=st.booleans(),
    rounds=st.floats(1, 20),
    share=st.floats(0.05, 0.95),
    size=st.sampled_from([0.0005, 0.01, 80.0]),
    tolerated=st.sampled_from([0.0, 0.001, 0.1]),
    certify=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 1000),
)
def test_the_filter_never_overspends(
    budget: Budget,
    k: int,
    replace: bool,
    rounds: float,
    share: float,
    size: float,
    tolerated: float,
    certify: float,
    seed: int,
) -> None:
    records = table((3, 4, 2, 5), 200)
    unit = Unit.replace_one() if replace else Unit.add_remove()
    model, curator = fit(
        records, budget, unit, seed=seed, workload=all_kway(records.schema.domain, k),
        rounds_per_column=rounds, measure_share=share, max_model_mb=size, column_noise=tolerated, certify=certify,
    )  # fmt: skip
    way = ACCOUNTINGS[model.provenance.accounting]  # an approximate budget may be spent as a pure epsilon
    total = way.exact_total(budget)
    spent = curator.ledger.spending.sums[way.name]
    assert curator.ledger.rule.holds(curator.ledger.spending)
    assert spent is not None
    assert spent <= total
    # nothing is left lying about, but for what rounding certified numbers to a grid may cost
    assert spent >= total * (1 - (1e-6 if certify == 0 else 2.0**-10))
    assert model_size(records.schema.domain, {item.clique for item in model.measurements}) <= max(
        size, 0.0005
    )


def test_it_learns_what_independent_columns_cannot_know() -> None:
    """With 4,000 rows and epsilon 2 the chain must show; a wrong sign in the score would measure noise."""
    from understudy.mechanisms.marginal.independent import Independent

    records = table((4, 4, 4, 4, 4), 4_000)
    domain = records.schema.domain
    budget, unit = ApproxDP(2.0, 1e-9), Unit.add_remove()
    workload = all_kway(domain, 2)
    exact = records.count_many(workload.cliques)
    aim, _ = fit(records, budget, unit, workload=workload)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    plain = Independent().fit(
        Curator(records, unit=unit, ledger=ledger, randomness=SeededRandomness(0)), budget
    )
    error, baseline = (
        workload_error(workload, exact, model.marginals(workload.cliques), n_rows=4_000)
        for model in (aim, plain)
    )
    assert error < baseline / 4
    neighbours = {item.clique for item in aim.measurements if len(item.clique) == 2}
    assert {("c0", "c1"), ("c1", "c2"), ("c2", "c3"), ("c3", "c4")} & neighbours


def test_rows_are_fitted_to_the_workload() -> None:
    records = table((4, 4, 4, 4), 2_000)
    model, _ = fit(
        records, ApproxDP(2.0, 1e-9), Unit.add_remove(), workload=all_kway(records.schema.domain, 2)
    )
    cliques = all_kway(records.schema.domain, 2).cliques
    wanted = [answer * 2_000 / model.total for answer in model.marginals(cliques)]
    drawn = LocalTable(records.schema, model.sample_codes(2_000, seed=1)).count_many(cliques)
    raw = LocalTable(
        records.schema,
        dict(
            zip(
                records.schema.names,
                model.distribution.sample_codes(2_000, np.random.default_rng(1)).T,
                strict=True,
            )
        ),
    ).count_many(cliques)
    fitted_error = sum(np.abs(a - b).sum() for a, b in zip(wanted, drawn, strict=True))
    raw_error = sum(np.abs(a - b).sum() for a, b in zip(wanted, raw, strict=True))
    assert fitted_error < raw_error / 2


def test_what_cannot_be_done_is_said_before_anything_is_spent() -> None:
    records = table((3, 200), 50)
    unit, budget = Unit.add_remove(), PureDP(1.0)
    with pytest.raises(DomainTooLarge, match="c1"):
        AIM(max_model_mb=0.001).plan(records.schema, unit=unit, budget=budget)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    with pytest.raises(DomainTooLarge):
        AIM(max_model_mb=0.001).fit(Curator(records, unit=unit, ledger=ledger), budget)
    other = Workload.uniform(Domain(("x",), (2,)), [("x",)])
    with pytest.raises(BudgetError, match="other columns"):
        AIM(workload=other).fit(Curator(records, unit=unit, ledger=ledger), budget)
    assert ledger.spent == 0
    for options in (
        {"max_model_mb": 0},
        {"rounds_per_column": 0},
        {"measure_share": 1.0},
        {"max_candidates": 0},
        {"column_noise": -0.1},
    ):
        with pytest.raises(BudgetError):
            AIM(**options)


def test_a_wide_table_gets_a_bounded_candidate_set_and_a_note() -> None:
    schema = Schema(tuple(Integer(f"c{i}", minimum=0, maximum=1) for i in range(60)))
    plan = AIM(max_candidates=500).plan(schema, unit=Unit.add_remove(), budget=ApproxDP(1.0, 1e-9))
    assert len(plan.measurements) == 60
    assert any("only estimated" in note for note in plan.notes)


def test_what_comes_first_gets_its_share_and_the_budget_holds() -> None:
    """A column measured first, with a twentieth of the budget, has a twentieth of the cost and so far less noise than the others."""
    records, unit, budget = table((4, 3, 3, 2), 2_000), Unit.add_remove(), ZCDP(1.0)
    plain, _ = fit(records, budget, unit)
    model, curator = fit(records, budget, unit, first=((("c1",), 0.05), (("c2", "c3"), 0.1)))
    assert [item.clique for item in model.measurements[:2]] == [("c1",), ("c2", "c3")]
    assert model.measurements[0].scale == pytest.approx((0.5 / 0.05) ** 0.5, rel=1e-6)
    assert model.measurements[1].scale == pytest.approx((0.5 / 0.1) ** 0.5, rel=1e-6)
    assert model.measurements[0].scale < plain.measurements[1].scale
    assert curator.ledger.spent <= curator.ledger.total
    planned = AIM(first=((("c1",), 0.05),)).plan(records.schema, unit=unit, budget=budget)
    assert planned.measurements[0].clique == ("c1",)
    assert planned.measurements[0].noise.scale == pytest.approx((0.5 / 0.05) ** 0.5, rel=1e-6)


@pytest.mark.parametrize(
    "first", [((("c1",), 0.0),), ((("c1",), 0.6),), (((), 0.1),), ("c1",), ((("c1",), -0.1),)]
)
def test_shares_of_what_comes_first_are_checked(first: object) -> None:
    with pytest.raises(BudgetError, match="first"):
        AIM(first=first)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["aim", "sift"])
def test_a_certificate_whose_noise_cannot_be_drawn_is_refused_before_anything_is_charged(method: str) -> None:
    """Noise on a number is drawn in steps of its grid, of which a scale has at most 2**40; the look comes last, when all the rest is paid for."""
    schema = Schema.parse(
        "columns: [{name: a, kind: boolean}, {name: b, kind: boolean}, {name: c, kind: boolean}]"
    )
    table = LocalTable(schema, {name: np.array([0, 1] * 50) for name in "abc"})
    for epsilon, refused in ((1e-6, True), (1e-3, False)):
        budget, unit = PureDP(epsilon), Unit.add_remove()
        with Ledger.in_memory(budget=budget, unit=unit) as book:
            curator = Curator(table, unit=unit, ledger=book)
            if refused:
                with pytest.raises(BudgetError, match="certify leaves too little"):
                    create(method, certify=0.2).fit(curator, budget)
                assert book.spent == 0
            else:
                assert create(method, certify=0.2).fit(curator, budget).total >= 0
