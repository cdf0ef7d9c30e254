"""The ways of opening a seal on their worst cases: one number comes out, so an attacker can be nearly perfect."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.audit.hunt import Audit
from understudy.audit.trials import choose_test, claim_of, judge
from understudy.curator import Curator, release_keys
from understudy.data import LocalTable
from understudy.data.entries import read_entries
from understudy.discovery import NothingDiscovered, discover, plan_discovery
from understudy.discovery.look import seal_keys
from understudy.discovery.plan import PROFILE_PART
from understudy.mechanisms.deep.critic import Critic
from understudy.mechanisms.deep.encoding import Layout
from understudy.mechanisms.deep.look import PanelPlan, TrainingPlan, open_panel, open_training
from understudy.mechanisms.levels import STANDS_OUT, measured_levels
from understudy.privacy import (
    GDP,
    ApproxDP,
    Budget,
    Gaussian,
    Laplace,
    Ledger,
    Noise,
    PureDP,
    SystemRandomness,
    Unit,
)
from understudy.privacy.accounting.subsampled import subsampled_noise
from understudy.privacy.noise.selection import exponential_mechanism, permute_and_flip
from understudy.schema import Schema
from understudy.schema.coding.profile import PROFILE

# ----------------------------------------------------------------------------------------
# Attacks on the two paid conversations: noisy gradients of random batches, and noisy votes of teachers.
#
# Methods built on them keep little of what they heard, so attacks on whole models see next to nothing. Here every released number is seen.
# The network is public, so an attacker knows what each record contributes and reads the noisy sum along that direction, which is the
# likelihood ratio. Teachers are taught until they surely know the record from made-up ones; what is left is the noise on one vote.

Draws = npt.NDArray[np.float64]

_SCHEMA = Schema.parse("{name: audit, columns: [{name: a, kind: boolean}]}")
_LAYOUT = Layout.of(_SCHEMA, max_modes=2)
_CRITIC = Critic(_LAYOUT, (2,), "wasserstein", 2.0**-8)
"""So small a largest norm that every contribution has it."""
_APART = np.array([[-8.0, 8.0], [8.0, -8.0]])
_WEIGHTS = [(np.concatenate([_APART, _APART]), np.zeros(2)), (np.ones((2, 1)), np.zeros(1))]
"""One hidden unit for each value of the column: gradients of unlike records point away from each other."""
_STEPS, _QUESTIONS = 20, 1_000
"""Released numbers of one training and of one panel; each is audited for its own claim."""
_TEACHERS, _LESSONS = 32, 60
_LARGE = ApproxDP(900.0, 0.5)
"""Of ledgers that pay for many steps at once."""


def _curator(rows: Sequence[int], unit: Unit, budget: Budget, *, reserve: float = 0.0) -> Curator:
    persons = {} if unit.id_column is None else {unit.id_column: np.zeros(len(rows), dtype=np.int64)}
    table = LocalTable(_SCHEMA, {"a": np.array(rows, dtype=np.int64)}, persons=persons)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="audit", approximate_delta=reserve)
    return Curator(table, unit=unit, ledger=ledger)


@lru_cache(maxsize=16)
def _training(unit: Unit, budget: Budget, rate: float) -> TrainingPlan:
    """Return a training each step of which claims a budget: mu where every row is in every batch, else epsilon at delta."""
    sides = 1 if unit.relation == "add-remove" else 2
    if isinstance(budget, GDP):
        return TrainingPlan(_CRITIC, 1.0, sides * unit.max_rows / budget.mu, _STEPS)
    assert isinstance(budget, ApproxDP)
    noise = subsampled_noise(
        budget.epsilon, budget.delta, rate=rate, steps=1, rows=unit.max_rows, sides=sides
    )
    return TrainingPlan(_CRITIC, rate, noise, _STEPS)


def _contribution(rows: Sequence[int]) -> Draws:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 1)
    sums = _CRITIC.gradients(_WEIGHTS, codes, np.zeros(len(codes), dtype=np.int64), real=True)
    return np.concatenate([layer.ravel() * _CRITIC.unit for layer in sums])


def draw_gradients(
    which: int, runs: int, *, tables: Sequence[Sequence[int]], unit: Unit, budget: Budget, rate: float = 1.0
) -> Draws:
    """Return noisy gradients of one of two tables, along the direction in which their exact gradients differ.

    Examples
    --------
    >>> draw_gradients(0, 3, tables=([1], []), unit=Unit.add_remove(), budget=GDP(2.0)).shape
    (3,)
    """
    plan = _training(unit, budget, rate)
    event = plan.event(unit, delta=1e-3)
    towards = _contribution(tables[0]) - _contribution(tables[1])
    towards /= np.linalg.norm(towards)
    found: list[float] = []
    while len(found) < runs:
        training = open_training(
            _curator(tables[which], unit, _LARGE, reserve=0.4), plan, event=event, purpose="audit"
        )
        while training.steps_left and len(found) < runs:
            released = training.step(_WEIGHTS)
            found.append(float(np.concatenate([layer.ravel() for layer in released]) @ towards))
    return np.array(found)


def draw_votes(which: int, runs: int, *, tables: Sequence[Sequence[int]], unit: Unit, noise: Noise) -> Draws:
    """Return noisy numbers of teachers that take a record of the first table for real.

    Examples
    --------
    >>> from understudy.privacy import Laplace
    >>> draw_votes(1, 2, tables=([1], []), unit=Unit.add_remove(), noise=Laplace(1.0)).shape
    (2,)
    """
    large: Budget = PureDP(2.0**30) if noise.kind == "laplace" else GDP(2.0**30)
    fakes = np.arange(_TEACHERS * 4).reshape(-1, 1) % 2
    found: list[Draws] = []
    for start in range(0, runs, _QUESTIONS):
        many = min(_QUESTIONS, runs - start)
        plan = PanelPlan(_LAYOUT, _TEACHERS, 4, 4, 0.1, many, noise, whole=unit.id_column is not None)
        panel = open_panel(
            _curator(tables[which], unit, large), plan, generator=np.random.default_rng(0), purpose="audit"
        )
        for _ in range(_LESSONS):
            panel.teach(fakes, np.zeros(len(fakes), dtype=np.int64))
        asked = np.full((many, 1), tables[0][0], dtype=np.int64)
        found.append(panel.ask(asked, np.zeros(many, dtype=np.int64)))
    return np.concatenate(found)


_MANY = 1 << 30
"""Charges of an audit's ledger: enough for any number of runs."""
_BATCH = 1_000
EPSILON, MU = 2.0, 2.0


@dataclass(frozen=True)
class Primitive:
    """One way of opening a seal, with what one use claims.

    Attributes
    ----------
    draw
        ``draw(which, runs)`` returns released numbers on the first (0) or second (1) of two neighbours.
    share
        Part of the usual number of runs; below one for what is charged run by run.
    """

    name: str
    pair: str
    unit: Unit
    budget: Budget
    draw: Callable[[int, int], Draws]
    share: float = 1.0


def _primitives_curator(rows: list[int], unit: Unit, budget: Budget) -> Curator:
    table = LocalTable(_SCHEMA, {"a": np.array(rows, dtype=np.int64)})
    # so large a ledger that every run can be charged: each run is audited for its own claim
    whole: Budget = PureDP(float(_MANY)) if isinstance(budget, PureDP) else GDP(float(_MANY))
    return Curator(table, unit=unit, ledger=Ledger.in_memory(budget=whole, unit=unit, table="audit"))


def _batches(runs: int) -> list[int]:
    return [min(_BATCH, runs - start) for start in range(0, runs, _BATCH)]


def _laplace_count(which: int, runs: int) -> Draws:
    """One record or none: the count moves by the whole sensitivity."""
    return _counted(
        _primitives_curator([[1], []][which], Unit.add_remove(), PureDP(1.0)), Laplace(1 / EPSILON), runs
    )


def _gaussian_count(which: int, runs: int) -> Draws:
    return _counted(
        _primitives_curator([[1], []][which], Unit.add_remove(), GDP(1.0)), Gaussian(1 / MU), runs
    )


def _counted(box: Curator, noise: Laplace | Gaussian, runs: int) -> Draws:
    sealed = box.counts(())
    found = [box.measure_many([sealed] * many, noise=[noise] * many) for many in _batches(runs)]
    return np.array([float(item.values) for batch in found for item in batch])


def _replaced(which: int, runs: int) -> Draws:
    """A replaced record moves two cells: the likelihood ratio adds up over both."""
    box = _primitives_curator([[1], [0]][which], Unit.replace_one(), PureDP(1.0))
    sealed, noise = box.counts(("a",)), Laplace(2 / EPSILON)
    found = [box.measure_many([sealed] * many, noise=[noise] * many) for many in _batches(runs)]
    table = np.array([item.values for batch in found for item in batch]).reshape(runs, 2)
    ratio: Draws = np.abs(table - [1.0, 0.0]).sum(axis=1) - np.abs(table - [0.0, 1.0]).sum(axis=1)
    return ratio


def _gaussian_replaced(which: int, runs: int) -> Draws:
    """A replaced record moves two cells by one each: their difference moves by the whole L2 sensitivity."""
    box = _primitives_curator([[1], [0]][which], Unit.replace_one(), GDP(1.0))
    sealed, noise = box.counts(("a",)), Gaussian(2**0.5 / MU)
    found = [box.measure_many([sealed] * many, noise=[noise] * many) for many in _batches(runs)]
    table = np.array([item.values for batch in found for item in batch]).reshape(runs, 2)
    return np.asarray(table[:, 1] - table[:, 0])


def _scalar(which: int, runs: int) -> Draws:
    box = _primitives_curator([[1], []][which], Unit.add_remove(), PureDP(1.0))
    sealed = box.counts(()).sum()
    noise = Laplace(1 / EPSILON)
    return np.concatenate(
        [
            box.measure_scalars([sealed] * many, noise=[noise] * many, purpose="audit")
            for many in _batches(runs)
        ]
    )


def _threshold(which: int, runs: int) -> Draws:
    """A threshold at the larger of the two numbers, where the odds of passing differ most."""
    box = _primitives_curator([[1], []][which], Unit.add_remove(), PureDP(1.0))
    sealed = box.counts(()).sum()
    return np.array(
        [box.test(sealed, above=1.0, epsilon=EPSILON, purpose="audit") for _ in range(runs)], dtype=np.float64
    )


def _exponential(which: int, runs: int, *, base: float) -> Draws:
    """A candidate gains what its rival loses; the rarer it is, the closer its odds move to the whole epsilon."""
    scores = np.array([base, 0.0]) * (2 / EPSILON) + (np.array([0.5, -0.5]) if which == 0 else [-0.5, 0.5])
    source = SystemRandomness()
    found = [
        exponential_mechanism(scores, epsilon=EPSILON, sensitivity=1.0, randomness=source)
        for _ in range(runs)
    ]
    return np.array(found, dtype=np.float64)


def _permute(which: int, runs: int) -> Draws:
    """Equal scores, or scores that moved apart by twice the sensitivity."""
    scores = [0.0, 0.0] if which == 0 else [1.0, -1.0]
    source = SystemRandomness()
    found = [
        permute_and_flip(scores, epsilon=EPSILON, sensitivity=1.0, randomness=source) for _ in range(runs)
    ]
    return np.array(found, dtype=np.float64)


# ----------------------------------------------------------------------------------------
# Discovery: texts that one unit alone holds, and decisions about a column that one row more would turn.

_SEEN = 0.01
"""The delta of texts that are released: large, so that an attack can use it."""
_ENTRIES = PureDP(EPSILON / PROFILE_PART[False])
"""Of a discovery of one column whose first question costs `EPSILON`."""


def _texts_curator(texts: Sequence[str], unit: Unit) -> Curator:
    frame = pd.DataFrame({"a": pd.Series(texts, dtype=object), "person": 0})
    ledger = Ledger.in_memory(
        budget=ApproxDP(float(_MANY), 0.999), unit=unit, table="audit", approximate_delta=0.99
    )
    return Curator(read_entries(frame, ["a"], id_column=unit.id_column), unit=unit, ledger=ledger)


def draw_texts(which: int, runs: int, *, tables: Sequence[Sequence[str]], unit: Unit) -> Draws:
    """Return, for releases of the texts of one of two tables, their noisy counts added up; less than any where none is released.

    Examples
    --------
    >>> draw_texts(1, 2, tables=(["x"], []), unit=Unit.add_remove()).tolist()
    [-1.0, -1.0]
    """
    noise = Laplace(unit.histogram_l1 / EPSILON)
    found: list[float] = []
    while len(found) < runs:
        many = min(20, runs - len(found))  # what the reserve of one ledger pays for
        box = _texts_curator(tables[which], unit)
        keys = release_keys(
            box, [seal_keys(box, "a")] * many, noise=[noise] * many, deltas=[_SEEN] * many, purpose="audit"
        )
        found += [float(sum(item.counts.values())) if item.counts else -1.0 for item in keys]
    return np.array(found)


def draw_discoveries(which: int, runs: int) -> Draws:
    """Return whether a column was discovered at all, on tables at the edge of that decision.

    The first question of the discovery costs a known part of its budget; the pair differs by one entry where the count of entries decides.
    """
    unit = Unit.add_remove()
    plan = plan_discovery(["a"], [], unit=unit, budget=_ENTRIES, reserve=0.0)
    rows = int(plan.noise(plan.profile_cost()).quantile(1 - 0.02 / len(PROFILE))) + 1 - which
    table = read_entries(pd.DataFrame({"a": ["word"] * rows}), ["a"])
    found = np.empty(runs)
    for run in range(runs):
        ledger = Ledger.in_memory(budget=_ENTRIES, unit=unit, table="audit")
        try:
            discover(Curator(table, unit=unit, ledger=ledger), plan)
        except NothingDiscovered as error:
            found[run] = float(bool(error.left_out.get("a", "").startswith("its entries are text")))
    return found


_LEVELS = Schema.parse(
    "{name: audit, columns: [{name: a, kind: categorical, values: [x1, y1], levels: {prefix: [1], share: 0.25}}]}"
)


def draw_groups(which: int, runs: int) -> Draws:
    """Return whether a look at a column with levels gave two groups, on tables at the edge of that decision.

    A fourth of the budget is for the look, which costs `EPSILON`; the pair differs by one row of a value whose count has to stand out of the noise.
    """
    unit, budget = Unit.add_remove(), PureDP(4 * EPSILON)
    rows = math.ceil(STANDS_OUT * math.sqrt(Laplace(unit.histogram_l1 / EPSILON).variance)) - which
    table = LocalTable(_LEVELS, {"a": np.zeros(rows, dtype=np.int64)})
    found = np.empty(runs)
    for run in range(runs):
        ledger = Ledger.in_memory(budget=budget, unit=unit, table="audit")
        work = Curator(table, unit=unit, ledger=ledger).within(budget, scope="audit")
        found[run] = measured_levels(work).schema.column("a").size
    return found


_RARE, _LIKELY = partial(_exponential, base=-3.5), partial(_exponential, base=-1.5)
_ADD, _REPLACE = Unit.add_remove(), Unit.replace_one()
_PURE, _GAUSS = PureDP(EPSILON), GDP(MU)
_PAIR = Unit.add_remove_person("person", max_rows=2)
_SAMPLED = ApproxDP(EPSILON, 0.01)
Tables = tuple[tuple[int, ...], tuple[int, ...]]
_ALONE: Tables = ((1,), ())
_EXCHANGED: Tables = ((1,), (0,))
_TWICE: Tables = ((1, 1), ())


def _gradients(pair: str, tables: Tables, unit: Unit, budget: Budget, rate: float = 1.0) -> Primitive:
    draw = partial(draw_gradients, tables=tables, unit=unit, budget=budget, rate=rate)
    name = "noisy gradients" + (" of random batches" if rate < 1 else "")
    return Primitive(name, pair, unit, budget, draw, 2.0 if rate < 1 else 0.5)


def _votes(pair: str, tables: Tables, unit: Unit, budget: Budget) -> Primitive:
    k = 1  # a person is dealt as a whole to one teacher
    noise = Laplace(k / EPSILON) if isinstance(budget, PureDP) else Gaussian(k / MU)
    draw = partial(draw_votes, tables=tables, unit=unit, noise=noise)
    return Primitive("noisy votes of teachers", pair, unit, budget, draw)


def _texts(pair: str, tables: Sequence[Sequence[str]], unit: Unit) -> Primitive:
    draw = partial(draw_texts, tables=tables, unit=unit)
    return Primitive("frequent texts", pair, unit, ApproxDP(EPSILON, _SEEN), draw, 0.5)


PRIMITIVES = (
    Primitive("Laplace noise on a count", "one record or none", _ADD, _PURE, _laplace_count),
    Primitive("Laplace noise on a marginal", "a replaced record", _REPLACE, _PURE, _replaced),
    Primitive("Gaussian noise on a count", "one record or none", _ADD, _GAUSS, _gaussian_count),
    Primitive("Gaussian noise on a marginal", "a replaced record", _REPLACE, _GAUSS, _gaussian_replaced),
    Primitive("Laplace noise on a number", "one record or none", _ADD, _PURE, _scalar),
    Primitive("exponential mechanism", "a rare candidate gains", _REPLACE, _PURE, _RARE, 8.0),
    Primitive("exponential mechanism", "a likely candidate gains", _REPLACE, _PURE, _LIKELY),
    Primitive("permute-and-flip", "equal scores part", _REPLACE, _PURE, _permute),
    Primitive("threshold test", "one record or none", _ADD, _PURE, _threshold, 0.5),
    _gradients("one record or none", _ALONE, _ADD, _GAUSS),
    _gradients("a replaced record", _EXCHANGED, _REPLACE, _GAUSS),
    _gradients("one record or none", _ALONE, _ADD, _SAMPLED, 0.2),
    _gradients("a person with 2 rows", _TWICE, _PAIR, _SAMPLED, 0.2),
    _votes("one record or none", _ALONE, _ADD, _PURE),
    _votes("a replaced record", _EXCHANGED, _REPLACE, _GAUSS),
    _votes("a person with 2 rows", _TWICE, _PAIR, _GAUSS),
    _texts("one record or none", (("x",), ()), _ADD),
    _texts("a replaced record", (("x",), ("y",)), _REPLACE),
    _texts("a person with 2 rows", (("x", "y"), ()), _PAIR),
    Primitive("discovered columns", "one entry at the edge", _ADD, _PURE, draw_discoveries, 0.1),
    Primitive("groups of a column with levels", "one row at the edge", _ADD, _PURE, draw_groups, 0.25),
)
"""Every way of opening a seal that releases one number."""


def audit_primitives(*, runs: int = 12_000, seed: int = 0) -> list[Audit]:
    """Audit every primitive; attackers should reach nearly the whole claim."""
    return [audit_primitive(item, runs=runs, seed=seed + index) for index, item in enumerate(PRIMITIVES)]


def audit_primitive(primitive: Primitive, *, runs: int = 12_000, seed: int = 0) -> Audit:
    """Choose a threshold on a fifth as many runs, then judge it on fresh ones.

    Examples
    --------
    >>> audit = audit_primitive(PRIMITIVES[0], runs=1_000)
    >>> audit.violates(alpha=1e-6)
    False
    """
    start = time.perf_counter()
    generator = np.random.default_rng(seed)
    wanted = max(200, int(runs * primitive.share))
    claim = claim_of(primitive.budget)
    scores, firsts = _mixed(primitive, max(200, wanted // 5), generator)
    test, _ = choose_test(scores, firsts, claim)
    scores, firsts = _mixed(primitive, wanted, generator)
    return Audit(
        primitive.name,
        primitive.pair,
        primitive.unit.describe(),
        claim,
        "the released number",
        judge(test, scores, firsts),
        True,
        time.perf_counter() - start,
    )


def _mixed(
    primitive: Primitive, runs: int, generator: np.random.Generator
) -> tuple[Draws, npt.NDArray[np.bool_]]:
    """Run on tables chosen by fair coins; runs are independent, so those on one table can be made together."""
    firsts = generator.random(runs) < 0.5
    scores = np.empty(runs)
    scores[firsts] = primitive.draw(0, int(firsts.sum()))
    scores[~firsts] = primitive.draw(1, int((~firsts).sum()))
    return scores, firsts
