"""Linked tables in schema files: what is read, what is refused, and the records of entities that may have no events."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from understudy.datasets import patient_register_schema
from understudy.errors import SchemaError
from understudy.schema import Schema
from understudy.schema.entities import NONE, EventColumns, event_schema
from understudy.schema.files.yaml import parse_plain
from understudy.schema.linked import joined, read_linked_file, register_of

TEXT = """
name: register
lists: {sexes: [f, m]}
tables:
  - name: patients
    source: patients.csv
    key: patient
    count: stays_so_far
    columns:
      - {name: sex, kind: categorical, values: {list: sexes}}
      - {name: born, kind: integer, minimum: 1900, maximum: 2019, bins: 4}
    rules: ["born > 1900"]
  - name: stays
    source: parts/stays.parquet
    belongs_to: patients
    reference: who
    order: day
    max_events: 6
    columns:
      - {name: day, kind: date, minimum: 2020-01-01, maximum: 2020-12-31, resolution: month}
      - {name: ward, kind: categorical, values: [a, b], missing: true}
      - {name: died, kind: boolean}
    constraints: ["not (ward == 'a' and died == true)", "not (ward is missing) or died == false"]
"""


def changed(*changes: tuple[tuple[object, ...], object]) -> Any:
    plain = copy.deepcopy(parse_plain(TEXT))
    for place, value in changes:
        part = plain
        for key in place[:-1]:
            part = part[key]
        if value is None:
            part.pop(place[-1])
        else:
            part[place[-1]] = value
    return plain


def test_two_tables_are_read_as_one_with_their_keys(tmp_path: Any) -> None:
    (tmp_path / "register.yaml").write_text(TEXT, encoding="utf-8")
    schema = Schema.read(tmp_path / "register.yaml")
    assert schema.names == ("sex", "born", "day", "ward", "died")
    entity = schema.entity
    assert entity is not None
    assert (entity.id, entity.fixed, entity.tables) == ("patient", ("sex", "born"), ("patients", "stays"))
    assert (entity.reference, entity.order, entity.max_events, entity.min_events) == ("who", "day", 6, 0)
    assert entity.count == "stays_so_far"
    assert len(schema.constraints) == 3
    file = read_linked_file(tmp_path / "register.yaml")
    assert file is not None
    assert file.located(tmp_path) == {
        "patients": tmp_path / "patients.csv",
        "stays": tmp_path / "parts" / "stays.parquet",
    }
    assert Schema.from_dict(schema.to_dict()) == schema
    jsonschema.validate(parse_plain(TEXT), Schema.json_schema())
    jsonschema.validate(schema.to_dict(), Schema.json_schema())
    (tmp_path / "one.yaml").write_text("columns: [{name: a, kind: boolean}]", encoding="utf-8")
    assert read_linked_file(tmp_path / "one.yaml") is None


def test_entities_known_by_their_events_alone_have_no_table() -> None:
    plain = changed(
        (("tables", 0), {"name": "patients", "key": "patient"}), (("tables", 1, "fixed"), ["ward"])
    )
    file = joined(plain)
    assert file.sources == {"stays": "parts/stays.parquet"}
    entity = Schema.from_dict(plain).entity
    assert entity is not None
    assert (entity.min_events, entity.fixed) == (1, ("ward",))


WRONG = [
    (((("tables", 0, "key"), None),), "key: name the column"),
    (((("tables", 1, "belongs_to"), None),), "more than one has no belongs_to"),
    (((("tables", 0, "belongs_to"), "stays"),), "every table belongs to another"),
    (((("tables", 1, "belongs_to"), "patient"),), "Did you mean 'patients'"),
    (((("tables", 1, "columns", 0, "name"), "sex"), (("tables", 1, "order"), None)), "both tables"),
    (((("tables", 1, "columns", 1, "name"), "patient"),), "tells the entities apart"),
    (((("tables", 0, "columns", 1, "name"), "who"),), "tells the entities apart"),
    (((("tables", 0, "columns", 1, "name"), "stays_so_far"),), "written as it comes out"),
    (((("tables", 1, "columns"), []),), "at least one column"),
    (((("tables", 1, "orphans"), "keep"),), "refuse or drop"),
    (((("tables", 1, "ordr"), "day"),), "Did you mean 'order'"),
    (((("tables", 0, "order"), "born"),), "unknown key 'order'"),
    (((("tables", 1, "name"), "../stays"),), "name of a file"),
    (((("tables", 1, "name"), "PATIENTS"),), "same name"),
    (((("tables", 1, "name"), 7),), "give the table a name"),
    (((("tables", 1, "link"), "ward"),), "must be a list"),
    (((("tables", 1, "derived"), ["x"]),), "must be a mapping"),
    (((("tables", 1, "source"), 4),), "name of a file"),
    (((("tables", 1, "source"), "stays\0.csv"),), "name of a file"),
    (((("tables", 0, "columns", 0), "sex"),), "each must be a mapping"),
    (((("tables", 1, "columns", 1), ["ward"]),), "each must be a mapping"),
    (((("tables", 1, "fixed"), ["ward"]),), "is a column of 'patients'"),
    (((("columns",), [{"name": "a", "kind": "boolean"}]),), "belongs to a table"),
    (((("row_count",), 9),), "belongs to a table"),
    (((("tables",), {"patients": 1}),), "write a list of tables"),
    (((("tables", 1, "max_events"), 0),), "max_events"),
    (((("tables", 1, "order"), "ward"),), "must be a date, a number or ordinal"),
    (((("tables", 1, "columns", 2, "kind"), "bolean"),), "no kind named 'bolean'"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_said(changes: Any, message: Any) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict(changed(*changes))


def test_several_tables_of_events_are_refused() -> None:
    plain = changed()
    plain["tables"].append({**copy.deepcopy(plain["tables"][1]), "name": "visits"})
    with pytest.raises(SchemaError, match="exactly one table of events"):
        Schema.from_dict(plain)
    with pytest.raises(SchemaError, match="there is none"):
        Schema.from_dict(changed((("tables",), [parse_plain(TEXT)["tables"][0]])))


def test_an_entity_without_events_obeys_the_rules_of_records_and_nothing_else_has_its_codes() -> None:
    schema = Schema.from_dict(parse_plain(TEXT))
    records = event_schema(schema)
    parts = EventColumns.of(schema)
    assert records.column(parts.number).labels[:2] == ("0", "1")
    assert records.column(parts.place).labels == ("first", "later", NONE)
    size = {name: records.domain.size(name) for name in records.names}
    none = {name: size[name] - 1 for name in (*parts.events, *parts.before.values())}
    idle = {"sex": 1, "born": 2, parts.number: 0, parts.place: 2, **none}
    first = idle | {parts.number: 1, parts.place: 0, "day": 3, "ward": 1, "died": 0}
    unknown_ward = first | {"ward": size["ward"] - 1}
    wrong = [
        idle | {parts.place: 0},
        idle | {parts.number: 1},
        idle | {"day": 0},
        idle | {"ward": 0},
        idle | {"died": 1},
        idle | {"ward_before": 0},
        first | {parts.number: 0},
        first | {"day": size["day"] - 1},
        first | {"died": size["died"] - 1},
        first | {"ward": 0, "died": 1},
        unknown_ward | {"died": 1},  # the rule that speaks of missing entries holds where there is an event
    ]
    listed = [idle, first, unknown_ward, *wrong]
    held = records.holds_codes({name: [item[name] for item in listed] for name in records.names})
    assert held.tolist() == [True, True, True, *[False] * len(wrong)]
    assert Schema.from_dict(records.to_dict()) == records


def test_records_of_entities_that_have_events_are_as_they_were() -> None:
    schema = patient_register_schema()
    assert schema.entity is not None
    one = replace(schema, entity=replace(schema.entity, min_events=1))
    assert event_schema(one).column("ward").missing is False
    assert event_schema(one).column("place_of_event").labels == ("first", "later")
    assert event_schema(schema).column("ward").missing is True
    assert one.fingerprint() != schema.fingerprint()


@pytest.mark.parametrize("given", [["drop"], {"drop": True}, 5, "keep"])
def test_what_becomes_of_orphans_of_several_tables_is_refused_where_it_is_none_of_its_words(
    given: Any,
) -> None:
    events = [
        {
            "name": name,
            "belongs_to": "people",
            "source": f"{name}.csv",
            "orphans": given,
            "columns": [{"name": name[0], "kind": "boolean"}],
        }
        for name in ("visits", "bills")
    ]
    sex = {"name": "sex", "kind": "boolean"}
    people = {"name": "people", "key": "person", "source": "people.csv", "columns": [sex]}

    def read() -> None:
        made = register_of({"tables": [people, *events]})
        assert made is not None
        made.schemas(".")

    with pytest.raises(SchemaError, match="orphans"):
        read()
