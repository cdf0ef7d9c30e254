"""Whose word it is: the owner's facts, exact numbers, and the conditions that every document states, by the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import understudy

from understudy.mechanisms import Model
from understudy.privacy import Ledger

ROWS = 600
COLUMNS = """columns:
  - {name: sex, kind: categorical, values: [f, m]}
  - {name: age, kind: integer, minimum: 0, maximum: MOST}
"""
SPEC = """
name: NAME
source: {path: people.csv}
schema: schema.yaml
unit: UNIT
public: {row_count: COUNT}
cleaning: [RULE]
synthesizers: [{method: independent}]
acceptance:
  form: pass-only
  epsilon: 0.3
  criteria: [{name: all tables, kind: max-marginal-error, threshold: 0.9}]
selection: {rule: single}
budget: {total: {epsilon: 0.6}, model: {epsilon: 0.3}}
seed: 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"sex": generator.choice(["f", "m"], ROWS), "age": generator.integers(10, 70, ROWS)})
    table.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    write_schema(tmp_path)
    return tmp_path


def run(*words: object, code: int = 0) -> str:
    """Run a command that has to end with a code; return what it says, in one line."""
    done = understudy(*words)
    assert done.code == code, done.err
    return " ".join((done.out if code == 0 else done.err).split())


def write_schema(folder: Path, name: str = "schema.yaml", *, rows: int | None = None, most: int = 99) -> Path:
    head = "" if rows is None else f"row_count: {rows}\n"
    (folder / name).write_text(head + COLUMNS.replace("MOST", str(most)), encoding="utf-8")
    return folder / name


def write_spec(
    folder: Path, name: str, *, count: object = "declared", rule: str = "age >= 16", unit: str = "add-remove"
) -> Path:
    text = SPEC.replace("NAME", name).replace("COUNT", str(count)).replace("RULE", rule).replace("UNIT", unit)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / f"{name}.yaml"


def kept(folder: Path, rule: str) -> int:
    return len(pd.read_csv(folder / "people.csv").query(rule))


def ledger_of(folder: Path, *, unit: str = "add-remove", epsilon: float = 9) -> Path:
    file = folder / "people.ledger"
    run("ledger", "create", file, "--table-name", "people.csv", "--unit", unit, "--epsilon", epsilon)
    return file


def synth(folder: Path, schema: str, *more: object, unit: str = "add-remove", code: int = 0) -> str:
    return run(
        "synth", "people.csv", "--schema", schema, "--method", "independent", "--unit", unit, "--epsilon", 0.5,
        "--ledger", folder / "people.ledger", "--out", folder / "out.csv", "--quiet", *more, code=code,
    )  # fmt: skip


# ---------------------------------------------------------------------- finding 3 (a): published sentences


def test_the_odds_of_a_declared_number_of_rows_are_stated_under_its_condition(folder: Path) -> None:
    """README of 0.1.0: "at most 64.6 %", with the exact number of rows published and no condition."""
    run("release", write_spec(folder, "staff"), "--ledger", ledger_of(folder), "--out", "bundle", "--yes")
    among = f"among tables with {kept(folder, 'age >= 16')} rows after rule 'age >= 16'"
    readme = (folder / "bundle" / "README.md").read_text(encoding="utf-8")
    assert "64.6 %" not in readme  # the odds of one step, which tables with equally many rows are not apart
    assert "76.9 %" in readme  # of two
    assert f"In plain words, {among}" in readme
    for name in ("README.html", "report.html"):
        page = (
            (folder / "bundle" / name).read_text(encoding="utf-8").replace("&#x27;", "'").replace("&gt;", ">")
        )
        assert among in page
    certificate = json.loads((folder / "bundle" / "certificate.json").read_text(encoding="utf-8"))
    assert among in certificate["guarantee"]["condition"]
    assert among in certificate["guarantee"]["words"]
    assert certificate["guarantee"]["invariants"][0]["value"] == kept(folder, "age >= 16")
    assert {entry["kind"] for entry in certificate["ledger"]["entries"]} >= {"invariant", "charge"}
    entry = (folder / "bundle" / "documents" / "deployment.yaml").read_text(encoding="utf-8")
    assert among in entry.replace("''", "'")
    assert among in Model.load(folder / "bundle" / "model.understudy").provenance.guarantee()
    assert among in run("verify", folder / "bundle")


def test_synth_states_its_condition_in_text_and_in_the_model(folder: Path) -> None:
    write_schema(folder, rows=ROWS)
    told = synth(folder, "schema.yaml", "--model", folder / "m.understudy")
    assert f"among tables with {ROWS} rows" in told
    assert f"among tables with {ROWS} rows" in Model.load(folder / "m.understudy").provenance.guarantee()
    shown = run("ledger", "show", folder / "people.ledger")
    assert f"Condition: It holds among tables with {ROWS} rows" in shown


def test_synth_states_its_condition_in_json(folder: Path) -> None:
    write_schema(folder, rows=ROWS)
    told = json.loads(synth(folder, "schema.yaml", "--json"))
    assert f"among tables with {ROWS} rows" in told["guarantee"]
    assert told["condition"] in told["guarantee"]
    assert told["spent"]["condition"] == told["condition"]


def test_a_private_number_of_rows_puts_no_condition_on_the_promise(folder: Path) -> None:
    told = json.loads(synth(folder, "schema.yaml", "--json"))
    assert told["condition"] == ""
    with Ledger.open(folder / "people.ledger") as book:
        assert book.invariants() == ()


# ---------------------------------------------------------------------- finding 4: exact numbers


def test_a_second_exact_number_needs_the_owner(folder: Path) -> None:
    """0.1.0 publishes the exact size of any subset for nothing, and two of them subtract."""
    ledger = ledger_of(folder)
    run("release", write_spec(folder, "adults"), "--ledger", ledger, "--out", "one", "--yes")
    other = write_spec(folder, "others", rule="age >= 17")
    words = ("release", other, "--ledger", ledger, "--out", "two", "--yes")
    refused = run(*words, code=5)
    assert "What differs: cleaning rules" in refused
    assert "--accept-facts" in refused
    refused = run(*words, "--accept-facts", code=5)
    assert "--accept-invariant" in refused
    assert str(kept(folder, "age >= 17")) not in refused
    assert not (folder / "two").exists()
    with Ledger.open(ledger) as book:
        assert len(book.facts) == 1  # a consent that was not enough changes nothing
    run(*words, "--accept-facts", "--accept-invariant", "--by", "A. Owner")
    with Ledger.open(ledger) as book:
        assert [fact.accepted_by for fact in book.facts] == ["", "A. Owner"]
        assert [fact.accepted_by for fact in book.invariants()] == ["", "A. Owner"]
    readme = (folder / "two" / "README.md").read_text(encoding="utf-8")
    for rule in ("age >= 16", "age >= 17"):
        assert f"{kept(folder, rule)} rows after rule '{rule}'" in readme  # the guarantee names both


def test_a_number_of_rows_is_no_free_equality_test(folder: Path) -> None:
    """0.1.0 answers "is it N?" exactly, as often as one likes, and leaves no trace."""
    write_schema(folder, "wrong.yaml", rows=ROWS - 1)
    write_schema(folder, "right.yaml", rows=ROWS)
    refused = synth(folder, "wrong.yaml", code=4)
    assert f"does not have {ROWS - 1} rows" in refused
    with Ledger.open(folder / "people.ledger") as book:
        assert not any(entry.event is not None for entry in book.entries())
        assert [fact.value for fact in book.invariants()] == [ROWS - 1, ROWS - 1]  # declared, and wrong
    shown = run("ledger", "show", folder / "people.ledger")
    assert f"number of rows, declared and wrong = {ROWS - 1}" in shown
    assert f"number of rows = {ROWS - 1}\n" not in shown  # what is wrong is no fact
    assert f"It is not protected that {ROWS - 1} rows was declared" in shown
    refused = synth(folder, "right.yaml", code=5)
    assert f"holds that {ROWS - 1} rows is wrong; this would make another exact fact public" in refused
    assert "--accept-invariant" in refused
    told = synth(folder, "right.yaml", "--accept-invariant", "--by", "A. Owner")
    assert f"among tables with {ROWS} rows" in told
    assert f"Nor is it protected that {ROWS - 1} rows was declared and is wrong" in told


def test_an_opened_ledger_answers_no_question_about_the_number_of_rows(folder: Path) -> None:
    synth(folder, "schema.yaml")
    answers = []
    for guess in (ROWS, ROWS + 1):
        write_schema(folder, "guess.yaml", rows=guess)
        answers.append(synth(folder, "guess.yaml", code=5).replace(str(guess), "N"))
    assert "was opened without a public number of rows" in answers[0]
    assert answers[0] == answers[1]  # the right guess and the wrong one
    with Ledger.open(folder / "people.ledger") as book:
        assert book.invariants() == ()


def test_the_owner_is_told_by_schema_check(folder: Path) -> None:
    assert run("schema", "check", write_schema(folder, rows=ROWS), "people.csv")
    refused = run("schema", "check", write_schema(folder, rows=ROWS + 1), "people.csv", code=4)
    assert "not how many rows the table has" in refused


def test_a_release_with_a_declared_number_under_replace_one(folder: Path) -> None:
    spec = write_spec(folder, "staff", unit="replace-one", count=kept(folder, "age >= 16"))
    ledger = ledger_of(folder, unit="replace-one")
    told = json.loads(run("release", spec, "--ledger", ledger, "--out", "b", "--yes", "--json"))
    assert told["guarantee"]["steps"] == 1
    assert "rows after rule 'age >= 16': the number is public" in told["guarantee"]["condition"]
    assert "64.6 %" in (folder / "b" / "README.md").read_text(encoding="utf-8")  # one step, and said so


# ---------------------------------------------------------------------- whose word


def test_other_facts_need_the_owner_before_a_record_is_read(folder: Path) -> None:
    """A schema that does not fit is an answer about the records; 0.1.0 gives it to anybody, for nothing."""
    synth(folder, "schema.yaml")
    largest = int(pd.read_csv(folder / "people.csv")["age"].max())
    answers = []
    for most in (largest - 1, largest):  # one does not fit, the other does: without consent nobody can tell
        write_schema(folder, "guess.yaml", most=most)
        answers.append(synth(folder, "guess.yaml", code=5))
    assert answers[0] == answers[1]
    assert "What differs: columns" in answers[0]
    ledger = folder / "people.ledger"
    run("ledger", "total", ledger, "--epsilon", 2, "--by", "A. Owner", "--why", "more methods")
    synth(folder, "guess.yaml", "--accept-facts", "--by", "A. Owner")
    with Ledger.open(ledger) as book:
        assert [fact.accepted_by for fact in book.facts] == ["", "A. Owner"]
        assert book.facts[0].summary != book.facts[1].summary


def test_an_owner_binds_a_ledger_before_anybody_runs_anything(folder: Path) -> None:
    ledger = ledger_of(folder)
    run("ledger", "facts", ledger, "schema.yaml", "--by", "A. Owner")
    write_schema(folder, "other.yaml", most=50)
    assert "What differs: columns" in synth(folder, "other.yaml", code=5)
    synth(folder, "schema.yaml")  # the facts that the owner agreed to


def test_facts_and_choices_may_be_two_files(folder: Path) -> None:
    whole = write_spec(folder, "whole")
    lines = whole.read_text(encoding="utf-8").splitlines()
    facts = ("source:", "schema:", "unit:", "public:", "cleaning:")
    (folder / "owner").mkdir()
    owned = "\n".join(line for line in lines if line.startswith(facts)).replace("people.csv", "../people.csv")
    (folder / "owner" / "facts.yaml").write_text(
        owned.replace("schema.yaml", "../schema.yaml"), encoding="utf-8"
    )
    chosen = "\n".join(line for line in lines if not line.startswith(facts))
    (folder / "choices.yaml").write_text("facts: owner/facts.yaml\n" + chosen, encoding="utf-8")
    ledger = ledger_of(folder)
    run("ledger", "facts", ledger, folder / "owner" / "facts.yaml", "--by", "A. Owner")
    run("release", folder / "choices.yaml", "--ledger", ledger, "--out", "b", "--yes")
    assert json.loads((folder / "b" / "spec.json").read_text(encoding="utf-8"))["unit"] == "add-remove"


def test_another_method_is_a_choice_and_needs_nobody(folder: Path) -> None:
    ledger = ledger_of(folder)
    spec = write_spec(folder, "first")
    run("release", spec, "--ledger", ledger, "--out", "one", "--yes")
    text = (
        spec.read_text(encoding="utf-8").replace("name: first", "name: second").replace("seed: 1", "seed: 2")
    )
    text = text.replace("threshold: 0.9", "threshold: 0.8").replace("method: independent", "method: laplace")
    (folder / "second.yaml").write_text(text.replace("[age >= 16]", "['age>=16']"), encoding="utf-8")
    run("release", folder / "second.yaml", "--ledger", ledger, "--out", "two", "--yes")
    with Ledger.open(ledger) as book:
        assert len(book.facts) == len(book.invariants()) == 1
