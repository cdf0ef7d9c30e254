"""Intervals from refits: what they rest on, where they fall back, what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import WorkloadError
from understudy.inference import Evidence, History, Refits, Uncertainty
from understudy.inference.refits import Refit
from understudy.marginals import Measurement, all_kway
from understudy.mechanisms import Model, create
from understudy.mechanisms.registry import mechanism_of
from understudy.privacy import ApproxDP, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Clique, Domain, Schema

SCHEMA = Schema.parse(
    """
    columns:
      - {name: colour, kind: categorical, values: [red, green, blue]}
      - {name: size, kind: ordinal, values: [small, middle, large]}
      - {name: age, kind: integer, bins: {edges: [0, 18, 40, 65, 100]}}
      - {name: smokes, kind: boolean}
    """
)


def table(rows: int = 2_000, *, persons: bool = False) -> LocalTable:
    rng = np.random.default_rng(3)
    colour = rng.integers(0, 3, rows)
    codes = {
        "colour": colour,
        "size": (colour + (rng.random(rows) < 0.3)) % 3,
        "age": rng.integers(0, 4, rows),
        "smokes": (colour == 1) & (rng.random(rows) < 0.8),
    }
    return LocalTable(
        SCHEMA,
        {name: column.astype(np.uint8) for name, column in codes.items()},
        persons={"who": np.arange(rows) // 2} if persons else None,
    )


def fitted(method: str, unit: Unit | None = None, **options: Any) -> Model:
    budget, unit = ApproxDP(2.0, 1e-6), unit or Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    randomness = SeededRandomness(1)
    curator = Curator(
        table(persons=unit.id_column is not None), unit=unit, ledger=ledger, randomness=randomness
    )
    return create(method, **options).fit(curator, budget)


@pytest.fixture(scope="module")
def model() -> Model:
    return fitted("aim", workload=all_kway(SCHEMA.domain, 3), certify=0.1)


@pytest.fixture(scope="module")
def refits(model: Model) -> Refits:
    return model.refits(6, seed=4)


def test_the_basis_is_said_and_the_interval_contains_the_model_s_answer(model: Model, refits: Refits) -> None:
    assert len(refits) == 6
    assert refits.covers(("colour",))
    assert refits.covers(("size", "colour"))
    assert not refits.covers(SCHEMA.names)
    cells = refits.interval(("size", "colour"))
    assert (cells.low >= 0).all()
    assert (cells.low <= cells.estimate).all()
    assert (cells.estimate <= cells.high).all()
    assert cells.estimate == pytest.approx(model.marginal(("colour", "size")), abs=1e-9)
    one = refits.count_interval(("size", "colour"), [(2, 0)])
    turned = refits.count_interval(("colour", "size"), [(0, 2)])
    assert (float(one.low), float(one.high)) == (float(turned.low), float(turned.high))
    assert float(one.high) == pytest.approx(float(cells.high[0, 2]))
    mask = np.zeros((3, 3), dtype=bool)
    mask[2, 0] = True
    assert refits.count_interval(("size", "colour"), mask).high == one.high
    wide = refits.count_interval(("size", "colour"), mask, confidence=0.999)
    assert wide.width > one.width
    assert one.table == "the real table"


def test_four_columns_fall_back_to_the_interval_of_the_model(model: Model, refits: Refits) -> None:
    for found, before in (
        (
            refits.count_interval(SCHEMA.names, [(0, 0, 0, 0)]),
            model.count_interval(SCHEMA.names, [(0, 0, 0, 0)]),
        ),
        (refits.interval(SCHEMA.names), model.interval(SCHEMA.names)),
        (
            refits.mean_over(SCHEMA.names, np.arange(72.0).reshape(3, 3, 4, 2) % 5),
            model.uncertainty.mean_over(SCHEMA.names, np.arange(72.0).reshape(3, 3, 4, 2) % 5),
        ),
    ):
        assert found.basis == before.basis in ("bound", "trivial")
        assert np.array_equal(found.high, before.high)
    with pytest.raises(WorkloadError, match="no measurement contains"):
        refits.statistic(SCHEMA.names, lambda counts: counts[0, 0, 0, 0])
    with pytest.raises(WorkloadError, match="no measurement contains"):
        refits.of_rows(lambda rows: len(rows), SCHEMA.names)


def test_means_and_statistics(model: Model, refits: Refits) -> None:
    values = [9.0, 29.0, 52.0, 82.0]
    mean = refits.mean_interval("age", values)
    ages = model.marginal(("age",))
    assert float(mean.estimate) == pytest.approx(float(ages @ np.array(values) / ages.sum()))
    assert 9.0 <= mean.low < mean.estimate < mean.high <= 82.0
    same = refits.statistic(("age",), lambda counts: counts @ np.array(values) / counts.sum())
    assert float(same.width) == pytest.approx(float(mean.width))
    inside = np.full((2, 4), np.nan)
    inside[1] = values
    group = refits.mean_over(("smokes", "age"), inside)
    turned = refits.mean_over(("age", "smokes"), inside.T)
    assert float(group.width) == float(turned.width) > float(mean.width)
    share = refits.of_rows(lambda rows: (rows["colour"] == "red").mean(), ["colour"])
    count = refits.count_interval(("colour",), [(0,)])
    assert share.basis == "refits"
    assert 0.3 < float(share.width) * model.total / float(count.width) < 3
    with pytest.raises(WorkloadError, match="the same in every refit"):
        refits.of_rows(lambda rows: len(rows.columns), ["colour"])
    with pytest.raises(WorkloadError, match="not a finite number"):
        refits.statistic(("colour",), lambda counts: float("nan") * counts)
    with pytest.raises(WorkloadError, match="one value per code"):
        refits.mean_interval("age", [1.0, 2.0])
    with pytest.raises(WorkloadError):
        refits.count_interval(("colour",), [(7,)])


def test_seeds_repeat_and_nothing_is_charged(model: Model) -> None:
    first, again, other = (model.refits(5, seed=seed).interval(("colour",)) for seed in (1, 1, 2))
    assert np.array_equal(first.high, again.high)
    assert not np.array_equal(first.high, other.high)


@pytest.mark.parametrize(
    ("method", "options"), [("sift", {"certify": 0.1}), ("mst", {}), ("independent", {}), ("gaussian", {})]
)
def test_methods_can_be_run_again_as_they_were(method: str, options: dict[str, Any]) -> None:
    found = fitted(method, **options)
    assert mechanism_of(found).options() == dict(found.provenance.options)
    for seed in range(2):
        again = mechanism_of(found).refit(found, found.sample_codes(seed=seed), seed=seed)
        assert again.provenance.accounting == found.provenance.accounting
        assert again.measurements[0].scale == pytest.approx(found.measurements[0].scale)


def test_people_keep_their_noise_and_a_small_step_of_another_ledger_its_accounting() -> None:
    unit = Unit.add_remove_person("who", max_rows=2)
    found = fitted("independent", unit)
    again = mechanism_of(found).refit(found, found.sample_codes(seed=1), seed=1)
    assert again.measurements[0].scale == found.measurements[0].scale
    refits = found.refits(5)
    assert refits.interval(("colour",)).table.startswith("the real table cut to at most 2 rows")
    budget = ApproxDP(2.0, 1e-6)
    ledger = Ledger.in_memory(budget=ApproxDP(4.0, 2e-6), unit=Unit.add_remove(), table="t")
    curator = Curator(table(), unit=Unit.add_remove(), ledger=ledger, randomness=SeededRandomness(1))
    shared = create("independent").fit(curator, budget)
    again = mechanism_of(shared).refit(shared, shared.sample_codes(seed=1), seed=1)
    assert again.provenance.accounting == shared.provenance.accounting
    assert again.measurements[0].scale == pytest.approx(shared.measurements[0].scale)


def test_what_cannot_be_run_again_is_refused(model: Model) -> None:
    with pytest.raises(WorkloadError, match="at least 5"):
        model.refits(4)
    prior = fitted("gaussian").distribution
    known = fitted("sift", prior=prior)
    with pytest.raises(WorkloadError, match="Pass the mechanism"):
        known.refits(5)
    assert known.refits(5, method=create("sift", prior=prior)).covers(("colour",))


def _by_hand(residual: float) -> Refits:
    """A column of two codes, 4,000 rows, refits that are all wrong by twenty rows in each cell, and a measurement that is off by ``residual``."""
    domain, model = Domain(("a",), (2,)), np.full(2, 2_000.0)
    codes = {"a": np.repeat([0, 1], 2_000)}

    def evidence(off: float) -> Evidence:
        measured = Measurement(("a",), model + np.array([off, -off]), "gaussian", 10.0)
        return Evidence(domain, (measured,), History.planned(1), total=4_000.0)

    def answers(cliques: Sequence[Clique], off: float = 0.0) -> list[np.ndarray]:
        return [model + np.array([off, -off]) for _ in cliques]

    made = tuple(
        Refit(codes, lambda cliques, off=off: answers(cliques, off), evidence(20.0), lambda: ({}, {}))  # type: ignore[misc, arg-type, return-value]
        for off in (20.0, -20.0) * 4
    )
    return Refits(Uncertainty(evidence(residual), answers), made)


def test_a_measured_answer_that_is_farther_than_in_refits_widens_and_none_narrows() -> None:
    widths = [float(_by_hand(residual).interval(("a",)).width[0]) for residual in (0.0, 20.0, 36.0, 40.0)]
    assert (
        widths[0] == widths[1] == pytest.approx(2 * 20 * 2.306, rel=1e-3)
    )  # eight refits, each wrong by twenty
    assert widths[1] < widths[2] < widths[3]
    excess = 40.0**2 - np.mean([0.0**2, 40.0**2])  # over the mean of refits
    assert widths[3] == pytest.approx(2 * 2.306 * np.sqrt(400 + excess), rel=0.2)
    # 2 x 60^2 in units of the variance is 72, in refits 16 on average with a deviation of 16
    assert _by_hand(60.0).covers(("a",)) == (72 - 16 <= 3 * 16)
    assert _by_hand(60.0).interval(("a",)).basis == "measured"


def test_pure_budgets_work_too() -> None:
    unit = Unit.replace_one()
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
    curator = Curator(table(), unit=unit, ledger=ledger, randomness=SeededRandomness(2))
    found = create("independent").fit(curator, PureDP(1.0)).refits(5).interval(("age",))
    assert found.basis == "refits"
    assert (found.width > 0).all()
