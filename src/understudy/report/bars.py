"""Horizontal bars as self-contained SVG pictures: probabilities with intervals, and what audits demonstrated as a share of the claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from understudy.report.charts import sheet

__all__ = ["Bar", "Verdict", "audit_chart", "bar_chart"]

_WIDTH, _LABEL, _ROW, _GAP, _TOP = 980, 430, 24, 24, 76
_MOST_LETTERS = 64


@dataclass(frozen=True)
class Bar:
    """One bar: a label, a probability with its interval, and whether it stands out."""

    label: str
    value: float
    low: float
    high: float
    strong: bool = True


def bar_chart(
    title: str, bars: Sequence[Bar], *, note: str = "", mark: float | None = None, most: float = 1.0
) -> str:
    """Draw bars from 0 with whiskers and return the SVG document.

    Parameters
    ----------
    title, note
        Heading, and a line below it.
    bars
        From top to bottom.
    mark
        Draw a vertical line here.
    most
        Where the axis ends.

    Examples
    --------
    >>> svg = bar_chart("Acceptance", [Bar("aim", 0.9, 0.7, 1.0)], mark=0.1)
    >>> svg.startswith("<svg") and svg.endswith("</svg>")
    True
    """
    left, right = _GAP + _LABEL, _WIDTH - 70
    height = _TOP + _ROW * max(1, len(bars)) + 44
    base = _TOP + _ROW * max(1, len(bars))

    def across(value: float) -> float:
        return left + (right - left) * min(1.0, max(0.0, value / most))

    parts = [
        *sheet(_WIDTH, height, title, left=_GAP),
        f'<text x="{_GAP}" y="48" fill="#5a6472">{escape(note)}</text>',
    ]
    digits = 0 if most == 1.0 else 1 if most > 0.02 else 3
    for tick in (0.0, 0.25 * most, 0.5 * most, 0.75 * most, most):
        x = across(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{base}" stroke="#e3e6ea"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{base + 16}" text-anchor="middle" fill="#5a6472">{tick:.{digits}%}</text>'
        )
    for index, bar in enumerate(bars):
        parts += _row(bar, _TOP + index * _ROW, across, right, digits)
    if mark is not None:
        x = across(mark)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{base}" stroke="#c4622d" stroke-dasharray="4 3"/>'
        )
        parts.append(
            f'<text x="{x:.1f}" y="{base + 30}" text-anchor="middle" fill="#c4622d">kept above {mark:.0%}</text>'
        )
    parts.append("</svg>")
    return "\n".join(parts)


def _row(bar: Bar, top: float, across: Callable[[float], float], right: float, digits: int) -> list[str]:
    label = bar.label if len(bar.label) <= _MOST_LETTERS else bar.label[: _MOST_LETTERS - 1] + "…"
    middle, start = top + _ROW / 2, across(0.0)
    colour = "#0b6e99" if bar.strong else "#b6bcc5"
    return [
        f"<g><title>{escape(bar.label)}: {bar.value:.1%} ({bar.low:.1%} to {bar.high:.1%})</title>",
        f'<text x="{start - 8:.1f}" y="{middle + 4:.1f}" text-anchor="end" fill="#1d2430">{escape(label)}</text>',
        f'<rect x="{start:.1f}" y="{top + 5:.1f}" width="{across(bar.value) - start:.1f}" height="{_ROW - 10}" '
        f'fill="{colour}"/>',
        f'<line x1="{across(bar.low):.1f}" x2="{across(bar.high):.1f}" y1="{middle:.1f}" y2="{middle:.1f}" '
        'stroke="#1d2430" stroke-width="1.5"/>',
        f'<text x="{right + 8:.1f}" y="{middle + 4:.1f}" fill="#1d2430">{bar.value:.{digits}%}</text>',
        "</g>",
    ]


@dataclass(frozen=True)
class Verdict:
    """One bar: a label, the demonstrated share of the claim, and whether it is beyond chance."""

    label: str
    share: float
    violated: bool = False


def audit_chart(title: str, verdicts: Sequence[Verdict], *, note: str = "") -> str:
    """Draw a bar for each audit and a line at the claim, and return the SVG document.

    Examples
    --------
    >>> svg = audit_chart("Audit", [Verdict("laplace", 0.95), Verdict("broken", 1.9, violated=True)])
    >>> svg.startswith("<svg") and svg.endswith("</svg>") and svg.count("#b3261e")
    1
    """
    label_width, row_height, most_letters, most = 400, 20, 62, 1.5
    left, right = _GAP + label_width, _WIDTH - 60
    base = _TOP + row_height * max(1, len(verdicts))
    height = base + 40

    def across(share: float) -> float:
        return left + (right - left) * min(most, max(0.0, share)) / most

    parts = [
        *sheet(_WIDTH, height, title, left=_GAP),
        f'<text x="{_GAP}" y="48" fill="#5a6472">{escape(note)}</text>',
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5):
        x = across(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{base}" stroke="#e3e6ea"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{base + 16}" text-anchor="middle" fill="#5a6472">{tick:.0%}</text>'
        )
    for index, item in enumerate(verdicts):
        y = _TOP + index * row_height
        colour = "#b3261e" if item.violated else "#3b6ea5"
        label = item.label if len(item.label) <= most_letters else item.label[: most_letters - 1] + "…"
        parts.append(
            f'<text x="{left - 8}" y="{y + 13}" text-anchor="end" fill="#1d2430">{escape(label)}</text>'
        )
        parts.append(
            f'<rect x="{left}" y="{y + 3}" width="{across(item.share) - left:.1f}" height="{row_height - 7}" '
            f'fill="{colour}"/>'
        )
        parts.append(
            f'<text x="{across(item.share) + 5:.1f}" y="{y + 13}" fill="#5a6472">{item.share:.0%}</text>'
        )
    x = across(1.0)
    parts.append(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{base}" stroke="#c4622d" stroke-dasharray="4 3"/>'
    )
    parts.append(f'<text x="{x:.1f}" y="{base + 30}" text-anchor="middle" fill="#c4622d">the claim</text>')
    parts.append("</svg>")
    return "\n".join(parts)
