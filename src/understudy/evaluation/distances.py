"""Propensity scores: how well a model tells synthetic records from real ones, as a mean squared error."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.evaluation.comparison import Comparison, as_codes, one_hot_all, one_thread, require_sklearn
from understudy.evaluation.result import Result
from understudy.marginals import count_codes
from understudy.schema import Domain

# ----------------------------------------------------------------------------------------
# Total variation between two tables, column by column and pair by pair (paper Deniability, Figures 3 and 4).

Table = Mapping[str, npt.ArrayLike] | npt.ArrayLike


def total_variation(left: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Return half the L1 distance of two histograms as distributions; 1 if exactly one of them is empty.

    Examples
    --------
    >>> total_variation([1, 1], [3, 1])
    0.25
    """
    a, b = np.asarray(left, dtype=np.float64).ravel(), np.asarray(right, dtype=np.float64).ravel()
    if not a.sum() or not b.sum():
        return float(bool(a.sum()) != bool(b.sum()))
    return float(np.abs(a / a.sum() - b / b.sum()).sum() / 2)


def single_distances(domain: Domain, real: Table, other: Table) -> Result:
    """Return the total variation of every column."""
    a, b = as_codes(domain, real), as_codes(domain, other)
    values = {
        name: total_variation(count_codes(domain, a, (name,)), count_codes(domain, b, (name,)))
        for name in domain.names
    }
    return Result("total variation of single columns", values, better="lower")


def pair_distances(domain: Domain, real: Table, other: Table) -> Result:
    """Return the total variation of every pair of columns."""
    a, b = as_codes(domain, real), as_codes(domain, other)
    values = {
        f"{x} {y}": total_variation(count_codes(domain, a, (x, y)), count_codes(domain, b, (x, y)))
        for x, y in combinations(domain.names, 2)
    }
    return Result("total variation of pairs of columns", values, better="lower")


def propensity_errors(both: Comparison, *, most_rows: int = 20_000, seed: int = 0) -> Result:
    """Return pMSE of a logistic model and of a tree, and the logistic one relative to its expectation.

    ``pMSE`` is the mean of ``(p - c)²`` over all records, with ``p`` the predicted probability of being synthetic
    and ``c`` the share of synthetic records (Woo et al. 2009; Snoke et al. 2018). ``ratio`` divides it by its
    expectation ``(k - 1)(1 - c)² c / N`` for rows drawn anew from the real table's own frequencies, with ``k`` free
    coefficients: 1 is as close as independent draws come, and another sample of the same population has
    ``1 / (1 - c)``, that is 2 for tables of equal length. It needs ``understudy[evaluation]``.
    """
    require_sklearn()
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    both.require_rows(4)
    generator = np.random.default_rng(seed)
    a, b = (
        codes[generator.permutation(len(codes))[:most_rows]]
        for codes in (both.real_codes, both.synthetic_codes)
    )
    joined = np.concatenate([a, b])
    labels = np.repeat([0, 1], [len(a), len(b)])
    share, rows = len(b) / len(joined), len(joined)
    features = one_hot_all(both.domain, joined, drop_first=True)
    features = features[:, features.std(axis=0) > 0]
    values: dict[str, float] = {}
    if features.shape[1]:
        with one_thread():
            logistic = LogisticRegression(C=1e6, max_iter=500).fit(features, labels)
        error = float(((logistic.predict_proba(features)[:, 1] - share) ** 2).mean())
        expected = features.shape[1] * (1 - share) ** 2 * share / rows
        values |= {"logistic": error, "ratio": error / expected}
    tree = DecisionTreeClassifier(min_samples_leaf=20, random_state=seed).fit(joined, labels)
    values["tree"] = float(((tree.predict_proba(joined)[:, 1] - share) ** 2).mean())
    return Result("propensity mean squared error", values, better="lower")
