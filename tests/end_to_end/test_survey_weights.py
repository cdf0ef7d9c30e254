"""Survey weights through the command line: a weighted survey in, a weighted survey or a population out."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from command import understudy

from understudy.datasets import weighted_survey, weighted_survey_schema

BUDGET = ("--epsilon", "5", "--unit", "add-remove")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = weighted_survey(1_500, seed=1)
    table["weight"] = table["weight"].map("{:.3f}".format)
    table.loc[:20, "weight"] = ["", "-1", "no answer", "nan", "1e999"] * 4 + [""]
    table.to_csv(tmp_path / "survey.csv", index=False)
    schema = weighted_survey_schema()
    schema.select(["sex", "income_class", "world_area_of_birth", "weight"]).write(tmp_path / "survey.yaml")
    return tmp_path


def run(*words: object, code: int = 0) -> str:
    result = understudy(*words)
    assert result.code == code, result.err
    return result.out + result.err


def synth(folder: Path, *words: object, schema: str = "survey.yaml", code: int = 0) -> str:
    return run("synth", folder / "survey.csv", "--schema", folder / schema, *BUDGET, *words, code=code)


def test_a_weighted_survey_comes_out_weighted_and_a_population_is_drawn_from_its_model(folder):
    synth(
        folder,
        "--out",
        folder / "out.csv",
        "--model",
        folder / "m.understudy",
        "--seed",
        1,
        "--method",
        "aim",
    )
    made = pd.read_csv(folder / "out.csv")
    real = pd.read_csv(folder / "survey.csv").assign(
        weight=lambda table: pd.to_numeric(table["weight"], errors="coerce").where(
            lambda w: w.between(0, 1e9)
        )
    )
    assert list(made.columns) == ["sex", "world_area_of_birth", "income_class", "weight"]
    assert made["weight"].max() <= 25
    born = "world_area_of_birth"

    def abroad(table: pd.DataFrame) -> float:
        return float(table.loc[table[born] != "United States", "weight"].sum() / table["weight"].sum())

    assert abroad(made) == pytest.approx(abroad(real), abs=0.05)  # .4 of the rows are
    run(
        "sample",
        folder / "m.understudy",
        "--population",
        "--rows",
        1_000,
        "--seed",
        2,
        "--out",
        folder / "p.csv",
    )
    people = pd.read_csv(folder / "p.csv")
    assert list(people.columns) == ["sex", "world_area_of_birth", "income_class"]
    assert len(people) == 1_000
    assert (people[born] != "United States").mean() == pytest.approx(abroad(real), abs=0.07)


def test_a_population_straight_from_synth(folder):
    told = synth(
        folder, "--population", "--rows", 300, "--out", folder / "p.parquet", "--method", "independent"
    )
    assert "300 synthetic rows" in told
    assert list(pd.read_parquet(folder / "p.parquet").columns) == [
        "sex",
        "world_area_of_birth",
        "income_class",
    ]


def test_refusals_come_before_anything_is_spent(folder):
    weighted_survey_schema().select(["sex", "income_class"]).write(folder / "plain.yaml")
    told = synth(folder, "--population", "--out", folder / "p.csv", schema="plain.yaml", code=2)
    assert "section weight" in told
    told = synth(folder, "--population", "--out", f"{folder}/p/", code=2)
    assert "one file or frame" in told
    told = synth(folder, "--population", "--sets", 2, "--out", folder / "p.csv", code=2)
    assert "one file or frame" in told
    assert not (folder / "survey.csv.ledger").exists()
