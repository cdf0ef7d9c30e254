"""Groups of records and the value each code of a column stands for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from understudy.errors import SchemaError, WorkloadError
from understudy.release.projection import KAnonymity
from understudy.release.record_types import RecordTypes
from understudy.release.spec.parts import AnyValue, Part, Whole
from understudy.schema import Column, Constraint, Domain, Integer, Real, Schema
from understudy.schema.problems import did_you_mean

__all__ = [
    "ColumnSets",
    "GroupPart",
    "Grouping",
    "OpenBins",
    "code_values",
    "column_of",
    "groups_of",
    "label_of",
    "numeric_of",
    "possible_codes",
]

_MOST_CELLS = 1 << 22

Ints = npt.NDArray[np.int64]


OpenBins = Literal["nearest", "written"]
"""What an open bin such as ``10<`` stands for: the possible value closest to its end (11), or the number in its label (10)."""


def code_values(column: Column, open_bins: OpenBins = "nearest") -> tuple[float, ...]:
    """Return the number each code of a column stands for; NaN for codes that are not numbers.

    Numeric columns follow the rule of paper Births, section 4.5.3: a single value is itself, a bounded bin is
    the mean of its ends, an open bin is its edge. The paper takes the number in the label of an open bin, which for whole numbers
    lies outside of it; by default the possible value next to it is taken. Dates, and columns without numbers (such as a boolean), count
    their codes from 0. The codes for missing and other values have no number.

    Examples
    --------
    >>> from understudy.schema import Integer
    >>> code_values(Integer(name="parity", bins=("1", "2-3", "4-6", "7-10", "10<"), missing=True))
    (1.0, 2.5, 5.0, 8.5, 11.0, nan)
    >>> code_values(Integer(name="parity", bins=("1", "2-3", "4-6", "7-10", "10<")), "written")
    (1.0, 2.5, 5.0, 8.5, 10.0)
    """
    numbers = getattr(column, "midpoints" if open_bins == "nearest" else "written_midpoints", None)
    if numbers is None or column.kind == "date":
        numbers = np.arange(column.value_count, dtype=np.float64)
    values = [float(number) for number in numbers]
    if open_bins == "written" and values != sorted(values):
        raise WorkloadError(
            f"the numbers in the labels of {column.name!r} do not rise from bin to bin, so open_bins: written would turn its order round; "
            "write bins that do not overlap, or leave open_bins out"
        )
    return tuple(values + [math.nan] * (column.size - len(values)))


@dataclass(frozen=True)
class Grouping:
    """A column whose codes are put into coarse groups, or everybody in one group.

    Parameters
    ----------
    column
        The column that decides, or None for one group of all records.
    groups
        For each code of the column, the number of its group from 0, or -1 for records left out.

    Examples
    --------
    >>> Grouping.of("age", [[0, 1], [2], [3, 4]], size=6)
    Grouping(column='age', groups=(0, 0, 1, 2, 2, -1))
    >>> Grouping.each("sex", 2).count
    2
    """

    column: str | None = None
    groups: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(int(group) for group in self.groups))
        if self.column is None and self.groups:
            raise WorkloadError("A grouping without a column has no groups to list.")
        if self.column is not None and not set(self.groups) - {-1} == set(
            range(max(self.groups, default=-1) + 1)
        ):
            raise WorkloadError(f"The groups of {self.column!r} must be numbered 0, 1, ... without a gap.")
        if self.column is not None and max(self.groups, default=-1) < 0:
            raise WorkloadError(f"The grouping by {self.column!r} has no group.")

    @classmethod
    def everyone(cls) -> Grouping:
        """One group of all records (the paper's group-by column "none")."""
        return cls()

    @classmethod
    def each(cls, column: str, size: int) -> Grouping:
        """One group per code."""
        return cls(column, tuple(range(size)))

    @classmethod
    def of(cls, column: str, codes: Iterable[Sequence[int]], *, size: int) -> Grouping:
        """Build groups from lists of codes; codes that are not listed are left out."""
        groups = [-1] * size
        for number, members in enumerate(codes):
            for code in members:
                if not 0 <= code < size or groups[code] != -1:
                    raise WorkloadError(f"Code {code} of {column!r} is outside the column or listed twice.")
                groups[code] = number
        return cls(column, tuple(groups))

    @property
    def count(self) -> int:
        """Number of groups."""
        return 1 if self.column is None else max(self.groups) + 1

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        if self.column is None:
            return []
        if self.column not in domain:
            return [f"no column named {self.column!r}"]
        if len(self.groups) != domain.size(self.column):
            return [f"the grouping of {self.column!r} needs one group per code"]
        return []

    def tabulate(self, types: RecordTypes, column: str) -> Ints:
        """Return the counts by group and code of another column, or of the same one."""
        size = types.domain.size(column)
        if self.column is None:
            return types.marginal((column,))[None, :]
        table = np.zeros((self.count, size), dtype=np.int64)
        kept = np.asarray(self.groups) >= 0
        if self.column == column:
            cells = np.diag(types.marginal((column,)))
        else:
            cells = types.marginal((self.column, column))
        np.add.at(table, np.asarray(self.groups)[kept], cells[kept])
        return table


# ----------------------------------------------------------------------------------------
# Columns as specification files name them: by name, by label, in coarse groups, after cleaning.


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


class GroupPart(Part):
    """Groups of records: the codes of a column put into coarse bins or lists of values."""

    column: str = Field(description="The column that decides.")
    bins: AnyValue = Field(None, description="Coarse bins of a numeric column, each a union of its bins.")
    groups: list[list[str]] | None = Field(
        None, description="Lists of labels; labels not listed are left out."
    )

    def build(self, schema: Schema) -> Grouping:
        """Return the grouping over the codes of a schema."""
        column = column_of(schema, self.column)
        if self.bins is not None and self.groups is not None:
            raise WorkloadError(f"the grouping by {column.name!r} has bins and groups; give one of them")
        if self.groups is not None:
            codes = [[label_of(column, label) for label in labels] for labels in self.groups]
        elif self.bins is not None:
            codes = _coarse(column, self.bins)
        else:
            codes = [[code] for code in range(column.value_count)]
        return Grouping.of(column.name, codes, size=column.size)

    def labels(self, schema: Schema) -> tuple[str, ...]:
        """Return the groups as their author wrote them."""
        if self.groups is not None:
            return tuple(", ".join(labels) for labels in self.groups)
        column = column_of(schema, self.column)
        return tuple((column if self.bins is None else _widened(column, self.bins)).value_labels)


def groups_of(listed: Sequence[str | GroupPart], schema: Schema) -> tuple[Grouping, ...]:
    """Return the groupings that a criterion lists."""
    return tuple(
        Grouping.everyone()
        if item == "everyone"
        else (GroupPart(column=item, bins=None, groups=None) if isinstance(item, str) else item).build(schema)
        for item in listed
    )


def _widened(column: Column, bins: AnyValue) -> Integer | Real:
    """Return a numeric column with coarse bins."""
    if not isinstance(column, Integer | Real):
        raise WorkloadError(f"column {column.name!r} is not numeric; group it by lists of labels (groups)")
    try:
        return type(column)(column.name, bins=tuple(bins) if isinstance(bins, list) else bins)
    except SchemaError as error:
        raise WorkloadError(f"the coarse bins of {column.name!r}: {' '.join(str(error).split())}") from None


def _coarse(column: Column, bins: AnyValue) -> list[list[int]]:
    """Return for each coarse bin the codes of the column that lie inside it."""
    wide = _widened(column, bins)
    assert isinstance(column, Integer | Real)
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


_FEW_CELLS = 100_000


@lru_cache(maxsize=128)
def _read_loosely(text: str, columns: tuple[Column, ...]) -> Constraint:
    """Return a rule over some columns with ``straddle: allow``; one instance, since it keeps the table of what it allows."""
    return Constraint.parse(text, columns)


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
        about = tuple(schema.column(name) for name in rule.columns)
        few = math.prod(column.size for column in about) <= _FEW_CELLS
        loose = _read_loosely(rule.text, about) if few else Constraint.parse(rule.text, about)
        axes = sorted(range(len(loose.columns)), key=lambda axis: columns.index(loose.columns[axis]))
        sizes = [schema.domain.size(name) if name in loose.columns else 1 for name in columns]
        possible &= loose.allowed(schema.domain).transpose(axes).reshape(sizes)
    return None if possible.all() else possible


class ColumnSets(Part):
    """Sets of columns whose combinations of values must occur in several rows, listed or all of one size."""

    k: Whole = Field(description="Smallest number of rows that may share a combination.")
    column_sets: list[list[str]] | None = Field(None, description="The sets of columns.")
    every: Whole | None = Field(None, description="Instead: all sets of this many columns.")

    def rule(self, schema: Schema) -> KAnonymity:
        """Return the rule over the columns of a schema."""
        if (self.column_sets is None) == (self.every is None):
            raise WorkloadError("give either column_sets or every")
        if self.every is not None:
            if self.every > len(schema.names):
                raise WorkloadError(
                    f"every ({self.every}) is more than the number of columns ({len(schema.names)})"
                )
            return KAnonymity.every(schema.names, of=self.every, k=self.k)
        listed = tuple(tuple(columns) for columns in self.column_sets or ())
        for columns in listed:
            for name in columns:
                column_of(schema, name)
        return KAnonymity(k=self.k, column_sets=listed)
