"""``understudy discover``: learn a schema with a share of the budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import (
    AcceptFacts,
    AcceptInvariant,
    AnotherLedger,
    By,
    ColumnNames,
    Delta,
    Encoding,
    Epsilon,
    Header,
    IdColumn,
    Json,
    MaxRows,
    Mu,
    NumbersOnly,
    OptionalSchema,
    Quiet,
    Rho,
    SchemaOut,
    Separator,
    TableName,
    Unfinished,
    UnitName,
    Verbose,
    Yes,
    parse_budget,
    parse_consent,
    parse_header,
    parse_share,
    parse_unit,
    summary,
)


def discover(
    table: Annotated[
        Path,
        typer.Argument(help="Private table: CSV (also .gz), Parquet file or folder. Its header is public."),
    ],
    unit: UnitName,
    out: SchemaOut,
    share: Annotated[
        str,
        typer.Option(
            help="Share of the budget for discovery, such as 0.1, or auto:ROWS to choose it for about so many rows (public, or a guess); the rest is left on the ledger for a fit."
        ),
    ] = "0.1",
    schema: OptionalSchema = None,
    numbers_only: NumbersOnly = False,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    id_column: IdColumn = None,
    max_rows_per_person: MaxRows = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger of the table; made with this budget as its total if absent. Default: TABLE.ledger beside the table."
        ),
    ] = None,
    another_ledger: AnotherLedger = False,
    table_name: TableName = None,
    unfinished: Unfinished = "refuse",
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    names: ColumnNames = None,
    accept_facts: AcceptFacts = False,
    accept_invariant: AcceptInvariant = False,
    by: By = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Only say which names become public, and what would be asked with which noise."
        ),
    ] = False,
    yes: Yes = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn a schema with a share of the budget and write it.

    Column names are public; kinds, values and ranges are measured with noise and charged to the ledger, each look before its noise is drawn. After an
    interruption the same command goes on and pays for nothing twice. The facts of the schema have the origin "measured": synth takes them at
    once, on the same ledger, with what is left of the budget.
    """
    from understudy.cli.commands.synth import discovered, tell_discovered
    from understudy.cli.output import go_on, print_json, progress_bar, say, tell
    from understudy.schema import Schema
    from understudy.workflow import Payment, plan_discover

    planned = plan_discover(
        table,
        unit=parse_unit(unit, id_column, max_rows_per_person),
        budget=parse_budget(epsilon, delta, rho, mu),
        share=parse_share(share),
        schema=None if schema is None else Schema.read(schema),
        payment=Payment(
            ledger=ledger,
            table_name=table_name,
            another=another_ledger,
            consent=parse_consent(accept_facts, accept_invariant, by),
            unfinished=unfinished,
        ),
        separator=separator,
        encoding=encoding,
        names=parse_header(header, names),
        header=header is True,
        numbers_only=numbers_only,
        out=out,
    )
    if plan:
        if json:
            print_json({"plan": [*planned.notes, *planned.details], "rest": planned.rest.to_dict()})
        else:
            for note in (*planned.notes, *planned.details):
                tell(note)
            tell(f"Left for a fit: {planned.rest.describe()}.")
        return
    for note in (*planned.notes, *(planned.details if verbose else ())):
        say(note)
    if not json:
        go_on(yes=yes)
    with progress_bar("discover", quiet=quiet or json) as progress:
        made = planned.run(progress=progress)
    if json:
        print_json(
            {
                "out": str(out),
                **discovered(made.discovery),
                "rest": made.rest.to_dict(),
                "ledger": str(made.ledger),
                "repeated_answers": made.repeated,
                "spent": summary(made.standing),
            }
        )
        return
    if made.repeated:
        say(
            f"Went on with an interrupted discovery: {made.repeated} answers that were paid for were repeated at no cost."
        )
    tell_discovered(made.discovery)
    tell(f"Wrote the schema to {out}.")
    if made.new_ledger:
        tell(f"Made the ledger {made.ledger}, with this budget as the total for the table.")
    tell(f"Ledger {made.ledger}:\n{made.standing.describe()}")
    words = " ".join(f"--{name} {value!r}" for name, value in made.rest.to_dict().items() if name != "kind")
    tell(
        f"Left for a fit: {made.rest.describe()}. For all of it: understudy synth {table} --schema {out} {words} ..."
    )
