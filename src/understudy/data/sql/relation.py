"""A table of a database as an expression over codes: derived columns, cleaning and encoding, all in the engine."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy.data.files.stream import name_problems
from understudy.data.prepare import Preparation
from understudy.data.sql.lookup import MAX_ENTRIES, Entry, look_up
from understudy.data.sql.reading import Reading, codes_of, on_calendar, read_column, real, staged
from understudy.errors import DataError
from understudy.schema.coding.calendar import calendar_number
from understudy.schema.constraints.conditions import (
    All,
    AnyOf,
    Check,
    Mapped,
    Missing,
    NamedPart,
    Not,
    OneOf,
    Part,
    Relation,
    Same,
    Threshold,
    column_of,
)

if TYPE_CHECKING:
    from understudy.data.prepare import Derived
    from understudy.data.sql.reading import Reading
    from understudy.data.sql.session import Session
    from understudy.schema import Column, Constraint, Schema

# ----------------------------------------------------------------------------------------
# Cleaning rules as conditions of a database.
#
# A record is kept unless a rule is certainly false for it. A condition answers a record with a *set* of truth
# values (true, false, unknown); only two facts about that set matter, and both are built from the parts without
# growing: whether it holds something other than false (``kept``), and something other than true (``failed``).
# With ``A`` and ``B`` independent, Kleene's ``and`` has a result other than false exactly if both sides can be
# other than false, and one other than true exactly if either side can; ``or`` is the same with the roles exchanged,
# and ``not`` exchanges them.

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_INFINITE = 2.0**63


def kept(rule: Constraint, readings: Mapping[str, Reading]) -> Any:
    """Return the condition under which a raw record obeys a rule, as ``Constraint.holds_raw`` has it.

    Privacy
    -------
    A condition on one record alone: neighbouring tables stay neighbours.
    """
    assert rule.condition is not None
    return _answers(rule.condition, readings)[0]


def _answers(condition: Check, readings: Mapping[str, Reading]) -> tuple[Any, Any]:
    if isinstance(condition, Not):
        not_false, not_true = _answers(condition.part, readings)
        return not_true, not_false
    if isinstance(condition, All | AnyOf):
        parts = [_answers(part, readings) for part in condition.parts]
        one, two = (
            (operator.and_, operator.or_) if isinstance(condition, All) else (operator.or_, operator.and_)
        )
        not_false, not_true = parts[0]
        for part in parts[1:]:
            not_false, not_true = one(not_false, part[0]), two(not_true, part[1])
        return not_false, not_true
    if isinstance(condition, Missing):
        missing = readings[condition.column].missing
        return missing, ~missing
    if isinstance(condition, OneOf):
        reading = readings[condition.column]
        inside = reading.located.isin(sorted(condition.codes)) & ~reading.missing & ~reading.other
        unsure = reading.missing | reading.other if condition.ordered else reading.missing
        return _certain(inside, unsure)
    if isinstance(condition, Threshold):
        reading = readings[condition.column]
        holds = _compared(condition.sign, reading.number, condition.constant)
        return _certain(holds, reading.missing | reading.other)
    if isinstance(condition, Same):
        return _same(condition, readings)
    if isinstance(condition, NamedPart):
        return _named_part(condition, readings)
    assert not isinstance(condition, Mapped)  # dependencies are of synthetic records, not of cleaning
    return _relation(condition, readings)


def _certain(holds: Any, unsure: Any) -> tuple[Any, Any]:
    """Return both facts of a comparison that is certain except where an entry is missing or unreadable."""
    holds = holds.fill_null(False)
    return unsure | holds, unsure | ~holds


def _compared(sign: str, number: Any, constant: int | float) -> Any:
    if number.type().is_integer() and float(constant).is_integer() and abs(constant) < _INFINITE:
        return _SIGNS[sign](number, int(constant))
    return _SIGNS[sign](number.cast("float64"), real(float(constant)))


def _same(condition: Same, readings: Mapping[str, Reading]) -> tuple[Any, Any]:
    left, right = readings[condition.left], readings[condition.right]

    def rank(reading: Reading, ranks: tuple[int, ...]) -> Any:
        return reading.located.cases(*enumerate(ranks), else_=-1)

    holds = _SIGNS[condition.sign](rank(left, condition.left_rank), rank(right, condition.right_rank))
    return _certain(holds, left.missing | right.missing | left.other | right.other)


def _named_part(condition: NamedPart, readings: Mapping[str, Reading]) -> tuple[Any, Any]:
    named, date = readings[condition.column], readings[condition.part.column]
    wanted = named.located.cases(*enumerate(condition.numbers), else_=-1)
    holds = _SIGNS[condition.sign](wanted, calendar_number(condition.part.function, date.number))
    return _certain(holds, named.missing | named.other | date.missing | date.other)


def _relation(condition: Relation, readings: Mapping[str, Reading]) -> tuple[Any, Any]:
    """Compare a sum of products with zero, in doubles and in the order in which it is written."""
    import ibis

    total: Any = real(float(condition.value.constant))
    for factor, columns in condition.value.terms:
        term: Any = real(float(factor))
        for name in columns:
            number = readings[column_of(name)].number
            assert number is not None
            if isinstance(name, Part):
                number = calendar_number(name.function, number)
            product = term * number.cast("float64")
            term = ibis.ifelse(product.isnan(), real(0.0), product)  # nothing times infinity
        total = total + term
    unsure: Any = total.isnan().fill_null(False)  # infinities of opposite signs
    for name in sorted(condition.value.columns):
        unsure = unsure | readings[name].missing | readings[name].other
    return _certain(_SIGNS[condition.sign](total, real(0.0)), unsure)


PERSON = "person"
"""Name of the column of ids in the encoded table."""


@dataclass(frozen=True, eq=False)
class _Need:
    """A column to read: by whose declaration, from which column of the table, and how it is derived."""

    key: str
    column: Column
    origin: str
    recipe: Derived | None


def code_name(place: int) -> str:
    """Return the name of a column of codes: plain, whatever the column of the schema is called."""
    return f"c{place}"


def encoded_relation(
    session: Session, schema: Schema, *, id_column: str | None, prepare: Preparation | None
) -> Any:
    """Return the encoded table as an expression: one column of codes per column of the schema, and the ids.

    A code is negative where an entry has none; whoever asks must look for that first.

    Parameters
    ----------
    session
        Where the table is.
    schema
        The public schema.
    id_column
        The column of ids, if there is one.
    prepare
        Derived columns and cleaning rules.

    Raises
    ------
    DataError
        If columns are missing or stored in a way that cannot be read.

    Privacy
    -------
    Every column of the result is a function of one record and of public facts: which entries were looked up
    changes how a query is written, never what an entry means.
    """
    table = session.relation
    prepare = prepare or Preparation()
    header = list(table.columns)
    wanted = [*schema.names, *([] if id_column is None else [id_column])]
    heading = f"The columns of {session.source.label!r} do not fit the schema"
    name_problems(heading, header, prepare.wanted(wanted, header)).raise_if_any(DataError)

    needs = _needs(schema, prepare, header)
    storages: dict[str, str] = {}
    columns: dict[str, Any] = {}
    for need in needs:
        source, recipe = table[need.origin], need.recipe
        if recipe is not None and recipe.part is not None and _is_day(source):
            source, recipe = _part(source, recipe.part), None
        storages[need.key], parts = staged(need.column, source, looked_up=recipe is not None)
        columns |= {f"{need.key}{letter}": part for letter, part in parts.items()}
    if id_column is not None:
        columns[PERSON] = table[id_column]
    stage = table.select(**columns)
    readings = {need.key: _reading(session, stage, need, storages[need.key]) for need in needs}

    by_rule = {need.column.name: readings[need.key] for need in needs if need.key.startswith("r")}
    for rule in prepare.rules:
        stage = stage.filter(kept(rule, by_rule))
    located = {code_name(place): readings[_schema_key(place)].located for place in range(len(schema.columns))}
    if id_column is not None:
        located[PERSON] = stage[PERSON]
    found = stage.select(**located)
    codes = {
        code_name(place): codes_of(column, found[code_name(place)])
        for place, column in enumerate(schema.columns)
    }
    return found.select(**codes, **({} if id_column is None else {PERSON: found[PERSON]}))


def _schema_key(place: int) -> str:
    return f"k{place}_"


def _needs(schema: Schema, prepare: Preparation, header: Sequence[str]) -> list[_Need]:
    """List the columns of the schema and those of the rules, which may be declared in another way."""

    def need(key: str, column: Column) -> _Need:
        recipe = prepare.recipe(column.name, header)
        return _Need(key, column.finest, column.name if recipe is None else recipe.source, recipe)

    found = [need(_schema_key(place), column) for place, column in enumerate(schema.columns)]
    declared = {column.name: column for rule in prepare.rules for column in rule.over}
    return found + [need(f"r{place}_", column) for place, column in enumerate(declared.values())]


def _reading(session: Session, stage: Any, need: _Need, storage: str) -> Reading:
    """Compile one column, looking up the entries that the engine cannot judge."""
    parts: Mapping[str, Any] = {
        letter: stage[f"{need.key}{letter}"] for letter in "svr" if f"{need.key}{letter}" in stage.columns
    }
    first = read_column(need.column, storage, parts)
    if first.odd is None:
        return first
    odd = stage.filter(first.odd).select(entry=first.source).distinct().limit(MAX_ENTRIES + 1)
    values = [value for batch in session.batches(odd) for value in batch.column(0).to_pylist()]
    # an entry of a derived column is what its recipe makes of it; parts of dates are ready-made where possible
    recipe = need.recipe if storage == "any" else None
    entries: Sequence[Entry] = look_up(need.column, values, recipe)
    # Ibis quotes what it cannot write into an expression
    return session.guarded(lambda: read_column(need.column, storage, parts, entries))


def _is_day(source: Any) -> bool:
    return bool(source.type().is_date() or source.type().is_timestamp())


def _part(source: Any, part: str) -> Any:
    """Return a part of a date as a whole number; Monday is the first day of the week."""
    import ibis

    day = source.date() if source.type().is_timestamp() else source
    day = on_calendar(day, beyond=ibis.null("date"))
    made = {
        "year": lambda: day.year(),
        "quarter": lambda: day.quarter(),
        "month": lambda: day.month(),
        "weekday": lambda: day.day_of_week.index() + 1,
    }[part]()
    return made.cast("int64")
