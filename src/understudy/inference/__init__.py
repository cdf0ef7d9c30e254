"""Uncertainty: bounds on the error of a model, and intervals for what it says. All of it is post-processing."""

from understudy.inference.bounds import Bound, error_bounds
from understudy.inference.combining import RULES, Combined, Rule, combine, combine_fits
from understudy.inference.covers import Evidence
from understudy.inference.history import Certificate, History, Round, RoundLog, answer_each
from understudy.inference.intervals import Interval, cell_intervals, count_interval, mean_interval
from understudy.inference.refits import Refits
from understudy.inference.sufficient import (
    normal_draws,
    normal_draws_from_sums,
    proportion_draws,
    redraw,
    regression_draws,
)
from understudy.inference.uncertainty import Uncertainty, supported_bound, unsupported_bound

__all__ = [
    "RULES",
    "Bound",
    "Certificate",
    "Combined",
    "Evidence",
    "History",
    "Interval",
    "Refits",
    "Round",
    "RoundLog",
    "Rule",
    "Uncertainty",
    "answer_each",
    "cell_intervals",
    "combine",
    "combine_fits",
    "count_interval",
    "error_bounds",
    "mean_interval",
    "normal_draws",
    "normal_draws_from_sums",
    "proportion_draws",
    "redraw",
    "regression_draws",
    "supported_bound",
    "unsupported_bound",
]
