"""One table with an id column, from Python: two levels by default, rows where that is asked for, refusals before anything is spent."""

from __future__ import annotations

import pandas as pd
import pytest

from understudy.data import Database
from understudy.datasets import patient_stays, patient_stays_schema
from understudy.errors import UnusableMethod, UsageError
from understudy.privacy import Budget, Ledger, Unit
from understudy.schema import Schema
from understudy.workflow import Delivery, Fit, Payment, mechanism_for, plan_synthesis, synthesize
from understudy.workflow.events import entity_of

PERSON = Unit.add_remove_person("patient", max_rows=2)
PLAIN = Schema.parse("columns: [{name: ward, kind: categorical, values: [day, general, surgery, intensive]}, {name: readmitted, kind: boolean}]")


@pytest.fixture(scope="module")
def stays() -> pd.DataFrame:
    return patient_stays(600, seed=1)


def memory(unit: Unit = PERSON) -> Ledger:
    return Ledger.in_memory(budget=Budget.of(epsilon=1.0), unit=unit, table="stays")


def test_without_the_section_rows_belong_to_somebody_all_the_same(stays):
    made = synthesize(stays, schema=PLAIN, unit=PERSON, epsilon=1.0, ledger=memory(), seed=1)
    assert list(made.frame.columns) == ["patient", "ward", "readmitted"]
    assert made.frame["patient"].duplicated().any()
    assert made.rows == len(made.frame)


def test_flat_is_rows_without_ids(stays):
    made = synthesize(stays, schema=patient_stays_schema(), unit=PERSON, epsilon=1.0, ledger=memory(), seed=1, flat=True)
    assert tuple(made.frame.columns) == patient_stays_schema().names


def test_a_unit_of_rows_is_as_before(stays):
    unit = Unit.add_remove()
    made = synthesize(stays, schema=patient_stays_schema(), unit=unit, epsilon=1.0, ledger=memory(unit), seed=1)
    assert tuple(made.frame.columns) == patient_stays_schema().names


def test_the_ledger_pays_the_same_for_both_and_both_share_it(stays):
    book = Ledger.in_memory(budget=Budget.of(epsilon=2.0), unit=PERSON, table="stays")
    synthesize(stays, schema=PLAIN, unit=PERSON, epsilon=1.0, ledger=book, seed=1)
    synthesize(stays, schema=PLAIN, unit=PERSON, epsilon=1.0, ledger=book, seed=1, flat=True)
    assert book.guarantee().spent == pytest.approx(2.0, rel=1e-3) or book.remaining < 0.01


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "privbayes"}, UnusableMethod, "--flat"),
        ({"unit": Unit.add_remove_person("person", max_rows=2)}, UsageError, "Name the same column"),
        ({"table": Database(url="duckdb://", table="stays")}, UsageError, "--flat"),
    ],
)
def test_refusals_spend_nothing(stays, change, error, message):
    asked = {"table": stays, "unit": PERSON, "method": "aim"} | change
    book = memory(asked["unit"])
    with pytest.raises(error, match=message):
        synthesize(asked.pop("table"), schema=patient_stays_schema(), epsilon=1.0, ledger=book, **asked)
    assert not book.entries


@pytest.mark.parametrize("delivery", [Delivery(out="parts/"), Delivery(out="x.csv", sets=2)])
def test_folders_and_sets_are_refused(stays, delivery):
    schema = patient_stays_schema()
    entity = entity_of(schema, PERSON, flat=False)
    fit = Fit(
        table=stays, schema=schema, synthesizer=mechanism_for("aim", schema, entity=entity), unit=PERSON, budget=Budget.of(epsilon=1.0), entity=entity
    )
    with pytest.raises(UsageError, match="--flat"):
        plan_synthesis(fit, payment=Payment(ledger="memory"), delivery=delivery)


def test_what_is_cut_is_said_and_what_is_not_is_not(stays):
    schema = patient_stays_schema()
    plans = {}
    for flat in (False, True):
        entity = entity_of(schema, PERSON, flat=flat)
        fit = Fit(
            table=stays, schema=schema, synthesizer=mechanism_for("aim", schema, entity=entity), unit=PERSON, budget=Budget.of(epsilon=1.0), entity=entity
        )
        plans[flat] = " ".join(plan_synthesis(fit, payment=Payment(ledger="memory")).notes)
    assert "Rows are cut" in plans[True]
    assert "more than 2 rows counts as one with 2" in plans[True]
    assert "Rows are cut" not in plans[False]
    assert "Two levels" in plans[False]
    assert Unit.add_remove().describe_cut() == ""


def test_rows_in_any_order_of_the_file_are_put_in_theirs(stays, tmp_path):
    """The rows of a patient are found and put in order by their day, wherever they stand: a fit with next to no noise keeps the diagnosis from one to the next."""
    shuffled = stays.sample(frac=1, random_state=0)
    shuffled.to_csv(tmp_path / "stays.csv", index=False)
    made = synthesize(
        tmp_path / "stays.csv", schema=patient_stays_schema(), unit=PERSON, epsilon=500.0, delta=1e-6, ledger="memory", seed=1
    ).frame
    same = made["patient"].to_numpy()[1:] == made["patient"].to_numpy()[:-1]
    assert (made["diagnosis"].to_numpy()[1:] == made["diagnosis"].to_numpy()[:-1])[same].mean() > 0.6


def test_discovery_comes_before_two_levels(stays):
    made = synthesize(stays, unit=PERSON, epsilon=20.0, delta=1e-6, discover=0.3, ledger="memory", seed=1)
    assert made.frame.columns[0] == "patient"
    assert made.frame["patient"].duplicated().any()
