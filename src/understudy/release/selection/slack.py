"""The slack test: one bit that says whether a candidate meets all acceptance criteria.

Every criterion says how many records the real table is away from violating it (its slack). One unit of ``k`` rows
moves each slack by at most ``k``, so it moves their minimum by at most ``k``: all criteria together cost as much as
one noisy comparison. Published errors, by contrast, cost one noisy number each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.curator import GRID_WIDENING
from understudy.errors import BudgetError, WorkloadError
from understudy.release.criteria.base import Criterion, Number, laplace_upper_tail
from understudy.release.record_types import RecordTypes
from understudy.schema import Domain

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["SlackTest"]


@dataclass(frozen=True)
class SlackTest:
    """Accept a candidate if its smallest slack, plus Laplace noise, is above a threshold.

    Parameters
    ----------
    criteria
        The acceptance criteria; their names must differ.

    Privacy
    -------
    *Sensitivity.* Write ``f_i`` for the slacks and let ``d`` be the largest of their sensitivities. For
    neighbouring tables ``f_i(R) >= f_i(R') - d >= min f(R') - d`` for every ``i``, so
    ``min f(R) >= min f(R') - d``, and by symmetry the minimum moves by at most ``d``. Slacks that are infinite
    are so for every real table (a public fact about the candidate); clipping to ``[-n, n]`` makes them finite and
    can only reduce a difference. With one row per unit ``d`` is 1. Slacks are exact, so nothing is allowed for rounding.

    *Cost.* Comparing the minimum plus Laplace noise of scale ``d / epsilon`` with a public threshold is
    post-processing of the Laplace mechanism: ``epsilon``-DP, once, for any number of criteria. Which
    criterion was closest to failing is not revealed.

    *False accepts.* If a criterion is violated its slack is at most 0, so the minimum is. The test then
    accepts with probability at most ``P(Laplace > c) = exp(-c epsilon / d) / 2``, which `threshold` solves for
    ``c``. It depends on nothing private and holds for every candidate and every table.

    Examples
    --------
    >>> from understudy.privacy import Unit
    >>> from understudy.release import MaxMarginalError, RelativeMarginalError
    >>> test = SlackTest((
    ...     MaxMarginalError(name="cells", threshold=0.01),
    ...     RelativeMarginalError(name="bins", threshold=1.4, clip=2.0),
    ... ))
    >>> domain = Domain(("a",), (2,))
    >>> real = RecordTypes(domain, [[0], [1]], [9_000, 1_000])
    >>> candidate = RecordTypes(domain, [[0], [1]], [9_020, 980])
    >>> {name: round(float(slack), 1) for name, slack in test.slacks(real, candidate).items()}
    {'cells': 80.0, 'bins': 300.3}
    >>> c = test.threshold(epsilon=0.1, false_accept=0.05, unit=Unit.replace_one())
    >>> round(c, 2), round(test.acceptance(80.0, threshold=c, epsilon=0.1, unit=Unit.replace_one()), 3)
    (23.03, 0.998)
    """

    criteria: tuple[Criterion, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "criteria", tuple(self.criteria))
        names = [criterion.name for criterion in self.criteria]
        if not names:
            raise WorkloadError("A slack test needs at least one criterion.")
        if len(set(names)) != len(names):
            raise WorkloadError("The criteria of a slack test must have different names.")

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        return [f"{c.name}: {problem}" for c in self.criteria for problem in c.problems(domain)]

    def slacks(self, real: RecordTypes, synthetic: RecordTypes) -> dict[str, Number]:
        """Return the slack of each criterion. Private: for rehearsals on public data."""
        return {criterion.name: criterion.slack(real, synthetic) for criterion in self.criteria}

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Number:
        """Return the smallest slack, clipped to plus or minus the number of rows of the candidate. Private."""
        bound = max(1, synthetic.rows)
        return min(bound, max(-bound, min(self.slacks(real, synthetic).values())))

    def sensitivity(self, unit: Unit) -> float:
        """Return the most that one unit can change the smallest slack."""
        return max(criterion.slack_sensitivity(unit) for criterion in self.criteria)

    # ------------------------------------------------------------------ planning

    def noise_scale(self, epsilon: float, *, unit: Unit) -> float:
        """Return the scale of the noise of the test, the curator's rounding included."""
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise BudgetError(f"epsilon ({epsilon}) of a slack test must be positive and finite.")
        return self.sensitivity(unit) * (1 + GRID_WIDENING) / epsilon

    def threshold(self, *, epsilon: float, false_accept: float, unit: Unit) -> float:
        """Return ``c`` such that a violated criterion is accepted with probability at most ``false_accept``.

        ``c = scale ln(1 / (2 false_accept))``. On the curator's grid of step ``g`` the noise is discrete Laplace,
        whose upper tail is at most ``exp(g / (2 scale))`` times the continuous one; adding ``g`` makes up for it.
        """
        if not 0 < false_accept < 0.5:
            raise BudgetError(f"false_accept ({false_accept}) must lie above 0 and below one half.")
        grid = self.sensitivity(unit) * GRID_WIDENING
        return self.noise_scale(epsilon, unit=unit) * math.log(0.5 / false_accept) + grid

    def acceptance(self, slack: Number, *, threshold: float, epsilon: float, unit: Unit) -> float:
        """Return the probability that a candidate with a given smallest slack is accepted."""
        return laplace_upper_tail(threshold - float(slack), self.noise_scale(epsilon, unit=unit))

    def epsilon_for(self, slack: Number, *, false_accept: float, false_reject: float, unit: Unit) -> float:
        """Return the epsilon at which a candidate with that slack is rejected rarely enough.

        Examples
        --------
        >>> from understudy.privacy import Unit
        >>> from understudy.release import MaxMarginalError
        >>> test = SlackTest((MaxMarginalError(name="cells", threshold=0.01),))
        >>> round(test.epsilon_for(47.0, false_accept=0.05, false_reject=0.05, unit=Unit.replace_one()), 3)
        0.098
        """
        if not 0 < false_reject < 0.5 or not 0 < false_accept < 0.5:
            raise BudgetError("false_accept and false_reject must lie above 0 and below one half.")
        grid = self.sensitivity(unit) * GRID_WIDENING
        if not slack > grid:
            raise BudgetError(
                f"A candidate with a slack of {float(slack):g} records cannot be accepted reliably."
            )
        nats = math.log(0.5 / false_accept) + math.log(0.5 / false_reject)
        return self.sensitivity(unit) * (1 + GRID_WIDENING) * nats / (float(slack) - grid)
