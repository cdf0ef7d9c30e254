"""Linked tables that many tests use: people with visits and claims, and the patients of the simulated register with their stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from understudy.datasets import patient_register, patient_register_schema
from understudy.schema import Schema
from understudy.schema.files.yaml import parse_plain, write_plain
from understudy.schema.linked import register_of

TEXT = """
name: register
tables:
  - name: people
    source: people.csv
    key: who
    columns: [{name: sex, kind: categorical, values: [f, m]}]
  - name: visits
    source: visits.csv
    belongs_to: people
    order: day
    max_events: 6
    count: visits
    columns:
      - {name: day, kind: integer, minimum: 0, maximum: 29, bins: 3}
      - {name: ward, kind: categorical, values: [a, b, c]}
  - name: claims
    source: claims.csv
    belongs_to: people
    reference: person
    max_events: 9
    count: claims
    columns: [{name: paid, kind: boolean}]
"""
REGISTER = register_of(parse_plain(TEXT))
SCHEMAS = [Schema.from_dict(pair.plain) for pair in REGISTER.pairs]


def tables(people: list[int], seed: int, *, most: int = 8) -> dict[str, pd.DataFrame]:
    """Entities with 0 to ``most`` rows in each table, all about each decided by its own number and the seed; more visits go with more claims."""
    rows: dict[str, list[tuple[object, ...]]] = {"people": [], "visits": [], "claims": []}
    for who in people:
        rng = np.random.default_rng([seed, who])
        rows["people"].append((who, rng.choice(["f", "m"])))
        visits = int(rng.integers(0, most + 1))
        for _ in range(visits):
            rows["visits"].append((who, int(rng.integers(30)), rng.choice(["a", "b", "c"])))
        for _ in range(visits + int(rng.integers(0, 2))):
            rows["claims"].append((who, bool(rng.random() < 0.8)))
    columns = {"people": ["who", "sex"], "visits": ["who", "day", "ward"], "claims": ["person", "paid"]}
    return {name: pd.DataFrame(found, columns=columns[name]) for name, found in rows.items()}


def files(folder: Path, given: dict[str, pd.DataFrame]) -> Path:
    """Write people, visits and claims to a folder with their schema file, and return that."""
    for name, table in given.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    (folder / "register.yaml").write_text(TEXT, encoding="utf-8")
    return folder / "register.yaml"


def joins(made: dict[str, pd.DataFrame]) -> None:
    """Check the keys of people, visits and claims, and the numbers that the table of people holds."""
    people = made["people"]
    assert people["who"].is_unique
    for name, key in (("visits", "who"), ("claims", "person")):
        assert made[name][key].isin(people["who"]).all()
        assert (people[name] == people["who"].map(made[name][key].value_counts()).fillna(0)).all()


def write_patients(
    folder: Path, patients: int, *, fixed: tuple[str, ...], moving: tuple[str, ...], seed: int = 1
) -> Path:
    """Write patients and stays of the simulated register to a folder with their schema file of some columns, and return that."""
    for name, table in patient_register(patients, seed=seed).items():
        table.to_csv(folder / f"{name}.csv", index=False)
    described = patient_register_schema().select((*fixed, *moving)).to_dict()
    columns = {column["name"]: column for column in described["columns"]}
    entities = {
        "name": "patients", "source": "patients.csv", "key": "patient", "count": "stays", "columns": [columns[name] for name in fixed],
    }  # fmt: skip
    events = {
        "name": "stays", "source": "stays.csv", "belongs_to": "patients", "order": "admitted", "max_events": 40,
        "columns": [columns[name] for name in moving],
    }  # fmt: skip
    write_plain({"name": "register", "tables": [entities, events]}, folder / "register.yaml")
    return folder / "register.yaml"
