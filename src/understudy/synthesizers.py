"""The name that :mod:`understudy.mechanisms` had in version 0.1. Its public names are found there, with a warning."""

from typing import Any

from understudy._deprecation import deprecated, forwarded


@deprecated(use="curator.rows.total", since="0.2", until="0.4")
def fixed_total(curator: Any) -> float | None:
    """Return the number of rows of a curator's table where it is public, else None."""
    total: float | None = curator.rows.total
    return total


__getattr__ = forwarded("understudy.synthesizers", "understudy.mechanisms", since="0.2", until="0.4")
