"""Registered mechanisms as subjects of an audit, on the worst pairs they take."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from understudy.audit.hunt import Audit, Effort, Subject, hunt
from understudy.audit.observers import (
    NARROW,
    WIDE,
    Observation,
    Pair,
    entity_pair,
    failure,
    observe,
    pairs_for,
    related_pair,
)
from understudy.audit.trials import claim_of
from understudy.curator import Curator
from understudy.errors import UnderstudyError
from understudy.mechanisms import Synthesizer, create
from understudy.mechanisms.events.workload import CONDITIONAL
from understudy.privacy import GDP, ApproxDP, Budget, Ledger, PureDP

__all__ = ["SHARP", "audit_method", "audit_synthesizer", "subjects_of"]

EPSILON, MU, DELTA = 2.0, 2.0, 0.05
"""Claims to hold mechanisms to: large enough that a thousand runs come close to them."""

_SMALL = {
    "epochs": 1,
    "embedding_dim": 2,
    "generator_dim": (4,),
    "discriminator_dim": (2,),
    "calibrate": False,
    "marginal_share": 0.02,
}
SHARP: Mapping[str, dict[str, Any]] = {
    "smoothed-histogram": {"records": 1},
    "sift": {"gap_share": 0.3, "column_noise": 0},
    "gem": {"hidden": 8, "steps": 5, "batch": 16, "inputs": 4},
    "dpctgan": _SMALL,
    "patectgan": _SMALL | {"teachers": 2, "teacher_dim": 2, "questions": 1},
}
"""Options with which a mechanism spends its whole budget on what one run shows, and networks so small that a fit takes
milliseconds: what is charged and released is the same, what is learnt from it is not the question."""

LOOKS_TWICE = ("sift",)
"""Mechanisms that compare triples of columns with a model of the pairs they measured, which takes three columns that depend on each other."""

PERSON_ROWS = 2


def audit_method(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    effort: Effort | None = None,
    seed: int = 0,
) -> list[Audit]:
    """Audit one registered mechanism on every worst pair it takes, under every kind of claim it makes.

    Parameters
    ----------
    name, options
        The mechanism; by default with the options under which it shows most.
    effort
        How many runs; by default the quick form.
    seed
        Of the coins that choose tables and of rows drawn from fitted models. Privacy noise takes none.

    Examples
    --------
    >>> audits = audit_method("laplace", effort=Effort(40, 40, 80, 1.0, 1.0))
    >>> any(audit.violates(len(audits), alpha=1e-6) for audit in audits)
    False
    """
    chosen = SHARP.get(name, {}) if options is None else dict(options)
    return audit_synthesizer(create(name, **chosen), effort=effort, seed=seed)


def audit_synthesizer(
    synthesizer: Synthesizer, *, effort: Effort | None = None, seed: int = 0
) -> list[Audit]:
    """Audit a mechanism that need not be registered."""
    generator = np.random.default_rng(seed)
    found: list[Audit] = []
    for budget in _budgets(synthesizer):
        subjects = subjects_of(synthesizer, budget)
        found += hunt(subjects, effort or Effort.quick(), generator=generator)
    return found


def _budgets(synthesizer: Synthesizer) -> list[Budget]:
    """Return the budgets to hold a mechanism to: a pure and a Gaussian one, or else an approximate one."""
    wanted: list[Budget] = [PureDP(EPSILON), GDP(MU)]
    accepted = [budget for budget in wanted if isinstance(budget, synthesizer.budgets)]
    return accepted or [ApproxDP(EPSILON, DELTA)]


def subjects_of(synthesizer: Synthesizer, budget: Budget) -> list[Subject]:
    """Return a mechanism on the worst pairs: of rows, of persons and, where it can fit two levels, of entities with their events; added and replaced."""
    found: list[Pair] = []
    for relation in ("add-remove", "replace-one"):
        for texts, rows, places in ((NARROW, 1, (0,)), (WIDE, 1, (1, 2)), (NARROW, PERSON_ROWS, (0,))):
            if isinstance(budget, GDP) and (texts is WIDE or (rows > 1 and relation == "replace-one")):
                continue  # the same looks with other noise; the pure claim covers them
            found += _first_taken(synthesizer, budget, texts, relation, rows, places)
        if synthesizer.name in CONDITIONAL and not (isinstance(budget, GDP) and relation == "replace-one"):
            found.append(entity_pair(relation, max_rows=PERSON_ROWS))
        if synthesizer.name in LOOKS_TWICE:
            found.append(related_pair(relation))
    return [_subject(synthesizer, pair, budget) for pair in found]


def _first_taken(
    synthesizer: Synthesizer,
    budget: Budget,
    texts: tuple[str, ...],
    relation: str,
    rows: int,
    places: tuple[int, ...],
) -> list[Pair]:
    for text in texts:
        pairs = list(pairs_for(text, relation, max_rows=rows))
        try:
            synthesizer.plan(pairs[0].first.schema, unit=pairs[0].unit, budget=budget)
        except UnderstudyError:
            continue
        return [pairs[place] for place in places]
    return []


def _subject(synthesizer: Synthesizer, pair: Pair, budget: Budget) -> Subject:
    return Subject(
        synthesizer.name,
        pair.name,
        pair.unit.describe(),
        claim_of(budget),
        _player(synthesizer, pair, budget),
    )


def _player(
    synthesizer: Synthesizer, pair: Pair, budget: Budget
) -> Callable[[bool, int, Collection[str]], Observation]:
    reserve = synthesizer.reserve(pair.first.schema, budget)

    def play(first: bool, seed: int, parts: Collection[str]) -> Observation:
        table = pair.first if first else pair.second
        with Ledger.in_memory(
            budget=budget, unit=pair.unit, table="audit", approximate_delta=reserve
        ) as ledger:
            start = time.perf_counter()
            try:
                model = synthesizer.fit(Curator(table, unit=pair.unit, ledger=ledger), budget)
            except UnderstudyError as error:
                return failure(error, ledger=ledger, seconds=time.perf_counter() - start)
            seconds = time.perf_counter() - start
            return observe(model, pair, ledger=ledger, parts=parts, seed=seed, seconds=seconds)

    return play
