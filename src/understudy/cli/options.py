"""Command-line words turned into budgets, units, methods and paths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from understudy._deprecation import deprecation
from understudy.data import Database, is_database
from understudy.errors import SchemaError, UsageError
from understudy.privacy import Budget, Unit
from understudy.privacy.invariants import Consent
from understudy.schema import Schema
from understudy.schema.files.yaml import parse_plain

if TYPE_CHECKING:
    from understudy.mechanisms import Synthesizer
    from understudy.privacy.ledger.ledger import LedgerGuarantee
    from understudy.schema.entities import Entity
    from understudy.workflow.cutting import CutLook

# ----------------------------------------------------------------------------------------
# Where the private table is, as words of the command line: a file, or a table of a database.

TableInDatabase = Annotated[
    str | None,
    typer.Option("--table", help="With a database: the table or view, with its schema if it needs one."),
]
Immutable = Annotated[
    bool,
    typer.Option(
        "--immutable",
        help="With a database: declare that nobody writes to the table meanwhile. Needed where the engine cannot hold "
        "a snapshot of it.",
    ),
]


def parse_source(given: str, table: str | None, immutable: bool) -> tuple[Path | Database, str]:
    """Return what to read, and its public name: that of the file or of the table.

    Examples
    --------
    >>> parse_source("duckdb:///data/registry.duckdb", "births", False)
    (Database(duckdb, table 'births'), 'births')
    >>> parse_source("births.csv.gz", None, False)[1]
    'births.csv.gz'
    """
    if is_database(given):
        if table is None:
            raise UsageError("A database holds many tables; name the one to read (--table).")
        source = Database(url=given, table=table, immutable=immutable)
        return source, source.label
    if table is not None or immutable:
        raise UsageError(
            "--table and --immutable go with the address of a database, and this is a file. (SQLite: sqlite://FILE, or "
            "sqlite:///FOLDER/FILE for a path from the root.)"
        )
    return Path(given), Path(given).name


# ----------------------------------------------------------------------------------------
# Summing a ledger up for programs; options about ledgers that commands share.

Against = Annotated[
    list[Path] | None,
    typer.Option(
        "--against",
        help="Something that carries an anchor of a ledger: a file of `ledger anchor`, a bundle (folder or zip), a "
        "certificate, a model. May be repeated.",
    ),
]
AnotherLedger = Annotated[
    bool,
    typer.Option(
        "--another-ledger",
        help="Consent to a further ledger for a table that has one already. What the two promise adds up.",
    ),
]


def summary(standing: LedgerGuarantee) -> dict[str, Any]:
    """Return the standing of a ledger as plain values."""
    return {
        "table": standing.table,
        "unit": standing.unit.to_dict(),
        "budget": standing.budget.to_dict(),
        "accounting": standing.accounting,
        "total": standing.total,
        "spent": dict(standing.spent),
        "remaining": standing.remaining,
        "entries": standing.entries,
        "head_hash": standing.head_hash,
        "condition": standing.condition.text,
        "invariants": [
            {"subject": fact.subject, "rule": fact.rule, "value": fact.value, "accepted_by": fact.accepted_by}
            for fact in standing.invariants
        ],
    }


SchemaPath = Annotated[Path, typer.Option("--schema", "-s", help="Schema of the table (YAML or JSON).")]
OptionalSchema = Annotated[
    Path | None, typer.Option("--schema", "-s", help="Schema of the table (YAML or JSON).")
]
DiscoverShare = Annotated[
    str | None,
    typer.Option(
        "--discover",
        metavar="SHARE",
        help="Learn what no schema declares (kinds, values, ranges) with this share of the budget, such as 0.1. Column names are public. auto:ROWS chooses the share for about so many rows, a public number or a guess.",
    ),
]
NumbersOnly = Annotated[
    bool,
    typer.Option(
        "--numbers-only",
        help="Without a delta no text can be found: agree that columns of text are left out, and that numbers, dates and truth words are all that is learnt.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        "-y",
        help="Do not ask before spending the budget. A script, without a terminal, is never asked.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more: noise, costs, digests.")]
_METHOD = typer.Option(
    "--method",
    "-m",
    help="Synthesizer; see `understudy methods`. auto chooses one from the schema, the unit and the budget.",
)
MethodName = Annotated[str, _METHOD]
OptionalMethod = Annotated[str | None, _METHOD]
Target = Annotated[
    str | None,
    typer.Option(
        "--for",
        "--target",
        metavar="COLUMN",
        help="Column that is to be predicted from the synthetic rows: a fit gives it the better marginals, an evaluation trains on it.",
    ),
]
PriorPath = Annotated[
    Path | None,
    typer.Option(
        "--prior",
        help="Public data with the same columns: a bundle, a model file or a public table. Believed pair by pair of columns, where the records are near to it.",
    ),
]
Epsilon = Annotated[float | None, typer.Option(help="Budget in pure DP or, with --delta, in approximate DP.")]
Delta = Annotated[float | None, typer.Option(help="Failure probability of an approximate guarantee.")]
Rho = Annotated[float | None, typer.Option(help="Budget in zero-concentrated DP instead of epsilon.")]
Mu = Annotated[float | None, typer.Option(help="Budget in Gaussian DP instead of epsilon.")]
_UNIT = typer.Option(
    "--unit",
    help="Who is protected: add-remove (one row more or less) or replace-one. Several rows of a person: also --id-column.",
)
UnitName = Annotated[str, _UNIT]
OptionalUnit = Annotated[str | None, _UNIT]
IdColumn = Annotated[
    str | None, typer.Option("--id-column", help="Column that names the person; protects people, not rows.")
]
_MAX_ROWS = "Rows that a person counts for, chosen at random (with --id-column)."
MaxRows = Annotated[int | None, typer.Option("--max-rows-per-person", help=_MAX_ROWS)]
MaxRowsOrAuto = Annotated[str | None, typer.Option("--max-rows-per-person", metavar="N|auto", help=_MAX_ROWS)]
RowsLost = Annotated[
    bool,
    typer.Option(
        "--rows-lost",
        help="With --flat: spend a twentieth of the budget on an estimate of the rows that the cut to --max-rows-per-person leaves out.",
    ),
]
Flat = Annotated[
    bool,
    typer.Option(
        "--flat",
        help="With --id-column: fit rows, cut to --max-rows-per-person, instead of people with their number and order of rows. "
        "--max-rows-per-person auto then spends a twentieth of the budget on how many rows people have, and chooses the number with the least error.",
    ),
]
Population = Annotated[
    bool,
    typer.Option(
        "--population",
        help="Where the schema declares survey weights: write rows that all stand for equally many people, without weights.",
    ),
]
WorkloadText = Annotated[
    str | None,
    typer.Option("--workload", help="Marginals that matter: all-3way, target:COLUMN, skewed, or a file."),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="About how long the rounds of the fit may take. Turned into a number of rounds before a record is read, by public facts: "
        "no clock stops the fit, and the whole budget is used.",
    ),
]
OptionWords = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="Option of the method as name=value; may be repeated."),
]
TableName = Annotated[
    str | None, typer.Option("--table-name", help="Name of the table in the ledger; default: the file name.")
]
Rows = Annotated[
    int | None,
    typer.Option("--rows", min=0, help="Number of synthetic rows; default: the model's estimate."),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Makes the draw of rows repeatable; privacy noise takes no seed."),
]
Unfinished = Annotated[
    Literal["refuse", "keep", "drop"],
    typer.Option(
        help="What to do about another fit on the ledger that was interrupted: refuse to begin, keep its paid answers "
        "for later, or drop them (what they cost stays spent)."
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes; -1 is one per core.")]
Backend = Annotated[
    str | None,
    typer.Option("--backend", help="What runs the processes: loky (default), threading, dask, ray or spark."),
]
Separator = Annotated[str | None, typer.Option("--separator", help="Column separator of a CSV file.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Text encoding of a CSV file.")]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Of a CSV file: whether its first line names the columns. Without names they are numbered, column_1 and so on.",
    ),
]
ColumnNames = Annotated[
    str | None,
    typer.Option(
        "--names",
        help="Of a CSV file without a header: the names of all its columns, separated by commas, or a file that holds them.",
    ),
]
SchemaOut = Annotated[Path, typer.Option("--out", help="Schema file to write (.yaml or .json).")]
AcceptFacts = Annotated[
    bool,
    typer.Option(
        "--accept-facts",
        help="As the owner of the table: agree to other facts (schema, cleaning, derived columns, reading) than its ledger was "
        "opened for. Written into the ledger.",
    ),
]
AcceptInvariant = Annotated[
    bool,
    typer.Option(
        "--accept-invariant",
        help="As the owner of the table: agree to a further exact number of rows as a public fact. Written into the ledger "
        "and named by every guarantee.",
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        help="Who agrees or decides, a public name. Default: the name of the user, except for `ledger total`, which wants it said.",
    ),
]
OutName = Annotated[
    str,
    typer.Option(
        "--out",
        metavar="<path>",
        help="Synthetic table to write (.csv, .csv.gz or .parquet); with a final slash, as in rows.parquet/, a folder "
        "of such files, for any number of rows. Linked tables: a folder (synthetic/) with a file for each, or a DuckDB file (.duckdb).",
    ),
]
ChunkRows = Annotated[
    int | None,
    typer.Option("--chunk-rows", min=1, help="Rows per part of a folder, and per process in memory."),
]
PartitionBy = Annotated[
    str | None,
    typer.Option(
        "--partition-by", help="Columns, comma-separated, whose values become folders of Parquet files."
    ),
]
HoldOutFile = Annotated[
    Path | None,
    typer.Option(
        help="Private file with the secret key that says which rows are held out; it holds no record. synth writes it, by default "
        "beside the ledger, or uses it again; evaluate divides the real table by it."
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress bar; `synth` does not say why it chose a method either."),
]
Browser = Annotated[
    bool,
    typer.Option(
        "--browser/--no-browser", help="Whether to open a browser; where to look is printed anyway."
    ),
]


def _svg(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() != ".svg":
        raise UsageError(f"--chart draws an SVG document; {str(path)!r} does not end in .svg.")
    return path


Chart = Annotated[
    Path | None, typer.Option("--chart", callback=_svg, help="Draw a picture into this file (.svg).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


# ----------------------------------------------------------------------------------------
# Options that were renamed: the old words work for two minor versions, and say on standard error what to write instead.


def formerly(**renamed: str) -> type[TyperCommand]:
    """Return the class of a command some of whose options had another name in 0.1: ``formerly(holdout="--hold-out-table")``.

    Help and reference show the new name alone.
    """

    class Command(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, [_current(word, renamed, ctx.command_path) for word in args])

    return Command


def _current(word: str, renamed: dict[str, str], command: str) -> str:
    """Return a word of the command line as it is written today."""
    option, equals, value = word.partition("=")
    use = renamed.get(option.removeprefix("--")) if option.startswith("--") else None
    if use is None:
        return word
    from understudy.cli.output import say

    say("Note: " + deprecation(f"{command} {option}", use=use, since="0.2", until="0.4"))
    return f"{use}{equals}{value}"


_OPTIONS = {
    "epsilon": "--epsilon",
    "delta": "--delta",
    "rho": "--rho",
    "mu": "--mu",
    "unit": "--unit",
    "id_column": "--id-column",
    "max_rows": "--max-rows-per-person",
}
"""What the numbers of a budget and the parts of a unit are called here, for messages."""


def parse_budget(epsilon: float | None, delta: float | None, rho: float | None, mu: float | None) -> Budget:
    """Turn the budget options into one budget."""
    return Budget.of(epsilon=epsilon, delta=delta, rho=rho, mu=mu, names=_OPTIONS, error=UsageError)


def parse_unit(name: str, id_column: str | None, max_rows: int | None) -> Unit:
    """Turn the unit options into one privacy unit."""
    return Unit.of(name, id_column=id_column, max_rows=max_rows, names=_OPTIONS, error=UsageError)


def parse_unit_with_look(
    name: str, id_column: str | None, max_rows: str | None, *, flat: bool, rows_lost: bool
) -> tuple[Unit, CutLook | None]:
    """Turn the unit options into one privacy unit, and the look at people's numbers of rows that goes before a fit."""
    from understudy.workflow.cutting import AUTO_ROWS, unit_with_look

    rows: int | str | None = max_rows
    if max_rows is not None and max_rows != AUTO_ROWS:
        try:
            rows = int(max_rows)
        except ValueError:
            raise UsageError(
                f"--max-rows-per-person ({max_rows!r}) must be a whole number, or auto."
            ) from None
    return unit_with_look(
        name,
        flat=flat,
        rows_lost=rows_lost,
        id_column=id_column,
        max_rows=rows,
        names=_OPTIONS,
        error=UsageError,
    )


def key_of(schema: Schema, max_rows: str | None) -> str | None:
    """Return the column that says whose a row is, which need not be named again for linked tables, nor where a number of rows per person is given; otherwise None."""
    entity = schema.entity
    return None if entity is None or (entity.tables is None and max_rows is None) else entity.id


def parse_consent(accept_facts: bool, accept_invariant: bool, by: str | None) -> Consent:
    """Turn the options of the owner into what the owner agrees to."""
    if by is not None and not (accept_facts or accept_invariant):
        raise UsageError("--by goes with --accept-facts or --accept-invariant.")
    return Consent(facts=accept_facts, invariant=accept_invariant, by=by or "")


def parse_options(words: list[str] | None) -> dict[str, Any]:
    """Turn ``name=value`` words into the options of a method.

    Examples
    --------
    >>> parse_options(["max-model-mb=20", "workload=[a, b]"])
    {'max_model_mb': 20, 'workload': ['a', 'b']}
    """
    options: dict[str, Any] = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"--option takes name=value; got {word!r}.")
        try:
            options[key.strip().replace("-", "_")] = parse_plain(value)
        except SchemaError as error:
            raise UsageError(f"The value of --option {key} cannot be read: {error}") from None
    return options


def parse_names(words: str | None, option: str) -> list[str] | None:
    """Turn a comma-separated list into its names; None if the option was not given.

    Examples
    --------
    >>> parse_names("age, sex", "--partition-by"), parse_names(None, "--partition-by")
    (['age', 'sex'], None)
    """
    if words is None:
        return None
    names = [word.strip() for word in words.split(",")]
    if not all(names):
        raise UsageError(f"{option} ({words!r}) must be names separated by commas.")
    return names


def columns_of(words: str | None) -> tuple[str, ...]:
    """Return the names in a comma-separated list."""
    return tuple(parse_names(words, "--partition-by") or ())


def parse_header(header: bool | None, names: str | None) -> tuple[str, ...] | None:
    """Return the names of the columns of a file without a header, empty to number them; None where its header names them.

    Examples
    --------
    >>> parse_header(None, "age, sex"), parse_header(False, None), parse_header(None, None)
    (('age', 'sex'), (), None)
    """
    if names is None:
        return () if header is False else None
    if header:
        raise UsageError("--names is for a file without a header; leave out --header.")
    words, file = names, Path(names)
    if "," not in names and file.is_file():
        try:
            words = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise UsageError(f"--names: the file {names!r} cannot be read as text.") from None
    found = [word.strip() for line in words.splitlines() for word in line.split(",") if word.strip()]
    if not found or len(set(found)) < len(found):
        raise UsageError("--names takes different names separated by commas, or a file of them.")
    return tuple(found)


def parse_share(share: str) -> float | str:
    """Return the share of discovery: a number, or the text that chooses it by the number of rows.

    Examples
    --------
    >>> parse_share("0.1"), parse_share("auto:1000")
    (0.1, 'auto:1000')
    """
    from understudy.discovery import rows_of_share

    try:
        part = float(share)
    except ValueError:
        rows_of_share(share)  # says what a share looks like
        return share
    if not 0 < part < 1:
        raise UsageError(
            f"The share of the budget for discovery ({share}) must be a number between 0 and 1, such as 0.1 for a tenth of the budget, "
            "or auto:ROWS, such as auto:1000."
        )
    return part


def parse_method(
    name: str,
    schema: Schema,
    workload: str | None,
    words: list[str] | None,
    *,
    target: str | None = None,
    unit: Unit | None = None,
    budget: Budget | None = None,
    entity: Entity | None = None,
    prior: Path | None = None,
    time_limit: float | None = None,
) -> Synthesizer:
    """Build the method with its options and, where it takes one, its workload.

    ``auto`` is chosen by the unit and the budget as well; ``entity`` says whose the rows are, for people with several.
    """
    from understudy.workflow import mechanism_for

    return mechanism_for(
        name,
        schema,
        workload=workload,
        options=parse_options(words),
        target=target,
        unit=unit,
        budget=budget,
        workload_name="--workload",
        error=UsageError,
        entity=entity,
        prior=prior,
        time_limit=time_limit,
    )
