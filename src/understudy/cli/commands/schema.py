"""``understudy schema``: drafting, importing and checking what is public about a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import (
    ColumnNames,
    Encoding,
    Header,
    Immutable,
    Json,
    Quiet,
    SchemaOut,
    Separator,
    TableInDatabase,
    parse_header,
    parse_source,
)
from understudy.data.output import require_apart, require_writable
from understudy.errors import UsageError

if TYPE_CHECKING:
    from understudy.schema import Schema

RareArePublic = Annotated[
    bool,
    typer.Option(
        "--rare-are-public",
        help="Promise that the values which the draft marks as rare in the table (fewer than 10 rows) are public knowledge, too.",
    ),
]

app = typer.Typer(
    help="Draft, declare, import or check a schema.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("draft")
def draft(
    table: Annotated[
        str,
        typer.Argument(
            help="Table to look at: CSV (also .gz), Parquet file or folder, Stata, SPSS or SAS file, or the address of a database "
            "with --table."
        ),
    ],
    out: SchemaOut,
    declare_public: Annotated[
        bool,
        typer.Option(
            "--declare-public",
            help="Promise that every fact read from this table (its categories, bounds and missing values) is public "
            "knowledge or may be published as it is. Without it the facts are marked from-data and fitting refuses them.",
        ),
    ] = False,
    rare_are_public: RareArePublic = False,
    max_categories: Annotated[
        int,
        typer.Option(
            help="Most categories of a column; where there are more, the most frequent ones are kept, of codes as many more as cover nearly all entries."
        ),
    ] = 100,
    first_rows: Annotated[
        int | None, typer.Option(min=1, help="Look at about so many rows from the start of a large table.")
    ] = None,
    in_database: TableInDatabase = None,
    immutable: Immutable = False,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    names: ColumnNames = None,
    json: Json = False,
) -> None:
    """Draft a schema from a table. What it reads from the data is private until its owner says otherwise.

    So are the remarks and questions it prints: they hold exact shares and numbers of rows, for the owner of the records alone.
    """
    from understudy.cli.output import print_json, say, tell
    from understudy.data.drafting.draft import draft as draft_from
    from understudy.data.sources import read_described

    source, label = parse_source(table, in_database, immutable)
    require_writable(out, what="schema")
    require_apart({"schema": out}, {"table": Path(table)} if isinstance(source, Path) else {})
    found = read_described(
        source,
        separator=separator,
        encoding=encoding,
        names=parse_header(header, names),
        check_header=header is None,
        first_rows=first_rows,
    )
    made = draft_from(
        found.frame,
        name=label.split(".")[0],
        max_categories=max_categories,
        labels=found.labels,
        descriptions=found.descriptions,
    )
    if declare_public:
        _require_common(made.schema, consent=rare_are_public)
    drafted = made.schema.declare_public(rare_are_public=rare_are_public) if declare_public else made.schema
    drafted.write(out)
    if made.proposals and not declare_public and out.suffix.lower() != ".json":
        with out.open("a", encoding="utf-8") as file:
            file.write(_as_comments(made.proposals))
    if json:
        print_json(
            {"out": str(out), "columns": list(drafted.names), "left_out": dict(drafted.left_out)}
            | {"public": declare_public, "remarks": dict(made.remarks), "questions": list(made.questions)}
            | {"proposals": list(made.proposals)}
        )
        return
    tell(f"Wrote a draft of {len(drafted.names)} columns to {out}.")
    for column, reason in drafted.left_out:
        tell(f"Left out {column!r}: {reason}.")
    for column, remark in made.remarks:
        tell(f"Remark on {column!r}: {remark}")
    for question in made.questions:
        tell(f"Question: {question}")
    for rule in made.proposals:
        tell(f"Holds in every row: {rule}")
    if made.proposals and not declare_public and out.suffix.lower() != ".json":
        tell(
            f"What holds in every row stands at the end of {out} behind #: where it holds by definition, take the # away."
        )
    elif made.proposals:
        tell("Add what holds by definition to the schema.")
    if not declare_public:
        say(
            "Its facts were read from the data and are marked from-data. Read them, correct them, and declare them "
            f"public before fitting (understudy schema declare {out} --out schema.yaml); do not publish the draft "
            "before that."
        )


def _as_comments(proposals: Sequence[str]) -> str:
    """Return what holds in every row as keys of a schema file, each line behind a ``#`` that its owner may take away.

    Examples
    --------
    >>> print(_as_comments(["rules: end >= begin", "rules: week == week_of(begin)", "determines: {city: [country]}", "determines: {city: [zone]}"]), end="")
    <BLANKLINE>
    # What follows holds in every row of the table. Where it holds by definition, take the # away, of the line with the key as well.
    # rules:
    #   - 'end >= begin'
    #   - 'week == week_of(begin)'
    # determines:
    #   city: [country, zone]
    """
    rules, sources = [], dict[str, list[str]]()
    for proposal in proposals:
        key, _, text = proposal.partition(": ")
        if key == "rules":
            rules.append("#   - '{}'".format(text.replace("'", "''")))
        else:  # {source: [target]}
            source, _, target = text[1:-2].rpartition(": [")
            sources.setdefault(source, []).append(target)
    follow = [f"#   {source}: [{', '.join(targets)}]" for source, targets in sources.items()]
    lines = [*(["# rules:"] if rules else []), *rules, *(["# determines:"] if follow else []), *follow]
    head = "\n# What follows holds in every row of the table. Where it holds by definition, take the # away, of the line with the key as well.\n"
    return head + "".join(f"{line}\n" for line in lines)


@app.command("declare")
def declare(
    schema: Annotated[Path, typer.Argument(help="Draft whose facts you have read and corrected.")],
    out: SchemaOut,
    rare_are_public: RareArePublic = False,
    json: Json = False,
) -> None:
    """Declare the facts of a draft public: your promise as its owner.

    Read each one first. A category, bound or bin that is only known from the records is private, and one
    record can change it; replace it by what is public knowledge.
    """
    from understudy.cli.output import print_json, tell
    from understudy.schema import Schema
    from understudy.schema.files.yaml import write_plain
    from understudy.schema.linked import parted, read_linked_file

    require_writable(out, what="schema")
    drafted = Schema.read(schema)
    _require_common(drafted, consent=rare_are_public)
    declared = drafted.declare_public(rare_are_public=rare_are_public)
    linked = read_linked_file(schema)
    if linked is None:
        declared.write(out)
    else:  # a section for each table, and where it is
        write_plain(parted(declared.to_dict(), _seen_from(linked.sources, schema.parent, out.parent)), out)
    if json:
        print_json({"out": str(out), "columns": list(declared.names), "public": True})
        return
    tell(f"Wrote a schema of {len(declared.names)} columns to {out}, every fact declared public.")


def _seen_from(sources: Mapping[str, Any], before: Path, now: Path) -> dict[str, Any]:
    """Return where linked tables are, as a file in another folder says it."""

    def moved(place: str) -> str:
        if Path(place).is_absolute() or before.resolve() == now.resolve():
            return place
        return os.path.relpath((before / place).resolve(), now.resolve())

    found: dict[str, Any] = {}
    for name, source in sources.items():
        if isinstance(source, str):
            found[name] = moved(source)
        else:
            url = source["url"]
            found[name] = {**source, "url": url if "://" in url else moved(url)}
    return found


def _require_common(drafted: Schema, *, consent: bool) -> None:
    """Refuse to declare values that hardly any record has, unless their owner says that they are public knowledge."""
    told = drafted.told_of_rare()
    if told and not consent:
        raise UsageError(
            f"{told} Take out what is not public knowledge (out_of_domain: to-other keeps the rows), then declare the rest with --rare-are-public. Nothing was written."
        )


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help="Domain file or data dictionary: mbi JSON, dpsynth YAML, SDV metadata, Frictionless Table Schema, Croissant, DDI codebook."
        ),
    ],
    out: SchemaOut,
    facts: Annotated[
        Path | None,
        typer.Option(help="YAML or JSON file with facts the other file lacks: {column: {values: [...]}}."),
    ] = None,
    json: Json = False,
) -> None:
    """Turn another tool's domain file into a schema."""
    from understudy.cli.output import print_json, tell
    from understudy.schema import import_schema
    from understudy.schema.files.yaml import read_plain

    require_writable(out, what="schema")
    require_apart({"schema": out}, {"domain file": file, "file of facts": facts})
    imported = import_schema(file, facts=None if facts is None else read_plain(facts))
    imported.write(out)
    if json:
        print_json({"out": str(out), "columns": list(imported.names), "left_out": dict(imported.left_out)})
        return
    tell(f"Wrote a schema of {len(imported.names)} columns to {out}.")
    for column, reason in imported.left_out:
        tell(f"Left out {column!r}: {reason}.")


@app.command("check")
def check(
    schema: Annotated[Path, typer.Argument(help="Schema to check.")],
    table: Annotated[
        str | None,
        typer.Argument(help="Table to check against it: a file, or the address of a database with --table."),
    ] = None,
    in_database: TableInDatabase = None,
    immutable: Immutable = False,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    names: ColumnNames = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Check a schema, and whether a table fits it.

    No value of the table is ever shown. Whether a table fits, and whether it has the number of rows that the schema declares, are exact answers
    about the records: this command is for their owner.
    """
    from understudy.cli.output import large, print_json, print_table, progress_bar, tell
    from understudy.data import read_table
    from understudy.errors import DataError
    from understudy.schema import Schema
    from understudy.schema.spreadsheets import formula_warnings

    described = Schema.read(schema)
    if table is not None:
        source, _ = parse_source(table, in_database, immutable)
        with progress_bar("check", quiet=quiet or json) as progress:
            progress("reading", 0.0)
            found = read_table(
                source,
                described,
                separator=separator,
                encoding=encoding,
                names=parse_header(header, names),
                watch=progress,
            )
            if described.row_count is not None and found.exact_row_count() != described.row_count:
                raise DataError(
                    f"The schema declares row_count {described.row_count} public, but that is not how many rows the table has. "
                    "Correct the declaration, or leave it out: the number of rows is then private, and measured where it is needed."
                )
    rows = described.describe()
    private = described.facts_from_data()
    warnings = formula_warnings(described)
    if json:
        print_json(
            {
                "valid": True,
                "columns": rows,
                "cells": described.domain.cells(),
                "facts_from_data": list(private),
                "table_fits": None if table is None else True,
                "warnings": warnings,
                "remarks": described.remarks(),
            }
        )
        return
    headings = list(rows[0]) if rows else []
    print_table(f"Schema {schema}", headings, [list(row.values()) for row in rows])
    tell(f"{len(rows)} columns, {large(described.domain.cells())} cells in all.")
    for constraint in described.constraints:
        tell(f"{'Rule' if constraint in described.rules else 'Constraint'}: {constraint}")
    for warning in warnings:
        tell(f"Warning: {warning}")
    for remark in described.remarks():
        tell(f"Remark: {remark}")
    if private:
        tell(
            f"{len(private)} facts are marked from-data; fitting refuses them until they are public.",
        )
    if table is not None:
        tell("The table fits the schema.")
