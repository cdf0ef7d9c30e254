"""Columns of a database read by the schema: what an entry is, as expressions that the engine evaluates."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.data.sql.lookup import MARKS, UNRESOLVED, Entry, settled
from understudy.errors import DataError
from understudy.schema import number_of
from understudy.schema.coding.calendar import EARLIEST, LATEST
from understudy.schema.coding.cells import MISSING, OUTSIDE, UNREADABLE
from understudy.schema.coding.labels import show_number
from understudy.schema.columns.categorical import Named
from understudy.schema.columns.numeric import Ordered

if TYPE_CHECKING:
    from understudy.schema import Cells, Column

# ----------------------------------------------------------------------------------------
# Cells of ordered columns as expressions of a database: one comparison per halving, as in a binary search.

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


_INTEGER = "^-?[0-9]{1,15}$"
_DECIMAL = "^-?[0-9]{1,15}([.][0-9]{1,15})?$"
_ISO_DAY = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TRUTHS = ("true", "t", "yes", "y", "1", "false", "f", "no", "n", "0")
MAX_VALUES = 20_000
"""Most values of a named column that are written into a query."""


@dataclass(frozen=True, eq=False)
class Reading:
    """One column of the schema over the entries of a table.

    Attributes
    ----------
    located
        Code of the entry, or a mark. Never null.
    odd
        Where the entry has to be looked up, or None where that is never so.
    source
        The entries themselves.
    number
        The number or day of the entry, for rules; arbitrary where ``missing`` or ``other``. None for named values.
    missing, other
        Where nothing was entered, and where something was that is not of the column's kind.
    """

    located: Any
    source: Any
    odd: Any | None
    number: Any | None
    missing: Any
    other: Any


def codes_of(column: Column, found: Any) -> Any:
    """Return codes for located entries; marks that the column has no code for stay what they are.

    Entries are located among the values of the column; where values share codes, each gets the one of its group.
    """
    pairs = [(mark, settled(column, mark)[0]) for mark in MARKS]
    known = [(mark, code) for mark, code in pairs if code is not None]
    if column.groups is not None:
        known += list(enumerate(column.groups.tolist()))
    return (found.cases(*known, else_=found) if known else found).cast("int64")


def staged(column: Column, source: Any, *, looked_up: bool = False) -> tuple[str, dict[str, Any]]:
    """Return how a column is stored, and the expressions to compute first because many comparisons use them.

    ``s`` is the entry, ``v`` its number or day where it is stored as one, and ``r`` where text could be read.
    """
    source, storage = _storage(source, column)
    found = {"s": source}
    if looked_up:
        return "any", found
    if isinstance(column, Ordered) and storage == "text":
        found["v"], found["r"] = _number_of_text(column, source)
    elif isinstance(column, Ordered) and column.kind == "date" and storage == "day":
        day = source.date() if source.type().is_timestamp() else source
        found["v"] = day.epoch_days().cast("int64")
    return storage, found


def read_column(
    column: Column, storage: str, stage: Mapping[str, Any], entries: Sequence[Entry] | None = None
) -> Reading:
    """Compile the encoding of one column.

    Parameters
    ----------
    column
        The public column.
    storage, stage
        What `staged` returned, the expressions as columns of a table by now.
    entries
        What was found by looking up the odd entries; None before that.
    """
    import ibis

    source = stage["s"]
    if storage == "any":
        base = _plain(source, source.isnull(), ibis.literal(UNRESOLVED), odd=source.notnull())
        base = _with_number(base, column, ibis.null("int64"))
    elif isinstance(column, Ordered):
        base = _ordered(column, storage, stage)
    elif isinstance(column, Named):
        base = _named(column, source, storage)
    else:
        base = _truths(column, source, storage)
    return base if base.odd is None else _resolved(base, entries or ())


def _storage(source: Any, column: Column) -> tuple[Any, str]:
    """Return the entries in one of five types, and its name."""
    kind = source.type()
    if kind.is_boolean():
        return source, "truth"
    if kind.is_integer():
        wide = str(kind).startswith("uint64")
        return (source.cast("float64"), "real") if wide else (source.cast("int64"), "whole")
    if kind.is_floating() or kind.is_decimal():
        return source.cast("float64"), "real"
    if kind.is_string():
        return source, "text"
    if kind.is_date() or kind.is_timestamp():
        return on_calendar(source), "day"
    if kind.is_nested() or kind.is_binary() or kind.is_interval() or kind.is_time():
        raise DataError(
            f"Column {column.name!r} is stored in a way that a column of kind {column.kind!r} cannot take. "
            "Convert it in the database (a view with a cast is enough)."
        )
    return source.cast("string"), "text"


def on_calendar(source: Any, *, beyond: Any = None) -> Any:
    """Return dates or times with those beyond the years 1 to 9999 moved to the ends, or replaced by ``beyond``.

    An infinite date has no day number and no value in Python: one of them would make a whole table unreadable.
    """
    import ibis

    make = ibis.date if source.type().is_date() else ibis.timestamp
    first, last = make(EARLIEST.isoformat()), make(LATEST.isoformat())
    low, high = (first, last) if beyond is None else (beyond, beyond)
    return ibis.ifelse(source > last, high, ibis.ifelse(source < first, low, source))


def _plain(source: Any, null: Any, located: Any, *, odd: Any | None = None) -> Reading:
    import ibis

    found = ibis.ifelse(null, MISSING, located)
    missing = found == MISSING
    return Reading(found, source, odd, None, missing, (found < 0) & ~missing)


def _with_number(reading: Reading, column: Column, number: Any) -> Reading:
    if not isinstance(column, Ordered):
        return reading
    return Reading(reading.located, reading.source, reading.odd, number, reading.missing, reading.other)


def _resolved(base: Reading, entries: Sequence[Entry]) -> Reading:
    """Write the looked-up entries into the expressions; what was not seen then stays unresolved."""
    assert base.odd is not None
    if not entries:
        return base

    def pick(of: Any, otherwise: Any) -> Any:
        return base.source.cases(*((entry.value, of(entry)) for entry in entries), else_=otherwise)

    number = base.number
    if number is not None:  # doubles whatever was looked up: no entry may decide how exactly others compare
        number = pick(lambda entry: real(entry.number or 0), number.cast("float64"))
    missing = pick(lambda entry: entry.missing, base.missing)
    other = pick(lambda entry: entry.other, base.other)
    return Reading(
        pick(lambda entry: entry.code, base.located), base.source, base.odd, number, missing, other
    )


# -- numbers and dates -----------------------------------------------------------------------------


def _ordered(column: Ordered, storage: str, stage: Mapping[str, Any]) -> Reading:
    import ibis

    source = stage["s"]
    value = stage.get("v", source)
    null, odd = source.isnull(), None
    if storage == "text":
        null = source.isnull() | (source == "")
        odd = ~null & ~stage["r"]
    elif column.kind == "date" and storage != "day":
        reading = _plain(source, null, ibis.literal(UNRESOLVED), odd=source.notnull())
        return _with_number(reading, column, ibis.null("int64"))
    elif column.kind != "date" and storage == "day":
        return _with_number(_plain(source, null, ibis.literal(UNREADABLE)), column, ibis.null("int64"))
    elif storage == "truth":
        value = ibis.ifelse(source, 1, 0).cast("int64")
    elif storage == "real":
        null = source.isnull() | source.isnan()
    found = locate(column.cells, value, name=column.name, nearest=column.out_of_domain == "clamp")
    absent = _among(value, column.missing_numbers)
    missing = null
    if absent is not None:
        found = ibis.ifelse(absent, MISSING, found)
        missing = null | absent.fill_null(False)
    if odd is not None:
        found = ibis.ifelse(odd, UNRESOLVED, found)
    other = ibis.literal(False) if odd is None else odd
    return Reading(ibis.ifelse(null, MISSING, found), source, odd, value, missing, other)


def _among(value: Any, numbers: Sequence[int | float]) -> Any | None:
    """Say where a value is one of some numbers."""
    if value.type().is_integer():
        whole = [int(number) for number in numbers if float(number).is_integer()]
        return value.isin(whole) if whole else None
    found = None
    for number in numbers:
        same = value == real(float(number))
        found = same if found is None else found | same
    return found


def _number_of_text(column: Ordered, source: Any) -> tuple[Any, Any]:
    """Return the number or day of text in its plainest form, and where the text has that form."""
    import ibis

    if column.kind == "date":
        if getattr(column, "format", None) is not None:
            return ibis.null("int64"), ibis.literal(False)
        return _day_of_text(source)
    read = source.re_search(_INTEGER if column.kind == "integer" else _DECIMAL)
    kept = ibis.ifelse(read, source, ibis.null("string"))
    return kept.cast("int64" if column.kind == "integer" else "float64"), read


def _day_of_text(source: Any) -> tuple[Any, Any]:
    """Return the day number of ``YYYY-MM-DD``, by whole-number arithmetic: engines refuse impossible dates."""
    import ibis

    shaped = ibis.ifelse(source.re_search(_ISO_DAY), source, ibis.null("string"))
    year, month, day = (
        shaped.substr(start, length).cast("int64") for start, length in ((0, 4), (5, 2), (8, 2))
    )
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    february = ibis.ifelse(leap, 29, 28)
    length = ibis.ifelse(month == 2, february, ibis.ifelse(month.isin([4, 6, 9, 11]), 30, 31))
    valid = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= length)
    shifted = ibis.ifelse(month <= 2, year - 1, year)
    of_year = (153 * ibis.ifelse(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    number = shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + of_year - 719468
    return number.cast("int64"), valid.fill_null(False)


# -- named values ----------------------------------------------------------------------------------


def _named(column: Named, source: Any, storage: str) -> Reading:
    import ibis

    if column.value_count > MAX_VALUES:
        raise DataError(
            f"Column {column.name!r} has {column.value_count:,} values; at most {MAX_VALUES:,} can be told apart in a "
            "database. Store it as the number of its value, or group the values."
        )
    null = source.isnull()
    spellings = [*column.value_labels]
    spellings += [value if isinstance(value, str) else show_number(value) for value in column.missing_values]
    if storage == "truth" and column.out_of_domain != "clamp":
        pairs = [(truth, column.code_of(truth)) for truth in (False, True)]
        return _plain(source, null, source.cases(*pairs, else_=OUTSIDE))
    if storage == "text":
        known = {text: column.code_of(text) for text in [*spellings, ""]}
        numbers = any(not isinstance(value, str) for value in column.values)
        outside: Any = ibis.literal(OUTSIDE)
        odd = None
        if numbers or column.out_of_domain == "clamp":
            odd = source.notnull() & source.notin(list(known))
            if column.out_of_domain != "clamp":
                odd = odd & source.re_search("[0-9]|[iI][nN][fF]")
            outside = ibis.ifelse(odd, UNRESOLVED, OUTSIDE)
        return _plain(source, null, source.cases(*known.items(), else_=outside), odd=odd)
    if storage == "day" or column.out_of_domain == "clamp":
        return _plain(source, null, ibis.literal(UNRESOLVED), odd=source.notnull())
    numbers_known = _numbers_of(column, spellings, whole=storage == "whole")
    if storage == "real":
        null = source.isnull() | source.isnan()
        found: Any = ibis.literal(OUTSIDE)
        for number, code in numbers_known.items():
            found = ibis.ifelse(source == real(float(number)), code, found)
        return _plain(source, null, found)
    return _plain(source, null, _by_whole(source, numbers_known))


def _numbers_of(column: Any, spellings: Sequence[str], *, whole: bool) -> dict[int | float, int]:
    """Return the code or mark of every number that has one of its own."""
    candidates = [number_of(text) for text in spellings]
    found: dict[int | float, int] = {}
    for number in candidates:
        if number is None or not abs(number) < 2**63:
            continue
        if whole and not float(number).is_integer():
            continue
        entry = int(number) if whole else float(number)
        code = column.code_of(entry)
        if code not in (OUTSIDE, UNREADABLE):
            found[entry] = code
    return found


def _by_whole(source: Any, known: dict[int | float, int]) -> Any:
    """Return the code of a whole number; consecutive ones need arithmetic only."""
    import ibis

    run = sorted((int(number), code) for number, code in known.items() if code >= 0)
    rest = [(int(number), code) for number, code in known.items() if code < 0]
    found: Any = ibis.literal(OUTSIDE)
    if len(run) > 2 and all(pair == (run[0][0] + place, run[0][1] + place) for place, pair in enumerate(run)):
        inside = (source >= run[0][0]) & (source <= run[-1][0])
        found = ibis.ifelse(inside, source - (run[0][0] - run[0][1]), OUTSIDE)
    else:
        rest = run + rest
    return source.cases(*rest, else_=found) if rest else found


def _truths(column: Any, source: Any, storage: str) -> Reading:
    import ibis

    null = source.isnull()
    if storage == "truth":
        return _plain(source, null, ibis.ifelse(source, 1, 0))
    if storage == "text":
        words = dict.fromkeys(spelled for word in _TRUTHS for spelled in (word, word.upper(), word.title()))
        known = {word: column.code_of(word) for word in [*words, ""]}
        own = [text for text in (*column.missing_values, *(column.spelling or ())) if isinstance(text, str)]
        known |= {text: column.code_of(text) for text in own}
        odd = source.notnull() & source.notin(list(known))
        return _plain(source, null, source.cases(*known.items(), else_=UNRESOLVED), odd=odd)
    if storage == "day":
        return _plain(source, null, ibis.literal(UNREADABLE))
    numbers = dict.fromkeys([0, 1, *(value for value in column.missing_values if not isinstance(value, str))])
    spelled = [number_of(text) for text in (*(column.spelling or ()), column.missing_text)]
    numbers |= dict.fromkeys(number for number in spelled if number is not None and abs(number) < 2**53)
    found: Any = ibis.literal(UNREADABLE)
    for number in numbers:
        if storage == "whole" and not float(number).is_integer():
            continue
        entry = int(number) if storage == "whole" else float(number)
        same = source == (entry if storage == "whole" else real(entry))
        found = ibis.ifelse(same, column.code_of(entry), found)
    if storage == "real":
        null = source.isnull() | source.isnan()
    return _plain(source, null, found)
