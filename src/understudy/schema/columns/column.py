"""What every kind of column shares: its fields, its extra codes, and its out-of-domain policy."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.errors import DataError
from understudy.schema.coding.cells import MISSING, OUTSIDE, UNREADABLE, Located
from understudy.schema.coding.reading import as_series
from understudy.schema.origin import (
    OriginOfFacts,
    facts_from_data,
    measured_facts,
    normal_origin,
    origin_to_plain,
)
from understudy.schema.problems import MAX_CODES, MAX_TEXT, raise_problems

# ----------------------------------------------------------------------------------------
# What becomes of entries without a code of their own: the out-of-domain policy of a column.

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
    which or how many. Under ``to-missing``, ``to-other`` and ``to-nearest`` there are none, whatever the entries hold.
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
    if column.out_of_domain == "to-nearest":
        return column.missing_code if column.missing else column.stray_code
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


# ----------------------------------------------------------------------------------------
# Checks that every column shares, and checks of text that people will read.

_RARE = "Rare in the table: "
"""What the mark of a draft begins with, in the description of a column. Private."""
POLICIES = ("refuse", "clamp", "to-missing", "to-other", "to-nearest")


def is_plain_value(value: object) -> bool:
    """Whether a value is text or a finite number; truth values are neither."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def check_text(text: object, field: str, *, required: bool = False, one_line: bool = False) -> list[str]:
    """Return what is wrong with a piece of text that people will read."""
    if not isinstance(text, str):
        return [f"{field}: must be text (quote it in YAML)"]
    if required and not text.strip():
        return [f"{field}: must not be empty"]
    if len(text) > MAX_TEXT:
        return [f"{field}: is longer than {MAX_TEXT:,} characters"]
    if one_line and any(unicodedata.category(letter) == "Cc" for letter in text):
        return [f"{field}: must be one line without control characters"]
    return []


def check_shared(column: Column) -> list[str]:
    """Normalise the fields that every column has and return what is wrong with them.

    A field that is wrong is set to its default, so that later checks can still look at the others.
    """
    problems = check_text(column.name, "name", required=True, one_line=True)
    problems += check_text(column.description, "description")
    problems += check_text(column.unit, "unit", one_line=True)
    if not isinstance(column.missing, bool):
        problems.append("missing: write true or false")
        object.__setattr__(column, "missing", False)
    problems += _check_policy(column)
    problems += _check_missing_values(column)
    problems += _check_missing_text(column)
    origin, wrong = normal_origin(column.origin, column.facts)
    object.__setattr__(column, "origin", origin)
    return problems + wrong


def _check_policy(column: Column) -> list[str]:
    if column.out_of_domain not in POLICIES:
        object.__setattr__(column, "out_of_domain", "refuse")
        return [f"out_of_domain: write one of {', '.join(POLICIES)}"]
    if column.out_of_domain == "to-missing" and not column.missing:
        return ["out_of_domain: to-missing needs missing: true"]
    if column.out_of_domain == "clamp" and column.kind in ("categorical", "boolean"):
        return [f"out_of_domain: clamp has no meaning for a {column.kind} column"]
    return []


def _check_missing_values(column: Column) -> list[str]:
    spellings = column.missing_values
    if isinstance(spellings, str) or not isinstance(spellings, Sequence):
        object.__setattr__(column, "missing_values", ())
        return ["missing_values: write a list"]
    if not all(is_plain_value(value) for value in spellings):
        object.__setattr__(column, "missing_values", ())
        return ["missing_values: entries must be text or numbers"]
    object.__setattr__(column, "missing_values", tuple(spellings))
    return ["missing_values: they need missing: true"] if spellings and not column.missing else []


def _check_missing_text(column: Column) -> list[str]:
    """Check the text of a missing entry and make it one of the spellings that are read as missing."""
    problems = check_text(column.missing_text, "missing_text", one_line=True)
    if not problems and column.missing_text:
        if not column.missing:
            problems = ["missing_text: it needs missing: true"]
        elif column.missing_text == "other" and column.out_of_domain == "to-other":
            problems = ["missing_text: out_of_domain: to-other needs the word 'other' for itself"]
    if problems:
        object.__setattr__(column, "missing_text", "")
    elif column.missing_text and column.missing_text not in column.missing_values:
        object.__setattr__(column, "missing_values", (*column.missing_values, column.missing_text))
    return problems


Kind: TypeAlias = Literal["categorical", "ordinal", "boolean", "integer", "real", "date"]
OutOfDomain: TypeAlias = Literal["refuse", "clamp", "to-missing", "to-other", "to-nearest"]
Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, repr=False)
class Column:
    """Base of every column kind; use `Categorical`, `Ordinal`, `Boolean`, `Integer`, `Real` or `Date`.

    Codes run over the values or bins first, then ``other`` (if ``out_of_domain`` is ``to-other``), then
    ``missing`` (if ``missing`` is true).

    Parameters
    ----------
    name
        Name of the column in the table.
    description, unit
        For people; they change nothing else.
    missing
        Whether an entry may be missing. It then has a code of its own, the last one.
    missing_values
        Further spellings of a missing entry, such as ``"?"`` or ``-9``.
    missing_text
        How a missing entry is written in output, such as ``"?"``; empty if not said. It becomes one of
        ``missing_values``, so that a written table is read back as it was.
    out_of_domain
        What to do with an entry outside the declared domain. ``refuse``: the table is an error.
        ``clamp``: a number or date moves to the nearest possible value. ``to-missing`` and ``to-other``: it
        becomes missing or ``other``. ``to-nearest``: a number or date moves to the nearest possible value; any other
        entry becomes missing, or, in a column that has no place for missing entries, the first value of a list or the middle
        range of an order. The last three accept every entry whatever it holds, so that nothing, not even an error,
        depends on the entries.
    origin
        ``"public"``, ``"measured"`` (learnt under the budget), ``"from-data"``, or one of them per fact.
    """

    name: str
    _: KW_ONLY
    description: str = ""
    unit: str = ""
    missing: bool = False
    missing_values: Sequence[str | int | float] = ()
    missing_text: str = ""
    out_of_domain: OutOfDomain = "refuse"
    origin: OriginOfFacts = "public"

    kind: ClassVar[Kind]
    own_facts: ClassVar[tuple[str, ...]] = ()
    not_readable: ClassVar[str] = "entries that cannot be read"

    def __post_init__(self) -> None:
        problems = check_shared(self)
        problems += self._check()
        raise_problems(f"Column {self.name!r} has problems", problems)
        if self.size > MAX_CODES:
            raise_problems(
                f"Column {self.name!r} has problems",
                [f"{self.size:,} codes are more than the {MAX_CODES:,} allowed"],
            )

    # -- what a kind provides ------------------------------------------------------------------

    def _check(self) -> list[str]:
        """Normalise the fields of the kind and return what is wrong with them."""
        return []

    @property
    def value_count(self) -> int:
        """Number of codes that stand for values or bins (without ``other`` and ``missing``)."""
        raise TypeError("Column is a base; use one of the kinds of column.")

    @property
    def value_labels(self) -> tuple[str, ...]:
        """Display text of each value or bin."""
        raise TypeError("Column is a base; use one of the kinds of column.")

    def _locate(self, series: Any, *, nearest: bool) -> Located:
        """Return codes, or marks where an entry has none; with ``nearest``, outside numbers are clamped."""
        raise TypeError("Column is a base; use one of the kinds of column.")

    def _decode(self, codes: npt.NDArray[np.intp], generator: np.random.Generator) -> Any:
        """Return values for value codes; entries at other codes are overwritten by the caller."""
        raise TypeError("Column is a base; use one of the kinds of column.")

    @property
    def decodes_by_counts(self) -> bool:
        """Whether values are drawn by what the neighbouring bins hold."""
        return False

    def _decode_by_counts(
        self, codes: npt.NDArray[np.intp], counts: npt.NDArray[np.float64], generator: np.random.Generator
    ) -> Any:
        """Return values for value codes, given how many records each value or bin holds."""
        raise TypeError("Only columns of numbers and dates decode by counts.")

    # -- facts ---------------------------------------------------------------------------------

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts this column states, for which an origin can be given."""
        own = tuple(fact for fact in self.own_facts if getattr(self, fact) not in (None, ()))
        return ("kind", *own, "missing")

    @property
    def facts_from_data(self) -> tuple[str, ...]:
        """The facts that were read from the records and are not declared public."""
        return facts_from_data(self.origin, self.facts)

    @property
    def measured_facts(self) -> tuple[str, ...]:
        """The facts that were learnt under the budget and are not declared public."""
        return measured_facts(self.origin, self.facts)

    def declare_public(self) -> Self:
        """Return the same column with every fact declared public; what a draft says about rare values is taken away, which is not public."""
        return replace(self, origin="public", description=self.description.partition(_RARE)[0].rstrip())

    def marked_rare(self, values: Sequence[str]) -> Self:
        """Return the same column with values that a draft found to be rare named in its description, as many as there is room for, and how many more there are."""
        if not values:
            return self
        shown = list(values)
        while len(_RARE) + len(self.description) + len(json.dumps(shown)) > MAX_TEXT // 2 and len(shown) > 1:
            shown = shown[: len(shown) // 2]
        more = [len(values) - len(shown)] if len(shown) < len(values) else []
        return replace(self, description=f"{self.description} {_RARE}{json.dumps([*shown, *more])}".strip())

    @property
    def is_marked_rare(self) -> bool:
        """Whether the description still says which values are rare in the table, which is private."""
        return _RARE in self.description

    @property
    def rare_values(self) -> tuple[str, ...]:
        """The values that a draft marked as rare in the table and that are still listed; one more text where others had no room, which nobody can tell from those that are listed."""
        _, mark, listed = self.description.partition(_RARE)
        try:
            marked = json.loads(listed) if mark else []
        except ValueError:  # somebody wrote into the mark
            return ("unreadable mark",)
        known = {str(value) for value in getattr(self, "values", None) or ()}
        more = tuple(f"{item:,} more" for item in marked if isinstance(item, int))
        return (*(text for text in marked if text in known), *more)

    # -- codes ---------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.value_count + (self.out_of_domain == "to-other") + self.missing

    @property
    def other_code(self) -> int | None:
        """The code of everything outside the domain, if the column has one."""
        return self.value_count if self.out_of_domain == "to-other" else None

    @property
    def missing_code(self) -> int | None:
        """The code of a missing entry, if the column has one."""
        return self.size - 1 if self.missing else None

    @property
    def stray_code(self) -> int:
        """The code of an entry that is nowhere near the domain, under ``to-nearest`` and without a place for missing entries."""
        return 0 if self.kind in ("categorical", "boolean") else self.value_count // 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds every code."""
        return np.min_scalar_type(self.size - 1)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Display text of each code."""
        values = self.value_labels
        extra = []
        if self.out_of_domain == "to-other":
            extra.append("other")
        if self.missing:
            extra.append("(missing)" if "missing" in values else "missing")
        return (*values, *extra)

    @property
    def groups(self) -> npt.NDArray[np.intp] | None:
        """The code of each value where several values share one (a column with levels); otherwise None."""
        return None

    @property
    def uncut(self) -> Self:
        """The column as tables are read, before a fit chose groups of its values."""
        return self

    @property
    def finest(self) -> Self:
        """The column with one code for each value or bin."""
        return self

    # -- encoding ------------------------------------------------------------------------------

    def encode(self, values: Any) -> Codes:
        """Turn raw entries into codes.

        Parameters
        ----------
        values
            A pandas Series, an array, or a list; text that holds numbers or dates is read as such.

        Returns
        -------
        numpy.ndarray
            Codes in the smallest unsigned type.

        Raises
        ------
        DataError
            If entries have no code and the policy does not give them one.

        Privacy
        -------
        In and out: private. The error names the column and the kind of problem, never an entry or a count.

        Examples
        --------
        >>> from understudy.schema import Integer
        >>> Integer("age", bins=["<18", "18-64", "64<"]).encode([3, 64, 65])
        array([0, 1, 2], dtype=uint8)
        """
        codes, problems = self.try_encode(values)
        if problems:
            raise DataError(" ".join(problems))
        return codes

    def try_encode(self, values: Any) -> tuple[Codes, list[str]]:
        """Encode as `encode` does, but return the problems instead of raising them."""
        try:
            located = self._locate(as_series(values), nearest=self.out_of_domain in ("clamp", "to-nearest"))
        except (MemoryError, RecursionError):
            raise
        except Exception:
            # Errors of other libraries quote the entry they stumbled over, so none may pass through here.
            return np.zeros(0, dtype=self.dtype), [unreadable_column(self)]
        return settle(self, located)

    # -- decoding ------------------------------------------------------------------------------

    def decode(
        self, codes: npt.ArrayLike, generator: np.random.Generator, *, counts: npt.ArrayLike | None = None
    ) -> Any:
        """Turn codes into values inside their bins.

        Parameters
        ----------
        codes
            Whole numbers from 0 to ``size - 1``.
        generator
            Randomness for the rules that draw a value. Drawing is post-processing, so a seed is fine.
        counts
            For columns with ``decode_by: smooth``: how many records each code has, as a model expects them. Without
            them the codes themselves are counted.

        Returns
        -------
        numpy.ndarray or pandas array
            One value per code. The type depends on the column only, never on the codes.

        Raises
        ------
        DataError
            If a code is not one of the column's.

        Examples
        --------
        >>> import numpy as np
        >>> from understudy.schema import Integer
        >>> Integer("age", bins=["<18", "18-64", "64<"]).decode([0, 1, 2], np.random.default_rng(0))
        array([17, 41, 65])
        """
        whole = self.check_codes(codes)
        inside = np.where(whole < self.value_count, whole, 0)
        if not self.decodes_by_counts:
            return self._with_extras(whole, self._decode(inside, generator))
        known = np.bincount(whole, minlength=self.size) if counts is None else np.asarray(counts)
        if known.shape != (self.size,):
            raise DataError(f"The counts of column {self.name!r} must be one number for each of its codes.")
        weights = np.nan_to_num(known[: self.value_count].astype(np.float64), posinf=0.0)
        return self._with_extras(whole, self._decode_by_counts(inside, weights, generator))

    def check_codes(self, codes: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Return codes as an index array, refusing anything that is not a code of this column."""
        array = np.asarray(codes)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise DataError(f"The codes of column {self.name!r} must be a list of whole numbers.")
        whole = array.astype(np.intp)
        if whole.size and (int(whole.min()) < 0 or int(whole.max()) >= self.size):
            raise DataError(f"The codes of column {self.name!r} must be from 0 to {self.size - 1}.")
        return whole

    def _with_extras(self, codes: npt.NDArray[np.intp], values: Any) -> Any:
        """Put ``other`` and missing entries in; types are chosen by the schema, not by the codes."""
        if self.other_code is None and not self.missing:
            return values
        import pandas as pd

        absent = codes == self.missing_code if self.missing else None
        plain = np.asarray(values)
        if self.other_code is not None or plain.dtype == object:
            mixed = plain.astype(object)
            mixed[codes == self.other_code] = "other"
            if absent is not None:
                mixed[absent] = self.missing_text or None
            return mixed
        if absent is None:
            return values
        if plain.dtype.kind == "M":
            return np.where(absent, np.datetime64("NaT"), plain)
        if plain.dtype.kind == "f":
            return np.where(absent, np.nan, plain)
        nullable = pd.array(plain, dtype="boolean" if plain.dtype.kind == "b" else "Int64")
        nullable[absent] = pd.NA
        return nullable

    # -- files and display ---------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the column as a file holds it, leaving out what has its default value."""
        plain: dict[str, Any] = {"name": self.name, "kind": self.kind}
        # What people look for first comes first: prose, then the domain, then the rules for odd entries.
        for field in sorted(fields(self), key=lambda field: field.name in _LAST):
            value = getattr(self, field.name)
            if field.name == "name" or value == field.default:
                continue
            plain[field.name] = _to_plain(value)
        if "origin" in plain:
            plain["origin"] = origin_to_plain(self.origin)
        return plain

    def describe(self) -> dict[str, Any]:
        """Return one row for a listing of the schema."""
        return {
            "name": self.name,
            "kind": self.kind,
            "size": self.size,
            "missing": self.missing,
            "unit": self.unit,
            "description": self.description,
        }

    def summary(self) -> str:
        """Return the domain in a few words."""
        labels = self.value_labels
        if len(labels) > 4:
            return f"{labels[0]}, {labels[1]}, ..., {labels[-1]}"
        return ", ".join(labels)

    def __repr__(self) -> str:
        shown = self.summary()
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        extra = ", missing" if self.missing else ""
        return f"{type(self).__name__}({self.name!r}: {shown}{extra}; {self.size} codes)"

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)


_LAST = frozenset(
    {
        "levels",
        "missing",
        "missing_values",
        "missing_text",
        "out_of_domain",
        "decimal",
        "decimals",
        "decode_by",
        "origin",
    }
)


def _to_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    return value.to_plain() if hasattr(value, "to_plain") else value
