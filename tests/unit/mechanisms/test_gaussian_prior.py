"""A model of public data behind fixed marginals: it helps where little has changed, gives way where much has, and costs nothing."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import GraphicalModel, estimate
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement, Workload, all_kway, workload_error
from understudy.mechanisms import Model
from understudy.mechanisms.marginal.fixed import towards_prior
from understudy.mechanisms.marginal.gaussian import GaussianWorkload
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema import Domain, Integer, Schema

SIZES = (6, 6, 6, 6)
SCHEMA = Schema(tuple(Integer(f"c{i}", minimum=0, maximum=size - 1) for i, size in enumerate(SIZES)))
ROWS = 3_000
BUDGET, UNIT = ApproxDP(0.3, 1e-6), Unit.replace_one()


def _table(seed: int, shift: float = 0.0) -> LocalTable:
    """A chain of columns; ``shift`` is how often the first one differs from that of other years."""
    generator = np.random.default_rng(seed)
    first = np.minimum(generator.geometric(0.4, ROWS) - 1, 5)
    columns = [np.where(generator.random(ROWS) < shift, 5 - first, first)]
    for _ in range(3):
        near = np.clip(columns[-1] + generator.integers(-1, 2, ROWS), 0, 5)
        columns.append(near)
    return LocalTable(SCHEMA, {f"c{i}": column.astype(np.uint8) for i, column in enumerate(columns)})


def _prior(table: LocalTable) -> GraphicalModel:
    pairs = [("c0", "c1"), ("c1", "c2"), ("c2", "c3")]
    seen = [Measurement(pair, table.count(pair).astype(float), "gaussian", 10.0) for pair in pairs]
    return estimate(SCHEMA.domain, seen)


def _fit(table: LocalTable, method: GaussianWorkload, seed: int) -> tuple[Model, Ledger]:
    ledger = Ledger.in_memory(budget=BUDGET, unit=UNIT, table="t")
    curator = Curator(table, unit=UNIT, ledger=ledger, randomness=SeededRandomness(seed))
    return method.fit(curator, BUDGET), ledger


def _error(table: LocalTable, prior: GraphicalModel | None) -> float:
    """Mean error over five fits of the pairs of a chain."""
    domain = SCHEMA.domain
    wanted = all_kway(domain, 2)
    exact = table.count_many(wanted.cliques)
    method = GaussianWorkload(
        workload=Workload.uniform(domain, [["c0", "c1"], ["c1", "c2"], ["c2", "c3"]]), prior=prior
    )
    found = []
    for seed in range(5):
        model, _ = _fit(table, method, seed)
        found.append(workload_error(wanted, exact, model.marginals(wanted.cliques), n_rows=ROWS))
    return float(np.mean(found))


def test_a_prior_helps_where_little_has_changed_and_does_little_harm_where_much_has() -> None:
    """Fixed seeds. An estimate that ignored the prior would give a factor of 1 in both; one that trusted it, far above 1 in the second."""
    prior = _prior(_table(1))
    same, other = _table(2), _table(3, shift=0.6)
    assert _error(same, prior) < 0.7 * _error(same, None)
    assert _error(other, prior) < 1.1 * _error(other, None)


def test_a_prior_changes_neither_what_is_measured_nor_what_it_costs() -> None:
    table, prior = _table(2), _prior(_table(1))
    plain, first = _fit(table, GaussianWorkload(), 7)
    moved, second = _fit(table, GaussianWorkload(prior=prior), 7)
    assert [entry.event for entry in first.entries()] == [entry.event for entry in second.entries()]
    for left, right in zip(plain.measurements, moved.measurements, strict=True):
        assert left.clique == right.clique
        assert np.array_equal(left.values, right.values)  # kept as measured, for bounds
    assert moved.provenance.options["prior"] == [list(clique) for clique in prior.cliques]
    assert moved.total == pytest.approx(ROWS)


def test_bounds_of_a_fit_with_a_prior_hold() -> None:
    """At 95 % each; 30 bounds of one fit, of which more than 6 fail with a probability below 1e-3 if they are right.

    Catches bounds that took the moved tables for measurements.
    """
    prior = _prior(_table(1))
    failed = 0
    for seed in range(5):
        table = _table(10 + seed, shift=0.3)
        model, _ = _fit(table, GaussianWorkload(workload=all_kway(SCHEMA.domain, 2), prior=prior), seed)
        bounds = model.error_bounds()
        exact = table.count_many([tuple(clique) for clique in bounds["clique"]])
        for clique, bound, counts in zip(bounds["clique"], bounds["bound"], exact, strict=True):
            failed += bool(np.abs(model.marginal(clique) - counts).sum() / ROWS > bound)
    assert failed <= 6


def test_a_prior_that_does_not_fit_is_refused_before_anything_is_spent() -> None:
    table = _table(1)
    foreign = estimate(Domain(("x",), (2,)), [], total=1.0)
    ledger = Ledger.in_memory(budget=BUDGET, unit=UNIT, table="t")
    with pytest.raises(BudgetError, match="other columns"):
        GaussianWorkload(prior=foreign).fit(Curator(table, unit=UNIT, ledger=ledger), BUDGET)
    with pytest.raises(DomainTooLarge):
        GaussianWorkload(prior=_prior(table), max_model_mb=0.0005).fit(
            Curator(table, unit=UNIT, ledger=ledger), BUDGET
        )
    assert ledger.spent == 0
    with pytest.raises(BudgetError, match="prior"):
        GaussianWorkload(prior=_prior(table), smooth=True)


def test_a_table_that_has_not_changed_keeps_the_models_counts_and_others_their_own() -> None:
    prior = _prior(_table(1))
    expected = prior.marginal(("c0", "c1"))
    far = expected[::-1].copy()
    (kept,) = towards_prior(prior, [Measurement(("c0", "c1"), expected, "gaussian", 50.0)], ROWS)
    (left,) = towards_prior(prior, [Measurement(("c0", "c1"), far, "gaussian", 1.0)], ROWS)
    assert np.allclose(kept.values, expected)
    assert np.abs(left.values - far).max() < 0.05 * np.abs(expected - far).max()
    (double,) = towards_prior(prior, [Measurement(("c0", "c1"), 2 * expected, "gaussian", 50.0)], 2 * ROWS)
    assert np.allclose(double.values, 2 * expected)  # a larger table with the same shares has not changed


def test_marginals_may_be_measured_instead_of_the_workloads() -> None:
    domain = SCHEMA.domain
    chosen = Workload.uniform(domain, [["c0", "c1"], ["c2"]])
    model, ledger = _fit(_table(2), GaussianWorkload(workload=all_kway(domain, 2), measured=chosen), 1)
    assert [item.clique for item in model.measurements] == [("c0", "c1"), ("c2",)]
    assert model.workload == all_kway(domain, 2)  # what drawn rows are fitted to
    assert ledger.rule.holds(ledger.spending)
    other = Workload.uniform(Domain(("x",), (2,)), [["x"]])
    with pytest.raises(BudgetError, match="other columns"):
        GaussianWorkload(measured=other).plan(SCHEMA, unit=UNIT, budget=BUDGET)
