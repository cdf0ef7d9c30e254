"""Guessing which of two neighbouring tables a mechanism ran on: tests, their tallies, and how a test is chosen."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri

from understudy.errors import BudgetError, WorkloadError
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.accounting.conversions import zcdp_to_approx

# ----------------------------------------------------------------------------------------
# What a mechanism claims, in the unit in which an audit measures it.

_ZCDP_DELTA = 0.01
"""A claim of zCDP is held to the epsilon it implies at this delta."""


@dataclass(frozen=True)
class Claim:
    """A number that no test may demonstrate more than.

    Attributes
    ----------
    kind
        ``"epsilon"`` (at ``delta``) or ``"mu"``.
    value, delta
        The claim.
    text
        The budget it comes from.
    """

    kind: str
    value: float
    delta: float
    text: str


def claim_of(budget: Budget) -> Claim:
    """Return what a budget claims.

    Examples
    --------
    >>> claim_of(GDP(2.0)).kind, claim_of(ApproxDP(1.0, 0.01)).delta
    ('mu', 0.01)
    """
    text = budget.describe()
    match budget:
        case GDP(mu=mu):
            return Claim("mu", mu, 0.0, text)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return Claim("epsilon", epsilon, delta, text)
        case ZCDP(rho=rho):
            return Claim("epsilon", zcdp_to_approx(rho, _ZCDP_DELTA), _ZCDP_DELTA, text)
        case PureDP(epsilon=epsilon):
            return Claim("epsilon", epsilon, 0.0, text)
    raise BudgetError(f"{text}: no such budget.")


# ----------------------------------------------------------------------------------------
# How much privacy loss a test demonstrates: exact lower confidence bounds from what it got right and wrong.
#
# A table is chosen by a fair coin, a mechanism runs on it, and a test that sees the output guesses the coin or abstains. If
# the mechanism is ``epsilon``-DP the odds of the coin given any output are at most ``e^epsilon``, so of the guesses made at
# most a share ``e^epsilon / (1 + e^epsilon)`` is right in expectation; with ``(epsilon, delta)`` the chance of a right
# guess is at most ``e^epsilon`` times that of a wrong one plus ``delta``; if it is ``mu``-GDP a test that never abstains is
# right with probability at most ``Phi(mu / 2)``. Clopper and Pearson's bound turns counts into probabilities at a stated
# confidence. The test must have been fixed without looking at the runs it is judged by.

_SHARE_OF_GUESS_RATE = 0.2
"""Part of the allowed error that is spent on how often a test guesses, where delta makes that matter."""


def lower_rate(hits: int, trials: int, alpha: float) -> float:
    """Return a rate that the true one is below with probability at most ``alpha`` (Clopper and Pearson 1934).

    Examples
    --------
    >>> round(lower_rate(50, 100, 0.025), 4)
    0.3983
    """
    return 0.0 if hits <= 0 else float(betaincinv(hits, trials - hits + 1, alpha))


def upper_rate(hits: int, trials: int, alpha: float) -> float:
    """Return a rate that the true one is above with probability at most ``alpha``."""
    return 1.0 - lower_rate(trials - hits, trials, alpha)


def guessed_epsilon(correct: int, guesses: int, runs: int, *, delta: float, confidence: float) -> float:
    """Return the epsilon that guesses of a fair coin demonstrate at a given delta; zero if they show nothing.

    Parameters
    ----------
    correct, guesses, runs
        Right guesses, guesses made, and runs of the mechanism; in the others the test abstained.

    Notes
    -----
    With ``C`` and ``W`` the chances of a right and a wrong guess, ``C <= e^epsilon W + delta``. Given that a guess is made
    it is right with probability ``r = C / (C + W)``, so ``e^epsilon >= (r - delta / (C + W)) / (1 - r)``. Both ``r`` and, if
    delta is positive and the test may abstain, ``C + W`` are bounded from below.

    Examples
    --------
    >>> round(guessed_epsilon(7311, 10_000, 10_000, delta=0.0, confidence=0.95), 2)
    0.96
    """
    if guesses <= 0:
        return 0.0
    alpha = 1.0 - confidence
    rate = 1.0
    if delta > 0 and guesses < runs:
        rate = lower_rate(guesses, runs, _SHARE_OF_GUESS_RATE * alpha)
        alpha *= 1.0 - _SHARE_OF_GUESS_RATE
    right = lower_rate(correct, guesses, alpha)
    gain = right - (delta / rate if delta > 0 else 0.0)
    return max(0.0, math.log(gain / (1.0 - right))) if gain > 0 else 0.0


def guessed_mu(correct: int, runs: int, *, confidence: float) -> float:
    """Return the mu of Gaussian differential privacy that guesses in every run demonstrate.

    Examples
    --------
    >>> round(guessed_mu(6915, 10_000, confidence=0.95), 2)
    0.96
    """
    right = lower_rate(correct, runs, 1.0 - confidence)
    return max(0.0, 2.0 * float(ndtri(right))) if right > 0 else 0.0


def demonstrated_epsilon(
    hits: int, trials: int, alarms: int, other_trials: int, *, delta: float, confidence: float
) -> float:
    """Return the epsilon that a test with these hits and false alarms demonstrates; zero if it shows nothing.

    Parameters
    ----------
    hits, trials
        How often the test fired on the one table.
    alarms, other_trials
        How often it fired on its neighbour.

    Examples
    --------
    >>> round(demonstrated_epsilon(7311, 10000, 2689, 10000, delta=0.0, confidence=0.95), 2)
    0.96
    """
    alpha = (1 - confidence) / 2
    least, most = lower_rate(hits, trials, alpha), upper_rate(alarms, other_trials, alpha)
    return max(0.0, math.log((least - delta) / most)) if least > delta and most > 0 else 0.0


def demonstrated_mu(hits: int, trials: int, alarms: int, other_trials: int, *, confidence: float) -> float:
    """Return the mu that a test with these hits and false alarms demonstrates; zero if it shows nothing.

    Examples
    --------
    >>> round(demonstrated_mu(8413, 10000, 5000, 10000, confidence=0.95), 2)
    0.95
    """
    alpha = (1 - confidence) / 2
    least, most = lower_rate(hits, trials, alpha), upper_rate(alarms, other_trials, alpha)
    if not 0 < least < 1 or not 0 < most < 1:
        return 0.0
    return max(0.0, float(ndtri(least) - ndtri(most)))


Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_CANDIDATES = 41
"""Thresholds tried for each side of a test."""
_CAUTION = 2.5
"""Deviations subtracted from what a test shows on the runs it is chosen on."""


@dataclass(frozen=True)
class Test:
    """Guess the first table from large scores and the second from small ones, and abstain between.

    Attributes
    ----------
    high, low
        Guess the first table at or above ``high``, the second at or below ``low``.
    sign
        Minus one to read scores the other way round.
    one_sided
        Judge hits and false alarms of the first guess instead of all guesses; for Gaussian claims.
    """

    __test__ = False  # not one of pytest's

    high: float
    low: float
    sign: int = 1
    one_sided: bool = False

    def guesses(self, scores: Floats) -> npt.NDArray[np.int64]:
        """Return 1 for the first table, -1 for the second and 0 for none."""
        turned = self.sign * np.asarray(scores, dtype=np.float64)
        return np.where(turned >= self.high, 1, np.where(turned <= self.low, -1, 0)).astype(np.int64)


@dataclass(frozen=True)
class Tally:
    """What a test that was fixed before got right and wrong.

    Attributes
    ----------
    runs, guesses, correct
        Runs judged, guesses made in them, and guesses that were right.
    firsts, hits, alarms
        Runs on the first table; guesses of the first table there, and on the second.
    one_sided
        Which of the two sets of counts the bound uses.
    """

    runs: int
    guesses: int
    correct: int
    firsts: int
    hits: int
    alarms: int
    one_sided: bool = False

    def bound(self, claim: Claim, *, confidence: float) -> float:
        """Return what the counts demonstrate, in the unit of a claim, at a confidence.

        Examples
        --------
        >>> tally = Tally(1000, 1000, 881, 500, 440, 59)
        >>> round(tally.bound(Claim("epsilon", 2.0, 0.0, ""), confidence=0.95), 2)
        1.84
        """
        if claim.kind == "epsilon":
            return guessed_epsilon(
                self.correct, self.guesses, self.runs, delta=claim.delta, confidence=confidence
            )
        if self.one_sided:
            return demonstrated_mu(
                self.hits, self.firsts, self.alarms, self.runs - self.firsts, confidence=confidence
            )
        # a test that abstains tosses a coin there; counting those as wrong can only lower the bound
        return guessed_mu(self.correct, self.runs, confidence=confidence)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def judge(test: Test, scores: Floats, firsts: Bools) -> Tally:
    """Count what a test gets right on runs that had no part in choosing it.

    Parameters
    ----------
    scores
        One per run.
    firsts
        Whether the run was on the first table; the coin must have been fair.

    Examples
    --------
    >>> judge(Test(0.5, 0.5), np.array([1.0, 0.0, 0.0]), np.array([True, True, False]))
    Tally(runs=3, guesses=3, correct=2, firsts=2, hits=1, alarms=0, one_sided=False)
    """
    guesses = test.guesses(scores)
    right = np.where(firsts, guesses == 1, guesses == -1)
    return Tally(
        runs=len(scores),
        guesses=int((guesses != 0).sum()),
        correct=int(right.sum()),
        firsts=int(firsts.sum()),
        hits=int((guesses[firsts] == 1).sum()),
        alarms=int((guesses[~firsts] == 1).sum()),
        one_sided=test.one_sided,
    )


def choose_test(scores: Floats, firsts: Bools, claim: Claim) -> tuple[Test, float]:
    """Return the test on these scores that promises to demonstrate most, and a cautious guess how much.

    Privacy
    -------
    An audit runs mechanisms on simulated neighbours; nothing private is involved.

    Examples
    --------
    >>> noise = np.random.default_rng(0).laplace(size=4000)
    >>> firsts = np.arange(4000) % 2 == 0
    >>> test, value = choose_test(noise + firsts, firsts, Claim("epsilon", 1.0, 0.0, ""))
    >>> 0.8 < value < 1.1
    True
    """
    if len(scores) != len(firsts) or len(scores) < 8:
        raise WorkloadError("A test is chosen on at least eight runs, each with its score and its table.")
    best: tuple[float, Test] | None = None
    for sign in (1, -1):
        for value, test in _options(sign * scores, firsts, claim, sign):
            if best is None or value > best[0] + 1e-12:
                best = (value, test)
    assert best is not None
    return best[1], best[0]


def _options(scores: Floats, firsts: Bools, claim: Claim, sign: int) -> list[tuple[float, Test]]:
    """Return the best two-sided test and, for Gaussian claims, the best one-sided one."""
    distinct = np.unique(scores)
    if len(distinct) > _CANDIDATES:
        distinct = np.unique(np.quantile(scores, np.linspace(0, 1, _CANDIDATES), method="nearest"))
    cuts = np.concatenate([distinct, [np.inf]])
    one, two = np.sort(scores[firsts]), np.sort(scores[~firsts])
    above = [len(x) - np.searchsorted(x, cuts, side="left") for x in (one, two)]  # at or above each cut
    below = [np.searchsorted(x, cuts, side="left") for x in (one, two)]  # strictly below each cut
    n = len(scores)
    if claim.kind == "mu":
        right = above[0] + below[1]
        value = 2 * _normal_quantile(_lower(right, np.full(len(cuts), n)))
        index = int(np.argmax(value))
        two_sided = (float(value[index]), _cut(cuts[index], sign))
        hits, alarms = (
            _lower(above[0], np.full(len(cuts), max(1, len(one)))),
            1 - _lower(below[1], np.full(len(cuts), max(1, len(two)))),
        )
        tail = _normal_quantile(hits) - _normal_quantile(alarms)
        index = int(np.argmax(tail))
        return [two_sided, (float(tail[index]), _cut(cuts[index], sign, one_sided=True))]
    # every pair of a lower cut (guess the second strictly below it) and a higher one (guess the first from it on)
    right = above[0][None, :] + below[1][:, None]
    wrong = above[1][None, :] + below[0][:, None]
    share = _lower(right, right + wrong)
    rate = np.maximum((right + wrong) / n, 1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(np.maximum(share - claim.delta / rate, 0.0) / (1 - share))
    value[np.tril_indices(len(cuts), -1)] = -np.inf
    low, high = np.unravel_index(int(np.argmax(value)), value.shape)
    below_low = math.nextafter(float(cuts[low]), -math.inf) if np.isfinite(cuts[low]) else float(distinct[-1])
    test = Test(float(cuts[high]), below_low, sign)
    return [(float(value[low, high]), test)]


def _cut(at: float, sign: int, *, one_sided: bool = False) -> Test:
    """Return the test that guesses in every run."""
    return Test(float(at), math.nextafter(float(at), -math.inf) if np.isfinite(at) else at, sign, one_sided)


def _lower(hits: npt.NDArray[Any], trials: npt.NDArray[Any]) -> Floats:
    """Return Wilson's lower bound of rates, quick and good enough to choose by."""
    n, z = np.maximum(trials, 1).astype(np.float64), _CAUTION
    p = hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return np.asarray(np.clip(centre - reach, 0.0, 1 - 1e-12) * (trials > 0), dtype=np.float64)


def _normal_quantile(rates: Floats) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(rates, 1e-12, 1 - 1e-12)), dtype=np.float64)
