"""Cliques, workloads, measurements, and the arithmetic of marginals. Nothing here sees records."""

from understudy.marginals.error import marginal_errors, workload_error
from understudy.marginals.measurement import Measurement, NoiseKind
from understudy.marginals.query import Predicate, box, halfspace, prefix, random_boxes
from understudy.marginals.statistic import Statistic, StatisticNoise
from understudy.marginals.workload import (
    Workload,
    all_kway,
    downward_closure,
    parse_workload,
    read_workload,
    skewed,
    target,
)

__all__ = [
    "Measurement",
    "NoiseKind",
    "Predicate",
    "Statistic",
    "StatisticNoise",
    "Workload",
    "all_kway",
    "box",
    "downward_closure",
    "halfspace",
    "marginal_errors",
    "parse_workload",
    "prefix",
    "random_boxes",
    "read_workload",
    "skewed",
    "target",
    "workload_error",
]
