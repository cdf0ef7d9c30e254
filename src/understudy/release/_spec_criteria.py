"""From the words of a specification to acceptance criteria over the codes of one transformation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import ConstraintError, UnderstudyError, WorkloadError
from understudy.release._spec_columns import column_of, groups_of, label_of, numeric_of, possible_codes
from understudy.release.criteria import (
    AnonymousCombinations,
    AverageMarginalError,
    AverageScore,
    ConditionalMeans,
    ConditionalMedians,
    Criterion,
    Faithfulness,
    Feature,
    MaxMarginalError,
    PredictionError,
    RareRecords,
    Regression,
    RegressionCoefficients,
    RelativeMarginalError,
    TailMarginalError,
    code_values,
)
from understudy.release.faithfulness import Similarity
from understudy.release.projection import KAnonymity
from understudy.schema import Constraint, Schema

__all__ = ["CriterionWords", "build_criterion", "column_sets", "criterion_problems", "words_of"]


@dataclass(frozen=True)
class CriterionWords:
    """What a criterion is called in the layout of paper Births, Table 2."""

    type: str
    metric: str
    unit: str = ""


def build_criterion(
    plain: Mapping[str, Any], schema: Schema, *, cleaning: Sequence[Constraint] = ()
) -> Criterion:
    """Build one criterion for a schema.

    Parameters
    ----------
    plain
        Its words in the specification.
    schema
        The schema of a transformation.
    cleaning
        The cleaning rules that every record of the table obeys; they narrow the records a regression must
        reckon with.

    Raises
    ------
    UnderstudyError
        If it does not fit, in one sentence.
    """
    if plain["kind"] in _REGRESSIONS:
        return _REGRESSIONS[plain["kind"]](
            name=plain["name"], threshold=plain["threshold"], regression=_regression(plain, schema, cleaning)
        )
    return _BUILDERS[plain["kind"]](plain, schema)


def criterion_problems(
    plain: Mapping[str, Any], schema: Schema, *, cleaning: Sequence[Constraint] = ()
) -> list[str]:
    """Return what is wrong with a criterion for a schema, one sentence each."""
    try:
        criterion = build_criterion(plain, schema, cleaning=cleaning)
    except UnderstudyError as error:
        return [str(error).replace("\n", " ")]
    found = criterion.problems(schema.domain)
    largest = _largest_error(criterion)
    if criterion.reads_real and criterion.threshold > largest:
        found.append(
            f"the threshold {criterion.threshold:g} lies outside the range of the error, which is at most "
            f"{largest:g}: it could never be violated"
        )
    return found


def words_of(plain: Mapping[str, Any], schema: Schema) -> CriterionWords:
    """Return the type, the metric and the unit of a criterion in words."""
    kind = plain["kind"]
    described = str(plain.get("description") or "")
    orders = plain.get("orders")
    ways = "all k-way" if orders is None else ", ".join(map(str, orders)) + "-way"
    if kind == "max-marginal-error":
        return CriterionWords("Maximal error of marginals", described or f"absolute, {ways}", "share of rows")
    if kind == "relative-marginal-error":
        return CriterionWords("Maximal error of marginals", described or "relative, 1-way", "factor")
    if kind == "average-marginal-error":
        return CriterionWords(
            "Average error of marginals", described or f"total variation, {ways}", "share of rows"
        )
    if kind == "tail-marginal-error":
        share = f"exceeded by {plain['share']:.3g} of the cells, {ways}"
        return CriterionWords("Tail error of marginals", described or share, "share of rows")
    if kind in ("conditional-means", "conditional-medians"):
        what = "means" if kind == "conditional-means" else "medians"
        unit = schema.column(plain["column"]).unit if plain["column"] in schema.names else ""
        return CriterionWords(f"Maximal error of conditional {what}", described or str(plain["column"]), unit)
    if kind in ("regression-coefficients", "prediction-error"):
        unit = schema.column(plain["target"]).unit if plain["target"] in schema.names else ""
        coefficients = f"coefficients for {plain['target']} (L1)"
        metric = (
            coefficients if kind == "regression-coefficients" else f"prediction of {plain['target']} (MAE)"
        )
        return CriterionWords("Linear regression", described or metric, unit)
    if kind == "faithfulness":
        return CriterionWords(
            "Faithfulness", described or "records without a similar partner", "share of rows"
        )
    if kind == "share":
        return CriterionWords("Share of records", described or str(plain["rule"]), "share of rows")
    if kind == "rare-records":
        metric = f"distinct records that occur fewer than {plain.get('min_count', 2)} times"
        return CriterionWords("Face privacy", described or metric, "records")
    metric = f"combinations that occur in fewer than {plain['k']} rows"
    return CriterionWords("Face privacy", described or metric, "combinations")


def column_sets(plain: Mapping[str, Any], schema: Schema) -> tuple[tuple[str, ...], ...]:
    """Return the sets of columns of a k-anonymity rule."""
    listed, every = plain.get("column_sets"), plain.get("every")
    if (listed is None) == (every is None):
        raise WorkloadError("give either column_sets or every")
    if every is not None:
        if every > len(schema.names):
            raise WorkloadError(f"every ({every}) is more than the number of columns ({len(schema.names)})")
        return KAnonymity.every(schema.names, of=every, k=plain["k"]).column_sets
    for columns in listed or ():
        for name in columns:
            column_of(schema, name)
    return KAnonymity(k=plain["k"], column_sets=tuple(tuple(columns) for columns in listed or ())).column_sets


# ---------------------------------------------------------------------- builders


def _orders(plain: Mapping[str, Any]) -> tuple[int, ...] | None:
    return None if plain.get("orders") is None else tuple(plain["orders"])


def _max(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    return MaxMarginalError(name=plain["name"], threshold=plain["threshold"], orders=_orders(plain))


def _average(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    return AverageMarginalError(name=plain["name"], threshold=plain["threshold"], orders=_orders(plain))


def _tail(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    return TailMarginalError(
        name=plain["name"], threshold=plain["threshold"], share=plain["share"], orders=_orders(plain)
    )


def _relative(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    columns = plain.get("columns")
    for name in columns or ():
        column_of(schema, name)
    return RelativeMarginalError(
        name=plain["name"],
        threshold=plain["threshold"],
        clip=plain["clip"],
        columns=None if columns is None else tuple(columns),
    )


def _means(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    column = numeric_of(schema, plain["column"])
    return ConditionalMeans(
        name=plain["name"],
        threshold=plain["threshold"],
        column=column.name,
        values=code_values(column),
        groups=groups_of(plain.get("by", ["everyone"]), schema),
        marginal_threshold=plain.get("marginal_threshold", 0.01),
    )


def _medians(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    column = numeric_of(schema, plain["column"])
    return ConditionalMedians(
        name=plain["name"],
        threshold=plain["threshold"],
        column=column.name,
        values=code_values(column),
        groups=groups_of(plain.get("by", ["everyone"]), schema),
    )


def _faithfulness(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    near = dict(plain.get("near", {}))
    for name in near:
        column = column_of(schema, name)
        if column.kind == "categorical":
            raise WorkloadError(
                f"column {name!r} is categorical: its values have no neighbours; name it in exact"
            )
    exceptions = {
        name: [label_of(column_of(schema, name), label) for label in labels]
        for name, labels in plain.get("exceptions", {}).items()
    }
    for name in near:  # missing and other entries have no neighbours
        column = schema.column(name)
        extra = range(column.value_count, column.size)
        if extra:
            exceptions[name] = [*exceptions.get(name, []), *extra]
    similarity = Similarity(
        exact=tuple(plain.get("exact", ())),
        near=near,
        at_most=plain.get("at_most", 1),
        exceptions=exceptions,
        ignored=tuple(plain.get("ignored", ())),
    )
    return Faithfulness(name=plain["name"], threshold=plain["threshold"], similarity=similarity)


def _share(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    readings = [Constraint.parse(plain["rule"], schema, straddle=word) for word in ("allow", "forbid")]
    loose, strict = (rule.allowed(schema.domain) for rule in readings)
    if not np.array_equal(loose, strict):
        raise ConstraintError(
            f"the rule {plain['rule']!r} cuts through a bin; choose its bounds at the ends of bins"
        )
    return AverageScore(
        name=plain["name"],
        threshold=plain["threshold"],
        columns=readings[0].columns,
        scores=strict.astype(np.float64),
    )


def _rare(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    return RareRecords(
        name=plain["name"], threshold=float(plain.get("threshold", 1.0)), min_count=plain.get("min_count", 2)
    )


def _anonymous(plain: Mapping[str, Any], schema: Schema) -> Criterion:
    return AnonymousCombinations(
        name=plain["name"],
        threshold=float(plain.get("threshold", 1.0)),
        k=plain["k"],
        column_sets=column_sets(plain, schema),
    )


_BUILDERS: dict[str, Callable[[Mapping[str, Any], Schema], Criterion]] = {
    "max-marginal-error": _max,
    "average-marginal-error": _average,
    "tail-marginal-error": _tail,
    "relative-marginal-error": _relative,
    "conditional-means": _means,
    "conditional-medians": _medians,
    "faithfulness": _faithfulness,
    "share": _share,
    "rare-records": _rare,
    "k-anonymity": _anonymous,
}
_REGRESSIONS: dict[str, Callable[..., Criterion]] = {
    "regression-coefficients": RegressionCoefficients,
    "prediction-error": PredictionError,
}


# ---------------------------------------------------------------------- pieces


def _regression(plain: Mapping[str, Any], schema: Schema, cleaning: Sequence[Constraint]) -> Regression:
    def feature(name: str) -> Feature:
        column = numeric_of(schema, name)
        return Feature(column.name, code_values(column))

    target, features = feature(plain["target"]), tuple(feature(name) for name in plain["features"])
    columns = [item.column for item in (*features, target)]
    return Regression(target, features, support=possible_codes(columns, schema, cleaning))


def _largest_error(criterion: Criterion) -> float:
    """Return the largest value the error can have, or infinity."""
    if isinstance(criterion, MaxMarginalError | AverageMarginalError | TailMarginalError | AverageScore):
        return 1.0
    if isinstance(criterion, ConditionalMeans | ConditionalMedians | PredictionError):
        low, high = criterion.bounds
        return high - low
    return math.inf
