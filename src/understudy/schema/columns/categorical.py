"""Columns of named values: categorical, ordinal and boolean."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from understudy.errors import SchemaError
from understudy.schema.coding.bins import cells_of_values
from understudy.schema.coding.cells import MISSING, OUTSIDE, UNREADABLE, Located
from understudy.schema.coding.labels import show_number
from understudy.schema.coding.reading import (
    MISSING_TEXT,
    distinct_entries,
    is_nothing,
    number_of,
    real_of,
    truth_of,
)
from understudy.schema.columns.column import Codes, Column, Kind, check_text, is_plain_value
from understudy.schema.columns.levels import Levels, Tree
from understudy.schema.problems import MAX_CODES

__all__ = ["Boolean", "Categorical", "Named", "Ordinal"]

Value = str | int | float


@dataclass(frozen=True, repr=False, kw_only=True)
class Named(Column):
    """A column whose domain is a list of values."""

    values: Sequence[Value] = ()

    own_facts: ClassVar[tuple[str, ...]] = ("values",)
    not_readable: ClassVar[str] = "entries that are neither text nor numbers"

    def _check(self) -> list[str]:
        if isinstance(self.values, str | bytes) or not isinstance(self.values, Sequence):
            self._set("values", ())
            return ["values: write a list of the possible values"]
        values = tuple(self.values)
        self._set("values", values)
        if not values:
            return ["values: list at least one possible value"]
        if len(values) > MAX_CODES:
            self._set("values", values[:1])
            return [f"values: {len(values):,} are more than the {MAX_CODES:,} allowed"]
        if not all(is_plain_value(value) for value in values):
            self._set("values", ("",))
            return [
                "values: each must be text or a finite number (quote true, false and dates in YAML, "
                "or use kind: boolean or kind: date)"
            ]
        return self._check_distinct()

    def _check_distinct(self) -> list[str]:
        problems = []
        seen: set[str] = set()
        repeated: list[str] = []
        for text in self.listed_labels:
            if text in seen:
                repeated.append(text)
            seen.add(text)
        if repeated:
            problems.append(
                f"values: {repeated[0]!r} is listed twice (numbers and text that read alike are the same)"
            )
        if self.out_of_domain == "to-other" and "other" in seen:
            problems.append(
                "values: 'other' is listed, and out_of_domain: to-other needs that word for itself"
            )
        spelled = [value for value in self.missing_values if _text_of(value) in seen]
        if spelled:
            problems.append(f"missing_values: {_text_of(spelled[0])!r} is also one of the values")
        return problems

    @property
    def value_count(self) -> int:
        """Number of values."""
        return len(self.values)

    @cached_property
    def listed_labels(self) -> tuple[str, ...]:
        """The values as text."""
        return tuple(_text_of(value) for value in self.values)

    @property
    def value_labels(self) -> tuple[str, ...]:
        """The values as text."""
        return self.listed_labels

    @cached_property
    def _by_text(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self.listed_labels)}

    @cached_property
    def _by_number(self) -> dict[int | float, int]:
        return {value: place for place, value in enumerate(self.values) if not isinstance(value, str)}

    @cached_property
    def _missing_texts(self) -> frozenset[str]:
        return frozenset(_text_of(value) for value in self.missing_values)

    def code_of(self, entry: Any) -> int:
        """Return the place of one entry among the values, or a mark. Text matches exactly; declared numbers match by value."""
        if is_nothing(entry):
            return MISSING
        if isinstance(entry, str):
            return self._code_of_text(entry)
        if isinstance(entry, bool | np.bool_):
            words = ("True", "true", "TRUE") if entry else ("False", "false", "FALSE")
            return next((self._by_text[word] for word in words if word in self._by_text), OUTSIDE)
        number = number_of(entry)
        if number is not None:
            text = _text_of(number)
            if text in self._missing_texts:
                return MISSING
            return self._by_number.get(number, self._by_text.get(text, OUTSIDE))
        if isinstance(entry, dt.date):
            text = entry.isoformat()
            return self._by_text.get(text, self._by_text.get(text.removesuffix("T00:00:00"), OUTSIDE))
        return UNREADABLE

    def _code_of_text(self, text: str) -> int:
        code = self._by_text.get(text)
        if code is not None:
            return code
        if text in self._missing_texts or text == "":
            return MISSING
        if self._by_number:
            number = number_of(text)
            if number is not None:
                return self._by_number.get(number, OUTSIDE)
        return OUTSIDE

    def _locate(self, series: Any, *, nearest: bool) -> Located:
        places, entries = distinct_entries(series)
        table = [self.code_of(entry) for entry in entries]
        if nearest:
            table = self._clamped(entries, table)
        return np.array([*table, MISSING], dtype=np.int32)[places]

    def _clamped(self, entries: list[Any], table: list[int]) -> list[int]:
        return table

    def _decode(self, codes: npt.NDArray[np.intp], generator: np.random.Generator) -> Any:
        return self._plain_values[codes]

    @cached_property
    def _plain_values(self) -> npt.NDArray[Any]:
        """The values as an array of whole numbers, numbers, or objects."""
        if all(isinstance(value, int) for value in self.values) and _fits_int64(self.values):
            return np.array(self.values, dtype=np.int64)
        if all(isinstance(value, int | float) for value in self.values):
            return np.array(self.values, dtype=np.float64)
        return np.array(self.values, dtype=object)


@dataclass(frozen=True, repr=False, kw_only=True)
class Categorical(Named):
    """A column of unordered values, each with its own code.

    Text matches exactly, so ``"007"`` and ``"7"`` are two values. A declared number matches entries equal
    to it however they are written (``1``, ``1.0`` or ``"1"``).

    Parameters
    ----------
    values
        Every possible value, in the order of their codes.
    levels
        Groups of the values, and groups of groups: `Levels`, or a mapping as a file holds it. The column is published with its
        values and modelled in groups; once these are known, one code stands for all values of a group.

    Examples
    --------
    >>> sex = Categorical("sex", values=["M", "F"])
    >>> sex.encode(["F", "M", "F"])
    array([1, 0, 1], dtype=uint8)
    >>> sex
    Categorical('sex': M, F; 2 codes)
    >>> ward = Categorical("ward", values=["A1", "A2", "B1"], levels={"prefix": [1], "at": 1})
    >>> ward.encode(["A2", "B1", "A1"]), ward.labels
    (array([0, 1, 0], dtype=uint8), ('A', 'B1'))
    """

    levels: Levels | Mapping[str, Any] | None = None

    kind: ClassVar[Kind] = "categorical"
    own_facts: ClassVar[tuple[str, ...]] = ("values", "levels")

    def _check(self) -> list[str]:
        problems = super()._check()
        if self.levels is None or problems:
            self._set("levels", None)
            return problems
        try:
            self._set("levels", Levels.of(self.levels))
            _ = self.tree
        except SchemaError as error:
            self._set("levels", None)
            self.__dict__.pop("tree", None)
            return [f"levels: {problem}" for problem in str(error).split("\n")]
        return []

    @cached_property
    def tree(self) -> Tree | None:
        """The levels of the values and their cut."""
        return None if not isinstance(self.levels, Levels) else Tree.of(self.levels, self.listed_labels)

    @property
    def groups(self) -> npt.NDArray[np.intp] | None:
        """The code of each value, if values share codes."""
        return None if self.tree is None else self.tree.group

    @property
    def value_count(self) -> int:
        """Number of values, or of groups where values share codes."""
        return len(self.values) if self.tree is None else self.tree.size

    @property
    def value_labels(self) -> tuple[str, ...]:
        """The values as text, or the groups where values share codes."""
        return self.listed_labels if self.tree is None else self.tree.group_labels

    @property
    def uncut(self) -> Self:
        """The column as tables are read, before groups were chosen by a fit."""
        if not isinstance(self.levels, Levels) or self.levels.cut is None:
            return self
        return replace(self, levels=self.levels.without_cut())

    @property
    def finest(self) -> Self:
        """The column with one code for each value."""
        return self if self.groups is None else replace(self, levels=None, origin="public")

    def values_within(self, codes: npt.ArrayLike, generator: np.random.Generator) -> Codes:
        """Draw codes of :attr:`finest` for codes of this column: a value of the group of each."""
        whole, finest = self.check_codes(codes), self.finest
        extra = whole >= self.value_count
        assert self.tree is not None
        drawn = np.empty(len(whole), np.intp)
        drawn[~extra] = self.tree.draw(whole[~extra], generator)
        drawn[extra] = whole[extra] - self.value_count + finest.value_count
        return drawn.astype(finest.dtype)

    def _locate(self, series: Any, *, nearest: bool) -> Located:
        located = super()._locate(series, nearest=nearest)
        if self.groups is None:
            return located
        return np.where(located >= 0, self.groups[np.maximum(located, 0)], located).astype(np.int32)

    def _decode(self, codes: npt.NDArray[np.intp], generator: np.random.Generator) -> Any:
        return self._plain_values[codes if self.tree is None else self.tree.draw(codes, generator)]


@dataclass(frozen=True, repr=False, kw_only=True)
class Ordinal(Named):
    """A column of ordered values, such as levels of education.

    Parameters
    ----------
    values
        Every possible value, lowest first. ``out_of_domain: clamp`` needs them to be ascending numbers.

    Examples
    --------
    >>> pain = Ordinal("pain", values=["none", "mild", "severe"], missing=True)
    >>> pain.encode(["mild", None])
    array([1, 3], dtype=uint8)
    """

    kind: ClassVar[Kind] = "ordinal"

    def _check(self) -> list[str]:
        problems = super()._check()
        if self.out_of_domain == "clamp" and not problems and not self._ascending_numbers:
            problems.append("out_of_domain: clamp needs values that are ascending numbers")
        return problems

    @cached_property
    def _ascending_numbers(self) -> bool:
        numbers = [value for value in self.values if isinstance(value, int | float)]
        return len(numbers) == len(self.values) and all(
            earlier < later for earlier, later in pairwise(numbers)
        )

    def _clamped(self, entries: list[Any], table: list[int]) -> list[int]:
        if not self._ascending_numbers:
            return table  # texts have no nearest one
        cells = cells_of_values([float(value) for value in self.values], whole=False)
        clamped = list(table)
        for place, entry in enumerate(entries):
            if table[place] == OUTSIDE:
                number = None if isinstance(entry, bool | np.bool_) else number_of(entry)
                if number is None:
                    clamped[place] = UNREADABLE
                else:
                    clamped[place] = int(cells.nearest(np.array([real_of(number)]))[0])
        return clamped


@dataclass(frozen=True, repr=False, kw_only=True)
class Boolean(Column):
    """A column of truth values; false has code 0 and true code 1.

    Entries may be truth values, 0 and 1, or text: true/false, t/f, yes/no, y/n, 1/0 in any case.

    Parameters
    ----------
    spelling
        The table's own two texts, false first, such as ``("No", "Yes")`` or ``("absent", "present")``. They are read,
        spelled just so, besides the words above, and they are what synthetic tables hold.

    Examples
    --------
    >>> Boolean("smokes").encode(["Yes", "no", "TRUE"])
    array([1, 0, 1], dtype=uint8)
    >>> Boolean("alive", spelling=["died", "lives"]).encode(["lives", "died", True])
    array([1, 0, 1], dtype=uint8)
    """

    spelling: Sequence[str] | None = None

    kind: ClassVar[Kind] = "boolean"
    own_facts: ClassVar[tuple[str, ...]] = ("spelling",)

    @property
    def not_readable(self) -> str:  # type: ignore[override]
        """What entries without a code are."""
        own = "" if self.spelling is None else f"{self.spelling[1]}/{self.spelling[0]}, "
        return f"entries that are not truth values ({own}true/false, t/f, yes/no, y/n, 1/0)"

    def _check(self) -> list[str]:
        problems = []
        if self.spelling is not None:
            problems = self._check_spelling()
            if problems:
                self._set("spelling", None)
        text = self.missing_text
        if text and (truth_of(text) is not None or text in (self.spelling or ())):
            problems.append(f"missing_text: {text!r} is read as a truth value")
        return problems

    def _check_spelling(self) -> list[str]:
        texts = self.spelling
        if (
            isinstance(texts, str | bytes)
            or not isinstance(texts, Sequence)
            or len(texts) != 2
            or not all(isinstance(text, str) and text for text in texts)
        ):
            return ["spelling: write the two texts, false first, in quotes: ['No', 'Yes']"]
        self._set("spelling", tuple(texts))
        problems = [problem for text in texts for problem in check_text(text, "spelling", one_line=True)]
        if problems:
            return problems[:1]
        if texts[0] == texts[1]:
            return ["spelling: the two texts must differ"]
        for text, meant in zip(texts, (False, True), strict=True):
            if truth_of(text) is not None and truth_of(text) is not meant:
                return [
                    f"spelling: {text!r} is read as {str(not meant).lower()} everywhere; write false first, or use "
                    "kind: categorical"
                ]
            if text in map(_text_of, self.missing_values):
                return [f"spelling: {text!r} is also one of missing_values"]
        if self.out_of_domain == "to-other" and "other" in texts:
            return ["spelling: out_of_domain: to-other needs the word 'other' for itself"]
        return []

    @cached_property
    def _by_text(self) -> dict[str | None, int]:
        return {text: code for code, text in enumerate(self.spelling or ())}

    @property
    def value_count(self) -> int:
        """Two: false and true."""
        return 2

    @property
    def value_labels(self) -> tuple[str, ...]:
        """The two words, false first."""
        return ("false", "true") if self.spelling is None else (self.spelling[0], self.spelling[1])

    def code_of(self, entry: Any) -> int:
        """Return the code of one entry, or a mark."""
        if is_nothing(entry):
            return MISSING
        text: str | None = None
        if isinstance(entry, str):
            text = entry
            if text in self.missing_values:
                return MISSING
        elif not isinstance(entry, bool | np.bool_):
            number = number_of(entry)
            text = None if number is None else show_number(number)
            if number in self.missing_values or (text and text == self.missing_text):
                return MISSING
        if text in self._by_text:
            return self._by_text[text]
        truth = truth_of(entry)
        if truth is not None:
            return int(truth)
        if isinstance(entry, str) and entry.strip().lower() in MISSING_TEXT:
            return MISSING
        return UNREADABLE

    def _locate(self, series: Any, *, nearest: bool) -> Located:
        if series.dtype == bool:
            return np.asarray(series.to_numpy(), dtype=np.int32)
        places, entries = distinct_entries(series)
        return np.array([*map(self.code_of, entries), MISSING], dtype=np.int32)[places]

    def _decode(self, codes: npt.NDArray[np.intp], generator: np.random.Generator) -> Any:
        return codes == 1 if self.spelling is None else np.array(self.spelling, dtype=object)[codes]


def _text_of(value: Value) -> str:
    """Return a value as text, so that ``1``, ``1.0`` and ``"1"`` read alike."""
    return value if isinstance(value, str) else show_number(value)


def _fits_int64(values: Sequence[Any]) -> bool:
    return all(-(2**63) <= value < 2**63 for value in values)
