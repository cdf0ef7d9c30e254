"""Where a command could be misread it says what it did, and what to do instead."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from understudy.cli.main import app, exit_code, prepare
from understudy.cli.options import parse_share
from understudy.data import draft_schema
from understudy.errors import BudgetError, DataError, UnderstudyError, UsageError, WorkloadError
from understudy.privacy import Ledger, Unit
from understudy.schema import Boolean, Categorical, Integer, Schema
from understudy.workflow.measuring import ask_about_people

FIT = ("--method", "independent", "--epsilon", "1", "--unit", "add-remove")
SPEC = """
name: habits
source: {simulate: {table: toy, rows: 200, seed: 3}}
schema: {columns: [{name: ward, kind: categorical, values: [day, general, intensive], missing: true}]}
unit: replace-one
synthesizers: [{method: laplace}]
acceptance:
  form: pass-only
  epsilon: 1
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.001}]
selection: {rule: single}
budget: {total: {epsilon: 1.01}, model: {epsilon: 0.01}}
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
    """The threshold is far below the noise, which the test sees clearly: the only attempt is accepted with a probability below 1e-4."""
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


def test_a_column_with_a_handful_of_values_is_no_id() -> None:
    names = ["insured", "member", "guest", "rooms"]
    assert ask_about_people(["insured", "rooms"], Unit.add_remove()) == ()
    asked = ask_about_people(names, Unit.add_remove())
    assert "'member', 'guest'" in asked[0]
    declared = (
        Categorical("insured", values=["Y", "N"]),
        Boolean("member"),
        Integer("guest", minimum=0, maximum=1),
    )
    assert ask_about_people(names, Unit.add_remove(), declared) == ()
    wide = Integer("guest", bins=["0-4999", "5000-9999"])  # two bins of many values each
    assert "'guest'" in ask_about_people(names, Unit.add_remove(), (*declared[:2], wide))[0]


def test_a_misspelt_id_column_is_an_input_error_with_a_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    pd.DataFrame({"patient_id": [1, 1, 2], "ward": ["a", "b", "a"]}).to_csv(path, index=False)
    people = ("--unit", "add-remove", "--id-column", "patient", "--max-rows-per-person", 2)
    with pytest.raises(DataError, match=r"no column 'patient'.*Did you mean 'patient_id'") as caught:
        run("synth", path, "--discover", "0.1", "--epsilon", 1, "--delta", "1e-6", *people, "--out", tmp_path / "o.csv")  # fmt: skip
    assert exits(caught.value) == 4
    assert not list(tmp_path.glob("*.ledger"))


def test_a_misspelt_target_of_a_plan_is_an_input_error_with_a_suggestion(tmp_path: Path) -> None:
    schema = tmp_path / "s.yaml"
    schema.write_text("columns: [{name: smoker, kind: boolean}, {name: old, kind: boolean}]")
    with pytest.raises(WorkloadError, match=r"'smokr'.*Did you mean 'smoker'") as caught:
        run("plan", "--schema", schema, "--for", "smokr", "--unit", "add-remove", "--epsilon", 1)
    assert exits(caught.value) == 4


@pytest.mark.parametrize("share", ["10", "0", "-0.1", "nan"])
def test_a_share_of_discovery_outside_0_and_1_is_a_usage_error(share: str) -> None:
    with pytest.raises(UsageError, match=r"between 0 and 1, such as 0.1 for a tenth") as caught:
        parse_share(share)
    assert exits(caught.value) == 2


@pytest.mark.parametrize("name", ["t2.csv", "t2.parquet", "T.XLSX", "t.dta"])
def test_a_table_given_to_plan_is_named_as_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is a table; plan reads no table: give its schema"):
        run("plan", tmp_path / name, "--epsilon", 1)


@pytest.mark.parametrize("suffix", ["xlsx", "xls", "ods"])
def test_spreadsheets_are_refused_with_the_way_out(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(b"PK")
    with pytest.raises(DataError, match=r"are not read.*Save the sheet as CSV"):
        run("schema", "draft", path, "--out", tmp_path / "s.yaml")
    with pytest.raises(DataError, match=r"are not read.*Save the sheet as CSV"):
        run("synth", path, "--discover", "0.1", "--epsilon", 1, "--delta", "1e-6", "--unit", "add-remove", "--out", tmp_path / "o.csv")  # fmt: skip


def exits(error: UnderstudyError) -> int:
    return int(exit_code(error).value)
