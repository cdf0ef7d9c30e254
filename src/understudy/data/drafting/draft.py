"""Drafting a schema from a table, for its owner to correct and to declare public."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.data.drafting.columns import draft_column
from understudy.data.drafting.found import Found, percent
from understudy.data.drafting.numbers import RARE_ROWS
from understudy.data.drafting.relations import proposals
from understudy.errors import DataError, SchemaError
from understudy.schema import Column, Schema
from understudy.schema.problems import MAX_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

_ONE_BIN = 0.9
_ONE_VALUE = 0.95
_MANY_MISSING = 0.5
_FEW_ROWS = 50


@dataclass(frozen=True, repr=False)
class Draft:
    """A drafted schema, and what its owner should look at.

    Attributes
    ----------
    schema
        The draft.
    remarks
        One remark for each column that deserves one.
    questions
        What only the owner can answer about the table as a whole.
    proposals
        What holds between columns in every row, as the keys ``rules`` and ``determines`` of a schema take it. No part of the
        draft: a rule is what holds by the meaning of the columns.

    Privacy
    -------
    Private, all of it: the remarks hold exact shares and numbers of rows.
    """

    schema: Schema
    remarks: tuple[tuple[str, str], ...] = ()
    questions: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Draft({self.schema!r}; {len(self.remarks)} remarks)"


def draft_schema(
    frame: Any, *, name: str = "", max_categories: int = 100, declare_public: bool = False
) -> Schema:
    """Draft a schema from a table, marking every fact as read from the data.

    Kinds are guessed from the entries and from the names of the columns. Numbers get bins with round edges that follow their
    quantiles, so that one outlier does not decide them; codes that are written as numbers become categories, and
    where a column has more than ``max_categories`` of them the most frequent are kept; parts of the calendar get their ranges;
    spellings of missing entries are proposed. Identifiers, free text, and numbers or dates that can be read in two ways
    are left out, and the draft says why. `draft` returns remarks besides.

    Parameters
    ----------
    frame
        A pandas frame (or anything with ``to_pandas``).
    name
        Name for the schema.
    max_categories
        Most categories a column may have.
    declare_public
        Declare every fact public at once. This is the owner's promise that the domain is public knowledge or
        may be published as it is.

    Returns
    -------
    Schema
        A draft. Unless ``declare_public``, fitting refuses it until its facts are declared public. The number
        of rows is never drafted.

    Raises
    ------
    DataError
        If the table has no rows, no columns, or two columns with the same name.
    SchemaError
        If every column would be left out.

    Privacy
    -------
    In: private. Out: private too, because categories and bounds are those of the records; that is what the
    ``from-data`` marks mean. No privacy budget is charged and none could be: this is exact.

    Examples
    --------
    >>> import pandas as pd
    >>> drafted = draft_schema(pd.DataFrame({"sex": ["M", "F", "F"], "age": [31, 40, 58]}), name="toy")
    >>> drafted.names
    ('sex', 'age')
    >>> drafted.column("age").facts_from_data
    ('kind', 'minimum', 'maximum', 'missing')
    """
    return draft(frame, name=name, max_categories=max_categories, declare_public=declare_public).schema


def draft(
    frame: Any,
    *,
    name: str = "",
    max_categories: int = 100,
    declare_public: bool = False,
    labels: Mapping[str, Mapping[Any, str]] | None = None,
    descriptions: Mapping[str, str] | None = None,
) -> Draft:
    """Draft a schema as `draft_schema` does, with a remark for each column that deserves a look.

    Parameters
    ----------
    frame, name, max_categories, declare_public
        As `draft_schema` takes them.
    labels
        What codes mean, by column, where the file says so.
    descriptions
        What columns are, where the file says so.

    Privacy
    -------
    As `draft_schema`; the remarks are as private as the records.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"fever": ["no"] * 97 + ["yes"] * 3})
    >>> draft(frame).remarks
    (('fever', '97 % of the entries have one value.'),)
    """
    import pandas as pd

    table = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    if isinstance(max_categories, bool) or not isinstance(max_categories, int) or max_categories < 1:
        raise SchemaError(f"max_categories ({max_categories}) must be a positive whole number.")
    names = _checked_names(table)
    columns: list[Column] = []
    left_out: dict[str, str] = {}
    remarks: dict[str, str] = {}
    keys: dict[str, int] = {}
    for place, column in enumerate(names):
        series = pd.Series(table.iloc[:, place])
        found = draft_column(column, series, max_categories=max_categories, labels=(labels or {}).get(column))
        if found.rows_of_one:
            keys[column] = found.rows_of_one
        if found.column is None:
            left_out[column] = found.reason
            continue
        said, rare = _remark(found, series)
        described = _described(found.column, (descriptions or {}).get(column, ""))
        columns.append(described.marked_rare(rare))
        if said:
            remarks[column] = said
    if not columns:
        reasons = "; ".join(f"{column!r}: {reason}" for column, reason in left_out.items())
        raise SchemaError(f"No column could be drafted. {reasons}.")
    schema = Schema(
        tuple(columns),
        name=name,
        description="Drafted from a table: check every fact before declaring it public.",
        left_out=tuple(left_out.items()),
        origin="from-data" if left_out else "public",
    )
    return Draft(
        schema.declare_public(rare_are_public=True) if declare_public else schema,
        tuple(remarks.items()),
        _questions(table, keys, any("identifier" in reason for reason in left_out.values())),
        proposals(table, columns),
    )


def _checked_names(table: Any) -> list[str]:
    names = [str(column) for column in table.columns]
    if not names:
        raise DataError("The table has no columns, so no schema can be drafted from it.")
    if len(names) > MAX_COLUMNS:
        raise DataError(
            f"The table has {len(names):,} columns; a schema holds at most {MAX_COLUMNS:,}. Draft one for those you need."
        )
    if len(set(names)) != len(names):
        repeated = sorted(column for column, times in Counter(names).items() if times > 1)
        raise DataError(f"Columns must have different names; repeated: {', '.join(map(repr, repeated))}.")
    if len(table) == 0:
        raise DataError("The table has no rows, so no schema can be drafted from it.")
    return names


def _described(column: Column, text: str) -> Column:
    from dataclasses import replace

    if not text.strip():
        return column
    meaning = f"{text.strip()} ({column.description})" if column.description else text.strip()
    return replace(column, description=meaning)


def _remark(found: Found, series: pd.Series[Any]) -> tuple[str, list[str]]:
    """Return everything a careful reader would say about one drafted column, as one remark; and its values that are rare."""
    column = found.column
    assert column is not None
    said = list(found.remarks)
    rare: list[str] = []
    codes, problems = column.try_encode(series)
    if problems:  # an entry that the draft cannot hold would be a mistake of the drafting
        raise DataError(f"The column {column.name!r} does not fit its own draft. Declare it by hand.")
    counts = np.bincount(codes, minlength=column.size).astype(np.float64)
    rows = float(len(codes))
    absent = 0.0 if column.missing_code is None else counts[column.missing_code] / rows
    present = counts[: column.value_count]
    if absent >= _MANY_MISSING:
        said.append(f"{percent(absent)} of the entries are missing")
    if column.value_count == 1:
        said.append("every entry is the same, so that the column says nothing")
    elif present.sum() and rows >= _FEW_ROWS:
        top = int(present.argmax())
        share = present[top] / present.sum()
        if _is_wide(column, top) and share >= _ONE_BIN:
            said.append(f"{percent(share)} of the entries fall into one bin; divide it")
        elif share >= _ONE_VALUE:
            said.append(f"{percent(share)} of the entries have one value")
    listed = getattr(column, "values", None) or ()
    if (
        len(listed) == column.value_count
    ):  # of any number of rows: in a small table every value may be somebody's
        few = (present > 0) & (present < RARE_ROWS)
        rare = [str(value) for value, is_rare in zip(listed, few, strict=True) if is_rare]
    if rare:
        said.append(
            f"values with fewer than {RARE_ROWS} rows: {len(rare):,} of {column.value_count:,}; make sure that such values are public "
            "knowledge (schema declare asks for --rare-are-public)"
        )
    return ("" if not said else ". ".join(text[:1].upper() + text[1:] for text in said) + "."), rare


def _is_wide(column: Column, code: int) -> bool:
    """Whether a code stands for an interval of values and not for one of them."""
    cells = getattr(column, "cells", None)
    if cells is None:
        return False
    width = float(cells.high[code]) - float(cells.low[code])
    unit = 0.5 if column.kind in ("integer", "date") else 10.0 ** -(getattr(column, "decimals", None) or 12)
    return width > unit * 1.000001


def _questions(table: Any, keys: Mapping[str, int], told_apart: bool) -> tuple[str, ...]:
    """Return what only the owner can answer: who has several rows, and why rows are equal."""
    questions = [
        f"{column!r} repeats, up to {most:,} times: does somebody have several rows? Then protect people and not rows: "
        f"--unit add-remove --id-column {column} --max-rows-per-person K, with a public K such as {most:,} or less (rows beyond "
        "it are left out at random). If it names things and not people, declare it as a categorical column."
        for column, most in keys.items()
        if most > 1
    ]
    copies = _copies(table) if told_apart and len(table) >= _FEW_ROWS else 0
    if copies:
        questions.append(
            f"{percent(copies / len(table))} of the rows are copies of others, identifiers included: were they loaded twice? A person "
            "with two rows needs a unit of two rows."
        )
    return tuple(questions)


def _copies(table: Any) -> int:
    """Return how many rows equal an earlier one in every column."""
    try:
        return int(table.duplicated().sum())
    except TypeError:  # entries such as lists cannot be compared
        return 0
