"""DDI codebooks (version 2): XML that statistical archives publish with their surveys.

A codebook lists variables with their categories, labels and valid ranges. It also holds statistics of the records (frequencies,
means, smallest and largest values found): those are not public facts, and none is read.

A document type is refused, so that no entity can be declared: neither files nor addresses nor endless expansions.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

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
from understudy.schema.problems import MAX_FILE_BYTES, MAX_NESTING
from understudy.schema.schema import Schema

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def read_codebook(path: str | os.PathLike[str]) -> Element:
    """Read an XML file of bounded size and depth without a document type; names lose their namespaces.

    Raises
    ------
    SchemaError
        If the file cannot be read, is too large, has a document type, or is not well formed.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SchemaError(f"The file {str(file)!r} cannot be read: {error.strerror}.") from None
    if len(content) > MAX_FILE_BYTES:
        raise SchemaError(
            f"The file {str(file)!r} is larger than {MAX_FILE_BYTES >> 20} MB, too large for a codebook."
        )
    return _parse(content, str(file))


def _parse(content: bytes, label: str) -> Element:
    from xml.etree.ElementTree import TreeBuilder

    builder = TreeBuilder()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_NESTING:
            raise SchemaError(f"The file {label!r} is nested too deeply for a codebook.")
        builder.start(_local(tag), {_local(key): value for key, value in attributes.items()})

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_local(tag))

    def refuse(*_: Any) -> None:
        raise SchemaError(
            f"The file {label!r} declares a document type. Remove the <!DOCTYPE ...> part: entities are not read."
        )

    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise SchemaError(f"Not well-formed XML in {label!r}: line {error.lineno}.") from None
    except (LookupError, ValueError) as error:  # encodings that nobody knows, and those of several bytes
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(
            f"The encoding that {label!r} declares cannot be read. Write the file as UTF-8."
        ) from None
    root: Element = builder.close()
    return root


def _local(name: str) -> str:
    return name.rsplit("}", 1)[-1]


def from_ddi(root: Element, *, name: str, facts: Facts, bins: int) -> Schema:
    """Return the schema of a DDI codebook, with the facts it lacks supplied by the caller."""
    variables = list(root.iter("var"))
    if not variables:
        raise SchemaError(
            "The XML file lists no variables (<var>). A DDI codebook of version 2 is expected; export one from other versions."
        )
    names = [variable.get("name") or variable.get("ID") or "" for variable in variables]
    check_fact_names(facts, names)
    columns: list[dict[str, Any]] = []
    needs: list[str] = []
    left_out: dict[str, str] = {}
    for variable, column in zip(variables, names, strict=True):
        given = dict(facts.get(column, {}))
        entry, need = _variable(variable, bins)
        if entry is None and not given:
            left_out[column] = "text without categories is not modelled"
            continue
        entry = {} if entry is None or "kind" in given else entry
        if need and not given.keys() & {"values", "bins", "kind"}:
            lacking = [fact for fact in need if fact not in given]
            if lacking:
                needs.append(f"column {column!r}: {' and '.join(lacking)}")
        columns.append({"name": column, **entry, **given_bounds(entry, given, bins), **given})
    return build(
        name=name,
        description="Imported from a DDI codebook.",
        columns=columns,
        needs=needs,
        left_out=left_out,
    )


def _variable(variable: Element, bins: int) -> tuple[dict[str, Any] | None, list[str]]:
    """Return what the codebook says of a variable, and which facts it needs besides; ``None`` leaves it out."""
    numeric = _is_numeric(variable)
    codes: dict[Any, str] = {}
    absent: list[Any] = []
    for category in variable.findall("catgry"):
        code = _value(_text(category.find("catValu")), numeric=numeric)
        if code is None:
            continue
        if category.get("missing") in ("Y", "true"):
            absent.append(code)
        elif code not in codes:
            codes[code] = _text(category.find("labl"))
    for item in variable.findall("invalrng/item"):
        code = _value(item.get("VALUE") or "", numeric=numeric)
        if code is not None and code not in absent:
            absent.append(code)
            codes.pop(code, None)
    missing: dict[str, Any] = {"missing": True, "missing_values": absent} if absent else {}
    words = described(_text(variable.find("labl")), meaning_of(codes))
    bounds = variable.find("valrng/range")
    low = None if bounds is None else _value(bounds.get("min") or "", numeric=True)
    high = None if bounds is None else _value(bounds.get("max") or "", numeric=True)
    measured = variable.get("intrvl") == "contin"
    if codes and not (measured and low is not None and high is not None):
        return {"kind": "categorical", "values": list(codes), **words, **missing}, []
    if not numeric:
        return None, ["values"]
    decimals = variable.get("dcml") or ""
    whole = (decimals == "0" or not decimals) and all(
        end is None or isinstance(end, int) for end in (low, high)
    )
    entry: dict[str, Any] = {"kind": "integer" if whole else "real", **words, **missing}
    if not whole and decimals.isdigit() and 1 <= int(decimals) <= 15:
        entry["decimals"] = int(decimals)
    if low is None or high is None:
        return entry, ["minimum", "maximum"]
    return entry | number_fields(low, high, whole=whole, bins=bins), []


def _is_numeric(variable: Element) -> bool:
    form = variable.find("varFormat")
    if form is not None and form.get("type"):
        return form.get("type") == "numeric"
    values = [_text(category.find("catValu")) for category in variable.findall("catgry")]
    return variable.get("intrvl") == "contin" or (
        bool(values) and all(_value(text, numeric=True) is not None for text in values)
    )


def _value(text: str, *, numeric: bool) -> int | float | str | None:
    stripped = text.strip()
    if not stripped:
        return None
    if not numeric:
        return stripped
    try:
        number = float(stripped)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def _text(element: Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())
