"""Several sets under one budget: what is spent, which sets are refused, how analyses are combined."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, WorkloadError, WrongPairing
from understudy.mechanisms import Model, MultipleSynthesis, create, posterior_sets, synthesize_many
from understudy.mechanisms.multiple import share_of
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
from understudy.privacy.events import AllowanceEvent
from understudy.schema import Schema

SCHEMA = """
name: people
row_count: 400
columns:
  - {name: smokes, kind: boolean}
  - {name: group, kind: categorical, values: [a, b, c]}
"""
BUDGETS = [PureDP(1.5), ApproxDP(1.0, 1e-6), ZCDP(0.1), GDP(0.5)]


def curator(budget: Budget, schema: str = SCHEMA) -> Curator:
    rng = np.random.default_rng(5)
    table = LocalTable(
        Schema.parse(schema),
        {"smokes": rng.integers(0, 2, 400, dtype=np.uint8), "group": rng.integers(0, 3, 400, dtype=np.uint8)},
    )
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="people")
    return Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(3))


def share(frame: pd.DataFrame) -> tuple[float, float]:
    p = float(frame["smokes"].mean())
    return p, p * (1 - p) / len(frame)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda item: type(item).__name__)
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("independent", "independent"),
        ("laplace", "independent"),
        ("laplace", "posterior"),
        ("laplace", "resampled"),
    ],
)
def test_all_sets_together_spend_the_budget_and_no_more(budget: Budget, name: str, how: str) -> None:
    private = curator(budget)
    sets = synthesize_many(create(name), private, budget, 3, how=how)
    assert sets.sets == 3
    (way,) = {accounting_named(model.provenance.accounting) for model in sets.models}
    total = way.total(budget)
    distinct = sets.models if how == "independent" else sets.models[:1]
    spent = sum(model.provenance.spent for model in distinct)
    assert 0.9 * total < spent <= total
    private.ledger.verify()
    assert all(len(frame) == 400 for frame in sets.frames(seed=1))
    ledger_ids = {model.provenance.ledger_id for model in sets.models}
    assert len(ledger_ids) == 1


def test_independent_sets_have_noise_of_their_own() -> None:
    sets = synthesize_many(create("laplace"), curator(PureDP(1.5)), PureDP(1.5), 3, how="independent")
    values = [model.measurements[0].values.tolist() for model in sets.models]
    assert values[0] != values[1] != values[2]
    assert all(model.measurements[0].scale == 2.0 for model in sets.models)


def test_posterior_sets_share_the_release_but_not_the_parameters() -> None:
    sets = synthesize_many(create("laplace"), curator(PureDP(1.5)), PureDP(1.5), 3, seed=1)
    assert len({id(model.measurements) for model in sets.models}) == 1
    cells = [model.marginal(("smokes",)).tolist() for model in sets.models]
    assert cells[0] != cells[1] != cells[2]
    assert all(np.isclose(sum(item), 400) for item in cells)
    again = posterior_sets(sets.models[0], 2, seed=7)
    same = posterior_sets(sets.models[0], 2, seed=7)
    for left, right in zip(again.models, same.models, strict=True):
        assert np.array_equal(left.marginal(("group",)), right.marginal(("group",)))


def test_rows_of_posterior_sets_do_not_depend_on_each_other() -> None:
    """Rounded rows would give almost no sampling error; the rule needs that of a random sample."""
    model = synthesize_many(create("laplace"), curator(PureDP(1.5)), PureDP(1.5), 1).models[0]
    repeated = MultipleSynthesis("resampled", (model,) * 300, PureDP(1.5))
    shares = [float(frame["smokes"].mean()) for frame in repeated.frames(100, seed=2)]
    expected = np.sqrt(np.mean(shares) * (1 - np.mean(shares)) / 100)
    # 300 sets: the ratio has a standard error of 4 %; rounding alone would give a tenth
    assert abs(np.std(shares) / expected - 1) < 0.25


def test_only_valid_rules_combine_the_sets() -> None:
    budget = PureDP(1.5)
    sets = synthesize_many(create("laplace"), curator(budget), budget, 40)
    found = sets.analyse(share, seed=1)
    assert (found.rule, found.synthesis, found.sets) == ("full", "posterior", 40)
    assert found.interval().low < 0.5 < found.interval().high
    large = sets.analyse(share, rows=8000, seed=1, rule="percentile")
    assert large.rule == "percentile"
    with pytest.raises(WrongPairing):
        sets.analyse(share, seed=1, rule="partial")
    same = synthesize_many(create("laplace"), curator(budget), budget, 3, how="resampled")
    with pytest.raises(WrongPairing):
        same.analyse(share)
    with pytest.raises(WrongPairing):
        same.combine([1.0, 2.0], [1.0, 1.0])
    apart = synthesize_many(create("independent"), curator(budget), budget, 3, how="independent")
    assert apart.analyse(share, seed=2).rule == "partial"
    assert "3 sets" in repr(apart)


def test_histograms_with_bins_of_their_own_can_be_redrawn() -> None:
    schema = """
name: ages
row_count: 400
columns: [{name: age, kind: integer, minimum: 0, maximum: 99}]
"""
    table = LocalTable(
        Schema.parse(schema), {"age": np.random.default_rng(0).integers(0, 100, 400, dtype=np.uint8)}
    )
    unit = Unit.add_remove()
    private = Curator(table, unit=unit, ledger=Ledger.in_memory(budget=PureDP(2.0), unit=unit, table="t"))
    sets = synthesize_many(create("perturbed-histogram", bins=5), private, PureDP(2.0), 2)
    assert [len(frame) for frame in sets.frames(seed=0)] == [400, 400]


def test_what_cannot_be_made_is_refused_before_anything_is_spent() -> None:
    private = curator(PureDP(1.0))
    with pytest.raises(WorkloadError, match="cannot be posterior draws"):
        synthesize_many(create("mst"), private, PureDP(1.0), 3)
    with pytest.raises(WorkloadError, match="naive"):
        synthesize_many(create("modips", posterior="naive"), private, PureDP(1.0), 3)
    with pytest.raises(WorkloadError, match="number of sets"):
        synthesize_many(create("laplace"), private, PureDP(1.0), 0)
    with pytest.raises(WorkloadError, match="how"):
        synthesize_many(create("laplace"), private, PureDP(1.0), 3, how="twice")
    assert private.ledger.spent == 0


def test_parametric_models_draw_their_own_posterior() -> None:
    sets = synthesize_many(create("modips", model="saturated"), curator(PureDP(1.0)), PureDP(1.0), 3, seed=1)
    shares = [model.marginal(("smokes",)).tolist() for model in sets.models]
    assert shares[0] != shares[1] != shares[2]
    naive = create("modips", model="saturated", posterior="naive").fit(curator(PureDP(1.0)), PureDP(1.0))
    with pytest.raises(WorkloadError, match="does not know the privacy noise"):
        posterior_sets(naive, 2)


def test_a_model_without_redrawable_noise_is_refused() -> None:
    model: Model = create("independent").fit(curator(PureDP(1.0)), PureDP(1.0))
    with pytest.raises(WorkloadError, match="cannot draw its parameters again"):
        posterior_sets(model, 2)


@pytest.mark.parametrize("m", [5, 10, 11, 20])
@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1), GDP(0.7)], ids=str)
def test_shares_add_up_to_the_budget_whatever_the_number_of_sets(budget: Budget, m: int) -> None:
    """Ten times the double nearest to 0.1 is more than 1.

    Catches: a last set that cannot be paid for, after all others were.
    """
    method, schema = create("laplace"), Schema.parse(SCHEMA)
    part = share_of(budget, m, method, schema=schema, unit=Unit.add_remove())
    accounting = method.accounting(part)
    total = accounting.exact_total(budget if accounting is not PURE else PureDP(1.0))
    assert m * accounting.exact_total(part) <= total
    assert synthesize_many(method, curator(budget), budget, m, how="independent").sets == m


def test_shares_of_a_budget_with_a_delta_of_its_own_add_up() -> None:
    part = share_of(
        ApproxDP(1.0, 1e-6), 10, create("poisson"), schema=Schema.parse(SCHEMA), unit=Unit.add_remove()
    )
    assert isinstance(part, ApproxDP)
    assert 10 * Fraction(part.epsilon) <= 1
    assert 10 * Fraction(part.delta) <= Fraction(1e-6)


def test_sets_on_a_ledger_that_adds_up_plainly_have_a_delta_each() -> None:
    """Before, the first set took all of the delta of the ledger, and the second could not be paid for."""
    schema, unit, budget = Schema.parse(SCHEMA), Unit.add_remove(), ApproxDP(1.0, 1e-6)
    ledger = Ledger.in_memory(
        budget=ApproxDP(2.0, 2e-6), unit=unit, table="t", accounting="pure", approximate_delta=2e-6
    )
    private = Curator(
        LocalTable(schema, {"smokes": [0, 1] * 200, "group": [0, 1, 2, 0] * 100}), unit=unit, ledger=ledger
    )
    assert synthesize_many(create("independent"), private, budget, 4, how="independent").sets == 4
    opened = [entry.event for entry in ledger.entries() if isinstance(entry.event, AllowanceEvent)]
    assert sum(Fraction(event.epsilon) for event in opened) <= 1
    assert sum(Fraction(event.delta) for event in opened) <= Fraction(1e-6)
    with pytest.raises(BudgetError, match="each of 4 parts needs a delta of its own"):
        share_of(GDP(0.5), 4, create("independent"), schema=schema, unit=unit, plainly=True)
    ledger.verify()


@pytest.mark.parametrize("total", [ApproxDP(1.0, 1e-6), ApproxDP(4.0, 1e-6)], ids=["alone", "shared"])
def test_a_fit_that_shares_its_ledger_leaves_the_gaussian_way_open(total: ApproxDP) -> None:
    """Alone, a histogram is spent as a pure epsilon, which has less noise; that would close a shared ledger for others."""
    private = curator(total)
    model = create("perturbed-histogram").fit(private, ApproxDP(1.0, 1e-6))
    shared = total.epsilon > 1
    assert model.provenance.accounting == ("gdp" if shared else "pure")
    assert {item.noise for item in model.measurements} == {"gaussian" if shared else "laplace"}
    if shared:
        create("gaussian-table").fit(private, ApproxDP(1.0, 1e-6))
    private.ledger.verify()


def test_a_ledger_that_is_closed_to_gaussian_noise_is_charged_a_pure_epsilon() -> None:
    private = curator(ApproxDP(3.0, 1e-6))
    create("laplace").fit(private, PureDP(2.0))
    model = create("independent").fit(private, ApproxDP(1.0, 1e-6))
    assert model.provenance.accounting == "pure"
    private.ledger.verify()
