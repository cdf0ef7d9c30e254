"""How far one record, and so one unit, can move a vector of summed products. Public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.privacy import Unit
from understudy.schema import Clique

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_ROUND_UP = 1 + 2.0**-40
"""Sums within a group of up to four thousand doubles err by less than this, groups are added exactly; bounds are
multiplied by it."""
_FRONTIER = 2_048


@dataclass(frozen=True)
class Bounds:
    """Largest change of a vector of sums between neighbouring tables, in two norms."""

    l1: float
    l2: float


@dataclass(frozen=True)
class Group:
    """The products whose two factors come from one pair of column sets.

    ``left`` and ``right`` hold one row per code and one column per feature; ``terms`` are pairs of such
    columns. If ``same`` the two factors are read from the same code, otherwise each may have any code.
    """

    left: Ints
    right: Ints
    terms: tuple[tuple[int, int], ...]
    same: bool


def bounds_of(groups: Sequence[Group], unit: Unit, *, cells: int, rows_fixed: bool) -> Bounds:
    """Bound the change of all products together.

    Privacy
    -------
    A record adds the vector ``f = (f_g)_g`` to one cell. Write ``M_g`` and ``Q_g`` for the largest L1 norm and
    squared L2 norm of ``f_g`` over the domain, ``r_j`` for the range (largest less smallest value) of coordinate
    ``j``, zero included where a record may also be absent.

    - *add-remove*, ``k`` rows: each of the ``k`` vectors has L1 norm at most ``sum M_g`` and L2 norm at most
      ``sqrt(sum Q_g)``; norms of sums are at most sums of norms.
    - *replace-one*: the change is a sum of ``k`` differences ``f - f'``, where for ``k > 1`` (or a number of rows
      that is not fixed) either vector may be zero. ``|f_g - f'_g|_1`` is at most ``2 M_g`` and at most
      ``sum r_j``. For a coordinate that is never negative ``(f_j - f'_j)² <= f_j² + f'_j²``, otherwise
      ``(f_j - f'_j)² <= 2 f_j² + 2 f'_j²``: so ``|f_g - f'_g|_2²`` is at most twice the largest
      ``sum c_j f_j²`` with ``c_j`` 1 or 2, and at most ``sum r_j²``. With several cells the two records may
      lie in different ones: there the change is ``|f|_1 + |f'|_1``, or ``|f|_2² + |f'|_2²``, which the bounds
      by ``2 M_g`` and by ``c_j`` cover; the bounds by ranges are then not used.

    Maxima over the domain are taken per group and added, which is an upper bound for the whole vector, and
    exact where one corner of the domain is the worst for every group.
    """
    k = unit.max_rows
    if unit.relation == "add-remove":
        l1 = math.fsum(_largest(group, _magnitudes(group)) for group in groups)
        squared = math.fsum(_largest(group, _squares(group)) for group in groups)
    else:
        absent = k > 1 or not rows_fixed
        found: list[tuple[float, float]] = []
        for group in groups:
            low, high = _ranges(group)
            if absent:
                low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
            twice = 2 * _largest(group, _magnitudes(group))
            signed = 2 * _largest(group, _squares(group, np.where(low >= 0, 1.0, 2.0)))
            if cells == 1:
                twice = min(twice, float((high - low).sum()))
                signed = min(signed, float(((high - low) ** 2).sum()))
            found.append((twice, signed))
        l1, squared = math.fsum(x for x, _ in found), math.fsum(y for _, y in found)
    return Bounds(l1 * k * _ROUND_UP, math.sqrt(squared) * k * _ROUND_UP)


def _magnitudes(group: Group) -> tuple[Floats, Floats, Floats]:
    return np.abs(group.left).astype(float), np.abs(group.right).astype(float), np.ones(len(group.terms))


def _squares(group: Group, weights: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    weighed = np.ones(len(group.terms)) if weights is None else weights
    return group.left.astype(float) ** 2, group.right.astype(float) ** 2, weighed


def _largest(group: Group, parts: tuple[Floats, Floats, Floats]) -> float:
    """Largest sum over the terms of weight times left times right; all numbers are not negative."""
    left, right, weights = parts
    if group.same:
        total = np.zeros(len(left))
        for (i, j), weight in zip(group.terms, weights, strict=True):
            total += weight * left[:, i] * right[:, j]
        return float(total.max())
    mix = np.zeros((left.shape[1], right.shape[1]))
    for (i, j), weight in zip(group.terms, weights, strict=True):
        mix[i, j] += weight
    return float((frontier(left) @ mix @ frontier(right).T).max())


def _ranges(group: Group) -> tuple[Floats, Floats]:
    """Smallest and largest value of each product."""
    left, right = group.left.astype(float), group.right.astype(float)
    low, high = np.zeros(len(group.terms)), np.zeros(len(group.terms))
    for place, (i, j) in enumerate(group.terms):
        if group.same:
            product = left[:, i] * right[:, j]
            low[place], high[place] = product.min(), product.max()
        else:
            corners = np.outer((left[:, i].min(), left[:, i].max()), (right[:, j].min(), right[:, j].max()))
            low[place], high[place] = corners.min(), corners.max()
    return low, high


def frontier(rows: Floats) -> Floats:
    """Return rows such that each given row is at most one of them in every entry.

    A sum with weights that are not negative is largest at one of these. Where there would be too many of
    them, one row of maxima stands for all.
    """
    highest = np.asarray(rows.max(axis=0, keepdims=True), dtype=np.float64)
    left = rows[(rows > 0).any(axis=1)]
    kept: list[Floats] = []
    while len(left) and len(kept) <= _FRONTIER:
        best = left[np.argmax(left.sum(axis=1))]
        kept.append(best)
        left = left[(left > best).any(axis=1)]
    return highest if len(left) or not kept else np.array(kept)


def group_products(
    cliques: Sequence[Clique], tables: Sequence[Ints], pairs: Sequence[tuple[int, int]]
) -> list[Group]:
    """Sort products of features by the pair of column sets their factors come from."""
    members: dict[tuple[Clique, Clique], list[tuple[int, int]]] = {}
    for i, j in pairs:
        a, b = (i, j) if cliques[i] <= cliques[j] else (j, i)
        members.setdefault((cliques[a], cliques[b]), []).append((a, b))
    groups = []
    for (first, second), terms in members.items():
        left = list(dict.fromkeys(i for i, _ in terms))
        right = list(dict.fromkeys(j for _, j in terms))
        groups.append(
            Group(
                np.stack([tables[i] for i in left], axis=1),
                np.stack([tables[j] for j in right], axis=1),
                tuple((left.index(i), right.index(j)) for i, j in terms),
                same=first == second,
            )
        )
    return groups
