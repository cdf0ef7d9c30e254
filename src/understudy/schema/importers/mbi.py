"""mbi (Private-PGM) domains: ``{"age": 85, "sex": 2}`` says that age takes the values 0 to 84."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.errors import SchemaError
from understudy.schema.importers.parts import Facts, build, check_fact_names
from understudy.schema.limits import MAX_CODES
from understudy.schema.problems import raise_problems
from understudy.schema.schema import Schema

__all__ = ["from_mbi", "looks_like_mbi"]


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
