"""Where a command could be misread it says what it did, and what to do instead."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from understudy.cli.main import app, prepare
from understudy.data import draft_schema
from understudy.errors import BudgetError, DataError, UsageError
from understudy.privacy import Ledger
from understudy.schema import Schema

FIT = ("--method", "independent", "--epsilon", "1", "--unit", "add-remove")
SPEC = """
name: habits
source: {simulate: {table: toy, rows: 200, seed: 3}}
schema: {columns: [{name: ward, kind: categorical, values: [day, general, intensive], missing: true}]}
unit: replace-one
synthesizers: [{method: laplace}]
acceptance:
  form: pass-only
  epsilon: 0.1
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.001}]
selection: {rule: single}
budget: {total: {epsilon: 0.2}, model: {epsilon: 0.1}}
"""


def run(*words: object) -> None:
    prepare()
    app([str(word) for word in words], standalone_mode=False)


def test_a_plan_says_that_a_draft_cannot_be_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = draft_schema(pd.DataFrame({"sex": ["f", "m"] * 20}))
    draft.write(tmp_path / "draft.yaml")
    draft.declare_public().write(tmp_path / "schema.yaml")
    run("plan", "--schema", tmp_path / "draft.yaml", *FIT)
    assert "fitting refuses it until they are declared public" in " ".join(capsys.readouterr().out.split())
    run("plan", "--schema", tmp_path / "schema.yaml", *FIT)
    assert "declared public" not in capsys.readouterr().out


def test_a_schema_in_the_place_of_a_specification(tmp_path: Path) -> None:
    schema, other = tmp_path / "schema.yaml", tmp_path / "other.yaml"
    schema.write_text("columns: [{name: sex, kind: boolean}]", encoding="utf-8")
    other.write_text("name: neither", encoding="utf-8")
    with pytest.raises(UsageError, match="is a schema, not a specification"):
        run("plan", schema)
    with pytest.raises(UsageError, match="A schema goes behind --schema"):
        run("plan", schema, *FIT)
    with pytest.raises(Exception, match="The specification has problems"):
        run("plan", other)


def test_a_declared_schema_no_longer_calls_itself_a_draft() -> None:
    draft = draft_schema(pd.DataFrame({"sex": ["f", "m"] * 20}))
    assert draft.description.startswith("Drafted from a table")
    assert draft.declare_public().description == ""
    own = Schema.parse(
        "description: Staff of 2024.\ncolumns: [{name: sex, kind: boolean, origin: from-data}]"
    )
    assert own.declare_public().description == "Staff of 2024."


def test_a_release_that_failed_before_is_not_announced_as_a_new_payment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The threshold is far below the noise: the only attempt fails."""
    (tmp_path / "spec.yaml").write_text(SPEC, encoding="utf-8")
    words = (
        "release",
        tmp_path / "spec.yaml",
        "--ledger",
        tmp_path / "l.ledger",
        "--out",
        tmp_path / "b",
        "-q",
    )
    run(*words)
    first = capsys.readouterr()
    assert "Everything is charged to" in first.err
    assert "Not accepted" in first.out
    assert "earlier run" not in first.out + first.err
    ledger = (tmp_path / "l.ledger").read_bytes()
    run(*words)
    again = capsys.readouterr()
    assert "Everything is charged to" not in again.err
    assert "nothing was read or charged now" in " ".join(again.err.split())
    assert (tmp_path / "l.ledger").read_bytes() == ledger


def test_a_table_of_a_database_is_checked_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is one of the databases")
    pytest.importorskip("ibis", reason="Ibis speaks to databases")
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("staff.duckdb") as connection:
        connection.execute("create table staff as select 'f' as sex union all select 'x'")
    Path("wide.yaml").write_text(
        "columns: [{name: sex, kind: categorical, values: [f, x]}]", encoding="utf-8"
    )
    Path("narrow.yaml").write_text(
        "columns: [{name: sex, kind: categorical, values: [f, m]}]", encoding="utf-8"
    )
    run("schema", "check", "wide.yaml", "staff.duckdb", "--table", "staff", "-q")
    assert "The table fits the schema." in capsys.readouterr().out
    with pytest.raises(DataError, match="does not fit the schema"):
        run("schema", "check", "narrow.yaml", "staff.duckdb", "--table", "staff", "-q")
    with pytest.raises(UsageError, match="name the one to read"):
        run("schema", "check", "wide.yaml", "staff.duckdb")


@pytest.mark.parametrize("address", ["staff.duckdb", "postgresql://db.example/registry"])
def test_a_database_needs_a_table_or_says_that_files_are_read(address: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name the one to read"):
        run("schema", "draft", address, "--out", tmp_path / "draft.yaml")
    with pytest.raises(UsageError, match="An evaluation reads a file"):
        run("evaluate", address, "made.csv", "--schema", "schema.yaml")


def test_a_ledger_can_be_made_for_methods_with_a_delta_of_their_own(tmp_path: Path) -> None:
    budget = ("--unit", "add-remove", "--epsilon", "2", "--delta", "1e-6")
    run(
        "ledger", "create", tmp_path / "a.ledger", "--table-name", "a", *budget, "--approximate-delta", "4e-7"
    )
    run("ledger", "create", tmp_path / "b.ledger", "--table-name", "b", *budget)
    with Ledger.open(tmp_path / "a.ledger") as aside, Ledger.open(tmp_path / "b.ledger") as plain:
        assert (aside.rule.approximate_delta, plain.rule.approximate_delta) == (4e-7, 0.0)
    with pytest.raises(BudgetError, match="smaller than the budget's delta"):
        run(
            "ledger",
            "create",
            tmp_path / "c.ledger",
            "--table-name",
            "c",
            *budget,
            "--approximate-delta",
            "1e-6",
        )
    assert not (tmp_path / "c.ledger").exists()
