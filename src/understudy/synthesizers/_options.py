"""Checks of a mechanism's options, with one wording for each kind of mistake.

Each takes the mechanism and the names of some of its options, and refuses the first that is not what it should be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

from understudy.errors import BudgetError

__all__ = ["at_least", "between", "one_of", "positive", "shares"]


def positive(options: object, *names: str) -> None:
    """Refuse an option that is not a positive number; infinity will do."""
    for name in names:
        if not _number(options, name) > 0:
            raise BudgetError(f"{name} ({getattr(options, name)}) must be positive.")


def at_least(options: object, least: float, *names: str) -> None:
    """Refuse an option that is smaller than it may be."""
    for name in names:
        if not _number(options, name) >= least:
            words = f"be at least {least:g}" if least else "not be negative"
            raise BudgetError(f"{name} ({getattr(options, name)}) must {words}.")


def between(options: object, low: float, high: float, *names: str) -> None:
    """Refuse an option outside a range; both ends belong to it."""
    for name in names:
        if not low <= _number(options, name) <= high:
            raise BudgetError(f"{name} ({getattr(options, name)}) must be from {low:,} to {high:,}.")


def shares(options: object, *names: str, zero: bool = False) -> None:
    """Refuse an option that is not a share of something: between 0 and 1, without the ends (but 0 where it means none).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> shares(SimpleNamespace(total_share=1.5), "total_share")
    Traceback (most recent call last):
    ...
    understudy.errors.BudgetError: total_share (1.5) must lie between 0 and 1.
    """
    for name in names:
        share = _number(options, name)
        if not (0 < share < 1 or (zero and share == 0)):
            words = "be at least 0 and less than 1" if zero else "lie between 0 and 1"
            raise BudgetError(f"{name} ({getattr(options, name)}) must {words}.")


def one_of(options: object, name: str, choices: Sequence[str]) -> None:
    """Refuse an option that is none of the choices."""
    value = getattr(options, name)
    if value not in choices:
        raise BudgetError(f"{name} ({value!r}) must be one of {', '.join(choices)}.")


def _number(options: object, name: str) -> float:
    """Return an option as a number; what is none is none of the numbers asked for."""
    value = getattr(options, name)
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
