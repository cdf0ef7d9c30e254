"""What becomes of entries without a code of their own: the out-of-domain policy of a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.schema.cells import MISSING, OUTSIDE, UNREADABLE, Located

if TYPE_CHECKING:
    from understudy.schema.column import Codes, Column

__all__ = ["settle", "unreadable_column"]

_PRIVATE = "The values are private and not shown."


def settle(column: Column, located: Located) -> tuple[Codes, list[str]]:
    """Replace the marks in located entries by codes, or complain.

    Returns
    -------
    tuple
        Codes in the smallest unsigned type, and one sentence per kind of problem.

    Privacy
    -------
    In: private. The sentences say *that* a column holds, for instance, values outside its domain, never
    which or how many. Under ``to-missing`` and ``to-other`` there are none, whatever the entries hold.
    """
    if located.size == 0 or int(located.min()) >= 0:
        return located.astype(column.dtype), []
    problems: list[str] = []
    for mark in (MISSING, OUTSIDE, UNREADABLE):
        here = located == mark
        if not here.any():
            continue
        code = _code_for(column, mark)
        if code is None:
            problems.append(_complaint(column, mark))
            code = 0
        located[here] = code
    return located.astype(column.dtype), problems


def unreadable_column(column: Column) -> str:
    """Return the complaint about a column whose storage could not be read at all."""
    return (
        f"Column {column.name!r} is stored in a way that a column of kind {column.kind!r} cannot read. "
        f"Convert it before reading the table. {_PRIVATE}"
    )


def _code_for(column: Column, mark: int) -> int | None:
    if mark == MISSING and column.missing:
        return column.missing_code
    if column.out_of_domain == "to-other":
        return column.other_code
    if column.out_of_domain == "to-missing":
        return column.missing_code
    return None


def _complaint(column: Column, mark: int) -> str:
    name = f"Column {column.name!r}"
    if mark == MISSING:
        return (
            f"{name} has missing entries and its schema declares none. Set missing: true, or fill them in "
            f"before reading the table. {_PRIVATE}"
        )
    if mark == OUTSIDE:
        clampable = column.kind in ("integer", "real", "date") and column.out_of_domain != "clamp"
        choice = "clamp, to-missing or to-other" if clampable else "to-missing or to-other"
        return (
            f"{name} has values outside the declared domain. Widen the domain or choose "
            f"out_of_domain: {choice}. {_PRIVATE}"
        )
    return (
        f"{name} has {column.not_readable}. Correct them, change the kind of the column, or choose "
        f"out_of_domain: to-missing or to-other. {_PRIVATE}"
    )
