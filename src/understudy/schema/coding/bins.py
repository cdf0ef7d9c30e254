"""Bins of numeric columns: by labels, by edges, or a number of equal bins over public bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from understudy.schema.coding.cells import INT_MAX, INT_MIN, Cells
from understudy.schema.coding.labels import Span, expand_labels, show_number
from understudy.schema.problems import MAX_CODES

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


# ----------------------------------------------------------------------------------------
# From bins to cells: the intervals behind the codes of an ordered column, and their labels.


@dataclass(frozen=True, eq=False)
class Layout:
    """The cells of a column and what is needed to label them; long lists are made only on demand."""

    cells: Cells
    texts: tuple[str, ...] | None = None
    spans: tuple[Span, ...] | None = None

    def labels(self) -> tuple[str, ...]:
        """Return the label of each cell."""
        if self.texts is not None:
            return self.texts
        if self.spans is not None and not self.cells.whole:
            return _labels_of_spans(self.spans)
        return _labels_of_cells(self.cells)


def layout_of_bins(
    bins: Bins, *, whole: bool, minimum: int | float | None, maximum: int | float | None
) -> Layout:
    """Return the layout of numeric bins.

    Raises
    ------
    ValueError
        With one sentence that says what is wrong.
    """
    if bins.count is not None:
        if minimum is None or maximum is None:
            raise ValueError("a number of bins needs a minimum and a maximum to divide")
        return Layout(_equal_cells(bins.count, minimum, maximum, whole=whole))
    texts: tuple[str, ...] | None = None
    if bins.labels is not None:
        listed, spans = expand_labels(bins.labels, whole=whole)
        texts = tuple(listed)
        if len(set(texts)) != len(texts):
            raise ValueError("two bins have the same label")
    else:
        edges = bins.edges or ()
        if any(isinstance(edge, str) for edge in edges):
            raise ValueError("the edges of a numeric column must be numbers")
        spans = spans_of_edges([edge for edge in edges if not isinstance(edge, str)], bins.open, bins.closed)
    cells = cells_of_spans(spans, whole=whole, minimum=minimum, maximum=maximum)
    return Layout(cells, texts, tuple(spans))


def spans_of_edges(edges: Sequence[int | float], open_ends: Open, closed: Closed) -> list[Span]:
    """Return the spans between edges, as `Bins` describes them."""
    if any(later <= earlier for earlier, later in pairwise(edges)):
        raise ValueError("edges must ascend without repeating")
    if len(edges) < 2 and (open_ends == "none" or not edges):
        raise ValueError("two edges at least are needed to make a bin; or say open: low, high or both")
    low, high = open_ends in ("low", "both"), open_ends in ("high", "both")
    left = closed == "left"
    spans = [Span(a, b, left, not left) for a, b in pairwise(edges)]
    if left and not high and spans:
        spans[-1] = Span(spans[-1].low, spans[-1].high, True, True)
    if not left and not low and spans:
        spans[0] = Span(spans[0].low, spans[0].high, True, True)
    if low:
        # A single edge with one open end belongs to the only bin there is.
        spans.insert(0, Span(None, edges[0], high_included=not left or (len(edges) == 1 and not high)))
    if high:
        spans.append(Span(edges[-1], None, low_included=left or (len(edges) == 1 and not low)))
    return spans


def _equal_cells(count: int, minimum: int | float, maximum: int | float, *, whole: bool) -> Cells:
    """Divide a range into cells of equal width (whole numbers: differing by one at most)."""
    if whole:
        first, values = int(minimum), int(maximum) - int(minimum) + 1
        if count > values:
            raise ValueError(f"{count:,} bins are more than the whole numbers from {minimum} to {maximum}")
        starts = [first + index * values // count for index in range(count + 1)]
        low, high = np.array(starts[:-1], dtype=np.int64), np.array([end - 1 for end in starts[1:]], np.int64)
        return Cells(low, high, low + (high - low) / 2.0)
    width = float(maximum) - float(minimum)
    if not math.isfinite(width):
        raise ValueError("the range is too wide to divide into equal bins; give edges")
    edges = float(minimum) + width * (np.arange(count + 1) / count)
    edges[-1] = float(maximum)
    if not bool((np.diff(edges) > 0).all()):
        raise ValueError(f"{count:,} bins are more than the range can be divided into")
    ends = np.append(np.nextafter(edges[1:-1], -np.inf), edges[-1])
    return Cells(edges[:-1].copy(), ends, edges[:-1] + np.diff(edges) / 2.0)


def cells_of_spans(
    spans: Sequence[Span],
    *,
    whole: bool,
    minimum: int | float | None = None,
    maximum: int | float | None = None,
) -> Cells:
    """Return the cells of ascending spans that leave no gap, cut off at public bounds if there are any.

    Raises
    ------
    ValueError
        If the spans overlap, leave a gap, are out of order, or one of them holds no possible value.
    """
    low = np.empty(len(spans), dtype=np.int64 if whole else np.float64)
    high = low.copy()
    for index, span in enumerate(spans):
        ends = _closed(span, whole=whole)
        if minimum is not None:
            ends = (max(ends[0], minimum), ends[1])
        if maximum is not None:
            ends = (ends[0], min(ends[1], maximum))
        if ends[0] > ends[1]:
            raise ValueError(f"bin {_show(span)} holds no possible value")
        if index:
            _check_neighbours(spans[index - 1], span, high[index - 1].item(), ends[0], whole=whole)
        low[index], high[index] = ends
    open_low = spans[0].low is None and minimum is None
    open_high = spans[-1].high is None and maximum is None
    return Cells(low, high, _centres(spans, low, high, whole, open_low, open_high), open_low, open_high)


def _closed(span: Span, *, whole: bool) -> tuple[int | float, int | float]:
    if whole:
        low = INT_MIN if span.low is None else math.ceil(span.low)
        high = INT_MAX if span.high is None else math.floor(span.high)
        if span.low is not None and not span.low_included and low == span.low:
            low += 1
        if span.high is not None and not span.high_included and high == span.high:
            high -= 1
        if not (INT_MIN <= low <= INT_MAX and INT_MIN <= high <= INT_MAX):
            raise ValueError(f"bin {_show(span)} does not fit in 64-bit whole numbers")
        return low, high
    largest = float(np.finfo(np.float64).max)
    first = -largest if span.low is None else float(span.low) + 0.0
    last = largest if span.high is None else float(span.high) + 0.0
    if span.low is not None and not span.low_included:
        first = math.nextafter(first, math.inf)
    if span.high is not None and not span.high_included:
        last = math.nextafter(last, -math.inf)
    return first, last


def _check_neighbours(
    before: Span, after: Span, end: int | float, start: int | float, *, whole: bool
) -> None:
    expected = end + 1 if whole else math.nextafter(end, math.inf)
    if start == expected:
        return
    if start < expected:
        raise ValueError(f"bin {_show(after)} overlaps or comes before bin {_show(before)}; bins must ascend")
    hint = "" if whole else "; for real numbers write half-open bins such as '[18, 20)', '[20, 25)'"
    raise ValueError(f"there is a gap between bin {_show(before)} and bin {_show(after)}{hint}")


def _centres(spans: Sequence[Span], low: Any, high: Any, whole: bool, open_low: bool, open_high: bool) -> Any:
    """Apply the rule of paper Births to the ends as declared: ``[0, 10)`` has its middle at 5."""
    first = low.astype(np.float64)
    last = high.astype(np.float64)
    if not whole:
        # An excluded end is one double away from the declared one, which the mean should use.
        for index, span in enumerate(spans):
            if (
                span.low is not None
                and not span.low_included
                and low[index] == math.nextafter(span.low, math.inf)
            ):
                first[index] = span.low
            if (
                span.high is not None
                and not span.high_included
                and high[index] == math.nextafter(span.high, -math.inf)
            ):
                last[index] = span.high
    with np.errstate(over="ignore"):
        mean = (first + last) / 2.0
    centres = np.where(np.isfinite(mean), mean, first / 2.0 + last / 2.0)
    if open_low and open_high and len(spans) == 1:
        centres[0] = 0.0
    elif open_low or open_high:
        if open_low:
            centres[0] = last[0]
        if open_high:
            centres[-1] = first[-1]
    return centres


def _show(span: Span) -> str:
    if span.low is None and span.high is None:
        return "(-inf, inf)"
    if span.low is None:
        return f"{'<=' if span.high_included else '<'}{show_number(span.high or 0)}"
    if span.high is None:
        return f"{'>=' if span.low_included else '>'}{show_number(span.low)}"
    if span.single:
        return show_number(span.low)
    brackets = "[" if span.low_included else "(", "]" if span.high_included else ")"
    return f"{brackets[0]}{show_number(span.low)}, {show_number(span.high)}{brackets[1]}"


def _labels_of_spans(spans: Sequence[Span]) -> tuple[str, ...]:
    """Label spans by rounded ends, unless two labels would be equal or an interval would look like one number."""
    rounded = [_rounded(span) for span in spans]
    labels = [_show(span) for span in rounded]
    clear = len(set(labels)) == len(labels) and [s.single for s in rounded] == [s.single for s in spans]
    return tuple(labels if clear else [_show(span) for span in spans])


def _labels_of_cells(cells: Cells) -> tuple[str, ...]:
    """Label cells as ``7``, ``0-9``, ``<=17`` or ``>=45`` for whole numbers, and ``[0, 10)`` otherwise."""
    lows, highs = cells.low.tolist(), cells.high.tolist()
    last = len(lows) - 1
    if not cells.whole:
        if bool((cells.low == cells.high).all()):
            return tuple(map(show_number, lows))
        ends = [*lows[1:], highs[-1]]
        spans = [
            Span(low, end, True, index == last)
            for index, (low, end) in enumerate(zip(lows, ends, strict=True))
        ]
        return _labels_of_spans(spans)
    labels = []
    for index, (low, high) in enumerate(zip(lows, highs, strict=True)):
        open_low, open_high = cells.open_low and index == 0, cells.open_high and index == last
        if open_low:
            labels.append("any" if open_high else f"<={high}")
        elif open_high:
            labels.append(f">={low}")
        elif low == high:
            labels.append(str(low))
        else:
            labels.append(f"{low}-{high}" if low >= 0 else f"{low} to {high}")
    return tuple(labels)


def _rounded(span: Span) -> Span:
    def short(value: int | float | None) -> int | float | None:
        return None if value is None else float(f"{value:.6g}")

    return Span(short(span.low), short(span.high), span.low_included, span.high_included)


def cells_of_values(values: Sequence[int | float], *, whole: bool) -> Cells:
    """Return one cell per listed value; the values ascend."""
    points = np.array(values, dtype=np.int64 if whole else np.float64)
    return Cells(points, points, points.astype(np.float64))


def cells_of_range(minimum: int, maximum: int) -> Cells:
    """Return one cell per whole number of a range."""
    points = np.arange(minimum, maximum + 1, dtype=np.int64)
    return Cells(points, points, points.astype(np.float64))
