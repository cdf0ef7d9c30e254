"""Propensity scores: how well a model tells synthetic records from real ones, as a mean squared error."""

from __future__ import annotations

import numpy as np

from understudy.evaluation.codes import one_hot_all, require_sklearn
from understudy.evaluation.comparison import Comparison
from understudy.evaluation.result import Result


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
        logistic = LogisticRegression(C=1e6, max_iter=500).fit(features, labels)
        error = float(((logistic.predict_proba(features)[:, 1] - share) ** 2).mean())
        expected = features.shape[1] * (1 - share) ** 2 * share / rows
        values |= {"logistic": error, "ratio": error / expected}
    tree = DecisionTreeClassifier(min_samples_leaf=20, random_state=seed).fit(joined, labels)
    values["tree"] = float(((tree.predict_proba(joined)[:, 1] - share) ** 2).mean())
    return Result("propensity mean squared error", values, better="lower")
