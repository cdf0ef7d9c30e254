"""Functional dependencies: the value of one column decides the value of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.schema.coding.labels import show_number
from understudy.schema.columns.column import Column, is_plain_value
from understudy.schema.constraints.conditions import Mapped
from understudy.schema.constraints.constraint import Constraint
from understudy.schema.problems import did_you_mean, listing

__all__ = ["Dependency", "check_dependencies", "dependencies_to_plain", "rules_of_dependencies"]

_HOW = "write the columns it decides, as a list, or as a mapping from each to a table of values"


@dataclass(frozen=True)
class Dependency:
    """One column decides another, as a city decides its country.

    Parameters
    ----------
    source, target
        The column that decides, and the one that follows.
    values
        Pairs of a value of the source and the value of the target that goes with it, as text; one pair for every
        value of the source. Empty: the table is learnt from the *released* model, for each value of the source the value
        of the target that the model finds most likely.
    """

    source: str
    target: str
    values: tuple[tuple[str, str], ...] = ()

    @property
    def learnt(self) -> bool:
        """Whether the table of values comes from the model."""
        return not self.values


def check_dependencies(given: Any, columns: Mapping[str, Column]) -> tuple[tuple[Dependency, ...], list[str]]:
    """Return the dependencies of a schema, and what is wrong with them."""
    if isinstance(given, tuple) and all(isinstance(item, Dependency) for item in given):
        items: list[Dependency] = list(given)
        problems: list[str] = []
    elif isinstance(given, Mapping):
        items, problems = _read(given)
    else:
        return (), ["determines: write a mapping from a column to the columns that follow from it"]
    by_target: dict[str, str] = {}
    for item in items:
        place = f"determines.{item.source}"
        unknown = [name for name in (item.source, item.target) if name not in columns]
        if unknown:
            hint = did_you_mean(unknown[0], columns)
            problems.append(f"{place}: no column named {unknown[0]!r}.{hint}")
            continue
        if item.source == item.target:
            problems.append(f"{place}: a column cannot follow from itself")
            continue
        if item.target in by_target:
            problems.append(
                f"{place}: column {item.target!r} follows from {by_target[item.target]!r} already; one column decides it"
            )
            continue
        by_target[item.target] = item.source
        problems += [f"{place}.{item.target}: {wrong}" for wrong in _check_values(item, columns)]
    if not problems and (circle := _circle(by_target)):
        problems.append(f"determines: {listing(circle)} follow from each other in a circle")
    return tuple(items), problems


def rules_of_dependencies(
    items: Sequence[Dependency], columns: Mapping[str, Column]
) -> tuple[Constraint, ...]:
    """Return the rule behind each dependency whose table of values is declared."""
    rules = []
    for item in items:
        if item.learnt:
            continue
        source, target = columns[item.source], columns[item.target]
        places = {label: place for place, label in enumerate(target.finest.value_labels)}
        table = dict(item.values)
        codes = tuple(places[table[label]] for label in source.finest.value_labels)
        condition = Mapped(item.source, item.target, codes)
        over = tuple(column for column in columns.values() if column.name in (item.source, item.target))
        rules.append(
            Constraint(
                f"{item.source} determines {item.target}",
                straddle="allow",
                condition=condition,
                over=over,
                dependency=True,
            )
        )
    return tuple(rules)


def dependencies_to_plain(items: Sequence[Dependency]) -> dict[str, Any]:
    """Return dependencies as a file holds them."""
    plain: dict[str, Any] = {}
    for source in dict.fromkeys(item.source for item in items):
        mine = [item for item in items if item.source == source]
        if all(item.learnt for item in mine):
            plain[source] = [item.target for item in mine]
        else:
            plain[source] = {item.target: dict(item.values) or "learn" for item in mine}
    return plain


def _read(given: Mapping[Any, Any]) -> tuple[list[Dependency], list[str]]:
    items: list[Dependency] = []
    problems: list[str] = []
    for source, targets in given.items():
        place = f"determines.{source}"
        if isinstance(targets, str):
            targets = [targets]
        if isinstance(targets, Mapping):
            pairs = list(targets.items())
        elif isinstance(targets, Sequence):
            pairs = [(target, "learn") for target in targets]
        else:
            problems.append(f"{place}: {_HOW}")
            continue
        for target, table in pairs:
            if not isinstance(target, str) or not (table == "learn" or isinstance(table, Mapping)):
                problems.append(f"{place}: {_HOW} (or 'learn')")
            elif isinstance(table, Mapping) and not table:
                problems.append(f"{place}.{target}: the table of values is empty; list it, or write 'learn'")
            elif isinstance(table, Mapping) and not all(
                is_plain_value(part) for pair in table.items() for part in pair
            ):
                problems.append(f"{place}.{target}: values must be text or numbers (quote true and false)")
            else:
                values = () if table == "learn" else tuple((_text(a), _text(b)) for a, b in table.items())
                items.append(Dependency(str(source), target, values))
    return items, problems


def _text(value: Any) -> str:
    return value if isinstance(value, str) else show_number(value)


def _check_values(item: Dependency, columns: Mapping[str, Column]) -> list[str]:
    """Return what is wrong with a declared table: unknown values, repeated ones, values without a partner."""
    source, target = columns[item.source], columns[item.target]
    if item.learnt:
        return _check_groups(item, source, target)
    problems = []
    for column, listed in (
        (source, [pair[0] for pair in item.values]),
        (target, [pair[1] for pair in item.values]),
    ):
        known = set(column.finest.value_labels)
        unknown = [text for text in dict.fromkeys(listed) if text not in known]
        if unknown:
            hint = did_you_mean(unknown[0], column.finest.value_labels)
            problems.append(f"{unknown[0]!r} is not one of the values of column {column.name!r}.{hint}")
    if not problems:
        problems += _check_groups(item, source, target)
    keys = [pair[0] for pair in item.values]
    if len(set(keys)) < len(keys):
        problems.append("a value is listed twice")
    lacking = [label for label in source.finest.value_labels if label not in set(keys)]
    if lacking:
        problems.append(f"no partner for {listing(lacking)}; give every value of {item.source!r} one")
    return problems


def _check_groups(item: Dependency, source: Column, target: Column) -> list[str]:
    """Return what is wrong where values share a code: those of the source need one partner, those of the target are none."""
    problems = []
    table = dict(item.values)
    groups = source.groups if source.uncut is source else None  # a fit respects the rules itself
    if groups is not None:
        partners: dict[int, str | None] = {}
        for label, group in zip(source.finest.value_labels, groups, strict=True):
            if partners.setdefault(int(group), table.get(label)) != table.get(label):
                problems.append(f"{label!r} shares a group of levels with a value that has another partner")
                break
    groups = target.groups if target.uncut is target else None
    if groups is not None and len(set(map(int, groups))) < len(groups):
        problems.append(f"column {item.target!r} has values in groups (levels); what follows must be a value")
    return problems


def _circle(by_target: Mapping[str, str]) -> list[str]:
    for start in by_target:
        path = [start]
        while path[-1] in by_target:
            following = by_target[path[-1]]
            if following in path:
                return path[path.index(following) :]
            path.append(following)
    return []
