"""What integer, real and date columns share: cells of ordered values behind their codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from understudy.schema.cells import INT_MAX, INT_MIN, MISSING, UNREADABLE, Cells, DecodeRule, Located
from understudy.schema.column import Column
from understudy.schema.layout import Layout, cells_of_range
from understudy.schema.reading import MISSING_TEXT, Entries, number_of, real_of

__all__ = ["DECODE_RULES", "Ordered"]

DECODE_RULES = ("midpoint", "uniform", "integer-uniform", "edge", "label")


@dataclass(frozen=True, repr=False, kw_only=True)
class Ordered(Column):
    """Base of integer, real and date columns."""

    decode_by: DecodeRule = "midpoint"

    decode_rules: ClassVar[tuple[str, ...]] = DECODE_RULES

    @property
    def cells(self) -> Cells:
        """The interval of values behind each code."""
        return self._layout.cells

    @property
    def value_count(self) -> int:
        """Number of values or bins."""
        return len(self.cells)

    @cached_property
    def value_labels(self) -> tuple[str, ...]:
        """The bins as they were written, or the values as text."""
        return self._layout.labels()

    @cached_property
    def _layout(self) -> Layout:
        return self._lay_out()

    def _lay_out(self) -> Layout:
        """Return the layout; raises ValueError with one sentence if the facts do not fit together."""
        raise TypeError("an ordered column is a base")

    @cached_property
    def _by_label(self) -> dict[str, int]:
        return {label: code for code, label in enumerate(self.value_labels)}

    @property
    def midpoints(self) -> npt.NDArray[np.float64]:
        """The middle of each bin, for means over binned data.

        The rule of paper Births: a single value is itself, a bounded bin the mean of its ends, an open bin
        its edge. These need not be possible values (the middle of 18-19 is 18.5).
        """
        return self.cells.centre

    def _check_decode(self) -> list[str]:
        if self.decode_by not in self.decode_rules:
            self._set("decode_by", "midpoint")
            return [f"decode_by: write one of {', '.join(self.decode_rules)}"]
        return []

    def _check_layout(self, field: str) -> list[str]:
        try:
            cells = self._layout.cells
        except (ValueError, OverflowError) as error:
            self._no_layout()
            return [f"{field}: {error}"]
        numbers = np.array(self.missing_numbers)
        codes = cells.locate(numbers) if len(numbers) else np.zeros(0, dtype=np.int32)
        for number, code in zip(numbers, codes, strict=True):
            # A decoded value must never read as missing; an open bin decodes to its edge only.
            if code >= 0 and (not cells.is_open(int(code)) or cells.edge[code] == number):
                return [
                    "missing_values: a number or date among them is also a possible value; narrow the domain"
                ]
        return []

    def _no_layout(self) -> None:
        """Stand in for a layout that cannot be made, so that other problems can still be found."""
        vars(self)["_layout"] = Layout(cells_of_range(0, 0))

    @cached_property
    def missing_numbers(self) -> tuple[int | float, ...]:
        """The spellings of a missing entry that are numbers (or days, for dates)."""
        numbers = [self._number_in(value) for value in self.missing_values]
        return tuple(number for number in numbers if number is not None and abs(number) < 2**62)

    def _number_in(self, entry: Any) -> int | float | None:
        """Return an entry as a number, or a date as its day number; ``None`` if it is neither."""
        return number_of(entry)

    def _locate_numbers(self, entries: Entries, *, nearest: bool) -> Located:
        numbers = entries.numbers
        found = self.cells.locate(numbers)
        if nearest:
            outside = found < 0
            if outside.any():
                found[outside] = self.cells.nearest(numbers[outside])
        if self.missing_numbers:
            found[np.isin(numbers, self.missing_numbers)] = MISSING
        if entries.missing is not None:
            found[entries.missing] = MISSING
        return found

    def _locate_distinct(self, distinct: list[Any], *, nearest: bool) -> Located:
        """Locate different entries of any type: numbers or dates, labels of bins, spellings of missing.

        Privacy
        -------
        Each entry is located on its own. Text that is a number counts as the number even if a bin is labelled with it,
        as in a column of nothing but numbers; and whole numbers stay exact whatever the other entries are.
        """
        codes = np.full(len(distinct), UNREADABLE, dtype=np.int32)
        exact: dict[int, int] = {}
        rounded: dict[int, float] = {}
        for place, entry in enumerate(distinct):
            text = entry.strip() if isinstance(entry, str) else None
            if text is not None and (entry in self.missing_values or text.lower() in MISSING_TEXT):
                codes[place] = MISSING
                continue
            number = self._number_in(entry)
            label = None if text is None else self._by_label.get(text)
            if label is not None and (number is None or self.kind == "date"):
                codes[place] = label
            elif isinstance(number, int) and INT_MIN <= number <= INT_MAX:
                exact[place] = number
            elif number is not None:
                rounded[place] = real_of(number)
            elif entry in self.missing_values:
                codes[place] = MISSING
        for numbers, dtype in ((exact, np.int64), (rounded, np.float64)):
            if numbers:
                entries = Entries(np.array(list(numbers.values()), dtype=dtype))
                codes[list(numbers)] = self._locate_numbers(entries, nearest=nearest)
        return codes

    def _decode(self, codes: npt.NDArray[np.intp], generator: np.random.Generator) -> Any:
        if self.decode_by == "label":
            return np.array(self.value_labels, dtype=object)[codes]
        return self.cells.values(codes, self.decode_by, generator)
