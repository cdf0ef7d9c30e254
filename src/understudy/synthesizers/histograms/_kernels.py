"""Numba kernels over noisy histograms. Import on first use only."""

from __future__ import annotations

import numpy as np

from understudy._compile import compiled


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
