"""Train on one table, test on real records: accuracy and agreement (paper Deniability, Tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from understudy.errors import WorkloadError
from understudy.evaluation.comparison import Codes, as_codes, one_hot, require_sklearn, split_target
from understudy.evaluation.distances import Table
from understudy.evaluation.result import Result
from understudy.schema import Domain

# ----------------------------------------------------------------------------------------
# The distinguishing game: can a learner tell synthetic records from real ones (paper Deniability, Table 5)?

PLAYERS = ("forest", "tree")


def distinguishing_game(
    domain: Domain,
    real: Table,
    other: Table,
    *,
    players: Sequence[str] = PLAYERS,
    train_share: float = 0.67,
    seed: int = 0,
) -> Result:
    """Return how often a classifier tells, for unseen records, which of two tables they are from.

    The tables are cut to the same length, mixed half and half, and split into training and test records.
    One half is chance. A record that is in both tables as often cannot be told by anybody.

    It needs ``understudy[evaluation]``.
    """
    require_sklearn()
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    a, b = as_codes(domain, real), as_codes(domain, other)
    rows = min(len(a), len(b))
    if rows < 4 or not 0 < train_share < 1:
        raise WorkloadError(
            "The game needs at least four records of each kind and a train_share between 0 and 1."
        )
    generator = np.random.default_rng(seed)
    a = a[generator.permutation(len(a))[:rows]]
    b = b[generator.permutation(len(b))[:rows]]
    cut = round(train_share * rows)
    features = np.concatenate([a[:cut], b[:cut]])
    labels = np.repeat([0, 1], cut)
    unseen, truth = np.concatenate([a[cut:], b[cut:]]), np.repeat([0, 1], rows - cut)
    values = {}
    for name in players:
        if name == "forest":
            made = RandomForestClassifier(n_estimators=50, min_samples_leaf=5, random_state=seed)
        elif name == "tree":
            made = DecisionTreeClassifier(min_samples_leaf=5, random_state=seed)
        else:
            raise WorkloadError(f"No player named {name!r}. Known: {', '.join(PLAYERS)}.")
        made.fit(features, labels)
        values[name] = float((made.predict(unseen) == truth).mean())
    return Result("telling synthetic from real records", values, better="lower")


CLASSIFIERS = ("tree", "forest", "adaboost", "logistic", "svm")
"""Names of the classifiers; the last two are linear, on indicator features."""

_LINEAR = ("logistic", "svm")


def _make(name: str, seed: int, regularisation: float, rows: int) -> Any:
    require_sklearn()
    from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC
    from sklearn.tree import DecisionTreeClassifier

    strength = 1 / (regularisation * max(1, rows))
    if name == "tree":
        return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed)
    if name == "forest":
        return RandomForestClassifier(n_estimators=50, min_samples_leaf=2, random_state=seed)
    if name == "adaboost":
        return AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=50, random_state=seed)
    if name == "logistic":
        return LogisticRegression(C=strength, fit_intercept=False, max_iter=300)
    if name == "svm":
        return LinearSVC(
            C=strength, fit_intercept=False, loss="squared_hinge", max_iter=5000, random_state=seed
        )
    raise WorkloadError(f"No classifier named {name!r}. Known: {', '.join(CLASSIFIERS)}.")


def predictions(
    domain: Domain,
    train: Table,
    test: Table,
    *,
    target: str,
    classifiers: Sequence[str] = CLASSIFIERS,
    regularisation: float = 1e-5,
    seed: int = 0,
) -> dict[str, Codes]:
    """Train each classifier on one table and return what it says about the target of another.

    Parameters
    ----------
    regularisation
        Of the linear classifiers: half of this times the squared norm of the weights is added to the mean loss.

    A training table in which the target has a single value teaches nothing but that value.
    """
    a, b = as_codes(domain, train), as_codes(domain, test)
    features, labels = split_target(domain, a, target)
    unseen, _ = split_target(domain, b, target)
    said = {}
    for name in classifiers:
        made = _make(name, seed, regularisation, len(a))
        if len(np.unique(labels)) < 2:
            said[name] = np.full(len(b), labels[0] if len(labels) else 0, dtype=np.int64)
        elif name in _LINEAR:
            made.fit(one_hot(domain, a, without=target), labels)
            said[name] = made.predict(one_hot(domain, b, without=target)).astype(np.int64)
        else:
            made.fit(features, labels)
            said[name] = made.predict(unseen).astype(np.int64)
    return said


def accuracy(domain: Domain, said: Mapping[str, Codes], test: Table, *, target: str) -> Result:
    """Return how often each classifier's prediction is right."""
    truth = as_codes(domain, test)[:, domain.index(target)]
    return Result(
        f"accuracy of predicting {target}",
        {name: float((values == truth).mean()) for name, values in said.items()},
        better="higher",
    )


def agreement(said: Mapping[str, Codes], by_reals: Mapping[str, Codes]) -> Result:
    """Return how often each classifier says what the same one trained on real records says."""
    return Result(
        "agreement with classifiers trained on real records",
        {name: float((values == by_reals[name]).mean()) for name, values in said.items()},
        better="higher",
    )
