"""How a budget is divided between marginals that are known in advance, and what error to expect.

Notation: a marginal over the columns ``B`` is measured with precision ``w_B`` (one over the variance
per cell). Every table splits into orthogonal residual parts, one per subset ``A`` of its columns: the
total, main effects, interactions. Summing ``B`` down to ``A`` adds up ``n_{B\\A}`` cells (the product
of the other columns' sizes), so the best linear combination of all measurements knows part ``A`` with
precision

    tau_A = sum over measured B that contain A of  w_B / n_{B\\A}

and, part ``A`` having ``prod_{i in A} (n_i - 1)`` degrees of freedom, the variance per cell of the
marginal over ``r`` is

    v_r = sum over A inside r of  (1 / tau_A) prod_{i in A} (1 - 1/n_i) / n_{r\\A}².

Both are checked against brute-force generalised least squares in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Workload, all_kway
from understudy.privacy import Accounting, Laplace, Noise, Unit, noise_for
from understudy.privacy.noise.noise import noise_within
from understudy.schema import Clique, Domain, Schema

Array = npt.NDArray[np.float64]
Pay = Callable[[Accounting, Unit, float], Noise]
"""What noise a marginal gets for a cost: that of the accounting (:func:`noise_for`), or Laplace in any (:func:`laplace_for`)."""

TOTAL_SHARE = 0.01
"""Share of a budget that measures the number of rows where it is private and no marginal is measured first."""
_GAP = 1e-3
_MAX_STEPS = 2_000
_NEGLIGIBLE = 1e-3
"""Marginals whose share of the cost is below this part of an equal share are not measured at all."""


MOST_BY_DEFAULT = 100_000
"""Most marginals of a workload that nobody asked for."""


def workload_for(workload: Workload | None, domain: Domain, *, k: int = 3) -> Workload:
    """Return a mechanism's workload, by default all ``k``-way marginals, checked against the table.

    Where there are more than ``MOST_BY_DEFAULT`` of them, as of the triples of more than 85 columns, the default is all
    marginals over fewer columns.
    """
    if workload is None:
        while k > 2 and math.comb(len(domain), min(k, len(domain))) > MOST_BY_DEFAULT:
            k -= 1
        return all_kway(domain, k)
    if workload.domain != domain:
        raise BudgetError("The workload was made for other columns than the table has.")
    return workload


def total_is_public(schema: Schema, unit: Unit) -> bool:
    """Say whether neighbouring tables have equally many rows, or the number of rows was declared."""
    return schema.row_count is not None or unit.keeps_rows


def direct_weights(
    accounting: Accounting, importance: Sequence[float], cells: Sequence[float]
) -> list[float]:
    """Return cost shares that minimise the expected weighted L1 error of independent measurements.

    The expected L1 error of a marginal with ``n`` cells is proportional to ``n`` times the noise scale.
    Gaussian noise costs ``1 / scale²``: minimising ``sum w n s`` under ``sum 1/s² = c`` gives
    ``1/s²`` proportional to ``(w n)^(2/3)``. Laplace noise costs ``1 / scale``: the share is
    proportional to ``(w n)^(1/2)``.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE
    >>> np.round(direct_weights(GDP_ACCOUNTING, [1, 1], [8, 64]), 6).tolist()
    [4.0, 16.0]
    >>> np.round(direct_weights(PURE, [1, 4], [4, 16]), 6).tolist()
    [2.0, 8.0]
    """
    power = 0.5 if accounting.name == "pure" else 2 / 3
    return [float(w * n) ** power for w, n in zip(importance, cells, strict=True)]


def laplace_for(accounting: Accounting, unit: Unit, cost: float) -> Noise:
    """Return the Laplace noise for one marginal that costs at most ``cost``, whatever adds up in the accounting.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import ZCDP_ACCOUNTING
    >>> laplace_for(ZCDP_ACCOUNTING, Unit.add_remove(), 0.5).kind, noise_for(ZCDP_ACCOUNTING, Unit.add_remove(), 0.5).kind
    ('laplace', 'gaussian')
    """
    return Laplace(accounting.laplace_scale(cost, unit.histogram_l1))


def noises(
    accounting: Accounting, unit: Unit, total: float, weights: Sequence[float], *, pay: Pay = noise_for
) -> list[Noise]:
    """Divide a cost in proportion to weights and return the noise each part can pay for."""
    return [pay(accounting, unit, cost) for cost in accounting.split(total, weights)]


def noises_by_size(
    accounting: Accounting, unit: Unit, cost: float, sizes: Sequence[int], *, pay: Pay = noise_for
) -> list[Noise]:
    """Divide a cost over marginals of some sizes so that their expected L1 error together is least.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> [round(noise.scale, 3) for noise in noises_by_size(PURE, Unit.add_remove(), 1.0, [4, 36])]
    [4.0, 1.333]
    """
    return noises(accounting, unit, cost, direct_weights(accounting, [1.0] * len(sizes), sizes), pay=pay)


def cells_of(megabytes: float) -> int:
    """Return how many cells a model of a size holds."""
    return int(megabytes * 2**20 / 8)


def rows_noise(accounting: Accounting, unit: Unit, cost: float) -> Noise:
    """Return the noise of the number of rows, which one unit changes by at most its own rows."""
    return noise_within(accounting, cost, l1=unit.max_rows, l2=unit.max_rows)


def require_cells(domain: Domain, cliques: Sequence[Clique], allowed: int, *, method: str) -> int:
    """Return the cells of all marginals together, or refuse when there are too many to hold."""
    cells = sum(domain.cells(clique) for clique in cliques)
    if cells > allowed:
        widest = sorted(domain.names, key=domain.size, reverse=True)[:3]
        raise DomainTooLarge(
            f"{method} would measure {len(cliques):,} marginals with {float(cells):.3g} cells together; "
            f"{allowed:,} are allowed. Use a smaller workload, coarser bins (the widest columns are "
            f"{', '.join(widest)}), a larger max_cells, or a method that chooses marginals, such as aim or mst.",
            cells=cells,
            allowed=allowed,
        )
    return cells


class ResidualParts:
    """Which residual parts each measured marginal informs, and which each workload marginal needs.

    Parameters
    ----------
    domain
        The columns.
    measured
        Marginals that may be measured.
    workload
        The marginals that matter, with their weights.
    total_known
        Leave the part of the empty set out: the total has no error.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 3))
    >>> parts = ResidualParts(domain, [("a",), ("a", "b")], all_kway(domain, 1))
    >>> parts.variances(np.array([1.0, 0.0])).tolist()
    [1.0, inf]
    >>> parts.variances(np.array([0.0, 1.0])).tolist()
    [3.0, 2.0]
    """

    def __init__(
        self, domain: Domain, measured: Sequence[Clique], workload: Workload, *, total_known: bool = False
    ) -> None:
        self.measured = tuple(measured)
        self.workload = workload
        self.cells = np.array([domain.cells(clique) for clique in workload.cliques], dtype=np.float64)
        self.importance = np.array(workload.weights)
        index: dict[Clique, int] = {}
        start = 1 if total_known else 0
        needs = _triples(domain, workload.cliques, index, start, _need)
        gives = _triples(domain, self.measured, index, start, _give)
        self.parts = tuple(index)
        self._needs = sparse.csr_array(needs, shape=(len(workload), len(index)))
        self._gives = sparse.csr_array(gives, shape=(len(self.measured), len(index)))
        self._share = np.array([_degrees_share(domain, part) for part in index])

    def precisions(self, w: Array) -> Array:
        """Return ``tau_A`` of every part for measured precisions ``w``."""
        return np.asarray(self._gives.T @ w)

    def variances(self, w: Array) -> Array:
        """Return the variance per cell of every workload marginal."""
        used = np.asarray(self._needs.sum(axis=0)).ravel() > 0
        with np.errstate(divide="ignore"):
            inverse = np.where(used, 1.0 / self.precisions(w), 0.0)
        needed = self._needs.copy()
        needed.data = needed.data * inverse[needed.indices]
        return np.asarray(needed.sum(axis=1)).ravel()

    def error(self, w: Array, *, norm: str) -> float:
        """Return the expected error: weighted sum over cells of the variance, or of its square root."""
        v = self.variances(w)
        per_cell = v if norm == "l2" else np.sqrt(v)
        return float(np.dot(self.importance * self.cells, per_cell))

    def gains(self, w: Array, *, norm: str) -> Array:
        """Return minus the gradient of :meth:`error` in every measured precision."""
        tau = self.precisions(w)
        outer = self.importance * self.cells
        if norm == "l1":
            outer = outer / (2 * np.sqrt(self.variances(w)))
        pull = np.asarray(self._needs.T @ outer)
        with np.errstate(divide="ignore", invalid="ignore"):
            per_part = np.where(pull > 0, pull / np.square(tau), 0.0)
        return np.asarray(self._gives @ per_part)

    def best_linear(self) -> float:
        """Return the least weighted variance of *any* Gaussian linear measurement of unit cost.

        Part ``A`` alone can be had at precision ``tau`` for the cost ``tau prod_{i in A}(1 - 1/n_i)``: that
        is how far one row moves it. Minimising ``sum v_A / tau_A`` under that cost gives
        ``(sum sqrt(v_A p_A))²``; no linear unbiased method does better (Xiao et al., NeurIPS 2023).
        """
        pull = np.asarray(self._needs.T @ (self.importance * self.cells))
        return float(np.sqrt(pull * self._share).sum()) ** 2


@dataclass(frozen=True, eq=False)
class Design:
    """Marginals to measure, their shares of the cost, and how good that is.

    Attributes
    ----------
    cliques, weights
        What to measure, with positive weights that are proportional to the cost of each.
    error
        Expected error when all precisions together are one.
    gap
        Upper bound on how far the error is above that of the best design, relative to it (Gaussian costs).
    """

    cliques: tuple[Clique, ...]
    weights: tuple[float, ...]
    error: float
    gap: float


def best_design(parts: ResidualParts, *, norm: str, power: float = 1.0) -> Design:
    """Find precisions that minimise the expected workload error under one total cost.

    The cost of a marginal is ``w_B^power``: power 1 for Gaussian noise under additive ``rho`` or
    ``mu²``, power 1/2 for Laplace noise under additive epsilon.

    For power 1 the problem is convex: ``1/tau`` is convex, so is ``tau^(-1/2)``, and the L1-like error
    is a weighted sum of Euclidean norms of such terms. It is solved by the multiplicative updates of
    optimal experimental design, ``w_B <- w_B sqrt(gain_B)``, rescaled to the budget. Convexity
    bounds the distance to the optimum by ``max gain - sum w gain``, which is the stopping rule.
    For power 1/2 the same updates, started from the solution for power 1, find a local optimum.
    """
    size = len(parts.measured)
    w = np.full(size, 1.0 / size)
    gap = math.inf
    for _ in range(_MAX_STEPS):
        gains = parts.gains(w, norm=norm)
        error = parts.error(w, norm=norm)
        gap = float(gains.max() - np.dot(w, gains)) / error
        if gap <= _GAP:
            break
        w = w * np.sqrt(gains)
        w /= w.sum()
    if power != 1.0:
        w = _descend(parts, w, norm=norm, power=power)
    cost = np.power(w, power)
    kept = np.flatnonzero(cost > _NEGLIGIBLE * cost.sum() / size)
    shares = cost[kept] / cost[kept].sum()
    precision = np.zeros(size)
    precision[kept] = np.power(shares, 1.0 / power)
    return Design(
        tuple(parts.measured[i] for i in kept),
        tuple(float(share) for share in shares),
        parts.error(precision, norm=norm),
        gap,
    )


def _descend(parts: ResidualParts, w: Array, *, norm: str, power: float) -> Array:
    """Lower the error under ``sum w^power = 1`` by damped multiplicative steps while that helps."""
    e = np.power(w, power)
    e /= e.sum()
    error, step = parts.error(np.power(e, 1 / power), norm=norm), 0.5
    for _ in range(_MAX_STEPS):
        w = np.power(e, 1 / power)
        gains = parts.gains(w, norm=norm) * np.power(e, 1 / power - 1) / power
        mean = float(np.dot(e, gains))
        if float(np.dot(e, np.abs(gains - mean))) <= _GAP * mean:
            break
        following = e * np.power(gains / mean, step)
        following /= following.sum()
        now = parts.error(np.power(following, 1 / power), norm=norm)
        if now < error:
            e, error, step = following, now, min(1.0, 1.5 * step)
        else:
            step /= 2
            if step < 1e-6:
                break
    return np.power(e, 1 / power)


def _need(domain: Domain, clique: Clique, part: Clique) -> float:
    """Return the variance per cell of ``clique`` that one unit of variance in a part causes."""
    return _degrees_share(domain, part) * (domain.cells(part) / domain.cells(clique)) ** 2


def _give(domain: Domain, clique: Clique, part: Clique) -> float:
    """Return the precision of a part that one unit of precision of ``clique`` brings."""
    return domain.cells(part) / domain.cells(clique)


def _degrees_share(domain: Domain, part: Clique) -> float:
    """Return the product of ``1 - 1/n`` over the columns of a part: how far one row moves it, squared."""
    return math.prod(1.0 - 1.0 / domain.size(name) for name in part)


def _triples(
    domain: Domain, cliques: Sequence[Clique], index: dict[Clique, int], start: int, value: object
) -> tuple[Array, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """List the entries of a sparse matrix over cliques and their parts, numbering new parts."""
    assert callable(value)
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for row, clique in enumerate(cliques):
        for size in range(start, len(clique) + 1):
            for part in combinations(clique, size):
                rows.append(row)
                columns.append(index.setdefault(part, len(index)))
                values.append(value(domain, clique, part))
    return np.array(values), (np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64))
