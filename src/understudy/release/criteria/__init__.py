"""Acceptance criteria: errors with thresholds, proved sensitivities, and slacks counted in records."""

from understudy.release.criteria.aggregate import AverageMarginalError, TailMarginalError
from understudy.release.criteria.base import (
    Criterion,
    Number,
    conservative_threshold,
    laplace_deviation,
    laplace_upper_tail,
)
from understudy.release.criteria.custom import AverageScore
from understudy.release.criteria.face import AnonymousCombinations, RareRecords
from understudy.release.criteria.fits import Feature, LinearFit, Regression
from understudy.release.criteria.groups import Grouping, OpenBins, code_values
from understudy.release.criteria.marginals import (
    MaxMarginalError,
    RelativeMarginalError,
    clipped_ratio_sensitivity,
    proposition_5,
)
from understudy.release.criteria.matching import Faithfulness
from understudy.release.criteria.means import ConditionalMeans, resized_mean
from understudy.release.criteria.medians import ConditionalMedians
from understudy.release.criteria.moments import RegressionMoments
from understudy.release.criteria.prediction import PredictionError
from understudy.release.criteria.regression import RegressionCoefficients
from understudy.release.neighbours import Moves, largest_moves, neighbouring_tables

__all__ = [
    "AnonymousCombinations",
    "AverageMarginalError",
    "AverageScore",
    "ConditionalMeans",
    "ConditionalMedians",
    "Criterion",
    "Faithfulness",
    "Feature",
    "Grouping",
    "LinearFit",
    "MaxMarginalError",
    "Moves",
    "Number",
    "OpenBins",
    "PredictionError",
    "RareRecords",
    "Regression",
    "RegressionCoefficients",
    "RegressionMoments",
    "RelativeMarginalError",
    "TailMarginalError",
    "clipped_ratio_sensitivity",
    "code_values",
    "conservative_threshold",
    "laplace_deviation",
    "laplace_upper_tail",
    "largest_moves",
    "neighbouring_tables",
    "proposition_5",
    "resized_mean",
]
