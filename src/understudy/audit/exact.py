"""Audits without sampling: where a release has few outcomes, every probability is computed and compared.

The probabilities are those of the parameters that the code would really draw with (its grid, its pseudocounts), worked out
on all pairs of small neighbouring tables; that the samplers follow these laws is what the statistical tests show.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln
from scipy.stats import poisson

from understudy.audit.hostile import KINDS, search_criteria
from understudy.audit.hunt import Audit
from understudy.audit.trials import Claim, Tally, claim_of
from understudy.mechanisms.histograms.look import Smoothing
from understudy.privacy import ApproxDP, PureDP, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.count_models.solving import solve_alpha
from understudy.privacy.count_models.urn import UrnPrior
from understudy.privacy.noise.selection import exponential_law

__all__ = ["audit_exactly", "exact_epsilon"]

Law = npt.NDArray[np.float64]

EPSILON, DELTA = 2.0, 0.05
LARGEST_SHOWN = 1000.0
"""What an infinite loss is reported as, since JSON has no infinity; no claim comes near it."""
_MOST_ROWS = 4


def exact_epsilon(one: Law, two: Law, *, delta: float = 0.0) -> float:
    """Return the smallest epsilon at which two laws are as close as ``(epsilon, delta)``-DP asks.

    Examples
    --------
    >>> round(exact_epsilon(np.array([0.75, 0.25]), np.array([0.25, 0.75])), 4)
    1.0986
    """
    found = 0.0
    for p, q in ((one, two), (two, one)):
        if delta == 0:
            inside = p > 0
            if (q[inside] <= 0).any():
                return math.inf
            found = max(found, float(np.log(p[inside] / q[inside]).max(initial=0.0)))
            continue
        low, high = 0.0, 60.0
        for _ in range(80):
            middle = (low + high) / 2
            if float(np.maximum(p - math.exp(middle) * q, 0.0).sum()) > delta:
                low = middle
            else:
                high = middle
        found = max(found, high)
    return found


def _exponential() -> float:
    """All scores on a small lattice, each moved by as much as one unit can, with a hopeless candidate among them."""
    worst = 0.0
    for base in product((-20.0, -1.0, 0.0, 2.0), repeat=3):
        one = exponential_law(list(base), epsilon=EPSILON, sensitivity=1.0)
        for move in product((-1.0, 0.0, 1.0), repeat=3):
            moved = [x + y for x, y in zip(base, move, strict=True)]
            worst = max(worst, exact_epsilon(one, exponential_law(moved, epsilon=EPSILON, sensitivity=1.0)))
    return worst


def _neighbours(unit: Unit, cells: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield all pairs of small histograms that one unit apart."""
    for table in product(range(_MOST_ROWS + 1), repeat=cells):
        for come in product(range(unit.max_rows + 1), repeat=cells):
            if not 0 < sum(come) <= unit.max_rows:
                continue
            more = tuple(x + y for x, y in zip(table, come, strict=True))
            if unit.relation == "add-remove":
                yield table, more
                continue
            for leave in product(range(unit.max_rows + 1), repeat=cells):
                fixed = unit.max_rows == 1
                if not 0 < sum(leave) <= unit.max_rows or (fixed and sum(leave) != sum(come)):
                    continue
                yield tuple(x + y for x, y in zip(table, leave, strict=True)), more


def _smoothed(unit: Unit) -> float:
    """One record of the smoothed histogram over three bins, on every small table and neighbour."""
    fixed = unit.relation == "replace-one" and unit.max_rows == 1
    smoothing = Smoothing.affordable(unit, PURE, EPSILON, records=1, rows_fixed=fixed)

    def law(table: tuple[int, ...]) -> Law:
        weights = np.array(table, dtype=np.float64) + smoothing.pseudo
        return np.asarray(weights / weights.sum())

    return max(exact_epsilon(law(one), law(two)) for one, two in _neighbours(unit, 3))


def _urn(unit: Unit, rows: int) -> float:
    """Synthetic counts of a yes-or-no column: every number of yes, on every small table and neighbour."""
    alpha = UrnPrior.for_epsilon(EPSILON, rows=rows, unit=unit).alpha

    def law(table: tuple[int, ...]) -> Law:
        a, b = table[0] + alpha, table[1] + alpha
        k = np.arange(rows + 1)
        logs = (
            gammaln(rows + 1) - gammaln(k + 1) - gammaln(rows - k + 1)
            + gammaln(k + a) + gammaln(rows - k + b) - gammaln(rows + a + b)
            + gammaln(a + b) - gammaln(a) - gammaln(b)
        )  # fmt: skip
        return np.asarray(np.exp(logs))

    return max(exact_epsilon(law(one), law(two)) for one, two in _neighbours(unit, 2))


def _poisson(unit: Unit) -> float:
    """A cell redrawn from Poisson's law, by another implementation of that law."""
    alpha = solve_alpha("poisson", epsilon=EPSILON, delta=DELTA, unit=unit).alpha
    k = np.arange(400)
    laws = [np.asarray(poisson.pmf(k, count + alpha)) for count in range(_MOST_ROWS + 2)]
    return max(exact_epsilon(one, two, delta=DELTA) for one, two in pairwise(laws))


def _criteria(form: str) -> float:
    """Every acceptance criterion under drawn specifications: the most that a unit moves its number, in units of the noise."""
    shares = [
        search_criteria(kind, specifications=4, neighbours=4, seed=7)[form].share
        for kind in KINDS
        if kind
        != "faithfulness"  # a matching for each neighbour takes long; the long form of the search tries it
    ]
    return EPSILON * max(shares)


def audit_exactly() -> list[Audit]:
    """Return the audits that need no runs.

    Examples
    --------
    >>> all(not audit.violates() and audit.demonstrated > 0.9 * audit.claim.value for audit in audit_exactly()[:1])
    True
    """
    add, replace = Unit.add_remove(), Unit.replace_one()
    pure, approximate = claim_of(PureDP(EPSILON)), claim_of(ApproxDP(EPSILON, DELTA))
    found = [_timed("exponential mechanism", "all moves of three scores", replace, pure, _exponential)]
    for unit in (add, replace, Unit.add_remove_person("person", max_rows=2)):
        found.append(
            _timed("smoothed-histogram, one record", "all small tables", unit, pure, partial(_smoothed, unit))
        )
        for rows in (1, 3):
            name = f"multinomial-dirichlet, {rows} record{'s' * (rows > 1)}"
            found.append(_timed(name, "all small tables", unit, pure, partial(_urn, unit, rows)))
    found.append(_timed("poisson, one cell", "all small counts", add, approximate, partial(_poisson, add)))
    for form in ("published", "pass-only"):
        name = f"acceptance criteria, {form}"
        found.append(_timed(name, "hostile specifications", replace, pure, partial(_criteria, form)))
    return found


def _timed(name: str, pair: str, unit: Unit, claim: Claim, compute: Callable[[], float]) -> Audit:
    start = time.perf_counter()
    worst = compute()
    return Audit(
        name,
        pair,
        unit.describe(),
        claim,
        "every probability computed",
        Tally(0, 0, 0, 0, 0, 0),
        True,
        time.perf_counter() - start,
        exact=min(worst, LARGEST_SHOWN),
    )
