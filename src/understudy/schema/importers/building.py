"""What the importers share: building columns from collected facts and reporting what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from understudy.errors import SchemaError
from understudy.schema.problems import did_you_mean, raise_problems
from understudy.schema.schema import Schema

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
        "(import_schema(..., facts={column: {...}}), --facts FILE, or write the schema by hand)",
        needs,
    )
    plain: dict[str, Any] = {"name": name, "description": description, "columns": columns}
    if left_out:
        plain["left_out"] = dict(left_out)
    return Schema.from_dict(plain)


SHORT_RANGE = 256
"""Whole numbers in so short a range get one code each."""


def number_fields(low: Any, high: Any, *, whole: bool, bins: int) -> dict[str, Any]:
    """Return the domain of a column of numbers with public bounds: each whole number of a short range, or equal bins."""
    entry: dict[str, Any] = {"minimum": low, "maximum": high}
    if not (whole and is_short(low, high)):
        entry["bins"] = bins
    return entry


def given_bounds(entry: Mapping[str, Any], given: Mapping[str, Any], bins: int) -> dict[str, Any]:
    """Return the domain of a column of numbers whose bounds are among the facts that the caller supplies."""
    kind = given.get("kind", entry.get("kind"))
    if (
        kind not in ("integer", "real")
        or not {"minimum", "maximum"} <= given.keys()
        or given.keys() & {"bins", "values"}
    ):
        return {}
    return number_fields(given["minimum"], given["maximum"], whole=kind == "integer", bins=bins)


def is_short(low: Any, high: Any) -> bool:
    """Whether a range of whole numbers is short enough for one code each."""
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    return numbers and low <= high < low + SHORT_RANGE  # a difference may be beyond every float


def meaning_of(labels: Mapping[Any, str]) -> str:
    """Return what codes mean, as one line for people.

    Examples
    --------
    >>> meaning_of({1: "male", 2: "female", 3: ""})
    '1: male; 2: female'
    """
    text = "; ".join(f"{code}: {label}" for code, label in labels.items() if label)
    return text if len(text) <= 1_000 else text[:997] + "..."


def described(words: str, meaning: str) -> dict[str, str]:
    """Return the description of a column from what it is and what its codes mean."""
    line = " ".join(words.split())
    if meaning:
        line = f"{line} ({meaning})" if line else meaning
    return {"description": line} if line else {}
