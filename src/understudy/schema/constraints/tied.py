"""Columns that rules tie to each other, and whether values of them obey."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.schema.columns.column import Column
from understudy.schema.columns.numeric import Ordered
from understudy.schema.constraints.conditions import TRUE, UNKNOWN, Pieces, View, pieces_of_codes
from understudy.schema.constraints.constraint import Constraint

__all__ = ["TiedColumns", "first_pieces", "take"]

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Index: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class TiedColumns:
    """Columns that rules tie to each other.

    Parameters
    ----------
    columns
        The columns of the rules, in the order of the schema.
    rules
        The rules; together they tie all of the columns to each other.
    """

    columns: tuple[Column, ...]
    rules: tuple[Constraint, ...]

    @cached_property
    def ordered(self) -> tuple[Ordered, ...]:
        """The columns of numbers and dates; whole numbers come first, so that real ones can adapt to them."""
        found = [column for column in self.columns if isinstance(column, Ordered)]
        return tuple(sorted(found, key=lambda column: not column.cells.whole))

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """The columns by their names."""
        return {column.name: column for column in self.columns}

    @cached_property
    def pieces(self) -> dict[str, Pieces]:
        """What every code of each column stands for."""
        return {column.name: pieces_of_codes(column, ()) for column in self.columns}

    def values_behind(self, name: str, codes: Index) -> Index:
        """Return a value behind each code, or -1; values that share a code are alike to every rule."""
        pieces = self.pieces[name]
        return pieces.code[first_pieces(pieces)[codes]]

    def present(self, codes: Mapping[str, Index]) -> Bools:
        """Tell which records have a value in every column."""
        present = [codes[column.name] < column.value_count for column in self.columns]
        return np.asarray(np.logical_and.reduce(present))

    def obey(self, codes: Mapping[str, Index], numbers: Mapping[str, Floats]) -> Bools:
        """Tell which records obey every rule with these values, as `Constraint.holds_raw` would."""
        rows = np.arange(len(codes[self.columns[0].name]), dtype=np.intp)
        pieces, unfit = {}, np.zeros(len(rows), dtype=bool)
        for column in self.columns:
            code = codes[column.name]
            missing = code == (-1 if column.missing_code is None else column.missing_code)
            other = code == (-1 if column.other_code is None else column.other_code)
            own = self.values_behind(column.name, code)
            if isinstance(column, Ordered):
                number: npt.NDArray[Any] = numbers[column.name]
                if column.cells.whole:
                    number = number.astype(np.int64)
                if column.missing_numbers:  # a value that reads as missing is none
                    unfit |= np.isin(number, column.missing_numbers) & (own >= 0)
                pieces[column.name] = Pieces(own, missing, other, number, number)
            else:
                pieces[column.name] = Pieces(own, missing, other)
        view = View(pieces, dict.fromkeys(pieces, rows))
        for rule in self.rules:
            assert rule.condition is not None
            unfit |= (np.broadcast_to(rule.condition.answers(view), rows.shape) & (TRUE | UNKNOWN)) == 0
        return ~unfit


def first_pieces(pieces: Pieces) -> Index:
    """Return the first piece of each code of a column."""
    assert pieces.start is not None
    return pieces.start


def take(numbers: dict[str, Floats], rows: Index, drawn: Mapping[str, Floats], good: Bools) -> None:
    """Write the values that were drawn for some rows, where they are good; ``rows`` are those of the good ones."""
    for name, part in drawn.items():
        numbers[name][rows] = part[good]
