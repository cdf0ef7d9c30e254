"""The facts of a table, put together from what the other rooms know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.data import Preparation
from understudy.data.prepare import reading_facts, rule_meaning
from understudy.privacy import Unit
from understudy.privacy.facts import Facts
from understudy.privacy.guarantee import rows_rule
from understudy.schema import Column, Schema

__all__ = ["table_facts"]


def table_facts(
    schema: Schema,
    *,
    unit: Unit,
    prepare: Preparation | None = None,
    alternatives: Mapping[str, Mapping[str, Column]] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    rows: int | str | None = None,
) -> Facts:
    """Return the facts that the owner of a table answers for.

    Parameters
    ----------
    schema, prepare, separator, encoding, names
        How the table is read, as `read_table` takes it.
    unit
        Who is protected.
    alternatives
        Other forms of some columns, by column and name.
    rows
        The exact number of rows where it is declared public, or ``"declared"`` for whatever it is. By default that of the schema.

    Examples
    --------
    >>> schema = Schema.parse("row_count: 500\\ncolumns: [{name: a, kind: boolean}]")
    >>> facts = table_facts(schema, unit=Unit.add_remove())
    >>> facts.declares_rows, facts.rows, list(facts.parts)[:2]
    (True, 500, ['columns', 'transformations'])
    """
    rows = schema.row_count if rows is None else rows
    rules = () if prepare is None else prepare.rules
    parts = reading_facts(
        schema,
        prepare=prepare,
        alternatives=alternatives,
        separator=separator,
        encoding=encoding,
        names=names,
    )
    return Facts(
        parts=parts | {"unit": unit.to_dict()},
        others={"rules of the schema": sorted([rule_meaning(r), r.straddle] for r in schema.constraints)},
        declares_rows=rows is not None,
        rows=rows if isinstance(rows, int) else None,
        rule=rows_rule(unit, map(rule_meaning, rules)),
    )
