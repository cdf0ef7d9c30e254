"""``understudy evaluate`` as people use it: plainly, under a budget, and where it must refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import understudy

from understudy.data.holdout import HoldOut
from understudy.privacy import Ledger

SCHEMA = """
name: staff
columns:
  - {name: grade, kind: ordinal, values: [a, b, c]}
  - {name: sex, kind: categorical, values: [f, m]}
  - {name: age, kind: integer, bins: {edges: [18, 30, 45, 60, 75]}}
"""


def frame(n: int, seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "grade": generator.choice(["a", "b", "c"], n),
            "sex": generator.choice(["f", "m"], n),
            "age": generator.integers(18, 75, n),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, seed in (("real", 0), ("made", 1), ("held", 2)):
        frame(200, seed).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "schema.hold-out").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def evaluate(folder: Path, *more: object) -> object:
    return understudy(
        "evaluate", folder / "real.csv", folder / "made.csv", "--schema", folder / "schema.yaml", *more
    )


def test_plain_numbers_come_with_the_warning_everywhere(folder: Path) -> None:
    result = evaluate(
        folder,
        "--hold-out-table",
        folder / "held.csv",
        "--out",
        folder / "e.json",
        "--report",
        folder / "e.html",
    )
    assert result.code == 0, result.err
    assert "without noise" in result.err
    document = json.loads((folder / "e.json").read_text())
    assert "without noise" in document["warning"]
    page = (folder / "e.html").read_text()
    assert "without noise" in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)  # nothing is fetched
    shown = json.loads(evaluate(folder, "--sections", "marginals", "--json").out)
    assert [section["title"] for section in shown["sections"]] == ["marginals"]


def test_it_is_not_written_beside_a_bundle(folder: Path) -> None:
    bundle = folder / "bundle"
    (bundle / "deep").mkdir(parents=True)
    (bundle / "certificate.json").write_text("{}")
    for place in (bundle / "e.json", bundle / "deep" / "e.json"):
        result = evaluate(folder, "--sections", "marginals", "--out", place)
        assert result.code != 0
        assert "bundle" in result.err
        assert not place.exists()
    allowed = evaluate(folder, "--sections", "marginals", "--out", bundle / "e.json", "--beside-bundle")
    assert allowed.code == 0, allowed.err


def test_under_a_budget_it_goes_through_the_ledger(folder: Path) -> None:
    words = ("--epsilon", 1, "--unit", "add-remove", "--ledger", folder / "t.ledger")
    result = evaluate(folder, *words, "--json", "--report", folder / "noisy.html")
    assert result.code == 0, result.err
    page = (folder / "noisy.html").read_text()
    assert "Every number here about the real table was measured with noise" in page
    assert "standard deviation of the noise" in page
    assert "Privacy spent" in page
    assert "epsilon=1" in page
    assert "without noise" not in page
    document = json.loads(result.out)
    assert any("total variation" in item["measure"] for item in document["measures"])
    assert "without noise" not in result.out
    with Ledger.open(folder / "t.ledger") as book:
        assert book.spent == pytest.approx(1, rel=1e-3)
    again = evaluate(folder, *words)
    assert again.code != 0


def test_a_hold_out_from_the_fit_to_the_page(folder: Path) -> None:
    """The file of the fit divides the table again: test rows are those that the fit did not read, and no row was written."""
    before = {path.name for path in folder.iterdir()}
    made = understudy(
        "synth", folder / "real.csv", "--schema", folder / "schema.yaml", "--method", "independent", "--epsilon", 5,
        "--unit", "add-remove", "--out", folder / "rows.csv", "--hold-out", 0.3, "--json",
    )  # fmt: skip
    assert made.code == 0, made.err
    kept = Path(json.loads(made.out)["hold_out_file"])
    assert {path.name for path in folder.iterdir()} - before == {
        "real.ledger",
        "real.hold-out",
        "rows.csv",
        "rows.understudy",
    }
    assert not re.search(r"\b[abc],[fm],", kept.read_text())
    division = HoldOut.read(kept)
    result = understudy(
        "evaluate", folder / "real.csv", folder / "rows.csv", "--schema", folder / "schema.yaml", "--hold-out-file", kept,
        "--target", "sex", "--sections", "learning", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    found = json.loads(result.out)
    aside = int(division.set_aside.chosen(200).sum())
    assert found["learning"]["fair"]
    assert found["learning"]["rows"]["test"] == found["compared"]["held_out_rows"] == aside
    assert found["rows"]["real"] == 200 - aside
    (folder / "real.csv").write_text((folder / "made.csv").read_text())
    again = evaluate(folder, "--hold-out-file", kept)
    assert again.code != 0
    assert "another table" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epsilon", 1), "--unit"),
        (("--epsilon", 1, "--unit", "add-remove", "--ledger", "l", "--exclude", "sex"), "--exclude"),
        (("--exclude", "sex"), "--target"),
        (("--target", "sex", "--exclude", "nothing"), "nothing"),
        (("--hold-out-file", "schema.hold-out"), "not a file that"),
        (("--hold-out-file", "schema.hold-out", "--hold-out-table", "held.csv"), "one of them"),
        (("--epsilon", 1, "--unit", "add-remove", "--ledger", "l", "--target", "age"), "--target"),
        (("--sections", "beauty"), "beauty"),
        (("--target", "nothing"), "nothing"),
    ],
)
def test_refusals(
    folder: Path, words: tuple[object, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = evaluate(folder, *words)
    assert result.code != 0
    assert said in result.err
    assert "Traceback" not in result.err
