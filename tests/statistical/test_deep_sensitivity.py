"""How far one unit moves sums of gradients and votes; what batches and noise really are.

The first half involves no sampling error: each pair of neighbours either respects the claim or refutes it. The second half states
its false-alarm rate and the wrong answers it catches.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from alpha import ALPHA
from scipy.stats import binom, chi2, norm

from deep_examples import LAYOUT, NOBODY, SCHEMA, SIZES, curator_of, random_codes
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.data.persons import KEY_BYTES, person_keys
from understudy.mechanisms.deep.critic import Critic
from understudy.mechanisms.deep.look import PanelPlan, TrainingPlan, open_panel, open_training, poisson_batch
from understudy.privacy import (
    ApproxDP,
    Gaussian,
    Laplace,
    Ledger,
    PureDP,
    SeededRandomness,
    SystemRandomness,
    Unit,
)

UNITS = (
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=3),
    Unit.replace_person("id", max_rows=2),
)
PAIRS = 60


def _rows(generator: np.random.Generator, n: int) -> np.ndarray:
    if generator.random() < 0.5:
        corner = [0 if generator.random() < 0.5 else size - 1 for size in SIZES]
        return np.tile(corner, (n, 1))
    return random_codes(generator, n)


def _neighbours(generator: np.random.Generator, unit: Unit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that both tables have, those that only the first has, and those that only the second has."""
    common = _rows(generator, int(generator.integers(0, 12)))
    k = unit.max_rows
    one = _rows(generator, k)
    two = _rows(generator, k if unit.relation == "replace-one" else 0)
    return common, one, two


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.describe())
def test_one_unit_moves_a_sum_of_gradients_by_its_own_contributions_alone(unit: Unit, seed: int) -> None:
    """With every coin up, the change is at most ``rows`` times the reach, on each side that the event speaks of."""
    generator = np.random.default_rng(seed)
    largest = 0.0
    for _ in range(PAIRS):
        loss = str(generator.choice(["cross_entropy", "wasserstein"]))
        critic = Critic(LAYOUT, (9, 5), loss, float(generator.choice([0.1, 1.0, 5.0])))
        size = 10.0 ** generator.uniform(-1, 2)
        weights = [(size * a, size * generator.normal(size=len(b))) for a, b in critic.start(generator)]
        common, one, two = _neighbours(generator, unit)
        shown = generator.integers(0, 3, len(common))
        mine = generator.integers(0, 3, unit.max_rows)
        sums = []
        for rows in (one, two):
            codes = np.concatenate([rows, common])
            told = np.concatenate([mine[: len(rows)], shown])
            sums.append(critic.gradients(weights, codes, told, real=True))
        squared = sum(float(((a - b).astype(object) ** 2).sum()) for a, b in zip(*sums, strict=True))
        sides = 1 if unit.relation == "add-remove" else 2
        assert squared <= (sides * unit.max_rows * critic.reach) ** 2
        largest = max(largest, squared**0.5 / (unit.max_rows * critic.reach))
    assert largest > 0.6  # half the claim would have been refuted


class _Words:
    """Random words by row: those of common rows are the same in both tables, wherever the rows stand."""

    def __init__(self, dealt: np.ndarray, seed: int) -> None:
        self._dealt, self._first, self._stream = dealt, True, SeededRandomness(seed)

    def words(self, n: int) -> np.ndarray:
        if self._first:
            self._first = False
            assert n == len(self._dealt)
            return self._dealt
        return self._stream.words(n)

    def bytes(self, n: int) -> bytes:
        return self._stream.bytes(n)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.describe())
def test_one_unit_changes_the_votes_of_as_many_teachers_as_it_has_rows(unit: Unit, seed: int) -> None:
    """Exact votes, the noise left out, on neighbours that share their random numbers; after several lessons."""
    generator = np.random.default_rng(seed + 100)
    plain = Unit.add_remove() if unit.relation == "add-remove" else Unit.replace_one()
    changed = 0
    for trial in range(20):
        common, one, two = _neighbours(generator, unit)
        shared = generator.integers(0, 1 << 62, len(common)).astype(np.uint64)
        mine = generator.integers(0, 1 << 62, unit.max_rows).astype(np.uint64)
        plan = PanelPlan(LAYOUT, 6, 5, 3, 0.05, 50, Laplace(1000.0))
        votes = []
        for rows in (one, two):
            codes = np.concatenate([common, rows])
            dealt = np.concatenate([shared, mine[: len(rows)]])
            door = curator_of(codes, budget=PureDP(1.0), unit=plain, randomness=_Words(dealt, trial))
            panel = open_panel(door, plan, generator=np.random.default_rng(1), purpose="ask")
            public = np.random.default_rng(2)
            for _ in range(5):
                panel.teach(random_codes(public, 18), public.integers(0, 3, 18))
            asked = random_codes(public, 40)
            with np.errstate(all="ignore"):
                votes.append(panel._votes(asked, public.integers(0, 3, 40)))
        differing = (votes[0] != votes[1]).any(axis=1).sum()
        assert differing <= unit.max_rows
        assert np.abs(votes[0].sum(axis=0) - votes[1].sum(axis=0)).max() <= unit.max_rows
        changed += int(differing)
    assert changed > 0  # the teachers do learn from their rows


class _Given:
    """Random words in the order in which they are asked for, then a stream."""

    def __init__(self, *given: np.ndarray, seed: int) -> None:
        self._given, self._stream = list(given), SeededRandomness(seed)

    def words(self, n: int) -> np.ndarray:
        if not self._given:
            return self._stream.words(n)
        found = self._given.pop(0)
        assert len(found) == n
        return found

    def bytes(self, n: int) -> bytes:
        return self._stream.bytes(n)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_person_with_many_rows_changes_the_votes_of_one_teacher(
    relation: Literal["add-remove", "replace-one"], seed: int
) -> None:
    """Exact votes on neighbours that differ in one person with 0 to 12 rows, of whom up to 5 count; the others keep their random numbers."""
    generator = np.random.default_rng(seed + 300)
    unit = Unit(relation, 5, "person")
    plan = PanelPlan(LAYOUT, 6, 5, 3, 0.05, 50, Laplace(1000.0), whole=True)
    changed = 0
    for trial in range(20):
        others = np.sort(generator.integers(1, 9, 30))
        codes = random_codes(generator, 30)
        mine = generator.integers(0, 1 << 62, dtype=np.uint64)
        people = generator.integers(0, 1 << 62, 9).astype(np.uint64)
        votes = []
        for number in (
            int(generator.integers(1, 13)),
            0 if relation == "add-remove" else int(generator.integers(1, 13)),
        ):
            who = np.concatenate([others, np.zeros(number, np.int64)])
            rows = np.concatenate([codes, random_codes(generator, number)])
            present = np.unique(who)
            key = SeededRandomness(trial).bytes(KEY_BYTES)  # the one that the curator draws first
            hashes = person_keys(pa.array(present), key)
            present = present[np.lexsort((hashes[:, 1], hashes[:, 0]))]  # people are dealt in this order
            dealt = np.where(present == 0, mine, people[present])
            table = LocalTable(SCHEMA, dict(zip(SCHEMA.names, rows.T, strict=True)), persons={"person": who})
            book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
            source = _Given(dealt, seed=trial)
            panel = open_panel(
                Curator(table, unit=unit, ledger=book, randomness=source),
                plan,
                generator=np.random.default_rng(1),
                purpose="ask",
            )
            public = np.random.default_rng(2)
            for _ in range(5):
                panel.teach(random_codes(public, 18), public.integers(0, 3, 18))
            asked = random_codes(public, 40)
            with np.errstate(all="ignore"):
                votes.append(panel._votes(asked, public.integers(0, 3, 40)))
        differing = (votes[0] != votes[1]).any(axis=1).sum()
        assert differing <= 1
        assert np.abs(votes[0].sum(axis=0) - votes[1].sum(axis=0)).max() <= 1
        changed += int(differing)
    assert changed > 0  # the teachers do learn from their rows


def test_every_row_has_a_coin_of_its_own(seed: int) -> None:
    """False alarms: ALPHA. Caught: a rate off by 5 %, batches of fixed size, neighbours that come together."""
    rate, rows, draws = 0.05, 200, 4_000
    randomness = SeededRandomness(1_000 + seed)
    seen = np.zeros((draws, rows), dtype=np.int64)
    for place in range(draws):
        seen[place, poisson_batch(rows, rate, randomness)] = 1

    def surprise(hits: int, trials: int, share: float) -> float:
        return float(min(1.0, 2 * min(binom.cdf(hits, trials, share), binom.sf(hits - 1, trials, share))))

    hits = int(seen.sum())
    assert surprise(hits, draws * rows, rate) > ALPHA
    assert surprise(hits, draws * rows, rate * 1.05) < ALPHA
    assert surprise(hits, draws * rows, rate / 1.05) < ALPHA
    together = int((seen[:, 1:] * seen[:, :-1]).sum())
    assert surprise(together, draws * (rows - 1), rate**2) > ALPHA
    sizes = seen.sum(axis=1)
    spread = float(((sizes - rate * rows) ** 2).sum() / (rows * rate * (1 - rate)))
    assert 2 * min(chi2.cdf(spread, draws), chi2.sf(spread, draws)) > ALPHA
    for row in (0, rows - 1):
        assert surprise(int(seen[:, row].sum()), draws, rate) > ALPHA


def test_the_noise_on_gradients_is_the_one_that_was_charged() -> None:
    """An empty table gives noise alone. False alarms: ALPHA. Caught: a scale off by 6 % (the variance of 40,000 draws is known to
    .7 %, so that 12 % are 17 standard errors, and the bound of ALPHA stands at 6)."""
    critic = Critic(LAYOUT, (40, 40), "cross_entropy", 5.0)
    plan = TrainingPlan(critic, 0.1, 12.0, 20)
    door = curator_of(NOBODY, budget=ApproxDP(1.0, 1e-5), randomness=SystemRandomness(), reserve=9e-6)
    training = open_training(door, plan, event=plan.event(door.unit, delta=9e-6), purpose="train")
    weights = critic.start(np.random.default_rng(0))
    drawn = np.concatenate([layer.ravel() for _ in range(20) for layer in training.step(weights)])[:40_000]
    for scale, good in ((60.0, True), (60.0 * 1.06, False), (60.0 / 1.06, False)):
        squares = float((drawn**2).sum() / scale**2)
        tail = 2 * min(chi2.cdf(squares, len(drawn)), chi2.sf(squares, len(drawn)))
        assert (tail > ALPHA) == good
    mean = abs(float(drawn.mean())) / 60.0 * len(drawn) ** 0.5
    assert 2 * norm.sf(mean) > ALPHA


def test_the_noise_on_votes_is_the_one_that_was_charged() -> None:
    """Teachers without records vote alike on equal questions, so differences are noise. Caught: 10 % off; 20,000 draws."""
    plan = PanelPlan(LAYOUT, 4, 3, 2, 0.01, 20_000, Gaussian(400.0))
    door = curator_of(NOBODY, budget=ApproxDP(2.0, 1e-5), randomness=SystemRandomness())
    panel = open_panel(door, plan, generator=np.random.default_rng(0), purpose="ask")
    heard = panel.ask(np.zeros((20_000, 3), dtype=np.int64), np.zeros(20_000, dtype=np.int64))
    for scale, good in ((400.0, True), (440.0, False), (360.0, False)):
        squares = float(((heard - heard.mean()) ** 2).sum() / scale**2)
        tail = 2 * min(chi2.cdf(squares, len(heard) - 1), chi2.sf(squares, len(heard) - 1))
        assert (tail > ALPHA) == good
