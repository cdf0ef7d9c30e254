"""Sums of products of bounded numbers over the records: moments, group by group if wanted.

A :class:`Feature` gives each code of a column (or each combination of codes of a few columns) a public number
between -1 and 1. A :class:`MomentBlock` names products of two features; its statistic is the sum of each product
over the records, within each cell of some categorical columns. Everything is a whole number on a fixed grid, so
that whole-number noise protects it exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Reach, SealedNumbers
from understudy.data import Table
from understudy.errors import BudgetError
from understudy.marginals.counting import cell_numbers
from understudy.mechanisms.parametric.features import Feature, product_key
from understudy.privacy import Accounting, Gaussian, Laplace, Noise, Unit
from understudy.privacy.own import own
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# How far one record, and so one unit, can move a vector of summed products. Public facts alone.

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


MAX_BITS = 15
"""Finest grid of a feature: ``2**-15``. Products are then whole multiples of ``2**-30``."""
_LARGEST_SCALE = 2.0**40
_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class MomentBlock:
    """Sums of products of features over the records, within each cell of some columns.

    Parameters
    ----------
    name
        What the block is, for the ledger and the model.
    features
        The features the products are taken of.
    pairs
        Which products, as pairs of places in ``features``.
    within
        Columns whose every combination of codes gets sums of its own; none for sums over all records.
    labels
        For columns of ``within`` whose codes are merged, the public level of each code; all others keep one
        level per code.
    bits
        Numbers are rounded to ``2**-bits`` before they are multiplied, products are whole multiples of
        ``2**(-2 bits)``: the unit of the statistic.

    Examples
    --------
    >>> from understudy.mechanisms.parametric.features import ONE
    >>> t = Feature("age", ("age",), [-1, 0, 1])
    >>> block = MomentBlock.second("age", [ONE, t])
    >>> block.pairs
    ((0, 0), (0, 1), (1, 1))
    >>> from understudy.privacy import Unit
    >>> block.bounds(Domain(("age",), (3,)), Unit.add_remove(), rows_fixed=False).l1 / block.unit
    3.0000000000027285
    """

    name: str
    features: tuple[Feature, ...]
    pairs: tuple[tuple[int, int], ...]
    within: Clique = ()
    bits: int = MAX_BITS
    labels: Mapping[str, Ints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise BudgetError(f"bits ({self.bits}) must be from 1 to {MAX_BITS}.")
        if not self.pairs or not all(0 <= i < len(self.features) for pair in self.pairs for i in pair):
            raise BudgetError(f"The moments {self.name!r} need pairs of places among their features.")

    @classmethod
    def second(cls, name: str, features: Sequence[Feature], *, within: Clique = ()) -> MomentBlock:
        """Return the block of all products of two features that can tell something.

        Products that are zero for every possible record, and those that repeat an earlier one (the square of
        an indicator is the indicator itself), are left out: :meth:`matrix` knows them.
        """
        listed = tuple(features)
        pairs: dict[tuple[Clique, bytes], tuple[int, int]] = {}
        for i, j in itertools.combinations_with_replacement(range(len(listed)), 2):
            key = product_key(listed[i], listed[j])
            if key is not None:
                pairs.setdefault(key, (i, j))
        return cls(name, listed, tuple(pairs.values()), within)

    @property
    def unit(self) -> float:
        """How many steps of the grid make one: divide the statistic by this number."""
        return float(4**self.bits)

    def cells(self, domain: Domain) -> int:
        """Number of cells the sums are taken within."""
        return math.prod(self._levels(domain, name) for name in self.within)

    def _levels(self, domain: Domain, name: str) -> int:
        return int(self.labels[name].max()) + 1 if name in self.labels else domain.size(name)

    def cell_of(self, domain: Domain, codes: Mapping[str, npt.NDArray[Any]], rows: int) -> Ints:
        """Return the cell that each of some encoded records lies in."""
        cell = np.zeros(rows, dtype=np.int64)
        for name in self.within:
            level = self.labels[name][codes[name]] if name in self.labels else codes[name]
            cell = cell * self._levels(domain, name) + level
        return cell

    def bounds(self, domain: Domain, unit: Unit, *, rows_fixed: bool) -> Bounds:
        """Return the largest change between neighbours in steps of the grid; proof in ``bounds_of``.

        Parameters
        ----------
        rows_fixed
            Whether all neighbours have equally many rows (replace-one, one row per unit, none left out).
        """
        tables = [feature.on_grid(self.bits) for feature in self.features]
        for feature, table in zip(self.features, tables, strict=True):
            if feature.columns != domain.canonical(feature.columns) or table.size != _size(domain, feature):
                raise BudgetError(f"Feature {feature.name!r} does not fit the columns of the schema.")
        for name, labels in self.labels.items():
            if name not in self.within or np.shape(labels) != (domain.size(name),) or np.min(labels) < 0:
                raise BudgetError(
                    f"The levels of {name!r} must be {domain.size(name)} numbers, not negative."
                )
        groups = group_products([feature.columns for feature in self.features], tables, self.pairs)
        return bounds_of(groups, unit, cells=self.cells(domain), rows_fixed=rows_fixed)

    def matrix(self, values: npt.ArrayLike) -> Floats:
        """Turn sums, in steps of the grid, into symmetric matrices of moments in units of the features.

        Returns
        -------
        array of shape (cells, features, features)
            Products that were left out because they are zero or repeat another are filled in; those that
            were not asked for are NaN.
        """
        sums = np.asarray(values, dtype=np.float64).reshape(-1, len(self.pairs)) / self.unit
        size = len(self.features)
        made = np.full((len(sums), size, size), np.nan)
        for (i, j), place in self._places.items():
            made[:, i, j] = made[:, j, i] = 0.0 if place < 0 else sums[:, place]
        return made

    @cached_property
    def _places(self) -> dict[tuple[int, int], int]:
        """Which number tells each product; -1 for those that are always zero."""
        known = {
            product_key(self.features[i], self.features[j]): place for place, (i, j) in enumerate(self.pairs)
        }
        places = {}
        for i, j in itertools.combinations_with_replacement(range(len(self.features)), 2):
            key = product_key(self.features[i], self.features[j])
            if key is None:
                places[i, j] = -1
            elif key in known:
                places[i, j] = known[key]
        return places


def moment_noise(
    block: MomentBlock,
    domain: Domain,
    unit: Unit,
    accounting: Accounting,
    cost: float,
    *,
    rows_fixed: bool,
    maximum_bits: int = MAX_BITS,
) -> tuple[MomentBlock, Noise]:
    """Return the block on the finest grid that noise of at most this cost allows, and the noise.

    Laplace noise under pure accounting, Gaussian noise otherwise. The samplers take scales up to ``2**40``
    steps; where more noise is needed the steps are made larger, which changes nothing that the noise does
    not hide. From public facts alone.
    """
    for bits in range(maximum_bits, 0, -1):
        tried = replace(block, bits=bits)
        bounds = tried.bounds(domain, unit, rows_fixed=rows_fixed)
        if accounting.name == "pure":
            scale = accounting.laplace_scale(cost, bounds.l1)
            if scale <= _LARGEST_SCALE:
                return tried, Laplace(scale)
        else:
            scale = accounting.gaussian_sigma(cost, bounds.l2)
            if scale <= _LARGEST_SCALE:
                return tried, Gaussian(scale)
    raise BudgetError(f"The budget is too small to measure {block.name!r}: the noise would hide everything.")


def seal_moments(curator: Curator, blocks: Sequence[MomentBlock]) -> list[SealedNumbers]:
    """Seal the sums of several blocks, from one pass over the records.

    Sums have the shape (cells, products) and are in steps of the block's grid; ``block.matrix`` turns them into moments.

    Privacy
    -------
    In: private. Out: under seal. Each sum is an exact whole number; the bounds are those of
    :meth:`MomentBlock.bounds`: a row adds its products, each between -1 and 1, to the sums of one cell, and
    :func:`understudy.mechanisms.parametric.look.bounds_of` finds the largest norm of such a vector, or of the difference of two,
    over all possible rows. The table is already cut to the unit's rows per person.
    """
    fixed = curator.rows.fixed
    blocks = [
        replace(
            own(block, MomentBlock),
            features=tuple(own(item, Feature) for item in block.features),
            labels={name: np.asarray(labels, dtype=np.int64) for name, labels in block.labels.items()},
        )
        for block in blocks
    ]
    bounds = [block.bounds(curator.domain, curator.unit, rows_fixed=fixed) for block in blocks]
    exact = _exact_sums(curator._table, blocks)
    return [
        SealedNumbers(sums, name=block.name, reach=Reach(bound.l1, bound.l2))
        for sums, block, bound in zip(exact, blocks, bounds, strict=True)
    ]


def _exact_sums(table: Table, blocks: Sequence[MomentBlock]) -> list[Ints]:
    """Return the sums of each block, of shape (cells, products).

    Products are below ``2**30``, at most ``2**16`` are added at a time in double precision, so every sum is
    the exact whole number; the pieces are added in 64 bits, which they fit for any table
    of up to ``2**32`` rows.
    """
    domain = table.schema.domain
    sums = [np.zeros((block.cells(domain), len(block.pairs)), dtype=np.int64) for block in blocks]
    used = {name for block in blocks for feature in block.features for name in feature.columns}
    used |= {name for block in blocks for name in block.within}
    columns = domain.canonical(used) or domain.names[:1]
    tables = [
        [feature.on_grid(block.bits).astype(np.float64) for feature in block.features] for block in blocks
    ]
    for chunk in table.chunks(columns, rows=_ROWS):
        rows = len(next(iter(chunk.values())))
        if rows == 0:
            continue
        for block, looked_up, total in zip(blocks, tables, sums, strict=True):
            numbers = np.stack(
                [
                    np.broadcast_to(values[cell_numbers(domain, chunk, feature.columns)], rows)
                    for values, feature in zip(looked_up, block.features, strict=True)
                ],
                axis=1,
            )
            first, second = np.array(block.pairs).T
            if not block.within:
                total[0] += (numbers.T @ numbers)[first, second].astype(np.int64)
                continue
            cell = block.cell_of(domain, chunk, rows)
            for place, (i, j) in enumerate(block.pairs):
                part = np.bincount(cell, weights=numbers[:, i] * numbers[:, j], minlength=len(total))
                total[:, place] += part.astype(np.int64)
    return sums


def _size(domain: Domain, feature: Feature) -> int:
    return math.prod(domain.size(name) for name in feature.columns)
