"""Domain files of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from understudy.errors import SchemaError
from understudy.schema import Integer, Schema, import_schema


def write(folder: Path, name: str, content: Any) -> Path:
    file = folder / name
    file.write_text(
        yaml.safe_dump(content, sort_keys=False) if name.endswith("yaml") else json.dumps(content)
    )
    return file


# -- mbi -------------------------------------------------------------------------------------------


def test_mbi_domains(tmp_path: Path) -> None:
    schema = import_schema(write(tmp_path, "adult-domain.json", {"age": 85, "income>50K": 2, "one": 1}))
    assert schema.name == "adult"
    assert schema.domain.sizes == (85, 2, 1)
    assert schema.column("age") == Integer("age", minimum=0, maximum=84)
    schema.require_public()
    assert schema.encode_frame(pd.DataFrame({"age": ["0", "84"], "income>50K": [0, 1], "one": [0, 0]}))[
        "age"
    ].tolist() == [0, 84]
    lists = import_schema(write(tmp_path, "d.json", {"attributes": ["a", "b"], "shape": [2, 3]}))
    assert lists.domain.sizes == (2, 3)
    named = import_schema(
        tmp_path / "adult-domain.json", facts={"income>50K": {"kind": "categorical", "values": ["no", "yes"]}}
    )
    assert named.column("income>50K").labels == ("no", "yes")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"a": 0}, "column 'a': the size"),
        ({"a": -3, "b": 10**9}, r"(?s)column 'a'.*column 'b'"),
        ({"attributes": ["a"], "shape": [2, 3]}, "must agree"),
        ({"attributes": ["a", "a"], "shape": [2, 3]}, "must agree"),
    ],
)
def test_wrong_mbi_domains(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        import_schema(write(tmp_path, "d.json", content))


@pytest.mark.shared_data
def test_every_mbi_domain_beside_this_checkout(shared_data: Path) -> None:
    files = sorted(shared_data.glob("*/*domain.json"))
    assert files
    for file in files:
        sizes = json.loads(file.read_text())
        assert import_schema(file).domain.sizes == tuple(sizes.values())


@pytest.mark.shared_data
def test_nltcs_fits_its_imported_schema(shared_data: Path) -> None:
    schema = import_schema(shared_data / "nltcs" / "nltcs-domain.json")
    frame = pd.read_csv(shared_data / "nltcs" / "nltcs.csv", dtype=str)
    codes = schema.encode_frame(frame)
    assert (codes["bathing"] == frame["bathing"].astype(int)).all()


# -- dpsynth ---------------------------------------------------------------------------------------

DPSYNTH = {
    "age": {"min_value": 10.0, "max_value": 50.0, "dtype": "int", "clip_to_range": True},
    "income": {
        "type": "NumericalAttribute",
        "min_value": 0,
        "max_value": 1e6,
        "dtype": "int",
        "clip_to_range": False,
    },
    "score": {"min_value": 0, "max_value": 1, "interval_handling": "sample", "description": "a score"},
    "cut": {"min_value": 0, "max_value": 3, "bin_edges": [0, 1, 3], "interval_handling": "interval"},
    "sex": {"possible_values": ["M", "F"], "out_of_domain_index": 0},
    "old": {"type": "CategoricalAttribute", "possible_values": [None, "a", "b"]},
    "later": {"possible_values": ["a", None], "out_of_domain_index": 0},
    "flag": {"possible_values": [False, True]},
    "notes": {"type": "FreeFormTextAttribute", "max_tokens": 256},
}


def test_dpsynth_domains(tmp_path: Path) -> None:
    schema = import_schema(write(tmp_path, "domain.yaml", DPSYNTH), bins=10)
    kinds = {
        column.name: (column.kind, column.size, column.missing, column.out_of_domain)
        for column in schema.columns
    }
    assert kinds == {
        "age": ("integer", 41, False, "clamp"),
        "income": ("integer", 11, True, "to-missing"),
        "score": ("real", 10, False, "clamp"),
        "cut": ("real", 2, False, "clamp"),
        "sex": ("categorical", 2, False, "refuse"),
        "old": ("categorical", 3, True, "to-missing"),
        "later": ("categorical", 2, True, "refuse"),
        "flag": ("boolean", 2, False, "refuse"),
    }
    assert schema.left_out == (("notes", "free text, which is not modelled"),)
    assert schema.column("score").decode_by == "uniform"  # type: ignore[attr-defined]
    assert schema.column("cut").decode_by == "label"  # type: ignore[attr-defined]
    assert schema.column("score").description == "a score"
    schema.require_public()
    assert Schema.parse(schema.to_yaml()) == schema


def test_dpsynth_attributes_with_unknown_categories(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "domain.yaml",
        {
            "sex": {"possible_values": ["M"]},
            "city": {},
            "job": {"type": "OpenSetCategoricalAttribute", "default_value": "?"},
        },
    )
    with pytest.raises(SchemaError, match=r"(?s)column 'city': values.*column 'job': values"):
        import_schema(file)
    facts: dict[str, dict[str, Any]] = {
        "city": {"values": ["NYC", "LA"]},
        "job": {"values": ["x"], "out_of_domain": "to-other"},
    }
    assert import_schema(file, facts=facts).domain.sizes == (1, 2, 2)


def test_dpsynth_facts_replace_the_files(tmp_path: Path) -> None:
    file = write(tmp_path, "domain.yaml", DPSYNTH)
    schema = import_schema(
        file, facts={"score": {"values": [0.0, 0.5]}, "notes": {"kind": "categorical", "values": ["a"]}}
    )
    assert schema.column("score").size == 2
    assert schema.column("notes").size == 1
    with pytest.raises(SchemaError, match=r"no column 'agee'\. Did you mean 'age'"):
        import_schema(file, facts={"agee": {}})


@pytest.mark.parametrize(
    "content",
    [
        {"x": {"possible_values": []}},
        {"x": {"possible_values": "ab"}},
        {"x": {"min_value": 5, "max_value": 1}},
        {"x": {"min_value": "a", "max_value": 1, "dtype": "int"}},
        {"x": {"min_value": 0}},
    ],
)
def test_wrong_dpsynth_domains(tmp_path: Path, content: Any) -> None:
    with pytest.raises(SchemaError, match=r"columns\[0\] 'x'"):
        import_schema(write(tmp_path, "domain.yaml", content))


# -- SDV -------------------------------------------------------------------------------------------

SDV = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    "primary_key": "guest",
    "columns": {
        "guest": {"sdtype": "id", "regex_format": "G[0-9]+"},
        "email": {"sdtype": "email", "pii": True},
        "vip": {"sdtype": "boolean"},
        "room": {"sdtype": "categorical"},
        "rating": {"sdtype": "categorical", "order": ["bad", "good"]},
        "nights": {"sdtype": "numerical", "computer_representation": "Int64"},
        "income": {"sdtype": "numerical", "computer_representation": "UInt32"},
        "fee": {"sdtype": "numerical"},
        "checkin": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
        "paid": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
    },
}
FACTS: dict[str, dict[str, Any]] = {
    "room": {"values": ["single", "double"]},
    "nights": {"minimum": 1, "maximum": 30},
    "income": {"minimum": 0, "maximum": 99_999},
    "fee": {"bins": [0, 10, 100], "missing": True},
    "checkin": {"minimum": "2020-01-01", "maximum": "2020-12-31", "resolution": "month"},
    "paid": {"bins": ["2020-01-01", "2020-07-01", "2021-01-01"]},
}


def test_sdv_metadata_lacks_facts_and_says_which(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        import_schema(write(tmp_path, "metadata.json", SDV))
    message = str(caught.value)
    assert "facts={column" in message
    for part in (
        "column 'room' (sdtype categorical): values",
        "column 'nights' (sdtype numerical): minimum and maximum",
        "column 'fee' (sdtype numerical): minimum and maximum",
        "column 'checkin' (sdtype datetime): minimum and maximum and resolution",
    ):
        assert part in message
    assert "rating" not in message
    assert "email" not in message


def test_sdv_metadata_with_facts(tmp_path: Path) -> None:
    schema = import_schema(write(tmp_path, "metadata.json", SDV), facts=FACTS, bins=8)
    sizes = dict(zip(schema.names, schema.domain.sizes, strict=True))
    assert sizes == {
        "vip": 2,
        "room": 2,
        "rating": 2,
        "nights": 30,
        "income": 8,
        "fee": 3,
        "checkin": 12,
        "paid": 2,
    }
    assert schema.column("rating").kind == "ordinal"
    assert schema.column("checkin").encode(["31 Jan 2020"]).tolist() == [0]
    assert dict(schema.left_out)["guest"].startswith("sdtype id")
    schema.require_public()


def test_sdv_metadata_of_one_of_several_tables(tmp_path: Path) -> None:
    one = {"METADATA_SPEC_VERSION": "V1", "tables": {"guests": {"columns": {"vip": {"sdtype": "boolean"}}}}}
    assert import_schema(write(tmp_path, "m.json", one)).name == "guests"
    two: dict[str, Any] = {"tables": {"a": {"columns": {}}, "b": {"columns": {}}}}
    with pytest.raises(SchemaError, match="describes 2 tables"):
        import_schema(write(tmp_path, "m.json", two))
    several: list[dict[str, Any]] = [{"tables": {"a": 5}}, {"tables": {"a": {"columns": {}}}}]
    for empty in several:
        with pytest.raises(SchemaError, match="describes no columns"):
            import_schema(write(tmp_path, "m.json", empty))


def test_sdv_columns_of_unknown_type(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "m.json",
        {
            "columns": {
                "x": {"sdtype": "unknown"},
                "y": {"sdtype": "unknown", "pii": True},
                "z": {"sdtype": "city"},
            }
        },
    )
    with pytest.raises(SchemaError, match=r"column 'x' \(sdtype unknown\): kind"):
        import_schema(file)
    given: dict[str, dict[str, Any]] = {
        "x": {"kind": "boolean"},
        "z": {"kind": "categorical", "values": ["LA"]},
    }
    assert import_schema(file, facts=given).names == ("x", "z")


# -- recognition -----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [[1], 5, {}, {"a": "b"}, {"a": {"b": 1}}, {"a": 1.5}])
def test_files_that_are_none_of_them(tmp_path: Path, content: Any) -> None:
    with pytest.raises(SchemaError, match="not recognised"):
        import_schema(write(tmp_path, "x.json", content))


def test_other_mistakes(tmp_path: Path) -> None:
    file = write(tmp_path, "x.json", {"a": 2})
    with pytest.raises(SchemaError, match="No import format named 'arx'"):
        import_schema(file, format="arx")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="bins"):
        import_schema(file, bins=0)
    with pytest.raises(SchemaError, match="must hold a mapping"):
        import_schema(write(tmp_path, "y.json", [1]), format="mbi")
    with pytest.raises(SchemaError, match="Understudy schema already"):
        import_schema(write(tmp_path, "z.yaml", {"columns": [{"name": "x", "kind": "boolean"}]}))
    with pytest.raises(SchemaError, match="There is no file"):
        import_schema(tmp_path / "absent.json")
    assert import_schema(file, format="mbi").names == ("a",)


@pytest.mark.parametrize("value", [["f"], {"f": 1}])
def test_values_of_an_enumeration_that_are_no_single_values_are_refused(tmp_path: Path, value: Any) -> None:
    plain = {
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "recordSet": [
            {
                "@id": "sexes",
                "field": [{"@id": "sexes/name", "dataType": "sc:Text"}],
                "data": [{"name": "m"}, {"name": value}],
            },
            {
                "@id": "rows",
                "field": [
                    {
                        "@id": "rows/sex",
                        "name": "sex",
                        "dataType": "sc:Text",
                        "references": {"field": {"@id": "sexes/name"}},
                    }
                ],
            },
        ],
    }
    with pytest.raises(SchemaError, match="single values"):
        import_schema(write(tmp_path, "croissant.json", plain))


@pytest.mark.parametrize("encoding", ["UPF-8", "shift_jis", "no such encoding"])
def test_codebooks_in_encodings_that_cannot_be_read_are_refused(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "codebook.xml"
    file.write_text(f'<?xml version="1.0" encoding="{encoding}"?><codeBook></codeBook>')
    with pytest.raises(SchemaError, match=r"encoding|XML"):
        import_schema(file)


@pytest.mark.parametrize("low", [-1.5, 0, -(10**400)])
def test_bounds_beyond_every_float_are_refused(tmp_path: Path, low: Any) -> None:
    field = {"name": "a", "type": "integer", "constraints": {"minimum": low, "maximum": 10**400}}
    with pytest.raises(SchemaError):
        import_schema(write(tmp_path, "tableschema.json", {"fields": [field]}))
