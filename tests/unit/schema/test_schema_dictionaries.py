"""Data dictionaries as schemas: Frictionless Table Schema, Croissant and DDI codebooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from understudy.errors import SchemaError
from understudy.schema import Schema, import_schema


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def column(schema: Schema, name: str) -> Any:
    return schema.column(name)


TABLE_SCHEMA: dict[str, Any] = {
    "fields": [
        {"name": "id", "type": "integer"},
        {"name": "sex", "type": "integer", "title": "Sex", "constraints": {"required": True},
         "categories": [{"value": 1, "label": "male"}, {"value": 2, "label": "female"}]},
        {"name": "pain", "type": "string", "categories": ["none", "mild", "severe"], "categoriesOrdered": True},
        {"name": "ward", "type": "string", "constraints": {"enum": ["day", "night"], "required": True}},
        {"name": "smokes", "type": "boolean", "trueValues": ["Yes"], "falseValues": ["No"]},
        {"name": "age", "type": "integer", "description": "Age in years", "constraints": {"minimum": 0, "maximum": 110}},
        {"name": "cost", "type": "number", "constraints": {"minimum": 0, "maximum": "5000", "required": True}},
        {"name": "admitted", "type": "date", "constraints": {"minimum": "2020-01-01", "maximum": "2022-12-31"}},
        {"name": "mail", "type": "string", "format": "email"},
        {"name": "where", "type": "geopoint"},
    ],
    "primaryKey": "id",
    "missingValues": ["-9", "?"],
}  # fmt: skip


def test_a_table_schema(tmp_path: Path) -> None:
    schema = import_schema(write(tmp_path, "stays.json", TABLE_SCHEMA), bins=10)
    assert schema.name == "stays"
    assert schema.names == ("sex", "pain", "ward", "smokes", "age", "cost", "admitted")
    assert set(dict(schema.left_out)) == {"id", "mail", "where"}
    sex, pain, age, cost = (column(schema, name) for name in ("sex", "pain", "age", "cost"))
    assert (sex.kind, sex.values, sex.missing) == ("categorical", (1, 2), False)
    assert sex.description == "Sex (1: male; 2: female)"
    assert (pain.kind, pain.missing, pain.missing_text) == ("ordinal", True, "-9")
    assert pain.encode(["?", "-9", "mild"]).tolist() == [3, 3, 1]
    assert column(schema, "smokes").spelling == ("No", "Yes")
    assert (age.size, age.description) == (112, "Age in years")
    assert (cost.kind, cost.size) == ("real", 10)
    assert column(schema, "admitted").size == 37
    schema.require_public()


def test_a_data_package_with_one_table(tmp_path: Path) -> None:
    package = {
        "name": "p",
        "resources": [{"name": "visits", "path": "v.csv", "schema": TABLE_SCHEMA}, {"path": "readme.md"}],
    }
    assert import_schema(write(tmp_path, "datapackage.json", package)).name == "visits"
    package["resources"] = [{"schema": TABLE_SCHEMA}, {"schema": TABLE_SCHEMA}]
    with pytest.raises(SchemaError, match="describes 2 tables"):
        import_schema(write(tmp_path, "two.json", package))


def test_facts_that_a_table_schema_lacks_are_listed_and_supplied(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "t.json",
        {"fields": [{"name": "ward"}, {"name": "age", "type": "integer"}, {"name": "cost", "type": "number"},
                    {"name": "day", "type": "date"}]},
    )  # fmt: skip
    with pytest.raises(SchemaError) as error:
        import_schema(file)
    for part in (
        "'ward' (type string): values",
        "'age' (type integer): minimum and maximum",
        "'day' (type date)",
        "--facts",
    ):
        assert part in str(error.value)
    facts: dict[str, dict[str, Any]] = {
        "ward": {"values": ["a", "b"]},
        "age": {"minimum": 0, "maximum": 99},
        "cost": {"minimum": 0, "maximum": 10},
        "day": {"minimum": "2020-01-01", "maximum": "2020-12-31", "resolution": "month"},
    }
    assert import_schema(file, facts=facts, bins=7).domain.sizes == (3, 101, 8, 13)


CROISSANT: dict[str, Any] = {
    "@context": {"@vocab": "https://schema.org/", "cr": "http://mlcommons.org/croissant/"},
    "@type": "sc:Dataset",
    "name": "passengers",
    "recordSet": [
        {"@id": "sexes", "@type": "cr:RecordSet", "dataType": "sc:Enumeration",
         "field": [{"@id": "sexes/name", "dataType": "sc:Text"}],
         "data": [{"sexes/name": "male"}, {"sexes/name": "female"}]},
        {"@id": "people", "@type": "cr:RecordSet", "key": {"@id": "people/number"},
         "field": [
            {"@id": "people/number", "name": "number", "dataType": "sc:Integer"},
            {"@id": "people/sex", "name": "sex", "dataType": "sc:Text", "description": "Sex",
             "references": {"field": {"@id": "sexes/name"}}},
            {"@id": "people/age", "name": "age", "dataType": "sc:Integer",
             "source": {"fileObject": {"@id": "f"}, "extract": {"column": "Age"}}},
            {"@id": "people/fare", "name": "fare", "dataType": ["sc:Float"]},
            {"@id": "people/survived", "name": "survived", "dataType": "sc:Boolean"},
            {"@id": "people/photo", "name": "photo", "dataType": "sc:ImageObject"},
         ]},
    ],
}  # fmt: skip


def test_croissant_metadata(tmp_path: Path) -> None:
    file = write(tmp_path, "croissant.json", CROISSANT)
    with pytest.raises(SchemaError) as error:
        import_schema(file)
    assert "'Age' (integer): minimum and maximum" in str(error.value)
    facts = {"Age": {"minimum": 0, "maximum": 99}, "fare": {"minimum": 0, "maximum": 600}}
    schema = import_schema(file, facts=facts, bins=12)
    assert schema.name == "passengers"
    assert schema.names == ("sex", "Age", "fare", "survived")
    assert schema.domain.sizes == (2, 100, 12, 2)
    assert column(schema, "sex").values == ("male", "female")
    assert set(dict(schema.left_out)) == {"number", "photo"}


def test_prefixed_croissant_keys_read_alike(tmp_path: Path) -> None:
    prefixed = {("cr:recordSet" if key == "recordSet" else key): value for key, value in CROISSANT.items()}
    facts = {"Age": {"minimum": 0, "maximum": 99}, "fare": {"minimum": 0, "maximum": 600}}
    assert import_schema(write(tmp_path, "c.json", prefixed), facts=facts) == import_schema(
        write(tmp_path, "d.json", CROISSANT), facts=facts
    )


def test_croissant_with_two_tables(tmp_path: Path) -> None:
    twice = CROISSANT | {"recordSet": [CROISSANT["recordSet"][1], CROISSANT["recordSet"][1] | {"@id": "b"}]}
    with pytest.raises(SchemaError, match="describes 2 record sets"):
        import_schema(write(tmp_path, "c.json", twice))


DDI = """<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5"><dataDscr>
  <var ID="V1" name="sex" intrvl="discrete"><labl>Sex of the
    respondent</labl>
    <sumStat type="min">1</sumStat>
    <catgry><catValu>1</catValu><labl>male</labl><catStat type="freq">4711</catStat></catgry>
    <catgry><catValu>2</catValu><labl>female</labl></catgry>
    <catgry missing="Y"><catValu>9</catValu><labl>no answer</labl></catgry>
    <varFormat type="numeric"/></var>
  <var ID="V2" name="age" intrvl="contin" dcml="0"><labl>Age</labl>
    <valrng><range min="16" max="99"/></valrng><invalrng><item VALUE="-1"/></invalrng><varFormat type="numeric"/></var>
  <var ID="V3" name="wage" intrvl="contin" dcml="2">
    <valrng><range min="0" max="100000"/></valrng><varFormat type="numeric"/></var>
  <var ID="V4" name="region"><catgry><catValu>N</catValu><labl>North</labl></catgry>
    <catgry><catValu>S</catValu><labl>South</labl></catgry><varFormat type="character"/></var>
  <var ID="V5" name="remarks"><varFormat type="character"/></var>
</dataDscr></codeBook>
"""


def test_a_ddi_codebook(tmp_path: Path) -> None:
    schema = import_schema(write(tmp_path, "survey.xml", DDI), bins=20)
    assert schema.names == ("sex", "age", "wage", "region")
    sex, age, wage = (column(schema, name) for name in ("sex", "age", "wage"))
    assert (sex.values, sex.missing_values) == ((1, 2), (9,))
    assert sex.description == "Sex of the respondent (1: male; 2: female)"
    assert (age.minimum, age.maximum, age.missing_values) == (16, 99, (-1,))
    assert (wage.kind, wage.decimals, wage.size) == ("real", 2, 20)
    assert column(schema, "region").values == ("N", "S")
    assert "remarks" in dict(schema.left_out)
    assert "4711" not in schema.to_yaml()  # statistics of the records are not read


def test_a_codebook_without_ranges_needs_facts(tmp_path: Path) -> None:
    text = DDI.replace('<valrng><range min="16" max="99"/></valrng>', "<sumStat type='min'>18</sumStat>")
    file = write(tmp_path, "survey.xml", text)
    with pytest.raises(SchemaError, match="'age': minimum and maximum"):
        import_schema(file)
    facts = {"age": {"minimum": 16, "maximum": 99}}
    assert import_schema(file, facts=facts).domain.size("age") == 85


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
EXTERNAL = '<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    "declared", [ENTITIES, EXTERNAL, '<!DOCTYPE codeBook SYSTEM "http://localhost/x.dtd">']
)
def test_document_types_are_refused(tmp_path: Path, declared: str) -> None:
    text = DDI.replace("<codeBook", declared + "<codeBook", 1).replace("Age<", "&secret;<")
    with pytest.raises(SchemaError, match="declares a document type"):
        import_schema(write(tmp_path, "survey.xml", text))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<codeBook><dataDscr>", "Not well-formed XML"),
        ("", "Not well-formed XML"),
        ("<codeBook/>", "lists no variables"),
        ("<a>" * 5_000 + "</a>" * 5_000, "nested too deeply"),
        ("<x><var name='a'/><var name='a'/></x>", "at least one"),
    ],
)
def test_wrong_codebooks(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        import_schema(write(tmp_path, "survey.xml", content))


@pytest.mark.parametrize(
    "content",
    [
        {"fields": [{"name": "a", "type": "integer", "constraints": {"minimum": "x", "maximum": []}}]},
        {"fields": [{"name": "a", "constraints": {"enum": [{}, []]}}]},
        {"fields": [{"name": "a", "type": "boolean", "trueValues": ["no"], "falseValues": ["yes"]}]},
        {"resources": []},
        {"resources": [5, {"schema": "elsewhere.json"}]},
        {"recordSet": 5},
        {"recordSet": [{"field": [5]}]},
        {"fields": [{"name": "a", "constraints": 5}], "missingValues": 5, "primaryKey": 5},
    ],
)
def test_hostile_dictionaries_are_schema_errors(tmp_path: Path, content: Any) -> None:
    with pytest.raises(SchemaError):
        import_schema(write(tmp_path, "d.json", content))


def test_an_unknown_format_and_a_missing_codebook(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="No import format named 'xls'"):
        import_schema(tmp_path / "a.json", format="xls")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="cannot be read"):
        import_schema(tmp_path / "none.xml")
