"""How far a long task is: stages, phases that share one scale, and the time that is left.

What is told is a few words and a fraction. Fractions come from work that is done and from public or released numbers, never from
records that nothing was paid for, except while a table is read: that is for the eyes of its owner (`understudy.data.files.stream.Pace`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["Phases", "Progress", "no_progress", "time_left"]

Progress = Callable[[str, float], None]
"""Called with the name of a stage and the fraction of the whole task that is done."""

_TOO_EARLY_SECONDS = 2.0
_TOO_EARLY_FRACTION = 0.02
_LAST = 1.0 - 1e-9
"""The most that a phase tells by itself: only :meth:`Phases.done` says that everything is done."""


def no_progress(stage: str, fraction: float) -> None:
    """Ignore progress."""


class Phases:
    """Phases of one task that are told on one scale, which never goes back and ends when the task is done.

    A phase is handed a callback of its own, on which it counts from 0 to 1. A phase that is left out, or that ends before its 1, is made up
    for by the next one.

    Parameters
    ----------
    progress
        Who is told.
    shares
        The phases in their order, and roughly how much of the whole task each is; any positive numbers.

    Examples
    --------
    >>> said = []
    >>> phases = Phases(lambda stage, fraction: said.append((stage, round(fraction, 3))), {"fit": 3, "draw": 1})
    >>> phases.part("fit")("round 1", 0.5)
    >>> phases.part("draw")("drawing", 0.0)
    >>> phases.done("written")
    >>> said
    [('round 1', 0.375), ('drawing', 0.75), ('written', 1.0)]
    """

    def __init__(self, progress: Progress, shares: Mapping[str, float]) -> None:
        whole = sum(shares.values())
        self._progress = progress
        self._ranges: dict[str, tuple[float, float]] = {}
        before = 0.0
        for name, share in shares.items():
            self._ranges[name] = (before / whole, share / whole)
            before += share
        self._told = 0.0

    def part(self, name: str) -> Progress:
        """Return the callback of one phase."""
        start, share = self._ranges[name]

        def tell(stage: str, fraction: float) -> None:
            self._tell(stage, min(_LAST, start + share * min(1.0, max(0.0, fraction))))

        return tell

    def done(self, stage: str = "done") -> None:
        """Say that everything is done."""
        self._tell(stage, 1.0)

    def _tell(self, stage: str, fraction: float) -> None:
        self._told = max(self._told, fraction)
        self._progress(stage, self._told)


def time_left(seconds: float, fraction: float) -> str:
    """Say how long a task will still take if it goes on as it went, in words; empty while it is too early to say.

    Examples
    --------
    >>> time_left(30.0, 0.25), time_left(600.0, 0.1), time_left(0.5, 0.25)
    ('about 90 s left', 'about 1 h 30 min left', '')
    """
    if seconds < _TOO_EARLY_SECONDS or not _TOO_EARLY_FRACTION <= fraction < 1:
        return ""
    left = seconds * (1 - fraction) / fraction
    if left < 10:
        return f"about {max(1, round(left))} s left"
    if left < 100:
        return f"about {5 * round(left / 5)} s left"
    minutes, rest = divmod(10 * round(left / 10), 60)
    if minutes < 10:
        return f"about {minutes} min{f' {rest} s' if rest else ''} left"
    minutes = 5 * round(left / 300)
    if minutes < 60:
        return f"about {minutes} min left"
    return f"about {minutes // 60} h{f' {minutes % 60} min' if minutes % 60 else ''} left"
