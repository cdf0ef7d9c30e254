"""What attackers look at: released measurements, model parameters, statistics, rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.audit.pairs import Pair
from understudy.audit.trials import Trials, linear_scores, padded
from understudy.synthesizers import Model

__all__ = ["Observation", "observe", "trials_of"]

Floats = npt.NDArray[np.float64]


class Observation:
    """Everything an attacker sees of one run, as numbers."""

    def __init__(self, model: Model, pair: Pair, *, rows: int, seed: int) -> None:
        domain = model.schema.domain
        self.ratio = sum(_log_ratio(model, pair))
        cliques = [c for k in (1, 2) for c in combinations(domain.names, k) if k <= len(domain)]
        measured = [item.clique for item in model.measurements]
        values = [answer.ravel() for answer in model.marginals(cliques)] if domain.cells() <= 5_000 else []
        chosen = [float(measured.count(clique)) for clique in [(), *cliques]]
        self.model = np.concatenate([*values, np.array(chosen), [model.total, float(len(measured))]])
        told = [item.values for item in model.measurements] + [item.values for item in model.statistics]
        self.released = np.concatenate([np.zeros(0), *(values.ravel()[:256] for values in told)])
        corner = tuple(size - 1 for size in domain.sizes)
        codes = model.sample_codes(rows, seed=seed)
        table = np.stack([codes[name] for name in domain.names], axis=1)
        self.corner = float((table == np.array(corner)).all(axis=1).mean())
        self.rows = np.concatenate(
            [np.bincount(codes[name], minlength=domain.size(name)) / rows for name in domain.names]
        )
        self.total = float(model.total)


def _log_ratio(model: Model, pair: Pair) -> list[float]:
    """Return, for each measurement, the log-likelihood of the first table minus that of the second."""
    found = []
    for item in model.measurements:
        first, second = (
            np.abs(item.values - table.count(item.clique)) for table in (pair.first, pair.second)
        )
        if item.noise == "laplace":
            found.append(float((second - first).sum()) / item.scale)
        else:
            found.append(float((second**2 - first**2).sum()) / (2 * item.scale**2))
    return found


def observe(model: Model, pair: Pair, *, rows: int = 60, seed: int = 0) -> Observation:
    """Look at one fitted model as every attacker does."""
    return Observation(model, pair, rows=rows, seed=seed)


def trials_of(first: Sequence[Observation], second: Sequence[Observation]) -> Trials:
    """Score the runs on both tables by every attacker."""
    scores: dict[str, tuple[Floats, Floats]] = {}
    for name, words in (
        ("ratio", "likelihood ratio of the measurements"),
        ("corner", "share of rows like the outlier"),
        ("total", "estimated number of rows"),
    ):
        scores[words] = (
            np.array([getattr(item, name) for item in first]),
            np.array([getattr(item, name) for item in second]),
        )
    for name, words in (
        ("model", "learned on model parameters"),
        ("released", "learned on released numbers"),
        ("rows", "learned on synthetic rows"),
    ):
        both = padded([getattr(item, name) for item in (*first, *second)])
        scores[words] = linear_scores(both[: len(first)], both[len(first) :])
    return Trials(scores)
