"""The auditor is sharp and fair: tight mechanisms show nearly all of their claim, and no more than chance allows.

Powers: with 30,000 runs the bound of a tight mechanism at 2 lies near 1.95 with a deviation of at most .035 (where only
a third of the runs are guessed), so that 1.7 is seven deviations away; the exact laws are not random.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from alpha import ALPHA
from gof import draws_needed, fit_pvalue

from understudy.audit import (
    PRIMITIVES,
    Effort,
    audit_exactly,
    audit_primitive,
    audit_release,
    audit_release_law,
    exact,
)
from understudy.audit.exact import exact_epsilon
from understudy.audit.primitives import Primitive
from understudy.audit.releases import LOOP, PATIENT, SINGLE, neighbour_frames, release_law
from understudy.audit.trials import claim_of
from understudy.errors import WorkloadError
from understudy.privacy import PureDP, Unit
from understudy.privacy.noise.selection import exponential_law
from understudy.release.result import ReleaseFailure
from understudy.release.run.run import run_release
from understudy.release.spec.spec import Spec

TIGHT = [
    item
    for item in PRIMITIVES
    if item.name in {"Laplace noise on a count", "Gaussian noise on a count", "permute-and-flip"}
]


@pytest.mark.parametrize("primitive", TIGHT, ids=lambda item: item.name)
def test_tight_primitives_show_nearly_all_of_their_claim(primitive: Primitive) -> None:
    audit = audit_primitive(primitive, runs=30_000)
    assert not audit.violates(alpha=ALPHA)
    assert audit.demonstrated > 0.85 * audit.claim.value


LEARNERS = [item for item in PRIMITIVES if item.name.startswith("noisy ")]


@pytest.mark.parametrize("primitive", LEARNERS, ids=lambda item: f"{item.name}, {item.pair}")
def test_attacks_on_gradients_and_votes_come_close_to_their_claims(primitive: Primitive) -> None:
    """Less of a claim at a delta: only rare outcomes use it up, and a test of the coin pays for the delta twice."""
    audit = audit_primitive(primitive, runs=6_000)
    assert not audit.violates(alpha=ALPHA)
    expected = 0.1 if primitive.name.endswith("batches") else 0.6
    assert audit.demonstrated > expected * audit.claim.value


@pytest.mark.parametrize("audit", audit_exactly(), ids=lambda item: f"{item.name}, {item.unit[:15]}")
def test_exact_laws_keep_their_claims(audit) -> None:  # type: ignore[no-untyped-def]
    assert not audit.violates()
    assert audit.demonstrated > 0.55 * audit.claim.value


def test_the_tight_exact_laws() -> None:
    shares = {(item.name, item.unit): item.demonstrated / item.claim.value for item in audit_exactly()}
    assert shares[("exponential mechanism", "replace one row")] > 0.99
    assert shares[("smoothed-histogram, one record", "replace one row")] > 0.99
    assert shares[("multinomial-dirichlet, 3 records", "replace one row")] > 0.99
    assert shares[("poisson, one cell", "add or remove one row")] > 0.99


def test_an_infinite_loss_is_a_violation_that_can_be_written() -> None:
    found = exact._timed("one-sided", "all", Unit.add_remove(), claim_of(PureDP(2.0)), lambda: np.inf)
    assert found.violates(1, alpha=1e-6)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["demonstrated"] == exact.LARGEST_SHOWN


def test_exact_epsilon() -> None:
    same = np.array([0.5, 0.5])
    assert exact_epsilon(same, same) == 0
    assert exact_epsilon(np.array([1.0, 0.0]), same) == np.inf
    assert exact_epsilon(np.array([0.9, 0.1]), np.array([1.0, 0.0]), delta=0.2) < 1e-9
    law = exponential_law([0.0, 1.0], epsilon=2.0, sensitivity=1.0)
    assert np.log(law[1] / law[0]) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("text", [LOOP, SINGLE], ids=["loop", "single"])
def test_a_whole_release_keeps_its_promise(text: str) -> None:
    """A release that told the outcome of its attempts apart by the records would be caught; see the mutation suite."""
    audits = audit_release(Spec.parse(text), effort=Effort(40, 24, 100, 60.0, 60.0), rows=(1,))
    assert not any(audit.violates(len(audits), alpha=ALPHA) for audit in audits)
    assert audits[-1].timing is not None


@pytest.mark.parametrize("text", [LOOP, PATIENT], ids=["loop", "patient loop"])
def test_the_law_of_a_release_shows_most_of_its_claim(text: str) -> None:
    """Every probability is computed; a loop charged as one attempt would be exceeded by half."""
    spec = Spec.parse(text)
    audit = audit_release_law(spec)
    assert not audit.violates()
    assert audit.demonstrated > 0.8 * audit.claim.value
    attempt = spec.shares.attempt
    assert isinstance(attempt, PureDP)
    assert audit.demonstrated > (1.5 if text is PATIENT else 1.0) * attempt.epsilon


def test_releases_follow_the_computed_law(tmp_path: Path) -> None:
    """Caught: a loop that makes one attempt only, and one that never gives up."""
    spec = Spec.parse(LOOP.replace("gamma: 0.5", "gamma: 0.1").replace("2.5191", "3.4603"))
    law = release_law(spec, 1, 1)
    share = [float(law.published[law.candidates == yes].sum()) for yes in (0, 1)]
    right = np.array([*share, law.failure])
    attempt = right[:2] / float(spec.attempts.weight_of_pass(np.array([law.passes]))[0])
    wrongs = [
        np.array([*attempt, 1 - law.passes]),
        np.array([*(attempt / law.passes), 0.0]) * (1 - 1e-6) + 1e-6 / 3,
    ]
    runs = draws_needed(right, wrongs, ALPHA)
    assert runs < 400
    counts = np.zeros(3)
    frame = pd.DataFrame({"a": [True]})
    for run in range(runs):
        outcome = run_release(spec, ledger=tmp_path / f"{run}.ledger", source=frame)
        if isinstance(outcome, ReleaseFailure):
            counts[2] += 1
            continue
        assert outcome.model is not None
        no, yes = outcome.model.measurements[0].values.astype(int) - law.start
        candidate = int(outcome.synthetic["a"].astype(bool).sum())
        assert candidate == law.candidates[no, yes]  # the candidate is what the law says it is
        counts[candidate] += 1
    assert fit_pvalue(counts, right) > ALPHA
    for wrong in wrongs:
        assert fit_pvalue(counts, wrong) < ALPHA


def test_a_law_is_computed_for_what_it_fits_only() -> None:
    with pytest.raises(WorkloadError):
        release_law(Spec.parse(SINGLE), 0, 1)


def test_neighbours_of_a_specification_for_persons() -> None:
    spec = dataclasses.replace(Spec.parse(LOOP), unit=Unit.replace_person("who", max_rows=3))
    first, second = neighbour_frames(spec, rows=10, generator=np.random.default_rng(0))
    assert (first["who"] == 0).sum() == 15, "five times the rows that count"
    assert len(first) == len(second)
