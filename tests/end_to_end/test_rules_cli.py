"""Rules, dependencies and derived columns through the commands: synth, sample, release, verify."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import understudy

from understudy.errors import DataError, Problems
from understudy.release.bundle.verify import _check_data
from understudy.schema import Schema

SCHEMA = """
columns:
  - {name: arrival, kind: date, minimum: 2015-01-01, maximum: 2015-03-31, resolution: month, decode_by: uniform}
  - {name: departure, kind: date, minimum: 2015-01-01, maximum: 2015-04-30, resolution: month, missing: true, missing_text: "?"}
  - {name: price, kind: real, minimum: 0, maximum: 100, bins: 4, decimals: 2, decode_by: smooth}
  - {name: paid, kind: real, minimum: 0, maximum: 100, bins: 4, decimals: 2}
  - {name: city, kind: categorical, values: [Lyon, Lille, Porto]}
  - {name: country, kind: categorical, values: [France, Portugal]}
rules:
  - departure >= arrival + 1
  - departure - arrival <= 20
  - paid <= price
determines:
  city: [country]
derived:
  nights: {value: departure - arrival, after: departure}
  owed: {value: price - paid, after: paid}
  week: {value: week_of(arrival), before: arrival}
"""
ORDER = ["week", "arrival", "departure", "nights", "price", "paid", "owed", "city", "country"]
SPEC = """
name: stays
source: {path: stays.csv}
schema: schema.yaml
unit: replace-one
synthesizers: [{method: mst}]
acceptance:
  form: pass-only
  epsilon: 0.5
  criteria:
    - {name: cells, kind: max-marginal-error, threshold: 0.5}
    - {name: rare, kind: rare-records, min_count: 1}
selection: {rule: single}
budget: {total: {epsilon: 4.5, delta: 1.0e-6}, model: {epsilon: 4.0, delta: 1.0e-6}}
seed: 1
"""


def stays(rows: int = 3000) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    arrival = np.datetime64("2015-01-01") + generator.integers(0, 90, rows)
    departure = (arrival + generator.integers(1, 21, rows)).astype(str).astype(object)
    departure[generator.random(rows) < 0.1] = "?"
    price = generator.integers(0, 10_000, rows)
    city = generator.choice(["Lyon", "Lille", "Porto"], rows)
    return pd.DataFrame(
        {
            "arrival": arrival.astype(str),
            "departure": departure,
            "price": price / 100,
            "paid": (price * generator.random(rows)).astype(int) / 100,
            "city": city,
            "country": np.where(city == "Porto", "Portugal", "France"),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    stays().to_csv(tmp_path / "stays.csv", index=False)
    return tmp_path


def check(rows: pd.DataFrame) -> None:
    """Check the rules by pandas alone; the file is read as text."""
    assert list(rows.columns) == ORDER
    arrival = pd.to_datetime(rows["arrival"])
    left = rows["departure"] != "?"
    nights = (pd.to_datetime(rows["departure"].where(left)) - arrival).dt.days
    assert nights[left].between(1, 20).all()
    assert (pd.to_numeric(rows["nights"])[left] == nights[left]).all()
    assert rows["nights"][~left].isin(["", "?"]).all()
    price, paid = rows["price"].astype(float), rows["paid"].astype(float)
    assert (paid <= price).all()
    assert np.allclose(rows["owed"].astype(float), (price - paid).round(2), atol=1e-9)
    assert rows["owed"].str.fullmatch(r"\d+(\.\d{1,2})?").all()
    assert (rows["week"].astype(int) == arrival.dt.isocalendar().week).all()
    assert (rows.groupby("city")["country"].nunique() == 1).all()


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def test_synth_and_sample_keep_the_rules(folder: Path) -> None:
    told = understudy(
        *("synth", folder / "stays.csv", "--schema", folder / "schema.yaml", "--method", "mst"),
        *("--epsilon", "2", "--delta", "1e-6", "--unit", "add-remove", "--out", folder / "rows.csv"),
        *("--model", folder / "model.understudy"),
    )
    assert told.code == 0, told.err
    check(read(folder / "rows.csv"))
    told = understudy(
        "sample", folder / "model.understudy", "--rows", "500", "--seed", "1", "--out", folder / "more.csv"
    )
    assert told.code == 0, told.err
    assert len(read(folder / "more.csv")) == 500
    check(read(folder / "more.csv"))


def test_rules_that_contradict_each_other_cost_nothing(folder: Path) -> None:
    text = SCHEMA.replace("- paid <= price", "- paid <= price\n  - paid >= price + 1")
    (folder / "schema.yaml").write_text(text, encoding="utf-8")
    told = understudy(
        *("synth", folder / "stays.csv", "--schema", folder / "schema.yaml", "--method", "mst"),
        *("--epsilon", "2", "--delta", "1e-6", "--unit", "add-remove", "--out", folder / "rows.csv"),
    )
    assert told.code != 0
    assert "The rules contradict each other" in told.err
    assert "Nothing was charged" in told.err
    assert not (folder / "rows.csv").exists()


def test_a_release_keeps_the_rules_and_its_bundle_says_so(folder: Path) -> None:
    (folder / "spec.yaml").write_text(SPEC, encoding="utf-8")
    told = understudy("release", folder / "spec.yaml", "--out", folder / "out")
    assert told.code == 0, told.err
    rows = read(folder / "out" / "data.csv")
    check(rows)
    told = understudy("verify", folder / "out")
    assert told.code == 0, told.err
    described = json.loads((folder / "out" / "datapackage.json").read_text(encoding="utf-8"))
    fields = described["resources"][0]["schema"]["fields"]
    assert [field["name"] for field in fields] == ORDER
    assert fields[3]["description"] == "Computed: departure - arrival"
    assert fields[3]["type"] == "integer"
    document = json.loads((folder / "out" / "certificate.json").read_text(encoding="utf-8"))
    schema = Schema.read(folder / "out" / "schema.yaml")
    changed = {
        "values of data.csv break a rule": {
            "arrival": "2015-01-31",
            "departure": "2015-01-01",
            "nights": "-30",
        },
        "no column 'nights' that follows": {"nights": "77"},
    }
    for complaint, entries in changed.items():  # as if the certificate had been made for a wrong table
        broken = rows.copy()
        for name, entry in entries.items():
            broken.loc[broken["departure"] != "?", name] = entry
        broken.to_csv(folder / "out" / "data.csv", index=False)
        problems = Problems("checked")
        _check_data(folder / "out", document, schema, problems)
        with pytest.raises(DataError, match=complaint):
            problems.raise_if_any(DataError)
