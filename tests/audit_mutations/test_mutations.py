"""Every deliberately broken mechanism is caught, by the checks that the documentation names, and right ones are not.

False alarms: audits of right mechanisms are held to `ALPHA` = 1e-9; mutants must be caught at the level that one
audit has in a report on every method. A mutant that slipped through would mean that the auditor is blind to that mistake.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checks import (
    ALPHA,
    ENTITIES,
    REGISTER,
    REPORTED,
    audited,
    criteria_hold,
    discovery_paid,
    drawn_as_paid,
    entities_hold,
    idle_entities_hold,
    left_out_entities_hold,
    noise_is_fresh,
    numbers_are_whole,
    people_hold,
    primitive_audited,
    register_entities_hold,
    release_audited,
    release_law_holds,
    sensitivities_hold,
    unpaid,
)
from mutants import CROWDED, ENTITY, MUTANTS, ONE, ONE_COLUMN, REPLACED, Mutant

from understudy.audit.releases import LOOP
from understudy.mechanisms import create
from understudy.mechanisms.marginal.laplace import LaplaceTable

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "trust.md"
CASES = [(mutant, name) for mutant in MUTANTS for name in mutant.checks]


@pytest.mark.parametrize(("mutant", "check"), CASES, ids=lambda item: getattr(item, "name", item))
def test_a_mutant_is_caught(mutant: Mutant, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.apply(monkeypatch)
    assert mutant.checks[check](REPORTED), f"{check} did not see: {mutant.name}"


RIGHT = {
    "Laplace table, one record": audited(LaplaceTable, ONE),
    "Laplace table, a replaced record": audited(LaplaceTable, REPLACED),
    "Laplace table, a person with many rows": audited(LaplaceTable, CROWDED),
    "Laplace table, a person with many events": audited(LaplaceTable, ENTITY),
    "independent columns, an outlier in one": audited(lambda: create("independent"), ONE_COLUMN),
    "Laplace noise": primitive_audited("Laplace noise on a count"),
    "Gaussian noise": primitive_audited("Gaussian noise on a count"),
    "noisy gradients": primitive_audited("noisy gradients", runs=1_000),
    "noisy gradients of random batches": primitive_audited("noisy gradients of random batches", runs=1_500),
    "noisy votes": primitive_audited("noisy votes of teachers", runs=1_000),
    "exponential mechanism": primitive_audited("exponential mechanism", "a likely candidate gains"),
    "sensitivities": sensitivities_hold,
    "entities": entities_hold,
    "people": people_hold,
    "entities without events": idle_entities_hold,
    "entities left out": left_out_entities_hold,
    "criteria": criteria_hold,
    "fresh noise": noise_is_fresh,
    "payments": unpaid(LaplaceTable),
    "payments of draws": drawn_as_paid(lambda: create("independent")),
    "whole numbers": numbers_are_whole,
    "frequent texts": primitive_audited("frequent texts", runs=3_000),
    "frequent texts of a person": primitive_audited("frequent texts", "a person with 2 rows", runs=3_000),
    "discovered columns": primitive_audited("discovered columns", "one entry at the edge", runs=3_000),
    "payments of discovery": discovery_paid,
    "groups of a column with levels": primitive_audited(
        "groups of a column with levels", "one row at the edge", runs=3_000
    ),
    "whole releases": release_audited(LOOP, runs=120),
    "releases of entities": release_audited(ENTITIES, runs=60, rows=2),
    "releases of several tables": release_audited(REGISTER, runs=60),
    "entities of several tables": register_entities_hold,
    "law of a loop of attempts": release_law_holds,
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_checks_pass_what_is_right(name: str) -> None:
    """The same checks on the same mechanisms, unbroken."""
    assert RIGHT[name](ALPHA) == ""


def test_the_documentation_has_this_table() -> None:
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    stated = {name: checks for name, checks in rows if name in {mutant.name for mutant in MUTANTS}}
    assert stated == {mutant.name: ", ".join(mutant.checks) for mutant in MUTANTS}
