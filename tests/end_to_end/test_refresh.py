"""``understudy refresh`` and ``understudy compare`` as commands: what they print, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import understudy

SPEC = """
name: year-1
source: {path: year-1.csv}
schema: {columns: [{name: a, kind: categorical, values: [x, y, z]}, {name: b, kind: boolean}]}
unit: replace-one
synthesizers: [{method: aim, options: {workload: all-2way}}]
acceptance:
  form: pass-only
  epsilon: 1
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.9}]
selection: {rule: single}
budget: {total: {epsilon: 5}, model: {epsilon: 4}}
"""


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for year in (1, 2):
        draw = np.random.default_rng(year)
        table = {"a": draw.choice(["x", "y", "z"], 400 + year), "b": draw.random(400 + year) < 0.3}
        pd.DataFrame(table).to_csv(f"year-{year}.csv", index=False)
    Path("year-1.yaml").write_text(SPEC)
    assert understudy("release", "year-1.yaml", "--yes").code == 0
    return tmp_path


def test_a_second_year_from_the_command_line(office: Path) -> None:
    planned = understudy(
        "refresh", "year-1-release", "--source", "year-2.csv", "--years", 3, "--trials", 1, "--json"
    )
    assert planned.code == 0, planned.err
    plain = json.loads(planned.out)
    assert plain["out"] == "year-2.yaml"
    assert [item["guarantee"]["epsilon"] for item in plain["series"]] == [10.0, 15.0]
    assert plain["rehearsal"]["results"]
    assert not Path("year-2.ledger").exists()  # nothing was read or spent
    assert Path("year-2.yaml").read_text().startswith("# Specification of a release that follows another one")
    again = understudy("refresh", "year-1-release", "--source", "year-2.csv")
    assert again.code == 6  # the file is there already
    assert understudy("release", "year-2.yaml", "--yes").code == 0
    assert understudy("verify", "year-2-release").code == 0
    certificate = json.loads(Path("year-2-release/certificate.json").read_text())
    assert certificate["series"]["composed"]["epsilon"] == 10.0

    seen = understudy("compare", "year-1-release", "year-2-release", "--most", 1, "--out", "changes.html")
    assert seen.code == 0, seen.err
    assert "differs by at least" in seen.out
    assert "<table" in Path("changes.html").read_text()
    found = json.loads(understudy("compare", "year-1-release", "year-2-release", "--json").out)
    assert {tuple(item["columns"]) for item in found["columns"]} == {("a",), ("b",)}
    tables = understudy("compare", "year-1.csv", "year-2.csv", "--schema", "year-1-release/schema.yaml")
    assert tables.code == 0, tables.err
    assert "draws from one population" in tables.out
    mixed = understudy("compare", "year-1-release", "year-2.csv")
    assert mixed.code == 0, mixed.err


def test_what_does_not_fit_is_refused(office: Path) -> None:
    pd.DataFrame({"a": ["x"], "other": [1]}).to_csv("other.csv", index=False)
    wrong = understudy("refresh", "year-1-release", "--source", "other.csv")
    assert wrong.code == 4
    assert "lacks the columns b" in wrong.err
    Path("other.yaml").write_text(SPEC.replace("[x, y, z]", "[x, y, z, w]"))
    wrong = understudy("refresh", "year-1-release", "--source", "year-2.csv", "--spec", "other.yaml")
    assert wrong.code == 4
    assert "column 'a': values was" in wrong.err
    wrong = understudy("refresh", "year-1-release", "--source", "year-2.csv", "--use", "everything")
    assert wrong.code == 2
    wrong = understudy("compare", "year-1.csv", "year-2.csv")
    assert wrong.code == 2
    assert "give its schema" in wrong.err
    data = Path("year-1-release/data.csv")
    data.write_text(data.read_text().replace("x", "y", 1))
    wrong = understudy("refresh", "year-1-release", "--source", "year-2.csv")
    assert wrong.code == 4
    assert "data.csv was changed" in wrong.err
