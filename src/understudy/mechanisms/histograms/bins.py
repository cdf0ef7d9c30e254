"""What all histograms share: which bins, how they are chosen, and how noisy bins become a distribution.

Bins are groups of adjacent codes of the schema. They are the schema's own, or a public number of equal groups per
ordered column, or chosen among such numbers by the exponential mechanism, which is paid for. Rules that look
at the data without paying (Scott's, Sturges' with the exact number of rows) are not offered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, SealedCounts
from understudy.engine import DenseTable, Distribution, project_to_simplex
from understudy.engine.distributions.dense import GroupedTable
from understudy.errors import BudgetError, DomainTooLarge, SchemaError
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.histograms.look import spread_error
from understudy.mechanisms.rounds import expected_absolute_noise
from understudy.privacy import Noise
from understudy.schema import Column, Domain, Schema

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

ORDERED = ("ordinal", "integer", "real", "date")
"""Kinds of columns whose codes have an order, so that neighbours can be merged."""

POST_PROCESSING = ("simplex", "zero-truncation", "boundary-inflated")

BINS = ("schema", "private")


@dataclass(frozen=True, eq=False)
class Grid:
    """The bins of a histogram: for each column the bin of each code. All of it is public.

    Examples
    --------
    >>> grid = Grid(Domain(("a", "b"), (4, 2)), (np.array([0, 0, 1, 1]), np.array([0, 1])))
    >>> grid.coarse.sizes, grid.cells, grid.is_fine
    ((2, 2), 4, False)
    """

    domain: Domain
    labels: tuple[Labels, ...]

    @cached_property
    def coarse(self) -> Domain:
        """The same columns with bins for codes."""
        return Domain(self.domain.names, tuple(int(which[-1]) + 1 for which in self.labels))

    @property
    def cells(self) -> int:
        """Number of combinations of bins."""
        return self.coarse.cells()

    @property
    def is_fine(self) -> bool:
        """Whether every code is a bin of its own."""
        return self.coarse.sizes == self.domain.sizes

    def seal(self, curator: Curator) -> SealedCounts:
        """Ask the curator for the exact counts of the bins, under seal."""
        if self.is_fine:
            return curator.counts(self.domain.names)
        return curator.counts_grouped([dict(zip(self.domain.names, self.labels, strict=True))])[0]

    def distribution(self, cells: Array) -> Distribution:
        """Return the distribution with these expected counts, even inside every bin."""
        table = np.asarray(cells, dtype=np.float64).reshape(self.coarse.sizes)
        return (
            DenseTable(self.domain, table) if self.is_fine else GroupedTable(self.domain, self.labels, table)
        )

    def released(self, measured: Measurement) -> tuple[list[Measurement], list[Statistic]]:
        """Say what a model file keeps of a measurement of the bins: a marginal if they are the schema's codes."""
        if self.is_fine:
            return [measured], []
        name = f"counts of {' x '.join(map(str, self.coarse.sizes))} bins of {', '.join(self.domain.names)}"
        return [], [Statistic(name, measured.values, measured.noise, measured.scale)]


def schema_grid(schema: Schema) -> Grid:
    """Return the bins of the schema: every code is one."""
    return Grid(schema.domain, tuple(np.arange(size) for size in schema.domain.sizes))


def even_grid(schema: Schema, bins: int) -> Grid:
    """Merge adjacent values of every ordered column into at most ``bins`` bins of nearly as many codes each.

    Codes of other and missing entries stay by themselves, and so do the values of unordered columns.

    Examples
    --------
    >>> schema = Schema.parse("name: t\\ncolumns: [{name: a, kind: integer, minimum: 0, maximum: 4, missing: true}]")
    >>> even_grid(schema, 2).labels[0]
    array([0, 0, 0, 1, 1, 2])
    """
    if bins < 1:
        raise BudgetError(f"bins ({bins}) must be at least 1.")
    return Grid(schema.domain, tuple(_merged(column, bins) for column in schema.columns))


def _merged(column: Column, bins: int) -> Labels:
    values = column.value_count
    if column.kind not in ORDERED or values <= bins:
        return np.arange(column.size)
    inner = np.arange(values) * bins // values
    return np.concatenate([inner, bins + np.arange(column.size - values)])


def ladder(schema: Schema, *, max_cells: int) -> list[Grid]:
    """Return grids of 1, 2, 4, ... bins per ordered column up to the schema's, as far as they are small enough."""
    most = max(column.value_count for column in schema.columns)
    grids: list[Grid] = []
    for bins in [2**power for power in range((most - 1).bit_length())] + [most]:
        grid = even_grid(schema, bins)
        if grid.cells <= max_cells and (not grids or grid.cells > grids[-1].cells):
            grids.append(grid)
    return grids


def check_bins(bins: int | str) -> None:
    """Refuse an option that says neither a number of bins nor where to take them from."""
    if isinstance(bins, bool) or not (bins in BINS or (isinstance(bins, int) and bins >= 1)):
        raise BudgetError(f"bins ({bins!r}) must be a number of bins, or one of {', '.join(BINS)}.")


def planned_grids(schema: Schema, *, bins: int | str, max_cells: int, method: str) -> list[Grid]:
    """Return the grids a histogram may use, coarsest first: one, unless they are chosen privately.

    A table with too many cells is refused here, before anything is spent.
    """
    if bins == "private":
        grids = ladder(schema, max_cells=max_cells)
        if grids:
            return grids
        coarsest = even_grid(schema, 1)
    else:
        coarsest = schema_grid(schema) if bins == "schema" else even_grid(schema, int(bins))
        if coarsest.cells <= max_cells:
            return [coarsest]
    raise DomainTooLarge(
        f"The histogram has {large(coarsest.cells)} cells; {method} enumerates at most {large(max_cells)}. "
        "Ask for fewer bins (option bins), leave columns out, or use a method that works with marginals, "
        "such as aim or independent.",
        cells=coarsest.cells,
        allowed=max_cells,
    )


def choose_grid(curator: Curator, grids: Sequence[Grid], *, cost: float, noise: Noise) -> Grid:
    """Choose bins by the exponential mechanism: few enough for the noise, enough for the shape.

    The score of a grid is minus the rows it is expected to misplace: those that even bins hide
    (:func:`~understudy.mechanisms.histograms.look.spread_error`) plus the expected noise, ``cells * E|noise|``, which is public.

    Parameters
    ----------
    grids
        Candidates, coarsest first; each merges bins of the last one.
    cost
        Price of the choice, in the additive unit of the curator's accounting.
    noise
        The noise every bin will get. Public.

    Privacy
    -------
    In: private, through the curator. Out: the chosen grid, by one exponential mechanism whose scores move by at
    most the largest sensitivity of the errors. With one candidate nothing is looked at and nothing is spent.
    """
    if len(grids) == 1:
        return grids[0]
    finest = grids[-1]
    sealed = finest.seal(curator)
    each = expected_absolute_noise(noise)
    scores = []
    for grid in grids:
        labels = [_relabelled(fine, coarse) for fine, coarse in zip(finest.labels, grid.labels, strict=True)]
        scores.append(spread_error(sealed, labels).shifted(grid.cells * each).scaled(-1.0))
    epsilon = curator.accounting.selection_epsilon(cost)
    return grids[curator.choose(scores, epsilon=epsilon, purpose=f"choose one of {len(grids)} sets of bins")]


def _relabelled(fine: Labels, coarse: Labels) -> Labels:
    """Return the coarse bin of each fine bin.

    Grids of a ladder are nested: ``floor(2 i / v)`` is ``floor(floor(4 i / v) / 2)``, and so on up the powers of two.
    """
    return coarse[np.flatnonzero(np.diff(fine, prepend=-1))]


def legitimate(noisy: Array, total: float | None, *, how: str) -> Array:
    """Turn noisy counts into counts that are not negative. Post-processing.

    Parameters
    ----------
    noisy
        Noisy counts of any shape.
    total
        The number of rows where it is known; otherwise the noisy counts' own sum is used.
    how
        ``"simplex"``: the closest table with that total. ``"zero-truncation"``: negative counts become zero
        and the rest is scaled to the total, or not scaled where it is unknown. ``"boundary-inflated"``: counts are
        cut to between zero and the total.

    Examples
    --------
    >>> legitimate(np.array([3.0, -1.0, 2.0]), 4.0, how="simplex")
    array([2.5, 0. , 1.5])
    """
    rows = max(0.0, float(noisy.sum())) if total is None else float(total)
    if how == "simplex":
        return project_to_simplex(noisy, rows)
    if how == "boundary-inflated":
        return np.clip(noisy, 0.0, rows)
    kept = np.maximum(noisy, 0.0)
    mass = float(kept.sum())
    return kept * (rows / mass) if total is not None and mass > 0 else kept


def check_post_processing(how: str) -> None:
    """Refuse a way of post-processing that does not exist."""
    if how not in POST_PROCESSING:
        raise BudgetError(f"post_processing ({how!r}) must be one of {', '.join(POST_PROCESSING)}.")


def require_ordered(schema: Schema, *, method: str, most: int) -> None:
    """Refuse tables with more columns than a method can serve, or with columns whose values have no order."""
    unordered = [column.name for column in schema.columns if column.kind not in ORDERED]
    columns = "one column" if most == 1 else f"at most {most} columns"
    if len(schema.columns) > most or unordered:
        found = f"{len(schema.columns)} columns"
        if unordered:
            found += f", of which {', '.join(unordered)} have no order"
        raise SchemaError(
            f"{method} serves tables of {columns} with ordered values (ordinal, integer, real, date); this schema "
            f"has {found}. Give it a schema with fewer columns, or use perturbed-histogram for a few columns of any "
            "kind and aim for many."
        )


def large(number: int) -> str:
    """Write a count so that people can read it, however large."""
    return f"{number:,}" if number < 10**12 else f"{float(number):.2e}" if number < 10**300 else "over 1e300"
