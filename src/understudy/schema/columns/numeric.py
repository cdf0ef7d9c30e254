"""Columns of numbers: integer and real."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from understudy.schema.coding.bins import (
    Bins,
    BinsLike,
    Layout,
    cells_of_range,
    cells_of_values,
    layout_of_bins,
)
from understudy.schema.coding.cells import INT_MAX, INT_MIN, MISSING, UNREADABLE, Cells, DecodeRule, Located
from understudy.schema.coding.labels import show_number
from understudy.schema.coding.reading import (
    MISSING_TEXT,
    Entries,
    distinct_entries,
    number_of,
    numbers_of_text,
    read_numbers,
    real_of,
)
from understudy.schema.coding.within import MAX_DECIMALS, Points
from understudy.schema.columns.column import Column, Kind
from understudy.schema.problems import MAX_CODES

# ----------------------------------------------------------------------------------------
# What integer, real and date columns share: cells of ordered values behind their codes.

DECODE_RULES = ("midpoint", "uniform", "integer-uniform", "smooth", "edge", "label")


@dataclass(frozen=True, repr=False, kw_only=True)
class Ordered(Column):
    """Base of integer, real and date columns."""

    decode_by: DecodeRule = "midpoint"

    decode_rules: ClassVar[tuple[str, ...]] = DECODE_RULES

    @property
    def cells(self) -> Cells:
        """The interval of values behind each code."""
        return self._layout.cells

    @cached_property
    def points(self) -> Points:
        """The values of each cell that output may show."""
        return Points.of(self.cells)

    @property
    def decodes_by_counts(self) -> bool:
        """Whether values are drawn by what the neighbouring bins hold."""
        return self.decode_by == "smooth"

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

        A single value is itself, a bounded bin the mean of its ends, an open bin its edge: the possible value that is closest to
        its end, 45 for whole numbers in ``44<``. These need not be possible values (the middle of 18-19 is 18.5).
        """
        return self.cells.centre

    @property
    def written_midpoints(self) -> npt.NDArray[np.float64]:
        """The middle of each bin by the rule that paper Births prints: as `midpoints`, but an open bin is the number in its label.

        That is 44 for ``44<`` and 18 for ``<18``, which lie outside of their bins. A bin that public bounds close is not open.
        """
        cells, spans = self.cells, self._layout.spans
        middles = cells.centre.astype(np.float64)
        if spans is None or len(cells) == 1:
            return middles
        if cells.open_low and spans[0].high is not None:
            middles[0] = spans[0].high
        if cells.open_high and spans[-1].low is not None:
            middles[-1] = spans[-1].low
        return middles

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
        try:
            points = self.points
        except ValueError as error:
            return [f"decimals: {error}"]
        numbers = np.array(self.missing_numbers)
        codes = cells.locate(numbers) if len(numbers) else np.zeros(0, dtype=np.int32)
        for number, code in zip(numbers, codes, strict=True):
            # A decoded value must never read as missing; an open bin decodes to its edge only.
            if code >= 0 and (not cells.is_open(int(code)) or points.edge(int(code)) == number):
                return [
                    "missing_values: a number or date among them is also a possible value; narrow the domain"
                ]
        if self.missing_text and self.missing_text in self._by_label:
            return [f"missing_text: {self.missing_text!r} is the label of a bin"]
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
        return self.points.values(codes, self.decode_by, generator)

    def _decode_by_counts(
        self, codes: npt.NDArray[np.intp], counts: npt.NDArray[np.float64], generator: np.random.Generator
    ) -> Any:
        return self.points.smooth(codes, counts, generator)


GRID = 1_024
"""Equal cells of a real column that has bounds but no bins."""

_COMMA = re.compile(r"[-+]?\d+,\d+", re.ASCII)
_WRITTEN = "no separators of thousands, decimal commas or units"


@dataclass(frozen=True, repr=False, kw_only=True)
class Numeric(Ordered):
    """Shared by integer and real columns."""

    minimum: int | float | None = None
    maximum: int | float | None = None
    values: Sequence[int | float] | None = None
    bins: BinsLike | None = None
    decimal: str = "."

    own_facts: ClassVar[tuple[str, ...]] = ("minimum", "maximum", "values", "bins")
    not_readable: ClassVar[str] = f"entries that are not numbers (written like 1234.5: {_WRITTEN})"
    whole: ClassVar[bool]

    def _check(self) -> list[str]:
        problems = self._check_decode() + self._check_bounds()
        if self.decimal not in (".", ","):
            self._set("decimal", ".")
            problems.append("decimal: write '.' or ','")
        if self.values is not None:
            problems += self._check_values()
        if self.bins is not None:
            try:
                self._set("bins", Bins.of(self.bins))
            except ValueError as error:
                problems.append(f"bins: {error}")
        if self.values is not None and self.bins is not None:
            problems.append("give values or bins, not both")
        if problems:
            self._no_layout()
            return problems
        if self.is_grid and self.decode_by == "midpoint":
            self._set("decode_by", "uniform")
        problems = self._check_layout("bins" if self.bins is not None else "domain")
        drawn_whole = self.decode_by == "integer-uniform" and not self.whole
        if drawn_whole and not problems and not self.cells.hold_whole_numbers():
            problems.append("decode_by: integer-uniform needs a whole number (below 2**53) in every bin")
        return problems

    def _number_in(self, entry: Any) -> int | float | None:
        """Return an entry as a number; a text such as 36,5 is one, too, where the column has decimal commas.

        Privacy
        -------
        Each entry is read on its own. A text with a point is the same number with and without decimal commas, as it is where a whole column is read at once.
        """
        if self.decimal == "," and isinstance(entry, str) and _COMMA.fullmatch(entry.strip()):
            return number_of(entry.replace(",", "."))
        return number_of(entry)

    @property
    def is_grid(self) -> bool:
        """Whether the codes are the fine grid of a real column with bounds and no bins."""
        return not self.whole and self.bins is None and self.values is None

    def _check_bounds(self) -> list[str]:
        problems = []
        for field in ("minimum", "maximum"):
            bound = getattr(self, field)
            if bound is None:
                continue
            number = self._number(bound)
            if number is None:
                problems.append(f"{field}: must be a finite {'whole ' if self.whole else ''}number")
                self._set(field, None)
            else:
                self._set(field, number)
        if (
            not problems
            and self.minimum is not None
            and self.maximum is not None
            and self.minimum > self.maximum
        ):
            problems.append(
                f"minimum ({show_number(self.minimum)}) must not exceed maximum ({show_number(self.maximum)})"
            )
        if self.values is not None and (self.minimum is not None or self.maximum is not None):
            problems.append("a list of values needs no minimum or maximum")
        return problems

    def _check_values(self) -> list[str]:
        if not isinstance(self.values, Sequence) or isinstance(self.values, str | bytes) or not self.values:
            self._set("values", None)
            return ["values: write a list of at least one number"]
        if len(self.values) > MAX_CODES:
            self._set("values", None)
            return [f"values: more than the {MAX_CODES:,} allowed"]
        numbers = [self._number(value) for value in self.values]
        if any(number is None for number in numbers):
            self._set("values", None)
            return [f"values: each must be a finite {'whole ' if self.whole else ''}number"]
        listed = [number for number in numbers if number is not None]
        self._set("values", tuple(listed))
        if any(later <= earlier for earlier, later in pairwise(listed)):
            return ["values: numbers must ascend without repeating"]
        return []

    def _number(self, value: object) -> int | float | None:
        if isinstance(value, bool | np.bool_) or not isinstance(
            value, int | float | np.integer | np.floating
        ):
            return None
        number = value.item() if isinstance(value, np.generic) else value
        if isinstance(number, float) and not math.isfinite(number):
            return None
        if self.whole:
            whole = int(number)
            return whole if whole == number and INT_MIN < whole < INT_MAX else None
        try:
            return float(number) + 0.0
        except OverflowError:
            return None

    def _lay_out(self) -> Layout:
        if self.values is not None:
            return Layout(cells_of_values(self.values, whole=self.whole))
        if self.bins is not None:
            return layout_of_bins(
                Bins.of(self.bins), whole=self.whole, minimum=self.minimum, maximum=self.maximum
            )
        if not self.whole:
            if self.minimum is None or self.maximum is None:
                raise ValueError("a real column needs a minimum and a maximum, bins, or a list of values")
            return layout_of_bins(Bins(count=GRID), whole=False, minimum=self.minimum, maximum=self.maximum)
        if self.minimum is None or self.maximum is None:
            raise ValueError("an integer column needs a minimum and a maximum, bins, or a list of values")
        first, last = int(self.minimum), int(self.maximum)
        if last - first >= MAX_CODES:
            raise ValueError(
                f"the range from {first} to {last} has more than {MAX_CODES:,} values; divide it into bins"
            )
        return Layout(cells_of_range(first, last))

    # -- encoding ------------------------------------------------------------------------------

    def _locate(self, series: Any, *, nearest: bool) -> Located:
        entries = read_numbers(series)
        if entries is None and not self.missing_values:
            entries = numbers_of_text(series)
        if entries is not None:
            return self._locate_numbers(entries, nearest=nearest)
        places, distinct = distinct_entries(series)
        return np.append(self._locate_distinct(distinct, nearest=nearest), np.int32(MISSING))[places]


@dataclass(frozen=True, repr=False, kw_only=True)
class Integer(Numeric):
    """A column of whole numbers: one code per number of a range, per listed value, or per bin.

    Parameters
    ----------
    minimum, maximum
        Public bounds, both included. With bins they cut off what lies beyond them.
    values
        The possible values, ascending, when they are not a plain range.
    bins
        Labels, edges or a number of bins; see `Bins`.
    decimal
        ``","`` where text entries have decimal commas (36,00).
    decode_by
        How a bin becomes a value: ``midpoint`` (rounded down to a whole number inside the bin), ``uniform``
        or ``integer-uniform`` (each whole number of the bin equally likely; the same here), ``edge`` (the
        lower end), or ``label`` (the text of the bin, as published tables show it). ``smooth`` draws whole
        numbers as the neighbouring bins say, by monotone interpolation of the cumulative counts. An open bin
        gives its edge.

    Examples
    --------
    >>> age = Integer("mother_age", unit="years", bins=["<18", "18-19", "20-24", "24<"])
    >>> age.labels
    ('<18', '18-19', '20-24', '24<')
    >>> age.midpoints
    array([17. , 18.5, 22. , 25. ])
    >>> Integer("month", minimum=1, maximum=12).size
    12
    """

    kind: ClassVar[Kind] = "integer"
    whole: ClassVar[bool] = True
    not_readable: ClassVar[str] = f"entries that are not whole numbers (written like 1234: {_WRITTEN})"


@dataclass(frozen=True, repr=False, kw_only=True)
class Real(Numeric):
    """A column of real numbers, divided into bins or, without any, into a fine grid.

    A column with bounds and no bins is a continuous one. Its codes are the 1,024 equal cells between the
    bounds, finer than the noise of any statistic that is worth a budget: methods for continuous columns work
    with the middles of the cells, and a synthetic value is drawn uniformly inside its cell. Methods that
    count see a column with 1,024 codes. A number of bins makes the grid finer or coarser.

    Parameters
    ----------
    minimum, maximum
        Public bounds, both included; the grid or a number of bins divides the range between them.
    values
        The possible values, ascending, when there are only a few.
    bins
        Labels, edges or a number of bins; see `Bins`.
    decode_by
        ``midpoint``, ``uniform`` (within the bin), ``integer-uniform`` (whole numbers of the bin), ``smooth``
        (drawn as the neighbouring bins say), ``edge`` (the lower end, or the number next to it if the end is
        excluded), or ``label``. An open bin gives its edge. A grid has no bins to take the middle of: there
        ``uniform`` takes the place of ``midpoint``.
    decimal
        ``","`` where text entries have decimal commas (36,50). Output has points, as it has ISO dates.
    decimals
        Digits after the point in synthetic values, 0 to 15, as in prices with two. Every bin must hold a number
        with so few. Entries are read with any number of digits.

    Examples
    --------
    >>> Real("height", unit="cm", minimum=120, maximum=220).size
    1024
    >>> dose = Real("dose", unit="mg", minimum=0, maximum=100, bins=4)
    >>> dose.labels
    ('[0, 25)', '[25, 50)', '[50, 75)', '[75, 100]')
    >>> dose.encode([0.0, 25, 100.0])
    array([0, 1, 3], dtype=uint8)
    """

    decimals: int | None = None

    kind: ClassVar[Kind] = "real"
    own_facts: ClassVar[tuple[str, ...]] = (*Numeric.own_facts, "decimals")
    whole: ClassVar[bool] = False

    def _check(self) -> list[str]:
        given, wrong = self.decimals, []
        if given is not None and (
            isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_DECIMALS
        ):
            wrong = [f"decimals: write a whole number from 0 to {MAX_DECIMALS}"]
            self._set("decimals", None)
        return wrong + super()._check()

    @cached_property
    def points(self) -> Points:
        """The values of each cell that output may show: numbers with so many decimals."""
        return Points.of(self.cells, self.decimals)
