"""What releasing seed-based records costs: one record, then many, with failed attempts accounted for.

**The mechanism.** Seeds ``D`` fill ``N = max(n, min_seeds)`` slots, the others stay empty. One *attempt* picks
a slot, lets the model turn its seed ``s`` into a candidate ``y`` (probability ``p_s(y)``) and counts the
plausible seeds ``c``: those in the same class ``γ^(-i-1) < p(y) <= γ^(-i)`` as ``s``. It passes if
``c >= k + L`` with ``L`` discrete Laplace of scale ``1/ε0``; an empty slot never passes. One *record*: with
probability ``β`` (the floor) a draw of the seed-free law ``g``; otherwise the first of at most ``T`` attempts
that passes, or a draw of ``g`` if none does. Something always comes out, so no failure is ever seen.

**One record.** Write ``pt(c)`` for the chance to pass with ``c`` plausible seeds, ``Q(y) = sum over s of
p_s(y) pt(c_s(y))``, ``f`` for the chance that an attempt fails and ``S(f) = 1 + f + ... + f^(T-1)``. Then
``P(y) = (1-β) [S(f) Q(y)/N + f^T g(y)] + β g(y)``. Let ``D' = D + d``; ``c`` counts the seeds of ``D`` in the
class of ``d``.

1. *Distance of an attempt.* Run both with the same slot and candidate. They differ if the slot is ``d``'s, or
   if ``d`` is one more plausible seed and that decides the test. For each ``y`` the seeds concerned have
   ``p_s(y) < γ p_d(y)`` and there are ``c`` of them, so the second chance is at most
   ``1/N sum over y of γ p_d(y) c (pt(c+1) - pt(c)) <= γ M / N`` with ``M = max over c of c P(L = k-c-1)``. So
   outcomes (failure included) are within ``h = (1 + γM)/N`` in total variation, and ``|f - f'| <= h``.
   Replacing a seed empties its slot and fills it again: ``h = (1 + 2γM)/N``.
2. *Part of Q.* ``Q <= Q'``, as seeds only help each other. Conversely ``Q'(y) - e^a Q(y) <= p_d(y) E(a)`` for
   ``a >= ε0`` with ``E(a) = max over c of pt(c+1) [1 - (c/γ)(e^(a-ε0) - 1)]_+``: other classes do not change,
   ``pt(c) >= e^(-ε0) pt(c+1)``, and the ``c`` seeds have ``p_s(y) > p_d(y)/γ``. Summed over ``y``: ``E(a)``.
   ``S(f')/S(f) <= e^(h (T-1)/2)``, as the derivative of ``ln S`` is largest at ``f = 1``.
3. *Part of g.* ``f'^T - f^T <= T h`` either way, against a floor of ``β``: a factor of ``1 + (1-β) T h / β``.

Both parts together: ``P' <= e^ε P + δ`` and ``P <= e^ε P'`` with
``ε = max(a + h(T-1)/2, ln(1 + 1/N) + h(T-1)/2, ln(1 + (1-β) T h/β))`` and ``δ = (1-β) T E(a) / N``; and the two
laws are within ``τ = (1-β) T h`` in total variation. Replacing goes through the table with the empty slot:
``Q' <= e^a Q_0 + excess <= e^a Q + excess``, so ``a`` is paid once, with the larger ``h``. With
``a = ε0 + ln(1 + γ/t)`` only classes with ``c < t`` count in ``E``: Theorem 1 of paper Deniability, with a
``δ`` that is smaller by ``N`` and covers every outcome.

**Looking at some seeds only** (``max_check``): the plausible seeds are counted among a random subset, fixed by
random priorities. A new seed may then *displace* another one from the subset and lower the count of classes
it does not belong to, so the paper's remark that this "affects performance, not privacy" is not right: point
1 is lost (no ``h``), and ``Q <= e^ε0 Q'`` only. What is left, for ``T = 1``: fail and pass chances change by at
most ``e^ε0``, so ``P <= e^ε0 (1 + 1/N) P'`` and ``P' <= e^ε P + δ`` with
``ε = max(a, ln(e^ε0 + (1-β)/(β N)))``. A replacement pays both.

**Many records.** The privacy curve ``x -> sum of (P' - x P)_+`` is convex and decreasing, at most ``τ`` at
``x = 1`` and ``δ`` at ``x = e^ε`` (and mirrored). It lies below the piecewise linear curve through these points,
which belongs to this act: reveal the table with probability ``δ``; otherwise, with probability
``η = τ (e^ε + 1)/(e^ε - 1)``, answer one bit by ``ε``-randomised response; otherwise nothing. A dominating act
may stand for each record of a sequence (Zhu, Dong and Wang 2022), so ``R`` records are dominated by a
binomial number of randomised responses, whose curve is summed exactly below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy import Relation

_Array = npt.NDArray[np.float64]

_SLACK = 1e-9
"""Classes are computed in floating point: ``γ`` is widened by this share in every bound."""


@dataclass(frozen=True, kw_only=True)
class SeedTest:
    """Parameters of Privacy Test 2 and of the release around it. All public.

    Parameters
    ----------
    k, gamma, epsilon0
        Threshold on the number of plausible seeds, width of a class, and ``1/scale`` of the noise on ``k``.
    min_seeds
        Smallest number of slots. A seed table with fewer rows is filled up with empty slots, whose attempts
        fail; the guarantee then never depends on the number of rows.
    attempts
        How many candidates are tried for one record before a seed-free one takes its place.
    floor
        Share of records that are seed-free by design; ``None`` for the smallest one that costs nothing.
    max_plausible
        Counting stops here (paper Deniability, section 5): a larger count is taken as this one.
    max_check
        Only this many seeds, chosen at random once per release, are looked at when counting.

    Examples
    --------
    >>> test = SeedTest(k=50, gamma=4.0, epsilon0=1.0, min_seeds=50_000)
    >>> one = test.record(relation="add-remove", slack=math.log(1 + 4 / 10))
    >>> round(one.epsilon, 3), one.delta < 1e-20
    (1.336, True)
    """

    k: int
    gamma: float
    epsilon0: float
    min_seeds: int
    attempts: int = 1
    floor: float | None = None
    max_plausible: int | None = None
    max_check: int | None = None

    def __post_init__(self) -> None:
        problems = []
        if not self.k >= 1:
            problems.append(f"k ({self.k}) must be at least 1.")
        if not 1 < self.gamma < math.inf:
            problems.append(f"gamma ({self.gamma}) must be greater than 1 and finite.")
        if not 2.0**-20 <= self.epsilon0 <= 100:
            problems.append(f"epsilon0 ({self.epsilon0}) must lie between 2**-20 and 100.")
        if not self.min_seeds >= 1:
            problems.append(f"min_seeds ({self.min_seeds}) must be at least 1.")
        if not self.attempts >= 1:
            problems.append(f"attempts ({self.attempts}) must be at least 1.")
        if self.floor is not None and not 0 < self.floor < 1:
            problems.append(f"floor ({self.floor}) must lie strictly between 0 and 1.")
        if self.max_plausible is not None and self.max_plausible < 1:
            problems.append(f"max_plausible ({self.max_plausible}) must be at least 1.")
        if self.max_check is not None and self.max_check < 1:
            problems.append(f"max_check ({self.max_check}) must be at least 1.")
        if self.max_check is not None and self.attempts > 1:
            problems.append("max_check leaves no bound on repeated attempts; use attempts=1 with it.")
        if problems:
            raise BudgetError(" ".join(problems))

    def passing(self, count: npt.ArrayLike) -> _Array:
        """Return the chance that a candidate with ``count`` plausible seeds passes."""
        seen = np.asarray(count, dtype=np.float64)
        short = self.k - (seen if self.max_plausible is None else np.minimum(seen, self.max_plausible))
        q = math.exp(-self.epsilon0)
        above = np.exp(-self.epsilon0 * np.maximum(short, 0.0)) / (1 + q)
        below = 1 - np.exp(-self.epsilon0 * np.maximum(1 - short, 0.0)) / (1 + q)
        chance: _Array = np.where(short > 0, above, below)
        return chance

    def distance(self, relation: Relation) -> float:
        """Return ``h``: how far one attempt can move in total variation; 1 where nothing is known."""
        if self.max_check is not None:
            return 1.0
        c = np.arange(1, self.k + math.ceil(4 / self.epsilon0) + 2)
        most = float(np.max(c * (self.passing(c + 1) - self.passing(c))))
        moved = most * self.gamma * (1 + _SLACK)
        changes = 1 if relation == "add-remove" else 2
        return min(1.0, (1 + changes * moved) * (1 + _SLACK) / self.min_seeds)

    def share(self, relation: Relation) -> float:
        """Return the floor ``β``: as given, or the smallest that keeps the part of ``g`` within ``e^ε0``."""
        if self.floor is not None:
            return self.floor
        if self.max_check is not None:
            return 1 / (1 + self.min_seeds * math.exp(self.epsilon0) * math.expm1(self.epsilon0))
        return 1 / (1 + math.expm1(self.epsilon0) / (self.attempts * self.distance(relation)))

    def record(self, *, relation: Relation, slack: float) -> RecordGuarantee:
        """Return what one released record costs, for ``a = epsilon0 + slack`` in the notation of this module."""
        if not 0 < slack < math.inf:
            raise BudgetError(f"slack ({slack}) must be positive and finite.")
        h, floor, n = self.distance(relation), self.share(relation), self.min_seeds
        gamma = self.gamma * (1 + _SLACK)
        c = np.arange(0, math.ceil(gamma / math.expm1(slack)) + 1)
        excess = float(np.max(self.passing(c + 1) * np.maximum(1 - c / gamma * math.expm1(slack), 0.0)))
        delta = min(1.0, (1 - floor) * self.attempts * excess / n * (1 + _SLACK))
        if self.max_check is not None:
            join = max(self.epsilon0 + slack, math.log(math.exp(self.epsilon0) + (1 - floor) / (floor * n)))
            leave = self.epsilon0 + math.log1p(1 / n)
            epsilon = max(join, leave) if relation == "add-remove" else join + leave
            return RecordGuarantee(epsilon, delta, math.tanh(epsilon / 2))
        again = h * (self.attempts - 1) / 2
        epsilon = max(
            self.epsilon0 + slack + again,
            math.log1p(1 / n) + again,
            math.log1p((1 - floor) * self.attempts * h / floor),
        )
        distance = min((1 - floor) * self.attempts * h, math.tanh(epsilon / 2))
        return RecordGuarantee(epsilon, delta, distance)

    def composed(self, records: int, *, relation: Relation, delta: float) -> float:
        """Return the smallest ``epsilon`` found such that that many records are ``(epsilon, delta)``-DP together.

        Infinity if ``delta`` is too small for these parameters.
        """
        return _composed(self, int(records), relation, float(delta))


@dataclass(frozen=True)
class RecordGuarantee:
    """One released record: ``(epsilon, delta)``-DP, and within ``distance`` in total variation."""

    epsilon: float
    delta: float
    distance: float

    def composed_delta(self, records: int, epsilon: float) -> float:
        """Return the ``delta`` of many records at ``epsilon``, rounded up.

        With ``d`` the number of true minus the number of false responses, the privacy loss is ``d`` times
        this record's ``epsilon``: ``delta = sum over d of P(d) (1 - e^(epsilon - d ε))_+``, plus the chance that
        anything is revealed.
        """
        loss, chance, lost = _responses(self, records)
        gain = -np.expm1(np.minimum(epsilon - loss * self.epsilon, 0.0))
        revealed = -math.expm1(records * math.log1p(-self.delta)) if self.delta < 1 else 1.0
        return min(1.0, (float((gain * chance).sum()) + lost) * (1 + 1e-6) + revealed)


@lru_cache(maxsize=64)
def _responses(one: RecordGuarantee, records: int) -> tuple[_Array, _Array, float]:
    """Return the law of the sum of that many steps +1, 0, -1, and a bound on the mass left out.

    Powers by repeated squaring. All terms are positive, so rounding errors stay relative. Values whose
    chance adds up to less than 1e-24 are cut off; each cut can enter the result at most ``records`` times.
    """
    rate = min(1.0, one.distance / math.tanh(one.epsilon / 2))
    truth = 1 / (1 + math.exp(-one.epsilon))
    power: tuple[int, _Array] = (-1, np.array([rate * (1 - truth), 1 - rate, rate * truth]))
    result: tuple[int, _Array] = (0, np.array([1.0]))
    cuts, left = 0, records
    while left:
        if left & 1:
            result, cuts = _trimmed(result, power), cuts + 1
        left >>= 1
        if left:
            power, cuts = _trimmed(power, power), cuts + 1
    start, chance = result
    return np.arange(start, start + len(chance), dtype=np.float64), chance, 2e-24 * cuts * records


def _trimmed(a: tuple[int, _Array], b: tuple[int, _Array]) -> tuple[int, _Array]:
    """Convolve two laws on the integers and cut both tails."""
    law = np.convolve(a[1], b[1])
    keep = np.flatnonzero((np.cumsum(law) > 1e-24) & (np.cumsum(law[::-1])[::-1] > 1e-24))
    return a[0] + b[0] + int(keep[0]), law[keep[0] : keep[-1] + 1]


@lru_cache(maxsize=256)
def _composed(test: SeedTest, records: int, relation: Relation, delta: float) -> float:
    """Search the trade-off between the ``delta`` of single records and their ``epsilon``."""
    if records == 0:
        return 0.0
    best = math.inf
    for t in np.geomspace(0.05, max(2, 2 * test.k), 24).tolist():
        one = test.record(relation=relation, slack=math.log1p(test.gamma / t))
        if one.composed_delta(records, min(best, records * one.epsilon)) > delta:
            continue
        low, high = 0.0, min(best, records * one.epsilon)
        while high - low > 1e-4 * max(1.0, high):
            middle = (low + high) / 2
            if one.composed_delta(records, middle) <= delta:
                high = middle
            else:
                low = middle
        best = min(best, high)
    return best


def affordable_records(test: SeedTest, *, relation: Relation, epsilon: float, delta: float) -> int:
    """Return how many records fit into ``(epsilon, delta)``; zero if not even one does."""
    if test.composed(1, relation=relation, delta=delta) > epsilon:
        return 0
    low, high = 1, 2
    while high < 1 << 30 and test.composed(high, relation=relation, delta=delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if test.composed(middle, relation=relation, delta=delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def require_single_rows(max_rows: int) -> None:
    """Seed-based release is proved for units of one row only."""
    if max_rows > 1:
        raise NoSuchGuarantee(
            "Seed-based records are proved to protect single rows only; the unit allows several rows per person. "
            "Use omega equal to the number of columns (no seeds), or one row per person."
        )
