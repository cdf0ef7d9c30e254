"""Sums of signs, measured instead of tables where all columns have two values: which ones, what is expected of them, what is left without noise, and the tables that they say.

Give every column the sign + for its first value and - for its second. The *sum of signs* of some columns adds, over the rows, the product of their signs. A table of these columns
with ``D`` cells is ``(1 / D) sum_S sign_S f_S`` over the subsets ``S``, where ``f_S`` are the sums of signs (the coefficients of Walsh and Hadamard), so that tables made from one set of sums agree with each other.
One row moves a sum by one, as it moves a whole table by one; but a sum is measured once for all tables that hold its columns. :class:`SignLooks` says which sums are measured and measures them;
:class:`SignSums` works on released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, scalar_noise
from understudy.engine import GraphicalModel, estimate
from understudy.marginals import Measurement, SumsOfSigns, Workload
from understudy.mechanisms.allocation import cells_of
from understudy.mechanisms.base import support_of
from understudy.mechanisms.marginal.public import distance_noise
from understudy.mechanisms.marginal.sifting.dividing import importance
from understudy.mechanisms.rounds import can_be_drawn, normal_deviation
from understudy.privacy import Accounting, Unit
from understudy.schema import Clique, Domain, Schema

__all__ = ["SignLooks", "SignSums", "measure_sums", "of_two_values", "signs"]

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MOST_COLUMNS = 32
"""Most columns of two values whose sums of signs are measured: beyond that the tables of all triples make the estimate slow."""
_FOR_PAIRS, _FOR_TRIPLES = 0.3, 0.1
"""Shares of the budget for the first look at the sums of signs of pairs and of triples; what they say divides the rest."""
_DROWNED = 0.5
"""Above this noise of the first look at pairs, as a share of the rows, no sums of signs are measured."""
_HOPELESS = 0.05
"""Above this noise of the first look at triples, as a share of the rows, their sums are not measured."""
_NEGLIGIBLE_SHARE = 1e-3
"""Sums of signs are not measured again that would get less than this part of an even share."""
_MODEL_MB = 2.0
"""Largest junction tree of the model of a table of signs, in megabytes, where no rules must fit; beyond it its tables are made to agree with each other."""
_KINDS, _WEIGHINGS = 14, 100
"""Differences from what is expected are a mixture of nothing and so many normal distributions around zero, whose weights are found in so many steps."""
_SWEEPS = 12
"""How often a table of three columns is scaled to its pairs, to see what they say of all three."""
_STEPS = 60
"""Steps in which a cost is divided."""


def of_two_values(domain: Domain) -> bool:
    """Tell whether sums of signs say all of a table: three columns of two values or more, no more than are quick, and none of more values.

    Examples
    --------
    >>> [of_two_values(Domain(("a", "b", "c"), sizes)) for sizes in ((2, 2, 2), (2, 2, 1), (2, 2, 3))]
    [True, False, False]
    """
    return max(domain.sizes) == 2 and 3 <= sum(size > 1 for size in domain.sizes) <= _MOST_COLUMNS


@dataclass(frozen=True, kw_only=True)
class SignLooks:
    """Which sums of signs are measured, by public facts and a released number of rows.

    Attributes
    ----------
    domain, workload
        The columns, and the marginals that matter.
    accounting, unit
        How looks are paid for.
    total
        The whole cost of the fit, but for a certificate.
    """

    domain: Domain
    workload: Workload
    accounting: Accounting
    unit: Unit
    total: float

    def sums(self, rows: float) -> SignSums:
        """Return the sums of signs that the workload needs, nothing known of them: of the largest marginals of up to three columns, and of their parts."""
        weights = self.workload.closure_weights()
        named = {
            tuple(name for name in clique if self.domain.size(name) > 1): weights[clique]
            for clique in sorted(self.workload.closure(), key=len)
            if len(clique) <= 3
        }
        within = {part for clique in named for k in range(1, len(clique)) for part in combinations(clique, k)}
        largest = [clique for clique in named if clique and clique not in within]
        return SignSums(largest, importance(largest, named), rows=rows)

    def see_pairs(self, pairs: int, rows: float, *, most: float = _DROWNED) -> bool:
        """Tell whether the sums of signs of so many pairs would have noise of no more than a share of the rows."""
        if not pairs:
            return False
        noise = distance_noise(self.accounting, self.unit, _FOR_PAIRS * self.total, pairs)
        return normal_deviation(noise) <= most * max(1.0, rows) and can_be_drawn(
            noise, float(self.unit.histogram_l1)
        )

    def _see_triples(self, triples: int, rows: float) -> bool:
        """Tell whether the sums of signs of triples are measured."""
        if not triples:
            return False
        noise = distance_noise(self.accounting, self.unit, _FOR_TRIPLES * self.total, triples)
        return normal_deviation(noise) <= _HOPELESS * max(1.0, rows)

    def notes(self, rows: float, about: str) -> list[str]:
        """Say which sums of signs are measured; ``about`` says of a guessed number of rows that it is one."""
        sums = self.sums(rows)
        pairs, triples = len(sums.of(2)), len(sums.of(3))
        looks = [(pairs, _FOR_PAIRS, "pairs", "")]
        if self._see_triples(triples, rows):
            looks.append((triples, _FOR_TRIPLES, "triples", about))
        notes = []
        for number, share, what, when in looks:
            scale = distance_noise(self.accounting, self.unit, share * self.total, number).scale
            notes.append(
                f"Then the sums of signs of {number} {what} of columns of two values, with noise of scale {scale:.4g} rows each{when}."
            )
        return [
            *notes,
            "Then those of columns, pairs and triples that are worth it once more, with what is left.",
        ]

    def measure(
        self, curator: Curator, columns: Sequence[Measurement], rows: float, *, reserve: float
    ) -> tuple[SignSums, list[SumsOfSigns]]:
        """Measure the sums of signs of pairs and triples, then those worth it once more with all that is left but a reserve; return what is known of them, and what was released."""
        sums = self.sums(rows)
        names = {item.clique: item for item in columns}
        places = sums.of(1)
        own = [names[sums.parts[place]] for place in places]
        differences = np.array([float(item.values[0] - item.values[1]) for item in own])
        sums.learn(places, differences, np.array([1 / (2 * item.variance) for item in own]))
        pairs, triples = sums.of(2), sums.of(3)
        if not self._see_triples(len(triples), rows):
            triples = triples[:0]
        released = []
        for places, share, what in ((pairs, _FOR_PAIRS, "pairs"), (triples, _FOR_TRIPLES, "triples")):
            if len(places):
                purpose = f"measure the sums of signs of {len(places)} {what} of columns"
                even = np.ones(len(places))
                released.append(
                    measure_sums(curator, sums, places, even, share * self.total, purpose, planned=True)
                )
        left = curator.remaining - reserve
        one = scalar_noise(curator.accounting, left, float(curator.unit.histogram_l1))
        shares = sums.divide(one.scale**-2)
        kept = np.flatnonzero(shares > _NEGLIGIBLE_SHARE * shares.sum() / len(shares))
        purpose = f"measure {len(kept)} sums of signs again"
        released.append(measure_sums(curator, sums, kept, shares[kept], left, purpose, planned=False))
        return sums, released


def measure_sums(
    curator: Curator,
    sums: SignSums,
    places: Ints,
    shares: Array,
    cost: float,
    purpose: str,
    *,
    planned: bool,
) -> SumsOfSigns:
    """Measure sums of signs of columns and learn them; ``planned`` where shares and cost follow from public facts alone.

    Privacy
    -------
    In: private. Out: releasable. Each number adds, over the rows, a product of signs: a sum of the counts of a table with weights of one and minus one, which one row moves by 1
    and a replaced one by at most 2 (:meth:`~understudy.curator.SealedCounts.sum`). All are charged together, each for its share of ``cost``, before noise is drawn.
    """
    cliques = [sums.parts[place] for place in places]
    sealed = [
        counts.sum(signs(len(clique)))
        for clique, counts in zip(cliques, curator.counts_many(cliques), strict=True)
    ]
    reach = float(curator.unit.histogram_l1)
    costs = curator.accounting.split(cost, shares.tolist())
    noise = [scalar_noise(curator.accounting, part, reach) for part in costs]
    values = np.array(curator.measure_scalars(sealed, noise=noise, purpose=purpose))
    scales = np.array([kind.scale for kind in noise])
    sums.learn(places, values, scales**-2)
    return SumsOfSigns(
        purpose.removeprefix("measure ").removeprefix("the "),
        values,
        "mechanism",
        cliques=tuple(cliques),
        scales=scales,
        planned=planned,
    )


def signs(columns: int) -> Array:
    """Return the product of the signs of some columns in each cell of their table.

    Examples
    --------
    >>> signs(2)
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    made: Array = np.ones(())
    for _ in range(columns):
        made = np.multiply.outer(made, np.array([1.0, -1.0]))
    return made


class SignSums:
    """What is known of the sums of signs of some columns, pairs and triples, while they are measured.

    Parameters
    ----------
    cliques
        The marginals that matter, of up to three columns; the sums of all their parts are held.
    weights
        How much each of them matters.
    rows
        The number of rows.

    Examples
    --------
    >>> sums = SignSums([("a", "b")], [1.0], rows=100.0)
    >>> sums.parts
    (('a',), ('b',), ('a', 'b'))
    >>> sums.learn([0, 1, 2], np.array([20.0, 40.0, 60.0]), np.full(3, 1e9))
    >>> sums.tables()[0].round(3)
    array([[55.,  5.],
           [15., 25.]])
    """

    def __init__(self, cliques: Sequence[Clique], weights: Sequence[float], *, rows: float) -> None:
        self.cliques, self.rows = tuple(cliques), max(1.0, rows)
        self._weights = np.asarray(weights, dtype=np.float64)
        found = {
            part for clique in cliques for k in range(1, len(clique) + 1) for part in combinations(clique, k)
        }
        self.parts: tuple[Clique, ...] = tuple(sorted(found, key=lambda part: (len(part), part)))
        place = {part: number for number, part in enumerate(self.parts)}
        self.order: Ints = np.array([len(part) for part in self.parts], dtype=np.int64)
        self._inside = {  # places of the smaller parts of each pair and triple
            k: np.array(
                [
                    [place[inner] for size in range(1, k) for inner in combinations(part, size)]
                    for part in self.parts
                    if len(part) == k
                ],
                dtype=np.int64,
            ).reshape(-1, 2**k - 2)
            for k in (2, 3)
        }
        self._held = [
            [place[part] for k in range(1, len(clique) + 1) for part in combinations(clique, k)]
            for clique in self.cliques
        ]
        self._noisy = np.zeros(len(self.parts))
        self._precision = np.zeros(len(self.parts))
        self._values = np.zeros(len(self.parts))
        self._variance = np.full(len(self.parts), self.rows**2)
        self._spread = np.full(len(self.parts), self.rows**2)

    def of(self, columns: int) -> Ints:
        """Return the places of the parts of so many columns."""
        return np.flatnonzero(self.order == columns)

    def learn(self, places: Sequence[int] | Ints, values: Array, precisions: Array) -> None:
        """Take in measured sums with the inverse variance of each; several measurements of one are averaged."""
        chosen = np.asarray(places, dtype=np.int64)
        before = self._precision[chosen]
        together = before + precisions
        known = together > 0
        mean = (self._noisy[chosen] * before + values * precisions)[known] / together[known]
        self._noisy[chosen[known]] = mean
        self._precision[chosen] = together
        self._estimate()

    def _estimate(self) -> None:
        """Take noise out of all sums: columns first, pairs by what their columns say, triples by what their pairs say."""
        rows = self.rows
        for k in (1, 2, 3):
            places = self.of(k)
            if not len(places):
                continue
            expected = self._expected(k)
            measured = self._precision[places] > 0
            values, variance = expected.copy(), np.zeros(len(places))
            spread = np.full(len(places), rows**2)
            if measured.any():
                own = places[measured]
                noise = 1.0 / self._precision[own]
                if k == 1:  # nothing is expected of a column
                    values[measured], variance[measured] = self._noisy[own], noise
                else:
                    kept, left, square = _without_noise(self._noisy[own] - expected[measured], noise)
                    values[measured] += kept
                    variance[measured], spread[measured] = left, square
            self._values[places] = np.clip(values, *self._possible(k))
            self._variance[places], self._spread[places] = variance, spread

    def _expected(self, k: int) -> Array:
        """Return what sums of so many columns would be if the columns did no more together than their parts say."""
        if k == 1:
            return np.zeros(len(self.of(1)))
        inside = self._values[self._inside[k]]
        if k == 2:
            return np.asarray(inside[:, 0] * inside[:, 1] / self.rows)
        return _sums_of_three(inside, self.rows)

    def _possible(self, k: int) -> tuple[Array | float, Array | float]:
        """Return the least and largest possible sums: no cell of a pair is negative."""
        if k != 2:
            return -self.rows, self.rows
        one, other = self._values[self._inside[2]].T
        return np.abs(one + other) - self.rows, self.rows - np.abs(one - other)

    def divide(self, cost: float) -> Array:
        """Divide a precision between all sums so that the errors to expect of the marginals add up to the least.

        A sum differs from what is expected by a normal number of the size that its measurements so far tell. More precision lowers its variance, and the error of a marginal is
        the root of the variances of its parts, which is convex in precisions: found by the multiplicative steps of optimal design. A sum that was never measured gets nothing.
        """
        open_ = self._precision > 0
        prior = np.where(self.order == 1, 0.0, 1.0 / np.maximum(self._spread, 1e-9))
        shares = np.where(open_, 1.0, 0.0)
        for k in (1, 2, 3):
            shares[(self.order == k) & open_] /= max(1, int(((self.order == k) & open_).sum()))
        shares *= cost / shares.sum()
        for _ in range(_STEPS):
            variance = np.where(open_, 1.0 / np.maximum(prior + self._precision + shares, 1e-300), 0.0)
            pull = np.zeros(len(self.parts))
            for held, weight in self._by_size:
                together = np.maximum(variance[held].sum(axis=1), 1e-300)
                np.add.at(pull, held, (weight / np.sqrt(together))[:, None])
            shares *= np.sqrt(pull) * variance
            shares *= cost / shares.sum()
        return np.asarray(shares)

    @property
    def _by_size(self) -> list[tuple[Ints, Array]]:
        """Return the parts of the marginals of each size, and their weights."""
        found = []
        for count in sorted({len(held) for held in self._held}):
            rows = [number for number, held in enumerate(self._held) if len(held) == count]
            found.append(
                (np.array([self._held[number] for number in rows], dtype=np.int64), self._weights[rows])
            )
        return found

    def tables(self) -> list[Array]:
        """Return the marginals that matter, without noise and without negative cells."""
        made = []
        for clique, held in zip(self.cliques, self._held, strict=True):
            table = np.full((2,) * len(clique), self.rows)
            parts = [part for k in range(1, len(clique) + 1) for part in combinations(range(len(clique)), k)]
            for part, value in zip(parts, self._values[held], strict=True):
                shape = [2 if axis in part else 1 for axis in range(len(clique))]
                table = table + value * signs(len(part)).reshape(shape)
            table = np.maximum(0.0, table)
            made.append(np.asarray(table * (self.rows / table.sum())))
        return made

    def deviations(self) -> list[float]:
        """Return the deviation to expect of a cell of each of the marginals."""
        return [
            math.sqrt(float(self._variance[held].sum())) / 2 ** len(clique)
            for clique, held in zip(self.cliques, self._held, strict=True)
        ]

    def fit(self, schema: Schema, *, limit_mb: float | None, ruled_mb: float) -> GraphicalModel:
        """Return a model of the tables that the sums say.

        Parameters
        ----------
        schema
            With the rules that the model keeps.
        limit_mb, ruled_mb
            Largest junction tree, in megabytes; where none is given, a small one, or ``ruled_mb`` where what rules leave must fit.
        """
        support = support_of(schema)
        room = limit_mb
        if room is None:
            room = ruled_mb if support else _MODEL_MB
        targets = [
            Measurement(clique, table, "gaussian", max(0.5, deviation))
            for clique, table, deviation in zip(self.cliques, self.tables(), self.deviations(), strict=True)
        ]
        return estimate(
            schema.domain,
            targets,
            total=self.rows,
            zeros=support,
            max_cells=cells_of(room),
            thorough=True,
            if_too_large="local-consistency",
        )


def _sums_of_three(inside: Array, rows: float) -> Array:
    """Return the sums of signs of three columns whose table has given sums of its columns and pairs, and no more dependence than these need."""
    one, two, three, first, second, third = inside.T[:, :, None, None]
    side = signs(1)
    left, right = side[:, None], side[None, :]
    pairs = [
        np.maximum(1e-6, (rows + a * left + b * right + both * left * right) / 4)
        for a, b, both in ((one, two, first), (one, three, second), (two, three, third))
    ]
    table = np.full((len(inside), 2, 2, 2), rows / 8)
    for _ in range(_SWEEPS):
        for axis, wanted in zip((3, 2, 1), pairs, strict=True):
            table *= np.expand_dims(wanted / np.maximum(table.sum(axis=axis), 1e-9), axis)
    return np.asarray((table * signs(3)).sum(axis=(1, 2, 3)))


def _without_noise(gaps: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Return posterior means, variances and mean squares of differences that were measured with normal noise.

    They are thought to come from a mixture of normal distributions around zero, whose weights are those under which the measured numbers are likeliest.
    """
    least = math.sqrt(float(variance.min()))
    sizes = np.geomspace(0.1 * least, max(float(np.abs(gaps).max()), least), _KINDS)
    squares = np.square(np.concatenate([[0.0], sizes]))[:, None]
    spread = squares + variance
    likely = -0.5 * (np.square(gaps) / spread + np.log(spread))
    weights = np.full((_KINDS + 1, 1), 1 / (_KINDS + 1))
    for _ in range(_WEIGHINGS):
        own = np.log(weights) + likely
        own = np.exp(own - own.max(axis=0))
        own /= own.sum(axis=0)
        weights = (own.sum(axis=1, keepdims=True) + 0.05) / (len(gaps) + 0.05 * (_KINDS + 1))
    kept = squares / spread
    mean = (own * kept).sum(axis=0) * gaps
    square = (own * (kept * variance + np.square(kept * gaps))).sum(axis=0)
    return mean, np.maximum(0.0, square - np.square(mean)), square
