"""Descriptions of a bundle that machines read: Frictionless Data Package, CSV on the Web, Croissant, Datasette."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from understudy.release.result import ReleaseResult
from understudy.schema import Column, Schema
from understudy.schema.constraints.derived import DerivedColumn
from understudy.schema.linked import package_of, register_package

__all__ = [
    "SYNTHETIC",
    "about_derived",
    "croissant",
    "csv_companion",
    "data_package",
    "datasette",
    "described",
]

SYNTHETIC = "Synthetic data: no row is the record of a person. Made under differential privacy; not a copy, and not a leak, of the real table."
"""What stands beside the plain flag wherever rows are described, so that nobody takes them for a breach."""
_KEYWORDS = ["synthetic", "differential privacy"]

_TABLE_TYPES = {"integer": "integer", "real": "number", "boolean": "boolean", "date": "date"}
_CROISSANT_TYPES = {"integer": "sc:Integer", "real": "sc:Float", "boolean": "sc:Boolean", "date": "sc:Date"}
_CROISSANT_OF_TABLE = {kind: _CROISSANT_TYPES[ours] for ours, kind in _TABLE_TYPES.items()}
_MEDIA = {"csv": "text/csv", "csv.gz": "application/gzip", "parquet": "application/vnd.apache.parquet"}

_CROISSANT_TERMS = (
    "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty", "fileSet", "format",
    "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex",
    "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
)  # fmt: skip
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _CROISSANT_TERMS},
}
"""The vocabulary of Croissant 1.0."""


def _is_text(column: Column, result: ReleaseResult) -> bool:
    """Say whether a column was decoded to labels rather than to numbers or dates."""
    return (
        str(result.synthetic[column.name].dtype) in {"object", "str", "string", "category"}
        and column.kind != "date"
    )


def data_package(result: ReleaseResult, data: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """Return a Data Package descriptor; ``data`` maps file names to hash and size."""
    fields = []
    for column in () if result.parts else result.schema.columns:
        kind = "string" if _is_text(column, result) else _TABLE_TYPES.get(column.kind, "string")
        own = getattr(column, "spelling", None)
        if own is not None and column.other_code is None:
            kind = "boolean"
        field: dict[str, Any] = {"name": column.name, "type": kind, "description": column.description or ""}
        if kind == "boolean" and own is not None:
            field |= {"falseValues": [own[0]], "trueValues": [own[1]]}
        if kind == "string":
            field["constraints"] = {"enum": [str(label) for label in column.finest.labels if label]}
        fields.append(field)
    fields += [
        {
            "name": item.name,
            "type": _type_of(item.name, result, _TABLE_TYPES, "string"),
            "description": about_derived(item),
        }
        for item in result.schema.derived
    ]
    order = {name: place for place, name in enumerate(result.schema.output_names)}
    fields.sort(key=lambda field: order[field["name"]])
    fields = [
        *({"name": name, "type": "integer", "description": words} for name, words in _ids(result).items()),
        *fields,
    ]
    linked = _linked_resources(result, data)
    return {
        "profile": "data-package",
        "name": result.spec.name.lower().replace(" ", "-").replace("_", "-"),
        "title": result.spec.title or result.spec.name,
        "description": described(result),
        "synthetic": True,
        "keywords": list(_KEYWORDS),
        "created": f"{result.finished[:10]}T00:00:00Z",
        **({"licenses": [_licence(result.spec.license)]} if result.spec.license else {}),
        "resources": [
            _resource(name, *told, fields, _missing_texts(result.schema))
            for name, told in data.items()
            if name not in linked
        ]
        + list(linked.values()),
    }


def _ids(result: ReleaseResult) -> dict[str, str]:
    """Return the column of fresh numbers that says whose a row is, with words about it, where there is one."""
    entity = result.schema.entity
    if entity is None:
        return {}
    key = (entity.reference or entity.id) if entity.tables is not None else entity.id
    return {key: f"Whose the row is: a fresh number for each {entity.id}."} if key in result.synthetic else {}


def _linked_resources(
    result: ReleaseResult, data: Mapping[str, tuple[str, int]]
) -> dict[str, dict[str, Any]]:
    """Return the description of each file of linked tables, with primary and foreign keys; none for one table."""
    found: dict[str, dict[str, Any]] = {}
    named = [name for name in data if name.startswith("tables/")]
    if not named:
        return found
    csv = {name.split("/")[1].removesuffix(".csv"): name for name in named if name.endswith(".csv")}
    package = (
        register_package([part.schema for part in result.parts.values()], result.tables, csv)
        if result.parts
        else package_of(result.schema, result.tables, csv)
    )
    described_tables = {item["path"]: item for item in package["resources"]}
    for name in named:
        digest, size = data[name]
        stem, _, kind = name.split("/")[1].partition(".")
        made = _resource(name, digest, size, [], [])
        made["name"] = f"{stem.lower()}-{kind.replace('.', '-')}"
        if name in described_tables:  # the one that keys point to has the name that they use
            made |= {key: described_tables[name][key] for key in ("name", "description", "schema")}
        found[name] = made
    return found


def _type_of(name: str, result: ReleaseResult, types: Mapping[str, str], text: str) -> str:
    """Return the type of a derived column, by how it is stored."""
    stored = result.synthetic[name].dtype
    kinds = {"M": "date", "i": "integer", "u": "integer", "f": "real"}
    return types.get(kinds.get(getattr(stored, "kind", "O"), ""), text)


def about_derived(item: DerivedColumn) -> str:
    """Say what a derived column is."""
    return f"{item.description} (computed: {item.value})" if item.description else f"Computed: {item.value}"


def _licence(words: str) -> dict[str, str]:
    """Return a licence as Data Package wants it: by address, or by name."""
    return {"path" if "://" in words else "name": words}


def _missing_texts(schema: Schema) -> list[str]:
    """Return how missing entries are written; a text that is a value of another column is told in the dictionary alone."""
    values = {label for column in schema.columns for label in column.value_labels}
    texts = dict.fromkeys(column.missing_text for column in schema.columns)
    return ["", *(text for text in texts if text and text not in values)]


def _resource(
    name: str, digest: str, size: int, fields: list[dict[str, Any]], missing: list[str]
) -> dict[str, Any]:
    """Describe one file; only CSV is a table to Frictionless, other formats are files."""
    kind = name.split(".", 1)[-1]
    told: dict[str, Any] = {
        "profile": "data-resource" if kind == "parquet" else "tabular-data-resource",
        "name": f"data-{kind.replace('.', '-')}",
        "path": name,
        "format": kind.split(".")[0],
        "mediatype": _MEDIA[kind],
        "hash": f"sha256:{digest}",
        "bytes": size,
    }
    return told | (
        {"type": "file"} if kind == "parquet" else {"schema": {"fields": fields, "missingValues": missing}}
    )


def _identifiers(names: Sequence[str]) -> dict[str, str]:
    """Return a name for each column that Croissant accepts as an identifier: without blanks, and unique.

    Examples
    --------
    >>> _identifiers(["age", "day of birth", "day_of_birth"])
    {'age': 'age', 'day of birth': 'day_of_birth-2', 'day_of_birth': 'day_of_birth'}
    """
    found = {name: name for name in names if not re.search(r"\s", name)}
    for place, name in enumerate(names, start=1):
        plain = re.sub(r"\s+", "_", name)
        while name not in found and plain in found.values():
            plain = f"{plain}-{place}"
        found.setdefault(name, plain)
    return {name: found[name] for name in names}


def croissant(result: ReleaseResult, data: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """Return a Croissant (MLCommons) description of the table."""
    first = next(iter(data))
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": result.spec.name,
        "description": described(result),
        "keywords": list(_KEYWORDS),
        "datePublished": result.finished[:10],
        "version": "1.0.0",
        **({"license": result.spec.license} if result.spec.license else {}),
        **({"citeAs": result.spec.citation} if result.spec.citation else {}),
        "rai:personalSensitiveInformation": f"{SYNTHETIC} {result.guarantee.describe()}",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "encodingFormat": _MEDIA[name.split(".", 1)[-1]],
                "sha256": digest,
                "contentSize": f"{size} B",
            }
            for name, (digest, size) in data.items()
        ],
        "recordSet": [
            *([] if result.parts else [_rows_set(result, first)]),
            *_linked_record_sets(result, data),
        ],
    }


def _rows_set(result: ReleaseResult, first: str) -> dict[str, Any]:
    """Return the record set of the one table, or of the events with the columns of their entity beside them."""
    identifiers = _identifiers(result.schema.output_names)
    return {
        "@type": "cr:RecordSet",
        "@id": "rows",
        "name": "rows",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"rows/{identifiers[column.name]}",
                "name": column.name,
                "description": column.description or column.name,
                "dataType": "sc:Text"
                if _is_text(column, result)
                else _CROISSANT_TYPES.get(column.kind, "sc:Text"),
                "source": {"fileObject": {"@id": first}, "extract": {"column": column.name}},
            }
            for column in result.schema.columns
        ]
        + [
            {
                "@type": "cr:Field",
                "@id": f"rows/{identifiers[item.name]}",
                "name": item.name,
                "description": about_derived(item),
                "dataType": _type_of(item.name, result, _CROISSANT_TYPES, "sc:Text"),
                "source": {"fileObject": {"@id": first}, "extract": {"column": item.name}},
            }
            for item in result.schema.derived
        ]
        + [
            {
                "@type": "cr:Field",
                "@id": f"rows/{_identifiers([name])[name]}",
                "name": name,
                "description": words,
                "dataType": "sc:Integer",
                "source": {"fileObject": {"@id": first}, "extract": {"column": name}},
            }
            for name, words in _ids(result).items()
        ],
    }


def _linked_record_sets(result: ReleaseResult, data: Mapping[str, tuple[str, int]]) -> list[dict[str, Any]]:
    """Return a record set for each of the linked tables: the key of the entities, and the field of the events that refers to it."""
    found = [part.schema.entity for part in result.parts.values()] or [result.schema.entity]
    resources = {item["path"]: item for item in _linked_resources(result, data).values() if "schema" in item}
    of = {
        name: entity
        for entity in found
        if entity is not None and entity.tables is not None
        for name in entity.tables
    }
    if not of or not resources:
        return []
    sets = []
    for name, table in result.tables.items():
        entity = of[name]
        assert entity.tables is not None
        file = f"tables/{name}.csv"
        identifiers = _identifiers([str(column) for column in table.columns])
        is_parent = name == entity.tables[0]
        points = entity.id if is_parent else entity.reference or entity.id
        fields = []
        for field in resources[file]["schema"]["fields"]:
            made = {
                "@type": "cr:Field",
                "@id": f"{name}/{identifiers[field['name']]}",
                "name": field["name"],
                "description": field["description"] or field["name"],
                "dataType": _CROISSANT_OF_TABLE.get(field["type"], "sc:Text"),
                "source": {"fileObject": {"@id": file}, "extract": {"column": field["name"]}},
            }
            if field["name"] == points and not is_parent and entity.tables[0] in result.tables:
                parent = _identifiers([str(column) for column in result.tables[entity.tables[0]].columns])
                made["references"] = {"field": {"@id": f"{entity.tables[0]}/{parent[entity.id]}"}}
            fields.append(made)
        key = {"key": {"@id": f"{name}/{identifiers[entity.id]}"}} if is_parent else {}
        sets.append({"@type": "cr:RecordSet", "@id": name, "name": name, **key, "field": fields})
    return sets


def described(result: ReleaseResult) -> str:
    """Return what a table holds in the words of its specification, after the words that say it is synthetic."""
    about = " ".join((result.spec.description or result.spec.title or result.spec.name).split())
    return f"{SYNTHETIC} {about}"


def csv_companion(result: ReleaseResult, data: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """Return the description that CSV on the Web (W3C, 17 December 2015) looks for beside ``data.csv``.

    CSV has no place for a word about itself, so the plain flag stands here, among the notes.
    """
    fields = data_package(result, data)["resources"][0]["schema"]["fields"]
    return {
        "@context": "http://www.w3.org/ns/csvw",
        "url": "data.csv",
        "dc:title": result.spec.title or result.spec.name,
        "dc:description": described(result),
        **({"dc:license": result.spec.license} if result.spec.license else {}),
        "notes": [{"synthetic": True, "meaning": SYNTHETIC}],
        "tableSchema": {
            "columns": [
                {
                    "titles": field["name"],
                    **({"dc:description": field["description"]} if field["description"] else {}),
                    "datatype": field["type"],
                }
                for field in fields
            ]
        },
    }


def datasette(result: ReleaseResult) -> dict[str, Any]:
    """Return metadata for Datasette, which shows a table of a SQLite file: ``data.csv`` read into the table ``data`` of ``data.db``."""
    licence = result.spec.license
    units = {column.name: column.unit for column in result.schema.columns}
    about = {column.name: column.description or "" for column in result.schema.columns}
    about |= {item.name: about_derived(item) for item in result.schema.derived}
    columns = _ids(result) | {
        name: " ".join(filter(None, [about[name], f"({units[name]})" if units.get(name) else ""])) or name
        for name in result.schema.output_names
    }
    table = {
        "title": result.spec.title or result.spec.name,
        "description": described(result),
        "columns": columns,
    }
    return {
        "title": f"{result.spec.title or result.spec.name} (synthetic)",
        "description": f"{described(result)} {result.guarantee.describe()}",
        **({"license": licence} if licence else {}),
        **({"license_url": licence} if licence.startswith(("https://", "http://")) else {}),
        **({"source": result.spec.citation} if result.spec.citation else {}),
        "databases": {"data": {"tables": {"data": table}}},
    }
