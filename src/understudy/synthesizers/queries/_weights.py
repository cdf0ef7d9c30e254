"""Multiplicative weights over the cells of a few columns. Post-processing of released answers only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.marginals import Query
from understudy.schema import Clique, Domain

Floats = npt.NDArray[np.float64]


class Factor:
    """A distribution over every cell of some columns, and the queries that speak of them.

    Weights are kept without normalisation: an update multiplies the cells of one query and changes their sum by
    a known amount, so that it costs as much as the query has cells.

    Parameters
    ----------
    domain
        The columns.
    queries
        Linear queries over them, counting or not.

    Examples
    --------
    >>> from understudy.marginals import prefix
    >>> domain = Domain(("a",), (4,))
    >>> part = Factor(domain, [prefix(domain, "a", 1)])
    >>> for _ in range(200):
    ...     part.learn(0, 0.9, updates=5)
    >>> bool(abs(part.answers()[0] - 0.9) < 0.01)
    True
    """

    def __init__(self, domain: Domain, queries: Sequence[Query]) -> None:
        self.domain = domain
        self.queries = list(queries)
        self._weights: Floats = np.full(domain.sizes, 1.0 / domain.cells())
        self._mass = 1.0
        self._sum = np.zeros(domain.sizes)
        self._learnt: dict[int, list[float]] = {}
        self._steps = 0
        self._groups = self._grouped()
        self._counting = [query.counting for query in self.queries]
        self._places: dict[int, tuple[slice, ...] | npt.NDArray[np.bool_]] = {}

    def _grouped(self) -> dict[Clique, tuple[npt.NDArray[np.int64], Floats]]:
        """Group queries by their columns: places, and one row of values each."""
        found: dict[Clique, list[int]] = {}
        for place, query in enumerate(self.queries):
            found.setdefault(query.clique, []).append(place)
        return {
            clique: (
                np.array(places, dtype=np.int64),
                np.stack([self.queries[place].values.ravel() for place in places]),
            )
            for clique, places in found.items()
        }

    def answers(self) -> Floats:
        """Return the answer of the distribution to each query, as a share of its mass."""
        told = np.zeros(len(self.queries))
        for clique, (places, rows) in self._groups.items():
            told[places] = rows @ self._marginal(clique).ravel()
        return told

    def _marginal(self, clique: Clique) -> Floats:
        keep = {self.domain.index(name) for name in clique}
        others = tuple(axis for axis in range(len(self.domain)) if axis not in keep)
        shares: Floats = self._weights.sum(axis=others) / self._mass
        return shares

    def learn(self, place: int, share: float, *, updates: int) -> None:
        """Take in a released answer and make some updates: this query first, then those that fit worst."""
        self._learnt.setdefault(place, []).append(share)
        self._update(place)
        known = list(self._learnt)
        told = np.array([float(np.mean(self._learnt[item])) for item in known])
        misfit = np.abs(self._answers_of(known) - told)
        for index in np.argsort(-misfit)[: updates - 1].tolist():
            if misfit[index] < 1e-4:
                break
            self._update(known[index])
        self._sum += self._weights / self._mass
        self._steps += 1

    def _answers_of(self, places: Sequence[int]) -> Floats:
        """Return the model's answers to a few queries; marginals they share are summed once."""
        tables: dict[Clique, Floats] = {}
        told = np.empty(len(places))
        for index, place in enumerate(places):
            query = self.queries[place]
            if query.clique not in tables:
                tables[query.clique] = self._marginal(query.clique)
            told[index] = query.answer(tables[query.clique])
        return told

    def _update(self, place: int) -> None:
        """Move the mass of one query half way towards its answer in log-odds: a damped multiplicative step."""
        target = float(np.mean(self._learnt[place]))
        if not self._counting[place]:
            self._tilt(place, target)
            return
        where = self._where(place)
        inside = float(self._weights[where].sum())
        share = min(1 - 1e-12, max(1e-12, inside / self._mass))
        wanted = min(1 - 1e-6, max(1e-6, target))
        step = 0.5 * (math.log(wanted / (1 - wanted)) - math.log(share / (1 - share)))
        factor = math.exp(min(4.0, max(-4.0, step)))
        self._weights[where] *= factor
        self._mass += inside * (factor - 1)
        self._rescale()

    def _tilt(self, place: int, target: float) -> None:
        """Make half a Newton step on the weight of a query whose values are not just 0 and 1."""
        query = self.queries[place]
        table = self._marginal(query.clique)
        share = query.answer(table)
        spread = float((table * np.square(query.values - share)).sum())
        step = min(4.0, max(-4.0, 0.5 * (target - share) / max(spread, 1e-6)))
        factors = np.exp(step * query.values)
        shape = [size if name in query.clique else 1 for name, size in _sides(self.domain)]
        self._weights *= factors.reshape(shape)
        self._mass *= float((table * factors).sum())
        self._rescale()

    def _rescale(self) -> None:
        if not 1e-100 < self._mass < 1e100:
            self._weights /= self._mass
            self._mass = 1.0

    def _where(self, place: int) -> tuple[slice, ...] | npt.NDArray[np.bool_]:
        """Return the cells of the whole factor that satisfy a query: a block where it is one, else a mask."""
        if place not in self._places:
            self._places[place] = _block(self.domain, self.queries[place])
        return self._places[place]

    def shares(self, *, average: bool) -> Floats:
        """Return the distribution: the last iterate, or the average of all of them."""
        if average and self._steps:
            return self._sum / self._steps
        last: Floats = self._weights / self._weights.sum()
        return last


def _sides(domain: Domain) -> list[tuple[str, int]]:
    return list(zip(domain.names, domain.sizes, strict=True))


def _block(domain: Domain, query: Query) -> tuple[slice, ...] | npt.NDArray[np.bool_]:
    """Return a query as slices if it is a box of runs, which is quick to read and write; else as a mask."""
    cells = query.values > 0
    runs: dict[str, slice] = {}
    product = np.ones((), dtype=np.bool_)
    for axis, name in enumerate(query.clique):
        others = tuple(other for other in range(cells.ndim) if other != axis)
        mask = cells.any(axis=others)
        product = np.logical_and.outer(product, mask)
        found = np.flatnonzero(mask)
        if len(found) and found[-1] - found[0] + 1 == len(found):
            runs[name] = slice(int(found[0]), int(found[-1]) + 1)
    if len(runs) == len(query.clique) and bool((product == cells).all()):
        return tuple(runs.get(name, slice(None)) for name in domain.names)
    shape = [size if name in query.clique else 1 for name, size in _sides(domain)]
    mask_all: npt.NDArray[np.bool_] = np.broadcast_to(cells.reshape(shape), domain.sizes).copy()
    return mask_all
