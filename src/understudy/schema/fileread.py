"""From plain data to a schema, with everything wrong reported at once and in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from understudy.errors import SchemaError
from understudy.schema.categorical import Boolean, Categorical, Ordinal
from understudy.schema.column import Column
from understudy.schema.date import Date
from understudy.schema.filemodel import COLUMN_PARTS, SchemaPart
from understudy.schema.limits import MAX_COLUMNS, MAX_TOTAL_CODES
from understudy.schema.numeric import Integer, Real
from understudy.schema.problems import did_you_mean, problems_of, raise_problems

if TYPE_CHECKING:
    from understudy.schema.schema import Schema

S = TypeVar("S", bound="Schema")

__all__ = ["column_from_plain", "schema_from_plain"]

_KINDS: dict[str, type[Column]] = {
    "categorical": Categorical,
    "ordinal": Ordinal,
    "boolean": Boolean,
    "integer": Integer,
    "real": Real,
    "date": Date,
}


def schema_from_plain(cls: type[S], plain: object) -> S:
    """Build a schema from plain lists and mappings.

    Raises
    ------
    SchemaError
        Listing everything wrong at once, each with its path such as ``columns[2] 'age'.bins``.
    """
    if not isinstance(plain, Mapping):
        raise SchemaError("A schema file must hold a mapping with the key 'columns'.")
    listed = plain.get("columns")
    if isinstance(listed, list) and len(listed) > MAX_COLUMNS:  # before anything is made of them
        raise SchemaError(
            f"The schema has problems:\n  - columns: {len(listed):,} are more than the {MAX_COLUMNS:,} allowed"
        )
    problems: list[str] = []
    broken: set[int] = set()
    try:
        SchemaPart.model_validate(dict(plain))
    except ValidationError as error:
        for item in error.errors(include_url=False, include_input=False, include_context=True):
            place = item["loc"]
            if len(place) > 1 and place[0] == "columns" and isinstance(place[1], int):
                broken.add(place[1])
            problems.append(_explain(dict(item), plain))
    columns: list[Column] = []
    codes = 0
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if index in broken or not isinstance(item, Mapping):
            continue
        try:
            columns.append(column_from_plain(item))
            codes += columns[-1].size
            if codes > MAX_TOTAL_CODES:  # stop before a small file has filled the memory
                problems.append(f"columns: together they have more than {MAX_TOTAL_CODES:,} codes")
                break
        except SchemaError as error:
            problems += [f"{_path(('columns', index), plain)}: {problem}" for problem in problems_of(error)]
    raise_problems("The schema has problems", problems)
    rest = {key: plain[key] for key in plain if key not in ("version", "columns", "constraints")}
    return cls(tuple(columns), tuple(plain.get("constraints") or ()), **rest)


def column_from_plain(plain: Mapping[str, Any]) -> Column:
    """Build one column from a mapping whose keys and types are right."""
    fields = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in plain.items()
        if key != "kind"
    }
    fields = {key: value for key, value in fields.items() if value is not None}
    build: Callable[..., Column] = _KINDS[plain["kind"]]
    return build(**fields)


def _explain(item: dict[str, Any], plain: Mapping[str, Any]) -> str:
    """Turn one pydantic error into a sentence with a path. Schema files are public, so they may be quoted."""
    place, kind, context = item["loc"], item["type"], item.get("ctx", {})
    key = str(place[-1]) if place else ""
    if kind == "extra_forbidden":
        known = _known_keys(place)
        hint = did_you_mean(key, known)
        return f"{_path(place[:-1], plain)}: unknown key {key!r}.{hint} Known: {', '.join(known)}"
    if kind == "missing":
        return f"{_path(place[:-1], plain)}: the key {key!r} is missing"
    if kind == "union_tag_not_found":
        return f"{_path(place, plain)}: the key 'kind' is missing; write one of {', '.join(_KINDS)}"
    if kind == "union_tag_invalid":
        given = str(context.get("tag", ""))
        hint = did_you_mean(given, _KINDS)
        return f"{_path(place, plain)}: no kind named {given!r}.{hint} Kinds: {', '.join(_KINDS)}"
    if kind == "literal_error":
        return f"{_path(place, plain)}: write one of {context.get('expected', '')}"
    return f"{_path(place, plain)}: {_PLAIN_WORDS.get(kind, item['msg'])}"


_PLAIN_WORDS = {
    "string_type": "must be text (quote it in YAML)",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping with the keys name and kind",
    "string_too_short": "must not be empty",
    "too_short": "must hold at least one entry",
    "too_long": "holds more entries than allowed",
}


def _known_keys(place: tuple[Any, ...]) -> list[str]:
    if len(place) > 2 and place[0] == "columns":
        return list(COLUMN_PARTS[str(place[2])].model_fields)
    return list(SchemaPart.model_fields)


def _path(place: tuple[Any, ...], plain: Mapping[str, Any]) -> str:
    """Return a place such as ``columns[2] 'age'.bins``."""
    parts = list(place)
    path = ""
    if len(parts) > 1 and parts[0] == "columns" and isinstance(parts[1], int):
        path = f"columns[{parts[1]}]"
        listed = plain.get("columns")
        item = listed[parts[1]] if isinstance(listed, list) and parts[1] < len(listed) else None
        if isinstance(item, Mapping) and isinstance(item.get("name"), str):
            path += f" {item['name']!r}"
        parts = parts[2:]
        if parts and parts[0] in _KINDS:
            parts = parts[1:]
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "the file"
