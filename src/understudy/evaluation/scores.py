"""Scores that people read: each says what it is, in which unit, which way is better, and what two samples of one population would show.

Unlike things are not averaged. A section has one score of its own kind, with the worst case beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from understudy.evaluation.comparison import Codes, Comparison, Floats, numbers_of
from understudy.evaluation.distances import total_variation

MOST_TRIPLES = 1_000
"""Of more triples than this, so many are drawn at random."""

ROWS = "share of rows"
"""The unit of total variation: so many rows would have to change their values for the two tables to agree."""


@dataclass(frozen=True)
class Score:
    """One number of an evaluation and how to read it.

    Attributes
    ----------
    section, name
        Which section it stands for, and what it is, in words.
    value
        The number.
    unit
        What it counts.
    better
        ``"lower"`` or ``"higher"``, or ``"closer"`` where it should be like ``reference``.
    reference, against
        A number to hold it against, and what that is; None where there is none.
    good
        What a good value is, in words.
    worst
        The least favourable case: its name and its value; empty where there is only one case.
    """

    section: str
    name: str
    value: float
    unit: str
    better: str
    good: str
    reference: float | None = None
    against: str = ""
    worst: tuple[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        found: dict[str, Any] = {
            "section": self.section,
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "better": self.better,
            "good": self.good,
        }
        if self.reference is not None:
            found |= {"reference": self.reference, "against": self.against}
        if self.worst is not None:
            found["worst"] = {"name": self.worst[0], "value": self.worst[1]}
        return found


@dataclass(frozen=True)
class Distance:
    """How far some columns of two tables are apart.

    Attributes
    ----------
    columns
        One, two or three columns.
    value
        Total variation: the share of rows that would have to change.
    sampling
        What two samples of one population, as long as the two tables, would show on average.
    """

    columns: tuple[str, ...]
    value: float
    sampling: float

    @property
    def name(self) -> str:
        """The columns in words."""
        return " × ".join(self.columns)

    @property
    def beyond(self) -> float:
        """What is more than sampling alone explains."""
        return self.value - self.sampling

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"columns": list(self.columns), "value": self.value, "sampling": self.sampling}


def expected_distance(counts: Codes, other_rows: int) -> float:
    """Return the total variation that another sample of the same population is expected to have from a table.

    A cell with ``x`` rows is dealt out to two halves at random: the expected difference of the halves is what two samples of half the size differ by in
    that cell. From there the law of the difference of two Poisson counts leads to the sizes in question, at the mean count that the cell is
    likely to have: ``x``, and for rare cells ``(x + 1) f(x + 1) / f(x)``, where ``f(x)`` cells have ``x`` rows (Good 1953), because among many
    combinations those that occur once mostly occur by luck.

    Parameters
    ----------
    counts
        Cells of the real table.
    other_rows
        Rows of the other sample.

    Examples
    --------
    >>> round(expected_distance(np.array([500, 500]), 1000), 4), round(expected_distance(np.ones(1000, int), 1000), 4)
    (0.0178, 1.0)
    """
    rows = int(counts.sum())
    if not rows or not other_rows:
        return 0.0
    size, cells = np.unique(counts[counts > 0], return_counts=True)
    with_so_many = dict(zip(size.tolist(), cells.tolist(), strict=True))
    mean = size.astype(np.float64)
    for place, x in enumerate(size.tolist()):
        if x <= _RARE:
            mean[place] = min(x + 1.0, (x + 1) * with_so_many.get(x + 1, 0) / with_so_many[x])
    mean = np.maximum(mean, 1e-9)
    both_sizes = 2 / (1 + rows / other_rows)  # the harmonic mean of the two sizes, as a multiple of the first
    ratio = _difference(mean * both_sizes) / (both_sizes * _difference(mean / 2))
    share = (
        size / rows
    )  # in a few large cells the counts of one sample sum to its size: binomial, not Poisson
    ratio *= np.sqrt(1 - np.where(size > _RARE, share, 0.0))
    return min(1.0, float((cells * ratio * _halves(size)).sum()) / (2 * rows))


_RARE = 4


def _difference(mean: Floats) -> Floats:
    """Return the expected absolute difference of two Poisson counts of equal mean."""
    from scipy.special import i0e, i1e

    found: Floats = 2 * mean * (i0e(2 * mean) + i1e(2 * mean))
    return found


def _halves(size: Codes) -> Floats:
    """Return by how much two halves differ on average if each of so many rows goes to one of them at random.

    Examples
    --------
    >>> _halves(np.array([1, 2, 3, 4])).round(6).tolist()
    [1.0, 1.0, 1.5, 1.5]
    """
    from scipy.special import gammaln

    pairs = (size + 1) // 2  # E|2B - x| = 2 m C(2m, m) / 4**m with 2m = x or x + 1
    found: Floats = np.exp(
        np.log(2.0 * pairs) + gammaln(2 * pairs + 1) - 2 * gammaln(pairs + 1) - 2 * pairs * math.log(2.0)
    )
    return found


def distances(
    both: Comparison, cliques: Iterable[Sequence[str]], *, watch: Callable[[], None] = lambda: None
) -> tuple[Distance, ...]:
    """Return the distances of some sets of columns, the worst (beyond what sampling explains) first."""
    found = []
    made_rows = len(both.synthetic_codes)
    for clique in cliques:
        real, made = both.occurring(clique)
        found.append(Distance(tuple(clique), total_variation(real, made), expected_distance(real, made_rows)))
        watch()
    return tuple(sorted(found, key=lambda item: (-item.beyond, item.columns)))


def triples_of(names: Sequence[str], *, seed: int = 0, most: int = MOST_TRIPLES) -> list[tuple[str, ...]]:
    """Return all triples of columns, or as many as ``most`` of them at random.

    Examples
    --------
    >>> len(triples_of("abcd")), len(triples_of([f"c{i}" for i in range(40)], most=50))
    (4, 50)
    """
    if math.comb(len(names), 3) <= most:
        return list(combinations(names, 3))
    generator = np.random.default_rng(seed)
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < most:
        drawn[tuple(sorted(generator.choice(len(names), 3, replace=False).tolist()))] = None
    return [tuple(names[place] for place in places) for places in drawn]


# ----------------------------------------------------------------------------------------
# One column, side by side.

MOST_VALUES = 12


@dataclass(frozen=True)
class ColumnView:
    """One column of both tables.

    Attributes
    ----------
    distance
        How far the two are apart.
    kind
        Of the column.
    values
        Label, real share and synthetic share of the values whose shares differ most, in the order of the column.
    further
        Number of values that are not shown, and their real and synthetic share.
    mean
        Real and synthetic mean of a column of numbers.
    missing
        Real and synthetic share of missing entries, where there can be any.
    """

    distance: Distance
    kind: str
    values: tuple[tuple[str, float, float], ...]
    further: tuple[int, float, float] = (0, 0.0, 0.0)
    mean: tuple[float, float] | None = None
    missing: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """Of the column."""
        return self.distance.columns[0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        found: dict[str, Any] = {"column": self.name, "kind": self.kind, **self.distance.to_dict()}
        del found["columns"]
        found["values"] = [
            {"value": label, "real": real, "synthetic": made} for label, real, made in self.values
        ]
        if self.further[0]:
            found["further"] = dict(zip(("values", "real", "synthetic"), self.further, strict=True))
        for name, pair in (("mean", self.mean), ("missing", self.missing)):
            if pair is not None:
                found[name] = {"real": pair[0], "synthetic": pair[1]}
        return found


def column_views(both: Comparison) -> tuple[ColumnView, ...]:
    """Return every column of both tables side by side, the worst first."""
    return tuple(_view(both, item) for item in distances(both, [(name,) for name in both.domain.names]))


def _view(both: Comparison, distance: Distance) -> ColumnView:
    name = distance.columns[0]
    column = both.schema.column(name)
    real, made = (counts / max(1, counts.sum()) for counts in both.counts((name,)))
    order = np.argsort(-np.abs(real - made), kind="stable")
    occurring = [int(code) for code in order if real[code] > 0 or made[code] > 0]
    shown, rest = sorted(occurring[:MOST_VALUES]), occurring[MOST_VALUES:]
    means = None
    meaning = numbers_of(column) if name in both.numeric_columns and column.kind != "date" else None
    if meaning is not None:
        there = ~np.isnan(meaning)
        if all(side[there].sum() > 0 for side in (real, made)):
            one, two = (
                float((side[there] * meaning[there]).sum() / side[there].sum()) for side in (real, made)
            )
            means = (one, two)
    code = column.missing_code
    labels = column.labels
    return ColumnView(
        distance,
        column.kind,
        tuple((labels[place] or "(missing)", float(real[place]), float(made[place])) for place in shown),
        (len(rest), float(real[rest].sum()), float(made[rest].sum())) if rest else (0, 0.0, 0.0),
        means,
        None if code is None else (float(real[code]), float(made[code])),
    )


# ----------------------------------------------------------------------------------------
# What is said first.


@dataclass(frozen=True)
class Worst:
    """The worst case of one kind, in a sentence."""

    kind: str
    what: str
    sentence: str

    def to_dict(self) -> dict[str, str]:
        """Return plain values for JSON."""
        return {"kind": self.kind, "what": self.what, "sentence": self.sentence}


def worst_distance(kind: str, found: Sequence[Distance]) -> Worst | None:
    """Return the worst of some distances in words; None if there are none."""
    if not found:
        return None
    worst = found[0]
    more = worst.value / worst.sampling if worst.sampling > 0 else math.inf
    times = (
        "no more than two samples of one population differ by"
        if worst.beyond <= 0
        else f"{more:.1f} times what two samples of one population differ by"
        if more < 100
        else "far beyond what two samples of one population differ by"
    )
    return Worst(kind, worst.name, f"{worst.value:.1%} of the rows would have to change, {times}.")


def distance_score(section: str, name: str, found: Sequence[Distance]) -> Score:
    """Return the score of a section of distances."""
    return Score(
        section,
        name,
        float(np.mean([item.value for item in found])),
        ROWS,
        "lower",
        "no more than twice the number for two samples",
        reference=float(np.mean([item.sampling for item in found])),
        against="two samples of one population",
        worst=(found[0].name, found[0].value),
    )


@dataclass(frozen=True)
class Overview:
    """What an evaluation says first.

    Attributes
    ----------
    scores
        One per section that has a score.
    worst
        The worst case of each kind, three at most.
    columns, pairs, triples
        All columns, pairs and triples, the worst first.
    triples_of
        How many triples there are; ``triples`` holds so many, or a random choice.
    """

    scores: tuple[Score, ...] = ()
    worst: tuple[Worst, ...] = ()
    columns: tuple[ColumnView, ...] = ()
    pairs: tuple[Distance, ...] = ()
    triples: tuple[Distance, ...] = ()
    triples_of: int = 0
    compared: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "compared": dict(self.compared),
            "worst": [item.to_dict() for item in self.worst],
            "scores": [item.to_dict() for item in self.scores],
            "columns": [item.to_dict() for item in self.columns],
            "pairs": [item.to_dict() for item in self.pairs],
            "triples": [item.to_dict() for item in self.triples],
            "triples_of": self.triples_of,
        }
