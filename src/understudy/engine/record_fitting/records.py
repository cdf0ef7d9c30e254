"""Record fitting: move the records of a synthetic table until its marginals are those of the model.

Drawing ``n`` rows from a model adds sampling error to the error of the model. But nobody asks for
independent rows: any table of ``n`` rows whose marginals are close to the model's will do. Starting from a
sample, each record is offered, column by column, the value that brings the marginals closest to their
targets. See ``docs/explanation/record-fitting.md`` for the method and measurements.

Everything here is post-processing of a released model: it reads no private data and costs no budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.engine.record_fitting.goals import MAX_CELLS, Goal, fitting_cliques, set_goals
from understudy.errors import DataError, WorkloadError
from understudy.schema import Clique, Domain

if TYPE_CHECKING:
    from understudy.engine.record_fitting.state import State

__all__ = ["MAX_CELLS", "Allowed", "Carry", "FitResult", "fit_chunk", "fit_records", "fitting_cliques"]

Codes = npt.NDArray[np.unsignedinteger[Any]]
Allowed = tuple[Sequence[str], npt.NDArray[np.bool_]]
"""A constraint: some columns, and which combinations of their codes a record may hold."""


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
    keep_columns: bool = True,
    allowed: Sequence[Allowed] = (),
    frozen: Sequence[str] = (),
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
        How many times to examine a record in one column. By default two million, but at least 4 and at
        most 200 per record and column; plain descent stops earlier when a sweep over the table gains
        less than half a percent of all that was gained.
    temperature
        Annealing: a move may cost up to an exponential variable whose mean starts at this share of the
        largest possible change and falls to zero. Zero is plain descent, which never increases the cost.
        By default 0.03 for tables so small (100,000 codes) that they are swept twenty times or more,
        otherwise zero.
    keep_columns
        Also fit the marginals of the single columns involved, with average weight. Where many marginals are
        fitted this changes nothing. Where few are, and most of their cells expect less than half a record, it
        stops records from crowding into the likeliest cells. These marginals do not count in the errors.
    allowed
        Constraints. Records that break one are moved first; no later move breaks any.
    frozen
        Columns that stay as they are. Where records break a constraint at the start, their repair may still change them.
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
    goals = set_goals(domain, cliques, targets, weights, keep_columns, max_cells)
    state = _state(codes, domain, goals, norm, allowed, seed, None)
    state.freeze([domain.index(name) for name in frozen])
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
    temperature: float | None = 0.0,
    keep_columns: bool = True,
    allowed: Sequence[Allowed] = (),
    max_cells: int = MAX_CELLS,
    watch: Callable[[float], None] | None = None,
) -> tuple[FitResult, Carry]:
    """Fit one chunk of a table that is produced piece by piece.

    Each chunk aims at the model's marginals of *all rows so far*, minus the counts of earlier chunks: what
    one chunk leaves over the next one makes up for. A cell that expects a third of a record per chunk
    gets one record every third chunk. The errors of the result are those of all rows so far.

    Parameters are those of :func:`fit_records`, except that chunks are not annealed by default; ``carry`` is
    what the previous call returned. Use the same cliques, targets and ``max_cells`` throughout, and another
    seed for each chunk. ``watch`` is called with the fraction of this chunk that is done.

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
    goals = set_goals(domain, cliques, targets, weights, keep_columns, max_cells)
    state = _state(codes, domain, goals, norm, allowed, seed, carry)
    result = _run(state, codes.dtype, proposals, temperature, watch)
    return result, Carry(state.n_rows, tuple(goal.clique for goal in state.goals), tuple(state.counts()))


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
    from understudy.engine.record_fitting.state import State

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


def _run(
    state: State,
    dtype: np.dtype[Any],
    proposals: int | None,
    temperature: float | None,
    watch: Callable[[float], None] | None = None,
) -> FitResult:
    """Repair, fit, and report."""
    if proposals is not None and proposals < 0:
        raise WorkloadError(f"The number of proposals ({proposals}) must not be negative.")
    if temperature is not None and not 0 <= temperature < math.inf:
        raise WorkloadError(f"The temperature ({temperature}) must be finite and not negative.")
    start_error = state.error()
    violations = state.repair()
    tried, accepted = state.run(proposals, temperature, watch)
    return FitResult(
        codes=state.records().astype(dtype),
        start_error=start_error,
        end_error=state.error(),
        proposals_tried=tried,
        accepted=accepted,
        violations=violations,
        fitted=tuple(goal.clique for goal in state.goals if goal.asked),
    )
