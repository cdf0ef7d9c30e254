"""Bins of numeric columns: by labels, by edges, or a number of equal bins over public bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from understudy.schema.labels import show_number
from understudy.schema.limits import MAX_CODES

__all__ = ["Bins", "BinsLike", "Closed", "Open"]

Open = Literal["none", "low", "high", "both"]
Closed = Literal["left", "right"]


@dataclass(frozen=True)
class Bins:
    """How a column is cut into bins. Exactly one of ``labels``, ``edges`` and ``count`` is given.

    Parameters
    ----------
    labels
        Bins as people write them, such as ``("<18", "18-19", "...", "44<")``.
    edges
        Ascending edges; each bin holds its lower edge and not its upper one, except that the last bin
        holds both (as in a histogram). Dates are written as ISO text.
    count
        A number of bins of equal width between the minimum and maximum of the column.
    open
        Whether bins without an end are added below the first and above the last edge.
    closed
        ``"right"`` turns the rule for edges around: each bin holds its upper edge.

    Examples
    --------
    >>> Bins.of(["<18", "18-64", "64<"])
    Bins(labels=('<18', '18-64', '64<'), edges=None, count=None, open='none', closed='left')
    >>> Bins.of([0, 10, 20]).edges
    (0, 10, 20)
    >>> Bins.of(12).count
    12
    """

    labels: tuple[str, ...] | None = None
    edges: tuple[int | float | str, ...] | None = None
    count: int | None = None
    open: Open = "none"
    closed: Closed = "left"

    @classmethod
    def of(cls, plain: object, *, dates: bool = False) -> Bins:
        """Read bins from what a file or a caller gives: a number, a list, or a mapping of the fields.

        Raises
        ------
        ValueError
            With one sentence that says what is wrong.
        """
        if isinstance(plain, Bins):
            return plain
        if isinstance(plain, int) and not isinstance(plain, bool):
            return cls._checked(count=plain)
        if isinstance(plain, Mapping):
            unknown = [str(key) for key in plain if key not in {"labels", "edges", "count", "open", "closed"}]
            if unknown:
                raise ValueError(f"no option named {unknown[0]!r}; known: labels, edges, count, open, closed")
            return cls._checked(**{str(key): value for key, value in plain.items()})
        if isinstance(plain, Sequence) and not isinstance(plain, str | bytes):
            if dates or all(_is_number(item) for item in plain):
                return cls._checked(edges=plain)
            return cls._checked(labels=plain)
        raise ValueError("write a list of labels, a list of edges, a number of bins, or a mapping of options")

    @classmethod
    def _checked(
        cls,
        *,
        labels: object = None,
        edges: object = None,
        count: object = None,
        open: object = "none",
        closed: object = "left",
    ) -> Bins:
        if sum(given is not None for given in (labels, edges, count)) != 1:
            raise ValueError("give exactly one of labels, edges and count")
        if open not in ("none", "low", "high", "both"):
            raise ValueError("open must be none, low, high or both")
        if closed not in ("left", "right"):
            raise ValueError("closed must be left or right")
        if edges is None and (open != "none" or closed != "left"):
            raise ValueError("open and closed go with edges only; labels say themselves which ends they hold")
        if count is not None:
            if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_CODES:
                raise ValueError(f"the number of bins must be a whole number from 1 to {MAX_CODES:,}")
            return cls(count=count)
        items = labels if labels is not None else edges
        if not isinstance(items, Sequence) or isinstance(items, str | bytes) or not items:
            raise ValueError("labels and edges are lists that hold at least one entry")
        if len(items) > MAX_CODES:
            raise ValueError(f"at most {MAX_CODES:,} bins are allowed")
        if labels is not None:
            if not all(isinstance(item, str) or _is_number(item) for item in items):
                raise ValueError("every label must be text or a number")
            return cls(labels=tuple(item if isinstance(item, str) else show_number(item) for item in items))
        if not all(isinstance(item, str) or _is_number(item) for item in items):
            raise ValueError("every edge must be a number, or a date written as text")
        return cls(edges=tuple(items), open=_as_open(open), closed="right" if closed == "right" else "left")

    def to_plain(self) -> Any:
        """Return the shortest form that `of` reads back to the same bins."""
        if self.count is not None:
            return self.count
        if self.labels is not None:
            return list(self.labels)
        plain: dict[str, Any] = {"edges": list(self.edges or ())}
        if self.open != "none":
            plain["open"] = self.open
        if self.closed != "left":
            plain["closed"] = self.closed
        return plain["edges"] if len(plain) == 1 else plain


BinsLike: TypeAlias = Bins | Sequence[str | int | float] | int | Mapping[str, Any]
"""What `Bins.of` reads."""


def _is_number(item: object) -> bool:
    try:
        return isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item)
    except OverflowError:  # a whole number beyond every float
        return False


def _as_open(text: object) -> Open:
    for known in ("none", "low", "high", "both"):
        if text == known:
            return known  # type: ignore[return-value]
    raise ValueError("open must be none, low, high or both")
