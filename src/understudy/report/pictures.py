"""Small pictures for the report: they take their colours from the page, so that light and dark both work."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from understudy._html import Picture

__all__ = ["Picture", "Share", "Whiskers", "budget_bar", "comparison_panels", "heat_table", "trade_off"]

_SERIES = ("#0b6e99", "#c4622d", "#5b8c3e", "#7d4fa3", "#b8912a", "#c2457a", "#2d8f85", "#8a8f98")


def _open(width: float, height: float, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(label)}" font-size="12" fill="currentColor">'
    )


@dataclass(frozen=True)
class Share:
    """One part of a whole: a name and how much of it."""

    name: str
    value: float


_UNSEEN = 5e-4
"""A smaller part of a budget than this is what rounding left."""


def budget_bar(shares: Sequence[Share], *, total: float, symbol: str) -> str:
    """Draw who spent what of a budget as one bar with a legend below it, whose words wrap as the page does.

    Examples
    --------
    >>> budget_bar([Share("model", 1.0)], total=1.2, symbol="epsilon").count("</li>")
    2
    """
    width, height = 760.0, 34.0
    parts = [_open(width, height + 8, f"How the budget of {symbol} {total:g} was spent")]
    x = 0.0
    for index, share in enumerate(shares):
        wide = width * min(1.0, share.value / total) if total > 0 else 0.0
        parts.append(
            f'<rect x="{x:.1f}" y="4" width="{max(wide, 1):.1f}" height="{height}" fill="{_SERIES[index % 8]}">'
            f"<title>{escape(share.name)}: {share.value:.4g}</title></rect>"
        )
        x += wide
    parts.append(
        f'<rect x="0" y="4" width="{width}" height="{height}" fill="none" stroke="currentColor" stroke-opacity=".5"/>'
    )
    left = max(0.0, total - sum(share.value for share in shares))
    parts.append("</svg>")
    listed = []
    unused = [Share("not used", left)] if left > _UNSEEN * total else []
    for index, share in enumerate([*shares, *unused]):
        colour = _SERIES[index % 8] if index < len(shares) else "none"
        listed.append(
            f'<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect x=".5" y=".5" width="11" height="11" fill="{colour}" '
            f'stroke="currentColor" stroke-opacity=".5"/></svg>{escape(share.name)}: {share.value:.4g} '
            f"({share.value / total if total else 0:.1%})</li>"
        )
    return f'{"".join(parts)}<ul class="legend">{"".join(listed)}</ul>'


def trade_off(points: Sequence[tuple[float, float]], *, label: str) -> str:
    """Draw the best true-positive rate any attacker can reach against the false-positive rate.

    Parameters
    ----------
    points
        ``(false, true)`` from ``(0, ...)`` to ``(1, 1)``.
    label
        Words for people who cannot see the picture.
    """
    size, left, top = 300.0, 60.0, 12.0
    parts = [_open(left + size + 26, top + size + 52, label)]

    def place(x: float, y: float) -> str:
        return f"{left + size * x:.1f},{top + size * (1 - y):.1f}"

    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = left + size * tick, top + size * (1 - tick)
        parts.append(
            f'<path d="M{left} {y:.1f}H{left + size}M{x:.1f} {top}V{top + size}" stroke="currentColor" '
            'stroke-opacity=".15"/>'
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.0%}</text>'
            f'<text x="{x:.1f}" y="{top + size + 18}" text-anchor="middle">{tick:.0%}</text>'
        )
    curve = " ".join(place(x, y) for x, y in points)
    parts.append(
        f'<polyline points="{place(0, 0)} {place(1, 1)}" fill="none" stroke="currentColor" stroke-dasharray="4 4"/>'
        f'<polyline points="{curve}" fill="none" stroke="{_SERIES[0]}" stroke-width="3"/>'
        f'<text x="{left + size / 2}" y="{top + size + 40}" text-anchor="middle">wrongly says “you are in it”</text>'
        f'<text x="14" y="{top + size / 2}" text-anchor="middle" transform="rotate(-90 14 {top + size / 2})">'
        "rightly says “you are in it”</text>"
    )
    return "".join(parts) + "</svg>"


@dataclass(frozen=True)
class Whiskers:
    """One column: synthetic shares as bars, measured shares as points with their noise.

    Attributes
    ----------
    title, labels
        The column and its values.
    bars
        Shares of the synthetic rows.
    points
        Noisy shares of the real rows, or empty where the column was not measured.
    reach
        Two standard deviations of the noise of each point.
    """

    title: str
    labels: Sequence[str]
    bars: Sequence[float]
    points: Sequence[float] = ()
    reach: Sequence[float] = ()

    @classmethod
    def of_counts(
        cls,
        title: str,
        labels: Sequence[str],
        counts: Iterable[float],
        measured: tuple[Iterable[float], Iterable[float]] = ((), ()),
        *,
        total: float = 1.0,
    ) -> Whiskers:
        """Return a column as shares: synthetic counts of their sum, and noisy counts and their reach of ``total`` rows.

        Examples
        --------
        >>> Whiskers.of_counts("sex", ["f", "m"], [3, 1], ([70.0, 30.0], [2.0, 2.0]), total=100.0).bars
        [0.75, 0.25]
        """
        bars, rows = [float(count) for count in counts], max(1e-12, total)
        whole = max(1e-12, math.fsum(bars))
        points, reach = ([float(x) / rows for x in part] for part in measured)
        return cls(title, labels, [bar / whole for bar in bars], points, reach)


def comparison_panels(panels: Sequence[Whiskers]) -> str:
    """Draw one small picture per column, side by side as far as there is room."""
    return (
        '<div class="pictures">' + "".join(f"<figure>{_panel(panel)}</figure>" for panel in panels) + "</div>"
    )


_LETTER = 5.6
"""Width of a letter of labels, at most, in a font of ten."""
_LINE = 11.0
_WIDE = 26
"""Letters of a label in one line; longer ones are broken into several, never cut."""


def broken(label: str, letters: int = _WIDE) -> list[str]:
    """Return a label in lines of so many letters at most: between words, or inside one that is longer than that.

    Examples
    --------
    >>> broken("self-employed, with employees", 16)
    ['self-employed,', 'with employees']
    >>> "".join(broken("x" * 40, 16)) == "x" * 40
    True
    """
    return textwrap.wrap(" ".join(label.split()), letters, break_on_hyphens=False) or [""]


def _lines(lines: Sequence[str], x: float, y: float, **marks: str) -> str:
    """Write lines of a label below each other, the middle of them at a height."""
    top = y - _LINE * (len(lines) - 1) / 2
    said = "".join(
        f'<tspan x="{x:.1f}" y="{top + _LINE * index:.1f}">{escape(line)}</tspan>'
        for index, line in enumerate(lines)
    )
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in marks.items())
    return f'<text font-size="10"{rest}>{said}</text>'


def _panel(panel: Whiskers) -> str:
    """Draw a column upright where its labels are short, and lying where they need a line each."""
    shown = panel.labels[:: -(-len(panel.labels) // 12) or 1]
    lying = len(panel.labels) <= 60 and max((len(label) for label in shown), default=0) > 11
    return _lying(panel) if lying else _upright(panel)


def _described(panel: Whiskers) -> str:
    seen = " and the noisy measurement of the real table" if len(panel.points) else ""
    return f"{panel.title}: shares in the synthetic table{seen}"


def _tallest(panel: Whiskers) -> float:
    highest = [p + r for p, r in zip(panel.points, panel.reach, strict=True)]
    return max([*panel.bars, *highest, 1e-12])


def _title(title: str, width: float) -> tuple[str, float]:
    """Write the heading of a picture in as many lines as it needs, and return where the rest begins."""
    lines = broken(title, int(width / 7.2))
    said = "".join(
        f'<tspan x="0" y="{14 + 15 * index}">{escape(line)}</tspan>' for index, line in enumerate(lines)
    )
    return f'<text font-weight="600">{said}</text>', 26.0 + 15 * (len(lines) - 1)


def _lying(panel: Whiskers) -> str:
    """Draw bars from left to right, with a label of one or several lines before each."""
    labels = [broken(label) for label in panel.labels]
    width, left = 420.0, 8 + _LETTER * max((len(line) for lines in labels for line in lines), default=0)
    title, top = _title(panel.title, width)
    heights = [max(15.0, _LINE * len(lines) + 5) for lines in labels]
    base, plot, tallest = top + sum(heights), width - left - 22, _tallest(panel)
    parts = [_open(width, base + 22, _described(panel)), title]
    for tick in (0.0, 0.5, 1.0):
        x = left + tick * plot
        parts.append(
            f'<path d="M{x:.1f} {top}V{base:.1f}" stroke="currentColor" stroke-opacity=".15"/>'
            f'<text x="{x:.1f}" y="{base + 14:.1f}" text-anchor="middle" font-size="10">{tick * tallest:.1%}</text>'
        )
    y = top
    for index, (value, tall) in enumerate(zip(panel.bars, heights, strict=True)):
        middle = y + tall / 2
        parts.append(
            f'<rect x="{left:.1f}" y="{middle - 5:.1f}" width="{plot * max(0.0, value) / tallest:.1f}" height="10" '
            f'fill="{_SERIES[0]}" fill-opacity=".75"><title>{escape(panel.labels[index])}: {value:.3%}</title></rect>'
            + _lines(labels[index], left - 6, middle + 3.5, text_anchor="end")
        )
        if index < len(panel.points):
            point, reach = panel.points[index], panel.reach[index]
            x, low, high = (
                left + plot * max(0.0, v) / tallest for v in (point, point - reach, point + reach)
            )
            parts.append(
                f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}" stroke="{_SERIES[1]}" stroke-width="1.5"/>'
                f'<circle cx="{x:.1f}" cy="{middle:.1f}" r="2.4" fill="{_SERIES[1]}"><title>{escape(panel.labels[index])}: '
                f"measured {point:.3%} ± {reach:.3%}</title></circle>"
            )
        y += tall
    return "".join(parts) + "</svg>"


def _upright(panel: Whiskers) -> str:
    step = -(-len(panel.labels) // 12)
    shown = list(range(0, len(panel.labels), step or 1))
    longest = max((len(panel.labels[index]) for index in shown), default=0)
    across = 376.0
    slot = across / max(1, len(panel.labels))
    turned = len(panel.labels) > 5 or len(shown) * longest * _LETTER > across
    left = max(44.0, 0.85 * _LETTER * longest - slot / 2) if turned else 44.0
    width = left + across
    title, top = _title(panel.title, width)
    bottom = 22 + (_LETTER * longest * 0.56 if turned else 0.0)
    base, plot = top + 138, 138.0
    tallest = _tallest(panel)
    parts = [_open(width, base + bottom, _described(panel)), title]
    for tick in (0.0, 0.5, 1.0):
        y = base - tick * plot
        parts.append(
            f'<path d="M{left} {y:.1f}H{width}" stroke="currentColor" stroke-opacity=".15"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" font-size="10">{tick * tallest:.1%}</text>'
        )
    for index, value in enumerate(panel.bars):
        tall = plot * max(0.0, value) / tallest
        x = left + slot * (index + 0.12)
        parts.append(
            f'<rect x="{x:.1f}" y="{base - tall:.1f}" width="{slot * 0.76:.1f}" height="{tall:.1f}" '
            f'fill="{_SERIES[0]}" fill-opacity=".75"><title>{escape(panel.labels[index])}: {value:.3%}</title></rect>'
        )
    for index, (point, reach) in enumerate(zip(panel.points, panel.reach, strict=True)):
        x = left + slot * (index + 0.5)
        y, low, high = (base - plot * max(0.0, v) / tallest for v in (point, point - reach, point + reach))
        parts.append(
            f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{_SERIES[1]}" stroke-width="1.5"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{_SERIES[1]}"><title>{escape(panel.labels[index])}: '
            f"measured {point:.3%} ± {reach:.3%}</title></circle>"
        )
    for index in shown:
        x = left + slot * (index + 0.5)
        marks = (
            f' transform="rotate(-32 {x:.1f} {base + 14})" text-anchor="end"'
            if turned
            else ' text-anchor="middle"'
        )
        parts.append(
            f'<text x="{x:.1f}" y="{base + 14}" font-size="10"{marks}>{escape(panel.labels[index])}</text>'
        )
    return "".join(parts) + "</svg>"


def heat_table(
    title: str, down: Sequence[str], across: Sequence[str], values: Sequence[Sequence[float]]
) -> str:
    """Draw differences over two columns: blue where the synthetic table has more, orange where it has less.

    Values are in standard deviations of the noise; beyond four the colour is full.
    """
    wide = max(6.0, min(28.0, 320.0 / max(len(across), 1)))
    tall = max(9.0, min(20.0, 240.0 / max(len(down), 1)))
    shown = [(labels, range(0, len(labels), -(-len(labels) // 14) or 1)) for labels in (down, across)]
    longest = [max((len(labels[index]) for index in picked), default=0) for labels, picked in shown]
    left = 12 + _LETTER * max(longest[0], 0.77 * longest[1] - wide / 2 / _LETTER)
    width = left + wide * len(across) + 12
    heading, top = _title(title, max(width, 200.0))
    width, height = max(width, 200.0), top + tall * len(down) + 22 + 0.65 * _LETTER * longest[1]
    parts = [
        _open(width, height, f"{title}: synthetic minus measured, in standard deviations of the noise"),
        heading,
    ]
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            strength = min(1.0, abs(value) / 4)
            parts.append(
                f'<rect x="{left + wide * j:.1f}" y="{top + tall * i:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
                f'fill="{_SERIES[0] if value > 0 else _SERIES[1]}" fill-opacity="{strength:.2f}" stroke="currentColor" '
                f'stroke-opacity=".12"><title>{escape(down[i])}, {escape(across[j])}: {value:+.1f}</title></rect>'
            )
    for (labels, picked), vertical in zip(shown, (True, False), strict=True):
        for index in picked:
            middle = (tall if vertical else wide) * (index + 0.5)
            x, y = (left - 5, top + middle + 4) if vertical else (left + middle, top + tall * len(down) + 12)
            marks = "" if vertical else f' transform="rotate(-40 {x:.1f} {y:.1f})"'
            parts.append(
                f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" font-size="10"{marks}>{escape(labels[index])}</text>'
            )
    return "".join(parts) + "</svg>"
