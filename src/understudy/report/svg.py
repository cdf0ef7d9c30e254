"""What pictures on paper of their own begin with: a white sheet and a title."""

from __future__ import annotations

from html import escape

__all__ = ["sheet"]


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
