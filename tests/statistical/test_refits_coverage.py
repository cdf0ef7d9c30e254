"""Coverage of intervals from refits: .93 to .97 for counts that were measured.

Fits of a column of 40 values have independent noise in every cell: 40 intervals a fit, 2,400 in all. With a coverage of .95 the share that holds lies outside .93 to .97 with a
probability below 2e-5 (4.5 deviations of .0044). The wrong answer that it catches: refits with half the noise of the fit cover about .72.

The second test fits a smooth curve to counts that are not smooth, so that every fit is wrong by what the model lacks, and refits, whose tables are smooth, are not. The measured counts tell: a little that is missing
widens the intervals, and much of it hands the question back to the measurements. 60 tables with 40 cells each, 2,400 intervals for each size of what is missing; with a coverage of .93 the share is below .905 with a probability below 1e-5 (4.8
deviations of .0052). The wrong answer: refits that do not look at what was measured cover less than .85.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.inference import Evidence, History, Refits, Uncertainty
from understudy.inference.refits import Refit
from understudy.marginals import Measurement
from understudy.mechanisms import create
from understudy.privacy import GDP, Ledger, SeededRandomness, Unit
from understudy.schema import Domain, Integer, Schema

FITS, CODES, ROWS = 60, 40, 20_000


def test_counts_that_were_measured_are_covered_as_often_as_is_said(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = Schema(columns=(Integer("n", minimum=0, maximum=CODES - 1),), name="t")
    codes = rng.choice(CODES, ROWS, p=rng.dirichlet(np.full(CODES, 3.0)))
    real = np.bincount(codes, minlength=CODES)
    table, unit, budget = LocalTable(schema, {"n": codes}), Unit.add_remove(), GDP(0.1)
    method = create("independent")
    held = {1: 0, 2: 0}
    for number in range(FITS):
        ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
        randomness = SeededRandomness(1_000 * seed + number)
        model = method.fit(Curator(table, unit=unit, ledger=ledger, randomness=randomness), budget)
        for factor in held:
            told = replace(model, provenance=replace(model.provenance, budget=GDP(0.1 * factor)))
            found = told.refits(8, seed=number).interval(("n",))
            assert found.basis == "refits"
            held[factor] += int(((found.low <= real) & (real <= found.high)).sum())
    assert 0.93 <= held[1] / (FITS * CODES) <= 0.97
    assert held[2] / (FITS * CODES) < 0.85


def _fit(
    counts: np.ndarray, domain: Domain, sigma: float, rng: np.random.Generator
) -> tuple[np.ndarray, Evidence]:
    noisy = counts + np.rint(rng.normal(0, sigma, CODES))
    measured = (Measurement(("n",), noisy, "gaussian", sigma),)
    return _smooth(noisy), Evidence(domain, measured, History.planned(1))


def _smooth(counts: np.ndarray) -> np.ndarray:
    """Fit a polynomial of degree four."""
    places = np.linspace(-1, 1, len(counts))
    return np.asarray(np.maximum(0.0, np.polynomial.polynomial.Polynomial.fit(places, counts, 4)(places)))


@pytest.mark.parametrize(("size", "basis"), [(0.03, "refits"), (0.15, "measured")])
def test_what_the_model_lacks_of_a_measured_column_is_seen(seed: int, size: float, basis: str) -> None:
    rng = np.random.default_rng(seed)
    domain, sigma, tables = Domain(("n",), (CODES,)), 20.0, 60
    covered, bases = {"measured": 0, "not looked at": 0}, []
    for _ in range(tables):
        shape = _smooth(rng.normal(500, 200, CODES)) + 100
        real = np.rint(np.maximum(0.0, shape * (1 + size * rng.normal(size=CODES))))
        model, evidence = _fit(real, domain, sigma, rng)
        refits = []
        for _ in range(8):
            drawn = np.rint(model).astype(int)
            again, seen = _fit(drawn.astype(float), domain, sigma, rng)
            refits.append(
                Refit(
                    {"n": np.repeat(np.arange(CODES), drawn)},
                    lambda cliques, counts=again: [counts for _ in cliques],  # type: ignore[misc]
                    seen,
                    lambda: ({}, {}),  # type: ignore[arg-type, return-value]
                )
            )
        for told in covered:
            shown = evidence
            if told == "not looked at":  # as if the model agreed with what was measured
                shown = Evidence(domain, (replace(evidence.measurements[0], values=model),), evidence.history)
            uncertainty = Uncertainty(shown, lambda cliques, counts=model: [counts for _ in cliques])  # type: ignore[misc]
            found = Refits(uncertainty, tuple(refits)).interval(("n",))
            covered[told] += int(((found.low <= real) & (real <= found.high)).sum())
            if told == "measured":
                bases.append(found.basis)
    assert bases.count(basis) > tables / 2
    assert covered["measured"] / (tables * CODES) >= 0.905
    assert covered["not looked at"] / (tables * CODES) < 0.85
