"""Trials of a mechanism on two neighbouring tables, and what the best of several attackers makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.audit.bounds import demonstrated_epsilon, demonstrated_mu
from understudy.errors import WorkloadError

__all__ = ["Finding", "Trials", "judge"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trials:
    """What was observed when a mechanism ran on each of two neighbouring tables.

    Attributes
    ----------
    scores
        By name of the attacker: one number per run on the first table and per run on the second. Larger means
        "rather the first".
    """

    scores: Mapping[str, tuple[Floats, Floats]]

    def __post_init__(self) -> None:
        lengths = {(len(first), len(second)) for first, second in self.scores.values()}
        if len(lengths) != 1 or min(next(iter(lengths))) < 8:
            raise WorkloadError("Trials need at least eight runs on each table, the same for every attacker.")


@dataclass(frozen=True)
class Finding:
    """The best attack, chosen on one half of the trials and judged on the other.

    Attributes
    ----------
    attacker, direction
        Which score, and which of the two tables it recognises.
    epsilon, mu
        What it demonstrates at the confidence asked for; ``mu`` is None where the guarantee is not Gaussian.
    true_positives, false_positives
        Its rates on the half it is judged by.
    """

    attacker: str
    direction: str
    epsilon: float
    mu: float | None
    true_positives: float
    false_positives: float


def judge(trials: Trials, *, delta: float, confidence: float, gaussian: bool = False) -> Finding:
    """Choose attacker, direction and threshold on half of the trials; judge that one test on the other half.

    Privacy
    -------
    An audit runs mechanisms on simulated neighbours; nothing private is involved.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> noise = generator.laplace(size=(2, 20_000))
    >>> found = judge(Trials({"score": (noise[0] + 1, noise[1])}), delta=0.0, confidence=0.99)
    >>> 0.85 < found.epsilon < 1.0
    True
    """
    best: tuple[float, str, str, float] | None = None
    for name, (first, second) in trials.scores.items():
        for direction, (positive, negative) in (
            ("first", (first[::2], second[::2])),
            ("second", (-second[::2], -first[::2])),
        ):
            threshold, value = _best_threshold(positive, negative, delta, confidence, gaussian)
            if best is None or value > best[0]:
                best = (value, name, direction, threshold)
    assert best is not None
    _, name, direction, threshold = best
    first, second = trials.scores[name]
    positive, negative = (
        (first[1::2], second[1::2]) if direction == "first" else (-second[1::2], -first[1::2])
    )
    hits, alarms = int((positive >= threshold).sum()), int((negative >= threshold).sum())
    counts = (hits, len(positive), alarms, len(negative))
    return Finding(
        name,
        direction,
        demonstrated_epsilon(*counts, delta=delta, confidence=confidence),
        demonstrated_mu(*counts, confidence=confidence) if gaussian else None,
        hits / len(positive),
        alarms / len(negative),
    )


def _best_threshold(
    positive: Floats, negative: Floats, delta: float, confidence: float, gaussian: bool
) -> tuple[float, float]:
    """Return the threshold that demonstrates most on these trials, and how much."""
    joined = np.concatenate([positive, negative])
    candidates = np.unique(np.quantile(joined, np.linspace(0.0, 1.0, 65), method="nearest"))
    best = (float(candidates[-1]), -1.0)
    for threshold in candidates:
        hits, alarms = int((positive >= threshold).sum()), int((negative >= threshold).sum())
        counts = (hits, len(positive), alarms, len(negative))
        value = (
            demonstrated_mu(*counts, confidence=confidence)
            if gaussian
            else demonstrated_epsilon(*counts, delta=delta, confidence=confidence)
        )
        if value > best[1]:
            best = (float(threshold), value)
    return best


def linear_scores(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Learn a linear attacker on even runs and score all of them: Fisher's discriminant with shrinkage.

    Judging uses odd runs only, so what was learnt on even ones is fixed before.
    """
    a, b = first[::2], second[::2]
    centre = (a.mean(axis=0) + b.mean(axis=0)) / 2
    spread = np.vstack([a - a.mean(axis=0), b - b.mean(axis=0)])
    scale = np.maximum(spread.std(axis=0), 1e-9)
    x = spread / scale
    covariance = x.T @ x / max(1, len(x) - 1)
    shrunk = 0.7 * covariance + 0.3 * np.eye(covariance.shape[0])
    direction = np.linalg.solve(shrunk, (a.mean(axis=0) - b.mean(axis=0)) / scale) / scale
    return (first - centre) @ direction, (second - centre) @ direction


def padded(rows: Sequence[Sequence[float]]) -> Floats:
    """Return observations of different lengths as one array, short ones filled with zeros."""
    width = max((len(row) for row in rows), default=0)
    table = np.zeros((len(rows), max(1, width)))
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table
