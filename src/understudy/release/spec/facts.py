"""The facts of a table of entities with several tables of events, for specifications, fits and ledgers alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from understudy.curator import table_facts
from understudy.data.prepare import LINKED, link_facts
from understudy.privacy import Unit
from understudy.privacy.facts import Facts
from understudy.schema import Schema

__all__ = ["register_facts"]


def register_facts(
    whole: Schema,
    schemas: Sequence[Schema],
    numbers: Sequence[Mapping[str, str]],
    *,
    unit: Unit,
    separator: str | None = None,
    encoding: str | None = None,
) -> Facts:
    """Return the facts that the owner of a table of entities with several tables of events answers for.

    Parameters
    ----------
    whole
        All columns of all tables as those of one (`understudy.schema.linked.Register.whole`).
    schemas, numbers
        Of the entities with each table of events; and which of their columns no table holds.
    unit, separator, encoding
        As for `table_facts`.
    """
    facts = table_facts(whole, unit=unit, separator=separator, encoding=encoding)
    joins = [
        link_facts(schema, computed=tuple(beside.values()))
        for schema, beside in zip(schemas, numbers, strict=True)
    ]
    return replace(facts, parts={LINKED: sorted(joins, key=lambda item: item["tables"]), **facts.parts})
