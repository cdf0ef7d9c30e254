"""Telling a person how a long pass over the records goes, without telling how many records there are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Watch = Callable[[str, float], None]
"""Called with a few words and a fraction between 0 and 1."""

TELL_SECONDS = 0.5


def nobody(words: str, fraction: float) -> None:
    """Tell nobody."""


@dataclass
class Pace:
    """Rows per second of one pass.

    Privacy
    -------
    In: private numbers of rows. Out: a fraction and a rate of two digits, for the eyes of the custodian, who owns
    the records. Neither belongs in a file, a log or an answer for a program.

    Examples
    --------
    >>> said = []
    >>> pace = Pace("counting", 4, lambda words, fraction: said.append(fraction), interval=0.0)
    >>> pace.add(1)
    >>> pace.add(3)
    >>> said
    [0.25, 1.0]
    """

    task: str
    total: int | None
    watch: Watch
    done: int = 0
    interval: float | None = None
    _started: float = field(default_factory=lambda: time.monotonic())
    _told: float = field(default_factory=lambda: time.monotonic())
    _base: int = field(init=False)

    def __post_init__(self) -> None:
        self._base = self.done

    def add(self, rows: int) -> None:
        """Count rows as read and tell, but not too often."""
        self.done += rows
        now = time.monotonic()
        if now - self._told < (TELL_SECONDS if self.interval is None else self.interval):
            return
        self._told = now
        fraction = min(1.0, self.done / self.total) if self.total else 0.0
        self.watch(
            f"{self.task}, {rate((self.done - self._base) / max(1e-9, now - self._started))}", fraction
        )


def rate(rows_per_second: float) -> str:
    """Write a rate with two digits.

    Examples
    --------
    >>> rate(4_321_987.0), rate(876_543.0), rate(12.3)
    ('4.3 million rows/s', '880 thousand rows/s', '12 rows/s')
    """
    scales = ((1e9, " billion"), (1e6, " million"), (1e3, " thousand"), (1.0, ""))
    unit, word = next((item for item in scales if rows_per_second >= 0.995 * item[0]), scales[-1])
    number = rows_per_second / unit
    digits = f"{number:.1f}" if unit > 1 and number < 9.95 else f"{float(f'{number:.2g}'):g}"
    return f"{digits}{word} rows/s"
