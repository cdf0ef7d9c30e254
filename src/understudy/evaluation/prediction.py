"""Train on synthetic rows, test on real ones: areas under the curve beside those of real training rows, and columns that give the target away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.errors import WorkloadError
from understudy.evaluation.comparison import (
    Codes,
    Comparison,
    Floats,
    numbers_of,
    one_thread,
    require_sklearn,
)

LEARNERS = ("boosting", "logistic regression")
"""Gradient boosting of trees, and logistic regression on indicators and standardised numbers."""

LEAKS_FROM = 0.95
"""A column that alone predicts the target with an area under the curve of at least this gives it away."""

MOST_CLASSES = 20
_FEWEST = 10
"""Test rows of a class, and of all others, below which no curve is drawn for it."""
_MOST_CATEGORIES = 250
"""What gradient boosting takes as categories; columns with more values are ordered by their codes."""


@dataclass(frozen=True)
class Leak:
    """A column that alone (nearly) tells the target.

    Attributes
    ----------
    column
        Its name.
    alone
        Area under the curve of this column alone.
    without
        Area under the curve of boosting trained on real rows without it.
    """

    column: str
    alone: float
    without: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"column": self.column, "alone": self.alone, "without": self.without}


@dataclass(frozen=True)
class Learned:
    """How well one learner does after training on one table and on the other, on the same test rows.

    Attributes
    ----------
    learner
        Out of :data:`LEARNERS`.
    synthetic, real
        Areas under the curve.
    synthetic_accuracy, real_accuracy
        Shares of test rows that are told right.
    error
        Standard error of the area of the real training rows, from the number of test rows.
    """

    learner: str
    synthetic: float
    real: float
    synthetic_accuracy: float
    real_accuracy: float
    error: float

    @property
    def loss(self) -> float:
        """By how much the area is smaller after training on synthetic rows."""
        return self.real - self.synthetic

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "learner": self.learner,
            "auc": {"synthetic": self.synthetic, "real": self.real, "standard_error": self.error},
            "accuracy": {"synthetic": self.synthetic_accuracy, "real": self.real_accuracy},
        }


@dataclass(frozen=True)
class Learning:
    """Train on synthetic, test on real.

    Attributes
    ----------
    target
        The column that is predicted, and ``question``: what about it.
    learned
        One entry per learner.
    majority
        Share of test rows that always guessing the commonest class gets right. Its area under the curve is one half.
    leaks
        Columns that give the target away, the worst first.
    excluded
        Columns that were left out of the predictors.
    fair
        Whether no test row had a part in the synthesis.
    rows
        Numbers of synthetic and real training rows and of test rows.
    without_leaks
        The same learners without any column that gives the target away, where there is one.
    """

    target: str
    question: str
    learned: tuple[Learned, ...]
    majority: float
    leaks: tuple[Leak, ...]
    excluded: tuple[str, ...]
    fair: bool
    rows: tuple[int, int, int]
    classes: int
    without_leaks: tuple[Learned, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "target": self.target,
            "question": self.question,
            "classes": self.classes,
            "fair": self.fair,
            "rows": dict(zip(("synthetic", "real", "test"), self.rows, strict=True)),
            "majority": {"accuracy": self.majority, "auc": 0.5},
            "learners": [item.to_dict() for item in self.learned],
            "excluded": list(self.excluded),
            "leaks": [item.to_dict() for item in self.leaks],
            "without_leaks": [item.to_dict() for item in self.without_leaks],
        }


def learning(
    both: Comparison,
    target: str,
    *,
    holdout: Codes | None = None,
    exclude: Sequence[str] = (),
    learners: Sequence[str] = LEARNERS,
    most_rows: int = 20_000,
    seed: int = 0,
) -> Learning:
    """Train on the synthetic and on the real table, and test both on real rows.

    Parameters
    ----------
    both
        The tables; the real one holds the rows that the synthesis saw.
    target
        The column to predict. Of a column with more than :data:`MOST_CLASSES` values that are numbers it is predicted whether it is above the median of the
        real training rows.
    holdout
        Real rows that had no part in the synthesis. Without them a third of the real rows is the test, which the synthesis has seen: that is not a
        fair test, and the result says so.
    exclude
        Columns that are no predictors.
    learners, most_rows, seed
        Which learners, on at most how many rows of each table, drawn by which seed.

    It needs ``understudy[evaluation]``.
    """
    require_sklearn()
    names = both.domain.names
    for name in (target, *exclude):
        both.domain.index(name)
    predictors = [name for name in names if name != target and name not in exclude]
    if not predictors:
        raise WorkloadError(f"Predicting {target!r} needs at least one other column that is not excluded.")
    generator = np.random.default_rng(seed)
    real, made = (
        codes[generator.permutation(len(codes))[:most_rows]]
        for codes in (both.real_codes, both.synthetic_codes)
    )
    if holdout is None:
        cut = max(1, len(real) // 3)
        test, real = real[:cut], real[cut:]
    else:
        test = holdout[generator.permutation(len(holdout))[:most_rows]]
    if min(len(real), len(made), len(test)) < 2 * _FEWEST:
        raise WorkloadError(f"Predicting {target!r} needs at least {2 * _FEWEST} rows of each kind.")
    question, labels = _labels(both, target, real)
    truth = labels[test[:, both.domain.index(target)]]
    task = _Task(both, target, labels, made, real, test, truth, seed)
    leaks, freed = _leaks(task, predictors)
    values = np.bincount(truth[truth >= 0])
    return Learning(
        target,
        question,
        tuple(task.learned(name, predictors) for name in learners),
        float(values.max() / values.sum()),
        leaks,
        tuple(exclude),
        holdout is not None,
        (len(made), len(real), len(test)),
        int((values > 0).sum()),
        tuple(task.learned(name, freed) for name in learners) if leaks and freed else (),
    )


def _labels(both: Comparison, target: str, real: Codes) -> tuple[str, Codes]:
    """Return what is asked about the target, and the class of each of its codes; -1 for codes that are left out."""
    column = both.schema.column(target)
    size = both.domain.size(target)
    if size <= MOST_CLASSES:
        return f"which value {target} has", np.arange(size)
    meaning = numbers_of(column)
    if meaning is None:
        raise WorkloadError(
            f"{target!r} has {size:,} values, which is too many to predict. Choose a column with at most {MOST_CLASSES} values, or one of numbers."
        )
    seen = meaning[real[:, both.domain.index(target)]]
    seen = seen[~np.isnan(seen)]
    if not len(seen):
        raise WorkloadError(f"{target!r} has no numbers in the real training rows.")
    middle = float(np.median(seen))
    above = np.where(np.isnan(meaning), -1, meaning > middle).astype(np.int64)
    return f"whether {target} is above its median", above


@dataclass(frozen=True, eq=False)
class _Task:
    """Training and test rows, and what is to be told."""

    both: Comparison
    target: str
    labels: Codes = field(repr=False)
    made: Codes = field(repr=False)
    real: Codes = field(repr=False)
    test: Codes = field(repr=False)
    truth: Codes = field(repr=False)
    seed: int

    def learned(self, learner: str, predictors: Sequence[str]) -> Learned:
        """Train one learner on both tables."""
        ends = [self._scores(learner, predictors, table) for table in (self.made, self.real)]
        (made, made_right), (real, real_right) = (self._judge(scores) for scores in ends)
        return Learned(learner, made, real, made_right, real_right, self._error(real))

    def area(self, predictors: Sequence[str]) -> float:
        """Return the area under the curve of boosting trained on real rows."""
        return self._judge(self._scores("boosting", predictors, self.real))[0]

    def _classes(self, table: Codes) -> Codes:
        return self.labels[table[:, self.both.domain.index(self.target)]]

    def _scores(self, learner: str, predictors: Sequence[str], table: Codes) -> Floats:
        """Return a score of each class for each test row, after training on one table."""
        classes = self._classes(table)
        table, classes = table[classes >= 0], classes[classes >= 0]
        scores = np.zeros((len(self.test), int(self.labels.max()) + 1))
        found = np.unique(classes)
        if len(found) < 2:
            scores[:, found] = 1.0
            return scores
        features, unseen, model = (
            self._boosting(predictors, table)
            if learner == "boosting"
            else self._logistic(learner, predictors, table)
        )
        with one_thread():
            model.fit(features, classes)
            scores[:, model.classes_] = model.predict_proba(unseen)
        return scores

    def _boosting(self, predictors: Sequence[str], table: Codes) -> tuple[Floats, Floats, Any]:
        from sklearn.ensemble import HistGradientBoostingClassifier

        train, test, categories = [], [], []
        for name in predictors:
            at = self.both.domain.index(name)
            meaning = numbers_of(self.both.schema.column(name))
            plain = meaning is None and self.both.domain.size(name) <= _MOST_CATEGORIES
            values = np.arange(self.both.domain.size(name), dtype=np.float64) if meaning is None else meaning
            categories.append(plain)
            train.append(values[table[:, at]])
            test.append(values[self.test[:, at]])
        model = HistGradientBoostingClassifier(
            max_iter=100, categorical_features=categories, early_stopping=False, random_state=self.seed
        )
        return np.column_stack(train), np.column_stack(test), model

    def _logistic(self, learner: str, predictors: Sequence[str], table: Codes) -> tuple[Any, Any, Any]:
        from scipy import sparse
        from sklearn.linear_model import LogisticRegression

        if learner != "logistic regression":
            raise WorkloadError(f"No learner named {learner!r}. Known: {', '.join(LEARNERS)}.")
        train, test = [], []
        for name in predictors:
            at, size = self.both.domain.index(name), self.both.domain.size(name)
            meaning = numbers_of(self.both.schema.column(name))
            sides = table[:, at], self.test[:, at]
            if meaning is None:
                eye = sparse.identity(size, format="csr")
                pieces = [eye[side] for side in sides]
            else:
                first = meaning[sides[0]]
                there = first[~np.isnan(first)]
                middle, spread = (there.mean(), there.std() or 1.0) if len(there) else (0.0, 1.0)
                pieces = []
                for side in sides:
                    number = (meaning[side] - middle) / spread
                    gone = np.isnan(number)
                    pieces.append(sparse.csr_matrix(np.column_stack([np.where(gone, 0.0, number), gone])))
            train.append(pieces[0])
            test.append(pieces[1])
        return sparse.hstack(train, "csr"), sparse.hstack(test, "csr"), LogisticRegression(max_iter=500)

    def _judge(self, scores: Floats) -> tuple[float, float]:
        """Return the area under the curve and the accuracy on the test rows."""
        asked = self.truth >= 0
        truth, scores = self.truth[asked], scores[asked]
        areas = [area_under_curve(truth == label, scores[:, label]) for label in self._curves()]
        return float(np.mean(areas)), float((scores.argmax(axis=1) == truth).mean())

    def _curves(self) -> list[int]:
        """Return the classes whose curves are drawn: one of two, or each against the rest."""
        truth = self.truth[self.truth >= 0]
        counts = np.bincount(truth)
        enough = [
            label for label, count in enumerate(counts) if count >= _FEWEST and len(truth) - count >= _FEWEST
        ]
        if not enough:
            raise WorkloadError(
                f"Predicting {self.target!r} needs at least {_FEWEST} test rows of each of two classes."
            )
        return [min(enough, key=lambda label: counts[label])] if (counts > 0).sum() == 2 else enough

    def _error(self, area: float) -> float:
        """Return the standard error of an area (Hanley and McNeil 1982), of the curve with the fewest rows."""
        truth = self.truth[self.truth >= 0]
        positive = min(int((truth == label).sum()) for label in self._curves())
        negative = len(truth) - positive
        a = min(max(area, 1e-9), 1 - 1e-9)
        one, two = a / (2 - a), 2 * a * a / (1 + a)
        variance = a * (1 - a) + (positive - 1) * (one - a * a) + (negative - 1) * (two - a * a)
        return math.sqrt(max(0.0, variance) / (positive * negative))


def area_under_curve(truth: np.ndarray, scores: Floats) -> float:
    """Return the chance that a row of the class scores higher than one of the others, ties counting half.

    Examples
    --------
    >>> area_under_curve(np.array([True, False, True, False]), np.array([0.9, 0.1, 0.4, 0.4]))
    0.875
    """
    positive = int(truth.sum())
    negative = len(truth) - positive
    if not positive or not negative:
        raise WorkloadError("A curve needs rows of the class and rows of others.")
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places.ravel()]
    return float((ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _leaks(task: _Task, predictors: Sequence[str]) -> tuple[tuple[Leak, ...], list[str]]:
    """Return the columns that alone tell the target, and the predictors without them."""
    alone = {name: _alone(task, name) for name in predictors}
    found = sorted(
        (name for name in predictors if alone[name] >= LEAKS_FROM), key=lambda name: (-alone[name], name)
    )
    leaks = []
    for name in found:
        others = [other for other in predictors if other != name]
        leaks.append(Leak(name, alone[name], task.area(others) if others else 0.5))
    return tuple(leaks), [name for name in predictors if name not in found]


def _alone(task: _Task, name: str) -> float:
    """Return the area under the curve of one column alone: the share of each class among the real training rows with the same value."""
    at = task.both.domain.index(name)
    classes = task._classes(task.real)
    asked = classes >= 0
    many = int(task.labels.max()) + 1
    overall = np.bincount(classes[asked], minlength=many) / max(1, asked.sum())
    cells = np.zeros((task.both.domain.size(name), many))
    np.add.at(cells, (task.real[asked, at], classes[asked]), 1.0)
    shares = (cells + overall) / (cells.sum(axis=1, keepdims=True) + 1)
    return task._judge(shares[task.test[:, at]])[0]
