"""Measures of quality under a budget: average and largest marginal errors, released with noise.

Unlike :mod:`understudy.evaluation`, which reads the real table plainly, these may be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, scalar_noise
from understudy.data import LocalTable, Table
from understudy.errors import WorkloadError
from understudy.privacy import Budget, Laplace, Noise, accounting_for
from understudy.release.look import seal_numbers
from understudy.schema import Clique

__all__ = ["AccountedMeasure", "accounted_measures"]

_PARTS = 1 << 20
_MOST_ROWS = 2.0**41


@dataclass(frozen=True)
class AccountedMeasure:
    """One released number.

    Attributes
    ----------
    measure
        What it is.
    value
        The noisy number, cut to its possible range.
    deviation
        Standard deviation of the noise that was added.
    """

    measure: str
    value: float
    deviation: float


def accounted_measures(
    curator: Curator,
    synthetic: Mapping[str, npt.ArrayLike],
    budget: Budget,
    *,
    orders: Sequence[int] = (1, 2, 3),
) -> list[AccountedMeasure]:
    """Release the average total variation of all k-way marginals and their largest error, with noise.

    Parameters
    ----------
    curator
        The door to the real table.
    synthetic
        Codes of the synthetic table by column; public.
    budget
        What may be spent; divided equally between the numbers.
    orders
        Which k.

    Privacy
    -------
    In: private. Out: releasable. ``m`` is the number of rows, public or measured first with a share of the budget,
    and ``t`` the synthetic marginal scaled to ``m`` rows, so ``t`` is public.

    *Average.* ``A`` = mean over the cliques of ``|r - t|_1 / 2`` with ``r`` the real counts. One more row moves one cell
    of every ``r`` by one, hence every term by at most 1/2 and ``A`` too; a replaced row moves two cells, hence at
    most 1; a unit of several rows multiplies this: ``histogram_l1 / 2``.

    *Largest.* ``M`` = max over cliques and cells of ``|r - t|``: each cell moves by at most ``histogram_linf``,
    and so does the maximum. Cells absent from either table are part of it.

    Dividing by ``m`` and clipping to the possible range are post-processing.

    Examples
    --------
    >>> AccountedMeasure("largest error of 1-way marginals", 0.01, 0.001).value
    0.01
    """
    domain = curator.domain
    wanted = [k for k in dict.fromkeys(orders) if 1 <= k <= len(domain)]
    if not wanted:
        raise WorkloadError(f"orders must hold a number from 1 to the number of columns ({len(domain)}).")
    made = LocalTable(curator.schema, synthetic)
    if not made.exact_row_count():
        raise WorkloadError("The synthetic table has no rows to compare with.")
    accounting = accounting_for(budget)
    limited = curator.within(budget, scope="evaluation", accounting=accounting)
    known = limited.rows.number
    shares = limited.split([1.0] * (2 * len(wanted) + (1 if known is None else 0)))
    found: list[AccountedMeasure] = []
    if known is None:
        noise = scalar_noise(accounting, shares[-1], float(limited.unit.max_rows))
        rows = limited.measure_scalar(limited.counts(()).sum(), noise=noise, purpose="number of rows")
        found.append(AccountedMeasure("rows", max(1.0, rows), _deviation(noise)))
        total = max(1.0, rows)
    else:
        total = float(max(1, known))
    unit = limited.unit
    sensitivities = [unit.histogram_l1 / 2, float(unit.histogram_linf)]
    for index, k in enumerate(wanted):
        cliques = [domain.canonical(names) for names in combinations(domain.names, k)]
        scale = total / made.exact_row_count()
        sealed = seal_numbers(
            limited,
            lambda table, cliques=cliques, scale=scale: _errors(table, made, cliques, scale),  # type: ignore[misc]
            sensitivities=sensitivities,
        )
        noises = [
            scalar_noise(accounting, share, change)
            for share, change in zip(shares[2 * index : 2 * index + 2], sensitivities, strict=True)
        ]
        values = limited.measure_scalars(sealed, noise=noises, purpose=f"errors of {k}-way marginals")
        names = (f"average total variation of {k}-way marginals", f"largest error of {k}-way marginals")
        for name, value, noise in zip(names, values, noises, strict=True):
            found.append(AccountedMeasure(name, min(1.0, max(0.0, value / total)), _deviation(noise) / total))
    return found


def _errors(table: Table, made: LocalTable, cliques: Sequence[Clique], scale: float) -> list[Fraction]:
    """Return the average half L1 distance and the largest difference, in rows. Private.

    Whole numbers of ``2**-20`` rows: scaled public counts are rounded to them, real ones are whole. Counts beyond ``2**41`` rows are taken
    for that many, which brings no two further apart.
    """
    total, largest = 0, 0
    for clique in cliques:
        public = np.rint(np.minimum(scale * made.count(clique), _MOST_ROWS) * _PARTS).astype(np.int64)
        difference = np.abs(np.minimum(table.count(clique), int(_MOST_ROWS)) * _PARTS - public)
        # upper and lower halves, so that no sum leaves 64 bits
        total += (int((difference >> 32).sum()) << 32) + int((difference & 0xFFFFFFFF).sum())
        largest = max(largest, int(difference.max(initial=0)))
    return [Fraction(total, 2 * len(cliques) * _PARTS), Fraction(largest, _PARTS)]


def _deviation(noise: Noise) -> float:
    return noise.scale * (2**0.5 if isinstance(noise, Laplace) else 1.0)
