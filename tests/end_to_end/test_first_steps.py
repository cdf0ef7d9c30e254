"""What newcomers do first, and where they stumbled: each test is one such place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import Result, understudy

from understudy.schema import Schema

BUDGET = ("--epsilon", 4, "--delta", "1e-6", "--unit", "add-remove")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    rows = 3_000
    frame = pd.DataFrame(
        {
            "guest_id": rng.integers(100, 2_000, rows),
            "ward": rng.choice(["day", "night", "icu"], rows),
            "age": rng.integers(18, 90, rows),
        }
    )
    frame.to_csv(tmp_path / "stays.csv", index=False)
    return tmp_path / "stays.csv"


def synth(table: Path, *words: object, budget: tuple[object, ...] = BUDGET) -> Result:
    out = table.parent / "synthetic.csv"
    return understudy("synth", table, "--method", "independent", *budget, "--out", out, "--quiet", *words)


def test_what_discovery_paid_for_is_kept_and_the_next_commands_work(table: Path) -> None:
    made = synth(table, "--discover", 0.2)
    assert made.code == 0, made.err
    out, schema, model = (
        table.parent / name for name in ("synthetic.csv", "synthetic.schema.yaml", "synthetic.understudy")
    )
    assert f"Wrote the schema that was measured to {schema}" in made.out
    assert f"Wrote the model to {model}" in made.out
    assert set(Schema.read(schema).names) == set(pd.read_csv(out, nrows=0).columns)
    found = understudy("evaluate", table, out, "--schema", schema, "--sections", "marginals")
    assert found.code == 0, found.err
    more = understudy("sample", model, "--rows", 10, "--out", table.parent / "more.csv")
    assert more.code == 0, more.err


def test_a_model_that_was_paid_for_is_never_replaced_by_default(table: Path) -> None:
    schema = table.parent / "schema.yaml"
    schema.write_text(
        "columns:\n  - {name: ward, kind: categorical, values: [day, night, icu]}\n", encoding="utf-8"
    )
    asked = ("--schema", schema, "--another-ledger", "--ledger")
    pure = ("--epsilon", 1, "--unit", "add-remove")
    assert synth(table, *asked, table.parent / "a.ledger", budget=pure).code == 0
    first = (table.parent / "synthetic.understudy").read_bytes()
    assert synth(table, *asked, table.parent / "b.ledger", budget=pure).code == 0
    assert (table.parent / "synthetic.understudy").read_bytes() == first
    assert (table.parent / "synthetic-2.understudy").exists()
    assert synth(table, *asked, table.parent / "c.ledger", "--no-model", budget=pure).code == 0
    assert not (table.parent / "synthetic-3.understudy").exists()
    both = synth(table, *asked, table.parent / "d.ledger", "--no-model", "--model", "m", budget=pure)
    assert both.code == 2


def test_a_budget_without_a_delta_is_refused_before_texts_are_lost(table: Path) -> None:
    pure = ("--epsilon", 4, "--unit", "add-remove")
    refused = synth(table, "--discover", 0.2, budget=pure)
    assert refused.code == 2
    assert "--numbers-only" in refused.err
    assert "'ward'" in refused.err
    assert not (table.parent / "stays.ledger").exists()
    agreed = synth(table, "--discover", 0.2, "--numbers-only", budget=pure)
    assert agreed.code == 0, agreed.err
    assert "ward" not in pd.read_csv(table.parent / "synthetic.csv", nrows=0).columns


def test_a_name_of_a_person_is_asked_about_before_anything_is_charged(table: Path) -> None:
    words = ("discover", table, *BUDGET, "--out", table.parent / "s.yaml", "--plan")
    assert "--id-column guest_id --max-rows-per-person K" in understudy(*words).out
    assert not (table.parent / "stays.ledger").exists()
    told = understudy(*words, "--id-column", "guest_id", "--max-rows-per-person", 3).out
    assert "Does somebody" not in told


def test_a_person_at_a_terminal_is_asked_before_a_schema_is_learnt(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import typer

    asked = []

    def decline(question: str, **how: object) -> None:
        asked.append(question)
        raise typer.Abort

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", decline)
    stopped = synth(table, "--discover", 0.2)
    assert asked == ["Go on?"]
    assert stopped.code != 0
    assert not (table.parent / "stays.ledger").exists()
    assert synth(table, "--discover", 0.2, "--yes").code == 0


def test_the_plan_of_discovery_is_plain_and_its_numbers_are_asked_for(table: Path) -> None:
    words = ("--discover", 0.2, "--another-ledger", "--ledger")
    plain = synth(table, *words, table.parent / "a.ledger")
    assert "A text needs about" in plain.err
    assert "mu^2" not in plain.err
    assert "scale" not in plain.err
    assert "noise of scale" in synth(table, *words, table.parent / "b.ledger", "--verbose").err


def test_a_second_fit_is_refused_in_the_words_of_the_budget(table: Path) -> None:
    schema = table.parent / "schema.yaml"
    schema.write_text(
        "columns:\n  - {name: ward, kind: categorical, values: [day, night, icu]}\n", encoding="utf-8"
    )
    one = ("--epsilon", 1, "--delta", "1e-6", "--unit", "add-remove")
    assert synth(table, "--schema", schema, budget=one).code == 0
    refused = synth(table, "--schema", schema, budget=one)
    assert refused.code == 3
    assert refused.err.startswith("error: Epsilon 1 of 1 (delta 1e-06) is used")
    command = (
        f"understudy ledger total {table.parent / 'stays.ledger'} --epsilon E --delta D --by NAME --why WORDS"
    )
    assert command in refused.err
    assert "Give a delta too" not in refused.err


def test_a_ledger_shows_what_was_measured_in_one_line(table: Path) -> None:
    assert synth(table, "--discover", 0.2).code == 0
    shown = understudy("ledger", "show", table.parent / "stays.ledger").out
    assert shown.count("measured column") == 1
    assert "measured columns" in shown
    whole = understudy("ledger", "show", table.parent / "stays.ledger", "--verbose").out
    assert whole.count("measured column") > 1


def test_a_missing_or_unknown_unit_is_explained(table: Path) -> None:
    missing = understudy("synth", table, "--discover", 0.2, "--epsilon", 1, "--out", "x.csv")
    assert missing.code == 2
    assert "One row per person: --unit add-remove" in missing.err
    unknown = synth(table, "--discover", 0.2, "--unit", "person")
    assert unknown.code == 2
    assert "One row per person: add-remove" in unknown.err
    assert "--id-column" in unknown.err


def test_plan_is_named_where_synth_has_none(table: Path) -> None:
    refused = synth(table, "--discover", 0.2, "--plan")
    assert refused.code == 2
    assert "understudy discover TABLE --plan" in refused.err


def test_a_draft_that_was_not_declared_is_refused_in_few_lines(tmp_path: Path) -> None:
    frame = pd.DataFrame({f"c{k}": ["a", "b"] * 20 for k in range(12)})
    frame.to_csv(tmp_path / "wide.csv", index=False)
    drafted = understudy("schema", "draft", tmp_path / "wide.csv", "--out", tmp_path / "draft.yaml")
    assert drafted.code == 0
    refused = synth(tmp_path / "wide.csv", "--schema", tmp_path / "draft.yaml")
    lines = refused.err.strip().splitlines()
    assert len(lines) == 7
    assert lines[-3].strip() == "- and 9 more"
    assert "understudy schema declare" in lines[-2]


def test_values_that_hardly_anybody_has_are_declared_by_consent_alone(tmp_path: Path) -> None:
    table, draft, out = tmp_path / "t.csv", tmp_path / "draft.yaml", tmp_path / "schema.yaml"
    pd.DataFrame({"diagnosis": ["flu"] * 90 + ["Ebola"], "sex": ["m"] * 50 + ["f"] * 41}).to_csv(
        table, index=False
    )
    assert understudy("schema", "draft", table, "--out", draft).code == 0
    refused = understudy("schema", "declare", draft, "--out", out)
    assert refused.code == 2
    assert "'diagnosis' (1)" in refused.err
    assert "--rare-are-public" in refused.err
    assert not out.exists()
    assert understudy("schema", "declare", draft, "--out", out, "--rare-are-public").code == 0
    assert "Rare" not in out.read_text(encoding="utf-8")
    at_once = ("schema", "draft", table, "--out", tmp_path / "s.yaml", "--declare-public")
    assert understudy(*at_once).code == 2
    assert understudy(*at_once, "--rare-are-public").code == 0
