"""One door for every kind of source: `read_table`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.data.arrow import ArrowTable, wanted_columns
from understudy.data.counting.counting import code_dtype
from understudy.data.counting.encode import encode_batch
from understudy.data.files.csv import CsvStream
from understudy.data.files.dataset import DatasetStream
from understudy.data.files.stream import Stream, Watch, attempt, is_csv, name_problems
from understudy.data.files.survey import Described, is_survey, read_survey
from understudy.data.holdout import HoldOut, PartStream
from understudy.data.identity import table_file
from understudy.data.local import LocalTable
from understudy.data.persons import People, ids_from_pandas, number_persons
from understudy.data.prepare import Preparation, PreparedStream
from understudy.data.sql.engines import SparkSession_, connect
from understudy.data.sql.session import Session
from understudy.data.sql.source import Database, is_database
from understudy.data.sql.spark import SparkTable
from understudy.data.sql.table import SqlTable
from understudy.errors import DataError
from understudy.schema.coding.reading import number_of, series_of_arrow

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from understudy.data.table import Table
    from understudy.schema import Codes, Schema

# ----------------------------------------------------------------------------------------
# A file as a pandas frame, for drafting a schema when there is none yet.


def read_frame(
    path: str | PathLike[str] | Database,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    check_header: bool = False,
    first_rows: int | None = None,
) -> pd.DataFrame:
    """Read a file, a folder of Parquet files, or a table of a database without a schema.

    Columns of a CSV file come as text, exactly as they stand in the file; an empty field is a missing
    value, and a column without a name is left out. `read_table` is the way to read a table for a curator.

    Parameters
    ----------
    path
        The file or folder, or a `Database`.
    separator, encoding, names
        CSV only, as for `read_table`. Without ``separator``, the header decides.
    check_header
        Refuse a CSV file whose first line looks like a record and not like names.
    first_rows
        Stop reading after so many rows (and the rest of the block they are in).

    Returns
    -------
    pandas.DataFrame
        Every row and column.

    Raises
    ------
    DataError
        If the file cannot be read. The message contains nothing of what the file holds.

    Privacy
    -------
    Out: private, the records themselves.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/t.csv").write_text("code;age\\n007;41\\n")
    ...     read_frame(f"{folder}/t.csv").to_dict("list")
    {'code': ['007'], 'age': ['41']}
    """
    return read_described(
        path,
        separator=separator,
        encoding=encoding,
        names=names,
        check_header=check_header,
        first_rows=first_rows,
    ).frame


def read_described(
    path: str | PathLike[str] | Database,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    check_header: bool = False,
    first_rows: int | None = None,
) -> Described:
    """Read as `read_frame` does, with the labels and descriptions that a Stata, SPSS or SAS file holds.

    Privacy
    -------
    Out: private, the records themselves.
    """
    import pyarrow as pa

    if isinstance(path, Database):
        refuse_reading_options(separator, encoding, names)
        return Described(_read_database(path, first_rows))
    source = Path(path)
    if is_survey(source):
        refuse_reading_options(separator, encoding, names)
        found = read_survey(source)
        return found if first_rows is None else replace(found, frame=found.frame.iloc[:first_rows])
    if is_csv(source):
        stream = CsvStream(source, None, separator=separator, encoding=encoding or "utf-8", names=names)
        columns = [name for name in stream.header if name]
        kinds = pa.schema([(name, pa.string()) for name in columns])
        table = pa.Table.from_batches(_first(stream.batches(columns), first_rows), kinds)
        if check_header and names is None and looks_like_a_record(columns, table.slice(0, _LOOK_AT)):
            raise DataError(
                f"The first line of {source.name!r} looks like a record: it holds numbers where the following lines do. "
                "If it is one, give the names of the columns (--names), or number them (--no-header). If it names the "
                "columns, say so (--header)."
            )
    else:
        refuse_reading_options(separator, encoding, names)
        table = DatasetStream.from_paths([source], ()).read_all()
        table = table if first_rows is None else table.slice(0, first_rows)
    return Described(frame_of_arrow(table, source.name))


def _read_database(source: Database, first_rows: int | None) -> pd.DataFrame:
    import pyarrow as pa

    session = connect(source)
    try:
        kinds = session.guarded(lambda: session.relation.schema().to_pyarrow())
        query = session.relation if first_rows is None else session.relation.limit(first_rows)
        batches = list(session.batches(query))
    finally:
        session.close()
    table = pa.Table.from_batches(batches) if batches else kinds.empty_table()
    return frame_of_arrow(table, source.label)


def fetch_tables(
    sources: Mapping[str, Database], columns: Mapping[str, Sequence[str]]
) -> dict[str, pa.Table]:
    """Read some columns of tables of databases into memory, those of one database through one snapshot. Private.

    Rows of a database have no order. They are put in that of their entries, so that the same rows are read as the same table each time.

    Parameters
    ----------
    sources
        The tables by name.
    columns
        The columns that are read of each.
    """
    found: dict[str, pa.Table] = {}

    def together(
        source: Database,
    ) -> tuple[str, ...]:  # files under the name of a table have no database in common
        file = table_file(source)
        return (source.url,) if file is None else (source.url, str(file))

    for group in dict.fromkeys(map(together, sources.values())):
        here = {name: source for name, source in sources.items() if together(source) == group}
        undeclared = [source for source in here.values() if not source.immutable]
        session = connect(undeclared[0] if undeclared else next(iter(here.values())))
        try:
            for name, source in here.items():
                relation = session.relation if source == session.source else session.beside(source.table)
                found[name] = _fetched(session, relation, columns[name], source.label)
        finally:
            session.close()
    return found


def _fetched(session: Session, relation: Any, columns: Sequence[str], label: str) -> pa.Table:
    """Return some columns of a relation, in the order of their entries."""
    import pyarrow as pa

    kinds = session.guarded(lambda: relation.schema().to_pyarrow())
    name_problems(f"The columns of {label!r} do not fit the schema", kinds.names, columns).raise_if_any(
        DataError
    )
    batches = list(session.batches(session.guarded(lambda: relation.select(*columns))))
    if not batches:
        return pa.schema([kinds.field(name) for name in columns]).empty_table()
    plain = [_without_dictionaries(pa.table(batch)) for batch in batches]
    # a batch without a single entry in a column may have no type there; other types are not made alike, which would change entries for the sake of others
    table = attempt(
        lambda: pa.concat_tables(plain, promote_options="default"),
        lambda _: DataError(
            f"The driver of the database gave a column of {label!r} several types. Convert the column in a view, or write the table to files."
        ),
    )
    keys = [(name, "ascending") for name in columns if not pa.types.is_null(table.schema.field(name).type)]
    return attempt(
        lambda: table.sort_by(keys) if keys else table,
        lambda _: DataError(
            f"A column of {label!r} has entries of a kind that cannot be put in order, so that its rows cannot be read into memory."
        ),
    )


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Return a table whose columns hold their entries themselves: enumerations cannot be put in the order of their entries."""
    import pyarrow as pa

    kinds = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(kinds))


def _first(batches: Iterable[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """Stop after the block that completes so many rows."""
    seen = 0
    for batch in batches:
        yield batch
        seen += batch.num_rows
        if rows is not None and seen >= rows:
            return


def looks_like_a_record(header: Sequence[str], rows: pa.Table) -> bool:
    """Whether a header reads like the lines below it: every column of numbers has a number for a name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> looks_like_a_record(["39", "State-gov"], pa.table({"39": ["50", "38"], "State-gov": ["Private", "Private"]}))
    True
    >>> looks_like_a_record(["age", "sector"], pa.table({"age": ["50", "38"], "sector": ["Private", "Private"]}))
    False
    """
    numeric = 0
    for name in header:
        entries = [entry for entry in rows[name].to_pylist() if entry is not None]
        if entries and all(number_of(entry) is not None for entry in entries):
            if number_of(name) is None:
                return False
            numeric += 1
    return numeric > 0


def refuse_reading_options(separator: str | None, encoding: str | None, names: Sequence[str] | None) -> None:
    """Refuse options of a CSV file for a source that is not one."""
    if separator is not None or encoding is not None or names is not None:
        raise DataError("separator=, encoding= and names= apply to CSV files only; this source is not one.")


_LOOK_AT = 100
"""Rows that a header is compared with."""


def frame_of_arrow(table: Any, label: str) -> pd.DataFrame:
    """Return an Arrow table as a frame in which a missing entry does not change how the others of its column are read. Private where the table is."""
    import pandas as pd

    def unreadable(error: Exception) -> DataError:
        return DataError(f"{label!r} has a column of a type that pandas cannot hold. Convert it first.")

    columns = attempt(lambda: {name: series_of_arrow(table[name]) for name in table.column_names}, unreadable)
    return pd.DataFrame(columns)


Streamed = Callable[..., ArrowTable]

_ACCEPTED = (
    "a pandas or Polars frame, an Arrow table, batch or dataset, the path of a CSV file (.csv, .csv.gz), "
    "the path of a Parquet file or folder or of a Stata, SPSS or SAS file, or a Database"
)


def read_table(
    source: Any,
    schema: Schema,
    *,
    id_column: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    prepare: Preparation | None = None,
    max_memory_mb: int = 1024,
    watch: Watch | None = None,
    checkpoint: str | PathLike[str] | None = None,
    hold_out: HoldOut | None = None,
) -> Table:
    """Read a private table from wherever it is and encode it by its schema.

    Columns that the schema does not declare are skipped. CSV columns are read as text, so ``007`` and
    ``NA`` mean what the schema says; an empty field is a missing value.

    Parameters
    ----------
    source
        A pandas or Polars frame; an Arrow table, record batch or dataset; the path of a CSV file
        (plain or gzipped) or of a Parquet file; a folder of Parquet files, with or without partitions;
        a list of Parquet files; a Stata, SPSS or SAS file; or a `Database`, whose table stays where it is.
    schema
        The public schema.
    id_column
        The column that says who a row is about, for a person-level privacy unit. It must not be part of
        the schema. Ids are replaced by numbers while reading and never shown.
    separator
        CSV only: the character between fields. By default the header tells (comma, semicolon, tab or bar).
    encoding
        CSV only: the text encoding, UTF-8 by default.
    names
        CSV only: the names of all columns of a file without a header, in their order; an empty list numbers
        them, ``column_1`` and so on. Blanks around the fields of such a file do not count.
    prepare
        Columns to derive and cleaning rules, applied record by record. The number of rows of a table that
        was read with cleaning rules is private under every unit, unless the schema declares it.
    max_memory_mb
        A file whose encoded records take more megabytes than this is left on disk and read again, in
        batches, for each question.
    watch
        Told how reading and counting of a table on disk goes; see `ArrowTable`.
    checkpoint
        A private folder where an `ArrowTable` or a `SparkTable` of Parquet files keeps counts so far; see there for what that means.
    hold_out
        Read one part of the rows, chosen without a look at their values (`HoldOut`). Not for databases, whose rows have no order, and
        not with ``prepare``. The number of rows that are read is private under every unit.

    Returns
    -------
    Table
        A `LocalTable`, an `ArrowTable` for files beyond the memory limit, or an `SqlTable` or `SparkTable`.

    Raises
    ------
    DataError
        If the source cannot be read or does not fit the schema. The message says where and what to do,
        and contains no value of the table and no number of rows.

    Privacy
    -------
    In and out: private. Hand the table to a curator and keep no other reference to it.

    Examples
    --------
    >>> import pandas as pd
    >>> from understudy.schema import Categorical, Schema
    >>> schema = Schema(columns=(Categorical(name="ward", values=("north", "south")),))
    >>> table = read_table(pd.DataFrame({"ward": ["south", "north", "south"]}), schema)
    >>> table.count(("ward",)).tolist()
    [1, 2]
    """
    if hold_out is not None:
        id_column = _id_of_part(hold_out, id_column, prepare)
    wanted = wanted_columns(schema, id_column)
    limit = _limit_bytes(max_memory_mb)
    if isinstance(source, Session) or is_database(source):
        if hold_out is not None:
            raise DataError(
                "Rows of a database have no fixed order to hold some of them out by. Export the table to a file."
            )
        if not isinstance(source, Database | Session):
            raise DataError("A database needs the name of a table too: pass Database(url=..., table=...).")
        refuse_reading_options(separator, encoding, names)
        kind_of_source = source.source.kind if isinstance(source, Session) else source.kind
        if checkpoint is not None and kind_of_source != "spark":
            raise DataError(
                "checkpoint= applies to files, read here or by Spark: the snapshot of a database ends with its connection, and a later one "
                "may hold other rows. Leave it out."
            )
        source = connect(source) if isinstance(source, Database) else source
        words: dict[str, Any] = {"id_column": id_column, "prepare": prepare, "max_memory_mb": max_memory_mb}
        if isinstance(source, SparkSession_):
            return SparkTable(source, schema, checkpoint=checkpoint, **words)
        return SqlTable(source, schema, **words)
    streamed = partial(ArrowTable, watch=watch, checkpoint=checkpoint)
    if hold_out is not None:
        return _read_part(
            source, schema, id_column, limit, hold_out, streamed, (separator, encoding, names), wanted
        )
    if prepare:
        written: dict[str, Any] = {"separator": separator, "encoding": encoding, "names": names}
        return _read_prepared(source, schema, id_column, limit, prepare, written, streamed)
    if isinstance(source, str | PathLike):
        path = Path(fspath(source))
        if is_survey(path):
            refuse_reading_options(separator, encoding, names)
            return _from_pandas(read_survey(path).frame, schema, id_column, wanted)
        if is_csv(path):
            csv = CsvStream(path, wanted, separator=separator, encoding=encoding or "utf-8", names=names)
            return load(csv, schema, id_column, limit) or streamed(csv, schema, id_column=id_column)
    refuse_reading_options(separator, encoding, names)
    if isinstance(source, str | PathLike):
        return _read_dataset(DatasetStream.from_paths([path], wanted), schema, id_column, limit, streamed)
    if isinstance(source, Sequence) and source and all(isinstance(item, str | PathLike) for item in source):
        files = [Path(fspath(item)) for item in source]
        return _read_dataset(DatasetStream.from_paths(files, wanted), schema, id_column, limit, streamed)
    return _read_object(source, schema, id_column, wanted, limit, streamed)


def _id_of_part(part: HoldOut, id_column: str | None, prepare: Preparation | None) -> str | None:
    if prepare is not None:
        raise DataError("A table that is prepared on the way cannot be divided into parts.")
    if part.id_column is not None and id_column not in (None, part.id_column):
        raise DataError(
            f"The hold-out keeps the rows of a person together by {part.id_column!r}, and the id column is {id_column!r}. Use one of them."
        )
    return part.id_column if id_column is None else id_column


def _read_part(
    source: Any,
    schema: Schema,
    id_column: str | None,
    limit: int,
    part: HoldOut,
    streamed: Streamed,
    written: tuple[str | None, str | None, Sequence[str] | None],
    wanted: Sequence[str],
) -> Table:
    """Read one part of a source; the other rows are dropped before anything is encoded."""
    separator, encoding, names = written
    stream: Stream | None = None
    paths = [source] if isinstance(source, str | PathLike) else source
    if isinstance(paths, Sequence) and paths and all(isinstance(item, str | PathLike) for item in paths):
        files = [Path(fspath(item)) for item in paths]
        if len(files) == 1 and is_survey(files[0]):
            refuse_reading_options(*written)
            source = read_survey(files[0]).frame
        elif len(files) == 1 and is_csv(files[0]):
            stream = CsvStream(
                files[0], wanted, separator=separator, encoding=encoding or "utf-8", names=names
            )
        else:
            refuse_reading_options(*written)
            stream = DatasetStream.from_paths(files, wanted)
    else:
        refuse_reading_options(*written)
        if "pyarrow" in sys.modules:
            import pyarrow.dataset as pads

            if isinstance(source, pads.Dataset):
                stream = DatasetStream(source, wanted, label="dataset")
    if stream is not None:
        divided = PartStream(stream, part)
        return load(divided, schema, id_column, limit, filtered=True) or streamed(
            divided, schema, id_column=id_column, filtered=True
        )
    whole = in_memory(source)
    if whole is None:
        raise DataError(
            f"A table cannot be read from an object of type {type(source).__qualname__!r}. Pass {_ACCEPTED}."
        )
    if hasattr(whole, "iloc"):
        _check([str(name) for name in whole.columns], wanted)
        return _from_pandas(part.frame(whole), schema, id_column, wanted)._marked(filtered=True)
    _check(whole.schema.names, wanted)
    return _from_arrow(part.arrow(whole), schema, id_column)._marked(filtered=True)


def in_memory(source: Any) -> Any:
    """Return a pandas frame or an Arrow table as it is, a Polars frame as an Arrow table, anything else as None."""
    pandas, polars, arrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    if polars is not None and isinstance(source, polars.LazyFrame):
        source = source.collect()
    if polars is not None and isinstance(source, polars.DataFrame):
        return source.to_arrow()
    if arrow is not None and isinstance(source, arrow.Table | arrow.RecordBatch):
        return source
    return source if pandas is not None and isinstance(source, pandas.DataFrame) else None


def _read_prepared(
    source: Any,
    schema: Schema,
    id_column: str | None,
    limit: int,
    prepare: Preparation,
    written: dict[str, Any],
    streamed: Streamed,
) -> Table:
    """Read a source whose records are prepared on the way."""
    wanted = wanted_columns(schema, id_column)
    filtered = bool(prepare.rules)
    paths = [source] if isinstance(source, str | PathLike) else source
    if isinstance(source, str | PathLike) and is_survey(Path(fspath(source))):
        source = read_survey(Path(fspath(source))).frame
    elif isinstance(paths, Sequence) and paths and all(isinstance(item, str | PathLike) for item in paths):
        files = [Path(fspath(item)) for item in paths]
        stream: CsvStream | DatasetStream
        if len(files) == 1 and is_csv(files[0]):
            options = written | {"encoding": written["encoding"] or "utf-8"}
            header = CsvStream(files[0], None, **options).header
            stream = CsvStream(files[0], prepare.wanted(wanted, header), **options)
        else:
            header = DatasetStream.from_paths(files, []).header
            stream = DatasetStream.from_paths(files, prepare.wanted(wanted, header))
        prepared = PreparedStream(stream, prepare, header)
        return load(prepared, schema, id_column, limit, filtered=filtered) or streamed(
            prepared, schema, id_column=id_column, filtered=filtered
        )
    refuse_reading_options(**written)
    whole = in_memory(source)

    def unreadable(error: Exception) -> DataError:
        return DataError("The records cannot be prepared. Check the types of their columns.")

    if hasattr(whole, "iloc"):
        _check([str(name) for name in whole.columns], prepare.wanted(wanted, [str(c) for c in whole.columns]))
        frame = attempt(lambda: prepare.frame(whole, wanted), unreadable)
        return _from_pandas(frame, schema, id_column, wanted)._marked(filtered=filtered)
    if whole is not None:
        _check(whole.schema.names, prepare.wanted(wanted, whole.schema.names))
        batch = attempt(lambda: prepare.batch(whole, wanted), unreadable)
        return _from_arrow(batch, schema, id_column)._marked(filtered=filtered)
    raise DataError(
        f"A table cannot be prepared from an object of type {type(source).__qualname__!r}. Pass {_ACCEPTED}."
    )


def _read_object(
    source: Any, schema: Schema, id_column: str | None, wanted: Sequence[str], limit: int, streamed: Streamed
) -> Table:
    """Read something that is already in memory, or a dataset; nothing is imported that the source did not."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        return _from_pandas(source, schema, id_column, wanted)
    if polars is not None and isinstance(source, polars.LazyFrame):
        source = source.collect()
    if polars is not None and isinstance(source, polars.DataFrame):
        _check(list(source.columns), wanted)
        return _from_arrow(source.select(wanted).to_arrow(), schema, id_column)
    if "pyarrow" in sys.modules:
        import pyarrow as pa
        import pyarrow.dataset as pads

        if isinstance(source, pads.Dataset):
            stream = DatasetStream(source, wanted, label="dataset")
            return _read_dataset(stream, schema, id_column, limit, streamed)
        if isinstance(source, pa.Table | pa.RecordBatch):
            _check(source.schema.names, wanted)
            return _from_arrow(source, schema, id_column)
    raise DataError(
        f"A table cannot be read from an object of type {type(source).__qualname__!r}. Pass {_ACCEPTED}."
    )


def _from_pandas(frame: Any, schema: Schema, id_column: str | None, wanted: Sequence[str]) -> LocalTable:
    names = [str(name) for name in frame.columns]
    _check(names, wanted)

    def unreadable(error: Exception) -> DataError:
        return DataError("The frame cannot be encoded by this schema. Check the types of its columns.")

    encoded = attempt(lambda: schema.encode_frame(frame), unreadable)
    persons: dict[str, People] = {}
    if id_column is not None:
        persons[id_column] = ids_from_pandas(frame.iloc[:, names.index(id_column)], id_column)
    return LocalTable(schema, encoded, persons=persons)


def _check(names: Sequence[object], wanted: Sequence[str]) -> None:
    name_problems("The columns do not fit the schema", names, wanted).raise_if_any(DataError)


def _from_arrow(data: pa.Table | pa.RecordBatch, schema: Schema, id_column: str | None) -> LocalTable:
    codes = encode_batch(data, schema, schema.domain.names)
    persons: dict[str, People] = {}
    if id_column is not None:
        ids = data.column(id_column)
        persons[id_column] = number_persons(getattr(ids, "chunks", [ids]), id_column)
    return LocalTable(schema, codes, persons=persons)


def _read_dataset(
    stream: DatasetStream, schema: Schema, id_column: str | None, limit: int, streamed: Streamed
) -> Table:
    bytes_per_row = sum(code_dtype(size).itemsize for size in schema.domain.sizes)
    if stream.count_rows() * bytes_per_row <= limit:
        table = load(stream, schema, id_column, limit)
        if table is not None:
            return table
    return streamed(stream, schema, id_column=id_column)


def load(
    stream: Stream, schema: Schema, id_column: str | None, limit: int, *, filtered: bool = False
) -> LocalTable | None:
    """Encode a stream into memory, or give up when the codes and ids outgrow ``limit`` bytes."""
    names = schema.domain.names
    parts: list[dict[str, Codes]] = []
    ids: list[pa.Array] = []
    used = 0
    for batch in stream.batches(wanted_columns(schema, id_column)):
        parts.append(encode_batch(batch, schema, names))
        used += sum(codes.nbytes for codes in parts[-1].values())
        if id_column is not None:
            ids.append(batch.column(id_column))
            used += ids[-1].nbytes
        if used > limit:
            return None
    persons = {} if id_column is None else {id_column: number_persons(ids, id_column)}
    ids.clear()
    columns: dict[str, Codes] = {}
    for name, size in zip(names, schema.domain.sizes, strict=True):
        # taking each column out of the parts frees it: only one column is held twice
        columns[name] = np.concatenate([np.zeros(0, code_dtype(size)), *(part.pop(name) for part in parts)])
    return LocalTable._adopting(schema, columns, persons, filtered=filtered)


def _limit_bytes(max_memory_mb: int) -> int:
    if not max_memory_mb >= 0:
        raise DataError(f"max_memory_mb ({max_memory_mb}) must not be negative.")
    return int(max_memory_mb * 2**20)
