"""Small tables for notebooks, escaped. Shared by everything that shows itself there."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


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
