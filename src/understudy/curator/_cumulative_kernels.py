"""Compiled counting of monotone paths inside bands. Exact inputs are private; only the curator calls this."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy._compile import compiled


@compiled(nogil=True)
def count_paths(
    ends: npt.NDArray[np.int64], weight: int, records: int, width: int, counts: npt.NDArray[np.float64]
) -> None:
    """Count ascending sequences of whole numbers ``x_j`` from 0 to ``records`` near the ends, for every level.

    ``counts[s]`` becomes the number with ``|ends_j - weight x_j| <= s width`` for all ``j``; the last entry is the
    number of all sequences. Numbers are sums of positive doubles.
    """
    many = len(ends)
    ways = np.zeros(records + 1)
    for level in range(len(counts)):
        free = level == len(counts) - 1
        reach = level * width
        start, stop = 0, -1
        possible = True
        for j in range(many):
            low, high = 0, records
            if not free:
                low = max(0, -((reach - ends[j]) // weight))
                high = min(records, (ends[j] + reach) // weight)
            if j > 0:
                low = max(low, start)
            if high < low:
                possible = False
                break
            if j == 0:
                for x in range(low, high + 1):
                    ways[x] = 1.0
            else:
                total = 0.0
                for x in range(start, min(low, stop + 1)):
                    total += ways[x]
                for x in range(low, high + 1):
                    if x <= stop:
                        total += ways[x]
                    ways[x] = total
            start, stop = low, high
        if possible:
            total = 0.0
            for x in range(start, stop + 1):
                total += ways[x]
            counts[level] = total
        else:
            counts[level] = 0.0
