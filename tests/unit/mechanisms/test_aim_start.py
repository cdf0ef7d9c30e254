"""What AIM starts from: constraints, columns that drown in noise, priors, measurements paid for before."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import estimate, model_size
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement, all_kway, workload_error
from understudy.mechanisms import Model
from understudy.mechanisms.marginal.aim import AIM
from understudy.mechanisms.marginal.mst import MST
from understudy.mechanisms.marginal.mwem_pgm import MWEMPGM
from understudy.privacy import ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Constraint, Domain, Integer, Schema

SIZES = (8, 9, 10, 11, 12)


def chain(sizes: tuple[int, ...], n: int, *constraints: str) -> LocalTable:
    """Each column mostly copies the one before; records that break a constraint are left out."""
    generator = np.random.default_rng(7)
    columns, before = {}, generator.integers(0, sizes[0], n)
    for index, size in enumerate(sizes):
        before = np.where(generator.random(n) < 0.8, before % size, generator.integers(0, size, n))
        columns[f"c{index}"] = before.astype(np.uint8)
    plain = Schema(tuple(Integer(f"c{i}", minimum=0, maximum=size - 1) for i, size in enumerate(sizes)))
    rules = tuple(Constraint.parse(text, plain) for text in constraints)
    schema = Schema(plain.columns, constraints=rules)
    valid = schema.holds_codes(columns)
    return LocalTable(schema, {name: np.ascontiguousarray(codes[valid]) for name, codes in columns.items()})


def fit(table: LocalTable, method: AIM, budget: Budget, *, seed: int = 0) -> tuple[Model, Curator]:
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))
    return method.fit(curator, budget), curator


def test_constraints_count_in_the_size_of_the_model() -> None:
    """A ring of constraints makes bags that measured cliques alone do not show; the limit must hold for both.

    A size check that forgets the constraints lets the tree grow to five times the limit here.
    """
    table = chain(SIZES, 4_000, "c0 <= c2 + 7", "c2 <= c4 + 9", "c4 <= c1 + 11")
    constraints = [rule.columns for rule in table.schema.constraints]
    domain = table.schema.domain
    limit = 1.6 * model_size(domain, constraints)
    model, _ = fit(table, AIM(max_model_mb=limit), ApproxDP(10.0, 1e-6))
    measured = {item.clique for item in model.measurements}
    assert any(len(clique) > 1 for clique in measured)
    assert model_size(domain, [*measured, *constraints]) <= limit


@pytest.mark.parametrize(
    "method", [AIM(max_model_mb=0.004), MST(max_model_mb=0.004), MWEMPGM(max_model_mb=0.004)]
)
def test_constraints_too_large_for_the_model_are_refused_before_anything_is_spent(method: AIM) -> None:
    table = chain(SIZES, 100, "c0 + c1 + c4 <= 60")
    budget, unit = PureDP(1.0), Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    with pytest.raises(DomainTooLarge, match="constraints"):
        method.fit(Curator(table, unit=unit, ledger=ledger), budget)
    assert ledger.spent == 0


@pytest.mark.parametrize("budget", [ApproxDP(1.0, 1e-9), PureDP(0.3)])
def test_columns_are_measured_again_where_their_noise_is_large(budget: Budget) -> None:
    small, large = chain(SIZES, 400), chain(SIZES, 200_000)
    model, curator = fit(small, AIM(), budget)
    first, second = model.measurements[:5], model.measurements[5:10]
    assert [item.clique for item in second] == [item.clique for item in first]
    assert all(later.scale < earlier.scale for earlier, later in zip(first, second, strict=True))
    assert model.history is not None
    assert model.history.batches[:3] == (5, 5, 1)  # the second look depends on the first
    assert curator.ledger.spent <= curator.ledger.rule.total
    assert fit(large, AIM(), budget)[0].history.batches[:2] == (5, 1)  # type: ignore[union-attr]
    assert fit(small, AIM(column_noise=0), budget)[0].history.batches[:2] == (5, 1)  # type: ignore[union-attr]


def test_a_second_look_at_the_columns_pays_on_a_small_table() -> None:
    """Independent, uneven columns and 600 rows. Fixed seeds, so there is nothing random about the outcome.

    The mean error of the columns is .20 with the second look and .26 without; a share that came out as zero, or spent on
    the wrong columns, gives the latter.
    """
    generator = np.random.default_rng(3)
    sizes = (30, 20, 25, 15)
    uneven = {
        f"c{i}": (generator.geometric(0.3, 600) - 1).clip(0, size - 1).astype(np.uint8)
        for i, size in enumerate(sizes)
    }
    schema = Schema(tuple(Integer(f"c{i}", minimum=0, maximum=size - 1) for i, size in enumerate(sizes)))
    table = LocalTable(schema, uneven)
    workload = all_kway(schema.domain, 1)
    exact = table.count_many(workload.cliques)
    mean = {}
    for tolerated in (0.1, 0.0):
        method = AIM(column_noise=tolerated, smooth=False)
        models = [fit(table, method, ApproxDP(1.0, 1e-9), seed=seed)[0] for seed in range(4)]
        errors = [
            workload_error(workload, exact, item.marginals(workload.cliques), n_rows=600) for item in models
        ]
        mean[tolerated] = np.mean(errors)
    assert mean[0.1] < 0.88 * mean[0.0], mean


def test_a_public_prior_gives_the_relations_that_no_budget_is_left_for() -> None:
    table, public = chain((5, 5, 5, 5), 3_000), chain((5, 5, 5, 5), 2_000)
    domain = table.schema.domain
    workload = all_kway(domain, 2)
    exact = table.count_many(workload.cliques)
    pairs = [("c0", "c1"), ("c1", "c2"), ("c2", "c3")]
    seen = [Measurement(pair, public.count(pair).astype(float), "gaussian", 1.0) for pair in pairs]
    prior = estimate(domain, seen)
    errors = []
    for start in (prior, None):
        model, _ = fit(table, AIM(prior=start, workload=workload), ApproxDP(0.1, 1e-9))
        errors.append(workload_error(workload, exact, model.marginals(workload.cliques), n_rows=3_000))
    assert errors[0] < 0.5 * errors[1]
    assert AIM(prior=prior).options()["prior"] == [list(clique) for clique in prior.cliques]
    with pytest.raises(BudgetError, match="prior"):
        AIM(prior=estimate(Domain(("x",), (2,)), [], total=1.0)).plan(
            table.schema, unit=Unit.add_remove(), budget=PureDP(1.0)
        )


def test_measurements_paid_for_before_are_used_and_not_bought_again() -> None:
    table = chain((5, 5, 5, 5), 3_000)
    known = tuple(
        Measurement(pair, table.count(pair) + 1.0, "gaussian", 2.0) for pair in (("c0", "c1"), ("c1", "c2"))
    )
    model, curator = fit(table, AIM(known=known), ApproxDP(0.05, 1e-9))
    bought = [item.clique for item in model.measurements[len(known) :]]
    assert model.measurements[:2] == known
    assert bought[0] == ("c3",)
    assert model.history is not None
    assert model.history.batches[:3] == (1, 1, 1)  # nothing is assumed about how the known ones came about
    assert np.abs(model.marginal(("c0", "c1")) - table.count(("c0", "c1"))).sum() < 0.05 * 3_000
    assert curator.ledger.spent <= curator.ledger.rule.total
    wrong = Measurement(("c0",), np.ones(3), "gaussian", 1.0)
    with pytest.raises(BudgetError, match="known measurement"):
        AIM(known=(wrong,)).plan(table.schema, unit=Unit.add_remove(), budget=PureDP(1.0))
