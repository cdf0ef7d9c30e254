"""Hundreds of codes from the command line: one fit, a release with criteria, and the files that come of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import understudy

from understudy.mechanisms import Model
from understudy.schema import Schema

VALUES = [f"{letter}{number:02d}" for letter in "ABCDE" for number in range(40)]
COLUMNS = """
    - {name: code, kind: categorical, values: {list: codes}, levels: {prefix: [1, 2], most: 20}, missing: true}
    - {name: before, kind: categorical, values: {list: codes}, levels: {prefix: [1], at: 1}}
    - {name: sex, kind: categorical, values: [f, m]}
    - {name: age, kind: integer, bins: ["<30", 30-59, "59<"], decode_by: label}
"""
SCHEMA = f"lists:\n  codes: codes.txt\ncolumns:{COLUMNS}"
SPEC = f"""
name: stays
source: {{path: stays.csv}}
schema:
  lists: {{codes: codes.txt}}
  columns:{COLUMNS}
unit: replace-one
public: {{row_count: declared, expected_rows: 3000}}
synthesizers: [{{method: mst}}]
acceptance:
  form: pass-only
  epsilon: 5
  criteria:
    - {{name: cells, kind: max-marginal-error, threshold: 0.5}}
selection: {{rule: single}}
budget: {{total: {{epsilon: 9, delta: 1.0e-6}}, model: {{epsilon: 4, delta: 1.0e-6}}}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(1)
    share = generator.exponential(size=200) ** 2
    frame = pd.DataFrame(
        {
            "code": generator.choice([*VALUES, ""], 3_000, p=np.append(share / share.sum() * 0.95, 0.05)),
            "before": generator.choice(VALUES, 3_000),
            "sex": generator.choice(["f", "m"], 3_000),
            "age": generator.integers(0, 100, 3_000),
        }
    )
    frame.to_csv(tmp_path / "stays.csv", index=False)
    (tmp_path / "codes.txt").write_text("\n".join(VALUES), encoding="utf-8")
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(SPEC, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_fit_publishes_values_and_its_plan_names_the_look(folder: Path) -> None:
    given = [
        "--schema",
        "schema.yaml",
        "--unit",
        "add-remove",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--method",
        "mst",
    ]
    told = understudy("plan", *given)
    assert told.code == 0, told.err
    assert "First the values of code are measured, for 10% of the budget" in " ".join(told.out.split())
    made = understudy("synth", "stays.csv", *given, "--out", "rows.csv", "--model", "m.understudy")
    assert made.code == 0, made.err
    rows = pd.read_csv(folder / "rows.csv", dtype=str)
    assert set(rows["code"].dropna()) <= set(VALUES)
    assert set(rows["before"]) <= set(VALUES)
    assert len(set(rows["before"])) > 100  # drawn evenly within five groups
    model = Model.load(folder / "m.understudy")
    assert model.schema.column("code").size <= 21
    assert model.schema.column("before").size == 5
    assert understudy("sample", "m.understudy", "--rows", "50", "--out", "more.csv").code == 0
    assert set(pd.read_csv(folder / "more.csv", dtype=str)["code"].dropna()) <= set(VALUES)
    told = understudy("evaluate", "stays.csv", "rows.csv", "--schema", "schema.yaml", "--json")
    assert told.code == 0, told.err
    assert json.loads(told.out)


def test_a_release_is_judged_and_published_by_values(folder: Path) -> None:
    released = understudy("release", "spec.yaml", "--out", "bundle")
    assert released.code == 0, released.err + released.out
    bundle = folder / "bundle"
    rows = pd.read_csv(bundle / "data.csv", dtype=str)
    assert set(rows["code"].dropna()) <= set(VALUES)
    assert set(rows["before"]) <= set(VALUES)
    schema = Schema.read(bundle / "schema.yaml")
    assert schema.column("code").size == 201
    fields = json.loads((bundle / "datapackage.json").read_text(encoding="utf-8"))["resources"][0]["schema"][
        "fields"
    ]
    assert set(VALUES) <= set(fields[0]["constraints"]["enum"])
    assert set(VALUES) <= set(fields[1]["constraints"]["enum"])
    assert understudy("verify", "bundle").code == 0
    assert (bundle / "report.html").exists()
