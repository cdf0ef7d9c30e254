"""``understudy plan``: what a release or a single fit would do, before any record is read or any budget spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import (
    Delta,
    Epsilon,
    Flat,
    IdColumn,
    Json,
    MaxRows,
    Mu,
    OptionalUnit,
    OptionWords,
    Rho,
    WorkloadText,
    parse_budget,
    parse_method,
    parse_unit,
)
from understudy.errors import SchemaError, UnderstudyError, UsageError

if TYPE_CHECKING:
    from understudy.release.run.planning import CriterionPlan, ReleasePlan
    from understudy.schema import Schema


def plan(
    spec: Annotated[
        Path | None, typer.Argument(help="Specification of a release; or describe one fit by options.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", "-s", help="Schema of the table (YAML or JSON).")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="Synthesizer; see `understudy methods`.")
    ] = None,
    unit: OptionalUnit = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    id_column: IdColumn = None,
    max_rows_per_person: MaxRows = None,
    flat: Flat = False,
    workload: WorkloadText = None,
    option: OptionWords = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="A public guess of the number of rows, to express errors as shares."),
    ] = None,
    json: Json = False,
) -> None:
    """Show noise, budget and expected errors before anything is read.

    Takes a specification, or one fit described by --schema, --method, --unit and a budget. Public facts alone are used.
    """
    if spec is not None:
        if schema is not None or method is not None:
            raise UsageError(
                "Give a specification, or --schema and --method, not both. (A schema goes behind --schema.)"
            )
        _plan_release(spec, rows=rows, json=json)
        return
    if schema is None or method is None or unit is None:
        raise UsageError("Give a specification, or --schema, --method and --unit.")
    from understudy.cli.output import print_json, print_table, tell
    from understudy.privacy.guarantee import condition_of, rows_rule
    from understudy.privacy.ledger.ledger import Invariant
    from understudy.schema import Schema
    from understudy.schema.spreadsheets import formula_warnings
    from understudy.workflow.events import check_two_levels, entity_of, records_of

    budget = parse_budget(epsilon, delta, rho, mu)
    privacy_unit = parse_unit(unit, id_column, max_rows_per_person)
    described = Schema.read(schema)
    entity = entity_of(described, privacy_unit, flat=flat)
    synthesizer = parse_method(method, described, workload, option, entity)
    synthesizer.require(budget)
    records = records_of(described, entity)
    planned = synthesizer.plan(records, unit=privacy_unit, budget=budget)
    n_rows = rows if rows is not None else described.row_count
    n_rows = n_rows if entity is None else None  # noise is on records, so many to a person
    measured: list[dict[str, Any]] = [
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
    facts_known = (budget, records, privacy_unit)
    said = (synthesizer.accounting_note(*facts_known), synthesizer.delta_note(*facts_known))
    notes = [
        *([privacy_unit.describe_cut()] if entity is None and privacy_unit.id_column is not None else []),
        *(() if entity is None else check_two_levels(None, described, entity)),
        *(note for note in said if note),
        *planned.notes,
        *_not_public(described),
        *formula_warnings(described),
    ]
    known = [Invariant("number of rows", rows_rule(privacy_unit), described.row_count, "", 0)]
    public = described.row_count is not None or privacy_unit.keeps_rows
    condition = condition_of(privacy_unit, known if public else ()).text
    facts = {
        "method": planned.method,
        "guarantee": f"{budget.describe()} for {privacy_unit.describe()}",
        "condition": condition,
        "accounting": planned.accounting,
        "model_cells": planned.model_cells,
        "model_megabytes": round(planned.model_cells * 8 / 1e6, 3),
        "notes": notes,
    }
    if json:
        print_json(facts | {"measurements": measured})
        return
    tell(f"{planned.method}: {facts['guarantee']} ({planned.accounting} accounting)")
    if condition:
        tell(f"Condition: {condition}")
    shares = ("share of rows",) if n_rows else ()
    print_table(
        "Measurements",
        ("columns", "cells", "noise", "sd per cell (rows)", "expected L1 noise (rows)", *shares),
        [
            (
                " x ".join(item["columns"]) or "number of rows",
                f"{item['cells']:,}",
                item["noise"],
                f"{item['standard_deviation']:.3g}",
                f"{item['expected_l1']:,.0f}",
                *([f"{item['expected_l1_share']:.2%}"] if shares else []),
            )
            for item in measured
        ],
    )
    if not n_rows and entity is None:
        tell("With --rows (a public guess) the noise is also shown as a share of the table.")
    tell(f"Model: {planned.model_cells:,} cells ({facts['model_megabytes']} MB).")
    for note in notes:
        tell(f"Note: {note}")


def _not_public(schema: Schema) -> list[str]:
    """Say that a draft can be planned with, but not fitted."""
    number = len(schema.facts_from_data())
    if not number:
        return []
    return [
        f"{number} facts of the schema were read from the data: fitting refuses it until they are declared public "
        "(understudy schema declare), and this plan is as private as the draft."
    ]


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
    _tell_release(planned)


def is_schema(path: Path) -> bool:
    """Say whether a file is a schema."""
    from understudy.schema import Schema

    try:
        return bool(Schema.read(path).columns)
    except UnderstudyError:
        return False


def _tell_release(planned: ReleasePlan) -> None:
    from understudy.cli.output import print_table, tell

    tell(f"Release {planned.name!r}: {planned.guarantee} ({planned.accounting} accounting)")
    tell(f"Budget: {planned.budget}")
    tell(f"Selection: {planned.selection} ({planned.argument})")
    if planned.condition:
        tell(f"Condition: {planned.condition}")
    tell(planned.row_count + (f" Planned for {planned.rows:,} rows." if planned.rows else ""))
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
