"""``understudy plan``: what a release or a single fit would do, before any record is read or any budget spent."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import (
    Chart,
    Delta,
    Epsilon,
    Flat,
    IdColumn,
    Json,
    MaxRowsOrAuto,
    Mu,
    OptionalMethod,
    OptionalUnit,
    OptionWords,
    PriorPath,
    Quiet,
    Rho,
    RowsLost,
    Target,
    TimeLimit,
    WorkloadText,
    key_of,
    parse_budget,
    parse_method,
    parse_options,
    parse_unit_with_look,
)
from understudy.errors import SchemaError, UnderstudyError, UsageError

if TYPE_CHECKING:
    from understudy.mechanisms import Plan
    from understudy.privacy import Budget, Unit
    from understudy.release.run.planning import CriterionPlan, ReleasePlan
    from understudy.release.spec.spec import Spec
    from understudy.schema import Schema
    from understudy.schema.linked import Register
    from understudy.workflow.advice import Advice


def plan(
    spec: Annotated[
        Path | None, typer.Argument(help="Specification of a release; or describe one fit by options.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", "-s", help="Schema of the table (YAML or JSON).")
    ] = None,
    method: OptionalMethod = None,
    unit: OptionalUnit = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    id_column: IdColumn = None,
    max_rows_per_person: MaxRowsOrAuto = None,
    flat: Flat = False,
    rows_lost: RowsLost = False,
    workload: WorkloadText = None,
    target: Target = None,
    prior: PriorPath = None,
    time_limit: TimeLimit = None,
    option: OptionWords = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows-about",
            min=1,
            help="The number of rows, public or a guess of yours: errors depend on it. The table is not read.",
        ),
    ] = None,
    want: Annotated[
        str | None,
        typer.Option(
            help='What is wanted, such as "pairs within 2 %" (also columns, triples) or "cell of 500 rows within 10 %": answered with an epsilon. Needs the rehearsal, and so the number of rows (--rows-about).'
        ),
    ] = None,
    rehearsal: Annotated[
        bool,
        typer.Option(
            "--rehearsal/--no-rehearsal",
            help="Whether the fit is rehearsed on made-up tables of this schema, which takes about five to ten times as long as a fit.",
        ),
    ] = True,
    chart: Chart = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show noise, budget and expected errors before anything is read.

    Takes a specification, or one fit described by --schema, --method, --unit and a budget. Public facts alone are used. Where the number of
    rows is known, the fit is rehearsed on made-up tables of the schema: expected errors, time, memory, and what more budget would buy.
    """
    if spec is not None:
        _require_no_table(spec)
        if schema is not None or method is not None:
            raise UsageError(
                "Give a specification, or --schema and --method, not both. (A schema goes behind --schema.)"
            )
        if want is not None or chart is not None:
            raise UsageError(
                "--want and --chart are for one fit (--schema, --method, --unit); understudy rehearse tries a release."
            )
        _plan_release(spec, rows=rows, json=json)
        return
    if schema is None or unit is None:
        raise UsageError(
            "Give a specification, or --schema and --unit, with --method if it is not to be chosen."
        )
    method = method or "auto"
    from understudy.schema.linked import read_register

    register = read_register(schema)
    if register is not None:
        if flat or rows_lost or prior is not None or want is not None or chart is not None:
            raise UsageError(
                "Several tables of events are planned as they are fitted: leave --flat, --rows-lost, --prior, --want and --chart out."
            )
        key = register.pairs[0].plain["entity"]["id"]
        register_unit, _ = parse_unit_with_look(
            unit, id_column or key, max_rows_per_person, flat=False, rows_lost=False
        )
        _plan_register(
            register,
            schema.parent,
            json=json,
            unit=register_unit,
            budget=parse_budget(epsilon, delta, rho, mu),
            method=method,
            options=parse_options(option),
            workload=workload,
            target=target,
            time_limit=time_limit,
        )
        return
    from understudy.cli.output import print_json, progress_bar, say, tell
    from understudy.data.output import require_writable
    from understudy.mechanisms.levels import open_columns
    from understudy.plots import frontier
    from understudy.privacy.guarantee import condition_of, rows_rule
    from understudy.privacy.ledger.ledger import Invariant
    from understudy.schema import Schema
    from understudy.schema.spreadsheets import formula_warnings
    from understudy.workflow import reason_for
    from understudy.workflow.advice import advise
    from understudy.workflow.choice import USUAL_ROWS
    from understudy.workflow.events import check_two_levels, entity_of, records_of
    from understudy.workflow.measuring import require_one_accounting
    from understudy.workflow.wishes import MOST_SECONDS, Wish

    if want is not None:
        Wish.parse(want)
    if chart is not None:
        require_writable(chart, what="picture")
    asked_for = want is not None or chart is not None
    if not rehearsal and asked_for:
        raise UsageError("--want and --chart need the rehearsal; leave --no-rehearsal out.")
    wish_alone = want is not None and epsilon is None
    budget = parse_budget(1.0 if wish_alone else epsilon, delta, rho, mu)
    described = Schema.read(schema)
    promised_unit, cut = parse_unit_with_look(
        unit,
        id_column or key_of(described, max_rows_per_person),
        max_rows_per_person,
        flat=flat,
        rows_lost=rows_lost,
    )
    privacy_unit = promised_unit if cut is None else cut.planned_unit(promised_unit)
    entity = entity_of(described, privacy_unit, flat=flat)
    asked: dict[str, Any] = {
        "target": target,
        "unit": privacy_unit,
        "budget": budget,
        "entity": entity,
        "prior": prior,
    }
    synthesizer = parse_method(method, described, workload, option, time_limit=time_limit, **asked)
    reason = reason_for(method, workload=workload, **asked)
    synthesizer.require(budget)
    records = records_of(described, entity)
    if cut is not None:
        reserve = synthesizer.reserve(records, budget)
        cut.check(described, promised_unit, two_levels=entity is not None, alone=True, reserve=reserve)
    left = budget if cut is None else cut.shares(budget).rest
    if cut is not None:
        require_one_accounting(synthesizer, left)
    planned = synthesizer.plan(records, unit=privacy_unit, budget=left)
    n_rows = rows if rows is not None else described.row_count
    if n_rows is None and asked_for:
        raise UsageError(
            "--want and --chart need the number of rows: give one that is public, or a guess, with --rows-about."
        )
    advice, refused = None, []
    if entity is not None and asked_for:
        raise UsageError(
            "--want and --chart rehearse a fit of rows; for people with several rows add --flat, or leave them out."
        )
    can_rehearse = rehearsal and n_rows is not None and entity is None
    if can_rehearse and (asked_for or not described.facts_from_data()):
        silent = quiet or json
        if not silent:
            rules = f", and drawing rows under {len(described.rules)} rules" if described.rules else ""
            say(
                f"Rehearsing the fit on made-up tables of this schema: five to ten fits{rules}, at most about {MOST_SECONDS:.0f} s of CPU and "
                "the fit that is under way then. --no-rehearsal skips it."
            )
        try:
            with progress_bar("plan", quiet=silent) as progress:
                advice = advise(
                    described,
                    unit=privacy_unit,
                    method=synthesizer,
                    epsilon=epsilon,
                    delta=delta,
                    rho=rho,
                    mu=mu,
                    rows=n_rows,
                    want=want,
                    progress=progress,
                    announce=None if silent else say,
                )
        except UnderstudyError as error:  # the rest of the plan can do without
            if asked_for:
                raise
            refused.append(f"The fit was not rehearsed: {error}")
    if chart is not None and advice is not None:
        frontier(advice).save(chart)
    if wish_alone and advice is not None:
        if json:
            print_json({"method": advice.method, "advice": advice.to_dict()})
            return
        for sentence in advice.sentences():
            tell(sentence)
        return
    n_rows = n_rows if entity is None else None  # noise is on records, so many to a person
    measured = _measured(planned, n_rows)
    facts_known = (budget, records, privacy_unit)
    guessed = reason is not None and rows is not None and described.row_count is None and entity is None
    said = (
        "" if reason is None else reason(described),
        f"The {rows:,} rows of --rows-about are for the expected errors. The method is chosen for {USUAL_ROWS:,}, as a fit chooses it, which knows of no "
        "number that is not in the schema (row_count)."
        if guessed
        else "",
        synthesizer.accounting_note(*facts_known),
        synthesizer.delta_note(*facts_known) if advice is None else "",  # the advice says what it would buy
    )
    notes = [
        *(
            [privacy_unit.describe_cut()]
            if entity is None and privacy_unit.id_column is not None and not (cut and cut.choose)
            else []
        ),
        *([] if cut is None else cut.notes(promised_unit)),
        *(() if entity is None else check_two_levels(None, described, entity)),
        *(note for note in said if note),
        *refused,
        *planned.notes,
        *_not_public(described),
        *formula_warnings(described),
    ]
    known = [Invariant("number of rows", rows_rule(privacy_unit), described.row_count, "", 0)]
    public = described.row_count is not None or privacy_unit.keeps_rows
    condition = condition_of(privacy_unit, known if public else ()).text
    facts = {
        "method": planned.method,
        "guarantee": f"{budget.describe()} for {promised_unit.describe()}",
        "condition": condition,
        "accounting": planned.accounting,
        "model_cells": planned.model_cells,
        "model_megabytes": round(planned.model_cells * 8 / 1e6, 3),
        "notes": notes,
    }
    if json:
        advised = {} if advice is None else {"advice": advice.to_dict()}
        print_json(facts | {"measurements": measured} | advised)
        return
    tell(f"{planned.method}: {facts['guarantee']} ({planned.accounting} accounting)")
    if condition:
        tell(f"Condition: {condition}")
    _print_measured("Measurements", measured, levels={column.name for column in open_columns(described)})
    if not n_rows and entity is None:
        tell(
            "With --rows-about (the number of rows, or a guess) the fit is rehearsed: expected errors, time and memory."
        )
    tell(f"Model: {planned.model_cells:,} cells ({facts['model_megabytes']} MB).")
    if advice is not None:
        _tell_advice(advice)
    for note in notes:
        tell(f"Note: {note}")


def _measured(planned: Plan, n_rows: int | None = None) -> list[dict[str, Any]]:
    """Return what a fit will measure as plain values; errors as shares too where the number of rows is known."""
    return [
        {
            "columns": list(item.clique),
            "cells": item.cells,
            "noise": item.noise.kind,
            "scale": item.noise.scale,
            "standard_deviation": item.noise.variance**0.5,
            "expected_l1": item.expected_l1,
            "expected_l1_share": item.expected_l1 / n_rows if n_rows else None,
        }
        for item in planned.measurements
    ]


def _print_measured(title: str, measured: list[dict[str, Any]], *, levels: Collection[str] = ()) -> None:
    """Print what a fit will measure. A column with levels is measured twice: by its values, which choose its groups, and by these."""
    from understudy.cli.output import print_table

    seen: set[str] = set()
    shares = ("share of rows",) if measured and measured[0]["expected_l1_share"] is not None else ()
    print_table(
        title,
        ("columns", "cells", "noise", "sd per cell (rows)", "expected L1 noise (rows)", *shares),
        [
            (
                _named(item, seen, levels),
                f"{item['cells']:,}",
                item["noise"],
                f"{item['standard_deviation']:.3g}",
                f"{item['expected_l1']:,.0f}",
                *([f"{item['expected_l1_share']:.2%}"] if shares else []),
            )
            for item in measured
        ],
    )


def _named(item: dict[str, Any], seen: set[str], levels: Collection[str]) -> str:
    """Return what is measured in words, and remember which columns with levels were seen.

    Examples
    --------
    >>> seen: set[str] = set()
    >>> [_named({"columns": names}, seen, {"diag"}) for names in (["diag"], ["diag"], ["age"], [])]
    ['diag (values, to choose groups)', 'diag (groups)', 'age', 'number of rows']
    """
    name = " x ".join(item["columns"]) or "number of rows"
    if item["columns"] not in [[column] for column in levels]:
        return name
    first = name not in seen
    seen.add(name)
    return f"{name} ({'values, to choose groups' if first else 'groups'})"


def _plan_register(
    register: Register, folder: Path, *, unit: Unit, budget: Budget, json: bool, **asked: Any
) -> None:
    """Say what a fit of several tables of events would measure of each, with its share of the budget."""
    from understudy.cli.output import print_json, tell
    from understudy.schema.spreadsheets import formula_warnings
    from understudy.workflow.events import WHY_FOR_EVENTS, describe_linked, plan_register

    planned = plan_register(register, folder, unit=unit, budget=budget, **asked)
    tables = {}
    parts = zip(
        register.events,
        planned.schemas,
        planned.records,
        planned.fits,
        planned.plans,
        register.numbers,
        strict=True,
    )
    for name, schema, records, fit, plan, beside in parts:
        entity = schema.entity
        assert entity is not None
        known = (
            f" Entities are known with their numbers of rows of {', '.join(map(repr, beside))}."
            if beside
            else ""
        )
        tables[name] = {
            "budget": planned.share.describe(),
            "accounting": plan.accounting,
            "model_cells": plan.model_cells,
            "model_megabytes": round(plan.model_cells * 8 / 1e6, 3),
            "measurements": _measured(plan),
            "notes": [
                describe_linked(entity) + known,
                *filter(None, [fit.accounting_note(planned.share, records, unit)]),
                *plan.notes,
            ],
        }
    notes = [
        *([WHY_FOR_EVENTS] if asked["method"] == "auto" else []),
        f"The budget is divided equally between {len(tables)} tables of events, and {unit.max_rows} records of each entity count in each.",
        *formula_warnings(planned.whole),
    ]
    facts = {
        "method": planned.fits[0].name,
        "guarantee": f"{budget.describe()} for {unit.describe()}",
        "tables": tables,
        "notes": notes,
    }
    if json:
        print_json(facts)
        return
    tell(f"{facts['method']}: {facts['guarantee']}")
    for name, item in tables.items():
        _print_measured(f"Measurements of {name} ({item['budget']})", item["measurements"])
        tell(f"Model of {name}: {item['model_cells']:,} cells ({item['model_megabytes']} MB).")
        for note in item["notes"]:
            tell(f"Note: {note}")
    for note in notes:
        tell(f"Note: {note}")


def _tell_advice(advice: Advice) -> None:
    """Print what to expect, with a bar for each kind of marginal."""
    from understudy.cli.output import tell
    from understudy.workflow.rehearsing import KINDS

    errors = advice.errors
    assert errors is not None
    noun = "table" if errors.tables == 1 else "tables"
    tell(f"Rehearsed on {errors.tables} made-up {noun} of this schema with {advice.rows:,} rows:")
    shown = [
        (kind, found.middle, likely[1])
        for kind in KINDS
        if (found := errors.of(kind)) is not None and (likely := errors.likely(kind)) is not None
    ]
    largest = max(high for _, _, high in shown)
    for kind, middle, high in shown:
        tell(f"  {kind:<8} {_bar(middle, high, largest)} {100 * middle:.2g} %")
    for sentence in advice.sentences():
        tell(sentence)


def _bar(middle: float, high: float, largest: float, width: int = 40) -> str:
    """Draw an error as a bar, and how far it may go as dots.

    Examples
    --------
    >>> _bar(0.2, 0.4, 0.4, width=8)
    '####....'
    """
    drawn, dots = (max(1, round(width * value / largest)) for value in (middle, high))
    return ("#" * drawn + "." * (dots - drawn)).ljust(width)


def _not_public(schema: Schema) -> list[str]:
    """Say that a draft can be planned with, but not fitted."""
    number = len(schema.facts_from_data())
    if not number:
        return []
    return [
        f"{number} facts of the schema were read from the data: fitting refuses it until they are declared public "
        "(understudy schema declare), and this plan is as private as the draft."
    ]


def _require_no_table(path: Path) -> None:
    """Refuse a table where a specification belongs."""
    from understudy.data.files.stream import CSV_SUFFIXES, PARQUET_SUFFIXES, SPREADSHEETS
    from understudy.data.files.survey import SURVEY_SUFFIXES

    if path.name.lower().endswith((*CSV_SUFFIXES, *PARQUET_SUFFIXES, *SPREADSHEETS, *SURVEY_SUFFIXES)):
        raise UsageError(
            f"{path.name!r} is a table; plan reads no table: give its schema (--schema), with --unit and a budget. "
            "`understudy schema draft` drafts one."
        )


def _plan_release(path: Path, *, rows: int | None, json: bool) -> None:
    from understudy.cli.output import print_json
    from understudy.release.run.planning import plan_release
    from understudy.release.spec.spec import Spec

    try:
        spec = Spec.read(path)
    except SchemaError:
        if is_schema(path):
            raise UsageError(
                f"{str(path)!r} is a schema, not a specification of a release. To plan one fit give it as --schema, with "
                "--method, --unit and a budget."
            ) from None
        raise
    simulated, example = spec.source.simulated, None
    if simulated is not None and spec.form == "published":
        from understudy import datasets

        example = datasets.load(simulated.table, simulated.rows, simulated.seed)[0]
    planned = plan_release(spec, rows=rows, example=example)
    if json:
        print_json(planned.to_dict())
        return
    _tell_release(planned, spec)


def is_schema(path: Path) -> bool:
    """Say whether a file is a schema."""
    from understudy.schema import Schema

    try:
        return bool(Schema.read(path).columns)
    except UnderstudyError:
        return False


def _tell_release(planned: ReleasePlan, spec: Spec) -> None:
    from understudy.cli.output import print_table, tell

    tell(f"Release {planned.name!r}: {planned.guarantee} ({planned.adding_up})")
    tell(f"Budget: {planned.budget}")
    tell(f"Selection: {planned.selection} ({planned.argument})")
    if planned.condition:
        tell(f"Condition: {planned.condition}")
    size = f"{planned.rows or 0:,} rows"
    if spec.counted == "entities":
        size = f"{(planned.rows or 0) // spec.unit.max_rows:,} entities, which give {planned.rows or 0:,} event records"
    tell(planned.row_count + (f" Planned for {size}." if planned.rows else ""))
    tell(planned.acceptance)
    print_table(
        "Acceptance criteria",
        (
            "criterion",
            "metric",
            "threshold",
            "noise sd",
            "false accept",
            "false reject",
            "needs, or accepts below",
        ),
        [_criterion_row(item) for item in planned.criteria],
    )
    print_table(
        "Models",
        ("configuration", "marginals", "cells", "sd per cell (rows)", "expected L1 noise", "model MB"),
        [
            (
                item.name,
                item.marginals,
                f"{item.cells:,}",
                ""
                if item.smallest_deviation is None
                else f"{item.smallest_deviation:.3g} to {item.largest_deviation:.3g}",
                "" if item.expected_error is None else f"{item.expected_error:.2%} of the rows",
                f"{item.model_megabytes:.3g}",
            )
            for item in planned.models
        ],
    )
    noun = "configuration" if planned.configurations == 1 else "configurations"
    tell(f"{planned.configurations} {noun}, {len(planned.left_out)} left out.")
    for name, reason in planned.left_out[:10]:
        tell(f"Left out: {name}: {reason}")
    if not planned.single:
        for probability, expected, success in planned.attempts:
            tell(
                f"If an attempt is accepted with probability {probability:g}: {expected:.3g} attempts to expect, "
                f"success with probability {success:.3g}."
            )
    if planned.memory_megabytes is not None:
        tell(
            f"About {planned.memory_megabytes:,.0f} MB of memory and {planned.seconds_per_attempt:g} s per attempt."
        )
    for note in dict.fromkeys(note for model in planned.models for note in model.notes):
        tell(f"Note: {note}")
    for warning in planned.warnings:
        tell(f"Warning: {warning}")


def _criterion_row(item: CriterionPlan) -> tuple[str, ...]:
    def shown(value: float | None) -> str:
        return "" if value is None else f"{value:.3g}"

    below = "" if item.accepted_below is None else f"errors below {item.accepted_below:.3g}"
    unit = "" if item.noise_deviation is None else " records" if item.form == "pass-only" else ""
    return (
        item.name,
        item.metric,
        f"{item.threshold:g} {item.unit}".strip(),
        f"{shown(item.noise_deviation)}{unit}" if item.form != "public" else "public",
        shown(item.false_accept),
        shown(item.false_reject),
        "; ".join(part for part in (item.needs, below) if part),
    )
