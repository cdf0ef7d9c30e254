"""A table that stays in a database: its records are streamed and encoded here by the rules and the code of files."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from understudy.data.arrow import ArrowTable
from understudy.data.persons import id_text
from understudy.data.prepare import Preparation, PreparedStream
from understudy.data.sql.engines import connect
from understudy.data.sql.session import Session, changed, check_columns
from understudy.data.sql.source import Database
from understudy.data.table import DEFAULT_CHUNK_ROWS, Encoded, Table
from understudy.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from understudy.data.counting.counting import Counts
    from understudy.data.files.stream import Stream
    from understudy.schema import Codes, Schema


class SqlStream:
    """The table of a session as batches, seen through its snapshot.

    Parameters
    ----------
    session
        The connection.
    id_column
        The column of ids, if there is one: numbers of any length stay exact there.
    order_by
        Columns that put the records in order; by default they come as it suits the engine, in another order each time. Records with equal
        entries in all of them change places, and nobody can tell.
    """

    def __init__(
        self, session: Session, *, id_column: str | None = None, order_by: Sequence[str] = ()
    ) -> None:
        self.label = session.source.label
        self._session = session
        self._order_by = list(order_by)
        kind = None if id_column is None else session.relation.schema().get(id_column)
        self._exact_ids = (
            id_column if kind is not None and kind.is_decimal() and kind.precision is None else None
        )

    def stamp(self) -> object:
        """Return nothing that changes: a session refuses to go on if its files do, and its snapshot does not change."""
        self._session.require_unchanged()
        return ()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Iterate over batches with the given columns; others do not leave the database. Private."""
        relation = self._session.relation
        columns = columns or relation.columns[:1]  # rows without columns would have no number
        if self._order_by:
            relation = relation.order_by(self._order_by)
        ids = self._exact_ids if self._exact_ids in columns else None
        if ids is None:
            return self._session.batches(self._session.guarded(lambda: relation.select(*columns)))
        # numbers without a bound on their digits are sent as text, and equal ones have one text
        query = self._session.guarded(
            lambda: relation.select(
                *(relation[name].cast("string").name(name) if name == ids else name for name in columns)
            )
        )
        return (_with_plain_ids(batch, ids) for batch in self._session.batches(query))


def _with_plain_ids(batch: pa.RecordBatch, ids: str) -> pa.RecordBatch:
    """Return a batch in which ids that are numbers are written as `id_text` writes them: ``7.00`` is ``7``."""
    import pyarrow as pa

    coded = batch.column(ids).dictionary_encode()
    texts = [None if text == "NaN" else id_text(Decimal(text)) for text in coded.dictionary.to_pylist()]
    place = batch.schema.get_field_index(ids)
    return batch.set_column(place, ids, pa.array(texts, pa.string()).take(coded.indices))


class DatabaseTable(Encoded):
    """What tables of every engine have in common: a session, columns that are there and fit, rules that leave records out.

    An engine reads the records in `_begin`; the parameters are those of `SqlTable`.
    """

    def __init__(
        self,
        source: Database | Session,
        schema: Schema,
        *,
        id_column: str | None = None,
        prepare: Preparation | None = None,
        max_memory_mb: int = 1024,
    ) -> None:
        self._session = connect(source) if isinstance(source, Database) else source
        self._schema = schema
        self._id_column = id_column
        self._prepare = prepare or Preparation()
        self._filtered = bool(self._prepare.rules)
        self._limit = int(max_memory_mb * 2**20)
        self._header = list(self._session.relation.columns)
        wanted = [*schema.names, *([] if id_column is None else [id_column])]
        needed = self._prepare.wanted(wanted, self._header)
        check_columns(self._session, needed, schema=schema)
        self._begin(needed)

    def _begin(self, needed: Sequence[str]) -> None:
        """Read every record once, of the columns that are needed."""
        raise TypeError("DatabaseTable is a base; use read_table.")


class _Streamed(ArrowTable):
    """Records that are streamed from a database again for every round of questions."""

    def _changed(self) -> DataError:
        return changed(self._stream.label)


class SqlTable(DatabaseTable):
    """A table in DuckDB, PostgreSQL or another engine than Spark.

    Opening it reads and checks every record once. If the codes fit the memory limit they stay here, and the database is not asked again;
    otherwise every round of questions reads the columns that it needs, always through the same snapshot.

    Parameters
    ----------
    source
        The `Database`, or a session that is open already.
    schema
        The public schema.
    id_column
        The column that says who a row is about, for person-level units.
    prepare
        Derived columns and cleaning rules.
    max_memory_mb
        Megabytes that the codes may take here.

    Raises
    ------
    DataError
        If the database fails, or the table does not fit the schema. Later, if it changed in between. Messages hold
        no value of the table and nothing the driver said.

    Privacy
    -------
    The table is private. Its repr shows neither values nor the number of rows. Counts come from queries that
    ended; if one fails there is an error and no count, so nothing noisy is ever drawn from part of a table. A
    curator counts marginals before it charges for them: one that fails costs nothing. Records are encoded by the very functions that
    encode those of files, so every argument about neighbouring tables there holds here.

    Examples
    --------
    >>> import duckdb, tempfile
    >>> from understudy.schema import Boolean, Schema
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/survey.duckdb"
    ...     with duckdb.connect(path) as connection:
    ...         _ = connection.execute("CREATE TABLE answers AS SELECT unnest([true, false, true]) AS smokes")
    ...     table = SqlTable(Database(url=path, table="answers"), Schema(columns=(Boolean(name="smokes"),)))
    ...     table.count(("smokes",)).tolist()
    [1, 2]
    """

    def _begin(self, needed: Sequence[str]) -> None:
        from understudy.data.sources import load  # which reads databases too

        def stream(order_by: Sequence[str] = ()) -> Stream:
            raw = SqlStream(self._session, id_column=self._id_column, order_by=order_by)
            return PreparedStream(raw, self._prepare, self._header) if self._prepare else raw

        self._in_order = stream(needed)
        coming = stream()
        self._inside: Table = load(
            coming, self._schema, self._id_column, self._limit, filtered=self._filtered
        ) or _Streamed(coming, self._schema, id_column=self._id_column, filtered=self._filtered)

    def __repr__(self) -> str:
        return f"SqlTable({self._session.source.kind}, {len(self._schema.domain)} columns; records not shown)"

    def exact_row_count(self) -> int:
        """Return the exact number of rows. Private."""
        return self._inside.exact_row_count()

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques, from one pass over the records. Private."""
        return self._inside.count_many(cliques)

    def distinct(self, columns: Sequence[str]) -> tuple[Codes, Counts]:
        """Return the distinct records of some columns, sorted, and how often each occurs. Private."""
        return self._inside.distinct(columns)

    def chunks(
        self, columns: Sequence[str] | None = None, *, rows: int = DEFAULT_CHUNK_ROWS
    ) -> Iterator[dict[str, Codes]]:
        """Iterate over the records, at most ``rows`` at a time, in an order that is the same in every call. Private."""
        inside = self._inside
        if isinstance(inside, ArrowTable):
            inside = copy.copy(inside)
            inside._stream = self._in_order
        return inside.chunks(columns, rows=rows)

    def people_by_rows(self, id_column: str, most: int) -> Counts:
        """Return how many people have one row, two rows, and so on; those with ``most`` rows or more come last. Private."""
        return self._inside.people_by_rows(id_column, most)

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> SqlTable:
        """Return the table with at most ``max_rows`` rows per person; see `Table.truncated`."""
        table = copy.copy(self)
        table._inside = self._inside.truncated(id_column, max_rows, key)
        return table

    def require_unchanged(self) -> None:
        """Refuse to go on if the table changed or the connection was lost; records held here need neither."""
        if isinstance(self._inside, ArrowTable):
            self._session.require_alive()
