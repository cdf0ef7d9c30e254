"""Measures of quality: pure functions of two tables. They read real records without noise; never publish them."""

from understudy.evaluation.accuracy import forest_accuracy, model_accuracy, random_accuracy
from understudy.evaluation.comparison import Comparison
from understudy.evaluation.distances import pair_distances, single_distances, total_variation
from understudy.evaluation.evaluate import SECTIONS, Evaluation, Options, Section, evaluate
from understudy.evaluation.face import attribute_inference, exact_matches, face_privacy, membership_inference
from understudy.evaluation.learning import CLASSIFIERS, accuracy, agreement, distinguishing_game, predictions
from understudy.evaluation.measures import k_marginal_score, kway_distances, workload_errors
from understudy.evaluation.result import Result

__all__ = [
    "CLASSIFIERS",
    "SECTIONS",
    "Comparison",
    "Evaluation",
    "Options",
    "Result",
    "Section",
    "accuracy",
    "agreement",
    "attribute_inference",
    "distinguishing_game",
    "evaluate",
    "exact_matches",
    "face_privacy",
    "forest_accuracy",
    "k_marginal_score",
    "kway_distances",
    "membership_inference",
    "model_accuracy",
    "pair_distances",
    "predictions",
    "random_accuracy",
    "single_distances",
    "total_variation",
    "workload_errors",
]
