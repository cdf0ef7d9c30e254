"""Intervals from refits: the mechanism is run again, with noise drawn anew, on tables drawn from its own model.

**Noise.** Take the fitted model for the truth, draw a table from it, and fit the same mechanism with the same budget to that table. The difference
between what the refitted model answers and what the drawn table holds is an error of the whole estimation: noise, choices, shrinkage, all of it. Done a
few times this gives the deviation of any answer (a parametric bootstrap). It reads the model alone, so it costs no budget.

**Structure.** The drawn tables have no dependence that the model does not have, so a refit cannot miss one. Where the real table has more, real errors are larger
than those of refits, by a part that refits do not show. So refits are asked only about marginals that some measurement contains, and there the *measured answer* to the same question tells whether something is missing:
it has no bias. With ``d`` the model's answer less the measured one, ``E d² = bias² + variance``, and the mean of the same square over refits has the variance. By what ``d²`` exceeds that mean
the mean square of the error is enlarged; it is never made smaller. One such number is noisy and may hide a bias by chance, so the excess of all cells of the marginal together, with an equal part in each cell, counts where that is more. And where the marginal as a whole is farther from the measured counts than it should be by more than three deviations of that distance in refits, the
model is not near enough to the truth for refits to say anything, and they are not used.

The interval is the model's answer plus or minus a quantile of Student's t times the root of that mean square.

**Elsewhere.** Of a marginal that no measurement contains, or that the model gets wrong in that way, refits say too little, and the answer is the interval of :class:`~understudy.inference.uncertainty.Uncertainty`, with its basis. A paid certificate
does not help: it says how large the L1 error of a marginal is and not which cells it is in, and an error that is spread over cells by a law of random interactions, with a size that agrees with the certificate, covered
91 to 100 % of the questions on the table that the law was chosen on and 68 % of the large cells of triples on the next one (``docs/explanation/uncertainty.md``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from understudy.errors import WorkloadError
from understudy.inference.covers import Evidence, weighted_average
from understudy.inference.history import Answers
from understudy.inference.intervals import REAL_TABLE, Interval, clipped, counted_values
from understudy.inference.laws import require_beta
from understudy.inference.uncertainty import Cells, Uncertainty
from understudy.marginals import count_codes
from understudy.schema import Clique

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]
Function = Callable[[Array], npt.ArrayLike]

FEWEST = 5
"""Fewer refits tell too little about a deviation."""
_TOO_FAR = 3.0
"""A marginal is left to the measurements if it is so many deviations farther from them than in refits."""
_DRAWS = 50
"""Tables by which the effect of what is missing is computed."""
_KEPT = 32
"""Marginals whose answers are kept."""

BASIS = "refits"
"""The basis of intervals that rest on refits and on what was measured."""


@dataclass(frozen=True, eq=False)
class Refit:
    """One refit: a table drawn from a model, and what the mechanism made of it.

    Attributes
    ----------
    codes
        The drawn table.
    answers
        Counts of the model that was fitted to it.
    evidence
        What that fit measured.
    rows
        Rows of the drawn table and rows drawn from the refitted model, as frames.
    """

    codes: Mapping[str, npt.NDArray[Any]]
    answers: Answers
    evidence: Evidence
    rows: Callable[[], tuple[pd.DataFrame, pd.DataFrame]]


@dataclass(frozen=True, eq=False)
class _Seen:
    """One marginal: the model's counts and those measured; the counts of refits, of their tables, and measured by them where they did."""

    model: Array
    measured: Array
    refitted: tuple[Array, ...]
    drawn: tuple[Array, ...]
    measured_again: tuple[Array | None, ...]

    def errors(self, function: Function) -> Array:
        """Return what refits were wrong by."""
        pairs = zip(self.refitted, self.drawn, strict=True)
        return np.array([_apart(function, made, true) for made, true in pairs])

    def mean_square(self, function: Function) -> Array:
        """Return the mean square of the error of a function of the counts."""
        square: Array = np.square(self.errors(function)).mean(axis=0)
        return square + np.maximum(np.maximum(0.0, self.excess(function)), self.missing(function))

    def missing(self, function: Function) -> npt.ArrayLike:
        """Return the mean square that the excess of all cells together causes if each cell has an equal part of it, independently."""
        together = float(self.excess(lambda table: table).sum())
        if together <= 0:
            return 0.0
        each, generator = math.sqrt(together / self.model.size), np.random.default_rng(0)
        moved = [self.model + each * generator.normal(size=self.model.shape) for _ in range(_DRAWS)]
        return np.asarray(np.square([_apart(function, one, self.model) for one in moved]).mean(axis=0))

    def excess(self, function: Function) -> Array:
        """Return by how much the squared distance of the model's answer from the measured one is larger than in refits that measured it."""
        others = [
            _apart(function, made, measured)
            for made, measured in zip(self.refitted, self.measured_again, strict=True)
            if measured is not None
        ]
        usual = np.square(others).mean(axis=0) if others else 0.0
        return np.asarray(np.square(_apart(function, self.model, self.measured)) - usual)


def _apart(function: Function, one: Array, other: Array) -> Array:
    return np.asarray(function(one), dtype=np.float64) - np.asarray(function(other), dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Refits:
    """Intervals for what a model says of the table that was counted, from refits.

    `understudy.mechanisms.Model.refits` makes them. Every interval says in ``basis`` what it rests on: ``"refits"`` where a measurement contains the marginal and the model agrees with it, and otherwise the basis of
    the interval that the model itself gives: ``"bound"``, ``"measured"`` or ``"trivial"``.

    Parameters
    ----------
    uncertainty
        Of the model.
    refits
        At least five.
    table
        Which table was counted, in words.
    rows
        Draws rows of the model, for statistics of rows.
    """

    uncertainty: Uncertainty
    refits: tuple[Refit, ...]
    table: str = REAL_TABLE
    rows: Callable[[], pd.DataFrame] | None = None
    _seen: dict[Clique, _Seen | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if len(self.refits) < FEWEST:
            raise WorkloadError(
                f"{len(self.refits)} refits tell too little about a deviation; ask for at least {FEWEST}."
            )

    def __len__(self) -> int:
        return len(self.refits)

    def __repr__(self) -> str:
        return f"Refits({len(self.refits)}, of {self.table})"

    def covers(self, clique: Sequence[str]) -> bool:
        """Say whether refits speak of a marginal: a measurement contains it, and is not farther from the model than it should be. Otherwise the interval from measurements is given."""
        return self._at(self._evidence.domain.canonical(clique)) is not None

    def interval(self, clique: Sequence[str], *, confidence: float = 0.95) -> Interval:
        """Return an interval for every cell of a marginal."""
        ordered = self._evidence.domain.canonical(clique)
        found = self._counts(ordered, lambda table: table, confidence)
        return found or self._as_before(self.uncertainty.interval(ordered, confidence=confidence))

    def count_interval(self, clique: Sequence[str], cells: Cells, *, confidence: float = 0.95) -> Interval:
        """Return an interval for the number of rows in some cells of a marginal.

        Parameters
        ----------
        clique
            Columns, in any order.
        cells
            A mask, or tuples of codes, with one axis or code per column in the order of ``clique``.
        confidence
            Probability, over the noise, that the interval is meant to hold with.
        """
        ordered, mask = self.uncertainty.ordered_mask(clique, cells)
        found = self._counts(ordered, lambda table: table[mask].sum(), confidence)
        return found or self._as_before(self.uncertainty.count_interval(ordered, mask, confidence=confidence))

    def mean_interval(self, column: str, values: npt.ArrayLike, *, confidence: float = 0.95) -> Interval:
        """Return an interval for the mean of a column; ``values`` are what its codes stand for, NaN to leave a code out."""
        return self.mean_over((column,), values, confidence=confidence)

    def mean_over(
        self, clique: Sequence[str], values: npt.ArrayLike, *, confidence: float = 0.95
    ) -> Interval:
        """Return an interval for the mean over the rows in some cells of a marginal, such as those of a group.

        ``values`` has one axis per column, in the order of ``clique``: what the rows of a cell count for, NaN to leave them out. The mean of ones and zeros is a share.
        """
        ordered = self._evidence.domain.canonical(clique)
        given = np.asarray(values, dtype=np.float64)
        if given.ndim == len(ordered):
            given = given.transpose([list(clique).index(name) for name in ordered])
        counted, plain = counted_values(self._evidence, ordered, given)

        def mean(table: Array) -> float:
            rows = float(table[counted].sum())
            return float((plain * table)[counted].sum()) / rows if rows > 0 else math.nan

        found = self._spread(ordered, mean, confidence)
        if found is None or not np.isfinite(found.width).all():  # a group that some refit left without rows
            return self._as_before(self.uncertainty.mean_over(ordered, given, confidence=confidence))
        ends = float(plain[counted].min()), float(plain[counted].max())
        return replace(found, low=np.clip(found.low, *ends), high=np.clip(found.high, *ends))

    def statistic(self, clique: Sequence[str], function: Function, *, confidence: float = 0.95) -> Interval:
        """Return an interval for a smooth function of the counts over a marginal, such as a ratio of counts.

        ``function`` takes a table of counts, with the columns in the order of the schema, and returns a number or an array.

        Raises
        ------
        WorkloadError
            If refits do not speak of these columns (`covers`), or the function is not a number for some refit, or the same for all of them.
        """
        ordered = self._evidence.domain.canonical(clique)
        found = self._spread(ordered, function, confidence)
        if found is None:
            raise _refused(ordered)
        _require_moves(found.width)
        return found

    def of_rows(
        self,
        function: Callable[[pd.DataFrame], npt.ArrayLike],
        columns: Sequence[str],
        *,
        confidence: float = 0.95,
    ) -> Interval:
        """Return an interval for a statistic of rows that uses some columns, all of which one measurement contains.

        The estimate is that of rows drawn from the model. The interval is for the rows of the table that was counted, with values inside bins as the schema draws them.

        Parameters
        ----------
        function
            Takes a frame with these columns and returns a number or an array.
        columns
            The columns that it uses.
        confidence
            Probability, over the noise, that the interval is meant to hold with.

        Raises
        ------
        WorkloadError
            If refits do not speak of these columns (`covers`), or the statistic is not a number in some refit, or the same in all of them.
        """
        ordered = self._evidence.domain.canonical(columns)
        seen = self._at(ordered)
        if self.rows is None or seen is None:
            raise _refused(ordered)
        beta = require_beta(1 - confidence)
        wanted = list(columns)
        drawn = [refit.rows() for refit in self.refits]
        estimate = np.asarray(function(self.rows()[wanted]), dtype=np.float64)
        errors = np.array(
            [np.asarray(function(made[wanted])) - np.asarray(function(true[wanted])) for true, made in drawn],
            dtype=np.float64,
        )
        cells = float(np.square(seen.errors(lambda table: table)).mean(axis=0).sum())
        excess = max(0.0, float(seen.excess(lambda table: table).sum()))
        grown = 1 + (
            excess / cells if cells > 0 else 0.0
        )  # what is missing is in proportion, for want of a measured answer
        half = stdtrit(len(self.refits), 1 - beta / 2) * np.sqrt(grown * np.square(errors).mean(axis=0))
        _require_moves(2 * np.asarray(half))
        return Interval(estimate - half, estimate + half, estimate, confidence, BASIS, self.table)

    # ------------------------------------------------------------------ how it is done

    @property
    def _evidence(self) -> Evidence:
        return self.uncertainty.evidence

    def _as_before(self, found: Interval) -> Interval:
        return replace(found, table=self.table)

    def _counts(self, clique: Clique, function: Function, confidence: float) -> Interval | None:
        found = self._spread(clique, function, confidence)
        if found is None:
            return None
        inside = clipped(found.low, found.high, found.estimate, self._evidence.total, confidence, found.basis)
        return self._as_before(inside)

    def _spread(self, clique: Clique, function: Function, confidence: float) -> Interval | None:
        beta = require_beta(1 - confidence)
        seen = self._at(clique)
        if seen is None:
            return None
        estimate = np.asarray(function(seen.model), dtype=np.float64)
        half = stdtrit(len(self.refits), 1 - beta / 2) * np.sqrt(seen.mean_square(function))
        return Interval(estimate - half, estimate + half, estimate, confidence, BASIS, self.table)

    def _at(self, clique: Clique) -> _Seen | None:
        if clique not in self._seen:
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            self._seen[clique] = self._look_at(clique)
        return self._seen[clique]

    def _look_at(self, clique: Clique) -> _Seen | None:
        domain = self._evidence.domain
        measured = weighted_average(domain, self._evidence.measurements, clique)
        if measured is None:
            return None
        again = [weighted_average(domain, refit.evidence.measurements, clique) for refit in self.refits]
        seen = _Seen(
            model=self.uncertainty.answers([clique])[0],
            measured=measured[0],
            refitted=tuple(refit.answers([clique])[0] for refit in self.refits),
            drawn=tuple(count_codes(domain, refit.codes, clique).astype(np.float64) for refit in self.refits),
            measured_again=tuple(None if found is None else found[0] for found in again),
        )
        distances = [
            float(np.square(made - found[0]).sum()) / found[1] ** 2
            for made, found in zip(seen.refitted, again, strict=True)
            if found is not None
        ]
        real = float(np.square(seen.model - seen.measured).sum()) / measured[1] ** 2
        spread = max(float(np.std(distances)) if distances else 0.0, math.sqrt(2 * seen.model.size))
        usual = float(np.mean(distances)) if distances else 0.0
        return seen if real - usual <= _TOO_FAR * spread else None


def _refused(clique: Clique) -> WorkloadError:
    named = ", ".join(map(repr, clique))
    return WorkloadError(
        f"Refits cannot say how much of {named} the model misses: no measurement contains all of these columns, or the model is far from what was measured. Fit with a workload or a method that measures them together; "
        "count_interval and mean_interval give a valid interval in any case."
    )


def _require_moves(width: Array) -> None:
    """Refuse a statistic that is no number in some refit, or that moved in none."""
    if not np.isfinite(width).all():
        raise WorkloadError(
            "The statistic is not a finite number in every refit. Return something that is one for any table."
        )
    if not (width > 0).all():
        raise WorkloadError(
            "The statistic is the same in every refit and every table it was fitted to, so that refits say nothing about its error. One that moves in steps, such as the median of whole "
            "numbers, does that: ask for the counts that it follows from."
        )
