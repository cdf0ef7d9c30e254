"""Face privacy: turn a synthetic table into one without rare records (paper Births, sections 4.6 and 4.14.3).

A projection looks at the synthetic table only, so it is post-processing and costs nothing. Every projection
returns exactly as many rows as it was given and never invents a record: the types of the result are types of
the input. Its randomness is public and may be seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, Protocol

import numpy as np

from understudy.errors import DataError
from understudy.release.record_types import IntArray, RecordTypes

__all__ = ["KAnonymity", "MinimalOccurrence", "NoProjection", "Projection", "require_room"]


class Projection(Protocol):
    """Something that moves a synthetic table to where no record looks rare."""

    @property
    def least_rows(self) -> int:
        """Smallest number of rows that a table that is not empty must have."""
        ...

    def apply(self, synthetic: RecordTypes, generator: np.random.Generator) -> RecordTypes:
        """Return the projected table, with the same number of rows."""
        ...

    def describe(self) -> str:
        """Say in one line what holds afterwards."""
        ...


@dataclass(frozen=True)
class NoProjection:
    """Leave the synthetic table as it is."""

    @property
    def least_rows(self) -> int:
        """Smallest number of rows of a table: one."""
        return 1

    def apply(self, synthetic: RecordTypes, generator: np.random.Generator) -> RecordTypes:
        """Return the table unchanged."""
        return synthetic

    def describe(self) -> str:
        """Say in one line what holds afterwards."""
        return "no projection"


@dataclass(frozen=True, kw_only=True)
class MinimalOccurrence:
    """Make every record occur at least ``min_count`` times.

    Parameters
    ----------
    min_count
        Smallest number of times a record may occur, ``m``. One changes nothing.
    algorithm
        ``"direct"`` (paper Algorithm 4, the default): of the record types that occur ``k < m`` times, keep a
        random ``floor(k n_k / m)`` and let each of them occur ``m`` times. Types with ``m`` or more
        occurrences stay as they are. ``"stepwise"`` (Algorithm 5, used for the 2014 release): for
        ``k = 1, ..., m - 1`` put the survivors of the last step and the types that occur ``k`` times
        together and keep a random ``floor(k / (k + 1))`` of them; the survivors occur ``m`` times.
        ``"balanced"`` keeps as many as ``"direct"``, but not any: the types are put into an order in which
        neighbours differ little, cut into as many runs as are to be kept, and one of each run is kept at random. A
        record that goes is then made up for by one that resembles it.

    Notes
    -----
    Rounding down loses fewer than ``m`` rows for each ``k``. They are put back by duplicating rows of the
    result, drawn at random (the paper's Remark 1), so that the number of rows is exact. If nothing survives
    (a tiny table of rare records), the commonest type fills the table; ties are broken at random.

    When ``m`` divides ``k n_k`` for every ``k``, Algorithm 4 preserves the number of rows of each rarity
    class exactly (paper Proposition 11); in general it does so up to ``m - 1`` rows before the top-up.

    A random choice hurts rare values most: of 164 births of parity above 10 nearly all are unique records, and
    keeping a random half of those, twice, moves their number by 13 (standard deviation). The balanced choice
    sorts types by their columns, those with the rarest value first, so that in each value of the first column
    the number of rows changes by less than ``m``, and by little in the others.

    Raises
    ------
    DataError
        If the table has rows, but fewer than ``min_count``: no table of that size can comply.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> types = RecordTypes(Domain(("a",), (5,)), [[0], [1], [2], [3]], [1, 1, 2, 7])
    >>> projected = MinimalOccurrence(min_count=2).apply(types, np.random.default_rng(0))
    >>> projected.rows, int(projected.counts.min())
    (11, 2)
    """

    min_count: int
    algorithm: Literal["direct", "stepwise", "balanced"] = "direct"

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise DataError(f"min_count ({self.min_count}) must be at least 1.")
        if self.algorithm not in ("direct", "stepwise", "balanced"):
            raise DataError(f"algorithm ({self.algorithm!r}) must be 'direct', 'stepwise' or 'balanced'.")

    @property
    def least_rows(self) -> int:
        """Smallest number of rows that a table that is not empty must have."""
        return self.min_count

    def describe(self) -> str:
        """Say in one line what holds afterwards."""
        return f"every record occurs at least {self.min_count} times"

    def apply(self, synthetic: RecordTypes, generator: np.random.Generator) -> RecordTypes:
        """Return the projected table, with the same number of rows."""
        n, m = synthetic.rows, self.min_count
        if n == 0 or m == 1:
            return synthetic
        require_room(n, m)
        counts = synthetic.counts
        if self.algorithm == "balanced":
            chosen = self._balanced(synthetic, generator)
        elif self.algorithm == "stepwise":
            chosen = self._stepwise(counts, generator)
        else:
            chosen = self._direct(counts, generator)
        new = np.where(counts >= m, counts, 0)
        new[chosen] = m
        return synthetic.with_counts(_topped_up(new, counts, n, generator))

    def _direct(self, counts: IntArray, generator: np.random.Generator) -> IntArray:
        chosen = [np.empty(0, dtype=np.int64)]
        for k in range(1, self.min_count):
            rare = np.flatnonzero(counts == k)
            chosen.append(generator.choice(rare, size=k * len(rare) // self.min_count, replace=False))
        return np.concatenate(chosen)

    def _balanced(self, synthetic: RecordTypes, generator: np.random.Generator) -> IntArray:
        chosen = [np.empty(0, dtype=np.int64)]
        order = _similar_order(synthetic)
        for k in range(1, self.min_count):
            rare = order[synthetic.counts[order] == k]
            kept = k * len(rare) // self.min_count
            if kept:
                ends = np.arange(kept + 1) * len(rare) // kept
                chosen.append(rare[generator.integers(ends[:-1], ends[1:])])
        return np.concatenate(chosen)

    def _stepwise(self, counts: IntArray, generator: np.random.Generator) -> IntArray:
        kept = np.empty(0, dtype=np.int64)
        for k in range(1, self.min_count):
            pool = np.concatenate([kept, np.flatnonzero(counts == k)])
            kept = generator.choice(pool, size=k * len(pool) // (k + 1), replace=False)
        return kept


@dataclass(frozen=True, kw_only=True)
class KAnonymity:
    """Make every combination of values that occurs in certain columns occur at least ``k`` times.

    The stakeholders' first wish in section 4.6 was this for all sets of five out of six columns. It is
    weaker than a minimal occurrence of ``k`` over the same or more columns, and bends the table less.

    Parameters
    ----------
    k
        Smallest number of rows that may share a combination of values.
    column_sets
        The sets of columns. ``KAnonymity.every(domain.names, of=5, k=5)`` lists all sets of a size.

    Notes
    -----
    Sweep over the column sets. In each, of the combinations that occur ``j < k`` times keep a random
    ``floor(j n_j / k)`` and raise them to ``k`` by duplicating their own rows; drop the rows of the others.
    A dropped row may make a combination of another set rare, so sweep until none is. This ends: a sweep that
    drops nothing leaves no rare combination, and a dropped record type never returns, so there are at most as
    many sweeps as types, plus one. No step adds more rows than it drops, so the table never grows; missing rows
    are put back by duplicating rows at random, which cannot make anything rare.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> domain = Domain(("a", "b"), (3, 4))
    >>> rows = np.random.default_rng(1).integers(0, (3, 4), (40, 2))
    >>> rule = KAnonymity(k=5, column_sets=(("b",), ("a",)))
    >>> projected = rule.apply(RecordTypes.from_rows(domain, rows), np.random.default_rng(0))
    >>> projected.rows, rule.violations(projected)
    (40, 0)
    """

    k: int
    column_sets: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if self.k < 1:
            raise DataError(f"k ({self.k}) must be at least 1.")
        sets = tuple(tuple(columns) for columns in self.column_sets)
        if not sets or any(not columns for columns in sets):
            raise DataError("k-anonymity needs at least one set of columns, none of them empty.")
        object.__setattr__(self, "column_sets", sets)

    @classmethod
    def every(cls, columns: Sequence[str], *, of: int, k: int) -> KAnonymity:
        """Return the rule over all sets of ``of`` of the columns."""
        if not 1 <= of <= len(columns):
            raise DataError(f"of ({of}) must lie between 1 and the number of columns ({len(columns)}).")
        return cls(k=k, column_sets=tuple(combinations(tuple(columns), of)))

    @property
    def least_rows(self) -> int:
        """Smallest number of rows that a table that is not empty must have."""
        return self.k

    def describe(self) -> str:
        """Say in one line what holds afterwards."""
        return f"{self.k}-anonymity over {len(self.column_sets)} sets of columns"

    def violations(self, synthetic: RecordTypes) -> int:
        """Return how many combinations occur, but fewer than ``k`` times, over all sets."""
        return sum(
            int(np.count_nonzero(_group_sizes(label, synthetic.counts) < self.k))
            for label in self._labels(synthetic)
        )

    def apply(self, synthetic: RecordTypes, generator: np.random.Generator) -> RecordTypes:
        """Return the projected table, with the same number of rows."""
        n = synthetic.rows
        if n == 0 or self.k == 1:
            return synthetic
        require_room(n, self.k)
        labels = self._labels(synthetic)
        counts = synthetic.counts.copy()
        dropped = True
        while dropped:
            mended = [self._mend(label, counts, generator) for label in labels]
            dropped = any(mended)
        return synthetic.with_counts(_topped_up(counts, synthetic.counts, n, generator))

    def _labels(self, synthetic: RecordTypes) -> list[IntArray]:
        """Return for each column set the number of the combination each type belongs to."""
        return [
            np.unique(synthetic.keys(columns), return_inverse=True)[1].reshape(-1)
            for columns in self.column_sets
        ]

    def _mend(self, label: IntArray, counts: IntArray, generator: np.random.Generator) -> bool:
        """Repair one column set in place; say whether any row was dropped."""
        sizes = _group_sizes(label, counts)
        order = np.argsort(label, kind="stable")
        start = np.searchsorted(label[order], np.arange(len(sizes) + 1))
        doomed: list[IntArray] = []
        for j in range(1, self.k):
            rare = generator.permutation(np.flatnonzero(sizes == j))
            kept = j * len(rare) // self.k
            for group in rare[:kept]:
                members = order[start[group] : start[group + 1]]
                counts[members] += generator.multinomial(self.k - j, counts[members] / j)
            doomed.append(rare[kept:])
        gone = np.concatenate([np.empty(0, dtype=np.int64), *doomed])
        if len(gone) == 0:
            return False
        counts[np.isin(label, gone)] = 0
        return True


def _similar_order(synthetic: RecordTypes) -> IntArray:
    """Return the types sorted by their columns, those with the rarest value first."""
    names = synthetic.domain.names
    smallest = {}
    for name in names:
        counted = synthetic.marginal((name,))
        smallest[name] = int(counted[counted > 0].min())
    # lexsort takes the column that matters most last
    return np.lexsort(
        [synthetic.column(name) for name in sorted(names, key=smallest.__getitem__, reverse=True)]
    )


def _group_sizes(label: IntArray, counts: IntArray) -> IntArray:
    sizes: IntArray = np.rint(np.bincount(label, weights=counts)).astype(np.int64)
    return np.where(sizes == 0, np.iinfo(np.int64).max, sizes)


def require_room(n: int, smallest: int) -> None:
    """Refuse a table with fewer rows than a projection needs.

    Examples
    --------
    >>> require_room(10, 2)
    """
    if n < smallest:
        raise DataError(
            f"A table of {n} rows cannot hold every record at least {smallest} times. "
            "Ask for more rows or for a smaller count."
        )


def _topped_up(counts: IntArray, before: IntArray, n: int, generator: np.random.Generator) -> IntArray:
    """Duplicate rows at random until there are ``n``; fill with the commonest type if there are none."""
    missing = n - int(counts.sum())
    if missing == n:
        best = generator.choice(np.flatnonzero(before == before.max()))
        counts = np.zeros_like(counts)
        counts[best] = n
        return counts
    # rows are drawn without replacement while there are enough, so that no row is copied twice
    total = counts.copy()
    while missing > 0:
        step = min(missing, int(counts.sum()))
        total += generator.multivariate_hypergeometric(counts, step, method="marginals")
        missing -= step
    return total
