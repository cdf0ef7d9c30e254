"""Cliques, workloads, measurements, and the arithmetic of marginals. Nothing here sees records."""

from understudy.marginals.counting import Records, count_codes, in_batches
from understudy.marginals.measurement import Measurement, Statistic, SumsOfSigns
from understudy.marginals.query import (
    Predicate,
    Query,
    QuerySource,
    box,
    cells_of_marginal,
    halfspace,
    interval,
    linear,
    prefix,
    random_boxes,
    read_queries,
)
from understudy.marginals.workload import (
    Workload,
    all_kway,
    downward_closure,
    marginal_errors,
    parse_workload,
    read_workload,
    skewed,
    target,
    workload_error,
)

__all__ = [
    "Measurement",
    "Predicate",
    "Query",
    "QuerySource",
    "Records",
    "Statistic",
    "SumsOfSigns",
    "Workload",
    "all_kway",
    "box",
    "cells_of_marginal",
    "count_codes",
    "downward_closure",
    "halfspace",
    "in_batches",
    "interval",
    "linear",
    "marginal_errors",
    "parse_workload",
    "prefix",
    "random_boxes",
    "read_queries",
    "read_workload",
    "skewed",
    "target",
    "workload_error",
]
