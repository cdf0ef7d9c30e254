"""How records enter a network: one place per code, or a mode and a position in it. From the schema alone.

Networks want few inputs. A column with few codes gets one input per code. An ordered column with many codes is cut into
runs of neighbouring codes, its *modes*: one input per mode and one number in [-1, 1] that says where in the run a code lies
(mode-specific normalisation). Implementations elsewhere fit the modes, the range or a scaler to the records, which is a look at the
records that nobody pays for; here runs and positions follow from the public list of codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError, DomainTooLarge
from understudy.schema import Schema

__all__ = ["Layout"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_ORDERED = frozenset({"ordinal", "integer", "real", "date"})
MAX_INPUTS = 20_000


@dataclass(frozen=True, eq=False)
class Layout:
    """Places of the inputs of a network. Public.

    Parameters
    ----------
    sizes
        Number of codes of each column.
    starts
        First code of each mode, by column: zero first, then rising. So the modes are a partition of the codes, and a record
        has exactly one place per column; what a record can contribute is bounded on the strength of that.

    Examples
    --------
    >>> layout = Layout((2, 5), (np.arange(2), np.array([0, 2, 4])))
    >>> layout.modes, layout.spread, layout.width
    ((2, 3), (1,), 6)
    >>> layout.mode_of(1), layout.position_of(1)
    (array([0, 0, 1, 1, 2]), array([-0.5,  0.5, -0.5,  0.5,  0. ]))
    """

    sizes: tuple[int, ...]
    starts: tuple[Ints, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.starts) or not all(
            len(first) and first[0] == 0 and (np.diff(first) > 0).all() and first[-1] < size
            for size, first in zip(self.sizes, self.starts, strict=False)
        ):
            raise BudgetError(
                "The modes of each column start at code 0 and go up, within the codes of the column."
            )

    @classmethod
    def of(cls, schema: Schema, *, max_modes: int) -> Layout:
        """Cut ordered columns with more than ``max_modes`` values into so many runs of nearly equal length."""
        starts = []
        for column in schema.columns:
            values = column.value_count
            if column.kind in _ORDERED and values > max_modes:
                edges = np.unique(np.linspace(0, values, max_modes + 1).round().astype(np.int64))
                starts.append(np.concatenate([edges[:-1], np.arange(values, column.size)]))
            else:
                starts.append(np.arange(column.size))
        layout = cls(schema.domain.sizes, tuple(starts))
        if layout.width > MAX_INPUTS:
            raise DomainTooLarge(
                f"The columns have {layout.width:,} places for a network; at most {MAX_INPUTS:,} are taken. Use coarser bins, "
                "or fewer columns.",
                cells=layout.width,
                allowed=MAX_INPUTS,
            )
        return layout

    @cached_property
    def modes(self) -> tuple[int, ...]:
        """Number of modes of each column."""
        return tuple(len(first) for first in self.starts)

    @cached_property
    def spread(self) -> tuple[int, ...]:
        """Columns with a position in the mode."""
        return tuple(index for index, size in enumerate(self.sizes) if self.modes[index] < size)

    @cached_property
    def offsets(self) -> Ints:
        """Place of the first mode of each column, and one past the last mode of all."""
        return np.concatenate([[0], np.cumsum(self.modes)]).astype(np.int64)

    @property
    def conditions(self) -> int:
        """Number of places of a condition: one per mode of each column."""
        return int(self.offsets[-1])

    @property
    def width(self) -> int:
        """Number of places of a record: modes, then positions."""
        return self.conditions + len(self.spread)

    def mode_of(self, column: int) -> Ints:
        """Return the mode of each code of a column."""
        return np.searchsorted(self.starts[column], np.arange(self.sizes[column]), side="right") - 1

    def position_of(self, column: int) -> Floats:
        """Return where in its mode each code of a column lies, as a number in (-1, 1)."""
        first = self.starts[column]
        lengths = np.diff(np.append(first, self.sizes[column]))
        mode = self.mode_of(column)
        within = np.arange(self.sizes[column]) - first[mode]
        return np.asarray((2 * within + 1) / lengths[mode] - 1, dtype=np.float64)

    @cached_property
    def _modes_by_code(self) -> tuple[Ints, ...]:
        return tuple(self.mode_of(column) for column in range(len(self.sizes)))

    @cached_property
    def _positions_by_code(self) -> tuple[Floats, ...]:
        return tuple(self.position_of(column) for column in self.spread)

    def places(self, codes: npt.NDArray[Any]) -> Ints:
        """Return the place of the mode of each code; one row per record, one column per column."""
        found = [
            self.offsets[column] + modes[codes[:, column]] for column, modes in enumerate(self._modes_by_code)
        ]
        return np.stack(found, axis=1) if len(codes) else np.zeros((0, len(self.sizes)), dtype=np.int64)

    def positions(self, codes: npt.NDArray[Any]) -> Floats:
        """Return the positions in their modes, one column for each of :attr:`spread`."""
        found = [
            table[codes[:, column]]
            for column, table in zip(self.spread, self._positions_by_code, strict=True)
        ]
        return np.stack(found, axis=1) if found else np.zeros((len(codes), 0))
