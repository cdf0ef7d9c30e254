"""Answers to linear queries under seal.

**Sensitivity of one answer.** Every record answers with a number between 0 and ``v``, the largest value of the query
(:attr:`~understudy.marginals.query.Query.reach`, at most 1). One row more moves the sum by at most ``v``; a replaced row moves
it from one number in ``[0, v]`` to another, by at most ``v`` as well. A unit of ``k`` rows moves it by at most ``k v``
under either relation. ``|answer - public number|`` moves by no more than the answer does.

**Sensitivity of several answers together.** Give each cell ``x`` of the columns of a group of queries the vector ``a(x)``
of its values, and let a row that is not there have the vector 0. A unit of ``k`` rows adds (or takes away) ``k``
vectors: the answers move by at most ``k max |a(x)|`` in any norm. Replacing a unit is ``k`` exchanges of one
vector (or 0) for another: at most ``k max |a(x) - a(y)|``, where ``x`` and ``y`` run over cells and "not there". For the
cells of one marginal this is the sensitivity of a histogram, however many cells there are. The maximum over pairs is at
most ``2 max |a|`` and at most the norm of the vector of ranges of each query (0 included); the smaller of the two bounds
is used. Groups over different columns add up: in L1 their sums, in L2 the root of the sum of squares.

**No rounding.** Values of queries are multiples of ``2**-20``, so an answer is a whole number of such parts and so is the
noise: no sensitivity is lost to floating point. Public numbers that answers are compared with are rounded to such parts first.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Sealed, SealedCounts, SealedScalar
from understudy.curator.sealed import require_seals
from understudy.errors import BudgetError
from understudy.marginals import Query
from understudy.marginals.query import GRID
from understudy.privacy import Noise, Unit
from understudy.privacy.events import Composed, SelectionEvent
from understudy.privacy.exact_floats import float_up, sqrt_up
from understudy.privacy.noise.selection import exponential_mechanism
from understudy.privacy.own import own_noise
from understudy.schema import Clique

__all__ = [
    "SealedAnswers",
    "choose_cells",
    "draw_queries",
    "joint_reach",
    "measure_answer",
    "measure_answers",
    "seal_answers",
]


class SealedAnswers(Sealed):
    """Exact answers to several queries, and the most that one unit can change any of them.

    Attributes
    ----------
    sensitivity
        Largest change of an answer between neighbours, in rows. Public.
    """

    __slots__ = ("_exact", "_grid", "_names", "_queries", "_unit", "sensitivity")

    def __init__(self, exact: npt.NDArray[np.int64], grid: int, queries: Sequence[Query], unit: Unit) -> None:
        self._exact = exact
        self._grid = grid
        self._queries = tuple(queries)
        self._unit = unit
        self._names: dict[int, str] = {}
        self.sensitivity = unit.max_rows * max(query.reach for query in queries)

    def __len__(self) -> int:
        return len(self._exact)

    def names(self, which: Iterable[int]) -> str:
        """Return a digest of what some of the queries ask, cell by cell: public, for the journal."""
        for index in which:
            if index not in self._names:
                query = self._queries[index]
                said = repr((query.clique, query.steps.shape)).encode() + query.steps.tobytes()
                self._names[index] = hashlib.sha256(said).hexdigest()
        return hashlib.sha256("".join(self._names[index] for index in which).encode()).hexdigest()

    def distances(self, public: npt.ArrayLike) -> list[SealedScalar]:
        """Return the absolute differences to public numbers, each with the sensitivity of an answer."""
        return [
            SealedScalar(Fraction(abs(value), GRID), sensitivity=self.sensitivity)
            for value in self._differences(public, GRID).tolist()
        ]

    def _differences(self, public: npt.ArrayLike, factor: int) -> npt.NDArray[Any]:
        """Return ``factor * answer / 2**20 - public`` in whole parts of ``2**-20``, the public numbers rounded to such parts. Private."""
        given = np.asarray(public, dtype=np.float64)
        if given.shape != self._exact.shape or not np.isfinite(given).all():
            raise BudgetError(f"Need {len(self)} public numbers to compare with; got shape {given.shape}.")
        shared = math.gcd(factor, self._grid)
        times, over = factor // shared, self._grid // shared
        size = max(float(np.abs(given).max()) * GRID, float(np.abs(self._exact).max()) * times)
        kind = (
            np.int64 if size < 2.0**61 else object
        )  # whole numbers without an end where 64 bits would not do
        parts = (
            np.rint(given * GRID).astype(np.int64)
            if kind is np.int64
            else np.array([round(Fraction(x) * GRID) for x in given.tolist()], dtype=object)
        )
        return np.asarray(self._exact.astype(kind) * times // over - parts)

    def __repr__(self) -> str:
        return f"SealedAnswers({len(self)} queries, sensitivity={self.sensitivity:g})"


def seal_answers(curator: Curator, queries: Sequence[Query]) -> SealedAnswers:
    """Answer queries exactly and seal the answers; every marginal they speak of is counted once.

    Privacy
    -------
    In: private. Out: under seal.
    """
    if not queries:
        raise BudgetError("There is no query to answer.")
    # what is asked, answered and charged for is read off the values alone, whatever class they came in
    queries = [Query(query.clique, query.values) for query in queries]
    for query in queries:
        query.check(curator.domain)
    if not any(query.reach > 0 for query in queries):
        raise BudgetError("Every query is zero for every record: their answers are public.")
    cliques = list(dict.fromkeys(query.clique for query in queries))
    tables = dict(zip(cliques, curator._table.count_many(cliques), strict=True))
    grid = 1 if all(query.counting for query in queries) else GRID
    exact = [int((tables[query.clique] * (query.steps * grid // GRID)).sum()) for query in queries]
    return SealedAnswers(np.array(exact, dtype=np.int64), grid, queries, curator.unit)


def measure_answer(
    curator: Curator, sealed: SealedAnswers, which: int, *, noise: Noise, purpose: str
) -> float:
    """Release one answer with noise; charge first.

    Privacy
    -------
    In: private. Out: releasable. The answer is a whole number of parts of ``2**-20`` that neighbours move by at most
    ``sealed.sensitivity`` rows (head of this module). Noise of scale ``b`` rows is drawn in whole parts, with scale ``b 2**20``, so
    the ratio of sensitivity and scale is the one of the event.
    """
    require_seals([sealed], SealedAnswers)
    which, noise = int(which), own_noise(noise)
    event = noise.event(l1=sealed.sensitivity, l2=sealed.sensitivity)
    scaled = _on_grid(sealed, noise)
    parts = curator._answer(
        event,
        purpose=purpose,
        about=[which, sealed._grid, sealed.names([which])],
        draw=lambda: _noisy(curator, sealed, which, scaled),
    )
    return float(parts / sealed._grid)


def measure_answers(
    curator: Curator, sealed: SealedAnswers, which: Sequence[int], *, noise: Noise, purpose: str
) -> npt.NDArray[np.float64]:
    """Release several answers with independent noise of one scale; charge first, for all of them together.

    Privacy
    -------
    In: private. Out: releasable. The vector of answers, in whole parts, moves by at most :func:`joint_reach` in L1 and L2 (head of
    this module), and every component gets independent noise of the same scale: one Laplace or Gaussian mechanism. Queries that
    share a partition (the cells of a marginal) cost as much as one histogram, not as many queries.
    """
    require_seals([sealed], SealedAnswers)
    which, noise = [int(index) for index in which], own_noise(noise)
    if not which:
        return np.zeros(0)
    l1, l2 = joint_reach([sealed._queries[index] for index in which], sealed._unit)
    scaled = _on_grid(sealed, noise)
    parts = curator._answer(
        noise.event(l1=l1, l2=l2),
        purpose=purpose,
        about=[which, sealed._grid, sealed.names(which)],
        draw=lambda: [_noisy(curator, sealed, index, scaled) for index in which],
    )
    return np.array([part / sealed._grid for part in parts])


def draw_queries(
    curator: Curator,
    sealed: SealedAnswers,
    public: npt.ArrayLike,
    *,
    factor: float,
    epsilon: float,
    number: int,
    purpose: str,
) -> list[int]:
    """Draw queries, with their opposites, where a public table answers them worst; charge first, for all draws.

    The score of query ``i`` is ``factor * answer_i - public_i``, that of its opposite minus that. Each draw takes one of
    the ``2 len(sealed)`` with probability proportional to ``exp(epsilon score / (2 factor sensitivity))``, independently.

    Parameters
    ----------
    public
        One public number per query, in rows times ``factor``.
    factor
        A public number, positive: how many public records are compared with the table.
    epsilon
        Privacy parameter of one draw.
    number
        How many draws.

    Returns
    -------
    list of int
        Places; those from ``len(sealed)`` on are opposites.

    Privacy
    -------
    In: private. Out: the drawn places. One unit moves an answer by at most ``sealed.sensitivity`` (head of this module), so every
    score by at most ``factor`` times that, up or down. Each draw is the exponential mechanism, ``epsilon``-DP and
    ``epsilon``-bounded-range; the draws are independent given the table and compose. The factor and the public numbers are rounded to whole
    parts of ``2**-20`` first; scores are then whole numbers, rounded down once to such parts, and the sampler allows for one more.
    """
    require_seals([sealed], SealedAnswers)
    factor, epsilon, number = float(factor), float(epsilon), int(number)
    if not (math.isfinite(factor) and factor * GRID >= 1):
        raise BudgetError(f"The factor ({factor}) of sealed answers must be positive, at least 2**-20.")
    if not 1e-12 <= epsilon <= 1e6:
        raise BudgetError(f"A choice takes an epsilon from 1e-12 to 1e6; got {epsilon:g}.")
    if number < 1:
        return []
    event = SelectionEvent(epsilon)
    whole = round(Fraction(factor) * GRID)
    scores = sealed._differences(public, whole)
    sensitivity = float_up(whole * Fraction(sealed.sensitivity))
    both = np.concatenate([scores, -scores])
    found: list[int] = curator._answer(
        event if number == 1 else Composed((event,) * number),
        purpose=purpose,
        about=[len(scores), factor, sealed.names(range(len(sealed)))],
        draw=lambda: [
            exponential_mechanism(
                both,
                epsilon=epsilon,
                sensitivity=sensitivity,
                score_error=0.5,
                randomness=curator._randomness,
            )
            for _ in range(number)
        ],
    )
    return found


def choose_cells(
    curator: Curator,
    sealed: Sequence[SealedCounts],
    public: Sequence[npt.ArrayLike],
    *,
    epsilon: float,
    number: int,
    without: Sequence[tuple[int, int]] = (),
    purpose: str,
) -> list[tuple[int, int]]:
    """Choose single cells of several marginals where public tables are most wrong, none of them twice; charge each first.

    Parameters
    ----------
    sealed, public
        The marginals, and a public table of counts for each.
    epsilon
        Privacy parameter of one choice.
    number
        How many cells; fewer are chosen only if there are no more.
    without
        Cells that are not candidates, as they are returned.

    Returns
    -------
    list of tuple
        Which marginal, and which cell of it when it is laid out in one row.

    Privacy
    -------
    In: private. Out: the chosen places. The public counts are rounded to whole rows, so the score of a cell, ``|count - public|``, is a
    whole number. One unit moves a count by at most ``linf`` of its marginal (its rows all in one cell, in or out; a replaced
    unit leaves one cell and enters another, each by that much), and the score by no more. Each choice is the exponential
    mechanism over all cells that are left, with the largest ``linf`` as sensitivity: ``epsilon``-DP and ``epsilon``-bounded-range. What was
    chosen before is released, so leaving it out depends on released values alone, and choices compose.
    """
    sealed, epsilon, number = list(sealed), float(epsilon), int(number)
    without = [(int(table), int(cell)) for table, cell in without]
    require_seals(sealed, SealedCounts)
    if not sealed or len(sealed) != len(public):
        raise BudgetError(f"Need marginals and a public table for each; got {len(sealed)} and {len(public)}.")
    if not 1e-12 <= epsilon <= 1e6:
        raise BudgetError(f"A choice takes an epsilon from 1e-12 to 1e6; got {epsilon:g}.")
    tables = [np.asarray(table, dtype=np.float64) for table in public]
    for item, table in zip(sealed, tables, strict=True):
        if table.shape != item.shape or not (np.isfinite(table) & (np.abs(table) < 2.0**52)).all():
            raise BudgetError(f"The public counts for {item.clique} must be finite, of shape {item.shape}.")
    starts = np.concatenate([[0], np.cumsum([table.size for table in tables])])
    scores = np.concatenate(
        [
            np.abs(item._exact.astype(np.float64) - np.rint(table)).ravel()
            for item, table in zip(sealed, tables, strict=True)
        ]
    )
    if any(not (0 <= table < len(tables) and 0 <= cell < tables[table].size) for table, cell in without):
        raise BudgetError("A cell that is to be left out does not exist.")
    left = np.ones(len(scores), dtype=bool)
    left[[int(starts[table]) + cell for table, cell in without]] = False
    sensitivity = max(item.linf for item in sealed)
    named = [[item.clique, item.shape] for item in sealed]
    chosen = []
    for _ in range(min(number, int(left.sum()))):
        candidates = np.flatnonzero(left)
        place = curator._answer(
            SelectionEvent(epsilon),
            purpose=purpose,
            about=[len(candidates), sensitivity, named],
            draw=lambda: exponential_mechanism(
                scores[candidates],  # noqa: B023 (called at once)
                epsilon=epsilon,
                sensitivity=sensitivity,
                score_error=0.0,
                randomness=curator._randomness,
            ),
        )
        index = int(candidates[int(place)])
        left[index] = False
        which = int(np.searchsorted(starts, index, side="right")) - 1
        chosen.append((which, index - int(starts[which])))
    return chosen


def joint_reach(queries: Sequence[Query], unit: Unit) -> tuple[float, float]:
    """Return how far one unit can move the vector of answers, in L1 and in L2; from public facts alone.

    Examples
    --------
    >>> from understudy.marginals import cells_of_marginal
    >>> from understudy.schema import Domain
    >>> cells = cells_of_marginal(Domain(("a", "b"), (3, 4)), ("a", "b"))
    >>> joint_reach(cells, Unit.add_remove())
    (1.0, 1.0)
    >>> joint_reach(cells, Unit.replace_one())
    (2.0, 1.4142135623730951)
    """
    groups: dict[Clique, list[npt.NDArray[np.int64]]] = {}
    for query in queries:
        groups.setdefault(query.clique, []).append(query.steps.ravel())
    l1, square = 0, 0  # in whole parts, so exact
    for members in groups.values():
        table = np.stack(members)
        one, two = int(table.sum(axis=0).max()), int(np.square(table).sum(axis=0).max())
        if unit.relation == "replace-one":
            highest = table.max(axis=1)
            one = min(2 * one, int(highest.sum()))
            # two non-negative vectors: the cross term only shortens the difference
            two = min(2 * two, int(np.square(highest).sum()))
        l1 += one
        square += two
    k = unit.max_rows
    return float_up(Fraction(k * l1, GRID)), float_up(sqrt_up(Fraction(k * k * square, GRID * GRID), bits=53))


def _on_grid(sealed: SealedAnswers, noise: Noise) -> Noise:
    """Return noise in whole parts of the grid; a scale times a power of two is exact."""
    return type(noise)(noise.scale * sealed._grid)


def _noisy(curator: Curator, sealed: SealedAnswers, which: int, noise: Noise) -> int:
    """Return an answer with noise, in whole parts of the grid."""
    return int(sealed._exact[which]) + int(noise.draw((), curator._randomness))
