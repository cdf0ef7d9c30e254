"""The private table in each of its transformations, read once each and handed to curators only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from understudy.curator import Curator, Journal
from understudy.data import ArrowTable, Database, SparkTable, SqlTable, connect, read_table, records_digest
from understudy.data.events import read_events
from understudy.data.identity import file_stamps
from understudy.data.linked import LinkedTables, linked_in, read_linked, register_pairs
from understudy.data.prepare import rule_meaning
from understudy.data.sources import fetch_tables
from understudy.errors import DataError
from understudy.privacy import Ledger, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.privacy.noise.randomness import Randomness
from understudy.privacy.rows import PublicRows

if TYPE_CHECKING:
    from understudy.data import Table
    from understudy.release.result import Configuration
    from understudy.release.spec.spec import Spec

__all__ = ["Transformed", "TransformedTables", "neighbours", "pairs_of", "read_source", "register_tables"]


class Transformed:
    """Reads, cleans and encodes the private table for a configuration, and keeps it under lock.

    Each distinct transformation is read once and kept; the source must not change in between.

    Parameters
    ----------
    spec
        The specification.
    source
        What to read; by default what the specification names.
    consent
        What the owner of the table agrees to.
    from_file
        Whether the source is the one that the specification names, whose CSV files are written as it says; by default where none is given.
    rows
        The public number of rows once it is known.

    Privacy
    -------
    Holds the private table. Nothing leaves but curators, which charge before they answer; errors say which
    column does not fit and never a value. A declared number of rows is compared with the table by the curator, which writes
    it into the ledger first.
    """

    def __init__(
        self,
        spec: Spec,
        source: Any = None,
        *,
        consent: Consent = NO_CONSENT,
        from_file: bool | None = None,
    ) -> None:
        self._spec = spec
        self._consent = consent
        self._source = spec.source.private if source is None else source
        self._from_file = source is None and spec.source.database is None if from_file is None else from_file
        self._tables: dict[tuple[str, ...], Table] = {}
        self._opened = contextlib.ExitStack()
        self.rows: int | None = spec.row_count.value
        if self._source is None:
            raise DataError("The specification names no file to read; name one, or pass the table.")

    def __repr__(self) -> str:
        return f"Transformed({self._spec.name!r}; records not shown)"

    def close(self) -> None:
        """End the snapshot of a database that was opened here; the tables cannot be asked any more."""
        self._opened.close()

    def curator(
        self,
        configuration: Configuration,
        ledger: Ledger,
        *,
        scope: str = "",
        journal: Journal | None = None,
        randomness: Randomness | None = None,
    ) -> Curator:
        """Return a curator of the table as a configuration transforms it."""
        return Curator(
            self._table(configuration),
            unit=self._spec.unit,
            ledger=ledger,
            rows=public_rows(self._spec, self.rows),
            scope=scope,
            cleaning=tuple(map(rule_meaning, self._spec.cleaning)),
            consent=self._consent,
            journal=journal,
            randomness=randomness,
        )

    def require_unchanged(self) -> None:
        """Refuse to go on if files were written to since they were opened, or the snapshot of a database is lost.

        Privacy
        -------
        Looks at sizes and times of files, or at the connection, and at no record. In a loop every failure of an attempt
        counts as a rejection, because it may depend on the records; a changed file would make all of them fail.
        """
        for table in self._tables.values():
            if isinstance(table, ArrowTable | SparkTable | SqlTable):
                table.require_unchanged()

    def digest(self, configurations: Iterable[Configuration], key: bytes) -> str:
        """Return a keyed digest of the records as some configurations transform them, in whatever order they are stored.

        Privacy
        -------
        Out: private. Whoever has the key can tell whether a guess of the *whole* table is right, and nothing else.
        """
        return records_digest(map(self._table, configurations), key)

    def _table(self, configuration: Configuration) -> Table:
        key = tuple(configuration.transformations.values())
        if key not in self._tables:
            self._tables[key] = self._read(configuration)
        return self._tables[key]

    def _read(self, configuration: Configuration) -> Table:
        spec = self._spec
        words: dict[str, Any] = {}
        if self._from_file:
            words = spec.source.reading
        if spec.two_levels:  # read into memory once, for all transformations
            self._source = _fetched(spec, self._source)
        if isinstance(self._source, Database):
            session = connect(self._source)  # one snapshot for all transformations
            self._source = self._opened.enter_context(contextlib.closing(session))
        return read_source(spec, configuration, self._source, **words)


class TransformedTables:
    """Entities with several tables of events: a `Transformed` for each table of events, with what the entities are and how many events they have in the tables before.

    Parameters
    ----------
    spec, source, consent
        As for `Transformed`; the specification is one of several tables of events.

    Privacy
    -------
    As for `Transformed`. :mod:`understudy.data.linked` says what one entity can change in each of the tables.
    """

    def __init__(self, spec: Spec, source: Any = None, *, consent: Consent = NO_CONSENT) -> None:
        found = spec.source.linked if source is None else register_tables(spec, source)
        if found is None:
            raise DataError(
                "The specification names no tables to read; name them (source.tables), or pass them by name."
            )
        words = {key: spec.source.reading[key] for key in ("separator", "encoding")} if source is None else {}
        self._spec, self._found = spec, found
        self._stamps = file_stamps(found.tables.values())
        pairs = pairs_of(spec, found, **words)
        self.parts = tuple(
            Transformed(part, pairs[table], consent=consent, from_file=source is None)
            for table, part in spec.parts.items()
        )

    def __repr__(self) -> str:
        return f"TransformedTables({self._spec.name!r}; records not shown)"

    def close(self) -> None:
        """As for `Transformed`."""
        for part in self.parts:
            part.close()

    @property
    def rows(self) -> int | None:
        """The public number of event records, which is the same for every table, once it is known."""
        return self.parts[0].rows

    @rows.setter
    def rows(self, number: int | None) -> None:
        for part in self.parts:
            part.rows = number

    def curator(self, configuration: Configuration, ledger: Ledger, **words: Any) -> Curator:
        """Return a curator of the records of the first table of events: the number of records is that of all."""
        return self.parts[0].curator(configuration, ledger, **words)

    def require_unchanged(self) -> None:
        """As for `Transformed`."""
        for part in self.parts:
            part.require_unchanged()

    def digest(self, configurations: Iterable[Configuration], key: bytes) -> str:
        """As for `Transformed`, of all tables, which are read here; refused if files were written to while they were."""
        chosen = list(configurations)
        found = ":".join(part.digest(chosen, key) for part in self.parts)
        if file_stamps(self._found.tables.values()) != self._stamps:
            raise DataError(
                "The tables changed while they were read. Nothing was spent. Run it again when nobody writes to them."
            )
        return found


def register_tables(spec: Spec, source: Any) -> LinkedTables:
    """Return the tables of a specification of several tables of events from whatever names them: a folder, a DuckDB file, the tables by name."""
    assert spec.register is not None
    names = (spec.register.entities, *spec.register.events)
    if isinstance(source, str | PathLike):
        return linked_in(source, names)
    if isinstance(source, Mapping):
        return LinkedTables(tables=source, name=spec.source.table or "tables")
    if not isinstance(source, LinkedTables):
        raise DataError(
            f"The schema describes the linked tables {', '.join(names)}; give them by their names, or as a folder with a file for each."
        )
    return source


def pairs_of(spec: Spec, tables: LinkedTables, **written: Any) -> dict[str, LinkedTables]:
    """Return the entities with each of several tables of events, as the parts of a specification read them. Private where the tables are."""
    assert spec.register is not None
    schemas = [part.schema for part in spec.parts.values()]
    return register_pairs(tables, schemas, spec.register.numbers, **written)


def _fetched(spec: Spec, source: Any) -> Any:
    """Return a source with the tables of databases in memory."""
    if isinstance(source, LinkedTables):
        return source.fetched(spec.schema)
    if isinstance(source, Database):
        return fetch_tables({"": source}, {"": (str(spec.unit.id_column), *spec.schema.names)})[""]
    return source


def read_source(spec: Spec, configuration: Configuration, source: Any, **words: Any) -> Table:
    """Read a table as a configuration transforms it: its rows, or, in a release of two levels, entities with their events. Private if the source is.

    Parameters
    ----------
    source
        Anything that `read_table` takes; of linked tables, the tables by name, a folder with a file for each, or a DuckDB file.
    words
        How CSV files are written.
    """
    schema = spec.table_schema_for(configuration)
    if not spec.two_levels:
        return read_table(source, schema, id_column=spec.unit.id_column, prepare=spec.preparation, **words)
    entity = schema.entity
    assert entity is not None
    if entity.tables is None:
        return read_events(partial(read_table, source, **words), schema, entity, source=source)
    if isinstance(source, str | PathLike):
        source = linked_in(source, entity.tables[1:] if entity.min_events else entity.tables)
    elif isinstance(source, Mapping):
        source = LinkedTables(tables=source, name=spec.source.table or "tables")
    if not isinstance(source, LinkedTables):
        raise DataError(
            "The schema describes linked tables; give them by their names, or as a folder with a file for each."
        )
    written = {key: value for key, value in words.items() if key in ("separator", "encoding")}
    return read_linked(partial(read_table, **written), source, schema, **written)


def public_rows(spec: Spec, number: int | None) -> PublicRows:
    """Return what a specification makes public of the number of rows, with the number itself where there is one."""
    if spec.row_count.kind in ("given", "declared"):
        return PublicRows.exactly(number)
    if spec.row_count.kind == "measured":
        scale = PURE.laplace_scale(spec.shares.rows, float(spec.unit.max_rows))
        return PublicRows.measured(number, scale=scale)
    return PublicRows(number)


def neighbours(spec: Spec) -> tuple[Unit, ...]:
    """Return the units whose sensitivities together cover every step between neighbouring tables.

    Under replace-one the table that is counted may gain or lose the replaced record where records are left out: a cleaning rule may leave out the old or
    the new one, and where events of nobody are dropped (``orphans: drop``) a key without a row in the table of entities gives no records. Unless the number of rows is declared
    public (neighbours then have equally many), a step is a replacement, an addition or a removal, and the largest of the sensitivities for
    the three is the sensitivity. Units of several rows are steps of all three kinds already.
    """
    unit, entity = spec.unit, spec.schema.entity
    declared = spec.row_count.kind in ("given", "declared", "invariant")
    left_out = bool(spec.cleaning) or (entity is not None and entity.leaves_out)
    if left_out and unit.keeps_rows and not declared:
        return (unit, Unit("add-remove", 1, unit.id_column))
    return (unit,)
