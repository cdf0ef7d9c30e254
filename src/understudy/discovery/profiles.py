"""What the entries of a column look like, read from noisy counts over the cells of `PROFILE`: its kind, its decimals, its missing entries.

Everything here is computed from released counts, the header and public rules: post-processing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from understudy.curator import ReleasedKeys
from understudy.privacy import Noise
from understudy.schema.coding.profile import (
    DATE_FORMATS,
    DECADES,
    MISSING_SPELLINGS,
    MOST_DECIMALS,
    PROFILE,
)

__all__ = ["SOME", "UNSEEN", "Profile", "deviation"]

Array = npt.NDArray[np.float64]

_FEW = 0.05
"""A share of a column's entries below which they do not decide its kind."""
_NUMBERS = 0.2
"""The share of a column's entries that numbers have to be, beside words, for it to be asked whether the column is one of numbers."""
_CODE_WORDS = frozenset(
    [
        "id",
        "ids",
        "uuid",
        "code",
        "codes",
        "nr",
        "nbr",
        "no",
        "number",
        "key",
        "zip",
        "zipcode",
        "postcode",
        "plz",
        "icd",
        "diag",
        "diagnosis",
        "agent",
        "company",
        "fips",
        "isin",
        "mrn",
        "ssn",
    ]
)
"""Last words of names of columns, which are public, whose whole numbers are names rather than amounts."""
_BARELY = 1.5
"""A count below so many times what noise hardly ever exceeds is doubted where another look speaks against it."""
SOME = {False: 1.5, True: 0.5}
"""Standard deviations that the entries which are of no range have to hold for there to be a place for them; fewer where the noise may hide a share of the rows that matters."""
UNSEEN = 0.02
"""Where the standard deviation of the noise is more than this share of the rows, there is a place for entries that may be there unseen."""

_ENTRIES = np.array([not label.startswith("missing ") for label in PROFILE])
_TOGETHER = tuple(
    np.array([PROFILE.index(label) for label in labels])
    for labels in (
        ["number 0", "number +1e0 0"],
        ["number 0", "number +1e0 0", "number +1e1 0"],
        *(
            [f"number +1e{power} {d}" for power in (start, start + 1)]
            for start in range(7)
            for d in (0, 1, 2)
        ),
        ["text", "truth n", "truth y", "truth no", "truth yes"],
        [f"date {name}" for name, _ in DATE_FORMATS if name.startswith("Y-m-d")],
    )
)
"""Cells that columns are often divided among: whole numbers of one and two digits, numbers of two sizes that follow each other, texts, dates and times."""
_FEWER = 0.9
"""Part of what a single cell has to hold, in standard deviations, that is enough for such a group: there are fewer of them."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Noisy counts over the cells of `PROFILE`."""

    counts: Array
    sigma: float
    least: float

    @cached_property
    def held(self) -> npt.NDArray[np.bool_]:
        """Cells that surely hold entries; where none does that is not of missing ones, the cells that do together, if any."""
        found = self.counts > self.least
        if not found[_ENTRIES].any():
            sums = [float(self.counts[group].sum()) / len(group) ** 0.5 for group in _TOGETHER]
            best = _TOGETHER[int(np.argmax(sums))]
            if max(sums) > self.least * _FEWER:
                found[best] = self.counts[best] > 0
        return found

    def sure(self, start: str) -> float:
        """Return the rows in cells whose label begins so, as far as they stand out of the noise."""
        named = np.array([label.startswith(start) for label in PROFILE])
        return float(self.counts[self.held & named].sum())

    @property
    def missing(self) -> float:
        """Rows without an entry."""
        return self.sure("missing ")

    def may_be_missing(self, rows: float) -> bool:
        """Whether entries may be empty: their count is more than noise usually is, or the noise may hide a share of the rows that matters."""
        return float(self.counts[PROFILE.index("missing ")]) > 1.5 * self.sigma or self.sigma > UNSEEN * rows

    def lacks(self, rows: float, start: str, rest: tuple[float, float] | None = None) -> bool:
        """Whether the column, as far as can be told from noise, has no missing entry and nothing but entries whose cells begin so.

        ``rest``, where it was counted, is how many entries are of no range, and the noise of that count, which is less than that of the profile.
        """
        if self.missing or self.sure(start) < self.entries:
            return False
        if rest is None:
            return not self.may_be_missing(rows)
        return rest[0] <= SOME[rest[1] > UNSEEN * rows] * rest[1]

    @property
    def numbers(self) -> float:
        """Rows with a number."""
        return self.sure("number ")

    @property
    def texts(self) -> float:
        """Rows with a text or a code."""
        return self.sure("text") + self.sure("code")

    @property
    def entries(self) -> float:
        """Rows with an entry of any kind."""
        return sum(self.sure(start) for start in ("truth ", "date ", "number ", "code", "text", "unusable"))

    @property
    def words(self) -> float:
        """Rows with a text that is no date, number, or code of digits; truth words among them."""
        return self.sure("text") + self.sure("truth ")

    @property
    def mixed(self) -> bool:
        """Whether the column surely holds both numbers and words, and hardly anything else."""
        total = self.entries
        return (
            self.numbers >= _NUMBERS * total
            and self.words > _FEW * total
            and total - self.numbers - self.words <= _FEW * total
        )

    def kind(self, name: str, *, texts: bool) -> str:
        """Return what the column holds: number, code, date, truth, text, mixed (numbers and words: its texts decide), or nothing (too little to see).

        Without a delta no text can be found: a column of numbers and words is one of numbers if most entries are numbers.
        """
        dates, truth, total = self.sure("date "), self.sure("truth "), self.entries
        if total <= 0:
            return "nothing"
        if self.sure("unusable") > 0.5 * total:
            return "unusable"
        others = total - self.numbers - dates
        if dates > 0.5 * total and others <= _FEW * total:
            return "date"
        if self.numbers > 0.5 * total and others <= _FEW * total:
            return "code" if texts and self.whole and _is_code(name) else "number"
        if self.mixed and not _is_code(name):
            return "mixed" if texts else "number" if self.numbers > 0.5 * total else "text"
        if not texts and truth > (1 - _FEW) * total:
            return "truth"
        return "text"

    @property
    def whole(self) -> bool:
        """Whether numbers have no decimals."""
        return self.decimals == 0

    @property
    def small(self) -> bool:
        """Whether all numbers are whole and have one or two digits, as far as can be seen: each can be counted by itself."""
        return self.whole and not any(
            many > 0 for sign, power, many in self.decades() if sign < 0 or power > 1
        )

    @property
    def continuous(self) -> bool:
        """Whether numbers have decimals and none is negative: ranges say more about them than frequent texts."""
        return not self.whole and not any(many > 0 for sign, _, many in self.decades() if sign < 0)

    @property
    def decimals(self) -> int | None:
        """Return how many decimals numbers have; None for many."""
        held = [
            sum(
                many
                for label, many, held in self._numbers
                if held and label.endswith(f" {d}") and many > (1.2 * self.least if self._stands_out else 0)
            )
            for d in range(1, MOST_DECIMALS + 1)
        ]
        frequent = [d for d, many in enumerate(held, start=1) if many > 0.01 * self.numbers]
        most = max(frequent, default=0)
        return None if most == MOST_DECIMALS else most

    @property
    def _stands_out(self) -> bool:
        """Whether a cell by itself surely holds entries."""
        return bool((self.counts[_ENTRIES] > self.least).any())

    @property
    def _numbers(self) -> list[tuple[str, float, bool]]:
        return [
            (label, float(many), bool(held))
            for label, many, held in zip(PROFILE, self.counts, self.held, strict=True)
            if label.startswith("number ") and label != "number 0"
        ]

    def decades(self) -> list[tuple[int, int, float]]:
        """Return sign, power of ten and noisy count of each decade."""
        found: dict[tuple[int, int], float] = {}
        for label, many, held in self._numbers:
            _, size, _ = label.split(" ")
            if size[1:] in ("small", "large"):
                continue
            place = (1 if size[0] == "+" else -1, int(size.partition("1e")[2]))
            found[place] = found.get(place, 0.0) + (many if held else 0.0)
        assert len(found) == 2 * len(DECADES)
        return [(sign, power, many) for (sign, power), many in found.items()]

    @property
    def date_format(self) -> str | None:
        """Return the way most dates are written; day first where days and months cannot be told apart."""
        unsure = self.sure("date d or m/Y")
        held = {name: self.sure(f"date {name}") for name, _ in DATE_FORMATS if name != "Y-m-d time"}
        held["Y-m-d"] = self.sure("date Y-m-d")  # with and without a time
        held["d/m/Y" if held["d/m/Y"] >= held["m/d/Y"] else "m/d/Y"] += unsure
        return dict(DATE_FORMATS)[max(held, key=lambda name: held[name])]

    def beside(self, keys: ReleasedKeys) -> Profile:
        """Return the counts without spellings of missing entries that stand out by a little only: had so many rows held one, it would have been released among frequent texts."""
        counts = self.counts.copy()
        released = {text.strip().lower() for text in keys.counts}
        for word in self.missing_spellings():
            place = PROFILE.index(f"missing {word}")
            if word not in released and keys.threshold < counts[place] < _BARELY * self.least:
                counts[place] = 0.0
        return replace(self, counts=counts)

    def missing_spellings(self) -> list[str]:
        """Return how missing entries are written, without blanks and in lower case."""
        return [
            word
            for word in MISSING_SPELLINGS
            if word and self.counts[PROFILE.index(f"missing {word}")] > self.least
        ]


def _is_code(name: str) -> bool:
    """Whether the name of a column says that its entries are names rather than amounts."""
    return _words(name)[-1].rstrip("0123456789") in _CODE_WORDS


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name.lower()) if word] or [""]


def deviation(noise: Noise) -> float:
    """Return the standard deviation of noise."""
    return math.sqrt(noise.variance)
