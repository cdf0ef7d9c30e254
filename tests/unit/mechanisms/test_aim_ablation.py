"""AIM without each element of the ablation of its paper: what is measured, what is charged, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import GraphicalModel, ProductMixture
from understudy.errors import BudgetError
from understudy.mechanisms import Model
from understudy.mechanisms.marginal.aim import AIM
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.accounting import ACCOUNTINGS, GDP_ACCOUNTING
from understudy.privacy.events import LaplaceEvent, SelectionEvent
from understudy.privacy.rows import PublicRows
from understudy.schema import Integer, Schema

SIZES = (3, 4, 2, 5)
SCHEMA = Schema(tuple(Integer(f"c{i}", minimum=0, maximum=size - 1) for i, size in enumerate(SIZES)))
COLUMNS = {(name,) for name in SCHEMA.names}


def table(n: int = 3_000) -> LocalTable:
    """Columns that form a chain: each mostly copies the one before it."""
    generator = np.random.default_rng(0)
    columns, before = {}, generator.integers(0, SIZES[0], n)
    for index, size in enumerate(SIZES):
        before = np.where(generator.random(n) < 0.85, before % size, generator.integers(0, size, n))
        columns[f"c{index}"] = before.astype(np.uint8)
    return LocalTable(SCHEMA, columns)


def fit(
    budget: Budget, *, unit: Unit | None = None, n: int = 3_000, seed: int = 0, **options: object
) -> tuple[Model, Ledger]:
    unit = unit or Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(table(n), unit=unit, ledger=ledger, randomness=SeededRandomness(seed))
    return AIM(**options).fit(curator, budget), ledger  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    budget=st.one_of(
        st.floats(1e-3, 30).map(PureDP),
        st.floats(1e-4, 5).map(ZCDP),
        st.floats(1e-2, 4).map(GDP),
        st.floats(0.02, 10).map(lambda epsilon: ApproxDP(epsilon, 1e-6)),
    ),
    replace=st.booleans(),
    initialise=st.booleans(),
    score=st.sampled_from(["gain", "error"]),
    anneal=st.booleans(),
    noise=st.sampled_from(["auto", "laplace"]),
    estimation=st.sampled_from(["graphical", "graphical", "relaxed"]),
    rounds=st.floats(1, 4),
    seed=st.integers(0, 1000),
)
def test_no_combination_overspends(
    budget: Budget,
    replace: bool,
    initialise: bool,
    score: str,
    anneal: bool,
    noise: str,
    estimation: str,
    rounds: float,
    seed: int,
) -> None:
    unit = Unit.replace_one() if replace else Unit.add_remove()
    model, ledger = fit(
        budget, unit=unit, n=200, seed=seed, initialise=initialise, score=score, anneal=anneal, noise=noise,
        estimation=estimation, rounds_per_column=rounds,
    )  # fmt: skip
    way = ACCOUNTINGS[model.provenance.accounting]
    spent = ledger.spending.sums[way.name]
    assert spent is not None
    assert ledger.rule.holds(ledger.spending)
    assert 0.99 * way.total(budget) <= float(spent) <= way.total(budget)
    assert noise == "auto" or all(item.noise == "laplace" for item in model.measurements if item.clique)


def test_without_initialisation_only_the_number_of_rows_is_measured_first() -> None:
    with_columns, _ = fit(ZCDP(0.1))
    assert {item.clique for item in with_columns.measurements[:4]} == COLUMNS
    model, ledger = fit(ZCDP(0.1), initialise=False)
    assert model.measurements[0].clique == ()
    assert len(model.measurements) == 1 + len(model.rounds)
    first = next(entry.event for entry in ledger.entries() if entry.event is not None)
    cost = ACCOUNTINGS["zcdp"].cost(first)
    assert cost == pytest.approx(0.001, rel=1e-6), "a hundredth of the budget"
    plan = AIM(initialise=False).plan(SCHEMA, unit=Unit.add_remove(), budget=ZCDP(0.1))
    assert [item.clique for item in plan.measurements] == [()]
    assert plan.measurements[0].noise.scale == model.measurements[0].scale


def test_a_public_number_of_rows_is_not_measured() -> None:
    model, _ = fit(ZCDP(0.1), unit=Unit.replace_one(), initialise=False)
    assert len(model.measurements) == len(model.rounds)
    assert model.distribution.total == pytest.approx(3_000)
    assert not AIM(initialise=False).plan(SCHEMA, unit=Unit.replace_one(), budget=ZCDP(0.1)).measurements


@pytest.mark.parametrize("rows", [290, PublicRows.measured(290, scale=2.0), PublicRows.exactly(300)])
def test_without_initialisation_the_number_of_rows_is_measured_unless_it_is_exact(
    rows: PublicRows | int,
) -> None:
    """Under replace-one the relation fixes the number, but a number that is given in its place need not be exact."""
    schema = Schema([Integer("a", minimum=0, maximum=2), Integer("b", minimum=0, maximum=3)])
    table = LocalTable(schema, {"a": np.arange(300) % 3, "b": np.arange(300) % 4})
    unit, budget = Unit.replace_one(), ZCDP(1.0)
    with Ledger.in_memory(budget=budget, unit=unit) as ledger:
        curator = Curator(table, unit=unit, ledger=ledger, rows=rows, randomness=SeededRandomness(1))
        model = AIM(initialise=False).fit(curator, budget)
    counted = [item for item in model.measurements if item.clique == ()]
    assert len(counted) == (0 if isinstance(rows, PublicRows) and rows.exact else 1)
    assert abs(model.distribution.total - 300) < 60


def test_the_old_score_has_no_weights_and_takes_one_row_off_per_cell() -> None:
    new, _ = fit(ZCDP(0.1))
    old, _ = fit(ZCDP(0.1), score="error")
    assert {(step.penalty, step.weight, step.largest_weight) for step in old.rounds} == {(1.0, 1.0, 1.0)}
    assert all(step.penalty > 1 and step.largest_weight > 1 for step in new.rounds[:1])


def test_without_annealing_all_rounds_but_the_last_have_one_price() -> None:
    model, _ = fit(ZCDP(0.001), anneal=False, rounds_per_column=5)
    scales = [step.measurement.scale for step in model.rounds]
    assert len(set(scales[:-1])) == 1
    # nine tenths of a twentieth for each of four columns, twentieths for the rounds; the last takes less than two
    assert len(scales) == 16
    annealed, _ = fit(ZCDP(0.001), rounds_per_column=5)
    assert len({step.measurement.scale for step in annealed.rounds[:-1]}) > 1


@pytest.mark.parametrize("budget", [ApproxDP(1.0, 1e-9), ZCDP(0.05), GDP(0.3)], ids=repr)
def test_laplace_noise_is_charged_as_what_it_is(budget: Budget) -> None:
    """Every event of the ledger is a Laplace mechanism or a choice, and none is charged less than it costs."""
    model, ledger = fit(budget, noise="laplace", column_noise=0)
    charged = [entry.event for entry in ledger.entries() if entry.event is not None]
    events = [inner for event in charged for inner in getattr(event, "events", (event,))]
    assert {type(event) for event in events} == {LaplaceEvent, SelectionEvent}
    way = ACCOUNTINGS[model.provenance.accounting]
    exact = sum(way.cost(event) for event in events)
    assert way.name != "pure"
    assert exact == pytest.approx(float(ledger.spending.sums[way.name] or 0))
    # Laplace noise of a small cost deviates by 1.41 times as much as Gaussian noise under rho, by 1.77 times under mu:
    # the deviation is sqrt(2) b, and b = 1/sqrt(2 rho), or sqrt(pi/2)/mu
    plain = AIM(column_noise=0).expected_noise(SCHEMA, Unit.add_remove(), way, way.total(budget))
    other = AIM(noise="laplace").expected_noise(SCHEMA, Unit.add_remove(), way, way.total(budget))
    assert other / plain == pytest.approx(2**0.5 if way.name == "zcdp" else np.pi**0.5, rel=0.02)


def test_relaxed_estimation_learns_and_keeps_constraints() -> None:
    """At mu 20 noise is a few rows: pairs of the chain come within 3 % of the records, where independence is off by 30 %."""
    model, _ = fit(GDP(20.0), estimation="relaxed")
    usual, _ = fit(GDP(20.0))
    assert isinstance(model.distribution, ProductMixture)
    assert isinstance(usual.distribution, GraphicalModel)
    exact = table().count(("c0", "c1"))
    assert np.abs(model.marginal(("c0", "c1")) - exact).sum() / (2 * 3_000) < 0.03
    independent = np.outer(exact.sum(axis=1), exact.sum(axis=0)) / 3_000
    assert np.abs(independent - exact).sum() / (2 * 3_000) > 0.3


def test_defaults_are_the_whole_mechanism() -> None:
    usual, _ = fit(GDP(1.0))
    told, _ = fit(GDP(1.0), initialise=True, score="gain", anneal=True, noise="auto", estimation="graphical")
    assert [item.values.tolist() for item in usual.measurements] == [
        item.values.tolist() for item in told.measurements
    ]


def test_the_noise_of_an_accounting_is_gaussian_unless_asked_otherwise() -> None:
    model, _ = fit(GDP(1.0))
    assert {item.noise for item in model.measurements} == {"gaussian"}
    assert GDP_ACCOUNTING.cost(LaplaceEvent(1.0, 2.0)) > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"score": "best"}, "score"),
        ({"noise": "cauchy"}, "noise"),
        ({"estimation": "deep"}, "estimation"),
        ({"initialise": "yes"}, "initialise"),
        ({"anneal": 2}, "anneal"),
        ({"initialise": False, "column_noise": 0.0}, "column_noise .* initialise is false"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        AIM(**options)  # type: ignore[arg-type]


def test_a_relaxed_estimate_takes_no_prior() -> None:
    usual, _ = fit(GDP(1.0))
    assert isinstance(usual.distribution, GraphicalModel)
    with pytest.raises(BudgetError, match="estimation is relaxed"):
        AIM(prior=usual.distribution, estimation="relaxed")
