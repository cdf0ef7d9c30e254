"""How far the marginals of two tables are apart: workload error, total variation, the k-marginal score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from understudy.errors import WorkloadError
from understudy.evaluation.comparison import Codes, Comparison, Floats, numbers_of
from understudy.evaluation.distances import total_variation
from understudy.evaluation.result import Result
from understudy.marginals import Workload

# ----------------------------------------------------------------------------------------
# Means and medians of a numeric column within the groups of another.


def conditional_mean_differences(both: Comparison, target: str, *, least_rows: int = 10) -> Result:
    """Return the largest error of the target's mean within any group, by grouping column."""
    return _by_groups(both, target, np.mean, "mean", least_rows)


def conditional_median_differences(both: Comparison, target: str, *, least_rows: int = 10) -> Result:
    """Return the largest error of the target's median within any group, by grouping column."""
    return _by_groups(both, target, np.median, "median", least_rows)


def _by_groups(
    both: Comparison, target: str, summary: Callable[[Floats], np.floating], word: str, least_rows: int
) -> Result:
    """Compare a summary of the target within every value of every other column.

    Groups with fewer than ``least_rows`` real records are left out; a group without synthetic ones is compared
    with the summary of the whole synthetic table, which is what a user would fall back to.
    """
    numbers = both.numbers(target)
    values: dict[str, float] = {}
    if numbers is None:
        return Result(f"largest error of the {word} of {target} in a group", values, better="lower")
    real, made = numbers
    overall = float(summary(made[~np.isnan(made)])) if (~np.isnan(made)).any() else float("nan")
    for name in both.domain.names:
        if name == target:
            continue
        at = both.domain.index(name)
        worst = 0.0
        for code in range(both.domain.size(name)):
            inside = real[both.real_codes[:, at] == code]
            inside = inside[~np.isnan(inside)]
            if len(inside) < least_rows:
                continue
            other = made[both.synthetic_codes[:, at] == code]
            other = other[~np.isnan(other)]
            found = float(summary(other)) if len(other) else overall
            if not np.isnan(found):
                worst = max(worst, abs(float(summary(inside)) - found))
        values[name] = worst
    return Result(f"largest error of the {word} of {target} in a group", values, better="lower")


# ----------------------------------------------------------------------------------------
# Relations between two columns: correlations of numbers, mutual information and Cramér's V of any columns.


def correlation_differences(both: Comparison, *, ranks: bool = False) -> Result:
    """Return how far the correlation of every two numeric columns is off: Pearson's, or Spearman's by ranks.

    Records that lack one of the two numbers are left out of that pair. A column that does not vary has
    correlation zero.
    """
    sides = {name: both.numbers(name) for name in both.numeric_columns}
    ready = {  # columns without gaps are ranked once, not once per pair
        name: [None if np.isnan(side).any() else _ranks(side) if ranks else side for side in side_table or ()]
        for name, side_table in sides.items()
    }
    values = {}
    for x, y in combinations(both.numeric_columns, 2):
        one, two = sides[x], sides[y]
        assert one is not None
        assert two is not None
        real, made = (
            correlation(a, b, ranks=ranks) if left is None or right is None else correlation(left, right)
            for a, b, left, right in zip(one, two, ready[x], ready[y], strict=True)
        )
        values[f"{x} {y}"] = abs(real - made)
    kind = "rank correlations" if ranks else "correlations"
    return Result(f"absolute difference of {kind}", values, better="lower")


def correlation(x: Floats, y: Floats, *, ranks: bool = False) -> float:
    """Return the correlation of two columns of numbers, by ranks if wanted; zero where one does not vary.

    Examples
    --------
    >>> round(correlation(np.array([1.0, 2, 3, np.nan]), np.array([1.0, 4, 9, 0])), 3)
    0.99
    """
    there = ~(np.isnan(x) | np.isnan(y))
    a, b = x[there], y[there]
    if ranks:
        a, b = _ranks(a), _ranks(b)
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Floats) -> Floats:
    """Return ranks, ties sharing the average one."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    average: Floats = (ends - (counts - 1) / 2).astype(np.float64)
    return average[places.ravel()]


def mutual_information_differences(both: Comparison) -> Result:
    """Return how far the mutual information of every pair of columns is off, in bits."""
    return _pair_differences(both, mutual_information, "mutual information (bits)")


def _pair_differences(both: Comparison, measure: Callable[[Codes], float], title: str) -> Result:
    values = {}
    for x, y in combinations(both.domain.names, 2):
        shape = both.domain.shape((x, y))
        real, made = (measure(counts.reshape(shape)) for counts in both.counts((x, y)))
        values[f"{x} {y}"] = abs(real - made)
    return Result(f"absolute difference of {title}", values, better="lower")


def mutual_information(counts: Codes) -> float:
    """Return the mutual information of a table of counts over two columns, in bits.

    Examples
    --------
    >>> mutual_information(np.array([[5, 0], [0, 5]])), mutual_information(np.array([[1, 1], [1, 1]]))
    (1.0, 0.0)
    """
    total = counts.sum()
    if not total:
        return 0.0
    joint = counts / total
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    there = joint > 0
    return max(0.0, float((joint[there] * np.log2(joint[there] / product[there])).sum()))


def cramers_v_differences(both: Comparison) -> Result:
    """Return how far Cramér's V of every pair of columns is off."""
    return _pair_differences(both, cramers_v, "Cramér's V")


def cramers_v(counts: Codes | Floats) -> float:
    """Return Cramér's V of a table of counts or shares, over the rows and columns that occur.

    Examples
    --------
    >>> cramers_v(np.array([[5, 0], [0, 5]]))
    1.0
    """
    table = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if min(table.shape, default=0) < 2:
        return 0.0
    total = table.sum()
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / total
    chi_squared = float(((table - expected) ** 2 / expected).sum())
    return math.sqrt(chi_squared / (total * (min(table.shape) - 1)))


# ----------------------------------------------------------------------------------------
# Does a regression on the synthetic table say what it says on the real one? (Coefficients and interval overlap.)

_NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class LinearFit:
    """Coefficients of a least-squares fit with their standard errors; the intercept comes first."""

    names: tuple[str, ...]
    coefficients: Floats
    errors: Floats


def coefficient_differences(both: Comparison, target: str) -> Result:
    """Return how many real standard errors each coefficient of the regression of the target is off."""
    real, made = _both_fits(both, target)
    values = {
        name: abs(a - b) / error
        for name, a, b, error in zip(
            real.names, real.coefficients, made.coefficients, real.errors, strict=True
        )
        if error > 0
    }
    return Result(f"coefficients of {target}, in standard errors", values, better="lower")


def interval_overlaps(both: Comparison, target: str) -> Result:
    """Return how much the 95 % intervals of each coefficient overlap (Karr et al. 2006): 1 if they are the same.

    The average of the share of either interval that lies in the other; negative where they are apart.
    """
    real, made = _both_fits(both, target)
    values = {}
    for index, name in enumerate(real.names):
        if not (real.errors[index] > 0 and made.errors[index] > 0):
            continue
        (a, b), (c, d) = (
            (
                fit.coefficients[index] - _NORMAL_95 * fit.errors[index],
                fit.coefficients[index] + _NORMAL_95 * fit.errors[index],
            )
            for fit in (real, made)
        )
        shared = min(b, d) - max(a, c)
        values[name] = 0.5 * (shared / (b - a) + shared / (d - c))
    return Result(f"overlap of the intervals of the coefficients of {target}", values, better="higher")


def _both_fits(both: Comparison, target: str) -> tuple[LinearFit, LinearFit]:
    return fit_line(both, both.real_codes, target), fit_line(both, both.synthetic_codes, target)


def fit_line(both: Comparison, codes: Codes, target: str) -> LinearFit:
    """Fit the target to all other columns by least squares.

    Numeric and ordinal columns enter as numbers, categorical ones as indicators of every value but the first;
    records that lack the target or a number are left out. Directions that do not vary get coefficient zero.
    """
    meaning = numbers_of(both.schema.column(target))
    if meaning is None:
        raise WorkloadError(f"A regression of {target!r} needs numbers, and it is a categorical column.")
    names, pieces = _design(both, codes, [name for name in both.domain.names if name != target])
    y = meaning[codes[:, both.domain.index(target)]]
    x = np.column_stack([np.ones(len(codes)), *pieces]) if pieces else np.ones((len(codes), 1))
    there = ~(np.isnan(y) | np.isnan(x).any(axis=1))
    x, y = x[there], y[there]
    if len(y) <= x.shape[1]:
        raise WorkloadError(f"A regression of {target!r} needs more than {x.shape[1]} complete records.")
    gram = x.T @ x
    inverse = np.linalg.pinv(gram, hermitian=True)
    coefficients = inverse @ (x.T @ y)
    variance = float(((y - x @ coefficients) ** 2).sum()) / (len(y) - x.shape[1])
    errors = np.sqrt(np.maximum(0.0, variance * np.diag(inverse)))
    return LinearFit(("intercept", *names), coefficients, errors)


def _design(both: Comparison, codes: Codes, columns: Sequence[str]) -> tuple[list[str], list[Floats]]:
    names: list[str] = []
    pieces: list[Floats] = []
    for name in columns:
        own = codes[:, both.domain.index(name)]
        meaning = numbers_of(both.schema.column(name))
        if meaning is not None:
            names.append(name)
            pieces.append(meaning[own])
            continue
        for code, label in list(enumerate(both.schema.column(name).labels))[1:]:
            names.append(f"{name}={label}")
            pieces.append((own == code).astype(np.float64))
    return names, pieces


def typical(result: Result) -> float:
    """Return the median of the finite values of a result; zero if there are none."""
    finite = [value for value in result.values.values() if math.isfinite(value)]
    return float(np.median(finite)) if finite else 0.0


Progress = Callable[[float], None]


def _silent(fraction: float) -> None:
    """Ignore progress."""


def workload_errors(both: Comparison, workload: Workload, *, progress: Progress = _silent) -> Result:
    """Return the L1 error of each marginal of a workload, as a share of the real rows (paper AIM, Definition 2).

    The weighted mean of these numbers is the workload error; synthetic counts are not rescaled, so a table of
    the wrong length pays for it.
    """
    both.require_rows()
    rows = len(both.real_codes)
    values = {}
    for index, (clique, _) in enumerate(workload):
        real, made = both.counts(clique)
        values[" ".join(clique)] = float(np.abs(real - made).sum()) / rows
        progress((index + 1) / len(workload))
    return Result("L1 error of marginals", values, better="lower")


def kway_distances(both: Comparison, k: int, *, progress: Progress = _silent) -> Result:
    """Return the total variation of every set of ``k`` columns.

    Examples
    --------
    >>> from understudy.schema import Schema
    >>> schema = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
    >>> both = Comparison(schema, [[0, 0], [1, 1]], [[0, 1], [1, 0]])
    >>> dict(kway_distances(both, 1).values), dict(kway_distances(both, 2).values)
    ({'a': 0.0, 'b': 0.0}, {'a b': 1.0})
    """
    if not 1 <= k <= len(both.domain):
        raise WorkloadError(f"k ({k}) must lie between 1 and the number of columns ({len(both.domain)}).")
    both.require_rows()
    sets = list(combinations(both.domain.names, k))
    values = {}
    for index, clique in enumerate(sets):
        values[" ".join(clique)] = total_variation(*both.counts(clique))
        progress((index + 1) / len(sets))
    return Result(f"total variation of {k}-way marginals", values, better="lower")


def k_marginal_score(distances: Result) -> Result:
    """Return the NIST k-marginal score, 0 to 1000, of a set of total variations.

    The SDNist report adds up absolute differences of the densities of each marginal (twice the total variation,
    at most 2), averages over the marginals, and maps 0 to 1000 and 2 to 0.

    Examples
    --------
    >>> k_marginal_score(Result("tv", {"a b": 0.1, "a c": 0.3}, better="lower")).values["score"]
    800.0
    """
    return Result("k-marginal score", {"score": 1000 * (1 - distances.mean)}, better="higher")


def rare_cell_errors(
    both: Comparison, *, k: int = 1, shares: Sequence[float] = (0.0001, 0.001, 0.01)
) -> Result:
    """Return the average relative error of the counts of rare combinations, by how rare they are.

    A combination of ``k`` columns belongs to the first share it does not exceed. Real counts of zero are left out;
    synthetic counts are scaled to the real number of rows.
    """
    both.require_rows()
    limits = sorted(shares)
    rows = len(both.real_codes)
    scale = rows / len(both.synthetic_codes)
    sums, cells = np.zeros(len(limits)), np.zeros(len(limits))
    for clique in combinations(both.domain.names, k):
        real, made = both.counts(clique)
        present = real > 0
        which = np.searchsorted(limits, real[present] / rows, side="left")
        error = np.abs(made[present] * scale - real[present]) / real[present]
        rare = which < len(limits)
        np.add.at(sums, which[rare], error[rare])
        np.add.at(cells, which[rare], 1)
    values = {
        f"up to {limit:.2%} of rows": total / count
        for limit, total, count in zip(limits, sums, cells, strict=True)
        if count
    }
    return Result(f"relative error of rare {k}-way cells", values, better="lower")


def subgroup_distances(both: Comparison, by: str, *, least_rows: int = 10) -> Result:
    """Return, for each value of one column, the average total variation of the other columns within it.

    Groups with fewer real records than ``least_rows`` are left out; a group that the synthetic table lacks is 1.
    """
    at = both.domain.index(by)
    labels = both.schema.column(by).labels
    others = [name for name in both.domain.names if name != by]
    values = {}
    tables = {
        name: [counts.reshape(len(labels), -1) for counts in both.counts((by, name))] for name in others
    }
    sizes = np.bincount(both.real_codes[:, at], minlength=len(labels))
    for code, label in enumerate(labels):
        if sizes[code] >= least_rows and others:
            values[label] = float(
                np.mean([total_variation(tables[name][0][code], tables[name][1][code]) for name in others])
            )
    return Result(f"total variation within groups of {by}", values, better="lower")
