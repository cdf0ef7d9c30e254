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


def pair_chart(title: str, names: Sequence[str], values: Sequence[Sequence[float]]) -> str:
    """Draw a square of numbers between 0 and 1, one for each pair of names, and return the SVG document.

    The darker, the larger; a pair without a number (NaN) is left white. Each cell says its pair and its number when it is pointed at.

    Examples
    --------
    >>> svg = pair_chart("Errors", ["a", "b"], [[0.0, 0.1], [0.1, 0.0]])
    >>> svg.startswith("<svg") and svg.count("<title>")
    4
    """
    cell = max(12.0, min(40.0, 560.0 / max(1, len(names))))
    short = [name if len(name) <= 24 else name[:23] + "…" for name in names]
    left = _GAP + 12 + 6.2 * max((len(name) for name in short), default=0)
    top, most = 62.0, max((value for row in values for value in row if value == value), default=0.0) or 1.0
    width = max(left + cell * len(names) + _GAP, 2 * _GAP + 9.5 * len(title))
    base = top + cell * len(names)
    height = base + 24 + 4.2 * max((len(name) for name in short), default=0)
    parts = sheet(round(width), round(height), title, left=_GAP)
    parts.append(f'<text x="{_GAP}" y="48" fill="#5a6472">darkest: {most:.1%}</text>')
    for i, row in enumerate(values):
        middle = cell * (i + 0.5)
        parts.append(
            f'<text x="{left - 6:.1f}" y="{top + middle + 4:.1f}" text-anchor="end" fill="#1d2430">{escape(short[i])}</text>'
        )
        x, y = left + middle, base + 14
        parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" fill="#1d2430" transform="rotate(-40 {x:.1f} {y:.1f})">{escape(short[i])}</text>'
        )
        for j, value in enumerate(row):
            known = value == value
            said = f"{value:.2%}" if known else "not compared"
            parts.append(
                f'<rect x="{left + cell * j:.1f}" y="{top + cell * i:.1f}" width="{cell:.1f}" height="{cell:.1f}" fill="{_COLOURS[1]}" '
                f'fill-opacity="{value / most if known else 0:.3f}" stroke="#e3e6ea"><title>{escape(names[i])}, {escape(names[j])}: {said}</title></rect>'
            )
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
