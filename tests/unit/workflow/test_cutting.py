"""What a cut by person leaves out, and how many rows of a person count: measured, charged, chosen, kept after an interruption."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.datasets import patient_stays
from understudy.errors import UsageError
from understudy.inference.people import MOST_ROWS, PEOPLE, lost_by
from understudy.marginals import Statistic
from understudy.mechanisms import Model
from understudy.privacy import ApproxDP, Budget, Ledger, PureDP, Unit
from understudy.schema import Schema
from understudy.workflow import synthesize
from understudy.workflow.cutting import CutLook, choose_rows, rows_per_person

SCHEMA = Schema.parse(
    "columns: [{name: ward, kind: categorical, values: [day, general, surgery, intensive]}, {name: readmitted, kind: boolean}]"
)
AUTO = {"relation": "add-remove", "id_column": "patient", "max_rows": "auto"}
TWO = Unit.add_remove_person("patient", max_rows=2)


@pytest.fixture(scope="module")
def stays() -> pd.DataFrame:
    return patient_stays(3_000, seed=1)


def lost(frame: pd.DataFrame, most: int) -> int:
    return int((frame.groupby("patient").size().clip(upper=MOST_ROWS) - most).clip(lower=0).sum())


def made(frame, ledger="memory", unit=AUTO, **more):
    asked = {"schema": SCHEMA, "method": "independent", "flat": True, "seed": 1, "epsilon": 4.0} | more
    return synthesize(frame, unit=unit, ledger=ledger, **asked)


def test_rows_that_are_lost_are_estimated_charged_and_kept_in_the_model(stays, tmp_path):
    ledger = Ledger.in_memory(budget=Budget.of(epsilon=400.0), unit=TWO, table="stays")
    result = made(
        stays, ledger, unit=TWO, rows_lost=True, epsilon=400.0
    )  # noise of 0.05 people: what is off is the bins
    found = result.rows_per_person
    assert found.max_rows == 2
    assert found.lost_low <= lost(stays, 2) <= found.lost_high
    assert found.lost == pytest.approx(lost(stays, 2), rel=0.4)
    assert found.rows == pytest.approx(len(stays), rel=0.15)
    assert "leaves out about" in found.describe()
    purposes = [entry.purpose for entry in ledger.entries()]
    assert "count people by their number of rows" in purposes
    assert ledger.spent == pytest.approx(400.0)
    assert result.guarantee.startswith("epsilon=400 ")  # the look and the fit together
    result.model.save(tmp_path / "m.understudy")
    assert rows_per_person(Model.load(tmp_path / "m.understudy")) == found


def test_nothing_is_paid_where_nobody_asks(stays):
    result = made(stays, unit=TWO)
    assert result.rows_per_person is None
    assert not any(item.name == PEOPLE for item in result.model.statistics)


def test_the_number_of_rows_is_chosen_and_written_into_the_ledger(stays):
    unit = Unit.add_remove_person("patient", max_rows=MOST_ROWS)
    ledger = Ledger.in_memory(budget=Budget.of(epsilon=4.0), unit=unit, table="stays")
    result = made(stays, ledger)
    chosen = result.rows_per_person.max_rows
    assert result.model.provenance.unit == Unit.add_remove_person("patient", max_rows=chosen)
    (released,) = [item for item in result.model.statistics if item.name == PEOPLE]
    rest = CutLook(choose=True).shares(PureDP(4.0)).rest
    assert chosen == choose_rows(released, SCHEMA, unit, rest)  # from what was released, and nothing else
    notes = [entry.purpose for entry in ledger.entries() if entry.event is None]
    assert sum(f"at most {chosen} rows of a person" in note for note in notes) == 1
    assert ledger.spent == pytest.approx(4.0)


@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.2, "epsilon": None}, {"mu": 0.7, "epsilon": None}]
)
def test_every_kind_of_budget_is_divided_and_not_exceeded(stays, budget):
    unit = {**AUTO, "relation": "replace-one"}
    result = made(stays, unit=unit, **budget)
    assert result.rows_per_person.max_rows >= 2
    assert result.standing.budget == Budget.of(**budget)


class Interrupted(Exception):
    pass


def test_the_choice_stays_after_an_interruption_and_is_paid_for_once(stays, tmp_path, monkeypatch):
    from understudy.mechanisms.marginal.independent import Independent

    stays.to_csv(tmp_path / "stays.csv", index=False)
    place = tmp_path / "stays.ledger"
    fit = Independent._fit

    def stop(*_args, **_words):
        raise Interrupted

    monkeypatch.setattr(Independent, "_fit", stop)
    # planned, and not tried on made-up records
    monkeypatch.setattr(
        Independent,
        "prepare",
        lambda self, schema, *, unit, budget, plan=None: plan or self.plan(schema, unit=unit, budget=budget),
    )
    with pytest.raises(Interrupted):
        made(tmp_path / "stays.csv", place)
    with Ledger.open(place) as ledger:
        (look,) = [entry for entry in ledger.entries() if entry.event is not None]
        (note,) = [
            entry.purpose
            for entry in ledger.entries()
            if "rows of a person" in entry.purpose and entry.event is None
        ]
        assert ledger.spent == pytest.approx(0.05 * 4.0)
    monkeypatch.setattr(Independent, "_fit", fit)
    result = made(tmp_path / "stays.csv", place)
    assert result.repeated == 1
    assert f"at most {result.rows_per_person.max_rows} rows" in note
    with Ledger.open(place) as ledger:
        assert [e.purpose for e in ledger.entries()].count(look.purpose) == 1
        assert [e.purpose for e in ledger.entries()].count(note) == 1
        assert ledger.spent == pytest.approx(4.0)


def people(*counts: float, deviation: float = 1e-6) -> Statistic:
    values = np.zeros(11)
    values[: len(counts)] = counts
    return Statistic(PEOPLE, values, "gaussian", deviation)


def test_more_rows_count_where_noise_is_small_and_fewer_where_it_is_large():
    unit = Unit.add_remove_person("patient", max_rows=MOST_ROWS)
    many = people(1000, 1000, 1000, 1000, 1000)
    numbers = [choose_rows(many, SCHEMA, unit, PureDP(epsilon)) for epsilon in (0.001, 0.1, 1.0, 100.0)]
    assert numbers == sorted(numbers)
    assert numbers[0] == 1
    assert numbers[-1] >= 5
    assert choose_rows(people(1000), SCHEMA, unit, PureDP(100.0)) == 1  # nobody has a second row
    assert choose_rows(people(), SCHEMA, unit, PureDP(100.0)) == 1
    noisy = people(1000, 0, 0, 0, 0, 0, 0, 0, 0, 30, 30, deviation=10.0)
    assert choose_rows(noisy, SCHEMA, unit, PureDP(100.0)) == 1  # three deviations are nobody
    replaced = Unit.replace_person("patient", max_rows=MOST_ROWS)
    assert choose_rows(people(1000), SCHEMA, replaced, PureDP(100.0)) == 2


@pytest.mark.parametrize("values", [np.full(11, -50.0), np.full(11, 1e9), np.zeros(11)])
def test_numbers_are_in_order_whatever_the_noise_made_of_them(values):
    found = lost_by(Statistic(PEOPLE, values, "laplace", 30.0), 3)
    assert 0 <= found.lost_low <= found.lost <= found.lost_high
    assert found.describe()


def test_people_with_all_their_rows_need_no_choice(stays):
    result = made(stays, flat=False, method="aim", epsilon=2.0)
    assert result.rows_per_person is None
    assert result.model.provenance.unit.max_rows == 10
    assert result.persons


def test_refusals_come_before_anything_is_read(stays):
    with pytest.raises(UsageError, match="nothing is cut here"):
        made(stays, unit="add-remove", rows_lost=True)
    with pytest.raises(UsageError, match="nothing is cut here"):
        made(stays, unit=TWO, rows_lost=True, flat=False, method="aim")
    counted = Schema.parse("row_count: 10\ncolumns: [{name: readmitted, kind: boolean}]")
    with pytest.raises(UsageError, match="row_count"):
        made(stays, schema=counted)
    with pytest.raises(UsageError, match="known schema"):
        made(stays, schema=None, discover=0.1, numbers_only=True)


@pytest.mark.parametrize("how", ["cut", "discover"])
@pytest.mark.parametrize(
    ("method", "options"), [("laplace", {}), ("gaussian-table", {"noise": "discrete"})], ids=["pure", "zcdp"]
)
@pytest.mark.parametrize(
    "total",
    [{"budget": ApproxDP(1.0, 1e-6)}, {"budget": ApproxDP(9.0, 1e-5), "accounting": "pure"}],
    ids=["usual", "plain"],
)
def test_parts_of_a_budget_are_spent_in_the_accounting_that_divided_it(stays, how, method, options, total):
    """The look is worth mu = 0.053 and laplace then took a pure 0.973: together a delta of 0.0075 at epsilon 1, where 1e-6 was promised."""
    cut = how == "cut"
    unit = TWO if cut else Unit.add_remove()
    asked = {"rows_lost": True} if cut else {"schema": None, "discover": 0.3, "flat": False}
    columns = ["patient", "ward"] if cut else ["ward", "readmitted"]
    asked |= {"unit": unit, "method": method, "options": options, "epsilon": 1.0, "delta": 1e-6}
    with Ledger.in_memory(unit=unit, table="stays", approximate_delta=3e-7, **total) as ledger:
        with pytest.raises(UsageError, match="do not add up to the budget"):
            made(stays[columns], ledger, **asked)
        assert not ledger.charged


def test_a_look_is_told_from_others():
    assert CutLook(choose=True).facts() != CutLook().facts()
    assert "5%" in CutLook().describe()
