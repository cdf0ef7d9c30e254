"""An output never replaces what a command reads, nor another output: the table may be the only copy."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from understudy.cli.main import app, prepare
from understudy.data.output import require_apart
from understudy.errors import OutputError
from understudy.privacy import Ledger, PureDP, Unit

SCHEMA = "name: staff\ncolumns: [{name: sex, kind: categorical, values: [f, m]}]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"sex": ["f", "m"] * 30})
    frame.to_csv("staff.csv", index=False)
    frame.to_csv("rows.csv", index=False)
    Path("parts").mkdir()
    frame.to_parquet("parts/one.parquet")
    Path("schema.yaml").write_text(SCHEMA, encoding="utf-8")
    Path("mbi.json").write_text('{"sex": 2}', encoding="utf-8")
    Path("link.csv").symlink_to("staff.csv")
    Path("hard.csv").hardlink_to("staff.csv")
    return tmp_path


FIT = ("--schema", "schema.yaml", "--method", "independent", "--epsilon", "1", "--unit", "add-remove", "-q")
SYNTH = ("synth", "staff.csv", *FIT)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SYNTH, "--out", "staff.csv"), "would replace the table"),
        ((*SYNTH, "--out", "./staff.csv"), "would replace the table"),
        ((*SYNTH, "--out", "link.csv"), "would replace the table"),
        ((*SYNTH, "--out", "hard.csv"), "would replace the table"),
        ((*SYNTH, "--out", "o.csv", "--model", "staff.csv"), "would replace the table"),
        ((*SYNTH, "--out", "o.csv", "--model", "schema.yaml"), "would replace the schema"),
        ((*SYNTH, "--out", "o.csv", "--model", "o.csv"), "would be one file"),
        ((*SYNTH, "--out", "o.csv", "--ledger", "o.csv"), "would be one file"),
        ((*SYNTH, "--out", "o.csv", "--sets", "2", "--how", "independent", "--ledger", "o-2.csv"), "would be one file"),
        ((*SYNTH, "--out", "o.csv", "--sets", "2", "--how", "independent", "--model", "o.csv"), "would be one file"),
        (("synth", "parts", *FIT, "--out", "parts/new.parquet"), "would become part of the table"),
        (("synth", "parts", *FIT, "--out", "parts/new.parquet/"), "would become part of the table"),
        (("evaluate", "staff.csv", "rows.csv", "-s", "schema.yaml", "--out", "staff.csv"), "the real table"),
        (("evaluate", "staff.csv", "rows.csv", "-s", "schema.yaml", "--report", "rows.csv"), "synthetic table"),
        (("schema", "draft", "staff.csv", "--out", "staff.csv"), "would replace the table"),
        (("schema", "import", "mbi.json", "--out", "mbi.json"), "would replace the domain file"),
    ],
)  # fmt: skip
def test_what_is_read_is_not_replaced(folder: Path, words: tuple[str, ...], message: str) -> None:
    prepare()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(OutputError, match=message):
        app(list(words), standalone_mode=False)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "words",
    [
        ("schema", "draft", "staff.csv", "--out", "other.ledger"),
        ("evaluate", "staff.csv", "rows.csv", "-s", "schema.yaml", "--out", "other.ledger"),
        (*SYNTH, "--out", "o.csv", "--model", "other.ledger"),
    ],
)
def test_no_output_replaces_a_ledger(folder: Path, words: tuple[str, ...]) -> None:
    prepare()
    Ledger.create(folder / "other.ledger", budget=PureDP(1.0), unit=Unit.add_remove(), table="other").close()
    before = (folder / "other.ledger").read_bytes()
    with pytest.raises(OutputError, match="would replace a database or the ledger"):
        app(list(words), standalone_mode=False)
    assert (folder / "other.ledger").read_bytes() == before


def test_files_that_only_look_alike_are_apart(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "a.csv").touch()
    require_apart(
        {"output": tmp_path / "parts" / "a.csv", "page": None},
        {"table": tmp_path / "a.csv", "folder": tmp_path / "parts", "none": None},
    )
    require_apart({"output": tmp_path / "parts-2" / "a.parquet"}, {"folder": tmp_path / "parts"})
