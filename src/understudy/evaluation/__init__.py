"""Measures of quality: pure functions of two tables. They read real records without noise; never publish them."""

from understudy.evaluation.accuracy import (
    forest_accuracy,
    marginal_accuracy,
    model_accuracy,
    random_accuracy,
)
from understudy.evaluation.codes import as_codes, one_hot
from understudy.evaluation.distances import pair_distances, single_distances, total_variation
from understudy.evaluation.game import distinguishing_game
from understudy.evaluation.learning import CLASSIFIERS, accuracy, agreement, predictions
from understudy.evaluation.result import Result

__all__ = [
    "CLASSIFIERS",
    "Result",
    "accuracy",
    "agreement",
    "as_codes",
    "distinguishing_game",
    "forest_accuracy",
    "marginal_accuracy",
    "model_accuracy",
    "one_hot",
    "pair_distances",
    "predictions",
    "random_accuracy",
    "single_distances",
    "total_variation",
]
