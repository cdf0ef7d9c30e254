"""From plain data to a schema, with everything wrong reported at once and in plain words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from understudy.errors import SchemaError
from understudy.schema.coding.within import MAX_DECIMALS
from understudy.schema.columns.categorical import Boolean, Categorical, Ordinal
from understudy.schema.columns.column import Column
from understudy.schema.columns.date import Date
from understudy.schema.columns.levels import DEFAULT_MOST, DEFAULT_SHARE
from understudy.schema.columns.numeric import Integer, Real
from understudy.schema.entities import DEFAULT_MAX_EVENTS, MOST_EVENTS, ORPHANS
from understudy.schema.files.lists import without_lists
from understudy.schema.hierarchies.shipped import SHIPPED, SHIPPED_LISTS
from understudy.schema.linked import joined
from understudy.schema.problems import (
    MAX_CODES,
    MAX_COLUMNS,
    MAX_CONSTRAINTS,
    MAX_TOTAL_CODES,
    did_you_mean,
    problems_of,
    raise_problems,
)
from understudy.schema.summaries import WAYS
from understudy.schema.weights import DEFAULT_BINS, MOST_BINS

if TYPE_CHECKING:
    from understudy.schema.schema import Schema


# ----------------------------------------------------------------------------------------
# The shape of schema files, as pydantic models: it checks keys and types and publishes the JSON Schema.
#
# What the facts mean together (do bins overlap, is a value listed twice) is checked by the columns themselves.
# Both kinds of problem are gathered and reported in one error, each with its path in the file.

_NUMBER: dict[str, Any] = {"type": "number"}
_PLAIN_VALUE: dict[str, Any] = {"type": ["string", "number"]}
_ORIGIN_WORD: dict[str, Any] = {"enum": ["public", "measured", "from-data"]}

_NAME_OF_LIST: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["list"],
    "properties": {"list": {"type": "string", "description": "Name of a list under lists."}},
}


def _listed(item: dict[str, Any]) -> dict[str, Any]:
    values = {"type": "array", "items": item, "minItems": 1, "maxItems": MAX_CODES}
    return {"anyOf": [values, _NAME_OF_LIST]}


Values = Annotated[Any, WithJsonSchema(_listed(_PLAIN_VALUE))]
Numbers = Annotated[Any, WithJsonSchema(_listed(_NUMBER))]
_NESTED_GROUPS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": ["object", "array"]}}
GroupsOfValues = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "prefix": {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1},
                "groups": _NESTED_GROUPS,
                "file": {"type": "string", "description": "A CSV file: a value, its group, larger groups."},
                "shipped": {"enum": list(SHIPPED)},
                "at": {"type": "integer", "minimum": 1},
                "within": {"enum": ["measured", "even"], "default": "measured"},
                "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5, "default": DEFAULT_SHARE},
                "most": {"type": "integer", "minimum": 2, "default": DEFAULT_MOST},
                "cut": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                "weights": {"type": "array", "items": {"type": "number", "minimum": 0}},
            },
        }
    ),
]
ListOfValues = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": _PLAIN_VALUE, "minItems": 1, "maxItems": MAX_CODES},
                {"type": "string", "description": "A file with one value per line."},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["shipped"],
                    "properties": {"shipped": {"enum": list(SHIPPED_LISTS)}},
                },
            ]
        }
    ),
]
WholeNumber = Annotated[Any, WithJsonSchema({"type": "integer"})]
RealNumber = Annotated[Any, WithJsonSchema(_NUMBER)]
DayText = Annotated[Any, WithJsonSchema({"type": "string", "format": "date"})]
Spellings = Annotated[Any, WithJsonSchema({"type": "array", "items": _PLAIN_VALUE})]
Origins = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [_ORIGIN_WORD, {"type": "object", "additionalProperties": _ORIGIN_WORD}],
            "default": "public",
        }
    ),
]
_EDGES_OBJECT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "labels": {"type": "array", "items": _PLAIN_VALUE, "minItems": 1},
        "edges": {"type": "array", "items": _PLAIN_VALUE, "minItems": 1},
        "count": {"type": "integer", "minimum": 1, "maximum": MAX_CODES},
        "open": {"enum": ["none", "low", "high", "both"], "default": "none"},
        "closed": {"enum": ["left", "right"], "default": "left"},
    },
}
BinsOfNumbers = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MAX_CODES},
                {"type": "array", "items": _PLAIN_VALUE, "minItems": 1},
                _EDGES_OBJECT,
            ]
        }
    ),
]
BinsOfDates = Annotated[
    Any,
    WithJsonSchema(
        {"anyOf": [{"type": "array", "items": {"type": "string", "format": "date"}}, _EDGES_OBJECT]}
    ),
]
Policy = Literal["refuse", "clamp", "to-missing", "to-other", "to-nearest"]
DecodeNumber = Literal["midpoint", "uniform", "integer-uniform", "smooth", "edge", "label"]
TwoTexts = Annotated[
    Any,
    WithJsonSchema(
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2, "maxItems": 2}
    ),
]
DecimalMark = Annotated[Any, WithJsonSchema({"enum": [".", ","]})]
Decimals = Annotated[Any, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MAX_DECIMALS})]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _ColumnPart(_Part):
    name: str = Field(description="Name of the column in the table.", min_length=1)
    description: str = Field("", description="What the column means, for people.")
    unit: str = Field("", description="Unit of measurement, for people.")
    missing: bool = Field(
        False, description="Whether an entry may be missing; it then has a code of its own."
    )
    missing_values: Spellings = Field(
        (), description="Further spellings of a missing entry, such as '?' or -9."
    )
    missing_text: str = Field("", description="How a missing entry is written in output, such as '?'.")
    out_of_domain: Policy = Field(
        "refuse", description="What to do with an entry outside the declared domain."
    )
    origin: Origins = Field(
        "public", description="Which facts were read from the data and are not yet public."
    )


class _CategoricalPart(_ColumnPart):
    """Unordered values."""

    kind: Literal["categorical"]
    values: Values = Field(description="Every possible value.")
    levels: GroupsOfValues = Field(None, description="Groups of the values, for columns with many of them.")


class _OrdinalPart(_ColumnPart):
    """Ordered values."""

    kind: Literal["ordinal"]
    values: Values = Field(description="Every possible value, lowest first.")


class _BooleanPart(_ColumnPart):
    """True or false."""

    kind: Literal["boolean"]
    spelling: TwoTexts = Field(None, description="The table's own two texts, false first: ['No', 'Yes'].")


class _IntegerPart(_ColumnPart):
    """Whole numbers: a range, a list of values, or bins."""

    kind: Literal["integer"]
    minimum: WholeNumber = Field(None, description="Smallest possible value.")
    maximum: WholeNumber = Field(None, description="Largest possible value.")
    values: Numbers = Field(
        None, description="The possible values, ascending, if they are not a plain range."
    )
    bins: BinsOfNumbers = Field(None, description="Labels such as '<18', edges, or a number of bins.")
    decimal: DecimalMark = Field(".", description="A comma where text entries have decimal commas.")
    decode_by: DecodeNumber = Field("midpoint", description="How a bin becomes a value.")


class _RealPart(_ColumnPart):
    """Real numbers in bins."""

    kind: Literal["real"]
    minimum: RealNumber = Field(None, description="Smallest possible value.")
    maximum: RealNumber = Field(None, description="Largest possible value.")
    values: Numbers = Field(None, description="The possible values, ascending, if there are only a few.")
    bins: BinsOfNumbers = Field(None, description="Labels such as '[0, 10)', edges, or a number of bins.")
    decimal: DecimalMark = Field(".", description="A comma where text entries have decimal commas.")
    decimals: Decimals = Field(None, description="Digits after the point in output.")
    decode_by: DecodeNumber = Field("midpoint", description="How a bin becomes a value.")


class _DatePart(_ColumnPart):
    """Calendar dates."""

    kind: Literal["date"]
    minimum: DayText = Field(None, description="First possible day, as YYYY-MM-DD.")
    maximum: DayText = Field(None, description="Last possible day, as YYYY-MM-DD.")
    resolution: Literal["day", "week", "month", "quarter", "year"] | None = Field(
        None, description="One code per day, week (from Monday), month, quarter or year."
    )
    bins: BinsOfDates = Field(None, description="Instead of a resolution: first days of the bins.")
    format: str | None = Field(None, description="How text entries are written, in strptime codes.")
    decode_by: Literal["midpoint", "uniform", "smooth", "edge", "label"] = Field(
        "midpoint", description="How a bin becomes a date."
    )


_AnyColumn = Annotated[
    Union[_CategoricalPart, _OrdinalPart, _BooleanPart, _IntegerPart, _RealPart, _DatePart],  # noqa: UP007
    Field(discriminator="kind"),
]
COLUMN_PARTS: dict[str, type[_ColumnPart]] = {
    "categorical": _CategoricalPart,
    "ordinal": _OrdinalPart,
    "boolean": _BooleanPart,
    "integer": _IntegerPart,
    "real": _RealPart,
    "date": _DatePart,
}
RuleText = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["rule"],
                    "properties": {
                        "rule": {"type": "string"},
                        "straddle": {"enum": ["allow", "forbid", "edges", "values"]},
                        "description": {"type": "string"},
                    },
                },
            ]
        }
    ),
]
"""A rule, as a schema or a specification writes it."""


_TABLE_OF_VALUES: dict[str, Any] = {"type": "object", "additionalProperties": _PLAIN_VALUE}
_Determines = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "string"}},
                    {
                        "type": "object",
                        "additionalProperties": {"anyOf": [{"const": "learn"}, _TABLE_OF_VALUES]},
                    },
                ]
            },
        }
    ),
]
_Derived = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["value"],
                        "properties": {
                            "value": {"type": "string"},
                            "values": _TABLE_OF_VALUES,
                            "after": {"type": "string"},
                            "before": {"type": "string"},
                            "description": {"type": "string"},
                        },
                    },
                ]
            },
        }
    ),
]


_NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_SUMMARIES: dict[str, Any] = {
    "type": "array",
    "description": "Columns of an entity that are computed from its rows.",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "of", "by"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "of": {"type": "string", "description": "The column of the rows."},
            "by": {"enum": list(WAYS)},
            "value": {"description": "For any: the value that counts."},
            "bins": {
                "description": "For sum and mean: edges, ascending, or a mapping with edges.",
                "anyOf": [
                    {"type": "array", "items": {"type": "number"}},
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["edges"],
                        "properties": {"edges": {"type": "array", "items": {"type": "number"}}},
                    },
                ],
            },
        },
    },
}
_GAPS: dict[str, Any] = {
    "type": "boolean",
    "default": False,
    "description": "Whether the days from one event to the next are measured.",
}
_EntityText = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["id"],
            "properties": {
                "id": {"type": "string", "description": "The column that says whose a row is."},
                "fixed": _NAMES | {"description": "Columns that are the same in all rows of an entity."},
                "order": {
                    "type": "string",
                    "description": "The column that puts the rows of an entity in order.",
                },
                "max_events": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_EVENTS,
                    "default": DEFAULT_MAX_EVENTS,
                },
                "link": _NAMES | {"description": "Columns whose value in the row before is looked at too."},
                "min_events": {
                    "enum": [0, 1],
                    "default": 1,
                    "description": "0 where a table of entities says who they are, so that some may have no rows.",
                },
                "tables": _NAMES
                | {
                    "minItems": 2,
                    "maxItems": 2,
                    "description": "Of linked tables: the names of the table of entities and of that of events.",
                },
                "reference": {
                    "type": "string",
                    "description": "Of linked tables: the column of the events that names the entity.",
                },
                "count": {
                    "type": "string",
                    "description": "Of linked tables: a column of the entities that says how many events each has.",
                },
                "orphans": {
                    "enum": list(ORPHANS),
                    "default": "refuse",
                    "description": "Of linked tables: what becomes of events whose entity is not in its table.",
                },
                "gaps": _GAPS,
                "summaries": _SUMMARIES,
            },
        }
    ),
]
_TablesText = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 2,
            "items": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "description": {"type": "string"},
                    "source": {
                        "type": ["string", "object"],
                        "description": "File, relative to the schema file; or url and table of a database.",
                    },
                    "columns": {"type": "array", "items": {"type": "object"}, "maxItems": MAX_COLUMNS},
                    "constraints": {"type": "array"},
                    "rules": {"type": "array"},
                    "determines": {"type": "object"},
                    "derived": {"type": "object"},
                    "key": {"type": "string", "description": "Column that tells the entities apart."},
                    "count": {
                        "type": "string",
                        "description": "Column of the entities that is written with the number of their events.",
                    },
                    "belongs_to": {"type": "string", "description": "Name of the table of entities."},
                    "reference": {
                        "type": "string",
                        "description": "Column of the events that names the entity; the key if not said.",
                    },
                    "order": {"type": "string", "description": "Column that puts events in order."},
                    "max_events": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MOST_EVENTS,
                        "default": DEFAULT_MAX_EVENTS,
                    },
                    "link": _NAMES
                    | {"description": "Columns whose value in the event before is looked at too."},
                    "fixed": _NAMES
                    | {
                        "description": "Columns that are the same in all events, where entities have no table."
                    },
                    "orphans": {
                        "enum": list(ORPHANS),
                        "default": "refuse",
                        "description": "What becomes of events whose entity is not in its table.",
                    },
                    "gaps": _GAPS,
                    "summaries": _SUMMARIES,
                },
            },
        }
    ),
]
_WeightText = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["column", "cap"],
            "properties": {
                "column": {"type": "string", "description": "The column that holds the weights."},
                "cap": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "description": "Largest weight that is told apart; larger ones count as it.",
                },
                "lowest": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "description": "Weights below it share one bin; a hundredth of the cap by default.",
                },
                "bins": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_BINS,
                    "default": DEFAULT_BINS,
                },
                "decimals": {"type": "integer", "minimum": 0, "maximum": 15},
            },
        }
    ),
]
_TableText = Annotated[Any, WithJsonSchema({"type": "object"})]


class SchemaPart(_Part):
    """Everything public about a table."""

    version: Literal[1] = Field(1, description="Version of the file format.")
    name: str = Field("", description="Name of the table, for people.")
    description: str = Field("", description="What the table holds, for people.")
    row_count: WholeNumber = Field(
        None, description="Number of rows if it is public; leave out to keep it private."
    )
    origin: Origins = Field(
        "public", description="Origin of the row count and of the list of left-out columns."
    )
    left_out: dict[str, str] = Field({}, description="Columns left out on purpose, with the reason.")
    lists: dict[str, ListOfValues] = Field(
        {}, description="Lists of values by name; columns refer to them with values: {list: NAME}."
    )
    columns: list[_AnyColumn] = Field(
        description="The columns, in order.", min_length=1, max_length=MAX_COLUMNS
    )
    constraints: list[RuleText] = Field(
        [], description="Rules every record obeys as far as its bins say.", max_length=MAX_CONSTRAINTS
    )
    rules: list[RuleText] = Field(
        [], description="Rules that the values of every synthetic record obey.", max_length=MAX_CONSTRAINTS
    )
    determines: _Determines = Field(
        {}, description="Columns that follow from another one, with or without a table of values."
    )
    derived: _Derived = Field(
        {}, description="Columns computed from others in the published table; they are not measured."
    )
    entity: _EntityText = Field(
        None, description="Who the rows belong to, where a person, household or firm has several of them."
    )
    weight: _WeightText = Field(
        None, description="The survey weight of the rows; its column is not among columns."
    )
    tables: _TablesText = Field(
        None,
        description="Instead of columns: a table of entities and a table of their events, with their keys.",
    )
    events_of: _TableText = Field(
        None, description="In model files: the schema of the table whose events the records are."
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of schema files.

    Examples
    --------
    >>> json_schema()["title"]
    'Understudy schema'
    """
    made = described(SchemaPart, title="Understudy schema")
    made.pop("required")  # columns, or tables
    return made | {"oneOf": [{"required": ["columns"]}, {"required": ["tables"]}]}


def described(model: type[BaseModel], *, title: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file, without what pydantic adds for itself."""
    text = json.dumps(model.model_json_schema(by_alias=True))
    generated = json.loads(re.sub(r"\b_?([A-Z]\w*?)(?:Part|Config)\b", lambda found: found[1].lower(), text))
    _tidy(generated)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **{key: value for key, value in generated.items() if key != "title"},
    }


def _tidy(node: Any) -> None:
    """Drop generated titles, null alternatives and empty defaults: what is left out is not null."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        if "default" in node and node["default"] in (None, (), [], {}):
            del node["default"]
        alternatives = node.get("anyOf")
        if isinstance(alternatives, list) and {"type": "null"} in alternatives:
            alternatives.remove({"type": "null"})
            if len(alternatives) == 1:
                node.update(alternatives[0])
                del node["anyOf"]
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _tidy(item)


S = TypeVar("S", bound="Schema")


_KINDS: dict[str, type[Column]] = {
    "categorical": Categorical,
    "ordinal": Ordinal,
    "boolean": Boolean,
    "integer": Integer,
    "real": Real,
    "date": Date,
}


def schema_from_plain(cls: type[S], plain: object, folder: str | os.PathLike[str] | None = None) -> S:
    """Build a schema from plain lists and mappings; names of files in it start from ``folder``.

    Raises
    ------
    SchemaError
        Listing everything wrong at once, each with its path such as ``columns[2] 'age'.bins``.
    """
    if not isinstance(plain, Mapping):
        raise SchemaError("A schema file must hold a mapping with the key 'columns'.")
    if "tables" in plain:
        plain = joined(plain).plain
    listed = plain.get("columns")
    if isinstance(listed, list) and len(listed) > MAX_COLUMNS:  # before anything is made of them
        raise SchemaError(
            f"The schema has problems:\n  - columns: {len(listed):,} are more than the {MAX_COLUMNS:,} allowed"
        )
    plain, lists, problems = without_lists(plain, folder)
    listed = plain.get("columns")
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
    return cls(tuple(columns), tuple(plain.get("constraints") or ()), lists=lists, **rest)


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
