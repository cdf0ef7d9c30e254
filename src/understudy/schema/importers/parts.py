"""What the importers share: building columns from collected facts and reporting what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from understudy.errors import SchemaError
from understudy.schema.problems import did_you_mean, raise_problems
from understudy.schema.schema import Schema

__all__ = ["Facts", "build", "check_fact_names"]

Facts: TypeAlias = Mapping[str, Mapping[str, Any]]


def check_fact_names(facts: Facts, names: list[str]) -> None:
    """Refuse facts about columns that the file does not have."""
    for name in facts:
        if name not in names:
            raise SchemaError(f"facts: the file has no column {name!r}.{did_you_mean(name, names)}")


def build(
    *,
    name: str,
    description: str,
    columns: list[dict[str, Any]],
    needs: list[str],
    left_out: Mapping[str, str] | None = None,
) -> Schema:
    """Build the schema, or list what has to be added first."""
    raise_problems(
        "The file does not say what values these columns can take. Add the facts from public knowledge "
        "(import_schema(..., facts={column: {...}}), or write the schema by hand)",
        needs,
    )
    plain: dict[str, Any] = {"name": name, "description": description, "columns": columns}
    if left_out:
        plain["left_out"] = dict(left_out)
    return Schema.from_dict(plain)
