"""The specification file as pydantic models: keys, types, defaults, descriptions, and what each part builds.

The models are the specification: what a file says is read from their attributes and defaults stand here and nowhere else. What the parts
mean together (do the budgets add up, do the criteria fit the columns) is checked when a specification is put together; both kinds of
problem are reported in one list. Acceptance criteria have models of their own (:mod:`understudy.release.criteria`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, Union

from pydantic import Field, TypeAdapter, create_model

from understudy.data import Derived
from understudy.privacy import Budget, Unit
from understudy.release.criteria.base import CriterionConfig
from understudy.release.criteria.groups import ColumnSets, OpenBins
from understudy.release.criteria.registry import OWN_KINDS, criterion_kind, criterion_kinds
from understudy.release.projection import KAnonymity, MinimalOccurrence, NoProjection, Projection
from understudy.release.selection.accounting import (
    Attempts,
    GeometricAttempts,
    NegativeBinomialAttempts,
    SingleAttempt,
    UnlimitedAttempts,
    attempts_needed,
)
from understudy.release.spec.parts import AnyValue, Part, Positive, Whole
from understudy.release.spec.reading import PublisherPart, ReadingPart
from understudy.release.spec.source import SimulatePart
from understudy.schema import Schema
from understudy.schema.entities import USUAL_RECORDS
from understudy.schema.files.schema_file import RuleText, described

__all__ = ["EpsilonPart", "ProjectionModel", "SpecPart", "json_schema", "projection_part", "spec_part"]

_IN_FACTS = ("source", "schema", "unit")
_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"


class EpsilonPart(Part):
    """A pure privacy cost."""

    epsilon: Positive = Field(description="Cost of measuring it with Laplace noise.")


class _BudgetPart(Part):
    """A privacy budget: epsilon, epsilon with delta, rho (zCDP) or mu (GDP)."""

    epsilon: Positive | None = Field(None, description="Epsilon, of pure or (with delta) approximate DP.")
    delta: Annotated[float, Field(gt=0, lt=1)] | None = Field(None, description="Delta of approximate DP.")
    rho: Positive | None = Field(None, description="Rho of zero-concentrated DP.")
    mu: Positive | None = Field(None, description="Mu of Gaussian DP.")

    def budget(self) -> Budget:
        """Return the budget, or say which numbers make one."""
        return Budget.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho, mu=self.mu)


class _DerivePart(Part):
    """A column computed from another one, record by record, unless the source already has it."""

    source: str = Field(alias="from", description="The column it is computed from.", min_length=1)
    part: Literal["year", "quarter", "month", "weekday"] | None = Field(None, description="Part of a date.")
    values: dict[str, str] | None = Field(
        None,
        description="Instead of a part: each spelling in the source with the value that takes its place.",
    )

    def derived(self, name: str) -> Derived:
        """Return the column under its name."""
        values = tuple((self.values or {}).items())
        return Derived(name=name, source=self.source, part=self.part, values=values)


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
    simulate: SimulatePart | None = Field(None, description="A simulated table instead of a file.")
    database: _DatabasePart | None = Field(None, description="A table of a database instead of a file.")
    tables: dict[str, str | _DatabasePart] | None = Field(
        None,
        description="Linked tables, by their names in the schema: a file or a table of a database each. Not needed where the schema file names them.",
        min_length=1,
    )
    table: str | None = Field(
        None, description="Public name of the table in the ledger; default: that of the file or table."
    )
    separator: str | None = Field(None, description="CSV only: the character between fields.", max_length=1)
    encoding: str | None = Field(None, description="CSV only: the text encoding.")
    names: list[str] | None = Field(
        None,
        description="CSV only: the columns of a file without a header; an empty list numbers them (column_1 and so on).",
    )
    derive: dict[str, _DerivePart] = Field({}, description="Columns to compute while reading.")


class _UnitPart(Part):
    """Who is protected."""

    relation: Literal["add-remove", "replace-one"] = Field(description="Which tables are neighbours.")
    id_column: str | None = Field(None, description="Column that names the person a row is about.")
    max_rows: Whole | Literal["auto"] = Field(
        1,
        description="Rows kept per person, chosen at random; of entities with their events, the records of each that count. auto: ten records, for entities with their events.",
    )

    def unit(self) -> Unit:
        """Return the unit."""
        rows = USUAL_RECORDS if self.max_rows == "auto" else self.max_rows
        return Unit(self.relation, rows, self.id_column)


class _PublicPart(Part):
    """What is public knowledge beside the schema."""

    row_count: Whole | Literal["declared", "measured"] | EpsilonPart | None = Field(
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

    def build(self, schema: Schema) -> Projection:
        """Return the projection."""
        return NoProjection()


class _MinimalOccurrencePart(Part):
    """Every record occurs at least so many times (paper Births, Algorithms 4 and 5)."""

    kind: Literal["minimal-occurrence"]
    min_count: Whole = Field(description="Smallest number of times a record may occur.")
    algorithm: Literal["direct", "stepwise", "balanced"] = Field(
        "direct", description="Algorithm 4, Algorithm 5, or Algorithm 4 with a choice that keeps marginals."
    )

    def build(self, schema: Schema) -> Projection:
        """Return the projection."""
        return MinimalOccurrence(min_count=self.min_count, algorithm=self.algorithm)


class _AnonymityPart(ColumnSets):
    """Every combination of values of some columns that occurs does so at least k times."""

    kind: Literal["k-anonymity"]

    def build(self, schema: Schema) -> KAnonymity:
        """Return the projection."""
        return self.rule(schema)


ProjectionModel = _NoProjectionPart | _MinimalOccurrencePart | _AnonymityPart
ProjectionPart = Annotated[ProjectionModel, Field(discriminator="kind")]
_PROJECTIONS: TypeAdapter[ProjectionModel] = TypeAdapter(ProjectionPart)


def projection_part(plain: Any) -> ProjectionModel:
    """Return the model of a projection as a configuration holds it; none by default."""
    return _PROJECTIONS.validate_python(dict(plain) or {"kind": "none"})


class AcceptancePart(Part):
    """When a candidate is good enough, and how that is found out."""

    form: Literal["pass-only", "published"] = Field(
        description="pass-only: one test of all criteria, one bit released. published: a noisy error per criterion."
    )
    epsilon: Positive | None = Field(None, description="Pass-only: what the one test may cost.")
    false_accept: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        0.05, description="Pass-only: largest probability that a candidate violating a criterion is accepted."
    )
    open_bins: OpenBins = Field(
        "nearest",
        description="What an open bin such as 10< counts for in means, medians and regressions: the possible value closest to its end (11), or the number in its label (10), as paper Births has it.",
    )
    criteria: list[CriterionConfig] = Field(description="The acceptance criteria.", min_length=1)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (AcceptancePart, dict(self.__dict__), self.model_fields_set)

    @property
    def published(self) -> bool:
        """Whether a noisy error is released for each criterion."""
        return self.form == "published"

    @property
    def free(self) -> bool:
        """Whether all criteria are about the candidate alone."""
        return not any(item.reads_real for item in self.criteria)

    @property
    def cost(self) -> float:
        """Epsilon of judging one candidate, private regressions left out."""
        if self.published:
            total = 0.0
            for item in self.criteria:
                if not item.fits_regression:
                    total += item.epsilon or 0.0
            return total
        return 0.0 if self.free else self.epsilon or 0.0


# ---------------------------------------------------------------------- selection and the whole


class _SinglePart(Part):
    """One attempt: publish or fail."""

    rule: Literal["single"]

    def problems(self) -> list[tuple[str, str]]:
        """Return what contradicts itself, each with its place."""
        return []

    def attempts(self) -> Attempts:
        """Return the rule for the number of attempts."""
        return SingleAttempt()


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

    def problems(self) -> list[tuple[str, str]]:
        """Return what contradicts itself, each with its place."""
        if self.gamma == 0:
            limited = self.max_attempts is not None or self.epsilon0 is not None
            return [("selection", "a limit on the attempts needs a gamma above 0")] if limited else []
        if self.max_attempts is not None and self.epsilon0 is not None:
            needed = attempts_needed(self.gamma, self.epsilon0)
            if self.max_attempts < needed:
                why = f"Theorem 3 needs at least {needed} for this gamma and epsilon0"
                return [("selection.max_attempts", why)]
        return []

    def attempts(self) -> Attempts:
        """Return the rule for the number of attempts."""
        if self.gamma == 0:
            return UnlimitedAttempts()
        most = self.max_attempts
        if most is None and self.epsilon0 is not None:
            most = attempts_needed(self.gamma, self.epsilon0)
        return GeometricAttempts(self.gamma, most)


class _NegativeBinomialPart(Part):
    """A number of attempts from the truncated negative binomial distribution."""

    rule: Literal["negative-binomial"]
    eta: Annotated[float, Field(gt=-1)] = Field(description="Shape, above -1.")
    gamma: Annotated[float, Field(gt=0, lt=1)] = Field(description="Smaller means more attempts.")

    def problems(self) -> list[tuple[str, str]]:
        """Return what contradicts itself, each with its place."""
        return []

    def attempts(self) -> Attempts:
        """Return the rule for the number of attempts."""
        return NegativeBinomialAttempts(self.eta, self.gamma)


SelectionPart = Annotated[
    Union[_SinglePart, _UntilPart, _NegativeBinomialPart],  # noqa: UP007
    Field(discriminator="rule"),
]


class _BudgetsPart(Part):
    """The total, and the part of one attempt's model; everything else is stated where it is spent."""

    total: _BudgetPart = Field(description="The promise about everything this release does.")
    model: _BudgetPart = Field(description="What fitting one model may cost.")
    rows_lost: Positive | None = Field(
        None,
        description="Where the unit is a person: epsilon for an estimate of the rows that the cut to unit.max_rows leaves out.",
    )


class _OutputPart(Part):
    """What is written."""

    formats: list[Literal["csv", "csv.gz", "parquet"]] = Field(
        ["csv"], description="File formats.", min_length=1
    )
    rows: Whole | None = Field(
        None, description="Number of synthetic rows, where the number of rows is neither public nor measured."
    )
    folder: str | None = Field(None, description="Folder of the bundle, relative to this file.")


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Role = Literal["owner", "lawyer", "domain expert", "statistician", "data protection officer"]


class _ApprovalsPart(Part):
    """Who must have approved this very specification before anything is spent."""

    required: list[Role] = Field([], description="Roles that must have approved it.")
    signed: bool = Field(False, description="Whether only signed approvals count, by keys that are trusted.")
    keys: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]] = Field(
        {}, description="For a role: fingerprint of the one key whose signature counts."
    )


class _AgreementPart(Part):
    """The record of who approved and said what when this very specification was signed; signing writes it."""

    file: str | None = Field(None, description="The record, relative to this file.")
    sha256: Sha256 = Field(description="SHA-256 of the record.")


class _EarlierPart(Part):
    """An earlier release of a series, and what is known about its cost."""

    name: str = Field(description="Name of the release.")
    manifest: Sha256 = Field(description="SHA-256 of the manifest of its bundle.")
    bounds: list[dict[str, AnyValue]] = Field(
        description="What its certificate says is known, the promise first.", min_length=1
    )


class _PreviousPart(Part):
    """The release before this one in a series; `understudy refresh` writes it."""

    bundle: str | None = Field(None, description="Folder of its bundle, relative to this file.")
    manifest: Sha256 = Field(description="SHA-256 of the manifest of its bundle.")
    prior: bool = Field(True, description="Whether models start from that of the bundle, which is public.")
    releases: list[_EarlierPart] = Field(
        description="The earlier releases of the series, the first one first.", min_length=1
    )


class SpecPart(Part):
    """A release: from a private table to a published one."""

    version: Literal[1] = Field(1, description="Version of the file format.")
    name: str = Field(description="Short name of the release.", pattern=_NAME, max_length=60)
    title: str = Field("", description="Title of the published table.")
    description: str = Field("", description="What the published table holds, for people.")
    license: str = Field("", description="Licence of the published table: an SPDX name or an address.")
    citation: str = Field("", description="How users should cite the published table.")
    publisher: PublisherPart = Field(PublisherPart(), description="Who publishes it.")  # type: ignore[call-arg]
    show: list[ReadingPart] = Field(
        [],
        description="What the report begins with, at most three; chosen from the criteria where nothing is said.",
        max_length=3,
    )
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
    cleaning: list[RuleText] = Field(
        [], description="Rules raw records must obey; others are left out (4.8.1)."
    )
    constraints: list[RuleText] = Field([], description="Rules synthetic records must obey (4.8.2).")
    transformations: dict[str, dict[str, dict[str, AnyValue] | None]] = Field(
        {}, description="For a column: names of alternatives, each with the facts it replaces in the schema."
    )
    synthesizers: list[_SynthesizerPart] = Field(description="The synthesizer space.", min_length=1)
    projections: list[ProjectionPart] = Field(
        [_NoProjectionPart(kind="none")], description="The projection space.", min_length=1
    )
    acceptance: AcceptancePart = Field(description="The acceptance criteria.")
    selection: SelectionPart = Field(description="How many attempts may be made.")
    budget: _BudgetsPart = Field(description="The privacy budget.")
    output: _OutputPart = Field(_OutputPart(), description="What is written.")  # type: ignore[call-arg]
    previous: _PreviousPart | None = Field(None, description="The release before this one in a series.")
    approvals: _ApprovalsPart = Field(
        _ApprovalsPart(),  # type: ignore[call-arg]
        description="Who must have approved this very specification.",
    )
    agreement: _AgreementPart | None = Field(
        None, description="The record of approvals and comments; signing writes it."
    )
    seed: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Seed of the public side (drawing rows, projection). Privacy noise takes none."
    )
    ledger: str | None = Field(None, description="Ledger of the table, relative to this file.")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (SpecPart, dict(self.__dict__), self.model_fields_set)


def _rebuilt(model: type[Part], entries: dict[str, Any], given: set[str]) -> Part:
    """Return a part that another process read: the classes of `spec_part` are made in each."""
    return model.model_construct(given, **entries)


def spec_part(kinds: Iterable[str] = ()) -> type[SpecPart]:
    """Return the model of files whose criteria are of Understudy's own kinds, and of some that other packages register."""
    outside = sorted({*kinds} - {*OWN_KINDS})
    return _with_criteria(tuple(criterion_kind(kind) for kind in (*OWN_KINDS, *outside)))


@cache
def _with_criteria(configurations: tuple[type[CriterionConfig], ...]) -> type[SpecPart]:
    any_of: Any = reduce(or_, configurations)
    criterion = Annotated[any_of, Field(discriminator="kind")]
    criteria = (list[criterion], AcceptancePart.model_fields["criteria"])  # type: ignore[valid-type]
    acceptance = create_model(
        "_AcceptancePart", __base__=AcceptancePart, __doc__=AcceptancePart.__doc__, criteria=criteria
    )
    return create_model(
        "SpecPart",
        __base__=SpecPart,
        __doc__=SpecPart.__doc__,
        acceptance=(acceptance, SpecPart.model_fields["acceptance"]),
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of specification files, for editors.

    Examples
    --------
    >>> json_schema()["title"]
    'Understudy release specification'
    """
    document = described(spec_part(criterion_kinds()), title="Understudy release specification")
    always = [key for key in document["required"] if key not in _IN_FACTS]
    return document | {"required": always, "anyOf": [{"required": ["facts"]}, {"required": list(_IN_FACTS)}]}
