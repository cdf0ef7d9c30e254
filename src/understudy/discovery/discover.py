"""From noisy answers about raw entries to a schema: kinds, values, ranges, missing entries.

The order of the questions, and what each may cost, is the plan (:mod:`understudy.discovery.plan`). Questions are asked by the look
(:mod:`understudy.discovery.look`) and opened by the curator, which charges first. All else here is post-processing of what was released.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, ReleasedKeys, SealedCounts, release_keys
from understudy.discovery.look import seal_days, seal_keys, seal_profiles, seal_ranges
from understudy.discovery.plan import ROUNDS, DiscoveryPlan
from understudy.discovery.public_lists import completed, public_order
from understudy.discovery.ranges import (
    BINS,
    SEEN,
    Ranges,
    combined,
    first_numbers,
    first_years,
    refined,
    round_day,
    round_number,
    settled,
    split_days,
    split_numbers,
    tails_of_days,
    tails_of_numbers,
)
from understudy.errors import BudgetError, NothingDiscovered, SchemaError
from understudy.marginals import Measurement
from understudy.privacy import Noise
from understudy.schema import Boolean, Categorical, Column, Date, Integer, Ordinal, Real, Schema
from understudy.schema.coding.calendar import show_day
from understudy.schema.coding.profile import (
    DATE_FORMATS,
    DECADES,
    MISSING_SPELLINGS,
    MOST_DECIMALS,
    PROFILE,
    canonical_number,
    number_in,
)

__all__ = ["Discovery", "NothingDiscovered", "discover"]

Array = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]

_FALSE = 0.02
"""How probable it is, at most, that any cell of one question which is empty is taken to hold entries."""
_FEW = 0.05
"""A share of a column's entries below which they do not decide its kind."""
_ALL = 0.98
"""The share of a column's numbers that frequent values have to hold for the column to be those values."""
_LEAST_HELD = 0.1
"""A column of text whose frequent values hold less than this share of its entries is left out."""
_UNSEEN = 0.02
"""Where noise may hide more than this share of the rows, text may be missing."""
_MANY_TEXTS = 10
"""How many times the rows that a text needs a column of numbers has to hold for its frequent texts to be asked for."""
_WHOLE_CYCLE = 0.7
"""The part of a calendar or clock that has to be found for a column to be one."""
_MOST_SPIKES = 40
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
_CYCLES = ((1, 7), (1, 12), (0, 23), (1, 31), (1, 53), (0, 59))
"""Ranges of whole numbers that calendars and clocks have."""
_CYCLE_NAMES = {
    "weekday": (1, 7),
    "month": (1, 12),
    "hour": (0, 23),
    "day": (1, 31),
    "week": (1, 53),
    "minute": (0, 59),
    "quarter": (1, 4),
}
"""Last words of names of columns, which are public, that such a range goes with."""
_SENTINELS = (-9.0, -99.0, -999.0, -9999.0)
"""Numbers that stand for a missing entry where no other number is negative."""


@dataclass(frozen=True)
class Discovery:
    """A schema that was learnt under the budget.

    Attributes
    ----------
    schema
        Declared columns as they were declared, and the others with the origin *measured*.
    left_out
        Columns that are not in it, and why.
    rows
        About how many rows there are, from the same counts.
    """

    schema: Schema
    left_out: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0


def discover(
    curator: Curator,
    plan: DiscoveryPlan,
    *,
    given: Schema | None = None,
    progress: Progress = lambda words, fraction: None,
) -> Discovery:
    """Learn a schema from raw entries, within a budget.

    Parameters
    ----------
    curator
        Of an `EntryTable`. It pays, and cuts the table to the rows per person of its unit before any count.
    plan
        What is asked, and what it may cost.
    given
        A schema with the declared columns of the plan; its other facts are kept.
    progress
        Called with the name of a stage and a fraction.

    Returns
    -------
    Discovery
        The schema, and the columns that were left out.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot pay for the whole plan. Nothing was drawn.
    NothingDiscovered
        If nothing could be told from noise. What was asked is paid for.

    Privacy
    -------
    In: private. Out: releasable. Counts over partitions that are public when they are asked for
    (:func:`~understudy.discovery.look.seal_profiles`, :func:`~understudy.discovery.look.seal_ranges`, :func:`~understudy.discovery.look.seal_days`), and texts above a threshold
    (:func:`~understudy.curator.release_keys`); each is charged before it is drawn, and the schema is computed from the answers and the header alone.
    """
    if plan.unit != curator.unit:
        raise BudgetError("The plan of discovery was made for another unit than the curator protects.")
    work = curator.within(plan.budget, scope="discover", accounting=plan.accounting, reserve=plan.reserve)
    progress("looking at entries", 0.0)
    profiles = _ask_profiles(work, plan)
    rows = max(1.0, float(np.median([item.entries + item.missing for item in profiles.values()])))
    kinds = {name: profile.kind(name, texts=plan.finds_texts) for name, profile in profiles.items()}
    progress("finding values", 0.3)
    keys = _ask_keys(work, plan, profiles, kinds)
    descents = _begin(plan, profiles, kinds, keys, rows)
    progress("finding ranges", 0.5)
    _ask_ranges(work, plan, descents, progress)
    columns: dict[str, Column] = {}
    left_out: dict[str, str] = {}
    for name in plan.columns:
        try:
            made = _column(name, profiles[name], kinds[name], keys.get(name), descents.get(name), rows, plan)
        except SchemaError:  # the answers are paid for: one column must not take the others with it
            made = "what was measured about it does not make a column; declare the column"
        if isinstance(made, str):
            left_out[name] = made
        else:
            columns[name] = made
    columns |= {column.name: column for column in plan.given}
    if not columns:
        raise NothingDiscovered(
            left_out,
            "No column could be told from noise, so there is no schema. What was asked is paid for. Ask for a larger share of the budget or a "
            "larger budget, or declare the columns in a schema.",
        )
    return Discovery(_schema(given, plan, columns), left_out, round(rows))


def _schema(given: Schema | None, plan: DiscoveryPlan, columns: Mapping[str, Column]) -> Schema:
    names = [*(name for name in plan.columns if name in columns), *(column.name for column in plan.given)]
    ordered = tuple(columns[name] for name in names)
    if given is None:
        return Schema(columns=ordered)
    return dataclasses.replace(given, columns=ordered)


# ----------------------------------------------------------------------------------------
# First question: what entries look like.


@dataclass(frozen=True, eq=False)
class _Profile:
    """Noisy counts over the cells of `PROFILE`."""

    counts: Array
    sigma: float
    least: float

    def sure(self, start: str) -> float:
        """Return the rows in cells whose label begins so, as far as they stand out of the noise."""
        held = np.array([label.startswith(start) for label in PROFILE]) & (self.counts > self.least)
        return float(self.counts[held].sum())

    @property
    def missing(self) -> float:
        return self.sure("missing ")

    def may_be_missing(self, rows: float) -> bool:
        """Whether entries may be empty: their count is more than noise usually is, or the noise may hide a share of the rows that matters."""
        return float(self.counts[PROFILE.index("missing ")]) > 1.5 * self.sigma or self.least > _UNSEEN * rows

    @property
    def numbers(self) -> float:
        return self.sure("number ")

    @property
    def texts(self) -> float:
        return self.sure("text") + self.sure("code")

    @property
    def entries(self) -> float:
        return sum(self.sure(start) for start in ("truth ", "date ", "number ", "code", "text", "unusable"))

    def kind(self, name: str, *, texts: bool) -> str:
        """Return what the column holds: number, code, date, truth, text, or nothing (too little to see)."""
        dates, truth, total = self.sure("date "), self.sure("truth "), self.entries
        if total <= 0:
            return "nothing"
        if self.sure("unusable") > 0.5 * total:
            return "unusable"
        others = total - self.numbers - dates
        if dates > 0.5 * total and others <= _FEW * total:
            return "date"
        if self.numbers > 0.5 * total and others <= _FEW * total:
            return (
                "code"
                if texts and self.whole and _words(name)[-1].rstrip("0123456789") in _CODE_WORDS
                else "number"
            )
        if not texts and truth > (1 - _FEW) * total:
            return "truth"
        return "text"

    @property
    def whole(self) -> bool:
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
            sum(float(c) for label, c in self._numbers if label.endswith(f" {d}") and c > 1.2 * self.least)
            for d in range(1, MOST_DECIMALS + 1)
        ]
        frequent = [d for d, many in enumerate(held, start=1) if many > 0.01 * self.numbers]
        most = max(frequent, default=0)
        return None if most == MOST_DECIMALS else most

    @property
    def _numbers(self) -> list[tuple[str, float]]:
        return [
            (label, float(c))
            for label, c in zip(PROFILE, self.counts, strict=True)
            if label.startswith("number ") and label != "number 0"
        ]

    def decades(self) -> list[tuple[int, int, float]]:
        """Return sign, power of ten and noisy count of each decade."""
        found: dict[tuple[int, int], float] = {}
        for label, many in self._numbers:
            _, size, _ = label.split(" ")
            if size[1:] in ("small", "large"):
                continue
            place = (1 if size[0] == "+" else -1, int(size.partition("1e")[2]))
            found[place] = found.get(place, 0.0) + max(0.0, many if many > self.least else 0.0)
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

    def missing_spellings(self) -> list[str]:
        """Return how missing entries are written, without blanks and in lower case."""
        return [
            word
            for word in MISSING_SPELLINGS
            if word and self.counts[PROFILE.index(f"missing {word}")] > self.least
        ]


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name.lower()) if word] or [""]


def _deviation(noise: Noise) -> float:
    return math.sqrt(noise.variance)


def _least(noise: Noise, cells: int) -> float:
    """Return what an empty cell, any of so many, exceeds with probability `_FALSE` at most."""
    return float(noise.quantile(1 - _FALSE / cells))


def _ask_profiles(work: Curator, plan: DiscoveryPlan) -> dict[str, _Profile]:
    noise = plan.noise(plan.profile_cost())
    found = work.measure_many(
        seal_profiles(work, plan.columns),
        noise=[noise] * len(plan.columns),
        purpose=f"discover what the entries of {len(plan.columns)} columns look like",
    )
    return {
        name: _Profile(
            np.asarray(item.values, dtype=np.float64), _deviation(noise), _least(noise, len(PROFILE))
        )
        for name, item in zip(plan.columns, found, strict=True)
    }


# ----------------------------------------------------------------------------------------
# Second question: frequent texts.


def _ask_keys(
    work: Curator, plan: DiscoveryPlan, profiles: Mapping[str, _Profile], kinds: Mapping[str, str]
) -> dict[str, ReleasedKeys]:
    names = [
        name
        for name in plan.columns
        if kinds[name] in ("text", "code")
        or (kinds[name] == "number" and _has_frequent(plan, profiles[name]))
    ]
    if not plan.finds_texts or not names:
        return {}
    found = release_keys(
        work,
        [seal_keys(work, name) for name in names],
        noise=[plan.noise(plan.keys_cost(kinds[name] == "number")) for name in names],
        deltas=[plan.delta(len(names))] * len(names),
        purpose=f"discover frequent texts of {len(names)} columns",
    )
    return {item.name: item for item in found}


def _has_frequent(plan: DiscoveryPlan, profile: _Profile) -> bool:
    """Whether frequent texts of a column of numbers may say more than its ranges: it has whole numbers of three digits, and rows for several texts."""
    if not plan.finds_texts or profile.small or profile.continuous:
        return False
    return profile.numbers > _MANY_TEXTS * plan.threshold(numbers=True)


# ----------------------------------------------------------------------------------------
# Third question, in rounds: ranges of numbers and dates.


@dataclass(eq=False)
class _Descent:
    """One column whose ranges are being refined.

    Attributes
    ----------
    rounds, cost
        How many rounds there are, and what each costs.
    counts, sigma, sure
        Of the last round, in its cells: below the first edge, ranges, above the last edge, nothing.
    """

    name: str
    edges: list[Any]
    rounds: int
    cost: float
    seal: Callable[[Curator, Sequence[Any]], SealedCounts]
    split: Callable[[Any, Any, float], list[Any]]
    alone: frozenset[Any] = frozenset()
    roundness: Callable[[Any], int] = lambda edge: 0
    tails: Callable[[Any, Any], tuple[Any, Any]] = lambda low, high: (None, None)
    asked: list[Any] = field(default_factory=list)
    counts: Array = field(default_factory=lambda: np.zeros(0))
    sigma: Array = field(default_factory=lambda: np.zeros(0))
    sure: float = 0.0


def _begin(
    plan: DiscoveryPlan,
    profiles: Mapping[str, _Profile],
    kinds: Mapping[str, str],
    keys: Mapping[str, ReleasedKeys],
    rows: float,
) -> dict[str, _Descent]:
    found: dict[str, _Descent] = {}
    for name in plan.columns:
        if kinds[name] == "date":
            found[name] = _dates(plan, name, profiles[name])
        elif kinds[name] == "number" and not _is_values(profiles[name], keys.get(name)):
            found[name] = _numbers(plan, name, profiles[name], keys.get(name), rows)
    return found


def _dates(plan: DiscoveryPlan, name: str, profile: _Profile) -> _Descent:
    format = profile.date_format

    def seal(work: Curator, edges: Sequence[int]) -> SealedCounts:
        return seal_days(work, name, edges, format)

    cost = plan.round_cost(after_keys=False)
    return _Descent(
        name, first_years(), ROUNDS, cost, seal, split_days, roundness=round_day, tails=tails_of_days
    )


def _numbers(
    plan: DiscoveryPlan, name: str, profile: _Profile, keys: ReleasedKeys | None, rows: float
) -> _Descent:
    rounds = 1 if profile.small and _in_one(plan, profile) else ROUNDS
    cost = plan.round_cost(after_keys=keys is not None, rounds=rounds)
    decimals = profile.decimals
    unit = Decimal(1).scaleb(-(MOST_DECIMALS + 2 if decimals is None else decimals))
    zero = float(profile.counts[PROFILE.index("number 0")])
    edges = first_numbers(
        profile.decades(),
        sure=profile.least,
        sigma=_deviation(plan.noise(cost)),
        rows=max(profile.numbers, 1.0),
        whole=profile.whole,
        unit=unit,
        zero=zero,
    )
    spikes = sorted(_number_counts(keys), key=lambda item: -item[1])[:_MOST_SPIKES]
    values = {Decimal(canonical_number(number)) for number, many in spikes if many > rows / BINS}
    sentinel = _sentinel(profile, keys)
    if sentinel is not None:
        values.discard(Decimal(canonical_number(sentinel)))
        edges = [edge for edge in edges if edge >= 0]
    alone = {value for value in values if abs(value) < Decimal(10) ** DECADES.stop and value % unit == 0}
    if zero > max(profile.least, 0.02 * rows):
        alone.add(Decimal(0))
    for value in alone:
        edges += [value, value + unit]

    def seal(work: Curator, steps: Sequence[Decimal]) -> SealedCounts:
        return seal_ranges(work, name, [float(edge) for edge in steps])

    def split(low: Decimal, high: Decimal, parts: float) -> list[Decimal]:
        return split_numbers(low, high, parts, unit=unit)

    def tails(low: Decimal, high: Decimal) -> tuple[Decimal | None, Decimal | None]:
        return tails_of_numbers(low, high, least=unit if profile.whole else Decimal(0), unit=unit)

    return _Descent(
        name, sorted(set(edges)), rounds, cost, seal, split, frozenset(alone), round_number, tails
    )


def _in_one(plan: DiscoveryPlan, profile: _Profile) -> bool:
    """Whether whole numbers of at most two digits can be counted one by one at once: there are none of two, or enough for the noise."""
    sigma = _deviation(plan.noise(plan.round_cost(after_keys=False, rounds=1)))
    two = max(many for sign, power, many in profile.decades() if sign > 0 and power == 1)
    return two == 0 or two / (SEEN * sigma) >= 90


def _number_counts(keys: ReleasedKeys | None) -> list[tuple[float, int]]:
    """Return the numbers among frequent texts, with their noisy counts; spellings of one number are added up."""
    found: dict[float, int] = {}
    for text, many in () if keys is None else keys.counts.items():
        number = number_in(text)
        if number is not None and abs(number) < 10.0**DECADES.stop:
            found[number] = found.get(number, 0) + many
    return sorted(found.items())


def _is_values(profile: _Profile, keys: ReleasedKeys | None) -> bool:
    """Whether the frequent values of a column of numbers are nearly all of it."""
    return sum(many for _, many in _number_counts(keys)) >= _ALL * max(profile.numbers, 1.0)


def _ask_ranges(
    work: Curator, plan: DiscoveryPlan, descents: Mapping[str, _Descent], progress: Progress
) -> None:
    """Refine the ranges of all columns, round by round; where nothing is left to split, the same ranges are counted again."""
    for number in range(ROUNDS):
        active = [item for item in descents.values() if number < item.rounds]
        noise = [plan.noise(item.cost) for item in active]
        found = work.measure_many(
            [item.seal(work, item.edges) for item in active],
            noise=noise,
            purpose=f"discover ranges of {len(active)} columns, round {number + 1}",
        )
        for item, kind, answer in zip(active, noise, found, strict=True):
            _go_on(item, answer, kind, last=number == item.rounds - 1)
        progress("finding ranges", 0.5 + 0.5 * (number + 1) / ROUNDS)


def _go_on(item: _Descent, answer: Measurement, noise: Noise, *, last: bool) -> None:
    """Take the answer of a round, together with the one before, and refine the ranges unless it is the last."""
    counts, sigma = np.asarray(answer.values, dtype=np.float64), _deviation(noise)
    item.sure = _least(noise, len(counts)) / sigma
    if item.asked:
        item.counts, item.sigma = combined(item.asked, item.counts, sigma, item.edges, counts, sigma)
    else:
        item.counts, item.sigma = counts, np.full(len(counts), sigma)
    item.asked = item.edges
    if not last:
        item.edges = refined(item.edges, item.counts, sigma=sigma, split=item.split)


# ----------------------------------------------------------------------------------------
# The columns.


def _column(
    name: str,
    profile: _Profile,
    kind: str,
    keys: ReleasedKeys | None,
    descent: _Descent | None,
    rows: float,
    plan: DiscoveryPlan,
) -> Column | str:
    """Return a column, or the reason why it is left out."""
    if kind == "nothing":
        return "too few entries stand out of the noise; ask for a larger share of the budget, or declare the column"
    if kind == "unusable":
        return "most entries are long texts, have control characters, or are neither text nor numbers"
    if kind == "truth":
        return Boolean(name, missing=True, out_of_domain="to-missing", origin="measured")
    if kind == "text" and keys is None:
        return "its entries are text, and finding texts takes a delta; give one, or declare the values of the column"
    if kind in ("text", "code"):
        assert keys is not None
        return _text_column(name, profile, keys, rows)
    if descent is None:
        return _values_column(name, profile, keys)
    ranges = settled(
        descent.edges,
        descent.counts,
        sigma=descent.sigma,
        sure=descent.sure,
        alone=descent.alone,
        roundness=descent.roundness,
        tails=descent.tails,
    )
    if ranges is None:
        return "no range stands out of the noise; ask for a larger share of the budget, or declare the column"
    if kind == "date":
        return _date_column(name, profile, ranges)
    return _cycle_column(name, profile, descent, ranges, keys) or _number_column(name, profile, ranges, keys)


def _cycle_column(
    name: str, profile: _Profile, descent: _Descent, ranges: Ranges[Decimal], keys: ReleasedKeys | None
) -> Column | None:
    """Return a column of the calendar or clock that its name says, unless the counts say otherwise: there is more, or only a part of it."""
    words = _words(name)
    cycle = _CYCLE_NAMES.get(words[-1])
    if cycle is None or "per" in words or not profile.whole:
        return None
    if ranges.edges[-1] - ranges.edges[0] < Decimal(_WHOLE_CYCLE) * (cycle[1] - cycle[0]):
        return None
    beyond = [
        float(many)
        for edge, many in zip(descent.edges, descent.counts[1:], strict=False)
        if edge > cycle[1] or edge < min(cycle[0], 0)
    ]
    beyond.append(float(descent.counts[0]))
    sigma = float(descent.sigma.max())
    if max(beyond) > descent.sure * sigma or sum(beyond) > 3 * sigma * len(beyond) ** 0.5:
        return None
    return Integer(name, minimum=cycle[0], maximum=cycle[1], **_of_numbers(profile, keys))


def _missing(profile: _Profile, keys: ReleasedKeys | None) -> list[str]:
    """Return spellings of missing entries: as found among frequent texts, or in the usual forms."""
    found = (
        [] if keys is None else [text for text in keys.counts if text.strip().lower() in MISSING_SPELLINGS]
    )
    spelled = {text.strip().lower() for text in found}
    for word in profile.missing_spellings():
        if word not in spelled:
            found += [word, word.upper()]
    return [text for text in dict.fromkeys(found) if text]


def _text_column(name: str, profile: _Profile, keys: ReleasedKeys, rows: float) -> Column | str:
    missing = _missing(profile, keys)
    values = {text: many for text, many in keys.counts.items() if text not in missing and text != "other"}
    values = {text: many for text, many in values.items() if text.strip().lower() not in MISSING_SPELLINGS}
    if not values:
        return (
            f"no text occurs often enough to be released (at least {keys.threshold:,} rows, noise included)"
        )
    if sum(values.values()) < _LEAST_HELD * (profile.entries or rows):
        return "frequent texts hold next to nothing of the column: most entries are unique or rare"
    shared: dict[str, Any] = {"out_of_domain": "to-other", "origin": "measured"}
    order = public_order(values)
    rest = max(0.0, rows - profile.missing - sum(values.values()))
    if missing or profile.missing > 0 or profile.may_be_missing(rows):
        shared |= {"missing": True, "missing_values": tuple(missing), "missing_text": _written(keys)}
        if order is not None or rest < 2 * profile.sigma:  # one cell for what is nowhere else is enough
            shared["out_of_domain"] = "to-missing"
    if order is not None:
        return Ordinal(name, values=order, **shared)
    whole = completed(list(values), rest=rest, noise=_deviation(keys.noise), threshold=keys.threshold)
    return Categorical(name, values=whole, **shared)


def _values_column(name: str, profile: _Profile, keys: ReleasedKeys | None) -> Column | str:
    absent = _sentinel(profile, keys)
    numbers = [number for number, _ in _number_counts(keys) if number != absent]
    if not numbers:
        return "its only frequent number is one that stands for a missing entry; declare the column"
    shared = _of_numbers(profile, keys)
    if not all(number == int(number) for number in numbers):
        return Real(name, values=tuple(numbers), **shared)
    whole = [int(number) for number in numbers]
    low, high = whole[0], whole[-1]
    for first, last in _CYCLES:
        if first <= low and high <= last and len(whole) >= 0.7 * (last - first + 1):
            return Integer(name, minimum=first, maximum=last, **shared)
    if (
        len(whole) == high - low + 1
        and sum(many for _, many in _number_counts(keys)) > 0.99 * profile.numbers
    ):
        return Integer(name, minimum=low, maximum=high, **shared)
    if len(whole) >= 0.8 * (high - low + 1):
        edges = list(range(low, high + 2))
        return Integer(name, bins={"edges": edges, "open": "both"}, decode_by="smooth", **shared)
    return Integer(name, values=tuple(whole), **shared)


def _of_numbers(profile: _Profile, keys: ReleasedKeys | None = None) -> dict[str, Any]:
    """Return what every measured column of numbers or dates says: what cannot be placed is missing, whatever it is."""
    spelled: list[str | int | float] = [text for text in _missing(profile, keys) if number_in(text) is None]
    sentinel = _sentinel(profile, keys)
    if sentinel is not None:
        spelled.append(int(sentinel))
    return {
        "missing": True,
        "missing_values": tuple(spelled),
        "missing_text": _written(keys),
        "out_of_domain": "to-missing",
        "origin": "measured",
    }


def _written(keys: ReleasedKeys | None) -> str:
    """Return how missing entries are written: the most frequent spelling that was released; nothing where none was."""
    spelled = (
        {}
        if keys is None
        else {text: many for text, many in keys.counts.items() if text.strip().lower() in MISSING_SPELLINGS}
    )
    return max(spelled, key=lambda text: spelled[text]) if spelled else ""


def _number_column(
    name: str, profile: _Profile, ranges: Ranges[Decimal], keys: ReleasedKeys | None
) -> Column:
    shared = _of_numbers(profile, keys)
    edges = [int(edge) if profile.whole else float(edge) for edge in ranges.edges]
    single = (
        profile.whole and not ranges.below and not ranges.above and edges[-1] - edges[0] == len(edges) - 1
    )
    if single and len(edges) > 2:
        return Integer(name, minimum=int(edges[0]), maximum=int(edges[-1]) - 1, **shared)
    shared |= {"bins": _bins(edges, ranges, whole=profile.whole), "decode_by": "smooth"}
    return Integer(name, **shared) if profile.whole else Real(name, decimals=profile.decimals, **shared)


def _bins(edges: Sequence[Any], ranges: Ranges[Any], *, whole: bool) -> dict[str, Any]:
    """Return bins with an open one on each side where something was found; a last range of several whole numbers has no end, or ends with its last number."""
    above = ranges.above or (whole and edges[-1] - edges[-2] == 1)
    last = edges[-1] - (1 if whole and not above else 0)
    open = {(False, False): "none", (True, False): "low", (False, True): "high", (True, True): "both"}
    return {"edges": [*edges[:-1], last], "open": open[ranges.below, above]}


def _sentinel(profile: _Profile, keys: ReleasedKeys | None) -> float | None:
    """Return the number that stands for a missing entry: a frequent one of the usual ones, if there are hardly any other negative ones."""
    found = [(number, many) for number, many in _number_counts(keys) if number in _SENTINELS]
    if len(found) != 1:
        return None
    negative = sum(many for sign, _, many in profile.decades() if sign < 0)
    number, many = found[0]
    return number if negative - many <= 3 * profile.sigma else None


def _date_column(name: str, profile: _Profile, ranges: Ranges[int]) -> Column:
    bins = _bins(ranges.edges, ranges, whole=True)
    return Date(
        name,
        bins=bins | {"edges": [show_day(int(day)) for day in bins["edges"]]},
        format=profile.date_format,
        decode_by="smooth",
        **_of_numbers(profile),
    )
