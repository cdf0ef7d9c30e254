"""Linked tables through the command line: a schema file that names its tables in, a folder of tables that join out."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command import understudy

from linked_tables import write_patients
from understudy.schema.files.yaml import read_plain, write_plain

BUDGET = ("--epsilon", "2", "--delta", "1e-6", "--unit", "add-remove", "--max-rows-per-person", "3")
FEW = ("sex", "age_group", "admitted", "ward", "readmitted")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_patients(tmp_path, 400, fixed=FEW[:2], moving=FEW[2:])
    return tmp_path


def run(*words: object, code: int = 0) -> str:
    result = understudy(*words)
    assert result.code == code, result.err
    return result.out if code == 0 else result.err


def joins(folder: Path, ending: str = "csv") -> tuple[pd.DataFrame, pd.DataFrame]:
    read = pd.read_csv if ending == "csv" else pd.read_parquet
    patients, stays = read(folder / f"patients.{ending}"), read(folder / f"stays.{ending}")
    assert patients["patient"].is_unique
    assert stays["patient"].isin(patients["patient"]).all()
    counted = patients["patient"].map(stays["patient"].value_counts()).fillna(0)
    assert (counted == patients["stays"]).all()
    return patients, stays


def test_tables_in_tables_out_and_again_from_the_model(folder):
    out = f"{folder}/out/"
    told = run(
        "synth", folder / "register.yaml", *BUDGET, "--seed", 1, "--out", out, "--model", folder / "m.understudy", "--json"
    )  # fmt: skip
    document = json.loads(told[told.index("{") :])
    patients, stays = joins(folder / "out")
    assert document["tables"] == {"patients": len(patients), "stays": len(stays)}
    assert document["persons"] == len(patients)
    assert (patients["stays"] == 0).any()
    assert list(stays.columns) == ["patient", "admitted", "ward", "readmitted"]
    assert stays.groupby("patient")["admitted"].is_monotonic_increasing.all()
    assert (folder / "register.ledger").exists()
    run("sample", folder / "m.understudy", "--out", f"{folder}/again/", "--seed", 1)
    for name in ("patients.csv", "stays.csv"):
        assert (folder / "again" / name).read_bytes() == (folder / "out" / name).read_bytes()
    run("sample", folder / "m.understudy", "--out", f"{folder}/few.parquet/", "--rows", 50)
    assert 0 < len(joins(folder / "few.parquet", "parquet")[1]) <= 50
    assert "slash" in run("sample", folder / "m.understudy", "--out", folder / "one.csv", code=6)


def test_a_description_with_the_keys_and_a_database_that_keeps_them(folder):
    import duckdb
    from frictionless import validate

    synth = (
        "synth",
        folder / "register.yaml",
        *BUDGET,
        "--method",
        "independent",
        "--ledger",
        folder / "l.ledger",
    )
    run(*synth, "--seed", 1, "--out", f"{folder}/out/", "--model", folder / "m.understudy")
    description = json.loads((folder / "out" / "datapackage.json").read_text(encoding="utf-8"))
    assert [item["name"] for item in description["resources"]] == ["patients", "stays"]
    report = validate(str(folder / "out" / "datapackage.json"))
    assert report.valid, report.flatten(["type", "message"])
    stays = pd.read_csv(folder / "out" / "stays.csv")
    stays.loc[0, "patient"] = 10**6
    stays.to_csv(folder / "out" / "stays.csv", index=False)
    assert not validate(str(folder / "out" / "datapackage.json")).valid  # the keys are part of what it says
    run("sample", folder / "m.understudy", "--out", folder / "out.duckdb", "--seed", 1)
    with duckdb.connect(str(folder / "out.duckdb")) as database:
        kinds = {
            row[0] for row in database.execute("SELECT constraint_type FROM duckdb_constraints()").fetchall()
        }
        assert {"PRIMARY KEY", "FOREIGN KEY"} <= kinds
        patients = database.execute("SELECT * FROM patients ORDER BY patient").df()
        with pytest.raises(duckdb.ConstraintException):
            database.execute(
                "INSERT INTO stays SELECT 1000000, admitted, ward, readmitted FROM stays LIMIT 1"
            )
    assert patients["sex"].tolist() == pd.read_csv(folder / "out" / "patients.csv")["sex"].tolist()
    assert "exists already" in run("sample", folder / "m.understudy", "--out", folder / "out.duckdb", code=6)


def test_refusals_before_anything_is_spent(folder):
    synth = ("synth", folder / "register.yaml", *BUDGET)
    assert "slash" in run(*synth, "--out", folder / "out.csv", code=6)
    assert "leave --sets" in run(*synth, "--out", f"{folder}/out/", "--sets", 2, code=2)
    stays = pd.read_csv(folder / "stays.csv")
    stays.loc[3, "patient"] = 17
    stays.to_csv(folder / "stays.csv", index=False)
    refused = run(*synth, "--out", f"{folder}/out/", code=4)
    assert "orphans: drop" in " ".join(refused.split())
    assert "17" not in refused
    assert not (folder / "out").exists()


def test_declaring_a_draft_keeps_the_tables_and_where_they_are(folder):
    plain = read_plain(folder / "register.yaml")
    plain["tables"][0]["columns"][0]["origin"] = "from-data"
    plain["tables"][1]["source"] = {"url": "postgresql://db.example/registry", "table": "stays"}
    write_plain(plain, folder / "draft.yaml")
    (folder / "public").mkdir()
    run("schema", "declare", folder / "draft.yaml", "--out", folder / "public" / "schema.yaml")
    patients, stays = read_plain(folder / "public" / "schema.yaml")["tables"]
    assert patients["source"] == "../patients.csv"
    assert stays["source"] == {"url": "postgresql://db.example/registry", "table": "stays"}
    assert "origin" not in patients["columns"][0]
    assert stays["belongs_to"] == "patients"


def test_a_rehearsal_on_a_single_simulated_table_says_what_to_give(folder):
    spec = {
        "name": "register",
        "source": {},
        "schema": "register.yaml",
        "unit": {"relation": "add-remove", "id_column": "patient", "max_rows": 3},
        "synthesizers": [{"method": "independent"}],
        "acceptance": {"form": "pass-only", "epsilon": 1, "criteria": [{"name": "n", "kind": "mean-events", "threshold": 5}]},
        "selection": {"rule": "single"},
        "budget": {"total": {"epsilon": 4}, "model": {"epsilon": 2}},
    }  # fmt: skip
    write_plain(spec, folder / "spec.yaml")
    assert "patient_register" in run("rehearse", folder / "spec.yaml", "--simulate", "toy", code=2)
    told = run("plan", folder / "spec.yaml", "--rows", 400)
    assert "Planned for 400 entities, which give 1,200 event records." in told
    assert "one patient with all rows, of which 3 event records are counted" in told


def test_plan_knows_the_key(folder):
    document = json.loads(run("plan", "--schema", folder / "register.yaml", *BUDGET, "--json"))
    assert any("Linked tables" in note for note in document["notes"])
    assert "number_of_events" in {name for item in document["measurements"] for name in item["columns"]}


def test_evaluate_compares_both_levels_in_the_page_and_the_numbers(folder):
    (folder / "made").mkdir()
    for name in ("patients", "stays"):
        (folder / "made" / f"{name}.csv").write_bytes((folder / f"{name}.csv").read_bytes())
    words = ("evaluate", folder / "register.yaml", folder / "made", "--sections", "marginals,entities")
    told = run(*words, "--out", folder / "numbers.json", "--report", folder / "page.html")
    assert "successive events" in told
    document = json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
    (section,) = (item for item in document["sections"] if item["title"] == "entities")
    measures = {item["measure"]: item["values"] for item in section["results"]}
    assert set(measures["distance of a column in two successive events"].values()) == {0.0}
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "Successive events" in page
    assert "share of events without their entity" in page
    assert "--schema" in run("evaluate", folder / "stays.csv", folder / "made" / "stays.csv", code=2)
    budget = ("--epsilon", 1, "--unit", "add-remove")
    assert "own eyes" in " ".join(run(*words[:3], *budget, code=2).split())


def test_entities_are_held_out_and_tested_on(folder):
    out = f"{folder}/out/"
    run(
        "synth", folder / "register.yaml", *BUDGET, "--method", "mst", "--seed", 1, "--out", out,
        "--hold-out", "0.3", "--hold-out-file", folder / "register.hold-out",
    )  # fmt: skip
    patients, _ = joins(folder / "out")
    assert 200 < len(patients) < 360, "about 280 of 400 were read"
    told = run(
        "evaluate", folder / "register.yaml", folder / "out", "--hold-out-file", folder / "register.hold-out",
        "--sections", "entities,learning", "--target", "readmitted", "--json"
    )  # fmt: skip
    sections = {item["title"]: item for item in json.loads(told[told.index("{") :])["sections"]}
    assert {"entities", "learning"} <= set(sections)


@pytest.fixture
def several(folder: Path) -> Path:
    """The register with a second table of events: a claim for each stay, and who paid it."""
    stays = pd.read_csv(folder / "stays.csv")
    claims = pd.DataFrame({"patient": stays["patient"], "paid": stays.index % 3 == 0})
    claims.to_csv(folder / "claims.csv", index=False)
    plain = json.loads(json.dumps(read_plain(folder / "register.yaml"), default=str))
    del plain["tables"][0]["count"]
    plain["tables"][1]["count"] = "stays"
    plain["tables"].append(
        {
            "name": "claims",
            "source": "claims.csv",
            "belongs_to": "patients",
            "max_events": 40,
            "columns": [{"name": "paid", "kind": "boolean"}],
        }
    )
    write_plain(plain, folder / "register.yaml")
    return folder


def test_several_tables_of_events_are_planned_fitted_kept_drawn_again_and_compared(several):
    register = several / "register.yaml"
    planned = json.loads(run("plan", "--schema", register, *BUDGET, "--workload", "all-2way", "--json"))
    assert set(planned["tables"]) == {"stays", "claims"}
    measured = {
        tuple(item["columns"]) for table in planned["tables"].values() for item in table["measurements"]
    }
    assert ("number_of_stays", "number_of_events") in measured
    assert "divided equally between 2 tables" in run("plan", "--schema", register, *BUDGET)
    assert "leave --flat" in run("plan", "--schema", register, *BUDGET, "--flat", code=2)
    told = run(
        "synth", register, *BUDGET, "--method", "mst", "--workload", "all-2way", "--seed", 1, "--rows", 300,
        "--out", f"{several}/out/", "--model", several / "models", "--json",
    )  # fmt: skip
    document = json.loads(told[told.index("{") :])
    patients, stays = joins(several / "out")
    claims = pd.read_csv(several / "out" / "claims.csv")
    assert claims["patient"].isin(patients["patient"]).all()
    assert document["tables"] == {"patients": len(patients), "stays": len(stays), "claims": len(claims)}
    assert 300 - 80 < len(stays) + len(claims) <= 300
    again = json.loads(
        run("sample", several / "models", "--out", f"{several}/again/", "--seed", 1, "--rows", 300, "--json")
    )
    assert again["rows"] == len(stays) + len(claims)
    for name in ("patients.csv", "stays.csv", "claims.csv", "datapackage.json"):
        assert (several / "again" / name).read_bytes() == (several / "out" / name).read_bytes()
    assert "slash" in run("sample", several / "models", "--out", several / "one.csv", code=6)
    words = ("evaluate", register, several / "out", "--sections", "marginals,entities")
    told = run(*words, "--out", several / "numbers.json", "--report", several / "page.html")
    assert "claims:" in told
    numbers = json.loads((several / "numbers.json").read_text(encoding="utf-8"))
    assert set(numbers["tables"]) == {"stays", "claims"}
    assert "number_of_stays" in (several / "page-claims.html").read_text(encoding="utf-8")
    assert (several / "page-stays.html").exists()
    assert set(json.loads(run(*words, "--json"))["tables"]) == {"stays", "claims"}
    assert "own eyes" in " ".join(run(*words[:3], "--epsilon", 1, "--unit", "add-remove", code=2).split())
    refused = run("synth", register, *BUDGET, "--out", f"{several}/more/", "--names", "a,b", code=2)
    assert "leave names out" in refused


def test_several_tables_of_events_are_released_from_one_specification(several):
    """Bound facts, a plan, a rehearsal on public tables, the release, and its check, all by commands."""
    register = several / "register.yaml"
    criteria = [
        {"name": "n", "table": "stays", "kind": "mean-events", "threshold": 2.5},
        {"name": "paid", "table": "claims", "kind": "event-rates", "column": "paid", "values": ["true"], "threshold": 0.4},
    ]  # fmt: skip
    write_plain(
        {
            "name": "several",
            "source": {},
            "schema": "register.yaml",
            "unit": {"relation": "add-remove", "id_column": "patient", "max_rows": 3},
            "synthesizers": [{"method": "mst"}],
            "acceptance": {"form": "pass-only", "epsilon": 2.0, "criteria": criteria},
            "selection": {"rule": "single"},
            "budget": {"total": {"epsilon": 44.0}, "model": {"epsilon": 40.0}},
        },
        several / "spec.yaml",
    )
    ledger = several / "a.ledger"
    run("ledger", "create", ledger, "--table-name", "register", "--unit", "add-remove", "--id-column", "patient", "--max-rows-per-person", "3", "--epsilon", "50")  # fmt: skip
    bound = [run("ledger", "facts", ledger, declared) for declared in (register, several / "spec.yaml")]
    assert bound[0] == bound[1], "schema and specification state the same facts"
    planned = json.loads(run("plan", several / "spec.yaml", "--rows", "400", "--json"))
    assert [item["name"] for item in planned["models"]] == ["stays: mst", "claims: mst"]
    run("rehearse", several / "spec.yaml", "--public", several, "--out", several / "r", code=4)
    public = several / "public"
    public.mkdir()
    for name in ("patients", "stays", "claims"):
        pd.read_csv(several / f"{name}.csv").to_csv(public / f"{name}.csv", index=False)
    asked = (
        "rehearse",
        several / "spec.yaml",
        "--trials",
        "1",
        "--jobs",
        "1",
        "--out",
        several / "r",
        "--json",
    )
    assert json.loads(run(*asked, "--public", public))["results"][0]["acceptance"] > 0.5
    run(*asked, "--simulate", "births", code=2)
    done = json.loads(
        run("release", several / "spec.yaml", "--ledger", ledger, "--out", several / "bundle", "--json")
    )
    assert set(done["tables"]) == {"patients", "stays", "claims"}
    assert "epsilon=42.02" in run("verify", several / "bundle")
    again = run("release", several / "spec.yaml", "--ledger", ledger, "--out", several / "bundle")
    assert "Nothing was done" in again
