"""The best answer to a few questions: a record that scores high on a sum of tables. Post-processing of sampled queries.

Finding the best record is hard in general (it contains maximum satisfiability), and privacy does not depend on how well it
is done. Where the columns that the questions speak of have few cells together all of them are tried; elsewhere records
climb from random starts: each column in turn takes its best code given the others, until nothing improves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.marginals import Query
from understudy.schema import Domain

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

EXHAUSTIVE = 20_000
"""Most cells for which every record is tried."""


def best_record(
    domain: Domain,
    asked: Sequence[Query],
    signs: Sequence[float],
    *,
    starts: int,
    generator: np.random.Generator,
) -> Ints:
    """Return codes of a record with a high ``sum_i sign_i query_i(record)``.

    Columns that no question speaks of get random codes.

    Examples
    --------
    >>> from understudy.marginals import box
    >>> domain = Domain(("a", "b"), (3, 2))
    >>> asked = [box(domain, {"a": [1]}), box(domain, {"a": [1, 2], "b": [0]})]
    >>> best_record(domain, asked, [-1.0, 1.0], starts=2, generator=np.random.default_rng(0))
    array([2, 0])
    """
    involved = domain.canonical({name for query in asked for name in query.clique})
    if domain.cells(involved) <= EXHAUSTIVE:
        return _tried(domain, involved, asked, signs, generator)
    return _climbed(domain, involved, asked, signs, starts, generator)


def _tried(
    domain: Domain,
    involved: tuple[str, ...],
    asked: Sequence[Query],
    signs: Sequence[float],
    generator: np.random.Generator,
) -> Ints:
    total = np.zeros(domain.shape(involved))
    for query, sign in zip(asked, signs, strict=True):
        shape = [domain.size(name) if name in query.clique else 1 for name in involved]
        total += sign * query.values.reshape(shape)
    best = np.flatnonzero(total.ravel() >= total.max() - 1e-12)
    record: Ints = _anything(domain, 1, generator)[0]
    chosen = np.unravel_index(int(generator.choice(best)), total.shape)
    for name, code in zip(involved, chosen, strict=True):
        record[domain.index(name)] = int(code)
    return record


def _climbed(
    domain: Domain,
    involved: tuple[str, ...],
    asked: Sequence[Query],
    signs: Sequence[float],
    starts: int,
    generator: np.random.Generator,
) -> Ints:
    """Climb from several starts at once; return the best end."""
    records = _anything(domain, starts, generator)
    speaking: dict[str, list[int]] = {name: [] for name in involved}
    for place, query in enumerate(asked):
        for name in query.clique:
            speaking[name].append(place)
    columns = [[domain.index(name) for name in query.clique] for query in asked]
    for _ in range(20):
        before = records.copy()
        for name in generator.permutation(np.array(involved)).tolist():
            gain = np.zeros((starts, domain.size(name)))
            for place in speaking[name]:
                clique = asked[place].clique
                table = np.moveaxis(asked[place].values, clique.index(name), -1)
                others = tuple(records[:, domain.index(other)] for other in clique if other != name)
                gain += signs[place] * (table[others] if others else table)
            records[:, domain.index(name)] = np.argmax(gain + 1e-9 * generator.random(gain.shape), axis=1)
        if (records == before).all():
            break
    scores = np.zeros(starts)
    for query, sign, where in zip(asked, signs, columns, strict=True):
        scores += sign * query.values[tuple(records[:, column] for column in where)]
    chosen: Ints = records[int(np.argmax(scores))]
    return chosen


def _anything(domain: Domain, number: int, generator: np.random.Generator) -> Ints:
    return np.stack([generator.integers(0, size, number) for size in domain.sizes], axis=1)
