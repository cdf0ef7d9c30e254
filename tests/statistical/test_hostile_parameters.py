"""Every criterion in both forms and every sealed operation under hostile parameters: the quick form of ``python -m benchmarks.releases.neighbours``.

No sampling error is involved: each pair of neighbours either respects the claim or refutes it. The second test of each kind shows that the pairs are hard
enough: a claim lowered by five percent is refuted.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from understudy.audit.hostile import KINDS, search_criteria, share_moved
from understudy.errors import WorkloadError
from understudy.release import MaxMarginalError

neighbours = pytest.importorskip(
    "benchmarks.releases.neighbours", reason="the benchmarks are not beside these tests"
)

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("kind", KINDS)
def test_no_specification_moves_a_criterion_further_than_is_charged(kind: str, seed: int) -> None:
    found = search_criteria(kind, specifications=12, neighbours=6, seed=seed)
    tried = [worst for worst in found.values() if worst.triples]
    assert tried
    for worst in tried:
        assert worst.share <= 1
        assert worst.triples > 40


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_of_a_criterion_lowered_by_five_percent_is_caught(kind: str) -> None:
    found = search_criteria(kind, specifications=16, neighbours=10, seed=1, claim=0.95)
    for form, worst in found.items():
        assert not worst.triples or worst.share > 1, form


@pytest.mark.parametrize("name", neighbours.OPERATIONS)
def test_no_parameters_move_a_sealed_number_further_than_is_charged(name: str, seed: int) -> None:
    worst = neighbours.search_operation(name, tables=40, neighbours=5, seed=seed)
    assert worst.share <= 1
    assert worst.triples > 100


@pytest.mark.parametrize("name", neighbours.OPERATIONS)
def test_a_claim_of_a_sealed_number_lowered_by_five_percent_is_caught(name: str) -> None:
    assert neighbours.search_operation(name, tables=60, neighbours=6, seed=1, claim=0.95).share > 1


def test_the_search_sees_a_mean_of_doubles() -> None:
    """The fault of 0.1.0: at 1e16 a mean of doubles jumps by 2 where 0.002 is claimed."""
    values = np.array([1e16, 1e16 + 2])
    means = [Fraction(float((np.array([1_000 - k, k]) * values).sum() / 1_000)) for k in range(1_001)]
    moves = [share_moved(one, two, 0.002) for one, two in pairwise(means)]
    assert max(moves) > 100


@pytest.mark.parametrize("threshold", [0.0, -0.0, math.inf, -math.inf, math.nan])
def test_thresholds_without_a_meaning_are_refused_when_a_criterion_is_made(threshold: float) -> None:
    with pytest.raises(WorkloadError, match="must be positive and finite"):
        MaxMarginalError(name="c", threshold=threshold)
