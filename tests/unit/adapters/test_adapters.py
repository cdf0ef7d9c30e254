"""The estimator and the SDGym functions behave as their models do, and never loosen the guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from understudy import datasets
from understudy.adapters import TableSynthesizer, get_trained_synthesizer, sample_from_synthesizer
from understudy.errors import BudgetError, BudgetExceeded, WorkloadError
from understudy.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP, Unit

FRAME, SCHEMA = datasets.load("toy", 400, seed=1)


def made(**changes: Any) -> TableSynthesizer:
    given: dict[str, Any] = {"method": "independent", "schema": SCHEMA, "unit": "add-remove", "epsilon": 1.0}
    return TableSynthesizer(**(given | changes))


def test_fit_and_sample() -> None:
    fitted = made().fit(FRAME)
    rows = fitted.sample(30, seed=1)
    assert list(rows.columns) == list(SCHEMA.names)
    assert rows.equals(fitted.sample(30, seed=1))
    assert isinstance(fitted.model_.provenance.budget, PureDP)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"delta": 1e-6}, ApproxDP),
        ({"epsilon": None, "rho": 0.1}, ZCDP),
        ({"epsilon": None, "mu": 0.5}, GDP),
    ],
)
def test_every_kind_of_budget(changes: dict[str, Any], kind: type) -> None:
    assert isinstance(made(**changes).fit(FRAME).model_.provenance.budget, kind)


def test_scikit_learn_can_clone_it() -> None:
    base = pytest.importorskip("sklearn.base", reason="scikit-learn clones the estimator")
    one = made(options={}, workload=None)
    two = base.clone(one)
    assert two.get_params() == one.get_params()
    assert two.set_params(epsilon=2.0).epsilon == 2.0
    assert one.epsilon == 1.0
    with pytest.raises(WorkloadError, match="beauty"):
        one.set_params(beauty=1)


def test_a_ledger_file_is_the_table_s_memory(tmp_path: Path) -> None:
    one = made(ledger=tmp_path / "t.ledger").fit(FRAME)
    assert one.model_.provenance.spent > 0
    with pytest.raises(BudgetExceeded):
        made(ledger=tmp_path / "t.ledger").fit(FRAME)
    with Ledger.open(tmp_path / "t.ledger") as book:
        assert book.spent <= 1.0


def test_people_with_several_rows_and_workloads() -> None:
    frame = FRAME.assign(person=range(len(FRAME)))
    unit = Unit.add_remove_person("person", max_rows=2)
    fitted = made(method="mst", workload="all-2way", unit=unit, delta=1e-6).fit(frame)
    assert fitted.model_.provenance.unit == unit
    assert len(fitted.model_.measurements) > 1


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"schema": None}, WorkloadError, "schema"),
        ({"unit": None}, BudgetError, "protected"),
        ({"epsilon": None}, BudgetError, "exactly one"),
        ({"rho": 0.1}, BudgetError, "exactly one"),
        ({"epsilon": None, "rho": 0.1, "delta": 1e-6}, BudgetError, "exactly one"),
        ({"workload": "all-2way"}, WorkloadError, "workload"),
    ],
)
def test_refusals_come_before_anything_is_read(
    changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        made(**changes).fit("no such file.csv")


def test_sampling_before_fitting() -> None:
    with pytest.raises(WorkloadError, match="fit first"):
        made().sample(3)


def test_sdgym_s_two_functions() -> None:
    fitted = get_trained_synthesizer(FRAME, {"columns": {}}, method="independent")
    drawn = sample_from_synthesizer(fitted, 25)
    assert len(drawn) == 25
    assert list(drawn.columns) == list(FRAME.columns)
    assert set(drawn["ward"].dropna()) <= set(FRAME["ward"].dropna())
    assert isinstance(fitted.model_.provenance.budget, ApproxDP)
    other = get_trained_synthesizer(FRAME, None, method="independent", rho=0.1, schema=SCHEMA)
    assert isinstance(other.model_.provenance.budget, ZCDP)


def test_everything_shows_itself_in_a_notebook() -> None:
    fitted = made(method="mst", delta=1e-6).fit(FRAME)
    model = fitted.model_
    shown = model._repr_html_()
    assert model.measurements[0].clique[0] in shown
    assert "approximate differential privacy" in shown
    assert "stay_days" in SCHEMA._repr_html_()
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="<b>t</b>")
    assert "<b>" not in ledger._repr_html_()
    picture = model.plot(of=model.sample(100, seed=1))
    assert picture._repr_html_().count("<svg") == len(SCHEMA.names)
    assert "measured" in str(model.plot(["ward"]))
