"""Minimising a regularised multinomial loss over private records. Exact and private: only the curator calls this."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator.seal import Sealed
from understudy.data import Table
from understudy.errors import UnderstudyError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BLOCK = 64
"""Records whose gradients are added in one product; rounding errors grow with it."""
_DISTINCT_CELLS = 1_000_000
_ITERATIONS = 1_000
"""Far more than ever needed: a failure to converge would be an outcome that the proof does not cover."""
_CURVED = 40_000
"""Second derivatives only steer the steps: about this many records say enough about them."""


@dataclass(frozen=True, eq=False, repr=False)
class Weighted(Sealed):
    """Some records as codes of their columns, the class of each, and how often it occurs. Private."""

    codes: tuple[Ints, ...]
    tables: tuple[Floats, ...]
    classes: Ints
    counts: Floats

    def design(self, rows: slice) -> Floats:
        """Return the predictors of some of the records, the constant first."""
        parts = [np.ones((len(self.classes[rows]), 1))]
        parts += [table[codes[rows]] for codes, table in zip(self.codes, self.tables, strict=True)]
        return np.concatenate(parts, axis=1)


def weighted_records(
    table: Table, target: str, classes: Ints, predictors: Sequence[tuple[str, Floats]]
) -> list[Weighted]:
    """Read the records a regression needs: distinct ones with their counts where there are few possible ones."""
    names = [name for name, _ in predictors]
    tables = tuple(numbers for _, numbers in predictors)
    columns = [*names, target]
    if table.schema.domain.cells(tuple(columns)) <= _DISTINCT_CELLS:
        codes, counts = table.distinct(columns)
        chunks = [({name: codes[:, i] for i, name in enumerate(columns)}, counts.astype(np.float64))]
    else:
        chunks = [
            (chunk, np.ones(len(chunk[target])))
            for chunk in table.chunks(table.schema.domain.canonical(columns))
        ]
    read = []
    for chunk, weights in chunks:
        which = classes[chunk[target]]
        kept = which >= 0
        if kept.any():
            found = tuple(np.asarray(chunk[name][kept], dtype=np.int64) for name in names)
            read.append(Weighted(found, tables, which[kept], weights[kept]))
    return read


def probabilities(logits: Floats, rest: Floats | None = None) -> Floats:
    """Return class probabilities, class 0 first; its logit is zero.

    ``rest`` is what rounding left out of the logits. Differences of logits are then right to one part in 2^53, and every
    probability to a few units in its last place, however large the logits are.
    """
    full = np.concatenate([np.zeros((len(logits), 1)), logits], axis=1)
    place = full.argmax(axis=1)[:, None]
    full -= np.take_along_axis(full, place, axis=1)
    if rest is not None:
        more = np.concatenate([np.zeros((len(rest), 1)), rest], axis=1)
        full += more - np.take_along_axis(more, place, axis=1)
    np.exp(full, out=full)
    return np.asarray(full / full.sum(axis=1, keepdims=True))


def _losses(logits: Floats, classes: Ints) -> Floats:
    """Return minus the logarithm of the probability of each record's class, however small that probability is.

    From the logits, not from the probabilities, which underflow: a loss that no longer rises far from the minimum
    would let Newton's method accept steps away from it and, for some tables and not for others, never end.
    """
    full = np.concatenate([np.zeros((len(logits), 1)), logits], axis=1)
    peak = full.max(axis=1)
    own = full[np.arange(len(full)), classes]
    return np.asarray(peak - own + np.log(np.exp(full - peak[:, None]).sum(axis=1)))


def minimise(records: Sequence[Weighted], linear: Floats, *, ridge: float, tolerance: float) -> Floats:
    """Return a point at which the computed gradient of the perturbed objective has norm at most ``tolerance``.

    How far the computed gradient may be from the true one is in the head of :mod:`understudy.curator.learning`. Where a bound of the
    rounding errors of the logits does not say that they are negligible, the logits are computed in twice the precision
    before a point is believed. Newton's method with halved steps. The objective is strongly convex and smooth, so it converges from everywhere. Values and gradients
    are those of all records; the second derivatives of a large table are taken from every so many-th record, unless that
    turns out not to be good enough.
    """
    width, others = linear.shape
    weights = np.zeros((width, others))
    stride = max(1, sum(len(item.classes) for item in records) // _CURVED)
    careful = False
    value, gradient, curvature = _derivatives(records, weights, linear, ridge, stride)
    for iteration in range(_ITERATIONS):
        if iteration == 30:
            stride = 1
        if float(np.linalg.norm(gradient)) <= tolerance and not careful:
            careful = rounding_of_logits(records, weights) > tolerance / 16
            if careful:
                value, gradient, curvature = _derivatives(records, weights, linear, ridge, stride, careful)
        if float(np.linalg.norm(gradient)) <= tolerance:
            return weights
        step = np.linalg.solve(curvature, gradient.T.ravel()).reshape(others, width).T
        decrease = float((gradient * step).sum())
        length = 1.0
        while True:
            tried = weights - length * step
            new = _derivatives(records, tried, linear, ridge, stride, careful)
            # close to the minimum the values no longer tell points apart; the gradients do
            better = float(np.linalg.norm(new[1])) < 0.5 * float(np.linalg.norm(gradient))
            if new[0] <= value - 1e-4 * length * decrease or better or length < 2.0**-40:
                break
            length /= 2
        weights = tried
        value, gradient, curvature = new
    raise UnderstudyError("A regression did not converge; this is a defect, please report it.")


def rounding_of_logits(records: Sequence[Weighted], weights: Floats) -> float:
    """Bound what rounding errors of ordinary products of predictors and weights do to the norm of the gradient. Private.

    A product of ``w`` terms errs by at most ``w`` units of rounding of the sum of their sizes; probabilities, added over
    classes, move by at most twice the largest error of a logit; and each record's share of the gradient is that times its
    predictors.
    """
    total = 0.0
    for item in records:
        sizes = np.abs(weights[:1]).max(initial=0.0)
        squares, start = 1.0, 1
        for table in item.tables:
            part = np.abs(table) @ np.abs(weights[start : start + table.shape[1]])
            sizes += part.max(initial=0.0)
            squares += float((table**2).sum(axis=1).max(initial=0.0))
            start += table.shape[1]
        error = (len(weights) + 1) * 2.0**-53 * float(sizes)
        total += float(item.counts.sum()) * 2 * error * math.sqrt(squares)
    return total


def twice_precise(x: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return ``x @ weights`` as a sum of two numbers, about as good as with twice the digits (Ogita, Rump and Oishi 2005).

    Products are split into a rounded part and what rounding left out (Dekker 1971), sums likewise (Knuth); what was left out is added
    up apart. Up to ``n² 2^-106`` of the sum of sizes of ``n`` terms is lost.

    Examples
    --------
    >>> high, low = twice_precise(np.array([[1.0, 1.0, 1.0]]), np.array([[2.0**60], [1.0], [-(2.0**60)]]))
    >>> float(high[0, 0] + low[0, 0])
    1.0
    """
    total, rest = np.zeros((len(x), weights.shape[1])), np.zeros((len(x), weights.shape[1]))
    for place, row in enumerate(weights):
        column = x[:, place, None]
        product = column * row
        a, b = _halves(column), _halves(row)
        left = ((a[0] * b[0] - product) + a[0] * b[1] + a[1] * b[0]) + a[1] * b[1]
        added = total + product
        virtual = added - total
        left += (total - (added - virtual)) + (product - virtual)
        total, rest = added, rest + left
    return total, rest


def _halves(numbers: Floats) -> tuple[Floats, Floats]:
    """Split numbers into two of 26 binary digits each."""
    scaled = 134_217_729.0 * numbers
    high = scaled - (scaled - numbers)
    return high, numbers - high


def _derivatives(
    records: Sequence[Weighted],
    weights: Floats,
    linear: Floats,
    ridge: float,
    stride: int,
    careful: bool = False,
) -> tuple[float, Floats, Floats]:
    """Return value, gradient and second derivatives; coefficients are ordered by class, then predictor."""
    width, others = weights.shape
    values = [ridge / 2 * float((weights**2).sum()), float((linear * weights).sum())]
    gradients: list[Floats] = []
    curvature = ridge * np.eye(width * others)
    for _, x, classes, counts in _batches(records):
        logits, rest = twice_precise(x, weights) if careful else (x @ weights, None)
        p = probabilities(logits, rest)
        values.append(float(counts @ _losses(logits, classes)))
        residual = p[:, 1:] - (classes[:, None] == np.arange(1, others + 1))
        residual *= counts[:, None]
        gradients.append(_block_products(x, residual))
        few, share = x[::stride], p[::stride, 1:]
        weighed = share * (counts[::stride, None] * stride)
        for k in range(others):
            for m in range(k, others):
                factor = weighed[:, k] * ((k == m) - share[:, m])
                block = few.T @ (few * factor[:, None])
                curvature[k * width : (k + 1) * width, m * width : (m + 1) * width] += block
                if m > k:
                    curvature[m * width : (m + 1) * width, k * width : (k + 1) * width] += block.T
    total = ridge * weights + linear
    if gradients:
        stacked = np.concatenate(gradients)
        flat = stacked.reshape(len(stacked), -1)
        total = total + np.array([math.fsum(column) for column in flat.T]).reshape(width, others)
    return math.fsum(values), total, curvature


def _batches(records: Sequence[Weighted]) -> Iterator[tuple[range, Floats, Ints, Floats]]:
    """Build the predictors of a few thousand records at a time."""
    size = 256 * _BLOCK
    for item in records:
        for start in range(0, len(item.classes), size):
            rows = slice(start, min(start + size, len(item.classes)))
            yield range(rows.start, rows.stop), item.design(rows), item.classes[rows], item.counts[rows]


def _block_products(x: Floats, residual: Floats) -> Floats:
    """Return one product of predictors and residuals per block of records."""
    whole = len(x) // _BLOCK * _BLOCK
    blocks = np.matmul(
        x[:whole].reshape(-1, _BLOCK, x.shape[1]).transpose(0, 2, 1),
        residual[:whole].reshape(-1, _BLOCK, residual.shape[1]),
    )
    return np.concatenate([blocks, (x[whole:].T @ residual[whole:])[None]])
