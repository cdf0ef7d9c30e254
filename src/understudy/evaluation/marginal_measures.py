"""How far the marginals of two tables are apart: workload error, total variation, the k-marginal score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from understudy.errors import WorkloadError
from understudy.evaluation.comparison import Comparison
from understudy.evaluation.distances import total_variation
from understudy.evaluation.result import Result
from understudy.marginals import Workload

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
