"""Record fitting: move the records of a synthetic table until its marginals are those of the model.

Drawing ``n`` rows from a model adds sampling error to the error of the model. But nobody asks for
independent rows: any table of ``n`` rows whose marginals are close to the model's will do. Starting from a
sample, each record is offered, column by column, the value that brings the marginals closest to their
targets. See ``docs/explanation/record-fitting.md`` for the method and measurements.

Everything here is post-processing of a released model: it reads no private data and costs no budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.errors import DataError, WorkloadError
from understudy.schema import Clique, Domain

if TYPE_CHECKING:
    from understudy.engine._record_state import Goal, State

Codes = npt.NDArray[np.unsignedinteger[Any]]
Allowed = tuple[Sequence[str], npt.NDArray[np.bool_]]
"""A constraint: some columns, and which combinations of their codes a record may hold."""

MAX_CELLS = 48_000_000
"""Cells of all fitted marginals together. A cell of a 3-way marginal takes 7 bytes (L1) or 16 (L2)."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted table and how the fit went.

    Parameters
    ----------
    codes
        The moved records, row by row in the order and type of the input.
    start_error, end_error
        Distance from the targets before and after. With ``norm="l1"`` the weighted average over marginals of
        the L1 distance divided by the number of rows (the workload error of paper AIM, Definition 2); with
        ``norm="l2"`` the weighted root mean square of the L2 distances, divided likewise.
    proposals_tried
        How often a record was examined in one column. Each time *all* values of the column are compared.
    accepted
        How many values were changed.
    violations
        Records that still break a constraint because no valid combination of codes was found.
    fitted
        The marginals that were fitted: the ones asked for unless some were too large.
    """

    codes: Codes
    start_error: float
    end_error: float
    proposals_tried: int
    accepted: int
    violations: int
    fitted: tuple[Clique, ...]

    def __repr__(self) -> str:
        return (
            f"FitResult({len(self.codes)} records, error {self.start_error:.4g} -> {self.end_error:.4g}, "
            f"{self.accepted} of {self.proposals_tried} proposals accepted)"
        )


@dataclass(frozen=True, eq=False)
class Carry:
    """Counts of the chunks fitted so far, so that the next chunk can make up for them."""

    rows: int
    fitted: tuple[Clique, ...]
    counts: tuple[npt.NDArray[Any], ...]


def fitting_cliques(
    domain: Domain, cliques: Sequence[Clique], *, max_cells: int = MAX_CELLS
) -> tuple[Clique, ...]:
    """Return the marginals that record fitting will use, given a limit on cells.

    Marginals are kept from the smallest up while they fit. One that does not fit is replaced by its
    marginals over one column less, unless a kept marginal contains them, and so on. Ask this before
    computing targets: a marginal with many more cells than there are records says little that its
    smaller marginals do not.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (10, 20, 500))
    >>> fitting_cliques(domain, [("a", "b", "c")], max_cells=20_000)
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    asked = [clique for clique in dict.fromkeys(map(domain.canonical, cliques)) if clique]
    kept: set[Clique] = set()
    room, waiting = max_cells, asked
    while waiting:
        dropped = []
        for clique in sorted(waiting, key=domain.cells):
            if domain.cells(clique) <= room:
                room -= domain.cells(clique)
                kept.add(clique)
            else:
                dropped.append(clique)
        covered = {
            part for clique in kept for size in range(len(clique)) for part in combinations(clique, size)
        }
        smaller = dict.fromkeys(part for clique in dropped for part in combinations(clique, len(clique) - 1))
        waiting = [part for part in smaller if part and part not in covered and part not in kept]
    order = {clique: index for index, clique in enumerate(asked)}
    return tuple(sorted(kept, key=lambda clique: (order.get(clique, len(order)), *map(domain.index, clique))))


def fit_records(
    codes: Codes,
    domain: Domain,
    cliques: Sequence[Clique],
    targets: Sequence[npt.ArrayLike],
    *,
    seed: int,
    weights: Sequence[float] | None = None,
    norm: Literal["l1", "l2"] = "l1",
    proposals: int | None = None,
    temperature: float | None = None,
    allowed: Sequence[Allowed] = (),
    max_cells: int = MAX_CELLS,
) -> FitResult:
    """Move records so that their marginals approach those of a model.

    Parameters
    ----------
    codes
        Synthetic records, one row each, one column per column of the domain. Not modified.
    domain
        Names and sizes of the columns.
    cliques
        The marginals to fit.
    targets
        The model's marginals, one array per clique with one axis per column, or flat. Each is scaled to
        the number of records. Give what the *model* believes: fitting to noisy measurements copies noise.
    seed
        Of the order of visits. The same arguments and seed give the same records.
    weights
        Importance of each marginal, kept to 1/4096 of the largest; equal by default.
    norm
        ``"l1"`` lowers the sum of absolute differences, the error that workloads are judged by. ``"l2"``
        lowers the sum of squares: gentler on large cells, blind to small ones.
    proposals
        How many times to examine a record in one column. By default about four million, but at least 4
        and at most 200 visits per record and column, fewer when progress per proposal falls below one
        percent of the first sweep's.
    temperature
        Moves may cost up to an exponential variable whose mean starts at this share of the largest possible
        change and falls to zero. Zero is plain descent, which never increases the cost. By default 0.05
        for tables so small that they are swept twenty times or more, otherwise zero.
    allowed
        Constraints. Records that break one are moved first; no later move breaks any.
    max_cells
        Limit on the cells of all marginals together; larger ones are replaced as in :func:`fitting_cliques`.

    Returns
    -------
    FitResult
        The moved records, the error before and after, and the effort.

    Raises
    ------
    DataError
        If the records do not fit the domain, or are too many for one call.
    WorkloadError
        If cliques, targets, weights or constraints do not fit together.

    Privacy
    -------
    In: releasable model and records. Out: releasable. Cost: none (post-processing).

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> codes = np.array([[0, 0], [0, 0], [0, 1], [1, 0]], dtype=np.uint8)
    >>> result = fit_records(codes, domain, [("a", "b")], [[[0.25, 0.25], [0.25, 0.25]]], seed=1)
    >>> sorted(map(tuple, result.codes.tolist()))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    >>> result.start_error, result.end_error
    (0.5, 0.0)
    """
    goals = _goals(domain, cliques, targets, weights, max_cells)
    state = _state(codes, domain, goals, norm, allowed, seed, None)
    return _run(state, codes.dtype, proposals, temperature)


def fit_chunk(
    codes: Codes,
    domain: Domain,
    cliques: Sequence[Clique],
    targets: Sequence[npt.ArrayLike],
    *,
    seed: int,
    carry: Carry | None = None,
    weights: Sequence[float] | None = None,
    norm: Literal["l1", "l2"] = "l1",
    proposals: int | None = None,
    temperature: float | None = None,
    allowed: Sequence[Allowed] = (),
    max_cells: int = MAX_CELLS,
) -> tuple[FitResult, Carry]:
    """Fit one chunk of a table that is produced piece by piece.

    Each chunk aims at the model's marginals of *all rows so far*, minus the counts of earlier chunks: what
    one chunk leaves over the next one makes up for. A cell that expects a third of a record per chunk
    gets one record every third chunk. The errors of the result are those of all rows so far.

    Parameters are those of :func:`fit_records`; ``carry`` is what the previous call returned. Use the same
    cliques, targets and ``max_cells`` throughout, and another seed for each chunk.

    Examples
    --------
    >>> domain = Domain(("a",), (3,))
    >>> carry = None
    >>> for chunk in range(3):
    ...     codes = np.zeros((1, 1), dtype=np.uint8)
    ...     result, carry = fit_chunk(codes, domain, [("a",)], [[1, 1, 1]], seed=chunk, carry=carry)
    >>> carry.counts[0].tolist(), result.end_error
    ([1, 1, 1], 0.0)
    """
    goals = _goals(domain, cliques, targets, weights, max_cells)
    state = _state(codes, domain, goals, norm, allowed, seed, carry)
    result = _run(state, codes.dtype, proposals, temperature)
    return result, Carry(state.n_rows, result.fitted, tuple(state.counts()))


def _goals(
    domain: Domain,
    cliques: Sequence[Clique],
    targets: Sequence[npt.ArrayLike],
    weights: Sequence[float] | None,
    max_cells: int,
) -> list[Goal]:
    """Check the targets, drop those without weight, and replace those that are too large."""
    from understudy.engine._record_state import Goal

    if len(cliques) != len(targets):
        raise WorkloadError(f"Need one target per clique; got {len(targets)} for {len(cliques)} cliques.")
    if weights is not None and len(weights) != len(cliques):
        raise WorkloadError(f"Need one weight per clique; got {len(weights)} for {len(cliques)} cliques.")
    if len(set(map(frozenset, cliques))) != len(cliques):
        raise WorkloadError("Record fitting names each clique once; add the weights of repeated ones.")
    given: dict[Clique, tuple[npt.NDArray[Any], float]] = {}
    for index, (clique, target) in enumerate(zip(cliques, targets, strict=True)):
        key, shape, values = domain.canonical(clique), domain.shape(clique), np.asarray(target)
        weight = 1.0 if weights is None else float(weights[index])
        if not (math.isfinite(weight) and weight >= 0):
            raise WorkloadError(f"The weight of {key} ({weight}) must be finite and not negative.")
        if values.shape not in (shape, (math.prod(shape),)):
            raise WorkloadError(f"The target of {tuple(clique)} has shape {values.shape}; expected {shape}.")
        if key and weight > 0:
            axes = sorted(range(len(clique)), key=lambda axis: domain.index(clique[axis]))
            given[key] = (values.reshape(shape).transpose(axes), weight)
    fitted = fitting_cliques(domain, list(given), max_cells=max_cells)
    for part, parents in _parents(domain, set(fitted) - given.keys(), given).items():
        gone = tuple(axis for axis, name in enumerate(parents[0]) if name not in part)
        values = given[parents[0]][0].sum(axis=gone, dtype=np.float64)
        given[part] = (values, max(given[parent][1] for parent in parents))
    goals = []
    for clique in fitted:
        values, weight = given[clique]
        total = float(values.sum(dtype=np.float64))
        if not (math.isfinite(total) and total > 0):
            raise WorkloadError(f"The target of {clique} must have a positive, finite total; it has {total}.")
        goals.append(Goal(clique, tuple(domain.index(name) for name in clique), values, total, weight))
    return goals


def _parents(domain: Domain, parts: set[Clique], cliques: Iterable[Clique]) -> dict[Clique, list[Clique]]:
    """Return, for each part, the cliques that contain it, the smallest first."""
    parents: dict[Clique, list[Clique]] = {}
    if parts:
        for clique in sorted(cliques, key=domain.cells):
            for size in range(1, len(clique)):
                for part in combinations(clique, size):
                    if part in parts:
                        parents.setdefault(part, []).append(clique)
    return parents


def _state(
    codes: Codes,
    domain: Domain,
    goals: Sequence[Goal],
    norm: str,
    allowed: Sequence[Allowed],
    seed: int,
    carry: Carry | None,
) -> State:
    """Check records, constraints and carry, and set up the books."""
    from understudy.engine._record_state import State

    if norm not in ("l1", "l2"):
        raise WorkloadError(f"No norm named {norm!r} for record fitting. Known: l1, l2.")
    if codes.ndim != 2 or codes.shape[1] != len(domain):
        raise DataError(
            f"Records need one column per column of the domain ({len(domain)}); got shape {codes.shape}."
        )
    if codes.dtype.kind != "u":
        raise DataError(f"Records must be unsigned integer codes, not {codes.dtype}.")
    if len(codes):
        outside = np.flatnonzero(codes.max(axis=0) >= np.array(domain.sizes))
        if len(outside):
            names = ", ".join(repr(domain.names[index]) for index in outside)
            raise DataError(f"Columns {names} hold codes outside the domain.")
    rules = []
    for columns, table in allowed:
        domain.canonical(columns)
        table = np.asarray(table, dtype=bool)
        if table.shape != domain.shape(columns):
            wanted = domain.shape(columns)
            raise WorkloadError(
                f"The constraint on {tuple(columns)} has shape {table.shape}; expected {wanted}."
            )
        if columns:
            rules.append((tuple(domain.index(name) for name in columns), table))
    fitted = tuple(goal.clique for goal in goals)
    sizes = tuple(goal.values.size for goal in goals)
    if carry and (carry.fitted, tuple(counts.size for counts in carry.counts)) != (fitted, sizes):
        raise WorkloadError("This carry comes from other cliques; fit all chunks with the same arguments.")
    return State(
        codes,
        domain.sizes,
        goals,
        rules,
        squared=norm == "l2",
        seed=seed,
        n_rows=len(codes) + (carry.rows if carry else 0),
        earlier=carry.counts if carry else None,
    )


def _run(state: State, dtype: np.dtype[Any], proposals: int | None, temperature: float | None) -> FitResult:
    """Repair, fit, and report."""
    if proposals is not None and proposals < 0:
        raise WorkloadError(f"The number of proposals ({proposals}) must not be negative.")
    if temperature is not None and not 0 <= temperature < math.inf:
        raise WorkloadError(f"The temperature ({temperature}) must be finite and not negative.")
    start_error = state.error()
    violations = state.repair()
    tried, accepted = state.run(proposals, temperature)
    return FitResult(
        codes=state.records().astype(dtype),
        start_error=start_error,
        end_error=state.error(),
        proposals_tried=tried,
        accepted=accepted,
        violations=violations,
        fitted=tuple(goal.clique for goal in state.goals),
    )
