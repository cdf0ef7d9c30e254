"""Answers to counting queries under seal.

**Sensitivity.** A predicate counts rows, so one row more moves its answer by at most one, and a replaced row by at most
one as well (it may turn from counted to not counted). A unit of ``k`` rows moves it by at most ``k`` under either relation.
``|answer - public number|`` moves by no more than the answer does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.curator.curator import Curator, Noise, _scalar_event
from understudy.curator.seal import Sealed
from understudy.curator.sealed import SealedScalar
from understudy.errors import BudgetError
from understudy.marginals import Predicate

__all__ = ["SealedAnswers", "measure_answer", "seal_answers"]


class SealedAnswers(Sealed):
    """Exact answers to several predicates, and the most that one unit can change each of them."""

    __slots__ = ("_exact", "sensitivity")

    def __init__(self, exact: npt.NDArray[np.int64], sensitivity: int) -> None:
        self._exact = exact
        self.sensitivity = sensitivity

    def __len__(self) -> int:
        return len(self._exact)

    def distances(self, public: npt.ArrayLike) -> list[SealedScalar]:
        """Return the absolute differences to public numbers, each with the sensitivity of an answer."""
        given = np.asarray(public, dtype=np.float64)
        if given.shape != self._exact.shape:
            raise BudgetError(f"Need {len(self)} public numbers to compare with; got shape {given.shape}.")
        return [
            SealedScalar(value, sensitivity=self.sensitivity)
            for value in np.abs(self._exact - given).tolist()
        ]

    def __repr__(self) -> str:
        return f"SealedAnswers({len(self)} predicates, sensitivity={self.sensitivity})"


def seal_answers(curator: Curator, predicates: Sequence[Predicate]) -> SealedAnswers:
    """Answer predicates exactly and seal the answers; every marginal they speak of is counted once.

    Privacy
    -------
    In: private. Out: under seal.
    """
    for predicate in predicates:
        predicate.check(curator.domain)
    cliques = list(dict.fromkeys(predicate.clique for predicate in predicates))
    tables = dict(zip(cliques, curator._table.count_many(cliques), strict=True))
    exact = np.array([tables[p.clique][p.cells].sum() for p in predicates], dtype=np.int64)
    return SealedAnswers(exact, curator.unit.max_rows)


def measure_answer(
    curator: Curator, sealed: SealedAnswers, which: int, *, noise: Noise, purpose: str
) -> float:
    """Release one answer with whole-number noise; charge first.

    Privacy
    -------
    In: private. Out: releasable. The answer is a whole number that neighbours move by at most
    ``sealed.sensitivity``; whole-number noise of scale ``b`` costs what the event says.
    """
    curator._charge(_scalar_event(sealed.sensitivity, noise), purpose=purpose)
    return float(int(sealed._exact[which]) + int(noise.draw((), curator._randomness)))
