"""From the words of a specification to acceptance criteria over the codes of one transformation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import ConstraintError, SchemaError, UnderstudyError, WorkloadError
from understudy.release.criteria.aggregate import AverageMarginalError, TailMarginalError
from understudy.release.criteria.base import Criterion
from understudy.release.criteria.custom import AverageScore
from understudy.release.criteria.face import AnonymousCombinations, RareRecords
from understudy.release.criteria.fits import Feature, Regression
from understudy.release.criteria.groups import Grouping, OpenBins, code_values
from understudy.release.criteria.marginals import MaxMarginalError, RelativeMarginalError
from understudy.release.criteria.matching import Faithfulness
from understudy.release.criteria.means import ConditionalMeans
from understudy.release.criteria.medians import ConditionalMedians
from understudy.release.criteria.prediction import PredictionError
from understudy.release.criteria.regression import RegressionCoefficients
from understudy.release.faithfulness import Similarity
from understudy.release.projection import KAnonymity
from understudy.schema import Column, Constraint, Integer, Real, Schema
from understudy.schema.problems import did_you_mean

# ----------------------------------------------------------------------------------------
# Columns as the words of a specification name them: by name, by label, in coarse groups, after cleaning.

_MOST_CELLS = 1 << 22


def column_of(schema: Schema, name: str) -> Column:
    """Return a column, or say which there are."""
    if name not in schema.names:
        hint = did_you_mean(name, schema.names)
        raise SchemaError(f"no column named {name!r}.{hint} Columns: {', '.join(schema.names)}")
    return schema.column(name)


def numeric_of(schema: Schema, name: str) -> Column:
    """Return a column whose codes stand for numbers, or for two values that can be counted as 0 and 1."""
    column = column_of(schema, name)
    if column.kind == "categorical" and column.value_count > 2:
        raise WorkloadError(
            f"column {name!r} is categorical with more than two values; it has no numbers to average"
        )
    return column


def label_of(column: Column, label: str) -> int:
    """Return the code of a label."""
    if label not in column.labels:
        hint = did_you_mean(label, column.labels)
        raise WorkloadError(f"column {column.name!r} has no value labelled {label!r}.{hint}")
    return column.labels.index(label)


def groups_of(listed: Sequence[Any], schema: Schema) -> tuple[Grouping, ...]:
    """Return the groupings that a criterion lists."""
    return tuple(_group(item, schema) for item in listed)


def _group(item: Any, schema: Schema) -> Grouping:
    if isinstance(item, str):
        if item == "everyone":
            return Grouping.everyone()
        column = column_of(schema, item)
        return Grouping.of(column.name, [[code] for code in range(column.value_count)], size=column.size)
    column = column_of(schema, item["column"])
    bins, groups = item.get("bins"), item.get("groups")
    if bins is not None and groups is not None:
        raise WorkloadError(f"the grouping by {column.name!r} has bins and groups; give one of them")
    if groups is not None:
        codes = [[label_of(column, label) for label in labels] for labels in groups]
        return Grouping.of(column.name, codes, size=column.size)
    if bins is None:
        return _group(column.name, schema)
    return Grouping.of(column.name, _coarse(column, bins), size=column.size)


def _coarse(column: Column, bins: Any) -> list[list[int]]:
    """Return for each coarse bin the codes of the column that lie inside it."""
    if not isinstance(column, Integer | Real):
        raise WorkloadError(f"column {column.name!r} is not numeric; group it by lists of labels (groups)")
    try:
        wide = type(column)(column.name, bins=tuple(bins) if isinstance(bins, list) else bins)
    except SchemaError as error:
        raise WorkloadError(f"the coarse bins of {column.name!r}: {' '.join(str(error).split())}") from None
    cells = column.cells
    first, last = wide.cells.locate(cells.low), wide.cells.locate(cells.high)
    members: list[list[int]] = [[] for _ in range(wide.value_count)]
    for code, (low, high) in enumerate(zip(first, last, strict=True)):
        if low != high:
            raise WorkloadError(
                f"bin {column.labels[code]!r} of {column.name!r} lies in more than one of the coarse bins"
            )
        if low >= 0:
            members[int(low)].append(code)
    empty = [wide.labels[index] for index, codes in enumerate(members) if not codes]
    if empty:
        raise WorkloadError(f"the coarse bin {empty[0]!r} of {column.name!r} holds none of its bins")
    return members


def possible_codes(
    columns: Sequence[str], schema: Schema, cleaning: Sequence[Constraint]
) -> npt.NDArray[np.bool_] | None:
    """Return which combinations of codes a cleaned record can have, or None if all of them.

    A record that was kept obeys every cleaning rule as raw values. Read with ``straddle: allow``, a rule passes
    every combination of codes behind which *some* raw record obeys, hence the codes of every kept record.
    That needs the raw values of a record to lie behind its codes, so rules about columns that move
    values outside the domain elsewhere (clamp, to-missing, to-other) are not used; nor are rules about
    other columns. It is no promise about every record: an entry that holds the label of a bin instead of a number, or
    that an alternative reads otherwise than the column the rules were written for, may be kept and have codes
    outside. What is computed from the combinations must leave such records out (`Regression.possible`).
    """
    if len(set(columns)) != len(columns):
        return None  # refused elsewhere
    shape = schema.domain.shape(columns)
    if math.prod(shape) > _MOST_CELLS:
        return None
    possible = np.ones(shape, dtype=bool)
    for rule in cleaning:
        if not set(rule.columns) <= set(columns):
            continue
        if any(schema.column(name).out_of_domain != "refuse" for name in rule.columns):
            continue
        loose = Constraint.parse(rule.text, schema)
        axes = sorted(range(len(loose.columns)), key=lambda axis: columns.index(loose.columns[axis]))
        sizes = [schema.domain.size(name) if name in loose.columns else 1 for name in columns]
        possible &= loose.allowed(schema.domain).transpose(axes).reshape(sizes)
    return None if possible.all() else possible


@dataclass(frozen=True)
class CriterionWords:
    """What a criterion is called in the layout of paper Births, Table 2."""

    type: str
    metric: str
    unit: str = ""


def build_criterion(
    plain: Mapping[str, Any],
    schema: Schema,
    *,
    cleaning: Sequence[Constraint] = (),
    open_bins: OpenBins = "nearest",
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
    open_bins
        What open bins count for in means, medians and regressions.

    Raises
    ------
    UnderstudyError
        If it does not fit, in one sentence.
    """
    if plain["kind"] in _REGRESSIONS:
        return _REGRESSIONS[plain["kind"]](
            name=plain["name"],
            threshold=plain["threshold"],
            regression=_regression(plain, schema, cleaning, open_bins),
        )
    if plain["kind"] in _AVERAGES:
        return _AVERAGES[plain["kind"]](plain, schema, open_bins)
    return _BUILDERS[plain["kind"]](plain, schema)


def criterion_problems(
    plain: Mapping[str, Any],
    schema: Schema,
    *,
    cleaning: Sequence[Constraint] = (),
    open_bins: OpenBins = "nearest",
) -> list[str]:
    """Return what is wrong with a criterion for a schema, one sentence each."""
    try:
        criterion = build_criterion(plain, schema, cleaning=cleaning, open_bins=open_bins)
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


def _means(plain: Mapping[str, Any], schema: Schema, open_bins: OpenBins) -> Criterion:
    column = numeric_of(schema, plain["column"])
    return ConditionalMeans(
        name=plain["name"],
        threshold=plain["threshold"],
        column=column.name,
        values=code_values(column, open_bins),
        groups=groups_of(plain.get("by", ["everyone"]), schema),
        marginal_threshold=plain.get("marginal_threshold", 0.01),
    )


def _medians(plain: Mapping[str, Any], schema: Schema, open_bins: OpenBins) -> Criterion:
    column = numeric_of(schema, plain["column"])
    return ConditionalMedians(
        name=plain["name"],
        threshold=plain["threshold"],
        column=column.name,
        values=code_values(column, open_bins),
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
        name: [code for bin in bins for code in _exception(column_of(schema, name), bin)]
        for name, bins in plain.get("exceptions", {}).items()
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


def _exception(column: Column, bin: str | float) -> list[int]:
    """Return the code of a label, or of the bin that has a number strictly between its ends; none if there is no such bin."""
    if isinstance(bin, str):
        return [label_of(column, bin)]
    if not isinstance(column, Integer | Real):
        raise WorkloadError(f"column {column.name!r} is not numeric; write the exception {bin:g} as a label")
    cells = column.cells
    return [int(code) for code in np.flatnonzero((cells.low < bin) & (bin < cells.high))]


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
    "faithfulness": _faithfulness,
    "share": _share,
    "rare-records": _rare,
    "k-anonymity": _anonymous,
}
_AVERAGES: dict[str, Callable[[Mapping[str, Any], Schema, OpenBins], Criterion]] = {
    "conditional-means": _means,
    "conditional-medians": _medians,
}
_REGRESSIONS: dict[str, Callable[..., Criterion]] = {
    "regression-coefficients": RegressionCoefficients,
    "prediction-error": PredictionError,
}


# ---------------------------------------------------------------------- pieces


def _regression(
    plain: Mapping[str, Any], schema: Schema, cleaning: Sequence[Constraint], open_bins: OpenBins
) -> Regression:
    def feature(name: str) -> Feature:
        column = numeric_of(schema, name)
        return Feature(column.name, code_values(column, open_bins))

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
