"""Numba kernels of seed-based synthesis with a network. Import on first use only.

Columns come in resampling order. ``sorted_seeds`` is ``[columns, seeds]``, sorted as words of a dictionary, so
the seeds that share a prefix with a candidate are one range, and each further column narrows it by two
binary searches: the exact number of seeds per agreeing prefix, without a scan.
"""

from __future__ import annotations

import numpy as np

from understudy._compile import compiled

_DIGITS = np.uint64(11)  # 64 - 53


@compiled(nogil=True)
def _row(column, y, parent_start, parents, bucket_start, buckets, strides):  # type: ignore[no-untyped-def]
    """Return which row of the conditional table of a column applies, given the columns before it."""
    row = 0
    for j in range(parent_start[column], parent_start[column + 1]):
        row += strides[j] * buckets[bucket_start[j] + y[parents[j]]]
    return row


@compiled(nogil=True)
def _narrow(column, value, low, high):  # type: ignore[no-untyped-def]
    """Return the part of ``column[low:high]``, which is sorted, that equals ``value``."""
    first, last = low, high
    while first < last:
        middle = (first + last) >> 1
        if column[middle] < value:
            first = middle + 1
        else:
            last = middle
    start, last = first, high
    while first < last:
        middle = (first + last) >> 1
        if column[middle] <= value:
            first = middle + 1
        else:
            last = middle
    return start, first


@compiled(nogil=True)
def propose(  # type: ignore[no-untyped-def]
    out, kept, words, sizes, table_start, cumulative, parent_start, parents, bucket_start, buckets, strides
):
    """Resample all columns after the first ``kept[r]`` of each record in place.

    ``cumulative`` holds whole numbers out of ``2**53``: a value comes out with exactly its own share.
    """
    width = sizes.shape[0]
    for r in range(out.shape[0]):
        for i in range(kept[r], width):
            row = _row(i, out[r], parent_start, parents, bucket_start, buckets, strides)
            start = table_start[i] + row * sizes[i]
            point = np.int64(words[r, i] >> _DIGITS)
            low, high = 0, sizes[i] - 1
            while low < high:
                middle = (low + high) >> 1
                if cumulative[start + middle] > point:
                    high = middle
                else:
                    low = middle + 1
            out[r, i] = low


@compiled(nogil=True)
def classes(  # type: ignore[no-untyped-def]
    y,
    allowed,
    log_gamma,
    sizes,
    table_start,
    logs,
    parent_start,
    parents,
    bucket_start,
    buckets,
    strides,
    result,
):
    """Fill ``result[l]`` with the class of seeds that agree with ``y`` on exactly the first ``l`` columns.

    ``allowed[l]`` is the log chance that exactly ``l`` columns are kept (minus infinity for never). A seed that
    agrees on ``l`` columns gives ``y`` with probability ``sum over r <= l of P(keep r) prod over i >= r of
    P(y_i | parents)``. The class is the whole number ``c`` with ``γ^(-c-1) < p <= γ^(-c)``, and -1 for ``p = 0``.
    """
    width = sizes.shape[0]
    tails = np.empty(width + 1)
    tails[width] = 0.0
    for back in range(width):
        i = width - 1 - back
        row = _row(i, y, parent_start, parents, bucket_start, buckets, strides)
        tails[i] = tails[i + 1] + logs[table_start[i] + row * sizes[i] + y[i]]
    total = -np.inf
    for agree in range(width + 1):
        term = allowed[agree] + tails[agree]
        if term > -np.inf:
            top = max(total, term)
            total = top + np.log(np.exp(total - top) + np.exp(term - top))
        result[agree] = -1 if total == -np.inf else np.int64(np.floor(-min(total, 0.0) / log_gamma))


@compiled(nogil=True)
def plausible(  # type: ignore[no-untyped-def]
    candidates,
    seeds,
    sorted_seeds,
    allowed,
    log_gamma,
    sizes,
    table_start,
    logs,
    parent_start,
    parents,
    bucket_start,
    buckets,
    strides,
):
    """Return, for each candidate and its own seed, the exact number of plausible seeds."""
    width = sizes.shape[0]
    rows = sorted_seeds.shape[1]
    counts = np.zeros(candidates.shape[0], np.int64)
    result = np.empty(width + 1, np.int64)
    for r in range(candidates.shape[0]):
        y = candidates[r]
        classes(
            y,
            allowed,
            log_gamma,
            sizes,
            table_start,
            logs,
            parent_start,
            parents,
            bucket_start,
            buckets,
            strides,
            result,
        )
        own = 0
        while own < width and seeds[r, own] == y[own]:
            own += 1
        wanted = result[own]
        if wanted < 0:
            continue
        low, high = 0, rows
        total = 0
        for agree in range(width + 1):
            here = high - low
            if agree < width and here > 0:
                low, high = _narrow(sorted_seeds[agree], y[agree], low, high)
                further = high - low
            else:
                further = 0
            if result[agree] == wanted:
                total += here - further
            if further == 0:
                break
        counts[r] = total
    return counts
