"""Checks of a mechanism's options, with one wording for each kind of mistake; all mistakes are told at once.

A check takes the mechanism and the names of some of its options and returns what is wrong with them. An option declared as
``int`` must be a whole number, so that what counts things is refused here and not in the middle of a fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

from understudy.errors import BudgetError

__all__ = [
    "at_least",
    "between",
    "of_other_kinds",
    "one_of",
    "positive",
    "refuse",
    "shares",
    "unused",
    "up_to_one",
]


def refuse(*problems: Iterable[str]) -> None:
    """Raise one error that names everything that is wrong, if anything is.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> options = SimpleNamespace(rows_share=1.5, max_cells=0)
    >>> refuse(shares(options, "rows_share"), at_least(options, 1, "max_cells"))
    Traceback (most recent call last):
    ...
    understudy.errors.BudgetError: rows_share (1.5) must lie between 0 and 1. max_cells (0) must be at least 1.
    """
    found = [problem for some in problems for problem in some]
    if found:
        raise BudgetError(" ".join(found))


def positive(options: object, *names: str, optional: bool = False) -> list[str]:
    """Find options that are not positive numbers; None will do for ``optional`` ones."""
    return [
        _problem(options, name, "be positive")
        for name in names
        if not (_number(options, name) > 0 or (optional and getattr(options, name) is None))
    ]


def at_least(options: object, least: float, *names: str, optional: bool = False) -> list[str]:
    """Find options that are smaller than they may be; None will do for ``optional`` ones."""
    requirement = f"be at least {least:g}" if least else "not be negative"
    return [
        _problem(options, name, requirement)
        for name in names
        if not (_number(options, name) >= least or (optional and getattr(options, name) is None))
    ]


def between(options: object, low: float, high: float, *names: str) -> list[str]:
    """Find options outside a range; both ends belong to it."""
    return [
        _problem(options, name, f"be from {low:,} to {high:,}")
        for name in names
        if not low <= _number(options, name) <= high
    ]


def shares(options: object, *names: str, zero: bool = False) -> list[str]:
    """Find options that are not shares: between 0 and 1, without the ends (but with 0 where it means none)."""
    requirement = "be at least 0 and less than 1" if zero else "lie between 0 and 1"
    return [
        _problem(options, name, requirement)
        for name in names
        if not (0 < _number(options, name) < 1 or (zero and _number(options, name) == 0))
    ]


def up_to_one(options: object, *names: str) -> list[str]:
    """Find options that are not positive, or larger than one."""
    return [
        _problem(options, name, "be positive and at most 1")
        for name in names
        if not 0 < _number(options, name) <= 1
    ]


def one_of(options: object, name: str, choices: Sequence[str | bool | None]) -> list[str]:
    """Find an option that is none of the choices."""
    if getattr(options, name) in choices:
        return []
    return [_problem(options, name, f"be one of {', '.join(map(str, choices))}")]


def unused(options: object, *names: str, because: str) -> list[str]:
    """Find options that were changed although nothing will look at them; an option left at its default was not asked for.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Options:
    ...     flavour: str = "theta"
    ...     degree: int = 2
    >>> unused(Options(degree=3), "degree", because="flavour is theta")
    ['degree (3) would have no effect, because flavour is theta: leave it out.']
    """
    declared = getattr(options, "__dataclass_fields__", {})
    return [
        f"{name} ({getattr(options, name)!r}) would have no effect, because {because}: leave it out."
        for name in names
        if getattr(options, name) != declared[name].default
    ]


_WORDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
    tuple: "a list",
    type(None): "none",
}
"""What an option of a plain kind may be."""


def of_other_kinds(mechanism: type, given: Mapping[str, object]) -> list[str]:
    """Find options that are not of the kind that their annotation declares.

    Whole numbers, numbers, words, true or false, lists and none, alone and as alternatives, are compared; an annotation that says anything else, or
    cannot be read, allows everything.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Options:
    ...     k: int = 3
    ...     share: float | None = None
    >>> of_other_kinds(Options, {"k": "abc", "share": True})
    ["k ('abc') must be a whole number.", 'share (True) must be a number or none.']
    >>> of_other_kinds(Options, {"k": 4, "share": 1})
    []
    """
    try:
        declared = get_type_hints(mechanism)
    except (NameError, AttributeError, TypeError):  # names that only a type checker imports
        return []
    found = []
    for name, value in given.items():
        kinds = _plain_kinds(declared.get(name))
        if kinds and not any(_is_of(value, kind) for kind in kinds):
            wanted = " or ".join(_WORDS[kind] for kind in kinds)
            found.append(f"{name} ({value!r}) must be {wanted}.")
    return found


def _plain_kinds(annotation: object) -> list[type]:
    """Return the plain kinds that an annotation allows, or nothing where it allows others."""
    origin = get_origin(annotation)
    parts = get_args(annotation) if origin in (Union, UnionType) else (annotation,)
    kinds = [tuple if (get_origin(part) or part) in (tuple, list, Sequence) else part for part in parts]
    return [kind for kind in kinds if isinstance(kind, type)] if all(kind in _WORDS for kind in kinds) else []


def _is_of(value: object, kind: type) -> bool:
    if kind is tuple:
        return isinstance(value, Sequence) and not isinstance(value, str)
    if kind in (int, float):
        return isinstance(value, Real if kind is float else Integral) and not isinstance(value, bool)
    return isinstance(value, kind)


def _number(options: object, name: str) -> float:
    """Return an option as a number; infinity, parts of what is counted and what is no number are none of those asked for."""
    value = getattr(options, name)
    sensible = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if sensible and not (_counts(options, name) and value % 1) else math.nan


def _counts(options: object, name: str) -> bool:
    """Say whether an option is declared to be a whole number."""
    field = getattr(options, "__dataclass_fields__", {}).get(name)
    return field is not None and field.type in ("int", "int | None")


def _problem(options: object, name: str, requirement: str) -> str:
    value = getattr(options, name)
    if _counts(options, name) and isinstance(value, float) and math.isfinite(value) and value % 1:
        requirement = "be a whole number"
    return (
        f"{name} ({value!r}) must {requirement}."
        if isinstance(value, str)
        else f"{name} ({value}) must {requirement}."
    )
