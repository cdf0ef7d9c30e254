"""Compiled loops of the histograms: partitions, paths and penalised segments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy._compile import compiled

# ----------------------------------------------------------------------------------------
# Numba kernels for partitions of an ordered histogram. Import on first use only.
#
# A bucket is a range of adjacent cells. Growing a bucket of ``m`` cells with sum ``S`` by a cell ``x`` raises its
# sum of squared errors by ``(m x - S)² / (m (m + 1))``, and ``m x - S`` is a whole number: no two nearly equal
# numbers are ever subtracted in floating point, so squared errors have a relative error of a few units per cell.

SPLIT_BITS = 24
"""Deviations of parts are whole numbers of ``2**-24`` rows."""


@compiled(nogil=True)
def best_errors(counts, buckets):  # type: ignore[no-untyped-def]
    """Return ``T[j, e]``: the least squared error of the first ``e`` cells in exactly ``j`` buckets.

    One pass over the first cell ``s`` of the last bucket: when it is reached, every ``T[j, s]`` is final.
    """
    n = len(counts)
    best = np.full((buckets + 1, n + 1), np.inf)
    best[0, 0] = 0.0
    for s in range(n):
        total = np.int64(0)
        error = 0.0
        for e in range(s + 1, n + 1):
            x = counts[e - 1]
            m = e - 1 - s
            if m > 0:
                apart = float(m * x - total)
                error += apart * apart / (float(m) * float(m + 1))
            total += x
            for j in range(1, min(buckets, s + 1) + 1):
                tried = best[j - 1, s] + error
                if tried < best[j, e]:
                    best[j, e] = tried
    return best


@compiled(nogil=True)
def errors_up_to(counts, end):  # type: ignore[no-untyped-def]
    """Return the squared error of the bucket ``[q, end)`` for every ``q`` below ``end``."""
    errors = np.zeros(end)
    total = np.int64(0)
    error = 0.0
    for q in range(end - 1, -1, -1):
        x = counts[q]
        m = end - 1 - q
        if m > 0:
            apart = float(m * x - total)
            error += apart * apart / (float(m) * float(m + 1))
        total += x
        errors[q] = error
    return errors


@compiled(nogil=True)
def _deviations(counts, result, backwards):  # type: ignore[no-untyped-def]
    """Fill ``result[i]`` with the absolute deviations from their mean of the first (last) ``i + 1`` cells, in steps of ``2**-24``."""
    n = len(counts)
    total = np.int64(0)
    for i in range(n):
        total += counts[n - 1 - i] if backwards else counts[i]
        m = i + 1
        apart = np.int64(0)
        for j in range(m):
            x = counts[n - 1 - j] if backwards else counts[j]
            apart += abs(m * x - total)
        result[i] = (apart // m << SPLIT_BITS) + ((apart % m << SPLIT_BITS) // m)


@compiled(nogil=True)
def split_deviations(counts):  # type: ignore[no-untyped-def]
    """Return the absolute deviations of the whole range (entry 0) and of its two parts for each split point.

    Whole numbers of ``2**-24`` rows, each of the deviations rounded down. ``m`` counts of at most ``F`` deviate by at most ``m F/2`` rows in
    all: below ``2**38``, and ``2**62`` steps, while ``m F`` is at most ``2**39``.
    """
    n = len(counts)
    first = np.zeros(n, dtype=np.int64)
    last = np.zeros(n, dtype=np.int64)
    _deviations(counts, first, False)
    _deviations(counts, last, True)
    result = np.zeros(n, dtype=np.int64)
    result[0] = first[n - 1]
    for i in range(1, n):
        result[i] = first[i - 1] + last[n - 1 - i]
    return result


# ----------------------------------------------------------------------------------------
# Compiled counting of monotone paths inside bands. Exact inputs are private; only the curator calls this.


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


# ----------------------------------------------------------------------------------------
# Numba kernels over noisy histograms. Import on first use only.


@compiled(nogil=True)
def last_starts(values, penalty):  # type: ignore[no-untyped-def]
    """Return, for every end ``e``, where the last bucket of the best penalised partition of ``values[:e]`` starts."""
    n = len(values)
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    start = np.zeros(n + 1, dtype=np.int64)
    for s in range(n):
        mean = 0.0
        error = 0.0
        for e in range(s + 1, n + 1):
            m = e - s
            apart = values[e - 1] - mean
            mean += apart / m
            error += apart * (values[e - 1] - mean)
            tried = best[s] + error + penalty
            if tried < best[e]:
                best[e] = tried
                start[e] = s
    return start
