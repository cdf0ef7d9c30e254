"""Lists of values that several columns share by name."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from understudy.errors import SchemaError
from understudy.schema import Schema
from understudy.schema.files.yaml import parse_plain

SHARED = """
lists:
  place: [north, south, "007"]
  grade: [1, 2, 3]
columns:
  - {name: home, kind: categorical, values: {list: place}}
  - {name: work, kind: categorical, values: {list: place}, missing: true}
  - {name: mark, kind: ordinal, values: {list: grade}}
  - {name: points, kind: integer, values: {list: grade}}
"""
WRITTEN_OUT = """
columns:
  - {name: home, kind: categorical, values: [north, south, "007"]}
  - {name: work, kind: categorical, values: [north, south, "007"], missing: true}
  - {name: mark, kind: ordinal, values: [1, 2, 3]}
  - {name: points, kind: integer, values: [1, 2, 3]}
"""


def test_a_list_and_its_values_written_out_are_the_same_schema() -> None:
    shared, plain = Schema.parse(SHARED), Schema.parse(WRITTEN_OUT)
    assert shared == plain
    assert shared.fingerprint() == plain.fingerprint()
    assert shared.column("work").encode(["007", "north", None]).tolist() == [2, 0, 3]


def test_a_list_is_written_once_and_read_back() -> None:
    shared = Schema.parse(SHARED)
    assert shared.to_dict()["lists"] == {"place": ["north", "south", "007"], "grade": [1, 2, 3]}
    assert shared.to_dict()["columns"][0]["values"] == {"list": "place"}
    back = Schema.parse(shared.to_yaml())
    assert back == shared
    assert back.to_dict() == shared.to_dict()
    assert "lists" not in Schema.parse(WRITTEN_OUT).to_dict()


def test_a_schema_of_some_columns_keeps_the_lists_they_use() -> None:
    assert list(Schema.parse(SHARED).select(["home"]).to_dict()["lists"]) == ["place"]


def test_numbers_and_decimals_that_are_equal_are_not_one_list() -> None:
    schema = Schema.parse("lists: {a: [1, 2]}\ncolumns: [{name: x, kind: categorical, values: [1.0, 2.0]}]")
    assert schema.to_dict()["columns"][0]["values"] == [1.0, 2.0]
    assert "lists" not in schema.to_dict()


def test_a_list_may_be_a_file_beside_the_schema(tmp_path: Path) -> None:
    (tmp_path / "codes.txt").write_text('A00\n007\n\n"x, y"\n', encoding="utf-8")
    (tmp_path / "schema.yaml").write_text(
        "lists: {codes: codes.txt}\ncolumns: [{name: code, kind: categorical, values: {list: codes}}]",
        encoding="utf-8",
    )
    schema = Schema.read(tmp_path / "schema.yaml")
    assert schema.column("code").labels == ("A00", "007", "x, y")
    assert Schema.parse(schema.to_yaml()) == schema  # what is written needs the file no more


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("values: {list: plaec}", "no list named 'plaec'. Did you mean 'place'?"),
        ("values: {lists: place}", "write a list of values, or {list: NAME}"),
        ("values: {list: file}", "can be named in a schema file only"),
        ("values: {list: empty}", "lists.empty: write the values"),
    ],
)
def test_a_wrong_list_is_named_once(text: str, said: str) -> None:
    lists = "{place: [a, b]"
    lists += ", file: codes.txt" if "file" in text else ", empty: []" if "empty" in text else ""
    with pytest.raises(SchemaError) as error:
        Schema.parse(f"lists: {lists}}}\ncolumns: [{{name: x, kind: categorical, {text}}}]")
    assert said in str(error.value)
    assert str(error.value).count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"), [("a,b\n", "one column"), ("", "lines"), (None, "cannot be read")]
)
def test_a_file_that_is_no_list_is_refused(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "codes.txt").write_text(content, encoding="utf-8")
    (tmp_path / "schema.yaml").write_text(
        "lists: {codes: codes.txt}\ncolumns: [{name: code, kind: categorical, values: {list: codes}}]",
        encoding="utf-8",
    )
    with pytest.raises(SchemaError, match=said):
        Schema.read(tmp_path / "schema.yaml")


def test_an_editor_knows_lists() -> None:
    jsonschema.validate(parse_plain(SHARED), Schema.json_schema())
