"""Cleaning rules as conditions of a database.

A record is kept unless a rule is certainly false for it. A condition answers a record with a *set* of truth
values (true, false, unknown); only two facts about that set matter, and both are built from the parts without
growing: whether it holds something other than false (``kept``), and something other than true (``failed``).
With ``A`` and ``B`` independent, Kleene's ``and`` has a result other than false exactly if both sides can be
other than false, and one other than true exactly if either side can; ``or`` is the same with the roles exchanged,
and ``not`` exchanges them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from understudy.data.sql._cells import real
from understudy.schema.constraints.conditions import (
    All,
    AnyOf,
    Check,
    Missing,
    Not,
    OneOf,
    Relation,
    Same,
    Threshold,
)

if TYPE_CHECKING:
    from understudy.data.sql._reading import Reading
    from understudy.schema import Constraint

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


def _relation(condition: Relation, readings: Mapping[str, Reading]) -> tuple[Any, Any]:
    """Compare a sum of products with zero, in doubles and in the order in which it is written."""
    import ibis

    total: Any = real(float(condition.value.constant))
    for factor, columns in condition.value.terms:
        term: Any = real(float(factor))
        for name in columns:
            number = readings[name].number
            assert number is not None
            product = term * number.cast("float64")
            term = ibis.ifelse(product.isnan(), real(0.0), product)  # nothing times infinity
        total = total + term
    unsure: Any = total.isnan().fill_null(False)  # infinities of opposite signs
    for name in sorted(condition.value.columns):
        unsure = unsure | readings[name].missing | readings[name].other
    return _certain(_SIGNS[condition.sign](total, real(0.0)), unsure)
