"""Numba kernel of the projection onto agreeing tables. Import on first use only."""

from __future__ import annotations

from numba import njit

from understudy.engine._kernels import _accumulate, _add


@njit(cache=True)
def _centre(parts, start, outer, size, inner):  # type: ignore[no-untyped-def]
    """Subtract the mean along one axis of a table."""
    for i in range(outer):
        for j in range(inner):
            mean = 0.0
            at = start + i * size * inner + j
            for k in range(size):
                mean += parts[at + k * inner]
            mean /= size
            for k in range(size):
                parts[at + k * inner] -= mean


@njit(cache=True)
def project(tables, parts, sums, uses, scales, part_scale, centres, maps, index):  # type: ignore[no-untyped-def]
    """Replace the full tables by their agreeing parts, the total left out."""
    for s in range(sums.shape[0]):
        number, source, target, size = sums[s, 0], sums[s, 1], sums[s, 2], sums[s, 3]
        tables[target : target + size] = 0.0
        for o in range(maps[number, 1]):
            _accumulate(
                tables, source + o * maps[number, 0], tables, target + index[maps[number, 4] + o],
                maps[number, 2], maps[number, 3], index, maps[number, 5], maps[number, 0],
            )  # fmt: skip
    parts[:] = 0.0
    for u in range(uses.shape[0]):
        table, part, weight = uses[u, 0], uses[u, 1], scales[u, 0]
        for j in range(uses[u, 2]):
            parts[part + j] += weight * tables[table + j]
    for j in range(parts.shape[0]):
        parts[j] *= part_scale[j]
    for c in range(centres.shape[0]):
        _centre(parts, centres[c, 0], centres[c, 1], centres[c, 2], centres[c, 3])
    for u in range(uses.shape[0]):
        table, part, share = uses[u, 0], uses[u, 1], scales[u, 1]
        for j in range(uses[u, 2]):
            tables[table + j] = share * parts[part + j]
    for s in range(sums.shape[0] - 1, -1, -1):
        number, target, source = sums[s, 0], sums[s, 1], sums[s, 2]
        for o in range(maps[number, 1]):
            _add(
                tables, target + o * maps[number, 0], tables, source + index[maps[number, 4] + o],
                maps[number, 2], maps[number, 3], index, maps[number, 5], maps[number, 0],
            )  # fmt: skip
