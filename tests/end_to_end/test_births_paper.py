"""The release of paper Births to the letter: its whole space, its published criteria, its total of 9.98."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.datasets import births
from understudy.privacy import Ledger, PureDP, SeededRandomness
from understudy.release.bundle.bundle import write_bundle
from understudy.release.bundle.verify import verify_bundle
from understudy.release.result import ReleaseResult
from understudy.release.run.run import run_release
from understudy.release.spec.spec import Spec

PAPER = Path(__file__).parents[2] / "examples" / "births" / "paper.yaml"


@pytest.mark.slow
def test_the_papers_space_is_released_for_its_total(tmp_path: Path) -> None:
    """Attempts go on until one is accepted; with this seed that takes half a minute of CPU or so. On SAMPLE160K: ``python -m benchmarks --full births-paper``."""
    spec, ledger = Spec.read(PAPER), tmp_path / "births.ledger"
    result = run_release(spec, ledger=ledger, source=births(160_000, seed=1), randomness=SeededRandomness(1))
    assert isinstance(result, ReleaseResult)
    assert result.guarantee.budget == PureDP(9.98)
    with Ledger.open(ledger) as book:
        (charge,) = [entry for entry in book.entries() if entry.event is not None]
    assert charge.purpose.startswith("private selection: attempts until one passes; state ")
    assert 9.979 < charge.costs["pure"] <= 9.98
    told = {item.name: item for item in result.criteria}
    assert len(told) == 9
    assert all(
        item.passed and item.value is not None and item.value < item.threshold for item in result.criteria
    )
    assert sum(item.epsilon or 0.0 for item in result.criteria) == pytest.approx(0.99)
    assert told["regression coefficients"].mechanism == "functional"
    # Table 2 of the paper, for 165,915 births: means of groups and the prediction error have the noise of their sizes
    assert told["absolute k-way"].noise_deviation == pytest.approx(
        2**0.5 / 0.01 / len(result.synthetic), rel=1e-3
    )
    assert told["mean parity"].noise_deviation == pytest.approx(0.044, rel=0.3)
    assert told["mean parity"].bounds == (1.0, 10.0)  # the number printed in the label of the open bin
    assert result.synthetic.groupby(list(result.synthetic), observed=True).size().min() >= 2
    verify_bundle(write_bundle(result, tmp_path / "bundle"))
