"""Linked tables in a schema file: a table of entities and a table of their events, written under ``tables``.

Such a file describes two tables with their keys. A fit of two levels looks at them as at one: the columns of the entities are fixed about an entity, those of
the events differ between its events, and `Entity` says how they belong together. `joined` turns the one description into the other. It looks at nothing but
the file.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.errors import SchemaError
from understudy.schema.addresses import is_address, secret_in
from understudy.schema.entities import DEFAULT_MAX_EVENTS, MOST_EVENTS, ORPHANS, Entity
from understudy.schema.problems import did_you_mean, raise_problems

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema.schema import Schema

__all__ = [
    "LinkedFile",
    "Register",
    "is_file_name",
    "joined",
    "package_of",
    "parted",
    "read_linked_file",
    "read_register",
    "register_of",
    "register_package",
]

HEADING = "The linked tables have problems"
_SHARED = ("name", "source", "columns", "constraints", "rules", "determines", "derived", "description")
_OF_ENTITIES = (*_SHARED, "key", "count")
_OF_EVENTS = (
    *_SHARED,
    "belongs_to",
    "reference",
    "order",
    "max_events",
    "link",
    "orphans",
    "fixed",
    "gaps",
    "summaries",
)
_DATABASE_FILES = (".duckdb", ".ddb")
_OF_DATABASES = ("url", "table", "immutable")
_LISTS = ("columns", "constraints", "rules")
_MAPPINGS = ("determines", "derived")


@dataclass(frozen=True)
class LinkedFile:
    """A schema file with linked tables: what is public about them, and where they are.

    Attributes
    ----------
    plain
        The description of both as one table, as `Schema.from_dict` takes it.
    sources
        Where each table is, as the file says it: a file, or a mapping with the address of a database (``url``) and the name of its table (``table``). A table of
        entities that is only known by the ids of its events has none.
    """

    plain: dict[str, Any]
    sources: Mapping[str, str | Mapping[str, Any]]

    @property
    def tables(self) -> tuple[str, str]:
        """The names of the table of entities and of that of events."""
        entities, events = self.plain["entity"]["tables"]
        return entities, events

    def located(self, folder: str | os.PathLike[str]) -> dict[str, Path | dict[str, Any]]:
        """Return where each table is; names of files, those of databases that are files included, start from the folder of the schema file."""
        found: dict[str, Path | dict[str, Any]] = {}
        for name, source in self.sources.items():
            if isinstance(source, str):
                found[name] = Path(folder) / source
            else:
                inside = source["url"].lower().endswith(_DATABASE_FILES) and "://" not in source["url"]
                found[name] = {
                    **source,
                    "url": str(Path(folder) / source["url"]) if inside else source["url"],
                }
        return found


def read_linked_file(path: str | os.PathLike[str]) -> LinkedFile | None:
    """Read a schema file with linked tables; None if it is a schema of one table.

    Raises
    ------
    SchemaError
        If the file is no such schema; everything wrong with its tables and keys is said at once.
    """
    from understudy.schema.files.yaml import read_plain

    plain = read_plain(path)
    return joined(plain) if isinstance(plain, Mapping) and "tables" in plain else None


def joined(plain: Mapping[str, Any]) -> LinkedFile:
    """Turn a description of two linked tables into that of one, with the section ``entity``.

    Examples
    --------
    >>> file = joined({
    ...     "tables": [
    ...         {"name": "patients", "key": "patient", "source": "patients.csv", "columns": [{"name": "sex", "kind": "boolean"}]},
    ...         {"name": "stays", "belongs_to": "patients", "source": "stays.csv", "columns": [{"name": "died", "kind": "boolean"}]},
    ...     ]
    ... })
    >>> file.plain["entity"]
    {'id': 'patient', 'tables': ['patients', 'stays'], 'fixed': ['sex'], 'min_events': 0}
    >>> file.sources
    {'patients': 'patients.csv', 'stays': 'stays.csv'}
    """
    listed = plain.get("tables")
    wrong = [
        f"{key}: with tables it belongs to a table"
        for key in ("columns", "entity", "row_count")
        if key in plain
    ]
    if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
        raise SchemaError(
            f"{HEADING}:\n  - tables: write a list of tables, each a mapping with a name and columns"
        )
    wrong += [*_wrong_names(listed), *_wrong_lists(plain, "")]
    parents = [item for item in listed if item.get("belongs_to") is None]
    children = [item for item in listed if item.get("belongs_to") is not None]
    if len(parents) != 1:
        wrong.append(
            "tables: exactly one is the table of entities, to which the others belong (belongs_to); "
            + (
                "every table belongs to another one here"
                if not parents
                else "more than one has no belongs_to here"
            )
        )
    if len(children) != 1:
        wrong.append(
            "tables: exactly one table of events belongs to the entities here; "
            + (
                "there is none"
                if not children
                else "several are synthesized together (understudy synth FILE.yaml --out FOLDER/), or released together by a specification, and make no schema of one table"
            )
        )
    raise_problems(HEADING, wrong)
    (parent,), (child,) = parents, children
    raise_problems(HEADING, _wrong_parts(parent, child, listed))
    return _as_one(plain, parent, child)


def parted(plain: Mapping[str, Any], sources: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Turn the description of linked tables as one table back into that of a table each: the reverse of `joined`.

    Rules stay above the tables, where they may name columns of both.

    Parameters
    ----------
    plain
        As `Schema.to_dict` gives it, with a section ``entity`` that names its tables.
    sources
        Where the tables are, by name.

    Examples
    --------
    >>> made = parted(
    ...     {
    ...         "columns": [{"name": "sex", "kind": "boolean"}, {"name": "died", "kind": "boolean"}],
    ...         "entity": {"id": "patient", "tables": ["patients", "stays"], "fixed": ["sex"], "min_events": 0, "max_events": 9},
    ...     },
    ...     {"stays": "stays.csv"},
    ... )
    >>> made["tables"][1]
    {'name': 'stays', 'source': 'stays.csv', 'belongs_to': 'patients', 'max_events': 9, 'columns': [{'name': 'died', 'kind': 'boolean'}]}
    >>> joined(made).plain["entity"]["fixed"]
    ['sex']
    """
    entity = plain["entity"]
    above, below = entity["tables"]
    virtual = bool(entity.get("min_events", 1))
    fixed = list(entity.get("fixed") or ())
    mine = [] if virtual else [item for item in plain["columns"] if item["name"] in fixed]
    entities: dict[str, Any] = {"name": above, "key": entity["id"]}
    events: dict[str, Any] = {"name": below, "belongs_to": above}
    for table in (entities, events):
        if (place := (sources or {}).get(table["name"])) is not None:
            table["source"] = place
    if entity.get("count") is not None:
        entities["count"] = entity["count"]
    if virtual and fixed:
        events["fixed"] = fixed
    for key in ("reference", "order", "max_events", "link", "orphans", "gaps", "summaries"):
        if entity.get(key) is not None:
            events[key] = entity[key]
    if mine:
        entities["columns"] = mine
    events["columns"] = [item for item in plain["columns"] if item not in mine]
    made = {key: value for key, value in plain.items() if key not in ("columns", "entity", "tables")}
    return {**made, "tables": [_in_order(entities), _in_order(events)]}


def _in_order(table: Mapping[str, Any]) -> dict[str, Any]:
    first = [key for key in ("name", "source") if key in table]
    return {key: table[key] for key in (*first, *(key for key in table if key not in first))}


@dataclass(frozen=True)
class Register:
    """A table of entities with several tables of events.

    Each table of events makes a pair with the table of entities, in the order of the file. In the second pair the entities have a column more: how many events they have in the table of the
    first pair, in bins; in the third two more; and so on. So a fit of a pair knows what goes with the numbers of the tables before it.

    Attributes
    ----------
    pairs
        A description of two linked tables for each table of events.
    numbers
        For each pair, the columns with the numbers of events, by the table that they are of.
    plain
        The description as it was given.
    """

    pairs: tuple[LinkedFile, ...]
    numbers: tuple[Mapping[str, str], ...]
    plain: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def entities(self) -> str:
        """The name of the table of entities."""
        return self.pairs[0].tables[0]

    @property
    def events(self) -> tuple[str, ...]:
        """The names of the tables of events."""
        return tuple(pair.tables[1] for pair in self.pairs)

    @property
    def whole(self) -> LinkedFile:
        """All columns of all tables as those of one table, and where the tables are."""
        columns: dict[str, Any] = {}
        helpers = {name for numbers in self.numbers for name in numbers.values()}
        for pair in self.pairs:
            columns |= {item["name"]: item for item in pair.plain["columns"] if item["name"] not in helpers}
        plain = {key: value for key, value in self.pairs[0].plain.items() if key in ("name", "description")}
        sources = {name: place for pair in self.pairs for name, place in pair.sources.items()}
        return LinkedFile({**plain, "columns": list(columns.values())}, sources)

    def schemas(self, folder: str | os.PathLike[str]) -> tuple[Schema, ...]:
        """Return the schema of each pair, as one table; files that columns name start from a folder."""
        from understudy.schema.schema import Schema

        return tuple(Schema.from_dict(pair.plain, folder=folder) for pair in self.pairs)

    def described(self, whole: Schema) -> dict[str, Any]:
        """Return the description as it may be published: complete, and without where the tables are.

        Parameters
        ----------
        whole
            The schema of all columns.
        """
        tables = [
            {key: value for key, value in item.items() if key not in ("source", "columns")}
            | {"columns": [whole.column(column["name"]).to_dict() for column in item.get("columns") or ()]}
            for item in self.plain["tables"]
        ]
        return {**self.plain, "tables": tables}


def read_register(path: str | os.PathLike[str]) -> Register | None:
    """Read a schema file with several tables of events; None if it has one, or describes one table.

    Raises
    ------
    SchemaError
        If the file is no such schema; everything wrong with its tables and keys is said at once.
    """
    from understudy.schema.files.yaml import read_plain

    plain = read_plain(path)
    return register_of(plain) if isinstance(plain, Mapping) else None


def register_of(plain: Mapping[str, Any]) -> Register | None:
    """Turn a description of several tables of events into pairs of linked tables; None if there are not several.

    Examples
    --------
    >>> made = register_of({
    ...     "tables": [
    ...         {"name": "patients", "key": "patient", "columns": [{"name": "sex", "kind": "boolean"}]},
    ...         {"name": "stays", "belongs_to": "patients", "columns": [{"name": "died", "kind": "boolean"}], "max_events": 3},
    ...         {"name": "claims", "belongs_to": "patients", "columns": [{"name": "paid", "kind": "boolean"}]},
    ...     ]
    ... })
    >>> made.events, made.pairs[1].plain["entity"]["fixed"]
    (('stays', 'claims'), ['sex', 'number_of_stays'])
    """
    listed = plain.get("tables")
    if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
        return None
    children = [item for item in listed if item.get("belongs_to") is not None]
    if len(children) < 2:
        return None
    raise_problems(HEADING, _wrong_register(plain, listed, children))
    (parent,) = [item for item in listed if item.get("belongs_to") is None]
    taken = {
        name
        for item in listed
        for name in (_column_names(item) | _written(item) | set(item.get("derived") or ()))
    }
    pairs, numbers = [], []
    known: dict[str, str] = {}
    more: list[dict[str, Any]] = []
    for child in children:
        above = {**parent, "columns": [*(parent.get("columns") or ()), *more]}
        if child.get("count") is not None:
            above["count"] = child["count"]
        below = {key: value for key, value in child.items() if key != "count"}
        pairs.append(joined({**plain, "tables": [above, below]}))
        numbers.append(dict(known))
        called = f"number_of_{child['name']}"
        while called in taken:
            called += "_"
        taken.add(called)
        known[child["name"]] = called
        bins = Entity("", max_events=child.get("max_events", DEFAULT_MAX_EVENTS), min_events=0).bin_labels
        more.append({"name": called, "kind": "integer", "bins": list(bins), "decode_by": "smooth"})
    return Register(tuple(pairs), tuple(numbers), plain)


def _wrong_register(plain: Mapping[str, Any], listed: list[Any], children: list[Any]) -> list[str]:
    """Return what is wrong with several tables of events together; what is wrong with each is said by `joined`."""
    wrong = [*_wrong_names(listed), *_wrong_lists(plain, "")]
    wrong += [
        problem for place, item in enumerate(listed) for problem in _wrong_lists(item, f"tables[{place}].")
    ]
    if wrong:
        return wrong
    parents = [item for item in listed if item.get("belongs_to") is None]
    if len(parents) != 1:
        wrong.append("tables: exactly one is the table of entities, to which the others belong (belongs_to)")
    elif parents[0].get("source") is None and not parents[0].get("columns"):
        wrong.append(
            f"tables {parents[0].get('name')!r}: with several tables of events the entities need a table of their own (a source, or columns)"
        )
    if parents and parents[0].get("count") is not None:
        wrong.append(
            f"tables {parents[0].get('name')!r}.count: with several tables of events it belongs to the table whose rows it counts"
        )
    wrong += [
        f"{key}: with several tables of events it belongs to a table"
        for key in (*_LISTS, *_MAPPINGS)
        if plain.get(key)
    ]
    if len({repr(item.get("orphans") or "refuse") for item in children}) > 1:  # whatever was written there
        wrong.append(
            "tables: orphans has to be the same for all tables of events: whoever has no row in the table of entities gives no records in any of them"
        )
    for place, one in enumerate(children):
        most = one.get("max_events", DEFAULT_MAX_EVENTS)
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_EVENTS:
            wrong.append(
                f"tables {one.get('name')!r}.max_events: must be a whole number from 1 to {MOST_EVENTS:,}"
            )
        for other in children[place + 1 :]:
            wrong += [
                f"columns: {both!r} is a column of {one.get('name')!r} and of {other.get('name')!r}; the columns of linked tables have different names. Rename one of them in its source"
                for both in sorted(_column_names(one) & _column_names(other))
            ]
            wrong += [
                f"summaries: {both!r} is written by {one.get('name')!r} and by {other.get('name')!r}; give one of them another name"
                for both in sorted(
                    _written(one) & (_written(other) | _column_names(other))
                    | _written(other) & _column_names(one)
                )
            ]
    return wrong


def _wrong_lists(item: Mapping[str, Any], place: str) -> list[str]:
    """Return which parts of a description have not the form that they are put together by: lists, mappings, columns with names."""
    wrong = [
        f"{place}{key}: must be a list"
        for key in _LISTS
        if item.get(key) is not None and not isinstance(item[key], list)
    ]
    wrong += [
        f"{place}{key}: must be a mapping"
        for key in _MAPPINGS
        if item.get(key) is not None and not isinstance(item[key], Mapping)
    ]
    columns = item.get("columns")
    if isinstance(columns, list) and not all(
        isinstance(column, Mapping) and isinstance(column.get("name"), str) for column in columns
    ):
        wrong.append(f"{place}columns: each must be a mapping with a name and a kind")
    return wrong


def _wrong_names(listed: list[Any]) -> list[str]:
    wrong = []
    names = [item.get("name") for item in listed]
    for place, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            wrong.append(f"tables[{place}].name: give the table a name")
        elif not is_file_name(name):
            wrong.append(
                f"tables[{place}] {name!r}.name: becomes the name of a file; use letters, digits, _ and -, and begin with a letter or a digit"
            )
    lowered = [name.lower() for name in names if isinstance(name, str)]
    if len(set(lowered)) < len(lowered):
        wrong.append("tables: two have the same name (small letters and capitals are not told apart)")
    return wrong


def is_file_name(name: str) -> bool:
    """Say whether the name of a table can be that of a file, whatever the system."""
    return (
        0 < len(name) <= 100
        and name[0].isalnum()
        and all(letter.isalnum() or letter in "_-" for letter in name)
        and unicodedata.normalize("NFC", name) == name
    )


def _wrong_parts(parent: Mapping[str, Any], child: Mapping[str, Any], listed: list[Any]) -> list[str]:
    wrong = []
    for item, known in ((parent, _OF_ENTITIES), (child, _OF_EVENTS)):
        place = f"tables[{listed.index(item)}] {item['name']!r}"
        wrong += [
            f"{place}: unknown key {str(key)!r}.{did_you_mean(str(key), known)} Known: {', '.join(known)}"
            for key in item
            if key not in known
        ]
        wrong += _wrong_lists(item, f"{place}.")
        wrong += [
            f"{place}.{key}: must be a list"
            for key in (("link", "fixed", "summaries") if item is child else ())
            if item.get(key) is not None and not isinstance(item[key], list)
        ]
        wrong += [
            f"{place}.{key}: must be text"
            for key in ("key", "count", "reference", "order", "belongs_to")
            if item.get(key) is not None and not (isinstance(item[key], str) and item[key].strip())
        ]
        wrong += _wrong_source(item.get("source"), place)
    if wrong:
        return wrong
    name = parent["name"]
    if parent.get("key") is None:
        wrong.append(f"tables {name!r}.key: name the column that tells the entities apart")
    if child["belongs_to"] != name:
        hint = did_you_mean(child["belongs_to"], [name])
        wrong.append(f"tables {child['name']!r}.belongs_to: no table named {child['belongs_to']!r}.{hint}")
    if not child.get("columns"):
        wrong.append(f"tables {child['name']!r}.columns: a table of events has at least one column")
    if child.get("orphans", "refuse") not in ORPHANS:
        wrong.append(f"tables {child['name']!r}.orphans: write refuse or drop")
    virtual = parent.get("source") is None and not parent.get("columns")
    if virtual and (parent.get("count") is not None or child.get("orphans") is not None):
        wrong.append(
            f"tables {name!r}: a table that is only known by the ids of its events has no count, and no event is without it"
        )
    if not virtual and child.get("fixed"):
        wrong.append(
            f"tables {child['name']!r}.fixed: what is the same in all events of an entity is a column of {name!r}"
        )
    mine, theirs = (_column_names(item) for item in (parent, child))
    keys = {parent.get("key"), child.get("reference") or parent.get("key")}
    wrong += [
        f"columns: {both!r} is a column of both tables; the columns of linked tables have different names. Rename one of them in its source"
        for both in sorted(mine & theirs)
    ]
    wrong += [
        f"columns: {key!r} tells the entities apart, which is nothing to be modelled. Leave it out of columns"
        for key in sorted(map(str, keys & (mine | theirs)))
    ]
    if parent.get("count") is not None and parent["count"] in mine | theirs | keys:
        wrong.append(
            f"tables {name!r}.count: {parent['count']!r} is written as it comes out; leave it out of columns"
        )
    for item, own in ((parent, mine), (child, theirs)):
        made = item.get("derived") or {}
        wrong += [
            f"derived: {column!r} has the name of another column"
            for column in made
            if column in (mine | theirs | keys) - own
        ]
    return wrong


def _wrong_source(source: object, place: str) -> list[str]:
    """Return what is wrong with where a table is said to be."""
    if isinstance(source, str) and (is_address(source) or "%" in source):
        problem = secret_in(source)  # an address where a file was wanted must not be kept either
        if problem:
            return [f"{place}.source: {problem}"]
    if source is None or (isinstance(source, str) and source.strip() and "\0" not in source):
        return []
    if not isinstance(source, Mapping):
        return [
            f"{place}.source: write the name of a file, or a mapping with url and table for a table of a database"
        ]
    wrong = [
        f"{place}.source: unknown key {str(key)!r}.{did_you_mean(str(key), _OF_DATABASES)} Known: {', '.join(_OF_DATABASES)}"
        for key in source
        if key not in _OF_DATABASES
    ]
    wrong += [
        f"{place}.source.{key}: must be text"
        for key in ("url", "table")
        if not (isinstance(source.get(key), str) and source[key].strip())
    ]
    for key, text in source.items():
        problem = secret_in(text) if isinstance(text, str) and (key != "table" or is_address(text)) else ""
        if problem:
            wrong.append(f"{place}.source.{key}: {problem}")
    if not isinstance(source.get("immutable", False), bool):
        wrong.append(f"{place}.source.immutable: must be true or false")
    return wrong


def _written(item: Mapping[str, Any]) -> set[str]:
    """Return the columns that a table of events adds to its entities."""
    listed = item.get("summaries")
    found = {
        summary["name"]
        for summary in (listed if isinstance(listed, list) else ())
        if isinstance(summary, Mapping) and isinstance(summary.get("name"), str)
    }
    return found | ({item["count"]} if isinstance(item.get("count"), str) else set())


def _column_names(item: Mapping[str, Any]) -> set[str]:
    return {
        column["name"]
        for column in item.get("columns") or ()
        if isinstance(column, Mapping) and isinstance(column.get("name"), str)
    }


def _as_one(plain: Mapping[str, Any], parent: Mapping[str, Any], child: Mapping[str, Any]) -> LinkedFile:
    made: dict[str, Any] = {key: value for key, value in plain.items() if key != "tables"}
    for key in _LISTS:
        found = [*(made.get(key) or ()), *(parent.get(key) or ()), *(child.get(key) or ())]
        if found:
            made[key] = found
    for key in _MAPPINGS:
        merged = {**(made.get(key) or {}), **(parent.get(key) or {}), **(child.get(key) or {})}
        if merged:
            made[key] = merged
    virtual = parent.get("source") is None and not parent.get("columns")
    entity: dict[str, Any] = {"id": parent["key"], "tables": [parent["name"], child["name"]]}
    fixed = child.get("fixed") if virtual else [item.get("name") for item in parent.get("columns") or ()]
    if fixed:
        entity["fixed"] = fixed
    if not virtual:
        entity["min_events"] = 0
    if child.get("reference") not in (None, parent["key"]):
        entity["reference"] = child["reference"]
    if parent.get("count") is not None:
        entity["count"] = parent["count"]
    for key in ("order", "max_events", "link", "orphans", "gaps", "summaries"):
        if child.get(key) is not None:
            entity[key] = child[key]
    made["entity"] = entity
    sources = {item["name"]: item["source"] for item in (parent, child) if item.get("source") is not None}
    return LinkedFile(made, sources)


_TABLE_TYPES = {"integer": "integer", "real": "number", "boolean": "boolean", "date": "date"}
_STORED = {"i": "integer", "u": "integer", "f": "real", "b": "boolean", "M": "date"}


def package_of(
    schema: Schema, tables: Mapping[str, pd.DataFrame], files: Mapping[str, str]
) -> dict[str, Any]:
    """Return the description of synthetic linked tables as a Data Package, with their keys.

    Parameters
    ----------
    schema
        Of both tables as one.
    tables
        The synthetic tables: how a column is stored says of which type it is.
    files
        The name of the file of each.
    """
    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    about = {column.name: column.description for column in schema.columns}
    about |= {item.name: item.description or f"Computed: {item.value}" for item in schema.derived}
    if entity.count is not None:
        about[entity.count] = f"Computed: number of rows in {entity.tables[1]}."
    about |= {item.name: f"Computed: {item.describe()}." for item in entity.summaries}
    texts = dict.fromkeys(column.missing_text for column in schema.columns if column.missing_text)
    values = {label for column in schema.columns for label in column.value_labels}
    resources = []
    for name, frame in tables.items():
        fields = [
            {
                "name": str(column),
                "type": _TABLE_TYPES.get(
                    _STORED.get(getattr(frame[column].dtype, "kind", "O"), ""), "string"
                ),
                "description": about.get(str(column), ""),
            }
            for column in frame.columns
        ]
        keys: dict[str, Any] = {}
        if name == entity.tables[0]:
            keys["primaryKey"] = [entity.id]
        elif entity.tables[0] in tables:
            points = {"resource": entity.tables[0].lower(), "fields": [entity.id]}
            keys["foreignKeys"] = [{"fields": [entity.reference or entity.id], "reference": points}]
        missing = ["", *(text for text in texts if text not in values)]
        resources.append(
            {
                "name": name.lower(),
                "path": files[name],
                "format": files[name].split(".", 1)[-1].split(".")[0],
                "description": "Synthetic rows; none of them is a record of the real table.",
                "schema": {"fields": fields, "missingValues": missing, **keys},
            }
        )
    return _package(schema, resources)


def register_package(
    schemas: Sequence[Schema], tables: Mapping[str, pd.DataFrame], files: Mapping[str, str]
) -> dict[str, Any]:
    """Return the description of a synthetic table of entities with several tables of events as a Data Package.

    Parameters
    ----------
    schemas
        Of the entities with each table of events, as one.
    tables, files
        As for `package_of`.
    """
    found: dict[str, Any] = {}
    for schema in schemas:
        assert schema.entity is not None
        assert schema.entity.tables is not None
        some = package_of(schema, {name: tables[name] for name in schema.entity.tables}, files)
        for item in some["resources"]:
            known = found.setdefault(item["name"], item)
            for column, told in zip(known["schema"]["fields"], item["schema"]["fields"], strict=True):
                column["description"] = column["description"] or told["description"]
    return _package(schemas[0], list(found.values()))


def _package(schema: Schema, resources: list[dict[str, Any]]) -> dict[str, Any]:
    words = "".join(
        letter if letter.isalnum() and letter.isascii() else "-" for letter in schema.name.lower()
    )
    return {
        "profile": "data-package",
        "name": words.strip("-") or "tables",
        "description": "Synthetic tables, linked by their keys. " + schema.description,
        "resources": resources,
    }
