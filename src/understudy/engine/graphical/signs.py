"""Tables of two-valued columns from sums of signs: what is expected of them, what is left without noise, and which are worth another look.

Give every column the sign + for its first value and - for its second. The *sum of signs* of some columns adds, over the rows, the product of their signs. A table of these columns
with ``D`` cells is ``(1 / D) sum_S sign_S f_S`` over the subsets ``S``, where ``f_S`` are the sums of signs (the coefficients of Walsh and Hadamard), so that tables made from one set of sums agree with each other.
One row moves a sum by one, as it moves a whole table by one; but a sum is measured once for all tables that hold its columns. Works on released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.schema import Clique

__all__ = ["SignSums", "signs"]

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_KINDS, _WEIGHINGS = 14, 100
"""Differences from what is expected are a mixture of nothing and so many normal distributions around zero, whose weights are found in so many steps."""
_SWEEPS = 12
"""How often a table of three columns is scaled to its pairs, to see what they say of all three."""
_STEPS = 60
"""Steps in which a cost is divided."""


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
