"""Subsets of the records that earlier releases have decided on: their counts, and elections inside them.

A tree divides all *possible* records by the codes of one column, the parts by codes of others, and so on. Its shape is public: it was given, or
came out of earlier elections that were paid for. Every record lies in exactly one subset (a leaf of the tree), so

- counts over (subset, codes of other columns) are a histogram like any other;
- statistics computed in each subset by itself concern disjoint parts of the table. The acts of one layer are charged as one
  :class:`~understudy.privacy.events.Parallel` event: a unit pays for as many subsets as it can touch, one for an added or removed row, two for a replaced
  one (which may leave one subset and enter another).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, SealedCounts, SealedScalar
from understudy.data import Table
from understudy.errors import BudgetError
from understudy.privacy import Accounting, Unit
from understudy.privacy.events import Parallel, SelectionEvent
from understudy.privacy.noise.selection import exponential_mechanism
from understudy.privacy.own import own
from understudy.schema import Domain

Ints = npt.NDArray[np.int64]
Labels = Mapping[str, npt.ArrayLike]


@dataclass(frozen=True, eq=False)
class Division:
    """One leaf of a tree divided by a column: group ``g`` of its codes becomes leaf ``children[g]``."""

    leaf: int
    column: str
    labels: Ints
    children: tuple[int, ...]


@dataclass(frozen=True)
class Subsets:
    """A public division of all possible records, as the steps that made it.

    Leaves are numbered as they appear; number 0 is the whole table until it is divided. A division gives its first group the number of the leaf it
    divides, and the others new numbers.

    Examples
    --------
    >>> whole = Subsets()
    >>> halves = whole.divided({0: ("age", np.array([0, 0, 1]))})
    >>> halves.number, halves.assign({"age": np.array([2, 0, 1])}).tolist()
    (2, [1, 0, 0])
    """

    layers: tuple[tuple[Division, ...], ...] = ()

    @property
    def number(self) -> int:
        """Number of leaves."""
        return 1 + sum(len(division.children) - 1 for layer in self.layers for division in layer)

    def divided(self, by: Mapping[int, tuple[str, npt.ArrayLike]]) -> Subsets:
        """Divide some leaves, each by groups of the codes of one column."""
        layer, following = [], self.number
        for leaf in sorted(by):
            column, labels = by[leaf]
            groups = np.asarray(labels, dtype=np.int64)
            used = np.unique(groups)
            if not 0 <= leaf < self.number or len(used) < 2 or (used != np.arange(len(used))).any():
                raise BudgetError(
                    "A division needs a leaf and at least two groups of codes, numbered from zero."
                )
            children = (leaf, *range(following, following + len(used) - 1))
            following += len(used) - 1
            layer.append(Division(leaf, column, groups, children))
        return Subsets((*self.layers, tuple(layer))) if layer else self

    def path(self, leaf: int) -> dict[str, npt.NDArray[np.bool_]]:
        """Return the codes that a leaf allows in the columns that lead to it."""
        allowed: dict[str, npt.NDArray[np.bool_]] = {}
        for layer in reversed(self.layers):
            for division in layer:
                if leaf in division.children:
                    inside = division.labels == division.children.index(leaf)
                    allowed[division.column] = allowed.get(division.column, True) & inside
                    leaf = division.leaf
                    break
        return allowed

    def assign(self, codes: Mapping[str, npt.NDArray[np.integer]]) -> Ints:
        """Return the leaf of each record."""
        where = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
        for layer in self.layers:
            moved = where.copy()
            for division in layer:
                here = np.flatnonzero(where == division.leaf)
                groups = division.labels[codes[division.column][here]]
                moved[here] = np.array(division.children)[groups]
            where = moved
        return where

    @property
    def columns(self) -> frozenset[str]:
        """Columns that some leaf is divided by."""
        return frozenset(division.column for layer in self.layers for division in layer)


def seal_subset_counts(curator: Curator, subsets: Subsets, wanted: Sequence[Labels]) -> list[SealedCounts]:
    """Seal counts over each subset and groups of the codes of some columns.

    Privacy
    -------
    In: private. Out: under seal. The cells (subset, groups) partition all possible records, so the sensitivities are those of any
    histogram.
    """
    domain, found = curator.domain, []
    known = curator._exact_rows
    for labels, exact in zip(wanted, _count(curator._table, subsets, wanted), strict=True):
        names = (_free_name(domain), *domain.canonical(labels))
        shape = Domain(names, exact.shape)
        found.append(SealedCounts(exact, clique=names, domain=shape, unit=curator.unit, known_rows=known))
    return found


def seal_importances(
    curator: Curator, subsets: Subsets, candidates: Mapping[int, Sequence[str]], groups: Labels
) -> dict[int, list[SealedScalar]]:
    """Seal how much candidate columns of some subsets matter for the others there, from one pass over the records.

    The score is the mean over the other columns of the rows that independence gets wrong
    (:meth:`~understudy.curator.SealedCounts.dependence`), over groups of codes.

    Privacy
    -------
    In: private. Out: under seal. Each dependence changes by at most its own sensitivity, which does not rely on the
    number of rows (that of a subset is not public), and a mean of them by at most the largest.
    """
    domain = curator.domain
    needed = sorted({name for names in candidates.values() for name in names}, key=domain.index)
    pairs = [
        (a, b) for i, a in enumerate(needed) for b in domain.canonical(groups) if b not in needed[: i + 1]
    ]
    tables = dict(
        zip(
            pairs,
            _count(curator._table, subsets, [{a: groups[a], b: groups[b]} for a, b in pairs]),
            strict=True,
        )
    )
    found: dict[int, list[SealedScalar]] = {}
    for leaf, names in candidates.items():
        scores = []
        for name in names:
            parts = []
            for (a, b), counts in tables.items():
                if name in (a, b):
                    clique = domain.canonical((a, b))
                    shape = Domain(clique, counts.shape[1:])
                    sealed = SealedCounts(
                        counts[leaf], clique=clique, domain=shape, unit=curator.unit, known_rows=None
                    )
                    parts.append(sealed.dependence([name]))
            mean = sum((part._exact for part in parts), Fraction(0)) / max(1, len(parts))
            largest = max((part.sensitivity for part in parts), default=0.0)
            scores.append(SealedScalar(mean, sensitivity=largest))
        found[leaf] = scores
    return found


def election_epsilon(accounting: Accounting, unit: Unit, cost: float) -> float:
    """Return epsilon of each election of one layer, so that the layer costs at most ``cost``."""
    return accounting.selection_epsilon(cost / unit.parts_touched)


def elect(
    curator: Curator,
    subsets: Subsets,
    candidates: Mapping[int, Sequence[str]],
    groups: Labels,
    *,
    epsilon: float,
    purpose: str,
) -> dict[int, str]:
    """Choose an important column in each of several subsets; charge for all of them first.

    Parameters
    ----------
    candidates
        For each subset the columns to choose from.
    groups
        Groups of codes of every column, in which dependence is judged.
    epsilon
        Parameter of the exponential mechanism in each subset.

    Privacy
    -------
    In: private. Out: one column per subset. The subsets divide all possible records (head of this module), so a row is in one of them, and a
    replaced row leaves one and enters one, perhaps the same. What a unit does inside one subset is therefore to add, remove or exchange at
    most its rows there. ``dependence`` bounds its change by 2 per row added or removed and 4 per row exchanged, whatever the
    number of rows of the subset, and a mean of such scores moves no further. So each election is an exponential mechanism,
    ``epsilon``-DP and of bounded range ``epsilon``; subsets that a unit does not touch cost nothing, and ``Parallel`` charges as many as it
    can touch.
    """
    if not candidates or any(not names for names in candidates.values()):
        raise BudgetError("An election needs subsets, and columns to choose from in each.")
    candidates = {int(leaf): [str(name) for name in candidates[leaf]] for leaf in list(candidates)}
    epsilon, leaves = float(epsilon), sorted(candidates)
    events = tuple(SelectionEvent(epsilon) for _ in leaves)
    scores = seal_importances(curator, subsets, candidates, groups)
    if any(score.sensitivity == 0 for leaf in leaves for score in scores[leaf]):
        raise BudgetError("A column can only be elected for its relation to others.")
    places = curator._answer(
        Parallel(events) if len(events) > 1 else events[0],
        purpose=purpose,
        about=[[leaf, list(candidates[leaf])] for leaf in leaves],
        draw=lambda: [
            exponential_mechanism(
                [score._exact for score in scores[leaf]],
                epsilon=epsilon,
                sensitivity=max(score.sensitivity for score in scores[leaf]),
                score_error=0.0,
                randomness=curator._randomness,
            )
            for leaf in leaves
        ],
    )
    return {leaf: candidates[leaf][place] for leaf, place in zip(leaves, places, strict=True)}


def _count(table: Table, subsets: Subsets, wanted: Sequence[Labels]) -> list[Ints]:
    """Count records over (subset, groups) for several lists of columns, in one pass."""
    domain = table.schema.domain
    # the records are handed to this division: it is made anew of plain numbers
    subsets = own(subsets, Subsets)
    _check_division(subsets, domain)
    checked = []
    for labels in wanted:
        names = domain.canonical(labels)
        groups = {name: np.asarray(labels[name], dtype=np.int64) for name in names}
        for name, which in groups.items():
            if which.shape != (domain.size(name),) or which.min() < 0:
                raise BudgetError(
                    f"The groups of {name!r} must be {domain.size(name)} numbers, not negative."
                )
        checked.append(groups)
    sizes = [[subsets.number, *(int(which.max()) + 1 for which in groups.values())] for groups in checked]
    counts = [np.zeros(int(np.prod(size)), dtype=np.int64) for size in sizes]
    used = {name for groups in checked for name in groups} | subsets.columns
    columns = domain.canonical(used) or domain.names[:1]
    for chunk in table.chunks(columns):
        leaf = subsets.assign(chunk)
        for groups, size, total in zip(checked, sizes, counts, strict=True):
            cell = leaf
            for (name, which), number in zip(groups.items(), size[1:], strict=True):
                cell = cell * number + which[chunk[name]]
            total += np.bincount(cell, minlength=total.size)
    return [total.reshape(size) for total, size in zip(counts, sizes, strict=True)]


def _check_division(subsets: Subsets, domain: Domain) -> None:
    """Refuse steps that do not send every possible record to a leaf: whether there are such records must not show."""
    number = 1
    for layer in subsets.layers:
        before = number
        for item in layer:
            if type(item) is not Division or item.column not in domain:
                raise BudgetError("A division is by the codes of a column.")
            labels, children = item.labels, item.children
            number += len(children) - 1
            if (
                not isinstance(labels, np.ndarray)
                or labels.dtype.kind not in "iu"
                or labels.shape != (domain.size(item.column),)
                or not (labels.min() >= 0 and labels.max() < len(children))
                or not 0 <= item.leaf < before
            ):
                raise BudgetError(
                    "A division gives every code of its column a group, and every group a leaf."
                )
        if any(not 0 <= leaf < number for item in layer for leaf in item.children):
            raise BudgetError("A division gives every code of its column a group, and every group a leaf.")


def _free_name(domain: Domain) -> str:
    """Return a name for the axis of subsets that no column has."""
    name = "subset"
    while name in domain.names:
        name += "_"
    return name
