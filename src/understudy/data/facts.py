"""How a table is read, as plain values in which equal meanings are equal: the part of its owner's facts that this room knows."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

from understudy.data.prepare import Preparation
from understudy.schema import Column, Constraint, Schema
from understudy.schema.constraints.tokens import tokenize

__all__ = ["reading_facts", "rule_meaning"]

_FOR_PEOPLE = ("description", "unit", "origin", "decode_by")
"""What a column says about its published values; it decides nothing about what is read."""


def reading_facts(
    schema: Schema,
    *,
    prepare: Preparation | None = None,
    alternatives: Mapping[str, Mapping[str, Column]] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> dict[str, Any]:
    """Return what decides which codes each record gets, by part.

    Order and prose do not count, nor do the rules that synthetic records obey: no record is held against those.

    Parameters
    ----------
    schema, prepare, separator, encoding
        As `read_table` takes them.
    alternatives
        Other forms of some columns, by column and name.

    Examples
    --------
    >>> one = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean, description: smokes}]")
    >>> two = Schema.parse("columns: [{name: b, kind: boolean}, {name: a, kind: boolean}]")
    >>> reading_facts(one) == reading_facts(two)
    True
    """
    ready = prepare or Preparation()
    return {
        "columns": sorted((_column(column) for column in schema.columns), key=lambda item: str(item["name"])),
        "transformations": {
            name: sorted((_column(column) for column in forms.values()), key=repr)
            for name, forms in sorted((alternatives or {}).items())
        },
        "derived columns": sorted(
            [item.name, item.source, item.part, sorted(map(list, item.values))] for item in ready.derived
        ),
        "cleaning rules": sorted(map(rule_meaning, ready.rules)),
        "reading": [separator, _codec(encoding)],
    }


def rule_meaning(rule: Constraint) -> str:
    """Return the text of a rule with its spaces normalised.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: age, kind: integer, minimum: 0, maximum: 9}]")
    >>> rule_meaning(Constraint.parse("age>=3   and age<7", schema))
    'age >= 3 and age < 7'
    """
    return " ".join(
        repr(token.value) if token.kind == "text" else token.text for token in tokenize(rule.text)
    ).strip()


def _column(column: Column) -> dict[str, Any]:
    return {key: value for key, value in column.to_dict().items() if key not in _FOR_PEOPLE}


def _codec(encoding: str | None) -> str:
    try:
        return codecs.lookup(encoding or "utf-8").name
    except LookupError:  # refused when the table is read
        return str(encoding)
