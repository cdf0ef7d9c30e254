"""Audits: run a mechanism on worst-case neighbours and compare what is demonstrated with what is claimed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.audit.observers import Observation, observe, trials_of
from understudy.audit.pairs import KINDS, Pair, pairs_for
from understudy.audit.primitives import PRIMITIVES, Primitive
from understudy.audit.trials import Finding, Trials, judge
from understudy.curator import Curator
from understudy.errors import UnderstudyError
from understudy.privacy import GDP, ApproxDP, Budget, Ledger, PureDP
from understudy.synthesizers import Synthesizer, create, method

__all__ = ["Audit", "audit_method", "audit_primitives"]

Progress = Callable[[str, float], None]

_CONFIDENCE = 0.999
"""Of each bound: one audit in a thousand of a right mechanism shows more than its claim by chance."""


@dataclass(frozen=True)
class Audit:
    """One audit: a mechanism, a pair of neighbours, a claim, and the best that attackers demonstrated.

    Attributes
    ----------
    claimed, demonstrated
        In the unit of the claim: epsilon at ``delta``, or mu.
    """

    name: str
    pair: str
    unit: str
    claim: str
    claimed: float
    demonstrated: float
    delta: float
    attacker: str
    runs: int
    seconds: float
    confidence: float = _CONFIDENCE

    @property
    def violated(self) -> bool:
        """Whether more was demonstrated than claimed."""
        return self.demonstrated > self.claimed

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "pair": self.pair,
            "unit": self.unit,
            "claim": self.claim,
            "claimed": self.claimed,
            "demonstrated": self.demonstrated,
            "delta": self.delta,
            "attacker": self.attacker,
            "runs": self.runs,
            "seconds": round(self.seconds, 2),
            "confidence": self.confidence,
            "violated": self.violated,
        }


def _nothing(stage: str, fraction: float) -> None:
    """Ignore progress."""


def audit_method(
    name: str,
    *,
    options: dict[str, Any] | None = None,
    runs: int = 1_000,
    seconds: float = 30.0,
    max_rows: Sequence[int] = (1,),
    seed: int = 0,
    progress: Progress = _nothing,
) -> list[Audit]:
    """Audit one registered mechanism on every pair of neighbours it takes.

    Parameters
    ----------
    name, options
        The mechanism.
    runs
        Runs on each of the two tables.
    seconds
        Stop after this time per pair with the runs there are (never fewer than 40).
    max_rows
        Rows per person of the units to audit; one is a unit of single rows.
    seed
        Of the rows drawn from fitted models; privacy noise takes none.
    """
    synthesizer = create(name, **(options or {}))
    budgets = _claims(synthesizer)
    found: list[Audit] = []
    plans = [
        (relation, rows, budget)
        for budget in budgets
        for relation in ("add-remove", "replace-one")
        for rows in max_rows
    ]
    for index, (relation, rows, budget) in enumerate(plans):
        progress(f"{name}, {relation}", index / len(plans))
        for pair in _pairs(synthesizer, relation, rows, budget):
            found.append(_audit_pair(synthesizer, pair, budget, runs=runs, seconds=seconds, seed=seed))
    progress(name, 1.0)
    return found


def _claims(synthesizer: Synthesizer) -> list[Budget]:
    """Return the budgets to hold a mechanism to: a pure and a Gaussian one, or else an approximate one."""
    wanted: list[Budget] = [PureDP(1.0), GDP(1.0)]
    accepted = [budget for budget in wanted if isinstance(budget, synthesizer.budgets)]
    return accepted or [ApproxDP(1.0, 0.01)]


def _pairs(synthesizer: Synthesizer, relation: str, rows: int, budget: Budget) -> list[Pair]:
    """Return the pairs of the first kind of table that the mechanism takes; none if it takes no such unit."""
    for kind in KINDS:
        usable = []
        for pair in pairs_for(kind, relation, max_rows=rows):
            try:
                synthesizer.plan(pair.first.schema, unit=pair.unit, budget=budget)
            except UnderstudyError:
                break
            usable.append(pair)
        if usable:
            return usable
    return []


def _audit_pair(
    synthesizer: Synthesizer, pair: Pair, budget: Budget, *, runs: int, seconds: float, seed: int
) -> Audit:
    start = time.perf_counter()
    observations: tuple[list[Observation], list[Observation]] = ([], [])
    for run in range(runs):
        for table, seen in zip((pair.first, pair.second), observations, strict=True):
            reserve = synthesizer.reserve(table.schema, budget)
            with Ledger.in_memory(
                budget=budget, unit=pair.unit, table="audit", approximate_delta=reserve
            ) as book:
                model = synthesizer.fit(Curator(table, unit=pair.unit, ledger=book), budget)
            seen.append(observe(model, pair, seed=seed + run))
        if run >= 40 and time.perf_counter() - start > seconds:
            break
    trials = trials_of(*observations)
    return _finish(synthesizer.name, pair.name, pair.unit.describe(), budget, trials, start)


def _finish(name: str, pair: str, unit: str, budget: Budget, trials: Trials, start: float) -> Audit:
    gaussian = isinstance(budget, GDP)
    delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
    finding: Finding = judge(trials, delta=delta, confidence=_CONFIDENCE, gaussian=gaussian)
    claimed = budget.mu if isinstance(budget, GDP) else budget.epsilon  # type: ignore[union-attr]
    shown = finding.mu if gaussian and finding.mu is not None else finding.epsilon
    runs = len(next(iter(trials.scores.values()))[0])
    return Audit(
        name,
        pair,
        unit,
        budget.describe(),
        claimed,
        shown,
        delta,
        finding.attacker,
        runs,
        time.perf_counter() - start,
    )


def audit_primitives(*, runs: int = 40_000, progress: Progress = _nothing) -> list[Audit]:
    """Audit the curator's own ways of opening a seal, where attackers should reach nearly the whole claim."""
    found = []
    for index, primitive in enumerate(PRIMITIVES):
        progress(primitive.name, index / len(PRIMITIVES))
        found.append(_audit_primitive(primitive, runs))
    progress("primitives", 1.0)
    return found


def _audit_primitive(primitive: Primitive, runs: int) -> Audit:
    start = time.perf_counter()
    first, second = (np.asarray(primitive.draw(which, runs), dtype=np.float64) for which in (0, 1))
    trials = Trials({"the released number": (first, second)})
    return _finish(primitive.name, primitive.pair, primitive.unit.describe(), primitive.budget, trials, start)


def summary_of(name: str) -> str:
    """Return the one-line description of a registered mechanism, for tables."""
    return method(name).load().summary
