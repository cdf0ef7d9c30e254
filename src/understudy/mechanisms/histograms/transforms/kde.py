"""A kernel density estimate with Gaussian-process noise (Hall, Rinaldo and Wasserman 2013; paper DIPS, section 3.1.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, measure_numbers
from understudy.errors import BudgetError, DomainTooLarge, SchemaError
from understudy.mechanisms.base import Fitted, Plan, PlannedMeasurement, Progress, Synthesizer
from understudy.mechanisms.histograms.bins import ORDERED, Grid, check_bins, large, legitimate, planned_grids
from understudy.mechanisms.histograms.transforms.look import (
    factor_steps,
    kernel_reach,
    kernel_sums,
    smoothing_error,
)
from understudy.mechanisms.options import at_least, refuse, shares, unused
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import GDP, ZCDP, Accounting, ApproxDP, Budget, Gaussian, Unit
from understudy.schema import Column, Schema

Array = npt.NDArray[np.float64]

_MAX_AXIS = 2_048
_MAX_ORDERED = 3


@dataclass(frozen=True, kw_only=True)
class KernelDensity(Synthesizer):
    """Release a kernel density estimate of up to three ordered columns with a Gaussian process added to it.

    Columns without order (categories, booleans) take part with a kernel that tells all their values apart: one
    density for each of their combinations.

    Parameters
    ----------
    bandwidth
        Standard deviation of the Gaussian kernel as a share of the range of each column, a public number.
        ``"private"`` (default): chosen among powers of one half by the exponential mechanism, with ``bandwidth_share``
        of the budget. Rules that compute it from the data (Scott's, Silverman's) are not private.
    bandwidth_share
        Share of the budget that a private bandwidth costs.
    bins
        The grid the density is kept on: ``"schema"`` (default) or a number of bins per ordered column. Distances
        are counted in bins.
    max_cells
        Largest grid.

    Privacy
    -------
    The proof is in :mod:`understudy.mechanisms.histograms.transforms.look`: on the grid the process is a linear image of independent noise
    on ``W c`` with ``W'W = K``, one row moves ``W c`` by at most 1 and a replaced one by at most ``sqrt(2)`` in L2
    (computed from the rounded ``W``), and the rounded Gaussian of the scale that the budget allows is exactly
    ``mu``-GDP. The bandwidth is public, or chosen by an exponential mechanism on the rows that smoothing and noise
    are expected to misplace. Pure budgets cannot be kept: the noise is Gaussian.

    Examples
    --------
    >>> KernelDensity(bandwidth=0.05).name
    'kde'
    """

    name: ClassVar[str] = "kde"
    summary: ClassVar[str] = "kernel density estimate with Gaussian-process noise"
    source: ClassVar[Source] = Source(
        law="Gaussian process on the density; exponential mechanism for a private bandwidth",
        papers={Paper.DIPS: "section 3.1.2"},
        origin="Hall, Rinaldo and Wasserman 2013",
    )
    budgets: ClassVar[tuple[type, ...]] = (ApproxDP, ZCDP, GDP)

    bandwidth: float | str = "private"
    bandwidth_share: float = 0.1
    bins: int | str = "schema"
    max_cells: int = 1_000_000

    def __post_init__(self) -> None:
        refuse(
            shares(self, "bandwidth_share"),
            at_least(self, 1, "max_cells"),
            []
            if self.bandwidth == "private"
            else unused(self, "bandwidth_share", because="bandwidth is not private"),
        )
        check_bins(self.bins)
        if self.bins == "private":
            raise BudgetError(
                "kde takes its grid from the schema or a number of bins; the bandwidth may be private."
            )
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "private":
                raise BudgetError(
                    f"bandwidth ({self.bandwidth!r}) must be a share of the range, or 'private'."
                )
        elif not (math.isfinite(self.bandwidth) and 0 < self.bandwidth <= 1):
            raise BudgetError(
                f"bandwidth ({self.bandwidth}) must be a share of the range, above 0 and at most 1."
            )

    # ------------------------------------------------------------------ public facts

    def _grid(self, schema: Schema) -> Grid:
        """Return the grid, or refuse a table this method cannot serve."""
        ordered = [column.name for column in schema.columns if column.kind in ORDERED]
        if not 1 <= len(ordered) <= _MAX_ORDERED:
            raise SchemaError(
                f"kde serves tables with one to {_MAX_ORDERED} ordered columns (ordinal, integer, real, date); this "
                f"schema has {len(ordered)}. Use a schema with fewer columns, or aim for many."
            )
        grid = planned_grids(schema, bins=self.bins, max_cells=self.max_cells, method=self.name)[0]
        widest = max(grid.coarse.sizes)
        if widest > _MAX_AXIS:
            raise DomainTooLarge(
                f"A column has {large(widest)} bins; kde takes at most {_MAX_AXIS:,}. Ask for fewer (option bins).",
                cells=widest,
                allowed=_MAX_AXIS,
            )
        return grid

    def _bandwidths(self, schema: Schema, grid: Grid) -> list[float]:
        """Return the bandwidths to choose from, widest first, as shares of the range."""
        if not isinstance(self.bandwidth, str):
            return [float(self.bandwidth)]
        most = max(
            size
            for size, column in zip(grid.coarse.sizes, schema.columns, strict=True)
            if column.kind in ORDERED
        )
        return [2.0**-power for power in range(2, max(3, math.ceil(math.log2(4 * most)) + 1))]

    def _design(
        self, candidates: Sequence[float], accounting: Accounting, total: float
    ) -> tuple[float, float]:
        """Return what choosing a bandwidth costs (zero where there is no choice), and what measuring does."""
        if len(candidates) == 1:
            return 0.0, total
        choosing, measuring = accounting.split(total, [self.bandwidth_share, 1 - self.bandwidth_share])
        return choosing, measuring

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy the density will be, or refuse."""
        self.require(budget)
        accounting = self.accounting(budget)
        grid = self._grid(schema)
        candidates = self._bandwidths(schema, grid)
        _, measuring = self._design(candidates, accounting, accounting.total(budget))
        noise = Gaussian(accounting.gaussian_sigma(measuring, unit.histogram_l2))
        effective = _effective_bins(kernels_of(schema, grid, candidates[0]))
        notes = [
            f"With bandwidth {candidates[0]:g} of the range the noise counts as that of {effective:,.0f} bins of "
            f"{large(grid.cells)}; narrower kernels have more."
        ]
        if len(candidates) > 1:
            notes.append(
                f"One of {len(candidates)} bandwidths will be chosen with {self.bandwidth_share:.0%} of the budget."
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(PlannedMeasurement(schema.domain.names, grid.cells, noise),),
            model_cells=grid.cells,
            notes=tuple(notes),
        )

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        grid = self._grid(curator.schema)
        accounting, unit = curator.accounting, curator.unit
        candidates = self._bandwidths(curator.schema, grid)
        choosing, measuring = self._design(candidates, accounting, curator.remaining)
        progress("counting", 0.1)
        counts = grid.seal(curator)
        place = 0
        if len(candidates) > 1:
            each = accounting.gaussian_sigma(measuring, unit.histogram_l2) * math.sqrt(2 / math.pi)
            scores = []
            for share in candidates:
                kernels = kernels_of(curator.schema, grid, share)
                error = smoothing_error(counts, [_smoother(kernel) for kernel in kernels])
                scores.append(error.shifted(each * _effective_bins(kernels)).scaled(-1.0))
            progress("choosing a bandwidth", 0.3)
            place = curator.choose(
                scores,
                epsilon=accounting.selection_epsilon(choosing),
                purpose=f"choose one of {len(candidates)} bandwidths",
            )
        kernels = kernels_of(curator.schema, grid, candidates[place])
        factors = factors_of(curator.schema, grid, candidates[place])
        steps = factor_steps(factors, accounting.gaussian_sigma(measuring, unit.histogram_l2))
        noise = Gaussian(accounting.gaussian_sigma(measuring, kernel_reach(factors, steps, unit).l2))
        progress("measuring", 0.5)
        name = f"kernel sums of {large(grid.cells)} bins, bandwidth {candidates[place]:g} of the range"
        sealed = kernel_sums(counts, factors, steps, name=name)
        (released,) = measure_numbers(curator, [sealed], noise=[noise], purpose=f"measure {name}")
        progress("post-processing", 0.8)
        density = estimate(released.values, factors, steps, kernels)
        cells = legitimate(density, curator.rows.number, how="simplex")
        progress("done", 1.0)
        return Fitted(grid.distribution(cells), (), statistics=[released])


def kernels_of(schema: Schema, grid: Grid, share: float) -> list[Array]:
    """Return the kernel matrix of every column: Gaussian among ordered bins, the identity among others."""
    return [
        _kernel(column, size, share) for column, size in zip(schema.columns, grid.coarse.sizes, strict=True)
    ]


def _kernel(column: Column, size: int, share: float) -> Array:
    """Return one kernel matrix; codes of other and missing entries are near to nothing."""
    kernel: Array = np.eye(size)
    values = _values(column, size)
    steps = np.subtract.outer(np.arange(values), np.arange(values)) / (share * max(1, values))
    kernel[:values, :values] = np.exp(-0.5 * np.square(steps))
    return kernel


def _values(column: Column, size: int) -> int:
    """Return how many of the bins of a column have neighbours."""
    return size - (column.size - column.value_count) if column.kind in ORDERED else 0


def factors_of(schema: Schema, grid: Grid, share: float) -> list[Array]:
    """Return, for every column, a matrix ``W`` with ``W'W`` equal to its kernel, up to rounding."""
    return [
        _factor(column, size, share) for column, size in zip(schema.columns, grid.coarse.sizes, strict=True)
    ]


def _factor(column: Column, size: int, share: float) -> Array:
    """Return the factor of one kernel.

    A wide Gaussian kernel is the overlap of two Gaussians narrower by the square root of two, summed over whole
    numbers: for a width ``h`` of at least two bins the sum differs from the integral by a factor within
    ``1 ± 2 exp(-pi² h² / 2)``, less than ``1e-8``. Narrower kernels are far from singular: Cholesky.
    """
    values = _values(column, size)
    width = share * values
    if values < 2:
        return np.eye(size)
    if width < 2.0:
        return np.asarray(np.linalg.cholesky(_kernel(column, size, share) + 1e-8 * np.eye(size)).T)
    ends = math.ceil(5.0 * width)
    apart = np.subtract.outer(np.arange(-ends, values + ends), np.arange(values)) / width
    overlap = np.exp(-np.square(apart)) * (2.0 / math.pi) ** 0.25 / math.sqrt(width)
    factor: Array = np.zeros((len(overlap) + size - values, size))
    factor[: len(overlap), :values] = overlap
    factor[len(overlap) :, values:] = np.eye(size - values)
    return factor


def _smoother(kernel: Array) -> Array:
    """Divide each row by its sum: a weighted mean of counts near each bin, also at the ends of the range."""
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


def _effective_bins(kernels: Sequence[Array]) -> float:
    """Return the sum over bins of one over the kernel's mass there: the noise of the estimate in L1, per unit."""
    return math.prod(float((1.0 / kernel.sum(axis=1)).sum()) for kernel in kernels)


def estimate(
    released: Array, factors: Sequence[Array], steps: Sequence[float], kernels: Sequence[Array]
) -> Array:
    """Turn released sums into expected counts: ``W'y``, divided by the kernel's mass at each bin.

    The division corrects the loss of mass beyond the ends of the range (Jones 1993).
    """
    density = released.reshape([len(factor) for factor in factors])
    for axis, (factor, step) in enumerate(zip(factors, steps, strict=True)):
        rounded = np.rint(factor / step) * step
        density = np.moveaxis(np.tensordot(rounded.T, density, axes=(1, axis)), 0, axis)
    masses = [kernel.sum(axis=1) for kernel in kernels]
    return np.asarray(density / reduce(np.multiply.outer, masses), dtype=np.float64)
