"""Checks of a schema as a whole, and reading its constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from understudy.errors import ConstraintError
from understudy.schema.columns.column import Column
from understudy.schema.constraints.constraint import Constraint, Straddle
from understudy.schema.problems import (
    MAX_COLUMNS,
    MAX_CONSTRAINTS,
    MAX_TOTAL_CODES,
    did_you_mean,
    problems_of,
    raise_problems,
)

__all__ = ["HEADING", "check_columns", "parse_rules"]

HEADING = "The schema has problems"
_RULE_KEYS = ("rule", "straddle", "description")


def check_columns(given: Any) -> tuple[Column, ...]:
    """Return the columns as a tuple, or raise `SchemaError` with everything wrong with them together."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise_problems(HEADING, ["columns: write a list of columns"])
    columns = tuple(given)
    if not all(isinstance(column, Column) and type(column) is not Column for column in columns):
        raise_problems(
            HEADING, ["columns: each must be a Categorical, Ordinal, Boolean, Integer, Real or Date column"]
        )
    if not columns:
        raise_problems(HEADING, ["columns: a schema needs at least one column"])
    if len(columns) > MAX_COLUMNS:
        raise_problems(HEADING, [f"columns: {len(columns):,} are more than the {MAX_COLUMNS:,} allowed"])
    problems = []
    seen: set[str] = set()
    for index, column in enumerate(columns):
        if column.name in seen:
            problems.append(f"columns[{index}] {column.name!r}: another column has the same name")
        seen.add(column.name)
    if sum(column.size for column in columns) > MAX_TOTAL_CODES:
        problems.append(f"columns: together they have more than {MAX_TOTAL_CODES:,} codes")
    raise_problems(HEADING, problems)
    return columns


def parse_rules(
    rules: Any, columns: Sequence[Column], *, key: str = "constraints", straddle: Straddle = "allow"
) -> tuple[Constraint, ...]:
    """Read constraints given as text, mappings or `Constraint`, reporting all that are wrong at once.

    ``key`` is where they stand in a file, and ``straddle`` what holds for those that do not say.
    """
    if isinstance(rules, str | Mapping) or not isinstance(rules, Sequence):
        raise_problems(HEADING, [f"{key}: write a list of rules"], ConstraintError)
    rules = [rule for rule in rules if not (isinstance(rule, Constraint) and rule.dependency)]
    if len(rules) > MAX_CONSTRAINTS:
        raise_problems(HEADING, [f"{key}: more than the {MAX_CONSTRAINTS:,} allowed"], ConstraintError)
    parsed: list[Constraint] = []
    problems: list[str] = []
    for index, rule in enumerate(rules):
        try:
            parsed.append(_parse_rule(rule, columns, straddle))
        except ConstraintError as error:
            message = "\n".join(problems_of(error)).replace("\n", "\n    ")
            problems.append(f"{key}[{index}]: {message}")
    raise_problems(HEADING, problems, ConstraintError)
    return tuple(parsed)


def _parse_rule(rule: Any, columns: Sequence[Column], straddle: Straddle) -> Constraint:
    if isinstance(rule, Constraint):
        return Constraint.parse(rule.text, columns, straddle=rule.straddle, description=rule.description)
    if isinstance(rule, str):
        return Constraint.parse(rule, columns, straddle=straddle)
    if not isinstance(rule, Mapping):
        raise ConstraintError("Write a rule as text, or a mapping with the keys rule, straddle, description.")
    unknown = [str(key) for key in rule if key not in _RULE_KEYS]
    if unknown:
        hint = did_you_mean(unknown[0], _RULE_KEYS)
        raise ConstraintError(f"Unknown key {unknown[0]!r}.{hint} Known: {', '.join(_RULE_KEYS)}.")
    if "rule" not in rule:
        raise ConstraintError("The key 'rule' is missing.")
    return Constraint.parse(
        rule["rule"],
        columns,
        straddle=rule.get("straddle", straddle),
        description=rule.get("description", ""),
    )
