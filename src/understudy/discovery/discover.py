"""From noisy answers about raw entries to a schema: kinds, values, ranges, missing entries.

The order of the questions, and what each may cost, is the plan (:mod:`understudy.discovery.plan`). Questions are asked by the look
(:mod:`understudy.discovery.look`) and opened by the curator, which charges first. All else here is post-processing of what was released.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, ReleasedKeys, SealedCounts, release_keys
from understudy.discovery.columns import (
    LEAST_HELD,
    Descent,
    Found,
    column_of,
    holds_all,
    holds_numbers,
    missing_number,
    number_counts,
    suspected_numbers,
)
from understudy.discovery.look import seal_days, seal_keys, seal_profiles, seal_ranges
from understudy.discovery.plan import ROUNDS, DiscoveryPlan, sure_count
from understudy.discovery.profiles import Profile, deviation
from understudy.discovery.public_lists import OLDEST, YEARS, names_a_year, names_an_age
from understudy.discovery.ranges import (
    BINS,
    SEEN,
    combined,
    first_numbers,
    first_years,
    refined,
    round_day,
    round_number,
    split_days,
    split_numbers,
    tails_of_days,
    tails_of_numbers,
    tails_of_years,
    year_edges,
)
from understudy.errors import BudgetError, NothingDiscovered, SchemaError
from understudy.marginals import Measurement
from understudy.privacy import Noise
from understudy.privacy.exact_floats import float_down
from understudy.schema import Column, Date, Schema
from understudy.schema.coding.profile import (
    DECADES,
    MISSING_SPELLINGS,
    MOST_DECIMALS,
    PROFILE,
    canonical_number,
)

__all__ = ["Discovery", "NothingDiscovered", "discover"]

Array = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]
_MANY_TEXTS = 10
"""How many times the rows that a text needs a column of numbers has to hold for its frequent texts to be asked for."""
_MOST_SPIKES = 40
_YEARS = 0.9
"""The share of the numbers of a column named after years that have to be of four digits for them to be counted year by year."""


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
    rows_wanted
        About how many rows the plan is for: in a table of fewer much stays hidden. 0 where that was not said.
    found
        What is to be said of each column that was found.
    """

    schema: Schema
    left_out: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    rows_wanted: int = 0
    found: Mapping[str, Found] = field(default_factory=dict)

    @property
    def is_small(self) -> bool:
        """Whether the table has fewer rows than the plan is for."""
        return self.rows < self.rows_wanted

    @property
    def unordered_dates(self) -> tuple[str, ...]:
        """The columns of dates that no rule ties to another one, where there are several: their order is not ensured in synthetic rows."""
        dates = [column.name for column in self.schema.columns if isinstance(column, Date)]
        tied = {
            name
            for rule in self.schema.rules
            if len(set(dates) & set(rule.columns)) > 1
            for name in rule.columns
        }
        free = tuple(name for name in dates if name not in tied)
        return free if free and len(dates) > 1 else ()


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
    parts = plan.parts(kinds)
    progress("finding values", 0.3)
    keys, spared = _ask_keys(work, plan, parts, profiles, kinds, rows)
    kinds, for_ranges = _settled(profiles, kinds, keys, spared)
    spared = {name: cost for name, cost in spared.items() if name not in for_ranges}
    keys |= _ask_again(work, plan, keys, _hidden(profiles, kinds, keys, rows), spared)
    descents = _begin(plan, parts, profiles, kinds, keys, rows, for_ranges)
    progress("finding ranges", 0.5)
    _ask_ranges(work, plan, descents, progress)
    columns: dict[str, Column] = {}
    told: dict[str, Found] = {}
    left_out: dict[str, str] = {}
    for name in plan.columns:
        made: Found | str
        try:
            made = column_of(name, profiles[name], kinds[name], keys.get(name), descents.get(name), rows)
        except SchemaError:  # the answers are paid for: one column must not take the others with it
            made = "what was measured about it does not make a column; declare the column"
        if isinstance(made, str):
            left_out[name] = made
        else:
            columns[name], told[name] = made.column, made
    columns |= {column.name: column for column in plan.given}
    if not columns:
        raise NothingDiscovered(
            left_out,
            "No column could be told from noise, so there is no schema. What was asked is paid for. Ask for a larger share of the budget or a "
            "larger budget, or declare the columns in a schema.",
        )
    return Discovery(_schema(given, plan, columns), left_out, round(rows), plan.rows_wanted(), told)


def _schema(given: Schema | None, plan: DiscoveryPlan, columns: Mapping[str, Column]) -> Schema:
    order = plan.header or (*plan.columns, *(column.name for column in plan.given))
    ordered = tuple(columns[name] for name in order if name in columns)
    if given is None:
        return Schema(columns=ordered)
    return dataclasses.replace(given, columns=ordered)


# ----------------------------------------------------------------------------------------
# First question: what entries look like.


def _ask_profiles(work: Curator, plan: DiscoveryPlan) -> dict[str, Profile]:
    noise = plan.noise(plan.profile_cost())
    found = work.measure_many(
        seal_profiles(work, plan.columns),
        noise=[noise] * len(plan.columns),
        purpose=f"discover what the entries of {len(plan.columns)} columns look like",
    )
    return {
        name: Profile(
            np.asarray(item.values, dtype=np.float64), deviation(noise), sure_count(noise, len(PROFILE))
        )
        for name, item in zip(plan.columns, found, strict=True)
    }


# ----------------------------------------------------------------------------------------
# Second question: frequent texts.


def _ask_keys(
    work: Curator,
    plan: DiscoveryPlan,
    parts: Mapping[str, Fraction],
    profiles: Mapping[str, Profile],
    kinds: Mapping[str, str],
    rows: float,
) -> tuple[dict[str, ReleasedKeys], dict[str, float]]:
    """Ask for the frequent texts of columns; return them, and what each column of text, or of numbers and words, has left of its part."""
    names = [
        name
        for name in plan.columns
        if kinds[name] in ("text", "code", "mixed")
        or (
            kinds[name] == "number"
            and not _are_years(name, profiles[name])
            and _has_frequent(plan, parts[name], profiles[name])
        )
    ]
    if not plan.finds_texts or not names:
        return {}, {}
    costs = {
        name: plan.words_cost(parts[name])
        if kinds[name] == "mixed"
        else plan.keys_cost(kinds[name] == "number", parts[name])
        for name in names
    }
    texts = [name for name in names if kinds[name] != "number"]
    first = costs | {name: plan.frugal(costs[name], rows) for name in texts}
    whole = {name: plan.column_cost(parts[name]) if kinds[name] == "mixed" else costs[name] for name in texts}
    spared = {name: float_down(Fraction(whole[name]) - Fraction(first[name])) for name in texts}
    delta = plan.delta(len(names), again=any(spared.values()))
    found = release_keys(
        work,
        [seal_keys(work, name) for name in names],
        noise=[plan.noise(first[name]) for name in names],
        deltas=[delta] * len(names),
        purpose=f"discover frequent texts of {len(names)} columns",
    )
    return {item.name: item for item in found}, spared


def _settled(
    profiles: Mapping[str, Profile],
    kinds: Mapping[str, str],
    keys: Mapping[str, ReleasedKeys],
    spared: Mapping[str, float],
) -> tuple[dict[str, str], dict[str, float]]:
    """Decide by their frequent texts which columns of numbers and words are numbers, and which are text; return all kinds, and what the former have left for their ranges."""
    found = dict(kinds)
    left: dict[str, float] = {}
    for name, kind in kinds.items():
        if kind == "mixed":
            found[name] = "number" if holds_numbers(profiles[name], keys[name]) else "text"
            if found[name] == "number":
                left[name] = spared[name]
    return found, left


def _hidden(
    profiles: Mapping[str, Profile], kinds: Mapping[str, str], keys: Mapping[str, ReleasedKeys], rows: float
) -> dict[str, bool]:
    """Return the columns of text with more rows without a released text than noise explains, and whether the texts that were released hold enough for the others to be worth more."""
    found: dict[str, bool] = {}
    for name, item in keys.items():
        if kinds[name] == "number":
            continue
        spelled = sum(many for text, many in item.counts.items() if text.strip().lower() in MISSING_SPELLINGS)
        held = sum(item.counts.values()) - spelled
        rest = rows - profiles[name].missing - held
        noise = deviation(item.noise) * max(1, len(item.counts)) ** 0.5
        if rest > noise:
            found[name] = held >= LEAST_HELD * (profiles[name].entries or rows)
    return found


def _ask_again(
    work: Curator,
    plan: DiscoveryPlan,
    keys: Mapping[str, ReleasedKeys],
    hidden: Mapping[str, bool],
    spared: Mapping[str, float],
) -> dict[str, ReleasedKeys]:
    """Ask once more, with less noise, for the texts of columns of which rows are left, and put both answers together.

    Half of what the other columns of text have spared is divided among those whose frequent texts hold a part of them; columns of which next to nothing was released spend their own.
    The other columns spend the rest themselves: a text of few rows may be left although the first look explains nearly all.
    """
    full = sum(hidden.values())
    given = Fraction(1, 2) if full else Fraction(0)
    left = given * sum((Fraction(cost) for name, cost in spared.items() if name not in hidden), Fraction(0))
    costs = {
        name: float_down(
            Fraction(cost) * (1 if name in hidden else 1 - given) + (left / full if hidden.get(name) else 0)
        )
        for name, cost in spared.items()
    }
    names = [name for name, cost in costs.items() if cost > 0]
    if not names:
        return {}
    found = release_keys(
        work,
        [seal_keys(work, name) for name in names],
        noise=[plan.noise(costs[name]) for name in names],
        deltas=[plan.delta(len(names), again=True)] * len(names),
        purpose=f"discover rarer texts of {len(names)} columns",
    )
    return {item.name: _both(keys[item.name], item) for item in found}


def _both(first: ReleasedKeys, second: ReleasedKeys) -> ReleasedKeys:
    """Put two answers about the same texts together: counts that both have are averaged by their precision."""
    weight = second.noise.variance / (first.noise.variance + second.noise.variance)
    counts = dict(first.counts)
    for text, many in second.counts.items():
        counts[text] = round(weight * counts[text] + (1 - weight) * many) if text in first.counts else many
    less = min(first, second, key=lambda item: item.threshold)
    return ReleasedKeys(
        first.name, {text: counts[text] for text in sorted(counts)}, less.threshold, less.noise
    )


def _are_years(name: str, profile: Profile) -> bool:
    """Whether whole numbers of four digits are years of the calendar, as the name of their column says: each year is then counted by itself."""
    thousands = sum(many for sign, power, many in profile.decades() if sign > 0 and power == 3)
    return names_a_year(name) and profile.whole and thousands > _YEARS * profile.numbers


def _has_frequent(plan: DiscoveryPlan, part: Fraction, profile: Profile) -> bool:
    """Whether frequent texts of a column of numbers may say more than its ranges: it has whole numbers of three digits, and rows for several texts."""
    if not plan.finds_texts or profile.small or profile.continuous:
        return False
    return profile.numbers > _MANY_TEXTS * plan.threshold(numbers=True, part=part)


# ----------------------------------------------------------------------------------------
# Third question, in rounds: ranges of numbers and dates.


def _begin(
    plan: DiscoveryPlan,
    parts: Mapping[str, Fraction],
    profiles: Mapping[str, Profile],
    kinds: Mapping[str, str],
    keys: Mapping[str, ReleasedKeys],
    rows: float,
    left: Mapping[str, float],
) -> dict[str, Descent]:
    """Return the columns whose ranges are asked for; some have so much left for it, the others what the plan says."""
    found: dict[str, Descent] = {}
    for name in plan.columns:
        if kinds[name] == "date":
            found[name] = _dates(plan, parts[name], name, profiles[name])
        elif kinds[name] == "number" and not holds_all(profiles[name], keys.get(name)):
            cost = left.get(name)
            if cost is None:
                cost = plan.round_cost(after_keys=name in keys, rounds=1, part=parts[name])
            found[name] = _numbers(plan, name, profiles[name], keys.get(name), rows, cost)
    return found


def _dates(plan: DiscoveryPlan, part: Fraction, name: str, profile: Profile) -> Descent:
    format = profile.date_format

    def seal(work: Curator, edges: Sequence[int]) -> SealedCounts:
        return seal_days(work, name, edges, format)

    cost = plan.round_cost(after_keys=False, part=part)
    return Descent(
        name, first_years(), ROUNDS, cost, seal, split_days, roundness=round_day, tails=tails_of_days
    )


def _numbers(
    plan: DiscoveryPlan,
    name: str,
    profile: Profile,
    keys: ReleasedKeys | None,
    rows: float,
    whole: float,
) -> Descent:
    """Begin with a column of numbers, for whose ranges so much is left."""
    years = _are_years(name, profile)
    rounds = 1 if years or (profile.small and _in_one(plan, profile, whole)) else ROUNDS
    cost = float_down(Fraction(whole) / rounds)
    decimals = profile.decimals
    unit = Decimal(1).scaleb(-(MOST_DECIMALS + 2 if decimals is None else decimals))
    zero = float(profile.counts[PROFILE.index("number 0")])
    edges = first_numbers(
        profile.decades(),
        sure=profile.least,
        sigma=deviation(plan.noise(cost)),
        rows=max(profile.numbers, 1.0),
        whole=profile.whole,
        unit=unit,
        zero=zero,
    )
    if years:
        edges = year_edges(*YEARS)
    elif names_an_age(name) and unit <= 1:  # ranges end where the public range of ages does
        edges = sorted({*edges, Decimal(OLDEST) + (unit if profile.whole else 0)})
    spikes = sorted(number_counts(keys), key=lambda item: -item[1])[:_MOST_SPIKES]
    values = {Decimal(canonical_number(number)) for number, many in spikes if many > rows / BINS}
    absent = missing_number(profile, keys)
    if absent is not None:
        values.discard(Decimal(canonical_number(absent)))
        edges = [edge for edge in edges if edge >= 0]
    alone = {value for value in values if abs(value) < Decimal(10) ** DECADES.stop and value % unit == 0}
    if zero > max(profile.least, 0.02 * rows):
        alone.add(Decimal(0))
    alone = _told_apart(alone, edges, unit)
    for value in alone:
        edges += [value, value + unit]
    known = set(edges)
    suspected = {
        number: number + unit
        for number in (suspected_numbers(profile) if absent is None else ())
        if known.isdisjoint((number, number + unit))
    }
    edges += [*suspected, *suspected.values()]

    def seal(work: Curator, steps: Sequence[Decimal]) -> SealedCounts:
        return seal_ranges(work, name, [float(edge) for edge in steps])

    def split(low: Decimal, high: Decimal, parts: float) -> list[Decimal]:
        inside = split_numbers(low, high, parts, unit=unit)
        ends = map(float, (low, *inside))
        return [
            edge for edge, before in zip(inside, ends, strict=False) if before < float(edge) < float(high)
        ]

    def tails(low: Decimal, high: Decimal) -> tuple[Decimal | None, Decimal | None]:
        if years:
            return tails_of_years(low, high)
        return tails_of_numbers(low, high, least=unit if profile.whole else Decimal(0), unit=unit)

    return Descent(
        name,
        sorted(set(edges)),
        rounds,
        cost,
        seal,
        split,
        frozenset(alone),
        round_number,
        tails,
        suspected,
        finest=unit if profile.whole else None,
        unit=unit,
    )


def _told_apart(values: Iterable[Decimal], edges: Iterable[Decimal], unit: Decimal) -> set[Decimal]:
    """Return the values that doubles tell from the next possible number and from all other edges: ranges are counted between doubles.

    Examples
    --------
    >>> [int(value) for value in _told_apart([Decimal(5), Decimal("12345678901234")], [Decimal(0)], Decimal("0.000001"))]
    [5]
    """
    known = {float(edge): edge for edge in edges}
    kept = set()
    for value in sorted(values):
        ends = {float(end): end for end in (value, value + unit)}
        if len(ends) == 2 and all(known.get(place, end) == end for place, end in ends.items()):
            known |= ends
            kept.add(value)
    return kept


def _in_one(plan: DiscoveryPlan, profile: Profile, cost: float) -> bool:
    """Whether whole numbers of at most two digits can be counted one by one at once, for a cost: there are none of two, or enough for the noise."""
    sigma = deviation(plan.noise(cost))
    two = max(many for sign, power, many in profile.decades() if sign > 0 and power == 1)
    return two == 0 or two / (SEEN * sigma) >= 90


def _ask_ranges(
    work: Curator, plan: DiscoveryPlan, descents: Mapping[str, Descent], progress: Progress
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


def _go_on(item: Descent, answer: Measurement, noise: Noise, *, last: bool) -> None:
    """Take the answer of a round, together with the one before, and refine the ranges unless it is the last."""
    counts, sigma = np.asarray(answer.values, dtype=np.float64), deviation(noise)
    item.sure = sure_count(noise, len(counts)) / sigma
    if item.asked:
        item.counts, item.sigma = combined(item.asked, item.counts, sigma, item.edges, counts, sigma)
    else:
        item.counts, item.sigma = counts, np.full(len(counts), sigma)
    item.asked = item.edges
    if not last:
        item.edges = refined(item.edges, item.counts, sigma=sigma, split=item.split, unit=item.unit)
