"""Small multiples of one-way marginals as a self-contained SVG picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT, _GAP, _COLUMNS = 420, 220, 24, 2
_LEFT, _TOP, _BOTTOM = 44, 34, 40
_COLOURS = ("#8a8f98", "#0b6e99", "#c4622d", "#5b8c3e")
_MOST_LABELS = 14


def sheet(
    width: float, height: float, title: str, *, left: float, top: int = 28, size: int = 17
) -> list[str]:
    """Return the first pieces of a picture with a title, which is also its accessible name.

    Examples
    --------
    >>> sheet(200, 100, "Errors", left=16)[1]
    '<rect width="200" height="100" fill="#ffffff"/>'
    """
    name = escape(title)
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{name}" font-family="system-ui, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="{top}" font-size="{size}" font-weight="600" fill="#1d2430">{name}</text>',
    ]


@dataclass(frozen=True)
class Panel:
    """One column: labels along the axis and, for each series, the share of rows per label."""

    title: str
    labels: Sequence[str]
    series: Sequence[Sequence[float]]


def marginal_chart(title: str, names: Sequence[str], panels: Sequence[Panel]) -> str:
    """Draw grouped bars, one panel per column, and return the SVG document.

    Parameters
    ----------
    title
        Heading; also the accessible name of the picture.
    names
        Name of each series, for the legend.
    panels
        The columns to draw. All values are shares between 0 and 1.
    """
    rows = -(-len(panels) // _COLUMNS)
    width = _COLUMNS * _WIDTH + (_COLUMNS + 1) * _GAP
    height = 84 + rows * (_HEIGHT + _GAP)
    parts = sheet(width, height, title, left=_GAP, top=30, size=18)
    x = float(_GAP)
    for index, name in enumerate(names):
        parts.append(
            f'<rect x="{x}" y="46" width="12" height="12" rx="2" fill="{_COLOURS[index % len(_COLOURS)]}"/>'
        )
        parts.append(f'<text x="{x + 18}" y="56" font-size="13" fill="#1d2430">{escape(name)}</text>')
        x += 34 + 7.5 * len(name)
    for index, panel in enumerate(panels):
        left = _GAP + (index % _COLUMNS) * (_WIDTH + _GAP)
        top = 84 + (index // _COLUMNS) * (_HEIGHT + _GAP)
        parts.extend(_panel(panel, left, top))
    parts.append("</svg>")
    return "\n".join(parts)


def _panel(panel: Panel, left: float, top: float) -> list[str]:
    """Draw one column's bars, axis and labels."""
    plot_width, plot_height = _WIDTH - _LEFT, _HEIGHT - _TOP - _BOTTOM
    base = top + _TOP + plot_height
    tallest = max((max(values, default=0.0) for values in panel.series), default=0.0) or 1.0
    slots = max(1, len(panel.labels))
    slot = plot_width / slots
    bar = slot * 0.8 / max(1, len(panel.series))
    parts = [
        f'<text x="{left}" y="{top + 16}" font-size="13" font-weight="600" fill="#1d2430">{escape(panel.title)}</text>'
    ]
    for tick in (0.0, 0.5, 1.0):
        y = base - tick * plot_height
        parts.append(
            f'<line x1="{left + _LEFT}" x2="{left + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e3e6ea"/>'
        )
        parts.append(
            f'<text x="{left + _LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#5a6472">{tick * tallest:.1%}</text>'
        )
    for number, values in enumerate(panel.series):
        colour = _COLOURS[number % len(_COLOURS)]
        for position, value in enumerate(values):
            tall = plot_height * max(0.0, value) / tallest
            x = left + _LEFT + position * slot + slot * 0.1 + number * bar
            parts.append(
                f'<rect x="{x:.1f}" y="{base - tall:.1f}" width="{max(bar, 0.4):.1f}" height="{tall:.1f}" fill="{colour}"/>'
            )
    step = -(-slots // _MOST_LABELS)
    for position in range(0, slots, step):
        x = left + _LEFT + (position + 0.5) * slot
        label = panel.labels[position]
        short = label if len(label) <= 12 else label[:11] + "…"
        turn = f' transform="rotate(-30 {x:.1f} {base + 14})"' if slots > 6 else ""
        anchor = "end" if slots > 6 else "middle"
        parts.append(
            f'<text x="{x:.1f}" y="{base + 14}" text-anchor="{anchor}" fill="#5a6472"{turn}>{escape(short)}</text>'
        )
    return parts
