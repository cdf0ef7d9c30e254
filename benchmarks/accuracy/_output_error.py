"""How far written rows are from a table, both as text, judged by the cells of one schema whatever schema made the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.schema import Column, Date, Integer, Real, Schema

Codes = npt.NDArray[np.intp]
ABSENT = 1.0
"""Error of a marginal with a column that the rows lack: total variation and Kolmogorov distance have no larger value."""
SPELLINGS = frozenset({"", "na", "n/a", "nan", "null", "none", "nat"})


PARTS, SPIKE = 10, 0.05
"""Neutral cells of a number: so many equal parts of the table's rows, and values with more than this share alone."""


@dataclass(frozen=True)
class Errors:
    """Mean total variation of pairs and of single columns, mean Kolmogorov distance, and each column's own error.

    ``neutral`` is the error of pairs on cells that belong to no schema: tenths of the table's rows for numbers and dates.
    """

    pairs: float
    neutral: float
    singles: float
    kolmogorov: float
    columns: dict[str, float]
    absent: tuple[str, ...]


def errors_of(schema: Schema, real: pd.DataFrame, rows: pd.DataFrame) -> Errors:
    """Compare rows with a table over all marginals of one and of two columns of a schema.

    Every column has two cells more than the schema says: *missing*, and *something else* for entries that are no
    value of the column. Numbers and dates beyond the bounds count at the bounds. A marginal with a column that the
    rows lack has the error 1, and so has everything if there are no rows.
    """
    sizes = {column.name: column.value_count + 2 for column in schema.columns}
    ordered = [column for column in schema.columns if isinstance(column, Integer | Real | Date)]
    numbers = [
        {column.name: numbers_of(column, frame[column.name]) for column in ordered if column.name in frame}
        for frame in (real, rows)
    ]
    sides = [_coded(schema, frame, known) for frame, known in zip((real, rows), numbers, strict=True)]
    there = set(sides[1]) if len(rows) else set()
    singles = {
        name: _distance([side[name] for side in sides], sizes[name]) if name in there else ABSENT
        for name in schema.names
    }
    pairs = _of_pairs(schema.names, there, sides, sizes)
    for column in ordered:
        if column.name in there:
            parts = _neutral_cells(
                *(side[column.name] for side in sides),
                *(known[column.name] for known in numbers),
                missing=column.value_count,
            )
            sizes[column.name] = int(max(part.max(initial=0) for part in parts)) + 1
            for side, part in zip(sides, parts, strict=True):
                side[column.name] = part
    neutral = _of_pairs(schema.names, there, sides, sizes)
    distances = [
        _kolmogorov(*(known[column.name] for known in numbers)) if column.name in there else ABSENT
        for column in ordered
    ]
    return Errors(
        pairs,
        neutral,
        float(np.mean(list(singles.values()))),
        float(np.mean(distances)) if distances else 0.0,
        singles,
        tuple(name for name in schema.names if name not in there),
    )


def _of_pairs(
    names: Sequence[str], there: set[str], sides: Sequence[Mapping[str, Codes]], sizes: Mapping[str, int]
) -> float:
    """Return the mean total variation of all pairs of columns."""
    found = [
        _distance([side[a] * sizes[b] + side[b] for side in sides], sizes[a] * sizes[b])
        if {a, b} <= there
        else ABSENT
        for a, b in combinations(names, 2)
    ]
    return float(np.mean(found)) if found else 0.0


def _neutral_cells(
    real: Codes,
    rows: Codes,
    real_numbers: npt.NDArray[np.float64],
    rows_numbers: npt.NDArray[np.float64],
    *,
    missing: int,
) -> tuple[Codes, Codes]:
    """Return cells cut at tenths of the table, with frequent values in cells of their own; no number keeps its two cells."""
    known = np.sort(real_numbers[~np.isnan(real_numbers)])
    if not len(known):
        return np.asarray(real - missing), np.asarray(rows - missing)
    cuts = np.unique(known[(np.arange(1, PARTS) * len(known)) // PARTS])
    values, counts = np.unique(known, return_counts=True)
    spikes = values[counts > SPIKE * len(known)]
    found = []
    for codes, numbers in ((real, real_numbers), (rows, rows_numbers)):
        cells = 2 + len(spikes) + np.searchsorted(cuts, numbers, side="right")
        place = np.searchsorted(spikes, numbers)
        alone = np.isin(numbers, spikes)
        cells[alone] = 2 + place[alone]
        gone = np.isnan(numbers)
        cells[gone] = np.where(codes[gone] == missing, 0, 1)
        found.append(np.asarray(cells, dtype=np.intp))
    return found[0], found[1]


def numbers_of(column: Column, entries: pd.Series) -> npt.NDArray[np.float64]:
    """Return the numbers of a column, dates as days; NaN where an entry is missing or is no number."""
    texts = entries.astype("string").str.strip()
    texts = texts.where(~_missing(column, texts), None)
    if isinstance(column, Date):
        days = pd.to_datetime(texts, errors="coerce", format=column.format or "ISO8601", utc=True)
        if column.format:  # synthetic tables write ISO dates all the same
            days = days.fillna(pd.to_datetime(texts, errors="coerce", format="ISO8601", utc=True))
        whole = days.dt.tz_localize(None).to_numpy(dtype="datetime64[D]")
        return np.where(np.isnat(whole), np.nan, whole.astype(np.int64).astype(float))
    return np.asarray(pd.to_numeric(texts, errors="coerce").to_numpy(dtype=float, na_value=np.nan))


def _coded(
    schema: Schema, frame: pd.DataFrame, numbers: Mapping[str, npt.NDArray[np.float64]]
) -> dict[str, Codes]:
    """Return the cell of every entry of the columns that a frame has."""
    return {
        column.name: _cells(column, frame[column.name], numbers.get(column.name))
        for column in schema.columns
        if column.name in frame.columns
    }


def _cells(column: Column, entries: pd.Series, values: npt.NDArray[np.float64] | None) -> Codes:
    texts = entries.astype("string").str.strip()
    missing = _missing(column, texts)
    cells = np.full(len(texts), column.value_count + 1, dtype=np.intp)
    cells[missing] = column.value_count
    if isinstance(column, Integer | Real | Date):
        assert values is not None
        known = ~np.isnan(values)
        cells[known] = _ordered_cells(column, values[known])
        return cells
    distinct, places = np.unique(texts[~missing].to_numpy(dtype=object), return_inverse=True)
    cells[~missing] = np.array([_named_cell(column, text) for text in distinct], dtype=np.intp)[places]
    return cells


def _ordered_cells(column: Integer | Real | Date, values: npt.NDArray[np.float64]) -> Codes:
    """Return codes of numbers (of days), those beyond the bounds at the bounds and parts of whole numbers cut off."""
    if isinstance(column, Integer | Date):
        values = np.floor(values)
    distinct, places = np.unique(values, return_inverse=True)
    entries: Any = distinct
    if isinstance(column, Date):
        entries = distinct.astype("datetime64[D]").astype(str)
    elif isinstance(column, Integer):
        entries = distinct.astype(np.int64)
    plain = replace(column, missing=False, missing_values=(), out_of_domain="clamp")
    return np.asarray(plain.encode(entries), dtype=np.intp)[places]


def _named_cell(column: Column, text: str) -> int:
    """Return the code of a name; 1.0 is 1 where the values are numbers."""
    codes, problems = column.try_encode([text])
    if problems or not len(codes) or int(codes[0]) >= column.value_count:
        return column.value_count + 1
    return int(codes[0])


def _missing(column: Column, texts: pd.Series) -> npt.NDArray[np.bool_]:
    """Whether an entry is missing: empty, spelt as the schema says, or as tables usually do where the column says nothing of it."""
    spelt = {str(value) for value in column.missing_values}
    usual = texts.str.lower().isin(SPELLINGS)
    values = set(getattr(column, "value_labels", ()))
    return np.asarray(texts.isna() | texts.isin(spelt) | (usual & ~texts.isin(values)), dtype=bool)


def _distance(keys: list[Codes], size: int) -> float:
    """Return the total variation between the shares of cells."""
    if size > 1 << 22:
        _, places = np.unique(np.concatenate(keys), return_inverse=True)
        keys, size = np.split(places, [len(keys[0])]), int(places.max()) + 1
    shares = [np.bincount(part, minlength=size) / max(1, len(part)) for part in keys]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _kolmogorov(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    """Return the largest difference between two distribution functions; entries without a number are left aside."""
    first, second = (np.sort(side[~np.isnan(side)]) for side in (first, second))
    if not len(first) or not len(second):
        return 0.0 if len(first) == len(second) else 1.0
    points = np.concatenate([first, second])
    shares = [np.searchsorted(side, points, side="right") / len(side) for side in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())
