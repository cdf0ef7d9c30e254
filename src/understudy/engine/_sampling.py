"""Numba kernel that hands out values to records. Import on first use only."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def distribute(conditional, group, order, uniforms, systematic):  # type: ignore[no-untyped-def]
    """Give each record a value drawn from the row of ``conditional`` of its group.

    ``order`` lists the records group by group, shuffled within groups. With ``systematic`` the ``k``
    records of a group take the values at ``(u + j) / k``, j = 0..k-1, of the cumulative distribution:
    every value, and every run of consecutive values, comes out within one of its expected number.
    """
    n = group.shape[0]
    width = conditional.shape[1]
    values = np.empty(n, np.int64)
    position = 0
    while position < n:
        row = group[order[position]]
        end = position
        while end < n and group[order[end]] == row:
            end += 1
        k = end - position
        mass = 0.0
        last = 0
        for j in range(width):
            if conditional[row, j] > 0.0:
                mass += conditional[row, j]
                last = j
        if systematic or k == 1:
            step = mass / k
            point = uniforms[position] * step
            running = 0.0
            j = -1
            for r in range(position, end):
                while running <= point and j < last:
                    j += 1
                    running += conditional[row, j]
                values[order[r]] = j
                point += step
        else:
            points = np.sort(uniforms[position:end]) * mass
            running = 0.0
            j = -1
            for r in range(position, end):
                while running <= points[r - position] and j < last:
                    j += 1
                    running += conditional[row, j]
                values[order[r]] = j
        position = end
    return values
