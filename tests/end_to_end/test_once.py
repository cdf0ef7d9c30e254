"""A release does its work once: one plan beside the check of the fit itself, three schemas, one model file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command import understudy

from understudy.mechanisms import Model, method
from understudy.schema import Schema

SPEC = """
name: once
source: {path: people.csv}
schema: schema.yaml
unit: replace-one
synthesizers: [{method: independent}]
acceptance:
  form: pass-only
  epsilon: 0.5
  criteria:
    - {name: cells, kind: max-marginal-error, threshold: 0.3}
    - {name: rare, kind: rare-records, min_count: 1}
SELECTION
seed: 1
"""
SINGLE = "selection: {rule: single}\nbudget: {total: {epsilon: 2.5}, model: {epsilon: 2.0}}"
LOOP = (
    "selection: {rule: until-accepted, gamma: 0.2, max_attempts: 9}\n"
    "budget: {total: {epsilon: 5}, model: {epsilon: 2.0}}"
)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts schemas of the table (made-up ones have other columns), plans for it, and models that are read."""
    found: Counter[str] = Counter()
    mechanism = method("independent").load()
    make, plan, load = Schema.__init__, mechanism.plan, Model.load

    def made(self: Schema, *args: Any, **words: Any) -> None:
        make(self, *args, **words)
        found["schemas"] += "smoker" in self.names

    def planned(self: Any, schema: Schema, **words: Any) -> Any:
        found["plans"] += "smoker" in schema.names
        return plan(self, schema, **words)

    def loaded(path: Any) -> Model:
        found["models"] += 1
        return load(path)

    monkeypatch.setattr(Schema, "__init__", made)
    monkeypatch.setattr(mechanism, "plan", planned)
    monkeypatch.setattr(Model, "load", staticmethod(loaded))
    return found


@pytest.mark.parametrize(("selection", "most"), [(SINGLE, 3), (LOOP, 5)], ids=["single", "loop"])
def test_one_release_plans_once_and_reads_its_model_once(
    counted: Counter[str], tmp_path: Path, selection: str, most: int
) -> None:
    (tmp_path / "schema.yaml").write_text(
        "columns: [{name: age, kind: integer, minimum: 0, maximum: 4}, {name: smoker, kind: boolean}]\n",
        encoding="utf-8",
    )
    rows = "".join(f"{number % 5},{'true' if number % 3 else 'false'}\n" for number in range(3000))
    (tmp_path / "people.csv").write_text("age,smoker\n" + rows, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(SPEC.replace("SELECTION", selection), encoding="utf-8")
    told = understudy("release", tmp_path / "spec.yaml", "--out", tmp_path / "out")
    assert told.code == 0, told.err
    if selection == SINGLE:
        assert counted["plans"] == 2  # that of the release, and the check of the fit itself
    assert counted["models"] == 1
    assert counted["schemas"] <= most
