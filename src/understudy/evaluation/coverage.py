"""Do intervals that were promised hold the real numbers?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.evaluation.result import Result

Interval = tuple[npt.ArrayLike, npt.ArrayLike]


def interval_coverage(intervals: Mapping[str, Interval], truth: Mapping[str, npt.ArrayLike]) -> Result:
    """Return, by name, the share of real numbers that lie within their intervals.

    Examples
    --------
    >>> interval_coverage({"age": ([0, 4], [2, 6])}, {"age": [1, 7]}).values["age"]
    0.5
    """
    values = {}
    for name, (low, high) in intervals.items():
        if name not in truth:
            raise WorkloadError(f"There is no real number to compare the interval of {name!r} with.")
        below, above, real = (np.asarray(item, dtype=np.float64) for item in (low, high, truth[name]))
        if below.shape != real.shape or above.shape != real.shape:
            raise WorkloadError(f"The intervals of {name!r} do not have the shape of the real numbers.")
        values[name] = float(((below <= real) & (real <= above)).mean()) if real.size else 1.0
    return Result("share of real numbers within their intervals", values, better="higher")
