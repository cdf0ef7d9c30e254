"""What a release ends in: an accepted candidate with everything to be published about it, or a failure.

Everything in these types may be published. The number of attempts made is not among it, because it is itself an
output that was not paid for; nor are the times of steps that read the real table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from understudy.release.selection.profiles import BestProfile, Bound, best_profile

if TYPE_CHECKING:
    import pandas as pd

    from understudy.inference.people import RowsPerPerson
    from understudy.mechanisms import Model, Provenance
    from understudy.privacy import Budget, Unit
    from understudy.privacy.ledger.ledger import Entry, Invariant
    from understudy.release.agreement import Agreement
    from understudy.release.spec.spec import Spec
    from understudy.schema import Schema
    from understudy.signatures import Statement

__all__ = [
    "AcceptanceResult",
    "Configuration",
    "CriterionResult",
    "ReleaseFailure",
    "ReleaseGuarantee",
    "ReleaseResult",
]

Form = Literal["published", "pass-only", "public"]


@dataclass(frozen=True, kw_only=True)
class CriterionResult:
    """One acceptance criterion and what may be said about it.

    Attributes
    ----------
    name, kind
        Public name within the release and kind of criterion, as in the specification.
    type, metric
        Words for people, as in the first two columns of paper Births, Table 2.
    threshold, unit
        The error had to be smaller than this; the unit it is measured in ("" for a plain number or share).
    form
        ``"published"``: a noisy error was released and compared with the threshold. ``"pass-only"``: the
        criterion took part in the one slack test and no number was released. ``"public"``: a function of the
        candidate alone, known exactly and free of cost.
    value
        The noisy (published) or exact (public) error, None in the pass-only form.
    epsilon
        What the published value cost; None if it had no cost of its own.
    mechanism
        ``"laplace"``, ``"exponential"``, ``"functional"``, ``"slack test"`` or ``"none"``.
    bounds
        Range ``[L, U]`` that errors or the values behind them lie in, where the mechanism has one.
    sensitivity, noise_deviation
        Of the value to which noise was added: the published error or, in the pass-only form, the slack in records.
    passed
        Whether the criterion was met; in the pass-only form, whether the one test of all of them passed.
    """

    name: str
    kind: str
    type: str
    metric: str
    threshold: float
    unit: str = ""
    form: Form
    value: float | None = None
    epsilon: float | None = None
    mechanism: str
    bounds: tuple[float, float] | None = None
    sensitivity: float | None = None
    noise_deviation: float | None = None
    passed: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dict(_plain(asdict(self)))


@dataclass(frozen=True, kw_only=True)
class AcceptanceResult:
    """The decision about a candidate as a whole.

    Attributes
    ----------
    form
        ``"published"`` or ``"pass-only"``.
    epsilon
        What all acceptance criteria cost together.
    passed
        The decision.
    slack_threshold, noise_scale, sensitivity, false_accept
        Pass-only form: the smallest slack plus Laplace noise of this scale had to exceed this many records; the
        most that one unit can change the smallest slack; the largest probability that a candidate that
        violates a criterion is accepted. None in the published form.
    """

    form: Literal["published", "pass-only"]
    epsilon: float
    passed: bool
    slack_threshold: float | None = None
    noise_scale: float | None = None
    sensitivity: float | None = None
    false_accept: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dict(_plain(asdict(self)))


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One point of the configuration space: how a candidate is made.

    Attributes
    ----------
    transformations
        For each column with alternatives the name of the one used.
    method, options
        The synthesizer and the options it was given, as written in the specification.
    projection
        The projection as written in the specification, and in words.
    """

    transformations: Mapping[str, str] = field(default_factory=dict)
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    projection: Mapping[str, Any] = field(default_factory=dict)
    projection_words: str = ""

    @property
    def name(self) -> str:
        """A readable name, unique within the configuration space.

        Examples
        --------
        >>> Configuration(transformations={"age": "fine"}, method="aim", options={"max_model_mb": 20}).name
        'age=fine; aim max_model_mb=20; no projection'
        """
        parts = [f"{column}={label}" for column, label in self.transformations.items()]
        method_parts = [self.method, *(f"{key}={value}" for key, value in self.options.items())]
        return "; ".join([*parts, " ".join(method_parts), self.projection_words or "no projection"])

    @property
    def model_key(self) -> str:
        """What a model depends on: everything but the projection."""
        return f"{sorted(self.transformations.items())} {self.method} {self.options}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dict(_plain(asdict(self)), name=self.name)


@dataclass(frozen=True, kw_only=True)
class ReleaseGuarantee:
    """The privacy promise of the release as a whole and how it is made up.

    Attributes
    ----------
    budget, unit
        The promise about this release, and who is protected: the tightest valid accounting of its parts.
    neighbours
        Which tables are neighbours, in words.
    total, table_total
        What the specification allowed, at least as much; and what the ledger allowed for all releases of the table together when this one
        ended, which may be raised later.
    other_ledgers
        The other ledgers of the table that the one that paid tells of; what they promise adds up with ``table_total``.
    trade_off
        Everything that is known about how well neighbouring tables can be told apart; each bound holds.
    accounting
        Name of the accounting in which the ledger adds up.
    attempt, model, acceptance_epsilon
        The guarantee of one attempt, and of its two parts.
    selection
        The selection rule in words, such as "a single attempt, published if it passes".
    argument
        Name of the argument that turns the guarantee of an attempt into that of the selection.
    considered
        Epsilon of the selection by every argument that applies.
    condition
        What the promise presumes because exact numbers about the table are public, in sentences; the same for all that the ledger paid.
    among
        The tables that the promise compares, such as "among tables with 158,495 rows"; empty for all tables.
    steps
        How many neighbouring steps lie between two such tables that differ in the records of one unit.
    invariants
        The exact public numbers of the ledger that the condition is about.
    """

    budget: Budget
    unit: Unit
    neighbours: str
    accounting: str
    attempt: Budget
    model: Budget
    acceptance_epsilon: float
    selection: str
    argument: str
    considered: Mapping[str, float] = field(default_factory=dict)
    condition: str = ""
    among: str = ""
    steps: int = 1
    invariants: tuple[Invariant, ...] = ()
    total: Budget | None = None
    table_total: Budget | None = None
    other_ledgers: tuple[str, ...] = ()
    trade_off: tuple[Bound, ...] = ()

    @property
    def allowed(self) -> str:
        """Say how much more was allowed, to this release and to the table; empty if neither is more than the promise."""
        said = []
        if self.total not in (None, self.budget):
            said.append(f"The release was allowed {self.total.describe()}.")  # type: ignore[union-attr]
        if self.table_total is not None and self.other_ledgers:
            said.append(
                f"All releases of the table from the ledger of this one were held to {self.table_total.describe()} when it ended; the table has "
                "other ledgers, whose promises add up."
            )
        elif self.table_total not in (None, self.budget, self.total):
            said.append(
                f"All releases of the table together were held to {self.table_total.describe()} when this one ended; "  # type: ignore[union-attr]
                "the owner of the table can raise that later, and the ledger says so."
            )
        return " ".join(said)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Everything that is known about the release, the promise first."""
        promise = Bound(0.0, self.budget)
        return (promise, *(bound for bound in self.trade_off if bound != promise))

    @property
    def profile(self) -> BestProfile:
        """What is known about how well two tables that the promise compares can be told apart."""
        return best_profile(self.trade_off or (Bound(0.0, self.budget),), steps=self.steps)

    def describe(self) -> str:
        """Say the promise in one sentence, and what it presumes in another."""
        promise = (
            f"{self.budget.describe()}; neighbouring tables: {self.neighbours}; {self.selection} "
            f"({self.argument}; {self.accounting} accounting)."
        )
        return " ".join(part for part in (promise, self.allowed, self.condition) if part)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "budget": self.budget.to_dict(),
            "total": (self.total or self.budget).to_dict(),
            "table_total": None if self.table_total is None else self.table_total.to_dict(),
            "other_ledgers": list(self.other_ledgers),
            "trade_off": [bound.to_dict() for bound in self.trade_off],
            "unit": self.unit.to_dict(),
            "neighbours": self.neighbours,
            "accounting": self.accounting,
            "attempt": self.attempt.to_dict(),
            "model": self.model.to_dict(),
            "acceptance_epsilon": self.acceptance_epsilon,
            "selection": self.selection,
            "argument": self.argument,
            "considered": dict(self.considered),
            "condition": self.condition,
            "among": self.among,
            "steps": self.steps,
            "invariants": [
                {"subject": item.subject, "rule": item.rule, "value": item.value} for item in self.invariants
            ],
            "words": self.describe(),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class _Outcome:
    """What an accepted and a failed release have in common.

    Attributes
    ----------
    spec
        The specification, complete and checked.
    guarantee
        The promise, which holds for failures too: a failure is an output.
    release_id
        Random public name of this run; the charges in the ledger carry it in their scope.
    ledger_entries
        The entries of the ledger that belong to this release, notes included.
    lost_entries
        Numbers of those entries whose answers an interruption lost before anybody saw them. The same questions were charged again, by
        later entries; nothing that is released depends on the lost answers, so the promise does not count them. The ledger does.
    ledger_id, ledger_head, ledger_length, ledger_table
        Which ledger paid, the hash of its last line after this release and the number of its entries, and the public name
        of the table.
    public_facts
        What was treated as public knowledge: number of rows, cleaning rules, domain and so on, in words.
    software
        Name and version of the program.
    started, finished
        When (UTC, ISO 8601), to the day. The number of attempts of a loop is not an output that was paid for, and
        even a day could tell of it; there ``finished`` repeats the day of the start.
    rows_lost
        How many rows the cut by person left out, where an estimate of that was paid for.
    """

    spec: Spec
    guarantee: ReleaseGuarantee
    release_id: str
    ledger_entries: tuple[Entry, ...]
    ledger_id: str
    ledger_head: str
    ledger_length: int
    ledger_table: str
    public_facts: Mapping[str, Any]
    software: str
    started: str
    finished: str
    rows_lost: RowsPerPerson | None = None
    criteria: tuple[CriterionResult, ...] = ()
    acceptance: AcceptanceResult | None = None
    lost_entries: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseResult(_Outcome):
    """An accepted candidate, ready to be published.

    Attributes
    ----------
    schema
        The released schema: columns, bins of the chosen transformation, synthetic constraints, public row count.
    synthetic
        The released table, decoded by the schema. Of linked tables: the events, with the columns of their entity beside them.
    tables
        Of linked tables: the released tables by name, with fresh keys that join; otherwise none.
    configuration
        The configuration of the accepted candidate.
    provenance
        How its model was made.
    timings
        Seconds of the steps that follow the last look at the real table (sampling, projection).
    model
        The fitted model the candidate was drawn from, with its noisy measurements. It is an output of the
        accepted attempt like the candidate itself, so it is covered by the same guarantee.
    approvals
        Who approved this very specification before the release, typed or signed.
    agreement
        What was agreed on when it was signed, if it names that.
    parts
        Of several tables of events: by table, the release of the entities with that table alone, under the promise of the whole. ``synthetic`` is the table of entities then, and there is no
        ``model`` but those of the parts.
    """

    schema: Schema
    synthetic: pd.DataFrame
    configuration: Configuration
    provenance: Provenance
    timings: Mapping[str, float] = field(default_factory=dict)
    model: Model | None = None
    approvals: tuple[Statement, ...] = ()
    agreement: Agreement | None = None
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict, repr=False)
    parts: Mapping[str, ReleaseResult] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"ReleaseResult({self.spec.name!r}, {len(self.synthetic):,} rows, {self.guarantee.budget.describe()})"


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseFailure(_Outcome):
    """No candidate was accepted. Nothing is published, and the budget is spent all the same.

    Attributes
    ----------
    reason
        Public words. In a loop of attempts they say only that it failed: which criterion, and after how many
        attempts, was not paid for.
    """

    reason: str

    def __repr__(self) -> str:
        return f"ReleaseFailure({self.spec.name!r}, {self.guarantee.budget.describe()})"


def _plain(value: Any) -> Any:
    """Turn tuples into lists and mappings into dictionaries, all the way down."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
