"""Linked tables as one source: entities, and events that point to them by a key.

**Who is protected.** An entity is a value of the key, with its row in the table of entities and with all its rows in the table of events. What it adds to the event records
(:mod:`understudy.data.events`) depends on these rows and on their random words alone:

- exactly ``k`` records if it has a row in the table of entities, whether it has events or not;
- nothing if it has events and no such row, and the owner chose to leave such events out (``orphans: drop``).

Adding or removing an entity with its rows in both tables changes the records of no other entity, because a row of one is never a row of another: at most ``k`` records come or go. Replacing
one takes at most ``k`` away and adds at most ``k``. These are the bounds of `understudy.privacy.Unit`. Where orphans are left out, an entity may give no records, so the number of records
is not fixed by the relation even if entities are replaced: the table says so (``filtered``).

**Several tables of events** (`read_register`) are counted one after another, each with the table of entities: what an entity adds to the event records of one of them depends on its rows in the
table of entities, in that table of events, and on the *numbers* of its rows in the tables before, which are fixed columns of the entity. All of these are its own rows. So adding, removing or replacing an
entity with all its rows in all tables changes the records of each table by ``k`` that come, go, or both, and those of no other entity: the bounds of `understudy.privacy.Unit` hold for each table, and what is
asked of the several tables composes on the ledger as several questions about one table do.

By default tables with orphans are refused before anything is spent, as are two rows of the table of entities with one key. The refusals say that there are such rows, never how many or which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import code_dtype
from understudy.data.events import EventsTable, WithoutEvents
from understudy.data.files.csv import CsvStream
from understudy.data.files.dataset import DatasetStream
from understudy.data.files.stream import attempt, is_csv, name_problems
from understudy.data.files.survey import is_survey, read_survey
from understudy.data.holdout import HoldOut
from understudy.data.identity import file_stamps
from understudy.data.local import LocalTable
from understudy.data.output import ENDINGS
from understudy.data.persons import People, id_text, missing_ids, refuse_missing_words
from understudy.data.sources import (
    fetch_tables,
    frame_of_arrow,
    in_memory,
    read_frame,
    refuse_reading_options,
)
from understudy.data.sql.source import Database, is_database
from understudy.data.table import Table
from understudy.errors import DataError
from understudy.schema import Schema
from understudy.schema.coding.reading import is_nothing
from understudy.schema.entities import finest
from understudy.schema.linked import LinkedFile

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from understudy.schema import Codes

Texts = npt.NDArray[np.object_]


@dataclass(frozen=True, kw_only=True)
class LinkedTables:
    """A table of entities and a table of their events, wherever they are.

    Parameters
    ----------
    tables
        The tables by their names in the schema: frames, CSV, Parquet, Stata, SPSS or SAS files, or tables of databases (`Database`), which are read into memory. The table of
        entities is left out where entities are only known by the ids of their events.
    name
        What the two are called together in their ledger.
    file
        The schema file that names them, if there is one: their ledger lies beside it.
    """

    tables: Mapping[str, Any] = field(repr=False)
    name: str = "tables"
    file: Path | None = None

    @classmethod
    def of_file(cls, file: LinkedFile, path: Path) -> LinkedTables:
        """Return the tables that a schema file names."""
        tables = {
            name: Database(**place) if isinstance(place, dict) else place
            for name, place in file.located(path.parent).items()
        }
        return cls(tables=tables, name=path.stem, file=path)

    def fetched(self, schema: Schema) -> LinkedTables:
        """Return the same with the tables of databases read into memory, those of one database through one snapshot. Private.

        Other parts of the tables than the schema names are not read.
        """
        stored = {name: table for name, table in self.tables.items() if isinstance(table, Database)}
        if not stored:
            return self
        self.check(schema)
        entity = schema.entity
        assert entity is not None
        assert entity.tables is not None
        columns = {
            entity.tables[0]: (entity.id, *entity.fixed),
            entity.tables[1]: (
                entity.reference or entity.id,
                *(name for name in schema.names if entity.min_events or name not in entity.fixed),
            ),
        }
        return replace(self, tables={**self.tables, **fetch_tables(stored, columns)})

    def files(self) -> dict[str, Path]:
        """Return the files that are read, by what they are."""
        found = {} if self.file is None else {"schema of the tables": self.file}
        for name, source in self.tables.items():
            if isinstance(source, str | PathLike):
                found[f"table {name!r}"] = Path(fspath(source))
        return found

    def check(self, schema: Schema) -> None:
        """Refuse other tables than the schema names, and kinds of tables that cannot be linked; nothing is read."""
        entity = schema.entity
        if entity is None or entity.tables is None:
            raise DataError("The schema describes one table; linked tables are described under tables.")
        entities, events = entity.tables
        wanted = {events} if entity.min_events else {entities, events}
        for name in sorted(wanted - set(self.tables)):
            raise DataError(
                f"The table {name!r} has no source. Name its file in the schema (source), or give it from Python by its name."
            )
        for name in sorted(set(self.tables) - wanted):
            raise DataError(
                f"The schema has no table {name!r} that could be read; it has {', '.join(sorted(wanted))}."
            )
        for name, source in self.tables.items():
            if is_database(source) and not isinstance(source, Database):
                raise DataError(
                    f"A database holds many tables, and the source of {name!r} names none of them. Write url and table under source in the schema, or pass Database(url=..., table=...)."
                )
            if type(source).__name__ == "LazyFrame":
                raise DataError(
                    f"The table {name!r} is a lazy frame, which may put its rows in another order each time it is computed. Pass frame.collect()."
                )


def read_linked(
    read: Callable[..., Table],
    source: LinkedTables,
    schema: Schema,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    hold_out: HoldOut | None = None,
) -> EventsTable:
    """Read linked tables and put every event to its entity. Private.

    Parameters
    ----------
    read
        Reads one table by a schema: ``read(source, schema)``, as `read_table` does.
    source
        The tables.
    schema
        Of both tables as one, with what belongs to which (`understudy.schema.linked`).
    separator, encoding
        Of CSV files.
    hold_out
        Read one part of the entities, with all their rows in both tables, chosen by their keys alone (`HoldOut`). The number of records is then private under every unit.

    Raises
    ------
    DataError
        If the tables cannot be read, a key is missing, an entity has two rows, or an event has no entity and that is not allowed. It says nothing of which or how many.
    """
    source.check(schema)
    source = source.fetched(schema)
    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    written = {"separator": separator, "encoding": encoding}
    entities, events = (source.tables.get(name) for name in entity.tables)
    before = file_stamps(source.tables.values())
    moving = tuple(name for name in schema.names if name not in entity.fixed)
    named = entity.reference or entity.id
    if entity.min_events:  # what is fixed is in the rows of the events
        rows = _in_memory(read(events, replace(schema, entity=None, derived=())))
        keys = read_keys(events, named, **written)
        known = np.ones(len(keys), bool) if hold_out is None else _part(hold_out, keys)
        if any(len(codes) != len(known) for codes in rows._columns.values()):
            raise _changed()
        owner = _people(keys[known])
        columns, without, left_out = (
            {name: codes[known] for name, codes in rows._columns.items()},
            None,
            False,
        )
    else:
        rows = _in_memory(read(events, _only(schema, moving)))
        keys = read_keys(events, named, **written)
        own = read_keys(entities, entity.id, **written)
        fixed: dict[str, Codes] = {}
        if entity.fixed:
            fixed = dict(_in_memory(read(entities, _only(schema, entity.fixed)))._columns)
        if any(len(codes) != len(own) for codes in fixed.values()):
            raise _changed()
        where = _places(own, keys, entity.tables, entity.id)
        known = where >= 0
        left_out = entity.leaves_out
        if not left_out and not known.all():
            raise DataError(
                f"The table {entity.tables[1]!r} has rows whose {named!r} is no {entity.id!r} of {entity.tables[0]!r}. Add these entities, remove these rows, or say "
                "that such rows do not count (orphans: drop). Nothing was spent."
            )
        alone = np.ones(len(own), bool) if hold_out is None else _part(hold_out, own)
        known[known] = alone[where[known]]
        owner = _people(keys[known])
        alone[where[known]] = False
        without = WithoutEvents(int(alone.sum()), {name: codes[alone] for name, codes in fixed.items()})
        columns = {name: codes[where[known]] for name, codes in fixed.items()}
        columns |= {
            name: rows._columns[name][known] for name in moving if len(rows._columns[name]) == len(known)
        }
    if set(columns) != set(schema.names) or any(len(codes) != len(owner) for codes in columns.values()):
        raise _changed()
    order = None
    if entity.order is not None:
        pieces = [
            chunk[entity.order]
            for chunk in read(events, Schema([finest(schema.column(entity.order))])).chunks()
        ]
        order = np.concatenate([np.zeros(0, np.int64), *pieces])
        if len(order) != len(known):
            raise _changed()
        order = order[known]
    if file_stamps(source.tables.values()) != before:
        raise _changed()
    made = LocalTable._adopting(
        schema,
        {name: columns[name].astype(code_dtype(schema.domain.size(name))) for name in schema.names},
        {entity.id: owner},
        filtered=left_out or hold_out is not None,
    )
    return EventsTable(made, order=order, without=without)


def read_register(
    read: Callable[..., Table],
    source: LinkedTables,
    schemas: Sequence[Schema],
    numbers: Sequence[Mapping[str, str]],
    *,
    separator: str | None = None,
    encoding: str | None = None,
    hold_out: HoldOut | None = None,
) -> dict[str, EventsTable]:
    """Read a table of entities with several tables of their events, and put every event to its entity; by the names of the tables of events. Private.

    Parameters
    ----------
    read, separator, encoding, hold_out
        As for `read_linked`; an entity that is held out is so in every table.
    source
        All of the tables.
    schemas
        Of the entities with each table of events, as one (`understudy.schema.linked.Register`).
    numbers
        For each of these, which fixed column holds the number of events in which of the tables before.

    Raises
    ------
    DataError
        As for `read_linked`; the module says what an entity adds.
    """
    written = {"separator": separator, "encoding": encoding}
    before = file_stamps(source.tables.values())
    pairs = register_pairs(source, schemas, numbers, **written)
    found = {
        _pair(schema)[1]: read_linked(
            read, pairs[_pair(schema)[1]], schema, separator=separator, encoding=encoding, hold_out=hold_out
        )
        for schema in schemas
    }
    if file_stamps(source.tables.values()) != before:
        raise _changed()
    return found


def register_pairs(
    source: LinkedTables,
    schemas: Sequence[Schema],
    numbers: Sequence[Mapping[str, str]],
    *,
    separator: str | None = None,
    encoding: str | None = None,
) -> dict[str, LinkedTables]:
    """Return the table of entities with each of several tables of their events, by the name of the latter; entities have the numbers of their events in the tables before. Private.

    Parameters
    ----------
    source, schemas, numbers, separator, encoding
        As for `read_register`.
    """
    import pandas as pd

    written = {"separator": separator, "encoding": encoding}
    entities, key = _pair(schemas[0])[0], str(getattr(schemas[0].entity, "id", ""))
    wanted = {entities, *(_pair(schema)[1] for schema in schemas)}
    for name in sorted(wanted ^ set(source.tables)):
        raise DataError(
            f"The table {name!r} has no source. Name it in the schema (source), or give it from Python by its name."
            if name in wanted
            else f"The schema has no table {name!r}; it has {', '.join(sorted(wanted))}."
        )
    source = _all_fetched(source, schemas, numbers)
    before = file_stamps(source.tables.values())
    own = pd.Index(read_keys(source.tables[entities], key, **written), dtype=object)
    known = _frame(source.tables[entities], **written)
    if len(known) != len(own):
        raise _changed()
    found: dict[str, LinkedTables] = {}
    for schema, beside in zip(schemas, numbers, strict=True):
        events = _pair(schema)[1]
        rows = known.assign(
            **{beside[table]: _numbers(source, schemas, table, own, written) for table in beside}
        )
        found[events] = LinkedTables(tables={entities: rows, events: source.tables[events]}, name=source.name)
    if file_stamps(source.tables.values()) != before:
        raise _changed()
    return found


def _pair(schema: Schema) -> tuple[str, str]:
    assert schema.entity is not None
    assert schema.entity.tables is not None
    return schema.entity.tables


def _numbers(
    source: LinkedTables, schemas: Sequence[Schema], table: str, own: pd.Index, written: Mapping[str, Any]
) -> npt.NDArray[np.int64]:
    """Return how many events each entity has in a table; more than the schema tells apart count as the most that it does."""
    import pandas as pd

    entity = next(schema.entity for schema in schemas if _pair(schema)[1] == table)
    assert entity is not None
    if not own.is_unique:
        raise _repeated(_pair(schemas[0])[0], entity.id)
    keys = pd.Index(read_keys(source.tables[table], entity.reference or entity.id, **written), dtype=object)
    where = own.get_indexer(keys)
    return np.minimum(np.bincount(where[where >= 0], minlength=len(own)), entity.max_events)


def _all_fetched(
    source: LinkedTables, schemas: Sequence[Schema], numbers: Sequence[Mapping[str, str]]
) -> LinkedTables:
    """Return the same with all tables of databases in memory, through as few snapshots as there are databases."""
    stored = {name: table for name, table in source.tables.items() if isinstance(table, Database)}
    columns: dict[str, tuple[str, ...]] = {}
    for schema, beside in zip(schemas, numbers, strict=True):
        entity = schema.entity
        assert entity is not None
        entities, events = _pair(schema)
        fixed = tuple(name for name in entity.fixed if name not in beside.values())
        columns[entities] = (entity.id, *fixed)
        moving = (name for name in schema.names if name not in entity.fixed)
        columns[events] = (entity.reference or entity.id, *moving)
    return replace(source, tables={**source.tables, **fetch_tables(stored, columns)}) if stored else source


def astray(source: LinkedTables, schema: Schema, **written: Any) -> float:
    """Return the share of events whose entity is not in the table of entities. Private where the tables are."""
    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    if entity.min_events:
        return 0.0
    entities, events = (source.tables.get(name) for name in entity.tables)
    keys = read_keys(events, entity.reference or entity.id, **written)
    own = read_keys(entities, entity.id, **written)
    return float(1.0 - np.isin(keys, own).mean()) if len(keys) else 0.0


def _people(keys: Texts) -> People:
    """Return whose each event is, by the keys of the entities."""
    import pyarrow as pa

    distinct, places = np.unique(keys, return_inverse=True)
    texts = [text.encode("utf-8", "surrogatepass") for text in distinct]
    return People.of(places.reshape(-1), pa.array(texts, pa.large_binary()))


def _part(hold_out: HoldOut, keys: Texts) -> npt.NDArray[np.bool_]:
    """Say for each key whether its entity belongs to a part."""
    distinct, places = np.unique(keys, return_inverse=True)
    return hold_out.chosen_persons(distinct.tolist())[places.reshape(-1)]


def joined_values(
    source: LinkedTables, schema: Schema, *, hold_out: HoldOut | None = None, **written: Any
) -> pd.DataFrame:
    """Return the events with the columns of their entity beside them, as values, in the order of the table of events. Private where the tables are."""
    import pandas as pd

    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    entities, events = (source.tables.get(name) for name in entity.tables)
    frame = _frame(events, **written)
    if hold_out is not None:
        mine = _part(hold_out, read_keys(events, entity.reference or entity.id, **written))
        frame = frame[mine].reset_index(drop=True)
    if entity.min_events:
        return frame
    keys = pd.Index(read_keys(events, entity.reference or entity.id, **written), dtype=object)
    keys = keys if hold_out is None else keys[mine]
    own = pd.Index(read_keys(entities, entity.id, **written), dtype=object)
    where = own.get_indexer(keys)
    beside = _frame(entities, **written)[list(entity.fixed)].take(where[where >= 0])
    kept = frame[where >= 0].reset_index(drop=True)
    return pd.concat([kept, beside.reset_index(drop=True)], axis=1)


def _frame(source: Any, **written: Any) -> pd.DataFrame:
    if isinstance(source, str | PathLike):
        return read_frame(source, **written)
    found = in_memory(source)
    if found is None:
        raise DataError(f"A table cannot be linked from an object of type {type(source).__qualname__!r}.")
    if hasattr(found, "iloc"):
        frame: pd.DataFrame = found
        return frame
    return frame_of_arrow(found, "a table")


def linked_in(place: str | PathLike[str], tables: Sequence[str]) -> LinkedTables:
    """Return linked tables that were written to a folder, a file for each, or to a DuckDB file."""
    path = Path(fspath(place))
    if path.name.lower().endswith(".duckdb"):
        return LinkedTables(tables=_of_database(path, tables), name=path.stem)
    found: dict[str, Any] = {}
    for name in tables:
        files = [path / f"{name}{ending}" for ending in ENDINGS if (path / f"{name}{ending}").exists()]
        if len(files) != 1:
            what = "no file" if not files else "more than one file"
            raise DataError(
                f"The folder {str(path)!r} has {what} for the table {name!r}; one named {name} with the ending .csv, .csv.gz or .parquet was wanted."
            )
        found[name] = files[0]
    return LinkedTables(tables=found, name=path.name)


def _of_database(path: Path, tables: Sequence[str]) -> dict[str, Any]:
    """Return tables of a DuckDB file, whole numbers exact beside missing ones."""

    def read() -> dict[str, Any]:
        import duckdb

        found = {}
        with duckdb.connect(str(path), read_only=True) as database:
            for name in tables:
                rows = database.execute('SELECT * FROM "' + name.replace('"', '""') + '"')
                found[name] = (getattr(rows, "to_arrow_table", None) or rows.fetch_arrow_table)()
        return found

    return attempt(
        read, lambda _: DataError(f"{path.name!r} is no DuckDB file with the tables {', '.join(tables)}.")
    )


def _only(schema: Schema, names: tuple[str, ...]) -> Schema:
    return replace(schema.select(names), entity=None, derived=())


def _in_memory(table: Table) -> LocalTable:
    if not isinstance(table, LocalTable):
        raise DataError(
            "The tables are too large for the memory that a fit of people with several rows may take. Leave columns out."
        )
    return table


def _changed() -> DataError:
    return DataError("The tables changed while they were read. Run it again when nobody writes to them.")


def _repeated(table: str, key: str) -> DataError:
    return DataError(
        f"The table {table!r} has more than one row with the same {key!r}; an entity has one. Nothing was spent."
    )


def _places(own: Texts, keys: Texts, tables: tuple[str, str], key: str) -> npt.NDArray[np.int64]:
    """Return for each event the row of its entity, or -1."""
    import pandas as pd

    index = pd.Index(own, dtype=object)
    if not index.is_unique:
        raise _repeated(tables[0], key)
    return np.asarray(index.get_indexer(pd.Index(keys, dtype=object)), np.int64)


def read_keys(
    source: Any, column: str, *, separator: str | None = None, encoding: str | None = None
) -> Texts:
    """Return the keys of a table as text, row by row, the same whichever library or file held them. Private.

    Raises
    ------
    DataError
        If the column is absent, or some rows have no key.
    """
    import pyarrow as pa

    batches = list(_key_batches(source, column, separator, encoding))
    plain = [item.dictionary_decode() if pa.types.is_dictionary(item.type) else item for item in batches]
    if not sum(map(len, plain)):
        return np.zeros(0, object)
    if any(item.null_count for item in plain):
        raise missing_ids(column)

    def coded() -> tuple[list[Any], list[npt.NDArray[Any]]]:
        encoded = pa.chunked_array(plain).dictionary_encode()
        last = encoded.chunks[-1].dictionary  # all chunks have one dictionary
        return last.to_pylist(), [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]

    wrong = DataError(f"The column {column!r} must hold text, whole numbers or dates, one per row.")
    values, places = attempt(coded, lambda _: wrong)
    if any(value is None or value != value for value in values):
        raise missing_ids(column)
    refuse_missing_words(values, column)
    texts: Texts = attempt(
        lambda: np.array([id_text(value) for value in values], dtype=object), lambda _: wrong
    )
    return np.asarray(texts[np.concatenate([np.zeros(0, np.int64), *places])])


def _key_batches(source: Any, column: str, separator: str | None, encoding: str | None) -> Iterator[pa.Array]:
    """Yield one column of a table."""
    import pyarrow as pa

    found: Any
    if isinstance(source, str | PathLike):
        path = Path(fspath(source))
        if is_survey(path):
            refuse_reading_options(separator, encoding, None)
            found = read_survey(path).frame
        else:
            if is_csv(path):
                csv = CsvStream(path, [column], separator=separator, encoding=encoding or "utf-8")
                batches = csv.batches([column])
            else:
                batches = DatasetStream.from_paths([path], [column]).batches([column])
            for batch in batches:
                yield batch.column(column)
            return
    else:
        found = in_memory(source)
    if found is None:
        raise DataError(f"A table cannot be linked from an object of type {type(source).__qualname__!r}.")
    names = [str(name) for name in (found.columns if hasattr(found, "iloc") else found.schema.names)]
    name_problems("The columns do not fit the schema", names, [column]).raise_if_any(DataError)
    if not hasattr(found, "iloc"):
        values = found.column(column)
        yield from getattr(values, "chunks", [values])
        return
    wrong = DataError(f"The column {column!r} must hold text, whole numbers or dates, one per row.")
    series = found.iloc[:, names.index(column)]
    if series.dtype == object:  # entry by entry: Arrow would choose one type for all of them
        entries = series.tolist()
        if any(is_nothing(entry) for entry in entries):
            raise missing_ids(column)
        yield attempt(lambda: pa.array([id_text(entry) for entry in entries], pa.string()), lambda _: wrong)
        return
    made = attempt(lambda: pa.array(series, from_pandas=True), lambda _: wrong)
    yield from getattr(made, "chunks", [made])
