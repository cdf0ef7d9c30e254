"""What was demonstrated as a share of what was claimed, as a self-contained SVG picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from understudy.report.svg import sheet

__all__ = ["Verdict", "audit_chart"]

_WIDTH, _LABEL, _ROW, _GAP, _TOP = 980, 400, 20, 24, 76
_MOST = 1.5
_MOST_LETTERS = 62


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
    left, right = _GAP + _LABEL, _WIDTH - 60
    base = _TOP + _ROW * max(1, len(verdicts))
    height = base + 40

    def across(share: float) -> float:
        return left + (right - left) * min(_MOST, max(0.0, share)) / _MOST

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
        y = _TOP + index * _ROW
        colour = "#b3261e" if item.violated else "#3b6ea5"
        label = item.label if len(item.label) <= _MOST_LETTERS else item.label[: _MOST_LETTERS - 1] + "…"
        parts.append(
            f'<text x="{left - 8}" y="{y + 13}" text-anchor="end" fill="#1d2430">{escape(label)}</text>'
        )
        parts.append(
            f'<rect x="{left}" y="{y + 3}" width="{across(item.share) - left:.1f}" height="{_ROW - 7}" '
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
