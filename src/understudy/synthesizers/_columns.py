"""Noise taken out of measured columns: neighbouring values of an ordered column have similar counts.

A noisy column is modelled as a random field around even counts: each value differs from its neighbours by itself, or
together with those near it, at three ranges. How much of each there is, is what makes the noisy column most likely; noise
has a known variance, so columns that are rough are left as they were measured. The posterior mean takes the place of the
noise. All of it is post-processing of released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.engine import project_to_simplex
from understudy.marginals import Measurement
from understudy.schema import Clique, Schema
from understudy.synthesizers._fields import field_posterior, shrunk_cells

__all__ = ["ColumnSmoother", "smoothable"]

Array = npt.NDArray[np.float64]

FEWEST_VALUES, MOST_VALUES = 16, 1_000
"""Sizes of columns that are smoothed: fewer values teach nothing about smoothness, the work grows with the third power."""

_LEAST_NOISE = 0.02
"""Columns whose noise adds up to less than this share of the records are left alone."""
_SHORT, _PARTS = 1.5, (12.0, 4.0)
"""Ranges within which values are alike: in values, and as parts of the column."""
_STEPS = 40


def smoothable(schema: Schema, name: str) -> bool:
    """Say whether a column has an order and enough values for its neighbours to tell something."""
    column = schema.column(name)
    return column.kind != "categorical" and FEWEST_VALUES <= column.size <= MOST_VALUES


class ColumnSmoother:
    """Replaces measurements of single ordered columns by what they say together with their order.

    Results are kept: a column is smoothed again only after it was measured again.

    Examples
    --------
    >>> from understudy.schema import Integer, Schema
    >>> age = Schema([Integer("age", minimum=0, maximum=39)])
    >>> true = 1000 * np.exp(-np.arange(40) / 10)
    >>> noisy = true + np.random.default_rng(0).normal(0, 100, 40)
    >>> (item,) = ColumnSmoother(age).targets([Measurement(("age",), noisy, "gaussian", 100.0)], rows=true.sum())
    >>> bool(np.abs(item.values - true).sum() < 0.6 * np.abs(noisy - true).sum())
    True
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[tuple[Clique, int], Measurement] = {}

    def targets(self, measurements: Sequence[Measurement], *, rows: float) -> list[Measurement]:
        """Return what an estimate should be fitted to; other measurements are passed on as they are."""
        columns: dict[Clique, list[Measurement]] = {}
        rest = []
        for item in measurements:
            if len(item.clique) == 1 and smoothable(self._schema, item.clique[0]):
                columns.setdefault(item.clique, []).append(item)
            else:
                rest.append(item)
        for clique, items in columns.items():
            key = (clique, len(items))
            if key not in self._known:
                precision = sum(1.0 / item.variance for item in items)
                noisy = sum(item.values / item.variance for item in items) / precision
                self._known[key] = self._smoothed(
                    clique, np.asarray(noisy, np.float64), 1.0 / precision, rows
                )
            rest.append(self._known[key])
        return rest

    def _smoothed(self, clique: Clique, noisy: Array, variance: float, rows: float) -> Measurement:
        size = len(noisy)
        if size * np.sqrt(variance) < _LEAST_NOISE * rows:
            return Measurement(clique, noisy, "gaussian", float(np.sqrt(variance)))
        even = rows / size
        gap = noisy + (rows - noisy.sum()) / size - even
        with threadpool_limits(1):  # the matrices are small
            mean, spread = _posterior(
                gap, np.full(size, even), variance, self._schema.column(clique[0]).value_count
            )
        # An estimate gives every target its weight; errors that are alike in neighbours count as if they were not.
        return Measurement(clique, project_to_simplex(even + mean, rows), "gaussian", float(np.sqrt(spread)))


def _posterior(gap: Array, even: Array, variance: float, ordered: int) -> tuple[Array, float]:
    """Return the posterior mean of the differences from even counts, and their mean posterior variance."""
    likely = np.maximum(0.1 * even, even + shrunk_cells(gap, even, variance))
    scale = np.sqrt(np.outer(likely, likely)) * likely.mean()  # the root lets rare values move
    parts = [scale * alike for alike in _alike(len(gap), ordered)]

    mean, spread = field_posterior(
        gap, parts, variance, start=np.full(len(parts), -1.0), usual=-2.0, bounds=(-12.0, 6.0), steps=_STEPS
    )
    return mean, min(variance, max(spread, 1e-3 * variance))


def _alike(size: int, ordered: int) -> list[Array]:
    """Return how alike values are: not at all, and within each range. Codes after the ordered ones stand alone."""
    kinds = [np.eye(size)]
    place = np.arange(ordered, dtype=np.float64)
    for reach in (_SHORT, *(ordered / part for part in _PARTS)):
        near = np.zeros((size, size))
        near[:ordered, :ordered] = np.exp(-0.5 * np.square(np.subtract.outer(place, place) / max(1.0, reach)))
        kinds.append(near)
    return kinds
