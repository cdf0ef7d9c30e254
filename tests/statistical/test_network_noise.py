"""The noise of PrivBayes: choices follow the exponential mechanism, tables carry the noise that was paid for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from alpha import ALPHA
from gof import cell_probabilities, counts_in, draws_needed, edges_of, exact_cdf, fit_pvalue
from scipy import stats

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import BayesianNetwork
from understudy.mechanisms import create
from understudy.mechanisms.networks.network import Limits, learn_network, resolution_of
from understudy.privacy import GDP, Budget, Gaussian, Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Integer, Schema


def schema_of(*sizes: int) -> Schema:
    return Schema(
        columns=tuple(
            Integer(name, minimum=0, maximum=size - 1) for name, size in zip("abcd", sizes, strict=False)
        )
    )


def curator_of(schema: Schema, codes: np.ndarray, budget: Budget, unit: Unit, seed: int) -> Curator:
    table = LocalTable(schema, {name: codes[:, i] for i, name in enumerate(schema.names)})
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="test")
    return Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))


@pytest.mark.parametrize("budget", [PureDP(1.0), GDP(0.5)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=lambda unit: unit.relation)
@pytest.mark.parametrize("name", ["privbayes", "privbayes-pgm"])
def test_residuals_have_the_scale_the_budget_pays_for(
    name: str, unit: Unit, budget: Budget, seed: int
) -> None:
    """Two tables of 12³ cells: 3,456 residuals. Noise of half the scale, or of twice the scale, would be caught.

    The scale tested is computed here from the budget: 70 % of it, divided over two tables.
    """
    schema = schema_of(12, 12, 12, 12)
    codes = np.random.default_rng(seed).integers(0, 12, (5_000, 4))
    curator = curator_of(schema, codes, budget, unit, seed)
    options = {"flavour": "degree", "degree": 2, "allocation": "equal", "epsilon_split": 0.3}
    model = create(name, **options).fit(curator, budget)
    noise: Laplace | Gaussian
    if isinstance(budget, PureDP):
        noise = Laplace(unit.histogram_l1 / (0.7 * budget.epsilon / 2))
    else:
        assert isinstance(budget, GDP)
        noise = Gaussian(unit.histogram_l2 / (budget.mu * math.sqrt(0.7 / 2)))
    residuals = np.concatenate(
        [(item.values - curator.counts(item.clique)._exact).ravel() for item in model.measurements]
    ).astype(np.int64)
    edges = edges_of(noise)
    right = cell_probabilities(exact_cdf(noise), edges)
    wrongs = [cell_probabilities(exact_cdf(noise, factor=1 / factor), edges) for factor in (0.5, 2.0)]
    assert residuals.size == 3_456
    assert residuals.size >= draws_needed(right, wrongs, ALPHA)
    counts = counts_in(residuals, edges)
    assert fit_pvalue(counts, right) > ALPHA
    assert fit_pvalue(counts, wrongs[0]) < ALPHA
    assert fit_pvalue(counts, wrongs[1]) < ALPHA


def dependence(joint: np.ndarray) -> float:
    n = joint.sum()
    return float(0.5 * np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0)) / n).sum())


def determination(joint: np.ndarray) -> float:
    """Score F with a parent of two values (columns of the table): four assignments."""
    n, best = joint.sum(), math.inf
    for first in (0, 1):
        for second in (0, 1):
            held = [0.0, 0.0]
            held[first] += joint[first, 0]
            held[second] += joint[second, 1]
            best = min(best, sum(max(0.0, n / 2 - mass) for mass in held))
    return -best


def information(joint: np.ndarray) -> float:
    p = joint / joint.sum()
    product = np.outer(p.sum(axis=1), p.sum(axis=0))
    return float((p[p > 0] * np.log(p[p > 0] / product[p > 0])).sum())


N = 60
SENSITIVITY = {
    ("R", "add-remove"): 2.0,
    ("R", "replace-one"): 3.0 + 2.0 / N,
    ("F", "add-remove"): 1.0,
    ("F", "replace-one"): 1.0,
    ("mutual-information", "replace-one"): math.log(N) / N + (N - 1) / N * math.log(N / (N - 1)),
}


@pytest.mark.parametrize(("score", "relation"), SENSITIVITY, ids=lambda item: item)
def test_choices_follow_the_exponential_mechanism(score: str, relation: str, seed: int) -> None:
    """The first of two candidates wins with probability 1/(1 + exp(-epsilon gap / (2 sensitivity))).

    Epsilon is set so that this is .731; half the sensitivity would make it .881. With 1,000 choices the
    two are 11 to 15 standard errors apart, so that neither assertion fails at a rate above 1e-9.
    """
    schema = schema_of(2, 2, 2)
    a = np.arange(N) % 2
    b = np.where(np.arange(N) < 50, a, 1 - a)
    c = np.where(np.arange(N) < 40, a, 1 - a)
    codes = np.stack([a, b, c], axis=1)
    function = {"R": dependence, "F": determination, "mutual-information": information}[score]
    scores = []
    for child in (b, c):
        joint = np.zeros((2, 2))
        np.add.at(joint, (child, a), 1)
        scores.append(function(joint))
    gap = scores[0] - scores[1]
    assert gap > 0
    epsilon = 2 * SENSITIVITY[score, relation] / gap  # makes the odds e : 1
    unit = Unit.add_remove() if relation == "add-remove" else Unit.replace_one()
    curator = curator_of(schema, codes, PureDP(1e9), unit, seed)
    limits = Limits(cells=100, degree=1, candidates=100, seed=0, noise=0.0)
    resolution = resolution_of(schema)
    draws, wins = 1_000, 0
    for _ in range(draws):
        families = learn_network(curator, resolution, root="a", score=score, limits=limits, cost=2 * epsilon)
        wins += families[1].child == "b"

    def pvalue(odds: float) -> float:
        p = 1 / (1 + math.exp(-odds))
        return float(2 * min(stats.binom.cdf(wins, draws, p), stats.binom.sf(wins - 1, draws, p)))

    assert pvalue(1.0) > ALPHA
    assert pvalue(2.0) < ALPHA


@pytest.mark.parametrize("flavour", ["theta", "degree"])
def test_a_strong_dependence_is_found(flavour: str, seed: int) -> None:
    """Column c copies b; a and d are independent of everything. With root b the first choice must be c.

    R of (c | b) exceeds that of the others by at least 600 rows, so each of two rivals is chosen with
    probability below exp(-epsilon 600 / (2 * 4)), together over 20 runs below 1e-9 at epsilon .35.
    """
    schema = schema_of(3, 4, 4, 3)
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 3, (2_000, 4))
    codes[:, 1] = generator.integers(0, 4, 2_000)
    codes[:, 2] = codes[:, 1]
    joints = {}
    for child in (0, 2, 3):
        joints[child] = np.zeros((4, 4))
        np.add.at(joints[child], (codes[:, child], codes[:, 1]), 1)
    gap = dependence(joints[2]) - max(dependence(joints[0]), dependence(joints[3]))
    assert gap > 600
    budget = PureDP(0.35 * 3 / 0.3)  # three choices share 30 %
    for run in range(20):
        curator = curator_of(schema, codes, budget, Unit.replace_one(), seed + run)
        limits = {"degree": 1} if flavour == "degree" else {}
        model = create("privbayes", flavour=flavour, root="b", score="R", **limits).fit(curator, budget)
        assert isinstance(model.distribution, BayesianNetwork)
        assert model.distribution.nodes[1].column == "c"
        kept = model.marginal(("b", "c"))
        assert np.trace(kept) > 0.8 * kept.sum()
