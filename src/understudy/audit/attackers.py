"""Attackers: each turns what it sees of a run into one number, larger for "rather the first table".

White-box attackers see everything that was released: measurements, statistics, chosen cliques, model parameters, the ledger.
Black-box ones see synthetic rows only. Some know the two tables and compute likelihood ratios; others learn from runs that
have no part in judging them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.audit.observers import Observation

__all__ = ["ATTACKERS", "TIMING", "Attacker"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Score = Callable[[Sequence[Observation]], Floats]
Learn = Callable[[Sequence[Observation], Bools], Score]

_BINS = 8
_MOST_FEATURES = 64


@dataclass(frozen=True)
class Attacker:
    """A name, the part of an observation it needs, and how it learns to score runs."""

    name: str
    sees: str
    learn: Learn


def _field(part: str) -> Learn:
    """Read one number as it is."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        return lambda runs: np.array([getattr(run, part) for run in runs], dtype=np.float64)

    return learn


def _matrix(runs: Sequence[Observation], part: str, width: int) -> Floats:
    """Stack vectors of one part, short ones filled with zeros and long ones cut."""
    table = np.zeros((len(runs), width))
    for index, run in enumerate(runs):
        vector = getattr(run, part)[:width]
        table[index, : len(vector)] = vector
    return np.clip(np.nan_to_num(table, posinf=1e9, neginf=-1e9), -1e9, 1e9)


def _width(runs: Sequence[Observation], part: str) -> int:
    return max(1, min(_MOST_FEATURES, max((len(getattr(run, part)) for run in runs), default=1)))


def _linear(part: str) -> Learn:
    """Fisher's discriminant with shrinkage."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        width = _width(seen, part)
        table = _matrix(seen, part, width)
        one, two = _centre(table[firsts]), _centre(table[~firsts])
        spread = table - np.where(firsts[:, None], one, two)
        scale = np.maximum(spread.std(axis=0), 1e-9)
        x = spread / scale
        covariance = 0.7 * (x.T @ x / max(1, len(x) - 1)) + 0.3 * np.eye(width)
        direction = np.linalg.solve(covariance, (one - two) / scale) / scale
        return lambda runs: _matrix(runs, part, width) @ direction

    return learn


def _centre(table: Floats) -> Floats:
    return table.mean(axis=0) if len(table) else np.zeros(table.shape[1])


def _binned(part: str, most: int) -> Learn:
    """Naive Bayes on quantile bins of the features that tell most; learns any shape of one feature."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        width = _width(seen, part)
        table = _matrix(seen, part, width)
        edges, odds, worth = [], [], np.zeros(width)
        for index in range(width):
            cuts = np.unique(np.quantile(table[:, index], np.linspace(0, 1, _BINS + 1)[1:-1]))
            place = np.searchsorted(cuts, table[:, index], side="left")
            counts = [np.bincount(place[which], minlength=len(cuts) + 1) + 0.5 for which in (firsts, ~firsts)]
            shares = [count / count.sum() for count in counts]
            edges.append(cuts)
            odds.append(np.log(shares[0]) - np.log(shares[1]))
            worth[index] = ((shares[0] - shares[1]) * odds[-1]).sum()
        chosen = np.argsort(-worth, kind="stable")[:most]

        def score(runs: Sequence[Observation]) -> Floats:
            values = _matrix(runs, part, width)
            total = np.zeros(len(runs))
            for index in chosen:
                total += odds[index][np.searchsorted(edges[index], values[:, index], side="left")]
            return total

        return score

    return learn


def _keyed(part: str) -> Learn:
    """Odds of each distinct outcome: which cliques were chosen, what the ledger says, how it failed."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        one = Counter(getattr(run, part) for run, first in zip(seen, firsts, strict=True) if first)
        two = Counter(getattr(run, part) for run, first in zip(seen, firsts, strict=True) if not first)

        def odds(key: object) -> float:
            return float(np.log(one[key] + 0.5) - np.log(two[key] + 0.5))

        return lambda runs: np.array([odds(getattr(run, part)) for run in runs])

    return learn


def _centred(seen: Sequence[Observation], firsts: Bools) -> Score:
    """Likelihood ratio of additive noise of known scale around centres learnt for each table."""
    width = _width(seen, "told")
    table = _matrix(seen, "told", width)
    centres = [
        np.median(table[which], axis=0) if which.any() else np.zeros(width) for which in (firsts, ~firsts)
    ]
    # a feature whose centres differ by less than a quarter of its noise is noise of the centre
    spread = np.maximum(table.std(axis=0), 1e-9)
    same = np.abs(centres[0] - centres[1]) < 0.25 * spread
    centres[1] = np.where(same, centres[0], centres[1])

    def score(runs: Sequence[Observation]) -> Floats:
        values, scales = _matrix(runs, "told", width), _matrix(runs, "scales", width)
        first, second = (np.abs(values - centre) for centre in centres)
        safe = np.where(scales == 0, 1.0, np.abs(scales))
        laplace, gaussian = (second - first) / safe, (second**2 - first**2) / (2 * safe**2)
        return np.asarray(np.where(scales < 0, laplace, np.where(scales > 0, gaussian, 0.0)).sum(axis=1))

    return score


def _sum(one: Learn, two: Learn) -> Learn:
    """Add the evidence of two attackers."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        left, right = one(seen, firsts), two(seen, firsts)
        return lambda runs: left(runs) + right(runs)

    return learn


ATTACKERS: tuple[Attacker, ...] = (
    Attacker("likelihood ratio of the measurements", "told", _field("ratio")),
    Attacker("likelihood ratio around learnt centres", "told", _centred),
    Attacker("odds of the choices made", "key", _keyed("key")),
    Attacker("likelihood ratio and odds of the choices", "key", _sum(_field("ratio"), _keyed("key"))),
    Attacker("learnt on one released number", "told", _binned("told", 1)),
    Attacker("learnt on released numbers", "told", _binned("told", 4)),
    Attacker("linear in released numbers", "told", _linear("told")),
    Attacker("odds of all released numbers", "told", _keyed("exactly")),
    Attacker("learnt on differences of released numbers", "told", _binned("gaps", 2)),
    Attacker("learnt on low bits", "told", _binned("low_bits", 2)),
    Attacker("learnt on model parameters", "model", _binned("model", 4)),
    Attacker("linear in model parameters", "model", _linear("model")),
    Attacker("number of rows", "model", _binned("totals", 2)),
    Attacker("rows: share like the outlier", "rows", _field("corner")),
    Attacker("rows: learnt on their counts", "rows", _binned("rows", 4)),
    Attacker("rows: linear in their counts", "rows", _linear("rows")),
)
"""Every attacker; those whose name starts with "rows" are black-box."""

TIMING = Attacker("time of the fit", "time", _field("seconds"))
"""Not covered by any guarantee: reported apart."""
