"""google/dpsynth domains: a YAML mapping of columns to attributes.

A categorical attribute lists ``possible_values``; a numerical one has ``min_value``, ``max_value``, ``dtype``
and ``clip_to_range``. What differs here:

- dpsynth maps an unknown category to ``possible_values[out_of_domain_index]``. Such a silent change of a
  value is not imported: the column refuses unknown values. A ``None`` among the values becomes a missing
  entry, and if it is the out-of-domain value, unknown values become missing.
- dpsynth learns the bins of a numerical attribute from the records with part of the budget. Here they are
  equal-width bins over the bounds; a short range of whole numbers gets one code per number.
- ``clip_to_range: true`` becomes ``clamp``; ``false`` becomes missing, as dpsynth's out-of-domain value is.
- Attributes with unknown categories need them as facts; free text is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.schema.importers.parts import Facts, build, check_fact_names
from understudy.schema.schema import Schema

__all__ = ["from_dpsynth", "looks_like_dpsynth"]

_SHORT_RANGE = 256
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
        elif not (whole and _is_short(low, high)):
            entry["bins"] = bins
    rule = _DECODE.get(str(fields.get("interval_handling", "midpoint")), "midpoint")
    if rule != "midpoint":
        entry["decode_by"] = rule
    if fields.get("clip_to_range", True):
        entry["out_of_domain"] = "clamp"
    else:
        entry |= {"missing": True, "out_of_domain": "to-missing"}
    return entry


def _is_short(low: Any, high: Any) -> bool:
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    return numbers and 0 <= high - low < _SHORT_RANGE
