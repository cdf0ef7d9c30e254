"""What a release would do, from public facts alone: noise of criteria against thresholds, budget, attempts, memory and time."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from understudy._html import html_table
from understudy.curator import practice_curator
from understudy.data.persons import KEY_BYTES
from understudy.errors import BudgetError, SchemaError, UnderstudyError, UnusableMethod, described_fault
from understudy.privacy import ApproxDP, Laplace, PureDP, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.release.criteria.base import (
    RARELY,
    Criterion,
    CriterionConfig,
    Outlook,
    PlanFacts,
    laplace_deviation,
)
from understudy.release.look import seal_numbers
from understudy.release.neighbours import largest_moves
from understudy.release.record_types import RecordTypes
from understudy.release.result import Configuration
from understudy.release.run.judgement import private_regressions
from understudy.release.run.transform import neighbours, pairs_of, read_source, register_tables
from understudy.release.selection.slack import SlackTest
from understudy.release.spec.budget import Shares, short
from understudy.schema import Schema
from understudy.schema.spreadsheets import formula_warnings

if TYPE_CHECKING:
    from understudy.release.spec.spec import Spec

__all__ = [
    "CriterionPlan",
    "ModelPlan",
    "ReleasePlan",
    "plan_criteria",
    "plan_release",
    "planned_models",
    "prepare_release",
    "slack_test",
    "try_criteria",
    "usable_configurations",
]

_TRIED_PAIRS = 100
"""On how many made-up pairs of neighbours a criterion of another package is tried before a release."""


@dataclass(frozen=True, kw_only=True)
class CriterionPlan(Outlook):
    """One criterion before any data: what it is, and its noise against its threshold."""

    name: str
    kind: str
    type: str
    metric: str
    threshold: float
    unit: str
    form: str
    epsilon: float | None = None


def slack_test(spec: Spec, schema: Schema) -> SlackTest | None:
    """Return the one test of the pass-only form, or None."""
    real = tuple(criterion for criterion in spec.criteria_for(schema) if criterion.reads_real)
    return SlackTest(real) if spec.form == "pass-only" and real else None


def plan_criteria(
    spec: Spec, schema: Schema, n: int | None, smallest: int, example: RecordTypes | None = None
) -> tuple[CriterionPlan, ...]:
    """Plan every criterion for a public number of rows, if there is one.

    Parameters
    ----------
    smallest
        Rows that the rarest value is assumed to have where there is no example.
    example
        Records of a public table that stands in for candidates; group sizes and regressions are taken from it.
    """
    test = slack_test(spec, schema)
    found = []
    for criterion, item in zip(spec.criteria_for(schema), spec.criteria, strict=True):
        form, outlook = "public", Outlook()
        try:
            if criterion.reads_real and test is not None:
                form, outlook = "pass-only", _by_slack(spec, test, criterion, n)
            elif criterion.reads_real:
                form = "published"
                if item.epsilon is not None:
                    facts = PlanFacts(
                        unit=spec.unit,
                        steps=neighbours(spec),
                        n=n,
                        smallest=smallest,
                        example=example,
                        regression_epsilon=_regression_epsilon(spec, item),
                    )
                    outlook = criterion.outlook(facts, item.epsilon)
        except Exception as error:
            if isinstance(error, UnderstudyError) or not _is_foreign(criterion):
                raise
            raise _not_working(criterion, error, "its plan, from public facts alone,") from error
        phrases = item.wording(schema)
        found.append(
            CriterionPlan(
                name=criterion.name,
                kind=item.kind,
                type=phrases.type,
                metric=phrases.metric,
                threshold=criterion.threshold,
                unit=phrases.unit,
                form=form,
                epsilon=item.epsilon if form == "published" else None,
                **asdict(outlook),
            )
        )
    return tuple(found)


def _regression_epsilon(spec: Spec, item: CriterionConfig) -> float | None:
    """Return what the private regression costs that a criterion compares with."""
    return max(
        (
            other.epsilon
            for other in spec.criteria
            if other.fits_regression
            and other.epsilon is not None
            and other.regression_columns == item.regression_columns
        ),
        default=None,
    )


def _by_slack(spec: Spec, test: SlackTest, criterion: Criterion, n: int | None) -> Outlook:
    """Plan a criterion of the one test: how much room does a perfect candidate have, in records?"""
    epsilon, unit = spec.shares.acceptance, spec.unit
    scale = test.noise_scale(epsilon, unit=unit)
    passing = test.threshold(epsilon=epsilon, false_accept=spec.false_accept, unit=unit)
    safe = passing - scale * math.log(2 * RARELY)  # slack at which 95 % of the candidates are accepted
    found = Outlook(
        sensitivity=test.sensitivity(unit),
        noise_deviation=laplace_deviation(scale),
        false_accept=spec.false_accept,
        needs=criterion.needs(safe, n),
    )
    room = None if n is None else criterion.room(n)
    if room is None or n is None:
        return found
    return replace(
        found,
        room=room,
        noise_dominated=room < safe,
        accepted_below=max(0.0, criterion.threshold - safe / n),
        rejected_above=criterion.threshold,
        false_reject=1 - test.acceptance(room / 2, threshold=passing, epsilon=epsilon, unit=unit),
    )


SMALLEST_COUNT = 50
"""Rows that the rarest value or group is assumed to have; the assumption of paper Births, section 4.5.2."""


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """One method with its options on one transformation: what it will measure, and with which noise."""

    name: str
    marginals: int
    cells: int
    smallest_deviation: float | None
    largest_deviation: float | None
    expected_error: float | None
    model_megabytes: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """Everything a custodian should know before spending the budget."""

    name: str
    guarantee: str
    condition: str
    budget: str
    accounting: str
    selection: str
    argument: str
    single: bool
    rows: int | None
    row_count: str
    acceptance: str
    slack_threshold: float | None
    configurations: int
    left_out: tuple[tuple[str, str], ...]
    criteria: tuple[CriterionPlan, ...]
    models: tuple[ModelPlan, ...]
    attempts: tuple[tuple[float, float, float], ...]
    memory_megabytes: float | None
    seconds_per_attempt: float | None
    warnings: tuple[str, ...] = field(default_factory=tuple)

    @property
    def adding_up(self) -> str:
        """How the parts add up to the guarantee, in words. Plain addition holds for parts with a delta too, which their epsilon does not show."""
        plainly = self.accounting == PURE.name and "delta" in self.guarantee
        return "the parts are added up plainly" if plainly else f"{self.accounting} accounting"

    def _repr_html_(self) -> str:
        rows = [
            (
                item.name,
                item.kind,
                f"{item.threshold:g}",
                "" if item.noise_deviation is None else f"{item.noise_deviation:.3g}",
            )
            for item in self.criteria
        ]
        said = [self.budget, self.row_count, self.acceptance, *self.warnings]
        return html_table(
            f"Release {self.name!r}: {self.guarantee} ({self.adding_up})",
            ("criterion", "kind", "threshold", "deviation of its noise"),
            rows,
            note=" ".join(filter(None, said)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = asdict(self)
        plain["left_out"] = [{"configuration": name, "reason": reason} for name, reason in self.left_out]
        plain["attempts"] = [
            {"acceptance": p, "expected_attempts": e, "success": s} for p, e, s in self.attempts
        ]
        return plain


def usable_configurations(spec: Spec) -> tuple[Configuration, ...]:
    """Return the configurations whose method accepts the transformed schema and the model's budget.

    Raises
    ------
    SchemaError
        If none is left.
    """
    usable, refused = _tried(spec)
    if not usable:
        reasons = "; ".join(dict.fromkeys(reason for _, reason in refused))
        raise SchemaError(f"No configuration can be used: {reasons}")
    return tuple(usable)


def _tried(spec: Spec) -> tuple[list[Configuration], list[tuple[str, str]]]:
    usable: list[Configuration] = []
    refused: list[tuple[str, str]] = []
    for configuration in spec.configurations:
        plan = spec.plan_for(configuration)
        if isinstance(plan, str):
            refused.append((configuration.name, plan))
        else:
            usable.append(configuration)
    return usable, refused


def prepare_release(spec: Spec, configurations: Sequence[Configuration]) -> None:
    """Establish, before anything is charged, that every configuration can be fitted and judged on this machine.

    An attempt of a loop that ends in an error counts as rejected, so that a method which does not work here would use up the
    whole budget without a word.

    Raises
    ------
    UnusableMethod, DomainTooLarge
        If a method or a criterion does not work here, or a model does not fit into memory.
    BudgetError
        If a criterion of another package claims too little (:func:`try_criteria`).
    """
    if spec.parts:
        for part in spec.parts.values():
            prepare_release(part, configurations)
        return
    for configuration in {item.model_key: item for item in configurations}.values():
        schema, plan = spec.schema_for(configuration), spec.plan_for(configuration)
        synthesizer = spec.synthesizer_for(configuration, schema)
        synthesizer.prepare(
            schema, unit=spec.unit, budget=spec.shares.model, plan=None if isinstance(plan, str) else plan
        )
    if spec.shares.judging:
        _try_judging()
    try_criteria(spec, configurations)


def try_criteria(spec: Spec, configurations: Sequence[Configuration]) -> None:
    """Try criteria of other packages on made-up neighbouring tables, before a release is paid for or a rehearsal begins.

    Criteria about entities with their events, and those that need a private regression, are not tried.

    Raises
    ------
    UnusableMethod
        If one of them ends in an error. The tables are made up, so its text and place are shown.
    BudgetError
        If one of them claims a smaller sensitivity than it has there, or its slack is no exact number.
    """
    if spec.parts:
        for part in spec.parts.values():
            try_criteria(part, configurations)
        return
    for schema in {item.model_key: spec.schema_for(item) for item in configurations}.values():
        for criterion in () if spec.two_levels else spec.criteria_for(schema):
            if _is_foreign(criterion) and criterion.reads_real and criterion.private_regression is None:
                _try_claims(criterion, schema, neighbours(spec))


def _is_foreign(criterion: Criterion) -> bool:
    return not type(criterion).__module__.startswith("understudy.")


def _not_working(criterion: Criterion, error: Exception, what: str) -> UnusableMethod:
    """Return the refusal of a criterion of another package that failed on public or made-up facts."""
    module = type(criterion).__module__
    return UnusableMethod(
        f"The criterion {criterion.name!r} does not work: {what} ended in {described_fault(error, module.partition('.')[0])}. Nothing was charged. "
        f"It is not part of Understudy: whoever wrote {module} can repair it. Or leave the criterion out."
    )


def _try_claims(criterion: Criterion, schema: Schema, units: Sequence[Unit]) -> None:
    """Refuse a criterion of another package that made-up neighbours move further than it claims. What it claims is charged for."""
    for unit in units:
        try:
            moves = largest_moves(criterion, schema.domain, unit=unit, pairs=_TRIED_PAIRS)
        except BudgetError:
            raise
        except Exception as error:
            raise _not_working(criterion, error, "a trial on made-up tables") from error
        if max(moves.value, moves.slack) > 1:
            raise BudgetError(
                f"The criterion {criterion.name!r} ({type(criterion).__module__}.{type(criterion).__name__}) claims too little: {unit.describe()} moved "
                f"what it publishes by {moves.value:g} times its sensitivity, or its slack by {moves.slack:g} times, on made-up tables. Nothing was "
                "charged. Whoever wrote it can find the tables with understudy.release.largest_moves; leave the criterion out until then."
            )


def _try_judging() -> None:
    """Draw the noise that acceptance criteria are tested and published with, on made-up records."""
    schema = Schema.parse("columns: [{name: smokes, kind: boolean}]")
    curator = practice_curator(schema, rows=2, unit=Unit.add_remove(), budget=PureDP(3.0))
    sealed, other = seal_numbers(curator, lambda table: [0, 1], sensitivities=[1.0, 1.0])
    curator.test(sealed, above=0.0, epsilon=1.0, purpose="try a test")
    curator.measure_scalar(sealed, noise=Laplace(1.0), purpose="try a measurement")
    curator.choose([sealed, other], epsilon=1.0, purpose="try a choice")


# ---------------------------------------------------------------------- the whole

_ENDLESS = "Attempts go on until one is accepted; if none can be, the release never ends. Rehearse first."


def plan_release(
    spec: Spec,
    *,
    rows: int | None = None,
    smallest_count: int = SMALLEST_COUNT,
    example: Any = None,
    with_models: bool = True,
) -> ReleasePlan:
    """Plan a release from public facts alone. No private data is opened.

    Parameters
    ----------
    spec
        The specification.
    rows
        A public guess of the number of rows; by default what the specification says. Of a release of two levels, of the number of entities.
    smallest_count
        Rows that the rarest value is assumed to have, where there is no example.
    example
        A public table of the layout of the source, such as a simulated one. Group sizes of conditional means, rare values and
        regressions are then planned as if candidates looked like it. It must not be the private table.
    with_models
        Whether to plan the models too, which takes long on very many columns. Without them nothing is said about models, memory and time, whether
        configurations can be used, nor in warnings.
    """
    if spec.parts:
        return _plan_parts(
            spec, rows=rows, smallest_count=smallest_count, example=example, with_models=with_models
        )
    usable, refused = _tried(spec) if with_models else (list(spec.configurations), [])
    n = rows or spec.row_count.value or spec.expected_rows
    if n is None and spec.source.simulated is not None:
        n = spec.source.simulated.rows
    if n is not None and spec.two_levels:
        n *= spec.unit.max_rows  # records that so many entities give
    first = usable[0] if usable else spec.configurations[0]
    schema = spec.schema_for(first)
    public = None if example is None or spec.form != "published" else _example(spec, first, example)
    criteria = plan_criteria(spec, schema, n, smallest_count, public)
    if spec.two_levels:
        criteria = tuple(
            replace(item, needs=re.sub(r"\brows\b", "event records", item.needs)) for item in criteria
        )
    models = _models(spec, usable, n) if with_models else ()
    shares = spec.shares
    warnings = _warnings(spec, criteria, usable, n) if with_models else ()
    test = slack_test(spec, schema)
    threshold = None
    if test is not None:
        threshold = test.threshold(epsilon=shares.acceptance, false_accept=spec.false_accept, unit=spec.unit)
    return ReleasePlan(
        **_promised(spec),
        rows=n,
        acceptance=_describe_acceptance(spec, threshold),
        slack_threshold=threshold,
        configurations=len(usable),
        left_out=(*spec.left_out, *refused),
        criteria=criteria,
        models=models,
        memory_megabytes=_memory(spec, models, n) if with_models else None,
        seconds_per_attempt=_seconds(models, n) if with_models else None,
        warnings=warnings,
    )


def _plan_parts(
    spec: Spec, *, rows: int | None, example: Any, with_models: bool, **asked: Any
) -> ReleasePlan:
    """Plan a release of several tables of events: part by part, with the promise and the budget of the whole."""
    expected = rows or spec.expected_rows
    pairs = {} if example is None else pairs_of(spec, register_tables(spec, example))
    plans = {
        table: plan_release(part, rows=expected, example=pairs.get(table), with_models=with_models, **asked)
        for table, part in spec.parts.items()
    }
    first, each = next(iter(plans.values())), list(plans.values())
    criteria = {item.name: item for plan in each for item in plan.criteria}
    refused = _tried(spec)[1] if with_models else []
    own = [item for item in spec.configurations if item.name not in {name for name, _ in refused}]
    known = [plan.memory_megabytes for plan in each if plan.memory_megabytes is not None]
    seconds = [plan.seconds_per_attempt for plan in each if plan.seconds_per_attempt is not None]
    shares = spec.shares
    warnings = list(dict.fromkeys(warning for plan in each for warning in plan.warnings))
    if not shares.single and shares.attempts.name == "unlimited":
        warnings.append(_ENDLESS)
    return replace(
        first,
        **_promised(spec),
        acceptance=" ".join(f"{table}: {plan.acceptance}" for table, plan in plans.items()),
        slack_threshold=None,
        configurations=len(own),
        left_out=(*spec.left_out, *refused),
        criteria=tuple(criteria[item.name] for item in spec.criteria),
        models=tuple(
            replace(model, name=f"{table}: {model.name}")
            for table, plan in plans.items()
            for model in plan.models
        ),
        memory_megabytes=max(known) if known else None,
        seconds_per_attempt=round(sum(seconds), 1) if seconds else None,
        warnings=tuple(warnings),
    )


def _promised(spec: Spec) -> dict[str, Any]:
    """Return what a plan says of a specification as a whole, whatever it plans of it: promise, budget, selection and attempts."""
    shares, selection = spec.shares, spec.shares.selection
    return {
        "name": spec.name,
        "guarantee": f"{shares.promise.describe()} for {spec.protects}",
        "condition": spec.condition().text,
        "budget": _describe_budget(shares),
        "accounting": shares.accounting,
        "selection": shares.attempts.describe(),
        "argument": "the parts of one attempt add up" if selection is None else selection.argument,
        "single": shares.single,
        "row_count": spec.row_count.words(),
        "attempts": tuple(
            (p, shares.attempts.expected(p), shares.attempts.success(p)) for p in (0.1, 0.5, 0.8, 0.95)
        ),
    }


def _describe_budget(shares: Shares) -> str:
    """Say what the parts add up to, of which total."""
    spent, total = short(shares.promise), short(shares.total)
    return f"{total} = {shares.describe()}" if spent == total else f"{spent} of {total} = {shares.describe()}"


def _example(spec: Spec, configuration: Configuration, table: Any) -> RecordTypes:
    """Return the records of a public table, cleaned and transformed as the private one will be."""
    read, unit = read_source(spec, configuration, table), spec.unit
    if spec.two_levels and unit.id_column is not None:
        read = read.truncated(unit.id_column, unit.max_rows, bytes(KEY_BYTES))
    return RecordTypes.from_table(read)


def _describe_acceptance(spec: Spec, threshold: float | None) -> str:
    if spec.form == "published":
        return f"A noisy error is released for each criterion, for epsilon={spec.shares.judging:g} per attempt.{_describe_regressions(spec)}"
    if threshold is None:
        return "All criteria are about the candidate alone and cost nothing."
    return (
        f"One test of all criteria for epsilon={spec.shares.acceptance:g}: accept if the real table is, after noise, more "
        f"than {threshold:.1f} records away from violating any of them. A candidate that violates one is accepted "
        f"with probability {spec.false_accept:g} at most."
    )


def _describe_regressions(spec: Spec) -> str:
    """Say where the private regressions are fitted, and how often they are charged."""
    shares = spec.shares
    versions = sum(item.versions for item in private_regressions(spec.criteria, spec.transformations))
    if shares.regressions:
        return (
            f" Each attempt fits its own private regressions, for epsilon={math.fsum(shares.regressions):g} of it: cheaper than to "
            f"fit each of the {versions} distinct sets of columns once."
        )
    if shares.baselines and not shares.single:
        return (
            f" Private regressions are fitted once for each distinct set of columns ({versions}) before the first attempt, for "
            f"epsilon={math.fsum(shares.baselines):g} in all."
        )
    return ""


def _better_without_delta(spec: Spec, usable: list[Configuration]) -> list[str]:
    """Name the methods whose model would have less noise if its budget were an epsilon alone."""
    budget = spec.shares.model
    found: dict[str, bool] = {}
    for configuration in usable if isinstance(budget, ApproxDP) else ():
        if configuration.method in found:
            continue
        schema = spec.schema_for(configuration)
        method = spec.synthesizer_for(configuration, schema)
        paid, best = method.accounting(budget), method.least_noisy_accounting(budget, schema, spec.unit)
        found[configuration.method] = best is PURE and paid is not PURE
    names = [name for name, better in found.items() if better]
    return (
        [
            f"{', '.join(names)}: budget.model has a delta, so the model is paid for by the Gaussian curve; with an epsilon alone it would have "
            "less noise. Give budget.model no delta."
        ]
        if names
        else []
    )


# ---------------------------------------------------------------------- models and machine


def planned_models(spec: Spec) -> tuple[ModelPlan, ...]:
    """Return what each usable method would measure on each transformation; of several tables of events, on each of them."""
    if spec.parts:
        return tuple(model for part in spec.parts.values() for model in planned_models(part))
    return _models(spec, _tried(spec)[0], None)


def _models(spec: Spec, usable: list[Configuration], n: int | None) -> tuple[ModelPlan, ...]:
    found: dict[str, ModelPlan] = {}
    for configuration in usable:
        key, planned = configuration.model_key, spec.plan_for(configuration)
        if key in found or isinstance(planned, str):
            continue
        deviations = [item.noise.variance**0.5 for item in planned.measurements]
        error = None
        if n and planned.measurements:
            error = sum(item.expected_l1 for item in planned.measurements) / len(planned.measurements) / n
        found[key] = ModelPlan(
            name=configuration.name.rsplit(";", 1)[0],
            marginals=len(planned.measurements),
            cells=sum(item.cells for item in planned.measurements),
            smallest_deviation=min(deviations, default=None),
            largest_deviation=max(deviations, default=None),
            expected_error=error,
            model_megabytes=planned.model_cells * 8 / 1e6,
            notes=planned.notes,
        )
    return tuple(found.values())


def _memory(spec: Spec, models: tuple[ModelPlan, ...], n: int | None) -> float | None:
    """Guess the memory of a release: the program, the table per transformation, its record types, the model."""
    if n is None:
        return None
    columns = len(spec.schema.names)
    tables = len(spec.schemas()) * n * columns * 2
    types = 2 * n * (columns + 1) * 8
    largest = max((model.model_megabytes for model in models), default=0.0)
    return round(350 + (tables + 2 * types) / 1e6 + 6 * largest)


def _seconds(models: tuple[ModelPlan, ...], n: int | None) -> float | None:
    """Guess the time of an attempt from what they took on one core of an ordinary machine."""
    if n is None:
        return None
    largest = max((model.model_megabytes for model in models), default=0.0)
    return round(0.3 + 6e-6 * n + 0.15 * largest, 1)


def _warnings(
    spec: Spec, criteria: tuple[CriterionPlan, ...], usable: list[Configuration], n: int | None
) -> tuple[str, ...]:
    found = []
    if not usable:
        found.append("No configuration can be used; see the reasons.")
    if n is None:
        found.append(
            "The number of rows is not public, so noise cannot be compared with all thresholds: give --rows."
        )
    elif n < spec.least_rows():
        found.append(
            f"A projection needs {spec.least_rows():,} rows at least; {n:,} are expected. The release would end with an "
            "error once the number of rows is known."
        )
    found += [
        f"{item.name}: noise dominates. A perfect candidate may well be rejected, a bad one accepted. Spend more "
        "epsilon on it, loosen the threshold, or leave it out."
        for item in criteria
        if item.noise_dominated
    ]
    if not spec.shares.single and spec.shares.attempts.name == "unlimited":
        found.append(_ENDLESS)
    found += _better_without_delta(spec, usable)
    if spec.unit.id_column is not None:
        entity = spec.schema.entity
        found.append(
            entity.describe_counting(spec.unit.max_rows)
            if entity is not None and spec.two_levels
            else spec.unit.describe_cut()
        )
    if spec.row_count.kind == "declared":
        found.append("The number of rows after cleaning is declared public: make sure that its owner agrees.")
    if spec.row_count.kind == "chosen":
        found.append(
            "The candidate's number of rows is a guess; criteria count how far it is off as an error."
        )
    found += formula_warnings(spec.schema_for(usable[0] if usable else spec.configurations[0]))
    published = spec.form == "published"
    beside = (item.warnings_beside(spec.criteria, published=published) for item in spec.criteria)
    return (*found, *dict.fromkeys(warning for warnings in beside for warning in warnings))
