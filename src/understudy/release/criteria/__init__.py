"""Acceptance criteria: errors with thresholds, proved sensitivities, and slacks counted in records.

One file per criterion or pair of twins, with its configuration; `base` says what every criterion is, `registry` finds them by kind. What a criterion from
another package needs is exported here; the criteria themselves are exported by :mod:`understudy.release`.
"""

from understudy.release.criteria.base import (
    Criterion,
    CriterionConfig,
    CriterionContext,
    Number,
    Outlook,
    PlanFacts,
    Released,
    ShareOfRows,
    Wording,
    conservative_threshold,
    laplace_deviation,
    laplace_upper_tail,
)
from understudy.release.criteria.groups import (
    ColumnSets,
    Grouping,
    GroupPart,
    OpenBins,
    code_values,
    column_of,
    groups_of,
    label_of,
    numeric_of,
    possible_codes,
)
from understudy.release.criteria.registry import criterion_kind, criterion_kinds

__all__ = [
    "ColumnSets",
    "Criterion",
    "CriterionConfig",
    "CriterionContext",
    "GroupPart",
    "Grouping",
    "Number",
    "OpenBins",
    "Outlook",
    "PlanFacts",
    "Released",
    "ShareOfRows",
    "Wording",
    "code_values",
    "column_of",
    "conservative_threshold",
    "criterion_kind",
    "criterion_kinds",
    "groups_of",
    "label_of",
    "laplace_deviation",
    "laplace_upper_tail",
    "numeric_of",
    "possible_codes",
]
