"""Drafting from databases, folders of Parquet files, and files of statistics packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.cli.main import app, prepare
from understudy.data import Database, draft_schema, read_frame, read_table
from understudy.data.drafting.draft import draft
from understudy.data.sources import read_described
from understudy.datasets import messy_table, write_messy
from understudy.errors import DataError, MissingExtra, UsageError
from understudy.schema import Categorical, Integer, Schema

COLUMNS = ["patient_nbr", "price", "agent", "arrival_month", "smoker", "race", "lead_days"]


def run(*words: object) -> None:
    prepare()
    app([str(word) for word in words], standalone_mode=False)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return messy_table(2_000, seed=6)[COLUMNS]


# ---------------------------------------------------------------------------- databases and folders


def test_a_database_gives_the_draft_of_its_table(tmp_path: Path, frame: pd.DataFrame) -> None:
    duckdb = pytest.importorskip("duckdb")
    file = tmp_path / "registry.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.register("given", frame)
        connection.execute("CREATE TABLE stays AS SELECT * FROM given")
    source = Database(url=str(file), table="stays")
    assert draft(read_frame(source)).schema == draft(frame).schema
    out = tmp_path / "schema.yaml"
    run("schema", "draft", file, "--table", "stays", "--out", out)
    drafted = Schema.read(out)
    assert drafted.name == "stays"
    assert "patient_nbr" in dict(drafted.left_out)
    assert drafted.facts_from_data()
    with pytest.raises(UsageError, match="--table"):
        run("schema", "draft", file, "--out", out)
    with pytest.raises(DataError, match="CSV files only"):
        run("schema", "draft", file, "--table", "stays", "--out", out, "--names", "a,b")


def test_the_first_rows_of_a_database(tmp_path: Path, frame: pd.DataFrame) -> None:
    duckdb = pytest.importorskip("duckdb")
    file = tmp_path / "registry.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.register("given", frame)
        connection.execute("CREATE TABLE stays AS SELECT * FROM given")
    assert len(read_frame(Database(url=str(file), table="stays"), first_rows=10)) == 10


def test_a_folder_of_parquet_files(tmp_path: Path, frame: pd.DataFrame) -> None:
    folder = tmp_path / "stays"
    folder.mkdir()
    frame[:1_000].to_parquet(folder / "a.parquet")
    frame[1_000:].to_parquet(folder / "b.parquet")
    assert draft(read_frame(folder)).schema == draft(frame).schema
    run("schema", "draft", folder, "--out", tmp_path / "schema.yaml", "--first-rows", "100")


# ---------------------------------------------------------------------------- Stata, SPSS, SAS


SURVEY = pd.DataFrame(
    {
        "sex": [1.0, 2.0, 2.0, 1.0] * 50,
        "income": [100.0 * n for n in range(1, 196)] + [-8.0] * 5,
        "mood": [float(n % 11) for n in range(200)],
        "region": ["n", "s"] * 100,
    }
)
LABELS = {
    "sex": {1: "male", 2: "female", 3: "no answer"},
    "income": {-8: "refused"},
    "mood": {0: "not at all", 10: "completely"},
}
WORDS = ["Sex of the respondent", "Income", "Mood", "Region"]


def written(folder: Path, ending: str) -> Path:
    pyreadstat = pytest.importorskip("pyreadstat")
    path = folder / f"survey{ending}"
    if ending == ".dta":
        whole = SURVEY.astype({"sex": "int32", "income": "int32", "mood": "int32"})
        pyreadstat.write_dta(whole, str(path), variable_value_labels=LABELS, column_labels=WORDS)
    elif ending == ".xpt":
        pyreadstat.write_xport(SURVEY, str(path), column_labels=WORDS)
    else:
        pyreadstat.write_sav(SURVEY, str(path), variable_value_labels=LABELS, column_labels=WORDS)
    return path


@pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta"])
def test_value_labels_make_codes(tmp_path: Path, ending: str) -> None:
    found = read_described(written(tmp_path, ending))
    drafted = draft(found.frame, labels=found.labels, descriptions=found.descriptions).schema
    sex = drafted.column("sex")
    assert isinstance(sex, Categorical)
    assert sex.values == (1, 2, 3)  # the codebook lists a code that nobody has
    assert sex.description == "Sex of the respondent (1: male; 2: female; 3: no answer)"
    income = drafted.column("income")
    assert isinstance(income, Integer)
    assert -8 in income.missing_values
    mood = drafted.column("mood")
    assert (mood.kind, mood.size) == ("integer", 11)
    assert drafted.facts_from_data()


@pytest.mark.parametrize("ending", [".sav", ".dta", ".xpt"])
def test_survey_files_are_tables_for_every_command(tmp_path: Path, ending: str) -> None:
    path, schema = written(tmp_path, ending), tmp_path / "schema.yaml"
    run("schema", "draft", path, "--out", schema, "--declare-public")
    run("schema", "check", schema, path)
    assert read_table(path, Schema.read(schema)).exact_row_count() == len(SURVEY)
    with pytest.raises(DataError, match="CSV files only"):
        read_table(path, Schema.read(schema), separator=";")


def test_a_damaged_survey_file(tmp_path: Path) -> None:
    pytest.importorskip("pyreadstat")
    path = tmp_path / "survey.sav"
    path.write_bytes(b"canary" * 100)
    with pytest.raises(DataError, match=r"cannot be read as a \.sav file") as error:
        read_frame(path)
    assert "canary" not in str(error.value)
    with pytest.raises(DataError, match="survey"):
        read_frame(tmp_path / "survey-2.dta")


def test_the_extra_is_named_when_it_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "survey.sav"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(MissingExtra, match=r"understudy\[survey\]"):
        read_frame(path)


# ---------------------------------------------------------------------------- what the command says


def test_remarks_and_questions_are_printed_and_not_kept(
    tmp_path: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "stays.csv", tmp_path / "schema.yaml"
    write_messy(table, frame)
    run("schema", "draft", table, "--out", out)
    said = " ".join(capsys.readouterr().out.split())
    assert "Remark on 'price'" in said
    assert "does somebody have several rows?" in said
    run("schema", "draft", table, "--out", out, "--json")
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {"remarks", "questions", "proposals", "left_out", "public", "columns", "out"} == set(document)
    assert "price" in document["remarks"]
    kept = out.read_text(encoding="utf-8")
    assert all(remark not in kept for remark in document["remarks"].values())
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".csv"] == ["schema.yaml"]


def test_a_draft_of_a_polars_frame_is_that_of_the_pandas_frame(frame: pd.DataFrame) -> None:
    polars = pytest.importorskip("polars")
    assert draft_schema(polars.from_pandas(frame)) == draft_schema(frame)
    assert np.array_equal(draft_schema(frame).encode_frame(frame)["price"].shape, (2_000,))
