"""People with several rows through the command line: one table with an id column in, people with fresh ids out."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command import understudy

from understudy.datasets import patient_stays, patient_stays_schema

BUDGET = ("--epsilon", "2", "--delta", "1e-6", "--unit", "add-remove")
PERSON = ("--id-column", "patient", "--max-rows-per-person", "3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    patient_stays(500, seed=1).to_csv(tmp_path / "stays.csv", index=False)
    patient_stays_schema().write(tmp_path / "stays.yaml")
    return tmp_path


def run(*words: object, code: int = 0) -> str:
    result = understudy(*words)
    assert result.code == code, result.err
    return result.out if code == 0 else result.err


def synth(folder: Path, *words: object, method: str = "aim", code: int = 0) -> str:
    return run(
        "synth",
        folder / "stays.csv",
        "--schema",
        folder / "stays.yaml",
        "--method",
        method,
        *PERSON,
        *BUDGET,
        "--seed",
        1,
        *words,
        code=code,
    )


def test_people_in_people_out_and_again_from_the_model(folder):
    told = synth(folder, "--out", folder / "out.csv", "--model", folder / "m.understudy", "--json")
    made = pd.read_csv(folder / "out.csv")
    document = json.loads(told[told.index("{") :])
    assert document["rows"] == len(made)
    assert document["persons"] == made["patient"].nunique()
    assert list(made.columns) == ["patient", *patient_stays_schema().names]
    assert (made.groupby("patient")["sex"].nunique() == 1).all()
    assert made.groupby("patient")["admitted"].is_monotonic_increasing.all()
    run("sample", folder / "m.understudy", "--out", folder / "again.csv", "--seed", 1)
    assert (folder / "again.csv").read_bytes() == (folder / "out.csv").read_bytes()
    run("sample", folder / "m.understudy", "--out", folder / "few.parquet", "--rows", 50)
    assert 0 < len(pd.read_parquet(folder / "few.parquet")) <= 50
    refused = understudy("sample", folder / "m.understudy", "--out", f"{folder}/parts.parquet/")
    assert refused.code != 0
    assert "one file" in refused.err
    assert not (folder / "parts.parquet").exists()


def test_the_command_as_it_was_promised_names_no_method(folder):
    """One table, its schema, whose rows they are and a budget: two levels, with fresh ids, and the reason for the method."""
    words = "--id-column patient --max-rows-per-person 4 --epsilon 2 --delta 1e-6 --unit add-remove"
    schema = folder / "stays.yaml"
    result = understudy("synth", folder / "stays.csv", "--schema", schema, *words.split(), "--out", folder / "o.csv")  # fmt: skip
    assert result.code == 0, result.err
    assert "Method aim, chosen because people have several rows" in result.out + result.err
    made, real = pd.read_csv(folder / "o.csv"), pd.read_csv(folder / "stays.csv")
    assert sorted(made["patient"].unique()) == list(range(1, made["patient"].nunique() + 1))
    assert not set(made["patient"]) & set(real["patient"])
    assert made["patient"].duplicated().any()


def test_whose_the_rows_are_need_not_be_said_twice(folder):
    """The schema names the patient; whoever gives a number of rows means people, in `plan` and in `synth`."""
    words = (
        "--schema",
        folder / "stays.yaml",
        "--max-rows-per-person",
        "auto",
        *BUDGET,
        "--method",
        "independent",
    )
    assert "at most 10 rows of each person are counted" in " ".join(run("plan", *words).split())
    run("synth", folder / "stays.csv", *words, "--out", folder / "out.csv")
    assert pd.read_csv(folder / "out.csv")["patient"].duplicated().any()
    assert "--flat" in run("plan", *words[:2], *BUDGET, "--method", "independent", code=2)


def test_flat_is_rows_and_says_that_they_are_cut(folder):
    result = understudy(
        "synth",
        folder / "stays.csv",
        "--schema",
        folder / "stays.yaml",
        "--method",
        "aim",
        *PERSON,
        *BUDGET,
        "--flat",
        "--out",
        folder / "out.csv",
    )
    assert "more than 3 rows counts as one with 3" in " ".join((result.out + result.err).split())
    assert "patient" not in pd.read_csv(folder / "out.csv").columns


def test_a_method_that_cannot_is_refused_before_anything_is_spent(folder):
    assert "--flat" in synth(folder, "--out", folder / "out.csv", method="privbayes", code=4)
    assert not (folder / "stays.ledger").exists()


@pytest.mark.parametrize(("flat", "said"), [((), "Two levels"), (("--flat",), "Rows are cut")])
def test_plan_says_which(folder, flat, said):
    told = run(
        "plan", "--schema", folder / "stays.yaml", "--method", "aim", *PERSON, *BUDGET, *flat, "--json"
    )
    document = json.loads(told)
    assert any(said in note for note in document["notes"])
    names = {name for item in document["measurements"] for name in item["columns"]}
    assert ("number_of_events" in names) == (not flat)


def test_rows_that_a_cut_leaves_out_are_estimated_and_their_number_is_chosen(folder):
    told = synth(
        folder, "--flat", "--rows-lost", "--out", folder / "lost.csv", "--json", method="independent"
    )
    document = json.loads(told[told.index("{") :])
    found = document["rows_per_person"]
    assert found["max_rows"] == 3
    assert 0 <= found["lost_between"][0] <= found["lost"] <= found["lost_between"][1]
    words = (
        "synth",
        folder / "stays.csv",
        "--schema",
        folder / "stays.yaml",
        *BUDGET,
        "--id-column",
        "patient",
    )
    auto = (
        "--max-rows-per-person",
        "auto",
        "--flat",
        "--method",
        "independent",
        "--ledger",
        folder / "auto.ledger",
    )
    result = understudy(*words, *auto, "--another-ledger", "--out", folder / "auto.csv")
    assert result.code == 0, result.err
    assert "counts people by their number of rows" in result.out + result.err
    assert "leaves out about" in result.out + result.err
    shown = understudy("ledger", "show", folder / "auto.ledger")
    assert "rows of a person count, chosen" in shown.out + shown.err
    refused = run(*words, "--max-rows-per-person", "many", "--out", folder / "x.csv", code=2)
    assert "whole number, or auto" in refused
    refused = run(*words, "--max-rows-per-person", 2, "--rows-lost", "--out", folder / "x.csv", code=2)
    assert "nothing is cut here" in refused


def test_a_plan_says_what_the_choice_of_rows_costs(folder):
    words = (
        "plan",
        "--schema",
        folder / "stays.yaml",
        *BUDGET,
        "--id-column",
        "patient",
        "--method",
        "independent",
        "--flat",
    )
    told = run(*words, "--max-rows-per-person", "auto", "--json")
    planned = json.loads(told[told.index("{") :])
    assert "at most 64 rows of each person are counted" in planned["guarantee"]
    assert any("counts people by their number of rows" in note for note in planned["notes"])
    assert any("shown for 4 rows" in note for note in planned["notes"])
    assert not any("Rows are cut" in note for note in planned["notes"])
    fixed = run(*words, "--max-rows-per-person", 4, "--json")
    scales = [json.loads(text[text.index("{") :])["measurements"][0]["scale"] for text in (told, fixed)]
    assert 1 < scales[0] / scales[1] < 1.1  # a twentieth of the budget is spent before
    refused = run(*words[:-1], "--max-rows-per-person", 2, "--rows-lost", code=2)
    assert "nothing is cut here" in refused
    pure = ["laplace" if word == "independent" else word for word in words]
    refused = run(*pure, "--max-rows-per-person", 2, "--rows-lost", code=2)
    assert "do not add up to the budget" in refused
