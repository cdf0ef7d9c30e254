"""``understudy plan``: what a fit would do, before any record is read or any budget spent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from understudy.cli._options import (
    Delta,
    Epsilon,
    IdColumn,
    Json,
    MaxRows,
    MethodName,
    Mu,
    OptionWords,
    Rho,
    SchemaPath,
    UnitName,
    WorkloadText,
    parse_budget,
    parse_method,
    parse_unit,
)


def plan(
    schema: SchemaPath,
    method: MethodName,
    unit: UnitName,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    id_column: IdColumn = None,
    max_rows_per_person: MaxRows = None,
    workload: WorkloadText = None,
    option: OptionWords = None,
    rows: Annotated[
        int | None, typer.Option(help="A public guess of the number of rows, to express errors as shares.")
    ] = None,
    json: Json = False,
) -> None:
    """Show noise and expected error per measurement from public facts alone."""
    from understudy.cli._output import print_json, print_table, tell
    from understudy.schema import Schema

    budget = parse_budget(epsilon, delta, rho, mu)
    privacy_unit = parse_unit(unit, id_column, max_rows_per_person)
    described = Schema.read(schema)
    synthesizer = parse_method(method, described, workload, option)
    synthesizer.require(budget)
    planned = synthesizer.plan(described, unit=privacy_unit, budget=budget)
    n_rows = rows if rows is not None else described.row_count
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
    facts = {
        "method": planned.method,
        "guarantee": f"{budget.describe()} for {privacy_unit.describe()}",
        "accounting": planned.accounting,
        "model_cells": planned.model_cells,
        "model_megabytes": round(planned.model_cells * 8 / 1e6, 3),
        "notes": list(planned.notes),
    }
    if json:
        print_json(facts | {"measurements": measured})
        return
    tell(f"{planned.method}: {facts['guarantee']} ({planned.accounting} accounting)")
    print_table(
        "Measurements",
        ("columns", "cells", "noise", "sd per cell (rows)", "expected L1 noise (rows)", "share of rows"),
        [
            (
                " x ".join(item["columns"]) or "number of rows",
                f"{item['cells']:,}",
                item["noise"],
                f"{item['standard_deviation']:.3g}",
                f"{item['expected_l1']:.4g}",
                "" if item["expected_l1_share"] is None else f"{item['expected_l1_share']:.2%}",
            )
            for item in measured
        ],
    )
    tell(f"Model: {planned.model_cells:,} cells ({facts['model_megabytes']} MB).")
    for note in planned.notes:
        tell(f"Note: {note}")
