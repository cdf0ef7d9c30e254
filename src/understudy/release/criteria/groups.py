"""Groups of records and the value each code of a column stands for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.release.record_types import RecordTypes
from understudy.schema import Domain

if TYPE_CHECKING:
    from understudy.schema import Column

__all__ = ["Grouping", "OpenBins", "code_values"]

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
