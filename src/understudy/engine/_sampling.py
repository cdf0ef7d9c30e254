"""Numba kernel that hands out values to records. Import on first use only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy._compile import compiled, of_one_type


@compiled()
def order_by_group(group, permutation, n_groups):  # type: ignore[no-untyped-def]
    """List the records group by group, in the order of a permutation within each group."""
    starts = np.zeros(n_groups + 1, np.int64)
    for r in range(group.shape[0]):
        starts[group[r] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    order = np.empty(group.shape[0], np.int64)
    for r in permutation:
        order[starts[group[r]]] = r
        starts[group[r]] += 1
    return order


def distribute(
    conditional: npt.NDArray[np.float64],
    group: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    uniforms: npt.NDArray[np.float64],
    systematic: bool,
) -> npt.NDArray[np.int64]:
    """Give each record a value drawn from the row of ``conditional`` of its group.

    ``order`` lists the records group by group, shuffled within groups. With ``systematic`` the ``k``
    records of a group take the values at ``(u + j) / k``, j = 0..k-1, of the cumulative distribution:
    every value, and every run of consecutive values, comes out within one of its expected number.
    """
    return _distribute(of_one_type(conditional), group, order, uniforms, systematic)  # type: ignore[no-any-return]


@compiled()
def _distribute(conditional, group, order, uniforms, systematic):  # type: ignore[no-untyped-def]
    """See `distribute`."""
    n = group.shape[0]
    width = conditional.shape[1]
    values = np.empty(n, np.int64)
    cumulative = np.empty(width)
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
                last = j  # rounding must never step onto an impossible value
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
            running = 0.0
            for j in range(last + 1):
                running += conditional[row, j]
                cumulative[j] = running
            for r in range(position, end):
                point = uniforms[r] * running
                low, high = 0, last
                while low < high:
                    middle = (low + high) // 2
                    if cumulative[middle] > point:
                        high = middle
                    else:
                        low = middle + 1
                values[order[r]] = low
        position = end
    return values
