"""The questions that discovery asks of raw entries: each seals counts over a partition that is public when it is asked.

An entry is put into its cell by its own text and by public rules and edges, whatever the other entries are (`EntryTable`). So every row
is in exactly one cell, and the counts move as those of any histogram do: by `Unit.histogram_l1` in L1 and `Unit.histogram_l2` in L2, at most. The table
was limited to the unit's rows per person when the curator took it, before any of these counts. Edges may depend on earlier answers, which were
released; they depend on the records in no other way.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
from collections.abc import Callable, Sequence

from understudy.curator import Curator, SealedCounts, SealedKeys
from understudy.data.entries import EntryTable
from understudy.errors import BudgetError
from understudy.schema import Domain
from understudy.schema.coding.profile import day_in, number_in

__all__ = ["seal_days", "seal_keys", "seal_profiles", "seal_ranges"]


def seal_profiles(curator: Curator, columns: Sequence[str]) -> list[SealedCounts]:
    """Seal, for each column, how many entries are in each cell of `PROFILE`: what they look like."""
    _entries(curator)
    return curator.counts_many([(name,) for name in columns])


def seal_keys(curator: Curator, column: str) -> SealedKeys:
    """Seal how many rows hold each text of a column; which texts there are is private too."""
    return SealedKeys(_entries(curator).texts(column), name=column, unit=curator.unit)


def seal_ranges(curator: Curator, column: str, edges: Sequence[float]) -> SealedCounts:
    """Seal how many entries are numbers in each range between ascending public edges, and outside of them.

    With ``m`` edges there are ``m + 2`` cells: below the first edge, from each edge to below the next, from the last edge up, and entries that are no
    numbers. A number that is not a number (NaN) counts as none.
    """
    edges = list(edges)
    steps = [float(edge) for edge in edges]
    if not steps or any(not a < b for a, b in itertools.pairwise(steps)):
        raise BudgetError("Ranges need ascending edges, at least one.")
    nothing = len(steps) + 1

    def cell(text: str) -> int:
        number = number_in(text)
        return nothing if number is None or number != number else bisect.bisect_right(steps, number)

    return _sealed(curator, column, cell, nothing, _digest("numbers", edges))


def seal_days(curator: Curator, column: str, edges: Sequence[int], format: str | None) -> SealedCounts:
    """Seal how many entries are dates, written in a public way, in each range between ascending days; cells as in `seal_ranges`."""
    steps = [int(edge) for edge in edges]
    if not steps or any(not a < b for a, b in itertools.pairwise(steps)):
        raise BudgetError("Ranges need ascending edges, at least one.")
    nothing = len(steps) + 1

    def cell(text: str) -> int:
        day = day_in(text, format)
        return nothing if day is None else bisect.bisect_right(steps, day)

    return _sealed(curator, column, cell, nothing, _digest(f"days {format}", steps))


def _digest(what: str, edges: Sequence[float]) -> str:
    """Return a digest of the cells of a question, which are public."""
    return hashlib.sha256(repr((what, list(edges))).encode("utf-8")).hexdigest()[:16]


def _sealed(
    curator: Curator, column: str, cell: Callable[[str], int], nothing: int, cells: str
) -> SealedCounts:
    table = _entries(curator)
    exact = table.counts_of_texts(column, cell, nothing + 1)
    exact[nothing] += table.exact_row_count() - exact.sum()  # rows without an entry
    domain = Domain((column,), (nothing + 1,))
    return SealedCounts(
        exact, clique=(column,), domain=domain, unit=curator.unit, known_rows=None, cells=cells
    )


def _entries(curator: Curator) -> EntryTable:
    if not isinstance(curator._table, EntryTable):
        raise BudgetError(
            "Discovery asks about raw entries: give the curator a table that was read without a schema."
        )
    return curator._table
