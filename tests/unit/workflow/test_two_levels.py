"""One table with an id column, from Python: two levels by default, rows where that is asked for, refusals before anything is spent."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

from understudy.data import Database, read_table
from understudy.data.events import read_events
from understudy.datasets import patient_stays, patient_stays_schema
from understudy.errors import UnusableMethod, UsageError
from understudy.privacy import Budget, Ledger, Unit
from understudy.schema import Schema
from understudy.workflow import Delivery, Fit, Payment, mechanism_for, plan_synthesis, synthesize
from understudy.workflow.events import entity_of

PERSON = Unit.add_remove_person("patient", max_rows=2)
PLAIN = Schema.parse(
    "columns: [{name: ward, kind: categorical, values: [day, general, surgery, intensive]}, {name: readmitted, kind: boolean}]"
)


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
    made = synthesize(
        stays, schema=patient_stays_schema(), unit=PERSON, epsilon=1.0, ledger=memory(), seed=1, flat=True
    )
    assert tuple(made.frame.columns) == patient_stays_schema().names


def test_a_unit_of_rows_where_the_schema_speaks_of_people_has_to_be_meant(stays):
    unit = Unit.add_remove()
    book = memory(unit)
    asked = {"schema": patient_stays_schema(), "unit": unit, "epsilon": 1.0, "ledger": book, "seed": 1}
    with pytest.raises(UsageError, match=r"belong to 'patient'.*--flat"):
        synthesize(stays, **asked)
    assert book.spent == 0
    made = synthesize(stays, **asked, flat=True)
    assert tuple(made.frame.columns) == patient_stays_schema().names


def test_the_ledger_pays_the_same_for_both_and_both_share_it(stays):
    book = Ledger.in_memory(budget=Budget.of(epsilon=2.0), unit=PERSON, table="stays")
    synthesize(stays, schema=PLAIN, unit=PERSON, epsilon=1.0, ledger=book, seed=1)
    synthesize(stays, schema=PLAIN, unit=PERSON, epsilon=1.0, ledger=book, seed=1, flat=True)
    assert book.spent == pytest.approx(book.total, rel=1e-3)
    assert book.spent <= book.total


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "privbayes"}, UnusableMethod, "--flat"),
        ({"unit": Unit.add_remove_person("person", max_rows=2)}, UsageError, "Name the same column"),
        ({"table": pl.LazyFrame({"patient": [1]})}, UsageError, "collect"),
        ({"schema": replace(PLAIN, row_count=12_345)}, UsageError, "row_count"),
    ],
)
def test_refusals_spend_nothing(stays, change, error, message):
    asked = {"table": stays, "unit": PERSON, "method": "aim", "schema": patient_stays_schema()} | change
    book = memory(asked["unit"])
    with pytest.raises(error, match=message):
        synthesize(asked.pop("table"), epsilon=1.0, ledger=book, **asked)
    assert not list(book.entries())


@pytest.mark.parametrize("delivery", [Delivery(out="parts/"), Delivery(out="x.csv", sets=2)])
def test_folders_and_sets_are_refused(stays, delivery):
    schema = patient_stays_schema()
    entity = entity_of(schema, PERSON, flat=False)
    fit = Fit(
        table=stays,
        schema=schema,
        synthesizer=mechanism_for("aim", schema, entity=entity),
        unit=PERSON,
        budget=Budget.of(epsilon=1.0),
        entity=entity,
    )
    with pytest.raises(UsageError, match="--flat"):
        plan_synthesis(fit, payment=Payment(ledger="memory"), delivery=delivery)


def test_what_is_cut_is_said_and_what_is_not_is_not(stays):
    schema = patient_stays_schema()
    plans = {}
    for flat in (False, True):
        entity = entity_of(schema, PERSON, flat=flat)
        fit = Fit(
            table=stays,
            schema=schema,
            synthesizer=mechanism_for("aim", schema, entity=entity),
            unit=PERSON,
            budget=Budget.of(epsilon=1.0),
            entity=entity,
        )
        plans[flat] = " ".join(plan_synthesis(fit, payment=Payment(ledger="memory")).notes)
    assert "Rows are cut" in plans[True]
    assert "more than 2 rows counts as one with 2" in plans[True]
    assert "Rows are cut" not in plans[False]
    assert "Two levels" in plans[False]
    assert Unit.add_remove().describe_cut() == ""


def test_rows_in_any_order_of_the_file_are_put_in_theirs(stays, tmp_path):
    """By their day, not by the quarter that the schema tells apart. With 60 records of each patient and at most six rows no choice is left to chance."""
    few = stays[stays.groupby("patient")["ward"].transform("size") <= 6]
    few = few[~few.duplicated(["patient", "admitted"], keep=False)]
    shuffled = few.sample(frac=1, random_state=0)
    shuffled.to_csv(tmp_path / "stays.csv", index=False)
    shuffled.to_parquet(tmp_path / "stays.parquet")
    schema = patient_stays_schema()
    clique = ("diagnosis", "number_of_events", "diagnosis_before")
    found = [
        read_events(partial(read_table, source), schema, schema.entity)
        .truncated("patient", 60, bytes(32))
        .count(clique)
        for source in (few, shuffled, tmp_path / "stays.csv", tmp_path / "stays.parquet")
    ]
    assert found[0].sum() == 60 * few["patient"].nunique()
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    by_quarter = few.assign(admitted=few["admitted"].dt.to_period("Q").dt.start_time).sample(
        frac=1, random_state=0
    )
    coarse = read_events(partial(read_table, by_quarter), schema, schema.entity).truncated(
        "patient", 60, bytes(32)
    )
    assert (coarse.count(clique) != found[0]).any()


def test_discovery_comes_before_two_levels(stays):
    made = synthesize(stays, unit=PERSON, epsilon=20.0, delta=1e-6, discover=0.3, ledger="memory", seed=1)
    assert made.frame.columns[0] == "patient"
    assert made.frame["patient"].duplicated().any()


def test_a_table_of_a_database_is_fitted_as_one_of_files(tmp_path, stays):
    duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
    pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")
    with duckdb.connect(str(tmp_path / "register.duckdb")) as database:
        database.register("given", stays)
        database.execute("CREATE TABLE stays AS SELECT * FROM given")
    source = Database(url=str(tmp_path / "register.duckdb"), table="stays")
    made = synthesize(
        source, schema=PLAIN, unit=PERSON, epsilon=50.0, method="mst", ledger=tmp_path / "a.ledger", seed=1
    )
    assert made.persons == pytest.approx(stays["patient"].nunique(), rel=0.05)
    assert list(made.frame) == ["patient", "ward", "readmitted"]
    assert made.frame["patient"].duplicated().any()


def test_computed_columns_follow_from_the_values_that_come_out():
    """What is fixed about a person is drawn once, and rows are put in order: a column that is computed from either was right in fewer than half of the rows before that."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(300), rng.integers(1, 5, 300))
    stays = pd.DataFrame(
        {"id": who, "age": rng.integers(0, 100, 300)[who], "day": rng.integers(0, 90, len(who))}
    )
    schema = Schema.parse(
        """
columns:
  - {name: age, kind: integer, minimum: 0, maximum: 99, bins: 4, decode_by: uniform}
  - {name: day, kind: integer, minimum: 0, maximum: 89, bins: 3, decode_by: uniform}
derived: {next: age + 1, week: day + 7}
entity: {id: id, fixed: [age], order: day, max_events: 4}
"""
    )
    unit = Unit.add_remove_person("id", max_rows=4)
    made = synthesize(stays, schema=schema, unit=unit, epsilon=20.0, method="mst", ledger="memory", seed=1)
    frame = made.frame
    assert (frame["next"] == frame["age"] + 1).all()
    assert (frame["week"] == frame["day"] + 7).all()
    later = frame["id"].diff() == 0
    assert later.sum() > 100
    assert (frame["day"].diff()[later] >= 0).all()
    assert (frame["age"].diff()[later] == 0).all()
