"""Fourier: consistent k-way tables from noisy Fourier coefficients (Barak et al. 2007).

Which Fourier coefficients k-way tables need, how precisely, and the way back to tables. Post-processing only.

A table over the columns ``T`` with ``D`` cells is ``(1 / D) sum_S ψ_S' f_S`` over the subsets ``S`` of ``T``, where ``f_S`` are
the coefficients of the interaction of ``S`` (:func:`understudy.mechanisms.histograms.transforms.look.interaction_basis`). Tables that share columns share
coefficients, so tables computed from one set of noisy coefficients agree with each other exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.curator import Curator, Reach, measure_numbers
from understudy.engine import DenseTable, Distribution, estimate
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement, Statistic, Workload, downward_closure
from understudy.mechanisms.allocation import total_is_public, workload_for
from understudy.mechanisms.base import Fitted, Plan, PlannedMeasurement, Progress, Synthesizer, support_of
from understudy.mechanisms.histograms.bins import large, schema_grid
from understudy.mechanisms.histograms.partitions.partition import possible_cells
from understudy.mechanisms.histograms.transforms.look import (
    contrasts,
    fourier_coefficients,
    fourier_reach,
    grid_step,
    interaction_basis,
)
from understudy.mechanisms.options import at_least, one_of, positive, refuse
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Clique, Domain, Schema

Array = npt.NDArray[np.float64]

_SMOOTHINGS = 14
"""How often the weight of the entropy is divided by three on the way to the optimal face."""
_NEARLY = 1e-3
"""Tables whose objective is this close to the best, as a share of it, count as optimal."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The interactions that a workload needs, with the weight each is measured with.

    Attributes
    ----------
    parts
        Sets of columns, downward closed; the empty set, if there, comes first.
    weights
        Coefficients of a part are multiplied by its weight before noise is added: a larger weight, less noise.

    Examples
    --------
    >>> from understudy.marginals import all_kway
    >>> domain = Domain(("a", "b"), (2, 3))
    >>> design = coefficients_for(all_kway(domain, 1), total=True, norm="l2", allocation="uniform")
    >>> design.parts, design.numbers
    (((), ('a',), ('b',)), (1, 1, 2))
    """

    domain: Domain
    parts: tuple[Clique, ...]
    weights: tuple[float, ...]

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """How many coefficients each part has."""
        return tuple(_degrees(self.domain, part) for part in self.parts)

    def reach(self, unit: Unit, *, step: float | None = None) -> Reach:
        """Return how far one unit moves all weighted coefficients together."""
        if step is None:
            return fourier_reach(self.domain, self.parts, self.weights, unit)
        return fourier_reach(self.domain, self.parts, self.weights, unit, step=step)

    def pieces(self, values: Array) -> dict[Clique, Array]:
        """Cut the released vector into parts, with the weights divided out."""
        ends = np.cumsum(self.numbers)[:-1]
        split = np.split(values, ends)
        return {
            part: piece / weight for part, piece, weight in zip(self.parts, split, self.weights, strict=True)
        }

    def table(self, clique: Clique, pieces: dict[Clique, Array], total: float | None) -> Array:
        """Return the table of some columns from (noisy) coefficients; cells may be negative."""
        shape = self.domain.shape(clique)
        made = np.zeros(shape)
        for part in [(), *downward_closure(self.domain, [clique])]:
            if not part and total is not None:
                made += total
                continue
            flat = interaction_basis(self.domain, part).T @ pieces[part]
            made += flat.reshape([n if name in part else 1 for name, n in zip(clique, shape, strict=True)])
        return made / max(1, math.prod(shape))

    def cell_variance(self, clique: Clique, variance: float) -> float:
        """Return the variance of a cell of a table whose weighted coefficients have this variance each."""
        inside = set(clique)
        spread = sum(
            number / weight**2
            for part, number, weight in zip(self.parts, self.numbers, self.weights, strict=True)
            if set(part) <= inside
        )
        return variance * spread / self.domain.cells(clique) ** 2

    def matrix(self) -> Array:
        """Return the weighted coefficients of every cell of the whole table: one column per cell."""
        names, sizes = self.domain.names, self.domain.sizes
        codes = np.unravel_index(np.arange(self.domain.cells()), sizes)
        rows = []
        for part, weight in zip(self.parts, self.weights, strict=True):
            if not part:
                rows.append(np.full((1, self.domain.cells()), weight))
                continue
            own = [codes[names.index(name)] for name in part]
            place = np.ravel_multi_index(own, self.domain.shape(part))
            rows.append(weight * interaction_basis(self.domain, part)[:, place])
        return np.concatenate(rows)


def coefficients_for(workload: Workload, *, total: bool, norm: str, allocation: str) -> Coefficients:
    """Return the coefficients that the tables of a workload need.

    Parameters
    ----------
    workload
        The tables that matter.
    total
        Whether the number of rows must be measured too.
    norm
        ``"l1"`` if Laplace noise will be added, ``"l2"`` for Gaussian noise.
    allocation
        ``"uniform"``: the same noise for every coefficient (Barak et al.). ``"optimal"``: weights that minimise the
        expected squared error of the tables. A coefficient of part ``S`` adds its squared noise over ``D_T`` to the
        error of each table ``T`` that contains ``S``, so part ``S`` has ``c_S = p_S sum_T 1 / D_T`` per unit of variance. Adding
        a row moves its weighted coefficients by ``w_S a_S`` in L1 and ``w_S √p_S`` in L2. Minimising ``sum c_S / w_S²``
        for a given norm of the whole gives ``w_S`` proportional to ``(c_S / a_S)^(1/3)`` and ``(c_S / p_S)^(1/4)``.
    """
    domain = workload.domain
    wanted = [(clique, weight) for clique, weight in workload if weight > 0 and clique]
    parts: list[Clique] = [()] if total else []
    parts += downward_closure(domain, [clique for clique, _ in wanted])
    if not parts:
        raise BudgetError(
            "The workload needs no coefficient: it names no columns and the number of rows is public."
        )
    if allocation == "uniform":
        return Coefficients(domain, tuple(parts), (1.0,) * len(parts))
    tallest = {name: float(np.abs(contrasts(domain.size(name))).sum(axis=0).max()) for name in domain.names}
    weights = []
    for part in parts:
        inside = sum(w / domain.cells(clique) for clique, w in wanted if set(part) <= set(clique))
        degrees = _degrees(domain, part)
        moved = math.prod(tallest[name] for name in part) if norm == "l1" else float(degrees)
        power = 1 / 3 if norm == "l1" else 1 / 4
        # a column of one value has no contrasts: its parts are empty and their weight does not matter
        weights.append((degrees * inside / moved) ** power if degrees and inside else 1.0)
    largest = max(weights)
    return Coefficients(domain, tuple(parts), tuple(weight / largest for weight in weights))


def _degrees(domain: Domain, part: Clique) -> int:
    return math.prod(domain.size(name) - 1 for name in part)


def closest_table(
    matrix: Array,
    values: Array,
    *,
    allowed: npt.NDArray[np.bool_],
    total: float | None,
    objective: str,
) -> Array | None:
    """Return a non-negative table whose weighted coefficients are as close to noisy ones as possible.

    By linear programming. The cells that are not allowed stay empty, and the table has the given total, if any.

    Parameters
    ----------
    matrix, values
        Weighted coefficients of each cell, and the noisy ones.
    objective
        ``"largest"``: the smallest possible largest difference (Barak et al.). The true table is a candidate, so the
        difference is at most the largest noise. ``"total"``: the smallest sum of differences, which is maximum
        likelihood under Laplace noise.

    Returns
    -------
    array or None
        Counts of all cells; ``None`` if the solver gave up.

    Examples
    --------
    >>> found = closest_table(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([4.0, 6.0]),
    ...                       allowed=np.array([True, True]), total=None, objective="largest")
    >>> found.round(6)
    array([5., 0.])
    """
    from scipy.optimize import linprog

    inside = np.flatnonzero(allowed.ravel())
    used = matrix[:, inside]
    rows, cells = used.shape
    if objective == "largest":
        slack = np.ones((rows, 1))
        sums = np.append(np.ones(cells), 0.0)[None, :]
        found = linprog(
            np.append(np.zeros(cells), 1.0),
            A_ub=np.block([[used, -slack], [-used, -slack]]),
            b_ub=np.concatenate([values, -values]),
            A_eq=None if total is None else sums,
            b_eq=None if total is None else np.array([total]),
            method="highs",
        )
    else:
        exact = np.hstack([used, -np.eye(rows), np.eye(rows)])
        sums = np.append(np.ones(cells), np.zeros(2 * rows))[None, :]
        found = linprog(
            np.append(np.zeros(cells), np.ones(2 * rows)),
            A_eq=exact if total is None else np.vstack([exact, sums]),
            b_eq=values if total is None else np.append(values, total),
            method="highs",
        )
    if found.status != 0 or found.x is None:
        return None
    table = np.zeros(allowed.size)
    table[inside] = np.maximum(found.x[:cells], 0.0)
    return table


def spread_table(
    matrix: Array,
    values: Array,
    *,
    allowed: npt.NDArray[np.bool_],
    total: float | None,
    objective: str,
) -> Array | None:
    """Return the table of maximum entropy among those of :func:`closest_table`, to a thousandth of the objective.

    A linear programme returns a corner of its optimal face: a table with as many empty cells as can be, which says much about
    interactions that nobody measured. The most spread-out table of the face says nothing about them.

    Tables ``x`` with the given total that minimise ``objective + tau sum x ln x`` tend to it as ``tau`` falls to zero. Their dual is
    smooth: with ``x = total softmax(A'y / tau)`` it is ``y v - tau total ln sum exp(A'y / tau)``, for ``|y| <= 1`` in the maximum norm where the
    objective is a sum of differences. Without the logarithm's smoothing the same ``y`` bounds the objective from below, which says when to stop.
    For the largest difference ``t`` the linear programme gives ``t``, and entropy is maximised where no difference exceeds it.

    Examples
    --------
    >>> matrix = np.array([[1.0, 1.0, -1.0, -1.0]])  # cells of two columns; only the first column is measured
    >>> everything = np.ones((2, 2), dtype=bool)
    >>> spread_table(matrix, np.array([4.0]), allowed=everything, total=8.0, objective="total").round(2)
    array([3., 3., 1., 1.])
    >>> closest_table(matrix, np.array([4.0]), allowed=everything, total=8.0, objective="total").round(2)
    array([6., 0., 2., 0.])
    """
    corner = None
    if objective == "largest" or total is None:
        corner = closest_table(matrix, values, allowed=allowed, total=total, objective=objective)
        if corner is None or not corner.any():
            return corner
    inside = np.flatnonzero(allowed.ravel())
    used = matrix[:, inside]
    table = np.zeros(allowed.size)
    with threadpool_limits(1):  # the matrices are small
        if corner is None:
            assert total is not None
            table[inside] = _spread_total(used, values, total)
        else:
            limit = float(np.abs(used @ corner[inside] - values).max())
            table[inside] = _spread_largest(used, values, float(corner.sum()), limit)
    return table


def _shares(scores: Array) -> tuple[Array, float]:
    """Return the softmax of scores and the logarithm of the sum of their exponentials."""
    highest = float(scores.max())
    weights = np.exp(scores - highest)
    whole = float(weights.sum())
    return weights / whole, highest + math.log(whole)


def _spread_total(used: Array, values: Array, total: float) -> Array:
    """Return the spread-out table with the smallest sum of differences."""
    from scipy.optimize import minimize

    y = np.zeros(len(used))
    best, table = math.inf, np.full(used.shape[1], total / used.shape[1])
    bound = -math.inf
    tau = 1.0
    for _ in range(_SMOOTHINGS):

        def dual(y: Array, tau: float = tau) -> tuple[float, Array]:
            shares, log_sum = _shares(used.T @ y / tau)
            return tau * total * log_sum - float(y @ values), total * (used @ shares) - values

        y = minimize(
            dual,
            y,
            jac=True,
            method="L-BFGS-B",
            bounds=[(-1.0, 1.0)] * len(y),
            options={"maxiter": 300, "ftol": 1e-11, "gtol": 1e-7 * total},
        ).x
        scores = used.T @ y
        made = total * _shares(scores / tau)[0]
        error = float(np.abs(used @ made - values).sum())
        bound = max(bound, float(y @ values) - total * float(scores.max()))
        if error < best:
            best, table = error, made
        if best <= 1e-5 * total or best - bound <= _NEARLY * best:
            break
        tau /= 3.0
    return table


def _spread_largest(used: Array, values: Array, total: float, limit: float) -> Array:
    """Return the spread-out table none of whose differences exceeds a limit, up to a thousandth."""
    from scipy.optimize import minimize

    rows = len(used)
    allowed = limit * (1 + _NEARLY) + 1e-9 * total

    def dual(both: Array) -> tuple[float, Array]:
        y = both[:rows] - both[rows:]
        shares, log_sum = _shares(used.T @ y)
        slope = total * (used @ shares) - values
        value = total * log_sum - float(y @ values) + allowed * float(both.sum())
        return value, np.concatenate([slope + allowed, allowed - slope])

    found = minimize(
        dual,
        np.zeros(2 * rows),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * (2 * rows),
        options={"maxiter": 3_000, "maxfun": 10_000, "ftol": 1e-13, "gtol": 1e-9 * total},
    )
    return np.asarray(total * _shares(used.T @ (found.x[:rows] - found.x[rows:]))[0])


def maximal(cliques: Sequence[Clique]) -> list[Clique]:
    """Return the cliques that no other one contains."""
    sets = [set(clique) for clique in cliques]
    return [
        clique for clique, own in zip(cliques, sets, strict=True) if not any(own < other for other in sets)
    ]


ALLOCATIONS = ("optimal", "uniform")
OBJECTIVES = ("total", "largest")
SOLUTIONS = {"maximum-entropy": spread_table, "vertex": closest_table}


@dataclass(frozen=True, kw_only=True)
class Fourier(Synthesizer):
    """Measure the Fourier coefficients that all k-way tables need, and find one table that fits them.

    A k-way table is determined by the coefficients of its columns and their subsets. Measuring each coefficient once,
    instead of every table, keeps all tables consistent, and binary columns need few of them. Columns with more than two
    values use the real Fourier basis over their codes, which for two values is that of Walsh and Hadamard. A linear
    programme then finds a table without negative cells whose coefficients are as close as possible to the
    noisy ones; all k-way tables of the result are consistent because they belong to one table.

    Parameters
    ----------
    k
        Tables of how many columns are wanted; all of them.
    workload
        The tables that are wanted, if not all of ``k`` columns.
    allocation
        How noise is divided: ``"optimal"`` (default) minimises the expected squared error of the tables, ``"uniform"``
        gives every coefficient the same noise, as in the paper.
    objective
        What the linear programme minimises: ``"total"`` (default), the sum of all differences between coefficients, for
        the noisy number of rows, or ``"largest"``, the largest difference, as in the paper.
    solution
        Which of the tables that are equally close to the noisy coefficients: ``"maximum-entropy"`` (default), the most spread-out
        one, or ``"vertex"``, whichever a linear programme returns, as in the paper.
    max_programme
        Largest linear programme, in coefficients times cells. Beyond it the tables implied by the coefficients are made
        non-negative and consistent by the engine, without enumerating the cells of the whole table.
    max_model_mb
        Largest graphical model in that case; beyond it tables are only made to agree with each other.
    max_coefficients
        Most coefficients that will be measured.

    Privacy
    -------
    One look: a vector of weighted coefficients. One row adds to it a column whose L1 and L2 norms are products of
    public numbers, added over the interactions (:func:`~understudy.mechanisms.histograms.transforms.look.fourier_reach`); for ``m`` unweighted
    coefficients of binary columns they are ``m`` and ``√m``, and a replaced row moves about half of them by two.
    Coefficients are rounded to a grid before noise is added. Laplace noise under pure accounting, Gaussian noise otherwise.
    The linear programme and all tables are post-processing.

    Examples
    --------
    >>> Fourier(k=3).name
    'fourier'
    """

    name: ClassVar[str] = "fourier"
    summary: ClassVar[str] = "consistent k-way tables from noisy Fourier coefficients by linear programming"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on Fourier coefficients",
        papers={Paper.DIPS: "section 3.1.1"},
        origin="Barak et al. 2007",
    )

    k: int = 2
    workload: Workload | None = None
    allocation: str = "optimal"
    objective: str = "total"
    solution: str = "maximum-entropy"
    max_programme: int = 1_000_000
    max_model_mb: float = 80.0
    max_coefficients: int = 50_000

    def __post_init__(self) -> None:
        refuse(
            at_least(self, 1, "k"),
            one_of(self, "allocation", ALLOCATIONS),
            one_of(self, "objective", OBJECTIVES),
            one_of(self, "solution", tuple(SOLUTIONS)),
            at_least(self, 1, "max_programme", "max_coefficients"),
            positive(self, "max_model_mb"),
        )

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of all cells of the largest tables, before they are made legitimate."""
        known = total_is_public(schema, unit)
        design = self._design(self._wanted(schema.domain), accounting, total=not known)
        variance = design.reach(unit).noise(accounting, cost).variance
        return math.fsum(
            schema.domain.cells(table) * math.sqrt(design.cell_variance(table, variance))
            for table in maximal([part for part in design.parts if part])
        )

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many coefficients there are and how noisy, or why there are too many."""
        accounting = self.accounting(budget, schema, unit)
        design = self._design(
            self._wanted(schema.domain), accounting, total=not total_is_public(schema, unit)
        )
        number = sum(design.numbers)
        noise = design.reach(unit).noise(accounting, accounting.total(budget))
        whole = self._fits(design)
        tables = maximal([part for part in design.parts if part])
        worst = max(math.sqrt(design.cell_variance(table, noise.variance)) for table in tables)
        cells = schema.domain.cells() if whole else sum(schema.domain.cells(table) for table in tables)
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(PlannedMeasurement(tables[0], number, noise),),
            model_cells=cells,
            notes=(
                f"{number:,} coefficients are measured with {noise.kind} noise of scale {noise.scale:.4g}; cells of "
                f"{len(tables)} tables get a standard deviation of up to {worst:.4g} rows before they are made legitimate.",
                "One table is fitted to the coefficients, the most spread-out of the closest ones."
                if whole and self.solution == "maximum-entropy"
                else "One table is fitted by linear programming."
                if whole
                else "The whole table is too large for a linear programme; the engine makes the tables consistent.",
            ),
        )

    def _wanted(self, domain: Domain) -> Workload:
        return workload_for(self.workload, domain, k=min(self.k, len(domain)))

    def _design(self, workload: Workload, accounting: Accounting, *, total: bool) -> Coefficients:
        """Return the coefficients to measure, or refuse when there are too many."""
        domain = workload.domain
        norm = "l1" if accounting.name == "pure" else "l2"
        cliques = maximal([clique for clique, weight in workload if weight > 0])
        bound = max(domain.cells(clique) for clique in cliques)
        if bound > self.max_coefficients:
            number = bound
        else:
            design = coefficients_for(workload, total=total, norm=norm, allocation=self.allocation)
            number = sum(design.numbers)
            if number <= self.max_coefficients:
                return design
        widest = sorted(domain.names, key=domain.size, reverse=True)[:3]
        raise DomainTooLarge(
            f"The tables need {large(number)} coefficients or more; {self.max_coefficients:,} are allowed. Use a smaller k, "
            f"fewer tables, or coarser bins (the widest columns are {', '.join(widest)}), or a method that chooses "
            "its marginals, such as aim or mst.",
            cells=number,
            allowed=self.max_coefficients,
        )

    def _fits(self, design: Coefficients) -> bool:
        """Whether the linear programme over the whole table is small enough."""
        return design.domain.cells() * sum(design.numbers) <= self.max_programme

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        accounting, unit = curator.accounting, curator.unit
        workload = self._wanted(curator.domain)
        design = self._design(workload, accounting, total=curator.rows.number is None)
        cost = curator.remaining
        step = grid_step(design.reach(unit).noise(accounting, cost).scale)
        progress("counting", 0.1)
        sealed = curator.counts_many(design.parts)
        progress("transforming", 0.2)
        coefficients = fourier_coefficients(sealed, curator.domain, design.weights, unit=unit, step=step)
        (released,) = measure_numbers(
            curator,
            [coefficients],
            noise=[coefficients.reach.noise(accounting, cost)],
            purpose=f"measure {coefficients.size} Fourier coefficients",
        )
        progress("fitting a table", 0.4)
        distribution = self._distribution(curator, design, released)
        progress("done", 1.0)
        return Fitted(distribution, [], workload=workload, statistics=[released])

    def _distribution(self, curator: Curator, design: Coefficients, released: Statistic) -> Distribution:
        """Fit one table by linear programming where that is small enough, and consistent tables elsewhere."""
        domain = curator.domain
        pieces = design.pieces(released.values)
        # where the number of rows is known, or was measured before, it is not among the coefficients
        known = None if () in pieces else float(max(1, curator.rows.number or 0))
        total = max(1.0, float(pieces[()][0])) if known is None else known
        if self._fits(design):
            allowed = possible_cells(curator.schema, schema_grid(curator.schema))
            cells = SOLUTIONS[self.solution](
                design.matrix(),
                released.values,
                allowed=allowed,
                # a sum of differences would trade the number of rows against many noisy interactions
                total=total if self.objective == "total" else known,
                objective=self.objective,
            )
            if cells is not None:
                if not cells.any():  # nothing but noise below zero: every possible record is as likely
                    cells = allowed / allowed.sum()
                return DenseTable(domain, cells.reshape(domain.sizes))
        implied = [
            Measurement(
                table,
                design.table(table, pieces, known),
                "gaussian",
                math.sqrt(design.cell_variance(table, released.variance)),
            )
            for table in maximal([part for part in design.parts if part])
        ]
        return estimate(
            domain,
            implied,
            total=total,
            zeros=support_of(curator.schema),
            max_cells=int(self.max_model_mb * 2**20 / 8),
            if_too_large="local-consistency",
        )
