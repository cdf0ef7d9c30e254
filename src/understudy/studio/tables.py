"""Tables: whose the rows are. One table becomes a table of entities with a table of their events, and back."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import Response

from understudy.errors import SchemaError, UnderstudyError
from understudy.schema import Schema
from understudy.schema.files.yaml import parse_plain
from understudy.schema.linked import joined, parted
from understudy.schema.problems import problems_of
from understudy.studio.complaints import Complaints
from understudy.studio.desk import Desk, Form
from understudy.studio.schemas import Current, write

__all__ = ["save", "tables"]

_TEXTS = ("entities", "key", "count", "events", "reference", "order", "max_events", "orphans")
_SOURCES = {"entities_source": "entities", "events_source": "events"}
_ORPHANS = [("", "refuse the tables"), ("drop", "leave them out")]
_PLACES = {
    "key": "key",
    "count": "count",
    "order": "order",
    "max_events": "max_events",
    "reference": "reference",
    "belongs_to": "entities",
}
"""Which field a problem stands beside, by a word of it."""


def tables(desk: Desk, request: Request) -> Response:
    """Show how the table is divided into entities and their events."""
    now = Current(desk)
    return _page(desk, now, _shown(now), _owned(now), Complaints())


def _known(now: Current) -> dict[str, Any]:
    """Return what the schema says of entities, also of those in one table with their ids."""
    found = now.plain.get("entity")
    return found if isinstance(found, dict) else {}


def _shown(now: Current) -> dict[str, str]:
    entity = _known(now)
    above, below = entity.get("tables") or ("", "")
    values = {
        key: str(entity.get(key) or "") for key in ("count", "reference", "order", "max_events", "orphans")
    }
    values |= {"entities": above, "events": below, "key": str(entity.get("id") or "")}
    for field, name in _SOURCES.items():
        values[field] = _source_text(now.sources.get(values[name]))
    return values


def _owned(now: Current) -> set[str]:
    """Return the columns of the table of entities."""
    entity = _known(now)
    return set() if now.entity and entity.get("min_events", 1) else set(entity.get("fixed") or ())


def _source_text(source: Any) -> str:
    if source is None or isinstance(source, str):
        return source or ""
    found: str = yaml.safe_dump(dict(source), default_flow_style=True, width=10**6, sort_keys=False)
    return found.strip()


def _page(
    desk: Desk, now: Current, values: Mapping[str, str], owned: set[str], found: Complaints, status: int = 200
) -> Response:
    return desk.render(
        "tables.html",
        status=status,
        here="schema",
        values=values,
        owned=owned,
        columns=[str(item.get("name", "")) for item in now.columns],
        linked=bool(now.entity),
        orphans=_ORPHANS,
        version=now.version,
        found=found,
    )


def save(desk: Desk, request: Request, form: Form) -> Response:
    """Make two linked tables of the columns, change how they are linked, or make one table of them again."""
    now = Current(desk)
    now.require(form.text("version"))
    if now.schema is None:
        raise SchemaError("The schema cannot be used as it is; correct the file first.")
    plain = copy.deepcopy(now.plain)
    if form.text("action") == "one":
        plain.pop("entity", None)
        write(desk, Schema.from_dict(plain, folder=desk.folder.root))
        return desk.go("/schema")
    values = {name: form.text(name).strip() for name in (*_TEXTS, *_SOURCES)}
    owned, complaints, sources = set(form.all("owned")), Complaints(), {}
    for field, name in _SOURCES.items():
        try:
            if values[field]:
                sources[values[name]] = (
                    parse_plain(values[field]) if values[field][0] == "{" else values[field]
                )
        except SchemaError as error:
            complaints.add(field, str(error))
    for name, needed in (("entities", "entities"), ("events", "events"), ("key", "key")):
        if not values[name]:
            complaints.add(needed, "is needed.")
    if values["max_events"] and not re.fullmatch(r"[0-9]{1,9}", values["max_events"]):
        complaints.add("max_events", "must be a whole number.")
    if not complaints:
        try:
            file = joined(parted(plain | {"entity": _entity(now, values, owned)}, sources))
            write(desk, Schema.from_dict(file.plain, folder=desk.folder.root), file.sources)
            return desk.go("/schema")
        except UnderstudyError as error:
            for problem in problems_of(error):
                complaints.add(_field(problem), problem)
    return _page(desk, now, values, owned, complaints, status=422)


def _entity(now: Current, values: Mapping[str, str], owned: set[str]) -> dict[str, Any]:
    """Return the section of the schema; what the form does not show (link, gaps, summaries) stays."""
    known = _known(now)
    found: dict[str, Any] = {key: known[key] for key in ("link", "gaps", "summaries") if key in known}
    found |= {"id": values["key"], "tables": [values["entities"], values["events"]]}
    fixed = [item["name"] for item in now.columns if item.get("name") in owned]
    virtual = not fixed and not values["entities_source"]
    if fixed:
        found["fixed"] = fixed
    if not virtual:
        found["min_events"] = 0
    elif now.entity.get("min_events", 1) and now.entity.get("fixed"):
        found["fixed"] = now.entity["fixed"]
    if values["max_events"]:
        found["max_events"] = int(values["max_events"])
    for key in ("count", "reference", "order", "orphans"):
        if values[key]:
            found[key] = values[key]
    return found


def _field(problem: str) -> str:
    """Return the field that a problem stands beside.

    Examples
    --------
    >>> _field("tables 'patients'.count: 'sex' is written as it comes out; leave it out of columns")
    'count'
    >>> _field("entity.order: there is no column named 'day'")
    'order'
    >>> _field("tables[1] 'stays'.source.url: must be text"), _field("tables[0] 'patients'.source: unknown key")
    ('events_source', 'entities_source')
    >>> _field("something else")
    ''
    """
    place = problem.partition(": ")[0]
    if ".source" in place:
        return "entities_source" if place.startswith("tables[0]") else "events_source"
    named = re.match(r"tables\[([01])\][^.]*\.name", place)
    if named is not None:
        return "events" if named.group(1) == "1" else "entities"
    return _PLACES.get(re.split(r"[.\[]", place)[-1], "")
