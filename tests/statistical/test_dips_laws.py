"""The vectorised mechanisms of the DIPS benchmark have the law of the registered methods.

A registered method is fitted ``FITS`` times to one small table; one number is taken from each model and put into cells whose
probabilities come from 400,000 draws of the vectorised mechanism. The chi-square p-value must exceed ALPHA = 1e-9 (the
error of the simulated probabilities is 20 times smaller than that of the fits). The wrong answer, the same mechanism
with 2.5 times the budget, must fall below it. Fits and budgets were chosen from that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alpha import ALPHA
from scipy import stats

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.mechanisms import Model, create
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

ROOT = Path(__file__).parents[2]
FITS, SUMS, DRAWS, CELLS = 350, 150, 400_000, 8
ROWS, ONES, WRONG = 40, 12, 2.5
COUNTS = np.array([ROWS - ONES, ONES], dtype=np.float64)

Draw = Callable[[Any, int, float, np.random.Generator], np.ndarray]


@pytest.fixture
def laws(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return pytest.importorskip(
        "benchmarks.papers._dips_laws", reason="the benchmarks are not beside these tests"
    )


def fitted(name: str, seed: int, table: LocalTable, epsilon: float, **options: Any) -> Model:
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=PureDP(epsilon), unit=unit, table="t")
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))
    return create(name, **options).fit(curator, PureDP(epsilon))


def binary() -> LocalTable:
    schema = Schema.parse(f"name: t\nrow_count: {ROWS}\ncolumns: [{{name: x, kind: boolean}}]")
    return LocalTable(schema, {"x": np.repeat(np.array([0, 1], dtype=np.uint8), COUNTS.astype(int))})


def p_value(numbers: np.ndarray, reference: np.ndarray) -> float:
    """Chi-square of numbers in cells that are about equally likely under the reference."""
    edges = np.unique(np.quantile(reference, np.arange(1, CELLS) / CELLS))
    expected = np.bincount(np.searchsorted(edges, reference), minlength=len(edges) + 1) / len(reference)
    observed = np.bincount(np.searchsorted(edges, numbers), minlength=len(edges) + 1)
    kept = expected > 0
    assert not observed[~kept].any()
    return float(stats.chisquare(observed[kept], expected[kept] * len(numbers)).pvalue)


def laplace(laws: Any, size: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    tables = np.broadcast_to(COUNTS, (size, 2))
    return np.asarray(
        laws.shares(laws.boundary_inflated(laws.laplace_cells(tables, epsilon, rng), ROWS))[:, 1]
    )


def modips(laws: Any, size: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(
        laws.modips_probabilities(np.broadcast_to(COUNTS, (size, 2)), epsilon, ROWS, 1 / 3, rng)[:, 1]
    )


def urn(laws: Any, size: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    drawn = laws.multinomial_dirichlet(np.broadcast_to(COUNTS, (size, 2)), epsilon, ROWS, rng)[:, 1]
    return np.asarray(rng.binomial(ROWS, drawn) / ROWS)


def mean_drawn(laws: Any, size: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    return rng.binomial(ROWS, np.full(size, laws.mcclure_reiter(COUNTS[1], epsilon, ROWS))) / ROWS


def smoothed(laws: Any, size: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    return rng.binomial(ROWS, np.full(size, laws.smoothed(COUNTS, epsilon, ROWS)[1])) / ROWS


def perturbed(laws: Any, size: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    noisy = laws.laplace_cells(np.broadcast_to(COUNTS, (size, 2)), epsilon, rng)
    return np.asarray(laws.shares(np.maximum(noisy, 0.0))[:, 1])


CASES: dict[str, tuple[str, dict[str, Any], Draw, float]] = {
    "laplace": ("laplace", {"post_processing": "boundary-inflated"}, laplace, 0.5),
    "modips": ("modips", {"model": "multinomial", "posterior": "naive", "alpha": 1 / 3}, modips, 0.2),
    "multinomial-dirichlet": ("multinomial-dirichlet", {}, urn, 0.5),
    "binomial-beta": ("binomial-beta", {}, urn, 0.5),
    "mcclure-reiter": ("mcclure-reiter", {}, mean_drawn, 0.5),
    "smoothed-histogram": ("smoothed-histogram", {"records": ROWS}, smoothed, 0.5),
    "perturbed-histogram": ("perturbed-histogram", {"post_processing": "zero-truncation"}, perturbed, 0.5),
}


@pytest.mark.parametrize("case", CASES)
def test_a_vectorised_mechanism_has_the_law_of_the_method(case: str, laws: Any, seed: int) -> None:
    name, options, draw, epsilon = CASES[case]
    table = binary()
    shares = []
    for index in range(FITS):
        cells = fitted(name, 1_000_000 * seed + index, table, epsilon, **options).marginal(("x",))
        shares.append(cells[1] / cells.sum() if cells.sum() else 0.5)
    rng = np.random.default_rng(seed)
    found = np.array(shares)
    assert p_value(found, draw(laws, DRAWS, epsilon, rng)) > ALPHA
    assert p_value(found, draw(laws, DRAWS, WRONG * epsilon, rng)) < ALPHA


def test_the_smoothed_histogram_of_two_bins_is_the_synthesizer_of_mcclure_and_reiter(laws: Any) -> None:
    for epsilon in (0.1, 1.0, 20.0):
        assert np.isclose(
            laws.mcclure_reiter(COUNTS[1], epsilon, ROWS), laws.smoothed(COUNTS, epsilon, ROWS)[1]
        )


def test_the_two_binomial_laws_have_the_mean_shares_of_their_papers(laws: Any, seed: int) -> None:
    """1,000 rows, 100 ones, epsilon 1: 0.312 by Abowd and Vilhuber, 0.367 by McClure and Reiter.

    A share of the first has a deviation of 0.018, of the second 0.015; the mean of 120 fits is off by 0.0017. Five of those
    (0.008) are a false alarm with probability 6e-7 and tell the two laws, 0.055 apart, with certainty.
    """
    schema = Schema.parse("name: t\nrow_count: 1000\ncolumns: [{name: x, kind: boolean}]")
    table = LocalTable(schema, {"x": np.repeat(np.array([0, 1], dtype=np.uint8), [900, 100])})
    for name, expected in (("binomial-beta", 0.312), ("mcclure-reiter", 0.367)):
        found = [fitted(name, 10_000 * seed + index, table, 1.0).marginal(("x",)) for index in range(120)]
        assert abs(np.mean([cells[1] / cells.sum() for cells in found]) - expected) < 0.008, name
    assert np.isclose(laws.mcclure_reiter(100.0, 1.0, 1000), 0.367, atol=5e-4)


def test_sums_have_the_law_of_the_normal_model(laws: Any, seed: int) -> None:
    """Sums and second moments as modips releases them, in units of the scaled variable."""
    from benchmarks.papers._dips_study2 import noisy_sums

    schema = Schema.parse("name: t\nrow_count: 20\ncolumns: [{name: x, kind: real, minimum: -3, maximum: 4}]")
    codes = np.random.default_rng(1).integers(300, 700, 20)
    table = LocalTable(schema, {"x": codes.astype(np.uint16)})
    # codes are cells of equal width; the method multiplies their middles
    middles = -3 + 7 * (codes + 0.5) / schema.column("x").value_count
    released = []
    for index in range(SUMS):
        model = fitted("modips", index + 10_000 * seed, table, 0.5, model="normal", posterior="naive")
        released.append([float(np.ravel(item.values)[0]) / 4**15 for item in model.statistics])
    rng = np.random.default_rng(seed)
    many = np.broadcast_to(middles, (DRAWS // 20, 20))
    for place in range(2):
        numbers = np.array(released)[:, place]
        assert p_value(numbers, noisy_sums(many, 0.5, (-3.0, 4.0), rng)[place].values) > ALPHA
        assert p_value(numbers, noisy_sums(many, WRONG * 0.5, (-3.0, 4.0), rng)[place].values) < ALPHA
