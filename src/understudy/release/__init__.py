"""The release: projection, acceptance criteria, the slack test and private selection."""

from understudy.release.criteria.aggregate import AverageMarginalError, TailMarginalError
from understudy.release.criteria.base import Criterion, conservative_threshold
from understudy.release.criteria.custom import AverageScore
from understudy.release.criteria.face import AnonymousCombinations, RareRecords
from understudy.release.criteria.groups import Grouping
from understudy.release.criteria.marginals import MaxMarginalError, RelativeMarginalError
from understudy.release.criteria.matching import Faithfulness
from understudy.release.criteria.means import ConditionalMeans
from understudy.release.criteria.medians import ConditionalMedians
from understudy.release.criteria.prediction import PredictionError
from understudy.release.criteria.regression import RegressionCoefficients
from understudy.release.faithfulness import Similarity
from understudy.release.neighbours import largest_moves
from understudy.release.projection import KAnonymity, MinimalOccurrence, NoProjection, Projection
from understudy.release.record_types import RecordTypes
from understudy.release.selection.accounting import selection_guarantee
from understudy.release.selection.slack import SlackTest

__all__ = [
    "AnonymousCombinations",
    "AverageMarginalError",
    "AverageScore",
    "ConditionalMeans",
    "ConditionalMedians",
    "Criterion",
    "Faithfulness",
    "Grouping",
    "KAnonymity",
    "MaxMarginalError",
    "MinimalOccurrence",
    "NoProjection",
    "PredictionError",
    "Projection",
    "RareRecords",
    "RecordTypes",
    "RegressionCoefficients",
    "RelativeMarginalError",
    "Similarity",
    "SlackTest",
    "TailMarginalError",
    "conservative_threshold",
    "largest_moves",
    "selection_guarantee",
]
