"""Total variation between two tables, column by column and pair by pair (paper Deniability, Figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.evaluation.codes import as_codes
from understudy.evaluation.result import Result
from understudy.marginals import count_codes
from understudy.schema import Domain

Table = Mapping[str, npt.ArrayLike] | npt.ArrayLike


def total_variation(left: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Return half the L1 distance of two histograms as distributions; 1 if exactly one of them is empty.

    Examples
    --------
    >>> total_variation([1, 1], [3, 1])
    0.25
    """
    a, b = np.asarray(left, dtype=np.float64).ravel(), np.asarray(right, dtype=np.float64).ravel()
    if not a.sum() or not b.sum():
        return float(bool(a.sum()) != bool(b.sum()))
    return float(np.abs(a / a.sum() - b / b.sum()).sum() / 2)


def single_distances(domain: Domain, real: Table, other: Table) -> Result:
    """Return the total variation of every column."""
    a, b = as_codes(domain, real), as_codes(domain, other)
    values = {
        name: total_variation(count_codes(domain, a, (name,)), count_codes(domain, b, (name,)))
        for name in domain.names
    }
    return Result("total variation of single columns", values, better="lower")


def pair_distances(domain: Domain, real: Table, other: Table) -> Result:
    """Return the total variation of every pair of columns."""
    a, b = as_codes(domain, real), as_codes(domain, other)
    values = {
        f"{x} {y}": total_variation(count_codes(domain, a, (x, y)), count_codes(domain, b, (x, y)))
        for x, y in combinations(domain.names, 2)
    }
    return Result("total variation of pairs of columns", values, better="lower")
