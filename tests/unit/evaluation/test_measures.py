"""Measures of two tables against brute force, other libraries and answers known in advance."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from understudy.errors import WorkloadError
from understudy.evaluation import (
    SECTIONS,
    Comparison,
    Options,
    Result,
    attribute_inference,
    evaluate,
    exact_matches,
    face_privacy,
    k_marginal_score,
    kway_distances,
    membership_inference,
    workload_errors,
)
from understudy.evaluation.accuracy import interval_coverage
from understudy.evaluation.distances import propensity_errors
from understudy.evaluation.evaluate import _label_column
from understudy.evaluation.face import constraint_violations, k_anonymity, l_diversity, unique_records
from understudy.evaluation.measures import (
    coefficient_differences,
    conditional_mean_differences,
    conditional_median_differences,
    correlation,
    correlation_differences,
    cramers_v,
    fit_line,
    interval_overlaps,
    mutual_information,
    rare_cell_errors,
    subgroup_distances,
)
from understudy.marginals import all_kway, workload_error
from understudy.schema import Integer, Schema

SCHEMA = Schema.parse(
    """
name: staff
columns:
  - {name: age, kind: integer, minimum: 18, maximum: 60, missing: true}
  - {name: pay, kind: integer, bins: {edges: [0, 10, 20, 40, 80]}}
  - {name: grade, kind: ordinal, values: [a, b, c]}
  - {name: town, kind: categorical, values: [x, y, z]}
  - {name: night, kind: boolean}
constraints:
  - not (age < 20 and grade == "c")
"""
)


def people(n: int, seed: int = 0) -> np.ndarray:
    """Pay follows age and grade; town and night are noise."""
    generator = np.random.default_rng(seed)
    age = generator.integers(2, 43, n)
    grade = np.clip(age // 15 + generator.integers(-1, 2, n), 0, 2)
    pay = np.clip(grade + generator.integers(0, 2, n), 0, 3)
    age = np.where(generator.random(n) < 0.05, 43, age)
    return np.stack([age, pay, grade, generator.integers(0, 3, n), generator.integers(0, 2, n)], axis=1)


def pair(n: int = 400, seed: int = 0) -> Comparison:
    return Comparison(SCHEMA, people(n, seed), people(n, seed + 100))


# ---------------------------------------------------------------------------------------- marginals


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_total_variation_equals_a_plain_count(k: int) -> None:
    both = pair(150)
    found = kway_distances(both, k)
    for clique in combinations(range(5), k):
        a, b = (
            Counter(map(tuple, codes[:, clique].tolist()))
            for codes in (both.real_codes, both.synthetic_codes)
        )
        expected = sum(abs(a[key] / 150 - b[key] / 150) for key in a | b) / 2
        assert found.values[" ".join(SCHEMA.names[i] for i in clique)] == pytest.approx(expected)


def test_large_domains_are_counted_over_what_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    both = pair(200)
    plain = kway_distances(both, 4)
    monkeypatch.setattr("understudy.evaluation.comparison.MOST_CELLS", 10)
    assert dict(kway_distances(both, 4).values) == pytest.approx(dict(plain.values))


def test_domains_beyond_64_bits_are_counted() -> None:
    columns = ", ".join(f"{{name: c{i}, kind: integer, minimum: 0, maximum: 999}}" for i in range(8))
    wide = Schema.parse(f"columns: [{columns}]")
    codes = np.random.default_rng(0).integers(0, 1000, (50, 8))
    other = codes.copy()
    other[:10, 0] = (other[:10, 0] + 1) % 1000
    assert kway_distances(Comparison(wide, codes, other), 8).mean == pytest.approx(10 / 50)


def test_workload_errors_average_to_definition_two() -> None:
    both = pair()
    workload = all_kway(SCHEMA.domain, 2)
    counts = [both.counts(clique) for clique in workload.cliques]
    expected = workload_error(workload, [a for a, _ in counts], [b for _, b in counts], n_rows=400)
    assert workload_errors(both, workload).mean == pytest.approx(expected)


def test_the_k_marginal_score_is_nist_s(shared_data: Path) -> None:
    """An independent formula: pandas groups and densities, on the ACS excerpts of Massachusetts and Texas."""
    frames = [
        pd.read_csv(shared_data / "nist_acs_excerpts" / f"{state}2019.csv", dtype=str).fillna("N")
        for state in ("ma", "tx")
    ]
    columns = ["SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "DVET"]
    columns = [name for name in columns if all(name in frame for frame in frames)]
    assert len(columns) >= 5
    lines = []
    for name in columns:
        values = sorted(set(frames[0][name]) | set(frames[1][name]))
        lines.append(f"{{name: {name}, kind: categorical, values: {[str(v) for v in values]}}}")
    schema = Schema.parse("columns: [" + ", ".join(lines) + "]")
    both = Comparison.of_frames(schema, frames[0][columns], frames[1][columns])
    for k in (2, 3):
        differences = []
        for group in combinations(columns, k):
            a, b = (frame.groupby(list(group)).size() / len(frame) for frame in frames)
            differences.append(a.sub(b, fill_value=0).abs().sum())
        expected = (2 - np.mean(differences)) / 2 * 1000
        assert k_marginal_score(kway_distances(both, k)).values["score"] == pytest.approx(expected)


def test_rare_cells_and_subgroups() -> None:
    schema = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
    real = np.array([[0, 0]] * 98 + [[1, 0]] * 2)
    made = np.array([[0, 0]] * 99 + [[1, 1]] * 1)
    both = Comparison(schema, real, made)
    rare = rare_cell_errors(both, k=1, shares=(0.05, 1.0))
    assert rare.values["up to 5.00% of rows"] == pytest.approx(0.5)  # two records, one drawn
    assert rare.values["up to 100.00% of rows"] == pytest.approx((1 / 98 + 1 / 100) / 2)
    groups = subgroup_distances(both, "a", least_rows=2)
    assert groups.values == pytest.approx({"false": 0.0, "true": 1.0})
    assert "true" not in subgroup_distances(both, "a", least_rows=3).values


# ---------------------------------------------------------------------------------------- relations


def test_correlations_are_scipy_s() -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(0, 6, 200).astype(float)
    y = x + generator.integers(0, 4, 200).astype(float)
    assert correlation(x, y) == pytest.approx(stats.pearsonr(x, y)[0])
    assert correlation(x, y, ranks=True) == pytest.approx(stats.spearmanr(x, y)[0])
    x[3] = np.nan
    there = ~np.isnan(x)
    assert correlation(x, y, ranks=True) == pytest.approx(stats.spearmanr(x[there], y[there])[0])
    assert correlation(np.ones(5), y[:5]) == 0.0


@pytest.mark.parametrize("ranks", [False, True])
def test_differences_of_correlations_leave_out_gaps_pair_by_pair(ranks: bool) -> None:
    """Ranking a column once for all pairs would be wrong where records with a gap in the other are left out."""
    schema = Schema(
        [
            Integer("a", minimum=0, maximum=9, missing=True),
            Integer("b", minimum=0, maximum=9),
            Integer("c", minimum=0, maximum=9),
        ]
    )

    def drawn(number: int) -> pd.DataFrame:
        generator = np.random.default_rng(number)
        frame = pd.DataFrame(generator.integers(0, 10, (300, 3)), columns=["a", "b", "c"]).astype("Int64")
        frame["b"] = (frame["b"] + frame["c"]) // 2
        frame.loc[frame["b"] > 5, "a"] = pd.NA
        return frame

    tables = drawn(1), drawn(2)
    codes = [np.stack([*schema.encode_frame(frame).values()], axis=1).astype(np.int64) for frame in tables]
    found = correlation_differences(Comparison(schema, *codes), ranks=ranks).values
    measure: Any = stats.spearmanr if ranks else stats.pearsonr
    for x, y in combinations("abc", 2):
        one, two = (
            measure(*pair.dropna()[[x, y]].to_numpy(float).T)[0] for pair in (t[[x, y]] for t in tables)
        )
        assert found[f"{x} {y}"] == pytest.approx(abs(one - two)), (x, y)


def test_association_is_scipy_s() -> None:
    counts = np.random.default_rng(2).integers(0, 30, (3, 4))
    assert cramers_v(counts) == pytest.approx(stats.contingency.association(counts, method="cramer"))
    joint = counts / counts.sum()
    entropies = [stats.entropy(p.ravel(), base=2) for p in (joint.sum(0), joint.sum(1), joint)]
    assert mutual_information(counts) == pytest.approx(entropies[0] + entropies[1] - entropies[2])


def test_conditional_means_and_medians() -> None:
    both = pair(300)
    numbers = both.numbers("age")
    assert numbers is not None
    for measure, summary in (
        (conditional_mean_differences, np.nanmean),
        (conditional_median_differences, np.nanmedian),
    ):
        worst = max(
            abs(
                summary(numbers[0][both.real_codes[:, 2] == g])
                - summary(numbers[1][both.synthetic_codes[:, 2] == g])
            )
            for g in range(3)
        )
        assert measure(both, "age").values["grade"] == pytest.approx(worst)
    assert not conditional_mean_differences(both, "town").values  # no numbers, no means


def test_regressions_are_statsmodels_s() -> None:
    api = pytest.importorskip("statsmodels.api", reason="statsmodels referees the regressions")
    both = pair(500)
    fit = fit_line(both, both.real_codes, "age")
    codes = both.real_codes[both.real_codes[:, 0] < 43]
    pay = SCHEMA.column("pay")
    assert isinstance(pay, Integer)
    middles = pay.midpoints
    design = np.column_stack(
        [
            np.ones(len(codes)),
            middles[codes[:, 1]],
            codes[:, 2],
            codes[:, 3] == 1,
            codes[:, 3] == 2,
            codes[:, 4],
        ]
    ).astype(float)
    other = api.OLS(codes[:, 0] + 18.0, design).fit()
    assert fit.names == ("intercept", "pay", "grade", "town=y", "town=z", "night")
    np.testing.assert_allclose(fit.coefficients, other.params, rtol=1e-8)
    np.testing.assert_allclose(fit.errors, other.bse, rtol=1e-8)
    with pytest.raises(WorkloadError, match="categorical"):
        fit_line(both, both.real_codes, "town")


def test_the_same_table_has_the_same_regression() -> None:
    same = Comparison(SCHEMA, people(300), people(300))
    assert coefficient_differences(same, "age").worst[1] == pytest.approx(0, abs=1e-9)
    assert interval_overlaps(same, "age").worst[1] == pytest.approx(1)


# ---------------------------------------------------------------------------------------- telling apart


def test_propensity_ratio_is_near_one_for_the_same_law_and_large_for_another() -> None:
    """The ratio of a bootstrap has mean 1 and of another sample 2, with 50 coefficients and deviations of .2 and .4.

    The bounds are five deviations off; a formula without the factor (1 - c) fails the first, one with its
    square the second.
    """
    real = people(3000)
    drawn = real[np.random.default_rng(3).integers(0, 3000, 3000)]
    assert 0.6 < propensity_errors(Comparison(SCHEMA, real, drawn)).values["ratio"] < 1.5
    same = propensity_errors(pair(3000))
    assert 1.2 < same.values["ratio"] < 3.2
    shifted = people(3000, 5)
    shifted[:, 4] = np.random.default_rng(1).random(3000) < 0.8
    other = propensity_errors(Comparison(SCHEMA, people(3000), shifted))
    assert other.values["ratio"] > 10
    assert other.values["logistic"] > 5 * same.values["logistic"]


# ---------------------------------------------------------------------------------------- face and disclosure


def test_face_of_a_table() -> None:
    codes = np.array([[2, 0, 0, 0, 0], [2, 0, 0, 0, 0], [2, 0, 1, 0, 1]])
    both = Comparison(SCHEMA, codes, codes)
    assert unique_records(both).values["synthetic"] == pytest.approx(1 / 3)
    assert k_anonymity(SCHEMA, codes, ["age"]) == 3
    assert k_anonymity(SCHEMA, codes, ["age", "grade"]) == 1
    assert l_diversity(SCHEMA, codes, ["age"], "night") == 2
    assert l_diversity(SCHEMA, codes, ["grade"], "night") == 1
    assert k_anonymity(SCHEMA, codes[:0], ["age"]) == l_diversity(SCHEMA, codes[:0], ["age"], "night") == 0
    assert face_privacy(both, columns=["grade"], sensitive="pay").values["k of the synthetic table"] == 1
    with pytest.raises(WorkloadError, match="sensitive"):
        l_diversity(SCHEMA, codes, ["age"], "age")


def test_broken_constraints_are_counted() -> None:
    made = np.array(
        [[0, 0, 2, 0, 0], [0, 0, 1, 0, 0], [5, 0, 2, 0, 0], [5, 0, 2, 0, 0]]
    )  # age 18 and grade c
    both = Comparison(SCHEMA, people(10), made)
    assert list(constraint_violations(both).values.values()) == [0.25]


def test_exact_matches_have_a_baseline() -> None:
    real = people(200)
    copies = Comparison(SCHEMA, real, np.concatenate([real[:50], people(150, 9)]))
    found = exact_matches(copies, holdout=people(200, 10))
    assert found.values["synthetic"] >= 0.25
    assert found.values["held-out records"] < found.values["synthetic"]


def test_attribute_inference_against_brute_force() -> None:
    both = pair(200)
    known, secret = ["age", "grade"], "pay"
    made = both.synthetic_codes
    common = Counter(made[:, 1].tolist()).most_common(1)[0][0]
    right = 0
    for person in both.real_codes:
        like = made[(made[:, 0] == person[0]) & (made[:, 2] == person[2])][:, 1]
        guess = np.bincount(like).argmax() if len(like) else common
        right += guess == person[1]
    found = attribute_inference(both, known=known, secret=secret, holdout=people(100, 3))
    assert found.values["real"] == pytest.approx(right / 200)
    assert set(found.values) == {"real", "held-out", "blind"}
    with pytest.raises(WorkloadError, match="secret"):
        attribute_inference(both, known=["pay"], secret="pay")


def test_membership_inference_sees_a_copy_and_not_an_honest_sample() -> None:
    """A table that copies its records is found out; one of the same law is not.

    Advantage of chance with 500 against 500 records stays below .15 with probability above 1 - 1e-4
    (Kolmogorov-Smirnov); the seeds are fixed. A score that ignores the synthetic table fails the first part.
    """
    columns = ", ".join(f"{{name: c{i}, kind: integer, minimum: 0, maximum: 19}}" for i in range(6))
    schema = Schema.parse(f"columns: [{columns}]")
    generator = np.random.default_rng(0)
    real, held, fresh = (generator.integers(0, 20, (n, 6)) for n in (500, 1000, 500))
    copied = membership_inference(Comparison(schema, real, real), held)
    honest = membership_inference(Comparison(schema, real, fresh), held)
    assert copied.values["auc"] > 0.85
    assert copied.values["advantage"] > 0.5
    assert abs(honest.values["auc"] - 0.5) < 0.1
    assert honest.values["advantage"] < 0.15
    with pytest.raises(WorkloadError, match="20"):
        membership_inference(Comparison(schema, real, fresh), held[:5])


def test_coverage_of_intervals() -> None:
    found = interval_coverage({"a": ([0, 0], [1, 1]), "b": ([2], [3])}, {"a": [0.5, 2], "b": [2]})
    assert dict(found.values) == {"a": 0.5, "b": 1.0}
    with pytest.raises(WorkloadError, match="shape"):
        interval_coverage({"a": ([0], [1])}, {"a": [1, 2]})
    with pytest.raises(WorkloadError, match="no real number"):
        interval_coverage({"a": ([0], [1])}, {})


def test_total_variation_is_sdmetrics_s_complement() -> None:
    single = pytest.importorskip("sdmetrics.single_column", reason="sdmetrics referees total variation")
    both = pair(300)
    frames = [
        pd.DataFrame(
            {"town": SCHEMA.decode({n: c[:, i] for i, n in enumerate(SCHEMA.names)}, seed=0)["town"]}
        )
        for c in (both.real_codes, both.synthetic_codes)
    ]
    other = single.TVComplement.compute(real_data=frames[0]["town"], synthetic_data=frames[1]["town"])
    assert 1 - kway_distances(both, 1).values["town"] == pytest.approx(other)


# ---------------------------------------------------------------------------------------- everything


def test_everything_at_once() -> None:
    steps: list[str] = []
    found = evaluate(
        pair(300),
        Options(holdout=people(100, 7), sensitive="night", identifiers=["age", "town"]),
        progress=lambda stage, fraction: steps.append(stage),
    )
    expected = [title for title in SECTIONS if title != "entities"]  # of people with several rows alone
    assert [section.title for section in found.sections] == expected
    assert all(section.results for section in found.sections), found.left_out
    assert not found.left_out
    assert steps == [*expected, "done"]
    document = found.to_dict()
    assert next(iter(document)) == "warning"
    assert found.result("membership inference").values["auc"] > 0
    with pytest.raises(WorkloadError, match="no measure"):
        found.result("beauty")


POLICIES = Schema.parse(
    """
name: policies
left_out: {note: free text}
columns:
  - {name: job, kind: categorical, values: [x, y], out_of_domain: to-other}
  - {name: sex, kind: categorical, values: [f, m], out_of_domain: to-nearest}
  - {name: town, kind: categorical, values: [a], missing: true, out_of_domain: to-missing}
  - {name: age, kind: integer, minimum: 18, maximum: 60, out_of_domain: clamp}
  - {name: pay, kind: integer, bins: {edges: [0, 10, 20]}}
"""
)


def test_what_the_schema_hides_is_said_and_depends_on_no_real_record() -> None:
    synthetic = np.array([[2, 0, 0, 0, 0], [0, 1, 1, 42, 1], [1, 1, 1, 20, 1], [2, 0, 0, 20, 0]])
    rng = np.random.default_rng(3)
    said = {
        evaluate(
            Comparison(POLICIES, rng.integers(0, POLICIES.domain.sizes, (50, 5)), synthetic),
            Options(sections=["marginals"]),
        ).hidden
        for _ in range(5)
    }
    assert len(said) == 1
    lines = "\n".join(said.pop())
    assert "job (50 % of the synthetic rows)" in lines
    assert "sex (as f)" in lines
    assert "town (50 % of the synthetic rows)" in lines
    assert "age (18 and 60: 50 % of the synthetic rows)" in lines
    assert "note" in lines
    assert "pay" not in lines
    assert Comparison(SCHEMA, people(5), people(5)).hidden() == ()


def test_what_cannot_be_computed_is_said() -> None:
    schema = Schema.parse("columns: [{name: a, kind: categorical, values: [x, y]}]")
    found = evaluate(Comparison(schema, [[0], [1]], [[0], [0]]))
    assert any("four records" in reason for reason in found.left_out)
    with pytest.raises(WorkloadError, match="section"):
        evaluate(pair(), Options(sections=["beauty"]))
    with pytest.raises(WorkloadError, match="at least 1"):
        evaluate(Comparison(SCHEMA, people(0), people(10)))


def test_results_name_their_worst() -> None:
    assert Result("x", {"a": 1, "b": 2}, better="higher").worst == ("a", 1.0)


@pytest.mark.parametrize(("sizes", "wanted"), [((2, 3, 15), "b"), ((40, 12, 15), "c"), ((1, 40, 30), None)])
def test_the_column_to_classify_by_has_few_values(sizes: tuple[int, ...], wanted: str | None) -> None:
    columns = [Integer(name, minimum=0, maximum=size - 1) for name, size in zip("abc", sizes, strict=True)]
    codes = np.zeros((10, 3), dtype=np.uint8)
    assert _label_column(Comparison(Schema(columns), codes, codes), None) == wanted
