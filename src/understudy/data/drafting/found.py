"""What drafting finds out about one column, and how its missing entries are spelt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.schema import Column
from understudy.schema.coding.reading import MISSING_TEXT


@dataclass(frozen=True)
class Found:
    """A drafted column, or the reason for leaving it out. Reasons say nothing about single entries.

    Attributes
    ----------
    column
        The column, None if it is left out.
    reason
        Why it is left out.
    remarks
        What its owner should look at. Private: they are about the entries.
    rows_of_one
        For a key that repeats: the most rows of one entry; 0 for every other column.
    """

    column: Column | None = None
    reason: str = ""
    remarks: tuple[str, ...] = ()
    rows_of_one: int = 0


@dataclass(frozen=True)
class Absent:
    """The missing entries of a column: how many there are, and how each spelling is written.

    Attributes
    ----------
    empty
        Entries that are nothing at all.
    spelt
        How often each spelling occurs.
    """

    empty: int = 0
    spelt: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.empty or self.spelt)

    def fields(self, *, named: bool, numbers: Mapping[int, int] | None = None) -> dict[str, Any]:
        """Return the fields of a column that reads these entries as missing and writes the most frequent spelling.

        Parameters
        ----------
        named
            Whether the column has named values: only an empty entry is missing there by itself.
        numbers
            Numbers that stand for a missing entry, and how often each occurs.

        Examples
        --------
        >>> Absent(1, {"?": 7, "NA": 2}).fields(named=False)
        {'missing': True, 'missing_values': ('?',), 'missing_text': '?'}
        >>> Absent(5).fields(named=True), Absent().fields(named=False)
        ({'missing': True}, {'missing': False})
        """
        numbers = numbers or {}
        if not self and not numbers:
            return {"missing": False}
        read_anyway = frozenset({""}) if named else MISSING_TEXT
        listed = [text for text in self.spelt if (text if named else text.strip().lower()) not in read_anyway]
        fields: dict[str, Any] = {"missing": True}
        if listed or numbers:
            fields["missing_values"] = (*sorted(listed), *sorted(numbers))
        often = {**self.spelt, **{str(number): times for number, times in numbers.items()}}
        often[""] = often.get("", 0) + self.empty
        first = max(sorted(often), key=lambda text: often[text])
        if first.strip():
            fields["missing_text"] = first
        return fields

    def remark(self, rows: int) -> str:
        """Say what is proposed to be missing beyond empty entries."""
        texts = [repr(text) for text in sorted(self.spelt) if text.strip()]
        if not texts:
            return ""
        share = sum(times for text, times in self.spelt.items() if text.strip()) / rows
        verb = "is" if len(texts) == 1 else "are"
        return f"{' and '.join(texts)} ({percent(share)} of the entries) {verb} proposed as missing"


def percent(share: float) -> str:
    """Write a share so that neither nothing nor everything is claimed falsely.

    Examples
    --------
    >>> percent(0.974), percent(0.0002), percent(0.99999), percent(1.0)
    ('97 %', 'less than 0.1 %', 'more than 99.9 %', '100 %')
    """
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    if share < 0.001:
        return "less than 0.1 %"
    if share > 0.999:
        return "more than 99.9 %"
    return f"{100 * share:.2g} %" if share < 0.99 else f"{100 * share:.1f} %"
