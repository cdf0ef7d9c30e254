"""What the synthetic table looks like on its face: unique records, k-anonymity, l-diversity, broken rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.errors import WorkloadError
from understudy.evaluation.codes import Codes
from understudy.evaluation.comparison import Comparison
from understudy.evaluation.result import Result
from understudy.schema import Schema


def constraint_violations(both: Comparison) -> Result:
    """Return the share of synthetic records that break each record constraint of the schema."""
    codes = {name: both.synthetic_codes[:, index] for index, name in enumerate(both.domain.names)}
    values = {
        str(rule): float((~rule.holds_codes(codes)).mean()) if len(both.synthetic_codes) else 0.0
        for rule in both.schema.constraints
    }
    return Result("share of records that break a constraint", values, better="lower")


def unique_records(both: Comparison) -> Result:
    """Return the share of records that are alone in their table, synthetic and real."""
    values = {}
    for name, codes in (("synthetic", both.synthetic_codes), ("real", both.real_codes)):
        sizes = class_sizes(codes, range(codes.shape[1]))
        values[name] = float((sizes == 1).mean()) if len(codes) else 0.0
    return Result("share of unique records", values, better="lower")


def k_anonymity(schema: Schema, codes: Codes, columns: Sequence[str]) -> int:
    """Return the size of the smallest group of records that agree on some columns; zero for an empty table.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
    >>> k_anonymity(schema, np.array([[0, 0], [0, 1], [1, 1]]), ["a"])
    1
    """
    sizes = class_sizes(codes, [schema.domain.index(name) for name in columns])
    return int(sizes.min(initial=len(codes))) if len(codes) else 0


def l_diversity(schema: Schema, codes: Codes, columns: Sequence[str], sensitive: str) -> int:
    """Return the smallest number of values of the sensitive column in a group that agrees on some columns."""
    if sensitive in columns:
        raise WorkloadError(f"The sensitive column {sensitive!r} cannot be one of the grouping columns.")
    if not len(codes):
        return 0
    group = group_numbers(codes, [schema.domain.index(name) for name in columns])
    pairs = np.unique(np.stack([group, codes[:, schema.domain.index(sensitive)]], axis=1), axis=0)
    return int(np.bincount(pairs[:, 0]).min())


def face_privacy(both: Comparison, *, columns: Sequence[str], sensitive: str | None = None) -> Result:
    """Return k-anonymity and, with a sensitive column, l-diversity of both tables over some columns.

    Properties of a table's face: they say how it looks to a reader, not how private it is.
    """
    values: dict[str, float] = {}
    for name, codes in (("synthetic", both.synthetic_codes), ("real", both.real_codes)):
        values[f"k of the {name} table"] = k_anonymity(both.schema, codes, columns)
        if sensitive is not None:
            values[f"l of the {name} table"] = l_diversity(both.schema, codes, columns, sensitive)
    return Result("k-anonymity and l-diversity", values, better="higher")


def group_numbers(codes: Codes, places: Sequence[int]) -> Codes:
    """Number the combinations of some columns that occur, and return the number of each record."""
    if not len(places):
        return np.zeros(len(codes), dtype=np.int64)
    number = np.zeros(len(codes), dtype=np.int64)
    for place in places:
        # renumbering after each column keeps the numbers below the number of records
        joined = number * (int(codes[:, place].max(initial=0)) + 1) + codes[:, place]
        _, number = np.unique(joined, return_inverse=True)
        number = number.ravel().astype(np.int64)
    return number


def class_sizes(codes: Codes, places: Sequence[int]) -> Codes:
    """Return, for each record, how many records agree with it on some columns."""
    group = group_numbers(codes, places)
    sizes: Codes = np.bincount(group)[group] if len(group) else np.zeros(0, dtype=np.int64)
    return sizes
