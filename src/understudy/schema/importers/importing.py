"""Recognising another tool's domain file and reading it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from understudy.errors import SchemaError
from understudy.schema.files.yaml import read_plain
from understudy.schema.importers.building import Facts, build, check_fact_names, is_short
from understudy.schema.importers.ddi import from_ddi, read_codebook
from understudy.schema.importers.dictionaries import (
    from_croissant,
    from_frictionless,
    looks_like_croissant,
    looks_like_frictionless,
)
from understudy.schema.problems import MAX_CODES, raise_problems
from understudy.schema.schema import Schema

# ----------------------------------------------------------------------------------------
# mbi (Private-PGM) domains: ``{"age": 85, "sex": 2}`` says that age takes the values 0 to 84.


def looks_like_mbi(plain: object) -> bool:
    """Whether the content is a mapping of columns to sizes (or lists of attributes and shape)."""
    if not isinstance(plain, Mapping) or not plain:
        return False
    if set(plain) == {"attributes", "shape"}:
        return isinstance(plain["attributes"], list) and isinstance(plain["shape"], list)
    return all(isinstance(size, int) and not isinstance(size, bool) for size in plain.values())


def from_mbi(plain: Mapping[str, Any], *, name: str, facts: Facts) -> Schema:
    """Return the schema of an mbi domain: each column holds the whole numbers from 0 to its size less one."""
    sizes = _sizes(plain)
    check_fact_names(facts, list(sizes))
    problems = [
        f"column {column!r}: the size must be a whole number from 1 to {MAX_CODES:,}"
        for column, size in sizes.items()
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_CODES
    ]
    raise_problems("The mbi domain has problems", problems)
    columns = []
    for column, size in sizes.items():
        entry = {"name": column, "kind": "integer", "minimum": 0, "maximum": size - 1}
        if facts.get(column, {}).keys() & {"kind", "values", "bins"}:
            entry = {"name": column, "kind": "integer"}
        columns.append({**entry, **facts.get(column, {})})
    return build(name=name, description="Imported from an mbi domain file.", columns=columns, needs=[])


def _sizes(plain: Mapping[str, Any]) -> dict[str, Any]:
    if set(plain) != {"attributes", "shape"} or not looks_like_mbi(plain):
        return {str(column): size for column, size in plain.items()}
    names, sizes = plain["attributes"], plain["shape"]
    if len(names) != len(sizes) or len(set(map(str, names))) != len(names):
        raise SchemaError("The mbi domain has problems:\n  - attributes and shape must agree, each name once")
    return {str(column): size for column, size in zip(names, sizes, strict=True)}


# ----------------------------------------------------------------------------------------
# SDV metadata: JSON that gives each column an ``sdtype``.
#
# SDV reads categories and bounds from the records, so its metadata lacks exactly the facts that must be public
# here. They are therefore required: importing without them is an error that lists each one, and ``facts``
# supplies them. Identifiers and personal data (``id``, ``email``, ...) are left out: they are not statistics.


def looks_like_sdv(plain: object) -> bool:
    """Whether the content is SDV metadata of one table or of several."""
    if not isinstance(plain, Mapping):
        return False
    if isinstance(plain.get("tables"), Mapping):
        return True
    columns = plain.get("columns")
    return isinstance(columns, Mapping) and any(
        isinstance(column, Mapping) and "sdtype" in column for column in columns.values()
    )


def from_sdv(plain: Mapping[str, Any], *, name: str, facts: Facts, bins: int) -> Schema:
    """Return the schema of SDV metadata, with the facts it lacks supplied by the caller."""
    table, table_name = _single_table(plain)
    described = table.get("columns")
    if not isinstance(described, Mapping) or not described:
        raise SchemaError("The SDV metadata describes no columns.")
    check_fact_names(facts, [str(column) for column in described])
    columns: list[dict[str, Any]] = []
    needs: list[str] = []
    left_out: dict[str, str] = {}
    for key, fields in described.items():
        column = str(key)
        given = dict(facts.get(column, {}))
        sdtype = str(fields.get("sdtype", "unknown")) if isinstance(fields, Mapping) else "unknown"
        entry, need = _column(sdtype, fields if isinstance(fields, Mapping) else {}, given, bins)
        if entry is None:
            left_out[column] = f"sdtype {sdtype}: identifiers and personal data are not modelled"
            continue
        missing = [fact for fact in need if fact not in given]
        if missing and "values" not in given:
            needs.append(f"column {column!r} (sdtype {sdtype}): {' and '.join(missing)}")
        columns.append({"name": column, **entry, **given})
    return build(
        name=table_name or name,
        description="Imported from SDV metadata.",
        columns=columns,
        needs=needs,
        left_out=left_out,
    )


def _single_table(plain: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    tables = plain.get("tables")
    if not isinstance(tables, Mapping):
        return plain, ""
    if len(tables) != 1:
        raise SchemaError(
            f"The SDV metadata describes {len(tables)} tables; a schema describes one. Keep one of them."
        )
    (name, table), *_ = tables.items()
    if not isinstance(table, Mapping):
        raise SchemaError("The SDV metadata describes no columns.")
    return table, str(name)


def _column(
    sdtype: str, fields: Mapping[str, Any], given: Mapping[str, Any], bins: int
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return what the metadata says of a column, and which facts it needs besides; ``None`` leaves it out."""
    if "kind" in given:
        return {}, []
    if sdtype == "boolean":
        return {"kind": "boolean"}, []
    if sdtype == "categorical":
        if isinstance(fields.get("order"), list):
            return {"kind": "ordinal", "values": fields["order"]}, []
        return {"kind": "categorical"}, ["values"]
    if sdtype == "numerical":
        whole = str(fields.get("computer_representation", "")).lstrip("U").startswith("Int")
        entry: dict[str, Any] = {"kind": "integer" if whole else "real"}
        if not given.keys() & {"values", "bins"} and (not whole or _is_long(given)):
            entry["bins"] = bins
        return entry, [] if isinstance(given.get("bins"), list | dict) else ["minimum", "maximum"]
    if sdtype == "datetime":
        entry = {"kind": "date"}
        text_format = fields.get("datetime_format")
        if isinstance(text_format, str) and not text_format.startswith("%Y-%m-%d"):
            entry["format"] = text_format
        return entry, [] if "bins" in given else ["minimum", "maximum", "resolution"]
    if sdtype == "unknown" and not given and fields.get("pii") is not True:
        return {}, ["kind", "its facts"]
    return ({} if given else None), ["kind"]


def _is_long(given: Mapping[str, Any]) -> bool:
    low, high = given.get("minimum"), given.get("maximum")
    return isinstance(low, int) and isinstance(high, int) and high - low >= 256


# ----------------------------------------------------------------------------------------
# google/dpsynth domains: a YAML mapping of columns to attributes.
#
# A categorical attribute lists ``possible_values``; a numerical one has ``min_value``, ``max_value``, ``dtype``
# and ``clip_to_range``. What differs here:
#
# - dpsynth maps an unknown category to ``possible_values[out_of_domain_index]``. Such a silent change of a
#   value is not imported: the column refuses unknown values. A ``None`` among the values becomes a missing
#   entry, and if it is the out-of-domain value, unknown values become missing.
# - dpsynth learns the bins of a numerical attribute from the records with part of the budget. Here they are
#   equal-width bins over the bounds; a short range of whole numbers gets one code per number.
# - ``clip_to_range: true`` becomes ``clamp``; ``false`` becomes missing, as dpsynth's out-of-domain value is.
# - Attributes with unknown categories need them as facts; free text is left out.

_CLASSES = (
    "CategoricalAttribute",
    "NumericalAttribute",
    "OpenSetCategoricalAttribute",
    "FreeFormTextAttribute",
)
_DECODE = {"midpoint": "midpoint", "sample": "uniform", "interval": "label"}


def looks_like_dpsynth(plain: object) -> bool:
    """Whether the content is a mapping of columns to attributes."""
    if not isinstance(plain, Mapping) or not plain:
        return False
    return any(
        isinstance(attribute, Mapping)
        and (
            attribute.get("type") in _CLASSES
            or attribute.keys() & {"possible_values", "min_value", "max_tokens"}
        )
        for attribute in plain.values()
    )


def from_dpsynth(plain: Mapping[str, Any], *, name: str, facts: Facts, bins: int) -> Schema:
    """Return the schema of a dpsynth domain."""
    check_fact_names(facts, [str(column) for column in plain])
    columns: list[dict[str, Any]] = []
    needs: list[str] = []
    left_out: dict[str, str] = {}
    for key, attribute in plain.items():
        column = str(key)
        given = dict(facts.get(column, {}))
        fields = attribute if isinstance(attribute, Mapping) else {}
        kind = fields.get("type")
        entry: dict[str, Any] = {"name": column}
        if isinstance(fields.get("description"), str):
            entry["description"] = fields["description"]
        if kind == "CategoricalAttribute" or "possible_values" in fields:
            entry |= _categorical(fields)
        elif kind == "NumericalAttribute" or "min_value" in fields:
            entry |= _numerical(fields, bins, given)
        elif kind == "FreeFormTextAttribute" or "max_tokens" in fields:
            if not given:
                left_out[column] = "free text, which is not modelled"
                continue
        elif "values" not in given:
            needs.append(f"column {column!r}: values (its categories are not listed in the file)")
            continue
        else:
            entry["kind"] = "categorical"
        columns.append({**entry, **given})
    return build(
        name=name,
        description="Imported from a google/dpsynth domain file.",
        columns=columns,
        needs=needs,
        left_out=left_out,
    )


def _categorical(fields: Mapping[str, Any]) -> dict[str, Any]:
    values = fields.get("possible_values")
    if not isinstance(values, list):
        return {"kind": "categorical", "values": values}
    if values and all(isinstance(value, bool) for value in values) and len(set(values)) == 2:
        return {"kind": "boolean"}
    entry: dict[str, Any] = {
        "kind": "categorical",
        "values": [value for value in values if value is not None],
    }
    if None in values:
        entry["missing"] = True
        index = fields.get("out_of_domain_index", 0)
        if isinstance(index, int) and 0 <= index < len(values) and values[index] is None:
            entry["out_of_domain"] = "to-missing"
    return entry


def _numerical(fields: Mapping[str, Any], bins: int, given: Mapping[str, Any]) -> dict[str, Any]:
    whole = fields.get("dtype") == "int"
    low, high = fields.get("min_value"), fields.get("max_value")
    entry: dict[str, Any] = {"kind": "integer" if whole else "real"}
    if "values" not in given:
        entry |= {"minimum": low, "maximum": high}
        edges = fields.get("bin_edges")
        if edges:
            entry["bins"] = edges
        elif not (whole and is_short(low, high)):
            entry["bins"] = bins
    rule = _DECODE.get(str(fields.get("interval_handling", "midpoint")), "midpoint")
    if rule != "midpoint":
        entry["decode_by"] = rule
    if fields.get("clip_to_range", True):
        entry["out_of_domain"] = "clamp"
    else:
        entry |= {"missing": True, "out_of_domain": "to-missing"}
    return entry


ImportFormat: TypeAlias = Literal["mbi", "dpsynth", "sdv", "frictionless", "croissant", "ddi"]
FORMATS: tuple[str, ...] = get_args(ImportFormat)


def import_schema(
    path: str | os.PathLike[str],
    *,
    format: ImportFormat | None = None,
    facts: Facts | None = None,
    bins: int = 32,
) -> Schema:
    """Read the domain file of another tool as a schema.

    Parameters
    ----------
    path
        An mbi ``{column: size}`` JSON file, a google/dpsynth ``domain.yaml``, SDV metadata JSON, a Frictionless Table Schema or
        data package, Croissant metadata, or a DDI codebook (``.xml``).
    format
        Which of them it is; recognised by its content if left out.
    facts
        Public facts that the file lacks, or that replace its own: for each column a mapping as in a schema
        file, such as ``{"age": {"minimum": 0, "maximum": 110}}``.
    bins
        Number of equal-width bins for numeric columns with bounds but without bins.

    Returns
    -------
    Schema
        Every fact in it was stated by the owner of the file, so all are public.

    Raises
    ------
    SchemaError
        If the file is none of these, or does not say what values a column can take. The message lists
        each missing fact.

    Privacy
    -------
    Only the file is read, never a table. A domain file that was itself computed from records is not public;
    who imports it declares that it is.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "toy-domain.json")
    ...     _ = file.write_text(json.dumps({"age": 85, "sex": 2}))
    ...     import_schema(file)
    Schema('toy': 2 columns, 170 cells)
    """
    if format is not None and format not in FORMATS:
        raise SchemaError(f"No import format named {format!r}. Known: {', '.join(FORMATS)}.")
    codebook = format == "ddi" or (format is None and Path(path).suffix.lower() == ".xml")
    plain = {} if codebook else read_plain(path)
    kind = "ddi" if codebook else format or _recognise(plain)
    if not isinstance(plain, Mapping):
        raise SchemaError("The domain file must hold a mapping.")
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise SchemaError(f"bins ({bins}) must be a positive whole number.")
    name = _name(path)
    given: dict[str, dict[str, Any]] = {str(key): dict(value) for key, value in (facts or {}).items()}
    if kind == "ddi":
        return from_ddi(read_codebook(path), name=name, facts=given, bins=bins)
    if kind == "frictionless":
        return from_frictionless(plain, name=name, facts=given, bins=bins)
    if kind == "croissant":
        return from_croissant(plain, name=name, facts=given, bins=bins)
    if kind == "mbi":
        return from_mbi(plain, name=name, facts=given)
    if kind == "dpsynth":
        return from_dpsynth(plain, name=name, facts=given, bins=bins)
    return from_sdv(plain, name=name, facts=given, bins=bins)


def _recognise(plain: object) -> str:
    if looks_like_croissant(plain):
        return "croissant"
    if looks_like_frictionless(plain):
        return "frictionless"
    if looks_like_sdv(plain):
        return "sdv"
    if looks_like_mbi(plain):
        return "mbi"
    if looks_like_dpsynth(plain):
        return "dpsynth"
    if isinstance(plain, Mapping) and isinstance(plain.get("columns"), list):
        raise SchemaError("This is an Understudy schema already; read it with Schema.read.")
    raise SchemaError(
        "The file is not recognised. Known are an mbi domain ({column: size}), a google/dpsynth domain.yaml "
        "(possible_values, or min_value and max_value, for each column), SDV metadata (sdtype for each column), a "
        "Frictionless Table Schema (fields), Croissant metadata (recordSet) and DDI codebooks (.xml)."
    )


def _name(path: str | os.PathLike[str]) -> str:
    stem = Path(path).name.split(".")[0]
    for ending in ("-domain", "_domain", "-metadata", "_metadata"):
        stem = stem.removesuffix(ending)
    return stem
