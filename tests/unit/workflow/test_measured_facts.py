"""What passes for measured: what the ledger in hand paid for, and nothing else, at every door."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from understudy import Curator, Ledger, PureDP, Unit, create, read_table, synthesize
from understudy.discovery import NothingDiscovered
from understudy.errors import BudgetExceeded, LedgerMismatch, SchemaError, UsageError
from understudy.privacy import Budget
from understudy.schema import Categorical, Schema
from understudy.workflow import measure_errors
from understudy.workflow.learning import discover_schema

UNIT = Unit.add_remove()
BUDGET = {"epsilon": 8.0, "delta": 1e-6}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"name": [f"person{i}" for i in range(3_000)], "sex": generator.choice(["m", "f"], 3_000)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def claimed(origin: str = "measured") -> Schema:
    """Fifty names of the records, called measured."""
    names = tuple(f"person{i}" for i in range(50))
    return Schema([Categorical("name", values=names, out_of_domain="to-other", origin=origin)])


def test_a_schema_given_to_discovery_is_asked_for_as_well(table: Path, tmp_path: Path) -> None:
    with pytest.raises(LedgerMismatch, match="did not pay"):
        discover_schema(table, unit=UNIT, share=0.3, schema=claimed(), **BUDGET, ledger=tmp_path / "a.ledger")
    with pytest.raises(LedgerMismatch, match="did not pay"):
        synthesize(
            table, schema=claimed(), discover=0.3, unit=UNIT, method="independent", **BUDGET, ledger=tmp_path / "a.ledger"
        )  # fmt: skip
    assert not (tmp_path / "a.ledger").exists()


def test_the_ledger_vouches_for_what_was_asked_and_not_for_what_was_given(
    table: Path, tmp_path: Path
) -> None:
    place = tmp_path / "a.ledger"
    learnt = discover_schema(table, unit=UNIT, share=0.3, schema=claimed("public"), **BUDGET, ledger=place)
    assert learnt.schema.column("sex").measured_facts
    with Ledger.open(place) as ledger:
        notes = [entry.purpose for entry in ledger.entries() if entry.purpose.startswith("measured column")]
    assert len(notes) == 1
    laundered = Schema([*claimed().columns, learnt.schema.column("sex")])
    with pytest.raises(LedgerMismatch, match="'name'"), Ledger.open(place) as ledger:
        Curator(read_table(table, laundered), unit=UNIT, ledger=ledger)
    with pytest.raises(LedgerMismatch):
        synthesize(
            table, schema=laundered, unit=UNIT, method="independent", epsilon=1.0, delta=1e-7, ledger=place
        )


def test_discovery_needs_a_ledger_that_lasts(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="that lasts"):
        discover_schema(table, unit=UNIT, share=0.3, **BUDGET, ledger="memory")
    assert not (tmp_path / "memory").exists()


def test_a_curator_asks_the_ledger(table: Path) -> None:
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=UNIT, table="t")
    with pytest.raises(LedgerMismatch, match="did not pay"):
        Curator(read_table(table, claimed()), unit=UNIT, ledger=ledger)


def test_an_evaluation_under_a_budget_asks_the_ledger(table: Path, tmp_path: Path) -> None:
    pd.DataFrame({"name": ["person1", "person2"]}).to_csv(tmp_path / "s.csv", index=False)
    with pytest.raises(LedgerMismatch, match="did not pay"):
        measure_errors(table, tmp_path / "s.csv", schema=claimed(), unit=UNIT, budget=Budget.of(epsilon=1.0))


def test_facts_of_the_table_as_a_whole_are_never_measured() -> None:
    with pytest.raises(SchemaError, match="only facts of columns"):
        Schema.parse("row_count: 12345\norigin: {row_count: measured}\ncolumns: [{name: a, kind: boolean}]")


def test_a_fit_says_that_its_schema_was_paid_for_besides(table: Path, tmp_path: Path) -> None:
    place = tmp_path / "a.ledger"
    learnt = discover_schema(table, unit=UNIT, share=0.3, **BUDGET, ledger=place)
    made = synthesize(
        table, schema=learnt.schema, unit=UNIT, method="independent", epsilon=1.0, delta=1e-7, ledger=place
    )
    assert "measured from the same table before" in made.model.provenance.condition
    both = synthesize(
        table, discover=0.3, unit=UNIT, method="independent", **BUDGET, ledger="memory", rows=20
    )
    assert both.model.provenance.budget == Budget.of(**BUDGET)
    assert "before" not in both.model.provenance.condition


def test_groups_that_a_fit_has_measured_are_no_free_facts_for_the_next_one() -> None:
    generator = np.random.default_rng(0)
    values = [f"{letter}{number}" for letter in "AB" for number in range(10)]
    schema = Schema([Categorical("d", values=values, levels={"prefix": [1]})])
    frame = pd.DataFrame({"d": generator.choice(values, 2_000)})

    def fit(described: Schema) -> Schema:
        ledger = Ledger.in_memory(budget=PureDP(1.0), unit=UNIT, table="t")
        curator = Curator(read_table(frame, described), unit=UNIT, ledger=ledger)
        return create("independent").fit(curator, PureDP(1.0)).schema

    fitted = fit(schema)
    with pytest.raises(SchemaError, match=r"Schema\.as_read\(\)"):
        fit(Schema.parse(fitted.to_yaml()))
    fit(Schema.parse(fitted.to_yaml()).as_read())


def test_a_discovery_that_finds_nothing_is_over(tmp_path: Path) -> None:
    """What is refused afterwards is what the ledger cannot pay, not an unfinished piece of work."""
    pd.DataFrame({"note": [f"text {i}" for i in range(400)]}).to_csv(tmp_path / "t.csv", index=False)
    place = tmp_path / "a.ledger"
    with pytest.raises(NothingDiscovered):
        discover_schema(tmp_path / "t.csv", unit=UNIT, share=0.1, **BUDGET, ledger=place)
    with pytest.raises(BudgetExceeded):
        discover_schema(tmp_path / "t.csv", unit=UNIT, share=0.2, **BUDGET, ledger=place)
