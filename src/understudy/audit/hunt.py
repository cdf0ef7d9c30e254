"""One audit: pilot runs to choose an attacker and its test, fresh runs to judge that one test."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.audit.observers import EVERYTHING, Observation
from understudy.audit.trials import Claim, Tally, Test, choose_test, judge

# ----------------------------------------------------------------------------------------
# Attackers: each turns what it sees of a run into one number, larger for "rather the first table".
#
# White-box attackers see everything that was released: measurements, statistics, chosen cliques, model parameters, the ledger.
# Black-box ones see synthetic rows only. Some know the two tables and compute likelihood ratios; others learn from runs that
# have no part in judging them.

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Score = Callable[[Sequence[Observation]], Floats]
Learn = Callable[[Sequence[Observation], Bools], Score]

_BINS = 8
_MOST_FEATURES = 64


@dataclass(frozen=True)
class Attacker:
    """A name, the part of an observation it needs, and how it learns to score runs."""

    name: str
    sees: str
    learn: Learn


def _field(part: str) -> Learn:
    """Read one number as it is."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        return lambda runs: np.array([getattr(run, part) for run in runs], dtype=np.float64)

    return learn


def _matrix(runs: Sequence[Observation], part: str, width: int) -> Floats:
    """Stack vectors of one part, short ones filled with zeros and long ones cut."""
    table = np.zeros((len(runs), width))
    for index, run in enumerate(runs):
        vector = getattr(run, part)[:width]
        table[index, : len(vector)] = vector
    return np.clip(np.nan_to_num(table, posinf=1e9, neginf=-1e9), -1e9, 1e9)


def _width(runs: Sequence[Observation], part: str) -> int:
    return max(1, min(_MOST_FEATURES, max((len(getattr(run, part)) for run in runs), default=1)))


def _linear(part: str) -> Learn:
    """Fisher's discriminant with shrinkage."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        width = _width(seen, part)
        table = _matrix(seen, part, width)
        one, two = _centre(table[firsts]), _centre(table[~firsts])
        spread = table - np.where(firsts[:, None], one, two)
        scale = np.maximum(spread.std(axis=0), 1e-9)
        x = spread / scale
        covariance = 0.7 * (x.T @ x / max(1, len(x) - 1)) + 0.3 * np.eye(width)
        direction = np.linalg.solve(covariance, (one - two) / scale) / scale
        return lambda runs: _matrix(runs, part, width) @ direction

    return learn


def _centre(table: Floats) -> Floats:
    return table.mean(axis=0) if len(table) else np.zeros(table.shape[1])


def _binned(part: str, most: int) -> Learn:
    """Naive Bayes on quantile bins of the features that tell most; learns any shape of one feature."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        width = _width(seen, part)
        table = _matrix(seen, part, width)
        edges, odds, worth = [], [], np.zeros(width)
        for index in range(width):
            cuts = np.unique(np.quantile(table[:, index], np.linspace(0, 1, _BINS + 1)[1:-1]))
            place = np.searchsorted(cuts, table[:, index], side="left")
            counts = [np.bincount(place[which], minlength=len(cuts) + 1) + 0.5 for which in (firsts, ~firsts)]
            shares = [count / count.sum() for count in counts]
            edges.append(cuts)
            odds.append(np.log(shares[0]) - np.log(shares[1]))
            worth[index] = ((shares[0] - shares[1]) * odds[-1]).sum()
        chosen = np.argsort(-worth, kind="stable")[:most]

        def score(runs: Sequence[Observation]) -> Floats:
            values = _matrix(runs, part, width)
            total = np.zeros(len(runs))
            for index in chosen:
                total += odds[index][np.searchsorted(edges[index], values[:, index], side="left")]
            return total

        return score

    return learn


def _keyed(part: str) -> Learn:
    """Odds of each distinct outcome: which cliques were chosen, what the ledger says, how it failed."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        one = Counter(getattr(run, part) for run, first in zip(seen, firsts, strict=True) if first)
        two = Counter(getattr(run, part) for run, first in zip(seen, firsts, strict=True) if not first)

        def odds(key: object) -> float:
            return float(np.log(one[key] + 0.5) - np.log(two[key] + 0.5))

        return lambda runs: np.array([odds(getattr(run, part)) for run in runs])

    return learn


def _centred(seen: Sequence[Observation], firsts: Bools) -> Score:
    """Likelihood ratio of additive noise of known scale around centres learnt for each table."""
    width = _width(seen, "values_seen")
    table = _matrix(seen, "values_seen", width)
    centres = [
        np.median(table[which], axis=0) if which.any() else np.zeros(width) for which in (firsts, ~firsts)
    ]
    # a feature whose centres differ by less than a quarter of its noise is noise of the centre
    spread = np.maximum(table.std(axis=0), 1e-9)
    same = np.abs(centres[0] - centres[1]) < 0.25 * spread
    centres[1] = np.where(same, centres[0], centres[1])

    def score(runs: Sequence[Observation]) -> Floats:
        values, scales = _matrix(runs, "values_seen", width), _matrix(runs, "scales", width)
        first, second = (np.abs(values - centre) for centre in centres)
        safe = np.where(scales == 0, 1.0, np.abs(scales))
        laplace, gaussian = (second - first) / safe, (second**2 - first**2) / (2 * safe**2)
        return np.asarray(np.where(scales < 0, laplace, np.where(scales > 0, gaussian, 0.0)).sum(axis=1))

    return score


def _sum(one: Learn, two: Learn) -> Learn:
    """Add the evidence of two attackers."""

    def learn(seen: Sequence[Observation], firsts: Bools) -> Score:
        left, right = one(seen, firsts), two(seen, firsts)
        return lambda runs: left(runs) + right(runs)

    return learn


ATTACKERS: tuple[Attacker, ...] = (
    Attacker("likelihood ratio of the measurements", "values_seen", _field("ratio")),
    Attacker("likelihood ratio around learnt centres", "values_seen", _centred),
    Attacker("odds of the choices made", "key", _keyed("key")),
    Attacker("likelihood ratio and odds of the choices", "key", _sum(_field("ratio"), _keyed("key"))),
    Attacker("learnt on one released number", "values_seen", _binned("values_seen", 1)),
    Attacker("learnt on released numbers", "values_seen", _binned("values_seen", 4)),
    Attacker("linear in released numbers", "values_seen", _linear("values_seen")),
    Attacker("odds of all released numbers", "values_seen", _keyed("exactly")),
    Attacker("learnt on differences of released numbers", "values_seen", _binned("gaps", 2)),
    Attacker("learnt on low bits", "values_seen", _binned("low_bits", 2)),
    Attacker("learnt on model parameters", "model", _binned("model", 4)),
    Attacker("linear in model parameters", "model", _linear("model")),
    Attacker("number of rows", "model", _binned("totals", 2)),
    Attacker("rows: share like the outlier", "rows", _field("corner")),
    Attacker("rows: learnt on their counts", "rows", _binned("rows", 4)),
    Attacker("rows: linear in their counts", "rows", _linear("rows")),
)
"""Every attacker; those whose name starts with "rows" are black-box."""

TIMING = Attacker("time of the fit", "time", _field("seconds"))
"""Not covered by any guarantee: reported apart."""


CONFIDENCE = 0.95
"""Of each demonstrated number: at most one audit in twenty of a tight mechanism shows more than its claim by chance."""
_FEWEST = 24
"""Runs that are made whatever they take: fewer cannot be learnt from."""
_EDGE = 0.1
"""Part of the claim by which a later attacker must promise more than an earlier one."""

Play = Callable[[bool, int, Collection[str]], Observation]


@dataclass(frozen=True)
class Subject:
    """A mechanism on a pair of neighbours.

    Attributes
    ----------
    name, pair, unit
        For people.
    claim
        What it promises.
    play
        ``play(first, index, parts)`` runs it on the first or second table and tells what was seen.
    """

    name: str
    pair: str
    unit: str
    claim: Claim
    play: Play


@dataclass(frozen=True)
class Effort:
    """How many runs an audit makes, and the seconds after which it makes do with fewer.

    Attributes
    ----------
    pilot, judged, focus
        Runs per pair to choose an attack, runs per pair to judge it, and runs to judge the best pair's.
    pair_seconds, focus_seconds
        Processor time of one batch of runs on a pair, and on the best pair.
    """

    pilot: int
    judged: int
    focus: int
    pair_seconds: float
    focus_seconds: float

    @staticmethod
    def quick() -> Effort:
        """Return what ``--quick`` does: every method in a few minutes."""
        return Effort(80, 80, 1_200, 0.4, 3.0)

    @staticmethod
    def thorough() -> Effort:
        """Return the long form: about three hours for every method on two cores."""
        return Effort(1_000, 2_000, 20_000, 15.0, 100.0)

    def of_releases(self) -> Effort:
        """Return the same for whole releases, each of which takes longer than a fit."""
        return Effort(
            2 * self.pilot, self.judged, self.focus, 10 * self.pair_seconds, 20 * self.focus_seconds
        )

    def limited(self, runs: int) -> Effort:
        """Return the same with another number of runs on the best pair."""
        part = max(_FEWEST, runs // 10)
        return Effort(part, part, runs, self.pair_seconds, self.focus_seconds)


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of one subject, each on a table chosen by a fair coin."""

    seen: list[Observation]
    firsts: npt.NDArray[np.bool_]

    def __add__(self, other: Runs) -> Runs:
        return Runs(self.seen + other.seen, np.concatenate([self.firsts, other.firsts]))

    def part(self, start: int, stop: int | None) -> Runs:
        """Return a slice."""
        return Runs(self.seen[start:stop], self.firsts[start:stop])


def run_many(
    subject: Subject,
    runs: int,
    *,
    generator: np.random.Generator,
    seconds: float,
    parts: Collection[str] = EVERYTHING,
) -> Runs:
    """Run a subject many times; the number of runs may depend on the clock but not on what is seen."""
    coins = generator.random(runs) < 0.5
    seeds = generator.integers(1 << 62, size=runs)
    start = time.process_time()
    seen: list[Observation] = []
    for coin, seed in zip(coins, seeds, strict=True):
        seen.append(subject.play(bool(coin), int(seed), parts))
        if len(seen) >= _FEWEST and time.process_time() - start > seconds:
            break
    return Runs(seen, coins[: len(seen)])


@dataclass(frozen=True)
class Chosen:
    """An attacker that has learnt, its test, and what it promises to demonstrate."""

    attacker: Attacker
    score: Callable[[Sequence[Observation]], npt.NDArray[np.float64]]
    test: Test
    value: float


def all_attacks(pilot: Runs, claim: Claim, attackers: Sequence[Attacker] = ATTACKERS) -> list[Chosen]:
    """Let every attacker learn on one half of the pilot runs and settle its test on the other half."""
    half = len(pilot.seen) // 2
    lesson, trial = pilot.part(0, half), pilot.part(half, None)
    found = []
    for attacker in attackers:
        score = attacker.learn(lesson.seen, lesson.firsts)
        test, value = choose_test(score(trial.seen), trial.firsts, claim)
        found.append(Chosen(attacker, score, test, value))
    return found


def best_attack(pilot: Runs, claim: Claim, attackers: Sequence[Attacker] = ATTACKERS) -> Chosen:
    """Return the attack that promises most."""
    return _best(all_attacks(pilot, claim, attackers), claim)


def _best(attacks: Sequence[Chosen], claim: Claim) -> Chosen:
    best = attacks[0]
    for attack in attacks[1:]:
        # the simpler attacker comes first and keeps its place unless another is clearly better
        if attack.value > best.value + _EDGE * claim.value:
            best = attack
    return best


@dataclass(frozen=True)
class Audit:
    """One audit: a mechanism, a pair of neighbours, a claim, and what one attack demonstrated.

    Attributes
    ----------
    claim
        In the unit in which the demonstrated number is: epsilon at delta, or mu.
    tally
        Counts of the runs that judged the attack.
    focus
        Whether this is the pair that seemed worst in the pilot runs, judged by many more.
    timing
        The same for an attacker who only sees how long the fit took; no guarantee covers that.
    others
        Counts of the other attackers that the same runs allowed to judge, by name. They count in the search for
        violations, not in the demonstrated number.
    exact
        What was demonstrated by computing every probability instead of running; no confidence is involved.
    """

    name: str
    pair: str
    unit: str
    claim: Claim
    attacker: str
    tally: Tally
    focus: bool
    seconds: float
    timing: Tally | None = None
    exact: float | None = None
    others: tuple[tuple[str, Tally], ...] = ()

    @property
    def tests(self) -> int:
        """How many attackers were judged."""
        return 1 + len(self.others)

    @property
    def demonstrated(self) -> float:
        """Lower bound on the loss, at the confidence customary for one audit."""
        return self.bound(CONFIDENCE)

    def bound(self, confidence: float) -> float:
        """Return the lower bound at another confidence."""
        return self.exact if self.exact is not None else self.tally.bound(self.claim, confidence=confidence)

    def violates(self, tests: int = 1, *, alpha: float = 0.001) -> bool:
        """Say whether any attacker demonstrates more than the claim beyond chance, as one of several such tests.

        Parameters
        ----------
        tests
            How many tests are looked at together, at least those of this audit; each gets its share of ``alpha``
            (Bonferroni).
        alpha
            Chance that any of them finds fault with mechanisms that keep their claims.
        """
        if self.exact is not None:
            return self.exact > self.claim.value * (1 + 1e-9)
        confidence = 1.0 - alpha / max(self.tests, tests)
        tallies = [self.tally, *(tally for _, tally in self.others)]
        return max(tally.bound(self.claim, confidence=confidence) for tally in tallies) > self.claim.value

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "pair": self.pair,
            "unit": self.unit,
            "claim": self.claim.text,
            "kind": self.claim.kind,
            "claimed": self.claim.value,
            "delta": self.claim.delta,
            "demonstrated": self.demonstrated,
            "confidence": 1.0 if self.exact is not None else CONFIDENCE,
            "exact": self.exact is not None,
            "attacker": self.attacker,
            "focus": self.focus,
            "counts": self.tally.to_dict(),
            "others": {name: tally.to_dict() for name, tally in self.others},
            "timing": None if self.timing is None else self.timing.bound(self.claim, confidence=CONFIDENCE),
            "seconds": round(self.seconds, 2),
        }


def judged(
    subject: Subject, attacks: Sequence[Chosen], clock: Chosen, runs: Runs, *, focus: bool, seconds: float
) -> Audit:
    """Judge the best attack, the others that the runs allow and the clock's, on runs that had no part in choosing them."""
    best = _best(attacks, subject.claim)
    others = [attack for attack in attacks if attack is not best and attack.attacker.sees in _seen_with(best)]
    return Audit(
        subject.name,
        subject.pair,
        subject.unit,
        subject.claim,
        best.attacker.name,
        judge(best.test, best.score(runs.seen), runs.firsts),
        focus,
        seconds,
        judge(clock.test, clock.score(runs.seen), runs.firsts),
        others=tuple(
            (item.attacker.name, judge(item.test, item.score(runs.seen), runs.firsts)) for item in others
        ),
    )


def _seen_with(best: Chosen) -> set[str]:
    """Return the parts that runs for an attack have to show; released numbers cost nothing more."""
    return {best.attacker.sees, "values_seen"}


def hunt(subjects: Sequence[Subject], effort: Effort, *, generator: np.random.Generator) -> list[Audit]:
    """Audit several pairs of one mechanism under one claim: all of them a little, the worst of them thoroughly.

    Which pair is the worst, the attacker and its test are all settled before the runs that judge them.
    """
    found: list[Audit] = []
    worst: tuple[float, Subject, Runs] | None = None
    for subject in subjects:
        start = time.perf_counter()
        subject.play(True, 0, EVERYTHING)  # compiled code is loaded before anything is timed
        pilot = run_many(subject, effort.pilot, generator=generator, seconds=effort.pair_seconds)
        attacks, clock = all_attacks(pilot, subject.claim), best_attack(pilot, subject.claim, (TIMING,))
        chosen = _best(attacks, subject.claim)
        parts = _seen_with(chosen)
        fresh = run_many(
            subject, effort.judged, generator=generator, seconds=effort.pair_seconds, parts=parts
        )
        spent = time.perf_counter() - start
        found.append(judged(subject, attacks, clock, fresh, focus=False, seconds=spent))
        if worst is None or chosen.value > worst[0]:
            worst = (chosen.value, subject, pilot)
    if worst is not None:
        found.append(_focus(worst[1], worst[2], effort, generator))
    return found


def _focus(subject: Subject, pilot: Runs, effort: Effort, generator: np.random.Generator) -> Audit:
    start = time.perf_counter()
    more = run_many(subject, 2 * effort.pilot, generator=generator, seconds=effort.pair_seconds)
    pilot = pilot + more
    attacks, clock = all_attacks(pilot, subject.claim), best_attack(pilot, subject.claim, (TIMING,))
    fresh = run_many(
        subject,
        effort.focus,
        generator=generator,
        seconds=effort.focus_seconds,
        parts=_seen_with(_best(attacks, subject.claim)),
    )
    return judged(subject, attacks, clock, fresh, focus=True, seconds=time.perf_counter() - start)
