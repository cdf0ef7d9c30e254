"""From a messy file to rows in three commands: no header, blanks after commas, every trap."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from understudy.cli.main import app, prepare
from understudy.datasets import messy_table, write_messy
from understudy.datasets.messy import MONTHS, TRAPS
from understudy.errors import DomainNotPublic


def run(*words: object) -> None:
    prepare()
    app([str(word) for word in words], standalone_mode=False)


@pytest.fixture
def stays(tmp_path: Path) -> Path:
    table = tmp_path / "stays.data"
    write_messy(table, messy_table(3_000, seed=9), header=False, blanks=True)
    (tmp_path / "names.txt").write_text("\n".join(TRAPS), encoding="utf-8")
    return table


def test_a_messy_file_becomes_rows_in_the_spelling_of_the_table(stays: Path, tmp_path: Path) -> None:
    draft, schema, out = (tmp_path / name for name in ("draft.yaml", "schema.yaml", "rows.csv"))
    given = ("--names", tmp_path / "names.txt")
    fit = (
        "--method",
        "independent",
        "--epsilon",
        "20",
        "--delta",
        "1e-6",
        "--unit",
        "add-remove",
        "--seed",
        "1",
    )
    who = ("--id-column", "patient_nbr", "--max-rows-per-person", "4")
    run("schema", "draft", stays, *given, "--out", draft)
    with pytest.raises(DomainNotPublic):
        run("synth", stays, *given, "--schema", draft, *fit, *who, "--out", out, "-q")
    assert not out.exists()
    run("schema", "declare", draft, "--out", schema, "--rare-are-public")
    run("synth", stays, *given, "--schema", schema, *fit, *who, "--out", out, "-q")
    rows = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert not {"encounter_id", "note"} & set(rows.columns)
    assert rows["patient_nbr"].astype(int).tolist() == sorted(rows["patient_nbr"].astype(int))  # fresh ones
    for column, spelling in (
        ("race", "?"),
        ("agent", "NULL"),
        ("lab_value", "NA"),
        ("income", "-99"),
        ("sex", "Unknown"),
    ):
        assert (rows[column] == spelling).any(), column
        assert not (rows[column] == "").any(), column
    assert set(rows["smoker"]) == {"Yes", "No"}
    assert set(rows["arrival_month"]) <= set(MONTHS)
    assert set(rows["arrival_day"].astype(int)) <= set(range(1, 32))
    assert rows["price"].str.fullmatch(r"\d+(\.\d{1,2})?").all()
    price = rows["price"].astype(float)
    assert price.nunique() > 500
    assert price.max() <= 2_000
    assert 50 < price.median() < 150
    assert rows["diagnosis"].nunique() > 200
