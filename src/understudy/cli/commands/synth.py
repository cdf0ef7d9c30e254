"""``understudy synth``: one table, one fit, one ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import (
    AcceptFacts,
    AcceptInvariant,
    AnotherLedger,
    By,
    ChunkRows,
    ColumnNames,
    Delta,
    DiscoverShare,
    Encoding,
    Epsilon,
    Flat,
    Header,
    HoldOutFile,
    IdColumn,
    Immutable,
    Jobs,
    Json,
    MaxRowsOrAuto,
    MethodName,
    Mu,
    NumbersOnly,
    OptionalSchema,
    OptionWords,
    OutName,
    PartitionBy,
    Population,
    PriorPath,
    Quiet,
    Rho,
    Rows,
    RowsLost,
    Seed,
    Separator,
    TableInDatabase,
    TableName,
    Target,
    TimeLimit,
    Unfinished,
    UnitName,
    Verbose,
    WorkloadText,
    Yes,
    columns_of,
    key_of,
    parse_budget,
    parse_consent,
    parse_header,
    parse_method,
    parse_options,
    parse_share,
    parse_source,
    parse_unit_with_look,
    summary,
)
from understudy.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from understudy.discovery import Discovery, Found
    from understudy.mechanisms import Synthesizer
    from understudy.mechanisms.rules import RulesEffect
    from understudy.schema import Column, Schema
    from understudy.workflow import Delivery, Synthesis

_COMBINING = {
    "independent": "Combine analyses of the sets with the rule 'partial' (W + B/m).",
    "posterior": "Combine analyses of the sets with the rule 'full' ((1 + 1/m) B - W).",
    "resampled": "No rule gives valid intervals from these sets: all of them repeat the same noise.",
}
"""Which rule is valid for sets, by how they were made."""


def synth(
    table: Annotated[
        str,
        typer.Argument(
            help="Private table: CSV (also .gz), Parquet file or folder, or the address of a database "
            "(postgresql://..., a .duckdb file, a Spark master) with --table. Or a schema file (.yaml) of linked tables that names their files."
        ),
    ],
    unit: UnitName,
    out: OutName,
    method: MethodName = "auto",
    schema: OptionalSchema = None,
    discover: DiscoverShare = None,
    numbers_only: NumbersOnly = False,
    schema_out: Annotated[
        Path | None,
        typer.Option(
            help="With --discover: the file for the schema that was measured. Default: beside the output, as in synthetic.schema.yaml."
        ),
    ] = None,
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
    option: OptionWords = None,
    time_limit: TimeLimit = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger of the table; made with this budget as its total if absent. "
            "Default: TABLE.ledger beside the table, or in your own folder for databases and read-only places."
        ),
    ] = None,
    another_ledger: AnotherLedger = False,
    table_name: TableName = None,
    rows: Rows = None,
    population: Population = False,
    model: Annotated[
        Path | None,
        typer.Option(
            help="File for the fitted model, from which further rows cost nothing. Default: beside the output, as in synthetic.understudy. "
            "Of several tables of events a folder for their models, if one is named."
        ),
    ] = None,
    no_model: Annotated[
        bool,
        typer.Option(
            "--no-model",
            help="Do not keep the model: more rows, intervals and evaluations of it then need another budget.",
        ),
    ] = False,
    seed: Seed = None,
    sets: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Write this many sets under the one budget, OUT-1 and so on, for analyses that are combined.",
        ),
    ] = None,
    how: Annotated[
        str,
        typer.Option(
            help="How sets are made: posterior (one release, parameters redrawn), independent (a share of the "
            "budget each) or resampled (no valid intervals)."
        ),
    ] = "posterior",
    chunk_rows: ChunkRows = None,
    partition_by: PartitionBy = None,
    jobs: Jobs = 1,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Private folder (permissions 700) for EXACT counts so far of a table larger than memory, so that "
            "counting goes on after an interruption. As sensitive as the table; emptied when done."
        ),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            help="Share of the rows (of the people, with a person unit) that the fit does not read, such as 0.2: "
            "evaluate --hold-out-file tests on them what is learnt from the synthetic table."
        ),
    ] = None,
    hold_out_file: HoldOutFile = None,
    unfinished: Unfinished = "refuse",
    in_database: TableInDatabase = None,
    immutable: Immutable = False,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    names: ColumnNames = None,
    accept_facts: AcceptFacts = False,
    accept_invariant: AcceptInvariant = False,
    by: By = None,
    yes: Yes = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit one private model to a table and write synthetic rows.

    Everything that can be checked without the records is checked first. The ledger is charged before
    each draw of noise, and every answer is kept until the output is written: after an interruption the same command goes on
    and pays for nothing twice. A second run after the output was written spends again, or is refused. A ledger remembers
    the facts (schema, unit, reading) it was opened for; other ones need the owner's consent.
    """
    from understudy.cli.output import go_on, print_json, progress_bar, say
    from understudy.schema import Schema
    from understudy.workflow import Delivery, Fit, Payment, described_by, plan_synthesis, reason_for
    from understudy.workflow.delivery import beside
    from understudy.workflow.events import (
        entity_of,
        file_endings,
        linked_source,
        refuse_for_register,
        register_source,
        synthesize_register,
    )
    from understudy.workflow.hold_out import describe_hold_out
    from understudy.workflow.public_data import require_apart

    require_apart(prior, table)
    if no_model and model is not None:
        raise UsageError(
            "--model says where to keep the model, and --no-model not to keep it: leave one of them out."
        )
    budget = parse_budget(epsilon, delta, rho, mu)
    several = register_source(table, schema)
    if several is not None:
        refuse_for_register(
            flat=flat, discover=discover is not None, population=population, prior=prior is not None,
            rows_lost=rows_lost, sets=sets is not None, checkpoint=checkpoint is not None, chunk_rows=chunk_rows is not None,
            partition_by=partition_by is not None, table=in_database is not None, immutable=immutable, schema_out=schema_out is not None,
            header=header is not None, names=names is not None,
        )  # fmt: skip
        key = several[1].pairs[0].plain["entity"]["id"]
        privacy_unit, _ = parse_unit_with_look(
            unit, id_column or key, max_rows_per_person, flat=False, rows_lost=False
        )
        with progress_bar("register", quiet=quiet or json) as progress:
            made = synthesize_register(
                *several,
                hold_out=hold_out,
                hold_out_file=hold_out_file,
                unit=privacy_unit,
                budget=budget,
                method=method,
                options=parse_options(option),
                workload=workload,
                target=target,
                time_limit=time_limit,
                payment=Payment(
                    ledger=ledger,
                    table_name=table_name,
                    another=another_ledger,
                    consent=parse_consent(accept_facts, accept_invariant, by),
                    unfinished=unfinished,
                ),
                out=out,
                model=model,
                rows=rows,
                seed=seed,
                separator=separator,
                encoding=encoding,
                progress=progress,
            )
        if made.hold_out is not None:
            say(describe_hold_out(made.hold_out, made.hold_out_file))
        delivered = Delivery(out=out, model=model, rows=rows, seed=seed)
        if json:
            print_json(_document(made, delivered))
        else:
            _report(made, delivered, quiet=quiet)
        return
    given = None if schema is None else Schema.read(schema)
    linked = linked_source(table, given)
    if linked is not None:
        given = linked[1]
    if given is not None:
        id_column = id_column or key_of(given, max_rows_per_person)
    privacy_unit, cut = parse_unit_with_look(
        unit, id_column, max_rows_per_person, flat=flat, rows_lost=rows_lost
    )
    if given is not None:
        given.require_public()
    if schema_out is not None and discover is None:
        raise UsageError("--schema-out goes with --discover.")
    if numbers_only and discover is None:
        raise UsageError("--numbers-only goes with --discover.")
    if discover is not None and schema_out is None:
        schema_out = beside(out, ".schema.yaml")
    if model is None and not no_model:
        model = beside(out, ".understudy")
    consent = parse_consent(accept_facts, accept_invariant, by)
    source = parse_source(table, in_database, immutable)[0] if linked is None else linked[0]
    if isinstance(source, Path) and not source.exists():  # before a method is chosen for it
        raise DataError(f"There is no file {source.name!r}. Check the path.")
    columns = parse_header(header, names)

    entity = entity_of(given, privacy_unit, flat=flat)
    planned_with = privacy_unit if cut is None else cut.planned_unit(privacy_unit)
    asked: dict[str, Any] = {
        "target": target,
        "unit": planned_with,
        "budget": budget,
        "entity": entity,
        "prior": prior,
    }

    def mechanism(described: Schema) -> Synthesizer:
        return parse_method(method, described, workload, option, time_limit=time_limit, **asked)

    described, steps = described_by(
        source,
        given,
        None if discover is None else parse_share(discover),
        unit=privacy_unit,
        separator=separator,
        encoding=encoding,
        names=columns,
        header=header is True,
        **({} if discover is None else {"numbers_only": numbers_only}),
    )
    synthesizer = mechanism(described)
    delivery = Delivery(
        out=out,
        model=model,
        rows=rows,
        seed=seed,
        population=population,
        sets=sets,
        how=how,
        chunk_rows=chunk_rows,
        partition_by=columns_of(partition_by),
        jobs=jobs,
        endings=file_endings(source),
        schema=schema_out,
    )
    fit = Fit(
        table=source,
        schema=described,
        synthesizer=synthesizer,
        unit=privacy_unit,
        budget=budget,
        separator=separator,
        encoding=encoding,
        names=columns,
        checkpoint=checkpoint,
        files={"table": Path(table), **({} if schema is None else {"schema": schema})},
        hold_out=hold_out,
        hold_out_file=hold_out_file,
        steps=steps,
        rebuild=mechanism,
        reason=reason_for(method, workload=workload, **asked),
        entity=entity,
        cut=cut,
    )
    payment = Payment(
        ledger=ledger, table_name=table_name, another=another_ledger, consent=consent, unfinished=unfinished
    )
    planned = plan_synthesis(fit, payment=payment, delivery=delivery)
    why = [] if quiet else [planned.why]
    for note in (*filter(None, why), *planned.notes, *(planned.steps.details if verbose else ())):
        say(note)
    if steps and not json:
        go_on(yes=yes)
    shown = method if steps else synthesizer.name  # with discovery it is chosen later
    with progress_bar(shown, quiet=quiet or json) as progress:
        made = planned.run(progress=progress)
    if json:
        print_json(_document(made, delivery))
    else:
        _report(made, delivery, quiet=quiet)


def discovered(found: Discovery) -> dict[str, Any]:
    """Return what was discovered as plain values."""
    return {
        "columns": list(found.schema.names),
        "left_out": dict(found.left_out),
        "rows": found.rows,
        "rows_wanted": found.rows_wanted,
        "unordered_dates": list(found.unordered_dates),
        "found": {
            name: {
                "missing": item.missing,
                "every_other_entry": item.others,
                "remarks": list(item.remarks),
            }
            for name, item in found.found.items()
        },
    }


def tell_discovered(found: Discovery) -> None:
    """Say which columns were discovered, and which were left out and why."""
    from understudy.cli.output import print_table, tell

    measured = [column for column in found.schema.columns if column.measured_facts]
    many = f"Discovered {len(measured)} {'column' if len(measured) == 1 else 'columns'}"
    print_table(
        many,
        ("column", "kind", "found", "missing", "every other entry"),
        (_found(column, found.found.get(column.name)) for column in measured),
    )
    for name, item in found.found.items():
        for remark in item.remarks:
            tell(f"{name!r}: {remark}.")
    for name, why in found.left_out.items():
        tell(f"Left out {name!r}: {why}.")
    if found.is_small:
        tell(
            f"The table has about {found.rows:,} rows, by the same counts; discovery with this share and this many columns is for about {found.rows_wanted:,} or more. Much of the table is hidden, and "
            "synthetic rows may be several times as far from it as with a declared schema. Before the next release: declare what is public knowledge (--schema), or allow a larger share or budget "
            "(docs/how-to/discover.md)."
        )
    if free := found.unordered_dates:
        tell(
            f"Nothing ensures the order of dates ({', '.join(map(repr, free))}): discovery learns columns, not relations between them, so synthetic rows may "
            "end before they begin. If one never comes before another, declare both in a schema, with decode_by: uniform and a rule such as "
            "'departure >= arrival', and give it with --schema before the next fit: docs/how-to/discover.md and docs/how-to/rules.md."
        )


def _found(column: Column, about: Found | None) -> tuple[str, str, str, str, str]:
    """Say what was found about a column, how much is missing, and what becomes of entries that are not of it."""
    plain = column.to_dict()
    values, bins = plain.get("values"), plain.get("bins")
    if values is not None:
        few = ", ".join(map(str, values[:4]))
        words = f"{len(values):,} values: {few}" + ("" if len(values) <= 4 else ", ...")
    elif bins is not None:
        edges = bins["edges"] if isinstance(bins, dict) else bins
        open_at = bins.get("open", "none") if isinstance(bins, dict) else "none"
        low = "less than " if open_at in ("low", "both") else ""
        words = f"{low}{edges[0]} to {edges[-1]}{' and more' if open_at in ('high', 'both') else ''}, {len(edges) - 1} bins"
    elif "minimum" in plain:
        words = f"{plain['minimum']} to {plain['maximum']}"
    else:
        words = "truth words"
    if about is None:  # measured before, and given with a schema
        rest = {"to-missing": "missing", "to-other": "other", "to-nearest": "nearest"}
        return column.name, column.kind, words, "", rest.get(column.out_of_domain, column.out_of_domain)
    return column.name, column.kind, words, about.missing, about.others


def _document(made: Synthesis, delivery: Delivery) -> dict[str, Any]:
    """Return the result as plain values."""
    done, sets = made.parts, delivery.sets
    moved = _moved_by_rules(made, delivery)
    return {
        "method": made.model.provenance.method,
        **({"chosen": made.why} if made.why else {}),
        "guarantee": made.guarantee,
        "condition": made.model.provenance.condition,
        "rows": made.rows,
        **({} if made.persons is None else {"persons": made.persons}),
        **({} if made.rows_per_person is None else {"rows_per_person": made.rows_per_person.to_dict()}),
        **(
            {} if made.tables is None else {"tables": {name: len(item) for name, item in made.tables.items()}}
        ),
        "out": str(Path(delivery.out or "")),
        **(
            {}
            if done is None
            else {"files": done.files, "seed": done.seed, "distance_from_model": done.error}
        ),
        **({} if sets is None else {"sets": list(map(str, made.written)), "how": delivery.how}),
        "model": None if delivery.model is None else str(delivery.model),
        **({} if moved is None else {"rules": moved.to_dict()}),
        **({} if made.discovery is None else {"discovered": discovered(made.discovery)}),
        **({} if delivery.schema is None else {"schema": str(delivery.schema)}),
        **({} if made.hold_out_file is None else {"hold_out_file": str(made.hold_out_file)}),
        "ledger": str(made.ledger),
        "repeated_answers": made.repeated,
        "spent": summary(made.standing),
    }


def _named_values(unresolved: pd.DataFrame) -> str:
    """Name columns with their values that are not resolved, a few of each."""
    from understudy.schema.problems import listing

    by_column = unresolved.groupby("column", sort=False)["value"]
    named = [f"{name!r}: {listing([*map(str, values)], most=3)}" for name, values in by_column]
    return "; ".join(named[:4]) + (f"; and {len(named) - 4:,} columns more" if len(named) > 4 else "")


def _moved_by_rules(made: Synthesis, delivery: Delivery) -> RulesEffect | None:
    """Return what rules did to the rows, where they are one table drawn from the model as it is."""
    if made.frame is None or delivery.population:
        return None
    return made.model.effect_of_rules(made.frame)


def _report(made: Synthesis, delivery: Delivery, *, quiet: bool) -> None:
    """Say what was made and what it cost."""
    from understudy.cli.output import how_close, say, tell

    if made.repeated:
        say(
            f"Went on with an interrupted fit: {made.repeated} answers that were paid for were repeated at no cost."
        )
    if made.discovery is not None:
        tell_discovered(made.discovery)
        if made.why and not quiet:
            tell(made.why)
    names = dict.fromkeys(str(path) for path in (made.written[0], made.written[-1]))
    people = "" if made.persons is None else f" of {made.persons:,} persons"
    if made.tables is None:
        tell(f"Wrote {made.rows:,} synthetic rows{people} to {' and '.join(names)}.")
    else:
        rows = " and ".join(f"{len(item):,} rows of {name!r}" for name, item in made.tables.items())
        tell(f"Wrote {rows} to {' and '.join(names)}.")
    if made.rows_per_person is not None:
        tell(made.rows_per_person.describe())
    if made.parts is not None:
        tell(how_close(made.parts))
    if (moved := _moved_by_rules(made, delivery)) is not None:
        tell(moved.describe())
    if made.many is not None:
        tell(f"{delivery.sets} sets, made by {delivery.how}. {_COMBINING[made.many.kind]}")
    unresolved = made.model.unresolved(numbers=False)
    if made.model.events is not None:  # of records, so many to a person
        unresolved = unresolved[unresolved["column"].isin(made.model.table_schema.names)]
        unresolved = unresolved.assign(at_most=unresolved["at_most"] / made.model.provenance.unit.max_rows)
    if len(unresolved):
        tell(
            f"Values that are not resolved: {len(unresolved):,} ({_named_values(unresolved)}). At this budget they "
            f"cannot be told from values with no rows at all (at most {unresolved['at_most'].max():,.0f}, with 95 % "
            "confidence each). Read nothing into how often they occur in the synthetic table."
        )
    if delivery.schema is not None:
        tell(
            f"Wrote the schema that was measured to {delivery.schema}: `understudy evaluate` takes it (--schema)."
        )
    if delivery.model is not None:
        tell(
            f"Wrote the model to {delivery.model}: `understudy sample` draws further rows from it at no cost."
        )
    tell(f"Guarantee: {made.guarantee}")
    if made.new_ledger:
        tell(f"Made the ledger {made.ledger}, with this budget as the total for the table.")
    tell(f"Ledger {made.ledger}:\n{made.standing.describe()}")
