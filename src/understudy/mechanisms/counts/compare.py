"""Side by side: what the table mechanisms do to a cell under one budget, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy.errors import BudgetError
from understudy.privacy import ApproxDP, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE
from understudy.privacy.count_models.divergence import probabilistic_delta
from understudy.privacy.count_models.laws import FAMILIES, PARAMETERS, CountLaw
from understudy.privacy.count_models.solving import released_delta, solve_alpha
from understudy.privacy.count_models.urn import UrnPrior

if TYPE_CHECKING:
    import pandas as pd

COUNTS = (0, 1, 10, 100, 1000)
_MOST_ALPHA = 5_000.0


@dataclass(frozen=True)
class _Candidate:
    """A mechanism with its parameter and the mean squared error of a cell, by its count, once recentred."""

    method: str
    parameter: str
    delta: float
    probabilistic: float
    squared_error: Callable[[float], float]


def compare(
    budget: ApproxDP,
    unit: Unit,
    *,
    sigma: float = 0.05,
    nu: Mapping[str, float] | None = None,
    counts: Sequence[int] = COUNTS,
    histogram: Mapping[int, int] | None = None,
) -> pd.DataFrame:
    """Compare noise, utility and delta of every table mechanism under one budget.

    Every mechanism is given the whole budget; what it cannot use (the delta of a pure mechanism) is left unused.

    Parameters
    ----------
    budget, unit
        The promise and whom it protects.
    sigma, nu
        Extra parameters of the count distributions; ``nu`` by family, default 0.5 for Delaporte and -1 for Sichel.
    counts
        Cell counts at which the deviation is shown.
    histogram
        How many cells hold how many records, of a *public* or simulated table: adds the root mean squared error of a cell over
        that table, and multinomial-dirichlet, which depends on its size.

    Returns
    -------
    pandas.DataFrame
        ``method``, ``parameter``, ``epsilon``, ``delta`` (true, as charged), ``probabilistic_delta`` (paper Poisson's notion, add or
        remove one row; NaN for other units), ``sd_<count>`` per count and, with a histogram, ``rmse``. Errors are those of unbiased
        estimates of a cell, before any projection.

    Examples
    --------
    >>> table = compare(ApproxDP(1.0, 1e-6), Unit.add_remove()).set_index("method")
    >>> bool(table.loc["poisson", "sd_0"] > 3 * table.loc["laplace", "sd_0"])
    True
    """
    import pandas as pd

    if not isinstance(budget, ApproxDP):
        raise BudgetError(
            "The comparison needs an ApproxDP budget: count distributions have no other guarantee."
        )
    shapes = {"delaporte": 0.5, "sichel": -1.0, **(nu or {})}
    candidates = [_redrawn(family, budget, unit, sigma, shapes) for family in FAMILIES]
    candidates += [_laplace(budget, unit), _gaussian(budget, unit)]
    if histogram is not None:
        candidates.append(_urn(budget, unit, histogram))
    rows: list[dict[str, Any]] = []
    for item in candidates:
        row: dict[str, Any] = {
            "method": item.method,
            "parameter": item.parameter,
            "epsilon": budget.epsilon,
            "delta": item.delta,
            "probabilistic_delta": item.probabilistic,
        }
        row |= {f"sd_{count}": math.sqrt(item.squared_error(count)) for count in counts}
        if histogram is not None:
            cells = sum(histogram.values())
            error = math.fsum(times * item.squared_error(count) for count, times in histogram.items())
            row["rmse"] = math.sqrt(error / cells)
        rows.append(row)
    return pd.DataFrame(rows)


def _redrawn(
    family: Any, budget: ApproxDP, unit: Unit, sigma: float, shapes: Mapping[str, float]
) -> _Candidate:
    known = {"sigma": sigma, "nu": shapes.get(family, 0.0)}
    extra = {name: known[name] for name in PARAMETERS[family]}
    law: CountLaw = solve_alpha(family, epsilon=budget.epsilon, delta=budget.delta, unit=unit, **extra)
    small = law.alpha < _MOST_ALPHA and unit == Unit.add_remove()
    return _Candidate(
        family,
        f"alpha={law.alpha:.4g}" + "".join(f", {name}={value:g}" for name, value in extra.items()),
        released_delta(law, budget.epsilon, unit),
        probabilistic_delta(law, budget.epsilon) if small else math.nan,
        law.variance,
    )


def _laplace(budget: ApproxDP, unit: Unit) -> _Candidate:
    scale = PURE.laplace_scale(budget.epsilon, unit.histogram_l1)
    ratio = math.exp(-1 / scale)
    return _Candidate("laplace", f"scale={scale:.4g}", 0.0, 0.0, lambda count: 2 * ratio / (1 - ratio) ** 2)


def _gaussian(budget: ApproxDP, unit: Unit) -> _Candidate:
    sigma = GDP_ACCOUNTING.gaussian_sigma(GDP_ACCOUNTING.total(budget), unit.histogram_l2)
    single = unit == Unit.add_remove()
    outside = gaussian_probabilistic_delta(sigma, budget.epsilon) if single else math.nan
    return _Candidate(
        "gaussian-table", f"sigma={sigma:.4g}", budget.delta, outside, lambda count: sigma**2 + 1 / 12
    )


def gaussian_probabilistic_delta(sigma: float, epsilon: float) -> float:
    """Return the paper's delta of continuous Gaussian noise: the loss leaves ``[-epsilon, epsilon]`` (Example 2).

    Examples
    --------
    >>> round(gaussian_probabilistic_delta(2.0, 1.0), 4)
    0.0523
    """

    def upper(x: float) -> float:
        return 0.5 * math.erfc(x / math.sqrt(2))

    return upper(sigma * epsilon - 1 / (2 * sigma)) + upper(sigma * epsilon + 1 / (2 * sigma))


def _urn(budget: ApproxDP, unit: Unit, histogram: Mapping[int, int]) -> _Candidate:
    n = max(1, sum(count * times for count, times in histogram.items()))
    prior = UrnPrior.for_epsilon(budget.epsilon, rows=n, unit=unit)
    weight = n + prior.alpha * sum(histogram.values())

    def squared_error(count: float) -> float:
        share = (count + prior.alpha) / weight
        variance = n * share * (1 - share) * (n + weight) / (1 + weight)
        return variance * (weight / n) ** 2

    return _Candidate("multinomial-dirichlet", f"alpha={prior.alpha:.4g}", 0.0, 0.0, squared_error)
