"""A table seen through coarser columns: several codes of a column become one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import Counts, MarginalCounter, code_dtype, distinct_records
from understudy.data.local import LocalTable
from understudy.data.table import DEFAULT_CHUNK_ROWS, Encoded, Table
from understudy.errors import DataError

if TYPE_CHECKING:
    from understudy.schema import Codes, Column, Schema

_COUNTED_FINE = 1 << 22
"""Cells up to which a marginal is counted by the table itself and added up here."""


def regrouped(table: Table, schema: Schema) -> Table:
    """Return a table whose columns have the codes of another schema: values that share a code there share it here.

    Parameters
    ----------
    table
        The private table.
    schema
        A schema with the same columns. Each is the table's own, or its values were grouped (`Column.groups`).

    Privacy
    -------
    In and out: private. Every record is mapped on its own by a public function of its codes, so tables that differ in so many records
    still differ in at most so many.
    """
    if schema.names != table.schema.names:
        raise DataError("A table can be regrouped by a schema with the same columns only.")
    groups = {
        column.name: _map(table.schema.column(column.name), column)
        for column in schema.columns
        if column != table.schema.column(column.name)
    }
    if isinstance(table, LocalTable):
        return table._regrouped(schema, groups)
    return RegroupedTable(table, schema, groups)


def _map(fine: Column, coarse: Column) -> npt.NDArray[np.intp]:
    """Return the coarse code of each fine one; ``other`` and missing entries keep codes of their own."""
    extras, number, given = fine.size - fine.value_count, int(coarse.value_count), coarse.groups
    # a plain array: it is asked for the codes of the records
    groups = np.zeros(0, np.intp) if given is None else np.array(given, dtype=np.intp)
    fits = (
        groups.shape == (fine.value_count,) and groups.min(initial=0) >= 0 and groups.max(initial=0) < number
    )
    if given is None or not fits or coarse.size - number != extras:
        raise DataError(f"Column {fine.name!r} is not a grouping of the column that the table was read with.")
    return np.append(groups, number + np.arange(extras))


class RegroupedTable(Encoded):
    """Any table with some of its columns regrouped; made by `regrouped`. Private."""

    def __init__(self, table: Table, schema: Schema, groups: dict[str, npt.NDArray[np.intp]]) -> None:
        self._inside = table
        self._schema = schema
        self._filtered = table.filtered
        self._groups = {
            name: which.astype(code_dtype(schema.domain.size(name))) for name, which in groups.items()
        }

    def exact_row_count(self) -> int:
        """Return the exact number of rows. Private."""
        return self._inside.exact_row_count()

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques. Private."""
        asked = [tuple(clique) for clique in cliques]
        fine = self._inside.schema.domain
        here = [clique for clique in asked if fine.cells(clique) <= _COUNTED_FINE]
        rest = [clique for clique in asked if fine.cells(clique) > _COUNTED_FINE]
        found = dict(zip(here, map(self._added_up, here, self._inside.count_many(here)), strict=True))
        if rest:
            counter = MarginalCounter(self._schema.domain, rest)
            for chunk in self.chunks(
                self._schema.domain.canonical({name for clique in rest for name in clique})
            ):
                counter.add(chunk, rows=len(next(iter(chunk.values()))))
            found |= dict(zip(rest, counter.counts(), strict=True))
        return [found[clique] for clique in asked]

    def _added_up(self, clique: Sequence[str], counts: Counts) -> Counts:
        """Add up the cells of each group along every axis that was regrouped."""
        for axis, name in enumerate(clique):
            if name in self._groups:
                ahead = np.moveaxis(counts, axis, 0)
                total = np.zeros((self._schema.domain.size(name), *ahead.shape[1:]), np.int64)
                np.add.at(total, self._groups[name], ahead)
                counts = np.moveaxis(total, 0, axis)
        return np.ascontiguousarray(counts)

    def distinct(self, columns: Sequence[str]) -> tuple[Codes, Counts]:
        """Return the distinct records of some columns, sorted, and how often each occurs. Private."""
        codes, counts = self._inside.distinct(columns)
        names = self._names(columns)
        coarse = [self._coarse(name, codes[:, place]) for place, name in enumerate(names)]
        return distinct_records(coarse, self._schema.domain.shape(names), rows=len(counts), weights=counts)

    def chunks(
        self, columns: Sequence[str] | None = None, *, rows: int = DEFAULT_CHUNK_ROWS
    ) -> Iterator[dict[str, Codes]]:
        """Iterate over the records, at most ``rows`` at a time. Private."""
        for chunk in self._inside.chunks(columns, rows=rows):
            yield {name: self._coarse(name, codes) for name, codes in chunk.items()}

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> RegroupedTable:
        """Return the table with at most ``max_rows`` rows per person; see `Table.truncated`."""
        inside = self._inside.truncated(id_column, max_rows, key)
        return RegroupedTable(inside, self._schema, dict(self._groups))

    def people_by_rows(self, id_column: str, most: int) -> Counts:
        """Return how many people have how many rows. Private."""
        return self._inside.people_by_rows(id_column, most)

    def beyond_codes(self) -> Iterator[bytes]:
        """Return what a digest of the records needs beside the codes. Private."""
        return self._inside.beyond_codes()

    def _coarse(self, name: str, codes: Codes) -> Codes:
        return self._groups[name][codes] if name in self._groups else codes
