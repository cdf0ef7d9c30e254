"""``understudy plan`` with a number of rows: what to expect, in words, as JSON and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from understudy import datasets
from understudy.cli.main import app, prepare
from understudy.data import draft_schema
from understudy.errors import DomainNotPublic, UsageError

FIT = ("--method", "mst", "--unit", "add-remove")


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.yaml"
    datasets.load("toy", 10, seed=1)[1].write(path)
    return path


def run(*words: object) -> None:
    prepare()
    app([str(word) for word in words], standalone_mode=False)


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    run("plan", *words, "--json")
    return json.loads(capsys.readouterr().out)


def test_rows_bring_a_rehearsal(schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "errors.svg"
    run("plan", "-s", schema, *FIT, "--epsilon", 1, "--rows-about", 2_000, "--chart", picture)
    out = capsys.readouterr().out
    assert "Rehearsed on 3 made-up tables of this schema with 2,000 rows" in out
    assert "  triples  ####" in out
    assert "can be relied on" in out
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")
    text = " ".join(root.itertext())
    assert all(kind in text for kind in ("columns", "pairs", "triples", "epsilon"))


def test_json_has_the_advice_beside_the_plan(schema: Path, capsys: pytest.CaptureFixture[str]) -> None:
    budget = ("--epsilon", 1, "--delta", 1e-6)
    plain = printed(capsys, "-s", schema, *FIT, *budget, "--rows", 2_000)
    assert {"measurements", "model_cells", "notes", "advice"} <= set(plain)
    assert 0 < plain["advice"]["errors"]["columns"]["expected"] < 0.2
    assert plain["advice"]["want"] is None
    assert set(plain["advice"]["others"]) == {"less", "more"}
    without = printed(capsys, "-s", schema, *FIT, *budget, "--rows", 2_000, "--no-rehearsal")
    assert set(plain) - set(without) == {"advice"}
    assert "advice" not in printed(capsys, "-s", schema, *FIT, *budget)


def test_a_wish_needs_no_budget(schema: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("-s", schema, *FIT, "--rows-about", 5_000, "--want", "columns within 2 %", "--delta", 1e-6)
    plain = printed(capsys, *asked)
    found = plain["advice"]["want"]
    assert 0.01 < found["epsilon"] < 10
    assert found["delta"] == 1e-6
    assert plain["advice"]["errors"] is None
    run("plan", *asked)
    assert "Columns within 2 %: an epsilon of about" in capsys.readouterr().out


def test_a_draft_is_planned_without_a_rehearsal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "draft.yaml"
    draft_schema(pd.DataFrame({"sex": ["f", "m"] * 20})).write(path)
    fit = ("-s", path, *FIT, "--epsilon", 1, "--rows-about", 100)
    assert "advice" not in printed(capsys, *fit)
    with pytest.raises(DomainNotPublic):
        run("plan", *fit, "--want", "columns within 2 %")
    with pytest.raises(DomainNotPublic):
        run("plan", *fit, "--chart", tmp_path / "p.svg")


def test_a_rehearsal_that_cannot_be_held_leaves_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(
        "columns: [{name: a, kind: boolean}, {name: b, kind: boolean}, {name: c, kind: boolean}]\n"
        'constraints: ["a or b", "not a", "not b or c", "not c or a"]\n',
        encoding="utf-8",
    )
    plain = printed(capsys, "-s", path, *FIT, "--epsilon", 1, "--rows", 100)
    assert any("was not rehearsed" in note for note in plain["notes"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epsilon", 1, "--want", "pairs within 2 %"), "need the number of rows"),
        (("--epsilon", 1, "--chart", "p.svg"), "need the number of rows"),
        (("--rows", 9, "--want", "pears within 2 %"), "The wish 'pears within 2 %' is not understood"),
        (("--rows", 9, "--want", "pairs within 2 %", "--no-rehearsal"), "need the rehearsal"),
        (("--rows", 9, "--want", "pairs within 2 %", "--rho", 1), "one kind of budget|exactly one|leave"),
        (("--rows", 9), "budget"),
    ],
)
def test_what_does_not_go_together_is_refused(
    schema: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        run("plan", "-s", schema, *FIT, *words)


def test_a_release_has_no_wish(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="understudy rehearse tries a release"):
        run("plan", tmp_path / "spec.yaml", "--want", "pairs within 2 %")


def test_a_column_with_levels_is_named_for_each_time_it_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.yaml"
    codes = ", ".join(f"{letter}{number}{digit}" for letter in "IJ" for number in range(10, 20) for digit in range(5))  # fmt: skip
    path.write_text(
        f"columns: [{{name: diag, kind: categorical, values: [{codes}], levels: {{prefix: [1, 3]}}}}, {{name: old, kind: boolean}}]"
    )
    run("plan", "-s", path, "--method", "independent", "--unit", "add-remove", "--epsilon", 1)
    out = capsys.readouterr().out
    assert "diag (values, to choose groups)" in out
    assert "diag (groups)" in out
    assert "old (" not in out


def test_a_guessed_number_of_rows_does_not_choose_the_method(
    schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = ("-s", schema, "--unit", "add-remove", "--epsilon", 1, "--no-rehearsal")
    with_rows, without = printed(capsys, *budget, "--rows-about", 2_000), printed(capsys, *budget)
    assert with_rows["method"] == without["method"]
    assert any("2,000 rows of --rows-about are for the expected errors" in note for note in with_rows["notes"])  # fmt: skip
    assert not any("--rows-about" in note for note in without["notes"])


def test_quiet_says_nothing_about_the_choice(
    schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    datasets.load("toy", 200, seed=1)[0].to_csv(table, index=False)
    fit = ("synth", table, "-s", schema, "--unit", "add-remove", "--epsilon", 1, "--ledger", tmp_path / "l.ledger")  # fmt: skip
    run(*fit, "--out", tmp_path / "a.csv", "--quiet")
    caught = capsys.readouterr()
    assert "synthetic rows" in caught.out
    assert "Chosen by auto" not in caught.out + caught.err
