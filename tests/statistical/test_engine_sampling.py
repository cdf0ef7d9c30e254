"""Sampled records have the model's expectations, whichever way they are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from alpha import ALPHA
from scipy import stats

from understudy.engine import GraphicalModel, sample_codes
from understudy.schema import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (3, 2, 4, 2))
PER_DRAW = 40
DRAWS = 1500


@pytest.fixture(scope="module")
def model() -> GraphicalModel:
    generator = np.random.default_rng(7)
    cliques = [("a", "b"), ("b", "c"), ("c", "d")]
    return GraphicalModel(DOMAIN, 1.0, tuple((c, generator.normal(size=DOMAIN.shape(c))) for c in cliques))


def histograms(model: GraphicalModel, method: Any, seed: int, draws: int = DRAWS) -> np.ndarray:
    """Counts of every cell of the domain, one row per draw of ``PER_DRAW`` records."""
    generator = np.random.default_rng(seed)
    rows = np.empty((draws, DOMAIN.cells()))
    for draw in range(draws):
        codes = sample_codes(model, PER_DRAW, generator, method=method)
        cells = np.ravel_multi_index(codes.T.astype(np.int64), DOMAIN.sizes)
        rows[draw] = np.bincount(cells, minlength=DOMAIN.cells())
    return rows


def worst_pvalue(rows: np.ndarray, expected: np.ndarray) -> float:
    """Bonferroni-corrected p-value of the cell whose mean over draws is furthest from its expectation."""
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    score = np.abs(rows.mean(axis=0) - expected) / np.maximum(error, 1e-9)
    return float(min(1.0, rows.shape[1] * 2 * stats.norm.sf(score.max())))


@pytest.mark.parametrize("method", ["rounding", "independent"])
def test_every_cell_has_its_expectation(model: GraphicalModel, method: str, seed: int) -> None:
    # False alarm: ALPHA. Wrong answers caught: a chain drawn with one link ignored, below.
    expected = PER_DRAW * model.marginal(DOMAIN.names).ravel()
    rows = histograms(model, method, seed)
    assert worst_pvalue(rows, expected) > ALPHA
    broken = GraphicalModel(DOMAIN, 1.0, model.potentials[:2])
    assert worst_pvalue(rows, PER_DRAW * broken.marginal(DOMAIN.names).ravel()) < ALPHA


def test_rounding_has_less_variance_than_independent_draws(model: GraphicalModel, seed: int) -> None:
    # False alarm: an F test at ALPHA per marginal; the sum of variances must be at least a third smaller.
    rounding, independent = (
        histograms(model, method, seed).reshape(-1, *DOMAIN.sizes) for method in ("rounding", "independent")
    )
    for axes in [(2, 3), (0, 3), (0, 1)]:
        drop = tuple(axis + 1 for axis in axes)
        ratio = rounding.sum(axis=drop).var(axis=0).sum() / independent.sum(axis=drop).var(axis=0).sum()
        assert ratio < 0.67
