"""Measures of quality: pure functions of two tables. They read real records without noise; never publish them."""

from understudy.evaluation.accuracy import forest_accuracy, marginal_accuracy, model_accuracy, random_accuracy
from understudy.evaluation.codes import as_codes, one_hot
from understudy.evaluation.comparison import Comparison, numbers_of
from understudy.evaluation.conditional import conditional_mean_differences, conditional_median_differences
from understudy.evaluation.coverage import interval_coverage
from understudy.evaluation.dependence import (
    correlation,
    correlation_differences,
    cramers_v,
    cramers_v_differences,
    mutual_information,
    mutual_information_differences,
)
from understudy.evaluation.disclosure import attribute_inference, exact_matches, membership_inference
from understudy.evaluation.distances import pair_distances, single_distances, total_variation
from understudy.evaluation.evaluate import SECTIONS, WARNING, Evaluation, Options, Section, evaluate
from understudy.evaluation.face import (
    constraint_violations,
    face_privacy,
    k_anonymity,
    l_diversity,
    unique_records,
)
from understudy.evaluation.game import distinguishing_game
from understudy.evaluation.learning import CLASSIFIERS, accuracy, agreement, predictions
from understudy.evaluation.marginal_measures import (
    k_marginal_score,
    kway_distances,
    rare_cell_errors,
    subgroup_distances,
    workload_errors,
)
from understudy.evaluation.propensity import propensity_errors
from understudy.evaluation.regression import LinearFit, coefficient_differences, fit_line, interval_overlaps
from understudy.evaluation.result import Result

__all__ = [
    "CLASSIFIERS",
    "SECTIONS",
    "WARNING",
    "Comparison",
    "Evaluation",
    "LinearFit",
    "Options",
    "Result",
    "Section",
    "accuracy",
    "agreement",
    "as_codes",
    "attribute_inference",
    "coefficient_differences",
    "conditional_mean_differences",
    "conditional_median_differences",
    "constraint_violations",
    "correlation",
    "correlation_differences",
    "cramers_v",
    "cramers_v_differences",
    "distinguishing_game",
    "evaluate",
    "exact_matches",
    "face_privacy",
    "fit_line",
    "forest_accuracy",
    "interval_coverage",
    "interval_overlaps",
    "k_anonymity",
    "k_marginal_score",
    "kway_distances",
    "l_diversity",
    "marginal_accuracy",
    "membership_inference",
    "model_accuracy",
    "mutual_information",
    "mutual_information_differences",
    "numbers_of",
    "one_hot",
    "pair_distances",
    "predictions",
    "propensity_errors",
    "random_accuracy",
    "rare_cell_errors",
    "single_distances",
    "subgroup_distances",
    "total_variation",
    "unique_records",
    "workload_errors",
]
