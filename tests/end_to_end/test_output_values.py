"""The spelling of a table from its CSV file to synthetic ones: two decimals, Yes and No, question marks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import understudy

COLUMNS = """
    - name: price
      kind: real
      unit: EUR
      bins: ["[0, 0]", "(0, 50)", "[50, 100)", "[100, 200)", "[200, 1000]"]
      decimals: 2
      decode_by: smooth
      missing: true
      missing_text: "?"
    - {name: again, kind: boolean, spelling: ["No", "Yes"]}
    - {name: seen, kind: date, bins: [2014-01-01, 2014-04-01, 2015-01-01], decode_by: smooth}
    - {name: agent, kind: categorical, values: ["007", "9"], missing: true, missing_text: "?"}
"""
SPEC = f"""
name: stays
source: {{path: stays.csv}}
schema:
  columns:{COLUMNS}
unit: replace-one
public: {{row_count: declared, expected_rows: 900}}
synthesizers: [{{method: gaussian, options: {{workload: all-2way}}}}]
acceptance:
  form: pass-only
  epsilon: 5
  criteria: [{{name: cells, kind: max-marginal-error, threshold: 0.9}}]
selection: {{rule: single}}
budget: {{total: {{epsilon: 9}}, model: {{epsilon: 4}}}}
"""
PATTERNS = {
    "price": r"\?|\d{1,4}\.\d\d",
    "again": "Yes|No",
    "seen": r"2014-\d\d-\d\d|2015-01-01",
    "agent": r"007|9|\?",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(0)
    rows = 1_000
    price = np.round(np.minimum(generator.lognormal(3.9, 0.7, rows), 1000), 2).astype(object)
    price[generator.random(rows) < 0.1] = "?"
    price[generator.random(rows) < 0.1] = 0
    days = pd.Timestamp("2014-01-01") + pd.to_timedelta(generator.integers(0, 365, rows), unit="D")
    pd.DataFrame(
        {
            "price": price,
            "again": generator.choice(["No", "Yes"], rows),
            "seen": days.strftime("%Y-%m-%d"),
            "agent": generator.choice(["007", "9", "?"], rows),
        }
    ).to_csv(tmp_path / "stays.csv", index=False)
    (tmp_path / "schema.yaml").write_text(f"columns:{COLUMNS}", encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(SPEC, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(path: Path, rows: int) -> None:
    text = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert len(text) == rows
    for column, pattern in PATTERNS.items():
        assert text[column].str.fullmatch(pattern).all(), column
    assert (text["price"] == "?").any()
    assert (text["price"] == "0.00").any()
    assert text["price"].nunique() > 50
    assert text["seen"].nunique() > 50


def test_a_synthetic_table_is_spelled_like_the_real_one(folder: Path) -> None:
    made = understudy(
        "synth", "stays.csv", "--schema", "schema.yaml", "--unit", "add-remove", "--epsilon", "5", "--method", "independent",
        "--rows", "500", "--seed", "1", "--out", "made.csv", "--model", "m.understudy",
    )  # fmt: skip
    assert made.code == 0, made.err
    check(folder / "made.csv", 500)
    again = understudy("sample", "m.understudy", "--rows", "500", "--seed", "1", "--out", "again.csv")
    assert again.code == 0, again.err
    assert (folder / "again.csv").read_bytes() == (folder / "made.csv").read_bytes()
    parts = understudy("sample", "m.understudy", "--rows", "500", "--seed", "1", "--out", "parts.csv/")
    assert parts.code == 0, parts.err
    check(next(iter((folder / "parts.csv").glob("part-*"))), 500)


def test_a_release_is_spelled_like_the_table_and_says_so(folder: Path) -> None:
    released = understudy("release", "spec.yaml", "--out", "bundle")
    assert released.code == 0, released.err
    assert "Accepted." in released.out
    check(folder / "bundle" / "data.csv", 1_000)
    assert understudy("verify", "bundle").code == 0
    resource = json.loads((folder / "bundle" / "datapackage.json").read_text())["resources"][0]
    assert resource["schema"]["missingValues"] == ["", "?"]
    fields = {field["name"]: field for field in resource["schema"]["fields"]}
    assert (fields["again"]["type"], fields["again"]["trueValues"]) == ("boolean", ["Yes"])
    assert fields["price"]["type"] == "number"
    words = (folder / "bundle" / "dictionary.md").read_text()
    assert "Digits after the point: at most 2" in words
    assert "written as ?" in words


def test_values_that_are_not_resolved_are_named(folder: Path) -> None:
    made = understudy(
        "synth", "stays.csv", "--schema", "schema.yaml", "--unit", "add-remove", "--epsilon", "0.01", "--method",
        "independent", "--seed", "1", "--out", "made.csv",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert "At this budget they cannot be told from values with no rows at all" in made.out + made.err
