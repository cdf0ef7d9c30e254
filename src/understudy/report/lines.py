"""Small multiples of lines over a logarithmic axis as a self-contained SVG picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from understudy.report.charts import sheet

_WIDTH, _HEIGHT, _GAP, _PER_ROW = 300, 210, 26, 3
_LEFT, _TOP, _BOTTOM = 46, 26, 30
_MOST_PLACES = 8
"""More places than this are not written under the axis one by one."""
_COLOURS = (
    "#0b6e99", "#c4622d", "#5b8c3e", "#7d4fa3", "#b8912a", "#8a8f98", "#c2457a", "#2d8f85",
    "#1d2430", "#d98880", "#6fb1d0", "#a3a847", "#b39ddb", "#7b4b2a",
)  # fmt: skip


@dataclass(frozen=True)
class LinePanel:
    """One picture: a title and, for each series it has, points with the range they vary in.

    Attributes
    ----------
    title
        Heading of the panel.
    series
        Points ``(x, low, middle, high)`` by name of the series; all positive.
    missing
        Places ``x`` by name of the series where there is no number: drawn as crosses along the top.
    scattered
        Names of series whose points are not joined by a line.
    """

    title: str
    series: Mapping[str, Sequence[tuple[float, float, float, float]]] = field(default_factory=dict)
    missing: Mapping[str, Sequence[float]] = field(default_factory=dict)
    scattered: frozenset[str] = frozenset()


def line_chart(title: str, panels: Sequence[LinePanel], *, x_label: str, y_label: str) -> str:
    """Draw panels of lines, both axes logarithmic, and return the SVG document.

    A series has the same colour in every panel. Bars show the range of each point, crosses what has no number.

    Examples
    --------
    >>> panel = LinePanel("adult", {"aim": [(0.1, 0.3, 0.3, 0.4), (1.0, 0.1, 0.2, 0.2)]})
    >>> svg = line_chart("Error", [panel], x_label="epsilon", y_label="error")
    >>> svg.startswith("<svg") and svg.endswith("</svg>")
    True
    """
    names = list(dict.fromkeys(name for panel in panels for name in (*panel.series, *panel.missing)))
    colours = {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(names)}
    rows = -(-len(panels) // _PER_ROW)
    width = _PER_ROW * _WIDTH + (_PER_ROW + 1) * _GAP
    legend, deep = _legend(names, colours, width)
    height = 96 + deep + rows * (_HEIGHT + _GAP)
    parts = [
        *sheet(width, height, title, left=_GAP),
        f'<text x="{_GAP}" y="46" fill="#5a6472">across: {escape(x_label)}; up: {escape(y_label)}</text>',
    ]
    parts.extend(legend)
    for index, panel in enumerate(panels):
        left = _GAP + (index % _PER_ROW) * (_WIDTH + _GAP)
        top = 84 + deep + (index // _PER_ROW) * (_HEIGHT + _GAP)
        parts.extend(_panel(panel, left, top, colours))
    parts.append("</svg>")
    return "\n".join(parts)


def _legend(names: Sequence[str], colours: Mapping[str, str], width: float) -> tuple[list[str], int]:
    """Return the names with their colours, in as many lines as they need, and the height of all lines but the first."""
    parts, x, y = [], float(_GAP), 0
    for name in names:
        wide = 34 + 6.8 * len(name)
        if x > _GAP and x + wide > width:
            x, y = float(_GAP), y + 18
        parts.append(f'<rect x="{x}" y="{58 + y}" width="12" height="4" fill="{colours[name]}"/>')
        parts.append(f'<text x="{x + 17}" y="{64 + y}" font-size="12" fill="#1d2430">{escape(name)}</text>')
        x += wide
    return parts, y


def _panel(panel: LinePanel, left: float, top: float, colours: Mapping[str, str]) -> list[str]:
    """Draw one panel."""
    points = [point for series in panel.series.values() for point in series]
    parts = [
        f'<text x="{left}" y="{top + 14}" font-size="13" font-weight="600" fill="#1d2430">{escape(panel.title)}</text>'
    ]
    if not points:
        return parts
    places = {point[0] for point in points} | {x for some in panel.missing.values() for x in some}
    x_low, x_high = _range(list(places))
    y_low, y_high = _range([value for point in points for value in point[1:]])
    plot_width, plot_height = _WIDTH - _LEFT - 8, _HEIGHT - _TOP - _BOTTOM

    def across(value: float) -> float:
        return left + _LEFT + plot_width * (math.log(value) - x_low) / (x_high - x_low)

    def up(value: float) -> float:
        return top + _TOP + plot_height * (1 - (math.log(value) - y_low) / (y_high - y_low))

    for tick in _ticks(y_low, y_high):
        y = up(tick)
        parts.append(
            f'<line x1="{left + _LEFT}" x2="{left + _WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e3e6ea"/>'
        )
        parts.append(
            f'<text x="{left + _LEFT - 5}" y="{y + 4:.1f}" text-anchor="end" fill="#5a6472">{tick:g}</text>'
        )
    for value in sorted(places) if len(places) <= _MOST_PLACES else _ticks(x_low, x_high):
        parts.append(
            f'<text x="{across(value):.1f}" y="{top + _HEIGHT - 12}" text-anchor="middle" fill="#5a6472">{value:g}</text>'
        )
    for name, series in panel.series.items():
        colour = colours[name]
        ordered = sorted(series)
        path = " ".join(f"{across(point[0]):.1f},{up(point[2]):.1f}" for point in ordered)
        if name not in panel.scattered:
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        for value, low, middle, high in ordered:
            x = across(value)
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{up(low):.1f}" y2="{up(high):.1f}" stroke="{colour}"/>'
            )
            parts.append(f'<circle cx="{x:.1f}" cy="{up(middle):.1f}" r="3" fill="{colour}"/>')
    crowd: dict[float, int] = {}
    for name, some in panel.missing.items():
        for value in some:
            crowd[value] = crowd.get(value, 0) + 1
            x, y = across(value), top + _TOP + 5 + 8 * (crowd[value] - 1)
            parts.append(
                f'<path d="M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6" stroke="{colours[name]}" stroke-width="1.6">'
                f"<title>{escape(name)}, {value:g}: no number</title></path>"
            )
    return parts


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of the logarithms with a little room on both sides."""
    logs = [math.log(value) for value in values]
    room = max(0.05 * (max(logs) - min(logs)), 0.1)
    return min(logs) - room, max(logs) + room


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers inside a range of logarithms: 1, 2 and 5 times powers of ten."""
    decades = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= math.log(tick) <= high]
    return inside[:: 1 + len(inside) // 7]
