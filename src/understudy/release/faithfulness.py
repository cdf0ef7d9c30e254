"""Faithfulness: how many synthetic records can be paired one to one with similar real ones (paper Births, 3.5.1).

The pairing itself would say which real record stands behind which synthetic one, so it is never returned, nor
kept: only the number of pairs of an optimal pairing leaves this module, and it is as private as the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from understudy.errors import DataError, WorkloadError
from understudy.release.record_types import IntArray, RecordTypes, record_keys
from understudy.schema import Domain

# ----------------------------------------------------------------------------------------
# Largest number of records of two tables that can be paired, by maximum flow over record types.

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


@dataclass(frozen=True, kw_only=True)
class Similarity:
    """When two records count as similar: the declared cost function.

    Parameters
    ----------
    exact
        Columns whose values must be equal.
    near
        Columns that may differ, with the number of bins they may differ by. "One bin" is one bin of the
        encoded columns, that is, of the released transformation. Only columns whose codes are in their
        natural order belong here.
    at_most
        How many of the near columns may differ at once.
    exceptions
        Codes of near columns that must match exactly, such as a bin with a clinically meaningful value
        inside, or the codes for missing and other values, which have no neighbours.
    ignored
        Columns that do not matter. Every column of the domain must be named exactly once in ``exact``,
        ``near`` or ``ignored``, so that none is forgotten.

    Examples
    --------
    The cost function of paper Births, section 4.5.5:

    >>> births = Similarity(
    ...     exact=("birth_month", "parity", "birth_sex"),
    ...     near={"mother_age": 1, "gestation_week": 1, "birth_weight": 1},
    ... )
    >>> births.at_most
    1
    """

    exact: tuple[str, ...] = ()
    near: Mapping[str, int] = field(default_factory=dict)
    at_most: int = 1
    exceptions: Mapping[str, Iterable[int]] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", tuple(self.exact))
        object.__setattr__(self, "ignored", tuple(self.ignored))
        object.__setattr__(self, "near", dict(self.near))
        object.__setattr__(
            self, "exceptions", {name: tuple(sorted(set(codes))) for name, codes in self.exceptions.items()}
        )
        if self.at_most < 0:
            raise WorkloadError(f"at_most ({self.at_most}) must not be negative.")
        for name, steps in self.near.items():
            if steps < 1:
                raise WorkloadError(f"Column {name!r} may differ by {steps} bins; name it in exact instead.")

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        found = []
        named = [*self.exact, *self.near, *self.ignored]
        found += [f"no column named {name!r}" for name in dict.fromkeys(named) if name not in domain]
        found += [f"column {name!r} is named twice" for name in dict.fromkeys(named) if named.count(name) > 1]
        found += [f"column {name!r} is not mentioned" for name in domain if name not in named]
        for name, codes in self.exceptions.items():
            if name not in self.near:
                found.append(f"the exceptions of {name!r} need it among the near columns")
            elif name in domain and any(not 0 <= code < domain.size(name) for code in codes):
                found.append(f"the exceptions of {name!r} hold codes outside the column")
        return found


def matched_records(real: RecordTypes, synthetic: RecordTypes, similarity: Similarity) -> int:
    """Return the largest number of synthetic records that can be paired one to one with similar real ones.

    Identical records are grouped, so this is a maximum flow from synthetic types through similar pairs of
    types to real types, with the counts as capacities. Integer capacities have an integer maximum flow, and
    that is a maximum matching of the rows; exact, and quicker than matching rows by three orders of magnitude.

    Privacy
    -------
    Private. One real row changes the result by at most one. Take a maximum flow for the table with the row and
    cancel one unit through the row's type if that type is used to capacity: what is left is a flow for the
    table without it, so removing a row lowers the maximum by at most one. It cannot raise it, because
    every flow without the row is one with it. Adding a row is the reverse. Replacing a row removes one and
    adds one: the maximum moves by -1 or 0, then by 0 or +1, so again by at most one in total. Only the value of
    the optimum has this property; an optimal *pairing* may change everywhere and is never used.

    Examples
    --------
    >>> domain = Domain(("sex", "age"), (2, 5))
    >>> real = RecordTypes.from_rows(domain, [[0, 1], [0, 2], [1, 4]])
    >>> synthetic = RecordTypes.from_rows(domain, [[0, 2], [0, 3], [1, 1]])
    >>> matched_records(real, synthetic, Similarity(exact=("sex",), near={"age": 1}))
    2
    """
    if real.domain != synthetic.domain:
        raise WorkloadError("Both tables must have the same domain.")
    problems = similarity.problems(real.domain)
    if problems:
        raise WorkloadError(f"The similarity does not fit the table: {'; '.join(problems)}.")
    kept = [name for name in real.domain if name not in similarity.ignored]
    if not kept:
        return min(real.rows, synthetic.rows)
    if similarity.ignored:
        real, synthetic = real.project(kept), synthetic.project(kept)
    domain = real.domain
    near = {domain.index(name): steps for name, steps in similarity.near.items()}
    fixed = {domain.index(name): frozenset(codes) for name, codes in similarity.exceptions.items()}
    moves = offsets(near, min(similarity.at_most, len(near)))
    left, right = similar_pairs(synthetic.codes, real.codes, domain.sizes, moves, fixed)
    return largest_matching(left, right, synthetic.counts, real.counts)
