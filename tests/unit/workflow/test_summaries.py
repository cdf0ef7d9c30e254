"""Summaries that the owner asks for: they guide the draw, and what is written of them is what the drawn rows have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.errors import SchemaError
from understudy.privacy import SeededRandomness, Unit
from understudy.schema import Schema
from understudy.schema.files.yaml import parse_plain
from understudy.workflow import evaluate, synthesize

TEXT = """
name: register
tables:
  - {name: people, source: people.csv, key: who, columns: [{name: sex, kind: boolean}]}
  - name: visits
    source: visits.csv
    belongs_to: people
    order: day
    link: []
    max_events: 6
    columns:
      - {name: day, kind: integer, minimum: 0, maximum: 29, bins: 3}
      - {name: ward, kind: categorical, values: [a, b]}
      - {name: nights, kind: integer, minimum: 0, maximum: 9}
    summaries:
      - {name: ever_b, of: ward, by: any, value: b}
      - {name: all_nights, of: nights, by: sum, bins: [0, 1, 10, 25, 100]}
      - {name: last_ward, of: ward, by: last}
      - {name: longest, of: nights, by: max}
"""
CLAIMS = """
  - name: claims
    source: claims.csv
    belongs_to: people
    max_events: 4
    columns: [{name: paid, kind: boolean}]
    summaries: [{name: ever_paid, of: paid, by: any, value: true}]
"""
PERSON = Unit.add_remove_person("who", max_rows=4)


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """No bound here is a matter of chance."""
    monkeypatch.setattr("understudy.curator.curator.SystemRandomness", lambda: SeededRandomness(11))


def tables(people: int = 1_500) -> dict[str, pd.DataFrame]:
    """People who are always in one ward, and who stay long or short: rows of one person go together, in ways that no step from row to row is told (``link: []``)."""
    rng = np.random.default_rng(5)
    number = rng.integers(0, 5, people)
    who = np.repeat(np.arange(people), number)
    ward = np.where(rng.random(people) < 0.5, "a", "b")[who]
    nights = np.where(rng.random(people) < 0.5, 1, 8)[who]
    visits = pd.DataFrame({"who": who, "day": rng.integers(0, 30, len(who)), "ward": ward, "nights": nights})
    payers = np.repeat(np.arange(people), 2)
    return {
        "people": pd.DataFrame({"who": np.arange(people), "sex": rng.random(people) < 0.5}),
        "visits": visits,
        "claims": pd.DataFrame({"who": payers, "paid": (rng.random(people) < 0.5)[payers]}),
    }


def made_of(text: str, real: dict[str, pd.DataFrame], tmp_path, **more):
    (tmp_path / "register.yaml").write_text(text, encoding="utf-8")
    names = [item["name"] for item in parse_plain(text)["tables"]]
    given = {name: real[name] for name in names}
    schema = tmp_path / "register.yaml"
    return synthesize(given, schema=schema, unit=PERSON, epsilon=100.0, ledger="memory", seed=1, **more)


def agrees(made: dict[str, pd.DataFrame]) -> None:
    """What is written of an entity is what its rows have."""
    people = made["people"].set_index("who")
    rows = made["visits"].groupby("who")
    visits = {
        "ever_b": rows["ward"].agg(lambda ward: (ward == "b").any()).reindex(people.index, fill_value=False),
        "all_nights": rows["nights"].sum().reindex(people.index, fill_value=0),
    }
    for name, wanted in visits.items():
        assert (people[name] == wanted).all(), name
    for name, wanted in (("last_ward", rows["ward"].last()), ("longest", rows["nights"].max())):
        there = people[name].dropna()
        assert set(there.index) == set(wanted.index)
        assert (there == wanted).all(), name


def mixed_up(made: dict[str, pd.DataFrame]) -> float:
    """Return how many of the people with two rows or more were in both wards; really nobody was."""
    rows = made["visits"].groupby("who")["ward"].agg(["nunique", "size"])
    return float((rows["nunique"][rows["size"] > 1] > 1).mean())


def test_summaries_guide_the_draw_and_are_written_as_they_come_out(tmp_path):
    real = tables()
    plain = TEXT[: TEXT.index("    summaries:")]
    without = made_of(plain, real, tmp_path).tables
    assert mixed_up(without) > 0.5, "nothing tells that wards of a person are one"
    made = made_of(TEXT, real, tmp_path).tables
    assert list(made["people"]) == ["who", "sex", "ever_b", "all_nights", "last_ward", "longest"]
    assert list(made["visits"]) == ["who", "day", "ward", "nights"]
    agrees(made)
    assert mixed_up(made) < 0.15
    total = real["visits"].groupby("who")["nights"].sum().reindex(range(1_500), fill_value=0)
    edges = [-1, 0, 9, 24, 99]
    shares = [np.bincount(pd.cut(item, edges, labels=False), minlength=4) / len(item) for item in (total, made["people"]["all_nights"])]  # fmt: skip
    assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.05


def test_an_evaluation_compares_summaries_as_columns_of_entities(tmp_path):
    real = {name: table for name, table in tables(300).items() if name != "claims"}
    found = evaluate(real, real, schema=Schema.parse(TEXT), sections=["entities"])
    measured = {name for section in found.sections for result in section.results for name in result.values}
    assert {"ever_b", "all_nights", "last_ward", "longest"} <= {str(name) for name in measured}


def test_each_of_several_tables_of_events_has_its_own(tmp_path):
    real = tables(400)
    made = made_of(TEXT + CLAIMS, real, tmp_path, method="mst").tables
    agrees(made)
    assert list(made["people"])[-1] == "ever_paid"
    paid = made["claims"].groupby("who")["paid"].any().reindex(made["people"]["who"], fill_value=False)
    assert (made["people"]["ever_paid"].to_numpy() == paid.to_numpy()).all()
    with pytest.raises(SchemaError, match="'ever_b' is written by 'visits' and by 'claims'"):
        made_of(TEXT + CLAIMS.replace("ever_paid", "ever_b"), real, tmp_path)


def test_one_table_is_drawn_by_summaries_and_has_no_column_for_them():
    real = tables(1_500)["visits"]
    plain = Schema.parse(TEXT).to_dict()
    columns = [item for item in plain["columns"] if item["name"] != "sex"]
    entity = {"id": "who", "order": "day", "link": [], "max_events": 6}
    drawn = {}
    for more in ({}, {"summaries": plain["entity"]["summaries"][:1]}):
        schema = Schema.from_dict({"columns": columns, "entity": entity | more})
        drawn[len(more)] = synthesize(real, schema=schema, unit=PERSON, epsilon=100.0, ledger="memory", seed=1).frame  # fmt: skip
        assert list(drawn[len(more)]) == ["who", "day", "ward", "nights"]
    assert mixed_up({"visits": drawn[1]}) < mixed_up({"visits": drawn[0]}) - 0.1
