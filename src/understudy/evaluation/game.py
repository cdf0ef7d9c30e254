"""The distinguishing game: can a learner tell synthetic records from real ones (paper Deniability, Table 5)?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.errors import WorkloadError
from understudy.evaluation.codes import as_codes, require_sklearn
from understudy.evaluation.distances import Table
from understudy.evaluation.result import Result
from understudy.schema import Domain

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
