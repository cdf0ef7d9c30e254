"""The shape of specification files, as pydantic models: keys, types, words for people, and the JSON Schema.

What the parts mean together (do the budgets add up, do the criteria fit the columns) is checked when a
specification is put together; both kinds of problem are reported in one list.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from understudy.schema.files.schema_file import described

# ----------------------------------------------------------------------------------------
# The shape of acceptance criteria in specification files, as pydantic models.

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
    exceptions: dict[str, list[str | int | float]] = Field(
        {},
        description="Bins of near columns that must match exactly: labels, or numbers that lie inside a bin and not at one of its ends.",
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


_IN_FACTS = ("source", "schema", "unit")
_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"

Rule = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["rule"],
                    "properties": {
                        "rule": {"type": "string"},
                        "straddle": {"enum": ["allow", "forbid", "edges"]},
                        "description": {"type": "string"},
                    },
                },
            ]
        }
    ),
]


class _EpsilonPart(Part):
    """A pure privacy cost."""

    epsilon: Positive = Field(description="Cost of measuring it with Laplace noise.")


class _BudgetPart(Part):
    """A privacy budget: epsilon, epsilon with delta, rho (zCDP) or mu (GDP)."""

    epsilon: Positive | None = Field(None, description="Epsilon, of pure or (with delta) approximate DP.")
    delta: Annotated[float, Field(gt=0, lt=1)] | None = Field(None, description="Delta of approximate DP.")
    rho: Positive | None = Field(None, description="Rho of zero-concentrated DP.")
    mu: Positive | None = Field(None, description="Mu of Gaussian DP.")


class _SimulatePart(Part):
    """A simulated table instead of a file."""

    table: str = Field(description="Name of the simulated table, such as births.")
    rows: Annotated[int, Field(ge=0)] = Field(description="Number of rows.")
    seed: Annotated[int, Field(ge=0)] = Field(0, description="Seed of the simulation.")


class _DerivePart(Part):
    """A column computed from another one, record by record, unless the source already has it."""

    source: str = Field(alias="from", description="The column it is computed from.", min_length=1)
    part: Literal["year", "quarter", "month", "weekday"] | None = Field(None, description="Part of a date.")
    values: dict[str, str] | None = Field(
        None,
        description="Instead of a part: each spelling in the source with the value that takes its place.",
    )


class _DatabasePart(Part):
    """A table of a database instead of a file."""

    url: str = Field(
        description="Address without a password: postgresql://host/name, duckdb:///file.duckdb, a Spark master."
    )
    table: str = Field(description="Table or view, with its schema if it needs one.", min_length=1)
    immutable: bool = Field(
        False,
        description="Declares that nobody writes to the table meanwhile, where no snapshot can be held.",
    )


class _SourcePart(Part):
    """Where the private table is."""

    path: str | None = Field(
        None, description="CSV (also .gz) or Parquet file or folder, relative to this file."
    )
    simulate: _SimulatePart | None = Field(None, description="A simulated table instead of a file.")
    database: _DatabasePart | None = Field(None, description="A table of a database instead of a file.")
    table: str | None = Field(
        None, description="Public name of the table in the ledger; default: that of the file or table."
    )
    separator: str | None = Field(None, description="CSV only: the character between fields.", max_length=1)
    encoding: str | None = Field(None, description="CSV only: the text encoding.")
    derive: dict[str, _DerivePart] = Field({}, description="Columns to compute while reading.")


class _UnitPart(Part):
    """Who is protected."""

    relation: Literal["add-remove", "replace-one"] = Field(description="Which tables are neighbours.")
    id_column: str | None = Field(None, description="Column that names the person a row is about.")
    max_rows: Whole = Field(1, description="Rows kept per person, chosen at random.")


class _PublicPart(Part):
    """What is public knowledge beside the schema."""

    row_count: Whole | Literal["declared", "measured"] | _EpsilonPart | None = Field(
        None,
        description="Number of rows after cleaning, where the unit does not fix it: {epsilon: ...} to measure it and pay for "
        "it, 'measured' (the default) to do so for a small share of the total; or, as its owner, 'declared' (public, whatever it "
        "is) or a number that is public.",
    )
    expected_rows: Whole | None = Field(
        None, description="A public guess of the number of rows. Used for planning only."
    )


class _SynthesizerPart(Part):
    """A method with its options; a list of values for an option means one alternative each."""

    method: str = Field(description="Name of the method; see `understudy methods`.")
    options: dict[str, AnyValue] = Field({}, description="Options; a list stands for alternatives.")


class _NoProjectionPart(Part):
    """Leave the candidate as it is."""

    kind: Literal["none"]


class _MinimalOccurrencePart(Part):
    """Every record occurs at least so many times (paper Births, Algorithms 4 and 5)."""

    kind: Literal["minimal-occurrence"]
    min_count: Whole = Field(description="Smallest number of times a record may occur.")
    algorithm: Literal["direct", "stepwise", "balanced"] = Field(
        "direct", description="Algorithm 4, Algorithm 5, or Algorithm 4 with a choice that keeps marginals."
    )


class _AnonymityPart(Part):
    """Every combination of values of some columns that occurs does so at least k times."""

    kind: Literal["k-anonymity"]
    k: Whole = Field(description="Smallest number of rows that may share a combination.")
    column_sets: list[list[str]] | None = Field(None, description="The sets of columns.")
    every: Whole | None = Field(None, description="Instead: all sets of this many columns.")


ProjectionPart = Annotated[
    Union[_NoProjectionPart, _MinimalOccurrencePart, _AnonymityPart],  # noqa: UP007
    Field(discriminator="kind"),
]


class _AcceptancePart(Part):
    """When a candidate is good enough, and how that is found out."""

    form: Literal["pass-only", "published"] = Field(
        description="pass-only: one test of all criteria, one bit released. published: a noisy error per criterion."
    )
    epsilon: Positive | None = Field(None, description="Pass-only: what the one test may cost.")
    false_accept: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        0.05, description="Pass-only: largest probability that a candidate violating a criterion is accepted."
    )
    open_bins: Literal["nearest", "written"] = Field(
        "nearest",
        description="What an open bin such as 10< counts for in means, medians and regressions: the possible value closest to its end (11), or the number in its label (10), as paper Births has it.",
    )
    criteria: list[CriterionPart] = Field(description="The acceptance criteria.", min_length=1)


# ---------------------------------------------------------------------- selection and the whole


class _SinglePart(Part):
    """One attempt: publish or fail."""

    rule: Literal["single"]


class _UntilPart(Part):
    """Attempts until one is accepted (paper Births, Algorithm 2)."""

    rule: Literal["until-accepted"]
    gamma: Annotated[float, Field(ge=0, lt=1)] = Field(
        description="Probability of giving up after each failed attempt; 0 never gives up."
    )
    max_attempts: Whole | None = Field(None, description="Largest number of attempts.")
    epsilon0: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Instead of max_attempts: the extra cost allowed for a limit (Theorem 3)."
    )


class _NegativeBinomialPart(Part):
    """A number of attempts from the truncated negative binomial distribution."""

    rule: Literal["negative-binomial"]
    eta: Annotated[float, Field(gt=-1)] = Field(description="Shape, above -1.")
    gamma: Annotated[float, Field(gt=0, lt=1)] = Field(description="Smaller means more attempts.")


SelectionPart = Annotated[
    Union[_SinglePart, _UntilPart, _NegativeBinomialPart],  # noqa: UP007
    Field(discriminator="rule"),
]


class _BudgetsPart(Part):
    """The total, and the part of one attempt's model; everything else is stated where it is spent."""

    total: _BudgetPart = Field(description="The promise about everything this release does.")
    model: _BudgetPart = Field(description="What fitting one model may cost.")


class _OutputPart(Part):
    """What is written."""

    formats: list[Literal["csv", "csv.gz", "parquet"]] = Field(
        ["csv"], description="File formats.", min_length=1
    )
    rows: Whole | None = Field(
        None, description="Number of synthetic rows, where the number of rows is neither public nor measured."
    )
    folder: str | None = Field(None, description="Folder of the bundle, relative to this file.")


class SpecPart(Part):
    """A release: from a private table to a published one."""

    version: Literal[1] = Field(1, description="Version of the file format.")
    name: str = Field(description="Short name of the release.", pattern=_NAME, max_length=60)
    title: str = Field("", description="Title of the published table.")
    description: str = Field("", description="What the published table holds, for people.")
    license: str = Field("", description="Licence of the published table: an SPDX name or an address.")
    citation: str = Field("", description="How users should cite the published table.")
    facts: str | None = Field(
        None,
        description="File that holds the owner's facts (source, schema, unit, public, cleaning, transformations) instead of "
        "this one, relative to it.",
    )
    source: _SourcePart = Field(description="Where the private table is.")
    schema_: AnyValue = Field(
        alias="schema", description="Schema of the table: a path, or the schema itself."
    )
    unit: Literal["add-remove", "replace-one"] | _UnitPart = Field(description="Who is protected.")
    public: _PublicPart = Field(_PublicPart(), description="What is public knowledge.")  # type: ignore[call-arg]
    cleaning: list[Rule] = Field([], description="Rules raw records must obey; others are left out (4.8.1).")
    constraints: list[Rule] = Field([], description="Rules synthetic records must obey (4.8.2).")
    transformations: dict[str, dict[str, dict[str, AnyValue] | None]] = Field(
        {}, description="For a column: names of alternatives, each with the facts it replaces in the schema."
    )
    synthesizers: list[_SynthesizerPart] = Field(description="The synthesizer space.", min_length=1)
    projections: list[ProjectionPart] = Field(
        [_NoProjectionPart(kind="none")], description="The projection space.", min_length=1
    )
    acceptance: _AcceptancePart = Field(description="The acceptance criteria.")
    selection: SelectionPart = Field(description="How many attempts may be made.")
    budget: _BudgetsPart = Field(description="The privacy budget.")
    output: _OutputPart = Field(_OutputPart(), description="What is written.")  # type: ignore[call-arg]
    seed: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Seed of the public side (drawing rows, projection). Privacy noise takes none."
    )
    ledger: str | None = Field(None, description="Ledger of the table, relative to this file.")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of specification files, for editors.

    Examples
    --------
    >>> json_schema()["title"]
    'Understudy release specification'
    """
    document = described(SpecPart, title="Understudy release specification")
    always = [key for key in document["required"] if key not in _IN_FACTS]
    return document | {"required": always, "anyOf": [{"required": ["facts"]}, {"required": list(_IN_FACTS)}]}
