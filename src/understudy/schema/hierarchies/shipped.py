"""Public classifications as groups of codes.

Each file has one line per smallest group: the names of the groups that hold it, the largest first, then codes or ranges of codes,
separated by blanks. A range goes by the order of text.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from understudy.errors import SchemaError
from understudy.schema.problems import did_you_mean, listing

__all__ = ["SHIPPED", "SHIPPED_LISTS", "shipped_list", "shipped_paths"]


@dataclass(frozen=True)
class _Kind:
    """How values are found in a file: by their first letters, or as a whole; and what groups follow from beginnings."""

    what: str
    begins: int | None
    prefix: tuple[int, ...] = ()


SHIPPED = {
    "icd-10": _Kind("ICD-10 codes by chapter, block and category of three characters", 3, (3,)),
    "nace-2": _Kind("NACE Rev. 2 codes (01, 01.1, 0111) by section and division", 2, (2,)),
    "iso-3166": _Kind("countries (two or three letters) by region and subregion of the United Nations", None),
}
"""The hierarchies that come with the program."""

SHIPPED_LISTS = {
    "iso-3166-alpha-2": "codes of countries, two letters",
    "iso-3166-alpha-3": "codes of countries, three letters",
    "nace-2-divisions": "divisions of NACE Rev. 2, two digits",
}
"""The lists of values that come with the program."""


def shipped_paths(name: str, labels: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups that hold each value, the largest first.

    Raises
    ------
    SchemaError
        If the classification does not know a value.

    Examples
    --------
    >>> shipped_paths("icd-10", ["E11.9", "I10"])
    (('IV', 'E10-E14', 'E11'), ('IX', 'I10-I15', 'I10'))
    >>> shipped_paths("iso-3166", ["DE", "FJI"])
    (('Europe', 'Western Europe'), ('Oceania', 'Melanesia'))
    """
    kind = SHIPPED[name]
    firsts, lines = _file(name)
    found = []
    unknown = []
    for label in labels:
        key = label if kind.begins is None else label[: kind.begins]
        place = bisect_right(firsts, key) - 1
        first, last, groups = lines[max(place, 0)]
        if place < 0 or not (first <= key <= last and len(key) == len(first)):
            unknown.append(label)
        else:
            found.append((*groups, *(label[:length] for length in kind.prefix)))
    if unknown:
        raise SchemaError(
            f"shipped: {listing(unknown)} of the values are not in {name}; correct them, name them as missing_values, or give a file"
        )
    return tuple(found)


def shipped_list(name: object) -> list[str]:
    """Return a list of values that comes with the program.

    Examples
    --------
    >>> shipped_list("nace-2-divisions")[:4]
    ['01', '02', '03', '05']
    """
    if name not in SHIPPED_LISTS:
        hint = did_you_mean(str(name), SHIPPED_LISTS)
        raise SchemaError(
            f"no list {str(name)!r} comes with the program.{hint} Known: {', '.join(SHIPPED_LISTS)}"
        )
    firsts, lines = _file("nace-2" if name == "nace-2-divisions" else "iso-3166")
    if name == "nace-2-divisions":
        return [f"{number:02d}" for first, last, _ in lines for number in range(int(first), int(last) + 1)]
    return [first for first in firsts if len(first) == int(str(name)[-1])]


@cache
def _file(name: str) -> tuple[list[str], list[tuple[str, str, tuple[str, ...]]]]:
    """Return the beginnings of all ranges, ascending, and the ranges with their groups."""
    lines = []
    with (Path(__file__).parent / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        for *groups, ranges in csv.reader(stream):
            for item in ranges.split():
                first, _, last = item.partition("-")
                lines.append((first, last or first, tuple(groups)))
    lines.sort()
    return [first for first, _, _ in lines], lines
