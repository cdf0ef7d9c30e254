"""Columns as the words of a specification name them: by name, by label, in coarse groups, after cleaning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import SchemaError, WorkloadError
from understudy.release.criteria import Grouping
from understudy.schema import Column, Constraint, Integer, Real, Schema
from understudy.schema.problems import did_you_mean

__all__ = ["column_of", "groups_of", "label_of", "numeric_of", "possible_codes"]

_MOST_CELLS = 1 << 22


def column_of(schema: Schema, name: str) -> Column:
    """Return a column, or say which there are."""
    if name not in schema.names:
        hint = did_you_mean(name, schema.names)
        raise SchemaError(f"no column named {name!r}.{hint} Columns: {', '.join(schema.names)}")
    return schema.column(name)


def numeric_of(schema: Schema, name: str) -> Column:
    """Return a column whose codes stand for numbers, or for two values that can be counted as 0 and 1."""
    column = column_of(schema, name)
    if column.kind == "categorical" and column.value_count > 2:
        raise WorkloadError(
            f"column {name!r} is categorical with more than two values; it has no numbers to average"
        )
    return column


def label_of(column: Column, label: str) -> int:
    """Return the code of a label."""
    if label not in column.labels:
        hint = did_you_mean(label, column.labels)
        raise WorkloadError(f"column {column.name!r} has no value labelled {label!r}.{hint}")
    return column.labels.index(label)


def groups_of(listed: Sequence[Any], schema: Schema) -> tuple[Grouping, ...]:
    """Return the groupings that a criterion lists."""
    return tuple(_group(item, schema) for item in listed)


def _group(item: Any, schema: Schema) -> Grouping:
    if isinstance(item, str):
        if item == "everyone":
            return Grouping.everyone()
        column = column_of(schema, item)
        return Grouping.of(column.name, [[code] for code in range(column.value_count)], size=column.size)
    column = column_of(schema, item["column"])
    bins, groups = item.get("bins"), item.get("groups")
    if bins is not None and groups is not None:
        raise WorkloadError(f"the grouping by {column.name!r} has bins and groups; give one of them")
    if groups is not None:
        codes = [[label_of(column, label) for label in labels] for labels in groups]
        return Grouping.of(column.name, codes, size=column.size)
    if bins is None:
        return _group(column.name, schema)
    return Grouping.of(column.name, _coarse(column, bins), size=column.size)


def _coarse(column: Column, bins: Any) -> list[list[int]]:
    """Return for each coarse bin the codes of the column that lie inside it."""
    if not isinstance(column, Integer | Real):
        raise WorkloadError(f"column {column.name!r} is not numeric; group it by lists of labels (groups)")
    try:
        wide = type(column)(column.name, bins=tuple(bins) if isinstance(bins, list) else bins)
    except SchemaError as error:
        raise WorkloadError(f"the coarse bins of {column.name!r}: {' '.join(str(error).split())}") from None
    cells = column.cells
    first, last = wide.cells.locate(cells.low), wide.cells.locate(cells.high)
    members: list[list[int]] = [[] for _ in range(wide.value_count)]
    for code, (low, high) in enumerate(zip(first, last, strict=True)):
        if low != high:
            raise WorkloadError(
                f"bin {column.labels[code]!r} of {column.name!r} lies in more than one of the coarse bins"
            )
        if low >= 0:
            members[int(low)].append(code)
    empty = [wide.labels[index] for index, codes in enumerate(members) if not codes]
    if empty:
        raise WorkloadError(f"the coarse bin {empty[0]!r} of {column.name!r} holds none of its bins")
    return members


def possible_codes(
    columns: Sequence[str], schema: Schema, cleaning: Sequence[Constraint]
) -> npt.NDArray[np.bool_] | None:
    """Return which combinations of codes a cleaned record can have, or None if all of them.

    A record that was kept obeys every cleaning rule as raw values. Read with ``straddle: allow``, a rule passes
    every combination of codes behind which *some* raw record obeys, hence the codes of every kept record.
    That needs the raw values of a record to lie behind its codes, so rules about columns that move
    values outside the domain elsewhere (clamp, to-missing, to-other) are not used; nor are rules about
    other columns. It is no promise about every record: an entry that holds the label of a bin instead of a number, or
    that an alternative reads otherwise than the column the rules were written for, may be kept and have codes
    outside. What is computed from the combinations must leave such records out (`Regression.possible`).
    """
    if len(set(columns)) != len(columns):
        return None  # refused elsewhere
    shape = schema.domain.shape(columns)
    if math.prod(shape) > _MOST_CELLS:
        return None
    possible = np.ones(shape, dtype=bool)
    for rule in cleaning:
        if not set(rule.columns) <= set(columns):
            continue
        if any(schema.column(name).out_of_domain != "refuse" for name in rule.columns):
            continue
        loose = Constraint.parse(rule.text, schema)
        axes = sorted(range(len(loose.columns)), key=lambda axis: columns.index(loose.columns[axis]))
        sizes = [schema.domain.size(name) if name in loose.columns else 1 for name in columns]
        possible &= loose.allowed(schema.domain).transpose(axes).reshape(sizes)
    return None if possible.all() else possible
