"""Small pictures for the report: they take their colours from the page, so that light and dark both work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Picture", "Share", "Whiskers", "budget_bar", "comparison_panels", "heat_table", "trade_off"]

_SERIES = ("#0b6e99", "#c4622d", "#5b8c3e", "#7d4fa3", "#b8912a", "#c2457a", "#2d8f85", "#8a8f98")


def _open(width: float, height: float, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(label)}" font-size="12" fill="currentColor">'
    )


@dataclass(frozen=True)
class Picture:
    """Markup that shows itself in a notebook.

    Examples
    --------
    >>> str(Picture("<svg></svg>"))
    '<svg></svg>'
    """

    markup: str

    def _repr_html_(self) -> str:
        return self.markup

    def __str__(self) -> str:
        return self.markup


@dataclass(frozen=True)
class Share:
    """One part of a whole: a name and how much of it."""

    name: str
    value: float


def budget_bar(shares: Sequence[Share], *, total: float, symbol: str) -> str:
    """Draw who spent what of a budget as one bar with a legend below it.

    Examples
    --------
    >>> budget_bar([Share("model", 1.0)], total=1.2, symbol="epsilon").startswith("<svg")
    True
    """
    width, height, row = 760.0, 34.0, 22.0
    parts = [_open(width, 50 + row * (len(shares) + 1), f"How the budget of {symbol} {total:g} was spent")]
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
    legend = [*shares, Share("not used", left)]
    for index, share in enumerate(legend):
        y = 60 + row * index
        colour = _SERIES[index % 8] if index < len(shares) else "none"
        parts.append(
            f'<rect x="2" y="{y - 11:.1f}" width="12" height="12" fill="{colour}" stroke="currentColor" '
            f'stroke-opacity=".5"/><text x="22" y="{y:.1f}">{escape(share.name)}: {share.value:.4g} '
            f"({share.value / total if total else 0:.1%})</text>"
        )
    return "".join(parts) + "</svg>"


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
    parts = [_open(left + size + 16, top + size + 52, label)]

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


def _panel(panel: Whiskers) -> str:
    width, height, left, top, bottom = 420.0, 210.0, 44.0, 26.0, 46.0
    base, plot = height - bottom, height - bottom - top
    highest = [p + r for p, r in zip(panel.points, panel.reach, strict=True)]
    tallest = max([*panel.bars, *highest, 1e-12])
    slot = (width - left) / max(1, len(panel.labels))
    seen = " and the noisy measurement of the real table" if len(panel.points) else ""
    parts = [
        _open(width, height, f"{panel.title}: shares in the synthetic table{seen}"),
        f'<text x="0" y="14" font-weight="600">{escape(panel.title)}</text>',
    ]
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
    step = -(-len(panel.labels) // 12)
    for index in range(0, len(panel.labels), step):
        x = left + slot * (index + 0.5)
        tick_label = panel.labels[index] if len(panel.labels[index]) <= 11 else panel.labels[index][:10] + "…"
        turned = f' transform="rotate(-32 {x:.1f} {base + 14})" text-anchor="end"'
        plain = ' text-anchor="middle"'
        parts.append(
            f'<text x="{x:.1f}" y="{base + 14}" font-size="10"{turned if len(panel.labels) > 5 else plain}>'
            f"{escape(tick_label)}</text>"
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
    left, top = 92.0, 26.0
    width, height = left + wide * len(across) + 12, top + tall * len(down) + 52
    parts = [
        _open(width, height, f"{title}: synthetic minus measured, in standard deviations of the noise"),
        f'<text x="0" y="14" font-weight="600">{escape(title)}</text>',
    ]
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            strength = min(1.0, abs(value) / 4)
            parts.append(
                f'<rect x="{left + wide * j:.1f}" y="{top + tall * i:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
                f'fill="{_SERIES[0] if value > 0 else _SERIES[1]}" fill-opacity="{strength:.2f}" stroke="currentColor" '
                f'stroke-opacity=".12"><title>{escape(down[i])}, {escape(across[j])}: {value:+.1f}</title></rect>'
            )
    for tick_labels, vertical in ((down, True), (across, False)):
        step = -(-len(tick_labels) // 14)
        for index in range(0, len(tick_labels), step):
            tick_label = (
                tick_labels[index] if len(tick_labels[index]) <= 12 else tick_labels[index][:11] + "…"
            )
            middle = (tall if vertical else wide) * (index + 0.5)
            if vertical:
                parts.append(
                    f'<text x="{left - 5}" y="{top + middle + 4:.1f}" text-anchor="end" font-size="10">{escape(tick_label)}</text>'
                )
            else:
                x, y = left + middle, top + tall * len(down) + 12
                parts.append(
                    f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" font-size="10" '
                    f'transform="rotate(-40 {x:.1f} {y:.1f})">{escape(tick_label)}</text>'
                )
    return "".join(parts) + "</svg>"
