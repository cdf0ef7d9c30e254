"""Levels of a column with many named values: groups of values, and groups of groups.

A column with levels is published with its finest values and modelled in groups of them. Which values share a group is the *cut*: fixed
by the owner (``at``), or chosen when a model is fitted, from a histogram that was measured under the budget. A synthetic
record gets a group from the model and a value within the group from the weights, which are equal or come from that histogram.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.errors import SchemaError
from understudy.schema.hierarchies.shipped import SHIPPED, shipped_paths
from understudy.schema.problems import did_you_mean, listing

__all__ = ["Levels", "Tree"]

Path = tuple[str, ...]
"""The groups that hold a value, the largest first."""

Nested = tuple[tuple[str, Any], ...]

MOST_LEVELS = 8
DEFAULT_SHARE = 0.1
DEFAULT_MOST = 64
_SOURCES = ("prefix", "groups", "shipped")


@dataclass(frozen=True, kw_only=True, repr=False)
class Levels:
    """Groups of the values of a column.

    Exactly one of ``prefix``, ``groups`` and ``shipped`` says what they are.

    Parameters
    ----------
    prefix
        Lengths of beginnings, ascending: values that begin alike form a group.
    groups
        Nested groups, the largest first: ``{"north": {"A": ["a1", "a2"], "B": ["b1"]}, "south": ["c1"]}``.
    shipped
        Name of a hierarchy that comes with the program: ``icd-10``, ``nace-2``, ``iso-3166``.
    at
        Which groups to model, counted from the largest (1); the owner's choice, for which nothing is measured. By
        default they are chosen when a model is fitted.
    within
        How a value is drawn within its group: by the counts that were ``measured``, or ``even``.
    share
        The part of the budget that is spent on the histogram from which groups are chosen.
    most
        The most groups that are chosen.
    cut, weights
        What was chosen: the group of each value, and how likely each is within its group. Released numbers; nobody writes
        them by hand.

    Examples
    --------
    >>> Levels(prefix=(1,), at=1).paths(["a1", "a2", "b1"])
    (('a',), ('a',), ('b',))
    """

    prefix: tuple[int, ...] = ()
    groups: Nested = ()
    shipped: str = ""
    at: int | None = None
    within: Literal["measured", "even"] = "measured"
    share: float = DEFAULT_SHARE
    most: int = DEFAULT_MOST
    cut: tuple[int, ...] | None = None
    weights: tuple[float, ...] | None = field(default=None)

    @classmethod
    def of(cls, given: object) -> Levels:
        """Return levels as a file or a program gives them.

        Raises
        ------
        SchemaError
            With everything that is wrong, separated by line ends.
        """
        if isinstance(given, Levels):
            return given
        if not isinstance(given, Mapping):
            raise SchemaError("write a mapping with one of prefix, groups, file, shipped")
        known = [item.name for item in fields(cls)]
        for key in given:
            if key not in known:
                hint = did_you_mean(str(key), [*known, "file"])
                raise SchemaError(f"unknown key {str(key)!r}.{hint} Known: {', '.join([*known, 'file'])}")
        plain = dict(given)
        if "groups" in plain:
            plain["groups"] = _nested(plain["groups"], 1)
        for key in ("prefix", "cut", "weights"):
            if isinstance(plain.get(key), Sequence) and not isinstance(plain[key], str):
                plain[key] = tuple(plain[key])
        return cls(**plain)

    def __post_init__(self) -> None:
        problems = self._problems()
        if problems:
            raise SchemaError("\n".join(problems))

    def _problems(self) -> list[str]:
        given = [name for name in _SOURCES if getattr(self, name)]
        if len(given) != 1:
            return ["write one of prefix, groups, file, shipped"]
        problems = []
        if self.prefix and not (
            isinstance(self.prefix, tuple)
            and len(self.prefix) <= MOST_LEVELS
            and all(_whole(length) and length >= 1 for length in self.prefix)
            and all(a < b for a, b in zip(self.prefix, self.prefix[1:], strict=False))
        ):
            problems.append(f"prefix: write at most {MOST_LEVELS} ascending lengths, such as [1, 3]")
        if self.shipped and self.shipped not in SHIPPED:
            hint = did_you_mean(str(self.shipped), SHIPPED)
            problems.append(
                f"shipped: no hierarchy named {self.shipped!r}.{hint} Known: {', '.join(SHIPPED)}"
            )
        if self.at is not None and not (_whole(self.at) and self.at >= 1):
            problems.append("at: write the number of a level, 1 for the largest groups")
        if self.within not in ("measured", "even"):
            problems.append("within: write measured or even")
        if not (isinstance(self.share, int | float) and 0 < self.share <= 0.5):
            problems.append(
                "share: write a part of the budget above 0 and at most 0.5; for none, choose a level with at"
            )
        if not (_whole(self.most) and 2 <= self.most <= 10_000):
            problems.append("most: write a whole number from 2 to 10000")
        if (self.cut is None) != (self.weights is None) or (self.cut is not None and self.at is not None):
            problems.append("cut and weights belong together, and not to a level that was fixed with at")
        elif self.cut is not None and self.weights is not None and not _is_cut(self.cut, self.weights):
            problems.append(
                "cut: must number groups from 0, and weights must be one number, not negative, for each value"
            )
        return problems

    @property
    def open(self) -> bool:
        """Whether the groups are still to be chosen."""
        return self.at is None and self.cut is None

    def with_cut(self, cut: npt.ArrayLike, weights: npt.ArrayLike) -> Levels:
        """Return these levels with the groups that were chosen."""
        return replace(
            self,
            cut=tuple(np.asarray(cut, np.int64).tolist()),
            weights=tuple(np.asarray(weights, np.float64).tolist()),
        )

    def without_cut(self) -> Levels:
        """Return these levels before anything was chosen."""
        return replace(self, cut=None, weights=None)

    def paths(self, labels: Sequence[str]) -> tuple[Path, ...]:
        """Return the groups that hold each value, the largest first.

        Raises
        ------
        SchemaError
            If a value is in no group, or in several, or a group holds what is no value.
        """
        if self.prefix:
            return tuple(tuple(label[:length] for length in self.prefix) for label in labels)
        if self.shipped:
            return shipped_paths(self.shipped, labels)
        found: dict[str, Path] = {}
        for path, value in _leaves(self.groups, ()):
            if value in found:
                raise SchemaError(f"groups: {value!r} is in two groups")
            found[value] = path
        absent = [label for label in labels if label not in found]
        strange = sorted(set(found).difference(labels))
        if absent:
            raise SchemaError(f"groups: {listing(absent)} of the values are in no group")
        if strange:
            raise SchemaError(f"groups: {listing(strange)} are in a group and not among the values")
        return tuple(found[label] for label in labels)

    def to_plain(self) -> dict[str, Any]:
        """Return the levels as a file holds them, leaving out defaults."""
        plain: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if value != item.default:
                plain[item.name] = list(value) if isinstance(value, tuple) else value
        if self.groups:
            plain["groups"] = _plain(self.groups)
        return plain

    def __repr__(self) -> str:
        shown = {
            key: item for key, item in self.to_plain().items() if key not in ("groups", "cut", "weights")
        }
        return f"Levels({', '.join(f'{key}={item!r}' for key, item in shown.items())})"


@dataclass(frozen=True, eq=False)
class Tree:
    """The levels of the values of one column, and their cut if there is one.

    Attributes
    ----------
    labels
        The values as text.
    paths
        The groups that hold each value, the largest first.
    group
        The code of each value; None as long as nothing was chosen.
    weights
        How likely each value is within its group.
    """

    labels: tuple[str, ...]
    paths: tuple[Path, ...]
    group: npt.NDArray[np.intp] | None
    weights: npt.NDArray[np.float64]

    @classmethod
    def of(cls, levels: Levels, labels: tuple[str, ...]) -> Tree:
        """Apply levels to the values of a column, or raise `SchemaError`."""
        paths = levels.paths(labels)
        even = np.ones(len(labels))
        if levels.cut is not None:
            if len(levels.cut) != len(labels):
                raise SchemaError("cut: must have one number for each value")
            return cls(labels, paths, np.array(levels.cut, np.intp), np.array(levels.weights, np.float64))
        if levels.at is None:
            return cls(labels, paths, None, even)
        deepest = max(map(len, paths))
        if levels.at > deepest:
            raise SchemaError(f"at: there are {deepest} levels, so write a number from 1 to {deepest}")
        return cls(labels, paths, numbered([path[: levels.at] for path in paths]), even)

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.labels) if self.group is None else int(self.group.max()) + 1

    @cached_property
    def _order(self) -> npt.NDArray[np.intp]:
        """The values, those of a group one after another."""
        assert self.group is not None
        return np.argsort(self.group, kind="stable").astype(np.intp)

    @cached_property
    def _ends(self) -> npt.NDArray[np.float64]:
        """Where the part of each value ends, in the order above; group ``g`` takes the span from ``g`` to ``g + 1``."""
        assert self.group is not None
        group = self.group[self._order]
        weights = np.maximum(self.weights[self._order], 0.0)
        totals = np.bincount(group, weights=weights, minlength=self.size)
        sizes = np.bincount(group, minlength=self.size)
        shares = np.where(
            totals[group] > 0, weights / np.where(totals > 0, totals, 1.0)[group], 1.0 / sizes[group]
        )
        ends = np.cumsum(shares)
        last = np.flatnonzero(np.append(group[1:] != group[:-1], True))
        base = np.concatenate(([0.0], ends[last][:-1]))
        ends = group + np.minimum(ends - base[group], 1.0)
        # rounding must not push a share beyond its group, nor let its last possible value end before it
        for g, (first, final) in enumerate(zip(np.concatenate(([0], last[:-1] + 1)), last, strict=True)):
            possible = first + int(np.flatnonzero(shares[first : final + 1] > 0)[-1])
            ends[possible : final + 1] = g + 1.0
        return np.asarray(ends)

    def draw(self, codes: npt.NDArray[np.intp], generator: np.random.Generator) -> npt.NDArray[np.intp]:
        """Return a value of the group of each code, so that every value occurs as often as its weight says, give or take one.

        The rows of a group are put in a random order and the values laid out along it, from a random start.
        """
        if self.group is None or not len(codes):
            return codes
        shuffled = generator.permutation(len(codes))
        order = shuffled[np.argsort(codes[shuffled], kind="stable")]
        sorted_codes = codes[order]
        sizes = np.bincount(sorted_codes, minlength=self.size)
        rank = np.arange(len(codes)) - np.concatenate(([0], np.cumsum(sizes)[:-1]))[sorted_codes]
        start = generator.random(self.size)[sorted_codes]
        place = np.minimum((rank + start) / sizes[sorted_codes], np.nextafter(1.0, 0.0))
        found = np.searchsorted(self._ends, sorted_codes + place, side="right")
        # the sum may round up to the next group
        first = np.concatenate(([0], np.cumsum(np.bincount(self.group, minlength=self.size))))
        found = np.clip(found, first[sorted_codes], first[sorted_codes + 1] - 1)
        drawn = np.empty(len(codes), np.intp)
        drawn[order] = self._order[found]
        return drawn

    @cached_property
    def group_labels(self) -> tuple[str, ...]:
        """Display text of each group, all different."""
        if self.group is None:
            return self.labels
        sizes: dict[Path, int] = {}
        for path in self.paths:
            for depth in range(len(path) + 1):
                sizes[path[:depth]] = sizes.get(path[:depth], 0) + 1
        members: list[list[int]] = [[] for _ in range(self.size)]
        for place, group in enumerate(self.group.tolist()):
            members[group].append(place)
        short, long = zip(*(self._names(inside, sizes) for inside in members), strict=True)
        seen: set[str] = set()
        made = []
        for name, full in zip(short, long, strict=True):
            text = name if name not in seen and short.count(name) == 1 else full
            number = 2
            while text in seen:
                text, number = f"{full} ({number})", number + 1
            seen.add(text)
            made.append(text)
        return tuple(made)

    def _names(self, inside: list[int], sizes: Mapping[Path, int]) -> tuple[str, str]:
        """Return a short name of a group of values, and one with all the groups around it."""
        if len(inside) == 1:
            return self.labels[inside[0]], self.labels[inside[0]]
        common = self.paths[inside[0]]
        for place in inside[1:]:
            path = self.paths[place]
            depth = next((i for i, (a, b) in enumerate(zip(common, path, strict=False)) if a != b), len(path))
            common = common[: min(depth, len(common))]
        rest = "" if sizes[common] == len(inside) else " (others)"
        if not common:
            name = "all others" if rest else "all values"
            return name, name
        return f"{common[-1]}{rest}", f"{' / '.join(common)}{rest}"


def numbered(keys: Sequence[Any]) -> npt.NDArray[np.intp]:
    """Number equal keys alike, from 0 in the order of their first occurrence.

    Examples
    --------
    >>> numbered(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    known: dict[Any, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], np.intp)


def nested_of_rows(rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return nested groups from lines of a file: a value, its group, the larger group that holds it, and so on."""
    width = len(rows[0])
    if width < 2 or any(len(row) != width or not all(text.strip() for text in row) for row in rows):
        raise SchemaError(
            "must have the same number of columns in every line, at least two: a value, its group, larger groups"
        )
    if width - 1 > MOST_LEVELS:
        raise SchemaError(f"has more than {MOST_LEVELS} levels of groups")
    nested: dict[str, Any] = {}
    for value, *groups in rows:
        inside: Any = nested
        for name in reversed(groups[1:]):
            inside = inside.setdefault(name, {})
        inside.setdefault(groups[0], []).append(value)
    return nested


def _nested(given: object, depth: int) -> Nested:
    """Return nested groups as tuples."""
    if isinstance(given, tuple):
        return given
    if not isinstance(given, Mapping) or not given:
        raise SchemaError(
            "groups: write a mapping from names of groups to lists of values, or to smaller groups"
        )
    if depth > MOST_LEVELS:
        raise SchemaError(f"groups: more than {MOST_LEVELS} levels")
    made: list[tuple[str, Any]] = []
    for name, inside in given.items():
        if isinstance(inside, Mapping):
            made.append((str(name), _nested(inside, depth + 1)))
        elif isinstance(inside, Sequence) and not isinstance(inside, str) and inside:
            made.append((str(name), tuple(_text(value) for value in inside)))
        else:
            raise SchemaError(f"groups: {str(name)!r} must hold a list of values, or smaller groups")
    return tuple(made)


def _leaves(groups: Nested, above: Path) -> Iterator[tuple[Path, str]]:
    for name, inside in groups:
        path = (*above, name)
        if inside and isinstance(inside[0], tuple):
            yield from _leaves(inside, path)
        else:
            yield from ((path, value) for value in inside)


def _plain(groups: Nested) -> dict[str, Any]:
    return {
        name: _plain(inside) if inside and isinstance(inside[0], tuple) else list(inside)
        for name, inside in groups
    }


def _text(value: object) -> str:
    from understudy.schema.coding.labels import show_number

    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SchemaError("groups: values must be text or numbers")
    return value if isinstance(value, str) else show_number(value)


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _is_cut(cut: tuple[Any, ...], weights: tuple[Any, ...]) -> bool:
    if len(cut) != len(weights) or not cut or not all(_whole(group) for group in cut):
        return False
    numbers = all(
        isinstance(weight, int | float) and not isinstance(weight, bool) and 0 <= weight < 1e300
        for weight in weights
    )
    return numbers and set(cut) == set(range(max(cut) + 1))
