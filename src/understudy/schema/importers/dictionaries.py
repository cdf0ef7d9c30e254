"""Data dictionaries in JSON: Frictionless Table Schema and Croissant.

Both describe columns for people and for loaders, so they often lack the values a column can take. Where they do, importing
lists the facts that are missing. Fields that name records (primary keys, addresses) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.errors import SchemaError
from understudy.schema.importers.building import (
    Facts,
    build,
    check_fact_names,
    described,
    given_bounds,
    meaning_of,
    number_fields,
)
from understudy.schema.schema import Schema

# ----------------------------------------------------------------------------------------
# Frictionless: a Table Schema (``fields``), or a data package (``resources``) with one table.

_NOT_MODELLED = frozenset({"object", "array", "geopoint", "geojson", "duration", "time", "any", "list"})
_ADDRESSES = frozenset({"email", "uri", "binary", "uuid"})


def looks_like_frictionless(plain: object) -> bool:
    """Whether the content is a Table Schema or a data package."""
    if not isinstance(plain, Mapping):
        return False
    if isinstance(plain.get("resources"), list):
        return True
    fields = plain.get("fields")
    return isinstance(fields, list) and all(
        isinstance(field, Mapping) and "name" in field for field in fields
    )


def from_frictionless(plain: Mapping[str, Any], *, name: str, facts: Facts, bins: int) -> Schema:
    """Return the schema of a Frictionless Table Schema, with the facts it lacks supplied by the caller."""
    table, table_name = _one_resource(plain)
    fields = table.get("fields")
    if not isinstance(fields, list) or not all(
        isinstance(field, Mapping) and "name" in field for field in fields
    ):
        raise SchemaError("The Table Schema must list its fields, each with a name.")
    check_fact_names(facts, [str(field["name"]) for field in fields])
    keys = table.get("primaryKey", [])
    keys = [keys] if isinstance(keys, str) else _listed(keys)
    spellings = [str(text) for text in _listed(table.get("missingValues", [""]))]
    columns: list[dict[str, Any]] = []
    needs: list[str] = []
    left_out: dict[str, str] = {}
    for field in fields:
        column, given = str(field["name"]), dict(facts.get(str(field["name"]), {}))
        if not given and column in keys and len(keys) == 1:
            left_out[column] = "primary key: identifiers are not modelled"
            continue
        entry, need = _frictionless_field(field, bins)
        if entry is None and not given:
            left_out[column] = f"type {field.get('type', 'string')}: not modelled"
            continue
        entry = {} if entry is None or "kind" in given else entry
        entry = {**entry, **_missing(field, spellings), **given_bounds(entry, given, bins)}
        lacking = (
            [] if given.keys() & {"values", "bins", "kind"} else [fact for fact in need if fact not in given]
        )
        if lacking:
            needs.append(f"column {column!r} (type {field.get('type', 'string')}): {' and '.join(lacking)}")
        columns.append({"name": column, **entry, **given})
    return build(
        name=table_name or name,
        description="Imported from a Frictionless Table Schema.",
        columns=columns,
        needs=needs,
        left_out=left_out,
    )


def _one_resource(plain: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    resources = plain.get("resources")
    if not isinstance(resources, list):
        return plain, ""
    tables = [
        (item["schema"], str(item.get("name", "")))
        for item in resources
        if isinstance(item, Mapping) and isinstance(item.get("schema"), Mapping)
    ]
    if len(tables) != 1:
        raise SchemaError(
            f"The data package describes {len(tables)} tables in itself; a schema describes one. Import the Table Schema of the "
            "one you need."
        )
    return tables[0]


def _frictionless_field(field: Mapping[str, Any], bins: int) -> tuple[dict[str, Any] | None, list[str]]:
    """Return what a field says of its column, and which facts it needs besides; ``None`` leaves it out."""
    kind = str(field.get("type", "string"))
    rules = field.get("constraints", {})
    rules = rules if isinstance(rules, Mapping) else {}
    values, labels = _categories(field)
    words = described(str(field.get("description") or field.get("title") or ""), meaning_of(labels))
    listed = values or _listed(rules.get("enum"))
    if kind in _NOT_MODELLED or (kind == "string" and field.get("format") in _ADDRESSES):
        return None, []
    if kind == "boolean":
        spelling = [_listed(field.get(key))[:1] for key in ("falseValues", "trueValues")]
        spelt = {"spelling": [str(text[0]) for text in spelling]} if all(spelling) else {}
        return {"kind": "boolean", **spelt, **words}, []
    if listed:
        ordered = field.get("categoriesOrdered") is True
        return {"kind": "ordinal" if ordered else "categorical", "values": listed, **words}, []
    low, high = rules.get("minimum"), rules.get("maximum")
    bounded = low is not None and high is not None
    if kind in ("integer", "number", "year"):
        whole = kind != "number"
        entry = {"kind": "integer" if whole else "real", **words}
        if bounded:
            entry |= number_fields(_number(low), _number(high), whole=whole, bins=bins)
        return entry, [] if bounded else ["minimum", "maximum"]
    if kind in ("date", "datetime", "yearmonth"):
        entry = {"kind": "date", **words}
        text_format = field.get("format")
        if isinstance(text_format, str) and "%" in text_format:
            entry["format"] = text_format
        if bounded:
            entry |= {"minimum": str(low)[:10], "maximum": str(high)[:10], "resolution": "month"}
        return entry, [] if bounded else ["minimum", "maximum", "resolution"]
    return {"kind": "categorical", **words}, ["values"]


def _categories(field: Mapping[str, Any]) -> tuple[list[Any], dict[Any, str]]:
    """Return the listed categories and their labels: plain values, or objects with a value and a label."""
    values: list[Any] = []
    labels: dict[Any, str] = {}
    for item in _listed(field.get("categories")):
        value = item.get("value") if isinstance(item, Mapping) else item
        if value is None:
            continue
        values.append(value)
        if isinstance(item, Mapping) and item.get("label"):
            labels[value] = str(item["label"])
    return values, labels


def _missing(field: Mapping[str, Any], spellings: list[str]) -> dict[str, Any]:
    rules = field.get("constraints", {})
    if isinstance(rules, Mapping) and rules.get("required") is True:
        return {}
    own = [str(text) for text in _listed(field.get("missingValues"))] or spellings
    further = [text for text in own if text]
    entry: dict[str, Any] = {"missing": True}
    if further:
        entry["missing_values"] = further
    if further and "" not in own:
        entry["missing_text"] = further[0]
    return entry


def _number(value: Any) -> Any:
    """Return a bound as a number; text that is none stays, and the schema complains about it."""
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []


# ----------------------------------------------------------------------------------------
# Croissant: JSON-LD with record sets. Enumerations are record sets that hold their data in the file.

_CROISSANT = {
    "boolean": "boolean",
    "bool": "boolean",
    "integer": "integer",
    "int": "integer",
    "int32": "integer",
    "int64": "integer",
    "float": "real",
    "float32": "real",
    "float64": "real",
    "number": "real",
    "date": "date",
    "datetime": "date",
    "text": "categorical",
    "string": "categorical",
    "enumeration": "categorical",
}


def looks_like_croissant(plain: object) -> bool:
    """Whether the content is Croissant metadata."""
    return isinstance(plain, Mapping) and any(_plain_name(key) == "recordSet" for key in plain)


def from_croissant(plain: Mapping[str, Any], *, name: str, facts: Facts, bins: int) -> Schema:
    """Return the schema of the one table that Croissant metadata describes."""
    sets = [
        _unprefixed(item) for item in _many(_unprefixed(plain).get("recordSet")) if isinstance(item, Mapping)
    ]
    listed = _enumerations(sets)
    tables = [item for item in sets if not isinstance(item.get("data"), list) and _many(item.get("field"))]
    if len(tables) != 1:
        raise SchemaError(
            f"The Croissant metadata describes {len(tables)} record sets without data of their own; a schema describes one. Keep one of them."
        )
    table = tables[0]
    fields = [_unprefixed(item) for item in _many(table.get("field")) if isinstance(item, Mapping)]
    names = [_field_name(field) for field in fields]
    check_fact_names(facts, names)
    keys = {_reference(key).rsplit("/", 1)[-1] for key in _many(table.get("key"))}
    columns: list[dict[str, Any]] = []
    needs: list[str] = []
    left_out: dict[str, str] = {}
    for field, column in zip(fields, names, strict=True):
        given = dict(facts.get(column, {}))
        types = [_plain_name(str(_reference(item))).lower() for item in _many(field.get("dataType"))]
        kind = next((_CROISSANT[item] for item in types if item in _CROISSANT), None)
        source = _unprefixed(field["references"]) if isinstance(field.get("references"), Mapping) else {}
        values = listed.get(_reference(source.get("field", source)))
        if not given and column in keys:
            left_out[column] = "key: identifiers are not modelled"
            continue
        if not given and kind is None and values is None:
            left_out[column] = f"data type {', '.join(types) or 'unknown'}: not modelled"
            continue
        entry: dict[str, Any] = {
            "kind": kind or "categorical",
            **described(str(field.get("description") or ""), ""),
        }
        need = {"integer": ["minimum", "maximum"], "real": ["minimum", "maximum"], "categorical": ["values"]}
        lacking = need.get(str(entry["kind"]), [])
        if entry["kind"] == "date":
            lacking = ["minimum", "maximum", "resolution"]
        if values is not None:
            entry |= {"kind": "categorical", "values": values}
            lacking = []
        entry |= given_bounds(entry, given, bins)
        if not given.keys() & {"values", "bins", "kind"} and any(fact not in given for fact in lacking):
            needs.append(f"column {column!r} ({', '.join(types) or 'no data type'}): {' and '.join(lacking)}")
        columns.append({"name": column, **entry, **given})
    return build(
        name=str(plain.get("name") or name),
        description="Imported from Croissant metadata.",
        columns=columns,
        needs=needs,
        left_out=left_out,
    )


def _enumerations(sets: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of each field of a record set that holds its data in the file, by the field's identifier."""
    found: dict[str, list[Any]] = {}
    for item in sets:
        rows = item.get("data")
        if not isinstance(rows, list):
            continue
        for field in _many(item.get("field")):
            if not isinstance(field, Mapping):
                continue
            key = _reference(field)
            short = key.rsplit("/", 1)[-1]
            values = [
                row[place]
                for row in rows
                if isinstance(row, Mapping)
                for place in (key, short)
                if place in row
            ]
            if not all(isinstance(value, str | int | float | None) for value in values):
                raise SchemaError(
                    f"The values of the field {key!r} in the file are lists or mappings, and not single values."
                )
            if values:
                found[key] = list(dict.fromkeys(values))
                found.setdefault(_reference(item), found[key])
    return found


def _field_name(field: Mapping[str, Any]) -> str:
    """Return the column a field is read from, or its own name."""
    source = field.get("source")
    extract = _unprefixed(source).get("extract") if isinstance(source, Mapping) else None
    column = _unprefixed(extract).get("column") if isinstance(extract, Mapping) else None
    return str(column or field.get("name") or _reference(field).rsplit("/", 1)[-1])


def _reference(item: Any) -> str:
    return str(item.get("@id", item.get("name", ""))) if isinstance(item, Mapping) else str(item)


def _plain_name(key: Any) -> str:
    return str(key).rsplit(":", 1)[-1].rsplit("/", 1)[-1].rsplit("#", 1)[-1]


def _unprefixed(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping whose keys have lost their prefix (``cr:recordSet``), as far as they stay apart."""
    return {key if str(key).startswith("@") else _plain_name(key): value for key, value in item.items()}


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
