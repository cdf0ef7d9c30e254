"""What public data says of pairs of columns, and which of it is believed: the choice, pair by pair, between public data, measuring and independence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, scalar_noise
from understudy.engine.distributions.patched import rake
from understudy.errors import BudgetError
from understudy.marginals import Statistic, in_batches
from understudy.privacy import Accounting, Noise, Unit
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]

_CELLS_AT_ONCE = 20_000_000
"""Pairs are compared in batches of so many cells; only two numbers of each are kept."""


class Answers(Protocol):
    """Something public that answers marginals: the distribution of a model, or a table."""

    @property
    def domain(self) -> Domain:
        """The columns it speaks of."""

    @property
    def total(self) -> float:
        """Its number of rows."""

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return expected counts over each clique."""


def fingerprint(prior: Answers) -> str:
    """Return a short text that tells priors apart: a hash of what they say of columns and of neighbouring pairs of them."""
    names = prior.domain.names
    asked: list[Clique] = [*((name,) for name in names), *pairwise(names)]
    found = hashlib.sha256()
    for table in prior.marginals(asked):
        found.update(np.ascontiguousarray(table, dtype="<f8").tobytes())
    return found.hexdigest()[:16]


def require_same_columns(prior: Answers | None, domain: Domain) -> None:
    """Refuse a prior that speaks of other columns."""
    if prior is not None and prior.domain != domain:
        other = sorted(set(prior.domain.names) ^ set(domain.names))
        what = (
            f" ({', '.join(other[:5])} {'is' if len(other) == 1 else 'are'} in one of both only)"
            if other
            else ""
        )
        raise BudgetError(
            f"The prior was made for other columns or other values than the table has{what}. Encode public data with the schema of this table, or leave prior out."
        )


def as_public(prior: Answers, pairs: Sequence[Clique], columns: Mapping[str, Array]) -> list[Array]:
    """Return what public data says of pairs of columns, in rows of this table: its dependence, with this table's own columns as they were released."""
    return [
        rake(np.maximum(0.0, table), [((axis,), columns[name]) for axis, name in enumerate(pair)], sweeps=20)
        for pair, table in zip(pairs, prior.marginals(pairs), strict=True)
    ]


def distance_noise(accounting: Accounting, unit: Unit, cost: float, distances: int) -> Noise:
    """Return the noise of each of several distances that share a cost equally, from public facts alone.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> round(distance_noise(PURE, Unit.add_remove(), 1.0, 10).scale, 2)
    10.0
    """
    share = accounting.split(cost, [1.0] * distances)[0]
    return scalar_noise(accounting, share, float(unit.histogram_l1))


@dataclass(frozen=True, eq=False)
class Compared:
    """Released distances of pairs of columns, in rows: from independence, and from what public data says."""

    pairs: tuple[Clique, ...]
    independent: Array
    public: Array | None

    @property
    def statistics(self) -> list[Statistic]:
        """The numbers as they are kept in a model file."""
        count = len(self.pairs)
        found = [Statistic(f"distance from independence of {count} pairs", self.independent, "mechanism")]
        if self.public is not None:
            found.append(Statistic(f"distance from the prior of {count} pairs", self.public, "mechanism"))
        return found


def compare(
    curator: Curator,
    prior: Answers | None,
    pairs: Sequence[Clique],
    columns: Mapping[str, Array],
    cost: float,
) -> Compared:
    """Measure how far each pair of columns is from independent, and from what public data says.

    "Independent" is the product of the columns as they were released: a distance to it moves by a quarter of what the distance to the product of the exact columns does
    (:func:`~understudy.mechanisms.graphs.look.gap_sensitivity`).

    Privacy
    -------
    In: private. Out: releasable. One number for each pair, or two: L1 distances of its counts to tables that are public or follow from released columns, each moved by at
    most ``l1`` by one unit (the triangle inequality), with noise for an equal share of ``cost``, all charged together before any is drawn.
    """
    each = 1 if prior is None else 2
    sealed = []
    for batch in in_batches(pairs, curator.domain.cells, most=_CELLS_AT_ONCE):
        believed = [] if prior is None else as_public(prior, batch, columns)
        for place, (counts, (one, other)) in enumerate(zip(curator.counts_many(batch), batch, strict=True)):
            product = np.outer(columns[one], columns[other]) / max(1e-12, float(columns[one].sum()))
            sealed += [counts.l1_distance(table) for table in (product, *believed[place : place + 1])]
    noise = distance_noise(curator.accounting, curator.unit, cost, each * len(pairs))
    what = "independence" if prior is None else "independence and with public data"
    values = np.array(
        curator.measure_scalars(
            sealed, noise=[noise] * len(sealed), purpose=f"compare {len(pairs)} pairs of columns with {what}"
        )
    )
    return Compared(tuple(pairs), values[0::each], None if prior is None else values[1::2])
