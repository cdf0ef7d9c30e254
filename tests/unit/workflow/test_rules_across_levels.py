"""Rules that tie values of entities to values of their events hold in every row: no visit after death."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.errors import BundleError, ConstraintError, UsageError
from understudy.mechanisms.events import drawing
from understudy.mechanisms.model import Model
from understudy.privacy import Unit
from understudy.release.bundle.bundle import manifest_text
from understudy.release.bundle.verify import verify_bundle
from understudy.schema import Schema
from understudy.schema.files.yaml import write_plain
from understudy.workflow import publish, synthesize

DATES = "minimum: 2019-01-01, maximum: 2020-12-31, resolution: quarter, decode_by: uniform"
LINKED = f"""
name: register
tables:
  - name: patients
    key: patient
    columns:
      - {{name: sex, kind: categorical, values: [female, male]}}
      - {{name: died, kind: date, {DATES}, missing: true}}
  - name: visits
    belongs_to: patients
    order: visited
    max_events: 8
    columns:
      - {{name: visited, kind: date, {DATES}}}
      - {{name: ward, kind: categorical, values: [day, general]}}
rules: ["visited < died"]
"""
CLAIMS = f"""
  - name: claims
    belongs_to: patients
    order: claimed
    max_events: 5
    columns: [{{name: claimed, kind: date, {DATES}}}, {{name: paid, kind: boolean}}]
    rules: ["claimed <= died"]
"""
SEVERAL = LINKED.replace('rules: ["visited < died"]\n', '    rules: ["visited < died"]') + CLAIMS
UNIT = Unit.add_remove_person("patient", max_rows=8)


def register(patients: int = 1_500, seed: int = 1) -> dict[str, pd.DataFrame]:
    """Patients of whom two fifths die, most of them in the quarter of their last visit: the bins alone say little about the order of days."""
    rng = np.random.default_rng(seed)
    first = np.datetime64("2019-01-01")
    died = np.where(rng.random(patients) < 0.4, rng.integers(20, 731, patients), -1)

    def events(most: int, name: str) -> pd.DataFrame:
        number = np.minimum(rng.geometric(0.5, patients) - 1, most)
        who = np.repeat(np.arange(patients), number)
        end = np.where(died >= 0, died, 731)[who]
        start = np.where(died[who] >= 0, np.maximum(end - 90, 0), 0)
        day = start + np.floor(rng.random(len(who)) * (end - start)).astype(int)
        return pd.DataFrame({"patient": who, name: first + day.astype("timedelta64[D]")})

    people = pd.DataFrame(
        {
            "patient": np.arange(patients),
            "sex": rng.choice(["female", "male"], patients),
            "died": pd.Series(first + np.maximum(died, 0).astype("timedelta64[D]")).where(died >= 0),
        }
    )
    visits, claims = events(8, "visited"), events(5, "claimed")
    return {
        "patients": people,
        "visits": visits.assign(ward=rng.choice(["day", "general"], len(visits))),
        "claims": claims.assign(paid=rng.random(len(claims)) < 0.8),
    }


def fitted(tables: Any, schema: Any) -> Any:
    return synthesize(
        tables, schema=schema, unit=UNIT, method="mst", epsilon=20.0, delta=1e-6, ledger="memory", seed=1
    )


def wrong(tables: dict[str, pd.DataFrame], name: str, date: str, *, strict: bool) -> tuple[int, int]:
    """Return how many events of dead patients come after their death, and how many such patients have events in the quarter of it."""
    both = tables[name].merge(tables["patients"], on="patient")
    died, day = pd.to_datetime(both["died"]), pd.to_datetime(both[date])
    late = (day >= died) if strict else (day > died)
    close = died.dt.to_period("Q") == day.dt.to_period("Q")
    return int(late.sum()), int(close.sum())


@pytest.fixture(scope="module")
def made() -> Any:
    tables = register()
    return fitted({name: tables[name] for name in ("patients", "visits")}, Schema.parse(LINKED))


def test_nobody_is_visited_after_death(made, tmp_path):
    late, close = wrong(made.tables, "visits", "visited", strict=True)
    assert late == 0
    assert close > 200, "quarters alone would have let many through"
    made.model.save(tmp_path / "m.understudy")
    again = Model.load(tmp_path / "m.understudy").sample_tables(seed=5)
    assert wrong(again, "visits", "visited", strict=True)[0] == 0
    for visits in (made.tables["visits"], again["visits"]):
        days = pd.to_datetime(visits["visited"])
        assert (days.diff()[visits["patient"].diff() == 0].dt.days >= 0).all()


def test_what_the_rule_is_not_about_stays(made):
    real = register()
    dead = made.tables["patients"]["died"].notna().mean()
    assert dead == pytest.approx(real["patients"]["died"].notna().mean(), abs=0.03)
    number = len(made.tables["visits"]) / len(made.tables["patients"])
    assert number == pytest.approx(len(real["visits"]) / len(real["patients"]), abs=0.06)
    close = wrong(made.tables, "visits", "visited", strict=True)[1] / len(made.tables["visits"])
    assert close == pytest.approx(
        wrong(real, "visits", "visited", strict=True)[1] / len(real["visits"]), abs=0.06
    )


def test_bins_alone_do_not_keep_it():
    """The comparison above can fail: as a constraint on bins, which lets a quarter through if some days of it obey, visits follow deaths."""
    tables = register()
    schema = Schema.parse(LINKED.replace("rules:", "constraints:"))
    found = fitted({name: tables[name] for name in ("patients", "visits")}, schema).tables
    assert wrong(found, "visits", "visited", strict=True)[0] > 20


@pytest.mark.parametrize("resolution", ["quarter", "month", "day"])
def test_it_holds_in_one_table_with_ids_too(resolution):
    """Visits in coarse bins, in others than the deaths, and by single days, where every code is one value once the day of death is known."""
    tables = register()
    flat = tables["visits"].merge(tables["patients"], on="patient")
    schema = Schema.parse(
        f"""
columns:
  - {{name: died, kind: date, {DATES}, missing: true}}
  - {{name: visited, kind: date, {DATES.replace("quarter", resolution)}}}
  - {{name: ward, kind: categorical, values: [day, general]}}
rules: ["visited < died"]
entity: {{id: patient, fixed: [died], order: visited, max_events: 8}}
"""
    )
    frame = fitted(flat.drop(columns="sex"), schema).frame
    died, day = pd.to_datetime(frame["died"]), pd.to_datetime(frame["visited"])
    assert not (day >= died).any()
    assert (died.dt.to_period("Q") == day.dt.to_period("Q")).sum() > 200
    assert (frame.groupby("patient")["died"].nunique() <= 1).all()


def test_it_holds_in_several_tables_of_events(tmp_path):
    path = tmp_path / "several.yaml"
    path.write_text(SEVERAL, encoding="utf-8")
    found = fitted(register(), path).tables
    assert wrong(found, "visits", "visited", strict=True)[0] == 0
    late, close = wrong(found, "claims", "claimed", strict=False)
    assert late == 0
    assert close > 100


def test_values_that_go_with_no_event_are_drawn_again(made, monkeypatch):
    """Nobody who died on the first day has a visit before that: such patients get another day, and without that the draw is an error and no table."""
    first = pd.Timestamp("2019-01-01")

    def all_on_the_first_day(own: Any, codes: Any, generator: Any) -> Any:
        values = right(own, codes, generator)
        early = (np.asarray(codes["died"]) == 0).nonzero()[0]
        values.frame.loc[early, "died"] = first
        return values

    right = drawing.SettledValues.of
    assert (pd.to_datetime(made.tables["patients"]["died"]) < "2019-04-01").sum() > 10
    monkeypatch.setattr(drawing.SettledValues, "of", all_on_the_first_day)
    found = made.model.sample_tables(seed=2)
    assert wrong(found, "visits", "visited", strict=True)[0] == 0
    visited = found["patients"]["patient"].isin(found["visits"]["patient"])
    died = pd.to_datetime(found["patients"]["died"])
    assert (died[visited] > first).sum() > 0
    assert not (died[visited] == first).any()
    assert (died[~visited] == first).any(), "who has no visit keeps the day"
    monkeypatch.setattr(drawing, "_VALUE_ROUNDS", 0)
    with pytest.raises(ConstraintError, match="leave no event for some entities"):
        made.model.sample_tables(seed=2)


def test_a_bundle_obeys_and_verify_looks(tmp_path):
    """One visit that is moved behind the death, in all places where it stands, is found."""
    tables = register(600)
    for name in ("patients", "visits"):
        tables[name].to_csv(tmp_path / f"{name}.csv", index=False)
    criterion = {"name": "number", "kind": "mean-events", "threshold": 4.0}
    spec = {
        "name": "register",
        "source": {"tables": {"patients": "patients.csv", "visits": "visits.csv"}},
        "schema": Schema.parse(LINKED).to_dict(),
        "unit": {"relation": "add-remove", "id_column": "patient", "max_rows": 3},
        "synthesizers": [{"method": "mst"}],
        "acceptance": {"form": "pass-only", "epsilon": 1.0, "criteria": [criterion]},
        "selection": {"rule": "single"},
        "budget": {"total": {"epsilon": 34.0}, "model": {"epsilon": 30.0}},
        "seed": 1,
    }
    write_plain(spec, tmp_path / "spec.yaml")
    done = publish(tmp_path / "spec.yaml", out=tmp_path / "bundle", ledger=tmp_path / "register.ledger")
    assert done.accepted
    verify_bundle(tmp_path / "bundle")
    places = [tmp_path / "bundle" / "tables" / "visits.csv", tmp_path / "bundle" / "data.csv"]
    whole = pd.read_csv(places[1])
    died, day = pd.to_datetime(whole["died"]), pd.to_datetime(whole["visited"])
    last = (whole["patient"] != whole["patient"].shift(-1)) & (
        died.dt.to_period("Q") == day.dt.to_period("Q")
    )
    row = int(last.to_numpy().nonzero()[0][0])
    listed = json.loads((tmp_path / "bundle" / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    for path in places:
        table = pd.read_csv(path, dtype=str)
        table.loc[row, "visited"] = str(whole.loc[row, "died"])
        table.to_csv(path, index=False)
        listed[str(path.relative_to(tmp_path / "bundle"))] = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "bundle" / "MANIFEST.json").write_text(manifest_text(listed), encoding="utf-8")
    with pytest.raises(BundleError, match=r"values of data\.csv break a rule"):
        verify_bundle(tmp_path / "bundle")


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ("{name: limit, kind: real, minimum: 0, maximum: 9, bins: 3}, {name: cost, kind: real, minimum: 0, maximum: 9, bins: 3}", "cost <= limit"),
        ("{name: limit, kind: integer, minimum: 0, maximum: 9, bins: 3, decode_by: label}, {name: cost, kind: integer, minimum: 0, maximum: 9, bins: 3}", "cost <= limit"),
    ],
)  # fmt: skip
def test_fixed_columns_without_single_values_are_refused(columns, rule):
    schema = Schema.parse(
        f"columns: [{columns}]\nrules: ['{rule}']\nentity: {{id: patient, fixed: [limit], max_events: 3}}"
    )
    frame = pd.DataFrame({"patient": [1, 1, 2], "limit": [5, 5, 6], "cost": [1, 2, 3]})
    with pytest.raises(UsageError, match=r"limit is not\. Make it a constraint"):
        fitted(frame, schema)
