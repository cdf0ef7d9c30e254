"""What the query-driven mechanisms ask: all columns first, then the marginals or the queries that are answered worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Noise, measure_answers, seal_answers
from understudy.engine.targets import estimate_total
from understudy.marginals import Measurement, Query, Statistic
from understudy.schema import Clique, Domain
from understudy.synthesizers._allocation import noises_by_size
from understudy.synthesizers._rounds import expected_absolute_noise, measure_worst
from understudy.synthesizers.base import fixed_total

Floats = npt.NDArray[np.float64]


def first_look(curator: Curator, cost: float) -> tuple[float, list[Measurement]]:
    """Measure every column; return the number of rows, estimated from that where it is private, and what was measured.

    Privacy
    -------
    In: private. Out: releasable. All one-way marginals are charged together, before the first is drawn.
    """
    domain = curator.domain
    measured = curator.measure_many(
        curator.counts_many([(name,) for name in domain.names]),
        noise=noises_by_size(curator.accounting, curator.unit, cost, domain.sizes),
        purpose=f"measure {len(domain)} one-way marginals",
    )
    rows = fixed_total(curator)
    return estimate_total(measured) if rows is None else rows, measured


def above_noise(domain: Domain, cliques: Sequence[Clique], noise: Noise, rows: float) -> list[Clique]:
    """Leave out marginals whose noise alone exceeds the largest possible error; by released values only.

    Examples
    --------
    >>> from understudy.privacy import Laplace
    >>> domain = Domain(("a", "b"), (2, 30))
    >>> above_noise(domain, [("a",), ("a", "b")], Laplace(10.0), 100.0)
    [('a',)]
    """
    limit = 2 * rows / expected_absolute_noise(noise)
    return [clique for clique in cliques if domain.cells(clique) <= limit]


class Marginals:
    """Marginals under seal, chosen by the L1 error of a model less the noise that a measurement would have."""

    def __init__(
        self,
        curator: Curator,
        cliques: Sequence[Clique],
        noise: Noise,
        epsilon: float,
        *,
        weights: Mapping[Clique, float] | None = None,
    ) -> None:
        self.curator, self.noise, self.epsilon, self.weights = curator, noise, epsilon, weights
        self.sealed = dict(zip(cliques, curator.counts_many(cliques), strict=True))

    def ask(self, candidates: Sequence[Clique], answers: Sequence[Floats]) -> Measurement:
        """Choose one of the candidates, given the model's answers to them, and measure it."""
        return measure_worst(
            self.curator,
            self.sealed,
            candidates,
            answers,
            noise=self.noise,
            epsilon=self.epsilon,
            penalty=expected_absolute_noise(self.noise),
            weights=self.weights,
        ).measurement


class Queries:
    """Linear queries under seal, chosen by the error of a model's answers."""

    def __init__(self, curator: Curator, queries: Sequence[Query], noise: Noise, epsilon: float) -> None:
        self.curator, self.noise, self.epsilon = curator, noise, epsilon
        self.queries = list(queries)
        self.sealed = seal_answers(curator, queries)

    def ask(
        self, expected: npt.ArrayLike, *, among: Sequence[int] | None = None, number: int = 1
    ) -> tuple[list[int], Floats]:
        """Choose some queries, none of them twice, given the model's answers to all of them, and measure them together.

        Parameters
        ----------
        among
            Places that may be chosen; all by default.

        Returns
        -------
        tuple
            The places that were chosen, and the noisy answers.
        """
        scores = self.sealed.distances(expected)
        left = list(range(len(scores)) if among is None else among)
        chosen = []
        for _ in range(number):
            index = self.curator.choose(
                [scores[place] for place in left], epsilon=self.epsilon, purpose="choose a query"
            )
            chosen.append(left.pop(index))
        what = "a query" if number == 1 else f"{number} queries"
        values = measure_answers(
            self.curator, self.sealed, chosen, noise=self.noise, purpose=f"measure {what}"
        )
        return chosen, values

    @property
    def variance(self) -> float:
        """Variance of the noise of an answer, in rows."""
        return self.noise.scale**2 * (2.0 if self.noise.kind == "laplace" else 1.0)

    def statistic(self, values: npt.ArrayLike) -> Statistic:
        """Return answers as they are kept in a model file."""
        return Statistic("answers to chosen queries", np.asarray(values), self.noise.kind, self.noise.scale)
