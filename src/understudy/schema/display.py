"""Schemas shown to people: a table for notebooks, and what a careful reader would question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy._html import html_table
from understudy.errors import DomainTooLarge

if TYPE_CHECKING:
    from understudy.schema.schema import Schema

__all__ = ["remarks", "schema_html"]


def remarks(schema: Schema) -> list[str]:
    """Return what a careful reader would question about a valid schema; public facts only."""
    found = []
    for rule in schema.constraints:
        try:
            allowed = rule.allowed(schema.domain)
        except DomainTooLarge:  # nobody can look at all of its cells
            continue
        if not allowed.any():
            found.append(f"No record can obey the constraint {rule.text!r}.")
        elif allowed.all():
            found.append(f"Every record obeys the constraint {rule.text!r}; it has no effect on codes.")
    return found + [
        f"Column {column.name!r} has one possible code." for column in schema.columns if column.size == 1
    ]


def schema_html(schema: Schema) -> str:
    """Return a schema as a table, one row per column."""
    rules = "; ".join(map(str, schema.constraints))
    return html_table(
        repr(schema),
        ("column", "kind", "codes", "values", "unit", "description"),
        [
            (
                column.name,
                column.kind,
                column.size,
                _some_labels(column.labels),
                column.unit,
                column.description,
            )
            for column in schema.columns
        ],
        note=f"Rules: {rules}" if rules else "",
    )


def _some_labels(labels: Sequence[str]) -> str:
    """Show the first and last of many labels."""
    if len(labels) <= 8:
        return ", ".join(labels)
    return f"{', '.join(labels[:4])}, ..., {', '.join(labels[-2:])}"
