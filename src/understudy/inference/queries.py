"""Linear queries: the best unbiased estimate of ``sum_x c(x) m(x)`` from noisy marginals.

Split the weights ``c`` over a clique into effects, one for each subset ``A`` of its columns: ``c = sum_A c_A``
with ``c_A`` a function of the columns in ``A`` only that sums to zero along each of them (the analysis of variance).
Effects of different subsets are orthogonal, in the query as in the noise of a measured table. So the
answer is a sum of independent parts ``<c_A, m_A>``, where ``m_A`` is the marginal over ``A``, and the best
estimate of each part averages all measurements that contain ``A`` with weights one over their variance:
a table with ``n`` cells of variance ``v``, summed to the ``n_A`` cells of ``A``, has variance ``v n / n_A``
per cell. For noise of equal variance in each cell of a table this is generalised least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.inference.covers import Evidence, summed
from understudy.inference.quantiles import WeightedNoise
from understudy.marginals import Measurement
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]

_TINY = 1e-12


def effects(weights: Array, clique: Clique) -> dict[Clique, Array]:
    """Split a table of weights into its effects, leaving out those that vanish.

    Examples
    --------
    >>> parts = effects(np.array([[1.0, 0.0], [0.0, 0.0]]), ("a", "b"))
    >>> {columns: part.ravel().tolist() for columns, part in parts.items()}
    {(): [0.25], ('a',): [0.25, -0.25], ('b',): [0.25, -0.25], ('a', 'b'): [0.25, -0.25, -0.25, 0.25]}
    """
    found = {}
    scale = float(np.abs(weights).max(initial=0.0))
    for size in range(len(clique) + 1):
        for subset in combinations(clique, size):
            gone = tuple(axis for axis, name in enumerate(clique) if name not in subset)
            part: Array = np.asarray(weights.mean(axis=gone), dtype=np.float64)
            for axis in range(part.ndim):
                part = part - part.mean(axis=axis, keepdims=True)
            if np.abs(part).max(initial=0.0) > _TINY * scale:
                found[subset] = part
    return found


@dataclass(frozen=True, eq=False)
class Step:
    """What one batch of measurements says about a query: an unbiased value and the law of its error."""

    value: float
    noise: WeightedNoise


def best_weights(
    domain: Domain, batch: Sequence[Measurement], parts: dict[Clique, Array], *, total: float | None
) -> tuple[float, list[tuple[Measurement, Array]]] | None:
    """Return a constant and, for each measurement used, the weights of its cells; ``None`` if a part is not covered.

    The estimate is the constant plus the weighted sum of the measured cells. The constant is the part that
    depends on the number of rows alone, where that is public.
    """
    constant = 0.0
    weights: dict[int, Array] = {}
    for columns, part in parts.items():
        if not columns and total is not None:
            constant += float(part) * total
            continue
        inside = [index for index, item in enumerate(batch) if set(columns) <= set(item.clique)]
        if not inside:
            return None
        precision = np.array([1 / (batch[index].values.size * batch[index].variance) for index in inside])
        precision /= precision.sum()
        for index, share in zip(inside, precision, strict=True):
            clique = batch[index].clique
            shape = tuple(domain.size(name) if name in columns else 1 for name in clique)
            spread = np.broadcast_to(share * part.reshape(shape), domain.shape(clique))
            weights[index] = weights[index] + spread if index in weights else spread
    return constant, [(batch[index], table) for index, table in weights.items()]


def answer(evidence: Evidence, batch: Sequence[Measurement], parts: dict[Clique, Array]) -> Step | None:
    """Return the best unbiased answer of one batch to a query given by its effects."""
    found = best_weights(evidence.domain, batch, parts, total=evidence.total)
    if found is None:
        return None
    constant, weighted = found
    value = constant + sum(float((table * item.values).sum()) for item, table in weighted)
    return Step(value, WeightedNoise.of(weighted))


def answers(evidence: Evidence, parts: dict[Clique, Array]) -> list[Step]:
    """Return the answers of all batches that can answer a query, in order."""
    return [found for batch in evidence.batches if (found := answer(evidence, batch, parts)) is not None]


def table_estimate(evidence: Evidence, batch: Sequence[Measurement], clique: Clique) -> Array | None:
    """Return the best unbiased estimate of every cell of a marginal from one batch, or ``None``."""
    domain = evidence.domain
    estimate: Array = np.zeros(domain.shape(clique))
    for size in range(len(clique) + 1):
        for subset in combinations(clique, size):
            if any(domain.size(name) == 1 for name in subset):
                continue  # a column with one value has no effect of its own
            shape = tuple(domain.size(name) if name in subset else 1 for name in clique)
            spread = domain.cells(clique) // domain.cells(subset)
            if not subset and evidence.total is not None:
                estimate = estimate + evidence.total / spread
                continue
            inside = [item for item in batch if set(subset) <= set(item.clique)]
            if not inside:
                return None
            precision = np.array([1 / (item.values.size * item.variance) for item in inside])
            precision /= precision.sum()
            part: Array = np.zeros(domain.shape(subset))
            for item, share in zip(inside, precision, strict=True):
                part = part + share * summed(item.values, item.clique, subset)
            for axis in range(part.ndim):
                part = part - part.mean(axis=axis, keepdims=True)
            estimate = estimate + part.reshape(shape) / spread
    return estimate
