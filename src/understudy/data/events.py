"""A table of events that bounds what one entity contributes: each gives exactly so many event records, however many rows it has.

**What is counted.** Let an entity have ``n`` rows, in order, and let the unit allow ``k`` rows. Each of its rows becomes ``floor(k/n)`` equal records, and
``k mod n`` of its rows, chosen at random, one more; with ``n > k`` that is ``k`` of its rows at random. So an entity gives **exactly k records**, and each of its rows ``k/n`` of
them in expectation. A record holds the row, what is fixed about the entity, its number of rows (in public bins, up to a public cap), the row before and, where the schema asks for it, the days since then (in public bins).

**Entities without rows.** Where a table of entities says who they are (:mod:`understudy.data.linked`), an entity may have no rows. It gives ``k`` equal records too: what is fixed
about it, the number 0, and in the columns of events the code for none. So every entity gives exactly ``k`` records, whatever the number of its rows.

**Summaries.** Where the schema asks for columns that are computed from the rows of an entity (`understudy.schema.summaries`), each record holds them. They are a function of the codes of all rows of that entity, however many,
in the order that its own entries and the key give them, so that a record stays a function of the rows of its own entity and of the key: nothing below changes.

**Sensitivity.** Which records an entity gives is a function of its own rows (in both tables, where there are two) and of the key that the curator drew: the word of a row is a keyed hash of its entity, its
record (its place in the order included) and the number of equal rows of the entity before it (:mod:`understudy.data.persons`). Take two tables that differ in one entity, and any one key: all other entities give the same records in both. Adding or removing the entity adds or removes its ``k`` records; replacing
it replaces ``k`` records by ``k``. The records are therefore a table with at most ``k`` rows per unit, as `understudy.privacy.Unit` wants it, and every
bound that holds for such tables holds here: a marginal changes by at most ``k`` in L1 and L2 under add-remove, by at most ``2k`` in L1 and ``sqrt(2) k`` in L2 under replace-one.
(The key is drawn without looking at the tables, so a mechanism that is private for each key is private.)

**Bias.** Given the number of rows ``n``, the expected share of the records with a property is the mean, over the entities with ``n`` rows, of the share of their rows with it: no
row is favoured, although few are kept. A table that is cut to ``k`` rows counts an entity with ``n > k`` rows as one with ``k``, and nothing in it says so. Here the number of rows
is a column, so drawing ``n`` rows for an entity of ``n`` gives all of them their weight back.

**Noise.** A cut table with ``k`` rows gets noise ``k sigma`` and its counts have to be multiplied by ``n/min(n, k)`` to stand for rows of entities with ``n``: noise of at least ``n sigma``. Records get
noise ``k sigma`` as well, and ``n/k`` is their multiplier: ``n sigma``, for every ``k``. So a larger ``k`` costs no accuracy here. It only lessens what the random choice of rows adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import code_dtype
from understudy.data.identity import file_stamps
from understudy.data.local import LocalTable
from understudy.data.persons import (
    Persons,
    RecordWords,
    check_key,
    check_max_rows,
    marks_of_persons,
    mixed,
    words_of_rows,
)
from understudy.data.sources import fetch_tables, read_table
from understudy.data.sql.source import Database
from understudy.data.table import Table, read_without
from understudy.errors import DataError
from understudy.schema import Schema
from understudy.schema.entities import (
    GAP_STARTS,
    Entity,
    EventColumns,
    event_schema,
    finest,
    with_entity,
)

if TYPE_CHECKING:
    from understudy.schema import Codes

Ints = npt.NDArray[np.int64]

MOST_RECORDS = 1 << 31
"""Most event records that are made; far below what counts can hold exactly. The refusal depends on the number of entities: see the page on known weaknesses."""


@dataclass(frozen=True, eq=False)
class WithoutEvents:
    """The entities that have no events. Private.

    Attributes
    ----------
    number
        How many there are.
    columns
        Codes of what is fixed about them.
    """

    number: int = field(repr=False)
    columns: Mapping[str, Codes] = field(repr=False)

    def __post_init__(self) -> None:
        if any(len(codes) != self.number for codes in self.columns.values()):
            raise DataError("The columns of entities without events have different lengths.")


class EventsTable(LocalTable):
    """Rows of entities in memory, which the curator turns into event records (see the module for what they are and why that is private).

    The table itself has the schema of the rows. `truncated`, which the curator calls before anything is counted, returns the table of event records with the schema
    `understudy.schema.entities.event_schema` of it.

    Parameters
    ----------
    table
        The rows, with the number of the entity of each. Its schema has a section ``entity``.
    order
        A number per row that puts the rows of an entity in order, where the schema names such a column. Rows with equal numbers stay in the order of the table.
    without
        The entities that have no rows, where the schema says that there may be such (``min_events: 0``).

    Examples
    --------
    >>> from understudy.schema import Boolean, Schema
    >>> schema = Schema([Boolean("died")], entity={"id": "patient"})
    >>> rows = LocalTable(schema, {"died": [0, 0, 1, 0]}, persons={"patient": [7, 7, 7, 8]})
    >>> records = EventsTable(rows).truncated("patient", 6, bytes(32))
    >>> records.count(("number_of_events", "died"))[:3].tolist()  # six records of each patient
    [[6, 0], [0, 0], [4, 2]]
    """

    def __init__(
        self, table: LocalTable, *, order: npt.ArrayLike | None = None, without: WithoutEvents | None = None
    ) -> None:
        entity = table.schema.entity
        if entity is None:
            raise DataError("The schema of a table of events says whose the rows are (entity).")
        if (entity.order is None) != (order is None):
            raise DataError(
                "A table of events needs numbers to put its rows in order exactly where its schema names a column for that."
            )
        self._schema, self._columns, self._persons = table._schema, table._columns, table._persons
        self._rows, self._filtered = table._rows, table._filtered
        self._order = None if order is None else np.asarray(order)
        if self._order is not None and self._order.shape != (self._rows,):
            raise DataError(
                "The table changed while it was read: its rows and their order do not fit together. Read it again."
            )
        if (entity.min_events == 0) != (without is not None):
            raise DataError(
                "A table of events knows the entities without events exactly where its schema says that there may be such (min_events: 0)."
            )
        self._without = without
        if without is not None and set(without.columns) != set(entity.fixed):
            raise DataError(
                "Entities without events have exactly the columns that are fixed about an entity."
            )

    def beyond_codes(self) -> Iterator[bytes]:
        """Return what a digest of the records needs beside the codes: which rows are of one entity, their order, and the entities without any. Private."""
        columns = [self._columns[name] for name in self._schema.names]
        for name in sorted(self._persons):
            yield name.encode("utf-8")
            yield marks_of_persons(self._persons[name].numbers, columns, self._order).astype("<u8").tobytes()
        if self._without is not None:
            alone = [self._without.columns[name] for name in sorted(self._without.columns)]
            yield self._without.number.to_bytes(8, "big")
            yield marks_of_persons(np.arange(self._without.number), alone, None).astype("<u8").tobytes()

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> LocalTable:
        """Return the event records: exactly ``max_rows`` of each entity."""
        check_max_rows(max_rows)
        check_key(key)
        if id_column not in self._persons:
            raise read_without(id_column)
        if id_column != self._schema.entity.id:  # type: ignore[union-attr]
            raise DataError(
                f"The schema says that rows belong to {self._schema.entity.id!r} (entity.id) and the unit that they belong to {id_column!r}. "  # type: ignore[union-attr]
                "Name the same column."
            )
        persons = self._persons[id_column].numbers
        entities = int(persons.max(initial=-1)) + 1
        alone = 0 if self._without is None else self._without.number
        if (entities + alone) * int(max_rows) > MOST_RECORDS:
            raise DataError(
                "There are too many event records for this number of rows per person. Choose a smaller one (max_rows_per_person): in a fit of two levels it "
                "costs no accuracy to speak of."
            )
        drawn = self._words(id_column, key)
        rows, starts, sizes = in_order(persons, drawn, self._order)
        copies = shares(persons[rows], sizes, mixed(drawn)[rows], int(max_rows))
        place = np.arange(len(rows)) - np.repeat(starts, sizes)
        event = np.repeat(np.arange(len(rows)), copies)  # of the rows in order
        idle = np.repeat(np.arange(alone), int(max_rows))  # entities without events
        of_each = np.bincount(
            np.concatenate([persons[rows[event]], idle + entities]), minlength=entities + alone
        )
        if (of_each != max_rows).any():
            raise DataError(
                "Event records were not made as they should be; nothing was counted. Please report this."
            )
        return self._records(rows, np.repeat(starts, sizes), np.repeat(sizes, sizes), place, event, idle)

    def _words(self, id_column: str, key: bytes) -> npt.NDArray[np.uint64]:
        """Return a word for each row, from its entity, its codes, its place in the order, and the number of equal rows of the entity before it."""
        records = RecordWords.of(self._schema.domain).pack(self._columns, self._rows)
        if self._order is not None:
            exact = np.float64 if self._order.dtype.kind == "f" else np.int64
            records = np.column_stack([records, self._order.astype(exact).view(np.uint64)])
        return words_of_rows(self._persons[id_column], records, key)

    def levels(self) -> tuple[LocalTable, LocalTable]:
        """Return every entity once and every event once, as event records: not what is counted, but what an evaluation compares. Private.

        Of an entity only what is fixed and the number of events have a meaning.
        """
        assert self._schema.entity is not None
        persons = self._persons[self._schema.entity.id].numbers
        rows, starts, sizes = in_order(persons, np.arange(self._rows, dtype=np.uint64), self._order)
        place = np.arange(len(rows)) - np.repeat(starts, sizes)
        given = rows, np.repeat(starts, sizes), np.repeat(sizes, sizes), place
        none = np.zeros(0, np.int64)
        alone = none if self._without is None else np.arange(self._without.number)
        return self._records(*given, starts, alone), self._records(*given, np.arange(len(rows)), none)

    def _records(
        self, rows: Ints, starts: Ints, sizes: Ints, place: Ints, event: Ints, idle: Ints
    ) -> LocalTable:
        """Build the table of records: for each, the place of its event among the rows in order; then those of entities without events."""
        schema = event_schema(self._schema)
        parts, domain = EventColumns.of(self._schema), schema.domain
        entity = self._schema.entity
        assert entity is not None
        here, first, later = rows[event], rows[starts[event]], place[event] > 0
        previous = rows[np.maximum(event - 1, 0)]
        columns: dict[str, Codes] = {}
        for name in entity.fixed:
            columns[name] = self._columns[name][first]
        firsts = np.flatnonzero(starts == np.arange(len(starts)))
        who = np.searchsorted(firsts, starts)
        empty = self._without is not None
        for item in entity.summaries:  # of all rows of the entity, and of no other
            of = self._schema.column(item.of)
            found = item.codes(of, self._columns[item.of][rows], who, len(firsts), empty=empty)
            columns[item.name] = found[who[event]].astype(code_dtype(domain.size(item.name)))
        for name in parts.events:
            columns[name] = self._columns[name][here]
        number = (
            np.searchsorted(
                np.asarray(entity.bins), np.minimum(sizes[event], entity.max_events), side="right"
            )
            - 1
        )
        columns[parts.number] = number.astype(code_dtype(domain.size(parts.number)))
        columns[parts.place] = later.astype(code_dtype(2))
        for name, called in parts.before.items():
            size = domain.size(called)
            columns[called] = np.where(later, self._columns[name][previous], size - 1).astype(
                code_dtype(size)
            )
        if parts.gap is not None:
            assert self._order is not None
            days = (self._order[here] - self._order[previous]).astype(np.int64)
            size = domain.size(parts.gap)
            bins = np.searchsorted(GAP_STARTS, np.maximum(days, 0), side="right") - 1
            columns[parts.gap] = np.where(later, bins, size - 1).astype(code_dtype(size))
        if self._without is not None:
            last = {
                name: domain.size(name) - 1 for name in (*parts.drawn, parts.place, *parts.before.values())
            }
            none = np.zeros(0, np.int64)
            nothing = {
                item.name: int(item.codes(self._schema.column(item.of), none, none, 1, empty=True)[0])
                for item in entity.summaries
            }
            for name, size in zip(domain.names, domain.sizes, strict=True):
                if name in nothing:
                    added = np.full(len(idle), nothing[name])
                elif name in parts.fixed:
                    added = self._without.columns[name][idle]
                else:  # no events, in the first bin; every other column has its code for none at the end
                    added = np.full(len(idle), last.get(name, 0))
                columns[name] = np.concatenate([columns[name], added]).astype(code_dtype(size))
        return LocalTable._adopting(
            schema, {name: columns[name] for name in schema.names}, {}, filtered=self._filtered
        )


def read_events(
    read: Callable[..., Table], schema: Schema, entity: Entity, *, source: Any = None
) -> EventsTable:
    """Read a table whose rows belong to entities, and put them in order. Private.

    Parameters
    ----------
    read
        Reads the table by a schema, and with ``id_column`` if it is told one.
    source
        What it reads: files that change between the reading of rows and that of their order are refused, because an entity would get the order of others. Rows of a `Database` have no order:
        it is read into memory once, through one snapshot, and ``read`` is not called.
    """
    complete = with_entity(schema, entity)
    if isinstance(source, Database):
        read = partial(read_table, fetch_tables({"": source}, {"": (entity.id, *complete.names)})[""])
    given = source if isinstance(source, list | tuple) else [source]
    before = file_stamps(given)
    rows = read(complete, id_column=entity.id)
    if not isinstance(rows, LocalTable):
        raise DataError(
            "The table is too large for the memory that a fit of people with several rows may take. Leave columns out, or fit the rows without their number and "
            "order (--flat, flat=True)."
        )
    assert complete.entity is not None
    name = complete.entity.order
    if name is None:
        return EventsTable(rows)
    column = Schema([finest(complete.column(name))])
    pieces = [chunk[name] for chunk in read(column, id_column=None).chunks()]
    if file_stamps(given) != before:
        raise DataError("The table changed while it was read. Run it again when nobody writes to it.")
    return EventsTable(rows, order=np.concatenate([np.zeros(0, np.int64), *pieces]))


def in_order(
    persons: Persons, words: npt.NDArray[np.uint64], order: npt.NDArray[np.generic] | None
) -> tuple[Ints, Ints, Ints]:
    """Return the rows entity by entity and in order, where each entity begins, and how many rows it has.

    Without an order the rows of an entity stand in random order, so that the one before is any other one.
    """
    keys = (words if order is None else order, persons)
    rows = np.lexsort(keys).astype(np.int64)
    sizes = np.bincount(persons).astype(np.int64) if len(persons) else np.zeros(0, np.int64)
    return rows, np.cumsum(sizes) - sizes, sizes


def shares(who: Persons, sizes: Ints, words: npt.NDArray[np.uint64], records: int) -> Ints:
    """Return how many records each row gives: ``records`` in all for each entity, as equal as possible, the rest to the smallest words.

    Examples
    --------
    >>> shares(np.array([0, 0, 0, 1]), np.array([3, 1]), np.array([9, 1, 5, 2], np.uint64), 4).tolist()
    [1, 2, 1, 4]
    """
    each, rest = np.divmod(records, sizes)
    smallest = np.lexsort((words, who))  # rows of an entity lie together already
    rank = np.empty(len(who), np.int64)
    rank[smallest] = np.arange(len(who)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(each[who] + (rank < rest[who]), np.int64)
