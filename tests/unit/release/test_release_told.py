"""What a curator is told about a look bounds what neighbouring tables do to it, and is attained.

The criteria prove their sensitivities; here it is checked that the ones that reach the curator are these and not smaller. No
sampling error is involved: a pair of tables respects a number or refutes it. Nine tenths of any of them would be refuted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from spec_examples import people, published, small_spec

from understudy.curator import Curator
from understudy.data import LocalTable, Table
from understudy.mechanisms import no_progress
from understudy.privacy import Ledger, PureDP, Unit
from understudy.release import RecordTypes, RegressionCoefficients, accounted
from understudy.release.accounted import accounted_measures
from understudy.release.criteria import base
from understudy.release.look import seal_numbers
from understudy.release.neighbours import neighbouring_tables
from understudy.release.run import judgement
from understudy.release.run.candidate import Candidate, draw_candidate, fit_model
from understudy.release.run.judgement import fit_baseline, judge
from understudy.release.run.transform import Transformed
from understudy.release.spec.spec import Spec
from understudy.schema import Schema

Look = tuple[Callable[[Table], Sequence[float]], list[float]]

ONE = 1 + 2.0**-30
"""The curator allows for more rounding than that."""

CELLS = {"name": "cells", "kind": "max-marginal-error", "threshold": 0.3}
MEDIAN = {"name": "median", "kind": "conditional-medians", "column": "size", "threshold": 2}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """Everything that is asked of any curator from now on."""
    taken: list[Look] = []

    def spy(curator: Curator, function: Any, *, sensitivities: Sequence[float]) -> Any:
        taken.append((function, list(sensitivities)))
        return seal_numbers(curator, function, sensitivities=sensitivities)

    for module in (accounted, base, judgement):
        monkeypatch.setattr(module, "seal_numbers", spy)
    return taken


def _attempt(spec: Spec) -> tuple[Candidate, Curator]:
    ledger = Ledger.in_memory(budget=PureDP(1000.0), unit=spec.unit)
    configuration = spec.configurations[0]
    curator = Transformed(spec, people()).curator(configuration, ledger)
    model = fit_model(spec, configuration, curator, progress=no_progress)
    return draw_candidate(spec, configuration, model, rows=600, seed=1), curator


def _largest(look: Look, schema: Schema, unit: Unit, *, like: RecordTypes | None = None) -> float:
    """Return the largest move of any number of a look, as a share of what was told."""
    function, told = look
    generator, worst = np.random.default_rng(5), 0.0
    for pair in neighbouring_tables(schema.domain, unit, rows=40, pairs=120, generator=generator):
        one, two = (np.asarray(function(_table(schema, types.expand()))) for types in pair[:2])
        worst = max(worst, float((np.abs(one - two) / np.asarray(told)).max()))
    if like is not None:  # close to the candidate the numbers are not cut off
        rows = like.expand()
        for record in generator.integers(0, schema.domain.sizes, (40, len(schema.names))):
            one, two = (
                np.asarray(function(_table(schema, part)))
                for part in (rows, np.concatenate([rows[1:], [record]]))
            )
            worst = max(worst, float((np.abs(one - two) / np.asarray(told)).max()))
    return worst


def _table(schema: Schema, rows: Any) -> LocalTable:
    return LocalTable(schema, {name: rows[:, index] for index, name in enumerate(schema.names)})


@pytest.mark.parametrize(
    "acceptance",
    [
        {"form": "pass-only", "epsilon": 1.0, "criteria": [CELLS]},
        {"form": "published", "criteria": [CELLS | {"epsilon": 1.0}]},
        {"form": "published", "criteria": [MEDIAN | {"epsilon": 1.0}]},
    ],
    ids=["slack test", "laplace", "exponential"],
)
def test_what_acceptance_is_judged_by(acceptance: dict[str, Any], looks: list[Look]) -> None:
    spec = small_spec(acceptance=acceptance, budget={"total": {"epsilon": 5}, "model": {"epsilon": 4}})
    candidate, curator = _attempt(spec)
    looks.clear()
    judge(spec, candidate, curator, {})
    (look,) = looks
    assert 0.9 < _largest(look, curator.schema, spec.unit, like=candidate.types) <= ONE


def test_private_regressions(looks: list[Look]) -> None:
    spec = small_spec(**published(1.0))
    curator = _attempt(spec)[1]
    line = next(c for c in spec.criteria_for(curator.schema) if isinstance(c, RegressionCoefficients))
    looks.clear()
    fit_baseline(spec, line.regression, curator, rows=600, epsilon=1.0)
    (look,) = looks
    assert 0.9 < _largest(look, curator.schema, spec.unit) <= ONE


@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=lambda unit: unit.relation)
def test_accounted_measures(unit: Unit, looks: list[Look]) -> None:
    spec = small_spec()
    schema = spec.schema_for(spec.configurations[0])
    rows = np.random.default_rng(0).integers(0, schema.domain.sizes, (40, len(schema.names)))
    synthetic = {name: rows[:, index] for index, name in enumerate(schema.names)}
    ledger = Ledger.in_memory(budget=PureDP(10.0), unit=unit)
    curator = Curator(_table(schema, rows), unit=unit, ledger=ledger, rows=40)
    accounted_measures(curator, synthetic, PureDP(4.0), orders=(1, 2))
    assert len(looks) == 2
    for function, told in looks:
        for index in (0, 1):  # the average, the largest
            part: Look = (lambda table, f=function, i=index: [f(table)[i]], [told[index]])  # type: ignore[misc]
            assert 0.9 < _largest(part, schema, unit) <= ONE
