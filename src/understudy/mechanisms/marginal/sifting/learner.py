"""A model that is learnt from noisy marginals, measured in any order: a small graphical model, and patches for what it has no room for.

Works on released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.engine import GraphicalModel, candidate_sizes, estimate
from understudy.engine.distributions.patched import PatchedModel, rake
from understudy.marginals import Measurement, in_batches
from understudy.mechanisms.base import support_of
from understudy.mechanisms.marginal.aim import ColumnSmoother
from understudy.mechanisms.marginal.fields import nearer
from understudy.schema import Clique, Schema

__all__ = ["CELLS_AT_ONCE", "Learner", "averaged"]

Array = npt.NDArray[np.float64]

_TWICE = 2.0
"""A pair that is not measured is held at independence where the model has it this many times as far from there as its distance says. At twice the true distance independence is nearer to the records, by the triangle inequality."""
CELLS_AT_ONCE = 20_000_000
"""Marginals are compared with the model in batches of so many cells."""


class Learner:
    """The model while it is learnt from released numbers: a graphical model, and patches for what it has no room for.

    Parameters
    ----------
    schema, columns, rows
        Public facts, measurements of every column, and the number of rows that these tell or that is public.
    total
        The number of rows where it is public.
    limit_mb
        Largest junction tree, in megabytes.
    trust
        How far noise is taken out of pairs by what the model expects: 1 by the posterior mean, 0 not at all. Of triples, and of pairs that only triples tell of, it is always taken out.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[Measurement],
        rows: float,
        *,
        total: float | None,
        limit_mb: float,
        trust: float,
    ) -> None:
        self.rows, self._trust = rows, trust
        self._domain, self._limit = schema.domain, limit_mb
        self._support = support_of(schema)
        self._total = total
        self._columns = ColumnSmoother(schema).targets(columns, rows=rows)
        self._held = self._from_the_start()
        self._targets: list[Measurement] = []
        self._outside: dict[Clique, list[Measurement]] = {}
        self._believed: list[Clique] = []
        self._tree: GraphicalModel | None = None
        self.public: dict[Clique, tuple[Array, float]] = {}
        """Pairs of columns of which public data is believed: its table in rows, and how far the records are from it."""
        self.from_independence: dict[Clique, float] = {}
        """How far pairs of columns are from independence, in rows, with a deviation of the noise that this was released with."""
        self.model = self.refit()

    def _from_the_start(self) -> list[Clique]:
        """Return the columns of rules, and single columns."""
        return [*(clique for clique, _ in self._support), *((name,) for name in self._domain.names)]

    def columns(self) -> dict[str, Array]:
        """Return the single columns as the model has them now."""
        names = self._domain.names
        return dict(zip(names, self.model.marginals([(name,) for name in names]), strict=True))

    def believe(self, pairs: Sequence[Clique]) -> None:
        """Take what public data says of those of the pairs for which it is believed."""
        self._believed = taken = [pair for pair in pairs if pair in self.public]
        for pair in sorted(taken, key=lambda pair: self.public[pair][1]):
            table, distance = self.public[pair]
            deviation = max(0.5, distance / table.size * math.sqrt(math.pi / 2))
            self._hold(Measurement(pair, table, "gaussian", deviation), table)
        if taken:
            self.refit()

    def forget(self) -> None:
        """Forget every measurement but those of single columns; public data stays believed."""
        self._held = self._from_the_start()
        self._targets, self._outside, self._tree = [], {}, None
        self.refit()
        self.believe(self._believed)

    def learn(self, found: Sequence[Measurement], gaps: Array) -> None:
        """Learn marginals that were measured at once, the clearest first: what they say is expected of the others."""
        clear = [gap / (item.scale * item.values.size) for item, gap in zip(found, gaps, strict=True)]
        order = sorted(range(len(found)), key=lambda place: -clear[place])
        begun, step = 0, max(4, len(self._domain) // 2)
        while begun < len(order):
            part = [found[place] for place in order[begun : begun + step]]
            for item, expected in zip(
                part, self.model.marginals([item.clique for item in part]), strict=True
            ):
                self.add(item, self._likelier(item.clique, item.values, expected))
            self.refit()
            begun, step = begun + step, 2 * step
        self._hold_independent()

    def _hold_independent(self) -> None:
        """Hold pairs at independence that the model has far from there although their released distance says that they are near.

        Two columns that depend on a third one become dependent in a model that knows no more than that, whether they are or not.
        """
        known = {frozenset(clique) for clique in (*self._held, *self._outside) if len(clique) == 2}
        pairs = [pair for pair in self.from_independence if frozenset(pair) not in known]
        columns = self.columns()
        held = False
        for group in in_batches(pairs, self._domain.cells, most=CELLS_AT_ONCE):
            for pair, answer in zip(group, self.model.marginals(group), strict=True):
                left, right = (columns[name] for name in pair)
                product = np.outer(left, right) / max(1e-9, float(left.sum()))
                gap = self.from_independence[pair]
                if float(np.abs(answer - product).sum()) > _TWICE * gap:
                    deviation = max(0.5, gap / product.size * math.sqrt(math.pi / 2))
                    self._hold(Measurement(pair, product, "gaussian", deviation), product)
                    held = True
        if held:
            self.refit()

    def add(self, item: Measurement, expected: Array) -> None:
        """Take in a measurement of which the model expected something before."""
        trust = self._trust if item.values.ndim < 3 else 1.0
        self._hold(item, _cleared(item.values, expected, item.variance, trust))

    def _hold(self, item: Measurement, cleared: Array) -> None:
        """Put a table without its noise into the tree, or the measurement among the patches where there is no room."""
        if candidate_sizes(self._domain, self._held, [item.clique], limit_mb=self._limit)[0] <= self._limit:
            self._held.append(item.clique)
            self._targets.append(Measurement(item.clique, cleared, "gaussian", math.sqrt(item.variance)))
        else:
            self._outside.setdefault(item.clique, []).append(item)

    def _likelier(self, pair: Clique, noisy: Array, expected: Array) -> Array:
        """Return what public data says of a pair that was measured, where that is nearer to the measurement than what the model expects."""
        if pair not in self.public:
            return expected
        table = self.public[pair][0]
        gaps = [float(np.square(noisy - other).sum()) for other in (table, expected)]
        return table if gaps[0] < gaps[1] else expected

    def refit(self, *, thorough: bool = False) -> PatchedModel:
        """Fit the graphical model again, and the patches to it."""
        self._tree = estimate(
            self._domain,
            [*self._columns, *self._targets],
            total=self._total,
            zeros=self._support,
            warm_start=self._tree,
            thorough=thorough,
        )
        self.model = PatchedModel(self._domain, self._tree, self._patches(self._tree))
        return self.model

    def _patches(self, tree: GraphicalModel) -> tuple[tuple[Clique, Array], ...]:
        """Return tables of what the tree has no room for: pairs first, then triples that agree with them."""
        known: dict[Clique, list[tuple[Array, float]]] = {}
        for clique, items in self._outside.items():
            for item in items:
                for part in combinations(clique, 2):
                    over = tuple(axis for axis, name in enumerate(clique) if name not in part)
                    summed = math.prod(item.values.shape[axis] for axis in over)
                    known.setdefault(part, []).append((item.values.sum(axis=over), item.variance * summed))
        pairs = list(known)
        columns = dict(
            zip(self._domain.names, tree.marginals([(name,) for name in self._domain.names]), strict=True)
        )
        patches: list[tuple[Clique, Array]] = []
        for pair, expected in zip(pairs, tree.marginals(pairs), strict=True):
            noisy, variance = _together(known[pair])
            trust = self._trust if pair in self._outside else 1.0
            table = self._patch(noisy, self._likelier(pair, noisy, expected), variance, expected > 0, trust)
            margins = [((axis,), columns[name]) for axis, name in enumerate(pair)]
            patches.append((pair, rake(table, margins, sweeps=20)))
        model = PatchedModel(self._domain, tree, tuple(patches))
        larger = [clique for clique in self._outside if len(clique) > 2]
        for clique, expected in zip(larger, model.marginals(larger), strict=True):
            noisy, variance = _together([(item.values, item.variance) for item in self._outside[clique]])
            patches.append((clique, self._patch(noisy, expected, variance, expected > 0, 1.0)))
        return tuple(patches)

    @staticmethod
    def _patch(
        noisy: Array, expected: Array, variance: float, possible: npt.NDArray[np.bool_], trust: float
    ) -> Array:
        """Return the table that a measurement and what was expected say together."""
        table = np.where(possible, np.maximum(0.0, _cleared(noisy, expected, variance, trust)), 0.0)
        found = float(table.sum())
        return table * (float(expected.sum()) / found) if found > 0 else np.where(possible, expected, 0.0)


def _cleared(noisy: Array, expected: Array, variance: float, trust: float) -> Array:
    """Return a table without its noise as far as what was expected is trusted."""
    return trust * nearer(noisy, expected, variance) + (1 - trust) * noisy


def _together(known: Sequence[tuple[Array, float]]) -> tuple[Array, float]:
    """Return the weighted mean of measurements of the same columns, and its variance."""
    precision = sum(1 / variance for _, variance in known)
    return np.asarray(sum(values / variance for values, variance in known) / precision), 1 / precision


def averaged(one: Measurement, other: Measurement) -> Measurement:
    """Return the weighted mean of two measurements of the same columns."""
    values, variance = _together([(one.values, one.variance), (other.values, other.variance)])
    return Measurement(one.clique, values, "gaussian", math.sqrt(variance))
