"""Checks of a mechanism's options, with one wording for each kind of mistake; all mistakes are told at once.

A check takes the mechanism and the names of some of its options and returns what is wrong with them. An option declared as
``int`` must be a whole number, so that what counts things is refused here and not in the middle of a fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real

from understudy.errors import BudgetError

__all__ = ["at_least", "between", "one_of", "positive", "refuse", "shares", "unused", "up_to_one"]


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
