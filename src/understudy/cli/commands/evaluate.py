"""``understudy evaluate``: how good a synthetic table is, read plainly or under a budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    HoldOutFile,
    IdColumn,
    Json,
    MaxRows,
    Mu,
    OptionalSchema,
    OptionalUnit,
    Quiet,
    Rho,
    Separator,
    TableName,
    Target,
    parse_budget,
    parse_consent,
    parse_header,
    parse_names,
    parse_unit,
    summary,
)
from understudy.errors import UsageError

if TYPE_CHECKING:
    from understudy.evaluation import Evaluation
    from understudy.privacy import Budget, Unit
    from understudy.schema import Schema
    from understudy.workflow import Payment


def evaluate(
    real: Annotated[
        Path,
        typer.Argument(
            help="The real table: CSV (also .gz) or Parquet; or the schema file (.yaml) that names linked tables."
        ),
    ],
    synthetic: Annotated[
        Path, typer.Argument(help="The synthetic table; of linked tables the folder or the DuckDB file.")
    ],
    schema: OptionalSchema = None,
    target: Target = None,
    exclude: Annotated[
        str | None, typer.Option(help="Columns that must not help to predict the target, comma-separated.")
    ] = None,
    hold_out_file: HoldOutFile = None,
    hold_out_table: Annotated[
        Path | None,
        typer.Option(
            help="A table of real records that had no part in the synthesis, instead of --hold-out-file."
        ),
    ] = None,
    identifiers: Annotated[
        str | None, typer.Option(help="Columns an attacker knows, comma-separated.")
    ] = None,
    sensitive: Annotated[str | None, typer.Option(help="The column an attacker wants to know.")] = None,
    sections: Annotated[
        str | None, typer.Option(help="Sections to compute, comma-separated; default: all.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write all numbers to this JSON file.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page to look at (.html).")] = None,
    beside_bundle: Annotated[
        bool, typer.Option("--beside-bundle", help="Allow writing into the folder of a published bundle.")
    ] = False,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    unit: OptionalUnit = None,
    id_column: IdColumn = None,
    max_rows_per_person: MaxRows = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="With a budget: the ledger that pays. Default: that of the real table."),
    ] = None,
    another_ledger: AnotherLedger = False,
    table_name: TableName = None,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    names: ColumnNames = None,
    accept_facts: AcceptFacts = False,
    accept_invariant: AcceptInvariant = False,
    by: By = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare a synthetic table with the real one.

    Without a budget this reads the real records without noise: the result is as private as they are, says so,
    and is not written beside a published bundle. With --epsilon (or --rho, --mu) it computes the accounted
    measures through the ledger instead, which may be published.
    """
    from understudy.cli.output import progress_bar
    from understudy.data import is_database
    from understudy.data.holdout import HoldOut
    from understudy.data.output import require_apart, require_outside_bundles, require_writable
    from understudy.schema import Schema
    from understudy.schema.linked import read_register
    from understudy.workflow import Payment
    from understudy.workflow import evaluate as compare
    from understudy.workflow.assessment import evaluate_register

    if is_database(str(real)) or ":/" in str(real):
        raise UsageError(
            "An evaluation reads a file. Export the real table, or let the acceptance criteria of a release measure what "
            "matters where the table is."
        )
    for path, what in ((out, "numbers"), (report, "page")):
        if path is not None:
            require_writable(path, what=what)
    require_apart(
        {"numbers": out, "page": report},
        {
            "real table": real,
            "synthetic table": synthetic,
            "schema": schema,
            "held-out table": hold_out_table,
            "hold-out file": hold_out_file,
        }
        | {"ledger": ledger},
    )
    if schema is None and real.suffix.lower() not in (".yaml", ".yml", ".json"):
        raise UsageError("Give the schema of the two tables (--schema).")
    if schema is None and read_register(real) is not None:
        under_budget = any(value is not None for value in (epsilon, delta, rho, mu))
        if under_budget or hold_out_table is not None or header is not None or names is not None:
            raise UsageError(
                "Several tables of events are compared without a budget, for the custodian's own eyes, with headers, and with entities held out by the file of the fit: leave --epsilon, --delta, --rho, --mu, "
                "--hold-out-table, --header and --names out."
            )
        for path in (out, report):
            if path is not None and not beside_bundle:
                require_outside_bundles(path, ", or insist with --beside-bundle")
        with progress_bar("evaluate", quiet=quiet or json) as progress:
            each = evaluate_register(
                real,
                synthetic,
                target=target,
                exclude=parse_names(exclude, "--exclude") or (),
                identifiers=parse_names(identifiers, "--identifiers"),
                sensitive=sensitive,
                sections=parse_names(sections, "--sections"),
                separator=separator,
                encoding=encoding,
                hold_out=None if hold_out_file is None else HoldOut.read(hold_out_file),
                progress=progress,
            )
        _write_each(each, out=out, report=report, json=json)
        return
    described = Schema.read(schema or real)
    linked = described.entity is not None and described.entity.tables is not None
    written: dict[str, Any] = {
        "separator": separator,
        "encoding": encoding,
        "names": parse_header(header, names),
    }
    if any(value is not None for value in (epsilon, delta, rho, mu)):
        if linked:
            raise UsageError(
                "Linked tables are compared without a budget, for the custodian's own eyes; measures under one are of one table."
            )
        if unit is None:
            raise UsageError("An evaluation under a budget needs --unit: who is protected.")
        plain = {
            "--target": target,
            "--exclude": exclude,
            "--hold-out-table": hold_out_table,
            "--hold-out-file": hold_out_file,
            "--identifiers": identifiers,
        }
        plain |= {"--sensitive": sensitive, "--sections": sections}
        if given := [name for name, value in plain.items() if value is not None]:
            raise UsageError(
                f"{', '.join(given)} belong to the evaluation without a budget; the accounted measures are the errors of "
                "all 1-, 2- and 3-way marginals. Leave them out."
            )
        _accounted(
            real,
            synthetic,
            described,
            budget=parse_budget(epsilon, delta, rho, mu),
            unit=parse_unit(unit, id_column, max_rows_per_person),
            payment=Payment(
                ledger=ledger,
                table_name=table_name,
                another=another_ledger,
                consent=parse_consent(accept_facts, accept_invariant, by),
            ),
            written=written,
            out=out,
            report=report,
            json=json,
        )
        return
    if hold_out_table is not None and hold_out_file is not None:
        raise UsageError(
            "--hold-out-table names a table, --hold-out-file divides the real one: give one of them."
        )
    for path in (out, report):
        if path is not None and not beside_bundle:
            require_outside_bundles(path, ", or insist with --beside-bundle")
    with progress_bar("evaluate", quiet=quiet or json) as progress:
        found = compare(
            real,
            synthetic,
            schema=described,
            target=target,
            exclude=parse_names(exclude, "--exclude") or (),
            hold_out=hold_out_table if hold_out_file is None else HoldOut.read(hold_out_file),
            identifiers=parse_names(identifiers, "--identifiers"),
            sensitive=sensitive,
            sections=parse_names(sections, "--sections"),
            progress=progress,
            **written,
        )
    _write(found, described.name, out=out, report=report, json=json)


def _write_each(each: dict[str, Evaluation], *, out: Path | None, report: Path | None, json: bool) -> None:
    """Print and write what was found about each of several tables of events; pages get the name of the table."""
    from understudy.cli.output import print_json, tell
    from understudy.data import write_text

    documents = {"tables": {table: found.to_dict() for table, found in each.items()}}
    if out is not None:
        import json as writer

        write_text(out, writer.dumps(documents, indent=1, allow_nan=False))
    for table, found in each.items():
        page = None if report is None else report.with_name(f"{report.stem}-{table}{report.suffix}")
        if not json:
            tell(f"{table}:")
        _write(found, table, out=None, report=page, json=False, quiet=json)
    if json:
        print_json(documents)
    elif out is not None:
        tell(f"Wrote {out}.")


def _write(
    found: Evaluation, title: str, *, out: Path | None, report: Path | None, json: bool, quiet: bool = False
) -> None:
    """Print the headline numbers, unless they are printed elsewhere, and write what was asked for."""
    from understudy.cli.output import print_json, print_table, say, tell
    from understudy.data import write_text

    document = found.to_dict()
    if out is not None:
        import json as writer

        write_text(out, writer.dumps(document, indent=1, allow_nan=False))
    if report is not None:
        from understudy.report import evaluation_page

        write_text(report, evaluation_page(document, title=title or "evaluation"))
    if json:
        print_json(document)
    if json or quiet:
        return
    say(found.warning)
    for item in found.overview.worst:
        tell(f"{item.what}: {item.sentence}")
    if found.scores:
        print_table(
            "scores",
            ("section", "what", "score", "to compare", "good"),
            [
                (
                    score.section,
                    score.name,
                    f"{score.value:.4g}",
                    "" if score.reference is None else f"{score.reference:.4g} ({score.against})",
                    score.good,
                )
                for score in found.scores
            ],
        )
    learned = found.learning
    for leak in () if learned is None else learned.leaks:
        tell(
            f"{leak.column} (nearly) gives {learned.target if learned else ''} away: area under the curve {leak.alone:.4f} alone, and {leak.without:.4f} of all others "
            f"without it. Leave it out with --exclude {leak.column}."
        )
    if learned is not None and not learned.fair:
        tell(
            "Not a fair test of learning: the synthesis has seen the test rows. Set rows aside before the fit: understudy synth --hold-out 0.2."
        )
    for section in found.sections:
        rows = [
            (
                result.measure,
                f"{result.mean:.4g}",
                f"{result.worst[1]:.4g} ({result.worst[0]})",
                result.better,
            )
            for result in section.results
        ]
        if rows:
            print_table(section.title, ("measure", "average", "worst", "better is"), rows)
    for what in found.hidden:
        say(f"Hidden by the schema: {what}.")
    for reason in found.left_out:
        say(f"Not computed: {reason}")
    for path in (out, report):
        if path is not None:
            tell(f"Wrote {path}.")


def _accounted(
    real: Path,
    synthetic: Path,
    schema: Schema,
    *,
    budget: Budget,
    unit: Unit,
    payment: Payment,
    written: dict[str, Any],
    out: Path | None,
    report: Path | None,
    json: bool,
) -> None:
    """Measure under the budget and print what was released."""
    from understudy.cli.output import print_json, print_table, say, tell
    from understudy.data import write_text
    from understudy.workflow import measure_errors

    found = measure_errors(
        real, synthetic, schema=schema, unit=unit, budget=budget, payment=payment, notify=say, **written
    )
    promise = f"{budget.describe()}; neighbouring tables: {unit.describe()}."
    document = {
        "guarantee": f"{promise} {found.standing.condition.text}".rstrip(),
        "measures": [
            {"measure": item.measure, "value": item.value, "deviation": item.deviation}
            for item in found.errors
        ],
        "ledger": str(found.ledger),
        "spent": summary(found.standing),
    }
    if out is not None:
        import json as writer

        write_text(out, writer.dumps(document, indent=1, allow_nan=False))
    if report is not None:
        from understudy.report import accounted_page

        write_text(report, accounted_page(document, title=schema.name or "evaluation"))
    if json:
        print_json(document)
        return
    print_table(
        "released with noise",
        ("measure", "value", "standard deviation of the noise"),
        [(item.measure, f"{item.value:.5g}", f"{item.deviation:.2g}") for item in found.errors],
    )
    for path in (out, report):
        if path is not None:
            tell(f"Wrote {path}.")
    tell(f"Ledger {found.ledger}:\n{found.standing.describe()}")
