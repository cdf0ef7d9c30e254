"""The accounting of paper Deniability, section 3.5, beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from understudy.errors import BudgetError
from understudy.privacy import PURE, ApproxDP, Budget, Composed, Event, Parallel, Unit, accounting_for


def advanced_composition(epsilon: float, count: int, delta: float) -> float:
    """Return the epsilon of ``count`` pure acts at ``delta`` by advanced composition (Theorem 3 of the paper).

    Examples
    --------
    >>> round(advanced_composition(0.1, 100, 1e-6), 3)
    6.308
    """
    if not (epsilon > 0 and count >= 1 and 0 < delta < 1):
        raise BudgetError("Advanced composition needs epsilon > 0, count >= 1 and 0 < delta < 1.")
    return epsilon * math.sqrt(2 * count * math.log(1 / delta)) + count * epsilon * math.expm1(epsilon)


def paper_epsilon(
    structure: Sequence[Event], parameters: Sequence[Event], delta: float, *, disjoint: bool
) -> float:
    """Return what the paper would charge for the same noise; infinity for noise that is not pure.

    Advanced composition over the entropies and over the tables. Disjoint parts cost the larger of the two,
    else their sum with half of delta each.
    """
    share = delta if disjoint else delta / 2
    parts = []
    for events in (structure, parameters):
        costs = [PURE.cost(event) for event in events]
        if any(math.isinf(cost) for cost in costs):
            return math.inf
        if costs:
            parts.append(advanced_composition(max(costs), len(costs), share))
    return max(parts, default=0.0) if disjoint else sum(parts)


def describe_accountings(
    structure: Sequence[Event], parameters: Sequence[Event], unit: Unit, budget: Budget, *, disjoint: bool
) -> list[str]:
    """Return a sentence that compares the paper's accounting with the tighter valid one that is charged."""
    if not isinstance(budget, ApproxDP):
        return []
    paper = paper_epsilon(structure, parameters, budget.delta, disjoint=disjoint)
    if math.isinf(paper):
        return [
            "The noise is Gaussian, which the paper's accounting (advanced composition of Laplace) cannot price."
        ]
    parts = [Composed(tuple(events)) for events in (structure, parameters) if events]
    together = Parallel(tuple(parts)) if disjoint else Composed(tuple(parts))
    used = {
        accounting.name: accounting.cost(together, parts=unit.parts_touched) / accounting.total(budget)
        for accounting in (PURE, accounting_for(budget))
    }
    best = min(used, key=lambda name: used[name])
    return [
        f"Advanced composition, as in the paper, would charge epsilon={paper:.3g} at delta={budget.delta:.3g} for "
        f"this noise; {best} accounting charges {used[best]:.0%} of epsilon={budget.epsilon:.3g}."
    ]
