"""The auditor is sharp and fair: tight mechanisms show nearly all of their claim, and no more than chance allows.

Powers: with 30,000 runs the bound of a tight mechanism at 2 lies near 1.95 with a deviation of at most .035 (where only
a third of the runs are guessed), so that 1.7 is seven deviations away; the exact laws are not random.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from alpha import ALPHA

from understudy.audit import PRIMITIVES, Effort, Primitive, audit_exactly, audit_primitive, audit_release
from understudy.audit.exact import exact_epsilon
from understudy.audit.releases import LOOP, SINGLE, neighbour_frames
from understudy.privacy import Unit, exponential_law
from understudy.release.spec import Spec

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
    audits = audit_release(Spec.parse(text), effort=Effort(24, 24, 40, 3.0, 3.0))
    assert not any(audit.violates(len(audits), alpha=ALPHA) for audit in audits)
    assert audits[-1].timing is not None


def test_neighbours_of_a_specification_for_persons() -> None:
    spec = dataclasses.replace(Spec.parse(LOOP), unit=Unit.replace_person("who", max_rows=3))
    first, second = neighbour_frames(spec, rows=10, generator=np.random.default_rng(0))
    assert (first["who"] == 0).sum() == 3
    assert len(first) == len(second) == 10
