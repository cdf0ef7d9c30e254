"""What the curator needs from a table, wherever its records live."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from understudy.data.counting.counting import Counts
from understudy.errors import DataError

if TYPE_CHECKING:
    from understudy.schema import Codes, Schema

DEFAULT_CHUNK_ROWS = 1 << 18


@runtime_checkable
class Table(Protocol):
    """A private table seen through its public schema.

    A table answers exact questions. It belongs to a curator, which seals the answers; nothing else
    may hold one. An implementation is free to count elsewhere (in a database, on a cluster): the
    methods below say what comes back, not how it is computed.

    Columns are referred to by their names in the schema and their values by codes, unsigned integers
    below the size of the column.

    Privacy
    -------
    Everything except ``schema`` is private: counts, distinct records and the number of rows. The repr
    of an implementation shows neither values nor counts, and its errors contain neither.
    """

    @property
    def schema(self) -> Schema:
        """The public schema."""
        ...

    @property
    def filtered(self) -> bool:
        """Whether records were left out by their values, or may have been: then no relation fixes the number of rows.

        Public. A table that cannot know says True. Under replace-one a curator relies on False, so it
        refuses a table that does not say.
        """
        ...

    def exact_row_count(self) -> int:
        """Return the exact number of rows. Private."""
        ...

    def count(self, clique: Sequence[str]) -> Counts:
        """Return the exact marginal of one clique: ``int64``, of shape ``domain.shape(clique)``.

        The empty clique gives a zero-dimensional array, the number of rows.
        """
        ...

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques, from one pass over the records if possible."""
        ...

    def distinct(self, columns: Sequence[str]) -> tuple[Codes, Counts]:
        """Return the distinct records of some columns, lexicographically sorted, and their counts.

        The codes form an array of shape ``(number of distinct records, len(columns))``.
        """
        ...

    def chunks(
        self, columns: Sequence[str] | None = None, *, rows: int = DEFAULT_CHUNK_ROWS
    ) -> Iterator[dict[str, Codes]]:
        """Iterate over all records in order, at most ``rows`` at a time; all columns by default."""
        ...

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> Table:
        """Return this table with at most ``max_rows`` rows of each person, chosen by a key.

        Every row gets a word, a keyed hash of its person, its record and the number of equal rows of the person before it; a person keeps the rows with the
        smallest ones. They are a function of the rows of that person and the key alone, so adding or removing one person changes the result by at most
        ``max_rows`` rows, and replacing one by at most ``max_rows`` that go and ``max_rows`` that come. The same key keeps the same rows of the same
        table wherever it is stored, in whatever order. Rule and proof: :mod:`understudy.data.persons`.

        Parameters
        ----------
        id_column
            The column that says who a row is about. It is not part of the schema.
        max_rows
            How many rows a person may contribute. At least one.
        key
            32 random bytes from the curator's generator. Private: with the table it says which rows were counted.
        """
        ...

    def people_by_rows(self, id_column: str, most: int) -> Counts:
        """Return how many people have one row, two rows, and so on; those with ``most`` rows or more share the last number. Private.

        Every person is counted once, by the number of rows of that person alone.
        """
        ...

    def beyond_codes(self) -> Iterator[bytes]:
        """Return what tells two tables with the same codes apart and matters for answers: whose rows are whose, their order, texts. Private.

        It depends on the records and not on the order in which they are stored. Nothing for tables whose records are their codes.
        """
        ...


def records_digest(tables: Iterable[Table], key: bytes) -> str:
    """Return a keyed digest of the records of some tables, in whatever order they are stored.

    Privacy
    -------
    Out: private. Whoever has the key can tell whether a guess of the *whole* table is right, and nothing else.
    """
    found = hashlib.blake2b(key=key, digest_size=32)
    for table in tables:
        codes, counts = table.distinct(table.schema.names)
        found.update(table.schema.fingerprint().encode("ascii"))
        found.update(np.ascontiguousarray(codes, "<u4").tobytes())
        found.update(np.ascontiguousarray(counts, "<i8").tobytes())
        for part in table.beyond_codes():
            found.update(part)
    return found.hexdigest()


class Encoded:
    """What the tables of this room share: a schema, a number of rows, and questions that follow from others."""

    _schema: Schema
    _rows: int
    _filtered: bool

    @property
    def schema(self) -> Schema:
        """The public schema."""
        return self._schema

    @property
    def filtered(self) -> bool:
        """Whether records were left out by their values, so that no relation fixes the number of rows."""
        return self._filtered

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._schema.domain)} columns; records not shown)"

    def exact_row_count(self) -> int:
        """Return the exact number of rows. Private."""
        return self._rows

    def count(self, clique: Sequence[str]) -> Counts:
        """Return the exact marginal of one clique. Private."""
        return self.count_many([clique])[0]

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques. Private."""
        raise TypeError("Encoded is a base; use one of the kinds of table.")

    def people_by_rows(self, id_column: str, most: int) -> Counts:
        """Return how many people have how many rows. Private."""
        raise read_without(id_column)

    def beyond_codes(self) -> Iterator[bytes]:
        """Return what a digest of the records needs beside the codes: nothing here. Private."""
        return iter(())

    def _names(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns asked for, all of them by default; unknown and repeated names are refused."""
        domain = self._schema.domain
        domain.canonical(domain.names if columns is None else columns)
        return tuple(domain.names if columns is None else columns)

    def _chunk_rows(self, rows: int) -> int:
        if rows < 1:
            raise DataError(f"A chunk must have at least one row, not {rows}.")
        return rows


def read_without(id_column: str) -> DataError:
    """Return the error for a table that does not know whose its rows are."""
    return DataError(
        f"This table was read without the id column {id_column!r}. "
        f"Read it with read_table(..., id_column={id_column!r})."
    )
