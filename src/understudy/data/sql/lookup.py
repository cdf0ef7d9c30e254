"""Entries that only the schema's own reader can judge: looked up once each, then written into the query.

Most entries of a database are numbers, dates or declared spellings, and a comparison in the engine says what they
are. What is left (``" 12 "``, ``"Yes"``, ``"1e3"``, text in a column of numbers) is fetched as a list of distinct
entries, read here by the very code that reads files, and goes back as a table of entries and codes. So a database
and a file with the same records have the same codes, whatever the entries look like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import DataError
from understudy.schema import number_of, read_date
from understudy.schema.coding.cells import MISSING, OUTSIDE, UNREADABLE
from understudy.schema.coding.reading import days_since_epoch, is_nothing
from understudy.schema.columns.column import settle

if TYPE_CHECKING:
    from understudy.data.prepare import Derived
    from understudy.schema import Column

MAX_ENTRIES = 5_000
"""Most distinct entries of one column that are looked up."""

UNRESOLVED = -4
"""Mark of an entry that was not there when the entries were looked up."""

MARKS = (OUTSIDE, MISSING, UNREADABLE)


@dataclass(frozen=True, repr=False)
class Entry:
    """What one entry means: its code or mark, its number where it is one, and whether it is missing.

    ``other`` says that it is something that a rule cannot compare.
    """

    value: Any
    code: int
    number: int | float | None
    missing: bool
    other: bool


def settled(column: Column, mark: int) -> tuple[int | None, list[str]]:
    """Return the code that a column gives to a mark, or None and the complaint."""
    codes, problems = settle(column, np.array([mark], np.int32))
    return (None, problems) if problems else (int(codes[0]), [])


def look_up(column: Column, entries: Sequence[Any], recipe: Derived | None) -> tuple[Entry, ...]:
    """Read distinct entries of a column, or of the column that it is derived from.

    Raises
    ------
    DataError
        If there are more than ``MAX_ENTRIES``.

    Privacy
    -------
    In and out: private. Each entry is read on its own, so what it means depends on no other record.
    """
    if len(entries) > MAX_ENTRIES:
        raise DataError(
            f"Column {column.name!r} holds too many different entries that are not written the way a database "
            f"compares them (more than {MAX_ENTRIES:,}). Convert it in the database (a view with a cast is enough), "
            "or export the table to a file. The values are private and not shown."
        )
    complaints = {mark: settled(column, mark)[1] for mark in MARKS}
    strict = replace(column, missing=True, out_of_domain="refuse", origin="public")
    return tuple(_entry(column, strict, complaints, entry, recipe) for entry in entries)


def _entry(
    column: Column, strict: Column, complaints: dict[int, list[str]], entry: Any, recipe: Derived | None
) -> Entry:
    import pandas as pd

    meant = entry if recipe is None else recipe.of(entry)
    # a categorical series is read entry by entry; other storage could be read as a whole, by other rules
    series = pd.Series(pd.Categorical([None if is_nothing(meant) else meant]))
    codes, problems = column.try_encode(series)
    code = int(codes[0]) if len(codes) else 0
    if problems:
        code = next((mark for mark, told in complaints.items() if told == problems), UNREADABLE)
    plain, undeclared = strict.try_encode(series)
    missing = not undeclared and int(plain[0]) == strict.missing_code
    number = _number(column, meant)
    ordered = column.kind in ("integer", "real", "date")
    other = not missing and (number is None if ordered else bool(undeclared))
    return Entry(entry, code, number, missing, other)


def _number(column: Column, entry: Any) -> int | float | None:
    """Return the number or day that a rule compares."""
    if is_nothing(entry) or column.kind not in ("integer", "real", "date"):
        return None
    if column.kind == "date":
        day = read_date(entry, getattr(column, "format", None))
        return None if day is None else days_since_epoch(day)
    number = number_of(entry)
    if isinstance(number, int) and abs(number) >= 2**62:
        return math.inf if number > 0 else -math.inf
    return number
