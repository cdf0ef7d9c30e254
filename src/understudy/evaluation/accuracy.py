"""How well a column can be told from the others: by a model, by its marginal, by a forest (Figures 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.evaluation.comparison import Codes, Floats, as_codes, require_sklearn, split_target
from understudy.evaluation.distances import Table
from understudy.evaluation.result import Result
from understudy.schema import Domain

# ----------------------------------------------------------------------------------------
# Do intervals that were promised hold the real numbers?

Interval = tuple[npt.ArrayLike, npt.ArrayLike]


def interval_coverage(intervals: Mapping[str, Interval], truth: Mapping[str, npt.ArrayLike]) -> Result:
    """Return, by name, the share of real numbers that lie within their intervals.

    Examples
    --------
    >>> interval_coverage({"age": ([0, 4], [2, 6])}, {"age": [1, 7]}).values["age"]
    0.5
    """
    values = {}
    for name, (low, high) in intervals.items():
        if name not in truth:
            raise WorkloadError(f"There is no real number to compare the interval of {name!r} with.")
        below, above, real = (np.asarray(item, dtype=np.float64) for item in (low, high, truth[name]))
        if below.shape != real.shape or above.shape != real.shape:
            raise WorkloadError(f"The intervals of {name!r} do not have the shape of the real numbers.")
        values[name] = float(((below <= real) & (real <= above)).mean()) if real.size else 1.0
    return Result("share of real numbers within their intervals", values, better="higher")


LogDensity = Callable[[Codes], Floats]
"""Log probability of each record under a model, up to a constant."""


def model_accuracy(domain: Domain, log_density: LogDensity, test: Table) -> Result:
    """Return, per column, how often the model's most likely value given all other columns is the right one.

    Parameters
    ----------
    log_density
        The model; only ratios matter, so it need not be normalised.
    test
        Records the model was not fitted to.
    """
    codes = as_codes(domain, test)
    values = {}
    for index, name in enumerate(domain.names):
        changed = codes.copy()
        best = np.full(len(codes), -np.inf)
        guess = np.zeros(len(codes), dtype=np.int64)
        for value in range(domain.size(name)):
            changed[:, index] = value
            score = log_density(changed)
            better = score > best
            best[better], guess[better] = score[better], value
        values[name] = float((guess == codes[:, index]).mean())
    return Result("accuracy of the model per column", values, better="higher")


def marginal_accuracy(domain: Domain, train: Table, test: Table) -> Result:
    """Return how often each column has its most frequent training value: what a model must beat."""
    a, b = as_codes(domain, train), as_codes(domain, test)
    values = {
        name: float((b[:, i] == np.bincount(a[:, i], minlength=domain.sizes[i]).argmax()).mean())
        for i, name in enumerate(domain.names)
    }
    return Result("accuracy of the marginals per column", values, better="higher")


def random_accuracy(domain: Domain) -> Result:
    """Return the accuracy of guessing a value at random."""
    values = {name: 1 / size for name, size in zip(domain.names, domain.sizes, strict=True)}
    return Result("accuracy of random guesses per column", values, better="higher")


def forest_accuracy(domain: Domain, train: Table, test: Table, *, trees: int = 50, seed: int = 0) -> Result:
    """Return the accuracy of a random forest per column: about the best one can do with these records.

    It needs ``understudy[evaluation]``.
    """
    require_sklearn()
    from sklearn.ensemble import RandomForestClassifier

    a, b = as_codes(domain, train), as_codes(domain, test)
    values = {}
    for name in domain.names:
        features, target = split_target(domain, a, name)
        forest = RandomForestClassifier(n_estimators=trees, min_samples_leaf=2, random_state=seed)
        forest.fit(features, target)
        unseen, truth = split_target(domain, b, name)
        values[name] = float((forest.predict(unseen) == truth).mean())
    return Result("accuracy of a random forest per column", values, better="higher")
