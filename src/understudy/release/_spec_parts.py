"""The shape of acceptance criteria in specification files, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

__all__ = ["AnyValue", "CriterionPart", "Part", "Positive", "Whole"]

AnyValue = Annotated[Any, WithJsonSchema({})]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """A part of a specification: other keys than those named are refused, and types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _CriterionPart(Part):
    name: str = Field(description="Public name, unique within the release.", min_length=1, max_length=80)
    description: str = Field("", description="What it means, for people.")
    epsilon: Positive | None = Field(
        None, description="Published form only: what releasing the error may cost."
    )


class _WithThreshold(_CriterionPart):
    threshold: Positive = Field(description="The error must be smaller than this.")


class _MaxMarginalPart(_WithThreshold):
    """Largest error of a cell of any marginal, as a share of the rows."""

    kind: Literal["max-marginal-error"]
    orders: list[Whole] | None = Field(
        None, description="Numbers of columns of the marginals; all by default."
    )


class _AverageMarginalPart(_WithThreshold):
    """Average total variation distance over marginals."""

    kind: Literal["average-marginal-error"]
    orders: list[Whole] | None = Field(
        None, description="Numbers of columns of the marginals; all by default."
    )


class _TailMarginalPart(_WithThreshold):
    """Error that only a small share of the cells of all marginals exceeds."""

    kind: Literal["tail-marginal-error"]
    share: Annotated[float, Field(ge=0, lt=1)] = Field(description="Share of cells that may be further off.")
    orders: list[Whole] | None = Field(
        None, description="Numbers of columns of the marginals; all by default."
    )


class _RelativeMarginalPart(_WithThreshold):
    """Largest factor by which the count of a value of any column is wrong."""

    kind: Literal["relative-marginal-error"]
    clip: Positive = Field(description="Upper end of the published value; at least the threshold.")
    columns: list[str] | None = Field(None, description="The columns looked at; all by default.")


class _GroupPart(Part):
    """Groups of records: the codes of a column put into coarse bins or lists of values."""

    column: str = Field(description="The column that decides.")
    bins: AnyValue = Field(None, description="Coarse bins of a numeric column, each a union of its bins.")
    groups: list[list[str]] | None = Field(
        None, description="Lists of labels; labels not listed are left out."
    )


class _MeansPart(_WithThreshold):
    """Largest error of the mean of a column in any group."""

    kind: Literal["conditional-means"]
    column: str = Field(description="The column that is averaged.")
    by: list[str | _GroupPart] = Field(
        ["everyone"],
        description="Groups: 'everyone', a column (one group per value), or a column with groups.",
    )
    marginal_threshold: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.01, description="Threshold of the marginal criterion beside it; sets the resize parameter."
    )


class _MediansPart(_WithThreshold):
    """Largest error of the median of a column in any group."""

    kind: Literal["conditional-medians"]
    column: str = Field(description="The column whose median is taken.")
    by: list[str | _GroupPart] = Field(["everyone"], description="Groups, as for conditional-means.")


class _CoefficientsPart(_WithThreshold):
    """L1 distance of the standardised coefficients of a linear regression."""

    kind: Literal["regression-coefficients"]
    target: str = Field(description="The column that is explained.")
    features: list[str] = Field(description="The columns that explain it.", min_length=1)


class _PredictionPart(_WithThreshold):
    """Difference in mean absolute error on the real table between a real and a synthetic regression."""

    kind: Literal["prediction-error"]
    target: str = Field(description="The column that is predicted.")
    features: list[str] = Field(description="The columns that predict it.", min_length=1)


class _FaithfulnessPart(_WithThreshold):
    """Share of synthetic records that cannot be paired one to one with a similar real one."""

    kind: Literal["faithfulness"]
    exact: list[str] = Field([], description="Columns that must be equal.")
    near: dict[str, Whole] = Field({}, description="Columns that may differ, with the number of bins.")
    at_most: Annotated[int, Field(ge=0)] = Field(1, description="How many near columns may differ at once.")
    exceptions: dict[str, list[str]] = Field(
        {}, description="Labels of near columns that must match exactly."
    )
    ignored: list[str] = Field([], description="Columns that do not matter.")


class _SharePart(_WithThreshold):
    """Error of the share of records that satisfy a rule of your own."""

    kind: Literal["share"]
    rule: str = Field(description="A record constraint; it must not cut through a bin.", min_length=1)


class _RarePart(_CriterionPart):
    """Number of distinct records that occur too rarely; public, free of cost."""

    kind: Literal["rare-records"]
    min_count: Whole = Field(2, description="Records that occur fewer times count.")
    threshold: Positive = Field(1.0, description="There must be fewer of them than this; 1 allows none.")


class _CombinationsPart(_CriterionPart):
    """Number of combinations of values that occur in fewer than k rows; public, free of cost."""

    kind: Literal["k-anonymity"]
    k: Whole = Field(description="Smallest number of rows that may share a combination.")
    column_sets: list[list[str]] | None = Field(None, description="The sets of columns.")
    every: Whole | None = Field(None, description="Instead: all sets of this many columns.")
    threshold: Positive = Field(1.0, description="There must be fewer of them than this; 1 allows none.")


CriterionPart = Annotated[
    Union[  # noqa: UP007
        _MaxMarginalPart,
        _AverageMarginalPart,
        _TailMarginalPart,
        _RelativeMarginalPart,
        _MeansPart,
        _MediansPart,
        _CoefficientsPart,
        _PredictionPart,
        _FaithfulnessPart,
        _SharePart,
        _RarePart,
        _CombinationsPart,
    ],
    Field(discriminator="kind"),
]
