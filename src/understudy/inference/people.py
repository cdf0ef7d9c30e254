"""People counted by how many rows they have, and what follows from noisy counts of them about a cut to a few rows of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.marginals import Statistic

__all__ = ["MOST_ROWS", "PEOPLE", "STARTS", "RowsPerPerson", "lost_by", "rows_of_bins"]

MOST_ROWS = 64
"""Most rows of a person that are told apart."""
STARTS = (1, 2, 3, 4, 5, 7, 10, 15, 23, 36, MOST_ROWS)
"""Where the bins of the number of rows begin; the last one holds everybody with more."""
PEOPLE = "people by their number of rows"
"""What the released numbers are called in a model."""
_DEVIATIONS = 1.96
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RowsPerPerson:
    """What a cut by person leaves out, from a look that was paid for. Public.

    Attributes
    ----------
    max_rows
        How many rows of a person count.
    rows, lost
        Estimates: rows of all people (those with more than 64 count as ones with 64), and how many of them the cut leaves out.
    lost_low, lost_high
        Between these lies the number of rows that are left out, with 95 % confidence; rows of a person beyond the 64th are not part of it.
    """

    max_rows: int
    rows: float
    lost: float
    lost_low: float
    lost_high: float

    def describe(self) -> str:
        """Say it in a sentence."""
        share = f", {self.lost / self.rows:.1%} of all" if self.rows > 0 else ""
        return (
            f"The cut to {self.max_rows} {'row' if self.max_rows == 1 else 'rows'} of a person leaves out about {self.lost:,.0f} rows{share} (between {self.lost_low:,.0f} and "
            f"{self.lost_high:,.0f} with 95 % confidence; rows of a person beyond the {MOST_ROWS}th are not counted). The estimate was paid for."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "max_rows": self.max_rows,
            "rows": round(self.rows),
            "lost": round(self.lost),
            "lost_between": [round(self.lost_low), round(self.lost_high)],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RowsPerPerson:
        """Return what `to_dict` wrote, in whole rows."""
        low, high = plain["lost_between"]
        return cls(
            max_rows=int(plain["max_rows"]),
            rows=float(plain["rows"]),
            lost=float(plain["lost"]),
            lost_low=float(low),
            lost_high=float(high),
        )


def lost_by(people: Statistic, max_rows: int) -> RowsPerPerson:
    """Return how many rows a cut leaves out.

    A bin of the number of rows from ``a`` to ``b`` says that each of its people loses between ``max(0, a - k)`` and ``max(0, b - k)`` rows. The
    limits take the one or the other end of all bins, and 1.96 deviations of the noise beyond.

    Examples
    --------
    >>> import numpy as np
    >>> people = np.zeros(11)
    >>> people[[0, 2]] = 100, 10  # a hundred with one row, ten with three
    >>> found = lost_by(Statistic(PEOPLE, people, "laplace", 1e-9), 2)
    >>> round(found.rows), round(found.lost), round(found.lost_low), round(found.lost_high)
    (130, 10, 10, 10)
    """
    low, high = _ends()
    middle = rows_of_bins()
    noisy = np.asarray(people.values, np.float64)
    lost = [np.maximum(rows - max_rows, 0.0) for rows in (low, middle, high)]
    deviations = [_DEVIATIONS * math.sqrt(people.variance * float((part**2).sum())) for part in lost]
    rows = float(np.maximum(noisy, 0.0) @ middle)
    least = max(0.0, float(noisy @ lost[0]) - deviations[0])
    most = max(least, float(np.maximum(noisy, 0.0) @ lost[2]) + deviations[2])
    return RowsPerPerson(
        max_rows=max_rows,
        rows=rows,
        lost=min(max(float(noisy @ lost[1]), least), most),
        lost_low=least,
        lost_high=most,
    )


def _ends() -> tuple[Floats, Floats]:
    """Return the fewest and the most rows of the people of each bin; the last one counts as one number."""
    low = np.asarray(STARTS, np.float64)
    return low, np.append(low[1:] - 1.0, low[-1])


def rows_of_bins() -> Floats:
    """Return a number of rows for each bin; people with few rows are more common than people with many, so it is the geometric mean of the ends."""
    low, high = _ends()
    return np.sqrt(low * high)
