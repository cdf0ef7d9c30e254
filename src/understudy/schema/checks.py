"""Checks that every column shares, and checks of text that people will read."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.schema.limits import MAX_TEXT
from understudy.schema.origin import normal_origin

if TYPE_CHECKING:
    from understudy.schema.column import Column

__all__ = ["POLICIES", "check_shared", "check_text", "is_plain_value"]

POLICIES = ("refuse", "clamp", "to-missing", "to-other")


def is_plain_value(value: object) -> bool:
    """Whether a value is text or a finite number; truth values are neither."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def check_text(text: object, field: str, *, required: bool = False, one_line: bool = False) -> list[str]:
    """Return what is wrong with a piece of text that people will read."""
    if not isinstance(text, str):
        return [f"{field}: must be text (quote it in YAML)"]
    if required and not text.strip():
        return [f"{field}: must not be empty"]
    if len(text) > MAX_TEXT:
        return [f"{field}: is longer than {MAX_TEXT:,} characters"]
    if one_line and any(unicodedata.category(letter) == "Cc" for letter in text):
        return [f"{field}: must be one line without control characters"]
    return []


def check_shared(column: Column) -> list[str]:
    """Normalise the fields that every column has and return what is wrong with them.

    A field that is wrong is set to its default, so that later checks can still look at the others.
    """
    problems = check_text(column.name, "name", required=True, one_line=True)
    problems += check_text(column.description, "description")
    problems += check_text(column.unit, "unit", one_line=True)
    if not isinstance(column.missing, bool):
        problems.append("missing: write true or false")
        object.__setattr__(column, "missing", False)
    problems += _check_policy(column)
    problems += _check_missing_values(column)
    origin, wrong = normal_origin(column.origin, column.facts)
    object.__setattr__(column, "origin", origin)
    return problems + wrong


def _check_policy(column: Column) -> list[str]:
    if column.out_of_domain not in POLICIES:
        object.__setattr__(column, "out_of_domain", "refuse")
        return [f"out_of_domain: write one of {', '.join(POLICIES)}"]
    if column.out_of_domain == "to-missing" and not column.missing:
        return ["out_of_domain: to-missing needs missing: true"]
    if column.out_of_domain == "clamp" and column.kind in ("categorical", "boolean"):
        return [f"out_of_domain: clamp has no meaning for a {column.kind} column"]
    return []


def _check_missing_values(column: Column) -> list[str]:
    spellings = column.missing_values
    if isinstance(spellings, str) or not isinstance(spellings, Sequence):
        object.__setattr__(column, "missing_values", ())
        return ["missing_values: write a list"]
    if not all(is_plain_value(value) for value in spellings):
        object.__setattr__(column, "missing_values", ())
        return ["missing_values: entries must be text or numbers"]
    object.__setattr__(column, "missing_values", tuple(spellings))
    return ["missing_values: they need missing: true"] if spellings and not column.missing else []
