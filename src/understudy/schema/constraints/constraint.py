"""Record constraints and their three readings: raw values, codes, and published bins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.errors import ConstraintError, DataError, DomainTooLarge
from understudy.schema.columns.column import Column, check_text, unreadable_column
from understudy.schema.constraints.checker import check
from understudy.schema.constraints.conditions import (
    FALSE,
    TRUE,
    UNKNOWN,
    All,
    Answers,
    AnyOf,
    Check,
    Mapped,
    NamedPart,
    Not,
    Part,
    Pieces,
    Relation,
    Same,
    Threshold,
    View,
    pieces_of_codes,
    pieces_of_edges,
    pieces_of_raw,
)
from understudy.schema.constraints.syntax import parse
from understudy.schema.domain import Domain
from understudy.schema.problems import MAX_CELLS

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema.schema import Schema

__all__ = ["Constraint", "Straddle"]

Straddle: TypeAlias = Literal["allow", "forbid", "edges", "values"]
STRADDLES: tuple[Straddle, ...] = ("allow", "forbid", "edges", "values")
Bools = npt.NDArray[np.bool_]

_TABLE_CELLS = 1 << 20
_MOST_PASSES = 4096


@dataclass(frozen=True)
class Constraint:
    """A rule that every record obeys, such as ``not (mother_age < 23 and parity > 6)``.

    A record obeys a rule unless the rule is *false* for it; a comparison with a missing entry is neither true
    nor false. Three readings agree on that definition:

    - *raw values*: the record is what it says;
    - *codes*: the record is any of the raw records with those codes. ``straddle`` says what to do when some
      of them obey and some do not, as for the bin 20-24 and ``mother_age < 23``;
    - *binned values*: labels of bins are read as their codes.

    Parameters
    ----------
    text
        The rule.
    straddle
        ``"allow"`` (the default): codes pass if *some* raw record behind them obeys. Then no record that
        obeys the rule is ever excluded, so the rule may serve as a structural zero. ``"forbid"``: codes pass
        only if *every* raw record behind them obeys, so that any value decoded from them obeys too.
        ``"edges"``: each bin counts as its lower edge (its only edge if it is open below), as in
        paper Births. ``"values"``, the straddle of the ``rules`` of a schema: codes pass as under ``"allow"``,
        and the values that are drawn inside the bins of a record obey the rule together.
    description
        For people.
    dependency
        Whether the rule stands for a declared dependency (``determines``) and has no text of its own.

    Examples
    --------
    >>> from understudy.schema import Integer, Schema
    >>> schema = Schema([
    ...     Integer("mother_age", bins=["<20", "20-24", "24<"]),
    ...     Integer("parity", bins=["1-6", "6<"]),
    ... ])
    >>> rule = Constraint.parse("not (mother_age < 23 and parity > 6)", schema)
    >>> rule.columns
    ('mother_age', 'parity')
    >>> rule.allowed(schema.domain).astype(int)
    array([[1, 0],
           [1, 1],
           [1, 1]])
    """

    text: str
    straddle: Straddle = "allow"
    description: str = ""
    condition: Check | None = field(default=None, repr=False, compare=False)
    over: tuple[Column, ...] = field(default=(), repr=False, compare=False)
    dependency: bool = field(default=False, repr=False)

    @classmethod
    def parse(
        cls,
        text: str,
        schema: Schema | Iterable[Column],
        *,
        straddle: Straddle = "allow",
        description: str = "",
    ) -> Constraint:
        """Read a rule and check it against the columns of a schema.

        Raises
        ------
        ConstraintError
            If the rule cannot be read, names an unknown column, or compares what cannot be compared. The
            message shows the place.
        """
        if straddle not in STRADDLES:
            raise ConstraintError(f"straddle must be one of {', '.join(STRADDLES)}.")
        if not isinstance(text, str):
            raise ConstraintError("A constraint must be text (quote it in YAML).")
        if wrong := check_text(description, "description"):
            raise ConstraintError(f"Constraint {text.strip()!r}: {wrong[0]}.")
        known: dict[str, Column] = {column.name: column for column in _columns_in(schema)}
        # a rule speaks of values; groups that values share are taken into account where codes are judged
        condition = check(text, parse(text), {name: column.finest for name, column in known.items()})
        used = _columns_of(condition)
        over = tuple(column for name, column in known.items() if name in used)
        return cls(
            " ".join(text.split()) if "\n" in text else text.strip(), straddle, description, condition, over
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns the rule is about, in the order of the schema."""
        return tuple(column.name for column in self.over)

    def __str__(self) -> str:
        return self.text

    # -- three readings ------------------------------------------------------------------------

    def holds_raw(self, frame: pd.DataFrame | Mapping[str, Any]) -> Bools:
        """Tell which raw records obey the rule.

        Numbers and dates count as they are, also outside the declared domain. An entry that cannot be read is
        unknown, like a missing one.

        Privacy
        -------
        In and out: private.
        """
        return np.asarray((self._raw_answers(frame) & (TRUE | UNKNOWN)) != 0)

    def true_raw(self, frame: pd.DataFrame | Mapping[str, Any]) -> Bools:
        """Tell for which raw records the rule is true: not false, and not unknown for a missing entry.

        Privacy
        -------
        In and out: private.
        """
        return np.asarray(self._raw_answers(frame) == TRUE)

    def _raw_answers(self, frame: pd.DataFrame | Mapping[str, Any]) -> Answers:
        pieces = {column.name: _read_raw(column, _take(frame, column.name)) for column in self.over}
        rows = np.arange(len(pieces[self.columns[0]]), dtype=np.intp)
        return self._answers(View(pieces, dict.fromkeys(self.columns, rows)))

    def holds_codes(self, codes: Mapping[str, npt.ArrayLike]) -> Bools:
        """Tell which encoded records obey the rule, by the ``straddle`` rule of the constraint."""
        index = {column.name: column.check_codes(_take(codes, column.name)) for column in self.over}
        if len({len(part) for part in index.values()}) > 1:
            raise DataError("The columns of codes have different lengths.")
        if self._grid(self._pieces) <= _TABLE_CELLS:
            return np.asarray(self._table[tuple(index.values())])
        return self._by_row(index)

    def holds_binned(self, frame: pd.DataFrame | Mapping[str, Any]) -> Bools:
        """Tell which records of a table of published bins (or values) obey the rule."""
        return self.holds_codes(
            {column.name: column.encode(_take(frame, column.name)) for column in self.over}
        )

    def allowed(self, domain: Domain, *, max_cells: int = MAX_CELLS) -> Bools:
        """Return which combinations of codes of the rule's columns are possible.

        Parameters
        ----------
        domain
            The domain of the schema; it must agree with the columns of the rule.
        max_cells
            Largest table that may be built.

        Returns
        -------
        numpy.ndarray
            True where a combination is allowed; one axis per column of ``columns``. It agrees with
            `holds_codes` for every combination.

        Raises
        ------
        DomainTooLarge
            If the table would be larger than ``max_cells``.
        """
        for column in self.over:
            if column.name not in domain or domain.size(column.name) != column.size:
                raise ConstraintError(
                    f"The domain does not agree with column {column.name!r} of the constraint."
                )
        cells = self._grid(self._pieces)
        if cells > max_cells:
            raise DomainTooLarge(
                f"The constraint {self.text!r} is about {cells:,} combinations of its columns; {max_cells:,} "
                "are allowed. Use coarser bins, or check records one by one with holds_codes.",
                cells=cells,
                allowed=max_cells,
            )
        return self._table.copy()

    def allowed_given(self, name: str, others: Mapping[str, npt.ArrayLike], *, rows: int) -> Bools:
        """Return which codes of one column are possible in each record, given the codes of the rule's other columns.

        Parameters
        ----------
        name
            The column.
        others
            Codes of the other columns of the rule.
        rows
            How many records there are.
        """
        place = self.columns.index(name)
        index = [np.asarray(others[column]).astype(np.intp) for column in self.columns if column != name]
        if self._grid(self._pieces) <= MAX_CELLS:
            table = np.moveaxis(self._table, place, -1)
            return np.broadcast_to(table[tuple(index)], (rows, table.shape[-1]))
        size = self.over[place].size
        codes = {column: np.repeat(np.asarray(part), size) for column, part in others.items()}
        codes[name] = np.tile(np.arange(size), rows)
        return self.holds_codes(codes).reshape(rows, size)

    # -- evaluation ----------------------------------------------------------------------------

    def _answers(self, view: View) -> Answers:
        assert self.condition is not None
        shape = np.broadcast_shapes(*(part.shape for part in view.index.values()))
        return np.broadcast_to(self.condition.answers(view), shape)

    @cached_property
    def _pieces(self) -> dict[str, Pieces]:
        if self.straddle == "edges":
            return {column.name: pieces_of_edges(column) for column in self.over}
        assert self.condition is not None
        constants = _constants_of(self.condition)
        functions = {part.column: set[str]() for part in parts_of(self.condition)}
        for part in parts_of(self.condition):
            functions[part.column].add(part.function)
        return {
            column.name: pieces_of_codes(
                column, sorted(constants.get(column.name, ())), sorted(functions.get(column.name, ()))
            )
            for column in self.over
        }

    def _grid(self, pieces: Mapping[str, Pieces]) -> int:
        return prod(len(part) for part in pieces.values())

    def _passes(self, answers: Answers) -> Bools:
        if self.straddle == "forbid":
            return np.asarray((answers & FALSE) == 0)
        return np.asarray((answers & (TRUE | UNKNOWN)) != 0)

    @cached_property
    def _table(self) -> Bools:
        """Which combinations of codes pass: answers on the grid of pieces, gathered per code."""
        axes = len(self.over)
        index = {}
        for axis, column in enumerate(self.over):
            shape = [1] * axes
            shape[axis] = -1
            index[column.name] = np.arange(len(self._pieces[column.name]), dtype=np.intp).reshape(shape)
        passes = self._passes(self._answers(View(self._pieces, index)))
        gather = np.logical_and if self.straddle == "forbid" else np.logical_or
        for axis, column in enumerate(self.over):
            starts = self._pieces[column.name].start
            if starts is not None and len(starts) != passes.shape[axis]:
                passes = gather.reduceat(passes, starts, axis=axis)
        return passes

    def _by_row(self, codes: Mapping[str, npt.NDArray[np.intp]]) -> Bools:
        """Check rows without the table: one combination of the pieces of each row's codes at a time."""
        counts, rows = [], 0
        firsts: dict[str, npt.NDArray[np.intp]] = {}
        lasts: dict[str, npt.NDArray[np.intp]] = {}
        for name, part in codes.items():
            pieces = self._pieces[name]
            assert pieces.start is not None
            ends = np.append(pieces.start[1:], len(pieces)) - 1
            firsts[name], lasts[name] = pieces.start[part], ends[part]
            counts.append(int((ends - pieces.start).max()) + 1)
            rows = len(part)
        if prod(counts) > _MOST_PASSES:
            raise DomainTooLarge(
                f"The constraint {self.text!r} divides its bins into too many pieces. Use finer bins.",
                cells=prod(counts),
                allowed=_MOST_PASSES,
            )
        forbid = self.straddle == "forbid"
        passes = np.full(rows, forbid)
        for steps in product(*(range(count) for count in counts)):
            index = {
                name: np.minimum(firsts[name] + step, lasts[name])
                for name, step in zip(codes, steps, strict=True)
            }
            here = self._passes(self._answers(View(self._pieces, index)))
            passes = passes & here if forbid else passes | here
        return passes

    def to_plain(self, *, usual: Straddle = "allow") -> str | dict[str, str]:
        """Return the constraint as a list of a file holds it: its text alone if nothing but what is usual there was said."""
        plain = {"rule": self.text}
        if self.straddle != usual:
            plain["straddle"] = self.straddle
        if self.description:
            plain["description"] = self.description
        return self.text if len(plain) == 1 else plain


def _columns_in(schema: Any) -> Iterable[Column]:
    columns: Iterable[Column] = getattr(schema, "columns", schema)
    return columns


def _take(source: Any, name: str) -> Any:
    try:
        return source[name]
    except (KeyError, IndexError):
        raise DataError(f"Column {name!r} is absent, and a constraint needs it.") from None


def _read_raw(column: Column, values: Any) -> Pieces:
    try:
        return pieces_of_raw(column, values)
    except (MemoryError, RecursionError):
        raise
    except Exception:
        # Errors of other libraries quote the entry they stumbled over, so none may pass through here.
        raise DataError(unreadable_column(column)) from None


def _parts(condition: Check) -> Sequence[Check]:
    if isinstance(condition, All | AnyOf):
        return condition.parts
    return (condition.part,) if isinstance(condition, Not) else ()


def _columns_of(condition: Check) -> set[str]:
    if isinstance(condition, Relation):
        return set(condition.value.columns)
    if isinstance(condition, Same):
        return {condition.left, condition.right}
    if isinstance(condition, NamedPart):
        return {condition.column, condition.part.column}
    if isinstance(condition, Mapped):
        return {condition.source, condition.target}
    if isinstance(condition, All | AnyOf | Not):
        return set().union(*(_columns_of(part) for part in _parts(condition)))
    return {condition.column}


def parts_of(condition: Check) -> set[Part]:
    """Return the calendar functions of a condition."""
    if isinstance(condition, Relation):
        return set(condition.value.parts)
    if isinstance(condition, NamedPart):
        return {condition.part}
    return set[Part]().union(*(parts_of(part) for part in _parts(condition)))


def _constants_of(condition: Check) -> dict[str, set[int | float]]:
    """Return the constants each column is compared with."""
    if isinstance(condition, Threshold):
        return {condition.column: {condition.constant}}
    found: dict[str, set[int | float]] = {}
    for part in _parts(condition):
        for name, constants in _constants_of(part).items():
            found.setdefault(name, set()).update(constants)
    return found
