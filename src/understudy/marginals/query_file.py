"""Queries written down: a list of plain descriptions, in Python, on the command line, or in a YAML or JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from understudy.errors import DomainTooLarge, UnderstudyError, WorkloadError
from understudy.marginals.query import Query, box, cells_of_marginal, halfspace, interval, linear
from understudy.schema import Schema

__all__ = ["QuerySource", "read_queries"]

QuerySource = Sequence["Query | Mapping[str, Any]"] | str | Path
"""Queries, descriptions of queries, or the name of a file that lists descriptions."""

_FORMS = "box, range, prefix, halfspace, linear, marginal, ranges, prefixes"


def read_queries(schema: Schema, source: QuerySource) -> list[Query]:
    """Turn descriptions into queries; queries stay as they are.

    A code is written as a whole number or as the label that the schema gives it. Each description has one key:

    - ``box: {sex: [female], region: [0, 2]}``: every column takes one of its codes;
    - ``range: {age: [18-25, 40-45]}``: every column lies between two codes, both included;
    - ``prefix: {age: 25-30}``: every column is at most a code;
    - ``halfspace: {weights: {age: 1, visits: 2}, at_least: 12}``: a weighted sum of codes reaches a threshold;
    - ``linear: {columns: [age], values: [0, 0.5, 1]}``: a value between 0 and 1 for each combination of codes;
    - ``marginal: [age, sex]``: one query for each cell;
    - ``prefixes: age`` and ``ranges: age``: all prefixes, all ranges of a column.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: size, kind: ordinal, values: [small, middle, large]}]")
    >>> queries = read_queries(schema, [{"range": {"size": ["middle", "large"]}}, {"prefixes": "size"}])
    >>> [query.values.tolist() for query in queries]
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    found: list[Query] = []
    for number, item in enumerate(_listed(source), start=1):
        if isinstance(item, Query):
            item.check(schema.domain)
            found.append(item)
            continue
        if not isinstance(item, Mapping) or len(item) != 1:
            raise WorkloadError(f"Query {number} must have exactly one key, one of: {_FORMS}.")
        ((form, told),) = item.items()
        try:
            found += _queries(schema, str(form), told)
        except DomainTooLarge:
            raise
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise WorkloadError(f"Query {number} ({form}): {_reason(error)}") from None
    if not found:
        raise WorkloadError("There is no query. Leave `queries` out, or name at least one.")
    return found


def _listed(source: QuerySource) -> Sequence[Any]:
    """Return the items of a source, reading it if it is a file."""
    if not isinstance(source, str | Path):
        if not isinstance(source, Sequence):
            raise WorkloadError("Queries are a list, or the name of a YAML or JSON file that holds one.")
        return source
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
        read = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise WorkloadError(f"The queries {str(path)!r} cannot be read: {error.strerror or error}.") from None
    except (yaml.YAMLError, ValueError):
        raise WorkloadError(f"The queries {str(path)!r} are neither YAML nor JSON.") from None
    if isinstance(read, Mapping) and set(read) == {"queries"}:
        read = read["queries"]
    if not isinstance(read, list):
        raise WorkloadError(f"The file {str(path)!r} must hold a list of queries.")
    return read


def _reason(error: Exception) -> str:
    if isinstance(error, UnderstudyError):
        return str(error)
    return f"its description cannot be understood ({type(error).__name__}). Known forms: {_FORMS}."


def _queries(schema: Schema, form: str, told: Any) -> list[Query]:
    domain = schema.domain
    if form == "box":
        return [box(domain, {name: [_code(schema, name, v) for v in _many(vs)] for name, vs in told.items()})]
    if form == "range":
        return [
            interval(domain, {name: [_code(schema, name, v) for v in ends] for name, ends in told.items()})
        ]
    if form == "prefix":
        return [interval(domain, {name: (0, _code(schema, name, last)) for name, last in told.items()})]
    if form == "halfspace":
        _only(told, {"weights", "at_least"})
        weights = {name: float(weight) for name, weight in told["weights"].items()}
        return [halfspace(domain, weights, float(told["at_least"]))]
    if form == "linear":
        _only(told, {"columns", "values"})
        return [linear(domain, list(told["columns"]), np.asarray(told["values"], dtype=np.float64))]
    if form == "marginal":
        return list(cells_of_marginal(domain, _many(told)))
    if form in ("prefixes", "ranges"):
        size = domain.size(told)
        starts = range(size) if form == "ranges" else range(1)
        return [
            interval(domain, {told: (first, last)})
            for first in starts
            for last in range(first, size)
            if last - first < size - 1
        ]
    raise WorkloadError(f"there is no such form. Known: {_FORMS}.")


def _only(told: Mapping[str, Any], keys: set[str]) -> None:
    if set(told) != keys:
        raise WorkloadError(f"it needs exactly the keys {', '.join(sorted(keys))}.")


def _many(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _code(schema: Schema, name: str, value: Any) -> int:
    """Return a code, given as itself or as its label."""
    labels = schema.column(name).labels
    if isinstance(value, bool):
        value = str(value).lower()
    if isinstance(value, int):
        if not 0 <= value < len(labels):
            raise WorkloadError(f"the codes of {name!r} run from 0 to {len(labels) - 1}.")
        return value
    lowered = [label.lower() for label in labels]
    if isinstance(value, str) and value.lower() in lowered:
        return lowered.index(value.lower())
    raise WorkloadError(
        f"{name!r} has no code {value!r}. Codes: {', '.join(labels[:12])}{', ...' * (len(labels) > 12)}."
    )
