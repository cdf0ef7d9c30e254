"""Distinct records with the number of times each occurs: what one aggregation of a database leaves to count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from understudy.data._counting import Counts, MarginalCounter
from understudy.data._records import distinct_records
from understudy.data.table import DEFAULT_CHUNK_ROWS

if TYPE_CHECKING:
    from understudy.schema import Codes, Schema


class Counted:
    """Distinct encoded records in memory, each with its number of rows. Private."""

    def __init__(self, schema: Schema, columns: Mapping[str, Codes], weights: Counts) -> None:
        self._schema = schema
        self._columns = dict(columns)
        self._weights = weights
        self.rows = int(weights.sum())

    def __repr__(self) -> str:
        return "Counted(records not shown)"

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques."""
        counter = MarginalCounter(self._schema.domain, cliques)
        counter.add(self._columns, weights=self._weights)
        return counter.counts()

    def distinct(self, names: Sequence[str]) -> tuple[Codes, Counts]:
        """Return the distinct records of some columns, sorted, and their counts."""
        sizes = self._schema.domain.shape(names)
        columns = [self._columns[name] for name in names]
        return distinct_records(columns, sizes, rows=len(self._weights), weights=self._weights)

    def chunks(self, names: Sequence[str], *, rows: int = DEFAULT_CHUNK_ROWS) -> Iterator[dict[str, Codes]]:
        """Iterate over all rows, equal records one after another."""
        ends = np.cumsum(self._weights)
        for start in range(0, self.rows, rows):
            places = np.searchsorted(ends, np.arange(start, min(start + rows, self.rows)), side="right")
            yield {name: self._columns[name][places] for name in names}
