"""No door is left open: a curator writes an exact number of rows into its ledger before it uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from understudy.adapters import TableSynthesizer
from understudy.curator import Curator
from understudy.data import Preparation, read_table
from understudy.errors import DataError, LedgerMismatch
from understudy.mechanisms import Provenance, create
from understudy.privacy import Ledger, PureDP, Unit
from understudy.privacy.invariants import Consent
from understudy.privacy.rows import PublicRows
from understudy.schema import Constraint, Schema

PLAIN = {"columns": [{"name": "age", "kind": "integer", "minimum": 0, "maximum": 9}]}
SCHEMA = Schema.from_dict(PLAIN)
FRAME = pd.DataFrame({"age": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] * 5, "person": list(range(25)) * 2})


def ledger(unit: Unit) -> Ledger:
    return Ledger.in_memory(budget=PureDP(9.0), unit=unit)


def told(book: Ledger) -> list[tuple[str, object]]:
    return [(fact.rule, fact.value) for fact in book.invariants()]


def cleaned(rule: str = "age >= 2") -> Any:
    return read_table(FRAME, SCHEMA, prepare=Preparation(rules=(Constraint.parse(rule, SCHEMA),)))


def test_the_number_that_the_relation_fixes_is_written_down() -> None:
    book = ledger(Unit.replace_one())
    curator = Curator(read_table(FRAME, SCHEMA), unit=book.unit, ledger=book)
    assert (curator.rows.number, told(book)) == (50, [("", 50)])
    Curator(read_table(FRAME, SCHEMA), unit=book.unit, ledger=book)
    assert len(told(book)) == 1


def test_one_row_each_makes_the_number_of_persons_public() -> None:
    """Finding 3 (d): `replace_person` with one row each keeps the number of rows, which is the number of persons."""
    unit = Unit.replace_person("person", max_rows=1)
    book = ledger(unit)
    curator = Curator(read_table(FRAME, SCHEMA, id_column="person"), unit=unit, ledger=book)
    assert curator.rows.number == FRAME["person"].nunique() == 25
    assert told(book) == [("at most 1 row of each person", 25)]
    assert "25 rows" in book.guarantee().condition.among
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "units.md").read_text(encoding="utf-8")
    row = next(
        line
        for line in page.splitlines()
        if line.startswith("| `Unit.replace_person(id_column, max_rows=1)`")
    )
    assert "public" in row
    assert "number of persons" in row


@pytest.mark.parametrize(
    "unit",
    [
        Unit.add_remove(),
        Unit.replace_person("person", max_rows=2),
        Unit.add_remove_person("person", max_rows=1),
    ],
)
def test_a_private_number_is_not_written_down(unit: Unit) -> None:
    book = ledger(unit)
    curator = Curator(read_table(FRAME, SCHEMA, id_column=unit.id_column), unit=unit, ledger=book)
    assert (curator.rows.number, told(book)) == (None, [])


def test_a_number_that_was_measured_is_no_exact_one() -> None:
    book = ledger(Unit.replace_one())
    table = read_table(FRAME, SCHEMA)
    Curator(
        table, unit=book.unit, ledger=book, rows=PublicRows.measured(None, scale=2.0)
    )  # it is about to be measured
    waiting = Curator(table, unit=book.unit, ledger=book, rows=PublicRows.measured(None, scale=2.0))
    assert waiting.rows == PublicRows(), "the relation fixes the number, but no entry of the ledger says so"
    Curator(table, unit=book.unit, ledger=book, rows=PublicRows.measured(48, scale=2.0))
    assert told(book) == []


@pytest.mark.parametrize("rows", [40, None])
def test_an_exact_number_is_declared_after_its_rules(rows: int | None) -> None:
    book = ledger(Unit.add_remove())
    curator = Curator(
        cleaned(), unit=book.unit, ledger=book, rows=PublicRows.exactly(rows), cleaning=["age >= 2"]
    )
    assert (curator.rows.number, curator.rows.exact, told(book)) == (40, True, [("age >= 2", 40)])
    with pytest.raises(LedgerMismatch, match="accept-invariant"):
        Curator(
            cleaned("age >= 3"), unit=book.unit, ledger=book, rows=PublicRows.exactly(), cleaning=["age >= 3"]
        )
    agreed = Consent(invariant=True, by="A. Owner")
    Curator(
        cleaned("age >= 3"),
        unit=book.unit,
        ledger=book,
        rows=PublicRows.exactly(),
        cleaning=["age >= 3"],
        consent=agreed,
    )
    assert told(book) == [("age >= 2", 40), ("age >= 3", 35)]


def test_rules_that_nobody_named_are_said_to_be_so() -> None:
    book = ledger(Unit.replace_one())
    Curator(cleaned(), unit=book.unit, ledger=book, rows=PublicRows.exactly(40))
    assert told(book) == [("rules that were not named", 40)]


def test_a_wrong_exact_number_is_refused() -> None:
    """Version 0.1.0 took it at its word, and sensitivities relied on it."""
    book = ledger(Unit.add_remove())
    with pytest.raises(DataError, match="does not have 41 rows"):
        Curator(cleaned(), unit=book.unit, ledger=book, rows=PublicRows.exactly(41), cleaning=["age >= 2"])
    with pytest.raises(LedgerMismatch):
        Curator(cleaned(), unit=book.unit, ledger=book, rows=PublicRows.exactly(40), cleaning=["age >= 2"])


def test_the_schema_declares_it() -> None:
    schema = Schema.from_dict({**PLAIN, "row_count": 50})
    book = ledger(Unit.add_remove())
    curator = Curator(read_table(FRAME, schema), unit=book.unit, ledger=book)
    assert told(book) == [("", 50)]
    model = create("independent").fit(curator, PureDP(1.0))
    assert "among tables with 50 rows" in model.provenance.guarantee()


def test_provenance_of_version_0_1_has_no_condition() -> None:
    book = ledger(Unit.replace_one())
    made = create("independent").fit(
        Curator(read_table(FRAME, SCHEMA), unit=book.unit, ledger=book), PureDP(1.0)
    )
    plain = made.provenance.to_dict()
    assert Provenance.from_dict(plain) == made.provenance
    assert "among tables with 50 rows" in made.provenance.guarantee()
    old = Provenance.from_dict({key: value for key, value in plain.items() if key != "condition"})
    assert old.guarantee().endswith("accounting.")


class Unread:
    """A table that must not be looked at."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("the table was read")


def test_the_estimator_compares_facts_before_it_reads(tmp_path: Path) -> None:
    words: dict[str, Any] = {"unit": "add-remove", "epsilon": 0.5, "ledger": tmp_path / "t.ledger"}
    TableSynthesizer("independent", schema=SCHEMA, **words).fit(FRAME)
    with Ledger.open(tmp_path / "t.ledger") as book:
        assert len(book.facts) == 1
    other = Schema.from_dict({"columns": [{"name": "age", "kind": "integer", "minimum": 0, "maximum": 10}]})
    with pytest.raises(LedgerMismatch, match="What differs: columns"):
        TableSynthesizer("independent", schema=other, **words).fit(Unread())
    declared = Schema.from_dict({**PLAIN, "row_count": 50})
    with pytest.raises(LedgerMismatch, match="accept-invariant"):
        TableSynthesizer("independent", schema=declared, **words).fit(Unread())
