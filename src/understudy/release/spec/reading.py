"""What the owner of a release wants its report to begin with: a share, a mean, or a comparison of two groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from understudy.errors import UnderstudyError, WorkloadError
from understudy.release.criteria.groups import (
    GroupPart,
    OpenBins,
    code_values,
    column_of,
    label_of,
    numeric_of,
)
from understudy.release.spec.parts import Part
from understudy.schema import Schema

__all__ = ["PublisherPart", "Reading", "ReadingPart"]


class PublisherPart(Part):
    """Who publishes the table, for its documents."""

    name: str = Field("", description="Name of the office that publishes the table.")
    contact: str = Field("", description="Where people in the data and users of the table can ask.")
    region: str = Field("", description="The region that the table describes.")
    sector: Literal["", "Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] = Field(
        "", description="Sector, in the words of the registry of differentially private deployments."
    )


@dataclass(frozen=True)
class Reading:
    """A share or a mean, of everybody or of two groups that are compared, over the codes of a schema.

    Attributes
    ----------
    text
        What it is, in the owner's words; empty where there are none.
    column, labels
        The column, and the values whose share it is; none for a mean.
    values
        What each code counts for: the number it stands for, or 1 and 0 for a share; NaN leaves a code out.
    by, groups
        The column of the groups, and two groups as their label and their codes; none for everybody.
    unit
        Of the column.
    """

    text: str
    column: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    by: str = ""
    groups: tuple[tuple[str, tuple[int, ...]], ...] = ()
    unit: str = ""

    @property
    def is_share(self) -> bool:
        """Whether it is a share rather than a mean."""
        return bool(self.labels)


class ReadingPart(Part):
    """One thing to read off the table: the share of some values of a column or, without them, its mean; in two groups if they are given."""

    column: str = Field(description="The column that is looked at.")
    values: list[str] | None = Field(
        None, description="The values whose share it is; left out for the mean.", min_length=1
    )
    by: str | GroupPart | None = Field(
        None,
        description="Compare two groups: a column (its first and last value), or a column with groups, of which the first and last are taken.",
    )
    text: str = Field("", description="What it is, in words for people.", max_length=120)

    def build(self, schema: Schema, open_bins: OpenBins = "nearest") -> Reading:
        """Return the reading over the codes of a schema, or raise an `UnderstudyError` that says what does not fit."""
        if self.values is None:
            column = numeric_of(schema, self.column)
            if column.kind in ("categorical", "ordinal", "date", "boolean"):
                raise WorkloadError(
                    f"column {column.name!r} holds no numbers; give the values whose share it is"
                )
            values = code_values(column, open_bins)
        else:
            column = column_of(schema, self.column)
            wanted = {label_of(column, label) for label in self.values}
            values = tuple(
                float(code in wanted) if code < column.value_count or code in wanted else math.nan
                for code in range(column.size)
            )
        return Reading(
            text=self.text,
            column=column.name,
            labels=tuple(self.values or ()),
            values=values,
            by="" if self.by is None else self.by if isinstance(self.by, str) else self.by.column,
            groups=() if self.by is None else self._ends(self.by, schema),
            unit="" if self.values else column.unit or "",
        )

    def _ends(self, by: str | GroupPart, schema: Schema) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Return the first and the last group."""
        part = GroupPart(column=by, bins=None, groups=None) if isinstance(by, str) else by
        grouping = part.build(schema)
        if grouping.count < 2:
            raise WorkloadError("a comparison needs two groups")
        if grouping.column == self.column:
            raise WorkloadError(f"the groups of {self.column!r} cannot be made of the column itself")
        labels = part.labels(schema)
        return tuple(
            (labels[number], tuple(code for code, group in enumerate(grouping.groups) if group == number))
            for number in (0, grouping.count - 1)
        )

    def problem(self, schema: Schema) -> str:
        """Return what does not fit a schema, in one sentence; empty if it fits."""
        try:
            self.build(schema)
        except UnderstudyError as error:
            return " ".join(str(error).split())
        return ""
