"""Derived columns: computed from the other columns of a synthetic table, never measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import ConstraintError
from understudy.schema.coding.calendar import NAMES
from understudy.schema.coding.labels import show_number
from understudy.schema.columns.categorical import Named
from understudy.schema.columns.column import Column, check_text, is_plain_value
from understudy.schema.columns.numeric import Ordered
from understudy.schema.constraints.checker import Formula, check_value
from understudy.schema.constraints.conditions import View, pieces_of_raw
from understudy.schema.constraints.syntax import parse_value
from understudy.schema.problems import MAX_COLUMNS, did_you_mean, problems_of

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema.schema import Schema

__all__ = ["DerivedColumn", "check_derived", "derived_to_plain", "output_names"]

_KEYS = ("value", "values", "after", "before", "description")


@dataclass(frozen=True)
class DerivedColumn:
    """A column of the published table that is computed from others, such as ``check_out - check_in``.

    It is not read, not measured and not part of the domain, so it costs no budget; it agrees with the columns it
    comes from in every row.

    Parameters
    ----------
    name
        Name in the published table.
    value
        Arithmetic on numbers and dates, a calendar function of a date, or the name of a column.
    values
        Pairs of a result and what is written in its place, as text; other results become missing.
    after, before
        The column it stands beside in the published table; at the end of the table if neither is given.
    description
        For people.
    """

    name: str
    value: str
    values: tuple[tuple[str, str | int | float], ...] = ()
    after: str | None = None
    before: str | None = None
    description: str = ""
    formula: Formula | None = field(default=None, repr=False, compare=False)

    @property
    def columns(self) -> frozenset[str]:
        """The columns it is computed from."""
        assert self.formula is not None
        return self.formula.columns

    def compute(self, frame: Mapping[str, Any] | pd.DataFrame, columns: Mapping[str, Column]) -> Any:
        """Return the values for decoded records. The type depends on the schema only, never on the records."""
        assert self.formula is not None
        columns = {name: columns[name].finest for name in self.columns}
        used = [columns[name] for name in sorted(self.columns)]
        gaps = any(column.missing or column.other_code is not None for column in used)
        pieces = {column.name: pieces_of_raw(column, frame[column.name]) for column in used}
        rows = len(pieces[used[0].name])
        absent = np.zeros(rows, dtype=bool)
        for part in pieces.values():
            absent |= part.missing | part.other
        everyone = np.arange(rows, dtype=np.intp)
        formula = self.formula
        if formula.named is not None:
            column = columns[formula.named]
            return self._chosen(pieces[formula.named].code, column.value_labels, absent, gaps=gaps)
        if formula.name_of is not None:
            numbers = formula.name_of.numbers(pieces[formula.name_of.column])
            return self._chosen(numbers - 1, NAMES[formula.name_of.function], absent, gaps=gaps)
        assert formula.value is not None
        if self._whole(columns):
            exact = formula.value.whole(View(pieces, dict.fromkeys(pieces, everyone)))
            if self.values:
                return self._looked_up(np.where(absent, 0, exact), absent)
            if formula.date:
                days = np.where(absent, 0, exact).astype("datetime64[D]").astype("datetime64[s]")
                return np.where(absent, np.datetime64("NaT"), days) if gaps else days
            return _with_gaps(exact, absent) if gaps else exact
        real, _ = formula.value.bounds(View(pieces, dict.fromkeys(pieces, everyone)))
        real = np.round(real, _decimals(used))
        if self.values:
            return self._looked_up(np.where(absent, 0.0, real), absent)
        return np.where(absent, np.nan, real) if gaps else real

    def agrees(self, frame: pd.DataFrame, schema: Schema) -> bool:
        """Say whether a published table has this column as it follows from the others, however it was stored."""
        import pandas as pd

        computed = pd.Series(self.compute(frame, {column.name: column for column in schema.columns}))
        found = frame[self.name].reset_index(drop=True)
        if computed.dtype.kind == "M":
            found = pd.to_datetime(found)
        elif computed.dtype.kind in "if":
            found = pd.to_numeric(found)
            near = np.isclose(
                found.astype(float).to_numpy(), computed.astype(float).to_numpy(), equal_nan=True
            )
            return bool(near.all())
        else:
            found, computed = found.astype(str), computed.astype(str)
        same = (found == computed) | (found.isna() & computed.isna())
        return bool(same.all())

    def _whole(self, columns: Mapping[str, Column]) -> bool:
        """Whether the result is a whole number (or a day) whatever the records are."""
        assert self.formula is not None
        assert self.formula.value is not None
        value = self.formula.value
        factors = [value.constant, *(factor for factor, _ in value.terms)]
        ordered = [columns[name] for name in value.columns]
        return all(float(factor).is_integer() for factor in factors) and all(
            isinstance(column, Ordered) and column.cells.whole for column in ordered
        )

    def _chosen(
        self, places: npt.NDArray[Any], names: Sequence[str], absent: npt.NDArray[np.bool_], *, gaps: bool
    ) -> Any:
        """Return the name, or what is written for it, at each place."""
        table = dict(self.values)
        written: list[Any] = [table.get(name) if table else name for name in names]
        array = np.array([*written, None], dtype=object)
        return array[np.where(absent, len(names), places)]

    def _looked_up(self, numbers: npt.NDArray[Any], absent: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        table = dict(self.values)
        distinct, places = np.unique(numbers, return_inverse=True)
        written = np.array([table.get(show_number(number)) for number in distinct.tolist()] + [None], object)
        return written[np.where(absent, len(distinct), places.reshape(-1))]


def _with_gaps(numbers: npt.NDArray[Any], absent: npt.NDArray[np.bool_]) -> Any:
    import pandas as pd

    filled = pd.array(np.where(absent, 0, numbers), dtype="Int64")
    filled[absent] = pd.NA
    return filled


def _decimals(columns: Sequence[Column]) -> int:
    """Return to how many decimals a sum of these columns is written: as many as they have, or what doubles carry."""
    stated = [getattr(column, "decimals", None) for column in columns if not _is_whole(column)]
    known = [int(count) for count in stated if count is not None]
    return max(known) if known and len(known) == len(stated) else 10


def _is_whole(column: Column) -> bool:
    return isinstance(column, Ordered) and column.cells.whole


def check_derived(given: Any, columns: Mapping[str, Column]) -> tuple[tuple[DerivedColumn, ...], list[str]]:
    """Return the derived columns of a schema, and what is wrong with them."""
    if isinstance(given, tuple) and all(isinstance(item, DerivedColumn) for item in given):
        plain: list[tuple[Any, Any]] = [(item.name, _to_plain(item)) for item in given]
    elif isinstance(given, Mapping):
        plain = list(given.items())
    else:
        return (), ["derived: write a mapping from a column to what it is computed from"]
    if len(plain) > MAX_COLUMNS:
        return (), [f"derived: more than the {MAX_COLUMNS:,} allowed"]
    made: list[DerivedColumn] = []
    problems: list[str] = []
    for name, what in plain:
        place = f"derived.{name}"
        wrong = check_text(name, place, required=True, one_line=True)
        if not wrong and (name in columns or any(item.name == name for item in made)):
            wrong = [f"{place}: a column with this name is declared; take it out of 'columns' to compute it"]
        item = None
        if not wrong:
            item, wrong = _read(name, what, columns, [*columns, *(item.name for item in made)])
        problems += wrong
        if item is not None:
            made.append(item)
    return tuple(made), problems


def _read(
    name: str, what: Any, columns: Mapping[str, Column], known: Sequence[str]
) -> tuple[DerivedColumn | None, list[str]]:
    place = f"derived.{name}"
    entry = {"value": what} if isinstance(what, str) else what
    if not isinstance(entry, Mapping):
        return None, [f"{place}: write a formula as text, or a mapping with the keys {', '.join(_KEYS)}"]
    unknown = [str(key) for key in entry if key not in _KEYS]
    if unknown:
        hint = did_you_mean(unknown[0], _KEYS)
        return None, [f"{place}: unknown key {unknown[0]!r}.{hint} Known: {', '.join(_KEYS)}"]
    text = entry.get("value")
    if not isinstance(text, str):
        return None, [f"{place}: the key 'value' must hold a formula as text"]
    problems = check_text(entry.get("description", ""), f"{place}.description")
    beside = [key for key in ("after", "before") if entry.get(key) is not None]
    if len(beside) == 2:
        problems.append(f"{place}: give 'after' or 'before', not both")
    for key in beside:
        if entry[key] not in known:
            hint = did_you_mean(str(entry[key]), known)
            problems.append(f"{place}.{key}: no column named {str(entry[key])!r} before this one.{hint}")
    table = entry.get("values") or {}
    if not isinstance(table, Mapping) or not all(is_plain_value(x) for pair in table.items() for x in pair):
        problems.append(f"{place}.values: write a mapping from a result to the text or number in its place")
        table = {}
    try:
        formula = check_value(text, parse_value(text), columns)
    except ConstraintError as error:
        message = "\n".join(problems_of(error)).replace("\n", "\n    ")
        return None, [*problems, f"{place}: {message}"]
    for used in sorted(formula.columns):
        if getattr(columns[used], "decode_by", None) == "label":
            problems.append(
                f"{place}: column {used!r} is written as labels of bins (decode_by: label), which are no values "
                "to compute with"
            )
    named = columns[formula.named] if formula.named is not None else None
    if formula.named is not None and not table:
        problems.append(f"{place}: a copy of column {formula.named!r} needs 'values', what to write for each")
    keys = {str(key) if isinstance(key, str) else show_number(key): value for key, value in table.items()}
    if isinstance(named, Named):
        strange = [key for key in keys if key not in named.finest.value_labels]
        if strange:
            hint = did_you_mean(strange[0], named.finest.value_labels)
            problems.append(
                f"{place}.values: {strange[0]!r} is not one of the values of column {named.name!r}.{hint}"
            )
    if problems:
        return None, problems
    return (
        DerivedColumn(
            name,
            " ".join(text.split()),
            tuple(keys.items()),
            entry.get("after"),
            entry.get("before"),
            entry.get("description", ""),
            formula,
        ),
        [],
    )


def _to_plain(item: DerivedColumn) -> str | dict[str, Any]:
    plain: dict[str, Any] = {"value": item.value}
    if item.values:
        plain["values"] = dict(item.values)
    for key in ("after", "before", "description"):
        if getattr(item, key):
            plain[key] = getattr(item, key)
    return item.value if len(plain) == 1 else plain


def derived_to_plain(items: Sequence[DerivedColumn]) -> dict[str, Any]:
    """Return derived columns as a file holds them."""
    return {item.name: _to_plain(item) for item in items}


def output_names(names: Sequence[str], items: Sequence[DerivedColumn]) -> tuple[str, ...]:
    """Return the columns of a published table in order: each derived column beside the one it names.

    Examples
    --------
    >>> output_names(["a", "b"], [DerivedColumn("c", "a + b", after="a"), DerivedColumn("d", "a")])
    ('a', 'c', 'b', 'd')
    """
    order = list(names)
    for item in items:
        if item.after is not None:
            order.insert(order.index(item.after) + 1, item.name)
        elif item.before is not None:
            order.insert(order.index(item.before), item.name)
        else:
            order.append(item.name)
    return tuple(order)
