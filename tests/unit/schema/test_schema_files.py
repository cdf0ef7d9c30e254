"""Schema files: what they look like, what is refused, and that nothing in them can do harm."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.errors import OutputError, SchemaError
from understudy.schema import Boolean, Categorical, Schema
from understudy.schema.files.yaml import parse_plain, to_yaml

PUBLISHED = Path(__file__).parents[3] / "docs" / "reference" / "schema.schema.json"

FULL = """
version: 1
name: people
description: made up
row_count: 1000
origin: {left_out: from-data}
left_out: {id: an identifier}
columns:
  - {name: age, kind: integer, unit: years, bins: [<18, 18-64, 64<], decode_by: label, missing: true, missing_values: [-9, "?"]}
  - {name: parity, kind: integer, minimum: 0, maximum: 9, out_of_domain: clamp}
  - {name: dose, kind: real, minimum: 0, maximum: 10, bins: 5, origin: from-data}
  - {name: mass, kind: real, bins: {edges: [0, 1.5, 1e3], open: high, closed: left}}
  - {name: level, kind: real, values: [0.5, 1]}
  - {name: sex, kind: categorical, values: [M, F], origin: {values: from-data}}
  - {name: country, kind: categorical, values: [NO, SE, no, yes, on], out_of_domain: to-other}
  - {name: zip, kind: categorical, values: [007, 7, 1_000, 0x1F, 12:30, 2014-01-01]}
  - {name: grade, kind: ordinal, values: [low, high], description: "a: b # c"}
  - {name: smokes, kind: boolean}
  - {name: born, kind: date, minimum: 2014-01-01, maximum: 2014-12-31, resolution: month, format: "%d/%m/%Y"}
  - {name: seen, kind: date, bins: [2014-01-01, 2014-07-01, 2015-01-01], decode_by: uniform}
constraints:
  - not (age < 18 and parity > 2)
  - {rule: born <= seen, straddle: forbid, description: order of events}
"""


def test_a_full_file_reads_and_survives_both_formats(tmp_path: Path) -> None:
    schema = Schema.parse(FULL)
    assert schema.column("country").labels == ("NO", "SE", "no", "yes", "on", "other")
    assert schema.column("zip").labels == ("007", "7", "1_000", "0x1F", "12:30", "2014-01-01")
    for name in ("s.yaml", "s.yml", "s.json", "s.txt"):
        schema.write(tmp_path / name)
        assert Schema.read(tmp_path / name) == schema
        assert Schema.read(str(tmp_path / name)).fingerprint() == schema.fingerprint()
    assert Schema.from_dict(schema.to_dict()) == schema
    assert Schema.parse(json.dumps(schema.to_dict()), format="json") == schema
    # any other YAML reader sees the same text and numbers
    assert yaml.safe_load(schema.to_yaml()) == json.loads(json.dumps(schema.to_dict()))


def test_files_are_minimal() -> None:
    schema = Schema([Boolean("smokes"), Categorical("sex", values=["M", "F"], missing=True)])
    assert schema.to_yaml().splitlines()[1:] == [
        "version: 1",
        "columns:",
        "  - name: smokes",
        "    kind: boolean",
        "  - name: sex",
        "    kind: categorical",
        "    values: [M, F]",
        "    missing: true",
    ]


def test_a_byte_order_mark_and_windows_lines_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + b"columns:\r\n  - {name: x, kind: boolean}\r\n")
    assert Schema.read(file).names == ("x",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must hold a mapping"),
        ("- a", "must hold a mapping"),
        ("columns: []", "columns: must hold at least one entry"),
        ("columns: 5", "columns: must be a list"),
        ("name: x", "the key 'columns' is missing"),
        ("columns: [5]", r"columns\[0\]: must be a mapping"),
        ("columns: [{name: x}]", r"columns\[0\] 'x': the key 'kind' is missing"),
        ("columns: [{kind: boolean}]", r"columns\[0\]: the key 'name' is missing"),
        ("columns: [{name: 5, kind: boolean}]", r"columns\[0\].name: must be text"),
        ("columns: [{name: '', kind: boolean}]", r"columns\[0\] ''.name: must not be empty"),
        ("columns: [{name: x, kind: bool}]", "no kind named 'bool'. Did you mean 'boolean'"),
        ("columns: [{name: x, kind: 5}]", "no kind named"),
        ("columns: [{name: x, kind: boolean, values: [1]}]", "unknown key 'values'"),
        ("columns: [{name: x, kind: integer, min: 1}]", "Did you mean 'minimum'"),
        (
            "columns: [{name: x, kind: boolean, missing: yes}]",
            r"columns\[0\] 'x'.missing: must be true or false",
        ),
        ("columns: [{name: x, kind: boolean, missing: 1}]", "must be true or false"),
        ("columns: [{name: x, kind: boolean, out_of_domain: drop}]", "out_of_domain: write one of 'refuse'"),
        ("columns: [{name: x, kind: boolean, unit: 5}]", "unit: must be text"),
        ("columns: [{name: x, kind: categorical}]", "the key 'values' is missing"),
        ("columns: [{name: x, kind: categorical, values: {a: 1}}]", "write a list"),
        (
            "columns: [{name: x, kind: integer, minimum: low, maximum: 3}]",
            "minimum: must be a finite whole number",
        ),
        (
            "columns: [{name: x, kind: integer, minimum: 1, maximum: .inf}]",
            "maximum: must be a finite whole number",
        ),
        ("columns: [{name: x, kind: integer, bins: [1-2, 4-5]}]", r"columns\[0\] 'x': bins: there is a gap"),
        ("columns: [{name: x, kind: date, minimum: 2014-01-01, maximum: 5}]", "maximum: write a date"),
        ("columns: [{name: x, kind: date, resolution: hour}]", "resolution: write one of 'day'"),
        ("columns: [{name: x, kind: boolean}]\nconstraints: x", "constraints: must be a list"),
        ("columns: [{name: x, kind: boolean}]\nconstraints: [y]", r"constraints\[0\]: No column named 'y'"),
        ("columns: [{name: x, kind: boolean}]\nversion: 2", "version: write one of 1"),
        (
            "columns: [{name: x, kind: boolean}]\nrow_count: many",
            "row_count: must be a positive whole number",
        ),
        ("columns: [{name: x, kind: boolean}]\nleft_out: [a]", "left_out: must be a mapping"),
        (
            "columns: [{name: x, kind: boolean}, {name: x, kind: boolean}]",
            r"columns\[1\] 'x': another column",
        ),
        ("colums: []", "Did you mean 'columns'"),
        ("columns: [", "Not well-formed YAML.*line"),
        ("columns: [{name: x, name: y, kind: boolean}]", "The key 'name' occurs twice"),
        ("a: 1\na: 2", "The key 'a' occurs twice"),
        ("? [a]\n: 1", "A key must be text"),
        ("a: &x [1]\nb: *x", "Anchors and aliases"),
        ("a: *x", "Anchors and aliases"),
        ("a: !!python/object/apply:os.system [ls]", "Tags such as"),
        ("a: !!int 5", "Tags such as"),
        ("a: 1\n---\nb: 2", "more than one YAML document"),
        ("a: " + "[" * 50 + "]" * 50, "nested more than 16"),
        ("a: " + "9" * 10_000, "too deep, or a number too long"),
        ("\x00", "characters that YAML does not allow"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(text: str, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        Schema.parse(text)


def test_everything_wrong_is_listed_at_once() -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.parse(
            """
            nmae: x
            columns:
              - {name: a, kind: integr}
              - {name: b, kind: integer, min: 1}
              - {name: c, kind: integer, minimum: 5, maximum: 3, decode_by: mean}
              - {name: d, kind: categorical, values: [a, a]}
              - {name: e, kind: boolean, out_of_domain: clamp}
            """
        )
    message = str(caught.value)
    for part in (
        "'nmae'",
        "columns[0] 'a'",
        "columns[1] 'b'",
        "columns[2] 'c'.decode_by",
        "columns[3] 'd': values",
        "columns[4] 'e'",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "Not well-formed JSON.*line 1"),
        ('{"a": 1, "a": 2}', "The key 'a' occurs twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": Infinity}', "Infinity is not a number"),
        ("[" * 100_000, "too deep"),
        ("[" * 40 + "]" * 40, "nested more than 16"),
        ('{"a": ' + "9" * 10_000 + "}", "a number too long"),
        ("[1]", "must hold a mapping"),
    ],
)
def test_a_wrong_json_file(text: str, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        Schema.parse(text, format="json")


@pytest.mark.parametrize(
    "column",
    [
        "{name: x, kind: integer, minimum: 0, maximum: 9999999999}",
        "{name: x, kind: integer, minimum: 0, maximum: 9999999999, bins: 1000000000}",
        "{name: x, kind: real, minimum: 0, maximum: 1, bins: 1000000000}",
        "{name: x, kind: integer, bins: ['0', '...', '9999999999']}",
        "{name: x, kind: date, minimum: 0001-01-01, maximum: 9999-12-31, resolution: day}",
    ],
)
def test_a_small_file_cannot_ask_for_endless_memory(column: str) -> None:
    started = time.process_time()
    with pytest.raises(SchemaError):
        Schema.parse(f"columns: [{column}]")
    assert time.process_time() - started < 5


def test_many_large_columns_are_refused_before_they_are_built() -> None:
    text = "columns:\n" + "\n".join(
        f"  - {{name: x{i}, kind: integer, minimum: 0, maximum: 999999}}" for i in range(3000)
    )
    with pytest.raises(SchemaError, match="together they have more than"):
        Schema.parse(text)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="There is no file"):
        Schema.read(tmp_path / "absent.yaml")
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.read(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("columns: [{name: é}]".encode("latin-1"))
    with pytest.raises(SchemaError, match="not UTF-8"):
        Schema.read(tmp_path / "latin.yaml")
    with (tmp_path / "large.yaml").open("wb") as stream:
        stream.truncate((32 << 20) + 1)
    with pytest.raises(SchemaError, match="larger than 32 MB"):
        Schema.read(tmp_path / "large.yaml")


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema([Boolean("x")])
    file = tmp_path / "s.yaml"
    schema.write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    file.chmod(0o600)
    before = file.read_bytes()
    schema.write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        Schema([Boolean("y")]).write(file)
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(OutputError, match="cannot be written"):
        schema.write(tmp_path / "absent" / "s.yaml")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(), part, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PLAIN)
def test_plain_data_survives_yaml(plain: Any) -> None:
    assert parse_plain(to_yaml(plain)) == plain


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    PLAIN
    | st.fixed_dictionaries(
        {"columns": st.lists(PLAIN, max_size=3)}, optional={"constraints": PLAIN, "name": PLAIN}
    )
)
def test_arbitrary_data_is_a_schema_or_a_schema_error(plain: Any) -> None:
    with contextlib.suppress(SchemaError):
        Schema.from_dict(plain)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=80))
def test_arbitrary_text_is_a_schema_or_a_schema_error(text: str) -> None:
    for format in ("yaml", "json"):
        with contextlib.suppress(SchemaError):
            Schema.parse(text, format=format)  # type: ignore[arg-type]


# -- JSON Schema -----------------------------------------------------------------------------------


def test_the_published_json_schema_is_the_generated_one() -> None:
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == Schema.json_schema()


def test_the_json_schema_accepts_good_files_and_refuses_bad_ones() -> None:
    validator = jsonschema.Draft202012Validator(Schema.json_schema())
    validator.check_schema(Schema.json_schema())
    assert list(validator.iter_errors(parse_plain(FULL))) == []
    assert list(validator.iter_errors(Schema.parse(FULL).to_dict())) == []
    for wrong in (
        "columns: []",
        "colums: []",
        "columns: [{name: x, kind: integer, min: 1}]",
        "columns: [{name: x, kind: what}]",
        "columns: [{name: x, kind: boolean}]\nconstraints: [{text: x}]",
        "columns: [{name: x, kind: integer, minimum: a}]",
    ):
        assert not validator.is_valid(parse_plain(wrong))


# ---------------------------------------------------------------------- files that are too large, refused at once


def _no_building(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if anything is made of the entries of a file: that is what took minutes."""
    from understudy.schema.files import schema_file as fileread
    from understudy.schema.files import yaml as files

    def built(*given: object, **options: object) -> None:
        raise AssertionError("the entries were read before they were counted")

    monkeypatch.setattr(fileread.SchemaPart, "model_validate", built)
    monkeypatch.setattr(fileread, "column_from_plain", built)
    monkeypatch.setattr(files, "_loader", built)


@pytest.mark.parametrize("kind", ["boolean", "boolan"])
def test_a_hundred_thousand_columns_are_refused_before_anything_is_built(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _no_building(monkeypatch)
    lines = [f"  - {{name: c{i}, kind: {kind}}}\n" for i in range(100_000)]
    with pytest.raises(SchemaError, match="more than the 5,000") as yaml:
        Schema.parse("name: wide\ncolumns:\n" + "".join(lines))
    assert "line 5003" in str(yaml.value), "the rest of the file is not read"
    text = json.dumps({"columns": [{"name": f"c{i}", "kind": kind} for i in range(100_000)]})
    with pytest.raises(SchemaError, match="100,000 are more than the 5,000"):
        Schema.parse(text, format="json")


def test_a_specification_with_as_many_is_refused_at_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.release.spec.spec import Spec

    _no_building(monkeypatch)
    columns = "".join(f"    - {{name: c{i}, kind: boolean}}\n" for i in range(100_000))
    with pytest.raises(SchemaError, match="more than the 5,000"):
        Spec.parse("name: x\nschema:\n  columns:\n" + columns)


def test_the_largest_schema_allowed_is_still_read() -> None:
    lines = "".join(f"  - {{name: c{i}, kind: boolean}}\n" for i in range(5_000))
    assert len(Schema.parse("columns:\n" + lines).names) == 5_000


def test_a_list_longer_than_any_column_is_refused_where_it_becomes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from understudy.schema.files import yaml as files

    _no_building(monkeypatch)
    monkeypatch.setattr(files, "MAX_CODES", 1_000)
    labels = "".join(f"      - v{i}\n" for i in range(100_000))
    with pytest.raises(SchemaError, match="more than the 1,000"):
        Schema.parse("columns:\n  - name: a\n    kind: categorical\n    values:\n" + labels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: [*x, *x]\n", "Anchors and aliases"),
        ("columns: " + "[" * 100_000, "nested more than"),
        ("columns: " + "{a: " * 100_000, "nested more than"),
        ("- " * 100_000 + "a", "nested more than"),
    ],
)
def test_bombs_are_refused_before_anything_is_built(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _no_building(monkeypatch)
    with pytest.raises(SchemaError, match=message):
        Schema.parse(text)


def test_a_table_with_too_many_columns_is_not_drafted() -> None:
    import numpy as np
    import pandas as pd

    from understudy.data import draft_schema
    from understudy.errors import DataError

    frame = pd.DataFrame(np.zeros((2, 20_000), np.int8), columns=[f"c{i}" for i in range(20_000)])
    with pytest.raises(DataError, match="20,000 columns"):
        draft_schema(frame)
