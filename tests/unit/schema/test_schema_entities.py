"""The section ``entity`` of a schema, and the schema of event records that is made of it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from understudy.datasets import households_schema, patient_stays_schema
from understudy.errors import SchemaError
from understudy.schema import Schema
from understudy.schema.entities import NO_EVENT, Entity, EventColumns, event_schema

COLUMNS = """
columns:
  - {name: sex, kind: categorical, values: [f, m]}
  - {name: born, kind: integer, minimum: 1900, maximum: 2020, bins: 4}
  - {name: day, kind: date, minimum: 2020-01-01, maximum: 2020-12-31, resolution: month}
  - {name: ward, kind: categorical, values: [a, b], missing: true}
"""


def test_a_schema_without_the_section_is_as_before() -> None:
    schema = Schema.parse(COLUMNS)
    assert schema.entity is None
    assert "entity" not in schema.to_dict()


@pytest.mark.parametrize("schema", [patient_stays_schema(), households_schema()], ids=["stays", "households"])
def test_files_keep_the_section_and_the_records(schema: Schema) -> None:
    records = event_schema(schema)
    assert Schema.parse(schema.to_yaml()) == schema
    assert Schema.from_dict(records.to_dict()) == records
    assert records.events_of == schema
    assert records.fingerprint() != schema.fingerprint()


def test_what_is_declared_counts_in_the_fingerprint() -> None:
    plain = Schema.parse(COLUMNS)
    who = Schema.parse(COLUMNS + "entity: {id: who}")
    fixed = Schema.parse(COLUMNS + "entity: {id: who, fixed: [sex]}")
    assert len({item.fingerprint() for item in (plain, who, fixed)}) == 3


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{}", "entity.id"),
        ("{id: sex}", "is a column of the schema"),
        ("{id: who, fixd: [sex]}", "unknown key 'fixd'"),
        ("{id: who, fixed: [sx]}", "Did you mean 'sex'"),
        ("{id: who, fixed: [sex, born, day, ward]}", "at least one column must differ"),
        ("{id: who, fixed: [sex], link: [sex]}", "also named under link or order"),
        ("{id: who, order: ward}", "must be a date, a number or ordinal"),
        ("{id: who, max_events: 0}", "max_events"),
        ("{id: who, max_events: 2.5}", "max_events"),
        ("{id: who, fixed: sex}", "must be a list"),
        ("{id: who, link: [ward, ward]}", "named twice"),
        ("[who]", "must be a mapping"),
    ],
)
def test_what_is_wrong_is_said(section: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.parse(COLUMNS + f"entity: {section}")


def test_an_order_with_entries_out_of_order_is_refused() -> None:
    text = COLUMNS.replace("bins: 4}", "bins: 4, missing: true}")
    with pytest.raises(SchemaError, match="without a place in the order"):
        Schema.parse(text + "entity: {id: who, order: born}")


def test_names_that_are_taken_are_avoided() -> None:
    schema = Schema.parse(
        "columns: [{name: number_of_events, kind: boolean}, {name: ward, kind: boolean}, {name: ward_before, kind: boolean}]\nentity: {id: who}"
    )
    parts = EventColumns.of(schema)
    assert parts.number == "number_of_events_"
    assert len(set(event_schema(schema).names)) == len(event_schema(schema).names)


@pytest.mark.parametrize("most", [1, 2, 4, 5, 6, 40, 100, 100_000])
def test_bins_cover_every_number_once(most: int) -> None:
    bins = Entity("who", max_events=most).bins
    assert bins[0] == 1
    assert bins[-1] == most + 1
    assert all(low < high for low, high in pairwise(bins))
    schema = event_schema(Schema.parse(COLUMNS + f"entity: {{id: who, max_events: {most}}}"))
    column = schema.column("number_of_events")
    assert column.size == len(bins) - 1
    assert column.encode([1, most]).tolist() == [0, column.size - 1]


def test_the_rules_of_records() -> None:
    schema = event_schema(Schema.parse(COLUMNS + "entity: {id: who, fixed: [sex, born], order: day}"))
    size = {name: schema.domain.size(name) for name in schema.names}
    first = {
        "number_of_events": 0,
        "place_of_event": 0,
        "day": 3,
        "day_before": size["day_before"] - 1,
        "ward_before": size["ward_before"] - 1,
    }
    later = {"number_of_events": 2, "place_of_event": 1, "day": 3, "day_before": 3, "ward_before": 0}
    wrong = [
        first | {"ward_before": 0},
        first | {"day_before": 0},
        later | {"number_of_events": 0},
        later | {"day_before": 4},
        later | {"ward_before": size["ward_before"] - 1},
    ]
    records = [{"sex": 0, "born": 0, "ward": 0} | item for item in (first, later, *wrong)]
    held = schema.holds_codes({name: [record[name] for record in records] for name in schema.names})
    assert held.tolist() == [True, True, *[False] * len(wrong)]
    assert schema.column("ward_before").labels == ("a", "b", "missing", NO_EVENT)


def test_some_columns_of_a_schema_keep_what_is_said_about_them() -> None:
    schema = Schema.parse(COLUMNS + "entity: {id: who, fixed: [sex], order: day, link: [ward]}")
    assert schema.select(["sex", "ward"]).entity == Entity("who", fixed=("sex",), link=("ward",))
    assert schema.select(["sex"]).entity is None
