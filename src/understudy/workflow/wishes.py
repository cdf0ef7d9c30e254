"""Wishes about errors, such as "pairs within 2 %", and the epsilon that reaches them, found by rehearsing fits. No record is read."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.errors import UsageError
from understudy.mechanisms import Progress, no_progress
from understudy.privacy import ApproxDP, Budget, PureDP
from understudy.workflow.rehearsing import DEPENDENCES, MIDDLE, ExpectedErrors, Rehearsal

__all__ = ["MOST_SECONDS", "Answer", "Wish", "answer"]

LARGEST_EPSILON = 100.0
MOST_SECONDS = 300.0
"""CPU time of a rehearsal, beyond its first fit."""
_SMALLEST_EPSILON = 1e-3
_BEYOND = 1.2
_MOST_FITS = 7
"""Fits to one table in search of an epsilon, at most."""


@dataclass(frozen=True)
class Wish:
    """What is wanted of a stand-in: an average error of columns, pairs or triples, or of cells of a size.

    Attributes
    ----------
    kind
        ``columns``, ``pairs`` or ``triples``.
    within
        The error, as a share.
    cell
        The number of rows of the cells that are meant; None for the average error of marginals.
    """

    kind: str
    within: float
    cell: int | None = None

    _FORMS = 'Write "pairs within 2 %" (also columns, triples), or "cell of 500 rows within 10 %" (also: cell of 500 rows in triples within 10 %).'

    @classmethod
    def parse(cls, text: str) -> Wish:
        """Read a wish.

        Examples
        --------
        >>> Wish.parse("pairs within 2 %")
        Wish(kind='pairs', within=0.02, cell=None)
        >>> Wish.parse("cell of 500 rows in columns within 10%").cell
        500
        >>> Wish.parse("pairs within 2")
        Traceback (most recent call last):
        ...
        understudy.errors.UsageError: The wish 'pairs within 2' is not understood: a number without % is not an error. Write "pairs within 2 %" (also columns, triples), or "cell of 500 rows within 10 %" (also: cell of 500 rows in triples within 10 %).
        """

        def refuse(why: str) -> UsageError:
            return UsageError(f"The wish {text!r} is not understood: {why}. {cls._FORMS}")

        words = " ".join(text.lower().split())
        found = re.fullmatch(
            r"(?:(columns|pairs|triples)|cells? of ([\d,_]+)(?: rows?)?(?: in (columns|pairs|triples))?) within ([\d.]+) ?(%?)",
            words,
        )
        if found is None:
            raise refuse("it is neither about marginals nor about cells")
        kind, rows, of, number, percent = found.groups()
        if not percent:
            raise refuse("a number without % is not an error")
        try:
            within = float(number) / 100
        except ValueError:
            raise refuse(f"{number!r} is not a number") from None
        if not 0 < within < 1:
            raise refuse("an error lies between 0 % and 100 %")
        if kind is not None:
            return cls(kind, within)
        cell = int(rows.replace(",", "").replace("_", "") or 0)
        if cell < 1:
            raise refuse("a cell has at least one row")
        return cls(of or "pairs", within, cell)

    def describe(self) -> str:
        """Return the wish in words."""
        if self.cell is None:
            return f"{self.kind} within {100 * self.within:.3g} %"
        return f"cells of {self.cell:,} rows in {self.kind} within {100 * self.within:.3g} %"

    def of(self, errors: ExpectedErrors) -> float:
        """Return the error that the wish is about."""
        if self.cell is not None:
            if self.cell > errors.rows:
                raise UsageError(
                    f"A cell of {self.cell:,} rows is larger than the table of {errors.rows:,} rows."
                )
            return (
                errors.cells[self.kind].at(self.cell / errors.rows) if self.kind in errors.cells else math.inf
            )
        found = errors.of(self.kind)
        if found is None:
            raise UsageError(f"The table has too few columns for {self.kind}.")
        return found.middle


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Which epsilon reaches a wish.

    Attributes
    ----------
    wish
        What was wanted.
    epsilon, delta
        The budget that reaches it on made-up tables; ``epsilon`` is None if none up to 100 does.
    error
        The error that is expected there, or at the largest epsilon tried.
    tried
        Every epsilon that was rehearsed, with its error on the table of middling dependence.
    likely
        Between what the error lies there on nine of ten tables; None for a wish about cells.
    """

    wish: Wish
    epsilon: float | None
    delta: float | None
    error: float
    tried: tuple[tuple[float, float], ...]
    likely: tuple[float, float] | None = None

    def describe(self) -> str:
        """Say it in a sentence or two."""
        delta = "" if self.delta is None else f" with a delta of {self.delta:g}"
        if self.epsilon is not None:
            between = (
                ""
                if self.likely is None
                else f", on nine of ten tables from {percent(self.likely[0])} to {percent(self.likely[1])}"
            )
            return f"{_capital(self.wish.describe())}: an epsilon of about {self.epsilon:.2g}{delta} (expected error {percent(self.error)}{between})."
        largest = max(epsilon for epsilon, _ in self.tried)
        return (
            f"{_capital(self.wish.describe())}: no epsilon below {LARGEST_EPSILON:g}{delta} reaches it. At {largest:.3g} the expected error is "
            f"{percent(self.error)}: what is left comes from what the method cannot model and from drawing whole rows, not from noise. Use another method "
            "(understudy methods), coarser bins, a workload of what matters, or more rows."
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def percent(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 0.995 else f"{100 * value:.0f} %"


def with_epsilon(epsilon: float, delta: float | None) -> Budget:
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


def answer(
    rehearsal: Rehearsal,
    wish: Wish,
    *,
    delta: float | None = None,
    start: float = 1.0,
    most_seconds: float = MOST_SECONDS,
    progress: Progress = no_progress,
) -> Answer:
    """Find the smallest epsilon that reaches a wish on made-up tables.

    Errors fall with epsilon, in expectation. The search goes along the table of middling dependence, by the line through the nearest
    two points on logarithmic scales; what the other tables differ by is taken into account at its start and at its end, unless a fit takes long. No
    further fit is begun after ``most_seconds`` of CPU time, but two are made.
    """
    begun = time.process_time()
    seen: dict[float, float] = {}

    def error(epsilon: float, dependences: Sequence[float] = (MIDDLE,)) -> float:
        return wish.of(rehearsal.at(with_epsilon(epsilon, delta), dependences))

    def one(epsilon: float) -> float:
        progress(f"trying an epsilon of {epsilon:.3g}", len(seen) / (_MOST_FITS + 1))
        seen[epsilon] = max(error(epsilon), 1e-9)
        return seen[epsilon]

    def likely(epsilon: float, expected: float) -> tuple[float, float] | None:
        """Return the range about an expected error, as at an epsilon that was rehearsed."""
        if wish.cell is not None:
            return None
        errors = rehearsal.at(with_epsilon(epsilon, delta), tables)
        middle, limits = errors.of(wish.kind), errors.likely(wish.kind)
        if middle is None or limits is None:
            return None
        return limits[0] * expected / middle.middle, min(1.0, limits[1] * expected / middle.middle)

    start = min(LARGEST_EPSILON, max(_SMALLEST_EPSILON, start))
    first = one(start)
    quick = (_MOST_FITS + len(DEPENDENCES)) * (time.process_time() - begun) < most_seconds
    tables = DEPENDENCES if quick else (MIDDLE,)
    ratio = max(error(start, tables), 1e-9) / first
    target = wish.within / ratio
    while len(seen) < _MOST_FITS:
        if len(seen) > 1 and time.process_time() - begun > most_seconds:
            break
        guess = _guess(seen, target)
        if guess is None or any(abs(math.log(guess / known)) < 0.08 for known in seen):
            break
        one(guess)
    best = _crossing(seen, target)
    tried = tuple(sorted(seen.items()))
    if best is None:  # all are larger, if only by a little
        largest = max(seen)
        best = largest * (seen[largest] / target) ** (1 / _slope(seen, largest))
        if best > LARGEST_EPSILON:
            return Answer(wish=wish, epsilon=None, delta=delta, error=ratio * seen[largest], tried=tried)
    if not quick:
        around = likely(min(seen, key=lambda epsilon: abs(math.log(epsilon / best))), wish.within)
        return Answer(wish=wish, epsilon=best, delta=delta, error=wish.within, tried=tried, likely=around)
    progress("checking on all tables", _MOST_FITS / (_MOST_FITS + 1))
    reached = max(error(best, tables), 1e-9)
    slope = _slope(seen, best)
    final = best * (reached / wish.within) ** (1 / slope)
    final = min(LARGEST_EPSILON, max(_SMALLEST_EPSILON, min(3 * best, max(best / 3, final))))
    expected = reached * (final / best) ** -slope
    around = likely(best, expected)
    return Answer(wish=wish, epsilon=final, delta=delta, error=expected, tried=tried, likely=around)


def _slope(seen: Mapping[float, float], near: float) -> float:
    """Return how steeply errors fall about an epsilon, on logarithmic scales: from .2 to 1.5."""
    points = sorted(seen, key=lambda epsilon: abs(math.log(epsilon / near)))[:2]
    if len(points) < 2:
        return 0.7
    low, high = sorted(points)
    fall = math.log(seen[low] / seen[high]) / math.log(high / low)
    return min(1.5, max(0.2, fall))


def _guess(seen: Mapping[float, float], target: float) -> float | None:
    """Return the epsilon to try next; None if the ends are reached."""
    best = _crossing(seen, target)
    if best is not None and len(seen) > 1 and min(seen) < best < max(seen):
        return best
    edge = max(seen) if min(seen.values()) > target else min(seen)
    step = (seen[edge] / target) ** (1 / _slope(seen, edge))
    step *= _BEYOND if step > 1 else 1 / _BEYOND  # a little too far, so that the wish lies between two points
    guess = min(LARGEST_EPSILON, max(_SMALLEST_EPSILON, edge * min(12.0, max(1 / 12, step))))
    return None if guess == edge else guess


def _crossing(seen: Mapping[float, float], target: float) -> float | None:
    """Return where errors cross the target, on the line between the nearest two points; None if all are larger."""
    ordered = sorted(seen)
    falling = np.minimum.accumulate([seen[epsilon] for epsilon in ordered])
    if falling[-1] > target:
        return None
    place = int(np.argmax(falling <= target))
    if place == 0:
        return ordered[0]
    low, high = ordered[place - 1], ordered[place]
    above, below = math.log(falling[place - 1] / target), math.log(max(falling[place], 1e-12) / target)
    return float(math.exp(math.log(low) + (math.log(high) - math.log(low)) * above / (above - below)))
