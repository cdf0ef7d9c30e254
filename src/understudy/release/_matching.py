"""Largest number of records of two tables that can be paired, by maximum flow over record types."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from understudy.errors import DataError
from understudy.release._keys import IntArray, record_keys

_LARGEST = 2**31 - 1  # capacities of SciPy's flow are 32-bit


def offsets(near: dict[int, int], at_most: int) -> list[dict[int, int]]:
    """Return every way to move at most ``at_most`` columns by at most their number of steps, none first.

    Examples
    --------
    >>> offsets({1: 1, 4: 1}, 1)
    [{}, {1: -1}, {1: 1}, {4: -1}, {4: 1}]
    """
    moves: list[dict[int, int]] = []
    for size in range(at_most + 1):
        for axes in combinations(sorted(near), size):
            steps = [[step for step in range(-near[axis], near[axis] + 1) if step] for axis in axes]
            moves += [dict(zip(axes, chosen, strict=True)) for chosen in product(*steps)]
    return moves


def similar_pairs(
    left: IntArray,
    right: IntArray,
    sizes: tuple[int, ...],
    moves: list[dict[int, int]],
    fixed: dict[int, frozenset[int]],
) -> tuple[IntArray, IntArray]:
    """Return the pairs (row of ``left``, row of ``right``) that differ by one of the moves.

    A move of a column is not possible from or to a code in ``fixed``, nor beyond the codes of the column.
    """
    blocked = {axis: np.isin(np.arange(sizes[axis]), sorted(codes)) for axis, codes in fixed.items()}
    from_left, to_right = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for move in moves:
        possible = np.ones(len(left), dtype=bool)
        moved = left.copy()
        for axis, step in move.items():
            moved[:, axis] += step
            inside = (moved[:, axis] >= 0) & (moved[:, axis] < sizes[axis])
            possible &= inside
            if axis in blocked:
                possible &= ~blocked[axis][left[:, axis]]
                possible &= ~blocked[axis][np.where(inside, moved[:, axis], 0)]
        rows = np.flatnonzero(possible)
        wanted, present = record_keys([moved[rows], right], sizes)
        place = np.minimum(np.searchsorted(present, wanted), max(0, len(present) - 1))
        hit = present[place] == wanted if len(present) else np.zeros(len(wanted), dtype=bool)
        from_left.append(rows[hit])
        to_right.append(place[hit])
    return np.concatenate(from_left), np.concatenate(to_right)


def largest_matching(left: IntArray, right: IntArray, supply: IntArray, demand: IntArray) -> int:
    """Return the largest number of units that can be sent along edges ``left[i] -> right[i]``.

    Each left node sends at most its supply, each right node takes at most its demand, and edges have no
    limit of their own. This is the size of a maximum matching between ``supply`` copies of the left and
    ``demand`` copies of the right nodes.

    Examples
    --------
    >>> largest_matching(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([3, 1]), np.array([1, 2]))
    3
    """
    if len(left) == 0:
        return 0
    total = int(supply.sum())
    if total > _LARGEST:  # the rows of a candidate, which are public
        raise DataError(f"Matching handles candidates of up to {_LARGEST:,} rows.")
    demand = np.minimum(demand, total)  # nobody takes more than there is, however many real rows there are
    n_left, n_right = len(supply), len(demand)
    source, sink = n_left + n_right, n_left + n_right + 1
    tails = np.concatenate([np.full(n_left, source), left, n_left + np.arange(n_right)])
    heads = np.concatenate([np.arange(n_left), n_left + right, np.full(n_right, sink)])
    room = np.concatenate([supply, np.minimum(supply[left], demand[right]), demand]).astype(np.int32)
    graph = csr_array((room, (tails, heads)), shape=(sink + 1, sink + 1))
    return int(maximum_flow(graph, source, sink).flow_value)
