"""Differences of marginals of two tables over the whole declared domain, absent cells included."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from understudy.errors import WorkloadError
from understudy.release._keys import IntArray, record_keys
from understudy.release.types import RecordTypes
from understudy.schema import Clique, Domain

_DENSE_CELLS = 1 << 24
_MOST_CLIQUES = 100_000


def cliques_of_orders(domain: Domain, orders: Sequence[int] | None) -> list[Clique]:
    """Return the column sets of the given sizes (of all sizes by default), large ones first."""
    if too_many(domain, orders):
        raise WorkloadError(f"There are {too_many(domain, orders)}.")
    return [clique for k in _wanted(domain, orders) for clique in combinations(domain.names, k)]


def too_many(domain: Domain, orders: Sequence[int] | None) -> str:
    """Return what is wrong with asking for the marginals of the given orders, or nothing.

    Examples
    --------
    >>> too_many(Domain(tuple("abc"), (2, 2, 2)), None)
    ''
    """
    d = len(domain)
    if sum(math.comb(d, k) for k in _wanted(domain, orders)) <= _MOST_CLIQUES:
        return ""
    return f"more than {_MOST_CLIQUES:,} marginals of these orders over {d} columns; name fewer orders"


def _wanted(domain: Domain, orders: Sequence[int] | None) -> list[int]:
    d = len(domain)
    return sorted({min(k, d) for k in (range(1, d + 1) if orders is None else orders)}, reverse=True)


def differences(
    real: RecordTypes, synthetic: RecordTypes, cliques: Sequence[Clique]
) -> Iterator[tuple[Clique, IntArray]]:
    """Yield each clique with real minus synthetic counts, as a flat array.

    Cells that are absent from both tables have the difference zero. They are part of the array where the
    table of the clique is small enough, and left out otherwise; a cell that is present in one of the
    two tables is never left out.
    """
    domain = real.domain
    if domain.cells() <= _DENSE_CELLS:
        yield from _dense(real, synthetic, cliques)
        return
    weights = np.concatenate([real.counts, -synthetic.counts])
    for clique in cliques:
        columns = [domain.index(name) for name in clique]
        keys = np.concatenate(
            record_keys([real.codes[:, columns], synthetic.codes[:, columns]], domain.shape(clique))
        )
        if domain.cells(clique) <= _DENSE_CELLS:
            sums = np.bincount(keys, weights=weights, minlength=domain.cells(clique))
        else:
            sums = np.bincount(np.unique(keys, return_inverse=True)[1].reshape(-1), weights=weights)
        yield clique, np.rint(sums).astype(np.int64)


def _dense(
    real: RecordTypes, synthetic: RecordTypes, cliques: Sequence[Clique]
) -> Iterator[tuple[Clique, IntArray]]:
    """Sum the full table down to each clique, through the smallest table that is there already."""
    domain = real.domain
    full = np.zeros(domain.cells(), dtype=np.int64)
    full[real.keys()] += real.counts
    full[synthetic.keys()] -= synthetic.counts
    known: dict[Clique, IntArray] = {domain.names: full.reshape(domain.shape())}
    for clique in sorted(cliques, key=len, reverse=True):
        if clique not in known:
            inside = set(clique)
            parents = (other for other in known if inside <= set(other))
            parent = min(parents, key=lambda other: known[other].size)
            axes = tuple(axis for axis, name in enumerate(parent) if name not in inside)
            known[clique] = known[parent].sum(axis=axes)
        yield clique, known[clique].reshape(-1)
