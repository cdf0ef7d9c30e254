"""Tables in which a person, household or firm has several rows: who they are, and the records that a fit of two levels counts.

The rows of one *entity* are its *events*. A fit of two levels does not count events as they stand. It counts **event records**: an event, with what is fixed about
its entity, how many events the entity has, and the event before it. Their columns are those of the table and a few more, so they have a schema like any
other table, and every mechanism that can fit a table can fit them. `event_schema` makes that schema; it remembers the schema it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from understudy.errors import SchemaError
from understudy.schema.columns.categorical import Categorical, Ordinal
from understudy.schema.columns.column import Column
from understudy.schema.columns.date import Date
from understudy.schema.columns.numeric import Integer, Ordered, Real
from understudy.schema.constraints.constraint import Constraint
from understudy.schema.problems import did_you_mean
from understudy.schema.summaries import Summary

if TYPE_CHECKING:
    from understudy.schema.schema import Schema

DEFAULT_MAX_EVENTS = 100
"""Most events of an entity that are told apart where the schema does not say."""
MOST_EVENTS = 100_000
USUAL_RECORDS = 10
"""Event records of an entity that count where nobody says how many: more add next to nothing, and take time."""
NUMBERS = "entities by their number of events"
"""What such counts are called in a model."""
MOST_NUMBERS = 1_000
"""Most events of an entity up to which entities are counted number by number."""
LARGEST_LINK = 64
"""Most codes of a column that is linked to the event before unless the schema asks for it."""
FIRST, LATER, NONE = "first", "later", "none"
NO_EVENT = "no event before"
ORPHANS = ("refuse", "drop")
GAP_BINS = ("0", "1-3", "4-7", "8-14", "15-30", "31-60", "61-120", "121-240", "241-480", "481<=")
"""Days from one event to the next, in bins that grow."""
GAP_STARTS = (0, 1, 4, 8, 15, 31, 61, 121, 241, 481)
"""Where these bins begin."""
_GROWTH = 2.2
_MANY, _FIRST_GROWTH, _FAST_GROWTH = 20, 1.8, 4.6
"""From so many events on: 5 to 8, 9 to 40, 41 to 187 and so on. On `patient_stays` (up to 40 and up to 100 events) the worst rate of a group was 1.0 and 1.5 points off, and 1.5 and 3.0 with ranges that
grow as slowly as those for fewer events; on `households` (up to 12) the slow ones were a little better."""
_SINGLE = 4
_KEYS = (
    "id",
    "fixed",
    "order",
    "max_events",
    "link",
    "min_events",
    "tables",
    "reference",
    "count",
    "orphans",
    "gaps",
    "summaries",
)


@dataclass(frozen=True)
class Entity:
    """Who the rows of a table belong to, and what is public about that. Everything here is declared, nothing is read from records.

    Parameters
    ----------
    id
        The column that says whose a row is. It is no column of the schema; synthetic tables have fresh values in it.
    fixed
        Columns that are the same in all rows of an entity, such as sex or year of birth. Where they are not, those of its first row count.
    order
        The column that puts the rows of an entity in order, such as a date; without one their order means nothing.
    max_events
        Most rows that an entity has. One with more counts as one with so many. Choose it well above what is plausible: it costs next to nothing.
    link
        Columns whose value in the row before is looked at too. By default all that are not fixed and have at most 64 codes.
    min_events
        Fewest rows that an entity has: 1, or 0 where a table of entities says who they are, so that some may have no rows.
    tables, reference, count
        Of linked tables (:mod:`understudy.schema.linked`): the names of the table of entities and of that of events, the column of the latter that names
        the entity (``id`` if not said), and a column of the former that says how many events there are (it is not measured, and written as it comes out).
    gaps
        Whether the days from one event to the next are measured too, in bins; the column of the order is a date then.
    summaries
        Columns of the entity that are computed from its rows, such as a total or whether something ever happened (`Summary`). They are measured with everything else and guide the draw.
    orphans
        Of linked tables: what becomes of events whose entity is not in the table of entities: ``refuse`` the tables, or ``drop`` these events.

    Examples
    --------
    >>> Entity("patient", fixed=("sex",), max_events=40).bins
    (1, 2, 3, 4, 5, 9, 41)
    """

    id: str
    fixed: tuple[str, ...] = ()
    order: str | None = None
    max_events: int = DEFAULT_MAX_EVENTS
    link: tuple[str, ...] | None = None
    min_events: int = 1
    tables: tuple[str, str] | None = None
    reference: str | None = None
    count: str | None = None
    orphans: str = "refuse"
    gaps: bool = False
    summaries: tuple[Summary, ...] = ()

    @classmethod
    def from_plain(cls, plain: object) -> tuple[Entity | None, list[str]]:
        """Read the section ``entity`` of a schema; return what is wrong with it beside it."""
        if plain is None or isinstance(plain, Entity):
            return plain, []
        if not isinstance(plain, Mapping):
            return None, ["entity: must be a mapping with the key id"]
        wrong = [
            f"entity: unknown key {str(key)!r}.{did_you_mean(str(key), _KEYS)} Known: {', '.join(_KEYS)}"
            for key in plain
            if key not in _KEYS
        ]
        if not isinstance(plain.get("id"), str) or not plain["id"]:
            wrong.append("entity.id: name the column that says whose a row is")
        for key in ("order", "reference", "count"):
            if plain.get(key) is not None and not (isinstance(plain[key], str) and plain[key]):
                wrong.append(f"entity.{key}: must be the name of a column")
        for key in ("fixed", "link"):
            names = plain.get(key)
            if names is not None and (
                isinstance(names, str)
                or not isinstance(names, Sequence)
                or not all(isinstance(name, str) for name in names)
            ):
                wrong.append(f"entity.{key}: must be a list of names of columns")
        most = plain.get("max_events", DEFAULT_MAX_EVENTS)
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_EVENTS:
            wrong.append(f"entity.max_events: must be a whole number from 1 to {MOST_EVENTS:,}")
        fewest, tables = plain.get("min_events", 1), plain.get("tables")
        if isinstance(fewest, bool) or fewest not in (0, 1):
            wrong.append("entity.min_events: must be 1, or 0 where entities without rows are known")
        if tables is not None and (
            isinstance(tables, str)
            or not isinstance(tables, Sequence)
            or len(tables) != 2
            or not all(isinstance(name, str) and name for name in tables)
            or tables[0] == tables[1]
        ):
            wrong.append("entity.tables: must be two names, of the table of entities and of that of events")
        if plain.get("orphans", "refuse") not in ORPHANS:
            wrong.append("entity.orphans: write refuse or drop")
        if not isinstance(plain.get("gaps", False), bool):
            wrong.append("entity.gaps: must be true or false")
        summaries: list[Summary] = []
        listed = plain.get("summaries") or []
        if isinstance(listed, str) or not isinstance(listed, Sequence):
            wrong.append("entity.summaries: must be a list of mappings with name, of and by")
            listed = []
        for place, item in enumerate(listed):
            summary, unclear = Summary.from_plain(item, f"entity.summaries[{place}]")
            wrong += unclear
            summaries += [] if summary is None else [summary]
        if wrong:
            return None, wrong
        link = plain.get("link")
        return cls(
            plain["id"],
            tuple(plain.get("fixed") or ()),
            plain.get("order"),
            most,
            None if link is None else tuple(link),
            int(fewest),
            None if tables is None else (tables[0], tables[1]),
            plain.get("reference"),
            plain.get("count"),
            plain.get("orphans", "refuse"),
            bool(plain.get("gaps", False)),
            tuple(summaries),
        ), []

    def to_plain(self) -> dict[str, Any]:
        """Return the section as plain values, leaving out defaults."""
        plain: dict[str, Any] = {"id": self.id}
        if self.fixed:
            plain["fixed"] = list(self.fixed)
        if self.order is not None:
            plain["order"] = self.order
        if self.max_events != DEFAULT_MAX_EVENTS:
            plain["max_events"] = self.max_events
        if self.link is not None:
            plain["link"] = list(self.link)
        if self.min_events != 1:
            plain["min_events"] = self.min_events
        if self.tables is not None:
            plain["tables"] = list(self.tables)
        for key in ("reference", "count"):
            if getattr(self, key) is not None:
                plain[key] = getattr(self, key)
        if self.orphans != "refuse":
            plain["orphans"] = self.orphans
        if self.gaps:
            plain["gaps"] = True
        if self.summaries:
            plain["summaries"] = [item.to_plain() for item in self.summaries]
        return plain

    def problems(self, columns: Mapping[str, Column]) -> list[str]:
        """Return what is wrong with this for a table with these columns."""
        found = []
        if self.id in columns:
            found.append(
                f"entity.id: {self.id!r} is a column of the schema; whose a row is, is nothing to be modelled. Leave that column out of columns"
            )
        for key, names in (
            ("fixed", self.fixed),
            ("order", () if self.order is None else (self.order,)),
            ("link", self.link or ()),
        ):
            found += [
                f"entity.{key}: no column named {name!r}.{did_you_mean(name, columns)}"
                for name in names
                if name not in columns
            ]
            if len(set(names)) < len(names):
                found.append(f"entity.{key}: a column is named twice")
        if found:
            return found
        if len(self.fixed) == len(columns):
            found.append("entity.fixed: at least one column must differ between the rows of an entity")
        moving = {name for name in (*(self.link or ()), self.order) if name is not None}
        found += [
            f"entity.fixed: {name!r} is also named under link or order, which are for what differs between rows"
            for name in self.fixed
            if name in moving
        ]
        if self.order is not None:
            column = columns[self.order]
            if column.kind in ("categorical", "boolean"):
                found.append(f"entity.order: {self.order!r} must be a date, a number or ordinal")
            if column.missing or column.out_of_domain == "to-other":
                found.append(
                    f"entity.order: {self.order!r} has entries without a place in the order (missing or other)"
                )
        if self.gaps and (self.order is None or not is_by_day(columns[self.order])):
            found.append(
                "entity.gaps: days between events need a date in entity.order, with a minimum and a maximum and no more days between them than a column may have"
            )
        for item in self.summaries:
            if item.of not in columns:
                found.append(
                    f"entity.summaries {item.name!r}.of: no column named {item.of!r}.{did_you_mean(item.of, columns)}"
                )
            elif item.of in self.fixed:
                found.append(
                    f"entity.summaries {item.name!r}.of: {item.of!r} is fixed about an entity; a summary is of what differs between rows"
                )
            else:
                found += item.problems(columns[item.of], ordered=self.order is not None)
        own = [item.name for item in self.summaries]
        taken = {*columns, self.id, self.reference, self.count}
        found += [
            f"entity.summaries {name!r}.name: is the name of another column"
            for place, name in enumerate(own)
            if name in taken or name in own[:place]
        ]
        found += [
            f"entity.link: the groups of {name!r} are chosen by a fit, so the row before cannot be linked by it"
            for name in self.link or ()
            if _has_open_levels(columns[name])
        ]
        return found

    def within(self, names: set[str]) -> Entity:
        """Return what this says about some of the columns."""
        return replace(
            self,
            fixed=tuple(name for name in self.fixed if name in names),
            order=self.order if self.order in names else None,
            gaps=self.gaps and self.order in names,
            link=None if self.link is None else tuple(name for name in self.link if name in names),
            summaries=tuple(item for item in self.summaries if item.of in names),
        )

    def describe_counting(self, max_rows: int) -> str:
        """Say how entities are counted that give so many event records each, for the documents of what is published.

        Examples
        --------
        >>> Entity("patient").describe_counting(3).partition(", whatever")[0]
        'Entities with their events: of each real patient 3 event records are counted, with noise'
        """
        records = "record is" if max_rows == 1 else "records are"
        order = "in random order" if self.order is None else f"in the order of {self.order!r}"
        rows = "rows" if self.tables is None else f"rows of {self.tables[1]}"
        return (
            f"Entities with their events: of each real {self.id} {max_rows} event {records} counted, with noise, whatever the number of its {rows}. "
            f"Each synthetic {self.id} comes with all its synthetic {rows}, {order}, up to {self.max_events}. Errors that are given as shares of event records are means over entities, of which each counts the same."
        )

    @property
    def written(self) -> tuple[str, ...]:
        """The columns of the table of entities that follow from their events and are written as these came out: their number, and summaries."""
        count = () if self.count is None else (self.count,)
        return (*count, *(item.name for item in self.summaries))

    @property
    def leaves_out(self) -> bool:
        """Whether a key may have rows and give no records: events of nobody are dropped. Neighbours under replace-one then need not have equally many records."""
        return self.orphans == "drop"

    @property
    def bins(self) -> tuple[int, ...]:
        """Where the bins of the number of events begin: single numbers first, then ranges that grow; the last number is one past the end.

        A handful of bins keeps marginals with the number of events small. They follow from ``max_events``, which is public. Where there may be many events the ranges grow fast: few
        entities are far out, and noise on the cells of a range is multiplied by its numbers.
        """
        edges = list(range(1, min(_SINGLE, self.max_events) + 1))
        many = self.max_events > _MANY
        while edges[-1] <= self.max_events:
            low = edges[-1]
            growth = (_FIRST_GROWTH if low == _SINGLE + 1 else _FAST_GROWTH) if many else _GROWTH
            following = low + 1 if low <= _SINGLE else max(low + 1, int(low * growth))
            edges.append(min(following, self.max_events + 1))
        return tuple(edges) if self.min_events else (0, *edges)

    @property
    def bin_labels(self) -> tuple[str, ...]:
        """The bins of the number of events, as a column has them."""
        return tuple(
            str(low) if low == high - 1 else f"{low}-{high - 1}" for low, high in pairwise(self.bins)
        )


@dataclass(frozen=True)
class EventColumns:
    """The columns of event records by what they are.

    Attributes
    ----------
    fixed, events
        What is the same in all records of an entity: columns of the table that are fixed about it, and its summaries; and the other columns of the table.
    summaries
        The last of ``fixed``: columns that are computed from the rows of the entity.
    number, place
        How many events the entity has, in bins; whether the event is its first one.
    before
        For each linked column, the column that holds its code in the event before.
    order
        The column that puts events in order, or None.
    gap
        The column with the days since the event before, or None.
    """

    fixed: tuple[str, ...]
    events: tuple[str, ...]
    number: str
    place: str
    before: Mapping[str, str]
    order: str | None
    gap: str | None = None
    summaries: tuple[str, ...] = ()

    @property
    def drawn(self) -> tuple[str, ...]:
        """The columns that are drawn anew for each event: those of the table, and the days since the one before."""
        return self.events if self.gap is None else (*self.events, self.gap)

    @classmethod
    def of(cls, schema: Schema) -> EventColumns:
        """Return the columns of the event records of a table with this schema."""
        entity = _entity_of(schema)
        summaries = tuple(item.name for item in entity.summaries)
        taken = {*schema.names, *summaries}

        def named(name: str) -> str:
            while name in taken:
                name += "_"
            taken.add(name)
            return name

        events = tuple(name for name in schema.names if name not in entity.fixed)
        linked = [name for name in events if _linked(schema.column(name), entity)]
        return cls(
            fixed=(*(name for name in schema.names if name in entity.fixed), *summaries),
            events=events,
            number=named("number_of_events"),
            place=named("place_of_event"),
            before={name: named(f"{name}_before") for name in linked},
            order=entity.order,
            gap=named("days_since_before") if entity.gaps else None,
            summaries=summaries,
        )


def with_entity(schema: Schema, entity: Entity) -> Schema:
    """Return the schema of a table with whose its rows are, as far as its columns are known."""
    return replace(schema, entity=entity.within(set(schema.names)))


def level_problems(schema: Schema) -> list[str]:
    """Return what a fit of two levels cannot keep of the rules and computed columns of a table, one sentence each."""
    entity, found = _entity_of(schema), []
    fixed = set(entity.fixed)
    for group in schema.joint_values:
        names = {column.name for column in group.columns}
        if not names & fixed or not names - fixed:
            continue
        coarse = sorted(name for name in names & fixed if not _has_single_values(schema.column(name)))
        if coarse:
            found.append(
                f"A rule ties values of {', '.join(sorted(names))} together, of which some are fixed about an entity and some are not. That is possible where each fixed one is a date, or a whole "
                f"number with a minimum and a maximum, that is not written as the label of its bin; {', '.join(coarse)} is not. Make it a constraint (on bins), or fit the rows without their number and order (--flat, flat=True)."
            )
    if entity.gaps and any(
        entity.order in {item.name for item in group.columns} for group in schema.joint_values
    ):
        found.append(
            f"A rule ties values of {entity.order!r} to other columns, so that days between events cannot be drawn (entity.gaps). Make it a constraint (on bins), or leave gaps out."
        )
    moving = set(schema.names) - fixed
    for item in schema.derived if entity.tables is not None else ():
        if item.columns & fixed and item.columns & moving:
            found.append(
                f"The column {item.name!r} is computed from columns of both tables; a table of linked tables has columns of its own. Compute it after joining them."
            )
    return found


def settled_first(schema: Schema) -> tuple[str, ...]:
    """Return the columns fixed about an entity whose values rules tie to those of its events, so that they have to be known before its events are drawn.

    Examples
    --------
    >>> from understudy.schema import Date, Schema
    >>> year = {"minimum": "2020-01-01", "maximum": "2020-12-31", "resolution": "quarter"}
    >>> columns = [Date("died", **year), Date("visited", **year)]
    >>> visits = Schema(columns, rules=["visited <= died"], entity={"id": "patient", "fixed": ["died"]})
    >>> settled_first(visits), with_single_values(visits).column("died").size
    (('died',), 366)
    """
    fixed, found = set(_entity_of(schema).fixed), set[str]()
    for group in schema.joint_values:
        names = {column.name for column in group.columns}
        if names - fixed:
            found |= names & fixed
    return tuple(name for name in schema.names if name in found)


def with_single_values(schema: Schema) -> Schema:
    """Return the schema with a code for each value of the columns that `settled_first` names, and with the rules about values alone: what values an event may have beside known ones of its entity."""
    known = settled_first(schema)
    columns = tuple(finest(column) if column.name in known else column for column in schema.columns)
    fine = replace(schema, columns=columns, constraints=(), determines=())
    rules = (rule for rule in schema.rules if not rule.dependency)
    return replace(
        fine, constraints=tuple(Constraint.parse(rule.text, fine, straddle="values") for rule in rules)
    )


def _has_single_values(column: Column) -> bool:
    """Whether a column can have a code for each of its values."""
    if not isinstance(column, Ordered):
        return True
    cells = getattr(finest(column), "cells", None)
    return column.decode_by != "label" and cells is not None and bool((cells.low == cells.high).all())


def _entity_of(schema: Schema) -> Entity:
    if schema.entity is None:
        raise SchemaError("The schema does not say whose the rows are; give it a section entity.")
    return schema.entity


def _has_open_levels(column: Column) -> bool:
    return getattr(column, "levels", None) is not None


def _linked(column: Column, entity: Entity) -> bool:
    if entity.link is not None:
        return column.name in entity.link or column.name == entity.order
    return column.name == entity.order or (column.size <= LARGEST_LINK and not _has_open_levels(column))


def event_schema(schema: Schema) -> Schema:
    """Return the schema of the event records of a table; `Schema.events_of` of it is the schema of the table.

    Its rules are those of the table, that only an entity's first event has none before, that an entity with one event has no later one, and that order does not go back.

    Examples
    --------
    >>> from understudy.schema import Schema
    >>> stays = Schema.parse("columns: [{name: sex, kind: boolean}, {name: died, kind: boolean}]\\nentity: {id: patient, fixed: [sex]}")
    >>> event_schema(stays).names
    ('sex', 'died', 'number_of_events', 'place_of_event', 'died_before')
    """
    entity, parts = _entity_of(schema), EventColumns.of(schema)
    number = Integer(
        parts.number,
        bins=list(entity.bin_labels),
        decode_by="smooth",
        description="How many rows the entity has.",
    )
    empty = entity.min_events == 0
    place = Categorical(
        parts.place,
        values=(FIRST, LATER, NONE) if empty else (FIRST, LATER),
        description="Whether the row is the first of its entity.",
    )
    before = [_before(schema.column(name), called, entity) for name, called in parts.before.items()]
    if parts.gap is not None:
        before.append(
            Integer(
                parts.gap,
                bins=list(GAP_BINS),
                missing=True,
                description="Days since the event before.",
            )
        )
    no_later = f"`{parts.place}` != '{LATER}'" if empty else f"`{parts.place}` == '{FIRST}'"
    rules = [f"`{parts.number}` > 1 or {no_later}"] if empty or entity.max_events > 1 else []
    for name, called in parts.before.items():
        none = f"`{called}` is missing" if name == parts.order else f"`{called}` == '{NO_EVENT}'"
        rules.append(f"({no_later} and {none}) or (`{parts.place}` == '{LATER}' and not ({none}))")
    if parts.gap is not None:
        none = f"`{parts.gap}` is missing"
        rules.append(f"({no_later} and {none}) or (`{parts.place}` == '{LATER}' and not ({none}))")
    before += [item.column(schema.column(item.of), empty=empty) for item in entity.summaries]
    told = (item.rule(schema.column(item.of)) for item in entity.summaries)
    rules += [rule for rule in told if rule is not None]
    columns, stated = schema.columns, schema.constraints
    if empty:
        rules.append(
            f"(`{parts.number}` == 0 and `{parts.place}` == '{NONE}') or (`{parts.number}` > 0 and `{parts.place}` != '{NONE}')"
        )
        for name in parts.events:
            there = "" if schema.column(name).missing else f" and not (`{name}` is missing)"
            rules.append(
                f"(`{parts.place}` == '{NONE}' and `{name}` is missing) or (`{parts.place}` != '{NONE}'{there})"
            )
        columns = tuple(_or_none(column) if column.name in parts.events else column for column in columns)
    if parts.order is not None:
        rules.append(
            f"`{parts.before[parts.order]}` is missing or `{parts.before[parts.order]}` <= `{parts.order}`"
        )
    made = replace(
        schema,
        columns=(*columns, number, place, *before),
        constraints=(),
        row_count=None,
        derived=(),
        determines=(),
        entity=None,
        events_of=schema,
    )
    kept = [
        _where_there_is_one(rule, made, parts) if empty else rule for rule in stated if not rule.dependency
    ]
    kept += [Constraint.parse(rule, made) for rule in rules]
    kept.sort(key=lambda rule: rule.straddle == "values")  # as a file has them
    return replace(made, constraints=tuple(kept), determines=schema.determines)


def _or_none(column: Column) -> Column:
    """Return a column of events with a code for an entity that has none: the missing one, which is the last."""
    return column if column.missing else replace(column, missing=True)


def _where_there_is_one(rule: Constraint, records: Schema, parts: EventColumns) -> Constraint:
    """Return a rule of the table for event records: where there is no event it has nothing to say.

    Comparisons with missing entries are unknown and break no rule, so that only rules that ask for entries that are there need another text.
    """
    text = rule.text
    if not set(parts.events).isdisjoint(rule.columns) and "missing" in text:
        text = f"`{parts.place}` == '{NONE}' or ({text})"
    return Constraint.parse(text, records, straddle=rule.straddle, description=rule.description)


def _before(column: Column, name: str, entity: Entity) -> Column:
    """Return the column of the codes of another one in the event before, with one more code at the end for no such event."""
    if column.name == entity.order:
        assert isinstance(column, Ordered | Ordinal)
        return replace(column, name=name, missing=True, description="", origin="public")
    labels = column.labels
    plain = len({label.strip() for label in labels} | {"", NO_EVENT}) == len(labels) + 2
    values = labels if plain else tuple(str(code) for code in range(column.size))
    return Categorical(name, values=(*values, NO_EVENT))


def is_by_day(column: Column) -> bool:
    """Say whether events can be put in order by single days of a column."""
    fine = finest(column)
    return isinstance(fine, Date) and fine.resolution == "day" and fine.bins is None


def finest(column: Column) -> Column:
    """Return a column of the same entries with as fine an order as possible, to put rows in order by."""
    try:
        if isinstance(column, Date) and column.minimum is not None and column.maximum is not None:
            return replace(column, resolution="day", bins=None, decode_by="midpoint", origin="public")
        if isinstance(column, Integer) and column.minimum is not None and column.maximum is not None:
            return replace(column, bins=None, values=None, decode_by="midpoint", origin="public")
        if isinstance(column, Real) and column.minimum is not None and column.maximum is not None:
            return replace(column, bins=1 << 16, values=None, decode_by="midpoint", origin="public")
    except SchemaError:  # too many values: the bins of the column have to do
        return column
    return column
