"""Cells of ordered columns as expressions of a database: one comparison per halving, as in a binary search."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import DataError
from understudy.schema.cells import OUTSIDE

if TYPE_CHECKING:
    from understudy.schema import Cells

MAX_CELLS = 4096
"""Most cells of unequal width that are written into a query."""

_EXACT = 2**53


def real(number: float) -> Any:
    """Return a double as an expression that every engine reads back to the last bit.

    A literal such as ``0.1`` is a decimal number to most engines, and becomes a double by a division that may
    round; text is parsed with correct rounding by all of them.
    """
    import ibis

    return ibis.literal(repr(float(number))).cast("float64")


def locate(cells: Cells, value: Any, *, name: str, nearest: bool) -> Any:
    """Return the code of a number that is not null and not NaN, or ``OUTSIDE``.

    The same function of the number as ``Cells.locate`` and, with ``nearest``, ``Cells.nearest`` where that
    finds no cell.

    Parameters
    ----------
    cells
        The cells.
    value
        ``int64`` or ``float64`` expression.
    name
        Name of the column, for messages.
    nearest
        Whether numbers outside go to the nearest cell.
    """
    if value.type().is_integer():
        if not cells.whole:
            return _tree(cells, value.cast("float64"), name, nearest=nearest, gaps=False)
        return _whole(cells, value, name, nearest=nearest)
    if not cells.whole:
        found = _tree(cells, value, name, nearest=nearest, gaps=False)
        return found if nearest else _where(value.abs() > real(sys.float_info.max), OUTSIDE, found)
    found = _tree(cells, value, name, nearest=nearest, gaps=nearest)
    return found if nearest else _where(_is_whole(value), found, OUTSIDE)


def _where(condition: Any, yes: Any, no: Any) -> Any:
    import ibis

    return ibis.ifelse(condition, yes, no)


def _is_whole(value: Any) -> Any:
    """Say whether a double is a whole number below 2**63; larger ones and infinities have no code."""
    import ibis

    small = value.abs() < real(_EXACT)
    near = ibis.ifelse(small, value, ibis.null("float64")).cast("int64").cast("float64")
    return (small & (near == value)) | (~small & (value.abs() < real(2.0**63)))


def _whole(cells: Cells, value: Any, name: str, *, nearest: bool) -> Any:
    """Locate whole numbers; equal widths need arithmetic only."""
    low, high = cells.low, cells.high
    width = int(high[0]) - int(low[0]) + 1
    even = (
        not (cells.open_low or cells.open_high)
        and bool((low[1:] == high[:-1] + 1).all())
        and bool((high - low == width - 1).all())
        and int(high[-1]) - int(low[0]) < _EXACT
    )
    if not even:
        return _tree(cells, value, name, nearest=nearest, gaps=False)
    first, last = int(low[0]), int(high[-1])
    inside = (value >= first) & (value <= last)
    offset = value - first
    code = offset if width == 1 else offset // width
    outside: Any = OUTSIDE
    if nearest:
        outside = _where(value < first, 0, len(cells) - 1)
    return _where(inside, code, outside)


def _tree(cells: Cells, value: Any, name: str, *, nearest: bool, gaps: bool) -> Any:
    """Search by comparisons with the lower ends.

    ``gaps`` says that a number may lie between two cells that touch on the lattice of whole numbers.
    """
    if len(cells) > MAX_CELLS:
        raise DataError(
            f"Column {name!r} has {len(cells):,} bins of unequal width; at most {MAX_CELLS:,} can be counted in a "
            "database. Declare fewer bins, or bins of equal width."
        )
    floating = value.type().is_floating()
    ends = np.concatenate([cells.low[1:], cells.high[:-1]])
    if floating and cells.whole and any(abs(int(end)) > _EXACT for end in ends):
        raise DataError(
            f"Column {name!r} has bins beyond 2**53 and is stored as real numbers, which cannot tell such numbers "
            "apart. Store it as whole numbers, or declare narrower bins."
        )

    def literal(number: Any) -> Any:
        return real(float(number)) if floating else int(number)

    def leaf(code: int) -> Any:
        last = code == len(cells) - 1
        if last and (cells.open_high or nearest):
            return code
        if last:
            return _where(value <= literal(cells.high[code]), code, OUTSIDE)
        follows = int(cells.high[code]) + 1 if cells.whole else math.nextafter(cells.high[code], math.inf)
        if follows == cells.low[code + 1] and not gaps:
            return code
        beyond: Any = OUTSIDE
        if nearest:
            number = value.cast("float64")
            below = number - real(float(cells.high[code]))
            above = real(float(cells.low[code + 1])) - number
            beyond = _where(above < below, code + 1, code)
        return _where(value <= literal(cells.high[code]), code, beyond)

    def search(first: int, last: int) -> Any:
        if first == last:
            return leaf(first)
        middle = (first + last + 1) // 2
        return _where(value >= literal(cells.low[middle]), search(middle, last), search(first, middle - 1))

    found = search(0, len(cells) - 1)
    if cells.open_low or nearest:
        return found
    return _where(value >= literal(cells.low[0]), found, OUTSIDE)
