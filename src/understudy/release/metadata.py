"""Machine-readable descriptions of a bundle: Frictionless Data Package and Croissant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from understudy.release.result import ReleaseResult
from understudy.schema import Column

__all__ = ["croissant", "data_package"]

_TABLE_TYPES = {"integer": "integer", "real": "number", "boolean": "boolean", "date": "date"}
_CROISSANT_TYPES = {"integer": "sc:Integer", "real": "sc:Float", "boolean": "sc:Boolean", "date": "sc:Date"}
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
    for column in result.schema.columns:
        kind = "string" if _is_text(column, result) else _TABLE_TYPES.get(column.kind, "string")
        field: dict[str, Any] = {"name": column.name, "type": kind, "description": column.description or ""}
        if kind == "string":
            field["constraints"] = {"enum": [str(label) for label in column.labels if label]}
        fields.append(field)
    return {
        "profile": "data-package",
        "name": result.spec.name.lower().replace(" ", "-").replace("_", "-"),
        "title": result.spec.title or result.spec.name,
        "description": result.spec.description,
        "created": f"{result.finished[:10]}T00:00:00Z",
        **({"licenses": [_licence(result.spec.license)]} if result.spec.license else {}),
        "resources": [_resource(name, *told, fields) for name, told in data.items()],
    }


def _licence(words: str) -> dict[str, str]:
    """Return a licence as Data Package wants it: by address, or by name."""
    return {"path" if "://" in words else "name": words}


def _resource(name: str, digest: str, size: int, fields: list[dict[str, Any]]) -> dict[str, Any]:
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
        {"type": "file"} if kind == "parquet" else {"schema": {"fields": fields, "missingValues": [""]}}
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
    identifiers = _identifiers([column.name for column in result.schema.columns])
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": result.spec.name,
        "description": result.spec.description or result.spec.title or result.spec.name,
        "datePublished": result.finished[:10],
        "version": "1.0.0",
        **({"license": result.spec.license} if result.spec.license else {}),
        **({"citeAs": result.spec.citation} if result.spec.citation else {}),
        "rai:personalSensitiveInformation": f"Synthetic rows; {result.guarantee.describe()}",
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
            {
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
                ],
            }
        ],
    }
