"""An interval for the mean of numbers between 0 and 1, whatever their distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from scipy.optimize import brentq
from scipy.stats import binom

__all__ = ["mean_interval"]


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval for the mean of numbers between 0 and 1.

    Each trial yields a probability, not a coin: averaging probabilities varies less than counting acceptances.
    The mean of bounded numbers calls for bounds that hold for every distribution and every number of trials: a
    t interval has no width when all trials agree, and Clopper-Pearson is about counts. Two tail bounds for means
    of independent numbers in [0, 1] are combined, Hoeffding's ``exp(-n KL(x, m))`` and Bentkus's
    ``e P(Binomial(n, m) <= ceil(n x))``; the interval holds the means that neither rejects at half the error on
    each side. It is slightly wider than Clopper-Pearson would be for coins.

    Examples
    --------
    >>> [round(end, 3) for end in mean_interval([1.0] * 20)]
    [0.832, 1.0]
    >>> [round(end, 3) for end in mean_interval([0.4, 0.5, 0.6] * 10)]
    [0.281, 0.719]
    """
    n, x, error = len(values), fmean(values), (1 - confidence) / 2
    return 1.0 - _upper(1.0 - x, n, error), _upper(x, n, error)


def _upper(x: float, n: int, error: float) -> float:
    """Return the largest mean under which an average of at most ``x`` is not too improbable."""
    x = min(1.0, max(0.0, x))

    def excess(mean: float) -> float:
        bentkus = 1.0 + float(binom.logcdf(math.ceil(n * x - 1e-9), n, mean))
        return min(-n * _divergence(x, mean), bentkus) - math.log(error)

    high = 1.0 - 1e-12
    if x >= high or excess(high) >= 0:
        return 1.0
    return float(brentq(excess, x, high, xtol=1e-10))


def _divergence(x: float, mean: float) -> float:
    """Return the Kullback-Leibler divergence of two coins."""
    first = x * math.log(x / mean) if x > 0 else 0.0
    second = (1 - x) * math.log((1 - x) / (1 - mean)) if x < 1 else 0.0
    return first + second
