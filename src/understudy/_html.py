"""What results look like in a notebook: small tables, escaped, and markup that shows itself. Shared by everything that does so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Picture", "html_lines", "html_table"]


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

    def __repr__(self) -> str:
        return f"Picture({len(self.markup):,} characters of markup)"


def html_lines(title: str, lines: Iterable[str]) -> str:
    """Return a heading and sentences below it; everything is escaped.

    Examples
    --------
    >>> html_lines("Plan", ["a < b"])
    '<p><strong>Plan</strong></p><ul><li>a &lt; b</li></ul>'
    """
    listed = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<p><strong>{escape(title)}</strong></p><ul>{listed}</ul>"


def html_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[object]], *, note: str = "") -> str:
    """Return an HTML table; every entry is escaped.

    Examples
    --------
    >>> html_table("t", ["a"], [["<b>"]]).count("&lt;b&gt;")
    1
    """
    top = "".join(f'<th scope="col" style="text-align:left">{escape(word)}</th>' for word in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    below = f"<p>{escape(note)}</p>" if note else ""
    return (
        f'<table><caption style="text-align:left">{escape(caption)}</caption><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table>{below}"
    )
