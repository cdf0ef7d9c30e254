"""Covers, queries and quantiles: against dense least squares and exact convolutions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from understudy.errors import BudgetError, WorkloadError
from understudy.inference import Evidence, History, Round
from understudy.inference.covers import summed, weighted_average
from understudy.inference.intervals import answer, best_weights, effects, query_interval, table_estimate
from understudy.inference.laws import WeightedNoise
from understudy.inference.signs import combined, readings
from understudy.marginals import Measurement, SumsOfSigns
from understudy.schema import Clique, Domain

DOMAIN = Domain(("a", "b", "c"), (2, 3, 2))


def measure(clique: Clique, seed: int, scale: float, noise: str = "gaussian") -> Measurement:
    values = np.random.default_rng(seed).integers(0, 50, DOMAIN.shape(clique)).astype(float)
    return Measurement(clique, values, noise, scale)  # type: ignore[arg-type]


def evidence(*items: Measurement, history: History | None = None, total: float | None = None) -> Evidence:
    return Evidence(DOMAIN, items, history or History.planned(len(items)), total)


def matrix(clique: Clique) -> np.ndarray:
    """The 0/1 matrix that sums all cells of the domain to a marginal."""
    cells = list(product(*(range(size) for size in DOMAIN.sizes)))
    rows = list(product(*(range(size) for size in DOMAIN.shape(clique))))
    where = [DOMAIN.index(name) for name in clique]
    return np.array([[float(tuple(cell[i] for i in where) == row) for cell in cells] for row in rows])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_effects_add_up_and_are_orthogonal(seed: int) -> None:
    clique: Clique = ("a", "b", "c")
    weights = np.random.default_rng(seed).normal(size=DOMAIN.shape(clique))
    parts = effects(weights, clique)
    spread = [
        np.broadcast_to(part.reshape([DOMAIN.size(n) if n in columns else 1 for n in clique]), weights.shape)
        for columns, part in parts.items()
    ]
    np.testing.assert_allclose(sum(spread), weights, atol=1e-12)
    for i, left in enumerate(spread):
        for right in spread[:i]:
            assert abs((left * right).sum()) < 1e-9


@pytest.mark.parametrize(
    ("query", "cliques"),
    [
        (("a",), [("a",), ("a", "b"), ("b", "c")]),
        (("a", "b"), [("a", "b"), ("a", "b", "c"), ("b",), ("c",)]),
        (("a", "b", "c"), [("a", "b", "c"), ("a", "b"), ("b", "c"), ("a",)]),
    ],
)
def test_answers_are_those_of_generalised_least_squares(query: Clique, cliques: list[Clique]) -> None:
    items = [measure(clique, index, 1.0 + index) for index, clique in enumerate(cliques)]
    stack = np.vstack([matrix(item.clique) / item.scale for item in items])
    seen = np.concatenate([item.values.ravel() / item.scale for item in items])
    solved, *_ = np.linalg.lstsq(stack, seen, rcond=None)
    covariance = np.linalg.pinv(stack.T @ stack)
    target = matrix(query)
    told = evidence(*items)
    table = table_estimate(told, told.batches[0], query)
    assert table is not None
    np.testing.assert_allclose(table.ravel(), target @ solved, atol=1e-9)
    for cell in range(len(target)):
        one = np.zeros(len(target))
        one[cell] = 1.0
        found = answer(told, told.batches[0], effects(one.reshape(DOMAIN.shape(query)), query))
        assert found is not None
        assert found.value == pytest.approx(float(table.ravel()[cell]))
        exact = float((target @ covariance @ target.T)[cell, cell])
        assert found.noise.gaussian == pytest.approx(exact)


def test_a_public_total_replaces_the_noisy_one() -> None:
    item = measure(("b",), 0, 3.0)
    told = evidence(item, total=100.0)
    table = table_estimate(told, told.batches[0], ("b",))
    assert table is not None
    assert table.sum() == pytest.approx(100.0)
    found = best_weights(DOMAIN, [item], effects(np.ones(3), ("b",)), total=100.0)
    assert found == (100.0, [])


def test_queries_that_nothing_covers_have_no_answer() -> None:
    told = evidence(measure(("a",), 0, 1.0), measure(("b",), 1, 1.0))
    assert answer(told, told.batches[0], effects(np.eye(2, 3), ("a", "b"))) is None
    assert table_estimate(told, told.batches[0], ("a", "b")) is None
    additive = np.arange(2.0)[:, None] + np.arange(3.0)[None, :]
    assert answer(told, told.batches[0], effects(additive, ("a", "b"))) is not None


def test_weighted_average_has_the_variance_of_theorem_two() -> None:
    items = [measure(("a", "b"), 0, 2.0), measure(("a",), 1, 3.0), measure(("a", "b", "c"), 2, 1.0)]
    found = weighted_average(DOMAIN, items, ("a",))
    assert found is not None
    n = {item.clique: DOMAIN.cells(item.clique) for item in items}
    precision = sum(2 / (n[item.clique] * item.scale**2) for item in items)
    assert found[1] ** 2 == pytest.approx(1 / precision)
    assert weighted_average(DOMAIN, items, ("c",)) is not None
    assert weighted_average(DOMAIN, items[:2], ("c",)) is None


def test_covers_keep_batches_apart_and_average_inside_them() -> None:
    items = [measure(("a",), 0, 40.0), measure(("a", "b"), 1, 20.0), measure(("a", "c"), 2, 10.0)]
    planned = evidence(*items).covers(("a",))
    assert len(planned) == 1
    both = weighted_average(DOMAIN, items, ("a",))
    assert both is not None
    # rounding adds a little to each variance and so moves the weights a little
    np.testing.assert_allclose(planned[0].values, both[0], rtol=0.02)
    assert planned[0].noise.variance == pytest.approx(both[1] ** 2, rel=0.02)
    step = Round(("a", "c"), np.full((2, 2), 7.0), items[2], 0.1, (("a", "c"),), 1.0, 1.0, 0.8, 1.0)
    apart = evidence(*items, history=History((2, 1), (step,))).covers(("a",))
    assert [cover.reference is None for cover in apart] == [True, False]
    assert apart[1].reference is not None
    np.testing.assert_allclose(apart[1].reference, [14.0, 14.0])
    np.testing.assert_allclose(apart[1].values, summed(items[2].values, ("a", "c"), ("a",)))
    assert apart[1].noise.terms == 2
    mixed = evidence(measure(("a",), 0, 9.0), measure(("a",), 1, 2.0, "laplace")).covers(("a",))
    assert mixed[0].noise.kind == "laplace"
    with pytest.raises(WorkloadError, match="history tells of 2"):
        Evidence(DOMAIN, (items[0],), History.planned(2))


def rounded(sigma: float) -> np.ndarray:
    reach = int(12 * sigma + 12)
    size = np.abs(np.arange(-reach, reach + 1))
    mass = norm.sf((size - 0.5) / sigma) - norm.sf((size + 0.5) / sigma)
    mass[reach] = 1 - 2 * norm.sf(0.5 / sigma)
    return mass


def laplace(scale: float) -> np.ndarray:
    reach = int(45 * scale + 10)
    mass = np.exp(-np.abs(np.arange(-reach, reach + 1.0)) / scale)
    return np.asarray(mass / mass.sum())


def miss(mass: np.ndarray, half: float) -> float:
    """Probability that a whole number of this law is larger than ``half`` in absolute value."""
    reach = (len(mass) - 1) // 2
    return float(mass[np.abs(np.arange(-reach, reach + 1)) > half].sum())


@pytest.mark.parametrize("scale", [0.3, 0.5, 0.88, 1.0, 2.5, 7.0])
@pytest.mark.parametrize("draws", [1, 2, 5, 20])
@pytest.mark.parametrize("beta", [0.2, 0.05, 0.01])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_sums_of_whole_noise_stay_inside_their_half_width(
    kind: str, draws: int, scale: float, beta: float
) -> None:
    one = rounded(scale) if kind == "gaussian" else laplace(scale)
    law = one
    for _ in range(draws - 1):
        law = np.convolve(law, one)
    item = Measurement(("a",), np.zeros(draws), kind, scale)  # type: ignore[arg-type]
    half = WeightedNoise.of([(item, np.ones(draws))]).half_width(beta)
    assert miss(law, half) <= beta * (1 + 1e-6)
    # nearly all of the width is needed: two rows less fail
    assert miss(law, half - 2.0) > beta or half < 3 or scale < 0.5


def test_quantiles_of_mixed_noise_match_a_convolution() -> None:
    one = Measurement(("a",), np.zeros(1), "gaussian", 8.0)
    two = Measurement(("a",), np.zeros(2), "laplace", 6.0)
    noise = WeightedNoise.of([(one, np.ones(1)), (two, np.array([1.0, 2.0]))])
    stretched = np.zeros(2 * len(laplace(6.0)) - 1)
    stretched[::2] = laplace(6.0)
    law = np.convolve(np.convolve(rounded(8.0), laplace(6.0)), stretched)
    half = noise.half_width(0.05)
    assert 0.04 < miss(law, half) <= 0.05
    assert noise.proxy is None
    assert noise.variance == pytest.approx(64 + 1 / 12 + 2 * 36 * 5)


def test_one_laplace_draw_has_a_closed_form() -> None:
    item = Measurement((), np.zeros(()), "laplace", 10.0)
    assert WeightedNoise.of([(item, np.ones(()))]).half_width(0.05) == pytest.approx(10 * math.log(20) + 0.5)
    with pytest.raises(WorkloadError):
        WeightedNoise.of([(item, np.ones(()))]).half_width(1.0)


# ------------------------------------------------------------------------------------ sums of signs

SIGNS = Domain(("a", "b", "c"), (2, 2, 3))


def known_by_signs(scale: float, *looks: tuple[Clique, ...], total: float | None = 100.0) -> Evidence:
    """A table of 40, 10, 20 and 30 rows over two columns of two values, told without noise that was claimed to have a scale."""
    sums = {("a",): 0.0, ("b",): 20.0, ("a", "b"): 40.0}
    columns = (
        Measurement(("a",), np.array([50.0, 50.0]), "gaussian", scale),
        Measurement(("b",), np.array([60.0, 40.0]), "gaussian", scale),
    )
    released = tuple(
        SumsOfSigns(
            "sums",
            np.array([sums[clique] for clique in look]),
            "mechanism",
            cliques=look,
            scales=np.full(len(look), scale),
            planned=place == 0,
        )
        for place, look in enumerate(looks)
    )
    return Evidence(SIGNS, columns, History.planned(2), total, released)


@pytest.mark.parametrize("total", [100.0, None])
def test_sums_of_signs_and_columns_say_any_count_of_a_pair(total: float | None) -> None:
    again: tuple[Clique, ...] = (("a",), ("b",), ("a", "b"))
    evidence = known_by_signs(1.0, (("a", "b"),), again, total=total)
    weights = np.array([[1.0, 0.0], [2.5, -1.0]])
    found = query_interval(evidence, ("a", "b"), weights, beta=0.05)
    assert found is not None
    low, high, estimate = found
    exact = float((weights * np.array([[40.0, 10.0], [20.0, 30.0]])).sum())
    assert estimate == pytest.approx(exact)
    assert low < exact < high
    assert evidence.supports(("a", "b"))


def test_the_half_width_of_one_planned_look_is_that_of_its_law() -> None:
    """With a public number of rows a cell is a quarter of three sums: two columns, whose difference has twice the variance of a cell, and a pair."""
    evidence = known_by_signs(10.0, (("a", "b"),))
    cell = np.array([[1.0, 0.0], [0.0, 0.0]])
    found = query_interval(evidence, ("a", "b"), cell, beta=0.05)
    assert found is not None
    law = math.sqrt((2 + 2 + 1) * 100.0 / 16) * norm.ppf(1 - 0.25 * 0.05 / 2)
    assert law <= (found[1] - found[0]) / 2 <= law + 0.2  # rounding to whole rows


def test_readings_are_fixed_before_the_noise_of_their_looks() -> None:
    """The second reading needs a second look at every effect but the number of rows, which keeps its first."""
    wanted: list[Clique] = [(), ("a",), ("b",), ("a", "b")]
    pair: tuple[Clique, ...] = (("a", "b"),)
    one, two = (known_by_signs(1.0, pair, look, total=None) for look in (pair, (("a",), ("b",), ("a", "b"))))
    assert [share for share, _ in readings(one, wanted)] == [0.25]
    (_, first), (share, second) = readings(two, wanted)
    assert share == 0.75
    assert dict(first) == {0: [(), ("a",), ("b",)], 1: [("a", "b")]}
    assert dict(second) == {0: [()], 2: [("a",), ("b",), ("a", "b")]}
    assert readings(two, [("a", "c")]) == []


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), beta=st.sampled_from([1e-9, 0.05, 0.5]))
def test_looks_that_were_not_planned_cost_more_and_never_less_than_their_law(seed: int, beta: float) -> None:
    generator = np.random.default_rng(seed)
    laws = [WeightedNoise(float(square), 0.0, (), 0.0) for square in generator.exponential(100.0, 3)]
    exact = WeightedNoise(sum(law.gaussian for law in laws), 0.0, (), 0.0).half_width(beta)
    assert combined([(law, True) for law in laws], beta) == pytest.approx(exact)
    for known in ((True, True, False), (True, False, False), (False, False, False)):
        assert combined(list(zip(laws, known, strict=True)), beta) > exact


@pytest.mark.parametrize(
    "wrong",
    [
        {"scales": np.array([0.0])},
        {"scales": np.array([np.nan])},
        {"scales": np.array([1.0, 1.0])},
        {"cliques": ()},
        {"cliques": ((),)},
        {"values": np.array([np.inf])},
        {"noise": "gaussian", "scale": 1.0},
    ],
)
def test_sums_of_signs_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    right: dict[str, object] = {
        "name": "s", "values": np.array([1.0]), "noise": "mechanism", "cliques": (("a", "b"),), "scales": np.array([1.0]),
    }  # fmt: skip
    SumsOfSigns(**right)  # type: ignore[arg-type]
    with pytest.raises(BudgetError):
        SumsOfSigns(**(right | wrong))  # type: ignore[arg-type]


def test_sums_of_signs_of_columns_with_more_values_are_refused() -> None:
    with pytest.raises(WorkloadError, match="two values"):
        Evidence(
            SIGNS,
            (),
            History.planned(0),
            sums=(SumsOfSigns("s", np.ones(1), "mechanism", cliques=(("a", "c"),), scales=np.ones(1)),),
        )
