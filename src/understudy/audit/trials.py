"""Guessing which of two neighbouring tables a mechanism ran on: tests, their tallies, and how a test is chosen."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.audit.bounds import demonstrated_mu, guessed_epsilon, guessed_mu
from understudy.audit.claims import Claim
from understudy.errors import WorkloadError

__all__ = ["Tally", "Test", "choose_test", "judge"]

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
