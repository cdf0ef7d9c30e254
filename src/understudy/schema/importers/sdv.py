"""SDV metadata: JSON that gives each column an ``sdtype``.

SDV reads categories and bounds from the records, so its metadata lacks exactly the facts that must be public
here. They are therefore required: importing without them is an error that lists each one, and ``facts``
supplies them. Identifiers and personal data (``id``, ``email``, ...) are left out: they are not statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.errors import SchemaError
from understudy.schema.importers.parts import Facts, build, check_fact_names
from understudy.schema.schema import Schema

__all__ = ["from_sdv", "looks_like_sdv"]


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
