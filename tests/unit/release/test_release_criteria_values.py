"""Every criterion equals a reference that loops over rows, and its slack has the right sign."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from release_brute import (
    cell_errors,
    cliques,
    group_values,
    largest_matching,
    least_squares,
    lower_median,
    marginal,
    relative_error,
    rows_of,
)
from release_examples import AGES, BASELINE, CRITERIA, DOMAIN, EVERY, GAPPY, LINE, SCORES, SIZES

from understudy.errors import WorkloadError
from understudy.release import (
    AnonymousCombinations,
    ConditionalMeans,
    ConditionalMedians,
    Grouping,
    MaxMarginalError,
    RareRecords,
    RecordTypes,
    RegressionCoefficients,
    RelativeMarginalError,
    TailMarginalError,
)
from understudy.release.criteria.marginals import clipped_ratio_sensitivity, proposition_5
from understudy.release.regressions.fits import Feature, Regression
from understudy.schema import Domain

ROWS = st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.sizes))
REAL = st.lists(ROWS, min_size=0, max_size=30)
CANDIDATE = st.lists(ROWS, min_size=1, max_size=30)
MEMBERS = [("sex", {0}), ("sex", {1}), ("age", {0, 1}), ("age", {2}), (None, None)]

Rows = list[tuple[int, ...]]


def types(rows: Rows) -> RecordTypes:
    return RecordTypes.from_rows(DOMAIN, rows)


@given(REAL, CANDIDATE)
def test_marginal_errors(real: Rows, synthetic: Rows) -> None:
    n, pair = len(synthetic), (types(real), types(synthetic))
    assert CRITERIA["max"].value(*pair) == max(cell_errors(real, synthetic, DOMAIN, None)) / n
    assert CRITERIA["max of pairs"].value(*pair) == max(cell_errors(real, synthetic, DOMAIN, (2,))) / n
    assert CRITERIA["relative"].value(*pair) == pytest.approx(relative_error(real, synthetic, DOMAIN))
    assert CRITERIA["relative"].released_value(*pair) == pytest.approx(
        min(2.0, relative_error(real, synthetic, DOMAIN))
    )
    errors = sorted(cell_errors(real, synthetic, DOMAIN, None), reverse=True)
    assert CRITERIA["tail"].value(*pair) == errors[int(0.1 * len(errors))] / n
    total = sum(cell_errors(real, synthetic, DOMAIN, (1, 2)))
    assert CRITERIA["average"].value(*pair) == pytest.approx(total / 2 / n / len(cliques(DOMAIN, (1, 2))))


@given(REAL, CANDIDATE)
def test_large_domains_give_the_same_marginal_errors(real: Rows, synthetic: Rows) -> None:
    # the same tables, but one column has so many possible codes that no dense table is built
    wide = Domain(DOMAIN.names, (2, 4, 2**30))
    pair = RecordTypes.from_rows(wide, real), RecordTypes.from_rows(wide, synthetic)
    criterion = MaxMarginalError(name="max", threshold=0.2)
    assert criterion.value(*pair) == criterion.value(types(real), types(synthetic))


@given(REAL, CANDIDATE)
def test_conditional_means_and_medians(real: Rows, synthetic: Rows) -> None:
    mean_errors, median_errors = [], []
    for by, members in MEMBERS:
        left, right = (group_values(rows, DOMAIN, "size", SIZES, by, members) for rows in (real, synthetic))
        middle = 4.5
        if left:
            mean_errors.append(abs(np.mean(left) - (np.mean(right) if right else middle)))
            median_errors.append(abs(lower_median(left) - (lower_median(right) if right else middle)))
    pair = types(real), types(synthetic)
    assert CRITERIA["means"].value(*pair) == pytest.approx(max(mean_errors, default=0.0))
    assert CRITERIA["medians"].value(*pair) == pytest.approx(max(median_errors, default=0.0))


@given(REAL, CANDIDATE)
def test_the_released_mean_error_is_the_expectation_over_subsets(real: Rows, synthetic: Rows) -> None:
    criterion = CRITERIA["means"]
    assert isinstance(criterion, ConditionalMeans)
    errors = []
    for by, members in MEMBERS:
        left, right = (group_values(rows, DOMAIN, "size", SIZES, by, members) for rows in (real, synthetic))
        m = max(1, len(right) - math.ceil(0.1 * len(synthetic)))
        if len(left) >= m:
            expected = np.mean(left)  # every subset of m values is equally likely
        else:
            expected = (sum(left) + (m - len(left)) * 4.5) / m
        errors.append(abs(expected - (np.mean(right) if right else 4.5)))
    assert criterion.released_value(types(real), types(synthetic)) == pytest.approx(max(errors))


@given(REAL, CANDIDATE)
@settings(deadline=None)
def test_faithfulness_and_scores(real: Rows, synthetic: Rows) -> None:
    pairs = largest_matching(
        real,
        synthetic,
        lambda a, b: a[0] == b[0] and abs(a[1] - b[1]) + abs(a[2] - b[2]) <= 1,
    )
    pair = types(real), types(synthetic)
    assert CRITERIA["faithfulness"].value(*pair) == (len(synthetic) - pairs) / len(synthetic)
    sums = [sum(SCORES[row[0], row[2]] for row in rows) for rows in (real, synthetic)]
    assert CRITERIA["score"].value(*pair) == pytest.approx(abs(sums[0] - sums[1]) / len(synthetic))


def _design(rows: Rows, regression: Regression) -> tuple[np.ndarray, np.ndarray]:
    names = [DOMAIN.names.index(f.column) for f in regression.features]
    target = DOMAIN.names.index(regression.target.column)
    x = np.array(
        [[f.values[row[i]] for f, i in zip(regression.features, names, strict=True)] for row in rows]
    )
    y = np.array([regression.target.values[row[target]] for row in rows])
    usable = np.isfinite(y)
    return x[usable], y[usable]


@pytest.mark.parametrize("regression", [LINE, GAPPY], ids=["full", "gaps"])
def test_regression_errors(regression: Regression) -> None:
    generator = np.random.default_rng(5)
    kind = "" if regression is LINE else "gappy "
    low, high = regression.target.bounds
    for _ in range(100):
        real, synthetic = (
            [tuple(row) for row in generator.integers(0, DOMAIN.sizes, (40, 3))] for _ in range(2)
        )
        (x, y), (xs, ys) = _design(real, regression), _design(synthetic, regression)
        centre, width = xs.mean(axis=0), xs.std(axis=0)
        w = least_squares((x - centre) / width, y)
        ws = least_squares((xs - centre) / width, ys)
        pair = types(real), types(synthetic)
        assert EVERY[kind + "coefficients"].value(*pair) == pytest.approx(np.abs(w - ws).sum())
        design = np.column_stack([np.ones(len(x)), (x - centre) / width])

        def mae(fit: np.ndarray, y: np.ndarray = y, design: np.ndarray = design) -> float:
            return np.abs(y - np.clip(design @ fit, low, high)).sum() / 40

        assert EVERY[kind + "prediction"].value(*pair) == pytest.approx(abs(mae(w) - mae(ws)))
        if regression is LINE:
            raw = np.clip(BASELINE.intercept + x @ np.array(BASELINE.slopes), low, high)
            expected = abs(np.abs(y - raw).sum() / 40 - mae(ws))
            assert EVERY["baseline prediction"].value(*pair) == pytest.approx(expected)


def test_a_singular_design_has_an_infinite_error_and_no_slack() -> None:
    flat = types([(0, 1, 2)] * 10)
    varied = types([(a, b, c) for a in range(2) for b in range(4) for c in range(5)])
    for name in ("coefficients", "prediction"):
        assert EVERY[name].value(varied, flat) == math.inf
        assert EVERY[name].slack(varied, flat) == -math.inf
        assert EVERY[name].value(flat, varied) == math.inf
        assert EVERY[name].slack(flat, varied) <= 0


@pytest.mark.parametrize("name", sorted(EVERY))
def test_positive_slack_means_met(name: str) -> None:
    """And, where the slack is exact, negative slack means violated. Both signs must occur."""
    criterion = EVERY[name]
    exact = "coefficients" not in name and "prediction" not in name
    generator = np.random.default_rng(11)
    signs = []
    for trial in range(400):
        n = int(generator.integers(1, 400 if trial % 2 else 30))
        synthetic = generator.integers(0, DOMAIN.sizes, (n, 3))
        real = synthetic.copy()
        changed = generator.random(n) < generator.choice([0.0, 0.05, 0.3, 1.0])
        real[changed] = np.minimum(
            generator.geometric(0.4, (int(changed.sum()), 3)) - 1, np.array(DOMAIN.sizes) - 1
        )
        pair = RecordTypes.from_rows(DOMAIN, real), RecordTypes.from_rows(DOMAIN, synthetic)
        value, slack = criterion.value(*pair), criterion.slack(*pair)
        signs.append(slack > 0)
        if slack > 1e-9:
            assert criterion.met(value)
        elif exact and slack < -1e-9:
            assert not criterion.met(value)
    assert 0 < sum(signs) < len(signs), "the threshold is on one side of everything"


def test_the_median_slack_counts_the_records_that_must_be_replaced() -> None:
    criterion = ConditionalMedians(name="m", threshold=2.0, column="size", values=(1.0, 2.0, 3.0, 4.0, 5.0))
    synthetic = [(0, 0, 0)] * 21
    for low in range(12, 22):
        real = [(0, 0, 0)] * low + [(0, 0, 4)] * (21 - low)
        slack = criterion.slack(types(real), types(synthetic))
        steps = 0
        while criterion.met(criterion.value(types(real), types(synthetic))):
            real[real.index((0, 0, 0))] = (0, 0, 4)
            steps += 1
        assert math.ceil(slack) == steps


def test_median_scores_are_largest_at_the_true_error() -> None:
    criterion = CRITERIA["medians"]
    assert isinstance(criterion, ConditionalMedians)
    generator = np.random.default_rng(2)
    for _ in range(300):
        real, synthetic = (
            types([tuple(r) for r in generator.integers(0, DOMAIN.sizes, (25, 3))]) for _ in "rs"
        )
        if (real.marginal(("sex", "size"))[:, :4].sum(axis=1) == 0).any() or real.marginal(("age",))[2] == 0:
            continue
        errors, scores = criterion.scores(real, synthetic)
        truth = int(np.flatnonzero(errors == criterion.value(real, synthetic))[0])
        assert scores[truth] >= 0
        assert (scores[np.arange(len(scores)) != truth] <= 0).all()


@given(st.lists(st.integers(0, 200), min_size=1, max_size=6), st.floats(1.05, 4.0), st.integers(1, 4))
def test_the_sensitivity_of_the_clipped_ratio_is_that_of_a_full_enumeration(
    counts: list[int], clip: float, k: int
) -> None:
    r = np.arange(0, 1100)
    worst = 0.0
    for s in counts:
        ratio = (r + 1) / (s + 1)
        error = np.minimum(np.maximum(ratio, 1 / ratio), clip)
        worst = max(worst, *(np.abs(error[j:] - error[:-j]).max() for j in range(1, k + 1)))
    assert clipped_ratio_sensitivity(counts, clip=clip, rows_per_unit=k) == pytest.approx(worst, abs=1e-12)
    if k == 1 and clip > 1 + 1 / max(1, max(counts)):
        assert worst <= proposition_5(min(counts), clip=clip) + 1e-12


def test_values_of_absent_bins_count_in_the_relative_error() -> None:
    domain = Domain(("a",), (3,))
    real, synthetic = RecordTypes(domain, [[0]], [10]), RecordTypes(domain, [[1]], [10])
    assert RelativeMarginalError(name="r", threshold=1.4, clip=2).value(real, synthetic) == 11.0


def test_face_privacy_looks_at_the_candidate_alone() -> None:
    candidate = types([(0, 0, 0)] * 3 + [(0, 1, 1)] * 3 + [(1, 1, 1)])
    for real in (candidate, types([]), types([(1, 3, 4)] * 7)):
        assert RareRecords(name="u").value(real, candidate) == 1
        assert RareRecords(name="u").slack(real, candidate) == -math.inf
        assert RareRecords(name="u", min_count=1).slack(real, candidate) == math.inf
        rule = AnonymousCombinations(name="k", k=3, column_sets=(("sex",), ("age", "size")))
        assert rule.value(real, candidate) == 1  # sex 1 has one row; (1, 1) has four
        assert not rule.reads_real
    counted = marginal(rows_of(candidate), DOMAIN, ("age", "size"))
    assert sorted(counted.values()) == [3, 4]


def test_criteria_say_what_does_not_fit() -> None:
    table = types([(0, 0, 0)])
    cases = [
        (MaxMarginalError(name="x", threshold=0.1, orders=(4,)), "order 4"),
        (RelativeMarginalError(name="x", threshold=1.5, clip=2, columns=("height",)), "'height'"),
        (ConditionalMeans(name="x", threshold=1, column="size", values=(1.0,)), "one value per code"),
        (ConditionalMeans(name="x", threshold=1, column="h", values=(1.0,)), "'h'"),
        (
            ConditionalMeans(
                name="x", threshold=1, column="age", values=AGES, groups=(Grouping.each("sex", 3),)
            ),
            "one group per code",
        ),
        (
            RegressionCoefficients(
                name="x", threshold=1, regression=Regression(Feature("h", (1.0,)), (Feature("age", AGES),))
            ),
            "'h'",
        ),
        (AnonymousCombinations(name="x", k=2, column_sets=(("h",),)), "'h'"),
    ]
    for criterion, words in cases:
        assert any(words in problem for problem in criterion.problems(DOMAIN))
        with pytest.raises(WorkloadError, match="'x'"):
            criterion.value(table, table)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_criterion_refuses_other_domains_and_empty_candidates(name: str) -> None:
    criterion = EVERY[name]
    table = types([(0, 0, 0)])
    assert criterion.problems(DOMAIN) == []
    other = RecordTypes.from_rows(Domain(DOMAIN.names, (2, 4, 6)), [(0, 0, 0)])
    for action in (criterion.value, criterion.slack):
        with pytest.raises(WorkloadError):
            action(table, types([]))
        with pytest.raises(WorkloadError):
            action(other, table)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_thresholds_must_be_positive_and_names_present(name: str) -> None:
    for bad in ({"threshold": 0.0}, {"threshold": -1.0}, {"threshold": math.nan}, {"name": ""}):
        with pytest.raises(WorkloadError):
            dataclasses.replace(EVERY[name], **bad)


def test_bad_options_are_refused() -> None:
    for build in (
        lambda: RelativeMarginalError(name="x", threshold=2.5, clip=2.0),
        lambda: RelativeMarginalError(name="x", threshold=1.0, clip=2.0),
        lambda: TailMarginalError(name="x", threshold=0.1, share=1.0),
        lambda: MaxMarginalError(name="x", threshold=0.1, orders=()),
        lambda: ConditionalMeans(name="x", threshold=1.0, column="a", values=(math.nan,)),
        lambda: ConditionalMeans(name="x", threshold=1.0, column="a", values=(1.0,), groups=()),
        lambda: ConditionalMeans(name="x", threshold=1.0, column="a", values=(1.0,), marginal_threshold=1.0),
        lambda: Grouping("a", (0, 2)),
        lambda: Grouping("a", (-1, -1)),
        lambda: Grouping(None, (0,)),
        lambda: Grouping.of("a", [[0], [0]], size=2),
        lambda: RareRecords(name="x", min_count=0),
        lambda: Regression(Feature("y", (1.0,)), ()),
        lambda: Regression(Feature("y", (1.0,)), (Feature("y", (1.0,)),)),
        lambda: Regression(Feature("y", (1.0,)), (Feature("x", (1.0, 2.0)),), support=np.ones((3, 1), bool)),
        lambda: Regression(Feature("y", (1.0,)), (Feature("x", (1.0, 2.0)),), support=np.zeros((2, 1), bool)),
        lambda: Feature("x", (math.inf,)),
    ):
        with pytest.raises(WorkloadError):
            build()
