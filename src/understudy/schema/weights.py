"""Survey weights: a column that says how many people of the population each row stands for, and how it is read.

A weight is one more column of the table, with public bins that grow with the weight: rows of a sample are counted as rows, so one person changes counts by one, whatever
their weight is. The alternative, to add the weights of rows up cell by cell, lets one person change a sum by the cap, and all noise grows by the cap over the mean weight;
it was measured and is worse (docs/how-to/survey-weights.md).

**Reading.** Every entry has a code, so nothing, not even an error, depends on the weights: a weight at or above the cap counts as the cap; what is negative, missing, infinite or no
number counts as missing, and stands for nobody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

from understudy.errors import SchemaError
from understudy.schema.columns.column import Column
from understudy.schema.columns.numeric import Real
from understudy.schema.problems import did_you_mean, problems_of

__all__ = ["Weight", "with_weight"]

DEFAULT_BINS = 8
MOST_BINS = 100
_DIGITS = 6
"""Of the edges of bins, so that they are the same on every machine."""
_RANGE = 100.0
"""The cap over the weight below which all share a bin, where the schema does not say it."""
_LARGEST = 1e12


@dataclass(frozen=True)
class Weight:
    """The weight column of a survey, and what is public about it. Everything here is declared, nothing is read from records.

    Parameters
    ----------
    column
        The column that holds the weights.
    cap
        Largest weight that is told apart: larger ones count as the cap. Public; choose it from the design, not from the records.
    lowest
        Weights below it share one bin, from 0. A hundredth of the cap where nobody says.
    bins
        Number of bins between ``lowest`` and ``cap``; each is larger than the one before by the same factor.
    decimals
        Most digits after the point in synthetic weights.

    Examples
    --------
    >>> Weight("w", cap=16, lowest=1, bins=4).as_column.labels
    ('[0, 1)', '[1, 2)', '[2, 4)', '[4, 8)', '[8, 16)', '>=16', 'missing')
    """

    column: str
    cap: float
    lowest: float | None = None
    bins: int = DEFAULT_BINS
    decimals: int | None = None

    def __post_init__(self) -> None:
        for name in ("cap", "lowest"):  # 25 and 25.0 are the same weight, and files show them alike
            if _positive(getattr(self, name)):
                object.__setattr__(self, name, float(getattr(self, name)))

    @classmethod
    def from_plain(cls, plain: object) -> tuple[Weight | None, list[str]]:
        """Read the section ``weight`` of a schema; return what is wrong with it beside it."""
        if plain is None:
            return None, []
        if isinstance(plain, Weight):
            wrong = plain.problems()
            return (None if wrong else plain), wrong
        known = [item.name for item in fields(cls)]
        if not isinstance(plain, Mapping) or not {"column", "cap"} <= set(plain):
            return None, ["weight: must be a mapping with the keys column and cap"]
        wrong = [
            f"weight: unknown key {str(key)!r}.{did_you_mean(str(key), known)} Known: {', '.join(known)}"
            for key in plain
            if key not in known
        ]
        if wrong:
            return None, wrong
        made = cls(**plain)
        wrong = made.problems()
        return (None if wrong else made), wrong

    def problems(self) -> list[str]:
        """Return what is wrong with the numbers."""
        wrong = []
        if not isinstance(self.column, str) or not self.column.strip():
            wrong.append("weight.column: name the column that holds the weights")
        if not _positive(self.cap) or self.cap > _LARGEST:
            wrong.append(f"weight.cap: write the largest weight, a number above 0 and at most {_LARGEST:g}")
        elif self.lowest is not None and (
            not _positive(self.lowest) or not 1e-9 * self.cap <= self.lowest < self.cap
        ):
            wrong.append(
                "weight.lowest: write a number above 0 and below the cap, at least a billionth of it"
            )
        if isinstance(self.bins, bool) or not isinstance(self.bins, int) or not 1 <= self.bins <= MOST_BINS:
            wrong.append(f"weight.bins: write a whole number from 1 to {MOST_BINS}")
        if wrong:
            return wrong
        if any(high <= low for low, high in pairwise(self.edges)):
            return ["weight.bins: so many bins between lowest and cap cannot be told apart; use fewer"]
        try:
            _ = self.as_column
        except SchemaError as error:
            return [f"weight: {problem}" for problem in problems_of(error)]
        return []

    @property
    def edges(self) -> tuple[float, ...]:
        """Where the bins begin; the last one holds everything from the cap on."""
        lowest = self.cap / _RANGE if self.lowest is None else self.lowest
        growth = math.log(self.cap / lowest) / self.bins
        inner = [lowest * math.exp(growth * step) for step in range(1, self.bins)]
        return (0.0, float(lowest), *(float(f"{edge:.{_DIGITS}g}") for edge in inner), float(self.cap))

    @cached_property
    def as_column(self) -> Real:
        """The column that tables are read and modelled with.

        Privacy
        -------
        A row is put into its bin by its own weight and public edges alone: tables that differ in one row are read to tables that differ in one
        row, and every sensitivity is that of a table without weights. Every entry has a code, so that no table is refused for its weights.
        """
        return Real(
            self.column,
            description="Survey weight: how many people of the population the row stands for.",
            bins={"edges": list(self.edges), "open": "high"},
            missing=True,
            out_of_domain="to-missing",
            decode_by="smooth",
            decimals=self.decimals,
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the section as plain values, leaving out defaults."""
        return {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if getattr(self, item.name) != item.default
        }


def with_weight(columns: tuple[Column, ...], weight: Weight | None) -> tuple[Column, ...]:
    """Return the columns of a table with its weight column: where it stands already, or as the last one.

    Raises
    ------
    SchemaError
        If a column of that name is declared otherwise.
    """
    if weight is None:
        return columns
    same = [column for column in columns if column.name == weight.column]
    if same and same != [weight.as_column]:
        raise SchemaError(
            f"The schema has problems:\n  - weight.column: {weight.column!r} is also declared among columns. Leave it out there: cap, lowest and bins say how it is "
            "read, and it is added as the last column"
        )
    return columns if same else (*columns, weight.as_column)


def _positive(number: object) -> bool:
    try:
        return (
            isinstance(number, int | float)
            and not isinstance(number, bool)
            and math.isfinite(number)
            and number > 0
        )
    except OverflowError:  # a whole number beyond every float
        return False
