"""EFPA: a histogram from few noisy Fourier coefficients, their number chosen privately (Acs et al. 2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Reach, measure_numbers
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.histograms.bins import check_post_processing
from understudy.mechanisms.histograms.partitions.partition import Line, check_cells, line_of
from understudy.mechanisms.histograms.transforms.look import (
    contrasts,
    grid_step,
    linear_coefficients,
    linear_reach,
    tail_norms,
)
from understudy.mechanisms.options import one_of, refuse, shares
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit
from understudy.schema import Schema

Array = npt.NDArray[np.float64]

BASES = ("fourier", "cosine")


@dataclass(frozen=True, kw_only=True)
class EFPA(Synthesizer):
    """Keep the first few Fourier coefficients of a histogram, measure them, and transform back.

    Smooth histograms have their energy in low frequencies. Dropping high ones loses little and saves the noise they
    would have got. How many to keep is chosen by the exponential mechanism, whose score is minus the norm of
    what is dropped minus the expected norm of the noise. Where all are kept the counts themselves are measured,
    which say the same with less Laplace noise; the paper measures all coefficients.

    Parameters
    ----------
    basis
        ``"fourier"`` (default): sines and cosines of a periodic histogram, as in the paper. ``"cosine"``: the discrete
        cosine transform, for which the two ends of the column need not meet, at up to √2 times the noise.
    choice_share
        Share of the budget for choosing how many coefficients are kept; the paper takes one half.
    bins, max_bins, post_processing
        As for ``noise-first``.

    Privacy
    -------
    Two looks. (1) One choice. What is dropped has the norm ``|P c|_2`` of a projection of the counts, which one unit
    moves by at most ``histogram_l2``; the expected noise is public. (2) The kept coefficients, rounded to a grid: one row
    in cell ``x`` adds the column ``ψ(x)`` of the kept basis, so noise follows the largest column in L1 (Laplace) or L2
    (Gaussian), computed from the basis itself. For ``z`` of ``N`` coefficients that is about ``z / √N`` and ``√(z / N)``,
    where the paper uses ``√z`` and 1, the bounds for the whole transform: the same guarantee with ``√(z / N)`` times the noise.
    The rest is post-processing.

    Examples
    --------
    >>> EFPA(basis="cosine").name
    'efpa'
    """

    name: ClassVar[str] = "efpa"
    summary: ClassVar[str] = (
        "few noisy Fourier coefficients of one ordered column, their number chosen privately"
    )
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on Fourier coefficients; exponential mechanism for their number",
        papers={Paper.DIPS: "section 3.1.3"},
        origin="Acs, Castelluccia and Chen 2012; Rastogi and Nath 2010",
    )

    basis: str = "fourier"
    choice_share: float = 0.3
    bins: int | str = "schema"
    max_bins: int = 2_048
    post_processing: str = "simplex"

    def __post_init__(self) -> None:
        refuse(one_of(self, "basis", BASES), shares(self, "choice_share"))
        check_cells(self.bins, self.max_bins)
        check_post_processing(self.post_processing)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of all coefficients together, on average over how many the data may need.

        Whoever needs some coefficients may keep more of them where that has less noise: all of them are the counts themselves.
        """
        line = line_of(schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        matrix, kept = self._transform(line)
        noises = self._noises(matrix, kept, unit, accounting, self._costs(accounting, cost, kept)[1])
        totals = [total_deviation([look]) for look in zip(kept, noises, strict=True)]
        return float(np.minimum.accumulate(totals[::-1]).mean())

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy coefficients will be for the fewest and for all, or why the table cannot be served."""
        line = line_of(schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        matrix, kept = self._transform(line)
        accounting = self.accounting(budget, schema, unit)
        costs = self._costs(accounting, accounting.total(budget), kept)
        noises = self._noises(matrix, kept, unit, accounting, costs[1])
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(PlannedMeasurement(schema.domain.names, kept[-1], noises[-1]),),
            model_cells=line.cells,
            notes=(
                f"From {kept[0]} to {kept[-1]} coefficients are kept, chosen privately; each gets {noises[0].kind} noise of "
                f"scale {noises[0].scale:.4g} if the fewest are kept and {noises[-1].scale:.4g} if all are.",
            ),
        )

    def _transform(self, line: Line) -> tuple[Array, list[int]]:
        """Return an orthonormal basis, coarse rows first, and how many of its rows may be kept.

        Other and missing entries are coefficients of their own that are always kept.
        """
        apart = line.cells - line.ordered
        inner = cosine_basis(line.ordered) if self.basis == "cosine" else fourier_basis(line.ordered)
        matrix = np.zeros((line.cells, line.cells))
        matrix[:apart, line.ordered :] = np.eye(apart)
        matrix[apart:, : line.ordered] = inner
        step = 1 if self.basis == "cosine" else 2
        kept = list(range(1, line.ordered + 1, step))
        if kept[-1] != line.ordered:
            kept.append(line.ordered)
        return matrix, [apart + number for number in kept]

    @staticmethod
    def _rows(matrix: Array, number: int) -> Array:
        """Return the rows that are measured: where nothing is dropped, the counts themselves."""
        return matrix[:number] if number < len(matrix) else np.eye(len(matrix))

    def _costs(self, accounting: Accounting, total: float, kept: list[int]) -> tuple[float, float]:
        if len(kept) == 1:
            return 0.0, total
        choice, counts = accounting.split(total, [self.choice_share, 1 - self.choice_share])
        return choice, counts

    def _noises(
        self, matrix: Array, kept: list[int], unit: Unit, accounting: Accounting, cost: float
    ) -> list[Noise]:
        """Return the noise of a coefficient for each number of them, exact for add-remove and bounded otherwise."""
        l1 = np.abs(matrix).cumsum(axis=0).max(axis=1)
        l2 = np.sqrt(np.square(matrix).cumsum(axis=0).max(axis=1))
        l1[-1] = l2[-1] = 1.0
        return [
            Reach(unit.histogram_l1 * float(l1[number - 1]), unit.histogram_l1 * float(l2[number - 1])).noise(
                accounting, cost
            )
            for number in kept
        ]

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        line = line_of(curator.schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        matrix, kept = self._transform(line)
        accounting = curator.accounting
        choice, counts = self._costs(accounting, curator.remaining, kept)
        progress("counting", 0.1)
        sealed = line.grid.seal(curator)
        number = kept[0]
        if len(kept) > 1:
            progress("choosing", 0.4)
            noises = self._noises(matrix, kept, curator.unit, accounting, counts)
            scores = [
                lost.shifted(math.sqrt(many * noise.variance)).scaled(-1.0)
                for lost, many, noise in zip(tail_norms(sealed, matrix, kept), kept, noises, strict=True)
            ]
            chosen = curator.choose(
                scores,
                epsilon=accounting.selection_epsilon(choice),
                purpose=f"choose how many of {len(matrix)} coefficients to keep",
            )
            number = kept[chosen]
        progress("measuring", 0.6)
        basis = self._rows(matrix, number)
        step = grid_step(linear_reach(basis, curator.unit).noise(accounting, counts).scale)
        coefficients = linear_coefficients(
            sealed, basis, name=f"first {number} {self.basis} coefficients", step=step
        )
        (released,) = measure_numbers(
            curator,
            [coefficients],
            noise=[coefficients.reach.noise(accounting, curator.remaining)],
            purpose=f"measure {number} coefficients",
        )
        distribution = line.distribution(curator, basis.T @ released.values, how=self.post_processing)
        progress("done", 1.0)
        return Fitted(distribution, [], statistics=[released])


def fourier_basis(size: int) -> Array:
    """Return the real Fourier basis as orthonormal rows: the constant, then pairs of rising frequency.

    Examples
    --------
    >>> np.round(fourier_basis(3), 3)
    array([[ 0.577,  0.577,  0.577],
           [ 0.816, -0.408, -0.408],
           [ 0.   ,  0.707, -0.707]])
    """
    rows = np.vstack([np.ones((1, size)), contrasts(size)]) if size > 1 else np.ones((1, 1))
    basis: Array = rows / math.sqrt(size)
    return basis


def cosine_basis(size: int) -> Array:
    """Return the discrete cosine transform (the second kind) as orthonormal rows of rising frequency.

    Examples
    --------
    >>> np.round(cosine_basis(2), 3)
    array([[ 0.707,  0.707],
           [ 0.707, -0.707]])
    """
    frequency, place = np.arange(size)[:, None], np.arange(size)[None, :]
    basis: Array = np.cos(np.pi * frequency * (2 * place + 1) / (2 * size)) * math.sqrt(2 / size)
    basis[0] = 1 / math.sqrt(size)
    return basis
