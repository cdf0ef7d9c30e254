"""What a guarantee leaves to an attacker, as chances: singling out, linking, inferring.

Privacy
-------
*One inequality.* Let ``G = known.largest``: for two tables that the promise compares, which differ in the record of one person, every event ``E`` of
the release has ``P(E) <= G(P'(E))``. Whatever somebody does with the release, with any knowledge and any computer, is post-processing, so ``E`` may be
"his answer is right". ``G`` is concave: it is a least of straight lines, ``Phi(Phi^-1(p) + mu)``, a concave rising function of a
concave one, or the least of such.

*Inference.* Somebody answers a question about you, and would be right with chance ``p`` if your record were not in the table (removed, or another one in its
place: whatever all other records teach is allowed for). With your record he is right with chance at most ``G(p)``: the inequality itself.

*Linking.* One of ``k`` people, each as likely as the others, is in the table, and somebody says who. Let ``E_j`` be the event that he says ``j``, ``P_j``
the law of the release if it is ``j``, and ``P'`` its law if it is nobody of them. He is right with chance ``sum_j P_j(E_j)/k <= sum_j G(P'(E_j))/k <=
G(sum_j P'(E_j)/k) <= G(1/k)``, by concavity and because the ``E_j`` exclude each other and ``G`` rises. Where the promise also compares the tables of any two
of them (one record is replaced by another) more is true. Let ``a_j = P_j(E_j)``, with mean ``a``, and ``h`` the inverse of ``G``, which is convex. Then ``P_j(E_i) >= h(a_i)``
for ``i != j``, so ``1 >= a_j + sum_(i != j) h(a_i)``; averaged over ``j``, ``1 >= a + (k - 1) h(a)``. So ``a`` is at most the largest number with
``G((1 - a)/(k - 1)) >= a``: for ``epsilon``-DP ``e^epsilon/(e^epsilon + k - 1)``, and for ``k = 2`` the best guess of a coin's outcome.

*Singling out.* Somebody derives from the release a rule that fits a share of at most ``w`` of the population, and your record ``r`` is drawn from that population
independently of the others. For given records, the chance that his rule fits ``r`` is at most ``G`` of the chance that a rule derived without ``r`` fits it;
averaged over ``r``, by concavity, at most ``G`` of the mean share that rules derived without ``r`` fit, so at most ``G(w)``. A rule that singles out somebody
fits at least one of the ``n`` records, which has a chance of at most ``n G(w)``. (For pure guarantees that is the theorem of Cohen and Nissim, PNAS 2020.)

The bounds say nothing about what is true of many people alike, which the release is meant to tell, nor about whether ``p``, ``1/k`` or ``w`` were small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.release.selection.profiles import BestProfile

__all__ = ["CHANCES", "PEOPLE", "Risks", "picked", "risks"]

CHANCES = (
    (1e-6, "1 in 1,000,000"),
    (1e-3, "1 in 1,000"),
    (1e-2, "1 in 100"),
    (0.1, "1 in 10"),
    (0.5, "1 in 2"),
)
"""Chances without a record for which the documents say the most that they are with it."""


PEOPLE = (2, 10, 100, 1_000, 1_000_000)
"""Numbers of people of whom one is in the table."""
_RARER = 1_000
"""Rules are looked at that fit so many times fewer people than one in the number of records."""


@dataclass(frozen=True)
class Risks:
    """What the promise leaves to an attacker at most.

    Attributes
    ----------
    chances
        For each of `CHANCES`: its words, and the most it becomes with a person's record.
    picks
        For each number of `PEOPLE`: the largest chance of picking the one who is in the table.
    isolated
        Largest chance that a rule which fits at most one in a thousand times as many people as there are records fits a record.
    advantage
        Membership: the largest difference between the shares of people that are said to be in the table, of those who are and of those who are not.
    right_guess
        Largest chance of being right about it where a coin decides who is in the table.
    """

    chances: tuple[tuple[str, float], ...]
    picks: tuple[tuple[int, float], ...]
    isolated: float
    advantage: float
    right_guess: float


def picked(known: BestProfile, people: int, *, mutual: bool) -> float:
    """Return the largest chance of picking the one of several equally likely people who is in the table.

    Parameters
    ----------
    known
        What is known about the promise.
    people
        How many there are.
    mutual
        Whether the promise compares the tables of any two of them: one record replaced by another.

    Examples
    --------
    >>> import math
    >>> from understudy.privacy import PureDP
    >>> from understudy.release.selection.profiles import Bound, best_profile
    >>> known = best_profile([Bound(0.0, PureDP(math.log(9)))])
    >>> round(picked(known, 10, mutual=True), 6), round(picked(known, 10, mutual=False), 6)
    (0.5, 0.9)
    """

    def largest(share: float) -> float:
        return min(1.0, float(known.largest(np.array([share]))[0]))

    found = largest(1 / people)
    if mutual:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if largest((1 - middle) / (people - 1)) >= middle else (low, middle)
        found = min(found, high)
    return found


def risks(known: BestProfile, *, rows: int, mutual: bool) -> Risks:
    """Return the bounds that follow from everything that is known about a promise, for a table of so many rows.

    Examples
    --------
    >>> from understudy.privacy import PureDP
    >>> from understudy.release.selection.profiles import Bound, best_profile
    >>> found = risks(best_profile([Bound(0.0, PureDP(1.0))]), rows=500, mutual=True)
    >>> [round(most, 6) for _, most in found.chances], round(found.advantage, 4)
    ([3e-06, 0.002718, 0.027183, 0.271828, 0.81606], 0.4621)
    >>> round(found.picks[0][1], 4), round(found.right_guess, 4), round(found.isolated, 6)
    (0.7311, 0.7311, 0.002718)
    """
    before = np.array([chance for chance, _ in CHANCES])
    most = np.clip(known.largest(before), 0.0, 1.0).tolist()
    guess, records = known.right_guess(), max(1, rows)
    rule = float(known.largest(np.array([1 / (_RARER * records)]))[0])
    return Risks(
        chances=tuple((words, float(chance)) for (_, words), chance in zip(CHANCES, most, strict=True)),
        picks=tuple((people, picked(known, people, mutual=mutual)) for people in PEOPLE),
        isolated=min(1.0, records * rule),
        advantage=2 * guess - 1,
        right_guess=guess,
    )
